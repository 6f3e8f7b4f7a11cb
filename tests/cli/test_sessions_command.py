"""`loopwright sessions ...`: looking at what is kept, moving it, and mending it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import sys
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from loopwright.cli.sessions.choice import age_text, session_title, short_ids
from loopwright.cli.sessions.wrapping import readable
from loopwright.messages import AssistantMessage, TextContent, UserMessage
from loopwright.session import Session, SqliteStore
from loopwright.session.entries import MessageEntry, to_row
from loopwright.session.leases import new_owner
from loopwright.session.rows import Lane, SessionInfo
from loopwright.session.store import Commit

from .conftest import Program, Terminal

EVIL = "a\x1b]0;title\x07b\x1b[2Jc\x9b31md\re"


def database(program: Program) -> Path:
    return program.folder / "home" / ".local" / "share" / "loopwright" / "sessions.db"


def keep(program: Program, *names: str, said: str = "Hello", cwd: str | None = None) -> None:
    """Sessions with these ids, each of a question and an answer."""

    async def write() -> None:
        async with await SqliteStore.open(database(program)) as store:
            for name in names:
                await store.create(SessionInfo(id=name, cwd=cwd or str(program.folder)))
                lease = await store.claim(name, new_owner(), 60)
                first = MessageEntry(id=f"{name}-1", parent_id=None, message=UserMessage(said))
                answer = AssistantMessage([TextContent(f"{said} yourself, {name}.")], model="m")
                second = MessageEntry(id=f"{name}-2", parent_id=first.id, message=answer)
                await store.commit(
                    lease,
                    Commit(
                        entries=[to_row(first), to_row(second)],
                        lanes=[Lane(name="main", leaf_id=second.id)],
                        preview=said,
                    ),
                )
                await store.release(lease)

    asyncio.run(write())


def branch_off(program: Program, name: str, said: str) -> None:
    """A second branch that leaves after the first message."""

    async def write() -> None:
        async with (
            await SqliteStore.open(database(program)) as store,
            await Session.open(store, name, create=False) as session,
        ):
            entry = MessageEntry(id="aside", parent_id=f"{name}-1", message=UserMessage(said))
            await session.commit(Commit(), [entry])
            await session.set_label("aside", "try\nthis")

    asyncio.run(write())


def listed(program: Program, *arguments: str) -> list[str]:
    finished = program.run("sessions", "list", "--mode", "json", *arguments)
    assert finished.returncode == 0, finished.stderr
    return [json.loads(line)["id"] for line in finished.stdout.splitlines()]


# -- list ------------------------------------------------------------------------------------


def test_the_sessions_of_this_folder_are_listed_the_last_one_first(program: Program) -> None:
    keep(program, "one", "two")
    keep(program, "far", cwd="/elsewhere")

    here, every = listed(program), listed(program, "--all")
    first = listed(program, "--limit", "1")
    table = program.run("sessions", "list", "--all").stdout.splitlines()

    assert (here, every, first) == (["two", "one"], ["far", "two", "one"], ["two"])
    assert table[0].split() == ["ID", "CHANGED", "ENTRIES", "SESSION", "FOLDER"]
    assert [line.split()[0] for line in table[1:]] == ["far", "two", "one"]
    assert table[1].split()[-3:] == ["2", "Hello", "/elsewhere"]


def test_a_terminal_is_shown_the_last_ones_and_told_of_the_others(
    program: Program, terminal: Callable[..., Terminal]
) -> None:
    keep(program, *[f"s{number:02}" for number in range(23)])

    some = terminal("sessions", "list", NO_COLOR="1")
    assert some.end() == 0
    every = terminal("sessions", "list", "--limit", "23", NO_COLOR="1")
    assert every.end() == 0

    first, *lines = some.screen.splitlines()
    assert first.startswith("ID")
    assert [line.split()[0] for line in lines[:-1]] == [f"s{n:02}" for n in range(22, 2, -1)]
    assert lines[-1].startswith("3 older; --limit 23 shows all")
    assert len(every.screen.splitlines()) == 24
    assert "older" not in every.screen
    assert len(listed(program)) == 23, "a program is given all"


def test_where_nothing_is_kept_that_is_said_and_is_no_failure(program: Program) -> None:
    nothing = program.run("sessions", "list")
    keep(program, "far", cwd="/elsewhere")
    not_here = program.run("sessions", "list")

    assert (nothing.returncode, nothing.stdout) == (0, "")
    assert "no sessions yet" in nothing.stderr
    assert (not_here.returncode, not_here.stdout) == (0, "")
    assert "--all" in not_here.stderr


@pytest.mark.parametrize("columns", [80, 50, 40])
def test_on_a_terminal_a_list_fits_and_obeys_nothing(
    program: Program, terminal: Callable[..., Terminal], columns: int
) -> None:
    keep(program, "one", said=f"{EVIL} and a long story {'about something ' * 20}")
    screen = terminal("sessions", "list", columns=columns, NO_COLOR="1")

    assert screen.end() == 0
    lines = screen.screen.splitlines()
    assert len(lines) == 2
    assert all(len(line) <= columns for line in lines)
    assert "\x1b" not in screen.screen
    assert "a␛]0;" in lines[1]


def test_a_session_in_use_is_marked_and_can_be_read(program: Program) -> None:
    keep(program, "one")

    async def look() -> tuple[str, str, str]:
        async with (
            await SqliteStore.open(database(program)) as store,
            await Session.open(store, "one", create=False),
        ):
            run = [("list",), ("show", "one"), ("search", "hello"), ("rename", "one", "x")]
            done = [await asyncio.to_thread(program.run, "sessions", *words) for words in run]
            assert [each.returncode for each in done] == [0, 0, 0, 4]
            return done[0].stdout, done[1].stdout, done[3].stderr

    table, text, refused = asyncio.run(look())

    assert "in use" in table.splitlines()[1]
    assert "Hello yourself, one." in text
    assert "is open for writing" in refused


def test_a_thousand_sessions_are_listed_quickly(program: Program) -> None:
    keep(program, "one")
    with closing(sqlite3.connect(database(program))) as connection, connection:
        names = ", ".join(
            name for _, name, *_ in connection.execute("PRAGMA table_info(session)") if name != "id"
        )
        connection.executemany(
            f"INSERT INTO session (id, {names}) SELECT ?, {names} FROM session WHERE id = 'one'",
            [(f"s{n}",) for n in range(999)],
        )
    program.run("sessions", "-h")  # compiled modules are there
    start = time.perf_counter()
    help_page = program.run("sessions", "-h")
    between = time.perf_counter()
    table = program.run("sessions", "list")
    took = time.perf_counter() - between

    assert (help_page.returncode, len(table.stdout.splitlines())) == (0, 1001)
    assert took < (between - start) + 2


def test_ids_are_short_on_a_terminal_and_whole_where_there_is_room_or_a_program_reads(
    program: Program, terminal: Callable[..., Terminal]
) -> None:
    ids = ["01a22b7550f8e32e8d216a8bb610", "01a22b7550f9553d2db6a856ae79", "01a22c0000000000000001"]
    keep(program, *ids, said="A title that is long enough to be of use to somebody")

    def shown(columns: int) -> list[str]:
        screen = terminal("sessions", "list", columns=columns, NO_COLOR="1")
        assert screen.end() == 0
        return screen.screen.splitlines()[1:]

    narrow, wide = shown(80), shown(140)
    piped = program.run("sessions", "list").stdout

    short = [line.split()[0] for line in narrow]
    assert short == ["01a22c0000", "01a22b7550f9", "01a22b7550f8"]
    assert all("A title that is long enough to be of use to" in line for line in narrow)
    assert [line.split()[0] for line in wide] == ids[::-1]
    assert all(id in piped for id in ids)
    for beginning, id in zip(short, ids[::-1], strict=True):
        found = program.run("sessions", "show", beginning, "--mode", "json").stdout
        assert json.loads(found.splitlines()[0])["id"] == id


def test_what_is_shown_of_an_id_is_no_name_of_another_session() -> None:
    every = [
        SessionInfo(id="01a22b7550f8e3"),
        SessionInfo(id="01a22b7551ffff", name="01A22B7550"),
        SessionInfo(id="one"),
        SessionInfo(id="one-more-time-again"),
        SessionInfo(id="one-more-time-and-then"),
    ]

    assert short_ids(every) == {
        "01a22b7550f8e3": "01a22b7550f",
        "01a22b7551ffff": "01a22b7551",
        "one": "one",
        "one-more-time-again": "one-more-time-ag",
        "one-more-time-and-then": "one-more-time-an",
    }


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0 s ago"),
        (-5, "0 s ago"),
        (59, "59 s ago"),
        (60, "1 min ago"),
        (3599, "59 min ago"),
        (7200, "2 h ago"),
        (86_400, "1 day ago"),
        (29 * 86_400, "29 days ago"),
        (40 * 86_400, "2023-10-05"),
    ],
)
def test_an_age_is_told_in_the_unit_that_fits(seconds: int, text: str) -> None:
    now = 1_700_000_000_000

    assert age_text(now - seconds * 1000, now) == text


def test_a_title_is_cut_by_the_room_it_takes_not_by_its_characters() -> None:
    info = SessionInfo(id="x", preview="漢字" * 20)

    assert session_title(info, 11) == "漢字漢字漢…"
    assert session_title(info, 80) == "漢字" * 20


# -- show and search -------------------------------------------------------------------------


def test_a_session_is_shown_as_text_as_a_tree_and_as_json(program: Program) -> None:
    keep(program, "one")
    branch_off(program, "one", "Another way.")

    text = program.run("sessions", "show", "one").stdout
    tree = program.run("sessions", "show", "one", "--tree").stdout
    lines = program.run("sessions", "show", "one", "--mode", "json").stdout.splitlines()
    nodes = program.run("sessions", "show", "one", "--tree", "--mode", "json").stdout.splitlines()

    assert text.startswith("# Hello\n")
    assert "Hello yourself, one." in text
    assert "Another way." not in text
    assert tree.splitlines() == [
        "● one-1 user Hello",
        "│ ○ aside user [try this] Another way.",
        "● one-2 assistant Hello yourself, one.",
    ]
    assert [json.loads(line)["type"] for line in lines] == ["session", "message", "message"]
    assert json.loads(lines[2])["message"]["role"] == "assistant"
    assert [json.loads(line)["id"] for line in nodes] == ["one-1", "aside", "one-2"]


@pytest.mark.parametrize("words", [["show", "one"], ["show", "one", "--tree"], ["search", "title"]])
def test_on_a_terminal_nothing_that_was_said_is_obeyed(
    program: Program, terminal: Callable[..., Terminal], words: list[str]
) -> None:
    keep(program, "one", said=EVIL)
    screen = terminal("sessions", *words, NO_COLOR="1")

    assert screen.end() == 0
    assert "title" in screen.screen
    assert not {"\x1b", "\x07", "\x9b"} & set(screen.screen)


def test_on_a_terminal_prose_is_broken_between_words_and_code_is_left_alone() -> None:
    code = "x = [" + ", ".join(["1"] * 40) + "]"
    document = "\n".join(
        [
            "# A title\\. It is so",
            "",
            "> " + "word " * 20 + "end",
            "- " + "item " * 20,
            "```python",
            code,
            "> not a quote " + "x " * 40,
            "```",
            "",
            "A\x1b[2Jline " + "more " * 20,
            "https://example.com/" + "a" * 90,
            "",
        ]
    )

    text = "".join(piece.text for piece in readable(document, 40))

    lines = text.splitlines()
    assert lines[0] == "# A title. It is so"
    assert [line for line in lines if line.startswith("> word")] == [
        "> word word word word word word word"
    ] * 2 + ["> word word word word word word end"]
    assert lines.count("  item item item item item item item") == 1
    assert code in lines
    assert "> not a quote " + "x " * 40 in lines
    assert "\x1b" not in text
    assert "https://example.com/" + "a" * 90 in lines
    assert text.endswith("a\n")
    assert all(len(line) <= 40 for line in lines if " " in line and "x" not in line)


def test_on_a_terminal_of_80_columns_a_session_is_shown_in_lines_that_fit(
    program: Program, terminal: Callable[..., Terminal]
) -> None:
    keep(program, "one", said=f"{EVIL} and a long story {'about something. ' * 20}")
    screen = terminal("sessions", "show", "one", columns=80, NO_COLOR="1")

    assert screen.end() == 0
    assert not {"\x1b", "\x07", "\x9b"} & set(screen.screen)
    assert all(len(line) <= 80 for line in screen.screen.splitlines())


def test_what_is_not_there_is_told(program: Program) -> None:
    keep(program, "one")

    session = program.run("sessions", "show", "two")
    lane = program.run("sessions", "show", "one", "--lane", "side")
    entry = program.run("sessions", "fork", "one", "--at", "nowhere")

    assert (session.returncode, lane.returncode, entry.returncode) == (4, 4, 4)
    assert "no session has the id or name 'two'" in session.stderr
    assert "hint: it has: main" in lane.stderr
    assert "no entry 'nowhere'" in entry.stderr


def test_search_finds_places_and_says_when_there_are_none(program: Program) -> None:
    keep(program, "one", said="Where is the key?")
    keep(program, "far", said="The key is here.", cwd="/elsewhere")

    here = program.run("sessions", "search", "the", "KEY", "--mode", "json")
    every = program.run("sessions", "search", "the key", "--all")
    nowhere = program.run("sessions", "search", "the lock")

    hits = [json.loads(line) for line in here.stdout.splitlines()]
    assert {hit["session"] for hit in hits} == {"one"}
    assert {hit["excerpt"][hit["start"] : hit["end"]] for hit in hits} == {"the key"}
    assert "The key is here." in every.stdout
    assert "  user  Where is the key?\n" in every.stdout, "the session is named"
    assert (nowhere.returncode, nowhere.stdout) == (1, "")
    assert "--all looks further" in nowhere.stderr


def test_search_says_when_there_is_more_than_it_shows(
    program: Program, terminal: Callable[..., Terminal]
) -> None:
    keep(program, "one", "two", said="The key")

    some = program.run("sessions", "search", "key", "--limit", "3")
    every = program.run("sessions", "search", "key", "--limit", "4")
    screen = terminal("sessions", "search", "key", "--limit", "1", NO_COLOR="1")

    assert (some.stdout.count("\n  "), every.stdout.count("\n  ")) == (3, 4)
    assert "more places; --limit" in some.stderr
    assert every.stderr == ""
    assert screen.end() == 0
    assert screen.screen.splitlines()[0].endswith("assistant  The key"), "with its title"


def test_without_a_name_the_last_session_of_the_folder_is_meant(program: Program) -> None:
    nothing = program.run("sessions", "show")
    keep(program, "far", cwd="/elsewhere", said="Far")
    not_here = program.run("sessions", "export", "-o", "talk.html")
    keep(program, "one", said="First")
    keep(program, "two", said="Second")

    shown = program.run("sessions", "show")
    exported = program.run("sessions", "export", "-o", "talk.html")
    nobody = program.run("sessions", "delete")

    assert nothing.returncode != 0
    assert not_here.returncode != 0
    assert "no session of the folder" in not_here.stderr
    assert shown.stdout.startswith("# Second")
    assert exported.returncode == 0
    assert "<h1>Second</h1>" in (program.folder / "talk.html").read_text()
    assert nobody.returncode == 2, "nothing is deleted that was not named"
    assert "SESSION" in nobody.stderr


# -- export and import -----------------------------------------------------------------------


def test_a_session_is_exported_in_every_format(program: Program) -> None:
    keep(program, "one")
    branch_off(program, "one", "Another way.")

    def export(*words: str) -> str:
        finished = program.run("sessions", "export", "one", *words)
        assert (finished.returncode, finished.stderr) == (0, "")
        return finished.stdout

    assert export().startswith("# Hello\n")
    assert "<html" in export("--format", "html")
    assert "Another way." not in export("--format", "html")
    assert "Another way." in export("--format", "html", "--tree")
    assert json.loads(export("--format", "pi").splitlines()[0])["kind"] == "header"
    kinds = [json.loads(line)["type"] for line in export("--format", "json", "--tree").splitlines()]
    assert kinds == ["session", "lane", "message", "message", "message"]


def test_an_export_never_takes_the_place_of_a_file_unless_told_to(program: Program) -> None:
    keep(program, "one")
    target = program.folder / "talk.md"
    target.write_text("mine")

    refused = program.run("sessions", "export", "one", "-o", "talk.md")
    kept = target.read_text()
    forced = program.run("sessions", "export", "one", "-o", "talk.md", "--force")
    fresh = program.run("sessions", "export", "one", "-o", "new.md")
    nowhere = program.run("sessions", "export", "one", "-o", "no/such/folder.md")

    assert (refused.returncode, kept) == (2, "mine")
    assert "hint: --force" in refused.stderr
    assert (forced.returncode, fresh.returncode) == (0, 0)
    assert target.read_text() == (program.folder / "new.md").read_text()
    assert target.read_text().startswith("# Hello")
    assert nowhere.returncode == 1
    assert "cannot be written" in nowhere.stderr
    assert not [file for file in program.folder.iterdir() if file.name.endswith(".tmp")]


@pytest.mark.parametrize(
    ("words", "error", "hint"),
    [
        (["-o", "talk.pdf"], "no format has the ending .pdf", "--format"),
        (["-o", "."], ". is a folder", "-o talk.html"),
        (["-o", ".", "--force"], ". is a folder", "-o talk.html"),
    ],
)
def test_a_file_that_cannot_be_meant_is_refused(
    program: Program, words: list[str], error: str, hint: str
) -> None:
    keep(program, "one")
    before = sorted(program.folder.iterdir())

    refused = program.run("sessions", "export", "one", *words)
    meant = program.run("sessions", "export", "one", "-o", "talk.pdf", "--format", "md")

    assert refused.returncode == 2
    assert f"error: {error}" in refused.stderr
    assert hint in refused.stderr
    assert meant.returncode == 0
    assert sorted(program.folder.iterdir()) == sorted([*before, program.folder / "talk.pdf"])


def test_markdown_has_no_tree(program: Program) -> None:
    keep(program, "one")

    finished = program.run("sessions", "export", "one", "--tree")

    assert finished.returncode == 2
    assert "--format html" in finished.stderr


def test_what_was_exported_is_imported_again(program: Program) -> None:
    keep(program, "one")
    branch_off(program, "one", "Another way.")
    program.run("sessions", "export", "one", "--format", "pi", "-o", "one.jsonl")

    twice = program.run("sessions", "import", "one.jsonl")
    copy = program.run("sessions", "import", "one.jsonl", "--new-id")
    program.run("sessions", "delete", "one", "--yes")
    again = program.run("sessions", "import", "one.jsonl")
    shown = program.run("sessions", "show", "one", "--tree")

    assert twice.returncode == 1
    assert "--new-id" in twice.stderr
    assert copy.returncode == 0
    assert again.stdout.startswith("one  3 entries")
    assert "Another way." in shown.stdout


@pytest.mark.parametrize("tree", [(), ("--tree",)])
def test_what_was_exported_as_our_json_is_imported_again(
    program: Program, tree: tuple[str, ...]
) -> None:
    keep(program, "one")
    branch_off(program, "one", "Another way.")
    program.run("sessions", "rename", "one", "talk")
    program.run("sessions", "export", "one", "-o", "one.json", *tree)
    program.run("sessions", "delete", "one", "--yes")

    again = program.run("sessions", "import", "one.json")
    shown = program.run("sessions", "show", "talk", "--tree").stdout
    branch = program.run("sessions", "show", "talk").stdout
    healthy = program.run("sessions", "doctor")

    assert again.returncode == 0, again.stderr
    assert "labels and what was queued are not in such a file" in again.stderr
    assert ("Another way." in shown) == bool(tree)
    assert "Hello yourself, one." in branch
    assert (healthy.returncode, listed(program)) == (0, ["one"])


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda text: text.replace('"version":1', '"version":9', 1), "version 9"),
        (lambda text: text.replace('"role":"user"', '"role":7', 1), "line 2"),
        (lambda text: text.replace('"type":"message"', '"type":"massage"', 1), "'massage'"),
        (lambda text: text[:-40], "line 3"),
        (lambda text: text.replace('"id":"one"', '"id":7', 1), "line 1"),
        (lambda text: text.replace('"parentId":"one-1"', '"parentId":"gone"', 1), "gone"),
    ],
)
def test_our_json_that_cannot_be_read_is_refused_with_its_line(
    program: Program, change: Callable[[str], str], told: str
) -> None:
    keep(program, "one")
    program.run("sessions", "export", "one", "-o", "one.json")
    program.run("sessions", "delete", "one", "--yes")
    file = program.folder / "one.json"
    before = file.read_text()
    file.write_text(change(before))
    assert file.read_text() != before

    refused = program.run("sessions", "import", "one.json")

    assert (refused.returncode, refused.stdout) == (1, "")
    assert told in refused.stderr
    assert "Traceback" not in refused.stderr
    assert listed(program) == []


def test_files_of_pi_are_imported_with_what_is_odd_about_them(program: Program) -> None:
    lines: list[dict[str, Any]] = [
        {"type": "session", "version": 3, "id": "old", "timestamp": "2025-01-01T00:00:00.000Z"}
        | {"cwd": str(program.folder)},
        {"type": "message", "id": "aaaaaaaa", "parentId": None}
        | {"timestamp": "2025-01-01T00:00:01.000Z"}
        | {"message": {"role": "user", "content": "From long ago", "timestamp": 1}},
    ]
    whole = "".join(json.dumps(line) + "\n" for line in lines)
    (program.folder / "old.jsonl").write_text(whole + '{"type":"mess')
    (program.folder / "bad.jsonl").write_text(whole.replace('"old"', '"bad"') + "???\n" + whole)
    (program.folder / "none.txt").write_text("hello")

    finished = program.run("sessions", "import", "old.jsonl", "bad.jsonl", "none.txt", "gone")
    lenient = program.run("sessions", "import", "--lenient", "bad.jsonl")

    assert finished.returncode == 1
    assert "From long ago" in finished.stdout
    assert len(finished.stdout.splitlines()) == 1
    assert "torn" in finished.stderr
    assert "hint: --lenient" in finished.stderr
    assert "none.txt" in finished.stderr
    assert "no file gone" in finished.stderr
    assert lenient.returncode == 0
    assert len(listed(program)) == 2


# -- changing --------------------------------------------------------------------------------


def test_a_session_is_renamed_forked_and_deleted(program: Program) -> None:
    keep(program, "one")
    branch_off(program, "one", "Another way.")

    renamed = program.run("sessions", "rename", "one", "talk")
    fork = program.run("sessions", "fork", "talk", "--at", "aside", "--name", "fork")
    tree = program.run("sessions", "fork", "talk", "--tree", "--name", "tree")
    shown = program.run("sessions", "show", "fork").stdout
    unnamed = program.run("sessions", "rename", "talk", "")
    deleted = program.run("sessions", "delete", "one", "--yes")

    assert [renamed.returncode, fork.returncode, tree.returncode, unnamed.returncode] == [0] * 4
    assert "Another way." in shown
    assert "yourself" not in shown
    assert deleted.returncode == 0
    assert set(listed(program)) == {fork.stdout.strip(), tree.stdout.strip()}


@pytest.mark.parametrize(("answer", "code"), [("n\r", 1), ("\r", 1), ("y\r", 0)])
def test_on_a_terminal_deleting_is_asked_about(
    program: Program, terminal: Callable[..., Terminal], answer: str, code: int
) -> None:
    keep(program, "one")
    screen = terminal("sessions", "delete", "one", NO_COLOR="1")
    screen.read_until("for good? [y/N]")

    screen.type(answer)

    assert screen.end() == code
    assert listed(program) == ([] if code == 0 else ["one"])


def test_several_are_deleted_at_once_or_none(program: Program) -> None:
    keep(program, "one", "two", "three", "four")

    missing = program.run("sessions", "delete", "one", "nowhere", "--yes")
    after_that = listed(program)
    done = program.run("sessions", "delete", "one", "two", "one", "--yes")

    assert missing.returncode != 0
    assert len(after_that) == 4
    assert done.returncode == 0
    assert done.stderr.count("deleted") == 2
    assert listed(program) == ["four", "three"]


def test_on_a_terminal_several_are_named_before_they_are_deleted(
    program: Program, terminal: Callable[..., Terminal]
) -> None:
    keep(program, "one", "two")
    program.run("sessions", "rename", "one", "the first")

    screen = terminal("sessions", "delete", "one", "two", NO_COLOR="1")
    screen.read_until("Delete these 2 sessions for good?")
    screen.type("n\n")

    assert screen.end() == 1
    assert "the first" in screen.screen
    assert len(listed(program)) == 2


def test_without_a_terminal_deleting_has_to_be_meant(program: Program) -> None:
    keep(program, "one")

    refused = program.run("sessions", "delete", "one")
    kept = listed(program)
    deleted = program.run("sessions", "delete", "one", "--yes")

    assert (refused.returncode, kept) == (2, ["one"])
    assert "hint: loopwright sessions delete one --yes" in refused.stderr
    assert (deleted.returncode, listed(program)) == (0, [])


def test_a_name_is_found_in_whatever_letters_unless_two_are_written_so(program: Program) -> None:
    keep(program, "one", "two")
    program.run("sessions", "rename", "one", "Receipts")
    found = program.run("sessions", "show", "RECEIPTS")
    program.run("sessions", "rename", "two", "receipts")

    exact = program.run("sessions", "show", "Receipts", "--mode", "json").stdout.splitlines()[0]
    either = program.run("sessions", "show", "RECEIPTS")

    assert (found.returncode, json.loads(exact)["id"]) == (0, "one")
    assert either.returncode == 4
    assert "2 sessions have the name" in either.stderr


def test_a_name_cannot_be_the_id_of_another_session(program: Program) -> None:
    keep(program, "one", "01a22b7550f8e32e8d216a8bb610")

    taken = program.run("sessions", "rename", "one", "01a22b7550f8e32e8d216a8bb610")
    shown = program.run("sessions", "rename", "one", "01a22b7550f8")
    fork = program.run("sessions", "fork", "one", "--name", "one")
    own = program.run("sessions", "rename", "one", "one")

    assert [taken.returncode, shown.returncode, fork.returncode, own.returncode] == [4, 4, 4, 0]
    assert "is the id of another session" in taken.stderr
    assert len(listed(program)) == 2


# -- doctor ----------------------------------------------------------------------------------


def damage(program: Program, sql: str) -> None:
    with closing(sqlite3.connect(database(program))) as connection, connection:
        connection.execute(sql)


def test_the_doctor_says_that_all_is_well(program: Program) -> None:
    nothing = program.run("sessions", "doctor")
    keep(program, "one")
    finished = program.run("sessions", "doctor")
    machine = program.run("sessions", "doctor", "one", "--mode", "json")

    assert nothing.returncode == 0
    assert (finished.returncode, finished.stderr) == (0, "")
    assert finished.stdout == f"1 session, 2 entries in {database(program)}: all is well\n"
    assert json.loads(machine.stdout)["sound"] is True


def test_the_doctor_explains_and_mends_when_it_is_asked_to(program: Program) -> None:
    keep(program, "one", "two")
    damage(program, "UPDATE entry SET parent_id = 'nowhere' WHERE id = 'one-2'")

    finding = program.run("sessions", "doctor")
    same = program.run("sessions", "doctor", "--mode", "json")
    mended = program.run("sessions", "doctor", "--repair")
    after = program.run("sessions", "doctor")

    assert (finding.returncode, mended.returncode, after.returncode) == (1, 0, 0)
    assert "session one, entry one-2: its parent nowhere is missing" in finding.stdout
    assert "repair: it is hung onto the entry written just before it" in finding.stdout
    assert "`--repair`" in finding.stderr
    assert json.loads(same.stdout.splitlines()[0])["kind"] == "missing_parent"
    assert "repaired: session one: entry one-2: follows one-1 now" in mended.stdout
    assert f"as it was before: {database(program)}.doctor-" in mended.stdout
    assert "all is well" in after.stdout
    assert "Hello yourself, one." in program.run("sessions", "show", "one").stdout


def test_the_doctor_looks_at_other_files_too(program: Program) -> None:
    keep(program, "one")
    program.run("sessions", "export", "one", "--format", "pi", "-o", "one.jsonl")
    file = program.folder / "one.jsonl"
    file.write_bytes(file.read_bytes() + b'{"kind":')

    finding = program.run("sessions", "doctor", "--file", "one.jsonl")
    program.run("sessions", "doctor", "--file", "one.jsonl", "--repair")
    after = program.run("sessions", "doctor", "--file", "one.jsonl")
    missing = program.run("sessions", "doctor", "--file", "two.jsonl")

    assert "the last line is torn" in finding.stdout
    assert "all is well" in after.stdout
    assert missing.returncode == 4


def test_a_database_nobody_can_read_is_said_to_be_so(program: Program) -> None:
    keep(program, "one")
    database(program).write_bytes(b"SQLite format 3\x00" + b"\xff" * 5000)

    finding = program.run("sessions", "doctor", "--repair")
    shown = program.run("sessions", "list")

    assert finding.returncode == 1
    assert "error: " in finding.stdout
    assert "cannot be mended here" in finding.stderr
    assert shown.returncode == 4
    assert "Traceback" not in finding.stderr + shown.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="modes are of POSIX")
def test_what_is_kept_is_for_nobody_else(program: Program) -> None:
    keep(program, "one")
    damage(program, "UPDATE session SET entries = 9")

    program.run("sessions", "doctor", "--repair")
    program.run("sessions", "export", "one", "--format", "pi", "-o", "one.jsonl")

    files = [*database(program).parent.iterdir()]
    assert len(files) >= 2
    assert all(file.stat().st_mode & 0o077 == 0 for file in files)


@pytest.mark.parametrize(
    ("file", "beginning"),
    [("a.html", "<!DOCTYPE html>"), ("a.jsonl", '{"kind":"header"'), ("a.md", "# ")],
)
def test_the_ending_of_a_file_says_how_a_session_is_written(
    program: Program, file: str, beginning: str
) -> None:
    keep(program, "one")

    done = program.run("sessions", "export", "one", "-o", file)
    written = program.run("sessions", "export", "one", "-o", file)

    assert done.returncode == 0
    assert written.returncode == 2, "it is not written over"
    assert (program.folder / file).read_text("utf-8").lower().startswith(beginning.lower())
