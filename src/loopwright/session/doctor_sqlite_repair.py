"""The doctor's work on a database of sessions.

It has the file to itself: it takes SQLite's exclusive lock, which no other open connection lets it
have, makes a backup, works on a second copy and, when that one is sound, puts its pages into the
file in one transaction. So the file stays the same file, and a crash on the way leaves it as it
was. Where pages are corrupt, the copy is built anew from all rows that can still be read.

Not here: what is wrong with a session and what mends it (doctor_rows), or reading damaged pages
(doctor_salvage).
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import time
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import msgspec

from ..errors import SessionDamaged, SessionLocked, StoreUnavailable
from ..messages import Usage
from . import columns, refusals, tables
from .doctor_report import Finding, Repaired
from .doctor_rows import Change, mend
from .doctor_salvage import corruption, lenient_text, salvage
from .doctor_schema import copy_with_our_schema
from .doctor_sqlite import SCHEMA, examine_database, held_session, orphans, session_ids
from .doctor_values import mend_values
from .entries import now_ms
from .leases import describe_owner, owner_is_dead
from .rows import InboxItem
from .sqlite_file import DatabaseFile

__all__ = ["repair_database"]


def repair_database(path: Path, session_id: str | None) -> Repaired:
    """Mend *path*, or one session of it. See the head of this module."""
    before = examine_database(path, session_id)
    if not before.mendable:
        return Repaired(target=path, left=before.findings)
    anew = any(finding.kind == SCHEMA for finding in before.findings)
    connection = _alone(path, headless=anew)
    try:
        if connection is not None:
            _refuse_if_open(connection, path)
        stamp = time.strftime("%Y%m%d-%H%M%S")
        backup = _free(path.with_name(f"{path.name}.doctor-{stamp}"))
        working = backup.with_name(f"{backup.name}.tmp")
        aside = _Aside(backup.with_name(f"{backup.name}.removed"))
        try:
            _copy(connection, path, backup)
            actions = _make_sound_copy(backup, working, aside, session_id, anew)
            left = _verified(working, session_id, path)
            aside.close()
        except BaseException:
            aside.drop()  # nothing was changed, so there is nothing to go back to
            for name in (backup, *_companions(backup)):
                name.unlink(missing_ok=True)
            raise
        else:
            _put_in_place(working, connection, path)
        finally:
            for name in (working, *_companions(working)):
                name.unlink(missing_ok=True)
    finally:
        if connection is not None:
            connection.close()
    return Repaired(
        target=path,
        actions=actions,
        backup=backup,
        removed=aside.path if aside.used else None,
        left=left,
    )


def _alone(path: Path, headless: bool) -> sqlite3.Connection | None:
    """A connection beside which there is no other one, in any process. None for a file of which
    SQLite cannot even read the head, if it may be *headless*: nobody can open that."""
    connection = sqlite3.connect(
        f"{path.as_uri()}?mode=rw", uri=True, timeout=1.0, isolation_level=None
    )
    try:
        connection.create_function(tables.SQLITE.now_ms.removesuffix("()"), 0, now_ms)
        # Before the first look at the file: else the lock would only keep other writers out.
        connection.execute("PRAGMA locking_mode = EXCLUSIVE")
        connection.execute("BEGIN EXCLUSIVE")
        connection.execute("COMMIT")  # in this mode the lock stays
    except sqlite3.Error as error:
        connection.close()
        if "locked" in str(error) or "busy" in str(error):
            raise SessionLocked(
                f"{path} is open in another process; nothing was changed",
                hint="close every program that has sessions open, and try again",
            ) from error
        if headless and isinstance(_fault_of(path, error), SessionDamaged):
            return None
        raise StoreUnavailable(
            f"{path} cannot be written: {error}", hint="nothing was changed"
        ) from error
    return connection


def _fault_of(path: Path, error: sqlite3.Error) -> Exception:
    return DatabaseFile(path, 0, read_only=True).fault(error)


def _refuse_if_open(connection: sqlite3.Connection, path: Path) -> None:
    """A lease that lasts may belong to a process that only has to wait, as one that is paused."""
    try:
        held = connection.execute(
            "SELECT id, owner, lease_until FROM session WHERE owner IS NOT NULL AND lease_until > ?",
            (now_ms(),),
        ).fetchall()
    except (sqlite3.Error, UnicodeDecodeError):
        return  # the table itself is damaged, and whoever had it open could not write either
    for id, owner, until in held:
        if isinstance(owner, str) and isinstance(until, int) and not owner_is_dead(owner):
            raise refusals.session_locked(id, owner, until)


def _free(path: Path) -> Path:
    number, chosen = 1, path
    while chosen.exists():
        number += 1
        chosen = path.with_name(f"{path.name}-{number}")
    return chosen


def _companions(path: Path) -> list[Path]:
    return [path.with_name(path.name + end) for end in ("-wal", "-shm", "-journal")]


def _copy(source: sqlite3.Connection | None, path: Path, target: Path) -> None:
    """Every page of *path* as *target*, damaged ones included; without *source* every byte."""
    try:
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        if source is None:
            shutil.copyfile(path, target)
            log = path.with_name(f"{path.name}-wal")
            if log.exists():  # what was written last; it belongs to the backup
                shutil.copyfile(log, target.with_name(f"{target.name}-wal"))
            return
        copy = sqlite3.connect(target, isolation_level=None)
        try:
            source.backup(copy)
            with suppress(sqlite3.Error, UnicodeDecodeError):  # it wants the list of tables first
                copy.execute("PRAGMA journal_mode = DELETE")  # one file, with nothing beside it
        finally:
            copy.close()
    except (OSError, sqlite3.Error) as error:
        target.unlink(missing_ok=True)
        raise StoreUnavailable(
            f"no copy of {path} can be made: {error}",
            hint="nothing was changed; make some room beside the file, or restore a backup",
        ) from error


def _make_sound_copy(
    backup: Path, working: Path, aside: _Aside, session_id: str | None, anew: bool
) -> list[str]:
    if anew:
        readable = working.with_name(f"{working.name}.anew")
        try:
            copy_with_our_schema(backup, readable)
            return _filled(readable, working, aside, session_id, anew)
        finally:
            for name in (readable, *_companions(readable)):
                name.unlink(missing_ok=True)
    return _filled(backup, working, aside, session_id, anew)


def _filled(
    origin: Path, working: Path, aside: _Aside, session_id: str | None, anew: bool
) -> list[str]:
    os.close(os.open(working, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    actions: list[str] = []
    with (
        closing(_connect(f"{origin.as_uri()}?mode=ro")) as source,
        closing(_connect(f"{working.as_uri()}?mode=rw")) as target,
    ):
        if anew or corruption(source):
            actions += salvage(source, target, aside.add)
        else:
            source.backup(target)
        target.execute("BEGIN")
        actions += mend_values(target, session_id, aside.add)
        actions += _adopt_orphans(target, aside, session_id)
        for each in session_ids(target):
            if session_id in (None, each):
                actions += _mend_session(target, each, aside)
        target.execute("COMMIT")
    return actions


def _connect(uri: str) -> sqlite3.Connection:
    connection = sqlite3.connect(uri, uri=True, isolation_level=None)
    connection.text_factory = lenient_text
    return connection


class _Aside:
    """The file for what is taken out: one JSON object a line. Made with the first one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: int | None = None
        self.used = False

    def add(self, table: str, row: dict[str, Any]) -> None:
        if self._file is None:
            self._file = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
            self.used = True
        os.write(self._file, msgspec.json.encode({"table": table, **row}, enc_hook=str) + b"\n")

    def close(self) -> None:
        if self._file is not None:
            os.fsync(self._file)
            os.close(self._file)
            self._file = None

    def drop(self) -> None:
        self.close()
        if self.used:
            self.path.unlink(missing_ok=True)


def _take_out(
    connection: sqlite3.Connection, table: str, where: str, values: tuple[Any, ...], aside: _Aside
) -> None:
    found = connection.execute(f"SELECT * FROM {table} WHERE {where}", values)
    names = [name for name, *_ in found.description]
    for row in found.fetchall():
        aside.add(table, dict(zip(names, map(_jsonable, row), strict=True)))
    connection.execute(f"DELETE FROM {table} WHERE {where}", values)


def _jsonable(value: Any) -> Any:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value


def _adopt_orphans(
    connection: sqlite3.Connection, aside: _Aside, session_id: str | None
) -> list[str]:
    actions: list[str] = []
    for orphan in orphans(connection):
        if session_id not in (None, orphan):
            continue
        first, last = connection.execute(
            "SELECT min(timestamp), max(timestamp) FROM entry WHERE session_id = ?", (orphan,)
        ).fetchone()
        if first is None:
            for table in tables.TABLES:
                _take_out(connection, table, "session_id = ?", (orphan,), aside)
            actions.append(
                f"session {orphan}: rows without a session and without entries, taken out"
            )
            continue
        values = (orphan, first, last, None, None, None, columns.encode(Usage()))
        connection.execute(tables.CREATE_SESSION, values)
        actions.append(f"session {orphan}: listed again; its folder and name are not known")
    return actions


def _mend_session(connection: sqlite3.Connection, session_id: str, aside: _Aside) -> list[str]:
    actions: list[str] = []
    for change in mend(held_session(connection, session_id)):
        _apply(connection, session_id, change, aside)
        actions.append(f"session {session_id}: {change.said}")
    owner = connection.execute("SELECT owner FROM session WHERE id = ?", (session_id,)).fetchone()[
        0
    ]
    if owner is not None:
        connection.execute(
            "UPDATE session SET owner = NULL, lease_until = 0, epoch = epoch + 1 WHERE id = ?",
            (session_id,),
        )
        actions.append(f"session {session_id}: the lease of {describe_owner(owner)} was ended")
    return actions


def _apply(connection: sqlite3.Connection, session_id: str, change: Change, aside: _Aside) -> None:
    execute = connection.execute
    if change.drop_entry is not None:
        where = (session_id, change.drop_entry.seq)
        _take_out(connection, "entry", "session_id = ? AND seq = ?", where, aside)
    if change.reparent is not None:
        entry_id, parent_id = change.reparent
        sql = "UPDATE entry SET parent_id = ? WHERE session_id = ? AND id = ?"
        old = execute(
            "SELECT parent_id FROM entry WHERE session_id = ? AND id = ?", (session_id, entry_id)
        ).fetchone()
        aside.add("entry", {"session_id": session_id, "id": entry_id, "was_parent_id": old[0]})
        execute(sql, (parent_id, session_id, entry_id))
    if change.payload is not None:
        entry_id, payload = change.payload
        old = execute(
            "SELECT payload FROM entry WHERE session_id = ? AND id = ?", (session_id, entry_id)
        ).fetchone()
        aside.add("entry", {"session_id": session_id, "id": entry_id, "was_payload": old[0]})
        sql = "UPDATE entry SET payload = ? WHERE session_id = ? AND id = ?"
        execute(sql, (payload.decode(), session_id, entry_id))
    if change.lane is not None:
        lane = change.lane
        execute(tables.PUT_LANE, (session_id, lane.name, columns.encode(lane)))
    if change.operation is not None:
        sql = "UPDATE operation SET status = ?, body = ? WHERE session_id = ? AND id = ?"
        operation = change.operation
        execute(sql, (operation.status, columns.encode(operation), session_id, operation.id))
    if change.drop_intent is not None:
        where = (session_id, change.drop_intent.id)
        _take_out(connection, "intent", "session_id = ? AND id = ?", where, aside)
    if change.withdraw is not None:
        _withdraw(connection, session_id, change.withdraw)
    if change.drop_row is not None:
        table, key = change.drop_row
        column = {"lane": "name", "fact": "namespace || ':' || key"}.get(table, "id")
        where = (session_id, key)
        _take_out(connection, table, f"session_id = ? AND {column} = ?", where, aside)
    if change.totals is not None:
        entries, usage, head = change.totals
        sql = "UPDATE session SET entries = ?, usage = ?, head = ? WHERE id = ?"
        execute(sql, (entries, columns.encode(usage), head, session_id))


def _withdraw(connection: sqlite3.Connection, session_id: str, item: InboxItem) -> None:
    withdrawn = msgspec.structs.replace(item, status="withdrawn")
    connection.execute(
        "UPDATE inbox SET status = 'withdrawn', body = ? WHERE session_id = ? AND id = ?",
        (columns.encode(withdrawn), session_id, item.id),
    )


def _verified(working: Path, session_id: str | None, path: Path) -> list[Finding]:
    """What is left to say of the copy. Raises `StoreUnavailable` if it is not sound."""
    left = examine_database(working, session_id).findings
    broken = [finding for finding in left if finding.severity == "error"]
    if broken:
        raise StoreUnavailable(
            f"{path} could not be mended: in the copy, {broken[0].where}: {broken[0].message}",
            hint="the file is as it was; restore a backup, or ask for help with a copy of it",
        )
    return left


def _put_in_place(working: Path, connection: sqlite3.Connection | None, path: Path) -> None:
    """In one transaction: the file has all of the copy, or is as it was."""
    if connection is None:  # which nobody could open
        os.replace(working, path)
        for name in _companions(path):
            name.unlink(missing_ok=True)
        return
    copy = sqlite3.connect(f"{working.as_uri()}?mode=ro", uri=True, isolation_level=None)
    try:
        copy.backup(connection)
    except sqlite3.Error as error:
        raise StoreUnavailable(
            f"{path} could not be written: {error}",
            hint="it is as it was; make some room, and try again",
        ) from error
    finally:
        copy.close()
    # It only tidies up: all is in the log by now, and read from there. A connection that believed a
    # damaged head in another encoding cannot do it.
    with suppress(sqlite3.Error):
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
