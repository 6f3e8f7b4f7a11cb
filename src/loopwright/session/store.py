"""What every store can do: keep sessions, and take commits from whoever holds the lease.

A commit is all or nothing, and is refused if the lease has passed to another. What a store is
*not* asked to do is understand what it keeps: entries are rows of bytes with a parent, the rest
are rows with a key. `loopwright.testing.store_conformance` has the tests every store must pass.

Not here: the stores (memory, sqlite, postgres, jsonl), or what is written when (harness).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Protocol

import msgspec

from ..messages import Usage
from .entries import EntryRow
from .rows import (
    Approval,
    Fact,
    InboxItem,
    InboxQueue,
    InboxStatus,
    Intent,
    Lane,
    Operation,
    SessionInfo,
    UsageRow,
)

__all__ = ["Commit", "Lease", "SessionState", "SessionStore"]


class Lease(msgspec.Struct, frozen=True):
    """The right to write to one session. A higher epoch has taken it from a lower one."""

    session_id: str
    owner: str
    """Who: `host:pid:start:random`, so that a dead process of this machine can be told."""
    epoch: int


class Commit(msgspec.Struct, kw_only=True):
    """Changes that happen together or not at all. Rows are put whole, by their key."""

    entries: list[EntryRow] = []
    """New ones, parents before children. An id that is there already refuses the commit."""
    lanes: list[Lane] = []
    operations: list[Operation] = []
    intents: list[Intent] = []
    settled: list[str] = []
    """Ids of intents that are no more."""
    inbox: list[InboxItem] = []
    """Put by id: placed or withdrawn items keep their row with its new status. One that is not
    pending any more refuses the commit with `InboxNotEmpty`: somebody withdrew it just now."""
    approvals: list[Approval] = []
    """New requests for approval; pending, or decided in the same breath. One that was decided
    already is not undone: `ApprovalRefused`."""
    consume: list[tuple[str, str]] = []
    """Approvals (id, digest) that must stand as `approved` or `denied` with that digest; they
    become `consumed`. One that does not stand refuses the commit with `ApprovalRefused`."""
    facts: list[Fact] = []
    usage: list[UsageRow] = []
    usage_total: Usage | None = None
    """The sum of the ledger after this commit, given whenever `usage` is."""
    preview: str | None = None
    """Set the session's preview."""
    unless_waiting: str | None = None
    """Refuse with `InboxNotEmpty` if this lane has a pending `steer` or `followUp` item."""


class SessionState(msgspec.Struct):
    """All that is not history: what a writer must know to go on."""

    info: SessionInfo
    head: int
    """The last sequence number given."""
    lanes: list[Lane]
    operations: list[Operation]
    """Of each lane the open one, and the last that was finished."""
    intents: list[Intent]
    inbox: list[InboxItem]
    """Those pending, oldest first."""
    approvals: list[Approval]
    """Those not consumed."""
    facts: list[Fact]


class SessionStore(Protocol):
    """Keeps sessions. All methods may be called from one event loop, from many tasks at a time.

    Raises `StoreUnavailable` where the medium fails (full, read-only, no connection), `SessionTooNew`
    and `SessionDamaged` when opened on what it must not touch, `SessionNotFound` everywhere.
    """

    async def create(self, info: SessionInfo) -> None:
        """Add an empty session with the lane `main`. Raises `SessionExists`.

        Name, preview, entries and usage come from commits, and are not taken from *info*. Ids that
        cannot be stored as they are (a NUL, half a surrogate pair) are `Misuse`, here and later.
        """
        ...

    async def info(self, session_id: str) -> SessionInfo:
        """What a list shows of this one."""
        ...

    async def list(self, *, cwd: str | None = None, limit: int | None = None) -> list[SessionInfo]:
        """Sessions, the last modified first; of one folder, if *cwd* is given."""
        ...

    async def delete(self, session_id: str) -> None:
        """Forget a session and all that belongs to it. Raises `SessionLocked` while it is open."""
        ...

    async def claim(self, session_id: str, owner: str, seconds: float) -> Lease:
        """Become the one writer for *seconds*. Raises `SessionLocked` while another is.

        A lease that has run out is taken over, and so is, at once, one whose owner is a process
        of this machine that is no more. The epoch grows with every claim.
        """
        ...

    async def renew(self, lease: Lease, seconds: float) -> None:
        """The lease lasts *seconds* from now. Raises `LeaseLost` if somebody else has it."""
        ...

    async def release(self, lease: Lease) -> None:
        """Let others write; nothing is written with *lease* after that. Does nothing if somebody
        else has the lease, or the session is gone."""
        ...

    async def state(self, session_id: str) -> SessionState:
        """What is true now, seen at one instant."""
        ...

    async def commit(self, lease: Lease, commit: Commit) -> int:
        """Write *commit*, whole. Returns the last sequence number.

        Entries, facts and usage rows are numbered in this order, consecutively. A lease that has
        run out but was not taken over is still good: the epoch is what counts. Raises `LeaseLost`,
        `InboxNotEmpty`, `ApprovalRefused`, `SessionDamaged` (duplicate id, unknown parent);
        nothing was written then.
        """
        ...

    async def entries(
        self,
        session_id: str,
        *,
        before: int | None = None,
        after: int | None = None,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> list[EntryRow]:
        """Entries by sequence number, *before* and *after* exclusive, at most *limit* of them."""
        ...

    async def find(self, session_id: str, entry_ids: Sequence[str]) -> list[EntryRow]:
        """Those of *entry_ids* that are there, in sequence."""
        ...

    async def usage(self, session_id: str) -> list[UsageRow]:
        """The ledger, in sequence."""
        ...

    async def operations(
        self, session_id: str, *, request_id: str | None = None
    ) -> list[Operation]:
        """Every operation, oldest first; or the one with that request id, if there is one."""
        ...

    # -- without a lease: said by others, heard by the one who has it --------------------------

    async def enqueue(self, session_id: str, item: InboxItem) -> InboxItem:
        """Add *item*. If its request id is known already, nothing is added and the item that has
        it is returned, with its present status. So is one with the same id."""
        ...

    async def inbox(
        self,
        session_id: str,
        *,
        lane: str | None = None,
        queues: Sequence[InboxQueue] = (),
        after: str | None = None,
        ids: Sequence[str] | None = None,
    ) -> list[InboxItem]:
        """The pending items, oldest first.

        *after*: those that came later than the item of that id, whatever has become of it; all,
        if nobody knows it. *ids*: only these, a few of them. A run asks so with every turn, while
        thousands may wait: neither may read what it leaves out.
        """
        ...

    async def withdraw(self, session_id: str, item_id: str) -> InboxStatus | None:
        """Take a pending item back. Returns its status after that: `withdrawn`, or `placed` if it
        was too late; None if nobody knows it."""
        ...

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
        """Decide on a pending approval, once. *arguments* replace those asked for, and *digest* is
        then theirs. Raises `ApprovalRefused` if it is not pending."""
        ...

    async def approvals(self, session_id: str) -> list[Approval]:
        """All approvals, consumed ones included, in the order they were asked for."""
        ...

    async def aclose(self) -> None:
        """Let go of files and connections. Leases are not released: closing is like a crash."""
        ...
