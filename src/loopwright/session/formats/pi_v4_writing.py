"""The lines of a v4 file, written: each as the object that becomes its JSON.

The numbers of the lines are given when all lines of a commit are known (session.jsonl_commit).

Not here: reading them, or what they are (pi_v4_lines); messages (pi_v4_messages).
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from ...errors import SessionDamaged
from ...records import to_jsonable
from ..entries import EntryRow
from ..rows import Fact, SessionInfo, UsageRow
from .lines import decode_line as decode_json
from .pi_v4_lines import (
    ENTRY_TYPE,
    ENVELOPE,
    OUR_CAUSES,
    PI_ONLY,
    STATE_TYPE,
    StateData,
    our_cause,
)
from .pi_v4_messages import OUR_USAGE, PI_ROLES, message_to_pi, usage_to_pi

__all__ = ["entry_to_line", "fact_to_line", "header_line", "state_to_line", "usage_to_line"]

Json = dict[str, Any]


def header_line(info: SessionInfo) -> bytes:
    """The first line of a file, with its end."""
    data: Json = {
        "kind": "header",
        "version": 4,
        "id": info.id,
        "createdAt": info.created_at,
        "cwd": info.cwd or "",
    }
    if info.parent_id is not None:
        data["parentSessionId"] = info.parent_id
    if info.metadata is not None:
        data["metadata"] = info.metadata
    return msgspec.json.encode(to_jsonable(data)) + b"\n"


def entry_to_line(
    row: EntryRow, *, parent_id: str | None, lane: str | None, tail: list[Json] | None = None
) -> Json:
    """*row* as an entry line, for `parent_id` as the file has it.

    *tail*: of a compaction that points at what it keeps, the messages pointed at (our JSON).
    Raises `SessionDamaged` for a payload that is no JSON object.
    """
    try:
        payload = decode_json(row.payload)
    except ValueError as error:
        raise SessionDamaged(f"its payload: {error}", where=f"entry {row.id}") from error
    line: Json = {"kind": "entry"}
    if lane is not None:
        line["lane"] = lane
    line |= {"type": row.type, "id": row.id, "parentId": parent_id}
    line |= {"seq": 0, "timestamp": row.timestamp}  # the number is given when all lines are known
    if row.operation_id is not None:
        line["operationId"] = row.operation_id
    if not _pi_can_hold(row, payload):
        held: Json = {"type": row.type, "payload": payload}
        if row.custom_type is not None:
            held["customType"] = row.custom_type
        return line | {"type": "custom", "customType": ENTRY_TYPE, "data": held}
    fields = cast("Json", payload)
    match row.type:
        case "message":
            line |= {**fields, "message": message_to_pi(fields["message"])}
        case "compaction":
            _put_compaction(line, fields, tail)
        case "branch_summary":
            line |= fields
        case "custom":
            line |= {"customType": row.custom_type, **fields}
    if row.type in ("compaction", "branch_summary") and isinstance(line.get("usage"), dict):
        line["usage"] = usage_to_pi(line["usage"])
    return line


def _pi_can_hold(row: EntryRow, payload: Any) -> bool:
    if not isinstance(payload, dict) or not ENVELOPE.isdisjoint(cast("Json", payload)):
        return False
    if row.type == "custom":
        return row.custom_type is not None and row.custom_type not in (STATE_TYPE, ENTRY_TYPE)
    if row.custom_type is not None:
        return False
    if row.type == "message":
        message = cast("Json", payload).get("message")
        if not isinstance(message, dict) or cast("Json", message).get("role") not in PI_ROLES:
            return False
    try:
        row.entry()
    except SessionDamaged:
        return False  # whoever reads it is told; keeping it is all that is asked here
    return True


def _put_compaction(line: Json, payload: Json, tail: list[Json] | None) -> None:
    line |= payload
    own = payload.get("retainedTail")
    if isinstance(own, list):
        kept = cast("list[Json]", own)
        written = [message_to_pi(message) for message in kept]
        if None in written:
            line["ownTail"] = own
        line["retainedTail"] = [message for message in written if message is not None]
        return
    copies = [message_to_pi(message) for message in tail or []]
    line["retainedTail"] = [message for message in copies if message is not None]
    line["added"] = ["retainedTail"]


def fact_to_line(fact: Fact) -> Json | None:
    """*fact* as a fact line; None if v4 has none for it."""
    if fact.namespace == "custom" or not (
        fact.deleted or fact.value is None or isinstance(fact.value, str)
    ):
        return None
    if fact.namespace == "name" and fact.key:
        return None
    line: Json = {"kind": "fact", "seq": 0, "fact": fact.namespace}
    if fact.namespace == "label":
        line["targetId"] = fact.key
    if fact.deleted:
        return line
    if fact.value is None:
        line["null"] = True
    else:
        line[fact.namespace] = fact.value
    return line


_THEIR_CAUSES = {"retry": "assistant", "import": "adjustment", "lost": "adjustment"}


def usage_to_line(row: UsageRow, lane: str) -> Json:
    """*row* as a usage record."""
    data = row.to_dict(camel=True)
    details = cast("Json | None", data.get("details"))
    only_pi = _only_pi(details, row.cause)
    cause = only_pi.get("cause", _THEIR_CAUSES.get(row.cause, row.cause))
    line: Json = {
        "kind": "record",
        "type": "usage",
        "id": row.id,
        "lane": lane,
        "cause": cause,
        "usage": usage_to_pi({**cast("Json", data["usage"]), **only_pi.get("usage", {})}),
        "seq": 0,
        "timestamp": row.timestamp,
    }
    if cause != row.cause and "cause" not in only_pi:
        line["ownCause"] = row.cause
    if row.operation_id is not None:
        line["runId"] = row.operation_id
    for name in ("entryId", "provider", "model"):
        if data.get(name) is not None:
            line[name] = data[name]
    for name in PI_ONLY:
        if name in only_pi:
            line[name] = only_pi[name]
    if details is not None and (not only_pi or len(details) > 1):
        line["details"] = (
            {name: value for name, value in details.items() if name != "pi"} if only_pi else details
        )
    return line


def _only_pi(details: Json | None, cause: str) -> Json:
    """What reading a record of pi's put into `details["pi"]`; empty for anything else there."""
    held = (details or {}).get("pi")
    if not isinstance(held, dict):
        return {}
    known = cast("Json", held)
    theirs, more = known.get("cause"), known.get("usage")
    if (
        not set(known) <= {"cause", "usage", *PI_ONLY}
        or None in known.values()
        or ("cause" in known and not _is_their_cause(theirs, cause))
        or ("usage" in known and not _is_more_usage(more))
    ):
        return {}
    return known


def _is_their_cause(theirs: Any, cause: str) -> bool:
    return isinstance(theirs, str) and theirs not in OUR_CAUSES and our_cause(theirs) == cause


def _is_more_usage(more: Any) -> bool:
    if not isinstance(more, dict) or not more:
        return False
    names = set(cast("Json", more))
    return names.isdisjoint({*OUR_USAGE, "costUnknown"}) and None not in more.values()


def state_to_line(entry_id: str, data: StateData, timestamp: int) -> Json:
    """*data* as a custom entry on no lane."""
    return {
        "kind": "entry",
        "type": "custom",
        "id": entry_id,
        "parentId": None,
        "seq": data.seq,
        "timestamp": timestamp,
        "customType": STATE_TYPE,
        "data": data,
    }
