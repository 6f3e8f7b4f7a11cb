"""Where a long paragraph may be given out in two pieces without anybody noticing.          (pure)

Not here: joining the pieces again when they are drawn (markdown_view.py).
"""

from __future__ import annotations

import re
import unicodedata

__all__ = ["paragraph_cut"]

_MARKS = re.compile(r"\\.|`+|\*+|(?<!\w)_+|_+(?!\w)|~~|[\[\]() \n]", re.DOTALL)


def paragraph_cut(text: str, limit: int, *, must: bool) -> int | None:
    """Where the first *limit* characters of *text* may be cut: at a line's end if there is one in
    the second half, else at a blank, both where no markup is open. Without such a place None, or,
    if it *must* be, the best place there is."""
    code = ""
    open_marks: set[str] = set()
    brackets = target = 0
    line_end = blank = any_blank = 0
    for found in _MARKS.finditer(text, 0, limit):
        mark, at = found.group(), found.start()
        if mark in " \n":
            any_blank = at
            if not (code or open_marks or brackets or target):
                if mark == "\n":
                    line_end = at
                else:
                    blank = at
        elif mark[0] == "`":
            if code == mark:
                code = ""
            elif not code:
                code = mark
        elif code or mark[0] == "\\":
            continue
        elif mark in "[]":
            brackets = max(0, brackets + (1 if mark == "[" else -1))
        elif mark == "(":
            target = 1 if text[at - 1 : at] == "]" else target
        elif mark == ")":
            target = 0
        elif not (text[at - 1 : at].strip() or text[found.end() : found.end() + 1].strip()):
            continue  # a star among blanks
        else:
            open_marks ^= {mark}
    if line_end > limit // 2:
        return line_end
    best = max(blank, line_end)
    if best > limit // 4:
        return best
    at = _between_characters(text, min(limit, len(text)))
    if not (code or open_marks or brackets or target) and text[at - 1 : at + 1].isalnum():
        return at  # a script without blanks, or a word without end
    if not must:
        return None
    if any_blank > limit // 4:
        return any_blank
    return at


def _between_characters(text: str, at: int) -> int:
    """The last place up to *at* that does not part a character from what belongs to it."""
    for place in range(at, max(at - 50, 1), -1):
        if place < len(text) and (
            unicodedata.combining(text[place])
            or text[place] in "\u200d\ufe0f"
            or text[place - 1] in "\u200d\\"
        ):
            continue
        return place
    return at
