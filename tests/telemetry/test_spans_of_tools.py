"""Tools as spans: only what was really run has one."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from pydantic import BaseModel
from tests.loop.traces import scripted, until

from loopwright import (
    AgentTool,
    AgentToolResult,
    BeforeToolCall,
    BeforeToolCallResult,
    ToolContext,
    tool,
)
from loopwright.errors import ToolError
from loopwright.messages import TextContent
from loopwright.telemetry import RecordedSpan, RecordingTracer, trace
from loopwright.testing import Call, Reply


def add(a: int, b: int) -> int:
    return a + b


def tools_of(tracer: RecordingTracer) -> list[RecordedSpan]:
    assert tracer.open == []
    assert tracer.faults == []
    return tracer.named("loopwright.tool")


async def test_a_tool_says_its_name_its_call_and_whether_it_may_be_repeated() -> None:
    @tool(replay="safe")
    def look() -> str:
        return "Nothing."

    agent, _, _ = scripted(Reply(calls=[Call("look", {}, id="c1")]), "Done.", tools=[look])
    tracer = RecordingTracer()
    trace(agent, tracer)

    await agent.prompt("Look.")

    [span] = tools_of(tracer)
    assert span.attributes == {
        "loopwright.tool.name": "look",
        "loopwright.tool.replay": "safe",
        "loopwright.tool.call_id": "c1",
        "loopwright.tool.is_error": False,
    }
    assert span.parent is not None
    assert span.parent.name == "loopwright.turn"


async def test_a_call_that_is_refused_has_no_span() -> None:
    @tool(approval=True)
    def erase() -> str:
        return "Gone."

    def gate(call: BeforeToolCall) -> BeforeToolCallResult | None:
        return BeforeToolCallResult(block=call.tool_call.id == "blocked")

    calls = [
        Call("add", {"a": 1, "b": 2}, id="run"),
        Call("add", {"a": 1, "b": 2}, id="blocked"),
        Call("add", {"a": "one"}, id="misfit"),
        Call("add", raw="{", id="torn"),
        Call("invented", {}, id="unknown"),
        Call("erase", {}, id="approval"),
    ]
    agent, _, _ = scripted(Reply(calls=calls), "Done.", tools=[add, erase], before_tool_call=gate)
    tracer = RecordingTracer()
    trace(agent, tracer)

    await agent.prompt("Go.")

    assert [span.attributes["loopwright.tool.call_id"] for span in tools_of(tracer)] == ["run"]
    turn = tracer.named("loopwright.turn")[0]
    assert turn.attributes["loopwright.turn.tool_results"] == 6


async def test_calls_of_a_reply_that_was_cut_have_no_span() -> None:
    reply = Reply(calls=[Call("add", {"a": 1, "b": 2})], stop_reason="length")
    agent, _, _ = scripted(reply, "Done.", tools=[add])
    tracer = RecordingTracer()
    trace(agent, tracer)

    await agent.prompt("Go.")

    assert tools_of(tracer) == []


async def test_calls_with_the_same_id_have_a_span_each() -> None:
    calls = [Call("add", {"a": n, "b": 0}, id="same") for n in range(3)]
    agent, _, _ = scripted(Reply(calls=calls), "Done.", tools=[add])
    tracer = RecordingTracer()
    trace(agent, tracer)

    await agent.prompt("Go.")

    assert len(tools_of(tracer)) == 3


async def test_tools_that_run_side_by_side_end_in_the_order_of_their_ends() -> None:
    gate = asyncio.Event()

    async def slow() -> None:
        await gate.wait()

    async def quick() -> None:
        gate.set()

    calls = [Call("slow", {}), Call("quick", {})]
    agent, _, _ = scripted(Reply(calls=calls), "Done.", tools=[slow, quick])
    tracer = RecordingTracer()
    trace(agent, tracer)

    await agent.prompt("Go.")

    first, second = tools_of(tracer)
    assert first.attributes["loopwright.tool.name"] == "slow"
    assert first.ended_at is not None
    assert second.ended_at is not None
    assert second.ended_at < first.ended_at


class Boom(Exception):
    pass


@pytest.mark.parametrize(
    ("fault", "named"), [(Boom("/etc/passwd"), "Boom"), (ToolError("no"), "ToolError")]
)
async def test_a_tool_that_raises_is_told_by_the_class(fault: Exception, named: str) -> None:
    def fails() -> None:
        raise fault

    agent, _, _ = scripted(Reply(calls=[Call("fails", {})]), "Done.", tools=[fails])
    tracer = RecordingTracer()
    trace(agent, tracer)

    await agent.prompt("Go.")

    [span] = tools_of(tracer)
    assert span.error_type == named
    assert span.attributes["loopwright.tool.is_error"] is True
    assert tracer.named("loopwright.run")[0].error_type is None


async def test_a_tool_that_returns_an_error_has_failed() -> None:
    def fails() -> AgentToolResult:
        return AgentToolResult([TextContent("no")], is_error=True)

    agent, _, _ = scripted(Reply(calls=[Call("fails", {})]), "Done.", tools=[fails])
    tracer = RecordingTracer()
    trace(agent, tracer)

    await agent.prompt("Go.")

    assert [span.error_type for span in tools_of(tracer)] == ["tool_error"]


async def test_a_tool_that_takes_too_long_ends_as_a_timeout() -> None:
    @tool(timeout=0.02)
    async def slow() -> None:
        await asyncio.Event().wait()

    agent, _, _ = scripted(Reply(calls=[Call("slow", {})]), "Done.", tools=[slow])
    tracer = RecordingTracer()
    trace(agent, tracer)

    await agent.prompt("Go.")

    assert [span.error_type for span in tools_of(tracer)] == ["timeout"]


async def test_a_tool_that_is_aborted_has_not_failed() -> None:
    @tool(timeout=30)
    async def hangs(*, ctx: ToolContext) -> None:
        await asyncio.Event().wait()

    agent, _, _ = scripted(Reply(calls=[Call("hangs", {})]), tools=[hangs])
    tracer = RecordingTracer()
    trace(agent, tracer)

    running = asyncio.create_task(agent.prompt("Go."))
    await until(lambda: tracer.named("loopwright.tool"))
    agent.abort()
    await running

    [span] = tools_of(tracer)
    assert span.error_type is None
    assert span.attributes["loopwright.operation.outcome"] == "aborted"


async def test_a_tool_in_a_thread_that_does_not_return_is_let_go_of() -> None:
    release = threading.Event()

    def hangs() -> None:
        release.wait(30)

    agent, _, _ = scripted(Reply(calls=[Call("hangs", {})]), tools=[hangs])
    tracer = RecordingTracer()
    trace(agent, tracer)

    running = asyncio.create_task(agent.prompt("Go."))
    await until(lambda: tracer.named("loopwright.tool"))
    agent.abort()
    await running
    release.set()

    assert len(tools_of(tracer)) == 1


class _Sum(BaseModel):
    a: int
    b: int


class _Add(AgentTool[_Sum, Any]):
    name = "add"
    description = "Add two numbers."

    async def execute(
        self, tool_call_id: str, params: _Sum, signal: Any = None, on_update: Any = None
    ) -> AgentToolResult:
        return AgentToolResult([TextContent(str(params.a + params.b))])


async def test_one_tool_that_two_agents_share_is_told_of_where_it_ran() -> None:
    shared = _Add()
    tracers: list[RecordingTracer] = []
    running: list[Any] = []
    for number in range(2):
        calls = [Call("add", {"a": 1, "b": 2}, id="c1")] * (number + 1)
        agent, _, _ = scripted(Reply(calls=calls), "3.", tools=[shared])
        tracers.append(RecordingTracer())
        trace(agent, tracers[-1])
        running.append(agent.prompt("1 + 2?"))

    await asyncio.gather(*running)

    assert [len(tools_of(tracer)) for tracer in tracers] == [1, 2]
