"""A Markdown document as a terminal shows it: prose broken between words, headings set off.  (pure)

Not a renderer: what is in fences, tables and indented code stays as it is.
"""

from __future__ import annotations

import re

from ..streams import Piece, visible

__all__ = ["readable"]

NARROWEST = 20
"""Columns. Below that nothing is gained by breaking lines."""

_FENCE = re.compile(r" {0,3}(?:> ?)*\s*(`{3,}|~{3,})")
# What a broken line begins with again: quotes as they are, marks of lists as blanks.
_LEAD = re.compile(r"((?:> ?)*)( *(?:[-*+] |\d{1,9}[.)] )? *)")

_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")


def readable(document: str, width: int) -> list[Piece]:
    """*document* for a terminal of *width* columns, control characters made visible."""
    pieces: list[Piece] = []
    fence: str | None = None
    for line in visible(document).split("\n"):
        found = _FENCE.match(line)
        if found is not None:
            mark = found.group(1)
            if fence is None:
                fence = mark
            elif mark[0] == fence[0] and len(mark) >= len(fence):
                fence = None
        if fence is not None or found is not None or len(line) <= width or width < NARROWEST:
            shown = line
        else:
            shown = _broken(line, width)
        heading = fence is None and line.startswith("#")
        if heading:  # nobody parses it here
            shown = _ESCAPE.sub(r"\1", shown)
        pieces.append(Piece(shown + "\n", "speech" if heading else "plain"))
    if pieces and pieces[-1].text == "\n":
        pieces.pop()  # the document ends with a line end
    return pieces


def _broken(line: str, width: int) -> str:
    from rich.cells import cell_len

    if line.startswith(("    ", "\t", "|")):
        return line
    found = _LEAD.match(line)
    assert found is not None  # it may match nothing
    quotes, mark = found.groups()
    again = quotes + " " * len(mark)
    lines: list[str] = []
    lead, words, room = found.group(), list[str](), width - cell_len(found.group())
    for word in line[found.end() :].split(" "):
        length = cell_len(word)
        if words and length > room:
            lines.append(lead + " ".join(words))
            lead, words, room = again, [], width - cell_len(again)
        words.append(word)
        room -= length + 1
    return "\n".join([*lines, lead + " ".join(words)])
