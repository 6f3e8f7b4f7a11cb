"""The doctor's look at session files in the v4 format, and its work on them.

Mending holds the file's lock, which no lease of a living process may stand against. The mended
lines are written beside the file, read back as any reader reads them, and put in its place by one
rename; processes that know the old file notice and read the new one.

Not here: what is done to which line (doctor_jsonl_lines).
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from ..errors import SessionDamaged, SessionError, SessionNotFound, SessionTooNew, StoreUnavailable
from ..messages import Usage
from . import refusals
from .doctor_jsonl_lines import MendedLines, mend_lines
from .doctor_report import Finding, Repaired, Report
from .doctor_rows import Change, HeldSession, check_session, mend
from .entries import now_ms
from .formats.detect import detect
from .formats.pi_v4_lines import decode_header
from .jsonl_lock import LeaseFile, LeaseRow, exclusive, read_lease
from .jsonl_log import SessionLog
from .leases import describe_owner, owner_is_dead
from .rows import SessionInfo
from .store import Commit

__all__ = ["examine_files", "repair_files"]


class _Looked(msgspec.Struct):
    """One file, and what it would be when mended."""

    path: Path
    data: bytes
    header: SessionInfo | None = None
    findings: list[Finding] = []
    mended: bytes | None = None
    """None: it cannot be mended, or need not be."""
    lines: MendedLines | None = None
    actions: list[str] = []
    entries: int = 0


def examine_files(path: Path, session_id: str | None) -> Report:
    """Look at *path*, a session file or a folder of such. Raises `SessionNotFound`."""
    report = Report(target=str(path))
    for file in _files(path, session_id):
        found = _look(file)
        report.sessions += 1
        report.entries += found.entries
        report.findings += found.findings
    return report


def repair_files(path: Path, session_id: str | None) -> list[Repaired]:
    """Mend what can be mended, each file by itself. Raises as `doctor.repair` does."""
    return [
        _repair(file)
        for file in _files(path, session_id)
        if any(finding.remedy is not None for finding in _look(file).findings)
    ]


def _files(path: Path, session_id: str | None) -> list[Path]:
    if not path.exists():
        raise SessionNotFound(f"there is no file or folder {path}")
    files = sorted(_below(path)) if path.is_dir() else [path]
    if session_id is not None:
        files = [file for file in files if _has_id(file, session_id)]
        if not files:
            raise refusals.session_not_found(session_id)
    return files


def _below(folder: Path) -> Iterator[Path]:
    yield from folder.glob("*.jsonl")
    yield from folder.glob("*/*.jsonl")


def _has_id(file: Path, session_id: str) -> bool:
    try:
        with file.open("rb") as lines:
            return decode_header(lines.readline()).id == session_id
    except (SessionError, OSError):
        return session_id in file.name


# -- looking ---------------------------------------------------------------------------------


def _look(path: Path) -> _Looked:
    try:
        data = path.read_bytes()
    except OSError as error:
        message = f"{path.name} cannot be read: {error.strerror or error}"
        return _Looked(path, b"", findings=[_of_file(path, "unusable", message)])
    found = _Looked(path, data)
    first, _, rest = data.partition(b"\n")
    try:
        found.header = decode_header(first)
        found.lines = mend_lines(rest, found.header.id)
    except SessionTooNew as error:
        found.findings = [_of_file(path, "too_new", error.message)]
        return found
    except SessionDamaged as error:
        found.findings = [_without_header(path, error)]
        return found
    found.findings = [*found.lines.findings, *_lease_left(path, found.header.id)]
    _rebuild(found, found.header, first, rest)
    return found


def _of_file(path: Path, kind: str, message: str, *, session_id: str | None = None) -> Finding:
    return Finding(
        kind=kind, severity="error", session_id=session_id, where=str(path), message=message
    )


def _without_header(path: Path, error: SessionDamaged) -> Finding:
    """A file of an earlier format is no fault; it only is not one of the store's."""
    try:
        found = detect(path).format
    except SessionError:
        return _of_file(path, "no_header", f"{error.message}; without it nothing else is certain")
    return Finding(
        kind="other_format",
        severity="note",
        where=str(path),
        message=f"it is in the format {found}; `loopwright sessions import` takes it over",
    )


def _lease_left(path: Path, session_id: str) -> list[Finding]:
    owner = read_lease(path).owner
    if owner is None or not owner_is_dead(owner):
        return []
    return [
        Finding(
            kind="lease_left",
            severity="note",
            session_id=session_id,
            where="lease",
            message=f"{describe_owner(owner)} had it open and ended without closing it; "
            "whoever opens it next takes over at once",
        )
    ]


def _rebuild(found: _Looked, header: SessionInfo, first: bytes, rest: bytes) -> None:
    """Read the lines as a reader does, mended if need be, and look at what they amount to."""
    assert found.lines is not None
    changed = bool(found.lines.findings)
    found.actions = [f"{f.where}: {f.message}; {f.remedy}" for f in found.lines.findings]
    body = found.lines.encoded() if changed else rest
    try:
        log = _read(header, first, body)
        held = _held(log)
        lost_tails = {
            f.where.removeprefix("entry ") for f in check_session(held) if f.kind == "kept_missing"
        }
        found.findings += check_session(held)
        if lost_tails:
            found.actions += [f"entry {each}: keeps the copies beside it" for each in lost_tails]
            body = _without_lost_tails(found.lines, lost_tails)
            changed, log = True, _read(header, first, body)
            held = _held(log)
        closing, said = _closing(log, mend(held))
    except SessionError as error:
        message = f"nobody can read it: {error.message}"
        found.findings.append(_of_file(found.path, "unreadable", message, session_id=header.id))
        return
    found.entries = len(held.rows)
    found.actions += said
    if changed or closing:
        end = b"" if not body or body.endswith(b"\n") else b"\n"
        found.mended = first + b"\n" + body + end + closing


def _read(header: SessionInfo, first: bytes, body: bytes) -> SessionLog:
    log = SessionLog(header, header_bytes=len(first) + 1)
    log.feed(body)
    return log


def _held(log: SessionLog) -> HeldSession:
    state = log.rows.state(log.rows.summary(log.header, 0))
    return HeldSession(
        id=log.header.id,
        entries=state.info.entries,
        usage_total=state.info.usage,
        head=state.head,
        rows=log.rows.entries_between(None, None, None, False),
        lanes=state.lanes,
        operations=log.rows.operation_list(None),
        intents=state.intents,
        inbox=state.inbox,
        usage=log.rows.usage_list(),
    )


def _without_lost_tails(lines: MendedLines, entries: set[str]) -> bytes:
    """Compactions have copies of what they keep, for pi; without the pointer, those count."""
    for line in lines.lines:
        if line.get("id") in entries:
            line.pop("firstKeptId", None)
            line.pop("added", None)
    return lines.encoded()


def _closing(log: SessionLog, changes: list[Change]) -> tuple[bytes, list[str]]:
    """One more commit that makes what is beside the entries agree with them."""
    commit, said = Commit(), list[str]()
    for change in changes:
        if change.lane is not None:
            commit.lanes.append(change.lane)
        elif change.operation is not None:
            commit.operations.append(change.operation)
        elif change.drop_intent is not None:
            commit.settled.append(change.drop_intent.id)
        elif change.withdraw is not None:
            commit.inbox.append(msgspec.structs.replace(change.withdraw, status="withdrawn"))
        elif change.totals is not None:
            commit.usage_total = _usage(change)
        else:
            continue  # entries are lines, and have been mended there
        said.append(change.said)
    return (log.lines_of(commit, now_ms()), said) if said else (b"", said)


def _usage(change: Change) -> Usage:
    assert change.totals is not None
    return change.totals[1]


# -- mending ---------------------------------------------------------------------------------


def _repair(path: Path) -> Repaired:
    with exclusive(path, appending=True) as lease_file:
        lease = lease_file.read()
        _refuse_if_open(path, lease)
        found = _look(path)  # again: somebody may have written since
        if found.mended is None:
            return Repaired(target=path, left=found.findings)
        stamp = time.strftime("%Y%m%d-%H%M%S")
        backup = _free(path.with_name(f"{path.name}.doctor-{stamp}"))
        working = backup.with_name(f"{backup.name}.tmp")
        removed = backup.with_name(f"{backup.name}.removed")
        try:
            _write(backup, found.data)
            if found.lines is not None and found.lines.taken_out:
                _write(removed, _taken_out(found.lines))
            _write(working, found.mended)
            left = _verified(working, path)
            os.replace(working, path)
        except OSError as error:
            raise StoreUnavailable(
                f"{path} could not be mended: {error.strerror or error}",
                hint="it is as it was; make some room beside it, and try again",
            ) from error
        finally:
            working.unlink(missing_ok=True)
        _let_go(lease_file, lease)
    return Repaired(
        target=path,
        actions=found.actions,
        backup=backup,
        removed=removed if removed.exists() else None,
        left=left,
    )


def _refuse_if_open(path: Path, lease: LeaseRow) -> None:
    if lease.owner is not None and lease.until > now_ms() and not owner_is_dead(lease.owner):
        raise refusals.session_locked(path.name, lease.owner, lease.until)


def _let_go(lease_file: LeaseFile, lease: LeaseRow) -> None:
    if lease.owner is not None:
        lease_file.write(LeaseRow(None, lease.epoch + 1, 0, None))


def _free(path: Path) -> Path:
    number, chosen = 1, path
    while chosen.exists():
        number += 1
        chosen = path.with_name(f"{path.name}-{number}")
    return chosen


def _write(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _taken_out(lines: MendedLines) -> bytes:
    return b"".join(
        msgspec.json.encode(
            {
                "line": taken.number,
                "why": taken.why,
                "text": taken.text.decode("utf-8", "backslashreplace"),
            }
        )
        + b"\n"
        for taken in lines.taken_out
    )


def _verified(working: Path, path: Path) -> list[Finding]:
    left = [finding for finding in _look(working).findings if finding.kind != "lease_left"]
    broken = [finding for finding in left if finding.severity == "error"]
    if broken:
        raise StoreUnavailable(
            f"{path} could not be mended: in the copy, {broken[0].where}: {broken[0].message}",
            hint="the file is as it was; restore a backup, or ask for help with a copy of it",
        )
    return left
