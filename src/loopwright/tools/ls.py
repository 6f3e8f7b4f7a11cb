"""The tool `ls`: the names in a folder.

Not here: searching below it (find).
"""

from __future__ import annotations

from typing import Any

from ..errors import ToolError
from ..loop.function_tool import FunctionTool
from ..messages import AgentToolResult, TextContent
from ..records import clean_text
from .paths import shown
from .text_limits import MAX_BYTES, NOTICE_BYTES, head
from .workspace import FolderEntry, Workspace, locate

__all__ = ["ls_tool"]

DEFAULT_LIMIT = 500


def ls_tool(workspace: Workspace) -> FunctionTool[[str, int], Any]:
    """The tool `ls` on *workspace*. Details: `entries`, how many there are, and `truncated`."""

    async def ls(path: str = ".", limit: int = DEFAULT_LIMIT) -> AgentToolResult:
        """List a folder: all names, hidden ones too, in alphabetical order, folders with a slash.

        Args:
            path: the folder, relative to the workspace or absolute
            limit: how many names to show at most
        """
        if limit < 1:
            raise ToolError(f"limit is {limit}; it must be at least 1.")
        real, found = await locate(workspace, path or ".")
        if found.kind != "folder":
            raise ToolError(
                f"{shown(real, workspace.root)!r} is a file, not a folder.", hint="use read"
            )
        entries = sorted(await workspace.list(real), key=_order)
        if not entries:
            return AgentToolResult(
                [TextContent("(empty folder)")], details={"entries": 0, "truncated": False}
            )
        cut = head("\n".join(map(_line, entries)), max_lines=limit, max_bytes=MAX_BYTES)
        text = cut.text
        if cut.by is not None:
            cut = head(cut.text, max_lines=limit, max_bytes=MAX_BYTES - NOTICE_BYTES)
            hint = (
                f"Give limit={len(entries)} for all of them."
                if cut.by is None
                else "Use find with a pattern to see others."
            )
            text = f"{cut.text}\n\n[{cut.lines:,} of {len(entries):,} names are shown. {hint}]"
        details = {"entries": len(entries), "truncated": cut.lines < len(entries)}
        return AgentToolResult([TextContent(text)], details=details)

    return FunctionTool(ls, label="Ls", replay="safe")


def _order(entry: FolderEntry) -> tuple[str, str]:
    return entry.name.casefold(), entry.name


_VISIBLE = {code: f"\\x{code:02x}" for code in (*range(0x20), 0x7F)}


def _line(entry: FolderEntry) -> str:
    # A line feed in a name would look like two names.
    name = clean_text(entry.name).translate(_VISIBLE)
    return f"{name}/" if entry.kind == "folder" else name
