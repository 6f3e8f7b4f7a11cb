"""A file of every earlier version becomes one of today's, with all that is in it."""

from __future__ import annotations

import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from loopwright.errors import SessionTooNew, StoreUnavailable
from loopwright.messages import Usage
from loopwright.session import tables
from loopwright.session.leases import new_owner
from loopwright.session.migrations import MIGRATIONS
from loopwright.session.rows import Approval, Lane
from loopwright.session.sqlite import SqliteStore
from loopwright.session.store import Commit

# As version 1 wrote them. Never changed: they stand for files that are out there.
VERSION_1 = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE session (
    id TEXT PRIMARY KEY, created_at BIGINT NOT NULL, modified_at BIGINT NOT NULL,
    cwd TEXT, parent_id TEXT, name TEXT, metadata TEXT,
    entries BIGINT NOT NULL DEFAULT 0, usage TEXT NOT NULL,
    head BIGINT NOT NULL DEFAULT 0,
    owner TEXT, epoch BIGINT NOT NULL DEFAULT 0, lease_until BIGINT NOT NULL DEFAULT 0);
CREATE INDEX session_by_folder ON session (cwd);
CREATE TABLE entry (
    session_id TEXT NOT NULL, seq BIGINT NOT NULL, id TEXT NOT NULL, parent_id TEXT,
    type TEXT NOT NULL, custom_type TEXT, timestamp BIGINT NOT NULL, operation_id TEXT,
    payload TEXT NOT NULL, epoch BIGINT NOT NULL,
    PRIMARY KEY (session_id, seq), UNIQUE (session_id, id));
CREATE TABLE lane (
    session_id TEXT NOT NULL, name TEXT NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (session_id, name)) WITHOUT ROWID;
CREATE TABLE operation (
    ord INTEGER PRIMARY KEY, session_id TEXT NOT NULL, id TEXT NOT NULL, lane TEXT NOT NULL,
    status TEXT NOT NULL, request_id TEXT, body TEXT NOT NULL,
    UNIQUE (session_id, id), UNIQUE (session_id, request_id));
CREATE INDEX operation_by_lane ON operation (session_id, lane, ord);
CREATE INDEX operation_unfinished ON operation (session_id)
    WHERE status IN ('open', 'waiting');
CREATE TABLE intent (
    ord INTEGER PRIMARY KEY, session_id TEXT NOT NULL, id TEXT NOT NULL, body TEXT NOT NULL,
    UNIQUE (session_id, id));
CREATE TABLE inbox (
    ord INTEGER PRIMARY KEY, session_id TEXT NOT NULL, id TEXT NOT NULL, lane TEXT NOT NULL,
    queue TEXT NOT NULL, status TEXT NOT NULL, request_id TEXT, body TEXT NOT NULL,
    UNIQUE (session_id, id), UNIQUE (session_id, request_id));
CREATE INDEX inbox_pending ON inbox (session_id, ord) WHERE status = 'pending';
CREATE TABLE fact (
    session_id TEXT NOT NULL, namespace TEXT NOT NULL, key TEXT NOT NULL,
    seq BIGINT NOT NULL, value TEXT NOT NULL,
    PRIMARY KEY (session_id, namespace, key)) WITHOUT ROWID;
CREATE TABLE usage (
    session_id TEXT NOT NULL, id TEXT NOT NULL, seq BIGINT NOT NULL, body TEXT NOT NULL,
    PRIMARY KEY (session_id, id)) WITHOUT ROWID;
INSERT INTO meta VALUES ('loopwright_format', '1');
INSERT INTO session (id, created_at, modified_at, cwd, name, entries, usage, head)
    VALUES ('s', 1000, 2000, '/work', 'old', 2, '{"input":3,"output":0,"cacheRead":0,
    "cacheWrite":0,"totalTokens":3,"cost":{}}', 4);
INSERT INTO entry VALUES
    ('s', 1, 'm1', NULL, 'message', NULL, 1000, NULL,
     '{"message":{"role":"user","content":"hello","timestamp":1000}}', 1),
    ('s', 2, 'c1', 'm1', 'custom', 'note', 1001, NULL, '{"data":{"a":1}}', 1);
INSERT INTO lane VALUES ('s', 'main', '{"name":"main","leafId":"c1"}');
INSERT INTO fact VALUES ('s', 'name', '', 3, '"old"');
INSERT INTO usage VALUES ('s', 'u1', 4, '{"id":"u1","cause":"assistant","usage":{"input":3,
    "output":0,"cacheRead":0,"cacheWrite":0,"totalTokens":3,"cost":{}},"timestamp":1000}');
"""

OPEN_WHEN_TOLD = """
import asyncio, sys
from loopwright.session.sqlite import SqliteStore

async def main():
    print("ready", flush=True)
    sys.stdin.readline()
    async with await SqliteStore.open(sys.argv[1]) as store:
        print((await store.info("s")).name)

asyncio.run(main())
"""


def make_version_1(path: Path) -> None:
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.executescript(VERSION_1)
    connection.close()


def shape(path: Path) -> dict[str, object]:
    """Every table's columns and every index, whatever the order they were made in."""
    connection = sqlite3.connect(path)
    names = connection.execute("SELECT type, name FROM sqlite_master").fetchall()
    found: dict[str, object] = {}
    for kind, name in names:
        if kind == "table":
            columns = connection.execute(f"PRAGMA table_info({name})").fetchall()
            found[name] = {column[1:] for column in columns}
        else:
            found[name] = connection.execute(f"PRAGMA index_info({name})").fetchall()
    connection.close()
    return found


def test_there_is_a_step_to_every_version() -> None:
    assert sorted(MIGRATIONS) == list(range(2, tables.FORMAT_VERSION + 1))


async def test_a_file_of_version_1_is_brought_up_to_date(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    make_version_1(path)

    async with await SqliteStore.open(path) as store:
        state = await store.state("s")
        rows = await store.entries("s")
        ledger = await store.usage("s")

        assert (state.info.name, state.info.preview, state.info.entries) == ("old", None, 2)
        assert state.info.usage == Usage(input=3, total_tokens=3)
        assert state.lanes == [Lane(name="main", leaf_id="c1")]
        assert [row.entry().id for row in rows] == ["m1", "c1"]
        assert [(row.id, row.seq) for row in ledger] == [("u1", 4)]

        lease = await store.claim("s", new_owner(), 60)  # and what is new in it works
        approval = Approval(
            id="a", lane="main", tool_call_id="c", tool_name="t", digest="d", requested_at=1
        )
        await store.commit(lease, Commit(approvals=[approval], preview="hello"))
        assert await store.approvals("s") == [approval]
        assert (await store.info("s")).preview == "hello"


async def test_what_was_migrated_has_the_shape_of_what_is_new(tmp_path: Path) -> None:
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    make_version_1(old)

    for path in (old, new):
        await (await SqliteStore.open(path)).aclose()

    assert shape(old) == shape(new)


async def test_a_copy_of_the_old_file_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    make_version_1(path)
    before = shape(path)

    await (await SqliteStore.open(path)).aclose()
    await (await SqliteStore.open(path)).aclose()  # the second time there is nothing to do

    copy = tmp_path / "sessions.db.v1.bak"
    assert shape(copy) == before
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("SELECT name FROM session").fetchall() == [("old",)]
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert sorted(file.name for file in tmp_path.iterdir()) == ["sessions.db", copy.name]


async def test_a_file_whose_copy_cannot_be_made_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    make_version_1(path)
    (tmp_path / "sessions.db.v1.bak").mkdir()
    before = path.read_bytes()

    with pytest.raises(StoreUnavailable, match=r"its copy sessions\.db\.v1\.bak cannot be made"):
        await SqliteStore.open(path)

    assert path.read_bytes() == before


async def test_a_step_that_fails_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "sessions.db"
    make_version_1(path)
    before = shape(path)
    good = MIGRATIONS[2]
    monkeypatch.setitem(MIGRATIONS, 2, (*good, "ALTER TABLE nobody ADD COLUMN x TEXT"))

    with pytest.raises(Exception, match="nobody"):
        await SqliteStore.open(path)

    assert shape(path) == before
    monkeypatch.setitem(MIGRATIONS, 2, good)
    await (await SqliteStore.open(path)).aclose()


async def test_an_old_file_is_not_migrated_by_who_only_reads(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    make_version_1(path)
    before = path.read_bytes()

    with pytest.raises(StoreUnavailable, match="the earlier format 1") as refusal:
        await SqliteStore.open(path, read_only=True)

    assert refusal.value.hint == "open it for writing once: that brings it up to date"
    assert path.read_bytes() == before


def test_of_processes_that_open_an_old_file_at_once_each_finds_it_done(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    make_version_1(path)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", OPEN_WHEN_TOLD, str(path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"

    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    said = [process.communicate(timeout=60) for process in processes]

    assert said == [("old\n", "")] * 3
    assert "preview" in str(shape(path)["session"])


async def test_a_file_that_a_later_version_migrated_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    make_version_1(path)
    connection = sqlite3.connect(path)
    with connection:
        connection.execute("UPDATE meta SET value = '3'")
    connection.close()
    before = path.read_bytes()

    for read_only in (False, True):
        with pytest.raises(SessionTooNew, match="has format 3") as refusal:
            await SqliteStore.open(path, read_only=read_only)

    assert refusal.value.hint == "update loopwright; nothing was changed"
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["sessions.db"]
