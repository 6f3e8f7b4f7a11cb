"""The lines of a v4 file, read one at a time: header, entry, record, lane, fact, and our state.

What pp-agent-core writes is read, and what is written here it reads. It passes over keys that it
does not know, so ours stand beside its own: `operationId` and `firstKeptId` on entries, `commit`
on each line of a commit that has several. What v4 has no line for at all (operations, intents, the
inbox, approvals, lane configuration) stands in the data of a `custom` entry of type
`loopwright.state`, which has no `lane` and so moves nothing.

Not here: writing them (pi_v4_writing), what they amount to (session.jsonl_log), or messages
(pi_v4_messages).
"""

from __future__ import annotations

from typing import Any, Literal, NoReturn, cast, get_args

import msgspec

from ...errors import DecodeError, SessionDamaged, SessionTooNew
from ...messages import Usage
from ...records import to_jsonable
from ..entries import EntryRow, EntryType
from ..rows import Fact, SessionInfo, UsageRow
from . import pi_messages
from .lines import decode_line as decode_json
from .pi_v4_messages import (
    OUR_USAGE,
    PI_ROLES,
    message_from_pi,
    usage_from_pi,
)

__all__ = [
    "ENTRY_TYPE",
    "ENVELOPE",
    "OUR_CAUSES",
    "PI_ONLY",
    "STATE_FORMAT",
    "STATE_TYPE",
    "ConfigLine",
    "EntryLine",
    "FactLine",
    "LaneLine",
    "Line",
    "NotJson",
    "RecordLine",
    "StateData",
    "StateLine",
    "UsageLine",
    "decode_header",
    "decode_line",
    "lane_to_line",
    "our_cause",
]

Json = dict[str, Any]

assert pi_messages  # imported for the roles it registers: files of pi have messages with them
STATE_TYPE = "loopwright.state"
"""The custom type of the entries that hold what v4 has no line for."""
ENTRY_TYPE = "loopwright.entry"
"""The custom type of an entry that pi would refuse: a message with a role of a program's own."""
STATE_FORMAT = 1


class NotJson(ValueError):
    """A line that is no JSON at all: as the last one of a file, what a crash leaves behind."""


class EntryLine(msgspec.Struct, frozen=True):
    """An entry. Its row has the parent as the line says it, and the line's number in `seq`."""

    seq: int
    row: EntryRow
    lane: str | None
    """The lane whose leaf it becomes."""
    commit: int | None
    """The state line it follows, if it is one of a commit of several lines."""


class ConfigLine(msgspec.Struct, frozen=True):
    """A change of model, thinking level or tools, which pi keeps in the tree and we do not."""

    seq: int
    id: str
    parent_id: str | None
    lane: str | None
    data: Json
    """The line itself."""
    commit: None = None


class LaneLine(msgspec.Struct, frozen=True):
    """A lane is made, or its leaf moved."""

    seq: int
    lane: str
    leaf_id: str | None
    commit: int | None


class FactLine(msgspec.Struct, frozen=True):
    """The name of the session, or a label."""

    seq: int
    fact: Fact
    commit: int | None


class UsageLine(msgspec.Struct, frozen=True):
    """A row of the ledger."""

    seq: int
    lane: str
    usage: UsageRow
    commit: int | None


class RecordLine(msgspec.Struct, frozen=True):
    """A step of an operation of pi's. It means nothing to us, but its id is taken."""

    seq: int
    id: str
    lane: str
    type: str
    data: Json
    """The line itself."""
    commit: None = None


class StateData(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """What one commit puts beside the lines that pi knows. Rows are whole, as JSON."""

    format: int = msgspec.field(default_factory=lambda: STATE_FORMAT)
    session: str
    """In a copy of the line in another session (a fork by others) it means nothing."""
    seq: int
    """The line's own number, for the same reason."""
    lines: int = msgspec.field(default_factory=int)
    """How many more lines the commit has. If they are not all there, it did not happen."""
    lanes: list[msgspec.Raw] = []
    stray_leaves: dict[str, str] = {}
    """Leaves that are no entries, which no lane line may name."""
    operations: list[msgspec.Raw] = []
    intents: list[msgspec.Raw] = []
    settled: list[str] = []
    inbox: list[msgspec.Raw] = []
    approvals: list[msgspec.Raw] = []
    consumed: list[tuple[str, str]] = []
    """Approvals and their digests."""
    facts: list[Fact | None] = []
    """In their order; None: the next fact line."""
    usage: list[msgspec.Raw] = []
    """In their order; null: the next usage record."""
    usage_total: Usage | None = None
    preview: str | None = None


class StateLine(msgspec.Struct, frozen=True):
    """The first line of a commit that has several, or has what pi knows no line for."""

    seq: int
    id: str
    data: StateData
    commit: None = None


Line = EntryLine | ConfigLine | LaneLine | FactLine | UsageLine | RecordLine | StateLine


def decode_header(line: bytes) -> SessionInfo:
    """What the first line says of the session. Raises `SessionDamaged` and `SessionTooNew`."""
    try:
        data = _object(line, 1)
    except NotJson as error:
        _refuse(1, f"no header: {error}")
    version = data.get("version")
    if data.get("kind") != "header" or type(version) is not int:
        _refuse(1, "no header with kind=header and a version")
    if version > 4:
        raise SessionTooNew(
            f"line 1: the file has version {version}; this version of loopwright knows version 4",
            hint="update loopwright; the file is not touched",
        )
    if version != 4:
        _refuse(1, f"version {version} is not 4", hint="`loopwright sessions import` reads it")
    metadata = data.get("metadata")
    if metadata is not None and not isinstance(metadata, dict):
        _refuse(1, "metadata is not an object")
    created = _count(data.get("createdAt"), "createdAt", 1)
    return SessionInfo(
        id=_text(data.get("id"), "id", 1),
        created_at=created,
        modified_at=created,
        cwd=_text(data.get("cwd"), "cwd", 1) or None,
        parent_id=_optional_text(data.get("parentSessionId"), "parentSessionId", 1),
        metadata=cast("Json | None", metadata),
    )


def decode_line(line: bytes, number: int) -> Line:
    """What line *number*, counted from 1, says.

    Raises `NotJson` if it says nothing at all, `SessionDamaged` naming the line if it is no line of
    this format, `SessionTooNew` if a later version of this package wrote it.
    """
    data = _object(line, number)
    seq = data.get("seq")
    if type(seq) is not int or seq < 1:
        _refuse(number, f"seq must be a number above 0, not {seq!r}")
    commit = data.get("commit")
    match data.get("kind"):
        case "entry":
            return _entry(data, seq, commit if type(commit) is int else None, number)
        case "record":
            return _record(data, seq, commit if type(commit) is int else None, number)
        case "lane":
            return LaneLine(
                seq,
                _text(data.get("lane"), "lane", number),
                _optional_text(data.get("leafId"), "leafId", number),
                commit if type(commit) is int else None,
            )
        case "fact":
            fact = _fact(data, number)
            return FactLine(seq, fact, commit if type(commit) is int else None)
        case kind:
            raise _refusal(number, f"no line has the kind {kind!r}")


def _entry(data: Json, seq: int, commit: int | None, number: int) -> Line:
    kind = data.get("type")
    entry_id = _text(data.get("id"), "id", number)
    parent_id = _optional_text(data.get("parentId"), "parentId", number)
    lane = _optional_text(data.get("lane"), "lane", number)
    timestamp = _count(data.get("timestamp"), "timestamp", number)
    custom_type: str | None = None
    match kind:
        case "message":
            payload = {"message": _message(data.get("message"), timestamp, number)}
            if data.get("terminate") is not None:
                payload["terminate"] = data["terminate"]
        case "compaction":
            payload = _compaction(data, timestamp, number)
        case "branch_summary":
            _text(data.get("fromId"), "fromId", number)
            _text(data.get("summary"), "summary", number)
            payload = _own(data)
        case "custom":
            custom_type = _text(data.get("customType"), "customType", number)
            if custom_type == STATE_TYPE and lane is None:
                return _state(data, seq, entry_id, number)
            payload = _own(data)
            if custom_type == ENTRY_TYPE and isinstance(data.get("data"), dict):
                return _held_entry(data, seq, commit, number)
        case "model_change" | "thinking_level_change" | "active_tools_change":
            return ConfigLine(seq, entry_id, parent_id, lane, data)
        case _:
            _refuse(number, f"no entry has the type {kind!r}")
    usage = payload.get("usage")
    if isinstance(usage, dict):
        payload["usage"] = usage_from_pi(cast("Json", usage))
    row = EntryRow(
        id=entry_id,
        parent_id=parent_id,
        type=cast("EntryType", kind),
        payload=_encode(payload),
        timestamp=timestamp,
        operation_id=_optional_text(data.get("operationId"), "operationId", number),
        custom_type=custom_type,
        seq=seq,
    )
    _check(row, payload, number)
    return EntryLine(seq, row, lane, commit)


def _held_entry(data: Json, seq: int, commit: int | None, number: int) -> EntryLine:
    held = cast("Json", data["data"])
    if held.get("type") not in get_args(EntryType) or "payload" not in held:
        _refuse(number, f"data is no entry: {held!r:.80}")
    row = EntryRow(
        id=data["id"],
        parent_id=data.get("parentId"),
        type=held["type"],
        payload=_encode(held["payload"]),
        timestamp=data["timestamp"],
        operation_id=_optional_text(data.get("operationId"), "operationId", number),
        custom_type=_optional_text(held.get("customType"), "customType", number),
        seq=seq,
    )
    return EntryLine(seq, row, data.get("lane"), commit)


ENVELOPE = frozenset(
    {"kind", "lane", "type", "id", "parentId", "seq", "timestamp", "commit", "operationId"}
    | {"customType", "added", "ownTail"}
)


def _own(data: Json) -> Json:
    """What of an entry's line is the entry's own: its payload."""
    return {name: value for name, value in data.items() if name not in ENVELOPE}


def _message(message: Any, timestamp: int, number: int) -> Json:
    if not isinstance(message, dict):
        _refuse(number, f"message must be an object, not {type(message).__name__}")
    data = cast("Json", message)
    role = data.get("role")
    if not isinstance(role, str) or not role:
        _refuse(number, f"the message has the role {role!r}")
    return message_from_pi(data, timestamp)


def _compaction(data: Json, timestamp: int, number: int) -> Json:
    _text(data.get("summary"), "summary", number)
    payload = _own(data)
    tail = data.get("ownTail", data.get("retainedTail"))
    if "retainedTail" in cast("list[str]", data.get("added") or []):
        del payload["retainedTail"]  # copies of what stands in the tree, made for pi
    elif isinstance(tail, list):
        kept = cast("list[Any]", tail)
        payload["retainedTail"] = [_message(message, timestamp, number) for message in kept]
    elif tail is None:
        payload.pop("retainedTail", None)
    if payload.get("tokensBefore") is None:
        payload.pop("tokensBefore", None)
    elif isinstance(payload["tokensBefore"], float):
        payload["tokensBefore"] = int(payload["tokensBefore"])
    return payload


def _check(row: EntryRow, payload: Json, number: int) -> None:
    """Refuse an entry that nobody could read; messages of unknown roles are a program's own."""
    if row.type == "message" and payload["message"].get("role") not in PI_ROLES:
        return
    try:
        row.entry()
    except SessionDamaged as error:
        if "unknown role" in str(error):
            return  # in the tail of a compaction
        _refuse(number, error.message.removeprefix(f"{error.where}: "))


def _state(data: Json, seq: int, entry_id: str, number: int) -> StateLine:
    raw = data.get("data")
    version = cast("Json", raw).get("format") if isinstance(raw, dict) else None
    if type(version) is int and version > STATE_FORMAT:
        raise SessionTooNew(
            f"line {number}: state of format {version}; this version of loopwright knows "
            f"{STATE_FORMAT}",
            hint="update loopwright; the file is not touched",
        )
    try:
        # Rows stay JSON; whoever keeps them decodes them.
        state = msgspec.json.decode(_encode(raw), type=StateData)
    except (msgspec.MsgspecError, TypeError, ValueError) as error:
        _refuse(number, f"the state of the session cannot be read: {error}")
    return StateLine(seq, entry_id, state)


_RECORDS = frozenset(
    {
        "operation_started",
        "abort_requested",
        "operation_finished",
        "step_attempt",
        "tool_started",
        "queue_enqueued",
        "queue_cancelled",
        "write_deferred",
    }
)
_CAUSES = {"deferred_fetch": "assistant", "hook": "tool"}
OUR_CAUSES = frozenset(
    {"assistant", "retry", "compaction", "branch_summary", "tool", "import", "lost", "adjustment"}
)
PI_ONLY = ("attempt", "stopReason", "toolCallId")


def _record(data: Json, seq: int, commit: int | None, number: int) -> Line:
    kind = data.get("type")
    record_id = _text(data.get("id"), "id", number)
    lane = _text(data.get("lane"), "lane", number)
    timestamp = _count(data.get("timestamp"), "timestamp", number)
    if kind in _RECORDS:
        return RecordLine(seq, record_id, lane, str(kind), data)
    if kind != "usage":
        _refuse(number, f"no record has the type {kind!r}")
    theirs = data.get("cause")
    cause = data.get("ownCause", our_cause(theirs))
    only_pi = {name: data[name] for name in PI_ONLY if data.get(name) is not None}
    if cause != theirs and "ownCause" not in data and isinstance(theirs, str):
        only_pi["cause"] = theirs
    raw = data.get("usage")
    usage = usage_from_pi(cast("Json", raw)) if isinstance(raw, dict) else Json()
    if more := {name: usage[name] for name in usage if name not in OUR_USAGE}:
        only_pi["usage"] = more
    details: Any = data.get("details")
    if only_pi:
        given = cast("Json", details) if isinstance(details, dict) else Json()
        details = {**given, "pi": only_pi}
    row: Json = {
        "id": record_id,
        "cause": cause,
        "usage": usage,
        "entryId": data.get("entryId"),
        "operationId": data.get("runId"),
        "provider": data.get("provider"),
        "model": data.get("model"),
        "details": details,
        "timestamp": timestamp,
    }
    try:
        decoded = UsageRow.from_dict(row)
    except DecodeError as error:
        _refuse(number, str(error))
    return UsageLine(seq, lane, decoded, commit)


def our_cause(theirs: Any) -> str:
    if isinstance(theirs, str):
        return theirs if theirs in OUR_CAUSES else _CAUSES.get(theirs, "adjustment")
    return "adjustment"


def _fact(data: Json, number: int) -> Fact:
    match data.get("fact"):
        case "name":
            value, key, field = data.get("name"), "", "name"
        case "label":
            value, field = data.get("label"), "label"
            key = _text(data.get("targetId"), "targetId", number)
        case kind:
            _refuse(number, f"no fact is of the kind {kind!r}")
    if field in data and not isinstance(value, str):
        _refuse(number, f"{field} must be a text, not {value!r}")
    deleted = value is None and not data.get("null")
    return Fact(namespace=cast("Literal['name']", field), key=key, value=value, deleted=deleted)


def _object(line: bytes, number: int) -> Json:
    try:
        data = decode_json(line)
    except ValueError as error:
        raise NotJson(str(error)) from error
    if not isinstance(data, dict):
        _refuse(number, f"a line must be an object, not {type(data).__name__}")
    return cast("Json", data)


def _encode(value: Any) -> bytes:
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # halves of surrogate pairs, which others write
        return msgspec.json.encode(to_jsonable(value))


def _text(value: Any, name: str, number: int) -> str:
    if not isinstance(value, str):
        _refuse(number, f"{name} must be a text, not {value!r:.80}")
    return value


def _optional_text(value: Any, name: str, number: int) -> str | None:
    return None if value is None else _text(value, name, number)


def _count(value: Any, name: str, number: int) -> int:
    if type(value) is not int or value < 0:
        _refuse(number, f"{name} must be a number of milliseconds, not {value!r:.80}")
    return value


def _refuse(number: int, message: str, hint: str | None = None) -> NoReturn:
    raise _refusal(number, message, hint)


def _refusal(number: int, message: str, hint: str | None = None) -> SessionDamaged:
    return SessionDamaged(
        message,
        where=f"line {number}",
        hint=hint
        or "the file was left as it is; `loopwright sessions doctor` says what can be saved",
    )


def lane_to_line(lane: str, leaf_id: str | None) -> Json:
    """A lane line: the lane is made, or moved."""
    return {"kind": "lane", "seq": 0, "lane": lane, "leafId": leaf_id}
