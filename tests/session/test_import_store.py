"""Writing what was read to a store: all of it, or nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from loopwright.errors import SessionDamaged, SessionExists, SessionNotFound, StoreUnavailable
from loopwright.messages import AssistantMessage, TextContent, Usage, UserMessage
from loopwright.session.entries import Entry, MessageEntry
from loopwright.session.formats.importing import ImportedSession, store_imported
from loopwright.session.memory import MemoryStore
from loopwright.session.rows import Fact, InboxItem, Lane, SessionInfo, UsageRow
from loopwright.session.sqlite import SqliteStore
from loopwright.session.store import Commit, Lease


def entry(id: str, parent: str | None, text: str = "Hello") -> MessageEntry:
    return MessageEntry(
        id=id, parent_id=parent, message=UserMessage(text, timestamp=1), timestamp=1
    )


def session(count: int = 3, /, **changes: Any) -> ImportedSession:
    entries: list[Entry] = [
        entry(f"e{n}", f"e{n - 1}" if n else None, f"Message {n}") for n in range(count)
    ]
    made = ImportedSession(
        info=SessionInfo(id="s", created_at=5, modified_at=6, cwd="/work", name="Mine"),
        entries=entries,
        lanes=[Lane(name="main", leaf_id=entries[-1].id if entries else None)],
        facts=[Fact(namespace="name", value="Mine"), Fact(namespace="label", key="e0", value="a")],
        usage=[UsageRow(cause="import", usage=Usage(input=7, total_tokens=7))],
    )
    return msgspec.structs.replace(made, **changes)


class FailingStore(MemoryStore):
    """Fails at its n-th commit, as a full disk does."""

    def __init__(self, at: int) -> None:
        super().__init__()
        self.left = at

    async def commit(self, lease: Lease, commit: Commit) -> int:
        self.left -= 1
        if not self.left:
            raise StoreUnavailable("the disk is full")
        return await super().commit(lease, commit)


async def test_all_of_it_is_there_afterwards_and_the_session_is_free(tmp_path: Path) -> None:
    store = await SqliteStore.open(tmp_path / "sessions.db")

    info = await store_imported(store, session())

    assert (info.id, info.cwd, info.created_at, info.entries) == ("s", "/work", 5, 3)
    assert (info.name, info.preview, info.locked_by) == ("Mine", "Message 0", None)
    assert info.usage.input == 7
    state = await store.state("s")
    assert state.lanes == [Lane(name="main", leaf_id="e2")]
    assert [(f.namespace, f.value) for f in state.facts] == [("name", "Mine"), ("label", "a")]
    assert [row.id for row in await store.entries("s")] == ["e0", "e1", "e2"]
    await store.aclose()


async def test_many_entries_take_few_commits() -> None:
    store = FailingStore(at=0)

    info = await store_imported(store, session(12_000))

    assert info.entries == 12_000
    assert -store.left == 4


@pytest.mark.parametrize("at", [1, 2, 3, 4])
async def test_when_the_store_fails_on_the_way_nothing_stays(at: int) -> None:
    store = FailingStore(at)

    with pytest.raises(StoreUnavailable, match="full"):
        await store_imported(store, session(12_000))

    with pytest.raises(SessionNotFound):
        await store.info("s")
    store.left = 0
    assert (await store_imported(store, session())).entries == 3


async def test_an_id_that_is_taken_is_refused_and_another_can_be_given() -> None:
    store = MemoryStore()
    await store_imported(store, session())

    with pytest.raises(SessionExists, match="'s' already"):
        await store_imported(store, session(1))
    again = await store_imported(store, session(1), session_id="t")

    assert again.id == "t"
    assert (await store.info("s")).entries == 3


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"entries": [entry("a", None), entry("a", None)]}, "two entries"),
        ({"entries": [entry("b", "a"), entry("a", None)]}, "does not come before"),
        ({"lanes": [Lane(name="main", leaf_id="x")]}, "no entry"),
    ],
)
async def test_what_contradicts_itself_is_refused_before_anything_is_written(
    changes: dict[str, Any], words: str
) -> None:
    store = MemoryStore()

    with pytest.raises(SessionDamaged, match=words):
        await store_imported(store, session(3, **({"lanes": []} | changes)))

    assert await store.list() == []


async def test_ids_of_rows_that_clash_with_entries_are_made_anew() -> None:
    store = MemoryStore()
    rows = [UsageRow(id="e0", cause="import", usage=Usage(input=1))] * 2
    waiting = InboxItem(id="e1", lane="main", queue="steer", message=UserMessage("x"))

    await store_imported(store, session(usage=rows, inbox=[waiting]))

    ids = [row.id for row in await store.usage("s")]
    assert len({*ids, "e0"}) == 3
    assert (await store.inbox("s"))[0].id != "e1"
    assert (await store.info("s")).usage.input == 2


async def test_what_our_messages_have_no_field_for_stands_in_the_row() -> None:
    store = MemoryStore()
    said = AssistantMessage([TextContent("a"), TextContent("b")], timestamp=1)
    rest = {"message": {"content": {"1": {"x": 1}}, "model": "never", "responseModel": "m"}}
    message = MessageEntry(id="e", parent_id=None, message=said)

    await store_imported(store, session(entries=[message], lanes=[], facts=[], rest={"e": rest}))

    (row,) = await store.entries("s")
    payload = msgspec.json.decode(row.payload)
    assert payload["message"]["content"] == [
        {"type": "text", "text": "a"},
        {"type": "text", "text": "b", "x": 1},
    ]
    assert payload["message"]["responseModel"] == "m"
    assert payload["message"]["model"] == ""
    kept = row.entry()
    assert isinstance(kept, MessageEntry)
    assert kept.message == said


async def test_an_empty_session_can_be_imported() -> None:
    store = MemoryStore()

    info = await store_imported(store, ImportedSession(info=SessionInfo(id="s")))

    assert info.entries == 0
    assert (await store.state("s")).lanes[0].name == "main"


def test_another_process_reads_the_messages_of_pi_without_asking_for_them() -> None:
    program = """
from loopwright.session.entries import EntryRow
row = EntryRow("e", None, "message", b'{"message":{"role":"bashExecution","command":"ls"}}', 1)
print(row.entry().message.command)
"""

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert (ran.stdout, ran.stderr) == ("ls\n", "")
