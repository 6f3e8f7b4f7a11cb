"""What a call of `edit` or `write` would change in the file as it is now, for the question about it.

Everything is bounded: a large file, or one that cannot be looked at, is asked about by the call's
arguments alone. Between the question and the call the file may change; the tools look again.

Not here: finding the places and comparing (loopwright.tools), the question (question.py).
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, cast

from ...errors import LoopwrightError
from ..streams import visible
from .question import Lines, argument_lines

if TYPE_CHECKING:
    from ...tools.edit_matching import Replacement
    from ...tools.workspace import Workspace

__all__ = ["change_lines"]

MOST_BYTES = 1024 * 1024
"""Of a file that is looked at, and of what would be written."""

MOST_SECONDS = 2.0
"""The question is not held up for longer."""

CONTEXT = 2
"""Unchanged lines shown around a change."""

_NUMBERED = re.compile(r"([-+ ])( *\d+) (.*)", re.DOTALL)
_STYLES = {"+": "class:diff.add", "-": "class:diff.remove"}


class _Wanted(NamedTuple):
    """What the call is about."""

    path: str
    edits: list[Replacement] | None
    """None: the file is written as a whole."""
    content: bytes


async def change_lines(
    workspace: Workspace | None, tool_name: str, args: Mapping[str, Any]
) -> Lines | None:
    """The path, and the change with the numbers of its lines; None where the arguments say more,
    or nothing else can be said."""
    wanted = _wanted(tool_name, args)
    if workspace is None or wanted is None:
        return None
    try:
        async with asyncio.timeout(MOST_SECONDS):
            return await _lines(workspace, wanted, args)
    except (LoopwrightError, OSError, TimeoutError):
        return None  # the tool will say what is wrong


def _wanted(tool_name: str, args: Mapping[str, Any]) -> _Wanted | None:
    from ...tools.edit_matching import Replacement

    match tool_name, args:
        case "write", {"path": str(path), "content": str(content)}:
            data = content.encode("utf-8", "replace")
            return _Wanted(path, None, data) if len(data) <= MOST_BYTES else None
        case "edit", {"path": str(path), "edits": [*given]}:
            edits: list[Replacement] = []
            for edit in cast("Sequence[object]", given):
                match edit:
                    case {"oldText": str(old), "newText": str(new)}:
                        edits.append(Replacement(old, new))
                    case _:
                        return None
            return _Wanted(path, edits, b"")
        case _:
            return None


async def _lines(workspace: Workspace, wanted: _Wanted, args: Mapping[str, Any]) -> Lines | None:
    is_write = wanted.edits is None
    real = await workspace.resolve(wanted.path, must_exist=not is_write, writing=True)
    found = await workspace.stat(real)
    if found is None and is_write:
        path, *content = argument_lines("write", args)
        return [path, ("class:note", "new file"), *content]
    if found is None or found.kind != "file" or found.size > MOST_BYTES:
        return None

    def change(file: BinaryIO) -> str | None:
        content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES or b"\0" in content[:8192]:
            return None
        return _diff(content, wanted)

    diff = await workspace.read(real, change)
    if diff is None:
        return None
    path = [("class:tool", visible(wanted.path))]
    if not diff:
        return [*path, ("class:note", "nothing would change")]
    return [*path, *_numbered(diff.split("\n"))]


def _diff(content: bytes, wanted: _Wanted) -> str:
    """In a thread. Raises `EditRefused` if the edits do not fit the file."""
    from ...tools.edit_diff import diff_of
    from ...tools.edit_matching import Applied, Span, apply_edits

    if wanted.edits is not None:
        applied = apply_edits(content, wanted.edits)
    else:
        whole = Span(0, len(content), wanted.content, 0, exact=True)
        applied = Applied(wanted.content, [whole])
    return diff_of(content, applied, wanted.path).display


def _numbered(diff: Sequence[str]) -> Lines:
    """The lines of a diff, of those that stay only the nearest to a change."""
    changed = [index for index, line in enumerate(diff) if line[:1] in _STYLES]
    near = {index + step for index in changed for step in range(-CONTEXT, CONTEXT + 1)}
    lines: Lines = []
    last = -1
    for index, line in enumerate(diff):
        found = _NUMBERED.match(line)
        if index not in near or found is None:
            continue
        sign, number, text = found.groups()
        if last >= 0 and index != last + 1:
            lines.append(("class:diff.context", f"{'':>{len(number)}} ..."))
        lines.append((_STYLES.get(sign, "class:diff.context"), f"{number} {sign} {visible(text)}"))
        last = index
    return lines
