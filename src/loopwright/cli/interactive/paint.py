"""Pieces of styled text as lines for a terminal: broken at a width, with the theme's colours.

This is the only place where escape sequences are written, and every piece passes `visible` here,
so what a model or a tool said cannot bring any of its own. Lines are broken at blanks, inside a
word only where it is longer than a line, and beside wide characters, which know no blanks.

Not here: what the pieces are (markdown_view.py, tool_view.py, diff_view.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ..streams import visible
from .theme import Theme

__all__ = ["Painter", "Run", "cells", "crop", "plain"]


class Run(NamedTuple):
    """Some text and the names of its styles in the theme, the outermost first."""

    text: str
    styles: tuple[str, ...] = ()


def plain(runs: Iterable[Run]) -> str:
    """The text of *runs*."""
    return "".join([run.text for run in runs])


def cells(text: str) -> int:
    """Columns that *text* takes."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def crop(text: str, width: int) -> str:
    """*text*, which is one line, made visible and cut to *width* columns, with an ellipsis where it was
    cut. At least one column is taken."""
    width = max(width, 1)
    text = visible(text[: 4 * width + 400]).expandtabs(4)  # some characters take no column
    if len(text) <= width and cells(text) <= width:
        return text
    from rich.cells import get_character_cell_size

    used = 0
    for index, character in enumerate(text):
        used += get_character_cell_size(character)
        if used > width - 1:
            return text[:index] + "…"
    return text


class Painter:
    """Writes runs of text in the colours of *theme*; without *color*, as plain text."""

    def __init__(self, theme: Theme, *, color: bool = True) -> None:
        self._color = color
        self.use(theme)

    def use(self, theme: Theme) -> None:
        """Paint in the colours of *theme* from here on."""
        self.theme = theme
        self._plain = theme.plain or not self._color
        self._codes: dict[tuple[str, ...], str] = {}

    def rows(
        self,
        runs: Sequence[Run],
        width: int,
        *,
        first: Sequence[Run] = (),
        rest: Sequence[Run] = (),
    ) -> list[str]:
        """*runs* broken into rows of at most *width* columns, at least one. *first* stands before
        the first row and *rest* before the others; where they leave no room they get rows of their
        own, and nothing stands before the text."""
        indent = max(cells(plain(first)), cells(plain(rest)))
        if indent > width - _LEAST_ROOM and indent * 2 > width:
            before = self.rows(first, width) if plain(first).strip() else []
            return before + self.rows(runs, width)
        lines = self.broken(runs, width - indent)
        heads = [first] + [rest] * (len(lines) - 1)
        return [self.line([*head, *line]) for head, line in zip(heads, lines, strict=True)]

    def line(self, runs: Iterable[Run]) -> str:
        """*runs* as they are, in one line."""
        if self._plain:
            return "".join([visible(run.text) for run in runs]).rstrip()
        pieces: list[str] = []
        for text, styles in runs:
            code = self._codes.get(styles)
            if code is None:
                code = self._codes[styles] = self._code(styles)
            text = visible(text)
            pieces.append(f"\x1b[{code}m{text}\x1b[0m" if code and text else text)
        return "".join(pieces)

    def broken(self, runs: Sequence[Run], width: int) -> list[list[Run]]:
        """*runs* in lines of at most *width* columns, at least one line."""
        runs = [Run(_spaces(visible(run.text)), run.styles) for run in runs]
        return _slices(runs, list(_breaks(plain(runs), max(width, 1))))

    def _code(self, styles: tuple[str, ...]) -> str:
        """What stands between ESC [ and m; empty if nothing changes."""
        words = " ".join([self.theme.styles.get(style, "") for style in styles]).split()
        if not words:
            return ""
        from rich.color import ColorSystem
        from rich.style import Style

        system = {
            "standard": ColorSystem.STANDARD,
            "256": ColorSystem.EIGHT_BIT,
            "truecolor": ColorSystem.TRUECOLOR,
        }[self.theme.depth]
        style = Style.combine([Style.parse(self.theme.styles.get(name, "")) for name in styles])
        written = style.render("x", color_system=system)
        return written[2 : written.index("m")] if written.startswith("\x1b[") else ""


_LEAST_ROOM = 8
"""Columns for the text itself; with less of them, and less than half, there is no indentation."""


def _spaces(text: str) -> str:
    return text.replace("\t", "    ") if "\t" in text else text


# -- where lines are broken --------------------------------------------------------------------


def _breaks(text: str, width: int) -> Iterable[tuple[int, int]]:
    """From where to where in *text* each row goes; blanks at which it is broken are in none."""
    start = 0
    for line in text.split("\n"):
        end = start + len(line)
        if len(line) <= width and line.isascii():
            yield start, end
        elif line.isascii():
            yield from _ascii_breaks(text, start, end, width)
        else:
            yield from _wide_breaks(text, start, end, width)
        start = end + 1


def _ascii_breaks(text: str, start: int, end: int, width: int) -> Iterable[tuple[int, int]]:
    while end - start > width:
        cut = text.rfind(" ", start, start + width + 1)
        if cut <= start or not text[start:cut].strip():
            cut = start + width  # a word that is longer than the row
        yield start, _without_blanks(text, start, cut)
        start = cut
        while start < end and text[start] == " ":
            start += 1
    yield start, end


def _without_blanks(text: str, start: int, end: int) -> int:
    while end > start and text[end - 1] == " ":
        end -= 1
    return end


def _wide_breaks(text: str, start: int, end: int, width: int) -> Iterable[tuple[int, int]]:
    from rich.cells import get_character_cell_size

    used = 0
    cut = start  # the last place where the row may be broken
    before = 0  # the size of the character before
    at = start
    while at < end:
        character = text[at]
        size = get_character_cell_size(character)
        joined = size == 0 or (at > start and text[at - 1] == _JOINER)
        may_break = text[at - 1] == " " or size == 2 or before == 2
        if at > start and may_break and not joined and character != " ":
            cut = at
        if used + size > width and not joined and at > start:
            if character == " ":  # it vanishes in the break
                cut = at
                while cut < end and text[cut] == " ":
                    cut += 1
                yield start, _without_blanks(text, start, at)
            else:
                if cut <= start or not text[start:cut].strip():
                    cut = at
                yield start, _without_blanks(text, start, cut)
            start = at = cut
            used = before = 0
            continue
        used += size
        before = size or before
        at += 1
    yield start, end


_JOINER = "\u200d"
"""ZERO WIDTH JOINER: what stands beside it is one picture."""


def _slices(runs: Sequence[Run], places: list[tuple[int, int]]) -> list[list[Run]]:
    """The parts of *runs* between each of *places*, which come in order."""
    lines: list[list[Run]] = []
    index = offset = 0  # the run at hand, and where it begins
    for start, end in places:
        line: list[Run] = []
        while index < len(runs) and offset + len(runs[index].text) <= start:
            offset += len(runs[index].text)
            index += 1
        at, from_here = index, offset
        while at < len(runs) and from_here < end:
            text, styles = runs[at]
            piece = text[max(0, start - from_here) : end - from_here]
            if piece:
                line.append(Run(piece, styles))
            from_here += len(text)
            at += 1
        lines.append(line)
    return lines


SEQUENCE = re.compile(r"\x1b\[[0-9;]*m")
"""What this module writes; whoever looks for anything else takes these away first."""
