"""Corners of a session: interruptions, races and faults that were once got wrong."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.harness.dying_store import DyingStore, dying
from tests.harness.test_harness import Effects, look, scripted, text_of_each

from loopwright import Agent, Harness, ToolContext, tool
from loopwright.errors import (
    Misuse,
    OperationOpen,
    OperationParked,
    SessionClosed,
    StoreUnavailable,
)
from loopwright.events import AgentEvent, MessageEnd, ToolExecutionEnd
from loopwright.harness import (
    CompactionRequest,
    CompactionSettings,
    CompactionVerdict,
    SummaryFailed,
    approve,
)
from loopwright.messages import AssistantMessage, TextContent, UserMessage
from loopwright.session import Commit, InboxItem, MemoryStore, Session
from loopwright.testing import Call, Reply, ScriptedModel


class GatedStore:
    """Lets a test hold, fail or watch commits."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.before: Any = None

    async def commit(self, lease: Any, commit: Commit) -> int:
        if self.before is not None:
            await self.before(commit)
        return await self._store.commit(lease, commit)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


@tool(approval=True)
async def buy(what: str, count: int = 1) -> str:
    bought.append((what, count))
    return "bought"


bought: list[tuple[str, int]] = []


async def parked_purchase(store: Any) -> None:
    agent, _ = scripted(Reply(calls=[Call("buy", {"what": "tea"}, id="c1")]), tools=[buy, look])
    async with Harness.open(store, "s", agent=agent) as harness:
        result = await harness.prompt("Go")
    assert result.stopped_by == "approval"


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"what": "tea", "count": "2"}, "bought"),
        ({"what": "tea", "surplus": 1}, "bought"),
        ({"count": 2}, "what"),
    ],
    ids=["coerced", "surplus", "refused by the tool"],
)
async def test_an_approval_with_edited_arguments_is_used_up_whatever_the_tool_says(
    arguments: dict[str, Any], told: str
) -> None:
    store = MemoryStore()
    await parked_purchase(store)
    await approve(store, "s", "c1", arguments=arguments)

    agent, _ = scripted(Reply("Done."), tools=[buy, look])
    async with Harness.open(store, "s", agent=agent) as harness:
        result = await harness.resume()
        assert harness.open_operation is None

    assert result is not None
    assert result.text == "Done."
    assert told in text_of_each(result.messages)[2]
    assert [a.status for a in await store.approvals("s")] == ["consumed"]


async def test_an_approved_call_whose_tool_is_gone_is_answered() -> None:
    store = MemoryStore()
    await parked_purchase(store)
    await approve(store, "s", "c1")
    agent, _ = scripted(Reply("Pity."), tools=[look])
    async with Harness.open(store, "s", agent=agent) as harness:
        result = await harness.resume()
        assert harness.open_operation is None
    assert result is not None
    assert "No tool is named 'buy'" in text_of_each(result.messages)[2]


async def test_what_was_approved_elsewhere_can_still_be_given_up() -> None:
    store = MemoryStore()
    await parked_purchase(store)
    bought.clear()
    agent, _ = scripted(Reply("Fine."), tools=[buy, look])
    async with Harness.open(store, "s", agent=agent) as harness:
        await approve(store, "s", "c1")
        await harness.abort()
        assert harness.open_operation is None
        assert (await harness.prompt("Else")).text == "Fine."
    assert bought == []


async def test_a_run_that_crashes_after_its_approval_is_counted() -> None:
    store = MemoryStore()
    await parked_purchase(store)
    await approve(store, "s", "c1")
    outcomes: list[str] = []
    for _ in range(9):
        agent, _ = scripted(Reply("Half", delay=10, chunk_size=1), tools=[buy, look])
        harness = await Harness.open(store, "s", agent=agent).__aenter__()
        resuming = asyncio.create_task(harness.resume())
        while harness._driver.run is None and not resuming.done():
            await asyncio.sleep(0)
        await harness.aclose()
        try:
            await resuming
            outcomes.append("went on")
        except OperationParked:
            outcomes.append("parked")
    assert outcomes[-1] == "parked"


async def test_a_prompt_cancelled_while_it_says_a_durable_message_does_not_say_it_twice() -> None:
    store: Any = GatedStore(MemoryStore())
    agent, _ = scripted(Reply("One."), Reply("Two."))
    async with Harness.open(store, "s", agent=agent) as harness:
        await harness.steer("Buy one.")
        placing, go_on = asyncio.Event(), asyncio.Event()

        async def before(commit: Commit) -> None:
            if commit.inbox:
                placing.set()
                await go_on.wait()

        store.before = before
        running = asyncio.create_task(harness.prompt("Go"))
        await placing.wait()
        running.cancel()
        await asyncio.sleep(0)
        go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await running
        await harness.prompt("Next")
        shown = text_of_each(harness.session.messages())

    assert shown.count("Buy one.") == 1
    assert not agent.has_queued_messages()


async def test_one_message_object_said_twice_is_stored_twice() -> None:
    store = MemoryStore()
    again = UserMessage("Continue.")
    agent, _ = scripted(Reply("One."), Reply("Two."))
    async with Harness.open(store, "s", agent=agent) as harness:
        agent.follow_up(again)
        await harness.prompt(again)
    shown = text_of_each((await Session.read(store, "s")).messages())
    assert shown == ["Continue.", "One.", "Continue.", "Two."]


async def test_what_could_not_be_written_is_told_as_failed() -> None:
    store: Any = GatedStore(MemoryStore())
    effects = Effects()

    async def full(commit: Commit) -> None:
        if any(row.payload.count(b'"role":"assistant"') for row in commit.entries):
            raise StoreUnavailable("the disk is full")

    store.before = full
    agent, _ = scripted(Reply("42."), tools=effects.tools(), on_error=lambda e, w: None)
    heard: list[AgentEvent] = []
    async with Harness.open(store, "s", agent=agent) as harness:
        harness.subscribe(heard.append)
        result = await harness.prompt("Go")

    ended = [e.message for e in heard if isinstance(e, MessageEnd)]
    assert isinstance(ended[-1], AssistantMessage)
    assert ended[-1].stop_reason == "error"
    assert (result.stop_reason, result.stopped_by) == ("error", "error")
    assert "disk is full" in (result.error_message or "")


async def test_a_result_that_could_not_be_written_is_told_as_failed() -> None:
    store: Any = GatedStore(MemoryStore())
    effects = Effects()

    async def full(commit: Commit) -> None:
        if commit.settled:
            raise StoreUnavailable("the disk is full")

    store.before = full
    agent, _ = scripted(
        Reply(calls=[Call("pay", {"what": "tea"})]),
        tools=effects.tools(),
        on_error=lambda e, w: None,
    )
    heard: list[bool] = []
    async with Harness.open(store, "s", agent=agent) as harness:
        harness.subscribe(
            lambda e: heard.append(e.is_error) if isinstance(e, ToolExecutionEnd) else None
        )
        await harness.prompt("Go")
    assert heard == [True]


async def test_what_is_appended_between_runs_is_shown_and_during_a_run_refused() -> None:
    store = MemoryStore()
    refused: list[bool] = []

    @tool
    async def work() -> str:
        with pytest.raises(OperationOpen):
            await harness.session.append(UserMessage("in between"))
        refused.append(True)
        return "worked"

    agent, model = scripted(Reply("One."), Reply(calls=[Call("work")]), Reply("Two."), tools=[work])
    async with Harness.open(store, "s", agent=agent) as harness:
        await harness.prompt("first")
        await harness.session.append(UserMessage("NOTE"))
        await harness.prompt("second")

    assert refused == [True]
    seen = [text_of_each(list(request.context.messages)) for request in model.requests]
    assert seen[1] == ["first", "One.", "NOTE", "second"]
    assert seen[2][: len(seen[1])] == seen[1]


async def test_a_cancel_that_is_older_than_the_run_is_not_about_it() -> None:
    store = MemoryStore()
    agent, _ = scripted(Reply("Yes."))
    async with Harness.open(store, "s", agent=agent) as harness:
        await store.enqueue("s", InboxItem(lane="main", queue="cancel"))
        assert (await harness.prompt("Go")).stop_reason == "stop"
    assert await store.inbox("s") == []


async def test_a_cancel_said_while_the_process_was_dead_is_heeded_before_anything_starts() -> None:
    store = MemoryStore()
    effects = Effects()
    replies = [Reply(calls=[Call("pay", {"what": "tea"})]), Reply("Done.")]
    agent, _ = scripted(*replies, tools=effects.tools(), on_error=lambda e, w: None)
    async with Harness.open(dying(store, 2), "s", agent=agent) as harness:
        await harness.prompt("Go")
    await store.enqueue("s", InboxItem(lane="main", queue="cancel", reason="no"))
    survivor, model = scripted(*replies, tools=effects.tools())
    async with Harness.open(store, "s", agent=survivor) as harness:
        result = await harness.resume()
    assert result is not None
    assert result.stop_reason == "aborted"
    assert (effects.ran, model.requests) == ([], [])


async def test_leaving_a_stream_early_is_known_to_whoever_takes_over() -> None:
    effects = Effects()
    replies = [Reply(calls=[Call("pay", {"what": "a"}), Call("pay", {"what": "b"})])]
    for k in (3, 4):
        store = MemoryStore()
        agent, _ = scripted(*replies, tools=[look], on_error=lambda e, w: None)
        async with (
            Harness.open(dying(store, k), "s", agent=agent) as harness,
            harness.stream("Go") as events,
        ):
            async for event in events:
                if isinstance(event, MessageEnd) and isinstance(event.message, AssistantMessage):
                    break
        survivor, model = scripted(Reply("Never."), tools=effects.tools())
        async with Harness.open(store, "s", agent=survivor) as harness:
            await harness.resume()
        assert (effects.ran, model.requests) == ([], []), k


async def test_closing_can_be_cancelled_and_happens_all_the_same() -> None:
    store = MemoryStore()
    started, release = asyncio.Event(), asyncio.Event()

    @tool
    async def stubborn() -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            await release.wait()
        return "late"

    agent, _ = scripted(Reply(calls=[Call("stubborn")]), tools=[stubborn])
    harness = await Harness.open(store, "s", agent=agent).__aenter__()
    running = asyncio.create_task(harness.prompt("Go"))
    await started.wait()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(harness.aclose(), 0.01)
    release.set()
    await harness.aclose()
    await running
    async with await Session.open(store, "s"):
        pass
    assert (await store.info("s")).locked_by is None


async def test_a_tool_may_close_its_own_harness() -> None:
    store = MemoryStore()

    @tool
    async def leave() -> str:
        await harness.aclose()
        return "left"

    agent, _ = scripted(Reply(calls=[Call("leave")]), tools=[leave])
    harness = Harness.open(store, "s", agent=agent)
    async with harness:
        result = await harness.prompt("Go")
    assert result.stop_reason == "error"
    with pytest.raises(SessionClosed):
        await harness.steer("anybody?")
    async with await Session.open(store, "s"):
        pass


async def test_a_run_that_is_closed_while_it_is_accepted_asks_nobody() -> None:
    store: Any = GatedStore(MemoryStore())
    agent, model = scripted(Reply("Never."))
    harness = await Harness.open(store, "s", agent=agent).__aenter__()
    accepting, go_on = asyncio.Event(), asyncio.Event()

    async def before(commit: Commit) -> None:
        accepting.set()
        await go_on.wait()

    store.before = before
    running = asyncio.create_task(harness.prompt("Go"))
    await accepting.wait()
    closing = asyncio.create_task(harness.aclose())
    await asyncio.sleep(0)
    go_on.set()
    await closing
    assert (await running).stop_reason == "error"
    assert model.requests == []


async def test_a_hook_that_waits_for_a_person_does_not_hold_up_an_abort() -> None:
    asked = asyncio.Event()

    async def hook(request: CompactionRequest) -> CompactionVerdict:
        asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    model = ScriptedModel([])
    agent: Agent[Any] = Agent(model.model, stream_fn=model.stream_fn)
    keep_little = CompactionSettings(reserve_tokens=500, keep_recent_tokens=200)
    async with Harness.open(
        MemoryStore(), "s", agent=agent, compaction=keep_little, before_compaction=hook
    ) as harness:
        await harness.session.append(UserMessage("history " * 300))
        await harness.session.append(AssistantMessage([TextContent("answer " * 300)]))
        compacting = asyncio.create_task(harness.compact())
        await asked.wait()
        await harness.abort()
        with pytest.raises(SummaryFailed, match="stopped"):
            await compacting
        assert harness.open_operation is None
        assert harness.session.last_operation is not None
        assert harness.session.last_operation.status == "aborted"


async def test_a_batch_that_is_finished_by_another_process_is_judged_as_a_whole() -> None:
    @tool
    async def first() -> str:
        return "go on"

    @tool(approval=True)
    async def last() -> Any:
        from loopwright import AgentToolResult

        return AgentToolResult([TextContent("the end")], terminate=True)

    store = MemoryStore()
    agent, _ = scripted(
        Reply(calls=[Call("first", id="c1"), Call("last", id="c2")]), tools=[first, last]
    )
    async with Harness.open(store, "s", agent=agent) as harness:
        await harness.prompt("Go")
    await approve(store, "s", "c2")
    survivor, model = scripted(Reply("Went on."), tools=[first, last])
    async with Harness.open(store, "s", agent=survivor) as harness:
        result = await harness.resume()
    assert result is not None
    assert result.text == "Went on."
    assert len(model.requests) == 1


async def test_max_turns_counts_the_turns_of_earlier_processes() -> None:
    store = MemoryStore()
    requests = 0
    result: Any = None
    for _ in range(4):
        agent, model = scripted(
            Reply(calls=[Call("buy", {"what": "x"})]), tools=[buy, look], max_turns=2
        )
        async with Harness.open(store, "s", agent=agent) as harness:
            if harness.open_operation is None and requests == 0:
                result = await harness.prompt("Go")
            else:
                resumed = await harness.resume()
                if resumed is None:
                    break
                result = resumed
            requests += len(model.requests)
            for approval in harness.pending_approvals:
                await harness.approve(approval.id)
    assert result.stopped_by == "max_turns"
    assert requests == 2


async def test_a_typed_answer_is_found_again_after_a_crash() -> None:
    def typed() -> tuple[Agent[Any], ScriptedModel]:
        return scripted(
            Reply(calls=[Call("final_answer", {"answer": 42})]),
            output_type=int,
            on_error=lambda e, w: None,
        )

    store = MemoryStore()
    counting: Any = DyingStore(store)
    agent, _ = typed()
    async with Harness.open(counting, "s", agent=agent) as harness:
        assert (await harness.prompt("Go")).output == 42
    for k in range(2, len(counting.commits)):
        store = MemoryStore()
        agent, _ = typed()
        async with Harness.open(dying(store, k), "s", agent=agent) as harness:
            await harness.prompt("Go")
        survivor, model = typed()
        async with Harness.open(store, "s", agent=survivor) as harness:
            result = await harness.resume()
        assert result is not None
        assert (result.output, result.stop_reason) == (42, "toolUse"), k
        assert model.requests == []


async def test_a_run_that_cannot_be_set_up_frees_the_lane() -> None:
    @tool
    async def final_answer() -> str:
        return "clash"

    store = MemoryStore()
    agent, _ = scripted(Reply("x"), tools=[final_answer], output_type=int)
    async with Harness.open(store, "s", agent=agent) as harness:
        with pytest.raises(Misuse, match="final_answer"):
            await harness.prompt("Go")
        assert harness.open_operation is None
        agent.output_type = None
        assert (await harness.prompt("Go")).text == "x"


async def test_the_same_request_after_going_elsewhere_in_the_tree_has_the_same_answer() -> None:
    store = MemoryStore()
    agent, model = scripted(Reply("The answer."))
    async with Harness.open(store, "s", agent=agent) as harness:
        first = await harness.prompt("Go", request_id="r")
        await harness.navigate(None)
        again = await harness.prompt("Go", request_id="r")
    assert again.text == first.text == "The answer."
    assert again.usage == first.usage
    assert len(model.requests) == 1


async def test_a_request_id_is_not_for_two_different_messages() -> None:
    agent, _ = scripted()
    async with Harness.open(MemoryStore(), "s", agent=agent) as harness:
        await harness.steer("A", request_id="r")
        await harness.steer("A", request_id="r")
        with pytest.raises(Misuse, match="another message"):
            await harness.steer("B", request_id="r")


async def test_a_store_that_fails_once_at_looking_or_renewing_is_asked_again() -> None:
    class Shaky(GatedStore):
        failures = 0

        async def renew(self, lease: Any, seconds: float) -> None:
            if self.failures < 2:
                self.failures += 1
                raise OSError("connection reset")
            await self._store.renew(lease, seconds)
            renewed.set()

    renewed = asyncio.Event()
    store: Any = Shaky(MemoryStore())
    async with await Session.open(store, "s", lease_seconds=0.04) as session:
        await renewed.wait()
        await session.append(UserMessage("still here"))

    assert store.failures == 2
    assert text_of_each((await Session.read(store, "s")).messages()) == ["still here"]


async def test_an_abort_from_a_tool_reaches_the_session() -> None:
    @tool
    async def stop(ctx: ToolContext) -> str:
        agent.abort("from within")
        await ctx.signal.wait()
        return "stopped"

    store = MemoryStore()
    agent, _ = scripted(Reply(calls=[Call("stop")]), tools=[stop])
    async with Harness.open(store, "s", agent=agent) as harness:
        await harness.prompt("Go")
        last = harness.session.last_operation
    assert last is not None
    assert (last.status, last.cancelled_at is not None) == ("aborted", True)


async def test_an_approval_is_used_up_before_its_call_runs() -> None:
    """A crash during the call must not leave an approval that lets it run again."""
    store = MemoryStore()
    seen: list[str] = []

    @tool(approval=True)
    async def pay() -> str:
        seen.extend(a.status for a in await store.approvals("s"))
        return "paid"

    agent, _ = scripted(Reply(calls=[Call("pay", id="c1")]), Reply("Done."), tools=[pay])
    async with Harness.open(store, "s", agent=agent) as harness:
        await harness.prompt("Go")
        await harness.approve("c1")
        await harness.resume()

    assert seen == ["consumed"]


async def test_a_message_that_comes_as_the_end_is_written_is_heard_before_it() -> None:
    store: Any = GatedStore(MemoryStore())
    agent, _ = scripted(Reply("One."), Reply("Two."))
    said = False

    async def before(commit: Commit) -> None:
        nonlocal said
        if not said and any(operation.finished_at for operation in commit.operations):
            said = True
            late = InboxItem(lane="main", queue="followUp", message=UserMessage("Late."))
            await store.enqueue("s", late)

    store.before = before
    async with Harness.open(store, "s", agent=agent) as harness:
        result = await harness.prompt("Go")

    assert text_of_each(result.messages) == ["Go", "One.", "Late.", "Two."]


@pytest.mark.parametrize("end", ["resume", "abort"])
async def test_calls_that_were_settled_on_another_branch_are_not_run_by_who_takes_up_a_new_one(
    end: str,
) -> None:
    paid: list[str] = []

    @tool
    async def pay(what: str) -> str:
        paid.append(what)
        return "paid"

    store = MemoryStore()
    agent, _ = scripted(Reply(calls=[Call("pay", {"what": "tea"})]), Reply("Done."), tools=[pay])
    async with Harness.open(store, "s", agent=agent) as harness:
        await harness.prompt("Tea")
        await harness.navigate(harness.session.entries()[1].id)  # the reply, without its result
        closing = asyncio.create_task(harness.prompt("No, wait"))
        while harness.open_operation is None:
            await asyncio.sleep(0)
        await harness.aclose()
        await asyncio.wait({closing})

    agent, model = scripted(Reply("I wait."), tools=[pay])
    async with Harness.open(store, "s", agent=agent) as harness:
        assert harness.open_operation is not None
        if end == "abort":
            await harness.abort()
        else:
            await harness.resume()

        assert harness.open_operation is None
    assert paid == ["tea"]
    assert len(model.requests) == (end == "resume")
