"""A tracer that keeps its spans, as a tree, for tests."""

from __future__ import annotations

import threading
import time

from .tracer import Attributes, AttributeValue

__all__ = ["RecordedSpan", "RecordingTracer"]


class RecordedSpan:
    """One span as it was told of. Times are `time.perf_counter()` in seconds."""

    def __init__(
        self,
        tracer: RecordingTracer,
        name: str,
        attributes: Attributes,
        parent: RecordedSpan | None,
    ) -> None:
        self.name = name
        self.attributes: dict[str, AttributeValue] = dict(attributes)
        self.parent = parent
        self.children: list[RecordedSpan] = []
        """In the order they began."""
        self.error_type: str | None = None
        self.started_at = time.perf_counter()
        self.ended_at: float | None = None
        self._tracer = tracer

    @property
    def ended(self) -> bool:
        """It is over."""
        return self.ended_at is not None

    def set(self, attributes: Attributes) -> None:
        """Add or replace attributes."""
        if self.ended:
            self._tracer.faults.append(f"{self.name}: set after its end")
        self.attributes.update(attributes)

    def end(self, error_type: str | None = None) -> None:
        """It is over."""
        if self.ended:
            self._tracer.faults.append(f"{self.name}: ended twice")
        self.ended_at = time.perf_counter()
        self.error_type = error_type

    def __repr__(self) -> str:
        state = "open" if not self.ended else self.error_type or "ended"
        return f"<RecordedSpan {self.name} {state}>"


class RecordingTracer:
    """Keeps every span that it was asked for. May be shared between agents and threads."""

    def __init__(self) -> None:
        self.spans: list[RecordedSpan] = []
        """All of them, in the order they began."""
        self.faults: list[str] = []
        """What should not have been done with a span: used after its end, ended twice."""
        self._lock = threading.Lock()

    def start(self, name: str, attributes: Attributes, parent: RecordedSpan | None) -> RecordedSpan:
        """Begin a span."""
        span = RecordedSpan(self, name, attributes, parent)
        with self._lock:
            self.spans.append(span)
            if parent is not None:
                parent.children.append(span)
                if parent.ended:
                    self.faults.append(f"{name}: began below {parent.name}, which has ended")
        return span

    @property
    def roots(self) -> list[RecordedSpan]:
        """The spans without a parent."""
        return [span for span in self.spans if span.parent is None]

    @property
    def open(self) -> list[RecordedSpan]:
        """The spans that have not ended."""
        return [span for span in self.spans if not span.ended]

    def named(self, name: str) -> list[RecordedSpan]:
        """The spans with that name."""
        return [span for span in self.spans if span.name == name]

    def tree(self) -> str:
        """The names, one a line, indented below their parents; failures behind them."""
        lines: list[str] = []

        def draw(span: RecordedSpan, depth: int) -> None:
            state = f" !{span.error_type}" if span.error_type else "" if span.ended else " (open)"
            lines.append("  " * depth + span.name + state)
            for child in span.children:
                draw(child, depth + 1)

        for root in self.roots:
            draw(root, 0)
        return "\n".join(lines)
