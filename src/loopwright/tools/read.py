"""The tool `read`: a file, or part of it, as text; images as images.

A file is never in memory as a whole: it is read to the lines that are wanted and its remaining
lines are only counted. Bytes that are no UTF-8 are shown as U+FFFD and the model is told; `edit`
takes such files too, and keeps those bytes.

Not here: images (images.py), what is no text (binary_files.py), limits (text_limits.py).
"""

from __future__ import annotations

import codecs
from typing import Any, BinaryIO, NamedTuple

from ..errors import ToolError
from ..messages import AgentToolResult, TextContent
from . import images
from .binary_files import refuse_binary
from .file_tool import FileTool
from .paths import shown
from .text_limits import MAX_BYTES, MAX_LINES, NOTICE_BYTES, Cut, byte_size, head, show_size
from .workspace import Workspace, locate

__all__ = ["read_tool"]

CHUNK_BYTES = 64 * 1024

EMPTY = "(The file is empty.)"

MOST_BYTES_COUNTED = 1024 * 1024 * 1024
"""Behind this many bytes the lines of a file are not counted any more, only said to be more."""


def read_tool(workspace: Workspace) -> ReadTool:
    """The tool `read` on *workspace*.

    Details of a text are `startLine`, `endLine`, `totalLines` (None if the file is too large to
    count them), `size` in bytes and `truncated`; of an image those of `images.Fitted`.
    """

    async def read(path: str, offset: int = 1, limit: int = MAX_LINES) -> AgentToolResult:
        """Read a file.

        Text comes as it is, up to 2,000 lines or 50 KiB, whichever is first; what follows is read
        with offset. Images (JPEG, PNG, GIF, WebP, BMP) can be seen.

        Args:
            path: the file, relative to the workspace or absolute
            offset: the line to start with; the first one is 1
            limit: how many lines to read at most
        """
        offset = offset or 1  # a model that counts from 0 means the first line
        if offset < 1 or limit < 1:
            raise ToolError(f"offset is {offset} and limit {limit}; both must be at least 1.")
        real, found = await locate(workspace, path)
        name = shown(real, workspace.root)

        def reader(file: BinaryIO) -> AgentToolResult:
            beginning = file.read(CHUNK_BYTES)
            if images.is_image(beginning):
                return images.show(beginning + file.read(images.MOST_BYTES_READ))
            refuse_binary(beginning, name)
            part = _read_lines(file, offset, min(limit, MAX_LINES))
            return _result(part, name, found.size, offset)

        return await workspace.read(real, reader)

    return ReadTool(read, workspace, label="Read", replay="safe")


class ReadTool(FileTool[[str, int, int]]):
    """A file tool that also takes the last line instead of how many."""

    def prepare_arguments(self, args: dict[str, Any]) -> dict[str, Any]:
        """`end_line` becomes a limit; numbers may still be text here."""
        args = super().prepare_arguments(args)
        if "limit" not in args and "end_line" in args:
            try:
                start, end = int(args.get("offset") or 1), int(args["end_line"])
            except (TypeError, ValueError):
                return args
            if end >= start:
                args["limit"] = end - max(start, 1) + 1
                del args["end_line"]
        return args


class _Part(NamedTuple):
    """Some lines of a file, and what is known about the rest."""

    data: bytes
    """The lines with their ends; the last one may be only a beginning."""
    line_size: int
    """Bytes of the first of them, without its end; all of it, also what is not in `data`."""
    total: int | None
    """Lines of the file; None where they were not counted to the end."""
    counted: int
    """Lines that were counted."""


def _read_lines(file: BinaryIO, offset: int, limit: int) -> _Part:
    """Up to *limit* lines from line *offset* on, and hardly more of them than can be shown."""
    file.seek(0)
    newlines, size, last = _skip_lines(file, offset - 1)
    lines: list[bytes] = []
    kept = 0
    while len(lines) < limit and kept <= MAX_BYTES:
        line = file.readline(MAX_BYTES + 2)
        if not line:
            break
        lines.append(line)
        kept += len(line)
        last = line[-1:]
        newlines += last == b"\n"
    size += kept
    line_size = len(lines[0].rstrip(b"\r\n")) if lines else 0
    in_first = len(lines) == 1 and last != b"\n"  # its end is still to come
    while chunk := file.read(CHUNK_BYTES):
        if size > MOST_BYTES_COUNTED:
            return _Part(b"".join(lines), line_size, None, newlines)
        if in_first:
            end = chunk.find(b"\n")
            line_size += len(chunk) if end < 0 else end
            in_first = end < 0
        size += len(chunk)
        newlines += chunk.count(b"\n")
        last = chunk[-1:]
    total = newlines + (size > 0 and last != b"\n")
    return _Part(b"".join(lines), line_size, total, total)


def _skip_lines(file: BinaryIO, count: int) -> tuple[int, int, bytes]:
    """Pass *count* lines, or all. How many there were, how many bytes, and the last of these."""
    newlines = size = 0
    last = b""
    while newlines < count:
        chunk = file.read(CHUNK_BYTES)
        if not chunk:
            break
        here = chunk.count(b"\n")
        if newlines + here < count:
            newlines += here
            size += len(chunk)
            last = chunk[-1:]
            continue
        place = 0
        for _ in range(count - newlines):
            place = chunk.index(b"\n", place) + 1
        file.seek(size + place)
        return count, size + place, b"\n"
    return newlines, size, last


def _result(part: _Part, name: str, size: int, offset: int) -> AgentToolResult:
    total = part.total
    if not part.data:
        if offset > 1 or total:
            raise ToolError(
                f"offset {offset} is past the end of {name!r}, which has {part.counted:,} "
                f"line{'' if part.counted == 1 else 's'}."
            )
        return AgentToolResult([TextContent(EMPTY)], details=_details(1, 0, 0, 0))
    text, is_utf8 = _decode(part.data, first=offset == 1)
    if not text:  # nothing but a byte order mark
        return AgentToolResult([TextContent(EMPTY)], details=_details(1, 0, 0, size))
    cut = head(text, MAX_LINES, MAX_BYTES)
    end = offset + cut.lines - 1
    if cut.by is None and offset == 1 and end == total and is_utf8:
        return AgentToolResult([TextContent(text)], details=_details(offset, end, total, size))
    cut = head(text, MAX_LINES, MAX_BYTES - NOTICE_BYTES)
    end = offset + cut.lines - 1
    notes = _notes(part, cut, offset, end, is_utf8=is_utf8)
    shown_text = cut.text.removesuffix("\n")
    details = _details(offset, end, total, size, truncated=end != total or cut.partial)
    return AgentToolResult([TextContent(f"{shown_text}\n\n[{' '.join(notes)}]")], details=details)


def _notes(part: _Part, cut: Cut, offset: int, end: int, *, is_utf8: bool) -> list[str]:
    """What the model must know: which part it sees, and how to get the rest."""
    total = part.total
    of = f"{total:,}" if total is not None else f"more than {part.counted:,}"
    notes: list[str] = []
    if cut.partial:
        shown_size = byte_size(cut.text)
        notes.append(
            f"Line {offset} of {of} is {show_size(part.line_size)} long; its first {shown_size:,} "
            f"bytes are shown. For more of it search it with grep, or run: sed -n {offset}p FILE "
            f"| tail -c +{shown_size + 1} | head -c 40000"
        )
    elif end != total or offset > 1:
        why = ", the most that is shown at once" if cut.by else ""
        notes.append(f"Lines {offset} to {end} of {of}{why}.")
    if end != total:
        notes.append(f"Continue with offset={end + 1}.")
    if not is_utf8:
        notes.append(
            "The file is not valid UTF-8: bytes that are none are shown as U+FFFD; edit keeps them."
        )
    return notes


def _details(
    start: int, end: int, total: int | None, size: int, *, truncated: bool = False
) -> dict[str, Any]:
    return {
        "startLine": start,
        "endLine": end,
        "totalLines": total,
        "size": size,
        "truncated": truncated,
    }


def _decode(data: bytes, *, first: bool) -> tuple[str, bool]:
    """*data* as text with LF, and whether it was UTF-8. *first*: a byte order mark may begin it."""
    is_utf8 = True
    try:
        # The half of a character at the end, where a long line was cut, is no fault.
        text = codecs.getincrementaldecoder("utf-8")().decode(data, final=data.endswith(b"\n"))
    except UnicodeDecodeError:
        text, is_utf8 = data.decode("utf-8", "replace"), False
    if first:
        text = text.removeprefix("\ufeff")
    # Some stores and vendors refuse NUL, which no text needs.
    return text.replace("\r\n", "\n").replace("\0", "\ufffd"), is_utf8
