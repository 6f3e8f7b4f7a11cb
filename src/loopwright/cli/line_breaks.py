"""A line that is too long for a terminal, broken between words.                            (pure)

A terminal by itself breaks where the edge is, within words and ids, so that nothing can be copied.
A path, a URL and a command between backticks stay in one piece if they fit on a line.

Not here: Markdown (sessions/wrapping.py), or tables (table.py).
"""

from __future__ import annotations

import re

__all__ = ["hanging"]

NARROWEST = 20
"""Columns. Below that nothing is gained by breaking lines."""

_PIECE = re.compile(r"(\s*)((?:`[^`]+`|\S)+)")
_WORD = re.compile(r"(\s*)(\S+)")


def hanging(text: str, width: int, *, label: int = 0) -> str:
    """*text* in lines of at most *width* columns, unless a word is longer.

    *label* are the columns that are taken in front of the first line. What had to be broken goes on
    below where the text begins, or two columns further if there is no label. Lines that fit stay
    as they are.
    """
    if width < NARROWEST:
        return text
    first, *more = text.split("\n")
    lines = [_broken(first, width, taken=label, indent=label or 2)]
    return "\n".join([*lines, *(_broken(line, width, taken=0, indent=2) for line in more)])


def _broken(line: str, width: int, *, taken: int, indent: int) -> str:
    if taken + _columns(line) <= width:
        return line
    indent += len(line) - len(line.lstrip(" "))
    if indent > width // 2:
        indent = 2
    lines, now, used = list[str](), "", taken
    for blank, word in _pieces(line, width - indent):
        size = _columns(blank + word)
        if now.strip() and used + size > width:
            lines.append(now)
            now, used, blank = " " * indent, indent, ""
            size = _columns(word)
        now += blank + word
        used += size
    return "\n".join([*lines, now])


def _pieces(line: str, room: int) -> list[tuple[str, str]]:
    """What must not be broken, each with the blanks before it."""
    found: list[tuple[str, str]] = []
    for blank, piece in _PIECE.findall(line):
        if _columns(piece) <= room:
            found.append((blank, piece))
        else:
            (_, word), *words = _WORD.findall(piece)
            found += [(blank, word), *words]
    return found


def _columns(text: str) -> int:
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)
