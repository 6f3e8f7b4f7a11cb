"""A table of text that fits: in a narrow terminal, columns that matter less are left out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

__all__ = ["Column", "table_lines"]

GAP = "  "

Row = TypeVar("Row")


@dataclass(frozen=True)
class Column(Generic[Row]):
    """One column: what stands above it, and what of a row stands in it."""

    title: str
    cell: Callable[[Row], str]
    right: bool = False
    """Aligned to the right, as numbers are."""
    instead: tuple[Callable[[Row], str], ...] = ()
    """Shorter forms, the longest first; the column goes when none fits. The first column stays."""


def table_lines(
    columns: Sequence[Column[Row]], rows: Sequence[Row], width: int | None = None
) -> list[str]:
    """The head and one line for each of *rows*. None is wider than *width* characters, unless its
    first cell alone is: that one is never cut, since it is what people copy.

    Columns are shortened, then left out, from the last one on.
    """
    forms = [[column.cell, *column.instead] for column in columns]
    cells = [[form[0](row) for row in rows] for form in forms]
    sizes = [_size(column, texts) for column, texts in zip(columns, cells, strict=True)]
    if width is not None:  # a few long names must not push everything else out
        sizes[0] = min(sizes[0], max(width // 2, len(columns[0].title)))
    kept = list(range(len(columns)))
    while width is not None and len(kept) > 1 and _total(sizes, kept) > width:
        place = max(kept[1:], key=lambda at: (len(forms[at]) > 1, at))
        forms[place].pop(0)
        if forms[place]:
            cells[place] = [forms[place][0](row) for row in rows]
            sizes[place] = _size(columns[place], cells[place])
        else:
            kept.remove(place)
    table = [[column.title for column in columns], *zip(*cells, strict=True)]
    return [_line(columns, kept, sizes, line, width) for line in table]


def _size(column: Column[Row], cells: Sequence[str]) -> int:
    return max([len(column.title), *map(len, cells)])


def _total(sizes: Sequence[int], kept: Sequence[int]) -> int:
    return sum(sizes[at] for at in kept) + len(GAP) * (len(kept) - 1)


def _line(
    columns: Sequence[Column[Row]],
    kept: Sequence[int],
    sizes: Sequence[int],
    cells: Sequence[str],
    width: int | None,
) -> str:
    line = GAP.join(
        [
            cells[at].rjust(sizes[at]) if columns[at].right else cells[at].ljust(sizes[at])
            for at in kept
        ]
    )
    return (line if width is None else line[: max(width, len(cells[0]))]).rstrip()
