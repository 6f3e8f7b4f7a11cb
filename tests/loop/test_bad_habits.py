"""Hooks, listeners and callers with bad habits of other kinds, each in a full scene.

They return what they should not, hang, swallow their cancellation, or call in odd places.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.loop.scenes import Scene, check, scripted
from tests.loop.virtual_time import VirtualTimeLoop

from loopwright import tool
from loopwright.events import AgentEvent
from loopwright.messages import AssistantMessage
from loopwright.testing import Call, Reply, ScriptedModel

GRACE_SECONDS = 2.0
SMALL = 0.3

Strike = Callable[[Scene, "asyncio.Task[None]"], object]


def abort(scene: Scene, caller: asyncio.Task[None]) -> None:
    scene.abort()


def cancel(scene: Scene, caller: asyncio.Task[None]) -> None:
    caller.cancel()


HOOKS = [
    "transform_context",
    "get_api_key",
    "before_tool_call",
    "after_tool_call",
    "prepare_request",
    "prepare_next_turn",
    "finish_turn",
    "should_stop_after_turn",
    "convert_to_llm",
]


@pytest.mark.parametrize("value", [3, "text", object(), [None]], ids=lambda v: type(v).__name__)
@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_that_returns_something_else_leaves_a_run_that_is_whole(
    hook: str, value: Any
) -> None:
    loop = VirtualTimeLoop()

    async def run() -> None:
        scene = Scene(scripted)
        setattr(scene.agent, hook, lambda *arguments: value)
        await scene.prompt()
        setattr(scene.agent, hook, None)
        await check(scene, loop)

    loop.live(run())


@pytest.mark.parametrize(("strike", "swallows"), [(abort, 0), (abort, 1), (cancel, 0)])
@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_that_hangs_and_swallows_its_cancellation_is_stopped_within_the_grace(
    hook: str, swallows: int, strike: Strike
) -> None:
    loop = VirtualTimeLoop()

    async def hang(*arguments: Any) -> None:
        for _ in range(swallows):
            try:
                await asyncio.sleep(1e6)
            except asyncio.CancelledError:
                continue
        await asyncio.sleep(1e6)

    async def run() -> None:
        scene = Scene(scripted)
        setattr(scene.agent, hook, hang)
        caller = asyncio.create_task(scene.prompt())
        loop.call_later(100, strike, scene, caller)
        await asyncio.wait({caller})
        assert loop.now - 100 <= GRACE_SECONDS + SMALL
        assert caller.cancelled() is (strike is cancel)
        setattr(scene.agent, hook, None)
        await check(scene, loop)

    loop.live(run())


@pytest.mark.parametrize("strike", [abort, cancel])
@pytest.mark.parametrize(
    "hung", ["message_start", "message_update", "tool_execution_end", "agent_end"]
)
def test_a_listener_that_hangs_does_not_keep_a_stopped_run_for_long(
    hung: str, strike: Strike
) -> None:
    loop = VirtualTimeLoop()

    async def run() -> None:
        scene = Scene(scripted)
        hang = True

        async def listen(event: AgentEvent) -> None:
            if hang and event.type == hung:
                await asyncio.sleep(1e6)

        scene.agent.subscribe(listen)
        scene.agent.subscribe(scene.plain_listener())
        caller = asyncio.create_task(scene.prompt())
        loop.call_later(100, strike, scene, caller)
        await asyncio.wait({caller})
        assert loop.now - 100 <= 2 * GRACE_SECONDS
        assert caller.cancelled() is (strike is cancel)
        hang = False
        await check(scene, loop)

    loop.live(run())


def test_a_prompt_under_a_timeout_raises_the_timeout_and_nothing_else() -> None:
    loop = VirtualTimeLoop()

    async def run() -> None:
        scene = Scene(scripted)
        scene.agent.finish_turn = lambda turn: asyncio.sleep(1e6)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await scene.prompt()
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        scene.agent.finish_turn = None
        await check(scene, loop)

    loop.live(run())


def test_a_prompt_in_the_clean_up_of_a_cancelled_task_runs_as_any_other() -> None:
    """The cancellation that is being dealt with is not about this run."""
    loop = VirtualTimeLoop()
    scene = Scene(scripted)

    async def cancelled() -> None:
        try:
            await asyncio.sleep(1e6)
        finally:
            await scene.prompt()

    async def run() -> None:
        task = asyncio.create_task(cancelled())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        last = scene.agent.state.messages[-1]
        assert isinstance(last, AssistantMessage)
        assert last.stop_reason == "stop"
        await check(scene, loop)

    loop.live(run())


def test_behaviour_102_a_thread_that_is_stuck_is_left_behind_after_the_grace() -> None:
    loop = VirtualTimeLoop()
    gate = threading.Event()

    @tool
    def stuck() -> str:
        loop.stuck += 1
        gate.wait(30)
        return "too late"

    async def run() -> None:
        scene = Scene(scripted)
        scene.agent.stream_fn = ScriptedModel([Reply(calls=[Call("stuck")])]).stream_fn
        scene.agent.state.tools = [stuck]
        loop.call_later(10, scene.abort)
        await scene.prompt()
        assert 0 < loop.now - 10 <= GRACE_SECONDS + SMALL
        await check(scene, loop)

    try:
        loop.live(run())
    finally:
        gate.set()
