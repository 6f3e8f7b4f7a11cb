"""Spans of what an agent does: runs, turns, requests, tools, compaction, commits. Never contents.

`trace(agent, tracer)` instruments one agent from outside; an agent that nobody traces pays
nothing. A tracer is anything with one method (`Tracer`). `RecordingTracer` keeps the spans as a
tree for tests; `loopwright.telemetry.otel.OtelTracer` (extra `otel`) gives them to OpenTelemetry.

Which span tells of its parent is always said outright. Nothing here is ambient, so nothing comes
apart across tasks, threads, or generators that somebody left early.
"""

from .recording import RecordedSpan, RecordingTracer
from .spans import OpenSpan
from .tracer import Attributes, AttributeValue, Span, Tracer
from .tracing import Trace, trace

__all__ = [
    "AttributeValue",
    "Attributes",
    "OpenSpan",
    "RecordedSpan",
    "RecordingTracer",
    "Span",
    "Trace",
    "Tracer",
    "trace",
]
