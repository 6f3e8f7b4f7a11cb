"""One commit to PostgreSQL, as one statement, and so one round trip.

It begins with the `UPDATE` that checks the lease and locks the session's row; every other row of
the commit hangs on what that gave, and is written with it or not at all. The statements are those
of `tables`: an `INSERT` of one row becomes one of any number, an array for each column.

One statement sees the database as it was when it began. What others may say while it waits for the
row (the inbox, approvals) it would miss, so then the row is locked first and the rest follows, in
a transaction.

Not here: the store around it (postgres), how rows become columns (columns).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, cast

from ..errors import SessionDamaged
from . import refusals, tables
from .columns import Writes
from .postgres_pool import PostgresConnection, driver, sql
from .store import Lease

__all__ = ["keep", "write"]


async def keep(connection: PostgresConnection, session_id: str) -> Sequence[Any]:
    """Owner, end and epoch of the session's lease, which stay so until the transaction ends:
    whoever would change the session waits. Raises `SessionNotFound`."""
    row = await connection.fetchrow(sql(f"{tables.READ_LEASE} FOR_WRITING"), session_id)
    if row is None:
        raise refusals.session_not_found(session_id)
    return row


async def write(connection: PostgresConnection, lease: Lease, writes: Writes) -> int:
    """Write all of it and return the last sequence number. Raises as `SessionStore.commit` does."""
    statement, values = _statement(lease, writes)
    alone = not (
        writes.unless_waiting is not None
        or writes.inbox
        or writes.approvals
        or writes.consume
        or writes.renamed
    )
    try:
        if alone and (row := await connection.fetchrow(statement, *values)) is not None:
            return row[0]
        # Either others have a say in it, or something stands against it: which, can be said for
        # certain only while nobody else changes the session.
        async with connection.transaction():
            return await _write_locked(connection, lease, writes, statement, values)
    except driver().UniqueViolationError as error:
        raise _said_twice(error, lease.session_id) from error


async def _write_locked(
    connection: PostgresConnection, lease: Lease, writes: Writes, statement: str, values: list[Any]
) -> int:
    """In a transaction, with the session's row locked: what is seen stays true until its end."""
    session_id = lease.session_id
    owner, _, epoch = await keep(connection, session_id)
    if (owner, epoch) != (lease.owner, lease.epoch):
        raise refusals.lease_lost(lease)
    row = await connection.fetchrow(statement, *values)
    if row is None:
        raise await _missing(connection, session_id, writes)
    head, items, approvals = row
    for item_id, *_ in writes.inbox:
        if item_id not in items:
            raise refusals.item_changed(item_id)
    lane = writes.unless_waiting
    if lane and await connection.fetchval(sql(tables.WAITING_IN_LANE), session_id, lane):
        raise refusals.inbox_not_empty(session_id, lane)
    for approval_id, *_ in writes.approvals:
        if approval_id not in approvals:
            key = session_id, approval_id
            status = await connection.fetchval(sql(tables.READ_APPROVAL), *key)
            raise refusals.approval_decided(approval_id, status)
    for approval_id, digest in writes.consume:
        if not await connection.fetchval(sql(tables.CONSUME), session_id, approval_id, digest):
            raise refusals.approval_not_standing(approval_id)
    if writes.renamed:
        await connection.execute(sql(tables.SET_NAME), writes.name, session_id)
    return head


async def _missing(
    connection: PostgresConnection, session_id: str, writes: Writes
) -> SessionDamaged:
    """Which parent is not there."""
    for entry_id, parent_id in writes.parents:
        if not await connection.fetchval(sql(tables.ENTRY_IS_THERE), session_id, parent_id):
            return refusals.unknown_parent(entry_id, parent_id, session_id)
    return SessionDamaged("the commit was not taken", where=f"session {session_id}")


def _statement(lease: Lease, writes: Writes) -> tuple[str, list[Any]]:
    """Every row that a commit puts, as one statement made of those in `tables`.

    It gives `head` and the ids of the inbox items and approvals that were put; nothing, having
    written nothing, if the lease is lost or a parent is not there. Its text depends on which kinds
    of rows there are and not on how many, so that few texts ever have to be prepared.
    """
    parts: list[str] = []
    values: list[Any] = []

    def put(statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        if rows:
            parts.append(_from_arrays(statement))
            values.extend(map(list, zip(*rows, strict=True)))

    fence, _, returning = tables.FENCE.partition(" RETURNING ")
    values += [writes.numbered, len(writes.entries), writes.usage_total, writes.preview]
    values += [lease.session_id, lease.epoch, lease.owner]
    parents = list({parent_id for _, parent_id in writes.parents})
    if parents:
        fence += f" AND {_PARENTS_THERE}"
        values += [parents, lease.session_id, len(parents)]
    values.append(writes.numbered)
    parts.append(f"{fence} RETURNING {returning}, head - CAST(? AS BIGINT) AS before, id, epoch")

    seq = iter(range(1, writes.numbered + 1))  # entries, then facts, then usage, one after another
    put(tables.ADD_ENTRY, [(next(seq), *row) for row in writes.entries])
    facts = {(space, key): (space, key, next(seq), value) for space, key, value in writes.facts}
    put(tables.PUT_FACT, [fact for fact in facts.values() if fact[3] is not None])
    dropped = [key for key, fact in facts.items() if fact[3] is None]
    if dropped:
        parts.append(_DROP_FACTS)
        values.extend(map(list, zip(*dropped, strict=True)))
    put(tables.ADD_USAGE, [(next(seq), *row) for row in writes.usage])
    put(tables.PUT_LANE, _last(writes.lanes))
    put(tables.PUT_OPERATION, _last(writes.operations))
    settled = set(writes.settled)
    put(tables.PUT_INTENT, [row for row in _last(writes.intents) if row[0] not in settled])
    if settled:
        parts.append(_SETTLE)
        values.append(writes.settled)
    put(tables.PUT_ITEM, _last(writes.inbox))
    put(tables.PUT_APPROVAL, _last(writes.approvals))
    return _joined(tuple(parts)), values


def _last(rows: Sequence[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Of rows with the same key the last: one statement puts a row once."""
    return list({row[0]: row for row in rows}.values())


# The order makes sure of the index over (session_id, id), one step for each parent: a plan made
# while a session is short is kept, and must not walk through all of it when it is long.
_PARENTS_THERE = """(SELECT count(*) FROM unnest(CAST(? AS TEXT[])) AS parent(id)
        WHERE parent.id = (SELECT entry.id FROM entry WHERE entry.session_id = ?
            AND entry.id >= parent.id ORDER BY entry.id LIMIT 1)) = ?"""
_DROP_FACTS = """DELETE FROM fact USING fence, unnest(CAST(? AS TEXT[]), CAST(? AS TEXT[])) AS u(a, b)
    WHERE session_id = fence.id AND namespace = u.a AND key = u.b"""
_SETTLE = "DELETE FROM intent USING fence WHERE session_id = fence.id AND intent.id = ANY(?)"
_INSERT = re.compile(r"(INSERT INTO (\w+)\s+\(([^)]*)\))\s+VALUES \([^)]*\)(.*)", re.DOTALL)


@cache
def _from_arrays(statement: str) -> str:
    """*statement*, an `INSERT` of one row, for any number of them: an array stands for each column."""
    match = cast("re.Match[str]", _INSERT.fullmatch(statement))
    into, names, tail = match[1], [name.strip() for name in match[3].split(",")], match[4]
    given = {"session_id": "fence.id", "epoch": "fence.epoch", "seq": "fence.before + u.seq"}
    taken = ", ".join(given.get(name, f"u.{name}") for name in names)
    from_rows = [name for name in names if name not in ("session_id", "epoch")]
    arrays = ", ".join(
        f"CAST(? AS {'BIGINT' if name in ('seq', 'timestamp') else 'TEXT'}[])" for name in from_rows
    )
    return (
        f"{into} SELECT {taken} FROM fence, "
        f"unnest({arrays}) WITH ORDINALITY AS u({', '.join(from_rows)}, ord) ORDER BY u.ord{tail}"
    )


@cache
def _joined(parts: tuple[str, ...]) -> str:
    """The parts of a commit as one statement, the fence first: the others come from its row."""
    named = {"fence": parts[0]}
    put = {"inbox": "ARRAY[]::TEXT[]", "approval": "ARRAY[]::TEXT[]"}
    for n, part in enumerate(parts[1:]):
        named[f"part{n}"] = part
        match = _INTO.match(part)
        if match and match[1] in put:
            put[match[1]] = f"ARRAY(SELECT id FROM part{n})"
    rows = ", ".join(f"{name} AS ({part})" for name, part in named.items())
    return sql(f"WITH {rows} SELECT head, {put['inbox']}, {put['approval']} FROM fence")


_INTO = re.compile(r"INSERT INTO (\w+)")


def _said_twice(error: Any, session_id: str) -> SessionDamaged:
    """What the database says of an id that is there already, in our words."""
    match = re.search(r"\(([\w, ]+)\)=\((.*)\)", error.detail or "")
    if match is None:
        return refusals.duplicate_id(f"a row of {error.table_name}", session_id)
    kind = "request" if match[1].endswith("request_id") else error.table_name
    return refusals.duplicate_id(f"{kind} {match[2].removeprefix(f'{session_id}, ')}", session_id)
