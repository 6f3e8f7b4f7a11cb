"""What a state line says, as rows: the JSON in it is kept, only its keys are looked at.

Not here: the line (formats.pi_v4_lines), or writing one (jsonl_commit).
"""

from __future__ import annotations

import msgspec

from . import columns
from .formats.pi_v4_lines import StateData
from .kept_rows import Change, ItemRow, OperationColumns
from .rows import Fact

__all__ = ["NEXT", "fact_columns", "put_state"]

NEXT = msgspec.Raw(b"null")
"""In a state line, in the place of a row that has a line of its own."""


class _OperationKeys(msgspec.Struct, rename="camel"):
    id: str
    lane: str
    status: str = "open"
    request_id: str | None = None


class _ItemKeys(msgspec.Struct, rename="camel"):
    id: str
    lane: str
    queue: str
    status: str = "pending"
    request_id: str | None = None


class _ApprovalKeys(msgspec.Struct, rename="camel"):
    id: str
    digest: str
    status: str = "pending"


class _Key(msgspec.Struct):
    id: str


class _LaneKey(msgspec.Struct):
    name: str


def put_state(change: Change, state: StateData) -> None:
    """Add what *state* says to *change*."""
    decode = msgspec.json.decode
    change.lanes = {decode(raw, type=_LaneKey).name: _text(raw) for raw in state.lanes}
    change.leaves |= state.stray_leaves
    for raw in state.operations:
        keys = decode(raw, type=_OperationKeys)
        row = OperationColumns(keys.id, keys.lane, keys.status, keys.request_id, _text(raw))
        change.operations = [*change.operations, row]
    change.intents = [(decode(raw, type=_Key).id, _text(raw)) for raw in state.intents]
    change.settled = state.settled
    for raw in state.inbox:
        item = decode(raw, type=_ItemKeys)
        row = ItemRow(item.id, item.lane, item.queue, item.status, item.request_id, _text(raw))
        change.inbox = [*change.inbox, row]
    for raw in state.approvals:
        approval = decode(raw, type=_ApprovalKeys)
        row = (approval.id, approval.status, approval.digest, _text(raw))
        change.approvals = [*change.approvals, row]
    change.consumed = state.consumed
    if state.facts:
        lines = iter(change.facts)
        change.facts = [
            next(lines) if fact is None else fact_columns(fact) for fact in state.facts
        ] + list(lines)
    if state.usage:
        records = iter(change.usage)
        change.usage = [
            next(records) if raw == NEXT else (decode(raw, type=_Key).id, _text(raw))
            for raw in state.usage
        ] + list(records)
    if state.usage_total is not None:
        change.usage_total = columns.encode(state.usage_total)
    change.preview = state.preview


def fact_columns(fact: Fact) -> tuple[str, str, str | None]:
    value = None if fact.deleted else msgspec.json.encode(fact.value).decode()
    return fact.namespace, fact.key, value


def _text(raw: msgspec.Raw) -> str:
    return bytes(raw).decode()
