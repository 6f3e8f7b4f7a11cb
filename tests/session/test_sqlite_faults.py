"""What can happen to a file of sessions, on real files: other processes, kill -9, a full disk."""

from __future__ import annotations

import asyncio
import gc
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from loopwright.errors import (
    LeaseLost,
    LoopwrightError,
    Misuse,
    SessionClosed,
    SessionDamaged,
    SessionLocked,
    SessionNotFound,
    StoreUnavailable,
)
from loopwright.messages import UserMessage
from loopwright.session import sqlite, tables
from loopwright.session.entries import EntryRow, MessageEntry, new_id, to_row
from loopwright.session.leases import new_owner
from loopwright.session.rows import InboxItem, SessionInfo
from loopwright.session.sqlite import SqliteStore
from loopwright.session.store import Commit, Lease

PRELUDE = """
import asyncio, os, signal, sys
from loopwright.errors import LoopwrightError
from loopwright.messages import UserMessage
from loopwright.session.entries import MessageEntry, to_row
from loopwright.session.leases import new_owner
from loopwright.session.rows import InboxItem, Lane, SessionInfo
from loopwright.session.sqlite import SqliteStore
from loopwright.session.store import Commit

def said(text, parent=None):
    return to_row(MessageEntry(parent_id=parent, message=UserMessage(content=text)))

def wait_until_told():
    print("ready", flush=True)
    sys.stdin.readline()
"""

WORK_BESIDE_OTHERS = """
async def main(path, me, rounds):
    wait_until_told()
    async with await SqliteStore.open(path) as store:
        await store.create(SessionInfo(id=me))
        try:
            await store.create(SessionInfo(id="common"))
        except LoopwrightError:
            pass
        lease = await store.claim(me, new_owner(), 60)

        async def write(lane):
            for n in range(rounds):
                row = said("x" * 2000)
                await store.commit(lease, Commit(entries=[row], lanes=[Lane(name=lane)]))

        async def talk():
            for n in range(rounds):
                message = UserMessage(content=str(n))
                await store.enqueue(
                    "common", InboxItem(lane="main", queue="steer", message=message)
                )
                await store.renew(lease, 60)

        async def look():
            for n in range(rounds):
                await store.list()
                await store.state("common")
                await store.entries(me, limit=50, newest_first=True)

        await asyncio.gather(write("a"), write("b"), talk(), look())
        await store.release(lease)
    print("done")

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""

OPEN_AND_CLOSE = """
async def main(path):
    wait_until_told()
    for n in range(5):
        async with await SqliteStore.open(path) as store:
            await store.list()
    print("done")

asyncio.run(main(sys.argv[1]))
"""

WRITE_UNTIL_KILLED = """
async def main(path):
    async with await SqliteStore.open(path) as store:
        await store.create(SessionInfo(id="s"))
        lease = await store.claim("s", new_owner(), 600)
        parent = None
        while True:
            rows = [said("x" * 1000, parent)]
            rows.append(said("y" * 1000, rows[0].id))
            parent = rows[1].id
            lane = Lane(name="main", leaf_id=parent)
            head = await store.commit(lease, Commit(entries=rows, lanes=[lane]))
            print(head, flush=True)

asyncio.run(main(sys.argv[1]))
"""

WRITE_UNTIL_FULL = """
async def main(path):
    async with await SqliteStore.open(path) as store:
        await store.create(SessionInfo(id="s"))
        lease = await store.claim("s", new_owner(), 600)
        head = 0
        try:
            while head < 10_000:
                head = await store.commit(lease, Commit(entries=[said("x" * 5000)]))
        except LoopwrightError as error:
            print(type(error).__name__, error)
        else:
            print("never full")
        print(head, len(await store.entries("s")))

asyncio.run(main(sys.argv[1]))
"""

LIMIT_FILES = """
import resource
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
"""

OPEN_AND_TELL = """
async def main(path):
    try:
        store = await SqliteStore.open(path)
    except LoopwrightError as error:
        print(type(error).__name__, error)
    else:
        await store.aclose()
        print("opened")
    async with await SqliteStore.open(path, read_only=True) as store:
        print([info.id for info in await store.list()])

asyncio.run(main(sys.argv[1]))
"""


def started(program: str, *arguments: object, under: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*under, sys.executable, "-c", PRELUDE + program, *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def at_once(processes: list[subprocess.Popen[str]]) -> list[str]:
    """Let them go together once all are ready. What each said, errors included."""
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    return ["".join(process.communicate(timeout=120)) for process in processes]


def said(text: str, parent_id: str | None = None) -> EntryRow:
    return to_row(MessageEntry(parent_id=parent_id, message=UserMessage(content=text)))


async def a_session(store: SqliteStore, session_id: str = "s", entries: int = 1) -> Lease:
    await store.create(SessionInfo(id=session_id))
    lease = await store.claim(session_id, new_owner(), 60)
    for n in range(entries):
        await store.commit(lease, Commit(entries=[said(f"{n} " + "x" * 1000)]))
    return lease


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Somebody else has the write lock."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


def is_whole(path: Path) -> bool:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]


# -- several processes -----------------------------------------------------------------------


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "sessions.db"


async def test_two_processes_on_one_file_under_load_are_never_told_that_it_is_locked(
    path: Path,
) -> None:
    rounds = 100
    processes = [started(WORK_BESIDE_OTHERS, path, name, rounds) for name in ("one", "two")]

    told = at_once(processes)

    assert told == ["done\n", "done\n"]
    async with await SqliteStore.open(path) as store:
        assert len(await store.inbox("common")) == 2 * rounds
        for name in ("one", "two"):
            assert [r.seq for r in await store.entries(name)] == list(range(1, 2 * rounds + 1))
    assert is_whole(path)


def test_many_processes_may_make_the_same_file_at_once(path: Path) -> None:
    told = at_once([started(OPEN_AND_CLOSE, path) for _ in range(4)])

    assert told == ["done\n"] * 4
    assert is_whole(path)


async def test_who_waits_too_long_is_told_and_can_try_again(path: Path) -> None:
    async with await SqliteStore.open(path, busy_timeout_seconds=0.05) as store:
        lease = await a_session(store)

        with held(path), pytest.raises(StoreUnavailable, match="locked for more than 0.05 s"):
            await store.commit(lease, Commit(entries=[said("lost")]))
        head = await store.commit(lease, Commit(entries=[said("kept")]))

        assert head == 2


async def test_reading_does_not_wait_for_who_writes(path: Path) -> None:
    async with await SqliteStore.open(path, busy_timeout_seconds=0) as store:
        await a_session(store)

        with held(path):
            async with await SqliteStore.open(path, read_only=True) as reader:
                assert len(await reader.entries("s")) == 1
            assert (await store.state("s")).head == 1


async def test_the_event_loop_does_not_wait_for_a_lock(path: Path) -> None:
    async with await SqliteStore.open(path) as store:
        lease = await a_session(store)
        beats = 0

        with held(path):
            commit = asyncio.create_task(store.commit(lease, Commit(entries=[said("late")])))
            for _ in range(50):
                await asyncio.sleep(0.001)
                beats += 1
            waiting = not commit.done()

        assert waiting
        assert beats == 50
        assert await commit == 2


async def test_case_034_a_session_that_is_locked_can_be_read(path: Path) -> None:
    async with await SqliteStore.open(path) as store:
        lease = await a_session(store)
        async with await SqliteStore.open(path, read_only=True) as reader:
            (info,) = await reader.list()
            rows = await reader.entries("s")

            assert info.locked_by == lease.owner
            assert len(rows) == 1
            for refused in (
                reader.claim("s", new_owner(), 60),
                reader.create(SessionInfo()),
                reader.delete("s"),
            ):
                with pytest.raises(SessionClosed, match="opened for reading only"):
                    await refused


# -- a process that dies, or sleeps ----------------------------------------------------------


async def test_kill_9_loses_nothing_that_was_reported_as_written(path: Path) -> None:
    process = started(WRITE_UNTIL_KILLED, path)
    assert process.stdout is not None
    reported = [int(process.stdout.readline()) for _ in range(30)][-1]

    process.kill()
    rest = process.communicate()[0].split("\n")
    reported = max([reported, *(int(line) for line in rest[:-1])])

    assert is_whole(path)
    async with await SqliteStore.open(path) as store:
        rows = await store.entries("s")
        state = await store.state("s")
        assert len(rows) >= reported
        assert len(rows) % 2 == 0  # whole commits
        assert state.lanes[0].leaf_id == rows[-1].id
        assert [row.parent_id for row in rows[1:]] == [row.id for row in rows[:-1]]
        # and the lease, which had minutes to go, does not block who comes next
        lease = await store.claim("s", new_owner(), 60)
        assert await store.commit(lease, Commit(entries=[said("on")])) == len(rows) + 1


async def forced_zombie(path: Path) -> None:
    async with await SqliteStore.open(path) as mine, await SqliteStore.open(path) as theirs:
        await mine.create(SessionInfo(id="s"))
        zombie = await mine.claim("s", new_owner(), 0)  # paused until its time was up
        heir = await theirs.claim("s", new_owner(), 60)
        await theirs.commit(heir, Commit(entries=[said("the answer")]))
        with pytest.raises(LeaseLost, match="was given back or taken over; nothing was written"):
            await mine.commit(zombie, Commit(entries=[said("a second answer")]))
        assert len(await theirs.entries("s")) == 1


async def test_a_zombie_that_wakes_up_writes_nothing(path: Path) -> None:
    await forced_zombie(path)


async def test_without_the_epoch_the_zombie_would_have_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That the test above can see the fault."""
    fence = tables.in_dialect(tables.FENCE, tables.SQLITE)
    broken = fence.replace("AND epoch = ? AND owner = ?", "AND ? IS NOT NULL AND ? IS NOT NULL")
    assert broken != fence
    monkeypatch.setattr(sqlite, "_FENCE", broken)

    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE"):
        await forced_zombie(path)


# -- the medium ------------------------------------------------------------------------------


async def test_a_full_database_refuses_and_goes_on_when_there_is_room(path: Path) -> None:
    async with await SqliteStore.open(path) as store:
        lease = await a_session(store)
        pages = await store._thread.read(lambda c: c.execute("PRAGMA page_count").fetchone()[0])
        await store._thread.read(lambda c: c.execute(f"PRAGMA max_page_count = {pages}").fetchall())
        before = await store.state("s")

        commits = [store.commit(lease, Commit(entries=[said("x" * 9000)])) for _ in range(4)]
        results = await asyncio.gather(*commits, return_exceptions=True)

        assert [type(result) for result in results] == [StoreUnavailable] * 4
        assert "the disk is full; nothing was written" in str(results[0])
        assert await store.state("s") == before
        await store._thread.read(lambda c: c.execute("PRAGMA max_page_count = 99999").fetchall())
        assert await store.commit(lease, Commit(entries=[said("x" * 9000)])) == 2


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")
async def test_a_file_that_may_not_grow_keeps_what_was_reported(path: Path) -> None:
    process = started(LIMIT_FILES + WRITE_UNTIL_FULL, path)

    told, errors = process.communicate(timeout=60)

    assert errors == ""
    error, _hint, counts = told.splitlines()
    assert error.startswith("StoreUnavailable")
    reported, seen = map(int, counts.split())
    assert 0 < reported == seen
    async with await SqliteStore.open(path) as store:
        assert len(await store.entries("s")) == reported
    assert is_whole(path)


def namespaces_work(command: str) -> bool:
    """Whether this user may mount things, in a namespace of his own."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return False
    tried = subprocess.run([unshare, "-mr", "sh", "-c", command], capture_output=True, check=False)
    return tried.returncode == 0


async def test_a_disk_that_is_full_is_told_as_that(tmp_path: Path) -> None:
    mount = f"mount -t tmpfs -o size=1m none '{tmp_path}'"
    if not namespaces_work(mount):
        pytest.skip("needs user namespaces to mount a small disk")
    under = ("unshare", "-mr", "sh", "-c", f'{mount} && exec "$@"', "sh")

    process = started(WRITE_UNTIL_FULL, tmp_path / "sessions.db", under=under)
    told, errors = process.communicate(timeout=60)

    assert errors == ""
    assert "StoreUnavailable" in told
    assert "free some space" in told or "space that is left" in told
    reported, seen = map(int, told.splitlines()[-1].split())
    assert 0 < reported == seen


async def test_a_file_that_cannot_be_written_is_told_at_once_and_can_be_read(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "folder"
    path = folder / "sessions.db"
    async with await SqliteStore.open(path) as store:
        await a_session(store)
    before = path.read_bytes()
    bind = f"mount --bind '{folder}' '{folder}' && mount -o remount,bind,ro '{folder}'"
    if hasattr(os, "geteuid") and os.geteuid() == 0:  # whom no mode stops
        if not namespaces_work(bind):
            pytest.skip("root, and without user namespaces")
        under = ("unshare", "-mr", "sh", "-c", f'{bind} && exec "$@"', "sh")
    else:
        under = ()
        path.chmod(0o400)

    process = started(OPEN_AND_TELL, path, under=under)
    told, errors = process.communicate(timeout=60)

    assert errors == ""
    assert told.startswith("StoreUnavailable")
    assert "cannot be written" in told
    assert "hint: " in told
    assert told.endswith("['s']\n")
    assert path.read_bytes() == before


@pytest.mark.skipif(sys.platform == "win32", reason="an open file cannot be removed there")
@pytest.mark.parametrize("replaced", [False, True])
async def test_a_file_that_was_removed_is_not_written_to_in_secret(
    path: Path, replaced: bool
) -> None:
    async with await SqliteStore.open(path) as store:
        lease = await a_session(store)
        path.rename(path.with_name("moved.db"))
        if replaced:
            path.write_bytes(path.with_name("moved.db").read_bytes())

        with pytest.raises(StoreUnavailable, match="removed or replaced") as refusal:
            await store.commit(lease, Commit(entries=[said("lost")]))

        assert refusal.value.hint == "put it back if you have it, and open it again"
        path.with_name("moved.db").replace(path)
        assert await store.commit(lease, Commit(entries=[said("kept")])) == 2


async def test_a_corrupt_page_is_told_with_the_file_and_left_as_it_is(path: Path) -> None:
    async with await SqliteStore.open(path) as store:
        await a_session(store, entries=50)
    whole = bytearray(path.read_bytes())
    for page in range(len(whole) // 4096 // 2, len(whole) // 4096):
        whole[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    path.write_bytes(whole)

    async with await SqliteStore.open(path, read_only=True) as store:
        with pytest.raises(SessionDamaged, match="malformed") as damage:
            await store.entries("s")

    assert damage.value.where == str(path)
    assert "loopwright sessions doctor" in (damage.value.hint or "")
    assert path.read_bytes() == whole


async def test_a_row_that_cannot_be_read_is_told_with_its_session(path: Path) -> None:
    async with await SqliteStore.open(path) as store:
        lease = await a_session(store)
        await store.release(lease)
        for table, body in (("lane", '{"name":'), ("lane", '{"name":7}'), ("lane", "[]")):
            with closing(sqlite3.connect(path)) as connection, connection:
                connection.execute(f"UPDATE {table} SET body = ?", (body,))

            with pytest.raises(SessionDamaged, match="a stored Lane cannot be read") as damage:
                await store.state("s")

            assert damage.value.where == "session s"


@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("name", ["text", "torn", "foreign", "foreign meta", "foreign wal"])
async def test_a_file_that_is_not_ours_is_refused_and_left_as_it_is(
    tmp_path: Path, name: str, read_only: bool
) -> None:
    path = tmp_path / "other.db"
    if name == "text":
        path.write_text("Dear diary, today nothing happened.\n" * 100)
    elif name == "torn":
        path.write_bytes(b"SQLite format 3\0" + b"\x07" * 50)
    else:
        with closing(sqlite3.connect(path)) as connection, connection:
            if name == "foreign wal":
                connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("CREATE TABLE other (x)")
            if name == "foreign meta":
                connection.execute("CREATE TABLE meta (key, value)")
                connection.execute("INSERT INTO meta VALUES ('version', '7')")
    before = path.read_bytes()

    with pytest.raises(SessionDamaged) as damage:
        await SqliteStore.open(path, read_only=read_only)

    assert damage.value.where == str(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["other.db"]


async def test_a_crash_while_the_first_page_was_written_is_no_obstacle(tmp_path: Path) -> None:
    """A journal that must be rolled back before the file can be read, and nothing in the file."""
    crashed = tmp_path / "sessions.db"
    with closing(sqlite3.connect(crashed, isolation_level=None)) as first:
        first.execute("PRAGMA user_version = 1")  # writes the first page, and no table
    with closing(sqlite3.connect(tmp_path / "origin.db", isolation_level=None)) as origin:
        origin.execute("PRAGMA cache_size = 1")  # so that the journal is on the disk, and counts
        origin.execute("BEGIN IMMEDIATE")
        for n in range(40):
            origin.execute(f"CREATE TABLE t{n} (x)")
        shutil.copy(tmp_path / "origin.db-journal", tmp_path / "sessions.db-journal")
        origin.execute("ROLLBACK")
    assert crashed.stat().st_size == 4096

    async with await SqliteStore.open(crashed) as store:
        await a_session(store)

        assert len(await store.entries("s")) == 1


# -- paths -----------------------------------------------------------------------------------


@pytest.mark.parametrize("nowhere", ["", ":memory:", "file:sessions.db?mode=memory"])
async def test_what_is_no_file_is_refused_with_a_hint(nowhere: str) -> None:
    with pytest.raises(Misuse, match="is not the path of a file") as refusal:
        await SqliteStore.open(nowhere)

    assert refusal.value.hint == "MemoryStore() keeps sessions in memory"


async def test_a_path_that_cannot_be_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")

    for bad in (tmp_path, tmp_path / "file" / "sessions.db"):
        with pytest.raises(StoreUnavailable, match=str(bad)):
            await SqliteStore.open(bad)
    with pytest.raises(StoreUnavailable, match="cannot be opened"):
        await SqliteStore.open(tmp_path / "nothing.db", read_only=True)

    assert [file.name for file in tmp_path.iterdir()] == ["file"]


async def test_odd_names_are_taken_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "a b" / "100% sure?#1&mode=ro é.db"

    async with await SqliteStore.open(path) as store:
        await a_session(store)

    assert path.exists()
    async with await SqliteStore.open(path, read_only=True) as store:
        assert len(await store.entries("s")) == 1


@pytest.mark.skipif(sys.platform == "win32", reason="modes are of POSIX")
async def test_what_is_made_is_for_nobody_but_its_owner(tmp_path: Path) -> None:
    path = tmp_path / "new" / "folder" / "sessions.db"

    async with await SqliteStore.open(path) as store:
        await a_session(store)
        modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in path.parent.iterdir()}

    assert modes == dict.fromkeys(("sessions.db", "sessions.db-wal", "sessions.db-shm"), 0o600)
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    assert stat.S_IMODE(path.parent.parent.stat().st_mode) == 0o700


# -- the thread ------------------------------------------------------------------------------


async def test_one_bad_commit_among_many_that_share_a_flush_fails_alone(path: Path) -> None:
    async with await SqliteStore.open(path) as store:
        lease = await a_session(store, entries=0)
        rows = [said(str(n)) for n in range(20)]
        rows[7] = said("hangs", "nobody")
        rows[13] = said("hangs", "nobody")

        with held(path):  # so that they wait together
            waiting = [
                asyncio.create_task(store.commit(lease, Commit(entries=[row]))) for row in rows
            ]
            await asyncio.sleep(0)
        results = await asyncio.gather(*waiting, return_exceptions=True)

        failed = [n for n, result in enumerate(results) if isinstance(result, SessionDamaged)]
        assert failed == [7, 13]
        assert [r for r in results if isinstance(r, int)] == list(range(1, 19))
        kept = [row.id for row in await store.entries("s")]
        assert kept == [row.id for n, row in enumerate(rows) if n not in failed]


async def test_a_commit_whose_caller_was_cancelled_is_written_before_the_file_is_closed(
    path: Path,
) -> None:
    store = await SqliteStore.open(path)
    lease = await a_session(store, entries=0)

    with held(path):
        tasks = [
            asyncio.create_task(store.commit(lease, Commit(entries=[said(str(n))])))
            for n in range(5)
        ]
        await asyncio.sleep(0)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    await store.aclose()

    async with await SqliteStore.open(path) as again:
        texts = [row.payload.decode() for row in await again.entries("s")]
    assert [str(n) in text for n, text in enumerate(texts)] == [True] * 5


async def test_what_was_handed_over_before_closing_is_done(path: Path) -> None:
    store = await SqliteStore.open(path)
    lease = await a_session(store, entries=0)
    commit = asyncio.create_task(store.commit(lease, Commit(entries=[said("x")])))
    await asyncio.sleep(0)

    await asyncio.gather(store.aclose(), store.aclose())

    assert await commit == 1
    with pytest.raises(SessionClosed, match="was closed"):
        await store.list()


def test_a_store_works_in_one_event_loop_after_another(path: Path) -> None:
    store = asyncio.run(SqliteStore.open(path))

    lease = asyncio.run(a_session(store))
    head = asyncio.run(store.commit(lease, Commit(entries=[said("x")])))
    asyncio.run(store.aclose())

    assert head == 2


def threads() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name == "loopwright-sqlite"}


async def test_a_store_that_is_dropped_leaves_no_thread_behind(path: Path) -> None:
    before = threads()
    store = await SqliteStore.open(path)
    await a_session(store)
    (mine,) = threads() - before

    del store
    gc.collect()
    await asyncio.to_thread(mine.join, 10)

    assert not mine.is_alive()


async def test_an_opening_that_fails_leaves_no_thread_behind(tmp_path: Path) -> None:
    before = threads()

    with pytest.raises(LoopwrightError):
        await SqliteStore.open(tmp_path)
    for thread in threads() - before:
        await asyncio.to_thread(thread.join, 10)

    assert threads() - before == set()


async def test_a_program_that_forgets_to_close_its_store_can_exit(path: Path) -> None:
    program = """
async def main(path):
    global store
    store = await SqliteStore.open(path)
    await store.create(SessionInfo(id="s"))

asyncio.run(main(sys.argv[1]))
"""
    told = await asyncio.to_thread(started(program, path).communicate, timeout=30)

    assert told == ("", "")
    async with await SqliteStore.open(path) as store:
        assert (await store.info("s")).id == "s"


async def test_who_is_refused_is_told_who_has_it_and_what_to_do(path: Path) -> None:
    async with await SqliteStore.open(path) as store:
        await a_session(store)

        with pytest.raises(SessionLocked) as refusal:
            await store.claim("s", new_owner(), 60)

        assert f"process {os.getpid()} on " in str(refusal.value)
        assert "(this process); its lease lasts until " in str(refusal.value)
        assert refusal.value.hint == "open it for reading, fork it, or wait until the other is done"


async def test_ids_that_cannot_be_stored_as_they_are_are_refused(path: Path) -> None:
    async with await SqliteStore.open(path) as store:
        lease = await a_session(store, entries=0)

        for bad in ("a\0b", "half \ud83d"):
            with pytest.raises(Misuse, match="cannot be stored as it is"):
                await store.create(SessionInfo(id=bad))
            row = to_row(MessageEntry(id=bad, parent_id=None, message=UserMessage(content="")))
            with pytest.raises(Misuse, match="cannot be stored as it is"):
                await store.commit(lease, Commit(entries=[row]))
            with pytest.raises(SessionNotFound):
                await store.entries(bad)
            assert await store.find("s", [bad, new_id()]) == []
            item = InboxItem(lane="main", queue="steer", request_id=bad)
            with pytest.raises(Misuse, match="cannot be stored as it is"):
                await store.enqueue("s", item)


async def test_a_limit_below_nothing_is_refused(path: Path) -> None:
    async with await SqliteStore.open(path) as store:
        await a_session(store)

        with pytest.raises(Misuse, match="a limit of -1 rows"):
            await store.entries("s", limit=-1)
        with pytest.raises(Misuse, match="a limit of -1 rows"):
            await store.list(limit=-1)


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes")
@pytest.mark.parametrize("read_only", [False, True])
async def test_a_pipe_in_the_place_of_the_file_is_refused_at_once(
    path: Path, read_only: bool
) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    os.mkfifo(path)

    with pytest.raises(StoreUnavailable, match="no regular file"):
        await asyncio.wait_for(SqliteStore.open(path, read_only=read_only), 30)
