"""A database file: looked at before it is touched, opened, created, brought up to date.

A file that is not ours, or is of a later version, is left as it is, byte for byte: it is first
read through a connection that cannot write. That is also why not even a `PRAGMA` comes earlier,
since most of them write.

Not here: what is kept in it (sqlite, tables).
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path

from ..errors import Misuse, SessionDamaged, StoreUnavailable
from .entries import now_ms
from .migrations import steps_from
from .refusals import too_new
from .tables import (
    DDL,
    FORMAT_KEY,
    FORMAT_VERSION,
    READ_FORMAT,
    SQLITE,
    WRITE_FORMAT,
    in_dialect,
)

__all__ = ["DatabaseFile"]

_MAGIC = b"SQLite format 3\0"  # sqlite.org/fileformat.html, 1.3
_OLDEST = (3, 35, 0)
_STATEMENTS = 256
_ONE_PAGE = 4096
_DOCTOR = "`loopwright sessions doctor` looks at a copy and says what can be saved"


class DatabaseFile:
    """One file and how it is to be used. Used by the thread that owns the connection."""

    def __init__(
        self, path: str | os.PathLike[str], busy_timeout_seconds: float, read_only: bool
    ) -> None:
        """Raises `Misuse` for what is no file."""
        text = os.fspath(path)
        if text in ("", ":memory:") or text.startswith("file:"):
            raise Misuse(
                f"{text!r} is not the path of a file",
                hint="MemoryStore() keeps sessions in memory",
            )
        self.path = Path(text).expanduser().absolute()
        self.read_only = read_only
        self._busy_timeout_seconds = busy_timeout_seconds
        self._identity: tuple[int, int] | None = None

    def connect(self) -> sqlite3.Connection:
        """Open it, made or migrated as needed. Raises `SessionError`s and SQLite's own errors."""
        if sqlite3.sqlite_version_info < _OLDEST:
            raise StoreUnavailable(
                f"SQLite {sqlite3.sqlite_version} is too old; 3.35 is needed",
                hint="install a newer Python, or MemoryStore() for trying things out",
            )
        path, seconds = self.path, self._busy_timeout_seconds
        if path.exists() and not path.is_file():  # a pipe would be waited for without end
            raise StoreUnavailable(
                f"{path} is no regular file", hint="choose another path; it was left as it is"
            )
        if not self.read_only:
            _make_writable_file(path)
        version = _look(path, seconds)
        if version is not None and version > FORMAT_VERSION:
            raise too_new(str(path), version)
        if not self.read_only:
            connection = _open_for_writing(path, seconds)
            self._identity = _identity(path)
            return connection
        if version != FORMAT_VERSION:
            raise StoreUnavailable(
                f"{path} has "
                + ("no sessions in it" if version is None else f"the earlier format {version}"),
                hint="open it for writing once: that brings it up to date",
            )
        return _open(path, _mode_for_reading(path), seconds)

    def demand_same(self) -> None:
        """Raises `StoreUnavailable` if the file was removed or replaced: SQLite would go on writing
        to what has no name any more, and nobody would ever read it."""
        if self._identity != _identity(self.path):
            raise StoreUnavailable(
                f"{self.path}: the file was removed or replaced while it was open; nothing was "
                "written",
                hint="put it back if you have it, and open it again",
            )

    def fault(self, error: sqlite3.Error | UnicodeDecodeError) -> Exception:
        """What an error of SQLite's means, or text in it that is none."""
        if isinstance(error, UnicodeDecodeError):
            return _no_text(error, self.path)
        return _fault(error, self.path, self._busy_timeout_seconds)


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def _open(path: Path, mode: str, busy_timeout_seconds: float) -> sqlite3.Connection:
    # The timeout comes first, with the connection: without it two processes that open one file
    # fail on the next statement with "database is locked".
    connection = sqlite3.connect(
        f"{path.as_uri()}?{mode}",
        uri=True,
        timeout=busy_timeout_seconds,
        isolation_level=None,  # transactions begin and end where we say
        cached_statements=_STATEMENTS,
    )
    connection.create_function(SQLITE.now_ms.removesuffix("()"), 0, now_ms)
    return connection


def _mode_for_reading(path: Path) -> str:
    """On a medium that cannot be written, SQLite must be told that nobody else does."""
    read_only_flag = getattr(os, "ST_RDONLY", None)
    if read_only_flag is not None and os.statvfs(path).f_flag & read_only_flag:
        return "immutable=1"
    return "mode=ro"


def _make_writable_file(path: Path) -> None:
    """The file and the folders on the way to it, for nobody but their owner. What is there stays
    as it is. Raises `StoreUnavailable` if it cannot be written, also on a disk that is read-only."""
    try:
        missing = [folder for folder in path.parents if not folder.exists()]
        for folder in reversed(missing):
            folder.mkdir(mode=0o700, exist_ok=True)
        if not path.exists():
            os.close(os.open(path, os.O_CREAT | os.O_RDWR, 0o600))
        for place in (path, path.parent):  # SQLite keeps files beside it
            if not os.access(place, os.W_OK):
                raise StoreUnavailable(
                    f"{path}: the database cannot be written: no right to write {place}",
                    hint="get that right, or open it with read_only=True",
                )
    except OSError as error:
        raise StoreUnavailable(
            f"{path} cannot be made: {error.strerror or error}",
            hint="choose a folder that can be written, or free some space",
        ) from error


def _look(path: Path, busy_timeout_seconds: float) -> int | None:
    """The format of the file; None if it is empty. Changes nothing.

    Raises `SessionDamaged` if it is no database, or somebody else's.
    """
    try:
        with path.open("rb") as file:
            beginning = file.read(len(_MAGIC))
    except OSError as error:
        raise StoreUnavailable(
            f"{path} cannot be opened: {error.strerror or error}",
            hint="check the path and the rights",
        ) from error
    if not beginning:
        return None
    if beginning != _MAGIC:
        raise SessionDamaged(
            "this is not an SQLite database; it was left as it is",
            where=str(path),
            hint="choose another path",
        )
    if not _has_companions(path):
        # Nobody else has it open. Said so, SQLite does not even put its own files beside it.
        before = path.stat()
        try:
            return _format_by(path, "immutable=1", 0)
        except (SessionDamaged, sqlite3.Error):
            if not _has_companions(path) and _same(path.stat(), before):
                raise  # else somebody began to write just now: look properly
    try:
        return _format_by(path, _mode_for_reading(path), busy_timeout_seconds)
    except sqlite3.OperationalError as error:
        # A crash while the very first page was written; there is nothing in it yet.
        if _is(error, "SQLITE_READONLY_ROLLBACK") and path.stat().st_size <= _ONE_PAGE:
            return _format_by(path, "mode=rw", busy_timeout_seconds)
        raise


def _format_by(path: Path, mode: str, busy_timeout_seconds: float) -> int | None:
    connection = _open(path, mode, busy_timeout_seconds)
    try:
        connection.execute("BEGIN")  # ended by closing
        return _format(connection, path)
    finally:
        connection.close()


def _has_companions(path: Path) -> bool:
    return any(path.with_name(path.name + end).exists() for end in ("-wal", "-journal"))


def _same(one: os.stat_result, other: os.stat_result) -> bool:
    return (one.st_mtime_ns, one.st_size, one.st_ino) == (
        other.st_mtime_ns,
        other.st_size,
        other.st_ino,
    )


def _format(connection: sqlite3.Connection, path: Path) -> int | None:
    """Within a transaction: between two of its statements another process may make the tables."""
    try:
        names = connection.execute("SELECT name FROM sqlite_master").fetchall()
    except UnicodeDecodeError as error:
        raise _no_text(error, path) from error
    tables = {name for (name,) in names}
    if not tables:
        if connection.execute("PRAGMA page_count").fetchone()[0] > 1:
            # Taken for empty, it would be filled anew over what is in it.
            raise SessionDamaged("its list of tables is empty", where=str(path), hint=_DOCTOR)
        return None
    version = None
    if "meta" in tables:
        try:
            found = connection.execute(READ_FORMAT, (FORMAT_KEY,)).fetchone()
            version = None if found is None else int(found[0])
        except sqlite3.OperationalError:
            pass  # a table of that name with other columns
        except (TypeError, ValueError) as error:  # no text, or no number
            raise _no_text(error, path) from error
    if version is not None and version < 1:
        raise SessionDamaged(f"it says that its format is {version}", where=str(path), hint=_DOCTOR)
    if version is None:
        raise SessionDamaged(
            "this is a database of another program; it was left as it is",
            where=str(path),
            hint="choose another path",
        )
    return version


def _open_for_writing(path: Path, busy_timeout_seconds: float) -> sqlite3.Connection:
    connection = _open(path, "mode=rw", busy_timeout_seconds)
    try:
        _retry(lambda: connection.execute("PRAGMA journal_mode = WAL"), busy_timeout_seconds)
        # FULL: NORMAL may lose the last commits when the power fails, and a lost intent means
        # that a tool which must not run twice does.
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA fullfsync = ON")  # macOS: or the disk only says it has written
        # Also shows now, and not at the first commit, that the file can be written.
        connection.execute("BEGIN IMMEDIATE")
        _bring_up_to_date(connection, path)
        connection.execute("COMMIT")
    except BaseException:
        connection.close()
        raise
    return connection


def _retry(work: Callable[[], object], seconds: float) -> None:
    """Changing to WAL needs the file alone, and does not always wait for it by itself."""
    until = time.monotonic() + seconds
    while True:
        try:
            work()
            return
        except sqlite3.OperationalError as error:
            if not _is(error, "SQLITE_BUSY") or time.monotonic() > until:
                raise
            time.sleep(0.01)


def _bring_up_to_date(connection: sqlite3.Connection, path: Path) -> None:
    """Make the tables, or migrate them. Within a transaction that holds the write lock."""
    version = _format(connection, path)
    if version == FORMAT_VERSION:
        return
    if version is not None and version > FORMAT_VERSION:
        raise too_new(str(path), version)  # migrated by another process a moment ago
    if version is None:
        statements = list(DDL)
    else:
        statements = steps_from(version)
        _back_up(path, version)
    for statement in statements:
        connection.execute(in_dialect(statement, SQLITE))
    connection.execute(WRITE_FORMAT, (FORMAT_KEY, str(FORMAT_VERSION)))


def _back_up(path: Path, version: int) -> None:
    """A copy as `<file>.v<version>.bak`, whole or not at all."""
    target = path.with_name(f"{path.name}.v{version}.bak")
    unfinished = path.with_name(f"{target.name}.tmp")
    try:
        unfinished.unlink(missing_ok=True)
        os.close(os.open(unfinished, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        source = _open(path, "mode=ro", 0)
        copy = sqlite3.connect(unfinished, isolation_level=None)
        try:
            source.backup(copy)
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, with nothing beside it
        finally:
            copy.close()
            source.close()
        os.replace(unfinished, target)
    except OSError as error:
        raise StoreUnavailable(
            f"{path} must be migrated, and its copy {target.name} cannot be made: "
            f"{error.strerror or error}",
            hint="nothing was changed; make some room beside the file",
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)


# -- faults ----------------------------------------------------------------------------------


def _no_text(error: Exception, path: Path) -> SessionDamaged:
    return SessionDamaged(f"a value in it cannot be read: {error}", where=str(path), hint=_DOCTOR)


def _fault(error: sqlite3.Error, path: Path, busy_timeout_seconds: float) -> Exception:
    """What an error of SQLite's means; sqlite.org/rescode.html."""
    if _is(error, "SQLITE_BUSY", "SQLITE_LOCKED"):
        return StoreUnavailable(
            f"{path}: another process kept the database locked for more than "
            f"{busy_timeout_seconds:g} s; nothing was written",
            hint="try again, and see what keeps it",
        )
    if _is(error, "SQLITE_FULL"):
        return StoreUnavailable(
            f"{path}: the disk is full; nothing was written", hint="free some space"
        )
    if _is(error, "SQLITE_READONLY", "SQLITE_PERM", "SQLITE_AUTH"):
        return StoreUnavailable(
            f"{path}: the database cannot be written ({error}); nothing was",
            hint="check the rights of the file and of its folder, or open it with read_only=True",
        )
    if _is(error, "SQLITE_CANTOPEN"):
        return StoreUnavailable(
            f"{path}: the database cannot be opened",
            hint="check the path and the rights of the folder: SQLite keeps files beside it",
        )
    if _is(error, "SQLITE_IOERR"):
        return StoreUnavailable(
            f"{path}: reading or writing failed ({error}, {_name(error)}); nothing was written",
            hint="check the disk and the space that is left on it",
        )
    if _is(error, "SQLITE_CORRUPT", "SQLITE_NOTADB"):
        return SessionDamaged(str(error), where=str(path), hint=_DOCTOR)
    if not _name(error) and "decode to UTF-8" in str(error):  # Python's own, without a code
        return SessionDamaged("a text in it is no UTF-8", where=str(path), hint=_DOCTOR)
    if isinstance(error, sqlite3.DatabaseError) and _is(error, "SQLITE_ERROR"):
        return SessionDamaged(f"the tables are not ours ({error})", where=str(path), hint=_DOCTOR)
    return StoreUnavailable(f"{path}: {error}")


def _name(error: sqlite3.Error) -> str:
    return getattr(error, "sqlite_errorname", None) or ""


def _is(error: sqlite3.Error, *kinds: str) -> bool:
    """Extended codes begin with the name of their kind."""
    return _name(error).startswith(kinds)
