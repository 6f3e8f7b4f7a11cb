"""A folder of session files: finding, listing, claiming, and writing to them. It blocks.

    <root>/--<folder with dashes>--/<ISO time with dashes>_<id>.jsonl

Listing reads first lines. What else a list shows is in the lease file as of the last claim,
renewal or release; only a file that has grown since is read, once.

Not here: the store's methods (jsonl), which run these on a thread.
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
from collections import OrderedDict
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from ..errors import LoopwrightError, SessionDamaged, SessionNotFound, StoreUnavailable
from ..messages import Usage
from ..records import clean_text
from . import columns, refusals
from .entries import now_ms
from .formats.pi_v4_writing import header_line
from .jsonl_file import Repair, SessionFile, read_header, sync_folder
from .jsonl_lock import LeaseRow, exclusive, lease_path, read_lease
from .jsonl_log import SessionLog
from .kept_rows import ItemRow, Rows
from .leases import owner_is_dead
from .rows import Approval, InboxItem, InboxStatus, SessionInfo
from .store import Commit, Lease, SessionState

__all__ = ["SessionFolder", "folder_name"]

_log = logging.getLogger("loopwright")
T = TypeVar("T")

_SUFFIX = ".jsonl"
_PLAIN_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,118}[A-Za-z0-9])?")
_LEADING, _SEPARATORS = re.compile(r"^[/\\]"), re.compile(r"[/\\:]")
_LONGEST_NAME = 240
_FILES_IN_MEMORY = 32


def folder_name(cwd: str | None) -> str:
    """The name of the folder in which pi keeps the sessions about *cwd*."""
    name = f"--{_SEPARATORS.sub('-', _LEADING.sub('', cwd or ''))}--"
    encoded = name.encode()
    if len(encoded) <= _LONGEST_NAME:
        return name
    digest = hashlib.sha256(encoded).hexdigest()[:16]  # no file system takes a longer one
    return f"{encoded[: _LONGEST_NAME - 20].decode(errors='ignore')}-{digest}--"


def _id_in_name(session_id: str) -> str:
    """*session_id* as it stands in a file's name: itself, if pi takes it."""
    if _PLAIN_ID.fullmatch(session_id):
        return session_id
    return "x" + hashlib.sha256(clean_text(session_id).encode()).hexdigest()[:32]


class _Found(msgspec.Struct, frozen=True):
    """A file that may be a session, as a folder shows it."""

    path: Path
    inode: int
    size: int
    modified_ns: int

    @property
    def modified_at(self) -> int:
        return self.modified_ns // 1_000_000


class _Summary(msgspec.Struct, frozen=True):
    """What a list shows of a session beyond the first line of its file."""

    name: str | None
    preview: str | None
    entries: int
    usage: Usage


class SessionFolder:
    """The sessions below *root*. Not for several threads at a time."""

    def __init__(self, root: Path, fsync: bool) -> None:
        self.root = root
        self.repairs: list[Repair] = []
        self._fsync = fsync
        self._paths: dict[str, Path] = {}
        self._files: OrderedDict[Path, SessionFile] = OrderedDict()
        self._headers: dict[Path, tuple[int, SessionInfo | None]] = {}
        self._summaries: dict[Path, tuple[_Found, SessionInfo]] = {}
        self._faulty: dict[str, int] = {}
        """Sessions whose file could not be written, and the epoch that may not write again."""

    # -- finding ------------------------------------------------------------------------------

    def locate(self, session_id: str) -> Path:
        """The file of a session. Raises `SessionNotFound`."""
        path = self._paths.get(session_id)
        if path is not None and path.exists():
            return path
        self._paths.pop(session_id, None)
        ending, others = f"_{_id_in_name(session_id)}", list[_Found]()
        for found in sorted(self._scan(None), key=lambda found: -found.modified_ns):
            if found.path.stem.endswith(ending):
                if self._has_id(found, session_id):
                    return self._paths.setdefault(session_id, found.path)
            else:
                others.append(found)
        for found in others:  # files may be given other names
            if self._has_id(found, session_id):
                return self._paths.setdefault(session_id, found.path)
        raise refusals.session_not_found(session_id)

    def _has_id(self, found: _Found, session_id: str) -> bool:
        header = self._header(found)
        return header is not None and header.id == session_id

    def _scan(self, cwd: str | None) -> Iterator[_Found]:
        """The files below the root, or those about *cwd*."""
        for folder in self._folders(cwd):
            try:
                with os.scandir(folder) as names:
                    for name in names:
                        if name.name.endswith(_SUFFIX) and name.is_file():
                            status = name.stat()
                            yield _Found(
                                Path(name.path), status.st_ino, status.st_size, status.st_mtime_ns
                            )
            except FileNotFoundError:
                continue

    def _folders(self, cwd: str | None) -> list[Path]:
        if cwd is not None:
            return [self.root / folder_name(cwd)]
        try:
            return [place for place in self.root.iterdir() if place.is_dir()]
        except FileNotFoundError:
            return []

    def _header(self, found: _Found) -> SessionInfo | None:
        """What the first line says; None, with a word in the log, if it cannot be read."""
        known = self._headers.get(found.path)
        if known is not None and known[0] == found.inode:
            return known[1]
        try:
            header = read_header(found.path)
        except (LoopwrightError, OSError) as error:
            _log.warning("%s is passed over: %s", found.path, error)
            header = None
        self._headers[found.path] = (found.inode, header)
        return header

    # -- listing ------------------------------------------------------------------------------

    def list(self, cwd: str | None, limit: int | None) -> list[SessionInfo]:
        """Sessions, the last modified first."""
        shown: list[SessionInfo] = []
        newest_first = sorted(
            self._scan(cwd), key=lambda found: (found.modified_at, found.path.name), reverse=True
        )
        for found in newest_first:
            if limit is not None and len(shown) >= limit:
                break
            header = self._header(found)
            if header is not None and (cwd is None or header.cwd == cwd):
                shown.append(self._summary(found, header))
        return shown

    def info(self, session_id: str) -> SessionInfo:
        """What a list shows of one session. Raises `SessionNotFound`."""
        path = self.locate(session_id)
        status = path.stat()
        found = _Found(path, status.st_ino, status.st_size, status.st_mtime_ns)
        header = self._header(found)
        if header is None:
            read_header(path)  # raises what is wrong with it
            raise refusals.session_not_found(session_id)
        return self._summary(found, header)

    def _summary(self, found: _Found, header: SessionInfo) -> SessionInfo:
        lease = read_lease(found.path)
        holder = _holder(lease)
        known = self._summaries.get(found.path)
        if known is not None and known[0] == found:
            info = known[1]
        else:
            info = _from_lease(found, header, lease) or self._read_summary(found, header)
            self._summaries[found.path] = (found, info)
        return info if info.locked_by == holder else _with(info, locked_by=holder)

    def _read_summary(self, found: _Found, header: SessionInfo) -> SessionInfo:
        file = self._files.get(found.path) or SessionFile(found.path, fsync=False)
        try:
            return file.read().rows.summary(header, found.modified_at)
        except LoopwrightError as error:
            _log.warning("only the first line of %s is shown: %s", found.path, error)
            return _with(header, modified_at=found.modified_at)

    # -- reading ------------------------------------------------------------------------------

    def file(self, session_id: str) -> SessionFile:
        """The file of a session, kept in memory with those that were used last."""
        path = self.locate(session_id)
        file = self._files.pop(path, None) or SessionFile(path, fsync=self._fsync)
        self._files[path] = file
        while len(self._files) > _FILES_IN_MEMORY:
            self._files.popitem(last=False)
        return file

    def look(self, session_id: str, work: Callable[[Rows], T]) -> T:
        """What *work* finds in the rows of a session."""
        return work(self.file(session_id).read().rows)

    def state(self, session_id: str) -> SessionState:
        """What is true now."""
        file = self.file(session_id)
        log = file.read()
        info = log.rows.summary(log.header, file.modified_at)
        return log.rows.state(_with(info, locked_by=_holder(read_lease(file.path))))

    # -- making and removing ------------------------------------------------------------------

    def create(self, info: SessionInfo) -> None:
        """Add an empty session. Raises `SessionExists`."""
        columns.info_columns(info)  # refuses what no store takes
        header = header_line(_with(info, cwd=columns.shown(info.cwd)))
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        with exclusive(self.root / "sessions"):  # two may not make one at the same time
            try:
                self.locate(info.id)
            except SessionNotFound:
                pass
            else:
                raise refusals.session_exists(info.id)
            self._paths[info.id] = self._make(info, header)

    def _make(self, info: SessionInfo, header: bytes) -> Path:
        folder = self.root / folder_name(columns.shown(info.cwd))
        folder.mkdir(exist_ok=True, mode=0o700)
        path = folder / f"{_time_in_name(info.created_at)}_{_id_in_name(info.id)}{_SUFFIX}"
        staged = path.with_name(f"{path.name}.tmp")
        try:
            descriptor = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            try:
                if os.write(descriptor, header) != len(header):
                    raise StoreUnavailable(f"{path} could not be written: the disk is full")
                if self._fsync:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
            modified_ns = info.modified_at * 1_000_000
            os.utime(staged, ns=(modified_ns, modified_ns))
            os.replace(staged, path)
        except BaseException:
            staged.unlink(missing_ok=True)
            raise
        if self._fsync:
            sync_folder(folder)
        return path

    def delete(self, session_id: str) -> None:
        """Remove a session's file and all that stands beside it."""
        path = self.locate(session_id)
        with exclusive(path, appending=True) as lease_file:
            lease = lease_file.read()
            if _is_held(lease):
                raise refusals.session_locked(session_id, lease.owner or "", lease.until)
            path.unlink()
            for aside in path.parent.glob(f"{_escaped(path.name)}.torn-*"):
                aside.unlink(missing_ok=True)
            try:
                lease_path(path).unlink(missing_ok=True)
            except PermissionError:
                pass  # Windows: it is open here
        self._files.pop(path, None)
        self._paths.pop(session_id, None)

    # -- leases -------------------------------------------------------------------------------

    def claim(self, session_id: str, owner: str, seconds: float) -> Lease:
        """Become the writer. A file that cannot be read is refused here, with its line."""
        path = self.locate(session_id)
        with exclusive(path) as lease_file:
            held = lease_file.read()
            if held.owner != owner and _is_held(held):
                raise refusals.session_locked(session_id, held.owner or "", held.until)
            if self._faulty.pop(session_id, None) is not None:
                self._files.pop(path, None)
            file = self.file(session_id)
            log = file.read()
            epoch = held.epoch + 1
            until = now_ms() + int(seconds * 1000)
            lease_file.write(LeaseRow(owner, epoch, until, _for_lease(file, log)))
        return Lease(session_id, owner, epoch)

    def renew(self, lease: Lease, seconds: float) -> None:
        """The lease lasts longer. Raises `LeaseLost`."""
        path = self.locate(lease.session_id)
        with exclusive(path) as lease_file:
            held = _demand(lease, lease_file.read())
            file = self.file(lease.session_id)
            until = now_ms() + int(seconds * 1000)
            summary = _for_lease(file, file.read())
            lease_file.write(LeaseRow(held.owner, held.epoch, until, summary))

    def release(self, lease: Lease) -> None:
        """Let others write."""
        try:
            path = self.locate(lease.session_id)
        except SessionNotFound:
            return
        with exclusive(path) as lease_file:
            held = lease_file.read()
            if (held.epoch, held.owner) != (lease.epoch, lease.owner):
                return
            summary = held.summary
            file = self.file(lease.session_id)
            try:
                summary = _for_lease(file, file.read())
            except (SessionDamaged, SessionNotFound) as error:
                _log.warning("session %s is let go of as it is: %s", lease.session_id, error)
            # The epoch moves on: nothing is written with a lease that was given back.
            lease_file.write(LeaseRow(None, held.epoch + 1, 0, summary))

    # -- writing ------------------------------------------------------------------------------

    def commit(self, lease: Lease, commit: Commit) -> int:
        """Append *commit*. Returns the last sequence number."""
        session_id = lease.session_id
        path = self.locate(session_id)
        with exclusive(path, appending=True) as lease_file:
            _demand(lease, lease_file.read())
            if self._faulty.get(session_id, -1) >= lease.epoch:
                raise StoreUnavailable(
                    f"an earlier commit to session {session_id!r} failed halfway; nothing more is "
                    "written to it",
                    hint="open the session again, and go on from what is stored",
                )
            log = self._append(session_id, lambda log: log.lines_of(commit, now_ms()), lease.epoch)
            return log.rows.head

    def _append(
        self, session_id: str, lines: Callable[[SessionLog], bytes], epoch: int | None = None
    ) -> SessionLog:
        """Read what is new, then append what *lines* makes of it. With the lock held."""
        file = self.file(session_id)
        log = file.read()
        data = lines(log)
        if not data:
            return log
        try:
            log, repair = file.append(data, log)
        except BaseException:
            if epoch is not None:
                self._faulty[session_id] = epoch
            raise
        if repair is not None:
            self.repairs.append(repair)
        return log

    def enqueue(self, session_id: str, item: InboxItem) -> InboxItem:
        """Add *item*, or return the one that is known already."""
        row = ItemRow(*columns.item_columns(item))
        with exclusive(self.locate(session_id), appending=True):
            rows = self.file(session_id).read().rows
            known = rows.inbox.get(row.id) or rows.item_with_request(row.request_id)
            if known is not None:
                return rows.item(known)
            self._append(session_id, lambda log: log.item_lines(row.body, now_ms()))
        return item

    def withdraw(self, session_id: str, item_id: str) -> InboxStatus | None:
        """Take a pending item back."""
        with exclusive(self.locate(session_id), appending=True):
            known = self.file(session_id).read().rows.inbox.get(item_id)
            if known is None:
                return None
            if known.status != "pending":
                return "withdrawn" if known.status == "withdrawn" else "placed"
            body: dict[str, Any] = msgspec.json.decode(known.body)
            changed = msgspec.json.encode(body | {"status": "withdrawn"}).decode()
            self._append(session_id, lambda log: log.item_lines(changed, now_ms()))
        return "withdrawn"

    def decide(
        self,
        session_id: str,
        approval_id: str,
        verdict: Literal["approved", "denied"],
        *said: Any,
    ) -> Approval:
        """Decide on an approval. *said* is what `columns.decided` takes behind the verdict."""
        with exclusive(self.locate(session_id), appending=True):
            asked = self.file(session_id).read().rows.approval(approval_id)
            if asked is None or asked.status != "pending":
                raise refusals.approval_decided(approval_id, asked and asked.status)
            decided = columns.decided(asked, verdict, *said)
            body = columns.approval_columns(decided)[-1]
            log = self._append(session_id, lambda log: log.approval_lines(body, now_ms()))
            kept = log.rows.approval(approval_id)
            assert kept is not None
            return kept


def _is_held(lease: LeaseRow) -> bool:
    return _holder(lease) is not None


def _holder(lease: LeaseRow) -> str | None:
    """Who has it, and may still be there."""
    if lease.owner is None or lease.until <= now_ms() or owner_is_dead(lease.owner):
        return None
    return lease.owner


def _demand(lease: Lease, held: LeaseRow) -> LeaseRow:
    if (held.epoch, held.owner) != (lease.epoch, lease.owner):
        raise refusals.lease_lost(lease)
    return held


def _for_lease(file: SessionFile, log: SessionLog) -> dict[str, Any]:
    """What `_from_lease` makes a list's row of."""
    told = msgspec.convert(log.rows.summary(log.header, 0), _Summary, from_attributes=True)
    return {"size": file.size} | msgspec.to_builtins(told)


def _from_lease(found: _Found, header: SessionInfo, lease: LeaseRow) -> SessionInfo | None:
    summary = lease.summary
    if summary is None or summary.get("size") != found.size:
        return None
    try:
        told = msgspec.convert(summary, _Summary)
    except msgspec.ValidationError:
        return None
    changes = msgspec.structs.asdict(told)
    return _with(header, modified_at=found.modified_at, **changes)


def _with(info: SessionInfo, **changes: Any) -> SessionInfo:
    return msgspec.structs.replace(info, **changes)


def _time_in_name(created_at: int) -> str:
    try:
        when = datetime.fromtimestamp(created_at / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        when = datetime.fromtimestamp(0, UTC)  # a time nobody can write down
    return re.sub("[:.]", "-", when.isoformat(timespec="milliseconds").replace("+00:00", "Z"))


def _escaped(name: str) -> str:
    return re.sub(r"([\[\]*?])", r"[\1]", name)
