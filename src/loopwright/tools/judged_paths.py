"""Where the paths of a run's calls led when they were judged: there a tool may go, nowhere else.

A path that was allowed may lead elsewhere when its tool runs: while somebody was asked, another
agent has put a link in its place. Whoever judges a call notes what it was judged by, and the
workspace compares. What lies outside of it is open by such a note alone, not to runs beside.

The notes are in a context variable: a run judges its calls in one task and starts every tool from
there. So two runs side by side, which may use the same words for different files, see their own.

Not here: judging (permissions/), following links (local_workspace.py).
"""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from types import MappingProxyType
from typing import NamedTuple

__all__ = ["Judged", "JudgedPaths"]

MOST_NOTED = 1000
"""Paths of one run that are kept; a reply that asks for more at once loses the first ones."""


class Judged(NamedTuple):
    """What was said yes to."""

    real: tuple[str, ...]
    """Every real path that the tool may come to."""
    writing: bool


class JudgedPaths:
    """The notes for one workspace."""

    def note(self, path: str, real: tuple[str, ...], *, writing: bool) -> None:
        """A call with *path* was let through, as one that leads to one of *real*."""
        noted = {**_noted.get(), (self, path or "."): Judged(real, writing)}
        if len(noted) > MOST_NOTED:
            del noted[next(iter(noted))]
        _noted.set(noted)

    def of(self, path: str) -> Judged | None:
        """What was noted of *path*; None if it belongs to no call that was judged."""
        return _noted.get().get((self, path or "."))

    def places(self, *, writing: bool) -> list[str]:
        """The real paths that calls of this run were let through to; with *writing*, to change."""
        return [
            real
            for (owner, _), judged in _noted.get().items()
            if owner is self and (judged.writing or not writing)
            for real in judged.real
        ]


_noted: ContextVar[Mapping[tuple[JudgedPaths, str], Judged]] = ContextVar(
    "loopwright.judged_paths",
    default=MappingProxyType({}),
)
