"""Sessions in PostgreSQL: from many processes on many machines, one writer for each session.

Leases run by the server's clock, so that those of workers do not matter. Whoever must not pass a
commit unseen (`enqueue`, `decide`) locks the session's row as a commit does.

Not here: the statements (tables), a commit (postgres_commit), connections (postgres_pool).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Literal, Self, cast

from ..errors import Misuse
from . import columns, refusals, tables
from .entries import EntryRow
from .leases import owner_is_dead
from .postgres_commit import keep, write
from .postgres_pool import PostgresConnection, PostgresPool, sql
from .postgres_tables import bring_up_to_date
from .rows import Approval, InboxItem, InboxQueue, InboxStatus, Operation, SessionInfo, UsageRow
from .store import Commit, Lease, SessionState

__all__ = ["PostgresStore"]

_IDS_AT_ONCE = 500


class PostgresStore:
    """A `SessionStore` in a database. Made by `PostgresStore.open`; closed by `aclose` or `async with`.

    A call that finds the server gone waits for it, `reconnect_seconds` at most. One that had begun
    to write when the connection broke raises `StoreUnavailable` at once and says that its outcome
    is not known; it is never tried again here. Trying the same commit again is safe, since ids are
    given once: had it been written, it is refused.
    """

    def __init__(self, pool: PostgresPool) -> None:
        """For `open`."""
        self._pool = pool

    def __repr__(self) -> str:
        return f"<PostgresStore {self._pool.place}>"

    @classmethod
    async def open(
        cls,
        url: str,
        *,
        schema: str = "loopwright",
        pool_size: int = 10,
        reconnect_seconds: float = 10.0,
    ) -> Self:
        """Connect to `postgresql://user:password@host:port/database`, and make what is not there.

        *schema*: where the tables are; several stores in one database differ by it. *pool_size*:
        how many connections are used side by side, at most. *reconnect_seconds*: how long a later
        call waits for a server that went away.

        Raises `MissingExtra` without asyncpg, `StoreUnavailable` if the database cannot be used,
        `SessionTooNew` if a later version wrote it, `SessionDamaged` if the schema is another
        program's. No message has the user or the password in it.
        """
        if pool_size < 1:
            raise Misuse(f"a pool of {pool_size} connections", hint="one at least")
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,62}", schema):
            raise Misuse(
                f"{schema!r} cannot be the name of a schema",
                hint="ASCII letters, digits and underscores, at most 63, no digit first",
            )
        pool = PostgresPool(url, schema, pool_size)
        try:
            async with pool.connection(writing=True) as connection:
                await bring_up_to_date(connection, schema, pool.place)
        except BaseException:
            await pool.aclose()
            raise
        pool.reconnect_seconds = reconnect_seconds
        return cls(pool)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Give the connections back. Calls that are going on get a moment to end."""
        await self._pool.aclose()

    # -- sessions ----------------------------------------------------------------------------

    async def create(self, info: SessionInfo) -> None:
        """See `SessionStore`."""
        values = columns.info_columns(info)
        async with self._pool.transaction() as connection:
            if await connection.fetchval(sql(tables.CREATE_SESSION), *values) is None:
                raise refusals.session_exists(info.id)
            await connection.execute(sql(tables.PUT_LANE), info.id, *columns.main_lane())

    async def info(self, session_id: str) -> SessionInfo:
        """See `SessionStore`."""
        async with self._pool.connection() as connection:
            row = await connection.fetchrow(sql(tables.READ_INFO), _known(session_id))
        if row is None:
            raise refusals.session_not_found(session_id)
        return columns.read_info(row)

    async def list(self, *, cwd: str | None = None, limit: int | None = None) -> list[SessionInfo]:
        """See `SessionStore`."""
        query, values = tables.list_query(columns.shown(cwd), limit)
        async with self._pool.connection() as connection:
            rows = await connection.fetch(sql(query), *values)
        return [columns.read_info(row) for row in rows]

    async def delete(self, session_id: str) -> None:
        """See `SessionStore`."""
        async with self._pool.transaction() as connection:
            found = await keep(connection, _known(session_id))
            owner = found[0] if found[0] and owner_is_dead(found[0]) else None
            gone = await connection.fetchval(sql(tables.DELETE_SESSION), session_id, owner)
            if gone is None:
                raise refusals.session_locked(session_id, found[0], found[1])
            for table in tables.TABLES:
                await connection.execute(
                    sql(f"DELETE FROM {table} WHERE session_id = ?"), session_id
                )

    # -- leases ------------------------------------------------------------------------------

    async def claim(self, session_id: str, owner: str, seconds: float) -> Lease:
        """See `SessionStore`."""
        columns.key(owner, "the owner")
        async with self._pool.transaction() as connection:
            held_by, until, _ = await keep(connection, _known(session_id))
            heir_of = held_by if held_by and owner_is_dead(held_by) else owner
            epoch = await connection.fetchval(
                sql(tables.CLAIM), owner, int(seconds * 1000), session_id, heir_of
            )
            if epoch is None:
                raise refusals.session_locked(session_id, held_by, until)
        return Lease(session_id=session_id, owner=owner, epoch=epoch)

    async def renew(self, lease: Lease, seconds: float) -> None:
        """See `SessionStore`."""
        async with self._pool.connection() as connection:
            values = lease.session_id, lease.epoch, lease.owner
            done = await connection.fetchval(sql(tables.RENEW), int(seconds * 1000), *values)
            if done is None:
                await _demand_session(connection, lease.session_id)
                raise refusals.lease_lost(lease)

    async def release(self, lease: Lease) -> None:
        """See `SessionStore`."""
        async with self._pool.connection() as connection:
            await connection.execute(
                sql(tables.RELEASE), lease.session_id, lease.epoch, lease.owner
            )

    # -- commits -----------------------------------------------------------------------------

    async def commit(self, lease: Lease, commit: Commit) -> int:
        """See `SessionStore`; of a connection that breaks, see the class."""
        writes = columns.writes(commit)
        async with self._pool.connection(writing=True) as connection:
            return await write(connection, lease, writes)

    # -- reading -----------------------------------------------------------------------------

    async def state(self, session_id: str) -> SessionState:
        """See `SessionStore`."""
        async with (
            self._pool.connection() as connection,
            connection.transaction(isolation="repeatable_read", readonly=True),
        ):
            head = await connection.fetchrow(sql(tables.READ_HEAD), _known(session_id))
            if head is None:
                raise refusals.session_not_found(session_id)

            async def rows(query: str) -> list[Sequence[Any]]:
                return await connection.fetch(sql(query), session_id)

            lanes = await rows(tables.READ_LANES)
            unfinished = await rows(tables.READ_UNFINISHED)
            finished = await rows(tables.READ_LAST_FINISHED)
            intents = await rows(tables.READ_INTENTS)
            inbox = await rows(tables.inbox_query(session_id)[0])
            approvals = await rows(tables.READ_STANDING)
            facts = await rows(tables.READ_FACTS)
        operations = sorted([*unfinished, *finished], key=lambda row: row[0])
        return SessionState(
            info=columns.read_info(head[1:]),
            head=head[0],
            lanes=[columns.read_lane(session_id, row[0]) for row in lanes],
            operations=[columns.read_operation(session_id, row[1]) for row in operations],
            intents=[columns.read_intent(session_id, row[0]) for row in intents],
            inbox=[columns.read_item(session_id, *row) for row in inbox],
            approvals=[columns.read_approval(session_id, *row) for row in approvals],
            facts=[columns.read_fact(*row) for row in facts],
        )

    async def entries(
        self,
        session_id: str,
        *,
        before: int | None = None,
        after: int | None = None,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> list[EntryRow]:
        """See `SessionStore`."""
        query = tables.entries_query(_known(session_id), before, after, limit, newest_first)
        return [EntryRow(*row) for row in await self._rows(session_id, *query)]

    async def find(self, session_id: str, entry_ids: Sequence[str]) -> list[EntryRow]:
        """See `SessionStore`."""
        found: list[EntryRow] = []
        wanted = list(dict.fromkeys(_known(entry_id) for entry_id in entry_ids)) or [""]
        for start in range(0, len(wanted), _IDS_AT_ONCE):
            query = tables.find_query(_known(session_id), wanted[start : start + _IDS_AT_ONCE])
            found += [EntryRow(*row) for row in await self._rows(session_id, *query)]
        return sorted(found, key=lambda row: row.seq)

    async def usage(self, session_id: str) -> list[UsageRow]:
        """See `SessionStore`."""
        rows = await self._rows(session_id, tables.READ_USAGE, [_known(session_id)])
        return [columns.read_usage(session_id, *row) for row in rows]

    async def operations(
        self, session_id: str, *, request_id: str | None = None
    ) -> list[Operation]:
        """See `SessionStore`."""
        query, values = tables.READ_OPERATIONS, [_known(session_id)]
        if request_id is not None:
            query, values = tables.READ_REQUEST, [*values, _known(request_id)]
        rows = await self._rows(session_id, query, values)
        return [columns.read_operation(session_id, row[0]) for row in rows]

    # -- without a lease ---------------------------------------------------------------------

    async def enqueue(self, session_id: str, item: InboxItem) -> InboxItem:
        """See `SessionStore`."""
        values = columns.item_columns(item)
        async with self._pool.transaction() as connection:
            await keep(connection, _known(session_id))  # a commit that must not miss it comes after
            if await connection.fetchval(sql(tables.ENQUEUE), session_id, *values) is not None:
                return item
            row = await connection.fetchrow(sql(tables.READ_ITEM), session_id, item.id)
            row = row or await connection.fetchrow(
                sql(tables.READ_REQUESTED_ITEM), session_id, item.request_id
            )
        return columns.read_item(session_id, *cast("Sequence[Any]", row))

    async def inbox(
        self,
        session_id: str,
        *,
        lane: str | None = None,
        queues: Sequence[InboxQueue] = (),
        after: str | None = None,
        ids: Sequence[str] | None = None,
    ) -> list[InboxItem]:
        """See `SessionStore`."""
        query = tables.inbox_query(
            _known(session_id),
            columns.shown(lane),
            tuple(queues),
            columns.shown(after),
            None if ids is None else tuple(map(_known, ids)),
        )
        rows = await self._rows(session_id, *query)
        return [columns.read_item(session_id, *row) for row in rows]

    async def withdraw(self, session_id: str, item_id: str) -> InboxStatus | None:
        """See `SessionStore`."""
        key = _known(session_id), _known(item_id)
        async with self._pool.connection(writing=True) as connection:
            if await connection.fetchval(sql(tables.WITHDRAW), *key) is not None:
                return "withdrawn"
            status = await connection.fetchval(sql(tables.READ_ITEM_STATUS), *key)
            if status is None:
                await _demand_session(connection, session_id)
                return None
        return "withdrawn" if status == "withdrawn" else "placed"

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
        """See `SessionStore`."""
        key = _known(session_id), _known(approval_id)
        async with self._pool.transaction() as connection:
            await keep(connection, key[0])  # nobody else decides now, and no commit consumes
            row = await connection.fetchrow(sql(tables.READ_APPROVAL), *key)
            if row is None or row[0] != "pending":
                raise refusals.approval_decided(approval_id, None if row is None else row[0])
            asked = columns.read_approval(session_id, *row)
            decided = columns.decided(asked, verdict, arguments, digest, reason, decided_by)
            _, *values = columns.approval_columns(decided)
            await connection.execute(sql(tables.DECIDE), *values, *key)
        return columns.read_approval(session_id, *values)

    async def approvals(self, session_id: str) -> list[Approval]:
        """See `SessionStore`."""
        rows = await self._rows(session_id, tables.READ_APPROVALS, [_known(session_id)])
        return [columns.read_approval(session_id, *row) for row in rows]

    async def _rows(
        self, session_id: str, query: str, values: Sequence[Any]
    ) -> list[Sequence[Any]]:
        """What *query* gives. Nothing at all may be for want of a session."""
        async with self._pool.connection() as connection:
            rows = await connection.fetch(sql(query), *values)
            if not rows:
                await _demand_session(connection, session_id)
        return rows


def _known(text: str) -> str:
    """*text* to look something up by. What cannot be stored is not there, and no error."""
    return columns.shown(text) or ""


async def _demand_session(connection: PostgresConnection, session_id: str) -> None:
    if await connection.fetchval(sql(tables.SESSION_IS_THERE), _known(session_id)) is None:
        raise refusals.session_not_found(session_id)
