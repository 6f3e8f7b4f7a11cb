"""What was measured, as rows of a table: the work, one number a library, and what is asked of us."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

__all__ = ["Row", "table"]


@dataclass(slots=True)
class Row:
    """One measured number and its target."""

    work: str
    unit: str
    """What the number is, such as `of bare` or `turns/s`."""
    measured: dict[str, float]
    """By library. Ours is `loopwright`; NaN where a library has no such thing."""
    at_least: float | None = None
    at_most: float | None = None
    note: str = ""
    """Absolute numbers of this machine, for people."""
    digits: int = 2

    @property
    def ours(self) -> float:
        """Our number."""
        return self.measured["loopwright"]

    @property
    def met(self) -> bool | None:
        """Whether the target is reached; None if there is none."""
        if self.at_least is not None:
            return self.ours >= self.at_least
        if self.at_most is not None:
            return self.ours <= self.at_most
        return None

    @property
    def target(self) -> str:
        """The target in words."""
        if self.at_least is not None:
            return f">= {self.at_least:g}"
        return "" if self.at_most is None else f"<= {self.at_most:g}"

    def show(self, name: str) -> str:
        """The number of the library *name*."""
        value = self.measured.get(name, math.nan)
        return "–" if math.isnan(value) else f"{value:,.{self.digits}f}"


def table(rows: Iterable[Row], libraries: Sequence[str]) -> str:
    """The rows as a Markdown table that lines up in a terminal, too."""
    verdicts = {True: "met", False: "MISSED", None: ""}
    head = ["work", "unit", *libraries, "target", "", "this machine"]
    lines = [head]
    for row in rows:
        numbers = [row.show(name) for name in libraries]
        lines.append([row.work, row.unit, *numbers, row.target, verdicts[row.met], row.note])
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    numeric = range(2, 2 + len(libraries))
    text: list[str] = []
    for line in lines:
        cells = [
            cell.rjust(width) if i in numeric else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        ]
        text.append(f"| {' | '.join(cells)} |")
    rule = [f"{'-' * (w - 1)}:" if i in numeric else "-" * w for i, w in enumerate(widths)]
    text.insert(1, f"| {' | '.join(rule)} |")
    return "\n".join(text)
