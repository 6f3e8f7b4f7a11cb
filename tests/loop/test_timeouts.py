"""`run_timeout` and `idle_timeout` end a run in every phase, as an abort would."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from tests.loop.traces import (
    assert_paired,
    assert_well_formed,
    no_task_left,
    results,
    roles,
    scripted,
    texts,
    trace,
)

from loopwright import Agent, RunResult, ToolContext
from loopwright.events import AgentEvent
from loopwright.messages import AssistantMessage, TextContent
from loopwright.stream import AssistantStream, Done, TextDelta, TextStart
from loopwright.testing import Call, Reply, ScriptedModel

LIMIT = 0.05
KINDS = ["run_timeout", "idle_timeout"]


async def hang(*values: Any, **options: Any) -> Any:
    await asyncio.Event().wait()


def add(a: int, b: int) -> int:
    return a + b


ADD = Call("add", {"a": 17, "b": 25}, id="c1")


def assert_timed_out(result: RunResult, agent: Agent, events: list[AgentEvent], kind: str) -> None:
    assert result.stopped_by == "timeout"
    assert result.stop_reason == ("aborted" if kind == "run_timeout" else "error")
    assert result.error_message is not None
    assert f"{kind}={LIMIT:g} seconds" in result.error_message
    assert_paired(events)
    assert_well_formed(agent.state.messages)
    assert not agent.state.is_streaming


@pytest.mark.parametrize("kind", KINDS)
async def test_while_the_model_speaks(kind: str) -> None:
    closed: list[bool] = []

    async def speak() -> AsyncGenerator[Any, None]:
        try:
            yield TextStart(0)
            yield TextDelta(0, "Hel")
            await hang()
        finally:
            closed.append(True)

    agent, _, events = scripted(**{kind: LIMIT})
    agent.stream_fn = lambda *args, **options: AssistantStream.from_events(speak())
    agent.follow_up("later")

    async with no_task_left():
        result = await agent.prompt("go")

    assert_timed_out(result, agent, events, kind)
    message = result.messages[-1]
    assert isinstance(message, AssistantMessage)
    assert message.text == "Hel"
    assert message.stop_reason == ("aborted" if kind == "run_timeout" else "error")
    assert message.error_message == result.error_message
    assert closed == [True]
    assert texts(result.undelivered) == ["later"]


@pytest.mark.parametrize("kind", KINDS)
async def test_before_the_model_says_anything(kind: str) -> None:
    agent, _, events = scripted(**{kind: LIMIT})
    agent.stream_fn = hang

    result = await agent.prompt("go")

    assert_timed_out(result, agent, events, kind)
    assert roles(result.messages) == ["user", "assistant"]


@pytest.mark.parametrize("kind", KINDS)
async def test_while_tools_run(kind: str) -> None:
    async def wait() -> None:
        await hang()

    agent, model, events = scripted(
        Reply(calls=[ADD, Call("wait", id="w")]), "Never.", tools=[add, wait], **{kind: LIMIT}
    )

    async with no_task_left():
        result = await agent.prompt("go")

    assert_timed_out(result, agent, events, kind)
    assert texts(results(result.messages)) == ["42", "Operation aborted"]
    assert roles(result.messages)[-1] == "toolResult"
    assert len(model.requests) == 1


HOOKS = [
    "transform_context",
    "convert_to_llm",
    "get_api_key",
    "prepare_request",
    "before_tool_call",
    "after_tool_call",
    "prepare_next_turn",
    "finish_turn",
    "should_stop_after_turn",
]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("hook", HOOKS)
async def test_while_a_hook_is_waited_for(kind: str, hook: str) -> None:
    agent, model, events = scripted(
        Reply(calls=[ADD]), "Never.", tools=[add], **{kind: LIMIT, hook: hang}
    )
    started = time.perf_counter()

    async with no_task_left():
        result = await agent.prompt("go")

    assert time.perf_counter() - started < 1.9  # not the grace time
    assert_timed_out(result, agent, events, kind)
    assert len(model.requests) <= 1
    if hook == "after_tool_call":
        assert texts(results(result.messages)) == ["42"]
    if hook == "before_tool_call":
        assert texts(results(result.messages)) == ["Operation aborted"]


async def test_while_a_listener_is_waited_for() -> None:
    """It has its grace time of two seconds; both kinds are tried at once."""

    async def run(kind: str) -> None:
        agent, _, events = scripted("Hi.", **{kind: LIMIT})

        async def listen(event: AgentEvent) -> None:
            if event.type == "turn_end":
                await hang()

        agent.subscribe(listen)
        started = time.perf_counter()
        result = await agent.prompt("go")
        assert_timed_out(result, agent, events, kind)
        assert 1 < time.perf_counter() - started < 10

    await asyncio.gather(*[run(kind) for kind in KINDS])


async def test_run_timeout_counts_even_while_things_happen() -> None:
    agent, _, events = scripted(Reply("a" * 1000, chunk_size=1, delay=0.002), run_timeout=LIMIT)

    result = await agent.prompt("go")

    assert_timed_out(result, agent, events, "run_timeout")
    assert 0 < len(result.text) < 1000


async def test_idle_timeout_does_not_count_while_the_model_speaks() -> None:
    agent, _, _ = scripted(Reply("a" * 30, chunk_size=1, delay=0.005), idle_timeout=0.1)

    result = await agent.prompt("go")

    assert (result.stop_reason, len(result.text)) == ("stop", 30)


async def test_idle_timeout_does_not_count_while_a_tool_reports() -> None:
    async def work(*, ctx: ToolContext) -> str:
        for n in range(30):
            await asyncio.sleep(0.005)
            ctx.update(str(n))
        return "done"

    agent, _, _ = scripted(Reply(calls=[Call("work")]), "Done.", tools=[work], idle_timeout=0.1)

    assert (await agent.prompt("go")).text == "Done."


class Alive:
    """A source whose connection gives signs of life long before it says anything."""

    def __init__(self) -> None:
        self.left = 30

    def __aiter__(self) -> Alive:
        return self

    async def __anext__(self) -> list[Any]:
        await asyncio.sleep(0.005)
        self.left -= 1
        return [] if self.left else [Done("stop", AssistantMessage([TextContent("Hi.")]))]


async def test_idle_timeout_heeds_signs_of_life() -> None:
    agent, _, _ = scripted(idle_timeout=0.1)
    agent.stream_fn = lambda *args, **options: AssistantStream(Alive())

    assert (await agent.prompt("go")).text == "Hi."


async def test_limits_are_per_run_and_leave_nothing_behind() -> None:
    agent, _, _ = scripted("One.", "Two.", run_timeout=LIMIT, idle_timeout=LIMIT)

    assert (await agent.prompt("go")).text == "One."
    await asyncio.sleep(LIMIT * 1.5)
    assert (await agent.prompt("go")).text == "Two."


@pytest.mark.parametrize("kind", KINDS)
async def test_an_abort_before_the_limit_is_an_abort(kind: str) -> None:
    agent, _, _ = scripted(**{kind: LIMIT})

    async def stream_fn(*args: Any, **options: Any) -> Any:
        agent.abort()
        await hang()

    agent.stream_fn = stream_fn
    result = await agent.prompt("go")

    assert (result.stop_reason, result.stopped_by) == ("aborted", "abort")


async def test_a_run_that_timed_out_can_be_gone_on_with() -> None:
    model = ScriptedModel([Reply("Here.")])
    calls = 0

    async def stream_fn(*args: Any, **options: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 1:
            await hang()
        return model.stream_fn(*args, **options)

    agent = Agent(model.model, stream_fn=stream_fn, idle_timeout=LIMIT)
    events: list[AgentEvent] = []
    agent.subscribe(events.append)

    await agent.prompt("go")
    result = await agent.resume()

    assert result.text == "Here."
    assert texts(model.requests[0].context.messages) == ["go"]
    assert trace(events).count("agent_end") == 2
