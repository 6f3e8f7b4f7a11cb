"""Markdown that is still being written, taken apart into leaves: what is finished, what is open.

The rules are those of CommonMark 0.31 for blocks, and GitHub's for tables; HTML and reference
definitions are text like any other, so that nothing disappears. A leaf is a paragraph, a heading, a
piece of code, a table or a rule, with the quotes and list items that it stands in. Every line is
looked at once. What grows long is given out in pieces: code after some lines, a paragraph at a
blank where nothing is open (no `**`, no link). Where the pieces end depends on the text alone and
never on the chunks it came in.

Not here: what is a quote or an item (markdown_containers.py), how leaves look (markdown_view.py),
and what is inside of a paragraph. Pure.
"""

from __future__ import annotations

import copy
import re
from typing import Literal, NamedTuple

from ..streams import visible
from .markdown_containers import (
    RULE,
    Container,
    containers_begun,
    containers_kept,
    indent_of,
    needs_gap,
)
from .paragraph_cut import paragraph_cut

__all__ = ["Leaf", "MarkdownBlocks"]

PIECE_CHARACTERS = 1_000
"""A paragraph, or a line, that is longer is given out in pieces; so is code of twice the length."""

PIECE_LINES = 20
"""Lines of code, or rows of a table, that are given out together."""


class Leaf(NamedTuple):
    """A block that has no other blocks in it, or a piece of one."""

    kind: Literal["paragraph", "heading", "code", "table", "rule"]
    text: str
    containers: tuple[Container, ...] = ()
    shown: int = 0
    """How many of the containers have been seen before; the markers of the others stand here."""
    gap: bool = False
    """An empty line stands before it."""
    level: int = 0
    """Of a heading, 1 to 6."""
    language: str = ""
    """Of code, as the fence says it."""
    before: str = ""
    """Code: the lines before this piece, for whoever must know how it goes on."""
    first: bool = True
    last: bool = True
    """It ends here; otherwise another piece follows."""
    joint: str = ""
    """What stood between this piece of a paragraph and the next: a blank, or nothing."""


_FENCE = re.compile(r"( {0,3})(`{3,}(?=[^`]*$)|~{3,})(.*)$")
_HEADING = re.compile(r" {0,3}(#{1,6})(?: +(.*))?$")
_HEADING_END = re.compile(r"(?:^|\s)#+\s*$")
_UNDERLINE = re.compile(r" {0,3}(=+|-+) *$")
_DELIMITERS = re.compile(r" {0,3}\|? *:?-+:? *(?:\| *:?-+:? *)*\|? *$")


class MarkdownBlocks:
    """Takes text in any chunks and gives out leaves, each once."""

    def __init__(self) -> None:
        self._arrived: list[str] = []
        self._tail = ""
        """The beginning of a line that is not complete."""
        self._in_line = False
        """Of that line a part has been dealt with already: it is very long."""
        self._leaves: list[Leaf] = []
        self._containers: tuple[Container, ...] = ()
        self._shown = 0
        self._groups = 0
        self._last: Leaf | None = None
        self._kind: Literal["", "paragraph", "heading", "code", "table"] = ""
        """Of the open leaf."""
        self._lines: list[str] = []
        self._length = 0
        self._first = True
        self._try_at = PIECE_CHARACTERS
        self._level = 0
        self._fence = ""
        """What opened the code; empty for code that is only indented."""
        self._fence_indent = 0
        self._language = ""
        self._before = ""
        self._blanks = 0
        """Empty lines after indented code, which may go on."""

    def feed(self, text: str) -> None:
        """Take more of the text. Does nothing else: it is called very often."""
        self._arrived.append(text)

    def take(self) -> list[Leaf]:
        """What has been finished since the last call."""
        self._settle()
        leaves, self._leaves = self._leaves, []
        return leaves

    def open(self) -> list[Leaf]:
        """What is not finished, as it would be if the text ended here. Changes nothing."""
        self._settle()
        ahead = copy.copy(self)
        ahead._arrived, ahead._leaves, ahead._lines = [], [], list(self._lines)
        return ahead.close()

    def close(self) -> list[Leaf]:
        """The rest: the text is complete."""
        self._settle()
        if self._tail or self._in_line:
            self._line_part(self._tail)
            self._end_line()
            self._tail = ""
        self._close_containers(0)
        leaves, self._leaves = self._leaves, []
        return leaves

    # -- lines --------------------------------------------------------------------------------

    def _settle(self) -> None:
        """Deal with all lines that are complete, and with what is longer than a piece."""
        if not self._arrived:
            return
        self._arrived.insert(0, self._tail)
        lines = "".join(self._arrived).split("\n")
        self._arrived = []
        self._tail = lines.pop()
        for line in lines:
            self._line_part(self._long_parts(line))
            self._end_line()
        self._tail = self._long_parts(self._tail)

    def _long_parts(self, line: str) -> str:
        """Deal with all but the last piece of a line that is longer than one; returns the last."""
        start = 0
        while len(line) - start > PIECE_CHARACTERS:
            end = start + PIECE_CHARACTERS
            end -= line[end - 1] == "\r"  # which may belong to the end of the line
            self._line_part(line[start:end])
            start = end
        return line[start:]

    def _line_part(self, part: str) -> None:
        text = visible(part.removesuffix("\r")).expandtabs(4)
        if not self._in_line:
            self._in_line = True
            self._begin_line(text)
        elif text:
            self._go_on(text)

    def _end_line(self) -> None:
        self._in_line = False
        if self._kind == "heading":
            self._finish()
        elif self._kind == "code":
            if len(self._lines) >= PIECE_LINES or self._length >= 2 * PIECE_CHARACTERS:
                self._give_piece_of_code()
        elif self._kind == "table" and len(self._lines) >= PIECE_LINES:
            self._give_lines()

    def _go_on(self, text: str) -> None:
        """More of a line that has begun."""
        if not self._kind:  # of the line nothing was left: blanks, or markers alone
            self._open_paragraph(text)
            return
        if self._lines:
            self._lines[-1] += text
        else:
            self._lines.append(text)
        self._length += len(text)
        if self._kind == "paragraph":
            self._give_pieces_of_paragraph()
        elif self._length >= 2 * PIECE_CHARACTERS:
            if self._kind == "code":
                self._give_piece_of_code()
            else:
                self._give_lines()

    def _begin_line(self, line: str) -> None:
        rest, matched = containers_kept(line, self._containers)
        if self._kind == "code":
            if matched == len(self._containers) and self._is_code(rest):
                return
            self._finish()
        if not rest.strip():
            self._blank_line(matched)
            return
        unmatched = matched < len(self._containers)
        if not unmatched and self._changes_paragraph(rest):
            return
        opened, rest = containers_begun(
            rest,
            self._containers,
            matched,
            in_paragraph=self._kind == "paragraph",
            groups=self._groups,
        )
        self._groups += len(opened)
        starts = bool(opened) or self._starts_block(rest)
        if unmatched and not starts and self._kind == "paragraph":
            self._add(rest.strip())  # a lazy continuation
            return
        if opened or unmatched:
            self._close_containers(matched)
        for container in opened:
            self._containers += (container,)
        self._begin_leaf(rest)

    def _blank_line(self, matched: int) -> None:
        if self._kind in ("paragraph", "table"):
            self._finish()
        if matched < len(self._containers):
            self._close_containers(matched)

    def _close_containers(self, down_to: int) -> None:
        self._finish()
        if self._shown < len(self._containers) and down_to < len(self._containers):
            self._kind = "paragraph"  # an item or a quote with nothing in it
            self._finish()
        self._containers = self._containers[:down_to]
        self._shown = min(self._shown, down_to)

    # -- leaves -------------------------------------------------------------------------------

    def _starts_block(self, rest: str) -> bool:
        if indent_of(rest) >= 4:
            return False
        return bool(_FENCE.match(rest) or _HEADING.match(rest) or RULE.match(rest))

    def _begin_leaf(self, rest: str) -> None:
        """What *rest*, the content of a line, begins or continues."""
        if not rest.strip():
            self._finish()
            return
        if indent_of(rest) >= 4 and self._kind != "paragraph":
            self._finish()
            self._open("code", rest[4:])
            self._fence = self._language = ""
            return
        fence = _FENCE.match(rest) if indent_of(rest) < 4 else None
        heading = _HEADING.match(rest)
        if fence is not None:
            self._finish()
            self._open("code")
            self._fence, self._fence_indent = fence[2], len(fence[1])
            self._language = fence[3].strip()
        elif indent_of(rest) < 4 and RULE.match(rest):
            self._finish()
            self._give("", kind="rule")
        elif heading is not None:
            self._finish()
            self._open("heading", _HEADING_END.sub("", heading[2] or "").strip())
            self._level = len(heading[1])
        elif self._kind == "table":
            self._add(rest.strip())
        elif self._kind == "paragraph":
            self._add(rest.lstrip())
        else:
            self._open_paragraph(rest.lstrip())

    def _changes_paragraph(self, rest: str) -> bool:
        """Whether *rest* makes a table or a heading of the paragraph that is open."""
        if self._kind != "paragraph" or indent_of(rest) >= 4:
            return False
        is_header = len(self._lines) == 1 and self._first and "|" in self._lines[0]
        if is_header and _DELIMITERS.match(rest) and _columns(rest) == _columns(self._lines[0]):
            self._kind = "table"
            self._add(rest.strip())
            return True
        underline = _UNDERLINE.match(rest)
        if underline is not None and any(self._lines):
            self._kind = "heading"
            self._level = 1 if "=" in underline[1] else 2
            self._finish()
            return True
        return False

    def _is_code(self, rest: str) -> bool:
        """Whether *rest* belongs to the code that is open, its closing fence included."""
        if self._fence:
            closing = rest.strip()
            if (
                indent_of(rest) < 4
                and len(closing) >= len(self._fence)
                and closing == self._fence[0] * len(closing)
            ):
                self._finish()
            else:
                self._add(rest[min(indent_of(rest), self._fence_indent) :])
            return True
        if not rest.strip():
            self._blanks += 1
            return True
        if indent_of(rest) < 4:
            return False
        while self._blanks:
            self._blanks -= 1
            self._add("")
        self._add(rest[4:])
        return True

    def _open(self, kind: Literal["heading", "code"], line: str | None = None) -> None:
        self._kind = kind
        self._lines = [] if line is None else [line]
        self._length = len(line or "")

    def _open_paragraph(self, text: str) -> None:
        self._kind = "paragraph"
        self._lines = []
        self._length = 0
        self._add(text)

    def _add(self, line: str) -> None:
        self._lines.append(line)
        self._length += len(line) + 1
        if self._kind == "paragraph":
            self._give_pieces_of_paragraph()

    def _finish(self) -> None:
        """Give out what is open, to its end."""
        kind = self._kind
        if not kind:
            return
        self._give("\n".join(self._lines))
        self._kind = ""
        self._lines = []
        self._length = self._level = self._blanks = 0
        self._first = True
        self._try_at = PIECE_CHARACTERS
        self._fence = self._language = self._before = ""

    def _give_piece_of_code(self) -> None:
        self._give_lines()
        if self._last is not None:
            self._before = self._last.text

    def _give_lines(self) -> None:
        self._give("\n".join(self._lines), last=False)
        self._lines, self._length = [], 0

    def _give_pieces_of_paragraph(self) -> None:
        while self._length >= self._try_at:
            text = "\n".join(self._lines)
            cut = paragraph_cut(text, self._try_at, must=self._try_at > PIECE_CHARACTERS)
            if cut is None:
                self._try_at *= 2
                return
            end = cut + (text[cut : cut + 1] in (" ", "\n"))
            self._give(text[:cut], last=False, joint=text[cut:end])
            self._lines = text[end:].split("\n")
            self._length = len(text) - end
            self._try_at = PIECE_CHARACTERS

    def _give(
        self,
        text: str,
        *,
        kind: Literal["rule"] | None = None,
        last: bool = True,
        joint: str = "",
    ) -> None:
        leaf = Leaf(
            kind or self._kind or "paragraph",
            text,
            self._containers,
            self._shown,
            self._first and self._needs_gap(),
            self._level,
            self._language,
            self._before,
            self._first,
            last,
            joint,
        )
        self._leaves.append(leaf)
        self._last = leaf
        self._first = last
        self._shown = len(self._containers)

    def _needs_gap(self) -> bool:
        if self._last is None:
            return False
        return needs_gap(self._last.containers, self._containers, self._shown)


def _columns(row: str) -> int:
    return len(re.sub(r"\\.", "", row.strip()).strip("|").split("|"))
