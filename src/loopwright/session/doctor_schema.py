"""A database whose first page is damaged, where SQLite keeps its head and the list of tables.

Without that list SQLite reads nothing at all, though every row may be whole. But the list is always
the same: the first pages of a new database have it. They are put over those of a copy, and the rows
are where they were.

Not here: reading the rows (doctor_salvage), or putting the result in place (doctor_sqlite_repair).
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path

from . import tables

__all__ = ["copy_with_our_schema", "has_our_columns", "is_ours_below"]

_MAGIC = b"SQLite format 3\0"  # sqlite.org/fileformat.html, 1.3
_SAMPLE = 20
_VERSIONS_AT, _SIZE_AT, _FREE_AT = 18, 28, 32
_WITHOUT_LOG, _WITH_LOG = b"\1\1", b"\2\2"


def is_ours_below(path: Path) -> bool:
    """Whether *path* is one of our databases under a damaged first page. Changes nothing."""
    try:
        with tempfile.TemporaryDirectory(prefix="loopwright-doctor-") as folder:
            return copy_with_our_schema(path, Path(folder) / "copy.db")
    except OSError:
        return False


def copy_with_our_schema(path: Path, target: Path) -> bool:
    """Make *target* a copy of *path* with our list of tables. Returns whether it has our rows."""
    with path.open("rb") as file:
        beginning = file.read(len(_MAGIC))
    if sum(a == b for a, b in zip(beginning, _MAGIC, strict=False)) < len(_MAGIC) // 2:
        return False
    if not target.exists():
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
    shutil.copyfile(path, target)
    log, log_copy = path.with_name(f"{path.name}-wal"), target.with_name(f"{target.name}-wal")
    if log.exists() and log.stat().st_size:
        shutil.copyfile(log, log_copy)
        if not _take_in_log(target):
            _lay_over(target, {}, versions=_WITH_LOG)
            _take_in_log(target)
    for end in ("-wal", "-shm", "-journal"):
        target.with_name(target.name + end).unlink(missing_ok=True)
    roots = _roots(target)
    _lay_over(target, roots, versions=_WITHOUT_LOG)
    try:
        with closing(_connect(target)) as connection:
            found = connection.execute(tables.READ_FORMAT, (tables.FORMAT_KEY,)).fetchone()
            ours = found is not None and not _is_later(found[0])
            return ours and all(_fits(connection, table) for table in ("session", *tables.TABLES))
    except (sqlite3.Error, UnicodeDecodeError):
        return False


def _is_later(version: object) -> bool:
    text = version if isinstance(version, bytes) else b""
    return text.isdigit() and int(text) > tables.FORMAT_VERSION


def has_our_columns(connection: sqlite3.Connection) -> bool:
    """Whether the tables are there, with the columns they have in a new database."""
    with closing(_new_database(":memory:")) as new:
        return all(
            set(_columns(connection, table)) >= set(_columns(new, table))
            for table in ("session", *tables.TABLES)
        )


def _columns(connection: sqlite3.Connection, table: str) -> list[tuple[str, str]]:
    def text(value: str | bytes) -> str:
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value

    rows = connection.execute(f"PRAGMA table_info({table})")
    return [(text(name), text(kind)) for _, name, kind, *_ in rows]


def _fits(connection: sqlite3.Connection, table: str) -> bool:
    """Whether what begins there are rows of *table*: some damaged, but not most."""
    kinds = [bytes if kind == "TEXT" else int for _, kind in _columns(connection, table)]
    fitting = 0
    try:
        for row in connection.execute(f"SELECT * FROM {table} LIMIT {_SAMPLE}"):
            pairs = zip(row, kinds, strict=True)
            right = all(value is None or isinstance(value, kind) for value, kind in pairs)
            fitting += 1 if right and any(isinstance(value, bytes) for value in row) else -1
    except sqlite3.Error:
        pass  # so far
    return fitting >= 0


def _connect(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.text_factory = bytes
    return connection


def _new_database(place: Path | str) -> sqlite3.Connection:
    connection = sqlite3.connect(place, isolation_level=None)
    for statement in tables.DDL:
        connection.execute(tables.in_dialect(statement, tables.SQLITE))
    return connection


def _take_in_log(target: Path) -> bool:
    """What was written last is still beside the file. False if the head does not even allow that."""
    try:
        with closing(_connect(target)) as connection:
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    except sqlite3.Error:
        return False
    return True


def _roots(path: Path) -> dict[bytes, int]:
    """Where the damaged list says that tables and indexes begin, as far as it can be read."""
    found: dict[bytes, int] = {}
    try:
        with closing(_connect(path)) as connection:
            connection.execute("PRAGMA writable_schema = ON")  # reads a list that it would refuse
            for name, root in connection.execute("SELECT name, rootpage FROM sqlite_master"):
                found |= {name: root} if isinstance(name, bytes) and isinstance(root, int) else {}
    except sqlite3.Error:
        pass
    return found


def _lay_over(target: Path, roots: dict[bytes, int], *, versions: bytes) -> None:
    """Put the pages that a new database has for its list over those of *target*."""
    with tempfile.TemporaryDirectory(prefix="loopwright-doctor-") as folder:
        place = Path(folder) / "new.db"
        with closing(_new_database(place)) as new:
            (page_size,) = new.execute("PRAGMA page_size").fetchone()
            ours = dict(new.execute("SELECT CAST(name AS BLOB), rootpage FROM sqlite_master"))
        begins = set(ours.values())
        pages = place.read_bytes()
    size = max(1, target.stat().st_size // page_size)
    with target.open("r+b") as file:
        for number in range(1, len(pages) // page_size + 1):
            if number in begins:
                continue  # the first page of a table: its rows are wanted
            page = bytearray(pages[(number - 1) * page_size : number * page_size])
            if number == 1:
                page[_SIZE_AT : _SIZE_AT + 4] = size.to_bytes(4, "big")
                page[_FREE_AT : _FREE_AT + 8] = bytes(8)
                page[_VERSIONS_AT : _VERSIONS_AT + 2] = versions
            file.seek((number - 1) * page_size)
            file.write(page)
    known = {name: root for name, root in roots.items() if name in ours}
    same = sum(ours[name] == root for name, root in known.items())
    if same * 2 >= len(known):
        return
    # It was made anew at some time, and its tables begin elsewhere.
    with closing(_connect(target)) as connection:
        connection.execute("PRAGMA writable_schema = ON")
        for name, root in known.items():
            sql = "UPDATE sqlite_master SET rootpage = ? WHERE name = CAST(? AS TEXT)"
            connection.execute(sql, (root, name))
