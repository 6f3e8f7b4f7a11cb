"""One session in memory: the rows that a database would have, and what it would refuse.

Rows are kept encoded, as `columns` makes them, so that whoever changes what he was given changes
nothing here, and so that these stores refuse what the others refuse. Dictionaries keep the order of
arrival. What a commit costs does not depend on how much there is already.

Not here: where the rows come from, a file (jsonl_log) or commits alone (memory).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

import msgspec

from ..errors import SessionDamaged
from ..messages import Usage, UserMessage
from . import columns, refusals
from .entries import EntryRow, MessageEntry
from .rows import (
    Approval,
    Fact,
    InboxItem,
    InboxQueue,
    Intent,
    Lane,
    Operation,
    SessionInfo,
    UsageRow,
)
from .store import SessionState

__all__ = ["Change", "ItemRow", "OperationColumns", "Rows"]

_UNFINISHED = ("open", "waiting")
_PREVIEW_CHARACTERS = 200
_NO_USAGE = columns.encode(Usage())


class ItemRow(msgspec.Struct, frozen=True):
    """A row of the inbox, in the order of `columns.item_columns`."""

    id: str
    lane: str
    queue: str
    status: str
    request_id: str | None
    body: str


class OperationColumns(msgspec.Struct, frozen=True):
    """A row of the operations, in the order of `columns.Writes.operations`."""

    id: str
    lane: str
    status: str
    request_id: str | None
    body: str


class Change(msgspec.Struct):
    """What one commit says, ready to be put."""

    entries: list[EntryRow] = []
    leaves: dict[str, str | None] = {}
    """Lanes and where they stand."""
    lanes: dict[str, str] = {}
    """Lanes and their bodies; the leaf in a body means nothing."""
    operations: list[OperationColumns] = []
    intents: list[tuple[str, str]] = []
    settled: list[str] = []
    inbox: list[ItemRow] = []
    approvals: list[tuple[str, str, str, str]] = []
    """(id, status, digest, body)"""
    consumed: list[tuple[str, str]] = []
    facts: list[tuple[str, str, str | None]] = []
    """(namespace, key, value as JSON); None: deleted."""
    usage: list[tuple[str, str]] = []
    usage_total: str | None = None
    preview: str | None = None


class _Requests:
    """Who has which request id: one holder each. With *below* it is a trial that leaves that as it
    is."""

    def __init__(self, below: _Requests | None = None) -> None:
        self._below = below
        self._holders: dict[str, str | None] = {}
        self._requests: dict[str, str | None] = {}

    def holder(self, request_id: str) -> str | None:
        """Who has it."""
        if request_id in self._holders or self._below is None:
            return self._holders.get(request_id)
        return self._below.holder(request_id)

    def put(self, owner: str, request_id: str | None) -> bool:
        """*owner* has *request_id* now, and no other. False, and nothing changes, if somebody else
        has it."""
        if request_id is not None and self.holder(request_id) not in (None, owner):
            return False
        before = self._request_of(owner)
        if before is not None:
            self._holders[before] = None
        if request_id is not None:
            self._holders[request_id] = owner
        if before is not None or request_id is not None:
            self._requests[owner] = request_id
        return True

    def _request_of(self, owner: str) -> str | None:
        if owner in self._requests or self._below is None:
            return self._requests.get(owner)
        return self._below._request_of(owner)


class Rows:
    """The rows of one session."""

    def __init__(self, session_id: str) -> None:
        self.session_id = session_id
        self.head = 0
        self.name: str | None = None
        self.preview: str | None = None
        self.usage_total = _NO_USAGE
        self.entries: list[EntryRow] = []
        self.entry_of: dict[str, EntryRow] = {}
        self.leaves: dict[str, str | None] = {"main": None}
        self.lanes: dict[str, str] = dict([columns.main_lane()])
        self.operations: dict[str, OperationColumns] = {}
        self.inbox: dict[str, ItemRow] = {}
        self._operation_requests = _Requests()
        self._item_requests = _Requests()
        self._arrivals: dict[str, int] = {}
        """When each item of the inbox came, counted from 0."""
        self._pending: OrderedDict[str, None] = OrderedDict()
        """Not a plain dictionary: that one's beginning is slow to find when much was taken there."""
        self._intents: dict[str, str] = {}
        self._approvals: dict[str, tuple[str, str, str]] = {}
        self._facts: dict[tuple[str, str], tuple[str, int]] = {}
        self._usage: dict[str, tuple[int, str]] = {}
        self._first_said: str | None = None

    # -- changing -----------------------------------------------------------------------------

    def check(self, writes: columns.Writes) -> None:
        """Refuse *writes* as every store does, before anything is changed."""
        for row in writes.entries:
            if row[0] in self.entry_of:
                raise refusals.duplicate_id(f"entry {row[0]}", self.session_id)
        for entry_id, parent_id in writes.parents:
            if parent_id not in self.entry_of:
                raise refusals.unknown_parent(entry_id, parent_id, self.session_id)
        fresh: set[str] = set()
        for usage_id, _ in writes.usage:
            if usage_id in self._usage or usage_id in fresh:
                raise refusals.duplicate_id(f"usage {usage_id}", self.session_id)
            fresh.add(usage_id)
        requests = _Requests(self._operation_requests)
        for operation_id, _, _, request_id, _ in writes.operations:
            if not requests.put(operation_id, request_id):
                raise refusals.duplicate_id(f"request {request_id}", self.session_id)
        self._check_inbox(writes)
        self._check_approvals(writes)

    def _check_inbox(self, writes: columns.Writes) -> None:
        placed: dict[str, ItemRow] = {}
        requests = _Requests(self._item_requests)
        for row in (ItemRow(*item) for item in writes.inbox):
            known = placed.get(row.id) or self.inbox.get(row.id)
            if known is not None and known.status not in ("pending", row.status):
                raise refusals.item_changed(row.id)
            if not requests.put(row.id, row.request_id):
                raise refusals.duplicate_id(f"request {row.request_id}", self.session_id)
            placed[row.id] = row
        lane = writes.unless_waiting
        if lane is None:
            return
        waiting = (placed.get(item_id) or self.inbox[item_id] for item_id in self._pending)
        for row in chain(waiting, placed.values()):
            if row.lane == lane and row.status == "pending" and row.queue in ("steer", "followUp"):
                raise refusals.inbox_not_empty(self.session_id, lane)

    def _check_approvals(self, writes: columns.Writes) -> None:
        fresh: dict[str, tuple[str, str]] = {}
        for approval_id, status, digest, _ in writes.approvals:
            known = fresh.get(approval_id) or self._approvals.get(approval_id)
            if known is not None and known[0] != "pending":
                raise refusals.approval_decided(approval_id, known[0])
            fresh[approval_id] = (status, digest)
        for approval_id, digest in writes.consume:
            known = fresh.get(approval_id) or self._approvals.get(approval_id)
            if known is None or known[0] not in ("approved", "denied") or known[1] != digest:
                raise refusals.approval_not_standing(approval_id)
            fresh[approval_id] = ("consumed", digest)

    def apply(self, change: Change) -> int:
        """Put *change*. Returns the last sequence number."""
        seq = self.head
        for row in change.entries:
            seq += 1
            stored = msgspec.structs.replace(row, seq=seq)
            self.entries.append(stored)
            self.entry_of[row.id] = stored
            if self._first_said is None and row.type == "message":
                self._first_said = _said_by_user(row)
        for namespace, key, value in change.facts:
            seq += 1
            if namespace == "name":
                name: Any = None if value is None else msgspec.json.decode(value)
                self.name = columns.shown(name) if isinstance(name, str) else None
            if value is None:
                self._facts.pop((namespace, key), None)
            else:
                self._facts[namespace, key] = (value, seq)
        for usage_id, body in change.usage:
            seq += 1
            self._usage[usage_id] = (seq, body)
        self.head = seq
        self.leaves |= change.leaves
        self.lanes |= change.lanes
        for operation in change.operations:
            self.operations[operation.id] = operation
            self._operation_requests.put(operation.id, operation.request_id)
        self._intents.update(change.intents)
        for intent_id in change.settled:
            self._intents.pop(intent_id, None)
        for item in change.inbox:
            self.inbox[item.id] = item
            self._arrivals.setdefault(item.id, len(self._arrivals))
            self._item_requests.put(item.id, item.request_id)
            if item.status == "pending":
                self._pending[item.id] = None
            else:
                self._pending.pop(item.id, None)
        for approval_id, *row in change.approvals:
            self._approvals[approval_id] = (row[0], row[1], row[2])
        for approval_id, digest in change.consumed:
            if (known := self._approvals.get(approval_id)) is not None:
                self._approvals[approval_id] = ("consumed", digest, known[2])
        self.usage_total = change.usage_total or self.usage_total
        self.preview = self.preview if change.preview is None else change.preview
        return seq

    # -- reading ------------------------------------------------------------------------------

    def summary(self, header: SessionInfo, modified_at: int) -> SessionInfo:
        """*header* with what the file says beyond its first line."""
        return msgspec.structs.replace(
            header,
            modified_at=modified_at,
            name=self.name,
            preview=self.preview or self._first_said,
            entries=len(self.entries),
            usage=msgspec.json.decode(self.usage_total, type=Usage),
        )

    def state(self, info: SessionInfo) -> SessionState:
        """All that is not history."""
        return SessionState(
            info=info,
            head=self.head,
            lanes=self.lane_list(),
            operations=self._operations_in_state(),
            intents=self._intent_list(),
            inbox=self.pending(),
            approvals=[
                columns.read_approval(self.session_id, *row)
                for row in self._approvals.values()
                if row[0] != "consumed"
            ],
            facts=self.fact_list(),
        )

    def entries_between(
        self, before: int | None, after: int | None, limit: int | None, newest_first: bool
    ) -> list[EntryRow]:
        """Entries by sequence number; see `SessionStore.entries`."""
        rows = self.entries
        begin = 0 if after is None else bisect_right(rows, after, key=_seq)
        end = len(rows) if before is None else bisect_left(rows, before, key=_seq)
        if newest_first:
            first = begin if limit is None else max(begin, end - limit)
            return rows[first:end][::-1]
        return rows[begin : end if limit is None else min(end, begin + limit)]

    def found(self, entry_ids: Sequence[str]) -> list[EntryRow]:
        """Those of *entry_ids* that are there, in sequence."""
        known = self.entry_of
        return sorted((known[i] for i in set(entry_ids) if i in known), key=_seq)

    def branch(self, leaf_id: str | None) -> list[EntryRow]:
        """The branch that ends with *leaf_id*, newest first."""
        rows: list[EntryRow] = []
        while leaf_id is not None and (row := self.entry_of.get(leaf_id)) is not None:
            rows.append(row)  # parents are always older: no circle is possible
            leaf_id = row.parent_id
        return rows

    def lane_list(self) -> list[Lane]:
        """The lanes, `main` first."""
        return [
            msgspec.structs.replace(self.lane(name), leaf_id=self.leaves[name])
            for name in sorted(self.leaves, key=lambda name: (name != "main", name))
        ]

    def lane(self, name: str) -> Lane:
        """Operation and configuration of a lane, new or not; its leaf is in `leaves`."""
        body = self.lanes.get(name)
        return Lane(name=name) if body is None else columns.read_lane(self.session_id, body)

    def usage_list(self) -> list[UsageRow]:
        """The ledger, in sequence."""
        rows = self._usage.values()
        return [columns.read_usage(self.session_id, seq, body) for seq, body in rows]

    def operation_list(self, request_id: str | None) -> list[Operation]:
        """Every operation; or the one with that request id."""
        if request_id is None:
            rows = list(self.operations.values())
        else:
            known = self._operation_requests.holder(request_id)
            rows = [] if known is None else [self.operations[known]]
        return [columns.read_operation(self.session_id, row.body) for row in rows]

    def _operations_in_state(self) -> list[Operation]:
        every = self.operations.values()
        last = {row.lane: row.id for row in every if row.status not in _UNFINISHED}
        wanted = set(last.values())
        return [
            columns.read_operation(self.session_id, row.body)
            for row in every
            if row.status in _UNFINISHED or row.id in wanted
        ]

    def _intent_list(self) -> list[Intent]:
        return [columns.read_intent(self.session_id, body) for body in self._intents.values()]

    def pending(
        self,
        lane: str | None = None,
        queues: Sequence[InboxQueue] = (),
        after: str | None = None,
        ids: Sequence[str] | None = None,
    ) -> list[InboxItem]:
        """Items nobody has heard yet, oldest first; see `SessionStore.inbox`."""
        return [
            self.item(row)
            for row in (self.inbox[item_id] for item_id in self._pending_ids(after, ids))
            if (lane is None or row.lane == lane) and (not queues or row.queue in queues)
        ]

    def _pending_ids(self, after: str | None, ids: Sequence[str] | None) -> Iterator[str]:
        arrivals = self._arrivals
        last = -1 if after is None else arrivals.get(after, -1)
        if ids is not None:
            among = {item_id for item_id in ids if item_id in self._pending}
            return iter(sorted((i for i in among if arrivals[i] > last), key=arrivals.__getitem__))
        if last < 0:
            return iter(self._pending)
        newer: list[str] = []
        for item_id in reversed(self._pending):
            if arrivals[item_id] <= last:
                break
            newer.append(item_id)
        return reversed(newer)

    def item_with_request(self, request_id: str | None) -> ItemRow | None:
        """The item that a client gave this request id."""
        known = None if request_id is None else self._item_requests.holder(request_id)
        return None if known is None else self.inbox[known]

    def item(self, row: ItemRow) -> InboxItem:
        """*row*, decoded."""
        return columns.read_item(self.session_id, row.status, row.body)

    def approval(self, approval_id: str) -> Approval | None:
        """One approval."""
        row = self._approvals.get(approval_id)
        return None if row is None else columns.read_approval(self.session_id, *row)

    def approval_list(self) -> list[Approval]:
        """All of them, in the order they were asked for."""
        return [columns.read_approval(self.session_id, *row) for row in self._approvals.values()]

    def fact_list(self) -> list[Fact]:
        """The facts, by sequence."""
        rows = sorted(self._facts.items(), key=lambda fact: fact[1][1])
        return [
            columns.read_fact(namespace, key, value, seq) for (namespace, key), (value, seq) in rows
        ]


def _said_by_user(row: EntryRow) -> str | None:
    """The preview of a session to which nobody gave one."""
    try:
        entry = row.entry()
    except SessionDamaged:
        return None
    if not isinstance(entry, MessageEntry) or not isinstance(entry.message, UserMessage):
        return None
    return " ".join(entry.message.text.split())[:_PREVIEW_CHARACTERS] or None


def _seq(row: EntryRow) -> int:
    return row.seq
