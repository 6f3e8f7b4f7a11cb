"""Which session is meant: by its id, the beginning of its id, its name, or a number in a list."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from ..errors import SessionNotFound
from ..session.rows import LaneConfig, SessionInfo
from ..session.store import SessionStore
from .options import SessionOptions
from .session_store import reading_sessions
from .streams import Output, Piece, print_note, visible

__all__ = [
    "KnownSession",
    "NothingPicked",
    "choose_session",
    "find_session",
    "local_time",
    "session_title",
]

LIST_HINT = "`loopwright sessions list --all` shows those there are"
OFFERED = 20
"""How many sessions a person is asked to choose from."""


class NothingPicked(Exception):
    """The user was shown a list and wants none of it."""


class KnownSession(NamedTuple):
    """A session that is there, and what its last run worked with."""

    info: SessionInfo
    config: LaneConfig | None


async def choose_session(options: SessionOptions, folder: str) -> KnownSession | None:
    """The session to go on with, or to fork; None for a new one.

    Raises `SessionNotFound`, `NothingPicked`, and what the store raises.
    """
    if not options.goes_on and options.fork is None:
        return None
    async with reading_sessions() as store:
        if options.continue_last:
            info = await _last(store, folder)
        elif options.pick:
            info = _pick(await store.list(cwd=folder, limit=OFFERED), folder)
        else:
            info = await find_session(store, options.session or options.fork or "", folder)
        state = await store.state(info.id)
        config = next((lane.config for lane in state.lanes if lane.name == "main"), None)
        return KnownSession(state.info, config)


async def _last(store: SessionStore, folder: str) -> SessionInfo:
    found = await store.list(cwd=folder, limit=1)
    if not found:
        raise SessionNotFound(
            f"there is no session of the folder {folder} to continue",
            hint=f"leave --continue out to begin one; {LIST_HINT}",
        )
    return found[0]


async def find_session(store: SessionStore, reference: str, folder: str) -> SessionInfo:
    """The session that *reference* means: an id, a name, or the beginning of an id.

    A name in *folder* comes before the same name elsewhere. Raises `SessionNotFound`, also if it
    could be several.
    """
    if not reference.strip():
        raise SessionNotFound(
            "a session is named by its id or name, not by nothing", hint=LIST_HINT
        )
    try:
        return await store.info(reference)
    except SessionNotFound:
        every = await store.list()
    named = [info for info in every if info.name == reference]
    found = [info for info in named if info.cwd == folder] or named
    found = found or [info for info in every if info.id.startswith(reference)]
    if len(found) > 1:
        raise SessionNotFound(
            f"{len(found)} sessions have the name {reference!r}, or ids that begin so",
            hint="\n".join(f"{info.id}  {session_title(info, 60)}" for info in found[:5]),
        )
    if not found:
        raise SessionNotFound(
            f"no session has the id or name {reference!r}", hint=_near(reference, every)
        )
    return found[0]


def _near(reference: str, every: Sequence[SessionInfo]) -> str:
    import difflib

    names = [info.name for info in every if info.name]
    near = difflib.get_close_matches(reference, names, n=2)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else LIST_HINT


# -- picking ---------------------------------------------------------------------------------


def _pick(offered: Sequence[SessionInfo], folder: str) -> SessionInfo:
    """Ask the person at the terminal for one of *offered*."""
    if not offered:
        raise SessionNotFound(f"there is no session of the folder {folder}", hint=LIST_HINT)
    output = Output(sys.stderr)
    for number, info in enumerate(offered, 1):
        head = f"{number:>3}  {local_time(info.modified_at)}  "
        title = session_title(info, max(20, output.width - len(head) - 1))
        output.write_pieces([Piece(head, "quiet"), Piece(f"{title}\n")])
    while True:
        output.write(f"Which one? 1 to {len(offered)}, Enter for none: ")
        answer = sys.stdin.readline().strip()
        if not answer:
            raise NothingPicked
        if answer.isascii() and answer.isdigit() and 1 <= int(answer) <= len(offered):
            return offered[int(answer) - 1]
        print_note(f"{answer!r} is none of the numbers")


def session_title(info: SessionInfo, characters: int) -> str:
    """The name of a session, or how it began, in at most so many *characters* of one line."""
    line = " ".join(visible(info.name or info.preview or "").split()) or "(nothing said yet)"
    return line if len(line) <= characters else f"{line[: characters - 1]}…"


def local_time(milliseconds: int) -> str:
    """A time of this place, to the minute."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return "?"  # a time that no calendar has
