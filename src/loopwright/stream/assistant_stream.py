"""One reply as a stream: events, the final message, and a way to stop it.

The source runs in the reader's own task: no queue, no second task. It hands over batches, all
events that one network read produced; reading one by one is a thin layer on top. A stream never
raises for a failed request: it ends with `Error`.

Not here: making events (ReplyBuilder, StreamWriter), or deciding to try again (models.retry).
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable
from typing import Any, Literal, Protocol, cast

import msgspec

from ..messages import AssistantMessage
from .events import AssistantMessageEvent, Done, Error, StreamEvent
from .follower import Follower

__all__ = ["AssistantStream", "EventSource"]

_current_task = asyncio.current_task
_INCOMPLETE = "The stream ended before the reply was complete."


class EventSource(Protocol):
    """Where a stream's batches come from: an async generator, or what looks like one."""

    def __aiter__(self) -> AsyncIterator[list[AssistantMessageEvent]]:
        """Iterate over batches; an empty one says that the connection is alive."""
        ...


class AssistantStream:
    """The events of one reply. Iterate it, or await `result()`, or both, once each.

    *head* names the model in a message that must be made up because the source failed before it
    said anything.
    """

    __slots__ = (
        "_adopt",
        "_asked",
        "_baseline",
        "_cancelled",
        "_close",
        "_finished",
        "_head",
        "_last",
        "_next",
        "_result",
        "_task",
        "_unread",
        "_waiting",
    )

    def __init__(self, source: EventSource, *, head: AssistantMessage | None = None) -> None:
        iterator = source.__aiter__()
        self._next: Callable[[], Any] = iterator.__anext__
        self._close: Callable[[], Any] | None = getattr(iterator, "aclose", None)
        self._head = head
        self._adopt: Callable[[Any], StreamEvent] | None = None
        self._unread: list[AssistantMessageEvent] = []  # of the current batch, last one first
        self._last: StreamEvent | None = None
        self._result: AssistantMessage | None = None
        self._finished: asyncio.Future[None] | None = None
        self._cancelled = False
        # Cancelling an await of ours: who waits, whether we asked, and how often others had.
        self._task: asyncio.Task[Any] | None = None
        self._waiting = False
        self._asked = False
        self._baseline = 0

    @classmethod
    def from_events(
        cls,
        events: AsyncIterable[AssistantMessageEvent] | Iterable[AssistantMessageEvent],
        *,
        head: AssistantMessage | None = None,
    ) -> AssistantStream:
        """A stream over events made by hand, such as an async generator's.

        Their `partial` may be left out: it is followed. The last event must be `Done` or `Error`;
        an exception of the source becomes an `Error`.
        """
        source = events if isinstance(events, AsyncIterable) else _as_async(events)
        stream = cls(cast("EventSource", source), head=head)
        stream._adopt = Follower(head or AssistantMessage([])).adopt
        return stream

    # -- reading ------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[AssistantMessageEvent]:
        return self._one_by_one()

    async def _one_by_one(self) -> AsyncGenerator[AssistantMessageEvent, None]:
        self._task = None
        while True:
            while self._unread:
                self._last = event = self._unread.pop()
                yield event
                if self._cancelled and self._result is None:
                    self._unread.clear()
            batch = await self.next_batch()
            if batch is None:
                return
            batch.reverse()
            self._unread = batch

    async def __aenter__(self) -> AssistantStream:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def next_batch(self) -> list[AssistantMessageEvent] | None:
        """All events that came together, None when the stream is over.

        An empty list is a sign of life without news. After `cancel` the next batch is the closing
        `Error`. All batches are read by one task.
        """
        if self._result is not None:
            return None
        if self._cancelled:
            return await self._end([self._aborted()])
        if self._waiting:
            raise RuntimeError("another task is already reading this stream")
        if self._task is None:  # asking for it costs more than all the rest of this method
            self._task = _current_task()
        self._waiting = True
        try:
            batch: Any = await self._next()
            if self._adopt is not None:
                batch = [self._adopt(batch)]
        except StopAsyncIteration:
            batch = [self._failed(_INCOMPLETE, kind="incomplete_stream", retryable=True)]
        except asyncio.CancelledError:
            self._waiting = False
            if not self._was_ours():
                await self._shut()
                raise
            batch = [self._aborted()]
        except Exception as error:
            batch = [self._failed(_text_of(error))]
        self._waiting = False
        if self._asked:  # the source swallowed our cancellation; what it said is too late
            if not self._was_ours():
                raise asyncio.CancelledError
            batch = [self._aborted()]
        if batch:
            self._last = last = batch[-1]
            if type(last) is Done or type(last) is Error:
                return await self._end(batch)
        return batch

    async def result(self) -> AssistantMessage:
        """The final message, whatever its stop reason. Reads what has not been read."""
        while self._result is None:
            if self._waiting:  # somebody else reads; wait until they are through
                if self._finished is None:
                    self._finished = asyncio.get_running_loop().create_future()
                await asyncio.shield(self._finished)
            else:
                self._task = None
                await self.next_batch()
        return self._result

    @property
    def ended(self) -> bool:
        """The reply is over: complete, failed or aborted."""
        return self._result is not None

    def cancel(self) -> None:
        """Stop: the reader gets an `Error` with reason `aborted` next. Idempotent; call it in
        the reader's event loop."""
        if self._result is not None or self._cancelled:
            return
        self._cancelled = True
        task = self._task
        if self._waiting and task is not None and not self._is_running(task):
            self._asked = True
            self._baseline = task.cancelling()
            task.cancel()

    async def aclose(self) -> None:
        """Leave early: the source is closed at once, in this task."""
        self._cancelled = True
        if self._result is None and not self._waiting:
            await self._end([self._aborted()])

    # -- inside -------------------------------------------------------------------------------

    def _is_running(self, task: asyncio.Task[Any]) -> bool:
        """Whether *task* itself is what runs now: it cannot be waiting then."""
        try:
            return _current_task() is task
        except RuntimeError:
            return False

    def _was_ours(self) -> bool:
        """Take back the cancellation we asked for. False if an outer one is there as well."""
        if not self._asked:
            return False
        self._asked = False
        task = self._task
        return task is None or task.uncancel() <= self._baseline

    async def _end(self, batch: list[AssistantMessageEvent]) -> list[AssistantMessageEvent]:
        closing = batch[-1]
        self._result = closing.message if isinstance(closing, Done) else _error_of(closing)
        if self._finished is not None and not self._finished.done():
            self._finished.set_result(None)
        await self._shut()
        return batch

    async def _shut(self) -> None:
        close, self._close = self._close, None
        if close is not None:
            try:
                await close()
            except Exception:
                return  # the reply is over; a failing clean-up changes nothing about it

    def _partial(self) -> AssistantMessage:
        partial = getattr(self._last, "partial", None)
        return partial or self._head or AssistantMessage([])

    def _aborted(self) -> Error:
        return self._made_up("aborted", "Operation aborted")

    def _failed(self, text: str, *, kind: str | None = None, retryable: bool = False) -> Error:
        return self._made_up("error", text, kind=kind, retryable=retryable)

    def _made_up(
        self,
        reason: Literal["error", "aborted"],
        text: str,
        *,
        kind: str | None = None,
        retryable: bool = False,
    ) -> Error:
        message = msgspec.structs.replace(self._partial(), stop_reason=reason, error_message=text)
        return Error(reason, message, retryable, None, kind)


def _error_of(event: AssistantMessageEvent) -> AssistantMessage:
    assert isinstance(event, Error)
    return event.error


def _text_of(error: Exception) -> str:
    return str(error) or type(error).__name__


async def _as_async(
    events: Iterable[AssistantMessageEvent],
) -> AsyncGenerator[AssistantMessageEvent, None]:
    for event in events:
        yield event
