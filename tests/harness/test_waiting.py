"""The order in which queued messages are heard, and that taking one never depends on the rest."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from loopwright.harness.waiting import Waiting
from loopwright.messages import UserMessage
from loopwright.session.rows import InboxItem, InboxQueue


def item(name: str, queue: InboxQueue = "steer", *, urgent: bool = False) -> InboxItem:
    return InboxItem(id=name, lane="main", queue=queue, message=UserMessage(name), urgent=urgent)


def ids(items: list[InboxItem]) -> list[str]:
    return [item.id for item in items]


def test_urgent_ones_are_taken_first_and_each_kind_in_order_of_arrival() -> None:
    waiting = Waiting()
    for name, urgent in [("a", False), ("b", True), ("c", False), ("d", True)]:
        waiting.put(item(name, urgent=urgent))
    waiting.put(item("f", "followUp"))

    first = waiting.take("steer", 1)
    rest = waiting.take("steer", None)

    assert ids(first) == ["b"]
    assert ids(rest) == ["d", "a", "c"]
    assert ids(list(waiting)) == ["f"]
    assert not waiting.urgent


def test_what_is_put_back_is_the_first_again() -> None:
    waiting = Waiting()
    for name in "abc":
        waiting.put(item(name))
    taken = waiting.take("steer", 2)

    for one in reversed(taken):
        waiting.put_back(one)

    assert ids(list(waiting)) == ["a", "b", "c"]
    assert waiting.first(2) == ["a", "b"]


def test_what_is_put_again_stands_behind_what_came_before_it() -> None:
    waiting = Waiting()
    for name in ("ours", "theirs", "ours"):
        waiting.put(item(name))

    assert ids(list(waiting)) == ["theirs", "ours"]
    assert len(waiting) == 2


QUEUES: list[InboxQueue] = ["steer", "followUp"]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["put", "take", "remove", "put back"]),
        st.integers(0, 9),
        st.sampled_from(QUEUES),
        st.booleans(),
    )
)


@given(STEPS)
def test_it_is_a_list_that_is_searched(steps: list[tuple[str, int, InboxQueue, bool]]) -> None:
    waiting, plain = Waiting(), list[InboxItem]()
    out: list[InboxItem] = []
    known: dict[str, InboxItem] = {}

    for step, number, queue, urgent in steps:
        name = f"{number}"
        if step == "put":
            one = known.setdefault(name, item(name, queue, urgent=urgent))
            plain = [*(other for other in plain if other.id != name), one]
            waiting.put(one)
        elif step == "remove":
            plain = [other for other in plain if other.id != name]
            waiting.remove(name)
        elif step == "take":
            count = None if urgent else number
            line = sorted((one for one in plain if one.queue == queue), key=lambda i: not i.urgent)
            expected = line[:count]
            plain = [one for one in plain if one not in expected]
            taken = waiting.take(queue, count)
            assert taken == expected
            out = taken or out
        elif out and out[-1].id not in waiting:
            plain.insert(0, out[-1])
            waiting.put_back(out[-1])

    assert sorted(ids(list(waiting))) == sorted(ids(plain))
    assert ids(list(waiting)) == ids(plain)
    assert waiting.urgent == any(one.urgent for one in plain)
    assert all((one.id in waiting) for one in plain)
