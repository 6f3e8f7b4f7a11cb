"""What it costs to keep a session in SQLite: commits, lists, and sessions that grew long.

Everything is timed by the clock on the wall, since a commit is mostly waiting for the disk.
"""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

from loopwright.messages import Usage, UserMessage
from loopwright.session.entries import MessageEntry, new_id, to_row
from loopwright.session.leases import new_owner
from loopwright.session.rows import Lane, LaneConfig, SessionInfo, UsageRow
from loopwright.session.sqlite import SqliteStore
from loopwright.session.store import Commit, Lease

from ..measure import interleaved
from ..report import Row
from ..sizes import Sizes
from ..subject import Peer, Work

__all__ = ["measure"]

_TEXT = "x" * 2_000
_SIDE_BY_SIDE = 8
_CONFIG = LaneConfig(provider="p", model_id="m")


def measure(peers: Sequence[Peer], sizes: Sizes) -> list[Row]:
    """The rows of this work."""
    with TemporaryDirectory(prefix="loopwright-bench-") as folder, ExitStack() as stack:
        place = _Place(Path(folder), stack)
        return [*_commits(place, sizes), _listing(place, sizes), *_long(place, sizes)]


class _Place:
    """Where the databases are; those that were opened are closed in the end."""

    def __init__(self, folder: Path, stack: ExitStack) -> None:
        self._folder = folder
        self._stack = stack

    def path(self) -> Path:
        return self._folder / f"{new_id()}.db"

    def store(self) -> SqliteStore:
        store = asyncio.run(SqliteStore.open(self.path()))
        self._stack.callback(lambda: asyncio.run(store.aclose()))
        return store


def _commits(place: _Place, sizes: Sizes) -> list[Row]:
    count = sizes.commits
    contestants: dict[str, tuple[Callable[[], Work], int]] = {
        "bare": (partial(_bare, place, count), count),
        "one": (partial(_one_session, place, count), count),
        "many": (partial(_many_sessions, place, count), count * _SIDE_BY_SIDE),
    }
    best = interleaved(contestants, sizes.rounds, waits=True)
    bare = best["bare"] / count
    return [
        Row(
            "a committed message of 2 KB, with lane and usage",
            "of bare sqlite3",
            {"loopwright": best["one"] / count / bare},
            at_most=2,
            note=f"{best['one'] / count * 1e6:.0f} µs, bare {bare * 1e6:.0f} µs",
        ),
        Row(
            f"the same in {_SIDE_BY_SIDE} sessions at once",
            "of bare sqlite3",
            {"loopwright": best["many"] / count / _SIDE_BY_SIDE / bare},
            at_most=1,
        ),
    ]


def _bare(place: _Place, count: int) -> Work:
    connection = sqlite3.connect(place.path(), isolation_level=None, check_same_thread=False)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE message (id INTEGER PRIMARY KEY, body TEXT NOT NULL)")

    async def work() -> int:
        for _ in range(count):
            connection.execute("BEGIN IMMEDIATE")
            connection.execute("INSERT INTO message (body) VALUES (?)", (_TEXT,))
            connection.execute("COMMIT")
        ((done,),) = connection.execute("SELECT count(*) FROM message").fetchall()
        connection.close()
        return done

    return work


def _one_session(place: _Place, count: int) -> Work:
    store = place.store()
    lease = asyncio.run(_new_session(store))

    async def work() -> int:
        await _say(store, lease, count)
        return (await store.info(lease.session_id)).entries

    return work


def _many_sessions(place: _Place, count: int) -> Work:
    store = place.store()
    leases = [asyncio.run(_new_session(store)) for _ in range(_SIDE_BY_SIDE)]

    async def work() -> int:
        async with asyncio.TaskGroup() as group:
            for lease in leases:
                group.create_task(_say(store, lease, count))
        return sum(info.entries for info in await store.list())

    return work


async def _new_session(store: SqliteStore) -> Lease:
    info = SessionInfo(cwd="/srv/project")
    await store.create(info)
    return await store.claim(info.id, new_owner(), 3600)


async def _say(store: SqliteStore, lease: Lease, count: int, parent: str | None = None) -> None:
    for n in range(count):
        entry = MessageEntry(parent_id=parent, message=UserMessage(content=_TEXT))
        cost = UsageRow(
            cause="assistant", usage=Usage(input=n), entry_id=entry.id, provider="p", model="m"
        )
        lane = Lane(name="main", leaf_id=entry.id, config=_CONFIG)
        await store.commit(
            lease,
            Commit(
                entries=[to_row(entry)], lanes=[lane], usage=[cost], usage_total=Usage(input=n * n)
            ),
        )
        parent = entry.id


def _listing(place: _Place, sizes: Sizes) -> Row:
    store = place.store()

    async def fill() -> None:
        for _ in range(sizes.sessions):
            await store.release(await _new_session(store))

    async def work() -> int:
        return len(await store.list())

    asyncio.run(fill())
    best = interleaved({"list": (lambda: work, sizes.sessions)}, max(sizes.rounds, 1), waits=True)
    return Row(
        f"listing {sizes.sessions:,} sessions",
        "ms",
        {"loopwright": best["list"] * 1000},
        at_most=50,
        digits=1,
    )


def _long(place: _Place, sizes: Sizes) -> list[Row]:
    contestants: dict[str, tuple[Callable[[], Work], int]] = {}
    for name, length in (("short", sizes.fewer_entries), ("long", sizes.entries)):
        store = place.store()
        lease, leaf = asyncio.run(_grown(store, length))
        contestants[f"open {name}"] = (partial(_open, store, lease.session_id), 10)
        contestants[f"append {name}"] = (partial(_append, store, lease, leaf), 20)
    best = interleaved(contestants, sizes.rounds, waits=True)
    return [
        Row(
            f"{what} a session of {sizes.entries:,} entries, against {sizes.fewer_entries:,}",
            "times",
            {"loopwright": best[f"{key} long"] / best[f"{key} short"]},
            at_most=1.5,
            note=f"{best[f'{key} long'] / each * 1e3:.2f} ms",
        )
        for key, what, each in (("open", "opening", 10), ("append", "committing to", 20))
    ]


async def _grown(store: SqliteStore, length: int) -> tuple[Lease, str | None]:
    lease = await _new_session(store)
    parent: str | None = None
    for begin in range(0, length, 1_000):
        rows = []
        for n in range(begin, min(begin + 1_000, length)):
            entry = MessageEntry(parent_id=parent, message=UserMessage(content=f"{n} " + "x" * 200))
            rows.append(to_row(entry))
            parent = entry.id
        await store.commit(lease, Commit(entries=rows))
    return lease, parent


def _open(store: SqliteStore, session_id: str) -> Work:
    async def work() -> int:
        for _ in range(10):
            await store.state(session_id)
            await store.entries(session_id, limit=10, newest_first=True)
        return 10

    return work


def _append(store: SqliteStore, lease: Lease, leaf: str | None) -> Work:
    async def work() -> int:
        before = (await store.info(lease.session_id)).entries
        await _say(store, lease, 20, leaf)
        return (await store.info(lease.session_id)).entries - before

    return work
