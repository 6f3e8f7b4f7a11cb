"""An agent's run, read event by event, the run keeping step with the reader.

The run is driven by a task that this handle owns. Each event is handed over, and the run goes on
when the reader asks for the next one.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any, Generic

from ..errors import Misuse
from ..events import AgentEvent
from .run_result import OutputT, RunResult

__all__ = ["AgentStream"]


class AgentStream(Generic[OutputT]):
    """Use it as an async context manager and iterate over it; `await result()` has the rest."""

    def __init__(
        self,
        subscribe: Callable[[Any], Callable[[], None]],
        start: Callable[[], Coroutine[Any, Any, RunResult[OutputT]]],
        abort: Callable[[], None],
    ) -> None:
        self._subscribe = subscribe
        self._start = start
        self._abort = abort
        self._unsubscribe: Callable[[], None] = lambda: None
        self._task: asyncio.Task[RunResult[OutputT]] | None = None
        self._events: deque[AgentEvent] = deque()
        self._news: asyncio.Future[None] | None = None
        self._taken: asyncio.Future[None] | None = None
        self._reading = True
        self._left = False
        self._begun = False

    async def __aenter__(self) -> AgentStream[OutputT]:
        if self._task is not None:
            raise Misuse("a stream of events is entered once; call stream() again")
        loop = asyncio.get_running_loop()
        self._unsubscribe = self._subscribe(self._hand_over)
        self._task = loop.create_task(self._drive())
        self._task.add_done_callback(lambda _: self._wake_reader())
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        """Leave; a run that has not ended is aborted and waited for."""
        task = self._task
        assert task is not None
        self._left = True
        self._let_go()
        if not task.done():
            self._abort()
        cancelled: asyncio.CancelledError | None = None
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError as error:  # however often; the run does not take long
                cancelled = error
                task.cancel()
        self._unsubscribe()
        if not task.cancelled():
            task.exception()  # looked at, so that nothing is logged about it
        if cancelled is not None:
            raise cancelled

    def __aiter__(self) -> AsyncIterator[AgentEvent]:
        if self._task is None:
            raise Misuse("enter the stream first: async with agent.stream(...) as events:")
        return self

    async def __anext__(self) -> AgentEvent:
        task = self._task
        assert task is not None
        if self._taken is not None and not self._taken.done():
            self._taken.set_result(None)
        while not self._events:
            if task.done():
                task.result()  # a wrong call raises here, where it was made
                raise StopAsyncIteration
            self._news = asyncio.get_running_loop().create_future()
            await self._news
        return self._events.popleft()

    async def result(self) -> RunResult[OutputT]:
        """The result of the run. Events that were not read are passed over."""
        if self._task is None:
            raise Misuse("enter the stream first: async with agent.stream(...) as events:")
        self._let_go()
        return await asyncio.shield(self._task)

    def _let_go(self) -> None:
        """The reader wants no more events: the run no longer waits for it."""
        self._reading = False
        if self._taken is not None and not self._taken.done():
            self._taken.set_result(None)

    async def _drive(self) -> RunResult[OutputT]:
        self._begun = True  # events before this are of another run
        try:
            return await self._start()
        except Misuse:
            self._begun = False  # refused, because that other run is still going on
            raise

    async def _hand_over(self, event: AgentEvent) -> None:
        if not self._begun:
            return
        if self._left:
            self._abort()  # again, since the run may not have begun when the reader left
        if not self._reading:
            return
        self._events.append(event)
        self._wake_reader()
        self._taken = asyncio.get_running_loop().create_future()
        await self._taken

    def _wake_reader(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)
