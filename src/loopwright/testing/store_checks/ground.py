"""What the checks of a store stand on: how to get one, and what to put into it."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from ...errors import (
    SessionClosed,
    SessionError,
)
from ...messages import Usage, UserMessage
from ...session.entries import EntryRow, MessageEntry, new_id, to_row
from ...session.leases import new_owner
from ...session.rows import (
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
from ...session.store import Commit, Lease, SessionState, SessionStore

__all__ = [
    "ODD",
    "StoreUnderTest",
    "an_approval",
    "an_intent",
    "an_item",
    "new_lease",
    "owner_of_a_dead_process",
    "refused",
    "rows_of",
    "said",
    "text_of",
]

ODD = "a\0b \U0001f600 \u2028 \x7f \\ \" '; DROP TABLE entry; -- é"
"""Text that somebody escapes or cuts wrongly."""


class StoreUnderTest:
    """How the store is made, and what it may do otherwise."""

    session_ids: tuple[str, ...] = ("s", "a.b_c-1", "Größe/ 'x' \"y\":1", "\U0001f600")
    """Ids that are kept as they are given. A store of files may take fewer."""
    closes = True
    """A store that was closed raises `SessionClosed`. Not where there is nothing to close."""
    tries = 100
    """How often two who race are let loose."""
    large_text = 1_000_000
    """Characters of the largest message."""
    clock_step_seconds = 0.003
    """How far apart two commits must be to be told apart by `modified_at`."""

    async def make_store(self) -> SessionStore:
        """A new, empty store, open."""
        raise NotImplementedError("say how your store is opened: `async def make_store(self)`")

    async def open_again(self, store: SessionStore) -> SessionStore:
        """A second handle on what *store* keeps, as another process has one. The same object where
        there can be no other."""
        return store

    # -- what the checks use ------------------------------------------------------------------

    @asynccontextmanager
    async def store(self) -> AsyncGenerator[SessionStore]:
        store = await self.make_store()
        try:
            yield store
        finally:
            await store.aclose()

    async def close_again(self, store: SessionStore, other: SessionStore) -> None:
        if other is not store:
            await other.aclose()

    async def clock_moves(self) -> None:
        await asyncio.sleep(self.clock_step_seconds)

    async def one_entry(self, store: SessionStore, session_id: str, entry_id: str = "") -> None:
        lease = await store.claim(session_id, new_owner(), 60)
        await store.commit(lease, Commit(entries=[said("x", entry_id=entry_id or new_id())]))
        await store.release(lease)

    async def filled(self, store: SessionStore, session_id: str) -> Lease:
        """A session with something in every table, and the lease on it."""
        lease = await store.claim(session_id, new_owner(), 60)
        spent = Usage(input=3, total_tokens=3)
        await store.commit(
            lease,
            Commit(
                entries=[said("1", entry_id="m1"), said("2", "m1", entry_id="m2")],
                lanes=[Lane(name="main", leaf_id="m2"), Lane(name="side", leaf_id="m1")],
                operations=[Operation(id="o", lane="main", request_id="r")],
                intents=[an_intent("i")],
                approvals=[an_approval(name) for name in ("used", "asked", "granted")],
                facts=[
                    Fact(namespace="custom", key="k", value=1),
                    Fact(namespace="name", value="name"),
                ],
                usage=[UsageRow(id="u", cause="assistant", usage=spent)],
                usage_total=spent,
                preview="1",
            ),
        )
        await store.decide(session_id, "used", "approved")
        await store.decide(session_id, "granted", "approved")
        await store.commit(lease, Commit(consume=[("used", "d")]))
        await store.enqueue(session_id, an_item("q"))
        return lease

    async def everything(self, store: SessionStore, session_id: str) -> list[object]:
        return [
            await store.state(session_id),
            await store.entries(session_id),
            await store.usage(session_id),
            await store.operations(session_id),
            await store.approvals(session_id),
            await store.inbox(session_id),
        ]


@contextmanager
def refused(error: type[SessionError] | type[SessionClosed]) -> Generator[list[Exception]]:
    """What is done inside raises *error*. Gives a list that has it afterwards."""
    raised: list[Exception] = []
    try:
        yield raised
    except error as found:
        raised.append(found)
        return
    raise AssertionError(f"{error.__name__} was not raised")


@asynccontextmanager
async def new_lease(store: SessionStore) -> AsyncGenerator[Lease]:
    """A new session, and the lease on it."""
    info = SessionInfo()
    await store.create(info)
    yield await store.claim(info.id, new_owner(), 60)


def rows_of(state: SessionState) -> list[object]:
    """All that is in it beside lanes."""
    return [*state.operations, *state.intents, *state.inbox, *state.approvals, *state.facts]


def said(text: str, parent_id: str | None = None, entry_id: str | None = None) -> EntryRow:
    return to_row(
        MessageEntry(
            id=entry_id or new_id(), parent_id=parent_id, message=UserMessage(content=text)
        )
    )


def text_of(row: EntryRow) -> str:
    entry = row.entry()
    assert isinstance(entry, MessageEntry)
    assert isinstance(entry.message, UserMessage)
    return entry.message.text


def an_item(
    item_id: str,
    queue: InboxQueue = "steer",
    *,
    text: str = "said",
    lane: str = "main",
    status: Any = "pending",
    request_id: str | None = None,
) -> InboxItem:
    return InboxItem(
        id=item_id,
        lane=lane,
        queue=queue,
        message=UserMessage(content=text, timestamp=7),
        request_id=request_id,
        status=status,
        created_at=7,
    )


def an_intent(intent_id: str) -> Intent:
    return Intent(
        id=intent_id,
        lane="main",
        assistant_id="m",
        index=0,
        tool_call_id="c",
        tool_name="t",
        arguments={"path": "a.txt"},
        started_at=7,
    )


def an_approval(approval_id: str, digest: str = "d") -> Approval:
    return Approval(
        id=approval_id,
        lane="main",
        tool_call_id="c",
        tool_name="t",
        arguments={"path": "a.txt"},
        digest=digest,
        requested_at=7,
    )


def owner_of_a_dead_process() -> str:
    program = "from loopwright.session.leases import new_owner; print(new_owner())"
    finished = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return finished.stdout.strip()
