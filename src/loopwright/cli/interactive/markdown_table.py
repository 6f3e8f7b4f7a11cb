"""A table of Markdown as lines: columns as wide as their content, or as the terminal allows.

Where there are more columns than fit, rows are written as they were.

Not here: which lines are a table (markdown_blocks.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from .markdown_inline import inline
from .paint import Painter, Run, cells, plain

__all__ = ["Table"]

_GAP = 2
"""Columns between two cells."""

_LEAST = 4
"""Columns of the narrowest cell."""

_BAR = re.compile(r"(?<!\\)\|")


class Table:
    """One table. The widths are those of its first rows, so that it can be given out in pieces."""

    def __init__(self, text: str, width: int, painter: Painter) -> None:
        header, delimiters, *rows = [*text.split("\n"), ""][: max(2, text.count("\n") + 1)]
        self._painter = painter
        marks = _split(delimiters)
        self._right = [mark.endswith(":") and not mark.startswith(":") for mark in marks]
        self._header = self._cells(header)
        self._rows = [self._cells(row) for row in rows]
        self._raw = text
        self._widths = _fit([self._header, *self._rows], width)

    def beginning(self) -> list[list[Run]]:
        """The header, a rule, and the rows that are known; each line as runs."""
        if self._widths is None:
            return [[Run(line)] for line in self._raw.split("\n")]
        bold = [[Run(text, ("strong", *styles)) for text, styles in cell] for cell in self._header]
        rule = [Run((" " * _GAP).join(["─" * width for width in self._widths]), ("border",))]
        return [
            *self._lines(bold),
            rule,
            *[line for row in self._rows for line in self._lines(row)],
        ]

    def more(self, text: str) -> list[list[Run]]:
        """Rows that came later."""
        if not text:
            return []
        rows = text.split("\n")
        if self._widths is None:
            return [[Run(row)] for row in rows]
        return [line for row in rows for line in self._lines(self._cells(row))]

    def _cells(self, row: str) -> list[list[Run]]:
        """The cells of *row*, as many as there are columns; what is too much stays in the last."""
        columns = len(self._right)
        texts = _split(row)
        if len(texts) > columns:
            texts[columns - 1 :] = [" | ".join(texts[columns - 1 :])]
        texts += [""] * (columns - len(texts))
        return [inline(text) for text in texts]

    def _lines(self, row: Sequence[list[Run]]) -> list[list[Run]]:
        assert self._widths is not None
        broken = [
            self._painter.broken(cell, width) for cell, width in zip(row, self._widths, strict=True)
        ]
        lines: list[list[Run]] = []
        for index in range(max([len(cell) for cell in broken])):
            line: list[Run] = []
            blanks = 0  # those at the end of a line are left out
            for cell, width, right in zip(broken, self._widths, self._right, strict=True):
                content = cell[index] if index < len(cell) else []
                room = max(0, width - cells(plain(content)))
                if content:
                    line += [Run(" " * (blanks + (room if right else 0))), *content]
                    blanks = _GAP + (0 if right else room)
                else:
                    blanks += room + _GAP
            lines.append(line)
        return lines


def _split(row: str) -> list[str]:
    """The cells of *row*, without the bars at its ends."""
    text = row.strip()
    text = text.removeprefix("|")
    if text.endswith("|") and not text.endswith("\\|"):
        text = text[:-1]
    return [cell.strip().replace("\\|", "|") for cell in _BAR.split(text)]


def _fit(rows: Sequence[Sequence[list[Run]]], width: int) -> list[int] | None:
    """The widths of the columns, wide ones made narrower until all fit into *width*; None if they
    never do."""
    columns = len(rows[0])
    wanted = [max(1, *[cells(plain(row[column])) for row in rows]) for column in range(columns)]
    room = width - _GAP * (columns - 1)
    if sum(wanted) <= room:
        return wanted
    if room < _LEAST * columns:
        return None
    limit = _level(wanted, room)
    widths = [min(size, limit) for size in wanted]
    spare = room - sum(widths)
    for column in range(columns):
        if spare and widths[column] < wanted[column]:
            widths[column] += 1
            spare -= 1
    return widths


def _level(wanted: Sequence[int], room: int) -> int:
    """The width to which columns are cut so that all take *room* or less."""
    left, count = room, len(wanted)
    for size in sorted(wanted):
        if size * count > left:
            return max(1, left // count)
        left -= size
        count -= 1
    return max(wanted)
