"""Who is told of events: in order, each awaited, none trusted. Behaviours 104 to 109."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest
from tests.loop.traces import (
    PLAIN,
    assert_paired,
    assert_well_formed,
    no_task_left,
    results,
    scripted,
    texts,
    trace,
    until,
)

from loopwright import AbortSignal, AgentContext, AgentLoopConfig, ToolContext, run_agent_loop
from loopwright.events import AgentEvent, MessageUpdate
from loopwright.messages import UserMessage
from loopwright.testing import Call, Reply, ScriptedModel


def add(a: int, b: int) -> int:
    return a + b


ADD = Call("add", {"a": 17, "b": 25}, id="c1")


async def test_behaviour_104_listeners_are_awaited_in_the_order_of_registration() -> None:
    agent, _, _ = scripted("Hi.")
    order: list[str] = []

    async def first(event: AgentEvent) -> None:
        await asyncio.sleep(0)
        order.append(f"1 {event.type}")

    def second(event: AgentEvent) -> None:
        order.append(f"2 {event.type}")

    async def third(event: AgentEvent) -> None:
        await asyncio.sleep(0)
        order.append(f"3 {event.type}")

    for listener in (first, second, third):
        agent.subscribe(listener)
    await agent.prompt("go")

    assert [said.split()[0] for said in order] == ["1", "2", "3"] * (len(order) // 3)
    assert [said.split()[1] for said in order[::3]] == [said.split()[1] for said in order[2::3]]


async def test_behaviour_104_the_run_waits_for_its_listeners() -> None:
    agent, model, _ = scripted(Reply(calls=[ADD]), "Done.", tools=[add])
    go_on = asyncio.Event()

    async def hold(event: AgentEvent) -> None:
        if event.type == "tool_execution_start":
            await go_on.wait()

    agent.subscribe(hold)
    running = asyncio.create_task(agent.prompt("go"))
    await until(lambda: agent.state.pending_tool_calls)
    for _ in range(20):
        await asyncio.sleep(0)
    assert not running.done()
    assert len(model.requests) == 1
    go_on.set()

    assert (await running).text == "Done."


async def test_behaviour_107_listeners_may_be_sync_or_async_and_get_the_signal_if_they_want() -> (
    None
):
    agent, _, _ = scripted("Hi.")
    heard: dict[str, Any] = {}

    class Object:
        def method(self, event: AgentEvent) -> None:
            heard["method"] = None

        async def __call__(self, event: AgentEvent, signal: AbortSignal) -> None:
            heard["object"] = signal

    def alone(event: AgentEvent) -> None:
        heard["alone"] = None

    def both(event: AgentEvent, signal: AbortSignal) -> None:
        heard["both"] = signal

    async def later(event: AgentEvent, signal: AbortSignal) -> None:
        heard["later"] = signal

    def by_name(event: AgentEvent, *, signal: AbortSignal) -> None:
        heard["by_name"] = signal

    def anything(*values: Any) -> None:
        heard["anything"] = values[1]

    plain: list[AgentEvent] = []
    thing = Object()
    for listener in (alone, both, later, by_name, anything, thing, thing.method, plain.append):
        agent.subscribe(listener)
    during: list[AbortSignal | None] = []
    agent.subscribe(lambda event: during.append(agent.signal))
    await agent.prompt("go")

    assert {name for name, signal in heard.items() if signal is not None} == {
        "both",
        "later",
        "by_name",
        "anything",
        "object",
    }
    assert {signal for signal in heard.values() if signal is not None} == set(during)
    assert trace(plain) == PLAIN
    assert agent.signal is None


async def test_behaviour_107_unsubscribing_during_delivery_is_safe() -> None:
    agent, _, _ = scripted("Hi.", "Hi.")
    heard: list[str] = []

    def first(event: AgentEvent) -> None:
        heard.append("first")
        leave_first()
        leave_first()

    def second(event: AgentEvent) -> None:
        heard.append("second")
        leave_third()

    def third(event: AgentEvent) -> None:
        heard.append("third")

    leave_first = agent.subscribe(first)
    agent.subscribe(second)
    leave_third = agent.subscribe(third)
    await agent.prompt("go")

    # The event that is being told is still told to all who were there when it came.
    assert heard[:3] == ["first", "second", "third"]
    assert heard.count("first") == heard.count("third") == 1
    assert heard.count("second") > 5


async def test_behaviour_107_a_listener_that_comes_during_delivery_hears_the_next_event() -> None:
    agent, _, _ = scripted("Hi.")
    heard: list[AgentEvent] = []

    def once(event: AgentEvent) -> None:
        leave()
        agent.subscribe(heard.append)

    leave = agent.subscribe(once)
    await agent.prompt("go")

    assert trace(heard) == PLAIN[1:]


async def test_the_same_listener_may_subscribe_twice_and_leave_once() -> None:
    agent, _, _ = scripted("Hi.", "Hi.")
    heard: list[str] = []

    def listen(event: AgentEvent) -> None:
        if event.type == "agent_end":
            heard.append("end")

    leave = agent.subscribe(listen)
    agent.subscribe(listen)
    await agent.prompt("go")
    leave()
    await agent.prompt("go")

    assert heard == ["end"] * 3


@pytest.mark.parametrize("way", ["sync", "async"])
async def test_behaviour_108_a_listener_that_raises_is_isolated_and_reported(way: str) -> None:
    faults: list[tuple[str, str]] = []
    agent, _, events = scripted(
        Reply(calls=[ADD]),
        "Done.",
        tools=[add],
        on_error=lambda error, where: faults.append((str(error), where)),
    )

    def fail(event: AgentEvent) -> None:
        raise RuntimeError(event.type)

    async def fail_later(event: AgentEvent) -> None:
        await asyncio.sleep(0)
        raise RuntimeError(event.type)

    agent.subscribe(fail if way == "sync" else fail_later)
    behind: list[AgentEvent] = []
    agent.subscribe(behind.append)
    result = await agent.prompt("go")

    assert (result.stop_reason, result.stopped_by) == ("stop", None)
    assert texts(results(result.messages)) == ["42"]
    assert behind == events
    assert [text for text, _ in faults] == [event.type for event in events]
    assert {where for _, where in faults} == {"a listener"}
    assert_paired(events)
    assert (await agent.prompt("again")).stop_reason == "error"  # the script is used up


async def test_behaviour_108_without_on_error_faults_are_logged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent, _, _ = scripted("Hi.")

    def fail(event: AgentEvent) -> None:
        if event.type == "turn_end":
            raise RuntimeError("cannot draw that")

    agent.subscribe(fail)
    with caplog.at_level(logging.ERROR, "loopwright"):
        result = await agent.prompt("go")

    assert result.stop_reason == "stop"
    (record,) = caplog.records
    assert record.name == "loopwright"
    assert record.exc_info is not None
    assert str(record.exc_info[1]) == "cannot draw that"


async def test_behaviour_108_an_on_error_that_raises_changes_nothing_either(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(*values: Any) -> None:
        raise RuntimeError("again")

    agent, _, _ = scripted("Hi.", on_error=fail)
    agent.subscribe(fail)

    result = await agent.prompt("go")

    assert result.stop_reason == "stop"
    assert caplog.records


async def test_behaviour_108_a_listener_cancelled_from_within_does_not_stop_the_run() -> None:
    faults: list[BaseException] = []
    agent, _, _ = scripted("Hi.", on_error=lambda error, where: faults.append(error))

    async def odd(event: AgentEvent) -> None:
        if event.type == "turn_start":
            task = asyncio.create_task(asyncio.sleep(10))
            await asyncio.sleep(0)
            task.cancel()
            await task

    agent.subscribe(odd)
    behind: list[AgentEvent] = []
    agent.subscribe(behind.append)
    result = await agent.prompt("go")

    assert result.stop_reason == "stop"
    assert trace(behind) == PLAIN
    assert [type(fault) for fault in faults] == [asyncio.CancelledError]


async def test_listeners_behind_a_cancelled_one_still_hear_of_the_event() -> None:
    agent, _, _ = scripted("Hi.")
    reached = asyncio.Event()

    async def hang(event: AgentEvent) -> None:
        if event.type == "turn_start" and not reached.is_set():
            reached.set()
            await asyncio.Event().wait()

    agent.subscribe(hang)
    behind: list[AgentEvent] = []
    agent.subscribe(behind.append)
    running = asyncio.create_task(agent.prompt("go"))
    await reached.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert_paired(behind)


@pytest.mark.parametrize(
    "at",
    [
        "agent_start",
        "turn_start",
        "message_start",
        "message_update",
        "message_end",
        "tool_execution_start",
        "tool_execution_update",
        "tool_execution_end",
        "turn_end",
        "agent_end",
    ],
)
async def test_behaviour_108_a_raising_emit_ends_the_run_and_comes_out(at: str) -> None:
    """The low-level functions have no listeners to isolate: their caller is the barrier."""

    async def work(*, ctx: ToolContext) -> str:
        ctx.update("half")
        await asyncio.sleep(0)
        return "whole"

    async def hang() -> None:
        await asyncio.Event().wait()

    model = ScriptedModel([Reply("Hi", calls=[Call("work"), Call("hang")])])
    tools = [work] if at in ("turn_end", "agent_end") else [work, hang]
    heard: list[str] = []

    async def emit(event: AgentEvent) -> None:
        heard.append(event.type)
        if event.type == at:
            raise RuntimeError("the pipe is broken")

    context = AgentContext("", [], tools)
    async with no_task_left():
        with pytest.raises(RuntimeError, match="the pipe is broken"):
            await run_agent_loop(
                [UserMessage("go")],
                context,
                AgentLoopConfig(model.model, max_turns=1),
                emit,
                stream_fn=model.stream_fn,
            )

    assert heard[-1] == at
    assert heard.count(at) == 1


async def test_a_slow_listener_sees_each_delta_before_the_next_one_comes() -> None:
    agent, _, _ = scripted(Reply("abcdef", chunk_size=1))
    seen: list[str] = []

    async def slow(event: AgentEvent) -> None:
        if isinstance(event, MessageUpdate):
            await asyncio.sleep(0)
            seen.append(agent.state.streaming_message.text)  # type: ignore[union-attr]

    agent.subscribe(slow)
    await agent.prompt("go")

    assert seen == ["", "a", "ab", "abc", "abcd", "abcde", "abcdef", "abcdef"]
    assert_well_formed(agent.state.messages)
