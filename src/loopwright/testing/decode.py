"""Runs one recorded response body through a wire's decoder: for bug reports and checks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..messages import AssistantMessage
from ..models.wires import load_wire
from ..stream import AssistantMessageEvent, Done, Error, ReplyBuilder

__all__ = ["decode", "decode_events"]


def decode(
    wire: str, chunks: Iterable[bytes], *, flags: Mapping[str, Any] | None = None
) -> AssistantMessage:
    """The message that the body in *chunks* says, cut anywhere; *flags* are the vendor's quirks.

    A body that carries an error, or breaks off, gives a message whose stop reason is `error`.
    Raises `ConfigurationError` for a wire nobody knows.
    """
    closing = decode_events(wire, chunks, flags=flags)[-1]
    if isinstance(closing, Done):
        return closing.message
    assert isinstance(closing, Error)
    return closing.error


def decode_events(
    wire: str, chunks: Iterable[bytes], *, flags: Mapping[str, Any] | None = None
) -> list[AssistantMessageEvent]:
    """The events that the body in *chunks* gives; the last one is `Done` or `Error`."""
    decoder = load_wire(wire).decoder(ReplyBuilder(api=wire), flags or {})
    events: list[AssistantMessageEvent] = []
    for chunk in chunks:
        events += decoder.feed(chunk)
        if decoder.ended:
            return events
    return events + decoder.finish()
