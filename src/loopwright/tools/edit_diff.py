"""What an edit changed, for people and for programs: a diff with line numbers, and a patch.

Only the neighbourhood of each edit is looked at, so the size of the file does not matter. Line
numbers are those of the file.

Not here: finding the places (edit_matching.py). Pure.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from .edit_matching import Applied, Span

__all__ = ["Diff", "diff_of"]

CONTEXT = 3
"""Unchanged lines shown around a change."""

MOST_COMPARISONS = 1_000_000
"""Lines before times lines after; above it a neighbourhood is shown as replaced from first to last
change, since comparing takes up to the square of its length."""

_Opcode = tuple[str, int, int, int, int]


class Diff(NamedTuple):
    """A change of one file."""

    display: str
    """Lines with their number, `-` for old and `+` for new ones, `...` between distant ones."""
    patch: str
    """A unified diff, as `git apply` and `patch` take it."""
    first_changed_line: int
    """In the new file, from 1."""


class _Window(NamedTuple):
    """Lines around some edits, before and after."""

    old: list[bytes]
    new: list[bytes]
    old_start: int
    new_start: int
    """Numbers of their first lines, from 0."""


def diff_of(content: bytes, applied: Applied, name: str) -> Diff:
    """The difference that *applied* makes to *content*, a file shown as *name*."""
    display: list[str] = []
    patch = [f"--- a/{name}", f"+++ b/{name}"]
    first_changed: int | None = None
    total = max(content.count(b"\n"), applied.content.count(b"\n")) + 1
    width = len(str(total))
    for window in _windows(content, applied.spans):
        for group in _groups(window.old, window.new):
            if display:
                display.append(f"{'':>{width + 1}} ...")
            patch.append(_header(window, group))
            for tag, old_from, old_to, new_from, new_to in group:
                if tag == "equal":
                    for offset, line in enumerate(window.old[old_from:old_to]):
                        number = window.new_start + new_from + offset + 1
                        display.append(f" {number:>{width}} {_visible(line)}")
                        patch += _patch_line(" ", line)
                    continue
                if first_changed is None:
                    first_changed = window.new_start + new_from + 1
                for offset, line in enumerate(window.old[old_from:old_to]):
                    number = window.old_start + old_from + offset + 1
                    display.append(f"-{number:>{width}} {_visible(line)}")
                    patch += _patch_line("-", line)
                for offset, line in enumerate(window.new[new_from:new_to]):
                    number = window.new_start + new_from + offset + 1
                    display.append(f"+{number:>{width}} {_visible(line)}")
                    patch += _patch_line("+", line)
    return Diff("\n".join(display), "\n".join(patch) + "\n", first_changed or 1)


def _windows(content: bytes, spans: Sequence[Span]) -> list[_Window]:
    """The lines of each span with those around it; spans whose lines meet share a window."""
    groups: list[tuple[int, int, list[Span]]] = []
    for span in spans:
        start, end = _lines_back(content, span.start), _lines_on(content, span.end)
        if groups and start <= groups[-1][1]:
            first, last, members = groups[-1]
            groups[-1] = (first, max(last, end), [*members, span])
        else:
            groups.append((start, end, [span]))
    windows: list[_Window] = []
    moved = counted = line = 0
    for start, end, members in groups:
        line += content.count(b"\n", counted, start)
        counted = start
        pieces: list[bytes] = []
        at = start
        for span in members:
            pieces += (content[at : span.start], span.new)
            at = span.end
        old = content[start:end]
        new = b"".join([*pieces, content[at:end]])
        windows.append(_Window(_split(old), _split(new), line, line + moved))
        moved += new.count(b"\n") - old.count(b"\n")
    return windows


def _lines_back(content: bytes, place: int) -> int:
    for _ in range(CONTEXT + 1):
        place = content.rfind(b"\n", 0, place)
        if place < 0:
            return 0
    return place + 1


def _lines_on(content: bytes, place: int) -> int:
    for _ in range(CONTEXT + 1):
        place = content.find(b"\n", place) + 1
        if not place:
            return len(content)
    return place


def _split(text: bytes) -> list[bytes]:
    """Lines with their line feeds; not `splitlines`, which has its own idea of a line."""
    lines = text.split(b"\n")
    whole = [line + b"\n" for line in lines[:-1]]
    return [*whole, lines[-1]] if lines[-1] else whole


def _groups(old: list[bytes], new: list[bytes]) -> list[list[_Opcode]]:
    from difflib import SequenceMatcher  # not small, and most programs edit nothing

    if len(old) * len(new) <= MOST_COMPARISONS:
        return list(SequenceMatcher(None, old, new, autojunk=False).get_grouped_opcodes(CONTEXT))
    shorter = min(len(old), len(new))
    same = 0
    while same < shorter and old[same] == new[same]:
        same += 1
    after = 0
    while after < shorter - same and old[-1 - after] == new[-1 - after]:
        after += 1
    before, rest = min(same, CONTEXT), min(after, CONTEXT)
    old_end, new_end = len(old) - after, len(new) - after
    group: list[_Opcode] = [("replace", same, old_end, same, new_end)]
    if before:
        group.insert(0, ("equal", same - before, same, same - before, same))
    if rest:
        group.append(("equal", old_end, old_end + rest, new_end, new_end + rest))
    return [group]


def _header(window: _Window, group: list[_Opcode]) -> str:
    first, last = group[0], group[-1]
    old = _range(window.old_start + first[1], last[2] - first[1])
    new = _range(window.new_start + first[3], last[4] - first[3])
    return f"@@ -{old} +{new} @@"


def _range(start: int, length: int) -> str:
    """As POSIX has it: counted from 1, and an empty range names the line before it."""
    if length == 1:
        return str(start + 1)
    return f"{start + 1 if length else start},{length}"


def _patch_line(mark: str, line: bytes) -> list[str]:
    text = line.decode("utf-8", "replace")
    if text.endswith("\n"):
        return [mark + text[:-1]]
    return [mark + text, "\\ No newline at end of file"]


def _visible(line: bytes) -> str:
    return line.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8", "replace")
