"""Cancellations that a library uses inside itself are its own business, not the end of a run."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from loopwright import Agent
from loopwright.models import Context, Model
from loopwright.stream import AssistantMessageEvent, AssistantStream
from loopwright.testing import Call, Reply, ScriptedModel


async def _give_up_on_something() -> None:
    """What connection pools and timeouts do: cancel their own task, catch it, and take it back."""
    try:
        async with asyncio.timeout(0):
            await asyncio.get_running_loop().create_future()
    except TimeoutError:
        return


async def test_a_stream_function_that_times_something_out_is_not_cancelled() -> None:
    """anyio connects this way: every attempt that loses the race is cancelled."""
    scripted = ScriptedModel([Reply("hello")])

    async def ask(model: Model, context: Context, **options: Any) -> AssistantStream:
        await _give_up_on_something()
        return scripted.stream_fn(model, context, **options)

    result = await Agent(scripted.model, stream_fn=ask).prompt("hi")

    assert (result.stop_reason, result.text) == ("stop", "hello")


async def test_nor_is_a_run_whose_source_hooks_listeners_and_tools_do() -> None:
    """The same at every other place where foreign code is awaited."""
    scripted = ScriptedModel([Reply(calls=[Call("wait")]), Reply("done")])

    async def wait() -> str:
        await _give_up_on_something()
        return "waited"

    async def hook(*_: object) -> Any:
        await _give_up_on_something()

    async def slowly(model: Model, context: Context, **options: Any) -> Any:
        stream = scripted.stream_fn(model, context, **options)

        async def events() -> AsyncGenerator[AssistantMessageEvent, None]:
            async for event in stream:
                await _give_up_on_something()
                yield event

        return AssistantStream.from_events(events())

    agent = Agent(
        scripted.model,
        stream_fn=slowly,
        tools=[wait],
        before_tool_call=hook,
        after_tool_call=hook,
        prepare_request=hook,
        prepare_next_turn=hook,
        finish_turn=hook,
        should_stop_after_turn=hook,
    )
    agent.subscribe(hook)

    result = await agent.prompt("go")

    assert (result.stop_reason, result.stopped_by, result.text) == ("stop", None, "done")
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
