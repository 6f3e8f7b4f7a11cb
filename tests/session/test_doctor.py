"""The doctor on databases that were damaged by hand: each fault is found, explained and mended.

Session files have their own tests (test_doctor_jsonl).
"""

from __future__ import annotations

import json
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loopwright import Agent, Harness, tool
from loopwright.errors import (
    Misuse,
    SessionDamaged,
    SessionError,
    SessionLocked,
    SessionNotFound,
    StoreUnavailable,
)
from loopwright.messages import Cost, Usage, UserMessage
from loopwright.session import MemoryStore, Session, SqliteStore
from loopwright.session.doctor import Report, examine, repair
from loopwright.session.entries import CompactionEntry, to_row
from loopwright.session.leases import new_owner
from loopwright.session.rows import (
    InboxItem,
    Intent,
    Lane,
    Operation,
    SessionInfo,
    UsageRow,
)
from loopwright.session.store import Commit
from loopwright.testing import Call, Reply, ScriptedModel

from .trees import reply, user


@tool(replay="safe")
def look(path: str) -> str:
    """Look at a file."""
    return f"{path} is empty"


async def a_database(folder: Path, sessions: int = 2) -> Path:
    """Sessions `s0`, `s1`, ... of two turns, with a call each, as a harness leaves them."""
    path = folder / "sessions.db"
    async with await SqliteStore.open(path) as store:
        for number in range(sessions):
            model = ScriptedModel(
                [
                    Reply("Looking.", calls=[Call("look", {"path": "a.txt"})]),
                    Reply("It is empty."),
                    Reply("Yes."),
                ]
            )
            agent = Agent(model.model, stream_fn=model.stream_fn, tools=[look])
            async with Harness.open(store, f"s{number}", agent=agent, cwd="/project") as harness:
                await harness.prompt("What is in a.txt?")
                await harness.prompt("Sure?")
    return path


def change(path: Path, *statements: str | tuple[str, Sequence[Any]]) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        for statement in statements:
            sql, values = (statement, ()) if isinstance(statement, str) else statement
            connection.execute(sql, values)
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def ask(path: Path, sql: str) -> list[Any]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute(sql).fetchall()


def kinds(report: Report, severity: str = "error") -> set[str]:
    return {finding.kind for finding in report.findings if finding.severity == severity}


async def texts(path: Path, session_id: str = "s0") -> list[str]:
    """What the session would show a model: it opens, and its branch can be followed."""
    async with await SqliteStore.open(path) as store:
        session = await Session.read(store, session_id)
        return [getattr(message, "text", "") for message in session.messages()]


WHOLE = ["What is in a.txt?", "Looking.", "a.txt is empty", "It is empty.", "Sure?", "Yes."]


async def test_a_sound_database_has_no_findings_and_a_repair_makes_nothing(tmp_path: Path) -> None:
    path = await a_database(tmp_path)

    report = await examine(path)
    done = await repair(path)

    assert (report.findings, report.sessions, report.entries) == ([], 2, 12)
    assert report.sound
    assert [(one.actions, one.backup, one.left) for one in done] == [([], None, [])]
    assert {file.name for file in tmp_path.iterdir()} <= {
        "sessions.db",
        *("sessions.db-wal", "sessions.db-shm"),  # SQLite's own
    }


async def test_a_store_that_is_open_is_looked_at_by_its_path(tmp_path: Path) -> None:
    path = await a_database(tmp_path)

    async with await SqliteStore.open(path) as store:
        report = await examine(store, session_id="s1")

    assert (report.sessions, report.entries, report.findings) == (1, 6, [])


# -- each fault, alone -----------------------------------------------------------------------

DROP_UNIQUE = [
    "PRAGMA writable_schema = ON",
    "UPDATE sqlite_master SET sql = replace(sql, ', UNIQUE (session_id, id)', '') WHERE name = 'entry'",
    "DELETE FROM sqlite_master WHERE name = 'sqlite_autoindex_entry_2'",
    "PRAGMA writable_schema = RESET",
]
MISSING = "UPDATE entry SET parent_id = 'nowhere' WHERE session_id = 's0' AND seq = "
LANE = "UPDATE lane SET body = json_set(body, '$.{0}', '{1}') WHERE session_id = 's0'"
FAULTS: dict[str, list[str]] = {
    "missing_parent": [MISSING + "(SELECT max(seq) FROM entry WHERE session_id = 's0')"],
    "cycle": [
        """UPDATE entry SET parent_id = (SELECT id FROM entry WHERE session_id = 's0'
        ORDER BY seq LIMIT 1 OFFSET 3) WHERE session_id = 's0' AND parent_id IS NULL"""
    ],
    "missing_leaf": [LANE.format("leafId", "nowhere")],
    "unreadable": [
        """UPDATE entry SET payload = '{"message":{"role":"assistant","content":7}}'
        WHERE session_id = 's0' AND payload LIKE '%It is empty.%'"""
    ],
    "unreadable_row": ["UPDATE operation SET body = '{' WHERE session_id = 's0'"],
    "no_main_lane": ["DELETE FROM lane WHERE session_id = 's0'"],
    "lane_operation": [LANE.format("operationId", "nowhere")],
    "usage_total": [
        "UPDATE session SET usage = json_set(usage, '$.input', 123456) WHERE id = 's0'"
    ],
    "entries_count": ["UPDATE session SET entries = 999 WHERE id = 's0'"],
    "head_behind": ["UPDATE session SET head = 1 WHERE id = 's0'"],
    "orphan_rows": ["DELETE FROM session WHERE id = 's0'"],
}


@pytest.mark.parametrize("kind", FAULTS)
async def test_a_fault_is_found_explained_and_mended(tmp_path: Path, kind: str) -> None:
    path = await a_database(tmp_path)
    change(path, *FAULTS[kind])
    damaged = path.read_bytes()

    report = await examine(path)
    (done,) = await repair(path)
    after = await examine(path)

    assert kind in kinds(report), report.findings
    assert all(f.message and f.where for f in report.findings)
    assert all(f.remedy for f in report.findings if f.severity == "error")
    assert {f.session_id for f in report.findings} == {"s0"}
    assert done.actions
    assert after.findings == []
    assert ask(path, "PRAGMA integrity_check") == [("ok",)]
    assert done.backup is not None
    assert kind in kinds(await examine(done.backup))
    assert len(damaged) == done.backup.stat().st_size
    assert await texts(path, "s1") == WHOLE
    said = await texts(path)
    assert said == ([t for t in WHOLE if t != "It is empty."] if kind == "unreadable" else WHOLE)


@pytest.mark.parametrize("kind", ["duplicate_id", "corrupt"])
async def test_a_second_entry_with_the_same_id_is_taken_out_and_kept_aside(
    tmp_path: Path, kind: str
) -> None:
    path = await a_database(tmp_path)
    change(path, *DROP_UNIQUE)
    change(
        path,
        *(["VACUUM"] if kind == "duplicate_id" else []),  # else a page is left that nobody uses
        """INSERT INTO entry SELECT session_id, 1000, id, parent_id, type, custom_type, timestamp,
        operation_id, replace(payload, 'What', 'WHAT'), epoch FROM entry
        WHERE session_id = 's0' AND parent_id IS NULL""",
    )

    report = await examine(path)
    (done,) = await repair(path)

    assert kind in kinds(report)
    assert await texts(path) == WHOLE
    assert (await examine(path)).findings == []
    assert done.removed is not None
    (kept,) = [json.loads(line) for line in done.removed.read_text("utf-8").splitlines()]
    assert (kept["table"], kept["seq"]) == ("entry", 1000)
    assert "WHAT is in a.txt?" in kept["payload"]


async def test_what_is_taken_out_stands_in_the_file_beside(tmp_path: Path) -> None:
    path = await a_database(tmp_path)
    change(path, *FAULTS["unreadable"], MISSING + "2")

    (done,) = await repair(path)

    assert done.removed is not None
    assert done.removed.stat().st_mode & 0o077 == 0
    kept = [json.loads(line) for line in done.removed.read_text("utf-8").splitlines()]
    taken = [row for row in kept if "payload" in row]
    assert [row["payload"] for row in taken] == ['{"message":{"role":"assistant","content":7}}']
    assert "nowhere" in {row.get("was_parent_id") for row in kept}


async def test_a_summary_whose_kept_part_is_gone_keeps_nothing(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    async with await SqliteStore.open(path) as store:
        await store.create(SessionInfo(id="s0"))
        lease = await store.claim("s0", new_owner(), 60)
        summary = CompactionEntry(
            id="c", parent_id="b", summary="They met.", first_kept_id="elsewhere"
        )
        rows = [to_row(e) for e in (user("a", None), reply("b", "a"), summary, user("d", "c"))]
        await store.commit(lease, Commit(entries=rows, lanes=[Lane(name="main", leaf_id="d")]))
        await store.release(lease)

    report = await examine(path)
    await repair(path)

    assert kinds(report) == {"kept_missing"}
    said = await texts(path)
    assert len(said) == 2
    assert "They met." in said[0]


async def test_what_an_operation_left_behind_that_is_over_is_cleared_away(tmp_path: Path) -> None:
    path = await a_database(tmp_path, 1)
    async with await SqliteStore.open(path) as store:
        lease = await store.claim("s0", new_owner(), 60)
        intent = Intent(
            id="i", lane="main", assistant_id="x", index=0, tool_call_id="t", tool_name="look"
        )
        cancel = InboxItem(id="x", lane="main", queue="cancel", operation_id="gone")
        lost = InboxItem(id="y", lane="side", queue="steer", message=UserMessage("Hurry."))
        waits = InboxItem(id="z", lane="main", queue="steer", message=UserMessage("Hurry."))
        await store.commit(
            lease,
            Commit(
                operations=[Operation(id="stray", lane="main")],
                intents=[intent],
                inbox=[cancel, lost, waits],
            ),
        )
        await store.release(lease)

    report = await examine(path)
    await repair(path)

    assert kinds(report) == {"operation_astray", "intent_astray", "inbox_astray"}
    assert (await examine(path)).findings == []
    async with await SqliteStore.open(path) as store:
        state = await store.state("s0")
        operations = {op.id: op.status for op in await store.operations("s0")}
    assert operations["stray"] == "aborted"
    assert state.intents == []
    assert [item.id for item in state.inbox] == ["z"]


async def test_an_open_operation_and_its_dangling_call_are_told_and_left(tmp_path: Path) -> None:
    """That is what a crash leaves, and what a resume takes up."""
    path = tmp_path / "sessions.db"
    async with await SqliteStore.open(path) as store:
        await store.create(SessionInfo(id="s0"))
        lease = await store.claim("s0", new_owner(), 60)
        rows = [to_row(user("a", None)), to_row(reply("b", "a", calls=("t",)))]
        await store.commit(
            lease,
            Commit(
                entries=rows,
                lanes=[Lane(name="main", leaf_id="b", operation_id="o")],
                operations=[Operation(id="o", lane="main")],
            ),
        )
        await store.release(lease)

    report = await examine(path)
    (done,) = await repair(path)

    assert report.sound
    assert (kinds(report, "warning"), kinds(report, "note")) == (
        {"dangling_call"},
        {"operation_open"},
    )
    assert (done.actions, done.backup) == ([], None)


async def test_sums_of_costs_may_differ_in_their_last_digit(tmp_path: Path) -> None:
    path = await a_database(tmp_path, 1)
    async with await SqliteStore.open(path) as store:
        lease = await store.claim("s0", new_owner(), 60)
        rows = [
            UsageRow(id=f"u{n}", cause="assistant", usage=Usage(input=1, cost=Cost(input=cost)))
            for n, cost in enumerate((0.1, 0.2, 0.3))
        ]
        total = (await store.info("s0")).usage
        for row in reversed(rows):
            total += row.usage
        await store.commit(lease, Commit(usage=rows, usage_total=total))
        await store.release(lease)

    assert (await examine(path)).findings == []


async def test_several_faults_at_once_are_all_mended(tmp_path: Path) -> None:
    path = await a_database(tmp_path)
    change(path, *(sql for kind in FAULTS if kind != "orphan_rows" for sql in FAULTS[kind]))

    report = await examine(path)
    await repair(path)

    assert len(kinds(report)) >= 8
    assert (await examine(path)).findings == []
    assert await texts(path, "s1") == WHOLE
    assert (await texts(path))[0] == WHOLE[0]


@given(data=st.data())
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
async def test_whatever_happens_to_the_rows_the_mended_database_can_be_opened(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    path = await a_database(tmp_path_factory.mktemp("doctor"), 1)
    ids = [id for (id,) in ask(path, "SELECT id FROM entry")]
    some_id = st.sampled_from([*ids, "nowhere", None])
    deeds = {
        "parent": "UPDATE entry SET parent_id = ? WHERE id = ?",
        "payload": "UPDATE entry SET payload = coalesce(?, '{') WHERE id = ?",
        "type": "UPDATE entry SET type = coalesce(?, 'compaction') WHERE id = ?",
        "gone": "DELETE FROM entry WHERE id IN (?, ?)",
        "place": "UPDATE entry SET seq = seq + 100 WHERE id IN (?, ?)",
        "leaf": "UPDATE lane SET body = json_set(body, '$.leafId', ?, '$.operationId', ?)",
        "open": "UPDATE operation SET status = 'open', body = json_set(body, '$.status', 'open', '$.restarts', 1) WHERE 1 OR ? = ?",
    }
    for deed in data.draw(st.lists(st.sampled_from(sorted(deeds)), min_size=1, max_size=5)):
        change(path, (deeds[deed], (data.draw(some_id), data.draw(some_id))))

    await repair(path)
    report = await examine(path)

    assert report.sound, report.findings
    await texts(path)


async def test_only_the_session_that_was_named_is_mended(tmp_path: Path) -> None:
    path = await a_database(tmp_path)
    change(path, "UPDATE session SET entries = 999")

    await repair(path, session_id="s1")

    assert {f.session_id for f in (await examine(path)).findings} == {"s0"}


# -- damaged pages ---------------------------------------------------------------------------


async def a_larger_database(folder: Path) -> Path:
    path = folder / "sessions.db"
    async with await SqliteStore.open(path) as store:
        for name in ("s0", "s1"):
            await store.create(SessionInfo(id=name, cwd="/project"))
            lease = await store.claim(name, new_owner(), 60)
            parent: str | None = None
            for n in range(60):
                entry = user(f"{name}-{n}", parent, f"number {n} " + "x" * 1500)
                parent = entry.id
                lane = Lane(name="main", leaf_id=parent)
                await store.commit(lease, Commit(entries=[to_row(entry)], lanes=[lane]))
            await store.release(lease)
    return path


def page_with(path: Path, text: bytes) -> int:
    """The number, from 0, of the page where *text* stands."""
    data = path.read_bytes()
    return data.index(text) // 4096


async def test_all_but_a_damaged_page_is_saved(tmp_path: Path) -> None:
    path = await a_larger_database(tmp_path)
    change(path)
    page = page_with(path, b"number 30 xxx")
    with path.open("r+b") as file:
        file.seek(page * 4096)
        file.write(os.urandom(4096))

    report = await examine(path)
    (done,) = await repair(path)
    after = await examine(path)

    assert kinds(report) == {"corrupt"}
    assert after.sound, after.findings
    assert after.sessions == 2
    assert after.entries >= 120 - 6
    assert await texts(path, "s1") or await texts(path, "s0")
    said = await texts(path)
    assert said[-1].startswith("number 59")
    assert said[0].startswith("number 0")
    assert "built anew" in done.actions[0]


async def test_a_damaged_index_loses_nothing(tmp_path: Path) -> None:
    path = await a_larger_database(tmp_path)
    root = ask(path, "SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_entry_2'")
    change(path)
    with path.open("r+b") as file:
        file.seek((root[0][0] - 1) * 4096 + 8)
        file.write(b"\xff" * 64)

    report = await examine(path)
    await repair(path)
    after = await examine(path)

    assert kinds(report) == {"corrupt"}
    assert (after.findings, after.entries) == ([], 120)


def overwrite(path: Path, place: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(place)
        file.write(data)


FIRST_PAGE = {
    "one byte of a name": lambda data: (data.index(b"operation"), b"\x8c"),
    "a column's name": lambda data: (data.index(b"custom_type"), b"X"),
    "one byte of the head's magic": lambda data: (3, b"\xff"),
    "the encoding of all text": lambda data: (59, b"\x02"),
    "all of the head but the magic": lambda data: (16, b"\xff" * 84),
    "all of the list of tables": lambda data: (100, b"\xff" * 3_996),
}


@pytest.mark.parametrize(
    ("what", "vacuumed"),
    [
        *((what, False) for what in FIRST_PAGE),
        ("one byte of a name", True),  # its tables begin elsewhere, as the rest of the list says
        ("a column's name", True),
    ],
)
async def test_a_damaged_first_page_is_told_as_damage_and_loses_nothing(
    tmp_path: Path, what: str, vacuumed: bool
) -> None:
    path = await a_database(tmp_path)
    change(path, *(["VACUUM"] if vacuumed else []))
    overwrite(path, *FIRST_PAGE[what](path.read_bytes()))
    damaged = path.read_bytes()

    with pytest.raises(SessionDamaged):
        await texts(path)
    report = await examine(path)
    unchanged = path.read_bytes() == damaged
    (done,) = await repair(path)

    assert kinds(report) == {"schema"}
    assert unchanged
    assert len(report.mendable) == 1
    assert done.backup is not None
    assert (await examine(path)).findings == []
    assert [await texts(path, each) for each in ("s0", "s1")] == [WHOLE, WHOLE]


async def test_what_is_still_beside_a_file_with_a_damaged_head_is_saved_too(tmp_path: Path) -> None:
    path = await a_database(tmp_path)
    change(path)
    whole = path.read_bytes()
    log = path.with_name("sessions.db-wal")
    async with await SqliteStore.open(path) as store:
        await store.create(SessionInfo(id="late"))
        written = log.read_bytes()
    path.write_bytes(whole)
    log.write_bytes(written)
    overwrite(path, 0, b"SQLite fXrmat")

    (done,) = await repair(path)

    assert done.backup is not None
    async with await SqliteStore.open(path) as store:
        assert {info.id for info in await store.list()} == {"s0", "s1", "late"}
    assert await texts(path) == WHOLE


async def test_a_database_of_another_program_with_a_damaged_first_page_is_left(
    tmp_path: Path,
) -> None:
    path = tmp_path / "other.db"
    change(path, "CREATE TABLE notes (text TEXT)", "INSERT INTO notes VALUES ('format')")
    overwrite(path, 100, b"\xff" * 3_996)
    damaged = path.read_bytes()

    report = await examine(path)
    (done,) = await repair(path)

    assert report.mendable == []
    assert not report.sound
    assert (done.actions, done.backup) == ([], None)
    assert path.read_bytes() == damaged


VALUES = {
    "text that is no UTF-8": "UPDATE lane SET body = CAST(CAST(body AS BLOB) || x'20' AS TEXT), name "
    "= CAST(x'6d61ff' AS TEXT) WHERE session_id = 's0'",
    "a title that is no UTF-8": "UPDATE session SET preview = CAST(x'41ff42' AS TEXT) WHERE id = 's0'",
    "bytes for text": "UPDATE session SET preview = x'4142' WHERE id = 's0'",
    "text for a number": "UPDATE session SET head = 'many' WHERE id = 's0'",
    "metadata that is no JSON": "UPDATE session SET metadata = '{7' WHERE id = 's0'",
}


@pytest.mark.parametrize("what", VALUES)
async def test_a_value_that_nobody_can_read_is_found_and_made_readable(
    tmp_path: Path, what: str
) -> None:
    path = await a_database(tmp_path)
    change(path, VALUES[what])

    report = await examine(path)
    (done,) = await repair(path)

    assert kinds(report) == {"wrong_values"}
    assert done.removed is not None
    assert (await examine(path)).findings == []
    assert [await texts(path, each) for each in ("s0", "s1")] == [WHOLE, WHOLE]
    async with await SqliteStore.open(path) as store:
        assert len(await store.list()) == 2


async def readable(path: Path) -> dict[str, int]:
    """How many entries each session has that can be read as a whole."""
    found: dict[str, int] = {}
    try:
        store = await SqliteStore.open(path, read_only=True)
    except SessionError:
        return found
    async with store:
        with suppress(SessionError):
            await store.list()
        for each in ("s0", "s1"):
            with suppress(SessionError):
                await store.state(each)
                found[each] = len([row.entry() for row in await store.entries(each)])
    return found


@pytest.mark.parametrize("seed", range(25))
async def test_whatever_bytes_are_flipped_it_is_told_and_what_could_be_read_still_can(
    tmp_path: Path, seed: int
) -> None:
    path = await a_database(tmp_path)
    change(path)
    chance = Random(seed)
    data = bytearray(path.read_bytes())
    end = (100, 4096, len(data))[seed % 3]
    for _ in range(chance.choice((1, 1, 12))):
        data[chance.randrange(end)] = chance.randrange(256)
    path.write_bytes(data)

    before = await readable(path)
    await examine(path)
    with suppress(StoreUnavailable):
        await repair(path)
    after = await readable(path)

    assert {each: after.get(each) for each in before} == before


# -- files that are none of ours -------------------------------------------------------------


async def test_a_database_of_a_later_version_is_said_and_left(tmp_path: Path) -> None:
    path = await a_database(tmp_path)
    change(path, "UPDATE meta SET value = '999'")
    before = path.read_bytes()

    report = await examine(path)
    (done,) = await repair(path)

    assert kinds(report) == {"too_new"}
    assert "999" in report.findings[0].message
    assert done.actions == []
    assert path.read_bytes() == before


async def test_a_database_that_is_empty_or_of_an_earlier_version_is_no_fault(
    tmp_path: Path,
) -> None:
    path = await a_database(tmp_path)
    change(path, "UPDATE meta SET value = '1'")
    empty = tmp_path / "empty.db"
    empty.touch()

    for each in (path, empty):
        report = await examine(each)

        assert report.sound
        assert kinds(report, "note") == {"earlier_format"}


async def test_a_database_of_another_program_is_said_and_left(tmp_path: Path) -> None:
    path = tmp_path / "other.db"
    change(path, "CREATE TABLE recipes (name TEXT)")
    before = path.read_bytes()

    report = await examine(path)
    await repair(path)

    assert kinds(report) == {"foreign"}
    assert path.read_bytes() == before


async def test_what_is_no_database_is_said_and_left(tmp_path: Path) -> None:
    path = tmp_path / "sessions.db"
    path.write_bytes(b"hello " * 2000)

    report = await examine(path)

    assert kinds(report) == {"foreign"}


async def test_a_file_or_session_that_is_not_there_is_no_finding_but_an_error(
    tmp_path: Path,
) -> None:
    path = await a_database(tmp_path)

    with pytest.raises(SessionNotFound):
        await examine(tmp_path / "elsewhere.db")
    with pytest.raises(SessionNotFound):
        await examine(path, session_id="s9")


# -- others who have it open -----------------------------------------------------------------


async def test_a_session_that_is_open_keeps_the_doctor_from_mending(tmp_path: Path) -> None:
    path = await a_database(tmp_path)
    change(path, *FAULTS["entries_count"])

    async with (
        await SqliteStore.open(path) as store,
        await Session.open(store, "s1", create=False),
    ):
        with pytest.raises(SessionLocked):
            await repair(path)
    found = {file.name for file in tmp_path.iterdir()}

    assert not any("doctor" in name for name in found)
    assert (await repair(path))[0].actions


async def test_a_lease_without_an_open_file_keeps_the_doctor_from_mending(tmp_path: Path) -> None:
    """Of another machine or container: it may come back."""
    path = await a_database(tmp_path)
    change(
        path,
        *FAULTS["entries_count"],
        "UPDATE session SET owner = 'elsewhere:1:-:ff', lease_until = 99999999999999 WHERE id = 's1'",
    )
    before = path.read_bytes()

    with pytest.raises(SessionLocked, match="process 1 on elsewhere"):
        await repair(path)

    assert not [file for file in tmp_path.iterdir() if "doctor" in file.name]
    assert ask(path, "SELECT entries FROM session WHERE id = 's0'") == [(999,)]
    assert len(before) == path.stat().st_size


async def test_the_lease_of_a_dead_process_is_told_and_does_not_matter(tmp_path: Path) -> None:
    path = await a_database(tmp_path)
    script = "from loopwright.session.leases import new_owner; print(new_owner())"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    dead = done.stdout.strip()
    change(
        path,
        ("UPDATE session SET owner = ?, lease_until = 99999999999999 WHERE id = 's0'", [dead]),
    )

    report = await examine(path)
    change(path, "UPDATE session SET entries = 999 WHERE id = 's0'")
    await repair(path)

    assert report.sound
    assert kinds(report, "note") == {"lease_left"}
    assert socket.gethostname() in report.findings[0].message
    assert (await examine(path)).findings == []


async def test_a_lease_is_asked_for_again_when_the_file_is_locked(tmp_path: Path) -> None:
    """An idle connection of another process, without any lease, is enough."""
    path = await a_database(tmp_path)
    change(path, *FAULTS["entries_count"])
    async with await SqliteStore.open(path) as store:
        await store.list()

        with pytest.raises(SessionLocked, match="open in another process"):
            await repair(path)


async def test_a_database_that_was_mended_is_the_same_file_and_goes_on_as_before(
    tmp_path: Path,
) -> None:
    path = await a_database(tmp_path)
    change(path, *FAULTS["entries_count"])
    inode = path.stat().st_ino

    await repair(path)

    model = ScriptedModel([Reply("Going on.")])
    agent = Agent(model.model, stream_fn=model.stream_fn, tools=[look])
    async with (
        await SqliteStore.open(path) as store,
        Harness.open(store, "s0", agent=agent, create=False) as harness,
    ):
        result = await harness.prompt("And now?")
    assert result.text == "Going on."
    assert path.stat().st_ino == inode
    assert ask(path, "PRAGMA journal_mode") == [("wal",)]
    assert (await examine(path)).findings == []


REPAIR_ON_A_FULL_DISK = """
import asyncio, resource, sys
from loopwright.errors import StoreUnavailable
from loopwright.session.doctor import repair

resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
try:
    asyncio.run(repair(sys.argv[1]))
except StoreUnavailable as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="there is no such limit")
async def test_where_no_copy_can_be_made_nothing_is_changed(tmp_path: Path) -> None:
    path = await a_database(tmp_path)
    change(path, *FAULTS["entries_count"])
    before = path.read_bytes()

    done = subprocess.run(
        [sys.executable, "-c", REPAIR_ON_A_FULL_DISK, str(path)], capture_output=True, text=True
    )

    assert "no copy of" in done.stdout, done.stderr
    assert "nothing was changed" in done.stdout
    assert path.read_bytes() == before
    assert not [file for file in tmp_path.iterdir() if "doctor" in file.name]


# -- stores that are no files ----------------------------------------------------------------


async def test_any_store_can_be_looked_at_and_only_files_be_mended() -> None:
    store = MemoryStore()
    await store.create(SessionInfo(id="m"))
    lease = await store.claim("m", new_owner(), 60)
    rows = [to_row(user("a", None)), to_row(reply("b", "a", calls=("t",)))]
    await store.commit(lease, Commit(entries=rows, lanes=[Lane(name="main", leaf_id="nowhere")]))

    report = await examine(store)

    assert kinds(report) == {"missing_leaf"}
    assert report.mendable == []
    with pytest.raises(Misuse):
        await repair(store)
