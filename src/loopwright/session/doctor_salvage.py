"""All rows that a database with damaged pages still gives, put into new tables.

A table is read from both ends until a page cannot be read; the rows between, whose numbers are
known, are then asked for one by one. What lies on the damaged page itself is lost.

Not here: making the rows agree with each other again (doctor_rows).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Generator, Iterator
from typing import Any

from . import tables

__all__ = ["corruption", "lenient_text", "salvage"]

_MOST_PROBES = 200_000
"""So many rows are asked for one by one."""

_KEYS = {
    "lane": ("session_id", "name"),
    "fact": ("session_id", "namespace", "key"),
    "usage": ("session_id", "id"),
}
"""Tables without row numbers."""


_GO_BY = ("id", "session_id", "name", "namespace", "key")


def corruption(connection: sqlite3.Connection) -> list[str]:
    """What SQLite finds wrong with the pages; the first few."""
    try:
        rows = connection.execute("PRAGMA integrity_check(10)").fetchall()
    except sqlite3.Error as error:
        return [str(error)]
    lines = [
        line for (text,) in rows for line in str(text).splitlines() if not line.startswith("*")
    ]
    return [] if lines == ["ok"] else lines[:5]


def salvage(
    source: sqlite3.Connection,
    target: sqlite3.Connection,
    keep_aside: Callable[[str, dict[str, Any]], object],
) -> list[str]:
    """Fill the empty *target* with what *source* still gives. Says how many rows of each table.

    *keep_aside* is given the table and the row where another one with its key came before.
    """
    for statement in tables.DDL:
        target.execute(tables.in_dialect(statement, tables.SQLITE))
    target.execute(tables.WRITE_FORMAT, (tables.FORMAT_KEY, str(tables.FORMAT_VERSION)))
    target.execute("BEGIN")
    every = ("session", *tables.TABLES)
    counts = dict.fromkeys(every, 0)
    for table in every:
        names, into = _filling(target, table)
        whole = _wholly(target, table)
        for found in _rows(source, table, names):
            row = whole(found)
            if target.execute(into, row).rowcount > 0:
                counts[table] += 1
            elif table not in _KEYS:  # those are read twice, from either end
                keep_aside(table, dict(zip(names, row, strict=True)))
    # Once more, as a store reads them: an index may lead to rows that the table itself hides.
    ids = target.execute("SELECT id FROM session UNION SELECT session_id FROM entry").fetchall()
    for table in every:
        names, into = _filling(target, table)
        key = "id" if table == "session" else "session_id"
        # No reader of entries asks for their epoch, so one that is damaged there can be read.
        listed = ["0" if (table, name) == ("entry", "epoch") else name for name in names]
        sql = f"SELECT {', '.join(listed)} FROM {table} WHERE {key} = ?"
        whole = _wholly(target, table)
        for order in (" ORDER BY seq", " ORDER BY seq DESC") if table == "entry" else ("",):
            for values in ids:
                for row in _until_damaged(source, sql + order, values):
                    counts[table] += max(0, target.execute(into, whole(row)).rowcount)
    target.execute("COMMIT")
    said = ", ".join(f"{number} of {table}" for table, number in counts.items())
    return [f"the database was built anew from the rows that could be read: {said}"]


def _wholly(target: sqlite3.Connection, table: str) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """What puts something where a row must not have nothing, unless it is what the row goes by: a
    store that reads such a row may do without it."""
    fills = [
        ("" if kind == "TEXT" else 0) if needed and name not in _GO_BY else None
        for _, name, kind, needed, *_ in target.execute(f"PRAGMA table_info({table})")
    ]
    return lambda row: tuple(
        fill if value is None else value for value, fill in zip(row, fills, strict=True)
    )


def _filling(target: sqlite3.Connection, table: str) -> tuple[list[str], str]:
    """The columns of *table*, and the statement that adds a row unless its key is there."""
    names = [name for _, name, *_ in target.execute(f"PRAGMA table_info({table})")]
    marks = ", ".join("?" * len(names))
    return names, f"INSERT OR IGNORE INTO {table} ({', '.join(names)}) VALUES ({marks})"


def lenient_text(data: bytes) -> str:
    """Text of a column, also where it is not UTF-8."""
    return data.decode("utf-8", "replace")


def _rows(source: sqlite3.Connection, table: str, names: list[str]) -> Iterator[tuple[Any, ...]]:
    listed = ", ".join(names)
    keys = _KEYS.get(table)
    if keys is not None:
        for direction in ("", " DESC"):
            order = ", ".join(f"{key}{direction}" for key in keys)
            yield from _until_damaged(source, f"SELECT {listed} FROM {table} ORDER BY {order}")
        return
    base = f"SELECT rowid, {listed} FROM {table} NOT INDEXED"
    low, high = 0, None
    walk = _until_damaged(source, f"{base} ORDER BY rowid")
    whole = False
    while True:
        try:
            low, *row = next(walk)
        except StopIteration as end:
            whole = bool(end.value)
            break
        yield tuple(row)
    if whole:
        return
    for number, *row in _until_damaged(source, f"{base} ORDER BY rowid DESC"):
        if number <= low:
            return
        high = number
        yield tuple(row)
    if high is None:  # how many there are after the damage is not known; look a little further
        high = low + 10_000
    for number in range(low + 1, min(high, low + _MOST_PROBES)):
        for _, *row in _until_damaged(source, f"{base} WHERE rowid = {number}"):
            yield tuple(row)


def _until_damaged(
    source: sqlite3.Connection, sql: str, values: tuple[Any, ...] = ()
) -> Generator[Any, None, bool]:
    """The rows up to the first that cannot be read. Returns whether those were all."""
    try:
        cursor = source.execute(sql, values)
        while (row := cursor.fetchone()) is not None:
            yield row
    except sqlite3.Error:
        return False
    return True
