"""Sessions in memory: for tests, and for work that nobody needs to find again.

It keeps the very columns that a database would, encoded, so that whoever changes what he gave or
was given changes nothing here. Two who open one session of one `MemoryStore` contend for its
lease like two processes.

Not here: anything that outlives the object.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from typing import Any, Literal, Self

import msgspec

from . import columns, refusals
from .entries import EntryRow, now_ms
from .leases import owner_is_dead
from .rows import (
    Approval,
    Fact,
    InboxItem,
    InboxQueue,
    InboxStatus,
    Lane,
    Operation,
    SessionInfo,
    UsageRow,
)
from .store import Commit, Lease, SessionState
from .tables import check_limit

__all__ = ["MemoryStore"]

_UNFINISHED = ("open", "waiting")


class _Item(msgspec.Struct, frozen=True):
    """A row of the inbox."""

    id: str
    lane: str
    queue: str
    status: str
    request_id: str | None
    body: str


class _Kept:
    """One session. Dictionaries keep the order of arrival."""

    def __init__(self, row: tuple[Any, ...]) -> None:
        (self.id, self.created_at, self.modified_at, self.cwd, self.parent_id, self.metadata,
         self.usage_total) = row  # fmt: skip
        self.name: str | None = None
        self.preview: str | None = None
        self.head = 0
        self.owner: str | None = None
        self.epoch = 0
        self.lease_until = 0
        self.entries: list[EntryRow] = []
        self.entry_of: dict[str, EntryRow] = {}
        self.lanes: dict[str, str] = dict([columns.main_lane()])
        self.operations: dict[str, tuple[Any, ...]] = {}
        """id: (lane, status, request id, body)"""
        self.intents: dict[str, str] = {}
        self.inbox: dict[str, _Item] = {}
        self.approvals: dict[str, tuple[str, str, str]] = {}
        """id: (status, digest, body)"""
        self.facts: dict[tuple[str, str], tuple[str, int]] = {}
        self.usage: dict[str, tuple[int, str]] = {}

    def is_held(self) -> bool:
        """By somebody who may still be there."""
        return (
            self.owner is not None and self.lease_until > now_ms() and not owner_is_dead(self.owner)
        )

    def info(self) -> SessionInfo:
        owner = self.owner if self.lease_until > now_ms() else None
        return columns.read_info(
            (self.id, self.created_at, self.modified_at, self.cwd, self.parent_id, self.name,
             self.preview, len(self.entries), self.usage_total, self.metadata, owner)
        )  # fmt: skip


class MemoryStore:
    """A `SessionStore` whose sessions last as long as it does."""

    def __init__(self) -> None:
        self._sessions: dict[str, _Kept] = {}

    @classmethod
    async def open(cls) -> Self:
        """A new one; the same as `MemoryStore()`."""
        return cls()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Does nothing: there is nothing to let go of, and the sessions stay."""

    def _kept(self, session_id: str) -> _Kept:
        kept = self._sessions.get(session_id)
        if kept is None:
            raise refusals.session_not_found(session_id)
        return kept

    # -- sessions -----------------------------------------------------------------------------

    async def create(self, info: SessionInfo) -> None:
        kept = _Kept(columns.info_columns(info))
        if kept.id in self._sessions:
            raise refusals.session_exists(kept.id)
        self._sessions[kept.id] = kept

    async def info(self, session_id: str) -> SessionInfo:
        return self._kept(session_id).info()

    async def list(self, *, cwd: str | None = None, limit: int | None = None) -> list[SessionInfo]:
        check_limit(limit)
        folder = columns.shown(cwd)
        found = [kept for kept in self._sessions.values() if cwd is None or kept.cwd == folder]
        found.sort(key=lambda kept: (kept.modified_at, kept.id), reverse=True)
        return [kept.info() for kept in found[:limit]]

    async def delete(self, session_id: str) -> None:
        kept = self._kept(session_id)
        if kept.is_held():
            raise refusals.session_locked(session_id, kept.owner or "", kept.lease_until)
        del self._sessions[session_id]

    # -- leases -------------------------------------------------------------------------------

    async def claim(self, session_id: str, owner: str, seconds: float) -> Lease:
        kept = self._kept(session_id)
        if kept.owner != owner and kept.is_held():
            raise refusals.session_locked(session_id, kept.owner or "", kept.lease_until)
        kept.owner = columns.key(owner, "the owner")
        kept.epoch += 1
        kept.lease_until = now_ms() + int(seconds * 1000)
        return Lease(session_id, owner, kept.epoch)

    async def renew(self, lease: Lease, seconds: float) -> None:
        self._held(lease).lease_until = now_ms() + int(seconds * 1000)

    async def release(self, lease: Lease) -> None:
        kept = self._sessions.get(lease.session_id)
        if kept is not None and (kept.epoch, kept.owner) == (lease.epoch, lease.owner):
            kept.owner, kept.lease_until = None, 0
            kept.epoch += 1  # nothing is written with a lease that was given back

    def _held(self, lease: Lease) -> _Kept:
        kept = self._kept(lease.session_id)
        if (kept.epoch, kept.owner) != (lease.epoch, lease.owner):
            raise refusals.lease_lost(lease)
        return kept

    # -- commits ------------------------------------------------------------------------------

    async def commit(self, lease: Lease, commit: Commit) -> int:
        writes = columns.writes(commit)
        kept = self._held(lease)
        # Everything is looked at before anything is changed.
        self._check_ids(kept, commit, writes)
        inbox = _with_items(kept, writes)
        approvals = _with_approvals(kept, writes)
        kept.inbox, kept.approvals = inbox, approvals
        seq = kept.head
        for row in commit.entries:
            seq += 1
            stored = msgspec.structs.replace(row, seq=seq)
            kept.entries.append(stored)
            kept.entry_of[row.id] = stored
        for namespace, key, value in writes.facts:
            seq += 1
            if value is None:
                kept.facts.pop((namespace, key), None)
            else:
                kept.facts[namespace, key] = (value, seq)
        for usage_id, body in writes.usage:
            seq += 1
            kept.usage[usage_id] = (seq, body)
        kept.lanes.update(writes.lanes)
        kept.operations.update({row[0]: row[1:] for row in writes.operations})
        kept.intents.update(writes.intents)
        for intent_id in writes.settled:
            kept.intents.pop(intent_id, None)
        kept.usage_total = writes.usage_total or kept.usage_total
        kept.preview = kept.preview if writes.preview is None else writes.preview
        kept.name = writes.name if writes.renamed else kept.name
        kept.head = seq
        kept.modified_at = now_ms()
        return seq

    def _check_ids(self, kept: _Kept, commit: Commit, writes: columns.Writes) -> None:
        for row in commit.entries:
            if row.id in kept.entry_of:
                raise refusals.duplicate_id(f"entry {row.id}", kept.id)
        for entry_id, parent_id in writes.parents:
            if parent_id not in kept.entry_of:
                raise refusals.unknown_parent(entry_id, parent_id, kept.id)
        usage_ids = set(kept.usage) if writes.usage else set[str]()
        for usage_id, _ in writes.usage:
            if usage_id in usage_ids:
                raise refusals.duplicate_id(f"usage {usage_id}", kept.id)
            usage_ids.add(usage_id)
        requests = dict[str, str | None]()
        if writes.operations:
            requests = {key: row[2] for key, row in kept.operations.items()}
        for operation_id, _, _, request_id, _ in writes.operations:
            requests.pop(operation_id, None)
            if request_id is not None and request_id in requests.values():
                raise refusals.duplicate_id(f"request {request_id}", kept.id)
            requests[operation_id] = request_id

    # -- reading ------------------------------------------------------------------------------

    async def state(self, session_id: str) -> SessionState:
        kept = self._kept(session_id)
        return SessionState(
            info=kept.info(),
            head=kept.head,
            lanes=_lanes(kept),
            operations=_operations_in_state(kept),
            intents=[columns.read_intent(session_id, body) for body in kept.intents.values()],
            inbox=_pending(kept),
            approvals=[
                columns.read_approval(session_id, *row)
                for row in kept.approvals.values()
                if row[0] != "consumed"
            ],
            facts=_facts(kept),
        )

    async def entries(
        self,
        session_id: str,
        *,
        before: int | None = None,
        after: int | None = None,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> list[EntryRow]:
        check_limit(limit)
        rows = self._kept(session_id).entries
        begin = 0 if after is None else bisect_right(rows, after, key=_seq)
        end = len(rows) if before is None else bisect_left(rows, before, key=_seq)
        if newest_first:
            first = begin if limit is None else max(begin, end - limit)
            return rows[first:end][::-1]
        return rows[begin : end if limit is None else min(end, begin + limit)]

    async def find(self, session_id: str, entry_ids: Sequence[str]) -> list[EntryRow]:
        known = self._kept(session_id).entry_of
        return sorted((known[i] for i in set(entry_ids) if i in known), key=_seq)

    async def usage(self, session_id: str) -> list[UsageRow]:
        rows = self._kept(session_id).usage.values()
        return [columns.read_usage(session_id, seq, body) for seq, body in rows]

    async def operations(
        self, session_id: str, *, request_id: str | None = None
    ) -> list[Operation]:
        return [
            columns.read_operation(session_id, body)
            for _, _, requested, body in self._kept(session_id).operations.values()
            if request_id is None or requested == request_id
        ]

    # -- without a lease ----------------------------------------------------------------------

    async def enqueue(self, session_id: str, item: InboxItem) -> InboxItem:
        kept = self._kept(session_id)
        row = _Item(*columns.item_columns(item))
        known = kept.inbox.get(row.id)
        if row.request_id is not None:
            known = next((i for i in kept.inbox.values() if i.request_id == row.request_id), known)
        if known is not None:
            return columns.read_item(session_id, known.status, known.body)
        kept.inbox[row.id] = row
        return item

    async def inbox(
        self, session_id: str, *, lane: str | None = None, queues: Sequence[InboxQueue] = ()
    ) -> list[InboxItem]:
        return [
            item
            for item in _pending(self._kept(session_id))
            if (lane is None or item.lane == lane) and (not queues or item.queue in queues)
        ]

    async def withdraw(self, session_id: str, item_id: str) -> InboxStatus | None:
        kept = self._kept(session_id)
        row = kept.inbox.get(item_id)
        if row is None:
            return None
        if row.status == "pending":
            row = kept.inbox[item_id] = msgspec.structs.replace(row, status="withdrawn")
        return "withdrawn" if row.status == "withdrawn" else "placed"

    async def decide(
        self,
        session_id: str,
        approval_id: str,
        verdict: Literal["approved", "denied"],
        *,
        arguments: dict[str, Any] | None = None,
        digest: str | None = None,
        reason: str | None = None,
        decided_by: str | None = None,
    ) -> Approval:
        kept = self._kept(session_id)
        row = kept.approvals.get(approval_id)
        if row is None or row[0] != "pending":
            raise refusals.approval_decided(approval_id, row and row[0])
        decided = columns.decided(
            columns.read_approval(session_id, *row), verdict, arguments, digest, reason, decided_by
        )
        kept.approvals[approval_id] = columns.approval_columns(decided)[1:]
        return columns.read_approval(session_id, *kept.approvals[approval_id])

    async def approvals(self, session_id: str) -> list[Approval]:
        rows = self._kept(session_id).approvals.values()
        return [columns.read_approval(session_id, *row) for row in rows]


def _seq(row: EntryRow) -> int:
    return row.seq


def _with_items(kept: _Kept, writes: columns.Writes) -> dict[str, _Item]:
    """The inbox as it will be."""
    inbox = dict(kept.inbox) if writes.inbox else kept.inbox
    for row in (_Item(*item) for item in writes.inbox):
        known = inbox.get(row.id)
        if known is not None and known.status not in ("pending", row.status):
            raise refusals.item_changed(row.id)
        if row.request_id is not None and any(
            other.request_id == row.request_id for other in inbox.values() if other.id != row.id
        ):
            raise refusals.duplicate_id(f"request {row.request_id}", kept.id)
        inbox[row.id] = row
    lane = writes.unless_waiting
    if lane is not None and any(
        row.lane == lane and row.status == "pending" and row.queue in ("steer", "followUp")
        for row in inbox.values()
    ):
        raise refusals.inbox_not_empty(kept.id, lane)
    return inbox


def _with_approvals(kept: _Kept, writes: columns.Writes) -> dict[str, tuple[str, str, str]]:
    """The approvals as they will be."""
    approvals = dict(kept.approvals) if writes.approvals or writes.consume else kept.approvals
    for approval_id, *row in writes.approvals:
        known = approvals.get(approval_id)
        if known is not None and known[0] != "pending":
            raise refusals.approval_decided(approval_id, known[0])
        approvals[approval_id] = (row[0], row[1], row[2])
    for approval_id, digest in writes.consume:
        known = approvals.get(approval_id)
        if known is None or known[0] not in ("approved", "denied") or known[1] != digest:
            raise refusals.approval_not_standing(approval_id)
        approvals[approval_id] = ("consumed", digest, known[2])
    return approvals


def _lanes(kept: _Kept) -> list[Lane]:
    names = sorted(kept.lanes, key=lambda name: (name != "main", name))
    return [columns.read_lane(kept.id, kept.lanes[name]) for name in names]


def _operations_in_state(kept: _Kept) -> list[Operation]:
    last = {row[0]: key for key, row in kept.operations.items() if row[1] not in _UNFINISHED}
    wanted = set(last.values())
    return [
        columns.read_operation(kept.id, row[3])
        for key, row in kept.operations.items()
        if row[1] in _UNFINISHED or key in wanted
    ]


def _pending(kept: _Kept) -> list[InboxItem]:
    return [
        columns.read_item(kept.id, row.status, row.body)
        for row in kept.inbox.values()
        if row.status == "pending"
    ]


def _facts(kept: _Kept) -> list[Fact]:
    rows = sorted(kept.facts.items(), key=lambda fact: fact[1][1])
    return [
        columns.read_fact(namespace, key, value, seq) for (namespace, key), (value, seq) in rows
    ]
