"""Another process commits between two statements of a store: each answer is of one instant."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from loopwright.errors import SessionExists, SessionLocked, SessionNotFound, StoreUnavailable
from loopwright.messages import Usage, UserMessage
from loopwright.session import Session
from loopwright.session.entries import MessageEntry, to_row
from loopwright.session.leases import new_owner
from loopwright.session.rows import InboxItem, SessionInfo, UsageRow
from loopwright.session.sqlite import SqliteStore
from loopwright.session.store import Commit


async def write_a_session(path: Path) -> None:
    """What the other process does. It waits for no lock: then it has come too late."""
    try:
        async with await SqliteStore.open(path, busy_timeout_seconds=0) as store:
            await store.create(SessionInfo(id="s"))
            lease = await store.claim("s", new_owner(), 60)
            entry = MessageEntry(id="e", parent_id=None, message=UserMessage(content="hello"))
            usage = UsageRow(cause="assistant", usage=Usage(input=1))
            await store.commit(
                lease, Commit(entries=[to_row(entry)], usage=[usage], usage_total=usage.usage)
            )
            await store.enqueue(
                "s", InboxItem(id="i", lane="main", queue="steer", message=entry.message)
            )
            await store.release(lease)
    except (SessionExists, SessionLocked, StoreUnavailable):
        pass


async def texts(store: SqliteStore, session_id: str) -> list[str]:
    session = await Session.read(store, session_id)
    return [message.text for message in session.messages() if isinstance(message, UserMessage)]


class Interruption:
    """Runs *work* before the statement number *at* that is executed from now on."""

    def __init__(self) -> None:
        self.work: Callable[[], object] | None = None
        self.at = 0
        self.done = False

    def arm(self, at: int, work: Callable[[], object]) -> None:
        self.at, self.work, self.done = at, work, False

    def before_statement(self) -> None:
        work = self.work
        if work is None:
            return
        self.at -= 1
        if self.at == 0:
            self.work, self.done = None, True  # its own statements are not counted
            work()


@pytest.fixture
def interruption(monkeypatch: pytest.MonkeyPatch) -> Interruption:
    interruption = Interruption()
    connect = sqlite3.connect

    class Interrupted(sqlite3.Connection):
        def execute(self, *args: Any) -> sqlite3.Cursor:
            interruption.before_statement()
            return super().execute(*args)

    def connect_interrupted(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        return connect(*args, **{"factory": Interrupted} | kwargs)

    monkeypatch.setattr(sqlite3, "connect", connect_interrupted)
    return interruption


@contextmanager
def left_empty(path: Path) -> Iterator[None]:
    """Another process has made the file and has not come to its tables yet."""
    with closing(sqlite3.Connection(path, isolation_level=None)) as other:
        other.execute("PRAGMA journal_mode = WAL")
        other.execute("SELECT * FROM sqlite_master").fetchall()
        yield


@pytest.mark.parametrize("at", range(1, 26))
@pytest.mark.parametrize("is_empty", [True, False])
async def test_case_102_a_file_that_another_process_fills_while_it_is_opened_is_healthy(
    tmp_path: Path, interruption: Interruption, is_empty: bool, at: int
) -> None:
    path = tmp_path / "sessions.db"
    if not is_empty:
        path.touch()
    with left_empty(path) if is_empty else closing(path.open("rb")):
        interruption.arm(at, lambda: asyncio.run(write_a_session(path)))
        async with await SqliteStore.open(path) as store:
            interruption.work = None
            async with await Session.open(store, "mine") as session:
                await session.append(UserMessage(content="kept"))
            assert await texts(store, "mine") == ["kept"]


READS: dict[str, Callable[[SqliteStore], Awaitable[object]]] = {
    "info": lambda store: store.info("s"),
    "list": lambda store: store.list(),
    "entries": lambda store: store.entries("s"),
    "find": lambda store: store.find("s", ["e"]),
    "usage": lambda store: store.usage("s"),
    "operations": lambda store: store.operations("s"),
    "inbox": lambda store: store.inbox("s"),
    "approvals": lambda store: store.approvals("s"),
    "state": lambda store: store.state("s"),
}


async def answer(ask: Callable[[SqliteStore], Awaitable[object]], store: SqliteStore) -> object:
    try:
        return await ask(store)
    except SessionNotFound:
        return "not found"


@pytest.mark.parametrize("at", range(1, 6))
@pytest.mark.parametrize("name", READS)
async def test_case_102_an_answer_is_that_before_a_commit_or_that_after_it(
    tmp_path: Path, interruption: Interruption, name: str, at: int
) -> None:
    path, ask = tmp_path / "sessions.db", READS[name]
    async with await SqliteStore.open(path) as store:
        before = await answer(ask, store)
        interruption.arm(at, lambda: asyncio.run(write_a_session(path)))
        given = await answer(ask, store)
        if not interruption.done:
            return  # it takes fewer statements
        after = await answer(ask, store)

    assert after != before
    assert given in (before, after)


async def test_case_102_a_session_that_another_process_makes_meanwhile_is_opened(
    tmp_path: Path, interruption: Interruption
) -> None:
    for at in range(1, 20):
        path = tmp_path / f"{at}.db"
        async with await SqliteStore.open(path) as store:
            interruption.arm(at, lambda path=path: asyncio.run(write_a_session(path)))
            async with await Session.open(store, "s") as session:
                interruption.work = None
                await session.append(UserMessage(content="kept"))
            assert (await texts(store, "s"))[-1] == "kept"
