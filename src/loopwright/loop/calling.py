"""Calling code of unknown colour without ever blocking the event loop.

Not here: threads themselves (threads.py).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from ..signals import AbortSignal
from .signature import InvalidTool
from .threads import run_unless_aborted

__all__ = ["call_blocking", "is_async", "refuse_generator"]


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling *function* gives a coroutine; sees through partials and callable objects."""
    return inspect.iscoroutinefunction(function) or (
        not inspect.isroutine(function) and inspect.iscoroutinefunction(type(function).__call__)
    )


def refuse_generator(function: Callable[..., Any], tool: str) -> None:
    """Raise `InvalidTool` if *function* yields: a tool has one result."""
    call: Any = function if inspect.isroutine(function) else type(function).__call__
    if any(
        inspect.isgeneratorfunction(code) or inspect.isasyncgenfunction(code)
        for code in (function, call)
    ):
        raise InvalidTool(
            f"tool {tool!r} yields, but a tool returns one result",
            hint="return a list; to report progress take `ctx: ToolContext`, call `ctx.update(...)`",
        )


async def call_blocking(
    signal: AbortSignal | None, function: Callable[..., Any], /, *args: Any, **kwargs: Any
) -> Any:
    """Call a sync *function* in a thread; if it hands back an awaitable, await that here.

    Once *signal* has fired no thread is begun: `CancelledError` comes instead.
    """
    value = await run_unless_aborted(signal, function, *args, **kwargs)
    return await value if inspect.isawaitable(value) else value
