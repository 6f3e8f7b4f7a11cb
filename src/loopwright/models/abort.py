"""Ends a stream when a signal fires, for exactly as long as the stream is read.

A signal lives as long as a run, which makes many requests; each must let go of it when it ends.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..signals import AbortSignal
from ..stream import AssistantStream

__all__ = ["AbortWatch"]


class AbortWatch:
    """Used by a stream's source around its whole work: `with watch: ...`."""

    __slots__ = ("_forget", "_signal", "stream")

    def __init__(self, options: dict[str, Any]) -> None:
        signal = options.get("signal")
        self._signal = signal if isinstance(signal, AbortSignal) else None
        self._forget: Callable[[], None] | None = None
        self.stream: AssistantStream | None = None
        """The stream to end; set right after it was made around its source."""

    @property
    def aborted(self) -> bool:
        """The signal has fired; nothing should be asked any more."""
        return self._signal is not None and self._signal.aborted

    def __enter__(self) -> AbortWatch:
        if self._signal is not None and self.stream is not None:
            self._forget = self._signal.on_abort(self.stream.cancel)
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.stream = None
        if self._forget is not None:
            self._forget()
