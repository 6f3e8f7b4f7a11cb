"""A stream function with a span around each request: from the call to the end of the stream.

Not here: sending anything.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable
from typing import Any, cast

from ..messages import AssistantMessage
from ..models.model import Model
from ..stream import AssistantMessageEvent, AssistantStream, Done, Error, Retry, StreamWriter
from .attributes import error_kind, of_reply
from .spans import OUTCOME, OpenSpan

__all__ = ["RequestSpan", "TracedStreamFn"]


class RequestSpan:
    """One request that is going on: what is counted of it."""

    __slots__ = ("_asked_at", "_chunks", "_first_at", "_on_error", "_retries", "_waited", "span")

    def __init__(self, span: OpenSpan, on_error: Callable[[str], None]) -> None:
        """*on_error* is told the class of a failure."""
        self.span = span
        self._on_error = on_error
        self._asked_at = time.perf_counter()
        self._first_at: float | None = None
        self._chunks = 0
        self._retries = 0
        self._waited = 0.0

    def note(self, batch: list[AssistantMessageEvent]) -> None:
        """Events came in; called for each batch, not for each delta."""
        if self._first_at is None:
            batch = self._begin(batch)
        if not batch:
            return
        self._chunks += len(batch)
        last = batch[-1]
        if isinstance(last, Done | Error):
            self.close(last)
        elif isinstance(last, Retry):
            self._chunks -= 1
            self._retry(last)

    def _begin(self, batch: list[AssistantMessageEvent]) -> list[AssistantMessageEvent]:
        """Count the retries that come before anything is said. Returns what is said."""
        for position, event in enumerate(batch):
            if not isinstance(event, Retry):
                self._first_at = time.perf_counter()
                return batch[position:]
            self._retry(event)
        return []

    def _retry(self, event: Retry) -> None:
        self._retries += 1
        self._waited += event.delay_seconds

    def close(self, event: Done | Error) -> None:
        """The reply is over."""
        if isinstance(event, Done):
            self._close(event.message, None)
        else:
            self._close(event.error, error_kind(event.kind) or "error")

    def close_with(self, message: AssistantMessage) -> None:
        """The reply is over, and only the message is known."""
        self._close(message, "error" if message.stop_reason in ("error", "aborted") else None)

    def _close(self, message: AssistantMessage, error: str | None) -> None:
        if self.span.ended:
            return
        aborted = message.stop_reason == "aborted"
        self._count(of_reply(message))
        if aborted:
            self.span.cut_off()
        elif error is not None:
            self.fail(error)
        else:
            self.span.end()

    def _count(self, found: dict[str, Any]) -> None:
        if self._first_at is not None:
            found["loopwright.stream.chunk_count"] = self._chunks
            elapsed = (self._first_at - self._asked_at) * 1000
            found["loopwright.stream.time_to_first_chunk_ms"] = round(elapsed, 3)
        if self._retries:
            found["loopwright.request.retries"] = self._retries
            found["loopwright.request.retry_wait_ms"] = round(self._waited * 1000, 3)
        if found:
            self.span.set(found)

    def leave(self) -> None:
        """Nobody reads any further."""
        if not self.span.ended:
            self._count({})
            self.span.cut_off()

    def fail(self, error_type: str) -> None:
        """It came to nothing."""
        if not self.span.ended:
            self._on_error(error_type)
            self.span.set({OUTCOME: "failed"})
            self.span.end(error_type)


class TracedStream(AssistantStream):
    """Another stream, watched. Everything is asked of that one; its own state stays unset."""

    __slots__ = ("_inner", "_request", "_source")

    def __init__(self, inner: AssistantStream, request: RequestSpan) -> None:
        self._inner = inner
        self._source: AssistantStream = inner._source if isinstance(inner, TracedStream) else inner
        self._request = request

    def __aiter__(self) -> AsyncIterator[AssistantMessageEvent]:
        return _Watched(self._inner.__aiter__(), self._request)

    async def next_batch(self) -> list[AssistantMessageEvent] | None:
        """See `AssistantStream.next_batch`."""
        try:
            batch = await self._inner.next_batch()
        except (asyncio.CancelledError, GeneratorExit):
            self._request.leave()
            raise
        if batch:
            self._request.note(batch)
        return batch

    async def result(self) -> AssistantMessage:
        """See `AssistantStream.result`."""
        source = self._source
        while not source.ended and not source._waiting:
            source._task = None  # whoever read before is through
            await self.next_batch()
        message = await self._inner.result()
        last = source._last
        if isinstance(last, Error):
            self._request.close(last)
        else:
            self._request.close_with(message)
        return message

    @property
    def ended(self) -> bool:
        """See `AssistantStream.ended`."""
        return self._inner.ended

    def cancel(self) -> None:
        """See `AssistantStream.cancel`."""
        self._inner.cancel()

    async def aclose(self) -> None:
        """See `AssistantStream.aclose`."""
        try:
            await self._inner.aclose()
        finally:
            self._request.leave()


class _Watched:
    """The events of a stream, one by one. No generator: one that is left early needs closing."""

    __slots__ = ("_events", "_request")

    def __init__(self, events: AsyncIterator[AssistantMessageEvent], request: RequestSpan) -> None:
        self._events = events
        self._request = request

    def __aiter__(self) -> AsyncIterator[AssistantMessageEvent]:
        return self

    async def __anext__(self) -> AssistantMessageEvent:
        try:
            event = await self._events.__anext__()
        except (asyncio.CancelledError, GeneratorExit):
            self._request.leave()
            raise
        self._request.note([event])
        return event


class TracedStreamFn:
    """Stands where the agent's stream function was."""

    def __init__(
        self,
        inner: Callable[..., Any],
        begin: Callable[[Any, Any, dict[str, Any]], RequestSpan | None],
    ) -> None:
        """*begin* starts a request's span, or returns None where nothing is traced."""
        self.inner = inner
        self._begin = begin

    @property
    def __self__(self) -> Any:
        """Whose method it is: models are looked up there by name."""
        return getattr(self.inner, "__self__", self.inner)

    def __call__(self, model: Any, context: Any, /, **options: Any) -> Any:
        request = self._begin(model, context, options)
        if request is None:
            return self.inner(model, context, **options)
        try:
            stream = self.inner(model, context, **options)
        except BaseException as error:
            _failed(request, error)
            raise
        if hasattr(stream, "__await__"):
            return self._awaited(stream, model, request)
        return _watched(stream, model, request)

    async def _awaited(self, stream: Any, model: Any, request: RequestSpan) -> Any:
        try:
            stream = await stream
        except BaseException as error:
            _failed(request, error)
            raise
        return _watched(stream, model, request)


def _failed(request: RequestSpan, error: BaseException) -> None:
    if isinstance(error, Exception):
        request.fail(type(error).__name__)
    else:
        request.leave()


def _watched(stream: Any, model: Any, request: RequestSpan) -> Any:
    """The stream with its span, whichever of the kinds that the loop takes it is."""
    if isinstance(stream, StreamWriter):
        stream = stream.stream
    if isinstance(stream, AssistantStream):
        return TracedStream(stream, request)
    if isinstance(stream, AsyncIterable):
        head = AssistantMessage([])
        if isinstance(model, Model):
            head = AssistantMessage([], model.api, model.provider, model.id)
        events = AssistantStream.from_events(cast("AsyncIterable[Any]", stream), head=head)
        return TracedStream(events, request)
    request.fail("TypeError")  # which the loop raises, too
    return stream
