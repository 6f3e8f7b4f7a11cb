"""What an unfinished run wants next, for every place where it may have been left."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.harness.dying_store import DyingStore

from loopwright import Agent, Harness, tool
from loopwright.harness.resume import ResumePlan, plan_resume
from loopwright.messages import (
    AgentMessage,
    AssistantMessage,
    StopReason,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from loopwright.session import (
    Commit,
    CompactionEntry,
    CustomEntry,
    Entry,
    MemoryStore,
    MessageEntry,
    Session,
)
from loopwright.testing import Call, Reply, ScriptedModel


def said(text: str = "Go") -> UserMessage:
    return UserMessage(text)


def reply(*calls: str, stop_reason: StopReason | None = None) -> AssistantMessage:
    """A reply that asks for *calls*, named by their ids."""
    content = [TextContent("…"), *(ToolCall(name, "t", {}) for name in calls)]
    return AssistantMessage(content, stop_reason=stop_reason or ("toolUse" if calls else "stop"))


def result(call: str) -> ToolResultMessage:
    return ToolResultMessage(call, "t", [TextContent(f"{call} done")])


def branch(messages: Iterable[AgentMessage | MessageEntry]) -> list[Entry]:
    """The messages as entries, each behind the one before it."""
    entries: list[Entry] = []
    for place, message in enumerate(messages):
        given_id = {"id": str(place), "parent_id": str(place - 1) if place else None}
        if isinstance(message, MessageEntry):
            entries.append(MessageEntry(message=message.message, terminate=True, **given_id))
        else:
            entries.append(MessageEntry(message=message, **given_id))
    return entries


def ending(call: str) -> MessageEntry:
    """A result of a tool that asks for the end."""
    return MessageEntry(parent_id=None, message=result(call), terminate=True)


Answer = tuple[str, list[str]]


def answer(plan: ResumePlan) -> Answer:
    return plan.next, [call.id for call in plan.calls]


ASK: Answer = ("ask", [])
END: Answer = ("end", [])


def calls(*names: str) -> Answer:
    return "calls", [*names]


# Each line is one more entry, and what is to be done when the branch ends with it.
TWO_TURNS: list[tuple[AgentMessage, Answer]] = [
    (said(), ASK),
    (reply("a", "b"), calls("a", "b")),
    (result("a"), calls("b")),  # the leaf is a result; looking at it alone would ask the model
    (result("b"), ASK),
    (reply("c", "d", "e"), calls("c", "d", "e")),
    (result("c"), calls("d", "e")),
    (result("d"), calls("e")),
    (result("e"), ASK),
    (reply(), END),
]

SAME_IDS: list[tuple[AgentMessage, Answer]] = [
    (said(), ASK),
    (reply("a", "a", "b"), calls("a", "a", "b")),
    (result("a"), calls("a", "b")),
    (result("a"), calls("b")),
    (result("b"), ASK),
    (reply("a", "b"), calls("a", "b")),  # results of an earlier turn answer nothing here
    (result("a"), calls("b")),
    (result("b"), ASK),
    (reply(), END),
]

STEERED: list[tuple[AgentMessage, Answer]] = [
    (said(), ASK),
    (reply("a"), calls("a")),
    (result("a"), ASK),
    (said("Faster!"), ASK),
    (reply(), END),
    (said("And then?"), ASK),
    (said("And?"), ASK),
    (reply("b", "c"), calls("b", "c")),
    (result("b"), calls("c")),
]


@pytest.mark.parametrize("transcript", [TWO_TURNS, SAME_IDS, STEERED], ids=["two", "ids", "said"])
def test_every_prefix_of_a_transcript_is_gone_on_with_where_it_ends(
    transcript: list[tuple[AgentMessage, Answer]],
) -> None:
    found = [
        answer(plan_resume(branch(message for message, _ in transcript[: length + 1])))
        for length in range(len(transcript))
    ]

    assert found == [wanted for _, wanted in transcript]


def test_nothing_said_wants_nothing() -> None:
    assert answer(plan_resume([])) == END


@pytest.mark.parametrize("order", list(itertools.permutations("abc")))
def test_results_in_any_order_leave_those_that_are_missing_in_the_order_asked(
    order: tuple[str, ...],
) -> None:
    for length in range(4):
        done = order[:length]
        plan = plan_resume(branch([said(), reply("a", "b", "c"), *map(result, done)]))

        left = [name for name in "abc" if name not in done]
        assert answer(plan) == (calls(*left) if left else ASK)
        assert [r.tool_call_id for r in plan.results] == list(done)


@pytest.mark.parametrize("stop_reason", ["error", "aborted"])
def test_a_reply_that_failed_ends_the_run_and_its_calls_are_never_run(
    stop_reason: StopReason,
) -> None:
    before = [said(), reply("a"), result("a")]
    failed = reply("b", "c", stop_reason=stop_reason)

    plan = plan_resume(branch([*before, failed]))
    assert (answer(plan), plan.failed) == (END, True)

    plan = plan_resume(branch([*before, failed, said("Again")]))
    assert (answer(plan), plan.failed) == (ASK, False)


@pytest.mark.parametrize("names", [["a"], ["a", "b"]])
def test_the_calls_of_a_reply_that_was_cut_are_answered_as_well(names: list[str]) -> None:
    """Not run: the batch sees the stop reason and refuses them; but each is owed a result."""
    cut = reply(*names, stop_reason="length")

    assert answer(plan_resume(branch([said(), cut]))) == calls(*names)
    assert answer(plan_resume(branch([said(), cut, *map(result, names)]))) == ASK
    assert answer(plan_resume(branch([said(), reply(stop_reason="length")]))) == END


def test_a_batch_that_asked_for_the_end_ends_the_run_if_all_of_it_did() -> None:
    start = [said(), reply("a", "b")]

    assert answer(plan_resume(branch([*start, ending("a")]))) == calls("b")
    assert answer(plan_resume(branch([*start, ending("a"), ending("b")]))) == END
    assert answer(plan_resume(branch([*start, ending("a"), result("b")]))) == ASK
    assert answer(plan_resume(branch([*start, result("a"), ending("b")]))) == ASK
    assert answer(plan_resume(branch([*start, ending("a"), ending("b"), said("No")]))) == ASK


def test_what_was_said_last_is_told_from_what_was_answered() -> None:
    start = [said(), reply("a")]

    assert plan_resume(branch([said()])).input_is_last
    assert not plan_resume(branch(start)).input_is_last
    assert not plan_resume(branch([*start, result("a")])).input_is_last
    assert plan_resume(branch([*start, result("a"), said("Faster!")])).input_is_last


def test_entries_that_no_model_hears_of_change_nothing() -> None:
    for length in range(1, len(TWO_TURNS) + 1):
        entries = branch(message for message, _ in TWO_TURNS[:length])
        note = CustomEntry(parent_id=entries[-1].id, custom_type="note")

        assert answer(plan_resume([*entries, note])) == TWO_TURNS[length - 1][1]


def test_behind_a_compaction_the_model_is_asked_since_it_was_made_for_that() -> None:
    for end in [[said()], [said(), reply("a"), result("a")], [said(), reply(stop_reason="error")]]:
        entries = branch(end)
        summary = CompactionEntry(parent_id=entries[-1].id, summary="So far", first_kept_id="0")

        assert answer(plan_resume([*entries, summary])) == ASK
        assert answer(plan_resume([*entries, summary, *branch([reply("x")])])) == calls("x")


@pytest.mark.parametrize("length", range(1, len(TWO_TURNS) + 1))
async def test_the_leaf_of_the_branch_counts_not_the_newest_row_of_the_session(length: int) -> None:
    store = MemoryStore()
    entries = branch(message for message, _ in TWO_TURNS[:length])
    async with await Session.open(store, "s") as session:
        await session.commit(Commit(lanes=[session.lane_at(entries[-1].id)]), entries)
        await session.add_lane("other")
    async with await Session.open(store, "s", lane="other") as other:
        await other.append(said("Elsewhere"))
        await other.append(reply("x", "y"))
        await other.append(result("x"))

    here = await Session.read(store, "s")
    there = await Session.read(store, "s", lane="other")

    assert answer(plan_resume(here.entries())) == TWO_TURNS[length - 1][1]
    assert answer(plan_resume(there.entries())) == calls("y")


async def test_a_result_behind_a_call_that_was_lost_is_placed_and_its_tool_not_run_again() -> None:
    store, done = MemoryStore(), asyncio.Event()
    ran: list[str] = []

    @tool
    async def pay(what: str) -> str:
        ran.append(what)
        if what == "slow":
            done.set()
            await asyncio.Event().wait()
        return f"paid {what}"

    asked = Reply(
        calls=[Call("pay", {"what": "slow"}, id="a"), Call("pay", {"what": "quick"}, id="b")]
    )
    first = ScriptedModel([asked])
    agent = Agent(first.model, stream_fn=first.stream_fn, tools=[pay])
    harness = await Harness.open(DyingStore(store, 4), "s", agent=agent).__aenter__()  # type: ignore[arg-type]
    await harness.prompt("Go")  # the fourth commit has the outcome of the quick one
    await harness.aclose()

    second = ScriptedModel([Reply("Done.")])
    survivor = Agent(second.model, stream_fn=second.stream_fn, tools=[pay])
    async with Harness.open(store, "s", agent=survivor) as harness:
        resumed = await harness.resume()
        assert harness.session.intents == {}

    assert done.is_set()
    assert ran == ["slow", "quick"]
    assert resumed is not None
    results = [m.text for m in resumed.messages if isinstance(m, ToolResultMessage)]
    assert "interrupted" in results[0]
    assert results[1:] == ["paid quick"]


# -- any transcript --------------------------------------------------------------------------


@st.composite
def transcripts(draw: st.DrawFn) -> list[AgentMessage | MessageEntry]:
    """What a run, or several, may have left: turns that are whole, and a last one cut anywhere."""
    made: list[AgentMessage | MessageEntry] = []
    for _ in range(draw(st.integers(0, 3))):
        made += draw(st.lists(st.builds(said), max_size=2))
        names = draw(st.lists(st.sampled_from("abc"), max_size=4))
        reason: StopReason = draw(st.sampled_from(["toolUse", "toolUse", "length", "error"]))
        made.append(reply(*names, stop_reason=reason if names or reason == "error" else "stop"))
        if reason != "error":
            answered: Sequence[str] = draw(st.permutations(names))
            how = st.sampled_from([result, ending])
            made += [draw(how)(name) for name in answered]
    return made[: draw(st.integers(0, len(made)))]


@given(transcripts())
def test_going_on_answers_each_call_once_and_comes_to_an_end(
    transcript: list[AgentMessage | MessageEntry],
) -> None:
    plan = plan_resume(branch(transcript))

    messages = [m.message if isinstance(m, MessageEntry) else m for m in transcript]
    places = [i for i, m in enumerate(messages) if isinstance(m, AssistantMessage)]
    if not places:
        assert answer(plan) == (ASK if messages else END)
        return
    last = messages[places[-1]]
    behind = messages[places[-1] + 1 :]
    assert isinstance(last, AssistantMessage)
    answered = sorted(m.tool_call_id for m in behind if isinstance(m, ToolResultMessage))
    owed = sorted(call.id for call in last.tool_calls)
    if last.stop_reason == "error":
        assert plan.calls == []
        assert plan.failed == (not behind)
    else:
        assert sorted([*answered, *(call.id for call in plan.calls)]) == owed
        assert (plan.next == "calls") == (answered != owed)
    assert [call for call in last.tool_calls if any(call is c for c in plan.calls)] == plan.calls
    if plan.next == "calls":  # they are answered, and then none is missing
        after = plan_resume(branch([*transcript, *(result(call.id) for call in plan.calls)]))
        assert answer(after) == ASK
    if plan.next == "ask":
        assert answer(plan_resume(branch([*transcript, reply()]))) == END
