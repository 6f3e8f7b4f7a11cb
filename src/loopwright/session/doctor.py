"""What is wrong with kept sessions, and mending it: always on a copy first.

`examine` looks and changes nothing, also while others write. `repair` works on a copy, looks at the
result again, and puts it in place only if nobody has a session open and the result is sound; before
that it makes a backup, and what it takes out it keeps in a file beside. What cannot be mended is
said and left as it is.

Not here: the rules (doctor_rows), the two kinds of files (doctor_sqlite and doctor_sqlite_repair, doctor_jsonl).
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from ..errors import Misuse, SessionNotFound, StoreUnavailable
from .doctor_report import Finding, Repaired, Report
from .doctor_rows import HeldSession, check_session

if TYPE_CHECKING:
    from .store import SessionStore

__all__ = ["Finding", "Repaired", "Report", "examine", "repair"]

_MAGIC = b"SQLite format 3\0"


async def examine(
    target: SessionStore | str | os.PathLike[str], *, session_id: str | None = None
) -> Report:
    """Look for damage in a database, a session file, a folder of such, or any store.

    With *session_id* only that one is looked at. Changes nothing. A file that cannot be read is a
    finding, not an error. Raises `SessionNotFound` if there is no such file or session.
    """
    path = _path_of(target)
    if path is None:
        assert not isinstance(target, str | os.PathLike)
        return await _examine_store(target, session_id)
    return await asyncio.to_thread(_examine_path, path, session_id)


def _examine_path(path: Path, session_id: str | None) -> Report:
    if _is_database(path):
        from .doctor_sqlite import examine_database

        return examine_database(path, session_id)
    from .doctor_jsonl import examine_files

    return examine_files(path, session_id)


async def repair(
    target: SessionStore | str | os.PathLike[str], *, session_id: str | None = None
) -> list[Repaired]:
    """Mend what `examine` says can be mended; one result for each file that has something wrong.

    Raises `SessionLocked` if somebody has it open, `StoreUnavailable` if a copy cannot be made or
    the result is not sound (the file is as it was then), and `Misuse` for a store that is no file.
    """
    path = _path_of(target)
    if path is None:
        raise Misuse(
            "only databases of SQLite and files can be repaired here",
            hint="a server's database is mended with its own backups; examine() says what is wrong",
        )
    return await asyncio.to_thread(_repair_path, path, session_id)


def _repair_path(path: Path, session_id: str | None) -> list[Repaired]:
    if _is_database(path):
        from .doctor_sqlite_repair import repair_database

        return [repair_database(path, session_id)]
    from .doctor_jsonl import repair_files

    return repair_files(path, session_id)


def _path_of(target: SessionStore | str | os.PathLike[str]) -> Path | None:
    if isinstance(target, str | os.PathLike):
        return Path(target).expanduser().absolute()
    place = getattr(target, "root", None) or getattr(target, "path", None)
    return place if isinstance(place, Path) else None


def _is_database(path: Path) -> bool:
    """Whether *path* is a file that SQLite is to look at. Raises if there is nothing to look at."""
    if path.is_dir():
        return False
    if path.exists() and not path.is_file():  # a pipe would be waited for
        raise StoreUnavailable(f"{path} is neither a file nor a folder")
    try:
        with path.open("rb") as file:
            beginning = file.read(len(_MAGIC))
    except FileNotFoundError as error:
        raise SessionNotFound(f"there is no file {path}") from error
    except OSError as error:
        raise StoreUnavailable(
            f"{path} cannot be read: {error.strerror or error}", hint="check its rights"
        ) from error
    return beginning == _MAGIC or path.suffix != ".jsonl"


async def _examine_store(store: SessionStore, session_id: str | None) -> Report:
    """By what every store tells. What it cannot decode it raises, and that is the finding."""
    from ..errors import SessionError

    ids = [session_id] if session_id else [info.id for info in await store.list()]
    report = Report(target=type(store).__name__)
    for each in ids:
        report.sessions += 1
        try:
            held = await _held(store, each)
        except SessionNotFound:
            if session_id is not None:
                raise
            continue  # deleted meanwhile
        except SessionError as error:
            report.findings.append(
                Finding(
                    kind="unreadable",
                    severity="error",
                    session_id=each,
                    where="session",
                    message=error.message,
                )
            )
            continue
        report.entries += len(held.rows)
        report.findings += [
            msgspec.structs.replace(finding, remedy=None) for finding in check_session(held)
        ]
    return report


async def _held(store: SessionStore, session_id: str) -> HeldSession:
    state = await store.state(session_id)
    rows = await store.entries(session_id, before=state.head + 1)
    ledger = [row for row in await store.usage(session_id) if row.seq <= state.head]
    return HeldSession(
        id=session_id,
        entries=state.info.entries,
        usage_total=state.info.usage,
        head=state.head,
        rows=rows,
        lanes=state.lanes,
        operations=await store.operations(session_id),
        intents=state.intents,
        inbox=state.inbox,
        usage=ledger,
        highest_seq=max([0, *(row.seq for row in ledger), *(fact.seq for fact in state.facts)]),
    )
