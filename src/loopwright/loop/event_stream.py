"""The loop as a stream of events that nobody has to read: ordered, but not a barrier.

The run does not wait for the reader. Who wants the run to wait uses `run_agent_loop` with an
awaited callback, or `Agent`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

from ..events import AgentEvent
from ..messages import AgentMessage
from ..signals import AbortController, AbortSignal
from .config import AgentLoopConfig
from .context import AgentContext
from .kernel import run_agent_loop, run_agent_loop_continue
from .prompts import check_prompts, check_resumable
from .run import Emit, StreamFn
from .stream_function import stream_function

__all__ = ["AgentEventStream", "agent_loop", "agent_loop_continue"]


class AgentEventStream:
    """The events of one run. It owns the run's task; iterate it, or just await `result()`."""

    def __init__(self, start: Callable[[Emit, AbortSignal], Awaitable[list[AgentMessage]]]) -> None:
        self._events: deque[AgentEvent] = deque()
        self._news: asyncio.Future[None] | None = None
        self._controller = AbortController()
        loop = asyncio.get_running_loop()  # before the coroutine is made, which needs one
        self._task = asyncio.ensure_future(start(self._emit, self._controller.signal), loop=loop)
        self._task.add_done_callback(lambda _: self._wake())

    def _emit(self, event: AgentEvent) -> None:
        self._events.append(event)
        self._wake()

    def _wake(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    def __aiter__(self) -> AsyncIterator[AgentEvent]:
        return self

    async def __anext__(self) -> AgentEvent:
        while not self._events:
            if self._task.done():
                if not self._task.cancelled():
                    self._task.result()  # what a tool raised that was no `Exception` comes out
                raise StopAsyncIteration
            self._news = asyncio.get_running_loop().create_future()
            try:
                await self._news
            except asyncio.CancelledError:
                await self._leave()
                raise
        return self._events.popleft()

    async def result(self) -> list[AgentMessage]:
        """The messages the run added, once it is over."""
        try:
            return await asyncio.shield(self._task)
        except asyncio.CancelledError:
            await self._leave()
            raise

    def cancel(self, reason: object = None) -> None:
        """Abort the run; it ends with its closing events."""
        self._controller.abort(reason)

    async def aclose(self) -> None:
        """Abort the run and wait until it has ended."""
        self.cancel()
        try:
            await asyncio.wait({self._task})
        except asyncio.CancelledError:
            await self._leave()
            raise

    async def __aenter__(self) -> AgentEventStream:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def _leave(self) -> None:
        """The reader was cancelled: the run ends with it, and first, however often that happens."""
        self._task.cancel()
        while not self._task.done():
            try:
                await asyncio.wait({self._task})
            except asyncio.CancelledError:
                self._task.cancel()


def agent_loop(
    prompts: Sequence[AgentMessage],
    context: AgentContext,
    config: AgentLoopConfig,
    stream_fn: StreamFn | None = None,
    signal: AbortSignal | None = None,
) -> AgentEventStream:
    """Start a run and watch it. See `run_agent_loop`; needs a running event loop."""
    check_prompts(prompts)
    stream_fn = stream_function(stream_fn, config.model)

    async def start(emit: Emit, own: AbortSignal) -> list[AgentMessage]:
        with _Joined(own, signal) as both:
            return await run_agent_loop(prompts, context, config, emit, both, stream_fn)

    return AgentEventStream(start)


def agent_loop_continue(
    context: AgentContext,
    config: AgentLoopConfig,
    stream_fn: StreamFn | None = None,
    signal: AbortSignal | None = None,
) -> AgentEventStream:
    """Start a run without a new message and watch it. See `run_agent_loop_continue`."""
    check_resumable(context.messages)
    stream_fn = stream_function(stream_fn, config.model)

    async def start(emit: Emit, own: AbortSignal) -> list[AgentMessage]:
        with _Joined(own, signal) as both:
            return await run_agent_loop_continue(context, config, emit, both, stream_fn)

    return AgentEventStream(start)


class _Joined:
    """A signal that fires with either of two, and lets go of both afterwards."""

    def __init__(self, *signals: AbortSignal | None) -> None:
        self._signals = [signal for signal in signals if signal is not None]
        self._unregister: list[Callable[[], None]] = []

    def __enter__(self) -> AbortSignal:
        controller = AbortController()
        for signal in self._signals:
            self._unregister.append(
                signal.on_abort(lambda signal=signal: controller.abort(signal.reason))
            )
        return controller.signal

    def __exit__(self, *exc_info: object) -> None:
        for unregister in self._unregister:
            unregister()
