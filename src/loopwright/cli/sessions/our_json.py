"""`sessions export --format json`, read back: entries and branches, as they were.

What that format does not have is not there afterwards: labels, what was queued, what was open. The
cost is counted anew from the replies.

Not here: files of others (session/formats).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import msgspec

from ...errors import LoopwrightError, SessionDamaged, StoreUnavailable
from ...messages import AssistantMessage, Usage
from ...session.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    Entry,
    MessageEntry,
)
from ...session.formats.importing import ImportedSession
from ...session.rows import Fact, Lane, SessionInfo, UsageRow
from ..json_mode import FORMAT_VERSION

__all__ = ["is_our_json", "read_our_json"]

_HEADER_LIMIT = 1 << 20
_ENTRIES: dict[str, type[CompactionEntry | BranchSummaryEntry | CustomEntry | MessageEntry]] = {
    "message": MessageEntry,
    "compaction": CompactionEntry,
    "branch_summary": BranchSummaryEntry,
    "custom": CustomEntry,
}


def is_our_json(file: Path) -> bool:
    """Whether *file* begins as our own export does. pi's sessions begin much alike, but have no
    `createdAt`. False for what cannot be read."""
    if not file.is_file():  # a pipe would be waited for
        return False
    try:
        with file.open("rb") as lines:
            header = msgspec.json.decode(lines.readline(_HEADER_LIMIT))
    except (OSError, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return False
    return (
        isinstance(header, dict)
        and cast("dict[str, Any]", header).get("type") == "session"
        and "createdAt" in header
    )


def read_our_json(file: Path) -> ImportedSession:
    """The session in *file*. Raises `SessionDamaged` naming the line, `StoreUnavailable`."""
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise StoreUnavailable(f"{file} cannot be read: {error.strerror or error}") from error
    header = _object(file, 1, lines[0])
    if header.get("version") != FORMAT_VERSION:
        raise SessionDamaged(
            f"the export has the version {header.get('version')!r}, and {FORMAT_VERSION} is known",
            where=f"{file}, line 1",
            hint="export it with `--format pi` instead, which every version reads",
        )
    lanes: list[Lane] = []
    entries: list[Entry] = []
    for number, line in enumerate(lines[1:], 2):
        if not line.strip():
            continue
        data = _object(file, number, line)
        kind = data.get("type")
        try:
            if kind == "lane":
                lanes.append(Lane(name=str(data["name"]), leaf_id=cast("Any", data.get("leafId"))))
            elif kind in _ENTRIES:
                entries.append(_entry(_ENTRIES[kind], data))
            else:
                raise _damaged(file, number, f"{kind!r} is no kind of entry that is exported")
        except (LoopwrightError, KeyError, TypeError) as error:
            if isinstance(error, SessionDamaged):
                raise
            raise _damaged(file, number, str(error)) from error
    return _imported(file, header, lanes, entries)


def _imported(
    file: Path, header: dict[str, Any], lanes: list[Lane], entries: list[Entry]
) -> ImportedSession:
    try:
        info = SessionInfo(
            id=_text(header, "id") or "",
            created_at=int(header["createdAt"]),
            cwd=_text(header, "cwd"),
            name=_text(header, "name"),
            parent_id=_text(header, "parentId"),
        )
    except (TypeError, ValueError) as error:
        raise _damaged(file, 1, str(error)) from error
    if not info.id:
        raise _damaged(file, 1, "the session has no id")
    if not any(lane.name == "main" for lane in lanes):  # one branch was exported: its end
        lanes = [*lanes, Lane(name="main", leaf_id=entries[-1].id if entries else None)]
    usage = _spent(entries)
    named = [Fact(namespace="name", value=info.name)] if info.name else []
    warnings = ["labels and what was queued are not in such a file; `--format pi` has them"]
    return ImportedSession(
        info=info, entries=entries, lanes=lanes, facts=named, usage=usage, warnings=warnings
    )


def _entry(kind: type[Any], data: dict[str, Any]) -> Entry:
    entry: Entry = kind.from_dict({"parentId": None, **data})
    # The numbers are those of the store it came from, and the operation is known only there.
    return msgspec.structs.replace(entry, seq=0, operation_id=None)


def _spent(entries: list[Entry]) -> list[UsageRow]:
    total = Usage()
    for entry in entries:
        if isinstance(entry, MessageEntry) and isinstance(entry.message, AssistantMessage):
            total += entry.message.usage
        elif isinstance(entry, CompactionEntry | BranchSummaryEntry) and entry.usage is not None:
            total += entry.usage
    if total.is_empty:
        return []
    return [UsageRow(cause="import", usage=total, details={"source": "loopwright-json"})]


def _object(file: Path, number: int, line: bytes) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _damaged(file, number, f"not readable: {error}") from error
    if not isinstance(value, dict):
        raise _damaged(file, number, "an object is wanted")
    return cast("dict[str, Any]", value)


def _text(header: dict[str, Any], key: str) -> str | None:
    value = header.get(key)
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{key} is {value!r}, and a text is wanted")
    return value


def _damaged(file: Path, number: int, what: str) -> SessionDamaged:
    return SessionDamaged(what, where=f"{file}, line {number}")
