"""One session file: read on where others wrote, append whole commits, cut off what a crash left.

Reading never changes the file. Before something is appended, and under its lock, what a crash left
behind the last whole commit is cut off and kept aside as `<file>.torn-<n>`.

Not here: locks and leases (jsonl_lock), what the lines mean (jsonl_log).
"""

from __future__ import annotations

import errno
import logging
import os
import time
from pathlib import Path

import msgspec

from ..errors import SessionDamaged, SessionNotFound, StoreUnavailable
from ..records import Record
from .formats.pi_v4_lines import decode_header
from .jsonl_log import SessionLog, Torn
from .rows import SessionInfo

__all__ = ["Repair", "SessionFile", "read_header", "sync_folder"]

_log = logging.getLogger("loopwright")

_BINARY: int = getattr(os, "O_BINARY", 0)
_COMPARED = 256
"""So many bytes before the place where reading goes on must still be what they were."""
_HEADER_LIMIT = 1 << 20


class Repair(Record, kw_only=True):
    """Something was cut off the end of a file before it was appended to."""

    session_id: str
    file: str
    line: int
    reason: str
    kept_in: str | None
    """Where the bytes are now; None: they were blank."""


class _Seen(msgspec.Struct, frozen=True):
    """The file when it was last read."""

    device: int
    inode: int
    size: int
    modified_ns: int


class SessionFile:
    """A session file and what is known of it. Methods block; those that write need the lock."""

    def __init__(self, path: Path, *, fsync: bool) -> None:
        self.path = path
        self._fsync = fsync
        self._log: SessionLog | None = None
        self._seen: _Seen | None = None
        self._before = b""
        """The last bytes that were read and understood."""

    @property
    def modified_at(self) -> int:
        """Milliseconds since 1970, when it was last read."""
        return 0 if self._seen is None else self._seen.modified_ns // 1_000_000

    @property
    def size(self) -> int:
        """Bytes, when it was last read."""
        return 0 if self._seen is None else self._seen.size

    def read(self) -> SessionLog:
        """What the file says now. Reads only what is new, unless the file is another one.

        Raises `SessionNotFound`, `SessionDamaged`, `SessionTooNew`, and `OSError`.
        """
        try:
            descriptor = os.open(self.path, os.O_RDONLY | _BINARY)
        except FileNotFoundError as error:
            self._log = None
            raise SessionNotFound(f"the file {self.path} is gone") from error
        try:
            return self._read(descriptor)
        except BaseException:
            self._log = None
            raise
        finally:
            os.close(descriptor)

    def _read(self, descriptor: int) -> SessionLog:
        status = os.fstat(descriptor)
        now = _Seen(status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns)
        log, seen = self._log, self._seen
        if log is not None and now == seen:
            return log
        if log is not None and seen is not None and not self._goes_on(descriptor, now, seen, log):
            log = None
        if log is None:
            log = self._begin(descriptor)
        data = _read_all(descriptor, log.end)
        start = log.end
        log.feed(data)
        known = (self._before + data[: log.end - start])[-_COMPARED:]
        self._log, self._seen, self._before = log, now, known
        return log

    def _goes_on(self, descriptor: int, now: _Seen, seen: _Seen, log: SessionLog) -> bool:
        """It is the same file, and what was read of it is unchanged as far as can be told."""
        if (now.device, now.inode) != (seen.device, seen.inode) or now.size < log.end:
            return False
        os.lseek(descriptor, log.end - len(self._before), os.SEEK_SET)
        wanted = self._before
        found = os.read(descriptor, len(wanted) + 1)
        # Behind a line without an end comes its end, or it was no whole line after all.
        ended = not log.unterminated or found[len(wanted) :] in (b"", b"\n")
        return ended and found[: len(wanted)] == wanted

    def _begin(self, descriptor: int) -> SessionLog:
        first = _first_line(descriptor)
        header = _header(first, self.path)
        self._before = first[-_COMPARED:]
        log = SessionLog(header, header_bytes=len(first), name=str(self.path))
        log.unterminated = not first.endswith(b"\n")
        return log

    def append(self, data: bytes, log: SessionLog) -> tuple[SessionLog, Repair | None]:
        """Add *data*, whole lines, behind the last whole commit of *log*, which was just read.

        One write. Raises `StoreUnavailable`; where something was written all the same, it is cut
        off again if that is possible.
        """
        descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | _BINARY)
        try:
            repair = None if log.torn is None else self._cut(descriptor, log, log.torn)
            begin = os.fstat(descriptor).st_size
            if log.unterminated:
                data = b"\n" + data
            try:
                self._write(descriptor, data)
            except BaseException:
                self._log = None
                _cut_back(descriptor, begin)
                raise
            self._stamp(descriptor)
            # What is in memory comes from the file, so that it is what others will find there.
            return self._read(descriptor), repair
        finally:
            os.close(descriptor)

    def _write(self, descriptor: int, data: bytes) -> None:
        try:
            written = os.write(descriptor, data)
            if written != len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if self._fsync:
                os.fsync(descriptor)
        except OSError as error:
            raise StoreUnavailable(
                f"{self.path} could not be written: {error.strerror or error}",
                hint="make room, then open the session again",
            ) from error

    def _stamp(self, descriptor: int) -> None:
        """Kernels round the time of a change to some milliseconds; lists are sorted by it."""
        now = time.time_ns()
        try:
            os.utime(descriptor if os.utime in os.supports_fd else self.path, ns=(now, now))
        except OSError as error:  # somebody else's file: we may write to it, but not do this
            _log.debug("%s: the time of change stays as it is: %s", self.path, error)

    def _cut(self, descriptor: int, log: SessionLog, torn: Torn) -> Repair:
        os.lseek(descriptor, torn.offset, os.SEEK_SET)
        fragment = _read_all(descriptor, torn.offset)
        kept = self._keep(fragment) if fragment.strip() else None
        os.ftruncate(descriptor, torn.offset)
        if self._fsync:
            os.fsync(descriptor)
        repair = Repair(
            session_id=log.header.id,
            file=str(self.path),
            line=torn.line,
            reason=torn.reason,
            kept_in=None if kept is None else str(kept),
        )
        if kept is not None:
            _log.warning("%s, line %d: %s; kept in %s", self.path, torn.line, torn.reason, kept)
        return repair

    def _keep(self, fragment: bytes) -> Path:
        number = 1
        while True:
            aside = self.path.with_name(f"{self.path.name}.torn-{number}")
            try:
                with aside.open("xb") as file:
                    file.write(fragment)
                    file.flush()
                    if self._fsync:
                        os.fsync(file.fileno())
                return aside
            except FileExistsError:
                number += 1


def _cut_back(descriptor: int, size: int) -> None:
    try:
        os.ftruncate(descriptor, size)
    except OSError as error:
        _log.warning("what was written in part could not be cut off again: %s", error)


def _read_all(descriptor: int, offset: int) -> bytes:
    os.lseek(descriptor, offset, os.SEEK_SET)
    parts: list[bytes] = []
    while part := os.read(descriptor, 1 << 24):
        parts.append(part)
    return b"".join(parts)


def _first_line(descriptor: int) -> bytes:
    os.lseek(descriptor, 0, os.SEEK_SET)
    data, size = b"", 4096
    while b"\n" not in data and len(data) < _HEADER_LIMIT:
        part = os.read(descriptor, size)
        if not part:
            break
        data, size = data + part, size * 4
    end = data.find(b"\n")
    return data if end < 0 else data[: end + 1]


def _header(first: bytes, path: Path) -> SessionInfo:
    try:
        return decode_header(first)
    except SessionDamaged as error:
        message = error.message.removeprefix(f"{error.where}: ")
        raise SessionDamaged(message, where=f"{path}, line 1", hint=error.hint) from error


def read_header(path: Path) -> SessionInfo:
    """What the first line of *path* says. Raises as `SessionFile.read` does."""
    descriptor = os.open(path, os.O_RDONLY | _BINARY)
    try:
        return _header(_first_line(descriptor), path)
    finally:
        os.close(descriptor)


def sync_folder(folder: Path) -> None:
    """Make sure that a new name in *folder* survives a loss of power."""
    if os.name != "posix":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
