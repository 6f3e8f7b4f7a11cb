"""The fine print of some behaviours, and moments that come once in a million runs."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from tests.loop.invariants import check_idle
from tests.loop.traces import assert_paired, results, scripted, texts, trace, until
from tests.loop.virtual_time import VirtualTimeLoop

from loopwright import (
    AfterToolCall,
    AfterToolCallResult,
    BeforeToolCall,
    ToolContext,
    TurnUpdate,
    tool,
)
from loopwright.errors import Misuse
from loopwright.events import (
    AgentEvent,
    MessageEnd,
    MessageStart,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
)
from loopwright.loop import threads
from loopwright.loop.active_run import ActiveRun
from loopwright.messages import AssistantMessage, ToolCall
from loopwright.models import Model
from loopwright.stream import AssistantStream, Done
from loopwright.testing import Call, Reply


def echo(value: Any) -> str:
    return str(value)


# -- what a hook leaves unset, and what it sets to nothing -----------------------------------


async def test_behaviour_020_another_model_alone_keeps_the_thinking_level() -> None:
    agent, model, _ = scripted(
        Reply(calls=[Call("echo", {"value": 1})]), "Done.", tools=[echo], thinking_level="low"
    )
    other = Model("scripted", "other", "scripted")
    agent.prepare_next_turn = lambda turn: TurnUpdate(model=other)

    await agent.prompt("go")

    asked = [(r.model.id, r.options.get("reasoning")) for r in model.requests]
    assert asked == [("scripted", "low"), ("other", "low")]


async def test_behaviour_073_a_field_that_is_set_to_something_empty_replaces_too() -> None:
    agent, _, events = scripted(Reply(calls=[Call("echo", {"value": 1})]), "Done.", tools=[echo])
    agent.after_tool_call = lambda call: AfterToolCallResult(content=[], details={})

    result = await agent.prompt("go")

    (told,) = results(result.messages)
    assert (told.content, told.details) == ([], {})
    (ended,) = [event for event in events if isinstance(event, ToolExecutionEnd)]
    assert (ended.result.content, ended.result.details) == ([], {})


@pytest.mark.parametrize("name", ["echo", "nobody"])
async def test_behaviour_072_what_a_gate_does_to_its_copy_reaches_nobody(name: str) -> None:
    asked: list[Any] = []
    agent, _, _ = scripted(
        Reply(calls=[Call(name, {"value": {"deep": [1]}})]), "Done.", tools=[echo]
    )

    def spoil(question: BeforeToolCall) -> None:
        question.args["value"]["deep"].append("spoilt")
        question.args["more"] = "spoilt"

    def note(question: AfterToolCall) -> None:
        asked.append(question.args)

    agent.before_tool_call = spoil
    agent.after_tool_call = note
    result = await agent.prompt("go")

    reply = result.messages[1]
    assert isinstance(reply, AssistantMessage)
    (call,) = reply.tool_calls
    assert call.arguments == {"value": {"deep": [1]}}
    assert "spoilt" not in str(asked)
    assert "spoilt" not in results(result.messages)[0].text


# -- updates and ids -------------------------------------------------------------------------


async def test_behaviour_084_updates_and_an_outcome_that_are_there_at_once_keep_their_order() -> (
    None
):
    async def hasty(*, ctx: ToolContext) -> str:
        ctx.update("half")
        ctx.update("nearly")
        return "whole"

    agent, _, events = scripted(
        Reply(calls=[Call("hasty", id="c1"), Call("hasty", id="c2")]), "Done.", tools=[hasty]
    )

    await agent.prompt("go")

    names = [name for name in trace(events) if name.startswith("tool")]
    for id in ("c1", "c2"):
        assert [name for name in names if id in name] == [
            f"tool {id} start", f"tool {id} update", f"tool {id} update", f"tool {id} end"
        ]  # fmt: skip


async def test_behaviour_088_an_id_is_pending_until_the_last_call_that_has_it_has_ended() -> None:
    release = asyncio.Event()

    async def work(last: bool) -> str:
        if last:
            await release.wait()
        return "done"

    said = AssistantMessage([ToolCall("x", "work", {"last": last}) for last in (False, True)])
    agent, _, events = scripted(tools=[work])
    replies = [said, AssistantMessage([])]
    agent.stream_fn = lambda *_, **__: AssistantStream.from_events([Done("stop", replies.pop(0))])
    pending: list[frozenset[str]] = []

    def look(event: AgentEvent) -> None:
        if isinstance(event, ToolExecutionEnd):
            pending.append(agent.state.pending_tool_calls)
            release.set()

    agent.subscribe(look)
    await agent.prompt("go")

    assert pending == [frozenset({"x"}), frozenset()]
    assert_paired(events)


async def test_behaviour_105_what_has_ended_is_open_no_more_while_the_run_goes_on() -> None:
    agent, _, _ = scripted(Reply("Hm.", calls=[Call("echo", {"value": 1})]), "Done.", tools=[echo])
    still_open: list[Any] = []

    def look(event: AgentEvent) -> None:
        if isinstance(event, MessageEnd | TurnEnd):
            still_open.append(agent.state.streaming_message)
        if isinstance(event, TurnEnd):
            still_open.extend(agent.state.pending_tool_calls)

    agent.subscribe(look)
    await agent.prompt("go")

    assert still_open == [None] * 6


# -- rare moments ----------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["loop", "thread"])
def test_behaviour_095_a_body_that_is_stopped_before_its_first_step_never_begins(
    where: str,
) -> None:
    """An abort from another thread can fall between the start of a task and its first step."""
    ran: list[str] = []

    def block() -> str:
        ran.append("block")
        return "done"

    async def work() -> str:
        return block()

    name, body = ("work", work) if where == "loop" else ("block", block)
    agent, _, events = scripted(
        Reply(calls=[Call(name, id="c1"), Call(name, id="c2")]), tools=[body]
    )

    def make(loop: Any, coroutine: Any, **options: Any) -> asyncio.Task[Any]:
        task = asyncio.Task(coroutine, loop=loop, **options)
        if coroutine.__name__ == "run_body":
            agent.abort()
        return task

    loop = VirtualTimeLoop()
    loop.set_task_factory(make)
    result = loop.live(agent.prompt("go"))

    assert ran == []
    assert texts(results(result.messages)) == ["Operation aborted"] * 2
    assert result.stopped_by == "abort"
    assert loop.now < 1
    assert_paired(events)


@pytest.mark.parametrize("way", ["abort", "interrupt"])
async def test_behaviour_095_a_call_that_waits_for_a_free_thread_is_not_begun_after_a_stop(
    way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(threads, "MAX_THREADS", 2)
    monkeypatch.setattr(threads, "_pool", threads._Pool())
    gate = threading.Event()
    ran: list[int] = []

    def block(number: int) -> str:
        ran.append(number)
        gate.wait(10)
        return "done"

    calls = [Call("block", {"number": number}) for number in range(5)]
    agent, _, events = scripted(Reply(calls=calls), "Here.", tools=[block])
    ended = [0]
    agent.subscribe(lambda event: ended.append(0) if type(event) is ToolExecutionEnd else None)
    run = asyncio.create_task(agent.prompt("go"))
    await until(lambda: len(ran) == 2)

    if way == "abort":
        agent.abort()
    else:
        agent.steer("stop", when="interrupt")
    await until(lambda: len(ended) == 1 + 3)  # at once: those that never began
    gate.set()
    result = await run

    told = texts(results(result.messages))
    assert sorted(ran) == [0, 1]
    assert told[:2] == ["done", "done"]
    assert all(text.startswith("Operation aborted") for text in told[2:])
    assert_paired(events)
    assert await asyncio.wait_for(threads.run_in_thread(lambda: "free"), 10) == "free"


async def test_behaviour_120_a_resume_that_cannot_begin_leaves_the_queues_alone() -> None:
    agent, model, _ = scripted("Hello.", "Well.", "Bye.", tools=[echo])
    await agent.prompt("go")
    agent.state.tools.append(agent.state.tools[0])
    agent.steer("one thing")
    agent.follow_up("another")

    with pytest.raises(Misuse, match="two tools"):
        await agent.resume()
    agent.state.tools.pop()
    await agent.resume()

    assert texts(agent.state.messages) == ["go", "Hello.", "one thing", "Well.", "another", "Bye."]
    assert len(model.requests) == 3


@pytest.mark.parametrize("kind", [MessageStart, ToolExecutionStart])
async def test_nothing_stays_open_in_the_state_when_the_program_is_told_to_exit(kind: type) -> None:
    agent, _, _ = scripted(Reply(calls=[Call("echo", {"value": 1})]), "Done.", tools=[echo])

    def leave(event: AgentEvent) -> None:
        if isinstance(event, kind):
            raise SystemExit(3)

    agent.subscribe(leave)
    with pytest.raises(SystemExit):
        await agent.prompt("go")

    check_idle(agent)


async def test_behaviour_106_who_begins_to_wait_as_the_run_ends_does_not_wait_for_ever() -> None:
    active = ActiveRun()

    active.end()  # in another thread, just after `wait_for_idle` has seen that there is a run
    await asyncio.wait_for(active.wait(), 10)


async def test_who_waited_for_the_agent_and_gave_up_is_forgotten() -> None:
    release = asyncio.Event()

    @tool
    async def wait() -> str:
        await release.wait()
        return "done"

    agent, _, _ = scripted(Reply(calls=[Call("wait")]), "Done.", tools=[wait])
    running = asyncio.create_task(agent.prompt("go"))
    await until(lambda: agent.state.pending_tool_calls)

    for _ in range(3):
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(agent.wait_for_idle(), 0.001)

    active = agent._active
    assert active is not None
    assert active._waiting == []
    release.set()
    await running


async def test_a_loop_that_ended_while_it_waited_for_the_agent_does_no_harm() -> None:
    release = asyncio.Event()

    @tool
    async def wait() -> str:
        await release.wait()
        return "done"

    agent, _, _ = scripted(Reply(calls=[Call("wait")]), "Done.", tools=[wait])
    running = asyncio.create_task(agent.prompt("go"))
    await until(lambda: agent.state.pending_tool_calls)
    left: list[Any] = []

    def wait_and_vanish() -> None:
        loop = asyncio.new_event_loop()

        async def begin() -> None:
            left.append(loop.create_task(agent.wait_for_idle()))
            await asyncio.sleep(0)

        loop.run_until_complete(begin())
        loop.close()

    thread = threading.Thread(target=wait_and_vanish)
    thread.start()
    await asyncio.to_thread(thread.join)
    left[0]._log_destroy_pending = False
    release.set()

    assert (await running).text == "Done."
