"""Take a session from a file of somebody else's into a store of ours.

A reader per format turns a file into an `ImportedSession`; here it is written to a store, all of
it or nothing. What is read is never changed. Who wants the reader's warnings calls `read_session`
and `store_imported` himself.

Not here: the formats (legacy, pi_v4, pi_v4_spec, durable_commits), or telling them apart (detect).
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from ...errors import SessionDamaged, SessionError, SessionExists
from ...messages import Usage, UserMessage
from ...records import to_jsonable
from ..entries import Entry, EntryRow, MessageEntry, new_id, to_row
from ..leases import new_owner
from ..rows import Fact, InboxItem, Lane, SessionInfo, UsageRow
from ..store import Commit, SessionStore
from .pi_messages import with_rest

__all__ = ["ImportedSession", "import_file", "read_session", "store_imported"]

_log = logging.getLogger("loopwright")

_LEASE_SECONDS = 60.0
_COMMIT_ENTRIES = 5_000
_COMMIT_BYTES = 16 * 1024 * 1024
"""A commit holds at most so much, so that a huge session is never twice in memory."""
_PREVIEW_CHARACTERS = 200


class ImportedSession(msgspec.Struct, kw_only=True):
    """What a file holds, in our terms."""

    info: SessionInfo
    entries: list[Entry] = []
    """Parents before children."""
    lanes: list[Lane] = []
    facts: list[Fact] = []
    usage: list[UsageRow] = []
    inbox: list[InboxItem] = []
    """What was said and not heard yet."""
    rest: dict[str, dict[str, Any]] = {}
    """By the id of an entry: what else its stored payload shall have, keys of others that our
    classes have no field for. They stay in the row, and an export finds them there."""
    warnings: list[str] = []
    """What could not be taken over, or was taken over changed; for a person to read."""


async def import_file(
    store: SessionStore,
    path: str | os.PathLike[str],
    *,
    session_id: str | None = None,
    lenient: bool = False,
) -> SessionInfo:
    """Add the session in *path* to *store*, under its own id or under *session_id*.

    *lenient* leaves out what cannot be read, with a warning, where else the file is refused; v4
    files as shipped are read strictly in any case, since they are journals. Warnings go to the
    logger `loopwright`. Raises `SessionDamaged` and `SessionTooNew` naming file and line,
    `SessionExists`, and what the store raises; nothing was added then.
    """
    imported = await asyncio.to_thread(read_session, path, lenient=lenient)
    for warning in imported.warnings:
        _log.warning("%s: %s", os.fspath(path), warning)
    return await store_imported(store, imported, session_id=session_id)


def read_session(path: str | os.PathLike[str], *, lenient: bool = False) -> ImportedSession:
    """The session in *path*, a file of any format that `detect` knows. Blocks while it reads.

    Raises `SessionDamaged` naming file and line, and `SessionTooNew`.
    """
    from .detect import detect

    found = detect(path)
    source = Path(path)
    try:
        match found.format:
            case "durable":
                from .durable_commits import read_durable

                return read_durable(source, lenient=lenient)
            case "pi-legacy":
                from .legacy import read_legacy

                with source.open("rb") as lines:
                    return read_legacy(lines, lenient=lenient)
            case "pi-v4-spec":
                from .pi_v4_spec import read_pi_v4_spec

                with source.open("rb") as lines:
                    return read_pi_v4_spec(lines, lenient=lenient)
            case "pi-v4":
                from .pi_v4 import read_pi_v4

                with source.open("rb") as lines:
                    return read_pi_v4(lines)
    except SessionDamaged as error:
        raise _named(source, error) from error


def _named(path: Path, error: SessionDamaged) -> SessionDamaged:
    """The same error with the file in its `where`: the readers know only lines."""
    if str(path) in error.where:
        return error
    message = error.message.removeprefix(f"{error.where}: ")
    where = f"{path}, {error.where}" if error.where else str(path)
    return SessionDamaged(message, where=where, hint=error.hint)


async def store_imported(
    store: SessionStore, imported: ImportedSession, *, session_id: str | None = None
) -> SessionInfo:
    """Write *imported* to *store*, all of it or nothing. Returns what a list shows of it.

    Ids are kept; the id of a usage row or of a waiting message that clashes with another id gets a
    new one. Raises `SessionExists`, `SessionDamaged` where *imported* contradicts itself, and what
    the store raises.
    """
    rows, usage, inbox = _checked(imported)
    preview = _preview(imported.entries)
    info = msgspec.structs.replace(
        imported.info, id=session_id or imported.info.id, locked_by=None, entries=0, usage=Usage()
    )
    try:
        await store.create(info)
    except SessionExists as error:
        raise SessionExists(
            f"the store has a session {info.id!r} already",
            hint=error.hint or "give the import an id of its own, or delete the one that is there",
        ) from error
    lease = None
    try:
        lease = await store.claim(info.id, new_owner(), _LEASE_SECONDS)
        for part in _in_parts(rows):
            await store.commit(lease, Commit(entries=part))
            await store.renew(lease, _LEASE_SECONDS)
        total = Usage()
        for row in usage:
            total += row.usage
        await store.commit(
            lease,
            Commit(
                lanes=imported.lanes,
                facts=imported.facts,
                inbox=inbox,
                usage=usage,
                usage_total=total if usage else None,
                preview=preview,
            ),
        )
        await store.release(lease)
    except BaseException:
        try:  # half a session must not stay; what went wrong first is what is told
            if lease is not None:
                await store.release(lease)
            await store.delete(info.id)
        except SessionError as error:
            _log.warning("the half-imported session %s could not be deleted: %s", info.id, error)
        raise
    return await store.info(info.id)


def _checked(
    imported: ImportedSession,
) -> tuple[list[EntryRow], list[UsageRow], list[InboxItem]]:
    """The rows to write. Raises before anything is written."""
    known: set[str] = set()
    rows: list[EntryRow] = []
    for entry in imported.entries:
        if entry.id in known:
            raise SessionDamaged("two entries have this id", where=f"entry {entry.id}")
        if entry.parent_id is not None and entry.parent_id not in known:
            raise SessionDamaged(
                f"its parent {entry.parent_id} does not come before it", where=f"entry {entry.id}"
            )
        known.add(entry.id)
        rows.append(_with_rest(to_row(entry), imported.rest.get(entry.id)))
    for lane in imported.lanes:
        if lane.leaf_id is not None and lane.leaf_id not in known:
            raise SessionDamaged(
                f"its leaf {lane.leaf_id} is no entry of the session", where=f"lane {lane.name!r}"
            )
    taken = set(known)
    usage = [msgspec.structs.replace(row, id=_free(row.id, taken)) for row in imported.usage]
    inbox = [msgspec.structs.replace(item, id=_free(item.id, taken)) for item in imported.inbox]
    return rows, usage, inbox


def _with_rest(row: EntryRow, rest: dict[str, Any] | None) -> EntryRow:
    if not rest:
        return row
    payload = with_rest(msgspec.json.decode(row.payload), to_jsonable(rest))
    return msgspec.structs.replace(row, payload=msgspec.json.encode(payload))


def _free(wanted: str, taken: set[str]) -> str:
    """*wanted*, or a new id if it is taken; taken from now on."""
    chosen = new_id() if wanted in taken else wanted
    taken.add(chosen)
    return chosen


def _in_parts(rows: list[EntryRow]) -> Iterator[list[EntryRow]]:
    part: list[EntryRow] = []
    size = 0
    for row in rows:
        part.append(row)
        size += len(row.payload)
        if len(part) >= _COMMIT_ENTRIES or size >= _COMMIT_BYTES:
            yield part
            part, size = [], 0
    if part:
        yield part


def _preview(entries: list[Entry]) -> str | None:
    for entry in entries:
        if isinstance(entry, MessageEntry) and isinstance(entry.message, UserMessage):
            text = " ".join(entry.message.text.split())
            if text:
                return text[:_PREVIEW_CHARACTERS]
    return None
