"""Who may touch a session file: a lock for moments, a lease for as long as a session is open.

Beside `<file>` stands `<file>.lease`, JSON with the owner, the epoch and until when. It is changed
under an flock of its own, and so is the session file: with the lock held, the epoch is checked and
the lines are written, so that nobody who has lost the lease can come in between. The kernel lets
go of the lock of a process that dies.

pp-agent-core locks otherwise: it makes `<file>.lock` for the time of an append, and takes one over
that is 30 seconds old. So does whoever appends here, inside the flock; where there is no flock
(Windows) that file is the only lock. This is why the lease is not in it: pp-agent-core would wait
for it in vain, and then delete it.

Not here: what is written meanwhile (jsonl_file).
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec

from ..errors import SessionNotFound, StoreUnavailable

if sys.platform == "win32":
    _flock = None
else:
    import fcntl as _flock

__all__ = ["LeaseFile", "LeaseRow", "exclusive", "lease_path", "read_lease"]

_WAIT_SECONDS = 10.0
"""How long to wait for the lock: others hold it for one append."""
_STALE_SECONDS = 30.0
"""pp-agent-core's rule for a lock file whose maker is gone."""
_DEAD_SECONDS = 2.0
"""A process that cannot be seen may live in another container; its append does not last that long."""
_OURS = b" loopwright"
_BINARY: int = getattr(os, "O_BINARY", 0)


class LeaseRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a lease file says."""

    owner: str | None = None
    epoch: int = 0
    until: int = 0
    """Milliseconds since 1970."""
    summary: dict[str, Any] | None = None
    """For listing: what the session file amounted to when it had `summary["size"]` bytes."""


def lease_path(file: Path) -> Path:
    """Where the lease of *file* stands."""
    return file.with_name(f"{file.name}.lease")


def read_lease(file: Path) -> LeaseRow:
    """The lease of *file*, without any lock; blank if there is none, or none that can be read."""
    try:
        return _decode(lease_path(file).read_bytes())
    except OSError:
        return LeaseRow()


def _decode(data: bytes) -> LeaseRow:
    try:
        return msgspec.json.decode(data, type=LeaseRow)
    except msgspec.MsgspecError:
        return LeaseRow()  # the machine stopped while it was written


class LeaseFile:
    """The lease of one session file, while its lock is held."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self) -> LeaseRow:
        """What it says."""
        size = os.fstat(self._descriptor).st_size
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        return _decode(os.read(self._descriptor, size)) if size else LeaseRow()

    def write(self, row: LeaseRow) -> None:
        """Say *row*. One write that also covers what stood there: readers take no lock."""
        size = os.fstat(self._descriptor).st_size
        data = msgspec.json.encode(row).ljust(size)
        os.lseek(self._descriptor, 0, os.SEEK_SET)
        if os.write(self._descriptor, data) != len(data):
            raise StoreUnavailable("the lease could not be written: the disk is full")


@contextmanager
def exclusive(file: Path, *, appending: bool = False) -> Generator[LeaseFile]:
    """Hold the lock of *file*; *appending* also keeps pp-agent-core out.

    Blocks the thread, for at most 10 seconds; then raises `StoreUnavailable`. Raises
    `SessionNotFound` if the folder is gone.
    """
    deadline = time.monotonic() + _WAIT_SECONDS
    descriptor = _locked(file, deadline)
    try:
        if _flock is not None and not appending:
            yield LeaseFile(descriptor)
            return
        guard = file.with_name(f"{file.name}.lock")
        _make_guard(guard, deadline)
        try:
            yield LeaseFile(descriptor)
        finally:
            guard.unlink(missing_ok=True)
    finally:
        os.close(descriptor)  # lets go of the lock, too


def _locked(file: Path, deadline: float) -> int:
    path = lease_path(file)
    while True:
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | _BINARY, 0o600)
        except FileNotFoundError as error:
            raise SessionNotFound(f"the folder {file.parent} is gone") from error
        try:
            if _flock is None:
                return descriptor
            _wait_for(descriptor, file, deadline)
            if _is_still(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)  # the session was deleted, and perhaps made anew, while we waited


def _wait_for(descriptor: int, file: Path, deadline: float) -> None:
    assert _flock is not None
    pause = 0.0005
    while True:
        try:
            _flock.flock(descriptor, _flock.LOCK_EX | _flock.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= deadline:
                raise _still_locked(file, "another process holds its lock") from None
        time.sleep(pause)
        pause = min(pause * 2, 0.02)


def _is_still(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False


def _make_guard(guard: Path, deadline: float) -> None:
    pause = 0.001
    while True:
        try:
            descriptor = os.open(guard, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, 0o600)
        except FileExistsError:
            pass
        else:
            try:
                os.write(descriptor, str(os.getpid()).encode() + _OURS)
            finally:
                os.close(descriptor)
            return
        if _is_left_behind(guard):
            guard.unlink(missing_ok=True)
            continue
        if time.monotonic() >= deadline:
            raise _still_locked(guard.with_suffix(""), f"{guard.name} stays")
        time.sleep(pause)
        pause = min(pause * 2, 0.02)


def _is_left_behind(guard: Path) -> bool:
    """Its maker will never take it away."""
    try:
        age = time.time() - guard.stat().st_mtime
        said = guard.read_bytes()
    except FileNotFoundError:
        return False  # just now: try again to make it
    if age > _STALE_SECONDS:
        return True
    if _flock is None:
        return False
    if said.endswith(_OURS):
        return True  # whoever of us made it does not hold the flock any more, for we do
    if not said:  # killed between making it and writing its pid, or just in between
        return age > _DEAD_SECONDS
    pid = said.strip()
    return age > _DEAD_SECONDS and pid.isdigit() and not _runs(int(pid))


def _runs(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:
        pass  # it is somebody else's
    return True


def _still_locked(file: Path, why: str) -> StoreUnavailable:
    return StoreUnavailable(
        f"{file} could not be locked within {_WAIT_SECONDS:.0f} seconds: {why}",
        hint="see which process hangs; nothing was written",
    )
