"""How a run may end: one test for each row of the table in the design."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from tests.loop.traces import assert_well_formed, results, roles, scripted, texts

from loopwright import AgentContext, AgentLoopConfig, AgentToolResult, FinishTurn, agent_loop
from loopwright.errors import (
    AgentBusy,
    LoopwrightError,
    NoStreamFunction,
    NothingToResume,
    RunFailed,
)
from loopwright.events import AgentEvent, MessageUpdate
from loopwright.messages import AssistantMessage, TextContent, ToolResultMessage, Usage, UserMessage
from loopwright.models import Model
from loopwright.stream import AssistantStream, Retry
from loopwright.testing import Call, Reply


def add(a: int, b: int) -> int:
    return a + b


def finish() -> AgentToolResult:
    return AgentToolResult([TextContent("finished")], terminate=True)


async def hang() -> None:
    await asyncio.Event().wait()


ADD = Call("add", {"a": 17, "b": 25}, id="c1")


async def run_to(ending: str) -> dict[str, Any]:
    """Run an agent to this ending, with messages waiting; say how it ended and what is left."""
    replies: dict[str, list[Reply]] = {
        "stop": [Reply("Done.")],
        "length": [Reply("Cut", stop_reason="length")],
        "terminate": [Reply(calls=[Call("finish", id="f")])],
        "finish_turn": [Reply(calls=[ADD])],
        "should_stop": [Reply("Done.")],
        "max_turns": [Reply(calls=[ADD])],
        "abort while the model speaks": [Reply("A long reply", chunk_size=2)],
        "abort while tools run": [Reply(calls=[ADD, Call("hang", id="h")])],
        "run_timeout": [Reply(calls=[ADD, Call("hang", id="h")])],
        "idle_timeout": [Reply(calls=[ADD, Call("hang", id="h")])],
        "model failed": [Reply("half", calls=[ADD], error="overloaded")],
        "stream function raised": [],
        "turn hook raised": [Reply("Done.")],
    }
    agent, model, _ = scripted(*replies[ending], tools=[add, finish, hang])

    def raising(*values: Any, **options: Any) -> Any:
        raise RuntimeError("fell over")

    if ending == "finish_turn":
        agent.finish_turn = lambda turn: FinishTurn.END
    elif ending == "should_stop":
        agent.should_stop_after_turn = lambda turn: True
    elif ending == "max_turns":
        agent.max_turns = 1
    elif ending in ("run_timeout", "idle_timeout"):
        setattr(agent, ending, 0.05)
    elif ending == "stream function raised":
        agent.stream_fn = raising
    elif ending == "turn hook raised":
        agent.finish_turn = raising
    queued: list[str] = []

    def listen(event: AgentEvent) -> None:
        if event.type == "turn_start" and not queued and ending not in ("stop", "length"):
            queued.append("")
            if ending != "terminate":  # that one polls its queues, see its own tests
                agent.follow_up("follow-up")
        speaking = ending == "abort while the model speaks"
        if speaking and isinstance(event, MessageUpdate) and event.message.text == "A lo":
            agent.abort()
        if event.type == "tool_execution_end" and ending == "abort while tools run":
            agent.abort()

    agent.subscribe(listen)
    result = await agent.prompt("go")

    assert_well_formed(agent.state.messages)
    assert len(model.requests) <= 1
    last = result.messages[-1]
    return {
        "roles": roles(result.messages)[1:],
        "last": last.stop_reason if isinstance(last, AssistantMessage) else last.text,  # type: ignore[union-attr]
        "ended": (result.stop_reason, result.stopped_by),
        "queues": texts(result.undelivered),
        "error": result.error_message,
    }


ABORTED = "Operation aborted"


@pytest.mark.parametrize(
    ("ending", "roles", "last", "ended", "queues", "error"),
    [
        ("stop", ["assistant"], "stop", ("stop", None), [], None),
        ("length", ["assistant"], "length", ("length", None), [], None),
        (
            "terminate",
            ["assistant", "toolResult"],
            "finished",
            ("toolUse", "terminate"),
            [],
            None,
        ),
        (
            "finish_turn",
            ["assistant", "toolResult"],
            "42",
            ("toolUse", "hook"),
            ["follow-up"],
            None,
        ),
        ("should_stop", ["assistant"], "stop", ("stop", "hook"), ["follow-up"], None),
        (
            "max_turns",
            ["assistant", "toolResult"],
            "42",
            ("toolUse", "max_turns"),
            ["follow-up"],
            None,
        ),
        (
            "abort while the model speaks",
            ["assistant"],
            "aborted",
            ("aborted", "abort"),
            ["follow-up"],
            ABORTED,
        ),
        (
            "abort while tools run",
            ["assistant", "toolResult", "toolResult"],
            ABORTED,
            ("aborted", "abort"),
            ["follow-up"],
            ABORTED,
        ),
        (
            "run_timeout",
            ["assistant", "toolResult", "toolResult"],
            ABORTED,
            ("aborted", "timeout"),
            ["follow-up"],
            "The run took longer than run_timeout=0.05 seconds.",
        ),
        (
            "idle_timeout",
            ["assistant", "toolResult", "toolResult"],
            ABORTED,
            ("error", "timeout"),
            ["follow-up"],
            "Nothing happened for idle_timeout=0.05 seconds.",
        ),
        ("model failed", ["assistant"], "error", ("error", "error"), ["follow-up"], "overloaded"),
        (
            "stream function raised",
            ["assistant"],
            "error",
            ("error", "error"),
            ["follow-up"],
            "fell over",
        ),
        (
            "turn hook raised",
            ["assistant", "assistant"],
            "error",
            ("error", "error"),
            ["follow-up"],
            "fell over",
        ),
    ],
)
async def test_every_row_of_the_table_of_endings(
    ending: str,
    roles: list[str],
    last: str,
    ended: tuple[str, str | None],
    queues: list[str],
    error: str | None,
) -> None:
    assert await run_to(ending) == {
        "roles": roles,
        "last": last,
        "ended": ended,
        "queues": queues,
        "error": error,
    }


async def test_when_the_outer_task_is_cancelled_the_queues_are_kept_too() -> None:
    started = asyncio.Event()

    async def wait() -> None:
        started.set()
        await hang()

    agent, _, _ = scripted(Reply(calls=[Call("wait")]), tools=[wait])
    running = asyncio.create_task(agent.prompt("go"))
    await started.wait()
    agent.steer("s")
    agent.follow_up("f")
    running.cancel()
    await asyncio.wait({running})

    assert running.cancelled()
    assert agent.has_queued_messages()
    assert texts(results(agent.state.messages)) == [ABORTED]


async def test_the_last_reply_decides_the_stop_reason_of_a_run_that_goes_on() -> None:
    agent, _, _ = scripted(Reply(calls=[Call("finish")]), "More.", tools=[finish])
    agent.follow_up("one more thing")

    result = await agent.prompt("go")

    assert (result.stop_reason, result.stopped_by, result.text) == ("stop", None, "More.")


async def test_text_is_that_of_the_last_reply() -> None:
    agent, _, _ = scripted(Reply("First", calls=[ADD]), "Second", tools=[add])

    result = await agent.prompt("go")

    assert result.text == "Second"
    assert result.output is None


async def test_usage_adds_up_all_requests_retries_and_tools() -> None:
    one = Usage(input=1, output=10, total_tokens=11)

    def spend() -> AgentToolResult:
        return AgentToolResult([TextContent("spent")], usage=Usage(input=1000, total_tokens=1000))

    agent, model, _ = scripted(
        Reply(calls=[Call("spend")], usage=one), Reply("Done.", usage=one), tools=[spend]
    )

    def with_retry(*args: Any, **options: Any) -> AssistantStream:
        inner = model.stream_fn(*args, **options)

        async def events() -> AsyncIterator[Any]:
            yield Retry(1, 3, 0.0, "overloaded", Usage(input=100, total_tokens=100))
            async for event in inner:
                yield event

        return AssistantStream.from_events(events())

    agent.stream_fn = with_retry
    result = await agent.prompt("go")

    assert result.usage.input == 1 + 1 + 1000 + 100 + 100
    assert result.usage.output == 20


async def test_undelivered_messages_are_said_by_the_next_prompt() -> None:
    agent, model, _ = scripted(Reply(error="broken"), "Both.")
    agent.finish_turn = lambda turn: agent.steer("by the way") if len(model.requests) == 1 else None

    first = await agent.prompt("go")
    second = await agent.prompt("again")

    assert texts(first.undelivered) == ["by the way"]
    assert second.undelivered == ()
    assert texts(model.requests[1].context.messages) == ["go", "again", "by the way"]


async def test_a_run_without_any_reply_has_no_text() -> None:
    agent, _, _ = scripted("Never.")
    agent.subscribe(lambda event: agent.abort() if event.type == "agent_start" else None)

    result = await agent.prompt("go")

    assert result.text == ""
    assert result.stop_reason == "aborted"
    assert not [m for m in result.messages if isinstance(m, ToolResultMessage)]


@pytest.mark.parametrize(
    "reply", [Reply("Done."), Reply("Cut", stop_reason="length")], ids=["stop", "length"]
)
async def test_case_148_raise_on_error_returns_the_result_of_a_run_that_went_well(
    reply: Reply,
) -> None:
    agent, _, _ = scripted(reply)

    result = await agent.prompt("go")

    assert result.raise_on_error() is result


async def test_case_148_raise_on_error_raises_the_text_of_a_run_that_failed() -> None:
    agent, _, _ = scripted(Reply("half", error="overloaded"))

    result = await agent.prompt("go")

    with pytest.raises(RunFailed, match="overloaded") as caught:
        result.raise_on_error()
    assert str(caught.value) == result.error_message
    assert (caught.value.stop_reason, caught.value.stopped_by) == ("error", result.stopped_by)


async def test_case_148_raise_on_error_raises_for_a_run_that_was_stopped() -> None:
    agent, _, _ = scripted(Reply(calls=[Call("hang", id="h")]), tools=[hang])
    agent.run_timeout = 0.05

    result = await agent.prompt("go")

    with pytest.raises(RunFailed, match="run_timeout") as caught:
        result.raise_on_error()
    assert (caught.value.stop_reason, caught.value.stopped_by) == ("aborted", "timeout")


@pytest.mark.parametrize("builtin", [RuntimeError, ValueError])
async def test_case_148_nothing_to_resume_is_caught_as_in_the_ports(
    builtin: type[Exception],
) -> None:
    agent, _, _ = scripted()

    with pytest.raises(builtin) as caught:
        await agent.resume()

    assert isinstance(caught.value, NothingToResume)
    assert isinstance(caught.value, LoopwrightError)


async def test_case_148_a_busy_agent_is_caught_as_a_runtime_error() -> None:
    agent, _, _ = scripted(Reply(calls=[Call("hang", id="h")]), tools=[hang])
    running = asyncio.ensure_future(agent.prompt("go"))
    await asyncio.sleep(0)

    with pytest.raises(RuntimeError) as caught:
        await agent.prompt("again")

    assert isinstance(caught.value, AgentBusy)
    agent.abort()
    await running


def test_case_148_no_stream_function_is_caught_as_a_runtime_error() -> None:
    with pytest.raises(RuntimeError) as caught:
        agent_loop(
            [UserMessage("go")],
            AgentContext(),
            AgentLoopConfig(model=Model("nowhere", "large", "none")),
        )

    assert isinstance(caught.value, NoStreamFunction)
