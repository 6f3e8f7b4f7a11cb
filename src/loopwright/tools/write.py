"""The tool `write`: a file made, or replaced as a whole.

Not here: how a file is replaced in one step (the workspace).
"""

from __future__ import annotations

import codecs
import json
import os
from typing import Any, ClassVar

from ..errors import ToolError
from ..messages import AgentToolResult, TextContent
from .file_tool import FileTool, is_of_windows
from .paths import shown
from .text_limits import first_bytes
from .workspace import Workspace

__all__ = ["write_tool"]

_LOOKED_AT_BYTES = 64 * 1024


def write_tool(workspace: Workspace) -> FileTool[[str, str]]:
    """The tool `write` on *workspace*. Details: `bytes` written, and whether it `created` the file."""

    async def write(path: str, content: str) -> AgentToolResult:
        """Write a file as a whole; it is made with the folders it needs, or overwritten.

        To change parts of a file use edit.

        Args:
            path: the file, relative to the workspace or absolute
            content: all that the file is to hold
        """
        if path.endswith(("/", os.sep)):
            raise ToolError(
                f"{first_bytes(path, 500)!r} names a folder, for it ends in a slash.",
                hint="give the path of a file; the folders it needs are made with it",
            )
        data = content.encode("utf-8", "replace")
        real = await workspace.resolve(path, must_exist=False, writing=True)
        if os.sep == "/" and is_of_windows(path) and await workspace.stat(real) is None:
            raise ToolError(
                f"{first_bytes(path, 500)!r} is a path of Windows, which this system is not.",
                hint="use a path inside the workspace, with forward slashes",
            )
        lost = await _lost(workspace, real, data)
        created = await workspace.write(real, data)
        size = f"{len(data):,} byte{'' if len(data) == 1 else 's'}"
        what = "a new file" if created else "which was overwritten"
        text = f"Wrote {size} to {shown(real, workspace.root)}, {what}."
        if lost:
            text += f" The old file had {' and '.join(lost)}, which this one has not."
        return AgentToolResult(
            [TextContent(text)], details={"bytes": len(data), "created": created}
        )

    return WriteTool(write, workspace, label="Write", execution_mode="sequential")


async def _lost(workspace: Workspace, real: str, data: bytes) -> list[str]:
    """What of the old file no model sees when it reads it, and so does not write again."""
    found = await workspace.stat(real)
    if found is None or found.kind != "file" or not data:
        return []
    try:
        old = await workspace.read(real, lambda file: file.read(_LOOKED_AT_BYTES))
    except ToolError:  # it may be written but not read
        return []
    lost: list[str] = []
    if b"\r\n" in old and b"\0" not in old and b"\n" in data and b"\r\n" not in data:
        lost.append("CRLF line ends")
    if old.startswith(codecs.BOM_UTF8) and not data.startswith(codecs.BOM_UTF8):
        lost.append("a byte order mark")
    if old.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        lost.append("the encoding UTF-16")
    return lost


class WriteTool(FileTool[[str, str]]):
    """A file tool that also takes the content of a JSON file as what it is."""

    takes_places: ClassVar[bool] = False
    """Nobody writes to a line: `notes:12` is a new file, and `notes` stays as it is."""

    def prepare_arguments(self, args: dict[str, Any]) -> dict[str, Any]:
        """Data in place of text becomes text: models forget to quote the JSON they write."""
        args = super().prepare_arguments(args)
        if isinstance(args.get("content"), dict | list):
            args["content"] = json.dumps(args["content"], indent=2, ensure_ascii=False) + "\n"
        return args
