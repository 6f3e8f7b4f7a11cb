"""What a turn costs does not depend on how much waits, or on how long the session is.

Rows are counted, never seconds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.harness.branches import Branch, histories, says, user

from loopwright import Agent, Harness, tool
from loopwright.harness import token_estimate
from loopwright.harness.approvals import approve, pending_approvals
from loopwright.harness.compaction import CompactionSettings, plan_by_count, plan_compaction
from loopwright.harness.inbox import SessionInbox
from loopwright.harness.token_estimate import ContextTally, context_tokens, estimate_message
from loopwright.messages import AgentMessage, UserMessage
from loopwright.session import InboxItem, JsonlStore, MemoryStore, Session, SqliteStore
from loopwright.session.entries import CompactionEntry, Entry, MessageEntry
from loopwright.session.tree import adds_to_context, context_of
from loopwright.testing import Call, Reply, ScriptedModel


class CountingStore:
    """Wraps *store* and counts the rows that reading methods give."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.rows: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)
        if name not in ("inbox", "entries", "usage", "operations", "approvals", "state"):
            return method

        async def counted(*arguments: Any, **options: Any) -> Any:
            found = await method(*arguments, **options)
            self.rows[name] += len(found) if isinstance(found, list) else 1
            return found

        return counted


@asynccontextmanager
async def opened(kind: str, folder: Path) -> AsyncGenerator[Any]:
    if kind == "memory":
        store: Any = MemoryStore()
    elif kind == "sqlite":
        store = await SqliteStore.open(folder / "sessions.db")
    else:
        store = await JsonlStore.open(folder / "sessions")
    async with store:
        yield CountingStore(store)


def chatty(replies: int, **options: Any) -> tuple[Agent[Any], ScriptedModel]:
    model = ScriptedModel([Reply("Yes.") for _ in range(replies)])
    return Agent(model.model, stream_fn=model.stream_fn, **options), model


def text_of(messages: list[AgentMessage]) -> list[str]:
    return [getattr(message, "text", "") for message in messages]


def heard(model: ScriptedModel) -> list[str]:
    """All that was said to the model, in order."""
    messages = model.requests[-1].context.messages
    return [message.text for message in messages if isinstance(message, UserMessage)]


# -- many messages wait ----------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["memory", "sqlite", "jsonl"])
@pytest.mark.parametrize("queue", ["steer", "interrupt", "follow_up"])
async def test_a_turn_reads_a_few_rows_of_the_inbox_however_many_wait(
    kind: str, queue: str, tmp_path: Path
) -> None:
    count = 120
    agent, model = chatty(count + 1)
    async with (
        opened(kind, tmp_path) as store,
        Harness.open(store, "s", agent=agent) as harness,
    ):
        for n in range(count):
            if queue == "follow_up":
                await harness.follow_up(f"{n}")
            else:
                await harness.steer(f"{n}", "interrupt" if queue == "interrupt" else "after_batch")

        await harness.prompt("Go")

        assert heard(model) == ["Go", *(f"{n}" for n in range(count))]
        assert harness.queued() == []
        # All once, then twice a turn the first one; and all again while only a few are left.
        assert store.rows["inbox"] <= count + 4 * count + 2 * 16 * 16


async def test_one_that_was_taken_back_elsewhere_is_not_heard_and_costs_no_request() -> None:
    store = MemoryStore()
    agent, model = chatty(40)
    async with Harness.open(store, "s", agent=agent) as harness:
        items = [await harness.follow_up(f"{n}") for n in range(60)]
        gone = {0, 7, 30, *range(35, 58), 59}

        async def withdraw(event: Any, signal: Any) -> None:
            if event.type == "message_end" and len(model.requests) == 1:
                for n in gone:
                    await store.withdraw("s", items[n].id)

        harness.subscribe(withdraw)
        await harness.prompt("Go")

    left = [f"{n}" for n in range(60) if n not in gone]
    assert heard(model) == ["Go", *left]
    assert len(model.requests) == 1 + len(left)


async def test_when_all_that_waits_is_taken_back_elsewhere_the_run_ends() -> None:
    store = MemoryStore()
    agent, model = chatty(3)
    async with Harness.open(store, "s", agent=agent) as harness:
        for n in range(50):
            await harness.follow_up(f"{n}")

        async def withdraw_all(event: Any, signal: Any) -> None:
            if event.type == "message_end" and event.message.role == "assistant":
                for item in await store.inbox("s"):
                    await store.withdraw("s", item.id)

        harness.subscribe(withdraw_all)
        result = await harness.prompt("Go")

        assert len(model.requests) == 1
        assert result.undelivered == ()
        assert harness.queued() == []


async def test_what_others_say_while_many_wait_is_heard_in_its_order_urgent_ones_first() -> None:
    store = MemoryStore()
    agent, model = chatty(60)
    async with Harness.open(store, "s", agent=agent) as harness:
        for n in range(40):
            await harness.steer(f"{n}")

        async def others(event: Any, signal: Any) -> None:
            if event.type == "turn_start" and len(model.requests) == 2:
                for name, urgent in [("theirs", False), ("hurry", True)]:
                    item = InboxItem(
                        lane="main", queue="steer", message=UserMessage(name), urgent=urgent
                    )
                    await store.enqueue("s", item)
                await harness.steer("ours")

        harness.subscribe(others)
        await harness.prompt("Go")

    said = heard(model)
    assert len(set(said)) == len(said) == 44
    assert said[-2:] == ["theirs", "ours"]
    assert said.index("hurry") <= 4


async def test_what_was_taken_and_not_said_is_heard_by_the_next_run() -> None:
    store = MemoryStore()
    agent, model = chatty(60)
    async with Harness.open(store, "s", agent=agent) as harness:
        for n in range(30):
            await harness.follow_up(f"{n}")

        async def stop(event: Any, signal: Any) -> None:
            if event.type == "turn_start" and len(model.requests) == 3:
                await harness.abort("enough")

        unsubscribe = harness.subscribe(stop)
        await harness.prompt("Go")
        waiting = text_of([item.message for item in harness.queued() if item.message])
        unsubscribe()
        await harness.prompt("On")

    said = heard(model)
    assert waiting == [f"{n}" for n in range(30)][-len(waiting) :]
    assert [text for text in said if text not in ("Go", "On")] == [f"{n}" for n in range(30)]


@pytest.mark.parametrize("count", [3, 40])
async def test_what_was_in_hand_when_a_run_broke_off_waits_for_the_next_run(count: int) -> None:
    store = MemoryStore()
    agent, _ = chatty(1)
    session = await Session.open(store, "s")
    for n in range(count):
        item = InboxItem(lane="main", queue="steer", message=UserMessage(f"{n}"))
        await store.enqueue("s", item)
    inbox = SessionInbox(session, agent._own_inbox(), lambda queue: "one-at-a-time")

    first = await inbox.poll("steering")
    second = await inbox.poll("steering")
    inbox.begin_run()
    again = await inbox.poll("steering")

    assert [text_of(said) for said in (first, second, again)] == [["0"], ["1"], ["0"]]
    assert len(inbox.waiting) == count - 1
    await session.aclose()


# -- a long session --------------------------------------------------------------------------


async def test_a_turn_reads_nothing_that_grows_with_the_session() -> None:
    store: Any = CountingStore(MemoryStore())
    agent, _ = chatty(200)

    async with Harness.open(store, "s", agent=agent) as harness:
        for n in range(20):
            await harness.prompt(f"{n}")
        before = store.rows.copy()
        for n in range(20, 200):
            await harness.prompt(f"{n}")
        store.rows.subtract(before)

    assert +store.rows == Counter()


async def test_of_runs_that_ended_a_session_keeps_the_last() -> None:
    agent, _ = chatty(3)

    async with Harness.open(MemoryStore(), "s", agent=agent) as harness:
        known = []
        for n in range(3):
            await harness.prompt(f"{n}")
            last = harness.session.last_operation
            assert last is not None
            known.append(last.id)

        assert len(set(known)) == 3
        assert [harness.session.operation_of(i) is not None for i in known] == [False, False, True]


async def test_to_approve_a_call_and_go_on_nothing_older_is_read() -> None:
    @tool(approval=True)
    async def pay(what: str) -> str:
        return f"paid {what}"

    store: Any = CountingStore(MemoryStore())
    replies = [Reply(calls=[Call("pay", {"what": f"{n}"}, id=f"c{n}")]) for n in range(4)]
    model = ScriptedModel([*replies, Reply("Done.")])
    agent: Agent[Any] = Agent(model.model, stream_fn=model.stream_fn, tools=[pay])

    async with Harness.open(store, "s", agent=agent) as harness:
        await harness.prompt("Pay")
        for n in range(4):
            assert [a.tool_call_id for a in await pending_approvals(store, "s")] == [f"c{n}"]
            await approve(store, "s", f"c{n}")
            result = await harness.resume()
            assert result is not None
            assert len(result.messages) == 2 * n + 4
            assert result.usage == harness.session.usage

        assert harness.open_operation is None
    assert [store.rows[name] for name in ("approvals", "usage", "operations", "entries")] == [0] * 4


# -- how large the context is ----------------------------------------------------------------


def test_a_growing_branch_is_estimated_once_where_no_vendor_counts(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    estimated = Counter[int]()

    def counted(message: Any) -> int:
        estimated[id(message)] += 1
        return estimate_message(message)

    monkeypatch.setattr(token_estimate, "estimate_message", counted)
    branch, tally = Branch(), ContextTally()

    for n in range(50):
        branch.add(user(f"{n}"), says("Yes."))
        tally.tokens(branch.entries, fixed=1, model=("acme", "large"))

    assert len(estimated) == 100
    assert set(estimated.values()) == {1}


def by_the_book(entries: list[Entry], fixed: int, model: tuple[str, str] | None) -> int:
    """`context_tokens` as its docstring has it, all anew."""
    newer = 0
    for entry in reversed(entries):
        if isinstance(entry, CompactionEntry):
            return fixed + sum(map(estimate_message, context_of(entries)))
        if isinstance(entry, MessageEntry):
            counted = token_estimate.used_tokens(entry.message, model)
            if counted is not None:
                return counted + newer
        shown = adds_to_context(entry)
        newer += 0 if shown is None else estimate_message(shown)
    return fixed + newer


@given(st.data())
def test_a_tally_says_of_every_branch_it_is_shown_what_counting_anew_says(
    data: st.DataObject,
) -> None:
    branch, tally = Branch(), ContextTally()
    models = [None, ("acme", "large"), ("acme", "small")]

    for part in range(data.draw(st.integers(1, 5))):
        kind = data.draw(
            st.sampled_from(["said", "said", "counted", "compacted", "cut", "another"])
        )
        if kind == "said":
            branch.add(*data.draw(histories(first=part * 1_000)))
        elif kind == "counted":
            branch.add(says("n", used=1_000 + part, model=data.draw(st.sampled_from("ab")) or ""))
            branch.add(says("n", used=2_000 + part))
        elif kind == "compacted":
            plan = plan_by_count(branch.entries, 2) or plan_compaction(
                branch.entries, CompactionSettings()
            )
            if plan is not None:
                branch.compact(plan)
        elif kind == "cut" and not any(isinstance(e, CompactionEntry) for e in branch.entries):
            del branch.entries[len(branch.entries) // 2 :]
        elif kind == "another":
            count = len(branch.entries) + data.draw(st.integers(0, 2))
            branch = Branch().add(*(user(f"{part} {n}" * 9) for n in range(count)))
        model = data.draw(st.sampled_from(models))

        told = tally.tokens(branch.entries, fixed=7, model=model)

        assert told == by_the_book(branch.entries, 7, model)
        assert told == context_tokens(branch.entries, fixed=7, model=model)
