"""/resume, /new, /name, /session, /compact, /export."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.cli.interactive.command_scene import Front, Start, scene

from loopwright.cli.interactive.session_commands import age
from loopwright.events import MessageUpdate
from loopwright.testing import Call, Reply


@pytest.fixture
async def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Start]:
    async with scene(tmp_path, monkeypatch) as begin:
        yield begin


def session_id(front: Front) -> str:
    assert front.live.info is not None
    return front.live.info.id


# -- /resume, /new -----------------------------------------------------------------------------


async def test_resume_lists_the_sessions_of_the_folder_newest_first_and_opens_one(
    start: Start,
) -> None:
    front = await start("One.", "Two.")
    await front.live.prompt("The first thing.")
    first = session_id(front)
    await front.type("/new")
    await front.live.prompt("The second thing.")
    await front.type("/name later")

    await front.type("/resume", "The first")

    assert front.screen.labels == ["later", "The first thing.", "… those of all folders"]
    assert "this one" in front.screen.picks[-1][1][0].hint
    assert front.screen.picks[-1][2] == 1
    assert session_id(front) == first
    assert front.screen.redraws == 2
    assert front.screen.notes[-1].startswith("going on with The first thing. (2 entries")


async def test_resume_reaches_the_sessions_of_other_folders_when_it_is_asked_to(
    start: Start, tmp_path: Path
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    other = await start("One.", folder=elsewhere)
    await other.live.prompt("Somewhere else.")
    theirs = session_id(other)
    await other.live.aclose()
    front = await start()

    await front.type("/resume", "… those of all", "Somewhere")

    assert [item.label for item in front.screen.picks[0][1]] == ["… those of all folders"]
    assert str(elsewhere) in front.screen.picks[1][1][0].hint
    assert session_id(front) == theirs
    assert "tools go on working in" in front.screen.notes[-1]


async def test_resume_takes_the_beginning_of_an_id_and_says_which_it_does_not_know(
    start: Start,
) -> None:
    front = await start("One.")
    await front.live.prompt("Hello.")
    known = session_id(front)
    await front.type("/new")

    await front.type(f"/resume {known[:-1]}")
    await front.type(f"/resume {known}")
    await front.type("/resume nothing-like-it")

    assert session_id(front) == known
    assert front.screen.notes[-1] == "you are in that session already"
    assert "nothing-like-it" in front.screen.errors[0][0]


async def test_a_session_that_is_open_elsewhere_is_marked_and_refused(start: Start) -> None:
    other = await start(Reply("one two three", chunk_size=1, delay=0.01))
    talking = asyncio.Event()
    other.live.subscribe(lambda event: talking.set() if isinstance(event, MessageUpdate) else None)
    run = asyncio.create_task(other.live.prompt("Taken."))
    await talking.wait()
    front = await start()

    await front.type("/resume", "Taken")
    await other.live.abort()
    await run

    assert "open elsewhere" in front.screen.picks[0][1][0].hint
    assert front.live.info is None
    assert len(front.screen.errors) == 1


async def test_resume_has_what_was_left_unfinished_settled_also_in_this_session(
    start: Start,
) -> None:
    left = await start(Reply(calls=[Call("write", {"path": "a.txt", "content": "x"})]))
    left.live.bench.gate.ask = None  # calls are parked where nobody can be asked
    await left.live.prompt("Write it.")
    known = session_id(left)
    await left.live.aclose()
    front = await start()

    await front.type(f"/resume {known}")
    first = front.screen.settled
    await front.type(f"/resume {known}")

    assert front.screen.errors == []
    assert (first, front.screen.settled) == (1, 2)
    assert not [note for note in front.screen.notes if "in that session already" in note]


async def test_a_new_session_says_how_to_get_back(start: Start) -> None:
    front = await start("One.")
    await front.live.prompt("Hello.")
    before = session_id(front)

    await front.type("/new")

    assert front.live.info is None
    assert before in front.screen.notes[-1]
    assert front.screen.redraws == 1


def test_ages_are_told_in_the_largest_unit_that_fits() -> None:
    now = 1_700_000_000.0

    told = [age(int((now - seconds) * 1000), now) for seconds in (5, 90, 7300, 200_000, -60)]

    assert told[:4] == ["just now", "1 min ago", "2 h ago", "2 d ago"]
    assert told[4].startswith("2023")
    assert age(int((now - 30 * 86400) * 1000), now).startswith("2023-")


# -- /name, /session ---------------------------------------------------------------------------


async def test_a_name_is_given_taken_away_and_asked_for(start: Start) -> None:
    front = await start("One.")

    await front.type("/name  a   good\tname ")
    await front.live.prompt("Hello.")
    assert front.live.name == "a good name"
    await front.type("/name", None)
    assert front.live.name == "a good name"
    await front.type("/name", "")

    assert front.screen.asked == ["name of the session: a good name"] * 2
    assert front.live.name is None


async def test_session_tells_what_is_known_also_of_a_new_one(start: Start, tmp_path: Path) -> None:
    front = await start("One.")

    await front.type("/session")
    await front.live.prompt("Hello.")
    await front.type("/name mine")
    await front.type("/session")

    assert "kept from the first prompt on" in front.screen.notes[0]
    assert "nothing yet" in front.screen.notes[0]
    told = front.screen.notes[-1]
    lines = dict(line.split(None, 1) for line in told.splitlines())
    assert lines["session"] == session_id(front)
    assert lines["name"] == "mine"
    assert lines["entries"] == "2"
    assert lines["cost"] == "not known"
    assert lines["file"] == str(tmp_path / "sessions" / "sessions.db")
    assert lines["model"] == "scripted/scripted, thinking default"
    assert "of 200k tokens (" in lines["context"]
    assert lines["tokens"].endswith(" out")


# -- /compact ----------------------------------------------------------------------------------


async def test_compacting_says_what_came_of_it(start: Start) -> None:
    front = await start(*["A long answer. " * 4000] * 4, "## Goal\nA summary.", "And this.")

    await front.type("/compact")
    for _ in range(4):
        await front.live.prompt("Go on.")
    await front.type("/compact mind the tests")

    assert front.screen.errors == []
    assert front.screen.notes[0] == "there is nothing to compact yet"
    assert front.screen.notes[1] == "compacting; esc interrupts"
    assert front.screen.notes[-1].startswith("compacted from ")
    assert "mind the tests" in str(front.model.requests[4].context.messages)


async def test_a_compaction_that_fails_is_an_error_and_nothing_is_lost(start: Start) -> None:
    front = await start(*["A long answer. " * 4000] * 4, Reply(error="no such luck"))
    for _ in range(4):
        await front.live.prompt("Go on.")

    await front.type("/compact")

    assert "no such luck" in str(front.screen.errors)
    assert len(front.live.messages()) == 8


# -- /export -----------------------------------------------------------------------------------


async def test_an_export_is_named_after_the_session_and_has_the_format_that_was_asked_for(
    start: Start, tmp_path: Path
) -> None:
    front = await start("An answer.")
    await front.type("/export")
    await front.live.prompt("Hello.")
    await front.type("/name ../what: a/name?")

    await front.type("/export")
    await front.type("/export md")
    await front.type("/export pi")
    await front.type("/export json")

    project = tmp_path / "project"
    assert front.screen.errors == [("there is nothing to export yet", "say something first")]
    made = sorted(path.name for path in project.iterdir())
    assert made == [f"what-a-name.{end}" for end in ("html", "json", "jsonl", "md")]
    assert "<html" in (project / "what-a-name.html").read_text()
    assert "An answer." in (project / "what-a-name.md").read_text()
    for line in (project / "what-a-name.jsonl").read_text().splitlines():
        json.loads(line)


async def test_an_export_never_replaces_a_file_unless_the_user_says_so(
    start: Start, tmp_path: Path
) -> None:
    front = await start("An answer.")
    await front.live.prompt("Hello.")
    file = tmp_path / "project" / "mine.md"
    file.write_text("precious")

    await front.type("/export mine.md", "no")
    kept = file.read_text()
    await front.type("/export 'mine.md'", "yes")

    assert kept == "precious"
    assert len(front.screen.asked) == 2
    assert "An answer." in file.read_text()
    assert front.screen.notes == ["nothing was exported", f"exported to {file}"]


async def test_an_export_goes_into_a_folder_under_its_own_name(
    start: Start, tmp_path: Path
) -> None:
    front = await start("An answer.")
    await front.live.prompt("Hello there.")
    (tmp_path / "project" / "out").mkdir()

    await front.type("/export out")
    await front.type("/export ~/a name.html")

    assert (tmp_path / "project" / "out" / "Hello-there.html").exists()
    assert (tmp_path / "home" / "a name.html").exists()


async def test_an_export_that_cannot_be_written_says_why(start: Start, tmp_path: Path) -> None:
    front = await start("An answer.")
    await front.live.prompt("Hello.")

    await front.type("/export nowhere/at/all.md")
    await front.type("/export notes.docx")
    await front.type("/export a\0b.md")
    await front.type("/export ~nobody-of-that-name/x.md")

    assert "No such file or directory" in front.screen.errors[0][0]
    assert ".docx" in front.screen.errors[1][0]
    assert len(front.screen.errors) == 4
    assert not list((tmp_path / "project").iterdir())


async def test_the_age_of_a_session_just_made_is_just_now() -> None:
    assert age(int(time.time() * 1000)) == "just now"
