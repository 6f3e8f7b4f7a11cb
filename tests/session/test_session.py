"""A session that is open: what is in memory follows what was written, and nothing else."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from loopwright.errors import (
    InboxNotEmpty,
    LeaseLost,
    Misuse,
    SessionClosed,
    SessionLocked,
    SessionNotFound,
    StoreUnavailable,
)
from loopwright.messages import AssistantMessage, TextContent, Usage, UserMessage
from loopwright.session import (
    Commit,
    CompactionEntry,
    CustomEntry,
    Entry,
    InboxItem,
    MemoryStore,
    MessageEntry,
    Session,
)
from loopwright.session.rows import UsageRow
from loopwright.session.store import Lease


def said(number: int) -> UserMessage:
    return UserMessage(f"message {number}", timestamp=number)


async def fill(session: Session, count: int) -> list[str]:
    """*count* messages, written a hundred at a time. Returns the entries' ids."""
    ids: list[str] = []
    for start in range(0, count, 100):
        entries: list[Entry] = []
        for number in range(start, min(start + 100, count)):
            parent = entries[-1].id if entries else session.tip.leaf_id
            entries.append(MessageEntry(parent_id=parent, message=said(number)))
        await session.commit(Commit(lanes=[session.lane_at(entries[-1].id)]), entries)
        ids += [entry.id for entry in entries]
    return ids


async def test_a_long_branch_is_read_back_page_by_page() -> None:
    store = MemoryStore()
    async with await Session.open(store, "s") as session:
        await fill(session, 3000)
        live = session.messages()

    async with await Session.open(store, "s") as again:
        assert again.messages() == live
        assert again.info.preview == "message 0"
        assert again.info.entries == 3000


async def test_only_what_the_newest_compaction_needs_is_in_memory() -> None:
    store = MemoryStore()
    async with await Session.open(store, "s") as session:
        ids = await fill(session, 2000)
        compaction = CompactionEntry(
            parent_id=ids[-1], summary="Long talk.", first_kept_id=ids[-3], tokens_before=9
        )
        await session.commit(Commit(lanes=[session.lane_at(compaction.id)]), [compaction])
        await session.append(said(2000))
        live = [m.text for m in session.messages() if isinstance(m, UserMessage)]

    async with await Session.open(store, "s") as again:
        found = [m.text for m in again.messages() if isinstance(m, UserMessage)]
        assert len(again.entries()) == 5
        assert len(await again.history()) == 2002

    assert found == live
    assert "Long talk." in found[0]
    assert found[1:] == [f"message {n}" for n in (1997, 1998, 1999, 2000)]


async def test_two_lanes_share_a_branch_and_part_with_the_next_message() -> None:
    store = MemoryStore()
    async with await Session.open(store, "s") as session:
        await session.append(said(0))
        lane = await session.add_lane("other")
        await session.append(said(1))
        with pytest.raises(Misuse, match="other"):
            await session.add_lane("other")
        with pytest.raises(Misuse, match="no entry 'nowhere'"):
            await session.add_lane("third", at="nowhere")
    async with await Session.open(store, "s", lane="other") as other:
        await other.append(said(2))
        shown = [m.text for m in other.messages() if isinstance(m, UserMessage)]
    with pytest.raises(Misuse, match="main, other"):
        await Session.open(store, "s", lane="fourth")

    assert lane.leaf_id is not None
    assert shown == ["message 0", "message 2"]
    main = await Session.read(store, "s")
    assert [m.text for m in main.messages() if isinstance(m, UserMessage)] == [
        "message 0",
        "message 1",
    ]


async def test_names_labels_and_facts_are_told_from_their_absence() -> None:
    store = MemoryStore()
    async with await Session.open(store, "s") as session:
        entry = await session.append(said(0))
        await session.set_name("Trip")
        await session.set_label(entry.id, "start")
        await session.set_fact("nothing", None)
        await session.set_fact("gone", 1)
        await session.delete_fact("gone")
        with pytest.raises(Misuse):
            await session.set_label("nowhere", "x")

    again = await Session.read(store, "s")
    assert (again.name, again.label_of(entry.id)) == ("Trip", "start")
    customs = {fact.key: fact.value for fact in again.facts if fact.namespace == "custom"}
    assert customs == {"nothing": None}
    assert (await store.list())[0].name == "Trip"


async def test_a_program_keeps_data_in_the_tree_that_no_model_is_shown() -> None:
    store = MemoryStore()
    async with await Session.open(store, "s") as session:
        await session.append(said(0))
        await session.append_custom("note", {"first_name": "Ada"})
        await session.append(said(1))
        assert len(session.messages()) == 2
    entries = (await Session.read(store, "s")).entries()

    assert [type(entry) for entry in entries] == [MessageEntry, CustomEntry, MessageEntry]
    note = entries[1]
    assert isinstance(note, CustomEntry)
    assert note.data == {"first_name": "Ada"}
    assert entries[2].parent_id == note.id


async def test_a_failed_reply_is_kept_and_not_shown() -> None:
    store = MemoryStore()
    async with await Session.open(store, "s") as session:
        await session.append(said(0))
        failed = AssistantMessage([TextContent("par")], stop_reason="error", error_message="no")
        await session.append(failed)
        await session.append(said(1))
        assert len(session.messages()) == 2
        assert session.transcript()[1] is failed
    again = await Session.read(store, "s")

    assert len(again.messages()) == 2
    assert again.transcript()[1] == failed


async def test_one_writer_at_a_time_and_readers_always() -> None:
    store = MemoryStore()
    async with await Session.open(store, "s") as session:
        await session.append(said(0))
        with pytest.raises(SessionLocked):
            await Session.open(store, "s")
        reader = await Session.read(store, "s")
        assert len(reader.messages()) == 1
        with pytest.raises(SessionClosed, match="reading"):
            await reader.append(said(1))
    with pytest.raises(SessionClosed):
        await session.append(said(1))
    async with await Session.open(store, "s"):
        pass


async def test_a_session_is_not_made_by_looking_for_it() -> None:
    store = MemoryStore()
    with pytest.raises(SessionNotFound):
        await Session.read(store, "s")
    with pytest.raises(SessionNotFound):
        await Session.open(store, "s", create=False)
    assert await store.list() == []


class SlowStore:
    """Every commit waits until it is let through; it may then fail."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.gate = asyncio.Event()
        self.failure: Exception | None = None

    async def commit(self, lease: Any, commit: Commit) -> int:
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        return await self._store.commit(lease, commit)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


async def test_a_commit_that_was_handed_over_is_written_though_its_caller_is_cancelled() -> None:
    store: Any = SlowStore(MemoryStore())
    session = await Session.open(store, "s")
    writing = asyncio.create_task(session.append(said(0)))
    await asyncio.sleep(0)
    writing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await writing
    following = asyncio.create_task(session.append(said(1)))
    await asyncio.sleep(0)
    store.gate.set()
    second = await following
    await session.aclose()

    rows = await store.entries("s")
    assert [row.parent_id for row in rows] == [None, rows[0].id]
    assert rows[1].id == second.id
    assert len(session.messages()) == 2


async def test_after_a_commit_failed_nothing_more_is_written() -> None:
    store: Any = SlowStore(MemoryStore())
    store.gate.set()
    heard: list[Exception] = []
    session = await Session.open(store, "s")
    session.on_lost = heard.append
    await session.append(said(0))
    store.failure = StoreUnavailable("the disk is full")
    with pytest.raises(StoreUnavailable):
        await session.append(said(1))
    store.failure = None
    with pytest.raises(StoreUnavailable):
        await session.append(said(2))
    await session.aclose()

    assert len(heard) == 1
    assert len(session.messages()) == 1
    async with await Session.open(store, "s") as again:
        await again.append(said(3))
        assert len(again.messages()) == 2


async def test_a_refused_commit_changes_nothing_and_the_next_is_taken() -> None:
    store = MemoryStore()
    async with await Session.open(store, "s") as session:
        await session.append(said(0))
        await store.enqueue("s", InboxItem(lane="main", queue="steer", message=said(1)))
        leaf = session.tip
        with pytest.raises(InboxNotEmpty):
            await session.commit(Commit(lanes=[session.lane_at(None)], unless_waiting="main"))
        assert session.tip == leaf
        await session.append(said(2))
        assert len(session.messages()) == 2


async def test_whoever_lost_the_lease_hears_of_it_without_writing() -> None:
    store = MemoryStore()
    heard = asyncio.Event()
    session = await Session.open(store, "s", lease_seconds=0.04)
    session.on_lost = lambda error: heard.set()

    async def taken(lease: Any, seconds: float) -> None:
        raise LeaseLost("taken")

    store.renew = taken
    await heard.wait()
    with pytest.raises(LeaseLost):
        await session.append(said(0))
    await session.aclose()
    assert await store.entries("s") == []


class YieldingStore(MemoryStore):
    """Writes while others go on, as databases do."""

    async def commit(self, lease: Lease, commit: Commit) -> int:
        await asyncio.sleep(0)
        return await super().commit(lease, commit)


async def test_what_was_handed_over_behind_a_refused_commit_stays_on_the_branch() -> None:
    store = YieldingStore()
    async with await Session.open(store, "s") as session:
        withdrawn = await store.enqueue("s", InboxItem(lane="main", queue="cancel"))
        await store.withdraw("s", withdrawn.id)
        late = msgspec.structs.replace(withdrawn, status="placed")

        refused = session.submit(Commit(inbox=[late]))
        await session.append(said(1))
        await session.append(said(2))

        assert isinstance(refused.exception(), InboxNotEmpty)
        assert session.messages() == [said(1), said(2)]
    assert (await Session.read(store, "s")).messages() == [said(1), said(2)]


async def test_the_sum_of_the_ledger_is_without_what_was_refused() -> None:
    def spent(tokens: int) -> list[UsageRow]:
        return [UsageRow(cause="adjustment", usage=Usage(input=tokens, total_tokens=tokens))]

    store = MemoryStore()
    async with await Session.open(store, "s") as session:
        await store.enqueue("s", InboxItem(lane="main", queue="steer", message=said(0)))

        session.submit(Commit(usage=spent(5), unless_waiting="main"))
        session.submit(Commit(usage=spent(2)))
        await session.commit(Commit(usage=spent(1)))

        assert session.usage.total_tokens == 3
        assert (await store.info("s")).usage == session.usage


async def test_the_preview_is_the_first_thing_said_whoever_was_waited_for() -> None:
    async with await Session.open(MemoryStore(), "s") as session:
        await asyncio.gather(session.append(said(1)), session.append(said(2)))

        assert session.info.preview == "message 1"
