"""Spans for OpenTelemetry, with its conventions for generative AI. Needs the extra `otel`.

Contexts are passed by hand: nothing is ever attached, so nothing can fail to be detached when a
stream is left early or a run goes on in another task.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ..errors import MissingExtra
from .genai import attributes_of, is_client, span_name
from .tracer import Attributes

try:
    from opentelemetry import context as otel_context
    from opentelemetry import trace as otel_trace
except ImportError as error:
    raise MissingExtra(
        "OtelTracer needs the package opentelemetry-api, which is not installed",
        hint='pip install "loopwright[otel]"',
    ) from error

if TYPE_CHECKING:
    from opentelemetry.context import Context

__all__ = ["OtelSpan", "OtelTracer"]

_OPT_IN = "OTEL_SEMCONV_STABILITY_OPT_IN"
_LATEST = "gen_ai_latest_experimental"


class OtelTracer:
    """Gives spans to *tracer_provider*, or to the one that OpenTelemetry has for all.

    A run's span begins below the span that is current where the run is started, such as that of a
    web request; all others below the one that they belong to. Beside our own attributes stand
    those of the conventions, and `gen_ai.system` for tools that know only that; *latest_only*
    leaves it out. None does so if the environment's OTEL_SEMCONV_STABILITY_OPT_IN has
    `gen_ai_latest_experimental`.
    """

    def __init__(
        self,
        tracer_provider: otel_trace.TracerProvider | None = None,
        *,
        latest_only: bool | None = None,
    ) -> None:
        from .. import __version__

        self._tracer = otel_trace.get_tracer(
            "loopwright", __version__, tracer_provider=tracer_provider
        )
        if latest_only is None:
            chosen = os.environ.get(_OPT_IN, "").split(",")
            latest_only = _LATEST in (word.strip() for word in chosen)
        self._with_system = not latest_only

    def start(self, name: str, attributes: Attributes, parent: OtelSpan | None) -> OtelSpan:
        """Begin a span below *parent*, or below OpenTelemetry's current one."""
        context = otel_context.get_current() if parent is None else parent.context
        span = self._tracer.start_span(
            span_name(name, attributes),
            context,
            otel_trace.SpanKind.CLIENT if is_client(name) else otel_trace.SpanKind.INTERNAL,
            attributes_of(name, attributes, starts=True, with_system=self._with_system),
        )
        return OtelSpan(span, context, name=name)


class OtelSpan:
    """A span of OpenTelemetry. Made around one of your own it can be a `parent` for `trace`."""

    __slots__ = ("_name", "_span", "context")

    def __init__(
        self, span: otel_trace.Span, context: Context | None = None, *, name: str = ""
    ) -> None:
        """*context* is what it was begun in; None for the current one."""
        self._name = name
        self._span = span
        self.context = otel_trace.set_span_in_context(span, context)
        """For what is below it."""

    def set(self, attributes: Attributes) -> None:
        """Add or replace attributes."""
        if self._span.is_recording():
            found: dict[str, Any] = attributes_of(
                self._name, attributes, starts=False, with_system=False
            )
            self._span.set_attributes(found)

    def end(self, error_type: str | None = None) -> None:
        """It is over. A failure gives the status an error, without a description."""
        if error_type is not None:
            self._span.set_attribute("error.type", error_type)
            self._span.set_status(otel_trace.Status(otel_trace.StatusCode.ERROR))
        self._span.end()
