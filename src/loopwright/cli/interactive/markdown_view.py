"""Leaves of Markdown as lines for a terminal.

Not here: what the leaves are (markdown_blocks.py), what is inside of a paragraph
(markdown_inline.py), and how lines are broken (paint.py).
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence

from .code_colors import colored
from .markdown_blocks import Leaf
from .markdown_containers import Container
from .markdown_inline import inline
from .markdown_table import Table
from .paint import Painter, Run, cells

__all__ = ["MarkdownView"]


class MarkdownView:
    """Draws the leaves of one text, in order. *base* are styles that lie under all of it."""

    def __init__(self, painter: Painter, base: tuple[str, ...] = ()) -> None:
        self._painter = painter
        self._base = base
        self._held: list[Run] | None = None
        """The last row of a paragraph that goes on: what follows belongs into the same row."""
        self._table: Table | None = None

    def ahead(self) -> MarkdownView:
        """One that knows what this one knows, and draws without changing this one."""
        return copy.copy(self)

    def draw(self, leaf: Leaf, width: int) -> list[str]:
        """The rows of *leaf*."""
        first, rest = self._margins(leaf)
        rows: list[str] = []
        if leaf.gap:
            shared = [margin for margin in leaf.containers[: leaf.shown] if margin.kind == "quote"]
            rows.append(self._painter.line(self._based(_bars(shared))).rstrip())
        paint = self._painter.rows
        match leaf.kind:
            case "paragraph":
                runs = self._paragraph(leaf, width, first, rest)
                if runs is not None:
                    rows += paint(runs, width, first=first, rest=rest)
            case "heading":
                runs = [Run(text, ("heading", *styles)) for text, styles in inline(leaf.text)]
                if leaf.text or leaf.first:
                    rows += paint(self._based(runs), width, first=first, rest=rest)
            case "code":
                if leaf.text or leaf.first:
                    runs = colored(leaf.text, leaf.language, leaf.before)
                    margin = [*rest, Run("  ")]
                    above = [*first, Run("  ")]
                    rows += paint(self._based(runs), width, first=above, rest=margin)
            case "table":
                rows += self._table_rows(leaf, width, first, rest)
            case "rule":
                left = max(1, width - cells("".join([run.text for run in first])))
                rows += paint([Run("─" * min(left, 40), ("border",))], width, first=first)
        return rows

    def _paragraph(
        self, leaf: Leaf, width: int, first: Sequence[Run], rest: Sequence[Run]
    ) -> list[Run] | None:
        """What of it can be drawn now. Of a piece that goes on, the last row is held back, so that
        the text is broken as if it had been one."""
        runs = self._based(inline(leaf.text))
        held, self._held = self._held, None
        if held is not None:
            runs = [*held, *runs]
        if leaf.last or leaf.joint == "\n":
            return runs
        room = width - max(_width(first), _width(rest))
        lines = self._painter.broken(runs, room)
        self._held = [*lines.pop(), Run(leaf.joint)]
        return [run for line in lines for run in (Run("\n"), *line)][1:] if lines else None

    def _table_rows(
        self, leaf: Leaf, width: int, first: Sequence[Run], rest: Sequence[Run]
    ) -> list[str]:
        room = width - max(_width(first), _width(rest))
        if leaf.first or self._table is None:
            self._table = Table(leaf.text, room, self._painter)
            lines = self._table.beginning()
        else:
            lines = self._table.more(leaf.text)
        heads = [first] + [rest] * len(lines)
        return [
            row
            for head, line in zip(heads, lines, strict=False)
            for row in self._painter.rows(self._based(line), width, first=head, rest=rest)
        ]

    def _margins(self, leaf: Leaf) -> tuple[list[Run], list[Run]]:
        """What stands before the first row, and before the others."""
        first: list[Run] = []
        rest: list[Run] = []
        for index, container in enumerate(leaf.containers):
            if container.kind == "quote":
                bar = _bars([container])
                first += bar
                rest += bar
                continue
            marker = "•" if container.marker in "-+*" else container.marker
            blank = Run(" " * (len(marker) + 1))
            first.append(Run(f"{marker} ", ("bullet",)) if index >= leaf.shown else blank)
            rest.append(blank)
        return first, rest

    def _based(self, runs: Iterable[Run]) -> list[Run]:
        if not self._base:
            return list(runs)
        return [Run(text, (*self._base, *styles)) for text, styles in runs]


def _bars(quotes: Sequence[Container]) -> list[Run]:
    return [Run("│ ", ("border",)) for _ in quotes]


def _width(runs: Iterable[Run]) -> int:
    return sum([cells(run.text) for run in runs])
