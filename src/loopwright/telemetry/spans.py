"""Spans that cannot hurt: a tracer's faults end here, and a span that ends ends those below it.

Not here: what is traced (tracing).
"""

from __future__ import annotations

import logging
import sys
from asyncio import CancelledError, Future
from types import TracebackType
from typing import Any

from .tracer import Attributes, Span, Tracer

__all__ = ["ABANDONED", "OUTCOME", "Guard", "OpenSpan", "error_name"]

_log = logging.getLogger("loopwright")

OUTCOME = "loopwright.operation.outcome"
ABANDONED = "abandoned"
"""What was going on when it could not be waited for any longer."""

_CUT_OFF = (CancelledError, GeneratorExit)


def error_name(error: BaseException) -> str:
    """What may be said of an exception: its class, never its text."""
    return type(error).__name__


class Guard:
    """Calls a tracer. Its first fault is logged, and it gets no new spans after that."""

    __slots__ = ("_tracer", "failed")

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer
        self.failed = False

    def start(
        self, name: str, attributes: Attributes, parent: OpenSpan | None, *, outlives: bool = False
    ) -> OpenSpan:
        """Begin a span; one that does nothing if the tracer has failed. One that *outlives* its
        parent is not ended with it."""
        span: Span | None = None
        if not self.failed:
            above = None if parent is None else parent.span
            try:
                span = self._tracer.start(name, attributes, above)
            except (Exception, CancelledError) as error:  # noqa: BLE001 - a tracer is foreign code
                self.report(error)
        return OpenSpan(self, span, None if outlives else parent)

    def report(self, error: BaseException) -> None:
        """The tracer raised."""
        if not self.failed:
            self.failed = True
            _log.error(
                "the tracer raised; nothing more is traced with it",
                exc_info=(type(error), error, error.__traceback__),
            )


class OpenSpan:
    """A span and those below it. What comes after its end does nothing.

    As a context manager it ends with what is raised inside; called with an outcome (`succeeded`,
    `declined`, `failed`) it ends with that.
    """

    __slots__ = ("_below", "_guard", "_parent", "ended", "error_type", "span")

    def __init__(self, guard: Guard | None, span: Any, parent: OpenSpan | None) -> None:
        self._guard = guard
        self.span = span
        """The tracer's own."""
        self._below: set[OpenSpan] | None = None
        self._parent = parent
        self.ended = False
        self.error_type: str | None = None
        """With which it ends, unless `end` is told another."""
        if parent is not None:
            if parent._below is None:
                parent._below = set()
            parent._below.add(self)

    def set(self, attributes: Attributes) -> None:
        """Add or replace attributes."""
        guard, span = self._guard, self.span
        if self.ended or guard is None or span is None or guard.failed:
            return
        try:
            span.set(attributes)
        except (Exception, CancelledError) as error:  # noqa: BLE001 - a tracer is foreign code
            guard.report(error)

    def end(self, error_type: str | None = None) -> None:
        """It is over, and so is what is still open below it."""
        if self.ended:
            return
        if self._below:
            for span in tuple(self._below):
                span.abandon()
        self.ended = True
        if self._parent is not None and self._parent._below is not None:
            self._parent._below.discard(self)
        self._parent = None
        guard, span = self._guard, self.span
        if guard is None or span is None:
            return
        try:  # also when the tracer has failed: a span that was begun should end
            span.end(error_type or self.error_type)
        except (Exception, CancelledError) as error:  # noqa: BLE001 - a tracer is foreign code
            guard.report(error)

    def abandon(self) -> None:
        """Nobody waits for it any more."""
        self.set({OUTCOME: ABANDONED})
        self.end(ABANDONED)

    def cut_off(self) -> None:
        """It was aborted or cancelled, which is no failure."""
        self.set({OUTCOME: "aborted"})
        self.end()

    def settle(self, error: BaseException | None) -> None:
        """It is over, with the exception that came out, if one did."""
        if error is None:
            self.end()
        elif isinstance(error, _CUT_OFF):
            self.cut_off()
        else:
            self.set({OUTCOME: "failed"})
            self.end(error_name(error))

    def __call__(self, outcome: str) -> None:
        """It is over. The exception that is being raised, if one is, says why it failed."""
        error = sys.exception() if outcome == "failed" else None
        if error is not None:
            self.settle(error)
            return
        self.set({OUTCOME: outcome})
        self.end("failed" if outcome == "failed" else None)

    def __enter__(self) -> OpenSpan:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        self.settle(error)

    def follow(self, future: Future[int]) -> None:
        """End with *future*, a commit; its result is the last sequence number."""
        if future.cancelled():
            self.cut_off()
            return
        error = future.exception()
        if error is None:
            self.set({"loopwright.session.seq": future.result()})
        self.settle(error)
