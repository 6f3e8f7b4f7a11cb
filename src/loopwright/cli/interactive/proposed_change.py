"""What a call of `edit` or `write` would change in the file as it is now, for the question about it.

Everything is bounded: a large file, or one that cannot be looked at, is asked about by the call's
arguments alone, but that a file is replaced is said whatever it holds. Between the question and the
call the file may change; the tools look again.

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
    from ...permissions.gate import Question
    from ...tools.edit_matching import Applied, Replacement
    from ...tools.workspace import FileStat, Workspace
    from ..bench.workbench import Workbench

__all__ = ["CHANGES_FILES", "change_lines", "lines_of"]

CHANGES_FILES = ("edit", "write")

MOST_BYTES = 1024 * 1024
"""Of a file that is looked at, and of what would be written."""

MOST_SECONDS = 2.0
"""The question is not held up for longer."""

CONTEXT = 2
"""Unchanged lines shown around a change."""

_NUMBERED = re.compile(r"([-+ ])( *\d+) (.*)", re.DOTALL)
_STYLES = {"+": "class:diff.add", "-": "class:diff.remove"}


class _Edits(NamedTuple):
    """Some places of a file are changed."""

    path: str
    edits: list[Replacement]


class _Write(NamedTuple):
    """A file is written as a whole."""

    path: str
    content: str


async def lines_of(bench: Workbench, question: Question) -> Lines:
    """What the call in *question* would do: the change it makes, else its arguments."""
    tool_name, args = question.tool_name, question.args
    lines = None
    if tool_name in CHANGES_FILES:
        from ...tools import LocalWorkspace

        known = bench.workspace
        try:
            # What is allowed is reached, also outside: so that is what there is to see. The tools
            # of the user's own agent may have files elsewhere. They are judged as if they were
            # here (permissions/policy.py), but whether one is new is not known.
            fenceless = LocalWorkspace(known.root if known else bench.folder, allow=["/"])
            lines = await change_lines(fenceless, tool_name, args, tells_new=known is not None)
        except OSError:  # the folder has gone
            lines = None
    return argument_lines(tool_name, args) if lines is None else lines


async def change_lines(
    workspace: Workspace, tool_name: str, args: Mapping[str, Any], *, tells_new: bool = True
) -> Lines | None:
    """The path, and the change with the numbers of its lines; None where the arguments say more,
    or nothing else can be said. *tells_new*: where there is no file, none is replaced."""
    wanted = _wanted(tool_name, args)
    if wanted is None:
        return None
    until = asyncio.get_running_loop().time() + MOST_SECONDS
    try:
        if isinstance(wanted, _Edits):
            async with asyncio.timeout_at(until):
                lines = await _edited(workspace, wanted)
        else:
            lines = await _written(workspace, wanted, until, tells_new=tells_new)
    except (LoopwrightError, OSError, TimeoutError):
        return None  # the tool will say what is wrong
    path = visible(wanted.path).replace("\n", "\u240a")
    return None if lines is None else [("class:tool", path), *lines]


def _wanted(tool_name: str, args: Mapping[str, Any]) -> _Edits | _Write | None:
    from ...tools.edit_matching import Replacement

    match tool_name, args:
        case "write", {"path": str(path), "content": str(content)}:
            return _Write(path, content)
        case "edit", {"path": str(path), "edits": [*given]}:
            edits: list[Replacement] = []
            for edit in cast("Sequence[object]", given):
                match edit:
                    case {"oldText": str(old), "newText": str(new)}:
                        edits.append(Replacement(old, new))
                    case _:
                        return None
            return _Edits(path, edits)
        case _:
            return None


async def _edited(workspace: Workspace, wanted: _Edits) -> Lines | None:
    from ...tools.edit_matching import apply_edits

    real = await workspace.resolve(wanted.path, writing=True)
    found = await workspace.stat(real)
    if found is None or found.kind != "file" or found.size > MOST_BYTES:
        return None

    def change(file: BinaryIO) -> Lines | None:
        content = file.read(MOST_BYTES + 1)
        if len(content) > MOST_BYTES or _is_binary(content):
            return None
        return _diff(content, apply_edits(content, wanted.edits), wanted.path)

    lines = await workspace.read(real, change)
    return [("class:note", "nothing would change")] if lines == [] else lines


async def _written(
    workspace: Workspace, wanted: _Write, until: float, *, tells_new: bool
) -> Lines | None:
    from ...tools.paths import shown
    from ...tools.text_limits import show_size

    async with asyncio.timeout_at(until):
        real = await workspace.resolve(wanted.path, must_exist=False, writing=True)
        found = await workspace.stat(real)
    added = argument_lines("write", {"path": "", "content": wanted.content})[1:]
    if found is None:
        return [("class:note", "new file"), *added] if tells_new else None
    if found.kind != "file":
        return None
    try:
        async with asyncio.timeout_at(until):
            held, lines = await _replaced(workspace, real, found, wanted)
    except (LoopwrightError, OSError, TimeoutError):  # it may be written but not read
        held, lines = f"{show_size(found.size)}, cannot be shown", None
    if lines == []:
        return [("class:note", "the file has this content already")]
    # Where a link leads stands in the real path.
    name = visible(shown(real, workspace.root)).replace("\n", "\u240a")
    return [("class:note", f"replaces {name} ({held})"), *(added if lines is None else lines)]


async def _replaced(
    workspace: Workspace, real: str, found: FileStat, wanted: _Write
) -> tuple[str, Lines | None]:
    """What the file holds, and what would become of it; None if that cannot be shown as lines."""
    from ...tools.edit_matching import Applied, Span
    from ...tools.text_limits import show_size

    if found.size > MOST_BYTES or len(wanted.content) > MOST_BYTES:
        return show_size(found.size), None

    def compare(file: BinaryIO) -> tuple[str, Lines | None]:
        old = file.read(MOST_BYTES + 1)
        new = wanted.content.encode("utf-8", "replace")
        if old == new:
            return "", []
        if _is_binary(old):
            return f"binary, {show_size(found.size)}", None
        if len(old) > MOST_BYTES or len(new) > MOST_BYTES:
            return show_size(found.size), None
        count = old.count(b"\n") + (not old.endswith(b"\n") and old != b"")
        held = f"{count:,} line{'s' * (count != 1)}" if count else "empty"
        whole = Applied(new, [Span(0, len(old), new, 0, exact=True)])
        return held, _diff(old, whole, wanted.path)

    return await workspace.read(real, compare)


def _is_binary(content: bytes) -> bool:
    return b"\0" in content[:8192]


def _diff(content: bytes, applied: Applied, name: str) -> Lines:
    from ...tools.edit_diff import diff_of

    display = diff_of(content, applied, name).display
    return _numbered(display.split("\n")) if display else []


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
