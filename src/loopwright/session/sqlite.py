"""Sessions in one SQLite file: many of them, from many processes of one machine.

Every write is one transaction that holds the write lock from its beginning and is on the disk
before anybody is told. Sessions do not wait for each other's models, only for each other's
commits, which take a fraction of a millisecond.

Not for network file systems: SQLite's locks do not hold there (sqlite.org/useovernet.html). For
several machines there is Postgres.

Not here: the statements (tables), the thread (sqlite_thread), the file (sqlite_file).
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from ..errors import Misuse
from . import columns, refusals, tables
from .entries import EntryRow
from .leases import owner_is_dead
from .rows import Approval, InboxItem, InboxQueue, InboxStatus, Operation, SessionInfo, UsageRow
from .sqlite_file import DatabaseFile
from .sqlite_thread import SqliteThread
from .store import Commit, Lease, SessionState

__all__ = ["SqliteStore"]

T = TypeVar("T")

_IDS_AT_ONCE = 500


class SqliteStore:
    """A `SessionStore` in a file. Made by `SqliteStore.open`; closed by `aclose` or `async with`.

    Leases are timed by the clock of this machine. A caller that is cancelled leaves no half of
    anything: what it handed over is still written, whole.
    """

    def __init__(self, file: DatabaseFile, thread: SqliteThread) -> None:
        self._file = file
        self._thread = thread
        self._closed = False

    @classmethod
    async def open(
        cls,
        path: str | os.PathLike[str],
        *,
        busy_timeout_seconds: float = 5.0,
        read_only: bool = False,
    ) -> Self:
        """Open the file *path*; it is made if it is not there, and migrated if it is older.

        *busy_timeout_seconds*: how long to wait for other processes that write; keep it well below
        the length of a lease. *read_only*: for listing and export while others write; the file
        must be there. New files and folders are readable by their owner only. Before a migration
        a copy is made, `<file>.v<version>.bak`.

        Raises `SessionTooNew`, `SessionDamaged` for a file that is not ours, `StoreUnavailable`,
        and `Misuse` for `:memory:`.
        """
        file = DatabaseFile(path, busy_timeout_seconds, read_only)
        return cls(file, await SqliteThread.start(file))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    @property
    def path(self) -> Path:
        """The file."""
        return self._file.path

    async def aclose(self) -> None:
        """Write what was handed over and close the file. Leases stay: closing is like a crash."""
        if self._closed:
            return
        self._closed = True
        await self._thread.aclose()

    async def _read(self, work: Callable[..., T], *args: Any) -> T:
        if self._closed:
            raise refusals.store_closed(str(self._file.path))
        try:
            return await self._thread.read(partial(work, *args))
        except UnicodeEncodeError as error:
            raise _unknown_text(error, args[0]) from error

    async def _write(self, work: Callable[..., T], *args: Any) -> T:
        if self._closed:
            raise refusals.store_closed(str(self._file.path))
        if self._file.read_only:
            raise refusals.read_only(str(self._file.path))
        try:
            return await self._thread.write(partial(work, *args))
        except UnicodeEncodeError as error:
            raise _unknown_text(error, args[0]) from error

    # -- sessions -----------------------------------------------------------------------------

    async def create(self, info: SessionInfo) -> None:
        await self._write(_create, columns.info_columns(info))

    async def info(self, session_id: str) -> SessionInfo:
        (row,) = await self._read(_rows_of_session, session_id, _READ_INFO, (session_id,))
        return columns.read_info(row)

    async def list(self, *, cwd: str | None = None, limit: int | None = None) -> list[SessionInfo]:
        sql, values = tables.list_query(columns.shown(cwd), limit)
        rows = await self._read(_rows, _sqlite(sql), values)
        return [columns.read_info(row) for row in rows]

    async def delete(self, session_id: str) -> None:
        await self._write(_delete, session_id)

    # -- leases -------------------------------------------------------------------------------

    async def claim(self, session_id: str, owner: str, seconds: float) -> Lease:
        owner = columns.key(owner, "the owner")
        return await self._write(_claim, session_id, owner, int(seconds * 1000))

    async def renew(self, lease: Lease, seconds: float) -> None:
        await self._write(_renew, lease, int(seconds * 1000))

    async def release(self, lease: Lease) -> None:
        await self._write(_release, lease)

    # -- commits ------------------------------------------------------------------------------

    async def commit(self, lease: Lease, commit: Commit) -> int:
        return await self._write(_commit, lease, columns.writes(commit))

    # -- reading ------------------------------------------------------------------------------

    async def state(self, session_id: str) -> SessionState:
        return await self._read(_state, session_id)

    async def entries(
        self,
        session_id: str,
        *,
        before: int | None = None,
        after: int | None = None,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> list[EntryRow]:
        sql, values = tables.entries_query(session_id, before, after, limit, newest_first)
        return await self._read(_entries, session_id, _sqlite(sql), values)

    async def find(self, session_id: str, entry_ids: Sequence[str]) -> list[EntryRow]:
        known = [i for i in dict.fromkeys(entry_ids) if columns.shown(i) == i]
        return await self._read(_find, session_id, known)

    async def usage(self, session_id: str) -> list[UsageRow]:
        rows = await self._read(_rows_of_session, session_id, tables.READ_USAGE, (session_id,))
        return [columns.read_usage(session_id, *row) for row in rows]

    async def operations(
        self, session_id: str, *, request_id: str | None = None
    ) -> list[Operation]:
        sql, values = tables.READ_OPERATIONS, (session_id,)
        if request_id is not None:
            sql, values = tables.READ_REQUEST, (session_id, request_id)
        rows = await self._read(_rows_of_session, session_id, sql, values)
        return [columns.read_operation(session_id, body) for (body,) in rows]

    # -- without a lease ----------------------------------------------------------------------

    async def enqueue(self, session_id: str, item: InboxItem) -> InboxItem:
        row = columns.item_columns(item)
        known = await self._write(_enqueue, session_id, row)
        return item if known is None else columns.read_item(session_id, *known)

    async def inbox(
        self,
        session_id: str,
        *,
        lane: str | None = None,
        queues: Sequence[InboxQueue] = (),
        after: str | None = None,
        ids: Sequence[str] | None = None,
    ) -> list[InboxItem]:
        among = None if ids is None else tuple(ids)
        sql, values = tables.inbox_query(session_id, lane, tuple(queues), after, among)
        rows = await self._read(_rows_of_session, session_id, sql, values)
        return [columns.read_item(session_id, *row) for row in rows]

    async def withdraw(self, session_id: str, item_id: str) -> InboxStatus | None:
        return await self._write(_withdraw, session_id, item_id)

    async def decide(
        self,
        session_id: str,
        approval_id: str,
        verdict: Literal["approved", "denied"],
        *,
        arguments: dict[str, Any] | None = None,
        digest: str | None = None,
        reason: str | None = None,
        decided_by: str | None = None,
    ) -> Approval:
        decided = partial(
            columns.decided,
            verdict=verdict,
            arguments=arguments,
            digest=digest,
            reason=reason,
            decided_by=decided_by,
        )
        row = await self._write(_decide, session_id, approval_id, decided)
        return columns.read_approval(session_id, *row)

    async def approvals(self, session_id: str) -> list[Approval]:
        rows = await self._read(_rows_of_session, session_id, tables.READ_APPROVALS, (session_id,))
        return [columns.read_approval(session_id, *row) for row in rows]


# -- on the store's thread -------------------------------------------------------------------
# Each is given the connection last, and runs in a transaction.

Connection = sqlite3.Connection


def _unknown_text(error: UnicodeEncodeError, session_id: object) -> Exception:
    """Something was asked for by a text that no database can have: halves of surrogate pairs."""
    if error.object == session_id:
        return refusals.session_not_found(error.object)
    return Misuse(f"nothing is stored under {error.object!r}: it is not valid Unicode")


def _sqlite(sql: str) -> str:
    return tables.in_dialect(sql, tables.SQLITE)


_READ_INFO = _sqlite(tables.READ_INFO)
_READ_HEAD = _sqlite(tables.READ_HEAD)
_CLAIM = _sqlite(tables.CLAIM)
_RENEW = _sqlite(tables.RENEW)
_FENCE = _sqlite(tables.FENCE)
_DELETE_SESSION = _sqlite(tables.DELETE_SESSION)
_KEEP_SESSION = _sqlite(tables.KEEP_SESSION)
_DELETE_ROWS = [f"DELETE FROM {table} WHERE session_id = ?" for table in tables.TABLES]


def _demand_session(session_id: str, connection: Connection) -> None:
    if connection.execute(_KEEP_SESSION, (session_id,)).fetchone() is None:
        raise refusals.session_not_found(session_id)


def _rows(sql: str, values: Sequence[Any], connection: Connection) -> list[Any]:
    return connection.execute(sql, values).fetchall()


def _rows_of_session(
    session_id: str, sql: str, values: Sequence[Any], connection: Connection
) -> list[Any]:
    rows = connection.execute(sql, values).fetchall()
    if not rows:
        _demand_session(session_id, connection)
    return rows


def _create(row: tuple[Any, ...], connection: Connection) -> None:
    if not connection.execute(tables.CREATE_SESSION, row).fetchall():
        raise refusals.session_exists(row[0])
    connection.execute(tables.PUT_LANE, (row[0], *columns.main_lane()))


def _delete(session_id: str, connection: Connection) -> None:
    if not connection.execute(_DELETE_SESSION, (session_id, None)).fetchall():
        dead = _dead_owner(session_id, connection)
        connection.execute(_DELETE_SESSION, (session_id, dead))
    for sql in _DELETE_ROWS:
        connection.execute(sql, (session_id,))


def _dead_owner(session_id: str, connection: Connection) -> str:
    """Who holds the lease and is no more. Raises `SessionLocked` if that is not sure."""
    held = connection.execute(tables.READ_LEASE, (session_id,)).fetchone()
    if held is None:
        raise refusals.session_not_found(session_id)
    owner, until, _ = held
    if not owner_is_dead(owner):
        raise refusals.session_locked(session_id, owner, until)
    return owner


def _claim(session_id: str, owner: str, milliseconds: int, connection: Connection) -> Lease:
    values = (owner, milliseconds, session_id)
    rows = connection.execute(_CLAIM, (*values, owner)).fetchall()
    if not rows:
        dead = _dead_owner(session_id, connection)
        rows = connection.execute(_CLAIM, (*values, dead)).fetchall()
    return Lease(session_id, owner, rows[0][0])


def _renew(lease: Lease, milliseconds: int, connection: Connection) -> None:
    values = (milliseconds, lease.session_id, lease.epoch, lease.owner)
    if not connection.execute(_RENEW, values).fetchall():
        _demand_session(lease.session_id, connection)
        raise refusals.lease_lost(lease)


def _release(lease: Lease, connection: Connection) -> None:
    connection.execute(tables.RELEASE, (lease.session_id, lease.epoch, lease.owner))


def _commit(lease: Lease, writes: columns.Writes, connection: Connection) -> int:
    session_id, epoch = lease.session_id, lease.epoch
    execute = connection.execute
    fence = (writes.numbered, len(writes.entries), writes.usage_total, writes.preview)
    rows = execute(_FENCE, (*fence, session_id, epoch, lease.owner)).fetchall()
    if not rows:
        _demand_session(session_id, connection)
        raise refusals.lease_lost(lease)
    head: int = rows[0][0]
    seq = head - writes.numbered
    for entry_id, parent_id in writes.parents:
        if execute(tables.ENTRY_IS_THERE, (session_id, parent_id)).fetchone() is None:
            raise refusals.unknown_parent(entry_id, parent_id, session_id)
    for row in writes.entries:
        seq += 1
        _once(connection, tables.ADD_ENTRY, (session_id, seq, epoch, *row), f"entry {row[0]}")
    for namespace, key, value in writes.facts:
        seq += 1
        if value is None:
            execute(tables.DROP_FACT, (session_id, namespace, key))
        else:
            execute(tables.PUT_FACT, (session_id, namespace, key, seq, value))
    for row in writes.usage:
        seq += 1
        _once(connection, tables.ADD_USAGE, (session_id, seq, *row), f"usage {row[0]}")
    for row in writes.lanes:
        execute(tables.PUT_LANE, (session_id, *row))
    for row in writes.operations:
        _once(connection, tables.PUT_OPERATION, (session_id, *row), f"request {row[3]}")
    for row in writes.intents:
        execute(tables.PUT_INTENT, (session_id, *row))
    for intent_id in writes.settled:
        execute(tables.SETTLE_INTENT, (session_id, intent_id))
    if writes.renamed:
        execute(tables.SET_NAME, (writes.name, session_id))
    _commit_inbox(session_id, writes, connection)
    _commit_approvals(session_id, writes, connection)
    return head


def _once(connection: Connection, sql: str, values: tuple[Any, ...], what: str) -> None:
    """Insert a row whose key must be new."""
    try:
        connection.execute(sql, values)
    except sqlite3.IntegrityError as error:
        raise refusals.duplicate_id(what, values[0]) from error


def _commit_inbox(session_id: str, writes: columns.Writes, connection: Connection) -> None:
    for row in writes.inbox:
        try:
            put = connection.execute(tables.PUT_ITEM, (session_id, *row)).fetchall()
        except sqlite3.IntegrityError as error:
            raise refusals.duplicate_id(f"request {row[4]}", session_id) from error
        if not put:
            raise refusals.item_changed(row[0])
    lane = writes.unless_waiting
    if (
        lane is not None
        and connection.execute(tables.WAITING_IN_LANE, (session_id, lane)).fetchone()
    ):
        raise refusals.inbox_not_empty(session_id, lane)


def _commit_approvals(session_id: str, writes: columns.Writes, connection: Connection) -> None:
    for row in writes.approvals:
        if not connection.execute(tables.PUT_APPROVAL, (session_id, *row)).fetchall():
            raise refusals.approval_decided(row[0], _approval(session_id, row[0], connection)[0])
    for approval_id, digest in writes.consume:
        if not connection.execute(tables.CONSUME, (session_id, approval_id, digest)).fetchall():
            raise refusals.approval_not_standing(approval_id)


def _state(session_id: str, connection: Connection) -> SessionState:
    def rows(sql: str) -> list[Any]:
        return connection.execute(sql, (session_id,)).fetchall()

    found = rows(_READ_HEAD)
    if not found:
        raise refusals.session_not_found(session_id)
    head, *info = found[0]
    operations = dict(rows(tables.READ_LAST_FINISHED) + rows(tables.READ_UNFINISHED))
    sql, values = tables.inbox_query(session_id)
    return SessionState(
        info=columns.read_info(info),
        head=head,
        lanes=[columns.read_lane(session_id, body) for (body,) in rows(tables.READ_LANES)],
        operations=[columns.read_operation(session_id, operations[n]) for n in sorted(operations)],
        intents=[columns.read_intent(session_id, body) for (body,) in rows(tables.READ_INTENTS)],
        inbox=[columns.read_item(session_id, *row) for row in connection.execute(sql, values)],
        approvals=[columns.read_approval(session_id, *row) for row in rows(tables.READ_STANDING)],
        facts=[columns.read_fact(*row) for row in rows(tables.READ_FACTS)],
    )


def _entries(
    session_id: str, sql: str, values: Sequence[Any], connection: Connection
) -> list[EntryRow]:
    return [EntryRow(*row) for row in _rows_of_session(session_id, sql, values, connection)]


def _find(session_id: str, ids: list[str], connection: Connection) -> list[EntryRow]:
    _demand_session(session_id, connection)
    found: list[EntryRow] = []
    for begin in range(0, len(ids), _IDS_AT_ONCE):
        sql, values = tables.find_query(session_id, ids[begin : begin + _IDS_AT_ONCE])
        found += [EntryRow(*row) for row in connection.execute(_sqlite(sql), values)]
    return sorted(found, key=lambda row: row.seq)


def _enqueue(
    session_id: str, row: tuple[Any, ...], connection: Connection
) -> tuple[str, str] | None:
    """None if it was added, else the status and body of the item that is there already."""
    _demand_session(session_id, connection)
    if connection.execute(tables.ENQUEUE, (session_id, *row)).fetchall():
        return None
    item_id, request_id = row[0], row[4]
    known = connection.execute(tables.READ_REQUESTED_ITEM, (session_id, request_id)).fetchone()
    return known or connection.execute(tables.READ_ITEM, (session_id, item_id)).fetchone()


def _withdraw(session_id: str, item_id: str, connection: Connection) -> InboxStatus | None:
    if connection.execute(tables.WITHDRAW, (session_id, item_id)).fetchall():
        return "withdrawn"
    found = connection.execute(tables.READ_ITEM_STATUS, (session_id, item_id)).fetchone()
    if found is None:
        _demand_session(session_id, connection)
        return None
    return found[0]


def _approval(session_id: str, approval_id: str, connection: Connection) -> tuple[str, str, str]:
    row = connection.execute(tables.READ_APPROVAL, (session_id, approval_id)).fetchone()
    if row is None:
        _demand_session(session_id, connection)
        raise refusals.approval_decided(approval_id, None)
    return row


def _decide(
    session_id: str,
    approval_id: str,
    decided: Callable[[Approval], Approval],
    connection: Connection,
) -> tuple[str, str, str]:
    row = _approval(session_id, approval_id, connection)
    if row[0] != "pending":
        raise refusals.approval_decided(approval_id, row[0])
    _, status, digest, body = columns.approval_columns(
        decided(columns.read_approval(session_id, *row))
    )
    connection.execute(tables.DECIDE, (status, digest, body, session_id, approval_id))
    return status, digest, body
