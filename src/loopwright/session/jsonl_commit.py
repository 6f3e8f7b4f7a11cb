"""A commit on its way to lines: what pi has a line for gets it, the rest goes into a state line.

The state line comes first and says how many lines follow, so that a commit of which only a part
was written can be told, and counts for nothing.

Not here: the lines one by one (formats.pi_v4_writing), or what becomes of them (jsonl_log).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec

from ..messages import AssistantMessage, UserMessage
from ..records import to_jsonable
from . import columns
from .entries import BranchSummaryEntry, EntryRow, new_id
from .formats.lines import decode_line as decode_json
from .formats.pi_v4_lines import StateData, lane_to_line
from .formats.pi_v4_writing import entry_to_line, fact_to_line, state_to_line, usage_to_line
from .jsonl_state import NEXT
from .rows import Fact, Lane
from .store import Commit
from .tree import adds_to_context

if TYPE_CHECKING:
    from .jsonl_log import SessionLog

__all__ = ["commit_lines", "row_line"]

Json = dict[str, Any]


def commit_lines(
    log: SessionLog, commit: Commit, writes: columns.Writes, seq: int, timestamp: int, atomic: bool
) -> bytes:
    """The lines of *commit*, which *log* accepts, from the number *seq* on."""
    state = StateData(session=log.header.id, seq=seq)
    lines = _Encoder(log, commit, state).lines()
    _put_rows(state, writes)
    state.usage_total = commit.usage_total
    if not _says_more(state) and (len(lines) <= 1 or not atomic):
        return _joined(lines, seq, None)
    state.lines = len(lines)
    first = state_to_line(new_id(), state, timestamp)
    return _joined([first], seq, None) + _joined(lines, seq + 1, seq)


def row_line(log: SessionLog, seq: int, timestamp: int, **rows: str) -> bytes:
    """One state line that puts one row: `inbox=body` or `approvals=body`."""
    state = StateData(session=log.header.id, seq=seq)
    for name, body in rows.items():
        setattr(state, name, [_raw(body)])
    return _joined([state_to_line(new_id(), state, timestamp)], seq, None)


class _Encoder:
    """One commit on its way to lines."""

    def __init__(self, log: SessionLog, commit: Commit, state: StateData) -> None:
        self.log = log
        self.commit = commit
        self.state = state
        self.fresh = {row.id: row for row in commit.entries}
        self.lane_of: dict[str, tuple[str, str | None]] = {}
        """Entries that move a lane, with the parent as pi sees it."""

    def lines(self) -> list[Json]:
        moves = self._moves()
        lines: list[Json] = []
        for row in self.commit.entries:
            lane, parent_id = self.lane_of.get(row.id, (None, row.parent_id))
            tail = self._tail(row) if row.type == "compaction" else None
            lines.append(entry_to_line(row, parent_id=parent_id, lane=lane, tail=tail))
        lines += moves
        lines += self._facts()
        lines += self._usage()
        return lines

    def _moves(self) -> list[Json]:
        """Lane lines for what no entry can say by standing on a lane."""
        lines: list[Json] = []
        for lane in {lane.name: lane for lane in self.commit.lanes}.values():
            before = self.log.rows.leaves.get(lane.name)
            known = self.log.pi_knows_lane(lane.name)
            if known and lane.leaf_id == before:
                pass
            elif known and (chain := self._chain(lane.leaf_id, before)):
                parent_id = self.log.pi_leaf(lane.name)
                for entry_id in chain:
                    self.lane_of[entry_id] = (lane.name, parent_id)
                    parent_id = entry_id
            elif lane.leaf_id is not None and not self._is_entry(lane.leaf_id):
                self.state.stray_leaves = {**self.state.stray_leaves, lane.name: lane.leaf_id}
            else:
                lines.append(lane_to_line(lane.name, lane.leaf_id))
            if _without_leaf(lane) != _without_leaf(self.log.rows.lane(lane.name)):
                self.state.lanes = [*self.state.lanes, _raw(columns.encode(lane))]
        return lines

    def _chain(self, leaf_id: str | None, before: str | None) -> list[str]:
        """The new entries from *before* to *leaf_id*, oldest first; empty if they are no chain."""
        chain: list[str] = []
        while leaf_id != before:
            row = self.fresh.get(leaf_id or "")
            if row is None or row.id in self.lane_of:
                return []
            chain.append(row.id)
            leaf_id = row.parent_id
        return chain[::-1]

    def _is_entry(self, entry_id: str) -> bool:
        return entry_id in self.fresh or entry_id in self.log.rows.entry_of

    def _tail(self, compaction: EntryRow) -> list[Json]:
        """What *compaction* keeps, as pi wants it: copies."""
        try:
            payload: Any = decode_json(compaction.payload)
        except ValueError:
            return []  # refused with its reason when it is encoded
        first = cast("Json", payload).get("firstKeptId") if isinstance(payload, dict) else None
        if first is None:
            return []
        kept: list[Json] = []
        here = compaction.parent_id
        while here is not None:
            row = self.fresh.get(here) or self.log.rows.entry_of.get(here)
            if row is None:
                break
            if (message := _message_of(row)) is not None:
                kept.append(message)
            if here == first:
                return kept[::-1]
            here = row.parent_id
        return []

    def _facts(self) -> list[Json]:
        lines: list[Json] = []
        kept: list[Fact | None] = []
        for fact in self.commit.facts:
            known = fact.namespace != "label" or self._is_entry(fact.key)
            line = fact_to_line(fact) if known else None
            if line is not None:
                lines.append(_clean(line))
            kept.append(None if line is not None else _clean_fact(fact))
        if any(fact is not None for fact in kept):
            self.state.facts = kept
        return lines

    def _usage(self) -> list[Json]:
        lines: list[Json] = []
        kept: list[msgspec.Raw] = []
        lanes = {operation.id: operation.lane for operation in self.commit.operations}
        for row in self.commit.usage:
            if row.id in self.fresh or self.log.pi_knows_id(row.id):
                kept.append(_raw(columns.encode(row)))
                continue
            known = self.log.rows.operations.get(row.operation_id or "")
            lane = lanes.get(row.operation_id or "", known.lane if known else "main")
            # A lane that this commit makes has its line before this one.
            made = {move.name for move in self.commit.lanes} - set(self.state.stray_leaves)
            if not self.log.pi_knows_lane(lane) and lane not in made:
                lane = "main"
            lines.append(usage_to_line(row, lane))
            kept.append(NEXT)
        if any(row != NEXT for row in kept):
            self.state.usage = kept
        return lines


def _put_rows(state: StateData, writes: columns.Writes) -> None:
    state.operations = [_raw(row[-1]) for row in writes.operations]
    state.intents = [_raw(body) for _, body in writes.intents]
    state.settled = writes.settled
    state.inbox = [_raw(row[-1]) for row in writes.inbox]
    state.approvals = [_raw(row[-1]) for row in writes.approvals]
    state.consumed = writes.consume
    state.preview = writes.preview


def _says_more(state: StateData) -> bool:
    """It puts something that no other line says."""
    blank = StateData(session=state.session, seq=state.seq)
    return state != blank


def _clean_fact(fact: Fact) -> Fact:
    return Fact(
        namespace=fact.namespace,
        key=fact.key,
        value=None if fact.deleted else to_jsonable(fact.value),
        deleted=fact.deleted,
    )


def _clean(line: Json) -> Json:
    return cast("Json", to_jsonable(line))


def _without_leaf(lane: Lane) -> Lane:
    return msgspec.structs.replace(lane, leaf_id=None)


def _message_of(row: EntryRow) -> Json | None:
    """What *row* says in a conversation, as JSON of ours."""
    if row.type == "message":
        try:
            payload: Any = decode_json(row.payload)
            return cast("Json", payload["message"])
        except (ValueError, KeyError, TypeError):
            return None
    if row.type == "branch_summary":
        entry = row.entry()
        assert isinstance(entry, BranchSummaryEntry)
        said = adds_to_context(entry)
        if isinstance(said, UserMessage | AssistantMessage):
            return said.to_dict(camel=True)
    return None


def _raw(body: str) -> msgspec.Raw:
    return msgspec.Raw(body.encode())


def _joined(lines: list[Json], first_seq: int, commit: int | None) -> bytes:
    encoded: list[bytes] = []
    for seq, line in enumerate(lines, first_seq):
        line["seq"] = seq
        if commit is not None:
            line["commit"] = commit
        try:
            encoded.append(msgspec.json.encode(line))
        except (TypeError, UnicodeEncodeError, msgspec.EncodeError):
            encoded.append(msgspec.json.encode(_clean(line)))  # halves of surrogate pairs
    return b"".join([line + b"\n" for line in encoded])
