"""Which session is meant: by its id, the beginning of its id, its name, or a number in a list."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from ...errors import SessionExists, SessionNotFound
from ...session.entries import now_ms
from ...session.rows import LaneConfig, SessionInfo
from ...session.store import SessionStore
from ..options import SessionOptions
from ..streams import Output, Piece, print_note, visible
from .store import reading_sessions

__all__ = [
    "KnownSession",
    "NothingPicked",
    "age_text",
    "check_new_name",
    "choose_session",
    "find_session",
    "last_or_found",
    "local_time",
    "session_title",
    "short_ids",
]

LIST_HINT = "`loopwright sessions list --all` shows those there are"
OFFERED = 20
"""How many sessions a person is asked to choose from."""
MEANT = 5
"""Of how many sessions it is said that they could be meant."""
SHORTEST_ID = 10
"""Characters. Ids begin with the time: ten of them tell sessions apart that were begun a quarter of
a second apart, so that what is shown today still names one session tomorrow."""


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

    A name in *folder* comes before the same name elsewhere; one in other letters, large or small,
    counts where none is written so. Raises `SessionNotFound`, also if it could be several.
    """
    if not reference.strip():
        raise SessionNotFound(
            "a session is named by its id or name, not by nothing", hint=LIST_HINT
        )
    try:
        return await store.info(reference)
    except SessionNotFound:
        every = await store.list()
    found = _named(reference, every, folder)
    found = found or [info for info in every if info.id.startswith(reference)]
    if len(found) > 1:
        raise SessionNotFound(
            f"{len(found)} sessions have the name {reference!r}, or ids that begin so",
            hint=_which(found),
        )
    if not found:
        raise SessionNotFound(
            f"no session has the id or name {reference!r}", hint=_near(reference, every)
        )
    return found[0]


async def last_or_found(store: SessionStore, reference: str | None, folder: str) -> SessionInfo:
    """The session that *reference* means; without one, the last of *folder*. Raises
    `SessionNotFound`."""
    if reference is not None:
        return await find_session(store, reference, folder)
    found = await store.list(cwd=folder, limit=1)
    if not found:
        raise SessionNotFound(f"there is no session of the folder {folder}", hint=LIST_HINT)
    return found[0]


def _named(reference: str, every: Sequence[SessionInfo], folder: str) -> list[SessionInfo]:
    folded = reference.strip().casefold()
    for named in (
        [info for info in every if info.name == reference],
        [info for info in every if info.name and info.name.strip().casefold() == folded],
    ):
        if named:
            return [info for info in named if info.cwd == folder] or named
    return []


def _which(found: Sequence[SessionInfo]) -> str:
    lines = [
        f"{info.id}  {age_text(info.modified_at):>11}  {session_title(info, 50)}"
        for info in found[:MEANT]
    ]
    left = len(found) - len(lines)
    return "\n".join([*lines, *([f"and {left} more"] if left else [])])


def _near(reference: str, every: Sequence[SessionInfo]) -> str:
    import difflib

    names = [info.name for info in every if info.name]
    near = difflib.get_close_matches(reference, names, n=2)
    return f"did you mean {' or '.join(map(repr, near))}?" if near else LIST_HINT


# -- names and ids ---------------------------------------------------------------------------


async def check_new_name(store: SessionStore, name: str, session_id: str | None) -> None:
    """Raises `SessionExists` if *name*, for *session_id* or a new session, is the id of another
    session or what lists show of it: the one of them could not be told from the other any more."""
    wanted = name.strip()
    for info in await store.list():
        is_its_id = info.id == wanted or (len(wanted) >= SHORTEST_ID and info.id.startswith(wanted))
        if is_its_id and info.id != session_id:
            raise SessionExists(
                f"{wanted!r} cannot be a name: it is the id of another session, "
                f"{session_title(info, 40)!r}",
                hint="choose another name",
            )


def short_ids(every: Sequence[SessionInfo]) -> dict[str, str]:
    """For the id of each of *every* session the beginning that means no other one, as
    `find_session` reads it. At least `SHORTEST_ID` characters, if there are so many."""
    ids = sorted(info.id for info in every)
    names = {info.name.strip().casefold() for info in every if info.name}
    short: dict[str, str] = {}
    for place, id in enumerate(ids):
        beside = [ids[near] for near in (place - 1, place + 1) if 0 <= near < len(ids)]
        length = max([SHORTEST_ID, *(_alike(id, other) + 1 for other in beside)])
        # A name comes before the beginning of an id.
        while length < len(id) and id[:length].casefold() in names:
            length += 1
        short[id] = id[:length]
    return short


def _alike(one: str, other: str) -> int:
    """How many characters both begin with."""
    pairs = zip(one, other, strict=False)
    return next((place for place, (a, b) in enumerate(pairs) if a != b), min(len(one), len(other)))


# -- picking ---------------------------------------------------------------------------------


def _pick(offered: Sequence[SessionInfo], folder: str) -> SessionInfo:
    """Ask the person at the terminal for one of *offered*."""
    if not offered:
        raise SessionNotFound(f"there is no session of the folder {folder}", hint=LIST_HINT)
    output = Output(sys.stderr)
    for number, info in enumerate(offered, 1):
        entries = f"{info.entries} entries" if info.entries != 1 else "1 entry"
        fork = ", a copy" if info.parent_id else ""
        head = f"{number:>3}  {age_text(info.modified_at):>11}  {entries}{fork}  "
        title = session_title(info, max(20, output.width - len(head) - 1))
        output.write_pieces([Piece(head, "quiet"), Piece(f"{title}\n")])
    while True:
        answer = _line(output, f"Which one? 1 to {len(offered)}, Enter for none: ").strip()
        if not answer:
            raise NothingPicked
        if answer.isascii() and answer.isdigit() and 1 <= int(answer) <= len(offered):
            return offered[int(answer) - 1]
        print_note(f"{answer!r} is none of the numbers")


def _line(output: Output, prompt: str) -> str:
    """A line of the terminal. The event loop would only cancel what waits here for the user; so
    Ctrl-C is let through for as long."""
    before = None
    if threading.current_thread() is threading.main_thread():
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        output.write(prompt)
        return sys.stdin.readline()
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)


def session_title(info: SessionInfo, cells: int) -> str:
    """The name of a session, or how it began, in at most so many *cells* of one line."""
    from rich.cells import cell_len, set_cell_size

    line = " ".join(visible(info.name or info.preview or "").split()) or "(nothing said yet)"
    if cell_len(line) <= cells:
        return line
    return f"{set_cell_size(line, cells - 1).rstrip()}…"


def local_time(milliseconds: int) -> str:
    """A time of this place, to the minute."""
    try:
        return datetime.fromtimestamp(milliseconds / 1000).astimezone().strftime("%Y-%m-%d %H:%M")
    except (ValueError, OverflowError, OSError):
        return "?"  # a time that no calendar has


def age_text(milliseconds: int, now: int | None = None) -> str:
    """How long ago a time is, short; after a month, the day."""
    seconds = ((now_ms() if now is None else now) - milliseconds) / 1000
    for size, unit in ((60, "s"), (3600, "min"), (86_400, "h"), (30 * 86_400, "days")):
        if seconds < size:
            number = max(0, int(seconds / _SECONDS[unit]))
            return f"{number} {'day' if unit == 'days' and number == 1 else unit} ago"
    return local_time(milliseconds)[:10]


_SECONDS = {"s": 1, "min": 60, "h": 3600, "days": 86_400}
