"""One reply as a stream: events, the final message, and a way to stop it.

The source runs in the reader's own task: no queue, no second task. It hands over batches, all
events that one network read produced; reading one by one is a thin layer on top. A stream never
raises for a failed request: it ends with `Error`.

Not here: making events (ReplyBuilder, StreamWriter), or deciding to try again (models.retry).
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, AsyncIterable, AsyncIterator, Callable, Iterable
from types import AsyncGeneratorType
from typing import Any, Literal, Protocol, cast, get_args

import msgspec

from ..messages import AssistantMessage
from .events import AssistantMessageEvent, Done, Error, StreamEvent, cut_off
from .follower import Follower

__all__ = ["AssistantStream", "EventSource"]

_current_task = asyncio.current_task
_INCOMPLETE = "The stream ended before the reply was complete."
_FROM_WITHIN = "The stream was cancelled from within, though nobody cancelled it."

_AGAIN_SECONDS = 0.5
"""A source that swallowed our cancellation and goes on waiting is cancelled once more after that."""

_CLOSING_SECONDS = 1.0
"""How long a source that was left early may take to clean up before it is cancelled."""


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
        "_reader",
        "_result",
        "_task",
        "_timer",
        "_unread",
        "_waiting",
    )

    def __init__(self, source: EventSource, *, head: AssistantMessage | None = None) -> None:
        iterator = source.__aiter__()
        self._next: Callable[[], Any] = iterator.__anext__
        self._close: Callable[[], Any] | None = getattr(iterator, "aclose", None)
        self._reader: weakref.ref[AsyncGeneratorType[AssistantMessageEvent, None]] | None = None
        self._head = head
        self._adopt: Callable[[Any], AssistantMessageEvent] | None = None
        self._unread: list[AssistantMessageEvent] = []  # of the current batch, last one first
        self._last: StreamEvent | None = None
        self._result: AssistantMessage | None = None
        self._finished: asyncio.Future[None] | None = None
        self._cancelled = False
        # Cancelling an await of ours: who waits, how often we asked, and how often others had when
        # the reading began.
        self._task: asyncio.Task[Any] | None = None
        self._waiting = False
        self._asked = 0
        self._baseline = 0
        self._timer: asyncio.TimerHandle | None = None

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
        follower = Follower(head or AssistantMessage([]))
        stream._adopt = cast("Callable[[Any], AssistantMessageEvent]", follower.adopt)
        return stream

    # -- reading ------------------------------------------------------------------------------

    def __aiter__(self) -> AsyncIterator[AssistantMessageEvent]:
        reader = cast("AsyncGeneratorType[AssistantMessageEvent, None]", self._one_by_one())
        self._reader = weakref.ref(reader)  # it holds us
        return reader

    async def _one_by_one(self) -> AsyncGenerator[AssistantMessageEvent, None]:
        self._task = None
        while True:
            while self._unread:
                self._last = event = self._unread.pop()
                yield event
                if self._cancelled and self._unread:
                    self._unread.clear()
                    if self._result is not None:  # the end had come, but nobody had seen it
                        closing = self._aborted()
                        self._result = closing.error
                        yield closing
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
        if self._waiting or self._task is None or self._cancelled or self._result is not None:
            if self._result is not None:
                return None
            if self._cancelled:
                return await self._end([self._aborted()])
            if self._waiting:
                raise RuntimeError("another task is already reading this stream")
            self._begin_reading()  # once: asking for the task costs more than all the rest
        self._waiting = True
        try:
            batch: list[AssistantMessageEvent] = await self._next()  # as the source promises
            if self._adopt is not None:
                batch = [self._adopt(batch)]
        except StopAsyncIteration:
            batch = [self._failed(_INCOMPLETE, kind="incomplete_stream", retryable=True)]
        except asyncio.CancelledError:
            self._waiting = False
            ours = self._asked > 0
            if self._take_back():
                await self._shut()
                self._wake()
                raise
            batch = [self._aborted() if ours else self._failed(_FROM_WITHIN)]
        except Exception as error:  # noqa: BLE001 - a source is anybody's code
            batch = [self._failed(_text_of(error))]
        except BaseException as error:
            self._waiting = False
            if isinstance(error, GeneratorExit):  # the event loop is gone; nothing can be awaited
                self._close = None
            raise
        self._waiting = False
        if not self._asked and type(batch) is list:  # the short way for nearly all batches
            if not batch:
                return batch
            last = batch[-1]
            if type(last) in _UPDATES:
                self._last = last
                return batch
        return await self._examine(batch)

    async def _examine(self, batch: Any) -> list[AssistantMessageEvent]:
        """Look closely at a batch that may be the last one, come too late, or be none."""
        if self._asked:  # the source swallowed our cancellation; what it said is too late
            if self._take_back():
                self._wake()
                raise asyncio.CancelledError
            batch = [self._aborted()]
        events = _as_batch(batch) or []
        if not events:
            text = (
                f"a stream's source gives lists of stream events, not {type(batch).__name__}; for "
                "single events use AssistantStream.from_events(...)"
            )
            events.append(self._failed(text))
        self._last = last = events[-1]
        if type(last) is Done or type(last) is Error:
            said: Any = last.message if isinstance(last, Done) else last.error
            if not isinstance(said, AssistantMessage):
                kind = type(said).__name__
                events[-1] = self._failed(f"the closing event holds no message, but a {kind}")
            return await self._end(events)
        return events

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
        over = self._result is not None and not self._unread and not self._waiting
        if self._cancelled or over:
            return
        self._cancelled = True
        self._strike()

    async def aclose(self) -> None:
        """Leave early: the source is closed at once, in this task, and iterating is over."""
        if self._waiting:
            self.cancel()  # another task reads; its reading ends, and closes the source
            return
        if self._result is None:
            self._cancelled = True
            await self._end([self._aborted()])
        reader = self._reader() if self._reader is not None else None
        if reader is not None and not reader.ag_running:
            # Left by `break`, it would wait for the garbage collector, which starts a task for it.
            await reader.aclose()

    # -- inside -------------------------------------------------------------------------------

    def _begin_reading(self) -> None:
        self._task = task = _current_task()
        self._baseline = task.cancelling() if task is not None else 0

    def _strike(self) -> None:
        """Cancel what is awaited, and again if that is swallowed."""
        task = self._task
        if not self._waiting or task is None:
            return
        loop = task.get_loop()
        if self._is_running(task):  # the source itself asked; it does not wait yet
            loop.call_soon(self._strike)
            return
        self._asked += 1
        task.cancel()
        self._timer = loop.call_later(_AGAIN_SECONDS, self._strike)

    def _is_running(self, task: asyncio.Task[Any]) -> bool:
        """Whether *task* itself is what runs now: it cannot be waiting then."""
        try:
            return _current_task() is task
        except RuntimeError:
            return False

    def _take_back(self) -> bool:
        """Take back the cancellations we asked for. Whether an outer one is there as well."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        task = self._task
        if task is None:
            return True
        while self._asked:
            self._asked -= 1
            task.uncancel()
        return task.cancelling() > self._baseline

    async def _end(self, batch: list[AssistantMessageEvent]) -> list[AssistantMessageEvent]:
        closing = batch[-1]
        self._result = closing.message if isinstance(closing, Done) else _error_of(closing)
        self._wake()
        await self._shut()
        return batch

    def _wake(self) -> None:
        """Let those look again who wait for another task's reading to give the result."""
        finished, self._finished = self._finished, None
        if finished is not None and not finished.done():
            finished.set_result(None)

    async def _shut(self) -> None:
        """Close the source. Cancelled before or meanwhile, it has some time left, not for ever."""
        close, self._close = self._close, None
        if close is None:
            return
        self._begin_reading()
        self._waiting = True
        if self._cancelled or self._baseline:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(_CLOSING_SECONDS, self._strike)
        try:
            await close()
        except (Exception, asyncio.CancelledError):  # noqa: BLE001 - the reply is over
            return  # a failing clean-up changes nothing about it
        finally:
            self._waiting = False
            if self._take_back():
                raise asyncio.CancelledError

    def _partial(self) -> AssistantMessage:
        return cut_off(self._last) or self._head or AssistantMessage([])

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


def _as_batch(given: Any) -> list[AssistantMessageEvent] | None:
    """What a source gave, as a list of events; None if it is none. One event alone is taken as a
    list of one."""
    events = cast("list[Any]", given if type(given) is list else [given])
    return events if events and isinstance(events[-1], StreamEvent) else None


_UPDATES = frozenset(get_args(AssistantMessageEvent)) - {Done, Error}
"""The kinds of event after which a reply goes on; a vendor's own kind is looked at more closely."""


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
