"""What is wrong with one session, from its rows, and which changes would mend it. It only thinks.

Mending never guesses what was said. An entry that has lost its parent is hung onto the entry that
was written just before it; one that cannot be read is taken out and its children take its parent;
the rest is made to agree with the entries. A call without a result is left alone: requests to a
model answer it, and a resume settles it.

Not here: reading and writing files (doctor_sqlite, doctor_jsonl).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ..errors import SessionDamaged
from ..messages import Usage
from .doctor_report import Finding, Severity
from .entries import EntryRow, now_ms
from .rows import InboxItem, Intent, Lane, Operation, UsageRow
from .tree_check import check_tree

__all__ = ["Change", "HeldSession", "check_session", "mend", "total_of"]

_UNFINISHED = ("open", "waiting")

_REMEDIES = {
    "duplicate_id": "the first one is kept, the other is taken out",
    "missing_parent": "it is hung onto the entry written just before it",
    "parent_after_child": "it is hung onto the entry written just before it",
    "cycle": "the circle is cut at its oldest entry",
    "missing_leaf": "it goes on from the last entry that is there",
    "unreadable": "it is taken out; what follows it takes its place",
    "kept_missing": "nothing before it is kept beside the summary",
    "unreadable_row": "it is taken out",
    "no_main_lane": "it is made, at the last entry",
    "lane_operation": "the lane is free again",
    "operation_astray": "it is ended as aborted",
    "intent_astray": "it is taken out",
    "inbox_astray": "it is withdrawn",
    "usage_total": "the total becomes the sum",
    "entries_count": "the number becomes what is there",
    "head_behind": "the counter moves on",
}


class HeldSession(msgspec.Struct, kw_only=True):
    """All rows of a session, as far as they can be read."""

    id: str
    entries: int
    """How many the session's row says there are."""
    usage_total: Usage | None
    """None: it cannot be read."""
    head: int
    rows: list[EntryRow]
    lanes: list[Lane] = []
    operations: list[Operation] = []
    intents: list[Intent] = []
    inbox: list[InboxItem] = []
    """Those pending."""
    usage: list[UsageRow] = []
    highest_seq: int = 0
    """Of facts and the ledger."""
    unreadable: list[tuple[str, str, str]] = []
    """(table, key, why) of rows other than entries."""


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to change, and how to say so. Exactly one of the others is set."""

    said: str
    drop_entry: EntryRow | None = None
    reparent: tuple[str, str | None] | None = None
    payload: tuple[str, bytes] | None = None
    lane: Lane | None = None
    operation: Operation | None = None
    drop_intent: Intent | None = None
    withdraw: InboxItem | None = None
    drop_row: tuple[str, str] | None = None
    """(table, key)"""
    totals: tuple[int, Usage, int] | None = None
    """Entries, the ledger's sum, the last sequence number."""


# -- looking ---------------------------------------------------------------------------------


def check_session(held: HeldSession) -> list[Finding]:
    """Everything wrong with *held*, and what of it is only to be known."""
    leaves = {lane.name: lane.leaf_id for lane in held.lanes}
    findings = [
        _finding(held, problem.kind, problem.where, problem.message, problem.severity)
        for problem in check_tree(held.rows, leaves)
    ]
    findings += [
        _finding(held, "unreadable_row", f"{table} {key}", f"it cannot be read: {why}")
        for table, key, why in held.unreadable
    ]
    findings += _check_lanes(held)
    findings += [
        _finding(held, "intent_astray", f"call {intent.tool_call_id}", why)
        for intent, why in _stray_intents(held)
    ]
    findings += [
        _finding(held, "inbox_astray", f"inbox {item.id}", why) for item, why in _stray_items(held)
    ]
    return findings + _check_totals(held)


def _finding(
    held: HeldSession, kind: str, where: str, message: str, severity: Severity = "error"
) -> Finding:
    return Finding(
        kind=kind,
        severity=severity,
        session_id=held.id,
        where=where,
        message=message,
        remedy=_REMEDIES.get(kind),
    )


def _check_lanes(held: HeldSession) -> list[Finding]:
    findings: list[Finding] = []
    if not any(lane.name == "main" for lane in held.lanes):
        findings.append(_finding(held, "no_main_lane", "lane main", "it is missing"))
    operations = {operation.id: operation for operation in held.operations}
    for lane in held.lanes:
        operation = operations.get(lane.operation_id or "")
        if lane.operation_id is None:
            continue
        if operation is None or operation.status not in _UNFINISHED:
            state = "missing" if operation is None else operation.status
            what = f"it is busy with the operation {lane.operation_id}, which is {state}"
            findings.append(_finding(held, "lane_operation", f"lane {lane.name}", what))
        else:
            doing = "waits for an approval" if operation.status == "waiting" else "is unfinished"
            what = f"a {operation.kind} {doing}: resuming the session takes it up"
            findings.append(
                _finding(held, "operation_open", f"operation {operation.id}", what, "note")
            )
    findings += [
        _finding(held, "operation_astray", f"operation {operation.id}", "no lane is busy with it")
        for operation in _stray_operations(held)
    ]
    return findings


def _check_totals(held: HeldSession) -> list[Finding]:
    findings: list[Finding] = []
    if held.usage_total is None or not _same(held.usage_total, total_of(held.usage)):
        what = "the total of the tokens is not the sum of the ledger"
        findings.append(_finding(held, "usage_total", "session", what))
    if held.entries != len(held.rows):
        what = f"it says that it has {held.entries} entries, and there are {len(held.rows)}"
        findings.append(_finding(held, "entries_count", "session", what))
    if held.head < (highest := _highest(held)):
        what = f"it counts {held.head} changes, and {highest} have a number"
        findings.append(_finding(held, "head_behind", "session", what))
    return findings


def _highest(held: HeldSession) -> int:
    return max([held.highest_seq, *(row.seq for row in held.rows)])


def total_of(rows: Iterable[UsageRow]) -> Usage:
    """The sum of a ledger."""
    total = Usage()
    for row in rows:
        total += row.usage
    return total


def _same(one: Usage, other: Usage) -> bool:
    """Sums of costs differ in their last digits by the order of adding."""
    if one.cost.total is None or other.cost.total is None:
        costs = one.cost.total is other.cost.total
    else:
        costs = abs(one.cost.total - other.cost.total) <= 1e-9 + 1e-9 * abs(other.cost.total)
    counts = ("input", "output", "cache_read", "cache_write")
    return costs and all(getattr(one, name) == getattr(other, name) for name in counts)


def _stray_operations(held: HeldSession) -> list[Operation]:
    busy = {lane.operation_id for lane in held.lanes}
    return [op for op in held.operations if op.status in _UNFINISHED and op.id not in busy]


def _open_lanes(held: HeldSession) -> dict[str, str]:
    """Lanes with an operation that is unfinished, and its id."""
    unfinished = {op.id for op in held.operations if op.status in _UNFINISHED}
    return {
        lane.name: lane.operation_id
        for lane in held.lanes
        if lane.operation_id is not None and lane.operation_id in unfinished
    }


def _stray_intents(held: HeldSession) -> list[tuple[Intent, str]]:
    busy, ids = _open_lanes(held), {row.id for row in held.rows}
    found: list[tuple[Intent, str]] = []
    for intent in held.intents:
        if intent.id in ids:
            found.append((intent, f"the call of {intent.tool_name} is settled, yet noted as begun"))
        elif intent.lane not in busy:
            what = f"the call of {intent.tool_name} was begun by an operation that is over"
            found.append((intent, what))
        elif intent.assistant_id not in ids:
            what = f"the reply {intent.assistant_id} that asked for it is missing"
            found.append((intent, what))
    return found


def _stray_items(held: HeldSession) -> list[tuple[InboxItem, str]]:
    busy, lanes = _open_lanes(held), {lane.name for lane in held.lanes} | {"main"}
    found: list[tuple[InboxItem, str]] = []
    for item in held.inbox:
        if item.lane not in lanes:
            found.append((item, f"it is meant for the lane {item.lane}, which is missing"))
        elif item.queue == "cancel" and (
            item.lane not in busy or item.operation_id not in (None, busy[item.lane])
        ):
            found.append((item, "it asks to stop something that is over"))
    return found


# -- mending ---------------------------------------------------------------------------------


def mend(held: HeldSession) -> list[Change]:
    """The changes after which `check_session` finds no error; none if it finds none now."""
    changes, rows, stand_in = _mend_tree(held)
    held = msgspec.structs.replace(held, rows=rows, unreadable=[])
    changes += _mend_lanes(held, stand_in)
    for change in changes:
        if change.lane is not None:
            others = [lane for lane in held.lanes if lane.name != change.lane.name]
            held = msgspec.structs.replace(held, lanes=[*others, change.lane])
    changes += [
        Change(
            said=f"operation {operation.id}: ended as aborted",
            operation=msgspec.structs.replace(
                operation, status="aborted", stop_reason="aborted", finished_at=now_ms()
            ),
        )
        for operation in _stray_operations(held)
    ]
    changes += [
        Change(said=f"call {intent.tool_call_id}: taken out, since {why}", drop_intent=intent)
        for intent, why in _stray_intents(held)
    ]
    changes += [
        Change(said=f"inbox {item.id}: withdrawn, since {why}", withdraw=item)
        for item, why in _stray_items(held)
    ]
    if _check_totals(held):
        total = total_of(held.usage)
        changes.append(
            Change(
                said=f"the session counts {len(rows)} entries and {total.total_tokens:,} tokens",
                totals=(len(rows), total, max(held.head, _highest(held))),
            )
        )
    return changes


def _mend_tree(
    held: HeldSession,
) -> tuple[list[Change], list[EntryRow], dict[str, str | None]]:
    """The changes, the entries after them, and the parents of those that were taken out."""
    changes = [
        Change(said=f"{table} {key}: taken out, since it cannot be read", drop_row=(table, key))
        for table, key, _ in held.unreadable
    ]
    first: dict[str, EntryRow] = {}
    stand_in: dict[str, str | None] = {}  # of entries that are taken out: their parent
    for row in held.rows:
        if row.id in first or row.id in stand_in:
            said = f"entry {row.id}: the second one with this id was taken out"
            changes.append(Change(said=said, drop_entry=row))
        elif _can_be_read(row):
            first[row.id] = row
        else:
            stand_in[row.id] = row.parent_id
            said = f"entry {row.id}: taken out, since it cannot be read"
            changes.append(Change(said=said, drop_entry=row))
    kept: list[EntryRow] = []
    parents: dict[str, str | None] = {}
    for row in first.values():
        parent = _standing(row.parent_id, stand_in)
        if parent is not None and parent not in parents:
            parent = kept[-1].id if kept else None
        if parent != row.parent_id:
            said = f"entry {row.id}: follows {parent or 'nothing'} now, before {row.parent_id}"
            changes.append(Change(said=said, reparent=(row.id, parent)))
            row = msgspec.structs.replace(row, parent_id=parent)
        kept.append(row)
        parents[row.id] = parent
    for place, row in enumerate(kept):
        payload = _without_lost_tail(row, parents)
        if payload is not None:
            said = f"entry {row.id}: keeps nothing before it beside its summary"
            changes.append(Change(said=said, payload=(row.id, payload)))
            kept[place] = msgspec.structs.replace(row, payload=payload)
    return changes, kept, stand_in


def _standing(entry_id: str | None, stand_in: dict[str, str | None]) -> str | None:
    """The entry itself, or, where it was taken out, its nearest ancestor."""
    seen: set[str] = set()
    while entry_id is not None and entry_id in stand_in and entry_id not in seen:
        seen.add(entry_id)
        entry_id = stand_in[entry_id]
    return entry_id


def _can_be_read(row: EntryRow) -> bool:
    try:
        row.entry()
    except SessionDamaged:
        return False
    return True


def _without_lost_tail(row: EntryRow, parents: dict[str, str | None]) -> bytes | None:
    """The payload of a compaction without what it keeps, if that is not on its branch."""
    if row.type != "compaction":
        return None
    payload: dict[str, Any] = msgspec.json.decode(row.payload)
    wanted = payload.get("firstKeptId")
    if wanted is None or payload.get("retainedTail") is not None:
        return None
    here = row.parent_id
    while here is not None and here != wanted:
        here = parents.get(here)
    if here is not None:
        return None
    del payload["firstKeptId"]
    return msgspec.json.encode(payload)


def _mend_lanes(held: HeldSession, stand_in: dict[str, str | None]) -> list[Change]:
    ids = {row.id for row in held.rows}
    last_id = held.rows[-1].id if held.rows else None
    unfinished = {op.id for op in held.operations if op.status in _UNFINISHED}
    changes: list[Change] = []
    for lane in held.lanes:
        mended, said = lane, list[str]()
        if lane.leaf_id is not None and lane.leaf_id not in ids:
            leaf_id = _standing(lane.leaf_id, stand_in)
            leaf_id = leaf_id if leaf_id is None or leaf_id in ids else last_id
            mended = msgspec.structs.replace(mended, leaf_id=leaf_id)
            said.append(f"goes on from {leaf_id or 'the beginning'}")
        if lane.operation_id is not None and lane.operation_id not in unfinished:
            mended = msgspec.structs.replace(mended, operation_id=None)
            said.append("is free again")
        if said:
            changes.append(Change(said=f"lane {lane.name}: {', '.join(said)}", lane=mended))
    if not any(lane.name == "main" for lane in held.lanes):
        lane = Lane(name="main", leaf_id=last_id)
        changes.append(Change(said="lane main: made, at the last entry", lane=lane))
    return changes
