"""A terminal that can do nothing but show lines: the conversation is plain, and asks all the same."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.cli.conftest import Program, Terminal
from tests.cli.interactive.acting_vendor import ActingVendor, ToolCall


@pytest.mark.parametrize(("answer", "happens"), [("y", True), ("n", False), ("", False)])
def test_a_call_is_asked_for_in_one_line(
    program: Program,
    actor: ActingVendor,
    terminal: Callable[..., Terminal],
    answer: str,
    happens: bool,
) -> None:
    actor.will_answer(ToolCall("bash", {"command": "touch made"}))
    actor.will_answer("That was all.")
    screen = terminal(TERM="dumb")
    screen.read_until("> ")
    screen.type("Make it.\n")
    screen.read_until("anything else: no> ")

    screen.type(f"{answer}\n")
    screen.read_until("That was all.")
    screen.type("\x04")

    assert screen.end() == 0
    assert (program.folder / "made").exists() == happens
    assert "bash needs your word: no rule allows 'touch made'\r\n  touch made\r\n" in screen.screen


def test_a_long_command_is_shown_whole_before_it_is_asked_for(
    program: Program, actor: ActingVendor, terminal: Callable[..., Terminal]
) -> None:
    command = f"echo harmless {'x ' * 150}; touch PWNED"
    actor.will_answer(ToolCall("bash", {"command": command}))
    actor.will_answer("That was all.")
    screen = terminal(TERM="dumb")
    screen.read_until("> ")
    screen.type("Make it.\n")

    asked = screen.read_until("anything else: no> ")
    screen.type("n\n")
    screen.read_until("That was all.")
    screen.type("\x04")

    assert screen.end() == 0
    shown = asked.partition("needs your word")[2].split("\r\n")[1:-1]
    assert all(line.startswith("  ") and len(line) < 80 for line in shown)
    assert "".join(line[2:] for line in shown) == command


def test_a_file_is_overwritten_only_after_a_diff_and_v_shows_all_of_a_long_one(
    program: Program, actor: ActingVendor, terminal: Callable[..., Terminal]
) -> None:
    (program.folder / "old.txt").write_text("one\ntwo\nthree\n")
    content = "".join(f"line {number}\n" for number in range(100))
    actor.will_answer(ToolCall("write", {"path": "old.txt", "content": content}))
    actor.will_answer("That was all.")
    screen = terminal(TERM="dumb")
    screen.read_until("> ")
    screen.type("Make it.\n")

    asked = screen.read_until("anything else: no> ")
    screen.type("v\n")
    in_full = screen.read_until("anything else: no> ", times=2)[len(asked) :]
    screen.type("y\n")
    screen.read_until("That was all.")
    screen.type("\x04")

    assert screen.end() == 0
    assert "  replaces old.txt (3 lines)\r\n    1 - one\r\n" in asked
    assert "… more, v shows all of it" in asked
    assert "line 50" not in asked
    assert all(f" + line {number}\r\n" in in_full for number in range(100))
    assert (program.folder / "old.txt").read_text() == content


def test_a_rule_that_is_offered_cannot_write_to_the_terminal(
    actor: ActingVendor, terminal: Callable[..., Terminal]
) -> None:
    actor.will_answer(ToolCall("bash", {"command": "x '\x1b[2J'"}))
    actor.will_answer("That was all.")
    screen = terminal(TERM="dumb")
    screen.read_until("> ")
    screen.type("Make it.\n")
    screen.read_until("anything else: no> ")

    screen.type("n\n")
    screen.read_until("That was all.")
    screen.type("\x04")

    assert screen.end() == 0
    assert "a: always bash(x '␛[2J')" in screen.screen
    assert "\x1b" not in screen.screen


def test_ctrl_c_at_a_question_stops_the_run_and_takes_no_line_from_the_conversation(
    program: Program, actor: ActingVendor, terminal: Callable[..., Terminal]
) -> None:
    actor.will_answer(ToolCall("bash", {"command": "touch made"}))
    actor.will_answer("Hello.")
    screen = terminal(TERM="dumb")
    screen.read_until("> ")
    screen.type("Make it.\n")
    screen.read_until("anything else: no> ")

    screen.type("\x03")
    screen.read_until("\r\n> ", times=2)
    screen.type("Just say hello.\n")
    screen.read_until("Hello.")
    screen.type("\x04")

    assert screen.end() == 0
    assert not (program.folder / "made").exists()


def test_a_prompt_begins_a_conversation(
    program: Program, actor: ActingVendor, terminal: Callable[..., Terminal]
) -> None:
    actor.will_answer(ToolCall("bash", {"command": "touch made"}))
    actor.will_answer("It is made.")
    actor.will_answer("Still here.")
    screen = terminal("Make", "it.", TERM="dumb")

    screen.read_until("anything else: no> ")
    screen.type("y\n")
    screen.read_until("It is made.")
    screen.read_until("\r\n> ")
    screen.type("And now?\n")
    screen.read_until("Still here.")
    screen.type("\x04")

    assert screen.end() == 0
    assert (program.folder / "made").exists()


def test_a_slash_command_is_not_sent_to_the_model(
    actor: ActingVendor, terminal: Callable[..., Terminal]
) -> None:
    screen = terminal(TERM="dumb")
    screen.read_until("> ")

    screen.type("/model\n")
    screen.read_until("needs a terminal that can move its cursor")
    screen.type("\x04")

    assert screen.end() == 0
    assert actor.requests == []
