"""The tool `ls`: the names in a folder.

Not here: searching below it (find).
"""

from __future__ import annotations

from ..errors import ToolError
from ..messages import AgentToolResult, TextContent
from .file_tool import FileTool
from .paths import shown
from .shown_names import one_line
from .text_limits import MAX_BYTES, NOTICE_BYTES, head
from .workspace import FolderEntry, Workspace, locate

__all__ = ["ls_tool"]

DEFAULT_LIMIT = 500


def ls_tool(workspace: Workspace) -> FileTool[[str, int]]:
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
            what = "a file" if found.kind == "file" else "a device, a pipe or a broken link"
            raise ToolError(
                f"{shown(real, workspace.root)!r} is {what}, not a folder.",
                hint="use read" if found.kind == "file" else None,
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

    return FileTool(ls, workspace, label="Ls", replay="safe")


def _order(entry: FolderEntry) -> tuple[str, str]:
    return entry.name.casefold(), entry.name


def _line(entry: FolderEntry) -> str:
    name = one_line(entry.name)
    return f"{name}/" if entry.kind == "folder" else name
