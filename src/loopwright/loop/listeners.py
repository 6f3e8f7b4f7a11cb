"""Who is told of an agent's events: in the order they subscribed, each awaited, none trusted.

A listener that raises is reported and changes nothing for the run or the others. As long as all
are sync, telling them takes no await.
"""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from collections.abc import Awaitable, Callable
from typing import Any

from ..events import AgentEvent, MessageUpdate
from ..signals import AbortSignal
from .agent_state import AgentState
from .faults import is_failure
from .hooks import with_signal
from .interrupt import GRACE_SECONDS

__all__ = ["Listener", "Listeners", "emitter", "hear_last", "tell_rest"]

Listener = Callable[..., Any]
"""`listener(event, signal)` or `listener(event)`, sync or async."""

_Tell = Callable[[AgentEvent, AbortSignal], Any]


class Listeners:
    """The subscribers of one agent."""

    __slots__ = ("told",)

    def __init__(self) -> None:
        self.told: tuple[_Tell, ...] = ()
        """Replaced, never changed, so that one can unsubscribe while all are being told."""

    def add(self, listener: Listener) -> Callable[[], None]:
        """Tell *listener* of every event from now on. Returns what stops that."""
        entry: _Tell = with_signal(listener)
        self.told = (*self.told, entry)
        subscribed = True

        def unsubscribe() -> None:
            nonlocal subscribed
            if subscribed:
                subscribed = False
                rest = list(self.told)
                rest.remove(entry)  # the same function may be there twice; one of them goes
                self.told = tuple(rest)

        return unsubscribe


def emitter(
    state: AgentState,
    listeners: Listeners,
    signal: AbortSignal,
    report: Callable[[BaseException], None],
) -> Callable[[AgentEvent], Awaitable[None] | None]:
    """What the kernel reports a run to: the state takes note first, then the listeners hear."""
    apply = state.apply

    def emit(event: AgentEvent) -> Awaitable[None] | None:
        # Called for every delta: no await and no further call while listeners are sync.
        if type(event) is MessageUpdate:
            state._streaming = event  # pyright: ignore[reportPrivateUsage]
        else:
            apply(event)
        told = listeners.told
        position = 0
        for listener in told:
            position += 1
            try:
                waiting = listener(event, signal)
            except BaseException as error:
                if not isinstance(error, CancelledError) and not is_failure(error):
                    raise
                report(error)
                continue
            if waiting is not None and hasattr(waiting, "__await__"):
                if position == len(told):
                    return hear_last(waiting, report)
                return tell_rest(waiting, told[position:], event, signal, report)
        return None

    return emit


async def hear_last(
    waiting: Awaitable[Any],
    report: Callable[[BaseException], None],
) -> None:
    """`tell_rest` where nobody is behind: what nearly every async listener's delta goes through."""
    try:
        await waiting
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        report(error)  # something inside the listener was cancelled, not the run
    except BaseException as error:
        if not is_failure(error):
            raise
        report(error)


async def tell_rest(
    waiting: Awaitable[Any] | None,
    rest: tuple[_Tell, ...],
    event: AgentEvent,
    signal: AbortSignal,
    report: Callable[[BaseException], None],
) -> None:
    """Await what the first async listener returned, then go on with those behind it.

    A cancellation does not keep the others from hearing of the event: it is raised when they have,
    all within one grace time.
    """
    cancelled: asyncio.CancelledError | None = None
    deadline: float | None = None
    position = 0
    while True:
        try:
            if waiting is not None:
                if cancelled is None:
                    await waiting
                else:
                    async with asyncio.timeout_at(deadline):
                        await waiting
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                cancelled = error
                if deadline is None:
                    deadline = asyncio.get_running_loop().time() + GRACE_SECONDS / 2
            else:  # something inside the listener was cancelled, not the run
                report(error)
        except BaseException as error:
            if not is_failure(error):
                raise
            report(error)
        if position == len(rest):
            break
        waiting = None
        listener = rest[position]
        position += 1
        try:
            value = listener(event, signal)
            waiting = value if value is not None and hasattr(value, "__await__") else None
        except BaseException as error:
            if not isinstance(error, asyncio.CancelledError) and not is_failure(error):
                raise
            report(error)
    if cancelled is not None:
        raise cancelled
