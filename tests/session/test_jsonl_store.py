"""Sessions as files: what every store does, and what only files have to."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import random
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import msgspec
import pytest

from loopwright.errors import (
    LeaseLost,
    Misuse,
    SessionDamaged,
    SessionLocked,
    SessionNotFound,
    SessionTooNew,
    StoreUnavailable,
)
from loopwright.messages import Usage, UserMessage
from loopwright.session import jsonl_lock
from loopwright.session.entries import CustomEntry, EntryRow, MessageEntry, to_row
from loopwright.session.export.pi_v4 import export_pi_v4
from loopwright.session.jsonl import JsonlStore
from loopwright.session.jsonl_folder import folder_name
from loopwright.session.leases import new_owner
from loopwright.session.memory import MemoryStore
from loopwright.session.rows import (
    Approval,
    Fact,
    InboxItem,
    Intent,
    Lane,
    Operation,
    SessionInfo,
    UsageRow,
)
from loopwright.session.store import Commit, Lease, SessionStore

pytest.register_assert_rewrite("loopwright.testing.store_conformance")

from loopwright.testing.store_conformance import StoreConformance  # noqa: E402

posix_only = pytest.mark.skipif(os.name != "posix", reason="signals, flock and rights of POSIX")


class TestJsonlStore(StoreConformance):
    """All that every store promises."""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    async def make_store(self) -> SessionStore:
        return await JsonlStore.open(self.folder)

    async def open_again(self, store: SessionStore) -> SessionStore:
        return await JsonlStore.open(self.folder)


class TestJsonlStoreWithFsync(TestJsonlStore):
    """The same, on the disk before anybody is told."""

    tries = 10

    async def make_store(self) -> SessionStore:
        return await JsonlStore.open(self.folder, fsync=True)


class TestWithoutFlock(TestJsonlStore):
    """The same, where only the lock file of pp-agent-core keeps others out."""

    @pytest.fixture(autouse=True)
    def _no_flock(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(jsonl_lock, "_flock", None)


# -- where files stand -----------------------------------------------------------------------


async def test_a_file_stands_where_pi_looks_for_it(tmp_path: Path) -> None:
    async with await JsonlStore.open(tmp_path) as store:
        info = SessionInfo(id="a.b_c-1", created_at=1_700_000_000_123, cwd="/srv/my:project")

        await store.create(info)

        path = await store.path(info.id)
        assert path == (tmp_path / "--srv-my-project--" / "2023-11-14T22-13-20-123Z_a.b_c-1.jsonl")
        assert json.loads(path.read_text("utf-8")) == {
            "kind": "header",
            "version": 4,
            "id": "a.b_c-1",
            "createdAt": 1_700_000_000_123,
            "cwd": "/srv/my:project",
        }


@posix_only
async def test_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    async with await JsonlStore.open(tmp_path / "new") as store:
        lease = await _session(store)
        await _say(store, lease, "m1", None)

        for path in [tmp_path / "new", *(tmp_path / "new").rglob("*")]:
            assert path.stat().st_mode & 0o077 == 0, path


@pytest.mark.parametrize(
    ("cwd", "name"),
    [
        ("/srv/a b", "--srv-a b--"),
        ("C:\\work\\a", "--C--work-a--"),
        ("relative", "--relative--"),
        (None, "----"),
    ],
)
def test_the_folder_is_named_as_pi_names_it(cwd: str | None, name: str) -> None:
    assert folder_name(cwd) == name


async def test_a_folder_whose_name_would_be_too_long_gets_a_shorter_one(tmp_path: Path) -> None:
    async with await JsonlStore.open(tmp_path) as store:
        deep, deeper = "/ä" * 300, "/ä" * 301

        await store.create(SessionInfo(id="deep", cwd=deep))
        await store.create(SessionInfo(id="deeper", cwd=deeper))

        assert [info.id for info in await store.list(cwd=deep)] == ["deep"]
        assert [info.id for info in await store.list(cwd=deeper)] == ["deeper"]


async def test_no_id_leads_out_of_the_folder(tmp_path: Path) -> None:
    root = tmp_path / "root"
    async with await JsonlStore.open(root) as store:
        for session_id in ("../../evil", "/etc/evil", "..", "a/../../b", "." * 300):
            await store.create(SessionInfo(id=session_id, cwd="../../elsewhere"))
            assert (await store.info(session_id)).id == session_id

        assert [path.name for path in tmp_path.iterdir()] == ["root"]


async def test_a_file_with_another_name_is_found_by_its_first_line(tmp_path: Path) -> None:
    async with await JsonlStore.open(tmp_path) as store:
        await store.create(SessionInfo(id="s"))
        path = await store.path("s")
        path.rename(path.with_name("renamed by somebody.jsonl"))

        found = await store.info("s")

        assert found.id == "s"


async def test_the_list_passes_over_what_is_no_session_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with await JsonlStore.open(tmp_path) as store:
        await store.create(SessionInfo(id="good"))
        folder = (await store.path("good")).parent
        (folder / "empty.jsonl").touch()
        (folder / "noise.jsonl").write_bytes(b"\xff\xfe noise\n")
        (folder / "newer.jsonl").write_text('{"kind":"header","version":5,"id":"n"}\n')
        (folder / "notes.txt").write_text("no session")

        with caplog.at_level(logging.WARNING, "loopwright"):
            found = await store.list()

        assert [info.id for info in found] == ["good"]
        assert {record.args[0].name for record in caplog.records if record.args} == {  # type: ignore[union-attr]
            "empty.jsonl",
            "noise.jsonl",
            "newer.jsonl",
        }


async def test_a_session_that_cannot_be_read_is_listed_by_its_first_line(tmp_path: Path) -> None:
    async with await JsonlStore.open(tmp_path) as store:
        await _damaged(
            store, b"{broken}\n", b'{"kind":"lane","seq":9,"lane":"main","leafId":null}\n'
        )

        (found,) = await store.list()

        assert found.id == "s"


async def test_listing_reads_no_file_twice_and_none_whose_lease_tells_all(tmp_path: Path) -> None:
    async with await JsonlStore.open(tmp_path) as store:
        lease = await _session(store)
        await _say(store, lease, "m1", None)
        await store.release(lease)
        path = await store.path("s")
    size = path.stat().st_size
    header = path.read_bytes().partition(b"\n")[0]
    when = path.stat().st_mtime_ns
    path.write_bytes((header + b"\n").ljust(size, b"x"))  # whoever reads on is in trouble
    os.utime(path, ns=(when, when))

    async with await JsonlStore.open(tmp_path) as store:
        (found,) = await store.list()

        assert (found.entries, found.preview) == (1, "m1")


# -- case 033: the end of a file is torn -----------------------------------------------------


@pytest.mark.parametrize(
    "torn",
    [
        b'{"kind":"entry","id":"2","type":"mess',
        b'{"kind":"entry","id":"2","type":"mess\n',
        b'{"kind":"entry","id":"2","type":"mess\n\n',
        b'{"kind":"entry","id":"2","type":"mess\n \n\n',
        b"\x00" * 100,
        '{"kind":"entry","text":"é'.encode()[:-1],
    ],
)
async def test_case_033_a_fragment_at_the_end_is_cut_off_before_the_next_append(
    tmp_path: Path, torn: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async with await JsonlStore.open(tmp_path) as store:
        lease = await _session(store)
        await _say(store, lease, "1", None)
        path = await store.path("s")
    whole = path.read_bytes()
    path.write_bytes(whole + torn)

    async with await JsonlStore.open(tmp_path) as store:
        lease = await store.claim("s", lease.owner, 60)
        assert [row.id for row in await store.entries("s")] == ["1"]
        assert path.read_bytes() == whole + torn  # reading changes nothing
        with caplog.at_level(logging.WARNING, "loopwright"):
            await _say(store, lease, "3", "1")
        (repair,) = store.repairs

    assert path.read_bytes().startswith(whole)
    assert (repair.session_id, repair.line) == ("s", len(whole.splitlines()) + 1)
    assert repair.kept_in is not None
    assert Path(repair.kept_in).read_bytes() == torn
    assert "torn" in caplog.text
    async with await JsonlStore.open(tmp_path) as store:
        rows = await store.entries("s")
        assert [(row.id, row.parent_id) for row in rows] == [("1", None), ("3", "1")]
    for line in path.read_bytes().splitlines():
        json.loads(line)


async def test_case_033_a_second_crash_costs_no_more_than_its_own_commit(tmp_path: Path) -> None:
    async with await JsonlStore.open(tmp_path) as store:
        lease = await _session(store)
        path = await store.path("s")
        for number in range(3):
            with path.open("ab") as file:
                file.write(b'{"torn": ')
            await _say(store, lease, f"m{number}", f"m{number - 1}" if number else None)

        rows = await store.entries("s")

        assert [row.id for row in rows] == ["m0", "m1", "m2"]
        assert [Path(r.kept_in or "").name[-6:] for r in store.repairs] == [
            "torn-1",
            "torn-2",
            "torn-3",
        ]


async def test_case_033_a_whole_last_line_without_its_end_gets_one(tmp_path: Path) -> None:
    async with await JsonlStore.open(tmp_path) as store:
        lease = await _session(store)
        await _say(store, lease, "1", None)
        path = await store.path("s")
        path.write_bytes(path.read_bytes().removesuffix(b"\n"))

        assert [row.id for row in await store.entries("s")] == ["1"]
        await _say(store, lease, "2", "1")

        assert [row.id for row in await store.entries("s")] == ["1", "2"]
        assert store.repairs == []
    async with await JsonlStore.open(tmp_path) as store:
        assert [row.id for row in await store.entries("s")] == ["1", "2"]


async def test_a_header_without_its_end_gets_one(tmp_path: Path) -> None:
    async with await JsonlStore.open(tmp_path) as store:
        lease = await _session(store)
        path = await store.path("s")
        path.write_bytes(path.read_bytes().removesuffix(b"\n"))

        await _say(store, lease, "1", None)

        assert [row.id for row in await store.entries("s")] == ["1"]
        assert len(path.read_bytes().splitlines()) == 2


@pytest.mark.parametrize(
    ("lines", "number", "what"),
    [
        ([b"{broken}", b'{"kind":"lane","seq":9,"lane":"x","leafId":null}'], 3, "not JSON"),
        ([b'{"kind":"entry","seq":2}'], 3, "id must be a text"),
        ([b'{"kind":"nonsense","seq":2}'], 3, "no line has the kind 'nonsense'"),
        ([b'{"kind":"lane","seq":1,"lane":"x","leafId":null}'], 3, "seq 1 does not come after 1"),
        ([b'{"kind":"lane","seq":2,"lane":"x","leafId":"gone"}'], 3, "no entry gone"),
        ([b'{"kind":"fact","seq":2,"fact":"label","targetId":"1","label":null}'], 3, "label"),
        ([b"[1]"], 3, "a line must be an object"),
        ([b'{"kind":"lane","seq":2,"lane":"x","leafId":null}', b"[]"], 4, "an object"),
    ],
)
async def test_case_033_a_line_that_is_wrong_is_named_and_the_file_left_as_it_is(
    tmp_path: Path, lines: list[bytes], number: int, what: str
) -> None:
    async with await JsonlStore.open(tmp_path) as store:
        path = await _damaged(store, *[line + b"\n" for line in lines])
        before = path.read_bytes()

        for use in (
            lambda: store.entries("s"),
            lambda: store.state("s"),
            lambda: store.claim("s", new_owner(), 60),
            lambda: store.withdraw("s", "x"),
        ):
            with pytest.raises(SessionDamaged, match=what) as refusal:
                await use()
            assert refusal.value.where == f"{path}, line {number}"

        assert path.read_bytes() == before
        assert list(path.parent.glob("*.torn-*")) == []


async def test_a_line_of_a_later_version_of_ours_is_refused(tmp_path: Path) -> None:
    async with await JsonlStore.open(tmp_path) as store:
        line = {
            "kind": "entry",
            "type": "custom",
            "id": "x",
            "parentId": None,
            "seq": 2,
            "timestamp": 1,
            "customType": "loopwright.state",
            "data": {"format": 2, "session": "s", "seq": 2},
        }
        path = await _damaged(store, json.dumps(line).encode() + b"\n")
        before = path.read_bytes()

        with pytest.raises(SessionTooNew, match="line 3"):
            await store.claim("s", new_owner(), 60)

        assert path.read_bytes() == before


async def test_a_commit_cut_at_any_byte_happened_whole_or_not_at_all(tmp_path: Path) -> None:
    async with await JsonlStore.open(tmp_path) as store:
        lease = await _session(store)
        await _say(store, lease, "m1", None)
        await store.enqueue("s", _item("q1"))
        await store.commit(lease, Commit(intents=[_intent("i1")]))
        path = await store.path("s")
        before, state_before = path.read_bytes(), await _everything(store)
        await store.commit(lease, _large_commit())
        after, state_after = path.read_bytes(), await _everything(store)
    assert state_after != state_before
    last = after[len(before) :]
    assert len(last.splitlines()) > 6
    # Each place where JSON or a line changes its state, and some of all the others.
    places = {place for place in range(len(last) + 1) if last[place - 1 : place] in b'\n{}",:'}
    places |= set(random.Random(33).sample(range(len(last)), 200))

    for place in sorted(places):
        path.write_bytes(before + last[:place])
        for aside in path.parent.glob("*.torn-*"):
            aside.unlink()
        async with await JsonlStore.open(tmp_path) as store:
            found = await _everything(store)
            whole = place >= len(last) - 1  # only its last newline may be missing
            assert found == (state_after if whole else state_before), place
            again = await store.claim("s", lease.owner, 60)
            await _say(store, again, "next", "m1")
            assert [row.id for row in await store.entries("s")][-1] == "next"
            cut = [Path(repair.kept_in or "").read_bytes() for repair in store.repairs]
            assert cut == ([] if whole or not place else [last[:place]])
        async with await JsonlStore.open(tmp_path) as store:
            assert [row.id for row in await store.entries("s")][-1] == "next"


async def test_what_others_wrote_behind_half_a_commit_is_kept_and_its_state_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with await JsonlStore.open(tmp_path) as store:
        lease = await _session(store)
        await _say(store, lease, "m1", None)
        path = await store.path("s")
        before = path.read_bytes()
        await store.commit(lease, _large_commit())
        lines = path.read_bytes()[len(before) :].splitlines(keepends=True)
    seq = json.loads(lines[2])["seq"]
    behind = {
        "kind": "entry",
        "lane": "main",
        "type": "message",
        "id": "theirs",
        "parentId": json.loads(lines[2])["id"],
        "seq": seq + 1,
        "timestamp": 1,
        "message": {"role": "user", "content": "hello", "timestamp": 1},
    }
    path.write_bytes(before + b"".join(lines[:3]) + json.dumps(behind).encode() + b"\n")

    async with await JsonlStore.open(tmp_path) as store:
        with caplog.at_level(logging.WARNING, "loopwright"):
            state = await store.state("s")

        assert state.lanes[0].leaf_id == "theirs"
        assert (state.operations, state.intents) == ([], [])
        assert "cut off" in caplog.text
        again = await store.claim("s", lease.owner, 60)
        await _say(store, again, "ours", "theirs")
        assert (await store.entries("s"))[-1].id == "ours"


# -- others change the file ------------------------------------------------------------------


async def test_a_file_that_was_replaced_or_cut_is_read_anew(tmp_path: Path) -> None:
    async with await JsonlStore.open(tmp_path) as store:
        lease = await _session(store)
        await _say(store, lease, "m1", None)
        path = await store.path("s")
        short = path.read_bytes()
        await _say(store, lease, "m2", "m1")
        long = path.read_bytes()

        path.write_bytes(short)
        assert [row.id for row in await store.entries("s")] == ["m1"]
        staged = path.with_suffix(".tmp")
        staged.write_bytes(long)
        os.replace(staged, path)
        assert [row.id for row in await store.entries("s")] == ["m1", "m2"]
        path.write_bytes(long.replace(b"m2", b"n2") + b"\n")
        assert [row.id for row in await store.entries("s")] == ["m1", "n2"]

        path.unlink()
        with pytest.raises(SessionNotFound):
            await store.entries("s")


async def test_two_stores_on_one_file_number_on_where_the_other_stopped(tmp_path: Path) -> None:
    async with await JsonlStore.open(tmp_path) as one, await JsonlStore.open(tmp_path) as two:
        lease = await _session(one)
        for number in range(10):
            store = (one, two)[number % 2]
            await _say(store, lease, f"m{number}", f"m{number - 1}" if number else None)
            await store.enqueue("s", _item(f"q{number}"))

        lines = (await one.path("s")).read_bytes().splitlines()

        seqs = [json.loads(line)["seq"] for line in lines[1:]]
        assert seqs == list(range(1, len(lines)))
        assert await _everything(one) == await _everything(two)


async def test_an_index_of_a_lane_line_without_entries_is_not_lost(tmp_path: Path) -> None:
    async with await JsonlStore.open(tmp_path) as store:
        lease = await _session(store)
        await _say(store, lease, "m1", None)

        await store.commit(lease, Commit(lanes=[Lane(name="main"), Lane(name="far", leaf_id="?")]))

        lanes = (await store.state("s")).lanes
        assert [(lane.name, lane.leaf_id) for lane in lanes] == [("main", None), ("far", "?")]
    async with await JsonlStore.open(tmp_path) as store:
        assert (await store.state("s")).lanes == lanes


# -- case 034: two writers -------------------------------------------------------------------


@posix_only
async def test_case_034_of_two_processes_one_gets_the_session_and_the_other_is_told(
    tmp_path: Path,
) -> None:
    async with await JsonlStore.open(tmp_path) as store:
        await store.create(SessionInfo(id="s"))
    runners = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _CONTENDER, str(tmp_path), name),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for name in ("one", "two")
    ]
    pipes = [(runner.stdin, runner.stdout) for runner in runners]

    for _, out in pipes:
        assert out is not None
        assert await out.readline() == b"ready\n"
    for into, _ in pipes:
        assert into is not None
        into.write(b"go\n")
    said = [(await out.readline()).strip() for _, out in pipes if out is not None]

    assert sorted(said) == [b"locked", b"wrote"]
    async with await JsonlStore.open(tmp_path) as store:
        (entry,) = await store.entries("s")  # read while it is locked
        assert (await store.list())[0].locked_by is not None
        assert entry.id == ("one" if said[0] == b"wrote" else "two")
        with pytest.raises(SessionLocked):
            await store.claim("s", new_owner(), 60)
        winner = runners[said.index(b"wrote")]
        winner.send_signal(signal.SIGKILL)
        for runner in runners:
            await runner.communicate()

        lease = await store.claim("s", new_owner(), 60)  # the dead hold nobody up
        await _say(store, lease, "heir", entry.id)
    for line in (await _only_file(tmp_path)).read_bytes().splitlines():
        json.loads(line)


_CONTENDER = """
import asyncio, sys
from loopwright.errors import SessionLocked
from loopwright.messages import UserMessage
from loopwright.session.entries import MessageEntry, to_row
from loopwright.session.jsonl import JsonlStore
from loopwright.session.leases import new_owner
from loopwright.session.rows import Lane
from loopwright.session.store import Commit

async def main(root, name):
    async with await JsonlStore.open(root) as store:
        print("ready", flush=True)
        sys.stdin.readline()
        try:
            lease = await store.claim("s", new_owner(), 60)
        except SessionLocked:
            print("locked", flush=True)
            return
        entry = to_row(MessageEntry(id=name, parent_id=None, message=UserMessage(name)))
        await store.commit(lease, Commit(entries=[entry], lanes=[Lane(name="main", leaf_id=name)]))
        print("wrote", flush=True)
        sys.stdin.readline()

asyncio.run(main(*sys.argv[1:]))
"""


@posix_only
async def test_a_lock_whose_maker_was_killed_before_it_said_who_it_was_is_passed(
    tmp_path: Path,
) -> None:
    async with await JsonlStore.open(tmp_path) as store:
        await store.create(SessionInfo(id="s"))
        file = await store.path("s")
        file.with_name(f"{file.name}.lock").touch()

        lease = await store.claim("s", "me", 30)
        await store.commit(lease, Commit(facts=[Fact(namespace="name", value="passed")]))

        assert (await store.info("s")).name == "passed"


async def test_case_034_a_process_that_is_killed_while_it_writes_leaves_whole_commits(
    tmp_path: Path,
) -> None:
    async with await JsonlStore.open(tmp_path) as store:
        await store.create(SessionInfo(id="s"))
    for round_ in range(3):
        writer = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _WRITER, str(tmp_path), str(round_)),
            stdout=subprocess.PIPE,
        )
        assert writer.stdout is not None
        told = 0
        while told < 20:
            told = int(await writer.stdout.readline())
        writer.send_signal(signal.SIGKILL)
        rest = (await writer.communicate())[0].split()
        told = int(rest[-1]) if rest else told

        async with await JsonlStore.open(tmp_path) as store:
            ids = [row.id for row in await store.entries("s") if row.id.startswith(f"{round_}-")]
            lease = await store.claim("s", new_owner(), 60)
            await store.release(lease)

            numbers = [int(entry_id.split("-")[1]) for entry_id in ids]
            assert numbers == list(range(len(numbers)))
            assert len(numbers) >= 2 * told  # what was reported is there
            assert len(numbers) % 2 == 0  # and no commit by half
            usage = await store.usage("s")
            assert len(usage) * 2 == (await store.info("s")).entries


_WRITER = """
import asyncio, sys
from loopwright.messages import Usage, UserMessage
from loopwright.session.entries import MessageEntry, to_row
from loopwright.session.jsonl import JsonlStore
from loopwright.session.leases import new_owner
from loopwright.session.rows import UsageRow
from loopwright.session.store import Commit

async def main(root, name):
    async with await JsonlStore.open(root) as store:
        lease = await store.claim("s", new_owner(), 60)
        for n in range(100_000):
            rows = [
                to_row(MessageEntry(id=f"{name}-{2 * n + k}", parent_id=None,
                                    message=UserMessage("x" * 3000)))
                for k in range(2)
            ]
            await store.commit(lease, Commit(entries=rows, usage_total=Usage(),
                                             usage=[UsageRow(cause="tool", usage=Usage())]))
            print(n + 1, flush=True)

asyncio.run(main(*sys.argv[1:]))
"""


async def test_case_034_a_zombie_that_wakes_up_writes_nothing(tmp_path: Path) -> None:
    async with await JsonlStore.open(tmp_path) as old, await JsonlStore.open(tmp_path) as new:
        zombie = await _session(old, seconds=0)
        heir = await new.claim("s", new_owner(), 60)
        await _say(new, heir, "m1", None)
        before = (await new.path("s")).read_bytes()

        with pytest.raises(LeaseLost):
            await _say(old, zombie, "ghost", None)
        with pytest.raises(LeaseLost):
            await old.renew(zombie, 60)
        await old.release(zombie)

        assert (await new.path("s")).read_bytes() == before
        await _say(new, heir, "m2", "m1")


@posix_only
async def test_a_lock_that_stays_is_reported_and_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    monkeypatch.setattr(jsonl_lock, "_WAIT_SECONDS", 0.05)
    async with await JsonlStore.open(tmp_path) as store:
        lease = await _session(store)
        path = await store.path("s")
        held = path.with_name(f"{path.name}.lease").open("rb+")
        fcntl.flock(held, fcntl.LOCK_EX)

        with pytest.raises(StoreUnavailable, match="another process holds its lock"):
            await _say(store, lease, "m1", None)
        assert await store.entries("s") == []  # reading goes on
        held.close()

        await _say(store, lease, "m1", None)


@posix_only
async def test_a_lock_file_that_we_left_behind_is_taken_away_at_once(tmp_path: Path) -> None:
    async with await JsonlStore.open(tmp_path) as store:
        lease = await _session(store)
        path = await store.path("s")
        guard = path.with_name(f"{path.name}.lock")
        guard.write_bytes(f"{os.getpid()} loopwright".encode())  # killed in an append

        await _say(store, lease, "m1", None)

        assert not guard.exists()


async def test_a_lock_file_of_somebody_who_may_live_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jsonl_lock, "_WAIT_SECONDS", 0.05)
    async with await JsonlStore.open(tmp_path) as store:
        lease = await _session(store)
        path = await store.path("s")
        guard = path.with_name(f"{path.name}.lock")
        guard.write_text(str(os.getpid()))

        with pytest.raises(StoreUnavailable, match=r"jsonl\.lock stays"):
            await _say(store, lease, "m1", None)

        assert guard.exists()


# -- the medium fails ------------------------------------------------------------------------


@posix_only
async def test_a_disk_that_is_full_leaves_the_file_as_it_was(tmp_path: Path) -> None:
    async with await JsonlStore.open(tmp_path) as store:
        lease = await _session(store)
        await _say(store, lease, "m1", None)
        await store.release(lease)
        path = await store.path("s")
    before = path.read_bytes()

    told = subprocess.run(
        [sys.executable, "-c", _FULL_DISK, str(tmp_path), str(len(before) + 100)],
        capture_output=True,
        text=True,
        check=False,
    )

    assert told.stdout.split("\n")[:4] == [
        "full: StoreUnavailable",
        "again: StoreUnavailable",
        "room, same lease: StoreUnavailable",
        "room, new lease: written",
    ], told.stderr
    assert path.read_bytes().startswith(before)
    async with await JsonlStore.open(tmp_path) as store:
        assert [row.id for row in await store.entries("s")] == ["m1", "m2"]
        assert store.repairs == []


_FULL_DISK = """
import asyncio, resource, signal, sys
from loopwright.errors import LoopwrightError
from loopwright.messages import UserMessage
from loopwright.session.entries import MessageEntry, to_row
from loopwright.session.jsonl import JsonlStore
from loopwright.session.store import Commit

async def attempt(what, store, lease, size):
    entry = to_row(MessageEntry(id="m2", parent_id="m1", message=UserMessage("x" * size)))
    try:
        await store.commit(lease, Commit(entries=[entry]))
        print(what, "written")
    except LoopwrightError as error:
        print(what, type(error).__name__)

async def main(root, limit):
    # A limit on the size of files cuts a write short just as a full disk does.
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    async with await JsonlStore.open(root) as store:
        lease = await store.claim("s", "h:1:x:y", 60)
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (int(limit), hard))
        await attempt("full:", store, lease, 1000)
        await attempt("again:", store, lease, 10)
        resource.setrlimit(resource.RLIMIT_FSIZE, (hard, hard))
        await attempt("room, same lease:", store, lease, 10)
        lease = await store.claim("s", "h:1:x:y", 60)
        await attempt("room, new lease:", store, lease, 10)

asyncio.run(main(*sys.argv[1:]))
"""


@posix_only
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may write anywhere")
async def test_a_folder_that_may_not_be_written_can_be_read(tmp_path: Path) -> None:
    async with await JsonlStore.open(tmp_path) as store:
        lease = await _session(store)
        await _say(store, lease, "m1", None)
        folder = (await store.path("s")).parent
        for path in [*folder.iterdir(), folder]:
            path.chmod(path.stat().st_mode & 0o555)
        try:
            assert [row.id for row in await store.entries("s")] == ["m1"]
            with pytest.raises(StoreUnavailable):
                await _say(store, lease, "m2", "m1")
        finally:
            for path in [folder, *folder.iterdir()]:
                path.chmod(0o700)


async def test_a_place_that_is_no_folder_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    async with await JsonlStore.open(tmp_path / "file") as store:
        with pytest.raises(StoreUnavailable):
            await store.create(SessionInfo(id="s"))


@posix_only
async def test_a_store_does_not_hang_in_a_forked_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await JsonlStore.open(tmp_path) as store:
        await store.create(SessionInfo(id="s"))
        pid = os.getpid()
        monkeypatch.setattr(os, "getpid", lambda: pid + 1)  # as it looks in the child

        with pytest.raises(Misuse, match="forked"):
            await store.info("s")


async def test_who_stops_waiting_stops_no_commit(tmp_path: Path) -> None:
    async with await JsonlStore.open(tmp_path) as store:
        lease = await _session(store)
        waiting = asyncio.create_task(_say(store, lease, "m1", None))
        await asyncio.sleep(0)

        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

        await _say(store, lease, "m2", "m1")
        assert [row.id for row in await store.entries("s")] == ["m1", "m2"]


# -- what is in the file ---------------------------------------------------------------------


async def test_a_single_message_is_a_single_line_that_pi_could_have_written(
    tmp_path: Path,
) -> None:
    async with await JsonlStore.open(tmp_path) as store:
        lease = await _session(store)

        await _say(store, lease, "m1", None, text="hello\u2028there")

        lines = (await store.path("s")).read_bytes().split(b"\n")
        assert lines[2:] == [b""]
        assert json.loads(lines[1]) == {
            "kind": "entry",
            "lane": "main",
            "type": "message",
            "id": "m1",
            "parentId": None,
            "seq": 1,
            "timestamp": 7,
            "message": {"role": "user", "content": "hello\u2028there", "timestamp": 7},
        }


@pytest.mark.parametrize(
    "row",
    [
        EntryRow(id="e", parent_id=None, type="message", payload=b"{}", timestamp=1),
        EntryRow(id="e", parent_id=None, type="message", payload=b"[1, 2]", timestamp=1),
        EntryRow(id="e", parent_id=None, type="message", payload=b'{"message":7}', timestamp=1),
        EntryRow(id="e", parent_id=None, type="compaction", payload=b'{"seq":9}', timestamp=1),
        EntryRow(
            id="e",
            parent_id=None,
            type="custom",
            payload=b'{"data":{"session":"s"}}',
            timestamp=1,
            custom_type="loopwright.state",
        ),
        EntryRow(
            id="e",
            parent_id=None,
            type="custom",
            payload=b'{"data":1,\n"more":[]}',
            timestamp=1,
            custom_type="loopwright.entry",
            operation_id="o",
        ),
        EntryRow(id="e", parent_id=None, type="custom", payload=b"{}", timestamp=1),
    ],
)
async def test_a_row_that_pi_has_no_place_for_is_kept_as_it_is(
    tmp_path: Path, row: EntryRow
) -> None:
    async with await JsonlStore.open(tmp_path) as store:
        lease = await _session(store)

        await store.commit(lease, Commit(entries=[row]))

        (kept,) = await store.entries("s")
        assert _same(kept, row)
        assert len((await store.path("s")).read_bytes().splitlines()) == 2
    async with await JsonlStore.open(tmp_path) as store:
        (kept,) = await store.entries("s")
        assert _same(kept, row)


async def test_a_payload_that_is_no_json_is_refused_before_anything_is_written(
    tmp_path: Path,
) -> None:
    async with await JsonlStore.open(tmp_path) as store:
        lease = await _session(store)
        row = EntryRow(id="e", parent_id=None, type="custom", payload=b"no", timestamp=1)

        with pytest.raises(SessionDamaged, match="entry e"):
            await store.commit(lease, Commit(entries=[row]))

        assert await store.entries("s") == []
        await _say(store, lease, "m1", None)


async def test_an_export_of_any_store_is_a_session_of_this_one(tmp_path: Path) -> None:
    memory = MemoryStore()
    await _session(memory)
    lease = await memory.claim("s", (await memory.info("s")).locked_by or "", 60)
    await _say(memory, lease, "m1", None)
    await memory.commit(lease, _large_commit())
    folder = tmp_path / "----"
    folder.mkdir()

    path = await export_pi_v4(memory, "s", folder / "export.jsonl")

    assert [found.name for found in folder.iterdir()] == ["export.jsonl"]
    assert path == folder / "export.jsonl"
    async with await JsonlStore.open(tmp_path) as store:
        original, copy = await memory.state("s"), await store.state("s")
        rows = [_unnumbered(row) for row in await store.entries("s")]
        assert rows == [_unnumbered(row) for row in await memory.entries("s")]
        assert [(lane.name, lane.leaf_id) for lane in copy.lanes] == [
            (lane.name, lane.leaf_id) for lane in original.lanes
        ]
        assert [(f.namespace, f.key, f.value) for f in copy.facts] == [
            (f.namespace, f.key, f.value) for f in original.facts
        ]
        assert copy.info.usage == original.info.usage
        assert len(await store.usage("s")) == len(await memory.usage("s"))
        # What is unfinished stays where it is.
        assert (copy.operations, copy.intents, copy.inbox, copy.approvals) == ([], [], [], [])
        assert all(lane.operation_id is None for lane in copy.lanes)


async def test_an_export_that_fails_leaves_nothing_and_harms_nothing(tmp_path: Path) -> None:
    memory = MemoryStore()
    await _session(memory)
    place = tmp_path / "gone" / "s.jsonl"

    with pytest.raises(StoreUnavailable, match="could not be written"):
        await export_pi_v4(memory, "s", place)
    with pytest.raises(SessionNotFound):
        await export_pi_v4(memory, "nobody", tmp_path / "x.jsonl")

    assert list(tmp_path.iterdir()) == []


# -- what the tests use ----------------------------------------------------------------------


async def _session(store: SessionStore, seconds: float = 60) -> Lease:
    """The session `s`, new, and the lease on it."""
    await store.create(SessionInfo(id="s"))
    return await store.claim("s", new_owner(), seconds)


async def _say(
    store: SessionStore, lease: Lease, entry_id: str, parent_id: str | None, text: str = ""
) -> None:
    message = UserMessage(text or entry_id, timestamp=7)
    entry = MessageEntry(id=entry_id, parent_id=parent_id, message=message, timestamp=7)
    await store.commit(
        lease, Commit(entries=[to_row(entry)], lanes=[Lane(name="main", leaf_id=entry_id)])
    )


async def _damaged(store: JsonlStore, *lines: bytes) -> Path:
    """The session `s` with one good entry and *lines* behind it."""
    lease = await _session(store)
    await _say(store, lease, "1", None)
    await store.release(lease)
    path = await store.path("s")
    with path.open("ab") as file:
        file.write(b"".join(lines))
    return path


def _item(item_id: str) -> InboxItem:
    return InboxItem(
        id=item_id, lane="main", queue="steer", message=UserMessage("said", 7), created_at=7
    )


def _intent(intent_id: str) -> Intent:
    return Intent(
        id=intent_id,
        lane="main",
        assistant_id="a",
        index=0,
        tool_call_id="c",
        tool_name="t",
        arguments={"text": 'with "quotes", {braces}\n'},
        started_at=7,
    )


def _large_commit() -> Commit:
    """A commit with something of everything, behind the entry `m1`."""
    spent = Usage(input=3, total_tokens=3)
    return Commit(
        entries=[
            to_row(
                MessageEntry(id="m2", parent_id="m1", message=UserMessage("é {", 7), timestamp=7)
            ),
            to_row(MessageEntry(id="m3", parent_id="m2", message=UserMessage("3", 7), timestamp=7)),
            to_row(CustomEntry(id="x", parent_id="m1", custom_type="app", data=[1], timestamp=7)),
        ],
        lanes=[Lane(name="main", leaf_id="m3", operation_id="o"), Lane(name="side", leaf_id="x")],
        operations=[Operation(id="o", lane="main", request_id="r", started_at=7)],
        intents=[_intent("i2")],
        settled=["i1"],
        inbox=[msgspec.structs.replace(_item("q1"), status="placed")],
        approvals=[
            Approval(
                id="p", lane="main", tool_call_id="c", tool_name="t", digest="d", requested_at=7
            )
        ],
        facts=[
            Fact(namespace="custom", key="k", value={"a": None}),
            Fact(namespace="name", value="named"),
            Fact(namespace="label", key="m2", value="marked"),
            Fact(namespace="label", key="not there", value="marked"),
        ],
        usage=[
            UsageRow(id="u1", cause="lost", usage=spent, timestamp=7),
            UsageRow(id="m2", cause="assistant", usage=Usage(), timestamp=7),
        ],
        usage_total=spent,
        preview="é",
    )


async def _everything(store: SessionStore) -> list[Any]:
    state = await store.state("s")
    state.info = msgspec.structs.replace(state.info, modified_at=0, locked_by=None)
    return [
        state,
        await store.entries("s"),
        await store.usage("s"),
        await store.operations("s"),
        await store.approvals("s"),
    ]


def _unnumbered(row: EntryRow) -> EntryRow:
    return msgspec.structs.replace(row, seq=0)


def _same(kept: EntryRow, given: EntryRow) -> bool:
    return json.loads(kept.payload) == json.loads(given.payload) and msgspec.structs.replace(
        kept, payload=b"", seq=0
    ) == msgspec.structs.replace(given, payload=b"", seq=0)


async def _only_file(root: Path) -> Path:
    (path,) = root.rglob("*.jsonl")
    return path
