"""The database of sessions: whether it can be used, and what in it is not over.

Looking changes nothing: no database is made, and none is migrated.

Not here: damage (sessions/doctor.py).
"""

from __future__ import annotations

import asyncio
import os
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from ...errors import SessionError, SessionNotFound, StoreUnavailable
from ..places import sessions_file, shown_path
from .lines import Checked, Learned

__all__ = ["check_sessions", "check_store"]

LITTLE_BYTES = 1_000_000_000
TOO_LITTLE_BYTES = 50_000_000
"""Free space on the disk that is worth a warning, and a problem."""
WAIT_SECONDS = 0.3
MOST_SESSIONS = 200
"""How many of a folder's sessions are looked at, the last used ones."""


def check_store(_learned: Learned) -> Iterator[Checked]:
    """The file, its format, its size, and the disk."""
    file = sessions_file()
    folder = next((place for place in file.parents if place.exists()), Path("/"))
    wrong = list(_check_folder(file, folder))
    yield from wrong
    if file.exists():
        yield from _check_file(file)
    elif not wrong:
        yield Checked("sessions", "ok", f"{shown_path(file)} is made by the first run")
    free = shutil.disk_usage(folder).free
    level = "problem" if free < TOO_LITTLE_BYTES else "warning" if free < LITTLE_BYTES else "ok"
    yield Checked(
        "sessions",
        level,
        f"{_size(free)} are free on its disk",
        None if level == "ok" else "make some room: what cannot be written stops a run",
    )


def _check_folder(file: Path, folder: Path) -> Iterator[Checked]:
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"loopwright")
            probe.flush()
            os.fsync(probe.fileno())
    except OSError as error:
        yield Checked(
            "sessions",
            "problem",
            f"nothing can be written to {shown_path(folder)}: {error.strerror or error}",
            "get the right to write there, or set LOOPWRIGHT_SESSION_DIR; "
            "`--no-session` keeps nothing",
        )
    if sys.platform != "win32" and file.exists() and file.stat().st_mode & 0o077:
        yield Checked(
            "sessions",
            "warning",
            f"{shown_path(file)} can be read by others, and all that was said is in it",
            f"chmod 600 {shown_path(file)}",
        )


def _check_file(file: Path) -> Iterator[Checked]:
    from ...session.sqlite_file import DatabaseFile
    from ...session.tables import FORMAT_KEY, READ_FORMAT

    database = DatabaseFile(file, WAIT_SECONDS, read_only=True)
    try:
        connection = database.connect()
        try:
            (version,) = connection.execute(READ_FORMAT, (FORMAT_KEY,)).fetchone()
            (count,) = connection.execute("SELECT count(*) FROM session").fetchone()
        finally:
            connection.close()
        size = sum(part.stat().st_size for part in _parts(file))
        sessions = f"{count} session{'s' * (count != 1)}"
        yield Checked(
            "sessions", "ok", f"{shown_path(file)}: {sessions}, format {version}, {_size(size)}"
        )
        _lock(file)
    except StoreUnavailable as error:
        if not _is_empty_or_old(error):
            raise
        what = error.message.removeprefix(str(file)).strip()
        yield Checked("sessions", "note", f"{shown_path(file)} {what}; the next run mends that")
    except sqlite3.Error as error:
        if "locked" in str(error):
            yield Checked(
                "sessions",
                "warning",
                "another process is writing, and does not come to an end",
                "see what it does, if this is told again",
            )
            return
        raise database.fault(error) from error


def _is_empty_or_old(error: StoreUnavailable) -> bool:
    return "no sessions in it" in error.message or "earlier format" in error.message


def _parts(file: Path) -> list[Path]:
    parts = [file, file.with_name(f"{file.name}-wal")]
    return [part for part in parts if part.exists()]


def _lock(file: Path) -> None:
    """Take the lock of a writer and let it go again. Raises sqlite3.Error."""
    connection = sqlite3.connect(
        f"{file.absolute().as_uri()}?mode=rw", uri=True, timeout=WAIT_SECONDS, isolation_level=None
    )
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.execute("ROLLBACK")
    finally:
        connection.close()


# -- what is not over ------------------------------------------------------------------------


def check_sessions(learned: Learned) -> Iterator[Checked]:
    """The sessions of this folder that are in use, wait for somebody, or were left unfinished."""
    if learned.folder is not None and sessions_file().exists():
        yield from asyncio.run(_unfinished(str(learned.folder)))


async def _unfinished(folder: str) -> list[Checked]:
    from ...session.sqlite import SqliteStore
    from ..sessions.choice import session_title, short_ids
    from ..sessions.standing import standing_of

    found: list[Checked] = []
    try:
        opened = await SqliteStore.open(
            sessions_file(), read_only=True, busy_timeout_seconds=WAIT_SECONDS
        )
    except SessionError:  # which has been told of
        return found
    async with opened as store:
        every = await store.list()
        short = short_ids(every)
        for info in [info for info in every if info.cwd == folder][:MOST_SESSIONS]:
            try:
                standing = await standing_of(store, info.id)
            except SessionNotFound:  # deleted meanwhile
                continue
            except SessionError as error:
                found.append(Checked("sessions", "problem", error.message, error.hint))
                continue
            advice = standing.advice(short[info.id])
            if advice is None:
                continue
            what, _, hint = advice.partition(": ")
            found.append(
                Checked(
                    "sessions",
                    "note" if standing.holder is not None else "warning",
                    f"{session_title(info, 40)}: {what}",
                    hint or None,
                )
            )
    return found


def _size(count: int) -> str:
    for unit, size in (("GB", 1_000_000_000), ("MB", 1_000_000), ("kB", 1_000)):
        if count >= size:
            return f"{count / size:.1f} {unit}"
    return f"{count} bytes"
