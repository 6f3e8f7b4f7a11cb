"""How much text one tool result may hold, and cutting text down to it.

Sizes are bytes of UTF-8, a line ends at a line feed, and a final line feed is no extra line. Lines
are kept whole. Only where not even one fits, part of it is shown, cut between characters, and the
`Cut` says so.

Not here: the cap on every result (loop/results.py), which is the last resort; whoever cuts here
leaves `NOTICE_BYTES` for the words on what is missing, so that the cap has nothing to do.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

__all__ = [
    "MAX_BYTES",
    "MAX_LINES",
    "NOTICE_BYTES",
    "Cut",
    "byte_size",
    "count_lines",
    "first_bytes",
    "head",
    "last_bytes",
    "show_size",
    "tail",
]

MAX_LINES = 2000
MAX_BYTES = 50 * 1024

NOTICE_BYTES = 512
"""What a footer may take of `MAX_BYTES`."""


class Cut(NamedTuple):
    """Part of a text, from its beginning or its end."""

    text: str
    lines: int
    """How many lines are shown; a partial one counts."""
    total_lines: int
    total_bytes: int
    by: Literal["lines", "bytes"] | None
    """Which limit was met first. None: this is all of it, perhaps without the final line feed."""
    partial: bool
    """The one line that is shown is not whole."""


def head(text: str, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES) -> Cut:
    """The beginning of *text*; of its first line, if that is too long."""
    total_lines, total_bytes = count_lines(text), byte_size(text)
    if total_lines <= max_lines and total_bytes <= max_bytes:
        return Cut(text, total_lines, total_lines, total_bytes, None, partial=False)
    end = size = lines = 0
    by: Literal["lines", "bytes"] = "lines"
    while lines < max_lines and end < len(text):
        after = text.find("\n", end) + 1 or len(text)
        # Measured without its line feed, which goes if the line is the last one shown.
        line = byte_size(text[end:after].removesuffix("\n"))
        if size + line > max_bytes:
            by = "bytes"
            break
        size += line + 1
        end = after
        lines += 1
    if by == "bytes" and lines == 0:
        line = text[: text.find("\n")] if "\n" in text else text
        return Cut(first_bytes(line, max_bytes), 1, total_lines, total_bytes, by, partial=True)
    shown = text[:end].removesuffix("\n")
    whole = None if lines == total_lines else by
    return Cut(shown, lines, total_lines, total_bytes, whole, partial=False)


def tail(text: str, max_lines: int = MAX_LINES, max_bytes: int = MAX_BYTES) -> Cut:
    """The end of *text*; of its last line, if that is too long."""
    total_lines, total_bytes = count_lines(text), byte_size(text)
    if total_lines <= max_lines and total_bytes <= max_bytes:
        return Cut(text, total_lines, total_lines, total_bytes, None, partial=False)
    last = text.removesuffix("\n")
    start = len(last)
    size = lines = 0
    by: Literal["lines", "bytes"] = "lines"
    before = start  # where the line feed after the next line up stands
    while lines < max_lines and before >= 0:
        begin = last.rfind("\n", 0, before) + 1
        line = byte_size(last[begin:before])
        if size + line > max_bytes:
            by = "bytes"
            break
        size += line + 1
        start = begin
        lines += 1
        before = begin - 1
    if by == "bytes" and lines == 0:
        line = last[last.rfind("\n") + 1 :]
        return Cut(last_bytes(line, max_bytes), 1, total_lines, total_bytes, by, partial=True)
    whole = None if lines == total_lines else by
    return Cut(last[start:], lines, total_lines, total_bytes, whole, partial=False)


def first_bytes(text: str, most: int) -> str:
    """The longest beginning of *text* that takes at most *most* bytes."""
    if most <= 0:
        return ""
    return text[:most].encode("utf-8", "surrogatepass")[:most].decode("utf-8", "ignore")


def last_bytes(text: str, most: int) -> str:
    """The longest end of *text* that takes at most *most* bytes."""
    if most <= 0:
        return ""
    data = text[-most:].encode("utf-8", "surrogatepass")[-most:]
    start = 0
    while start < len(data) and data[start] & 0xC0 == 0x80:  # in the middle of a character
        start += 1
    return data[start:].decode("utf-8", "ignore")


def byte_size(text: str) -> int:
    """Bytes of *text* in UTF-8."""
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def count_lines(text: str) -> int:
    """Lines of *text*: none if it is empty, and a final line feed begins no further one."""
    return text.count("\n") + (not text.endswith("\n") if text else 0)


def show_size(size: int) -> str:
    """*size* in bytes, for a reader: `512 bytes`, `4.0 KiB`, `11.4 MiB`."""
    if size < 1024:
        return f"{size:,} byte{'' if size == 1 else 's'}"
    amount = size / 1024
    for unit in ("KiB", "MiB", "GiB"):
        if amount < 1024 or unit == "GiB":
            return f"{amount:,.1f} {unit}"
        amount /= 1024
    raise AssertionError("unreachable")
