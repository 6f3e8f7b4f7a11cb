"""The tool `write`: a file made, or replaced as a whole.

Not here: how a file is replaced in one step (the workspace).
"""

from __future__ import annotations

from typing import Any

from ..loop.function_tool import FunctionTool
from ..messages import AgentToolResult, TextContent
from .paths import shown
from .workspace import Workspace

__all__ = ["write_tool"]


def write_tool(workspace: Workspace) -> FunctionTool[[str, str], Any]:
    """The tool `write` on *workspace*. Details: `bytes` written, and whether it `created` the file."""

    async def write(path: str, content: str) -> AgentToolResult:
        """Write a file as a whole; it is made with the folders it needs, or overwritten.

        To change parts of a file use edit.

        Args:
            path: the file, relative to the workspace or absolute
            content: all that the file is to hold
        """
        data = content.encode("utf-8", "replace")
        real = await workspace.resolve(path, must_exist=False, writing=True)
        created = await workspace.write(real, data)
        size = f"{len(data):,} byte{'' if len(data) == 1 else 's'}"
        what = "a new file" if created else "which was overwritten"
        text = f"Wrote {size} to {shown(real, workspace.root)}, {what}."
        return AgentToolResult(
            [TextContent(text)], details={"bytes": len(data), "created": created}
        )

    return FunctionTool(write, label="Write", execution_mode="sequential")
