"""Errors and notes on a terminal are broken between words; in a pipe they stay as they are."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.cli.line_breaks import hanging

from .conftest import Program, Terminal

ID = "01a22b7550f8e32e8d216a8bb610"


def test_what_fits_stays_as_it_is() -> None:
    text = "a  b\n    c"

    assert hanging(text, 20) == text


def test_what_goes_on_stands_below_where_it_began() -> None:
    broken = hanging("one two three four five six", 20, label=7)

    assert broken.split("\n") == ["one two three", "       four five six"]


@pytest.mark.parametrize("whole", [ID, "/srv/some/where/else.py", "`loopwright -- sesions list`"])
def test_what_fits_on_a_line_is_never_broken(whole: str) -> None:
    for width in range(len(f"  {whole};"), 60):
        lines = hanging(f"to go on with this session: {whole}; or begin another one", width)

        assert any(whole in line for line in lines.split("\n")), width
        assert all(len(line) <= width for line in lines.split("\n")), width


def test_a_command_that_fits_on_no_line_is_broken_between_its_words() -> None:
    broken = hanging(f"`loopwright --agent some.py --session {ID}`", 40)

    assert broken.split("\n") == ["`loopwright --agent some.py --session", f"  {ID}`"]


def test_a_wide_character_takes_two_columns() -> None:
    assert hanging("漢字漢字漢字 漢字漢字", 20) == "漢字漢字漢字\n  漢字漢字"


@given(st.text(alphabet="ab `\n", max_size=200), st.integers(1, 50), st.integers(0, 8))
def test_nothing_is_lost(text: str, width: int, label: int) -> None:
    assert hanging(text, width, label=label).split() == text.split()


def test_an_error_on_a_terminal_is_broken_between_words(
    program: Program, terminal: Callable[..., Terminal]
) -> None:
    wrong = ("hi", "--continue", "--session", "x", "--fork", "y")

    piped = program.run(*wrong)
    screen = terminal(*wrong, columns=40, NO_COLOR="1")
    screen.end()

    assert len(piped.stderr.splitlines()[0]) > 60
    lines = screen.screen.splitlines()
    assert all(len(line) < 40 for line in lines)
    assert " ".join(screen.screen.split()) == " ".join(piped.stderr.split())
    assert lines[1].startswith("       "), "below the message"
