"""Questions about calls: what is shown, what each answer does."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar, cast

import pytest
from tests.cli.interactive.screen_scene import (
    CTRL_C,
    ENTER,
    ESCAPE,
    SHIFT_TAB,
    desk_with,
    folder,
)

from loopwright.cli.interactive import lone_keys, permission_questions
from loopwright.cli.interactive.proposed_change import change_lines, lines_of
from loopwright.cli.interactive.question import argument_lines, full_text, question_rows
from loopwright.errors import ToolError
from loopwright.messages import ToolResultMessage
from loopwright.permissions import Decision, Question, parse_rule
from loopwright.testing import Call, Reply, ScriptedModel
from loopwright.tools import LocalWorkspace

if TYPE_CHECKING:
    from loopwright.cli.bench.workbench import Workbench

__all__ = ["folder"]

T = TypeVar("T")

TOUCH = Call("bash", {"command": "touch made"})


def question(tool: str, args: dict[str, Any], rule: str | None = None) -> Question:
    allowed = None if rule is None else parse_rule("allow", rule)
    return Question("call_1", tool, args, Decision("ask", "no rule allows it"), allowed)


def drawn(asked: Question, columns: int, rows: int, *, edits: bool = False) -> list[str]:
    lines = argument_lines(asked.tool_name, asked.args)
    shown = question_rows(asked, lines, columns, rows, edits=edits)
    return ["".join(piece[1] for piece in row) for row in shown]


def told(model: ScriptedModel) -> list[str]:
    """What the tools said, of the model's last request."""
    messages = model.requests[-1].context.messages
    return [message.text for message in messages if isinstance(message, ToolResultMessage)]


# -- what is shown -----------------------------------------------------------------------------


@pytest.mark.parametrize(("columns", "rows"), [(40, 10), (80, 24), (200, 60)])
def test_a_question_fits_the_screen_with_all_its_answers(columns: int, rows: int) -> None:
    command = "\n".join(f"echo {number} {'x' * 300}" for number in range(500))
    asked = question("bash", {"command": command}, f"bash({'y' * 500})")

    shown = drawn(asked, columns, rows)

    assert len(shown) <= rows - 2
    assert all(len(line) < columns for line in shown)
    text = "\n".join(shown)
    for answer in ("y once", "a always", "n no", "e no, and why", "v all of it", "Esc"):
        assert answer in text


def test_letting_all_edits_pass_fits_a_small_screen_as_well() -> None:
    asked = question("write", {"path": "a.py", "content": "x\n" * 500}, "write(./a.py)")

    shown = drawn(asked, 40, 10, edits=True)

    assert len(shown) <= 8
    assert "s all edits from now on (auto-edit)" in "\n".join(shown)


def test_the_end_of_a_long_command_is_shown_and_v_shows_the_middle() -> None:
    command = "echo begin;" + " " * 9_000 + "rm -rf hidden;" + " " * 9_000 + "echo end"
    asked = question("bash", {"command": command})

    shown = "\n".join(drawn(asked, 80, 24))

    assert "echo begin" in shown
    assert "echo end" in shown
    assert "more, v shows all of it" in shown
    assert "rm -rf hidden" in full_text(asked, argument_lines("bash", asked.args))


def test_what_a_terminal_would_obey_is_made_visible() -> None:
    evil = "\x1b[2J\x1b]0;title\x07\u202etxt.exe\rover"
    asked = question("\x1b[31mtool", {"command": evil, "\x1b[2Jkey": evil, "more": {"x": evil}})

    lines = argument_lines(asked.tool_name, asked.args)
    shown = "\n".join(drawn(asked, 80, 24)) + full_text(asked, lines)

    assert not any(ord(char) < 32 and char != "\n" for char in shown)
    assert "\u202e" not in shown
    assert "␛[2J" in shown


def test_an_edit_is_shown_as_what_goes_and_what_comes() -> None:
    args = {"path": "a.txt", "edits": [{"oldText": "old\nlines", "newText": "new"}]}

    lines = argument_lines("edit", args)

    assert [text for _, text in lines] == ["a.txt", "- old", "- lines", "+ new"]
    assert [style for style, _ in lines][1:] == [
        "class:diff.remove",
        "class:diff.remove",
        "class:diff.add",
    ]


def test_malformed_arguments_are_shown_as_they_are() -> None:
    lines = argument_lines("edit", {"path": 3, "edits": "no list"})

    assert [text for _, text in lines] == ["path: 3", "edits: no list"]


def test_always_is_offered_only_where_a_rule_could_be_made() -> None:
    without = "\n".join(drawn(question("bash", {"command": "x"}), 80, 24))
    with_rule = "\n".join(drawn(question("bash", {"command": "x"}, "bash(x:*)"), 80, 24))

    assert "always" not in without
    assert "a always bash(x:*)" in with_rule


def test_wide_characters_are_broken_at_the_last_column() -> None:
    shown = drawn(question("write", {"path": "ä", "content": "漢" * 100}), 40, 24)

    assert "".join(shown).count("漢") == 100
    assert all(len(line) <= 21 for line in shown if "漢" in line)


# -- what the answers do -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "is_made", "is_told"),
    [
        ("y", True, ""),
        ("n", False, "the user said no"),
        ("eNot today." + ENTER, False, 'the user declined and said: "Not today."'),
    ],
    ids=["once", "no", "no with a reason"],
)
async def test_an_answer_lets_the_call_run_or_tells_the_model_why_not(
    folder: Path, key: str, is_made: bool, is_told: str
) -> None:
    model = ScriptedModel([Reply("", calls=[TOUCH]), Reply("I see.")])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type("go" + ENTER)
        await desk.sees("bash needs your word")
        desk.type(key)
        await desk.reads("I see.")

        assert (folder / "made").exists() is is_made
        assert is_told in told(model)[0]


async def test_always_is_not_asked_again(folder: Path) -> None:
    model = ScriptedModel([Reply("", calls=[TOUCH]), Reply("", calls=[TOUCH]), Reply("Twice.")])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type("go" + ENTER)
        await desk.sees("a always bash(touch made)")
        desk.type("a")
        await desk.reads("Twice.")

        assert len(model.requests) == 3
        assert [str(rule) for rule in desk.live.bench.gate.granted] == ["bash(touch made)"]


@pytest.mark.parametrize("key", [ESCAPE, CTRL_C], ids=["Esc", "Ctrl-C"])
async def test_escape_says_no_and_stops_the_run(folder: Path, key: str) -> None:
    model = ScriptedModel([Reply("", calls=[TOUCH]), Reply("Never asked.")])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type("go" + ENTER)
        await desk.sees("bash needs your word")
        desk.type(key)
        await desk.until(lambda: not desk.live.working)
        await desk.idle()

        assert not (folder / "made").exists()
        assert len(model.requests) == 1
        assert desk.live.unfinished is None


async def test_several_questions_come_one_after_the_other(folder: Path) -> None:
    calls = [Call("bash", {"command": f"touch {name}"}) for name in ("one", "two")]
    model = ScriptedModel([Reply("", calls=calls), Reply("Both.")])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type("go" + ENTER)
        await desk.sees("  touch one")
        first = desk.drawn()
        desk.type("y")
        await desk.sees("  touch two")
        desk.type("y")
        await desk.reads("Both.")

        assert first.count("needs your word") == 1
        assert (folder / "one").exists()
        assert (folder / "two").exists()


async def test_stopping_the_run_from_elsewhere_closes_the_question(folder: Path) -> None:
    model = ScriptedModel([Reply("", calls=[TOUCH])])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type("go" + ENTER)
        await desk.sees("bash needs your word")
        await desk.live.abort("elsewhere")
        await desk.idle()

        assert not (folder / "made").exists()


async def test_a_question_waits_for_a_pause_in_typing_and_takes_no_letter_of_it(
    folder: Path,
) -> None:
    may_ask = asyncio.Event()

    async def asks(_context: object) -> Reply:
        await may_ask.wait()
        return Reply("", calls=[TOUCH])

    model = ScriptedModel([asks, Reply("Done.")])
    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type("go" + ENTER)
        await desk.until(lambda: model.requests)
        desk.type("wh")
        await desk.sees("> wh")
        may_ask.set()
        await desk.until(lambda: desk.live.agent.state.is_streaming)
        desk.type("y not")
        await desk.until(lambda: desk.input() == "why not")
        await desk.sees("bash needs your word")
        typed = desk.input()
        desk.type("n")
        await desk.reads("Done.")

        assert typed == "why not"
        assert desk.input() == "why not"
        assert not (folder / "made").exists()


async def test_v_prints_all_of_it_and_goes_on_asking(folder: Path) -> None:
    command = "\n".join(["true"] * 50 + ["touch made"] + ["true"] * 50)
    model = ScriptedModel([Reply("", calls=[Call("bash", {"command": command})]), Reply("Ok.")])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type("go" + ENTER)
        await desk.sees("bash needs your word")
        desk.type("v")
        await desk.reads("touch made")
        await desk.sees("bash needs your word")
        desk.type("n")
        await desk.reads("Ok.")


async def test_leaving_during_a_question_lets_nothing_run(folder: Path) -> None:
    model = ScriptedModel([Reply("", calls=[TOUCH])])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type("go" + ENTER)
        await desk.sees("bash needs your word")
        desk.conversation.screen.leave()
        await desk.ends()

    assert not (folder / "made").exists()


# -- what would change -------------------------------------------------------------------------


async def test_an_edit_is_asked_for_with_its_place_in_the_file(folder: Path) -> None:
    (folder / "a.txt").write_text("".join([f"line {number}\n" for number in range(1, 31)]))
    edits = [
        {"oldText": "line 4\n", "newText": "four\n"},
        {"oldText": "line 20", "newText": "\u202etwenty"},
    ]
    model = ScriptedModel(
        [Reply("", calls=[Call("edit", {"path": "a.txt", "edits": edits})]), Reply(".")]
    )

    async with desk_with(model, folder, rows=40) as desk:
        await desk.idle()
        desk.type("go" + ENTER)
        await desk.sees("edit needs your word")
        rows = desk.rows()
        desk.type("y")
        await desk.idle()

    first = next(index for index, row in enumerate(rows) if row == "  a.txt") + 1
    assert rows[first : first + 13] == [
        "   2   line 2",
        "   3   line 3",
        "   4 - line 4",
        "   4 + four",
        "   5   line 5",
        "   6   line 6",
        "     ...",
        "  18   line 18",
        "  19   line 19",
        "  20 - line 20",
        "  20 + \\u202etwenty",
        "  21   line 21",
        "  22   line 22",
    ]


@pytest.mark.parametrize(
    "content", [None, b"twice\ntwice\n", b"twice\0", b"twice" + b"x" * 2**20], ids=str
)
async def test_an_edit_that_does_not_fit_is_asked_for_as_it_is(
    folder: Path, content: bytes | None
) -> None:
    if content is not None:
        (folder / "a.txt").write_bytes(content)
    args = {"path": "a.txt", "edits": [{"oldText": "twice", "newText": "new"}]}

    assert await change_lines(LocalWorkspace(folder), "edit", args) is None


async def written_lines(folder: Path, path: str, content: str) -> list[str]:
    args = {"path": path, "content": content}
    lines = await change_lines(LocalWorkspace(folder), "write", args)
    return [text for _, text in lines or []]


async def test_a_file_is_written_anew_or_over_what_it_holds(folder: Path) -> None:
    (folder / "a.txt").write_text("one\ntwo\n")
    (folder / "link").symlink_to("a.txt")
    (folder / "empty").touch()

    async def shown(path: str, content: str) -> list[str]:
        return await written_lines(folder, path, content)

    assert await shown("b.txt", "x\n") == ["b.txt", "new file", "+ x"]
    diff = ["replaces a.txt (2 lines)", "1   one", "2 - two", "2 + 2"]
    assert await shown("a.txt", "one\n2\n") == ["a.txt", *diff]
    assert await shown("link", "one\n2\n") == ["link", *diff]
    assert await shown("a.txt", "one\ntwo\n") == [
        "a.txt",
        "the file has this content already",
    ]
    assert await shown("empty", "x") == ["empty", "replaces empty (empty)", "1 + x"]
    assert await shown("b\nnew file", "x") == ["b␊new file", "new file", "+ x"]
    assert await shown("../a.txt", "x") == []
    assert await shown(".", "x") == []


@pytest.mark.parametrize(
    ("held", "content", "is_said"),
    [
        (b"\x89PNG\0\0", "x", "binary, 6 bytes"),
        (b"a\n" * 2**20, "x", "2.0 MiB"),
        (b"a\n", "x" * (2**20 + 1), "2 bytes"),
    ],
    ids=["binary", "a large one", "by a large one"],
)
async def test_that_a_file_is_replaced_is_said_where_it_cannot_be_compared(
    folder: Path, held: bytes, content: str, is_said: str
) -> None:
    (folder / "a").write_bytes(held)

    assert await written_lines(folder, "a", content) == [
        "a",
        f"replaces a ({is_said})",
        f"+ {content}",
    ]


async def test_that_a_file_is_replaced_is_said_where_it_cannot_be_read(folder: Path) -> None:
    class Sealed(LocalWorkspace):
        async def read(self, path: str, reader: Callable[[BinaryIO], T]) -> T:
            raise ToolError(f"{path} cannot be read")

    (folder / "a").write_text("secret")
    args = {"path": "a", "content": "x"}

    lines = await change_lines(Sealed(folder), "write", args)

    assert lines is not None
    assert [text for _, text in lines] == [
        "a",
        "replaces a (6 bytes, cannot be shown)",
        "+ x",
    ]


async def test_a_write_outside_of_the_workspace_shows_what_it_replaces(folder: Path) -> None:
    outside = folder.parent / "outside.txt"
    outside.write_text("mine\n")
    call = Call("write", {"path": str(outside), "content": "yours\n"})
    model = ScriptedModel([Reply("", calls=[call]), Reply("Done.")])

    async with desk_with(model, folder, columns=300) as desk:
        await desk.idle()
        desk.type("go" + ENTER)
        await desk.sees("write needs your word")
        rows = desk.rows()
        desk.type("n")
        await desk.reads("Done.")

    assert f"  replaces {outside} (1 line)" in rows
    assert "  1 - mine" in rows
    assert outside.read_text() == "mine\n"


@pytest.mark.parametrize(("held", "is_said"), [("old\n", True), (None, False)])
async def test_a_write_of_the_users_own_agent_shows_what_it_replaces(
    folder: Path, held: str | None, is_said: bool
) -> None:
    if held is not None:
        (folder / "a.txt").write_text(held)
    bench = cast("Workbench", SimpleNamespace(workspace=None, folder=folder))
    asked = question("write", {"path": "a.txt", "content": "new\n"})

    lines = [text for _, text in await lines_of(bench, asked)]

    replaced = ["a.txt", "replaces a.txt (1 line)", "1 - old", "1 + new"]
    assert lines == (replaced if is_said else ["a.txt", "+ new"])


# -- modes -------------------------------------------------------------------------------------


def writing(*names: str) -> Reply:
    return Reply("", calls=[Call("write", {"path": name, "content": "x"}) for name in names])


async def test_a_mode_that_allows_the_call_settles_the_question(folder: Path) -> None:
    model = ScriptedModel([writing("one"), Reply("Done.")])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type("go" + ENTER)
        await desk.sees("write needs your word")
        desk.type(SHIFT_TAB)
        await desk.reads("Done.")

        assert desk.live.permission_mode == "auto-edit"
        assert (folder / "one").exists()


async def test_passing_through_a_mode_settles_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(permission_questions, "MODE_STANDS_SECONDS", 1.5)
    model = ScriptedModel([Reply("", calls=[TOUCH]), Reply("Done.")])
    modes: list[str] = []

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type("go" + ENTER)
        await desk.sees("bash needs your word")
        desk.type(SHIFT_TAB * 4)  # past yolo and read-only
        settled: list[asyncio.Task[Any]] = []

        def all_four() -> bool:
            tasks = asyncio.all_tasks()
            settled[:] = [task for task in tasks if "_settle_by_mode" in repr(task)]
            return len(settled) == 4

        await desk.until(all_four)
        await asyncio.wait(settled)
        modes.append(desk.live.permission_mode)
        still_asked = "bash needs your word" in desk.drawn()
        desk.type("n")
        await desk.reads("Done.")

    assert modes == ["ask"]
    assert still_asked
    assert not (folder / "made").exists()


async def test_a_mode_that_forbids_the_call_closes_the_question(folder: Path) -> None:
    model = ScriptedModel([Reply("", calls=[TOUCH]), Reply("Done.")])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type("go" + ENTER)
        await desk.sees("bash needs your word")
        desk.type(SHIFT_TAB * 3)
        await desk.reads("Done.")

        assert desk.live.permission_mode == "read-only"
        assert "the mode is read-only now" in told(model)[0]
    assert not (folder / "made").exists()


@pytest.mark.parametrize("pause", [0.0, 0.09], ids=["at once", "as people type"])
async def test_a_word_begun_after_a_question_came_is_no_answer(folder: Path, pause: float) -> None:
    model = ScriptedModel([Reply("", calls=[TOUCH]), Reply("Done.")])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type("go" + ENTER)
        await desk.sees("bash needs your word")
        for letter in "any yes":
            desk.type(letter)
            await asyncio.sleep(pause)
        await asyncio.sleep(lone_keys.WORD_SECONDS + lone_keys.ALONE_SECONDS)
        still_asked = "bash needs your word" in desk.drawn()
        desk.type("n")
        await desk.reads("Done.")
        typed = desk.input()

    assert typed == "any yes"
    assert still_asked
    assert not (folder / "made").exists()


async def test_s_lets_this_and_all_later_edits_pass(folder: Path) -> None:
    model = ScriptedModel([writing("one", "two"), writing("three"), Reply("Done.")])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type("go" + ENTER)
        await desk.sees("s all edits from now on (auto-edit)")
        desk.type("s")
        await desk.reads("Done.")

        assert desk.live.permission_mode == "auto-edit"
        assert all((folder / name).exists() for name in ("one", "two", "three"))


async def test_all_edits_are_no_answer_to_a_command(folder: Path) -> None:
    model = ScriptedModel([Reply("", calls=[TOUCH]), Reply("Done.")])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type("go" + ENTER)
        await desk.sees("bash needs your word")
        seen = desk.drawn()
        desk.type("s")
        await desk.until(lambda: desk.input() == "s")
        await asyncio.sleep(lone_keys.WORD_SECONDS)
        desk.type("n")
        await desk.reads("Done.")

        assert "all edits" not in seen
        assert desk.live.permission_mode == "ask"
    assert not (folder / "made").exists()
    assert "bash touch made · not allowed" in desk.printed()


async def test_while_one_of_two_calls_that_run_side_by_side_is_asked_about_both_wait(
    folder: Path,
) -> None:
    calls = [Call("read", {"path": f"../{name}"}) for name in ("one", "two")]
    model = ScriptedModel([Reply("", calls=calls), Reply("Done.")])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type("go" + ENTER)
        await desk.sees("· read ../one · waiting for your word")
        desk.type("y")
        await desk.sees("· read ../two · waiting for your word")
        await desk.sees("· read ../one · waiting\n")
        desk.type("y")
        await desk.reads("Done.")
