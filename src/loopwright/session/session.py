"""A session that is open: one lane of it in memory, the rest in the store.

Opening for writing takes the lease, so there is one writer at a time; opening for reading takes
nothing. In memory is the part of the branch that the model is shown, back to the newest
compaction, and the rows that are not history. Both change only when a commit has been written.

Not here: what is in memory (loaded_branch, known_state), running anything (harness), keeping
anything (the stores).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import msgspec

from ..errors import Misuse, OperationOpen, SessionClosed, SessionExists, SessionNotFound
from ..messages import AgentMessage, Usage, UserMessage
from .entries import CustomEntry, Entry, EntryRow, MessageEntry, to_row
from .json_values import json_value
from .known_state import KnownState
from .leases import new_owner
from .loaded_branch import LoadedBranch, read_branch
from .rows import Approval, Fact, Intent, Lane, Operation, SessionInfo
from .store import Commit, SessionState, SessionStore
from .writer import Writer

__all__ = ["LEASE_SECONDS", "Session"]

LEASE_SECONDS = 30.0
"""How long others wait for a writer that has vanished without a trace."""

_PAGE = 8192
_PREVIEW_CHARACTERS = 200


class Session:
    """One lane of a session, open. Made by `Session.open` or `Session.read`."""

    def __init__(self, store: SessionStore, state: SessionState, lane: str) -> None:
        self.store = store
        self._lane = lane
        self._writer: Writer | None = None
        self._known = KnownState(state)
        self._branch = LoadedBranch([])
        self._made: dict[str, Entry] = {}
        """Entries that were handed over and are not written yet, as they were given."""
        self._handed_over: list[Commit] = []
        """Those that are not written yet, in order."""
        self._closed = False
        self.on_lost: Callable[[Exception], object] | None = None
        """Called when the session cannot be written any more: the lease is lost, the disk full."""
        self.on_commit: Callable[[Commit], Callable[[asyncio.Future[int]], object]] | None = None
        """For telemetry: called with each commit that is handed over; what it returns, with the
        commit's future when that is done."""
        if lane not in self._known.lanes:
            raise Misuse(
                f"the session {self.id} has no lane named {lane!r}",
                hint=f"it has: {', '.join(sorted(self._known.lanes))}",
            )
        self._tip = self.lane

    # -- opening and closing ------------------------------------------------------------------

    @classmethod
    async def open(
        cls,
        store: SessionStore,
        session_id: str | None = None,
        *,
        lane: str = "main",
        cwd: str | None = None,
        create: bool = True,
        lease_seconds: float = LEASE_SECONDS,
    ) -> Session:
        """Open for writing; a session that is not there is made if *create*.

        Raises `SessionLocked` while another process has it, `SessionNotFound`, and what the store
        raises. Opening starts nothing.
        """
        if session_id is None:
            info = SessionInfo(cwd=cwd)
            await store.create(info)
            session_id = info.id
        elif create:
            try:
                await store.info(session_id)
            except SessionNotFound:
                try:
                    await store.create(SessionInfo(id=session_id, cwd=cwd))
                except SessionExists:
                    pass  # another process was quicker; the lease decides who writes
        lease = await store.claim(session_id, new_owner(), lease_seconds)
        try:
            state = await store.state(session_id)
            session = cls(store, state, lane)
            await session.reload()
            session._writer = Writer(store, lease, lease_seconds, session._complete, session._apply)
        except BaseException:
            await store.release(lease)
            raise
        session._writer.on_failure = session._lost
        return session

    @classmethod
    async def read(cls, store: SessionStore, session_id: str, *, lane: str = "main") -> Session:
        """Look at a session, locked or not. Nothing can be written to it."""
        session = cls(store, await store.state(session_id), lane)
        await session.reload()
        return session

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Close it; commits that were handed over are written. The store stays open."""
        self._closed = True
        if self._writer is not None:
            await self._writer.aclose()

    # -- what is there ------------------------------------------------------------------------

    @property
    def id(self) -> str:
        """The session's id."""
        return self._known.info.id

    @property
    def info(self) -> SessionInfo:
        """What a list shows of it, as of the last commit."""
        return self._known.info

    @property
    def head(self) -> int:
        """The last sequence number given, as of the last commit."""
        return self._known.head

    @property
    def usage(self) -> Usage:
        """The sum of the ledger."""
        return self._known.info.usage

    @property
    def lane(self) -> Lane:
        """The lane this handle works on."""
        return self._known.lanes[self._lane]

    @property
    def lanes(self) -> dict[str, Lane]:
        """All lanes, by name."""
        return dict(self._known.lanes)

    @property
    def leaf_id(self) -> str | None:
        """The entry the next one will follow."""
        return self.lane.leaf_id

    @property
    def operation(self) -> Operation | None:
        """What is open on this lane."""
        open_id = self.lane.operation_id
        return None if open_id is None else self.operation_of(open_id)

    def operation_of(self, operation_id: str) -> Operation | None:
        """An operation that is open, or the last that ended on its lane; None for older ones."""
        return self._known.operations.get(operation_id)

    @property
    def last_operation(self) -> Operation | None:
        """The last one on this lane that came to an end."""
        return self._known.last_operation(self._lane)

    async def spent_on(self, operation_id: str) -> Usage:
        """The sum of the ledger's rows of an operation."""
        spent = self._known.spent.get(operation_id)
        if spent is None:
            spent = Usage()
            for row in await self.store.usage(self.id):
                if row.operation_id == operation_id:
                    spent += row.usage
        return spent

    @property
    def intents(self) -> dict[str, Intent]:
        """Calls that were started and not settled, by the id reserved for their result."""
        return self._known.intents

    @property
    def approvals(self) -> dict[str, Approval]:
        """Approvals that were asked for and not used, by the id reserved for the result."""
        return self._known.approvals

    @property
    def name(self) -> str | None:
        """The name a person gave it."""
        return self._known.info.name

    @property
    def facts(self) -> list[Fact]:
        """Name, labels and a program's own facts."""
        return list(self._known.facts.values())

    def label_of(self, entry_id: str) -> str | None:
        """The label of an entry."""
        fact = self._known.facts.get(("label", entry_id))
        return None if fact is None else fact.value

    @property
    def branch(self) -> LoadedBranch:
        """What is in memory of the branch, which goes on growing: for looking at without a copy."""
        return self._branch

    def entries(self) -> list[Entry]:
        """The branch, oldest first, as far back as the newest compaction needs."""
        return list(self._branch.entries)

    def messages(self) -> list[AgentMessage]:
        """What the model is shown: a summary where there is one, no failed replies."""
        return list(self._branch.context)

    def transcript(self) -> list[AgentMessage]:
        """Like `messages`, with the replies that failed or were aborted."""
        return list(self._branch.transcript)

    def entry_of(self, message: AgentMessage) -> MessageEntry | None:
        """The entry that holds this very message, if it is near the end of the branch."""
        for entry in reversed(self._branch.entries):
            if isinstance(entry, MessageEntry) and entry.message is message:
                return entry
        return None

    async def history(self) -> list[Entry]:
        """The whole branch, oldest first, what was compacted included."""
        rows = await read_branch(self.store, self.id, self.leaf_id, whole=True)
        return [row.entry() for row in rows]

    async def path(self, entry_id: str | None) -> list[EntryRow]:
        """The rows from the root to an entry, oldest first; none for None."""
        return await read_branch(self.store, self.id, entry_id, whole=True)

    async def rows(self) -> list[EntryRow]:
        """Every entry of every branch, in the order they were written."""
        found: list[EntryRow] = []
        after = 0
        while page := await self.store.entries(self.id, after=after, limit=_PAGE):
            found += page
            after = page[-1].seq
        return found

    # -- writing ------------------------------------------------------------------------------

    async def commit(self, commit: Commit, entries: Sequence[Entry] = ()) -> int:
        """Write *commit* and *entries*, together. The lanes in *commit* say where leaves move.

        Cancelling the caller does not take it back. Raises `SessionClosed`, `LeaseLost`,
        `StoreUnavailable`, `InboxNotEmpty`, `ApprovalRefused`; nothing was written then.
        """
        return await asyncio.shield(self.submit(commit, entries))

    def submit(self, commit: Commit, entries: Sequence[Entry] = ()) -> asyncio.Future[int]:
        """Hand *commit* over without waiting for it. Those handed over are written in order."""
        writer = self._open_writer()
        commit.entries = [*commit.entries, *(to_row(entry) for entry in entries)]
        future = writer.submit(commit)
        self._made.update({entry.id: entry for entry in entries})
        self._handed_over.append(commit)
        self._tip = self._moved(self._tip, commit)
        future.add_done_callback(partial(self._take_back_refused, commit))
        if self.on_commit is not None:
            future.add_done_callback(self.on_commit(commit))
        return future

    async def append(self, message: AgentMessage) -> MessageEntry:
        """Add a message behind the leaf. Raises `OperationOpen` while one is open there."""
        self._refuse_during_operation()
        entry = MessageEntry(parent_id=self.tip.leaf_id, message=message)
        await self.commit(Commit(lanes=[self.lane_at(entry.id)]), [entry])
        return entry

    async def append_custom(self, custom_type: str, data: Any = None) -> CustomEntry:
        """Add data of a program's own behind the leaf; no model is shown it. Raises
        `OperationOpen` while an operation is open there, and `Misuse` for what is no JSON."""
        self._refuse_during_operation()
        data = json_value(data, "data")
        entry = CustomEntry(parent_id=self.tip.leaf_id, custom_type=custom_type, data=data)
        await self.commit(Commit(lanes=[self.lane_at(entry.id)]), [entry])
        return entry

    async def set_name(self, name: str | None) -> None:
        """Give the session a name; None takes it away."""
        await self.commit(Commit(facts=[Fact(namespace="name", value=name, deleted=name is None)]))

    async def set_label(self, entry_id: str, label: str | None) -> None:
        """Mark an entry; None takes the mark away. Raises `Misuse` if there is no such entry."""
        await self._demand(entry_id)
        fact = Fact(namespace="label", key=entry_id, value=label, deleted=label is None)
        await self.commit(Commit(facts=[fact]))

    async def set_fact(self, key: str, value: Any) -> None:
        """Keep a JSON value of a program's own. None is kept as null. Raises `Misuse` for what is no JSON."""
        value = json_value(value, f"the fact {key!r}")
        await self.commit(Commit(facts=[Fact(namespace="custom", key=key, value=value)]))

    async def delete_fact(self, key: str) -> None:
        """Forget a value of a program's own."""
        await self.commit(Commit(facts=[Fact(namespace="custom", key=key, deleted=True)]))

    async def add_lane(self, name: str, at: str | None = None) -> Lane:
        """A new lane whose leaf is the entry *at*, or where this one stands. Names are for good.

        Raises `Misuse` if the name is taken or there is no such entry.
        """
        if name in self._known.lanes:
            raise Misuse(f"the session has a lane named {name!r} already")
        if at is not None:
            await self._demand(at)
        lane = Lane(name=name, leaf_id=self.leaf_id if at is None else at)
        await self.commit(Commit(lanes=[lane]))
        return lane

    def _refuse_during_operation(self) -> None:
        if self._tip.operation_id is not None:
            raise OperationOpen(
                f"the lane {self._lane!r} of session {self.id} is in the middle of something; an "
                "entry now would stand between a call and its result",
                hint="wait for the end of the run, or say it with steer() or next_run()",
            )

    @property
    def tip(self) -> Lane:
        """This lane as it is once all that was handed over has been written."""
        return self._tip

    def lane_at(self, leaf_id: str | None, **changes: Any) -> Lane:
        """The tip with another leaf, for a commit."""
        return msgspec.structs.replace(self._tip, leaf_id=leaf_id, **changes)

    async def refresh(self) -> None:
        """Look again at the approvals, on which others decide without a lease."""
        state = await self.store.state(self.id)
        self._known.approvals = {approval.id: approval for approval in state.approvals}

    def note(self, approval: Approval) -> None:
        """Somebody of this process has decided on *approval*."""
        if approval.id in self.approvals:
            self.approvals[approval.id] = approval

    async def reload(self) -> None:
        """Build the branch in memory anew, after the leaf was moved."""
        self._branch = await LoadedBranch.load(self.store, self.id, self.leaf_id)

    # -- inside -------------------------------------------------------------------------------

    def _open_writer(self) -> Writer:
        if self._closed:
            raise SessionClosed(f"the session {self.id} is closed", hint="open it again")
        if self._writer is None:
            raise SessionClosed(
                f"the session {self.id} was opened for reading", hint="use Session.open to write"
            )
        return self._writer

    def _moved(self, lane: Lane, commit: Commit) -> Lane:
        """Where *commit* puts this lane, which stands at *lane* before."""
        return next((new for new in reversed(commit.lanes) if new.name == self._lane), lane)

    def _complete(self, commit: Commit) -> None:
        """*commit* is the next to be written: add what depends on those before it, of which some
        may have been refused."""
        info = self._known.info
        if commit.usage and commit.usage_total is None:
            total = info.usage
            for row in commit.usage:
                total += row.usage
            commit.usage_total = total
        if info.preview is None and commit.preview is None:
            commit.preview = _preview([self._entry(row) for row in commit.entries])

    def _entry(self, row: EntryRow) -> Entry:
        return self._made.get(row.id) or row.entry()

    def _take_back_refused(self, commit: Commit, future: asyncio.Future[int]) -> None:
        if future.cancelled() or future.exception() is None:
            return  # written, whether or not anybody waited for it
        self._forget(commit)
        self._tip = self.lane  # what it said did not happen; what came behind it may
        for later in self._handed_over:
            self._tip = self._moved(self._tip, later)

    def _forget(self, commit: Commit) -> None:
        """It is not waiting to be written any more."""
        self._handed_over = [other for other in self._handed_over if other is not commit]
        for row in commit.entries:
            self._made.pop(row.id, None)

    def _apply(self, commit: Commit, head: int) -> None:
        """*commit* has been written: what is in memory says the same now."""
        leaf, moved = self.leaf_id, any(lane.name == self._lane for lane in commit.lanes)
        for row in commit.entries:
            entry = self._entry(row)
            if moved and entry.parent_id == leaf:
                self._branch.grow(entry)
                leaf = entry.id
        self._forget(commit)
        self._known.apply(commit, head)

    async def _demand(self, entry_id: str) -> None:
        if not await self.store.find(self.id, [entry_id]):
            raise Misuse(f"the session {self.id} has no entry {entry_id!r}")

    def _lost(self, error: Exception) -> None:
        if self.on_lost is not None:
            self.on_lost(error)


def _preview(entries: Sequence[Entry]) -> str | None:
    for entry in entries:
        if isinstance(entry, MessageEntry) and isinstance(entry.message, UserMessage):
            text = " ".join(entry.message.text.split())
            return text[:_PREVIEW_CHARACTERS] or None
    return None
