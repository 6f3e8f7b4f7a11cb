"""The doctor's look at a database of sessions.

It reads as any reader does, so others may write meanwhile. Rows that cannot be decoded are noted and
passed over, where a store would refuse the session.

Not here: what is wrong with a session (doctor_rows), or mending (doctor_sqlite_repair).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from ..errors import (
    SessionDamaged,
    SessionError,
    SessionTooNew,
    StoreUnavailable,
)
from ..messages import Usage
from . import columns, refusals, tables
from .doctor_report import Finding, Report
from .doctor_rows import HeldSession, check_session
from .doctor_salvage import corruption, lenient_text
from .doctor_schema import has_our_columns, is_ours_below
from .doctor_values import wrong_values
from .entries import EntryRow
from .leases import describe_owner, owner_is_dead
from .sqlite_file import DatabaseFile

__all__ = ["SCHEMA", "examine_database", "held_session", "orphans", "session_ids"]

_BUSY_SECONDS = 5.0
SCHEMA = "schema"
"""The kind of finding for a list of tables that cannot be read; see doctor_schema."""
T = TypeVar("T")


def examine_database(path: Path, session_id: str | None) -> Report:
    """Look at *path*. Raises `SessionNotFound` if it is asked for a session that is not there."""
    report = Report(target=str(path))
    file = DatabaseFile(path, _BUSY_SECONDS, read_only=True)
    try:
        connection = file.connect()
    except SessionTooNew as error:
        report.findings = [_of_file("too_new", error.message, hint=error.hint)]
        return report
    except (SessionDamaged, StoreUnavailable) as error:
        if isinstance(error, SessionDamaged) and is_ours_below(path):
            report.findings = [_schema(error.message)]
            return report
        if isinstance(error, StoreUnavailable) and _is_earlier(path):
            what = f"{error.message}; it is brought up to date when it is next written to"
            report.findings = [
                Finding(kind="earlier_format", severity="note", where="file", message=what)
            ]
            return report
        kind = "foreign" if isinstance(error, SessionDamaged) else "unusable"
        report.findings = [_of_file(kind, error.message, hint=error.hint)]
        return report
    except sqlite3.Error as error:
        if isinstance(file.fault(error), SessionDamaged) and is_ours_below(path):
            report.findings = [_schema(str(error))]
            return report
        what = f"SQLite cannot read it: {error}"
        report.findings = [_of_file("unusable", what, hint="restore it from a backup")]
        return report
    connection.text_factory = lenient_text
    try:
        _look(connection, session_id, report)
    finally:
        connection.close()
    return report


def _schema(trouble: str) -> Finding:
    return _of_file(
        SCHEMA,
        f"its list of tables is damaged: {trouble}",
        mends="the list is made anew, and all that can still be read is put into new pages",
    )


def _is_earlier(path: Path) -> bool:
    """A file that is empty, or of a version that is migrated when it is opened for writing."""
    if path.stat().st_size == 0:
        return True
    try:
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)
        try:
            found = connection.execute(tables.READ_FORMAT, (tables.FORMAT_KEY,)).fetchone()
        finally:
            connection.close()
        return found is not None and int(found[0]) < tables.FORMAT_VERSION
    except (sqlite3.Error, ValueError):
        return False


def _of_file(
    kind: str, message: str, *, hint: str | None = None, mends: str | None = None
) -> Finding:
    said = f"{message} ({hint})" if hint else message
    return Finding(kind=kind, severity="error", where="file", message=said, remedy=mends)


def _look(connection: sqlite3.Connection, session_id: str | None, report: Report) -> None:
    report.findings += [
        _of_file(
            "corrupt",
            f"its pages are damaged: {trouble}",
            mends="all that can still be read is put into new pages",
        )
        for trouble in corruption(connection)
    ]
    if report.findings:
        return  # what a query over damaged pages says, the copy made of them will say better
    connection.execute("BEGIN")  # one instant, while others write
    try:
        if not has_our_columns(connection):
            report.findings = [_schema("a table or a column is missing")]
            return
        report.findings += [
            _of_file(
                "wrong_values",
                f"{column} has {what}",
                mends="bytes that are no text become U+FFFD, and what is no number 0",
            )
            for column, what in wrong_values(connection, session_id)
        ]
        if report.findings:
            return  # nobody can compare what is no number; the copy will tell
        ids = [session_id] if session_id is not None else session_ids(connection)
        for each in ids:
            held = held_session(connection, each)
            report.sessions += 1
            report.entries += len(held.rows)
            report.findings += check_session(held) + _leases(connection, each)
        report.findings += [
            Finding(
                kind="orphan_rows",
                severity="error",
                session_id=orphan,
                where=f"session {orphan}",
                message="there are rows of it, and the session itself is missing",
                remedy="it is listed again, if it has entries; else they are taken out",
            )
            for orphan in orphans(connection)
            if session_id in (None, orphan)
        ]
    finally:
        connection.execute("ROLLBACK")


def session_ids(connection: sqlite3.Connection) -> list[str]:
    """Those that are listed."""
    return [id for (id,) in connection.execute("SELECT id FROM session ORDER BY id")]


def orphans(connection: sqlite3.Connection) -> list[str]:
    """Ids that rows name, and no session has."""
    found: set[str] = set()
    for table in tables.TABLES:
        sql = f"SELECT DISTINCT session_id FROM {table} WHERE session_id NOT IN (SELECT id FROM session)"
        found.update(id for (id,) in connection.execute(sql))
    return sorted(found)


def _leases(connection: sqlite3.Connection, session_id: str) -> list[Finding]:
    sql = "SELECT owner FROM session WHERE id = ? AND owner IS NOT NULL"
    return [
        Finding(
            kind="lease_left",
            severity="note",
            session_id=session_id,
            where="lease",
            message=f"{describe_owner(owner)} had it open and ended without closing it; "
            "whoever opens it next takes over at once",
        )
        for (owner,) in connection.execute(sql, (session_id,))
        if owner_is_dead(owner)
    ]


# -- reading what can be read ----------------------------------------------------------------


def held_session(connection: sqlite3.Connection, session_id: str) -> HeldSession:
    """All rows of a session. Raises `SessionNotFound`."""
    return _Reader(connection, session_id).held()


class _Reader:
    """Reads the rows of one session, and notes those that cannot be read."""

    def __init__(self, connection: sqlite3.Connection, session_id: str) -> None:
        self.connection = connection
        self.session_id = session_id
        self.unreadable: list[tuple[str, str, str]] = []

    def held(self) -> HeldSession:
        found = self._rows("SELECT entries, usage, head FROM session WHERE id = ?")
        if not found:
            raise refusals.session_not_found(self.session_id)
        entries, usage, head = found[0]
        self._decoded("fact", "namespace || ':' || key, value", _fact, "seq")
        self._decoded("approval", "id, status, digest, body", columns.read_approval, "ord")
        sql = tables.entries_query(self.session_id, None, None, None, False)[0]
        return HeldSession(
            id=self.session_id,
            entries=entries,
            usage_total=_usage(usage),
            head=head,
            rows=[_entry(*row) for row in self._rows(tables.in_dialect(sql, tables.SQLITE))],
            lanes=self._decoded("lane", "name, body", columns.read_lane, "name <> 'main', name"),
            operations=self._decoded("operation", "id, body", columns.read_operation, "ord"),
            intents=self._decoded("intent", "id, body", columns.read_intent, "ord"),
            inbox=[
                item
                for item in self._decoded("inbox", "id, status, body", columns.read_item, "ord")
                if item.status == "pending"
            ],
            usage=self._decoded("usage", "id, seq, body", columns.read_usage, "seq"),
            highest_seq=max(self._highest("fact"), self._highest("usage")),
            unreadable=self.unreadable,
        )

    def _rows(self, sql: str) -> list[tuple[Any, ...]]:
        return self.connection.execute(sql, (self.session_id,)).fetchall()

    def _highest(self, table: str) -> int:
        sql = f"SELECT coalesce(max(seq), 0) FROM {table} WHERE session_id = ?"
        return self._rows(sql)[0][0]

    def _decoded(self, table: str, names: str, decode: Callable[..., T], order: str) -> list[T]:
        """The records of *table*: *names* are its key and what *decode* takes behind the id."""
        sql = f"SELECT {names} FROM {table} WHERE session_id = ? ORDER BY {order}"
        records: list[T] = []
        for key, *values in self._rows(sql):
            try:
                records.append(decode(self.session_id, *values))
            except (SessionError, msgspec.MsgspecError, TypeError, ValueError) as error:
                why = error.message if isinstance(error, SessionError) else str(error)
                self.unreadable.append((table, str(key), why))
        return records


def _fact(_session_id: str, value: str) -> Any:
    return msgspec.json.decode(value)


def _usage(body: str) -> Usage | None:
    try:
        return msgspec.json.decode(body, type=Usage)
    except (msgspec.MsgspecError, TypeError):
        return None  # it is made anew from the ledger


def _entry(
    id: str, parent_id: str | None, type: Any, payload: bytes | None, *more: Any
) -> EntryRow:
    return EntryRow(id, parent_id, type, payload or b"", *more)
