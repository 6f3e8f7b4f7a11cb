"""The doctor on session files that were damaged by hand, line by line."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loopwright import Agent, Harness
from loopwright.errors import SessionDamaged, SessionLocked
from loopwright.messages import UserMessage
from loopwright.session import JsonlStore, Session
from loopwright.session.doctor import Report, examine, repair
from loopwright.session.entries import CompactionEntry, to_row
from loopwright.session.jsonl_lock import LeaseRow, lease_path
from loopwright.session.leases import new_owner
from loopwright.session.rows import InboxItem, Lane, Operation, SessionInfo
from loopwright.session.store import Commit
from loopwright.testing import Call, Reply, ScriptedModel

from .test_doctor import WHOLE, look
from .trees import reply, user

Line = dict[str, Any]


async def a_file(folder: Path) -> Path:
    """The session `s0` of two turns, with a call, as a harness leaves it."""
    async with await JsonlStore.open(folder / "sessions") as store:
        model = ScriptedModel(
            [
                Reply("Looking.", calls=[Call("look", {"path": "a.txt"})]),
                Reply("It is empty."),
                Reply("Yes."),
            ]
        )
        agent = Agent(model.model, stream_fn=model.stream_fn, tools=[look])
        async with Harness.open(store, "s0", agent=agent, cwd="/project") as harness:
            await harness.prompt("What is in a.txt?")
            await harness.prompt("Sure?")
        return await store.path("s0")


def lines_of(path: Path) -> list[Line]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def write(path: Path, lines: list[Line]) -> None:
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in lines))


def saying(lines: list[Line], text: str) -> int:
    """Which line says *text*."""
    return next(n for n, line in enumerate(lines) if text in json.dumps(line.get("message")))


def kinds(report: Report, severity: str = "error") -> set[str]:
    return {finding.kind for finding in report.findings if finding.severity == severity}


async def texts(path: Path) -> list[str]:
    """What the session would show a model; the store opens it for writing."""
    async with (
        await JsonlStore.open(path.parent.parent) as store,
        await Session.open(store, "s0", create=False) as session,
    ):
        return [getattr(message, "text", "") for message in session.messages()]


async def test_a_sound_file_has_no_findings_and_a_repair_makes_nothing(tmp_path: Path) -> None:
    path = await a_file(tmp_path)
    before = path.read_bytes()

    report = await examine(path)
    done = await repair(path)

    assert (report.findings, report.sessions, report.entries) == ([], 1, 6)
    assert done == []
    assert path.read_bytes() == before


async def test_a_torn_last_line_is_cut_off_and_kept(tmp_path: Path) -> None:
    path = await a_file(tmp_path)
    whole = path.read_bytes()
    with path.open("ab") as file:
        file.write(b'{"kind":"entry","lane":"main","typ')

    report = await examine(path)
    (done,) = await repair(path)

    assert report.sound
    assert kinds(report, "warning") == {"torn_line"}
    assert path.read_bytes() == whole
    assert done.removed is not None
    (kept,) = [json.loads(line) for line in done.removed.read_text("utf-8").splitlines()]
    assert kept["text"] == '{"kind":"entry","lane":"main","typ'
    assert done.backup is not None
    assert done.backup.read_bytes() == whole + kept["text"].encode()


async def test_the_last_commit_is_taken_out_whole_if_it_is_not_all_there(tmp_path: Path) -> None:
    path = await a_file(tmp_path)
    lines = lines_of(path)
    state = max(n for n, line in enumerate(lines) if line.get("data", {}).get("lines", 0) > 1)
    write(path, lines[: state + 2])

    report = await examine(path)
    await repair(path)

    assert kinds(report, "warning") >= {"torn_commit"}
    assert path.read_bytes().count(b"\n") == state
    assert (await examine(path)).sound


async def test_a_bad_line_in_the_middle_is_named_and_taken_out(tmp_path: Path) -> None:
    path = await a_file(tmp_path)
    lines = path.read_bytes().split(b"\n")
    place = saying(lines_of(path), "It is empty.")
    lines[place] = lines[place][:40] + b"\x00\xff" + lines[place][42:]
    path.write_bytes(b"\n".join(lines))

    report = await examine(path)
    with pytest.raises(SessionDamaged):
        await texts(path)
    (done,) = await repair(path)

    assert f"line {place + 1}" in {f.where for f in report.findings if f.kind == "bad_line"}
    assert await texts(path) == [text for text in WHOLE if text != "It is empty."]
    assert (await examine(path)).sound
    assert done.removed is not None
    assert "It is empty." in done.removed.read_text("utf-8")


async def test_a_second_entry_with_the_same_id_is_taken_out(tmp_path: Path) -> None:
    path = await a_file(tmp_path)
    lines = lines_of(path)
    again = {**lines[saying(lines, "Sure?")], "seq": lines[-1]["seq"] + 1}
    again.pop("commit", None)
    write(path, [*lines, again])

    report = await examine(path)
    await repair(path)

    assert kinds(report) == {"duplicate_id"}
    assert await texts(path) == WHOLE
    assert (await examine(path)).findings == []


async def test_an_entry_without_its_parent_follows_what_came_before(tmp_path: Path) -> None:
    path = await a_file(tmp_path)
    lines = lines_of(path)
    lines[saying(lines, "Sure?")]["parentId"] = "nowhere"
    write(path, lines)

    report = await examine(path)
    await repair(path)

    assert kinds(report) == {"missing_parent"}
    assert await texts(path) == WHOLE


async def test_what_two_writers_wrote_at_once_stays_as_two_branches(tmp_path: Path) -> None:
    """Each of them thought it was alone: same numbers, and both follow the same leaf."""
    path = await a_file(tmp_path)
    theirs = tmp_path / "theirs"
    shutil.copytree(path.parent.parent, theirs)
    length = path.stat().st_size
    for root, said in ((path.parent.parent, "Mine."), (theirs, "Theirs.")):
        async with (
            await JsonlStore.open(root) as store,
            await Session.open(store, "s0", create=False) as session,
        ):
            await session.append(UserMessage(said))
            await session.set_name(said)
    with path.open("ab") as file:
        file.write((theirs / path.parent.name / path.name).read_bytes()[length:])

    report = await examine(path)
    with pytest.raises(SessionDamaged):
        await texts(path)
    await repair(path)

    assert kinds(report) == {"second_writer"}
    assert (await examine(path)).findings == []
    assert await texts(path) == [*WHOLE, "Theirs."]
    async with await JsonlStore.open(path.parent.parent) as store:
        rows = await store.entries("s0")
        assert (await store.info("s0")).name == "Theirs."
    assert any(b"Mine." in row.payload for row in rows)


async def test_a_second_writer_in_the_middle_of_larger_commits_is_mended(tmp_path: Path) -> None:
    path = await a_file(tmp_path)
    theirs = tmp_path / "theirs"
    shutil.copytree(path.parent.parent, theirs)
    length = path.stat().st_size
    for root, said in ((path.parent.parent, "Mine."), (theirs, "Theirs.")):
        model = ScriptedModel(
            [Reply(said, calls=[Call("look", {"path": "b.txt"})]), Reply(said + " Done.")]
        )
        agent = Agent(model.model, stream_fn=model.stream_fn, tools=[look])
        async with (
            await JsonlStore.open(root) as store,
            Harness.open(store, "s0", agent=agent, create=False) as harness,
        ):
            await harness.prompt("Again?")
    with path.open("ab") as file:
        file.write((theirs / path.parent.name / path.name).read_bytes()[length:])

    await repair(path)
    report = await examine(path)

    assert report.sound, report.findings
    assert (await texts(path))[-1] == "Theirs. Done."


async def test_a_summary_whose_kept_part_is_gone_uses_its_copies(tmp_path: Path) -> None:
    async with await JsonlStore.open(tmp_path / "sessions") as store:
        await store.create(SessionInfo(id="s0"))
        lease = await store.claim("s0", new_owner(), 60)
        summary = CompactionEntry(id="c", parent_id="b", summary="They met.", first_kept_id="b")
        rows = [to_row(e) for e in (user("a", None), reply("b", "a", "Hi!"), summary)]
        await store.commit(lease, Commit(entries=rows, lanes=[Lane(name="main", leaf_id="c")]))
        await store.release(lease)
        path = await store.path("s0")
    lines = lines_of(path)
    for line in lines:
        if line.get("type") == "compaction":
            line["firstKeptId"] = "nowhere"
    write(path, lines)

    report = await examine(path)
    await repair(path)

    assert kinds(report) == {"kept_missing"}
    assert (await examine(path)).findings == []
    assert [text for text in await texts(path) if text == "Hi!"] == ["Hi!"]


async def test_what_an_operation_left_behind_that_is_over_is_cleared_away(tmp_path: Path) -> None:
    path = await a_file(tmp_path)
    async with await JsonlStore.open(path.parent.parent) as store:
        lease = await store.claim("s0", new_owner(), 60)
        cancel = InboxItem(id="x", lane="main", queue="cancel", operation_id="gone")
        commit = Commit(operations=[Operation(id="stray", lane="main")], inbox=[cancel])
        await store.commit(lease, commit)
        await store.release(lease)

    report = await examine(path)
    await repair(path)

    assert kinds(report) == {"operation_astray", "inbox_astray"}
    assert (await examine(path)).findings == []
    assert await texts(path) == WHOLE


def a_dead_owner() -> str:
    script = "from loopwright.session.leases import new_owner; print(new_owner())"
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("owner", "is_open"), [(new_owner, True), (a_dead_owner, False)], ids=["living", "dead"]
)
async def test_the_lease_of_a_living_process_keeps_the_doctor_from_mending(
    tmp_path: Path, owner: Callable[[], str], is_open: bool
) -> None:
    path = await a_file(tmp_path)
    with path.open("ab") as file:
        file.write(b"{")
    before = path.read_bytes()
    lease_path(path).write_bytes(msgspec.json.encode(LeaseRow(owner(), 7, 2**42)))

    report = await examine(path)
    if is_open:
        with pytest.raises(SessionLocked):
            await repair(path)
    else:
        await repair(path)

    assert (path.read_bytes() == before) is is_open
    assert kinds(report, "note") == (set() if is_open else {"lease_left"})
    assert not is_open or not [file for file in path.parent.iterdir() if "doctor" in file.name]


async def test_a_folder_is_looked_at_file_by_file(tmp_path: Path) -> None:
    path = await a_file(tmp_path)
    (path.parent / "old.jsonl").write_text('{"type":"session","version":3,"id":"old"}\n')
    (path.parent / "odd.jsonl").write_text("hello\n")
    (path.parent / "new.jsonl").write_text('{"kind":"header","version":5,"id":"new"}\n')

    report = await examine(path.parent.parent)

    assert report.sessions == 4
    assert kinds(report) == {"no_header", "too_new"}
    assert kinds(report, "note") == {"other_format"}
    assert await repair(path.parent.parent) == []


async def test_what_is_left_beside_a_file_is_no_session(tmp_path: Path) -> None:
    path = await a_file(tmp_path)
    with path.open("ab") as file:
        file.write(b"{")

    await repair(path)

    async with await JsonlStore.open(path.parent.parent) as store:
        assert [info.id for info in await store.list()] == ["s0"]


@given(data=st.data())
@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
async def test_whatever_happens_to_the_lines_the_mended_file_can_be_opened(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("doctor")
    path = await a_file(folder)
    header, *lines = path.read_bytes().splitlines(keepends=True)
    number = st.integers(0, len(lines) - 1)
    for deed in data.draw(
        st.lists(st.sampled_from(["drop", "swap", "double", "cut", "blot"]), max_size=4)
    ):
        at, other = data.draw(number), data.draw(number)
        if at >= len(lines) or other >= len(lines):
            continue
        match deed:
            case "drop":
                del lines[at]
            case "swap":
                lines[at], lines[other] = lines[other], lines[at]
            case "double":
                lines.insert(at, lines[other])
            case "cut":
                lines[at] = lines[at][: len(lines[at]) // 2] + b"\n"
            case _:
                lines[at] = lines[at][:30] + b"\xff\x00" + lines[at][32:]
    path.write_bytes(header + b"".join(lines))

    await repair(path)
    report = await examine(path)

    assert report.sound, report.findings
    await texts(path)
