"""Why an old text was not found in a file, in words that let a model get it right the next time.

Models slip in a few ways, over and over: they indent by spaces what is indented by tabs, copy line
numbers along, escape a line break once too often, or send an edit that was made already. Each can be
told apart, and where the text nearly is, the line that differs is shown as it stands in the file.

Nothing is replaced on such a guess: indentation and backslashes mean something. Not here: what is
forgiven (edit_matching.py). Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

__all__ = ["why_missed"]

_SHOWN_CHARACTERS = 200

_MOST_BYTES_COMPARED = 2 * 1024 * 1024
"""In larger files no place is looked for where the text nearly is: all lines would be taken apart."""

_MOST_PLACES = 1000
"""So many places where the first line stands are compared further."""

_NUMBERED = re.compile(rb"(?:[^\s:]+[:-])?[ \t]*\d+[ \t]?(?:[:|\t-]|\xe2\x86\x92|(?= )|\Z)")
"""The beginning of a line in a listing: `12: `, `12|`, a number and a tab, `file:12: `."""

_ESCAPED = re.compile(rb"\\([ntr\"'\\])")
_MEANT = {b"n": b"\n", b"t": b"\t", b"r": b"\r"}


def why_missed(plain: bytes, old: bytes, new: bytes, *, is_utf8: bool) -> str:
    """Why *old* is not in *plain*, a file with LF, where *new* was to take its place."""
    text = "oldText was not found."
    if len(new) >= 8 and plain.count(new) == 1:
        line = _line_at(plain, plain.find(new))
        return f"{text} The file has newText, on line {line}: was this edit made already?"
    if b"\\" in old and _ESCAPED.sub(_meant, old) in plain:
        return (
            f'{text} It has escapes, such as \\n or \\", where the file has the characters '
            "themselves: send these, in newText as well."
        )
    bare = _without_numbers(old)
    if bare is not None and bare in plain:
        return f"{text} Its lines begin with numbers that are not in the file; leave these out."
    if b"\n" in old and old.replace(b"\n", b"\r") in plain:
        return (
            f"{text} The lines of this file end with a carriage return alone: send \\r for each line "
            "break, in newText as well."
        )
    if len(plain) <= _MOST_BYTES_COMPARED:
        near = _near_blanks(plain, old) or _near_beginning(plain, old)
        if near is not None:
            return f"{text} {near}"
    if not is_utf8 and b"\xef\xbf\xbd" in old:
        return (
            f"{text} The file is not valid UTF-8: what is shown as U+FFFD stands for other "
            "bytes. Choose a text without them."
        )
    return f"{text} Read the file again and copy the text as it is, indentation included."


def _meant(found: re.Match[bytes]) -> bytes:
    return _MEANT.get(found[1], found[1])


def _without_numbers(old: bytes) -> bytes | None:
    """*old* without the numbers that all its lines begin with; None if they do not."""
    lines = old.split(b"\n")
    written = [line for line in lines if line.strip()]
    if not written or not all(_NUMBERED.match(line) for line in written):
        return None
    bare = [_NUMBERED.sub(b"", line, count=1) for line in lines]
    if all(not line or line.startswith(b" ") for line in bare):  # behind a colon or a bar
        spaced = b"\n".join(line[1:] for line in bare).strip(b"\n")
        return spaced or None
    return b"\n".join(bare).strip(b"\n") or None


# -- where the text nearly is ------------------------------------------------------------------


def _near_blanks(plain: bytes, old: bytes) -> str | None:
    """Words on the only place where *old* stands but for its blanks."""
    wanted = [b" ".join(line.split()) for line in old.strip(b"\n").split(b"\n")]
    if not any(wanted):
        return None
    lines = plain.split(b"\n")
    places = _places([b" ".join(line.split()) for line in lines], wanted)
    first = next(places, None)
    if first is None:
        return None
    if next(places, None) is not None:
        return "But for blanks, and empty lines around it, it occurs more than once."
    return (
        _first_difference(
            lines, first, old.strip(b"\n").split(b"\n"), "It is there with other blanks:"
        )
        or f"Without the empty lines around it, it is on line {first + 1}."
    )


def _places(lines: Sequence[bytes], wanted: Sequence[bytes]) -> Iterator[int]:
    """Where the lines *wanted* follow each other."""
    joined = b"\n" + b"\n".join(lines) + b"\n"
    part = b"\n" + b"\n".join(wanted) + b"\n"
    place = joined.find(part)
    while place >= 0:
        yield joined.count(b"\n", 0, place)
        place = joined.find(part, place + 1)


def _near_beginning(plain: bytes, old: bytes) -> str | None:
    """Words on the place where most lines of *old* stand, from the first one on."""
    wanted = old.strip(b"\n").split(b"\n")
    first = wanted[0].strip()
    if len(wanted) < 2 or not first:
        return None
    lines = plain.split(b"\n")
    best, most = -1, 0
    places = (number for number, line in enumerate(lines) if first in line)
    for number, _ in zip(places, range(_MOST_PLACES), strict=False):
        same = 1
        while (
            same < len(wanted)
            and number + same < len(lines)
            and lines[number + same] == wanted[same]
        ):
            same += 1
        if same > most:
            best, most = number, same
    if best < 0:
        return None
    return _first_difference(
        lines, best, wanted, f"Its first line is on line {best + 1}, but what follows differs:"
    )


def _first_difference(
    lines: Sequence[bytes], start: int, wanted: Sequence[bytes], words: str
) -> str | None:
    for offset, line in enumerate(wanted):
        number = start + offset
        if number >= len(lines):
            return f"{words} the file ends before line {number + 1}."
        if lines[number] != line and not (offset == 0 and line in lines[number]):
            return (
                f"{words} line {number + 1} is {_shown(lines[number])}, not {_shown(line)}. "
                "Copy it as it is."
            )
    return None


def _shown(line: bytes) -> str:
    text = line.decode("utf-8", "replace")
    cut = text if len(text) <= _SHOWN_CHARACTERS else text[:_SHOWN_CHARACTERS] + "…"
    return repr(cut)


def _line_at(plain: bytes, place: int) -> int:
    return plain.count(b"\n", 0, place) + 1
