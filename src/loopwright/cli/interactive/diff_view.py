"""What an edit or a write changed, as coloured lines with their numbers.

Not here: making the diff (loopwright.tools.edit_diff), whose lines are shown as it wrote them:
a sign, the line's number, a blank, and the text.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from .paint import Painter, Run, crop

__all__ = ["changed_lines", "diff_rows", "written_rows"]

_NUMBERED = re.compile(r"([-+ ])( *\d+) (.*)", re.DOTALL)
_STYLES = {"+": "diff.add", "-": "diff.remove"}


def changed_lines(details: Mapping[str, Any]) -> tuple[int, int] | None:
    """How many lines the diff in the *details* of a result adds and removes; None without one."""
    diff = _diff(details)
    if diff is None:
        return None
    signs = [line[:1] for line in diff.split("\n")]
    return signs.count("+"), signs.count("-")


def diff_rows(
    details: Mapping[str, Any], painter: Painter, width: int, most: int
) -> list[str] | None:
    """The diff in the *details* of a result of `edit`, *most* lines of it, each one row; what is
    left out is said. None if there is no diff in them."""
    diff = _diff(details)
    if diff is None:
        return None
    return _rows(diff.split("\n"), painter, width, most)


def written_rows(content: str, painter: Painter, width: int, most: int) -> list[str]:
    """The *content* that a file was written with, as added lines, *most* of them."""
    lines = content.removesuffix("\n").split("\n") if content else []
    digits = len(str(len(lines)))
    numbered = [f"+{number:>{digits}} {line}" for number, line in enumerate(lines[:most], 1)]
    return _rows([*numbered, *[""] * (len(lines) - len(numbered))], painter, width, most)


def _diff(details: Mapping[str, Any]) -> str | None:
    diff = details.get("diff")
    return diff if isinstance(diff, str) and diff else None


def _rows(lines: Sequence[str], painter: Painter, width: int, most: int) -> list[str]:
    rows = [painter.line(_runs(line, width)) for line in lines[:most]]
    if len(lines) > most:
        rows.append(painter.line([Run(f"  … {len(lines) - most:,} more lines", ("note",))]))
    return rows


def _runs(line: str, width: int) -> list[Run]:
    found = _NUMBERED.match(line)
    if found is None:  # the dots between distant places, or a diff of another kind
        style = _STYLES.get(line[:1], "diff.context")
        return [Run("  " + crop(line, width - 2), (style,))]
    sign, number, text = found.groups()
    style = _STYLES.get(sign, "diff.context")
    room = width - 2 - len(number) - 3
    return [
        Run(f"  {number} ", ("diff.context",)),
        Run(f"{sign} {crop(text, room)}", (style,)),
    ]
