"""What a tracer is: three methods in all, for whoever sends spans somewhere.

Not here: what is traced (tracing), or what an attribute may say (attributes).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

__all__ = ["AttributeValue", "Attributes", "Span", "Tracer"]

AttributeValue = str | int | float | bool

Attributes = Mapping[str, AttributeValue]
"""By name, each beginning with `loopwright.`; docs/telemetry.md has the list."""


class Span(Protocol):
    """Something that takes time and is going on."""

    def set(self, attributes: Attributes) -> None:
        """Add or replace attributes."""
        ...

    def end(self, error_type: str | None = None) -> None:
        """It is over; called once, and last. *error_type* names the class of failure, if it
        failed: an exception's class, or a short word such as `rate_limit`."""
        ...


class Tracer(Protocol):
    """Makes spans. It is called in the task that does the work: it must not block.

    Whatever it raises is logged once, and it is then not asked for new spans again.
    """

    def start(self, name: str, attributes: Attributes, parent: Any) -> Span:
        """Begin a span now. *parent* is a span that this tracer made, or None."""
        ...
