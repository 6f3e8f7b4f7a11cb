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
    assert "bash(command='touch made')" in screen.screen


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
