"""Hooks that decide: in time, off the event loop, and never ending the program."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from loopwright import Agent, BeforeToolCall, BeforeToolCallResult
from loopwright.errors import Misuse
from loopwright.extensions import Extension, Hooks, combine
from loopwright.loop.hook_calls import VERDICT_SECONDS, time_limit, watching
from loopwright.messages import TextContent, ToolResultMessage
from loopwright.permissions import Policy, permission_gate
from loopwright.testing import Call, Reply, ScriptedModel

ran: list[str] = []


@pytest.fixture(autouse=True)
def nothing_ran_yet() -> None:
    ran.clear()


def publish(what: str) -> str:
    """Publish."""
    ran.append(what)
    return f"published {what}"


def agent_with(hook: Any, *calls: Call, **options: Any) -> Agent[Any]:
    model = ScriptedModel(
        [Reply(calls=list(calls) or [Call("publish", {"what": "a"})]), Reply("Done.")]
    )
    return Agent(
        model.model, stream_fn=model.stream_fn, tools=[publish], before_tool_call=hook, **options
    )


async def outcome(agent: Agent[Any]) -> list[str]:
    """The texts of the results; the run must have come to its own end."""
    result = await asyncio.wait_for(agent.prompt("go"), 10)
    assert (result.text, result.stop_reason) == ("Done.", "stop")
    return [
        block.text
        for message in result.messages
        if isinstance(message, ToolResultMessage)
        for block in message.content
        if isinstance(block, TextContent)
    ]


def ignore(error: BaseException, where: str) -> None: ...


async def sleeps(call: BeforeToolCall) -> None:
    await asyncio.sleep(3600)


def hold() -> tuple[Callable[[BeforeToolCall], None], threading.Event]:
    free = threading.Event()

    def blocks(call: BeforeToolCall) -> None:
        free.wait(10)

    return blocks, free


@pytest.mark.parametrize("place", ["agent", "extension", "gate"])
@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_case_142_a_hook_that_is_late_gives_no_permission(kind: str, place: str) -> None:
    sync, free = hold()
    hook: Any = time_limit(0.02)(sleeps if kind == "async" else sync)
    if place == "extension":
        hook = combine([Extension("x", hooks=Hooks(before_tool_call=hook))]).before_tool_call
    elif place == "gate":
        hook = permission_gate(Policy("yolo"), then=hook)

    (text,) = await outcome(agent_with(hook))

    free.set()
    assert "gave no verdict in time" in text
    assert ran == []


async def test_case_142_a_sync_hook_does_not_hold_up_other_runs() -> None:
    hook, free = hold()
    waiting = asyncio.create_task(outcome(agent_with(hook)))

    def release(call: BeforeToolCall) -> None:
        free.set()

    other = await asyncio.wait_for(outcome(agent_with(release)), 5)

    assert other == ["published a"]
    assert await waiting == ["published a"]


class Odd(BaseException):
    pass


@pytest.mark.parametrize(
    "error", [SystemExit(3), Odd("x"), ValueError("x"), BaseExceptionGroup("g", [SystemExit(1)])]
)
@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_case_142_no_exception_of_a_gate_leaves_the_run(
    kind: str, error: BaseException
) -> None:
    async def later(call: BeforeToolCall) -> None:
        raise error

    def at_once(call: BeforeToolCall) -> None:
        raise error

    (text,) = await outcome(agent_with(later if kind == "async" else at_once))

    assert text.startswith("The tool 'publish' was not run: the hook before_tool_call failed")
    assert ran == []


@pytest.mark.parametrize(
    "name",
    [
        "transform_context", "after_tool_call", "prepare_request", "prepare_next_turn", "finish_turn",
        "should_stop_after_turn",
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_case_142_system_exit_in_any_hook_stays_within_the_run(kind: str, name: str) -> None:
    async def later(value: Any) -> None:
        raise SystemExit(3)

    def at_once(value: Any) -> None:
        raise SystemExit(3)

    agent = agent_with(None, on_error=ignore)
    setattr(agent, name, later if kind == "async" else at_once)

    await asyncio.wait_for(agent.prompt("go"), 10)

    assert not agent.state.is_streaming


async def test_case_142_a_hook_that_only_watches_is_not_waited_for() -> None:
    saw = asyncio.Event()

    @watching
    async def watch(call: BeforeToolCall) -> BeforeToolCallResult:
        saw.set()
        await asyncio.sleep(3600)
        return BeforeToolCallResult(block=True)

    assert await outcome(agent_with(watch)) == ["published a"]
    assert saw.is_set()
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


async def test_case_142_an_abort_ends_a_hanging_hook() -> None:
    agent = agent_with(time_limit(None)(sleeps))
    running = asyncio.create_task(agent.prompt("go"))
    while not agent.state.pending_tool_calls:
        await asyncio.sleep(0)
    began = time.monotonic()
    agent.abort()

    assert (await running).stop_reason == "aborted"
    assert time.monotonic() - began < 5
    assert ran == []


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_case_142_a_limit_is_above_zero(seconds: float) -> None:
    with pytest.raises(Misuse, match="above 0"):
        time_limit(seconds)
    assert VERDICT_SECONDS > 0


@pytest.mark.parametrize(
    "call",
    [
        Call("nope", {"x": 1}), Call("", {}), Call("publish", {"what": {"no": "text"}}),
        Call("publish", {}), Call("Publish", {"what": "a"}),
    ],
)  # fmt: skip
async def test_case_143_a_gate_is_only_asked_about_calls_that_could_run(call: Call) -> None:
    asked: list[str] = []

    def gate(question: BeforeToolCall) -> None:
        asked.append(question.args["what"])

    texts = await outcome(agent_with(gate, call, Call("publish", {"what": "b"})))

    assert asked == ["b"]
    assert len(texts) == 2
    assert ran == ["b"]
