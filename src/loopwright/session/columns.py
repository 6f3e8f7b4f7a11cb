"""Records as the columns of a table, and back.

Stores that keep rows (memory, sqlite, postgres) share this, so that what one of them refuses or
changes, all of them do. Texts that are compared or looked up are refused if they cannot be stored
as they are; those that are only shown have what cannot be stored replaced by U+FFFD.

Not here: the tables (tables), or the entries' own payload (entries).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Literal, TypeVar, cast

import msgspec

from ..errors import DecodeError, Misuse, SessionDamaged
from ..messages import Usage
from ..records import Record, clean_text, to_jsonable
from .entries import EntryRow, now_ms
from .json_values import json_value
from .leases import owner_is_dead
from .rows import Approval, Fact, InboxItem, Intent, Lane, Operation, SessionInfo, UsageRow
from .store import Commit

__all__ = [
    "Writes",
    "approval_columns",
    "decided",
    "encode",
    "info_columns",
    "item_columns",
    "key",
    "main_lane",
    "read_approval",
    "read_fact",
    "read_info",
    "read_intent",
    "read_item",
    "read_lane",
    "read_operation",
    "read_usage",
    "shown",
    "writes",
]

RecordT = TypeVar("RecordT", bound=Record)
Columns = tuple[Any, ...]


def key(text: str, what: str) -> str:
    """*text* as an id or another thing that is looked up. Raises `Misuse` if it cannot be kept.

    Postgres stores no NUL, and no database half a surrogate pair.
    """
    if "\0" in text or clean_text(text) is not text:
        raise Misuse(
            f"{what} {text!r} has a NUL or half of a surrogate pair, and cannot be stored as it is",
            hint="use printable characters; `loopwright.session.entries.new_id()` makes ids",
        )
    return text


def _optional_key(text: str | None, what: str) -> str | None:
    return None if text is None else key(text, what)


def shown(text: str | None) -> str | None:
    """*text* as it is shown: what cannot be stored becomes U+FFFD."""
    return None if text is None else clean_text(text).replace("\0", "\ufffd")


def encode(record: Record) -> str:
    """*record* as JSON."""
    try:  # nearly always: plain data, straight to JSON
        return msgspec.json.encode(record).decode()
    except (TypeError, UnicodeEncodeError, msgspec.EncodeError, RecursionError):
        return record.to_json().decode()


# -- writing ---------------------------------------------------------------------------------


class Writes(msgspec.Struct, frozen=True):
    """A commit as columns: everything that can be worked out before the database is asked.

    Each tuple has the columns in the order of its statement in `tables`, from behind those that
    only the store knows (session, sequence number, epoch).
    """

    entries: list[Columns]
    """ADD_ENTRY from `id` on."""
    parents: list[tuple[str, str]]
    """(entry, parent) whose parent no earlier entry of this commit is: it must be stored."""
    lanes: list[Columns]
    operations: list[Columns]
    intents: list[Columns]
    settled: list[str]
    inbox: list[Columns]
    approvals: list[Columns]
    consume: list[tuple[str, str]]
    facts: list[tuple[str, str, str | None]]
    """(namespace, key, value as JSON); None: deleted."""
    usage: list[Columns]
    """ADD_USAGE from `id` on."""
    usage_total: str | None
    preview: str | None
    renamed: bool
    """`name` is to become the session's."""
    name: str | None
    unless_waiting: str | None

    @property
    def numbered(self) -> int:
        """How many sequence numbers it takes."""
        return len(self.entries) + len(self.facts) + len(self.usage)


def writes(commit: Commit) -> Writes:
    """*commit* as columns. Raises `Misuse` for what no store can keep."""
    if commit.usage and commit.usage_total is None:
        raise Misuse(
            "a commit with usage rows needs their total",
            hint="Commit(usage=[row], usage_total=the sum of the ledger with them)",
        )
    seen: set[str] = set()
    parents: list[tuple[str, str]] = []
    for row in commit.entries:
        if row.id in seen:
            raise SessionDamaged("the id is in this commit twice", where=f"entry {row.id}")
        if row.parent_id is not None and row.parent_id not in seen:
            parents.append((row.id, key(row.parent_id, "the parent id")))
        seen.add(row.id)
    name = next((fact for fact in reversed(commit.facts) if fact.namespace == "name"), None)
    return Writes(
        entries=[_entry_columns(row) for row in commit.entries],
        parents=parents,
        lanes=[(key(lane.name, "the lane"), encode(lane)) for lane in commit.lanes],
        operations=[_operation_columns(operation) for operation in commit.operations],
        intents=[(key(intent.id, "the intent id"), encode(intent)) for intent in commit.intents],
        settled=[shown(intent_id) or "" for intent_id in commit.settled],
        inbox=[item_columns(item) for item in commit.inbox],
        approvals=[approval_columns(approval) for approval in commit.approvals],
        consume=[(shown(approval_id) or "", digest) for approval_id, digest in commit.consume],
        facts=[_fact_columns(fact) for fact in commit.facts],
        usage=[(key(row.id, "the usage id"), encode(row)) for row in commit.usage],
        usage_total=None if commit.usage_total is None else encode(commit.usage_total),
        preview=shown(commit.preview),
        renamed=name is not None,
        name=shown(_name(name)),
        unless_waiting=commit.unless_waiting,
    )


def _entry_columns(row: EntryRow) -> Columns:
    return (
        key(row.id, "the entry id"),
        row.parent_id,
        row.type,
        _optional_key(row.custom_type, "the custom type"),
        row.timestamp,
        _optional_key(row.operation_id, "the operation id"),
        row.payload.decode(),
    )


def _operation_columns(operation: Operation) -> Columns:
    return (
        key(operation.id, "the operation id"),
        key(operation.lane, "the lane"),
        operation.status,
        _optional_key(operation.request_id, "the request id"),
        encode(operation),
    )


def item_columns(item: InboxItem) -> Columns:
    """PUT_ITEM and ENQUEUE from `id` on."""
    return (
        key(item.id, "the inbox id"),
        key(item.lane, "the lane"),
        item.queue,
        item.status,
        _optional_key(item.request_id, "the request id"),
        encode(item),
    )


def approval_columns(approval: Approval) -> Columns:
    """PUT_APPROVAL from `id` on."""
    return (
        key(approval.id, "the approval id"),
        approval.status,
        key(approval.digest, "the digest"),
        encode(approval),
    )


def decided(
    approval: Approval,
    verdict: Literal["approved", "denied"],
    arguments: dict[str, Any] | None,
    digest: str | None,
    reason: str | None,
    decided_by: str | None,
) -> Approval:
    """*approval* with the word of whoever was asked; see `SessionStore.decide`."""
    if (arguments is None) != (digest is None):
        raise Misuse(
            "other arguments need a digest of their own, and a digest its arguments",
            hint="decide(..., arguments=them, digest=theirs), or neither",
        )
    return msgspec.structs.replace(
        approval,
        status=verdict,
        arguments=approval.arguments if arguments is None else arguments,
        digest=digest or approval.digest,
        reason=reason,
        decided_by=decided_by,
        decided_at=now_ms(),
    )


def _fact_columns(fact: Fact) -> tuple[str, str, str | None]:
    value = None if fact.deleted else msgspec.json.encode(to_jsonable(fact.value)).decode()
    return fact.namespace, key(fact.key, "the key of a fact"), value


def _name(fact: Fact | None) -> str | None:
    if fact is None or fact.deleted or fact.value is None:
        return None
    if not isinstance(fact.value, str):
        raise Misuse(f"the name of a session is a text, not {type(fact.value).__name__}")
    return fact.value


def info_columns(info: SessionInfo) -> Columns:
    """CREATE_SESSION. Name, preview, entries and usage come from commits, and are not taken."""
    if not info.id:
        raise Misuse("a session needs an id that is not empty")
    return (
        key(info.id, "the session id"),
        info.created_at,
        info.modified_at,
        shown(info.cwd),
        _optional_key(info.parent_id, "the parent session"),
        None
        if info.metadata is None
        else msgspec.json.encode(json_value(info.metadata, "metadata")).decode(),
        _NO_USAGE,
    )


def main_lane() -> Columns:
    """The lane of a new session: PUT_LANE from `name` on."""
    return ("main", encode(Lane(name="main")))


_NO_USAGE = encode(Usage())


# -- reading ---------------------------------------------------------------------------------


@cache
def _decoder(kind: type[Any]) -> Callable[[str], Any]:
    return msgspec.json.Decoder(kind).decode


def _read(kind: type[RecordT], body: str, session_id: str, **columns: Any) -> RecordT:
    """*body* as *kind*, whose fields in *columns* are as those say."""
    try:
        data = cast("dict[str, Any]", msgspec.json.decode(body))
        return kind.from_dict(data | columns if columns else data)
    except (DecodeError, msgspec.MsgspecError, TypeError, UnicodeError, RecursionError) as error:
        raise _damaged(kind, f"session {session_id}", error) from error


def _read_plain(kind: type[RecordT], body: str, session_id: str) -> RecordT:
    """*body* as a *kind* in which no messages are, and so quicker."""
    try:
        return _decoder(kind)(body)
    except (msgspec.MsgspecError, TypeError, UnicodeError, RecursionError) as error:
        raise _damaged(kind, f"session {session_id}", error) from error


def _damaged(kind: type[Record], where: str, error: Exception) -> SessionDamaged:
    return SessionDamaged(
        f"a stored {kind.__name__} cannot be read: {error}",
        where=where,
        hint="`loopwright sessions doctor` looks at a copy and says what can be saved",
    )


def _free_form(kind: type[Record], body: str, where: str) -> Any:
    try:
        return msgspec.json.decode(body)
    except (msgspec.MsgspecError, TypeError, UnicodeError, RecursionError) as error:
        raise _damaged(kind, where, error) from error


def read_info(row: Sequence[Any]) -> SessionInfo:
    """From the columns `tables.INFO_COLUMNS`."""
    (session_id, created, modified, cwd, parent, name, preview, entries, usage, metadata, owner) = (
        row
    )
    return SessionInfo(
        id=session_id,
        created_at=created,
        modified_at=modified,
        cwd=cwd,
        parent_id=parent,
        name=name,
        preview=preview,
        entries=entries,
        usage=_read_plain(Usage, usage, session_id),
        metadata=None
        if metadata is None
        else _free_form(SessionInfo, metadata, f"session {session_id}"),
        locked_by=None if owner is None or owner_is_dead(owner) else owner,
    )


def read_lane(session_id: str, body: str) -> Lane:
    """From `body`."""
    return _read_plain(Lane, body, session_id)


def read_operation(session_id: str, body: str) -> Operation:
    """From `body`."""
    return _read_plain(Operation, body, session_id)


def read_intent(session_id: str, body: str) -> Intent:
    """From `body`."""
    return _read(Intent, body, session_id)


def read_item(session_id: str, status: str, body: str) -> InboxItem:
    """From `status, body`."""
    return _read(InboxItem, body, session_id, status=status)


def read_approval(session_id: str, status: str, digest: str, body: str) -> Approval:
    """From `status, digest, body`."""
    return _read(Approval, body, session_id, status=status, digest=digest)


def read_fact(namespace: str, key: str, value: str, seq: int) -> Fact:
    """From `namespace, key, value, seq`."""
    found = _free_form(Fact, value, f"fact {namespace} {key}")
    return Fact(namespace=cast("Any", namespace), key=key, value=found, seq=seq)


def read_usage(session_id: str, seq: int, body: str) -> UsageRow:
    """From `seq, body`."""
    return msgspec.structs.replace(_read_plain(UsageRow, body, session_id), seq=seq)
