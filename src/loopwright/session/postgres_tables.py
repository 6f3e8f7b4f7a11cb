"""The tables in a PostgreSQL schema: made, or brought up to date, by whoever opens it first.

Not here: what they look like (tables), or how they did in earlier versions (migrations).
"""

from __future__ import annotations

from ..errors import SessionDamaged, StoreUnavailable
from . import tables
from .migrations import steps_from
from .postgres_pool import PostgresConnection, driver, sql
from .refusals import too_new

__all__ = ["bring_up_to_date"]

_CHANGING = 0x6C6F6F7077726967
"""The advisory lock of whoever makes or changes tables ("loopwrig")."""


async def bring_up_to_date(connection: PostgresConnection, schema: str, place: str) -> None:
    """Have today's tables in *schema*, which is the connection's search path.

    Raises `SessionTooNew`, `SessionDamaged` if the schema is in use by another program, and
    `StoreUnavailable` if the database cannot hold what we keep; nothing was changed then.
    """
    where = f"schema {schema} at {place}"
    if await _format(connection, schema, where) == tables.FORMAT_VERSION:
        return
    async with connection.transaction():
        await connection.execute("SELECT pg_advisory_xact_lock($1)", _CHANGING)
        version = await _format(connection, schema, where)
        if version == tables.FORMAT_VERSION:
            return  # another process was quicker
        if version is None:
            await _make_schema(connection, schema, place)
        statements = tables.DDL if version is None else steps_from(version)
        try:
            await connection.execute(";\n".join(sql(statement) for statement in statements))
        except driver().DuplicateTableError as error:
            raise _anothers(where) from error
        to = tables.FORMAT_KEY, str(tables.FORMAT_VERSION)
        await connection.execute(sql(tables.WRITE_FORMAT), *to)


async def _make_schema(connection: PostgresConnection, schema: str, place: str) -> None:
    if await connection.fetchval("SHOW server_encoding") != "UTF8":
        raise StoreUnavailable(
            f"the database {place} cannot hold every text",
            hint="create one with `CREATE DATABASE ... ENCODING 'UTF8'`",
        )
    # Looked for first, since `IF NOT EXISTS` demands the right to create it all the same.
    there = "SELECT 1 FROM pg_namespace WHERE nspname = $1"
    if await connection.fetchval(there, schema) is None:
        await connection.execute(f'CREATE SCHEMA "{schema}"')


async def _format(connection: PostgresConnection, schema: str, where: str) -> int | None:
    """The version of the tables that are there, and at most today's; None if there are none."""
    # Reads the catalog itself: `to_regclass` may not see yet what another process just made.
    there = "SELECT 1 FROM pg_catalog.pg_tables WHERE schemaname = $1 AND tablename = 'meta'"
    if await connection.fetchval(there, schema) is None:
        return None
    try:
        found = await connection.fetchval(sql(tables.READ_FORMAT), tables.FORMAT_KEY)
    except driver().UndefinedColumnError as error:
        raise _anothers(where) from error
    if found is None:
        raise _anothers(where)
    if int(found) > tables.FORMAT_VERSION:
        raise too_new(where, found)
    return int(found)


def _anothers(where: str) -> SessionDamaged:
    return SessionDamaged(
        "there are tables of another program; nothing was changed",
        where=where,
        hint="give the sessions a schema of their own: PostgresStore.open(url, schema=...)",
    )
