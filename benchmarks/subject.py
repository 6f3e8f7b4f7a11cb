"""What is measured: an agent of some library over a scripted stream, behind one small function.

A library takes part by one file in `peers/` that holds a `PEER`. Everything else, what is said,
how often, and how it is timed and counted, is the same for all.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, runtime_checkable

__all__ = ["Ask", "Counter", "Listening", "Peer", "Say", "StreamingPeer", "Tool", "Work"]

Work = Callable[[], Awaitable[int]]
"""One thing to time. Made, with all it needs, before the clock starts; returns how many of its
units it saw done, so that nobody is quick by leaving something out."""

Tool = Callable[..., Awaitable[str]]
"""An async function with typed keyword parameters and a docstring."""

Listening = Literal["no", "sync", "async"]


@dataclass(frozen=True, slots=True)
class Ask:
    """The model asks for a tool; *arguments* is JSON text."""

    name: str
    arguments: str = "{}"
    piece: int | None = None
    """Characters per delta of the arguments; None sends them at once."""


@dataclass(frozen=True, slots=True)
class Say:
    """One scripted reply: text in pieces, then calls."""

    text: str = ""
    piece: int = 5
    """Characters per delta."""
    calls: Sequence[Ask] = ()
    per_read: int | None = None
    """Deltas that one network read brings; others may run between reads. None: the library's own
    stand-in for a model decides, or all come at once."""

    @property
    def pieces(self) -> list[str]:
        """The text of each delta."""
        return [self.text[i : i + self.piece] for i in range(0, len(self.text), self.piece)]


@dataclass(slots=True)
class Counter:
    """What a listener read."""

    deltas: int = 0
    characters: int = 0
    results: int = 0


class Peer(Protocol):
    """One library."""

    name: str
    distribution: str
    """As installed; a peer that is not is left out."""
    import_statement: str
    """What a program writes to get an agent."""

    def agent(
        self,
        script: Sequence[Say],
        tools: Mapping[str, Tool],
        counter: Counter,
        listening: Listening = "sync",
    ) -> Any:
        """An agent whose model plays *script* and whose listener counts in *counter*.

        It has `await prompt(text)`. With "no" there is no listener. The listener counts the text
        and argument deltas it *reads*, their characters, and finished tools.
        """
        ...


@runtime_checkable
class StreamingPeer(Protocol):
    """A library that also speaks vendors' wires itself."""

    name: str

    def stream(self, wire: str, base_url: str) -> Work | None:
        """Ask the server at *base_url* and count the pieces of text as its user sees them; None
        for a wire it does not speak. It keeps its connection for the next time."""
        ...
