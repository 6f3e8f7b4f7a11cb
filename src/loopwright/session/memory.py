"""Sessions in memory: for tests, and for work that nobody needs to find again.

It keeps the very columns that a database would, encoded, so that whoever changes what he gave or
was given changes nothing here. Two who open one session of one `MemoryStore` contend for its
lease like two processes.

Not here: anything that outlives the object.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import msgspec

from . import columns, refusals
from .entries import EntryRow, now_ms
from .kept_rows import Change, ItemRow, OperationColumns, Rows
from .leases import owner_is_dead
from .rows import (
    Approval,
    InboxItem,
    InboxQueue,
    InboxStatus,
    Operation,
    SessionInfo,
    UsageRow,
)
from .store import Commit, Lease, SessionState
from .tables import check_limit

__all__ = ["MemoryStore"]


class _Kept:
    """One session: its rows, and what else a table of sessions has."""

    def __init__(self, row: tuple[Any, ...]) -> None:
        self.id, self.created_at, self.modified_at, self.cwd, self.parent_id, self.metadata, _ = row
        self.rows = Rows(self.id)
        self.owner: str | None = None
        self.epoch = 0
        self.lease_until = 0

    def is_held(self) -> bool:
        """By somebody who may still be there."""
        return (
            self.owner is not None and self.lease_until > now_ms() and not owner_is_dead(self.owner)
        )

    def info(self) -> SessionInfo:
        owner, rows = self.owner if self.lease_until > now_ms() else None, self.rows
        return columns.read_info(
            (self.id, self.created_at, self.modified_at, self.cwd, self.parent_id, rows.name,
             rows.preview, len(rows.entries), rows.usage_total, self.metadata, owner)
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
        kept.rows.check(writes)
        kept.modified_at = now_ms()
        return kept.rows.apply(_change(commit, writes))

    # -- reading ------------------------------------------------------------------------------

    def _rows(self, session_id: str) -> Rows:
        return self._kept(session_id).rows

    async def state(self, session_id: str) -> SessionState:
        kept = self._kept(session_id)
        return kept.rows.state(kept.info())

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
        return self._rows(session_id).entries_between(before, after, limit, newest_first)

    async def find(self, session_id: str, entry_ids: Sequence[str]) -> list[EntryRow]:
        return self._rows(session_id).found(entry_ids)

    async def usage(self, session_id: str) -> list[UsageRow]:
        return self._rows(session_id).usage_list()

    async def operations(
        self, session_id: str, *, request_id: str | None = None
    ) -> list[Operation]:
        return self._rows(session_id).operation_list(request_id)

    # -- without a lease ----------------------------------------------------------------------

    async def enqueue(self, session_id: str, item: InboxItem) -> InboxItem:
        rows, row = self._rows(session_id), ItemRow(*columns.item_columns(item))
        known = rows.item_with_request(row.request_id) or rows.inbox.get(row.id)
        if known is not None:
            return rows.item(known)
        rows.apply(Change(inbox=[row]))
        return item

    async def inbox(
        self,
        session_id: str,
        *,
        lane: str | None = None,
        queues: Sequence[InboxQueue] = (),
        after: str | None = None,
        ids: Sequence[str] | None = None,
    ) -> list[InboxItem]:
        return self._rows(session_id).pending(lane, queues, after, ids)

    async def withdraw(self, session_id: str, item_id: str) -> InboxStatus | None:
        rows = self._rows(session_id)
        row = rows.inbox.get(item_id)
        if row is None:
            return None
        if row.status == "pending":
            row = msgspec.structs.replace(row, status="withdrawn")
            rows.apply(Change(inbox=[row]))
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
        rows = self._rows(session_id)
        asked = rows.approval(approval_id)
        if asked is None or asked.status != "pending":
            raise refusals.approval_decided(approval_id, asked and asked.status)
        decided = columns.decided(asked, verdict, arguments, digest, reason, decided_by)
        put = columns.approval_columns(decided)
        rows.apply(Change(approvals=[(put[0], put[1], put[2], put[3])]))
        return columns.read_approval(session_id, *put[1:])

    async def approvals(self, session_id: str) -> list[Approval]:
        return self._rows(session_id).approval_list()


def _change(commit: Commit, writes: columns.Writes) -> Change:
    """*commit*, whose columns are *writes*, as rows to put."""
    return Change(
        entries=commit.entries,
        leaves={lane.name: lane.leaf_id for lane in commit.lanes},
        lanes=dict(writes.lanes),
        operations=[OperationColumns(*row) for row in writes.operations],
        intents=[(intent_id, body) for intent_id, body in writes.intents],
        settled=writes.settled,
        inbox=[ItemRow(*row) for row in writes.inbox],
        approvals=[(row[0], row[1], row[2], row[3]) for row in writes.approvals],
        consumed=writes.consume,
        facts=writes.facts,
        usage=[(usage_id, body) for usage_id, body in writes.usage],
        usage_total=writes.usage_total,
        preview=writes.preview,
    )
