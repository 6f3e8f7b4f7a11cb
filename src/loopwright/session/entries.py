"""What stands in the tree of a session: entries, written once, each pointing at its parent.

An entry is stored as an `EntryRow`: a few columns, and what is its own as JSON. Rows are what
stores move about; only who reads an entry decodes it. Rows hold bytes, so nobody can change what
a store keeps by changing what he was given.

Not here: the other rows of a session (rows), or walking the tree (tree).
"""

from __future__ import annotations

import secrets
import time
from typing import Any, ClassVar, Literal, TypeVar, cast

import msgspec
from msgspec import field

from ..errors import SessionDamaged
from ..messages import (
    AgentMessage,
    AssistantMessage,
    ToolResultMessage,
    Usage,
    UserMessage,
    message_from_dict,
)
from ..records import Record, to_jsonable
from .formats import pi_messages as pi_messages  # registers pi's roles, which imports bring along

__all__ = [
    "BranchSummaryEntry",
    "CompactionEntry",
    "CustomEntry",
    "Entry",
    "EntryRow",
    "EntryType",
    "MessageEntry",
    "new_id",
    "now_ms",
    "to_row",
]

EntryType = Literal["message", "compaction", "branch_summary", "custom"]


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def new_id() -> str:
    """A new identifier: ids of later milliseconds sort behind earlier ones."""
    return f"{time.time_ns() // 1_000_000:012x}{secrets.token_hex(8)}"


class MessageEntry(Record, tag_field="type", tag="message", kw_only=True):
    """A finalized message."""

    type: ClassVar[str] = "message"
    id: str = field(default_factory=new_id)
    parent_id: str | None
    message: AgentMessage
    terminate: bool = False
    """Of a tool result: the tool asked for the run to end after its batch."""
    timestamp: int = field(default_factory=now_ms)
    operation_id: str | None = None
    seq: int = 0
    """Its place among everything in the session; given by the store."""


class CompactionEntry(Record, tag_field="type", tag="compaction", kw_only=True):
    """What came before is replaced, for the model, by a summary and the messages kept.

    What is kept begins with the entry `first_kept_id` on the same branch; the entries from there
    to this one follow the summary. Files of others hold copies instead: `retained_tail`.
    """

    type: ClassVar[str] = "compaction"
    id: str = field(default_factory=new_id)
    parent_id: str | None
    summary: str
    first_kept_id: str | None = None
    """None: nothing is kept (or `retained_tail` holds what is)."""
    retained_tail: list[AgentMessage] | None = None
    tokens_before: int = field(default_factory=int)
    details: Any = None
    usage: Usage | None = None
    from_hook: bool = False
    timestamp: int = field(default_factory=now_ms)
    operation_id: str | None = None
    seq: int = 0


class BranchSummaryEntry(Record, tag_field="type", tag="branch_summary", kw_only=True):
    """What happened on a branch that was left, told to the one that is gone on with."""

    type: ClassVar[str] = "branch_summary"
    id: str = field(default_factory=new_id)
    parent_id: str | None
    from_id: str
    """The leaf of the branch that was left."""
    summary: str
    details: Any = None
    usage: Usage | None = None
    from_hook: bool = False
    timestamp: int = field(default_factory=now_ms)
    operation_id: str | None = None
    seq: int = 0


class CustomEntry(Record, tag_field="type", tag="custom", kw_only=True):
    """Data of a program's own. No model is shown it."""

    type: ClassVar[str] = "custom"
    id: str = field(default_factory=new_id)
    parent_id: str | None
    custom_type: str
    data: Any = None
    timestamp: int = field(default_factory=now_ms)
    operation_id: str | None = None
    seq: int = 0


Entry = MessageEntry | CompactionEntry | BranchSummaryEntry | CustomEntry

EntryT = TypeVar("EntryT", MessageEntry, CompactionEntry, BranchSummaryEntry, CustomEntry)


class EntryRow(msgspec.Struct, frozen=True):
    """An entry as stores keep it. `payload` is JSON (UTF-8) of the fields its type adds."""

    id: str
    parent_id: str | None
    type: EntryType
    payload: bytes
    timestamp: int
    operation_id: str | None = None
    custom_type: str | None = None
    seq: int = 0

    def entry(self) -> Entry:
        """The entry itself. Raises `SessionDamaged` if the payload is not what the type demands."""
        try:
            return _decode(self)
        except SessionDamaged:
            raise
        except Exception as error:
            raise SessionDamaged(
                f"the {self.type} cannot be read: {error}", where=f"entry {self.id}"
            ) from error


class _MessagePayload(msgspec.Struct):
    message: UserMessage | AssistantMessage | ToolResultMessage
    terminate: bool = False


_decode_message = msgspec.json.Decoder(_MessagePayload).decode
_COLUMNS = ("id", "parent_id", "timestamp", "operation_id", "seq", "custom_type")
_COLUMN_KEYS = ("type", "id", "parentId", "timestamp", "operationId", "seq", "customType")


def _decode(row: EntryRow) -> Entry:
    kind = row.type
    if kind == "message":
        try:  # nearly always: the messages that models know, straight from JSON
            payload = _decode_message(row.payload)
        except msgspec.ValidationError:  # a role of the program's own
            data = msgspec.json.decode(row.payload)
            message: AgentMessage = message_from_dict(data["message"])
            terminate = bool(data.get("terminate", False))
        else:
            message, terminate = payload.message, payload.terminate
        return MessageEntry(
            id=row.id,
            parent_id=row.parent_id,
            message=message,
            terminate=terminate,
            timestamp=row.timestamp,
            operation_id=row.operation_id,
            seq=row.seq,
        )
    data = cast("dict[str, Any]", msgspec.json.decode(row.payload))
    data |= {name: value for name in _COLUMNS if (value := getattr(row, name)) is not None}
    data["parent_id"] = row.parent_id
    if kind == "compaction":
        return CompactionEntry.from_dict(data | {"type": kind})
    if kind == "branch_summary":
        return BranchSummaryEntry.from_dict(data | {"type": kind})
    if kind == "custom":
        return CustomEntry.from_dict(data | {"type": kind})
    raise SessionDamaged(f"no entry has the type {kind!r}", where=f"entry {row.id}")


def to_row(entry: Entry) -> EntryRow:
    """*entry* as it is stored. Raises `Misuse` for a message that could not be read back."""
    return EntryRow(
        id=entry.id,
        parent_id=entry.parent_id,
        type=cast("EntryType", entry.type),
        payload=_payload(entry),
        timestamp=entry.timestamp,
        operation_id=entry.operation_id,
        custom_type=entry.custom_type if isinstance(entry, CustomEntry) else None,
        seq=entry.seq,
    )


def _payload(entry: Entry) -> bytes:
    if isinstance(entry, MessageEntry):
        message = entry.message
        if type(message) in (UserMessage, AssistantMessage, ToolResultMessage):
            try:  # nearly always: plain data, straight to JSON
                return msgspec.json.encode(
                    _MessagePayload(message, True)  # pyright: ignore[reportArgumentType]
                    if entry.terminate
                    else {"message": message}
                )
            except (TypeError, UnicodeEncodeError, msgspec.EncodeError, RecursionError):
                pass  # foreign objects in `details`, halves of surrogate pairs
    data = entry.to_dict(camel=True)
    for key in _COLUMN_KEYS:
        data.pop(key, None)
    return msgspec.json.encode(to_jsonable(data))
