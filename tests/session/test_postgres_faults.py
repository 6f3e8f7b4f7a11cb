"""The store in PostgreSQL when processes, servers and connections fail.

The processes and servers here are real, and are really killed.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from loopwright.errors import (
    InboxNotEmpty,
    LeaseLost,
    MissingExtra,
    Misuse,
    SessionClosed,
    SessionDamaged,
    SessionLocked,
    SessionTooNew,
    StoreUnavailable,
)
from loopwright.messages import UserMessage
from loopwright.session import columns, postgres_pool, tables
from loopwright.session.entries import EntryRow, MessageEntry, to_row
from loopwright.session.leases import new_owner
from loopwright.session.postgres import PostgresStore
from loopwright.session.postgres_commit import write
from loopwright.session.rows import Fact, InboxItem, Lane, SessionInfo
from loopwright.session.store import Commit

from .postgres_server import PostgresServer

ELSEWHERE = "other-host:1:-:0"
"""An owner of whom this machine cannot know whether it is alive."""


def said(text: str, parent_id: str | None = None, **more: Any) -> EntryRow:
    return to_row(MessageEntry(parent_id=parent_id, message=UserMessage(text), **more))


def text_of(row: EntryRow) -> str:
    entry = row.entry()
    assert isinstance(entry, MessageEntry)
    assert isinstance(entry.message, UserMessage)
    return entry.message.text


@contextlib.asynccontextmanager
async def raw(url: str) -> AsyncGenerator[Any]:
    """A connection of the test's own, which sees and locks what it likes."""
    connection = await postgres_pool.driver().connect(url)
    await connection.execute("SET search_path = loopwright")
    try:
        yield connection
    finally:
        await connection.close()


async def until(truth: Callable[[], Awaitable[Any]], seconds: float = 20) -> None:
    """Wait until *truth* holds, which it will: the time is only for a broken test to end."""
    async with asyncio.timeout(seconds):
        while not await truth():
            await asyncio.sleep(0.005)


async def someone_waits(connection: Any) -> None:
    """Wait until a statement stands before a lock."""
    sql = """SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'"""
    await until(lambda: connection.fetchval(sql))


LOCK = "SELECT 1 FROM session FOR UPDATE"


# -- the server goes away ----------------------------------------------------------------------


async def test_work_goes_on_after_the_server_was_restarted(
    stoppable_postgres: PostgresServer,
) -> None:
    store = await PostgresStore.open(stoppable_postgres.url, schema="restarted")
    await store.create(SessionInfo(id="s"))
    lease = await store.claim("s", new_owner(), 60)
    first = said("before")
    await store.commit(lease, Commit(entries=[first]))

    stoppable_postgres.stop()
    reading = asyncio.create_task(store.entries("s"))
    writing = asyncio.create_task(store.commit(lease, Commit(entries=[said("after", first.id)])))
    await asyncio.sleep(0)  # both have begun, and found nobody
    await asyncio.to_thread(stoppable_postgres.start)

    outcomes = await asyncio.gather(reading, writing, return_exceptions=True)
    if isinstance(outcomes[1], StoreUnavailable):  # its connection broke under its hands
        await store.commit(lease, Commit(entries=[said("after", first.id)]))
    assert [row.entry().seq for row in await store.entries("s")] == [1, 2]
    await store.renew(lease, 60)
    await store.aclose()


async def test_a_call_that_finds_no_server_says_so_after_its_time(
    stoppable_postgres: PostgresServer,
) -> None:
    url = stoppable_postgres.url
    store = await PostgresStore.open(url, schema="gone", reconnect_seconds=0.2)
    await store.create(SessionInfo(id="s"))
    stoppable_postgres.stop()

    with contextlib.suppress(StoreUnavailable):
        await store.info("s")  # may still believe in its old connection
    with pytest.raises(StoreUnavailable, match=f"127.0.0.1:{urlsplit(url).port}/postgres"):
        await store.info("s")

    await store.aclose()


class Proxy:
    """Stands between a store and the server, and can lose what the server answers."""

    def __init__(self, url: str) -> None:
        self._to = urlsplit(url)
        self.deaf = False
        """What the server says is thrown away, and the connection with it."""

    async def __aenter__(self) -> str:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        netloc = f"{self._to.username}:{self._to.password}@127.0.0.1:{port}"
        return self._to._replace(netloc=netloc).geturl()

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert self._to.hostname
        there, back = await asyncio.open_connection(self._to.hostname, self._to.port)
        try:
            async with asyncio.TaskGroup() as group:
                up = group.create_task(self._pass_on(reader, back))
                await self._pass_on(there, writer, losing=True)
                up.cancel()
        finally:
            writer.close()
            back.close()

    async def _pass_on(
        self, source: asyncio.StreamReader, to: asyncio.StreamWriter, *, losing: bool = False
    ) -> None:
        while data := await source.read(65536):
            if losing and self.deaf:
                return
            to.write(data)
            await to.drain()


async def test_a_commit_whose_answer_was_lost_is_neither_reported_nor_repeated(
    postgres_url: str,
) -> None:
    proxy = Proxy(postgres_url)
    async with proxy as url, await PostgresStore.open(url) as store:
        await store.create(SessionInfo(id="s"))
        lease = await store.claim("s", new_owner(), 60)
        await store.commit(lease, Commit(entries=[said("prepares the statement")]))
        entry = said("written, and nobody heard")

        proxy.deaf = True
        with pytest.raises(StoreUnavailable, match="whether it was written is not known"):
            await store.commit(lease, Commit(entries=[entry]))
        proxy.deaf = False

        assert [row.id for row in await store.find("s", [entry.id])] == [entry.id]
        assert (await store.state("s")).head == 2
        with pytest.raises(SessionDamaged, match="there already"):  # so trying again is safe
            await store.commit(lease, Commit(entries=[entry]))


async def test_a_commit_whose_connection_was_cut_before_it_wrote_is_not_repeated(
    postgres_url: str,
) -> None:
    async with await PostgresStore.open(postgres_url) as store, raw(postgres_url) as other:
        await store.create(SessionInfo(id="s"))
        lease = await store.claim("s", new_owner(), 60)
        commit = Commit(entries=[said("cut")], lanes=[Lane(name="main")])
        async with other.transaction():
            await other.execute(LOCK)
            writing = asyncio.create_task(store.commit(lease, commit))
            await someone_waits(other)

            await other.execute(
                """SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                WHERE datname = current_database() AND wait_event_type = 'Lock'"""
            )

            with pytest.raises(StoreUnavailable, match="whether it was written is not known"):
                await writing
        assert await store.entries("s") == []
        assert await store.commit(lease, commit) == 1


# -- who may write -----------------------------------------------------------------------------


async def test_the_clocks_of_workers_do_not_matter(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await PostgresStore.open(postgres_url) as store:
        await store.create(SessionInfo(id="s"))
        await store.claim("s", ELSEWHERE, 600)
        now = time.time_ns()

        with monkeypatch.context() as patch:  # this machine is a day ahead
            patch.setattr(time, "time_ns", lambda: now + 86_400 * 10**9)
            patch.setattr(time, "time", lambda: now / 1e9 + 86_400)

            with pytest.raises(SessionLocked, match="other-host"):
                await store.claim("s", new_owner(), 60)
            assert (await store.info("s")).locked_by == ELSEWHERE


async def test_a_lease_runs_out_by_the_clock_of_the_server(postgres_url: str) -> None:
    async with await PostgresStore.open(postgres_url) as store, raw(postgres_url) as other:
        await store.create(SessionInfo(id="s"))
        await store.claim("s", ELSEWHERE, 0.3)
        ended = "SELECT lease_until <= extract(epoch FROM clock_timestamp()) * 1000 FROM session"

        early = await asyncio.gather(store.claim("s", new_owner(), 60), return_exceptions=True)
        over_by_then = await other.fetchval(ended)
        await until(lambda: other.fetchval(ended))
        heir = await store.claim("s", new_owner(), 60)

        assert isinstance(early[0], SessionLocked) or over_by_then
        assert heir.epoch >= 2


_LOCKER = """
import asyncio, sys
from loopwright.session.leases import new_owner
from loopwright.session.postgres import PostgresStore

async def main(url):
    store = await PostgresStore.open(url)
    await store.claim("s", new_owner(), 3600)
    async with store._pool.transaction() as connection:
        await connection.execute("SELECT 1 FROM session FOR UPDATE")
        print("locked", flush=True)
        await asyncio.sleep(3600)

asyncio.run(main(sys.argv[1]))
"""


async def test_a_session_held_by_a_killed_process_is_free_at_once(postgres_url: str) -> None:
    async with await PostgresStore.open(postgres_url) as store:
        await store.create(SessionInfo(id="s"))
        process = subprocess.Popen(
            [sys.executable, "-c", _LOCKER, postgres_url], stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        assert await asyncio.to_thread(process.stdout.readline) == b"locked\n"

        process.kill()
        process.wait()
        process.stdout.close()

        async with asyncio.timeout(10):
            assert (await store.claim("s", new_owner(), 60)).epoch == 2


async def test_who_stops_in_the_middle_of_a_transaction_does_not_lock_others_out_for_ever(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(postgres_pool._SETTINGS, "idle_in_transaction_session_timeout", "1s")
    async with await PostgresStore.open(postgres_url) as store:
        await store.create(SessionInfo(id="s"))

        with pytest.raises(StoreUnavailable):
            async with store._pool.transaction() as connection:
                await connection.execute(LOCK)
                await store.claim("s", new_owner(), 60)  # waits until the server has had enough
                await connection.execute("SELECT 1")

        assert (await store.info("s")).locked_by is not None


_WORKER = """
import asyncio, sys
from loopwright.errors import LeaseLost, SessionExists, SessionLocked
from loopwright.messages import UserMessage
from loopwright.session.entries import MessageEntry, to_row
from loopwright.session.leases import new_owner
from loopwright.session.postgres import PostgresStore
from loopwright.session.rows import Lane, SessionInfo
from loopwright.session.store import Commit

async def append(store, lease, text):
    lanes = (await store.state(lease.session_id)).lanes
    entry = MessageEntry(parent_id=lanes[0].leaf_id, message=UserMessage(text))
    commit = Commit(entries=[to_row(entry)], lanes=[Lane(name="main", leaf_id=entry.id)])
    await store.commit(lease, commit)

async def main(url, name):
    store = await PostgresStore.open(url, pool_size=2)
    for session_id in (name, "shared"):
        try:
            await store.create(SessionInfo(id=session_id))
        except SessionExists:
            pass
    mine = await store.claim(name, new_owner(), 60)
    done = 0
    while done < 30:
        await append(store, mine, f"{name} {done}")
        try:
            lease = await store.claim("shared", new_owner(), 60)
        except SessionLocked:
            continue
        await append(store, lease, f"{name} {done}")
        await store.release(lease)
        done += 1
    await store.aclose()

asyncio.run(main(*sys.argv[1:]))
"""


async def test_two_processes_share_one_session_and_lose_nothing(postgres_url: str) -> None:
    names = ["left", "right"]

    # Both also make the tables, at the same time.
    processes = [
        await asyncio.create_subprocess_exec(sys.executable, "-c", _WORKER, postgres_url, name)
        for name in names
    ]
    codes = [await process.wait() for process in processes]

    assert codes == [0, 0]
    async with await PostgresStore.open(postgres_url) as store:
        rows = await store.entries("shared")
        assert [row.seq for row in rows] == list(range(1, 61))
        assert [row.parent_id for row in rows] == [None, *(row.id for row in rows[:-1])]
        texts = [text_of(row) for row in rows]
        for name in names:
            assert [t for t in texts if t.startswith(name)] == [f"{name} {n}" for n in range(30)]
            own = await store.entries(name)
            assert len(own) >= 30
            assert [row.seq for row in own] == list(range(1, len(own) + 1))


async def zombie_and_heir(url: str) -> list[str]:
    """One pauses before its commit, another takes over and finishes, the first one goes on."""
    async with await PostgresStore.open(url) as store, await PostgresStore.open(url) as other:
        await store.create(SessionInfo(id="s"))
        zombie = await store.claim("s", new_owner(), 0)
        heir = await other.claim("s", new_owner(), 60)
        await other.commit(heir, Commit(entries=[said("heir", id="heir")]))
        with contextlib.suppress(LeaseLost):
            await store.commit(zombie, Commit(entries=[said("zombie", id="zombie")]))
        return [row.id for row in await other.entries("s")]


async def test_a_zombie_writes_nothing(postgres_url: str) -> None:
    assert await zombie_and_heir(postgres_url) == ["heir"]


async def test_without_the_epoch_the_zombie_would_write(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above can fail, and the epoch is what keeps it from failing."""
    fence = tables.FENCE.replace("epoch = ? AND owner = ?", "(epoch = ? AND owner = ? OR true)")
    assert fence != tables.FENCE
    monkeypatch.setattr(tables, "FENCE", fence)

    assert await zombie_and_heir(postgres_url) == ["heir", "zombie"]


@pytest.mark.parametrize(
    "commit",
    [
        Commit(entries=[said("zombie")]),
        Commit(facts=[Fact(namespace="name", value="zombie")]),
        Commit(unless_waiting="main"),
    ],
    ids=["one statement", "locked first", "empty"],
)
async def test_a_commit_that_waits_while_its_lease_is_taken_is_refused(
    postgres_url: str, commit: Commit
) -> None:
    async with await PostgresStore.open(postgres_url) as store, raw(postgres_url) as other:
        await store.create(SessionInfo(id="s"))
        lease = await store.claim("s", new_owner(), 60)
        async with other.transaction():
            await other.execute("UPDATE session SET epoch = epoch + 1, owner = 'heir'")
            writing = asyncio.create_task(store.commit(lease, commit))
            await someone_waits(other)
        # The heir's claim is committed only now.

        with pytest.raises(LeaseLost):
            await writing

        state = await store.state("s")
        assert (state.head, state.info.name) == (0, None)


async def test_a_run_does_not_end_past_a_message_that_is_just_being_said(postgres_url: str) -> None:
    async with await PostgresStore.open(postgres_url) as store, raw(postgres_url) as other:
        await store.create(SessionInfo(id="s"))
        lease = await store.claim("s", new_owner(), 60)
        item = InboxItem(lane="main", queue="followUp", message=UserMessage("one more thing"))
        async with other.transaction():
            # What `enqueue` does, stopped before its end.
            await other.execute(LOCK)
            await other.execute(
                """INSERT INTO inbox (session_id, id, lane, queue, status, body)
                VALUES ('s', $1, 'main', 'followUp', 'pending', $2)""",
                item.id,
                item.to_json().decode(),
            )
            ending = asyncio.create_task(store.commit(lease, Commit(unless_waiting="main")))
            await someone_waits(other)

        with pytest.raises(InboxNotEmpty):
            await ending

        assert await store.inbox("s") == [item]


async def test_what_is_said_during_a_commit_is_said_after_it(postgres_url: str) -> None:
    async with await PostgresStore.open(postgres_url) as store, raw(postgres_url) as other:
        await store.create(SessionInfo(id="s"))
        item = InboxItem(lane="main", queue="steer", message=UserMessage("wait"))
        async with other.transaction():
            await other.execute(LOCK)  # as a commit does, and is not at its end

            saying = asyncio.create_task(store.enqueue("s", item))
            await someone_waits(other)

            assert await store.inbox("s") == []
        assert await saying == item
        assert await store.inbox("s") == [item]


# -- one store, many tasks ---------------------------------------------------------------------


async def test_more_tasks_than_connections_do_not_wait_for_each_other_for_ever(
    postgres_url: str,
) -> None:
    async with await PostgresStore.open(postgres_url, pool_size=2) as store:
        await store.create(SessionInfo(id="s"))
        lease = await store.claim("s", new_owner(), 60)

        async def all_of_it(n: int) -> None:
            await store.enqueue("s", InboxItem(lane="main", queue="nextRun", id=f"i{n}"))
            await store.commit(lease, Commit(entries=[said(str(n))]))
            await store.commit(lease, Commit(facts=[Fact(namespace="name", value=str(n))]))
            await store.state("s")
            await store.withdraw("s", f"i{n}")
            await store.renew(lease, 60)
            await store.list()

        async with asyncio.timeout(60):
            await asyncio.gather(*(all_of_it(n) for n in range(30)))

        state = await store.state("s")
        assert (state.head, state.info.entries, state.inbox) == (60, 30, [])


@pytest.mark.parametrize("locked_first", [False, True])
async def test_a_cancelled_commit_leaves_the_connection_clean(
    postgres_url: str, locked_first: bool
) -> None:
    never = Commit(entries=[said("never")], unless_waiting="main" if locked_first else None)
    async with (
        await PostgresStore.open(postgres_url, pool_size=1) as store,
        raw(postgres_url) as other,
    ):
        await store.create(SessionInfo(id="s"))
        lease = await store.claim("s", new_owner(), 60)
        for _ in range(5):
            async with other.transaction():
                await other.execute(LOCK)
                writing = asyncio.create_task(store.commit(lease, never))
                await someone_waits(other)
                writing.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await writing

        assert await store.commit(lease, Commit(entries=[said("next")])) == 1
        assert await other.fetchval("SELECT count(*) FROM pg_locks WHERE NOT granted") == 0


async def test_closing_does_not_wait_for_ever_for_a_call_that_hangs(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_pool, "_CLOSE_SECONDS", 0.1)
    store = await PostgresStore.open(postgres_url, pool_size=1)
    await store.create(SessionInfo(id="s"))
    lease = await store.claim("s", new_owner(), 60)
    async with raw(postgres_url) as other, other.transaction():
        await other.execute(LOCK)
        hanging = asyncio.create_task(store.commit(lease, Commit(entries=[said("x")])))
        await someone_waits(other)
        waiting = asyncio.create_task(store.list())
        await asyncio.sleep(0)

        await store.aclose()

        with pytest.raises(StoreUnavailable, match="not known"):
            await hanging
        with pytest.raises(SessionClosed):
            await waiting
    with pytest.raises(SessionClosed):
        await store.list()


async def test_a_commit_to_a_long_session_reads_no_more_than_one_to_a_short_session(
    postgres_url: str,
) -> None:
    """The server keeps the plan it made while the session was short."""
    async with await PostgresStore.open(postgres_url, pool_size=1) as store:
        await store.create(SessionInfo(id="s"))
        lease = await store.claim("s", new_owner(), 60)
        last = None
        for _ in range(20):
            row = said("x", last)
            last = row.id
            await store.commit(lease, Commit(entries=[row], lanes=[Lane(name="main")]))
        await store.commit(lease, Commit(entries=[said("x") for _ in range(2_000)]))

        reads = """SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)
            FROM pg_stat_xact_user_tables WHERE relname = 'entry'"""
        async with store._pool.transaction() as connection:
            before = await connection.fetchval(reads)
            more = columns.writes(Commit(entries=[said("x", last)], lanes=[Lane(name="main")]))
            await write(connection, lease, more)
            after = await connection.fetchval(reads)

        assert after - before <= 2


# -- opening -----------------------------------------------------------------------------------


async def test_many_may_open_an_empty_database_at_once(postgres_url: str) -> None:
    stores = await asyncio.gather(*(PostgresStore.open(postgres_url) for _ in range(8)))

    await stores[0].create(SessionInfo(id="s"))

    for store in stores:
        assert [info.id for info in await store.list()] == ["s"]
        await store.aclose()


async def test_stores_in_different_schemas_know_nothing_of_each_other(postgres_url: str) -> None:
    one = await PostgresStore.open(postgres_url, schema="one")
    two = await PostgresStore.open(postgres_url, schema="Two")

    await one.create(SessionInfo(id="s"))

    assert await two.list() == []
    await one.aclose()
    await two.aclose()


async def test_a_later_format_is_refused_and_left_alone(postgres_url: str) -> None:
    await (await PostgresStore.open(postgres_url)).aclose()
    async with raw(postgres_url) as other:
        await other.execute("UPDATE meta SET value = '99'")

        with pytest.raises(SessionTooNew, match="format 99"):
            await PostgresStore.open(postgres_url)

        assert await other.fetchval("SELECT value FROM meta") == "99"


async def test_an_earlier_format_is_brought_up_to_date_by_one_of_many(postgres_url: str) -> None:
    async with await PostgresStore.open(postgres_url) as store:
        await store.create(SessionInfo(id="s"))
        lease = await store.claim("s", new_owner(), 60)
        await store.commit(lease, Commit(entries=[said("kept")]))
    async with raw(postgres_url) as other:  # what version 1 did not have
        await other.execute("DROP TABLE approval; ALTER TABLE session DROP COLUMN preview")
        await other.execute("UPDATE meta SET value = '1'")

    stores = await asyncio.gather(*(PostgresStore.open(postgres_url) for _ in range(4)))

    await stores[0].commit(lease, Commit(preview="new"))
    assert (await stores[1].info("s")).preview == "new"
    assert await stores[2].approvals("s") == []
    assert len(await stores[3].entries("s")) == 1
    for store in stores:
        await store.aclose()


@pytest.mark.parametrize(
    "tables_of_another",
    [
        "CREATE TABLE meta (id INT)",
        "CREATE TABLE meta (key TEXT, value TEXT)",
        "CREATE TABLE usage (id INT)",
    ],
)
async def test_tables_of_another_program_are_left_alone(
    postgres_url: str, tables_of_another: str
) -> None:
    async with raw(postgres_url) as other:
        await other.execute(f"CREATE SCHEMA loopwright; {tables_of_another}")

        with pytest.raises(SessionDamaged, match="another program"):
            await PostgresStore.open(postgres_url)

        sql = "SELECT count(*) FROM pg_tables WHERE schemaname = 'loopwright'"
        assert await other.fetchval(sql) == 1


async def test_a_user_who_may_not_create_schemas_uses_one_that_is_there(postgres_url: str) -> None:
    parts = urlsplit(postgres_url)
    user = parts.path.strip("/")  # roles are the server's, so the name is this test's own
    netloc = f"{user}:secret@{parts.hostname}:{parts.port}"
    url = parts._replace(netloc=netloc).geturl()
    async with raw(postgres_url) as other:
        await other.execute(f"CREATE ROLE {user} LOGIN PASSWORD 'secret'")
        try:
            with pytest.raises(StoreUnavailable, match="permission denied"):
                await PostgresStore.open(url)
            await other.execute(f"CREATE SCHEMA loopwright AUTHORIZATION {user}")

            async with await PostgresStore.open(url) as store:
                await store.create(SessionInfo(id="s"))
                assert len(await store.list()) == 1
        finally:
            await other.execute(f"DROP OWNED BY {user}; DROP ROLE {user}")


async def test_a_database_that_must_not_be_written_can_be_read(postgres_url: str) -> None:
    async with await PostgresStore.open(postgres_url) as store, raw(postgres_url) as other:
        await store.create(SessionInfo(id="s"))
        lease = await store.claim("s", new_owner(), 60)
        name = urlsplit(postgres_url).path.strip("/")
        await other.execute(f"ALTER DATABASE {name} SET default_transaction_read_only = on")

        async with await PostgresStore.open(postgres_url) as reader:
            with pytest.raises(StoreUnavailable, match="read-only"):
                await reader.commit(lease, Commit(entries=[said("x")]))

            assert len(await reader.list()) == 1
            assert await reader.entries("s") == []


async def test_the_length_of_a_commit_does_not_matter(postgres_url: str) -> None:
    """Postgres takes 65,535 parameters in one statement, and ours has one for each column."""
    async with await PostgresStore.open(postgres_url) as store:
        await store.create(SessionInfo(id="s"))
        lease = await store.claim("s", new_owner(), 60)
        rows = [said(str(n)) for n in range(10_000)]

        assert await store.commit(lease, Commit(entries=rows)) == 10_000

        assert [row.id for row in await store.entries("s")] == [row.id for row in rows]
        assert len(await store.find("s", [row.id for row in rows[:1_200]])) == 1_200


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://ann:hunter2@127.0.0.1:1/db",  # nobody listens there
        "postgresql://ann:hunter2/x@127.0.0.1:5432/db",  # what should be written %2F
        "postgresql://ann:12/hunter2@127.0.0.1/db",
        "postgresql://ann:hunter2#x@127.0.0.1/db",
        "postgresql://ann:hunter2@127.0.0.1:port/db",
        "postgresql://ann:hunter2@[127.0.0.1/db",
        "mysql://ann:hunter2@127.0.0.1/db",
        "ann:hunter2@127.0.0.1",
        "postgresql://ann@127.0.0.1:1/db?password=hunter2",
        "postgresql://ann@127.0.0.1:1/db?password=hunter2&sslmode=nonsense",
    ],
)
async def test_no_error_has_the_password_in_it(url: str) -> None:
    with pytest.raises(StoreUnavailable) as refusal:
        await PostgresStore.open(url)

    told = "".join(traceback.format_exception(refusal.value, chain=True))
    told = told.replace(url, "") if f"open({url!r}" in told else told
    assert "hunter2" not in told
    assert "ann" not in str(refusal.value).replace("cannot", "")


async def test_a_wrong_password_is_reported_without_it(postgres_url: str) -> None:
    parts = urlsplit(postgres_url)
    netloc = f"postgres:hunter2@{parts.hostname}:{parts.port}"

    with pytest.raises(StoreUnavailable, match="password authentication failed") as refusal:
        await PostgresStore.open(parts._replace(netloc=netloc).geturl())

    assert "hunter2" not in "".join(traceback.format_exception(refusal.value))


async def test_a_store_shows_where_it_is_and_not_who_asks(postgres_url: str) -> None:
    parts = urlsplit(postgres_url)
    async with await PostgresStore.open(postgres_url) as store:
        shown = f"{store!r} {store} {vars(store)}"

    assert f"{parts.hostname}:{parts.port}{parts.path}" in repr(store)
    assert parts.password
    assert parts.password not in shown


async def test_without_the_driver_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "asyncpg", None)
    postgres_pool.driver.cache_clear()

    with pytest.raises(MissingExtra, match=r"loopwright\[postgres\]"):
        await PostgresStore.open("postgresql://localhost/db")


@pytest.mark.parametrize("schema", ["", 'a"b', "1a", "a b", "a\0", "x" * 64])
async def test_a_schema_that_cannot_be_one_is_refused(schema: str) -> None:
    with pytest.raises(Misuse, match="schema"):
        await PostgresStore.open("postgresql://127.0.0.1:1/db", schema=schema)


# -- the server of these tests -----------------------------------------------------------------

_STARTER = """
import sys, time
sys.path.insert(0, sys.argv[1])
from postgres_server import start_server
print(start_server().url, flush=True)
time.sleep(3600)
"""


async def test_the_server_is_gone_when_the_tests_were_killed(
    own_postgres_server: PostgresServer,
) -> None:
    folder = str(Path(__file__).parent)
    starter = subprocess.Popen(
        [sys.executable, "-c", _STARTER, folder], stdout=subprocess.PIPE, text=True
    )
    assert starter.stdout is not None
    url = urlsplit(await asyncio.to_thread(starter.stdout.readline))
    assert url.hostname
    assert url.port
    address = (url.hostname, url.port)
    socket.create_connection(address).close()

    os.kill(starter.pid, signal.SIGKILL)
    starter.wait()
    starter.stdout.close()

    async def refuses() -> bool:
        try:
            socket.create_connection(address).close()
        except ConnectionRefusedError:
            return True
        except ConnectionResetError:
            pass  # it is just going
        return False

    await until(refuses)
