"""The doctor's look at single values: text that is no UTF-8, and what is no text or number at all.

SQLite keeps whatever bytes a column has, and its own check of the pages passes them. A store that
reads such a value stops there, so they are made readable before anything else is looked at.

Not here: what the values say (doctor_rows), or damaged pages (doctor_salvage).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from . import tables

__all__ = ["mend_values", "wrong_values"]

_FAULTS = {
    "TEXT": "(typeof({0}) NOT IN ('text', 'null') OR NOT is_utf8(CAST({0} AS BLOB)))",
    "BIGINT": "typeof({0}) NOT IN ('integer', 'null')",
}
_CURES = {"TEXT": "as_utf8(CAST({0} AS BLOB))", "BIGINT": "CAST({0} AS INTEGER)"}
_METADATA = "NOT is_json(metadata)"


def wrong_values(connection: sqlite3.Connection, session_id: str | None) -> list[tuple[str, str]]:
    """(table and column, what is wrong) of every column in which something is."""
    return [
        (f"{table}.{column}", f"{number} value{'s' * (number != 1)} that nobody can read")
        for table, column, where, _ in _faults(connection, session_id)
        if (
            number := connection.execute(f"SELECT count(*) FROM {table} WHERE {where}").fetchone()[
                0
            ]
        )
    ]


def mend_values(
    connection: sqlite3.Connection,
    session_id: str | None,
    keep_aside: Callable[[str, dict[str, Any]], object],
) -> list[str]:
    """Make them readable: U+FFFD for bytes that are no text. Says what was done."""
    actions: list[str] = []
    for table, column, where, cure in _faults(connection, session_id):
        found = connection.execute(f"SELECT * FROM {table} WHERE {where}")
        names = [name for name, *_ in found.description]
        rows = found.fetchall()
        if not rows:
            continue
        for row in rows:
            keep_aside(table, {name: _shown(value) for name, value in zip(names, row, strict=True)})
        connection.execute(f"UPDATE OR IGNORE {table} SET {column} = {cure} WHERE {where}")
        # What is left is a key that another row has: a second copy of it.
        connection.execute(f"DELETE FROM {table} WHERE {where}")
        actions.append(f"{table}.{column}: {len(rows)} made readable, as far as they can be")
    return actions


def _faults(
    connection: sqlite3.Connection, session_id: str | None
) -> Iterator[tuple[str, str, str, str]]:
    """Table, column, the rows that are wrong, and what the column is set to."""
    connection.create_function("is_utf8", 1, _is_utf8, deterministic=True)
    connection.create_function("as_utf8", 1, _as_utf8, deterministic=True)
    connection.create_function("is_json", 1, _is_json, deterministic=True)
    for table in ("session", *tables.TABLES):
        only = ""
        if session_id is not None:
            key = "id" if table == "session" else "session_id"
            quoted = session_id.encode("utf-8", "replace").hex()
            only = f" AND {key} = CAST(x'{quoted}' AS TEXT)"
        for _, column, kind, *_ in connection.execute(f"PRAGMA table_info({table})").fetchall():
            if kind in _FAULTS:
                where = _FAULTS[kind].format(column) + only
                yield table, column, where, _CURES[kind].format(column)
        if table == "session":
            yield table, "metadata", _METADATA + only, "NULL"


def _is_utf8(data: bytes | None) -> bool:
    if data is None:
        return True
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _as_utf8(data: bytes | None) -> str | None:
    return None if data is None else data.decode("utf-8", "replace")


def _is_json(text: Any) -> bool:
    if text is None:
        return True
    try:
        msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.MsgspecError, TypeError, UnicodeError, RecursionError):
        return False
    return True


def _shown(value: Any) -> Any:
    return value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
