"""An agent with a session: what is written when, and what another process finds."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.harness.dying_store import DyingStore, dying

from loopwright import Agent, BeforeToolCallResult, Harness, ToolContext, tool
from loopwright.errors import (
    AgentBusy,
    ApprovalRefused,
    Misuse,
    OperationOpen,
    OperationParked,
    SessionClosed,
    SessionLocked,
    StoreUnavailable,
)
from loopwright.events import AgentEvent, MessageEnd, ToolExecutionEnd
from loopwright.harness.approvals import approve
from loopwright.messages import AgentMessage, AssistantMessage, ToolResultMessage, UserMessage
from loopwright.session import InboxItem, MemoryStore, Session
from loopwright.testing import Call, Reply, ScriptedModel


def text_of_each(messages: list[AgentMessage]) -> list[str]:
    return [getattr(message, "text", "") for message in messages]


@tool(replay="safe")
async def look(where: str) -> str:
    return f"seen {where}"


class Effects:
    """Tools that cannot be repeated, and count how often they ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def tools(self) -> list[Any]:
        @tool
        async def pay(what: str) -> str:
            self.ran.append(what)
            return f"paid {what}"

        return [pay, look]


def scripted(*replies: Any, tools: Any = (), **options: Any) -> tuple[Agent[Any], ScriptedModel]:
    model = ScriptedModel(list(replies))
    agent: Agent[Any] = Agent(model.model, stream_fn=model.stream_fn, tools=tools, **options)
    return agent, model


async def test_a_conversation_is_found_again_by_the_next_process() -> None:
    store = MemoryStore()
    first, _ = scripted(Reply("Hello."))
    async with Harness.open(store, "s", agent=first) as harness:
        await harness.prompt("Hi")

    second, model = scripted(Reply("I do."))
    async with Harness.open(store, "s", agent=second) as harness:
        result = await harness.prompt("Remember?")
        shown = harness.session.messages()

    assert result.text == "I do."
    assert text_of_each(shown) == ["Hi", "Hello.", "Remember?", "I do."]
    assert text_of_each(list(model.requests[0].context.messages)) == ["Hi", "Hello.", "Remember?"]


async def test_what_a_listener_hears_of_as_finished_has_been_written_before() -> None:
    store = MemoryStore()
    effects = Effects()
    agent, _ = scripted(
        Reply(calls=[Call("pay", {"what": "tea"}), Call("look", {"where": "here"})]),
        Reply("Done."),
        tools=effects.tools(),
    )
    missing: list[AgentEvent] = []

    async with Harness.open(store, "s", agent=agent) as harness:

        async def listener(event: AgentEvent) -> None:
            state = await store.state("s")
            stored = [row.entry() for row in await store.entries("s")]
            messages = [getattr(entry, "message", None) for entry in stored]
            if isinstance(event, MessageEnd) and event.message not in messages:
                missing.append(event)
            if isinstance(event, ToolExecutionEnd):
                kept = [i.result for i in state.intents if i.result is not None]
                known = [m for m in [*messages, *kept] if isinstance(m, ToolResultMessage)]
                if event.tool_call_id not in [m.tool_call_id for m in known]:
                    missing.append(event)

        harness.subscribe(listener)
        await harness.prompt("Go")

    assert missing == []


async def test_an_effect_is_announced_in_the_session_before_it_happens() -> None:
    store = MemoryStore()
    seen: list[str] = []

    @tool
    async def pay(what: str) -> str:
        intents = (await store.state("s")).intents
        seen.extend(f"{i.tool_name} {i.arguments}" for i in intents)
        return "paid"

    agent, _ = scripted(Reply(calls=[Call("pay", {"what": "tea"})]), Reply("Done."), tools=[pay])
    async with Harness.open(store, "s", agent=agent) as harness:
        await harness.prompt("Go")

    assert seen == ["pay {'what': 'tea'}"]
    assert (await store.state("s")).intents == []


def by_position(replies: list[Reply]) -> list[Any]:
    """A script that goes by what the transcript holds, so that any process can go on with it."""

    def next_reply(context: Any) -> Reply:
        return replies[sum(isinstance(m, AssistantMessage) for m in context.messages)]

    return [next_reply] * 50


def a_long_run(effects: Effects) -> tuple[Agent[Any], ScriptedModel]:
    return scripted(
        *by_position([
            Reply("Looking.", calls=[Call("look", {"where": "a"}, id="a1"),
                                     Call("pay", {"what": "1"}, id="a2")]),
            Reply(calls=[Call("pay", {"what": "2"}, id="b1"), Call("pay", {"what": "3"}, id="b1"),
                         Call("look", {"where": "b"}, id="b3")]),
            Reply(calls=[Call("nothing", {}, id="c1"), Call("pay", {"wrong": 1}, id="c2")]),
            Reply("Done."),
        ]),
        tools=effects.tools(),
    )  # fmt: skip


async def test_killed_after_any_commit_a_run_is_gone_on_with_and_nothing_is_done_twice() -> None:
    whole = MemoryStore()
    counting: Any = DyingStore(whole)
    effects = Effects()
    agent, _ = a_long_run(effects)
    async with Harness.open(counting, "s", agent=agent) as harness:
        await harness.prompt("Go")
    expected = [shape(m) for m in (await Session.read(whole, "s")).messages()]
    assert effects.ran == ["1", "2", "3"]
    assert len(counting.commits) > 10

    for k in range(1, len(counting.commits)):
        store = MemoryStore()
        effects = Effects()
        agent, _ = a_long_run(effects)
        async with Harness.open(dying(store, k), "s", agent=agent) as harness:
            if k == 1:  # the commit that accepts the prompt: nobody was told that it was
                with pytest.raises(StoreUnavailable):
                    await harness.prompt("Go")
            else:
                assert (await harness.prompt("Go")).stop_reason == "error", k

        survivor, _ = a_long_run(effects)
        async with Harness.open(store, "s", agent=survivor) as harness:
            result = await harness.resume()
            got = [shape(m) for m in harness.session.messages()]
            assert harness.open_operation is None, k
            assert harness.session.intents == {}, k

        assert result is not None, k
        assert result.text == "Done.", k
        assert len(effects.ran) == len(set(effects.ran)), k
        lost = [i for i, it in enumerate(got) if it[0] == "toolResult" and "interrupted" in it[1]]
        assert [it for i, it in enumerate(got) if i not in lost] == [
            it for i, it in enumerate(expected) if i not in lost
        ], k


def shape(message: AgentMessage) -> tuple[str, str, bool]:
    """A message without its times."""
    error = isinstance(message, ToolResultMessage) and message.is_error
    return (message.role, getattr(message, "text", ""), error)


# -- saying something ------------------------------------------------------------------------


async def test_steering_is_written_when_it_is_said_and_heard_once() -> None:
    store = MemoryStore()

    @tool
    async def work(harness_id: str) -> str:
        await harness.steer("Faster!", request_id="r1")
        await harness.steer("Faster!", request_id="r1")
        return "worked"

    agent, model = scripted(
        Reply(calls=[Call("work", {"harness_id": "x"})]), Reply("Yes."), tools=[work]
    )
    async with Harness.open(store, "s", agent=agent) as harness:
        await harness.prompt("Go")
        shown = text_of_each(harness.session.messages())

    assert shown == ["Go", "", "worked", "Faster!", "Yes."]
    assert await store.inbox("s") == []
    assert len(model.requests) == 2


async def test_a_message_for_the_next_run_waits_for_the_next_prompt() -> None:
    store = MemoryStore()
    agent, model = scripted(Reply("One."), Reply("Two."))
    async with Harness.open(store, "s", agent=agent) as harness:
        await harness.next_run("By the way.")
        await harness.prompt("First")
        await harness.prompt("Second")

    first = text_of_each(list(model.requests[0].context.messages))
    assert first == ["By the way.", "First"]
    assert text_of_each(list(model.requests[1].context.messages))[2:] == ["One.", "Second"]


async def test_a_follow_up_said_by_another_process_is_heard_before_the_run_ends() -> None:
    store = MemoryStore()

    async def second(context: Any) -> Reply:
        other = Harness.open(store, "s", agent=scripted()[0])
        with pytest.raises(SessionLocked):
            async with other:
                pass
        await store.enqueue(
            "s", InboxItem(lane="main", queue="followUp", message=UserMessage("And then?"))
        )
        return Reply("One.")

    agent, model = scripted(second, Reply("Two."))
    async with Harness.open(store, "s", agent=agent) as harness:
        result = await harness.prompt("Go")

    assert text_of_each(result.messages) == ["Go", "One.", "And then?", "Two."]
    assert len(model.requests) == 2


async def test_a_follow_up_that_races_with_the_end_of_a_run_is_never_left_unserved() -> None:
    for wait in range(40):
        store = MemoryStore()
        agent, _ = scripted(*[Reply("Yes.")] * 3)
        async with Harness.open(store, "s", agent=agent) as harness:

            async def say_later(ticks: int = wait, harness: Harness[Any] = harness) -> None:
                for _ in range(ticks):
                    await asyncio.sleep(0)
                await harness.follow_up("Late.")

            async with asyncio.TaskGroup() as group:
                group.create_task(say_later())
                running = group.create_task(harness.prompt("Go"))
            heard = [m.text for m in running.result().messages if isinstance(m, UserMessage)]
            left = await store.inbox("s")

        assert (heard == ["Go", "Late."]) != (len(left) == 1), wait


async def test_what_is_withdrawn_is_not_heard() -> None:
    store = MemoryStore()
    agent, model = scripted(Reply("One."))
    async with Harness.open(store, "s", agent=agent) as harness:
        item = await harness.steer("Wait")
        assert await harness.withdraw(item.id) == "withdrawn"
        await harness.prompt("Go")
        assert await harness.withdraw("unknown") is None

    assert text_of_each(list(model.requests[0].context.messages)) == ["Go"]


async def test_what_another_process_withdraws_at_the_last_moment_is_not_heard() -> None:
    store = MemoryStore()
    agent, model = scripted(Reply("One."), Reply("Two."))
    async with Harness.open(store, "s", agent=agent) as harness:
        item = await harness.steer("Wait")
        polled = harness._driver.inbox.poll

        async def poll(queue: Any) -> Any:
            found = await polled(queue)
            await store.withdraw("s", item.id)  # between being taken and being said
            return found

        harness._driver.inbox.poll = poll
        result = await harness.prompt("Go")
        stored = text_of_each(harness.session.messages())

    assert result.stop_reason == "stop"
    assert text_of_each(list(model.requests[0].context.messages)) == ["Go"]
    assert stored == ["Go", "One."]


async def test_the_same_request_id_runs_a_prompt_once_also_after_a_restart() -> None:
    store = MemoryStore()
    agent, model = scripted(Reply("One."), Reply("Two."))
    async with Harness.open(store, "s", agent=agent) as harness:
        first = await harness.prompt("Go", request_id="r")
        again = await harness.prompt("Go", request_id="r")
    other, unasked = scripted(Reply("Never."))
    async with Harness.open(store, "s", agent=other) as harness:
        once_more = await harness.prompt("Go", request_id="r")

    assert first.text == again.text == once_more.text == "One."
    assert text_of_each(once_more.messages) == ["Go", "One."]
    assert once_more.usage == first.usage
    assert len(model.requests) == 1
    assert unasked.requests == []


async def test_what_a_request_came_to_is_told_whole_though_the_lane_has_left_it() -> None:
    agent, model = scripted(Reply("One."))
    async with Harness.open(MemoryStore(), "s", agent=agent) as harness:
        first = await harness.prompt("Go", request_id="r")
        await harness.navigate(harness.session.entries()[0].id)

        again = await harness.prompt("Go", request_id="r")

    assert text_of_each(again.messages) == ["Go", "One."]
    assert again.usage == first.usage
    assert len(model.requests) == 1


# -- stopping --------------------------------------------------------------------------------


async def test_an_abort_is_in_the_session_before_the_signal_fires() -> None:
    store = MemoryStore()
    flags: list[bool] = []

    @tool
    async def wait(ctx: ToolContext) -> str:
        async def note() -> None:
            [operation] = (await store.state("s")).operations
            flags.append(operation.cancelled_at is not None)

        aborting = asyncio.create_task(harness.abort("enough"))
        await ctx.signal.wait()
        await asyncio.shield(note())
        await aborting
        return "never"

    agent, model = scripted(Reply(calls=[Call("wait", {})]), Reply("No."), tools=[wait])
    async with Harness.open(store, "s", agent=agent) as harness:
        result = await harness.prompt("Go")
        ended = harness.session.last_operation

    assert (result.stop_reason, result.stopped_by) == ("aborted", "abort")
    assert ended is not None
    assert ended.status == "aborted"
    assert len(model.requests) == 1
    assert text_of_each(result.messages)[-1] == "Operation aborted"


async def test_an_abort_asked_for_by_another_process_stops_the_run() -> None:
    store = MemoryStore()
    started = asyncio.Event()

    @tool
    async def wait() -> str:
        started.set()
        await asyncio.Event().wait()
        return "never"

    agent, _ = scripted(Reply(calls=[Call("wait", {})]), tools=[wait])
    async with Harness.open(store, "s", agent=agent) as harness:
        async with asyncio.TaskGroup() as group:
            running = group.create_task(harness.prompt("Go"))
            await started.wait()
            await store.enqueue("s", InboxItem(lane="main", queue="cancel", reason="stop it"))
        ended = harness.session.last_operation

    assert running.result().stop_reason == "aborted"
    assert ended is not None
    assert ended.cancel_reason == "stop it"
    assert await store.inbox("s") == []


async def test_an_aborted_run_whose_process_died_starts_nothing_when_it_is_resumed() -> None:
    store = MemoryStore()
    effects = Effects()
    agent, _ = a_long_run(effects)
    async with Harness.open(dying(store, 2), "s", agent=agent) as harness:
        await harness.prompt("Go")
    survivor, model = a_long_run(effects)
    async with Harness.open(store, "s", agent=survivor) as harness:
        await harness.abort("no more")
        assert harness.open_operation is None
        assert await harness.resume() is None
        shown = [shape(m) for m in harness.session.messages()]

    assert model.requests == []
    assert effects.ran == []
    assert (
        shown[-2:] == [("toolResult", "Operation aborted: no more", True)] * 2
        or shown[-2:] == [("toolResult", "Operation aborted", True)] * 2
    )


async def test_closing_during_a_run_leaves_it_open_for_the_next_process() -> None:
    store = MemoryStore()
    effects = Effects()

    def close_now(context: Any) -> Reply:
        closing.append(asyncio.create_task(harness.aclose()))
        return Reply("Half", chunk_size=1, delay=0.01)

    closing: list[asyncio.Task[None]] = []
    agent, _ = scripted(close_now)
    harness = await Harness.open(store, "s", agent=agent).__aenter__()
    result = await harness.prompt("Go")
    await closing[0]
    with pytest.raises(SessionClosed):
        await harness.prompt("More")

    assert result.stop_reason == "error"
    survivor, _ = scripted(Reply("Whole."))
    async with Harness.open(store, "s", agent=survivor) as again:
        assert again.open_operation is not None
        with pytest.raises(OperationOpen):
            await again.prompt("Other")
        resumed = await again.resume()
    assert resumed is not None
    assert text_of_each(resumed.messages) == ["Go", "Whole."]
    assert effects.ran == []


async def test_cancelling_the_caller_ends_the_run_as_aborted() -> None:
    store = MemoryStore()
    started = asyncio.Event()

    @tool
    async def wait() -> str:
        started.set()
        await asyncio.Event().wait()
        return "never"

    agent, _ = scripted(Reply(calls=[Call("wait", {})]), tools=[wait])
    async with Harness.open(store, "s", agent=agent) as harness:
        running = asyncio.create_task(harness.prompt("Go"))
        await started.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert harness.open_operation is None
        shown = text_of_each(harness.session.messages())

    assert shown[-1].startswith("Operation aborted")


# -- who may write ---------------------------------------------------------------------------


async def test_an_agent_that_belongs_to_a_session_is_not_run_past_it() -> None:
    agent, _ = scripted(Reply("One."), Reply("Two."))
    async with Harness.open(MemoryStore(), agent=agent) as harness:
        with pytest.raises(Misuse, match="harness"):
            await agent.prompt("Go")
        with pytest.raises(AgentBusy):
            async with Harness.open(MemoryStore(), agent=agent):
                pass
        await harness.prompt("Go")

    assert (await agent.prompt("Again")).text == "Two."


async def test_a_run_whose_session_was_taken_over_stops_and_writes_nothing_more() -> None:
    store = MemoryStore()
    effects = Effects()
    taken: list[Session] = []

    @tool
    async def slow() -> str:
        writer: Any = harness.session._writer
        writer._renewing.cancel()  # as if this process had been paused
        while not taken:  # until the lease has run out
            try:
                taken.append(await Session.open(store, "s"))
            except SessionLocked:
                await asyncio.sleep(0)
        return "done"

    agent, model = scripted(
        Reply(calls=[Call("slow", {})]), Reply("Never heard."), tools=[slow, *effects.tools()]
    )
    async with Harness.open(store, "s", agent=agent, lease_seconds=0.01) as harness:
        result = await harness.prompt("Go")
    rows = [row.entry() for row in await store.entries("s")]
    await taken[0].aclose()

    assert result.stop_reason == "error"
    assert result.error_message is not None
    assert "taken over" in result.error_message or "lease" in result.error_message
    assert len(model.requests) == 1
    assert [getattr(e, "message").role for e in rows] == ["user", "assistant"]  # noqa: B009


async def test_an_operation_that_never_gets_any_further_is_parked() -> None:
    store = MemoryStore()

    for _ in range(6):
        agent, _ = scripted(Reply("Half", delay=10, chunk_size=1))
        harness = await Harness.open(store, "s", agent=agent).__aenter__()
        if harness.open_operation is None:
            running = asyncio.create_task(harness.prompt("Go"))
        else:
            running = asyncio.create_task(harness.resume())
        while harness._driver.run is None:
            await asyncio.sleep(0)
        await harness.aclose()
        await running
    agent, model = scripted(Reply("Whole."))
    async with Harness.open(store, "s", agent=agent) as harness:
        with pytest.raises(OperationParked, match="taken up 5 times"):
            await harness.resume()
        assert model.requests == []
        result = await harness.resume(parked=True)

    assert result is not None
    assert result.text == "Whole."


# -- approvals -------------------------------------------------------------------------------


def paying(effects: list[str]) -> Any:
    @tool(approval=True)
    async def pay(what: str) -> str:
        effects.append(what)
        return f"paid {what}"

    return pay


async def parked(store: Any, effects: list[str]) -> None:
    """A run that waits for the second of its three calls."""
    agent, _ = scripted(
        Reply(calls=[Call("look", {"where": "a"}, id="c1"), Call("pay", {"what": "tea"}, id="c2"),
                     Call("look", {"where": "b"}, id="c3")]),
        tools=[look, paying(effects)],
    )  # fmt: skip
    async with Harness.open(store, "s", agent=agent) as harness:
        result = await harness.prompt("Go")
        assert (result.stop_reason, result.stopped_by) == ("toolUse", "approval")
        assert [a.tool_call_id for a in harness.pending_approvals] == ["c2"]
        with pytest.raises(OperationOpen, match="approval of pay"):
            await harness.prompt("More")


async def test_a_call_that_needs_approval_waits_and_the_others_do_not() -> None:
    store = MemoryStore()
    effects: list[str] = []
    await parked(store, effects)

    shown = text_of_each((await Session.read(store, "s")).messages())
    assert shown == ["Go", "", "seen a"]  # the third has its result kept, and waits for its place
    assert effects == []


async def test_an_approved_call_runs_once_in_whatever_process_resumes() -> None:
    store = MemoryStore()
    effects: list[str] = []
    await parked(store, effects)
    await approve(store, "s", "c2", by="me")
    with pytest.raises(ApprovalRefused, match="decided already"):
        await approve(store, "s", "c2")

    agent, _ = scripted(Reply("Done."), tools=[look, paying(effects)])
    async with Harness.open(store, "s", agent=agent) as harness:
        result = await harness.resume()
        assert await harness.resume() is None

    assert result is not None
    assert effects == ["tea"]
    assert text_of_each(result.messages) == ["Go", "", "seen a", "paid tea", "seen b", "Done."]
    assert [a.status for a in await store.approvals("s")] == ["consumed"]


async def test_a_denied_call_does_not_run_and_the_model_hears_why() -> None:
    store = MemoryStore()
    effects: list[str] = []
    await parked(store, effects)
    agent, _ = scripted(Reply("Well."), tools=[look, paying(effects)])
    async with Harness.open(store, "s", agent=agent) as harness:
        await harness.deny("c2", reason="Too dear.")
        result = await harness.resume()

    assert result is not None
    assert effects == []
    assert text_of_each(result.messages)[3] == "Too dear."


async def test_a_call_is_approved_with_other_arguments() -> None:
    store = MemoryStore()
    effects: list[str] = []
    await parked(store, effects)
    agent, _ = scripted(Reply("Well."), tools=[look, paying(effects)])
    async with Harness.open(store, "s", agent=agent) as harness:
        await harness.approve("c2", arguments={"what": "water"})
        await harness.resume()

    assert effects == ["water"]


async def test_undecided_a_parked_call_stays_parked_however_often_it_is_resumed() -> None:
    store = MemoryStore()
    effects: list[str] = []
    await parked(store, effects)
    for _ in range(8):
        agent, model = scripted(tools=[look, paying(effects)])
        async with Harness.open(store, "s", agent=agent) as harness:
            result = await harness.resume()
            assert result is not None
            assert result.stopped_by == "approval"
            assert model.requests == []
    assert effects == []


async def test_giving_a_waiting_run_up_answers_its_calls() -> None:
    store = MemoryStore()
    effects: list[str] = []
    await parked(store, effects)
    agent, _ = scripted(Reply("Fine."), tools=[look, paying(effects)])
    async with Harness.open(store, "s", agent=agent) as harness:
        await harness.abort()
        shown = text_of_each(harness.session.messages())
        result = await harness.prompt("Something else")

    assert shown[2:] == ["seen a", "Operation aborted", "seen b"]
    assert result.text == "Fine."


async def test_without_a_session_a_call_that_needs_approval_is_refused() -> None:
    effects: list[str] = []
    agent, _ = scripted(
        Reply(calls=[Call("pay", {"what": "tea"})]), Reply("Pity."), tools=[paying(effects)]
    )
    result = await agent.prompt("Go")

    assert effects == []
    assert "needs an approval" in text_of_each(result.messages)[2]


async def test_a_hook_grants_or_demands_approval() -> None:
    effects: list[str] = []
    agent, _ = scripted(
        Reply(calls=[Call("pay", {"what": "tea"})]), Reply("Good."), tools=[paying(effects)]
    )
    agent.before_tool_call = lambda call: BeforeToolCallResult(approval=False)
    await agent.prompt("Go")
    assert effects == ["tea"]

    store = MemoryStore()
    other, _ = scripted(Reply(calls=[Call("look", {"where": "x"}, id="c")]), tools=[look])
    other.before_tool_call = lambda call: BeforeToolCallResult(approval=True)
    async with Harness.open(store, "s", agent=other) as harness:
        result = await harness.prompt("Go")
    assert result.stopped_by == "approval"
