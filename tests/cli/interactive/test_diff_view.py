"""Diffs of edits and writes: numbers, colours, limits."""

from __future__ import annotations

from loopwright.cli.interactive.diff_view import changed_lines, diff_rows, written_rows
from loopwright.cli.interactive.paint import Painter, cells
from loopwright.cli.interactive.theme import theme_named
from loopwright.tools import MemoryWorkspace, edit_tool

PAINTER = Painter(theme_named("dark", {"NO_COLOR": "1"}))
COLORED = Painter(theme_named("dark", {"TERM": "linux"}))


async def test_the_diff_of_a_real_edit_has_the_numbers_of_the_file() -> None:
    workspace = MemoryWorkspace({"a.py": b"".join(b"line %d\n" % n for n in range(1, 31))})
    result = await edit_tool(workspace)(
        "a.py", [{"oldText": "line 10\n", "newText": "ten\nmore\n"}, {"oldText": "line 25\n", "newText": ""}]
    )  # fmt: skip

    rows = diff_rows(result.details, PAINTER, 40, 100)

    assert rows is not None
    assert rows[2:7] == [
        "   9   line 9",
        "  10 - line 10",
        "  10 + ten",
        "  11 + more",
        "  12   line 11",
    ]
    assert "      ..." in rows
    assert changed_lines(result.details) == (2, 2)


def test_added_and_removed_lines_have_their_colours() -> None:
    rows = diff_rows({"diff": "+1 a\n-2 b\n 3 c"}, COLORED, 40, 100)

    assert rows is not None
    assert ["32m" in rows[0], "31m" in rows[1], "2m" in rows[2]] == [True, True, True]


def test_a_long_diff_is_cut_and_says_so() -> None:
    rows = diff_rows({"diff": "\n".join([f"+{n} x" for n in range(10, 60)])}, PAINTER, 40, 20)

    assert rows is not None
    assert len(rows) == 21
    assert rows[-1] == "  … 30 more lines"


def test_hostile_and_long_lines_keep_to_one_row() -> None:
    rows = diff_rows({"diff": "+1 \x1b[2J" + "y" * 1_000 + "\n-2 \u202eb\tc\rd"}, PAINTER, 30, 9)

    assert rows is not None
    assert len(rows) == 2
    assert all(cells(row) <= 30 for row in rows)
    assert not any(character in "".join(rows) for character in "\x1b\r\t\u202e")


def test_details_without_a_diff_are_none() -> None:
    assert diff_rows({"diff": 3}, PAINTER, 40, 10) is None
    assert changed_lines({}) is None


def test_what_was_written_is_numbered_and_counted() -> None:
    rows = written_rows("".join([f"x{n}\n" for n in range(12)]), PAINTER, 40, 3)

    assert rows == ["   1 + x0", "   2 + x1", "   3 + x2", "  … 9 more lines"]
    assert written_rows("", PAINTER, 40, 3) == []
