"""The coding tools: what an agent needs to work on the files of a project.

    from loopwright.tools import LocalWorkspace, coding_tools

    agent = Agent("...", tools=coding_tools(LocalWorkspace(".")))

One tool a module; what they share is the workspace, which decides where they may go.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from typing import Any

from ..loop.agent_tool import AgentTool
from .bash import DEFAULT_TIMEOUT_SECONDS, bash_tool
from .edit import edit_tool
from .find import find_tool
from .grep import grep_tool
from .local_workspace import LocalWorkspace
from .ls import ls_tool
from .memory_workspace import MemoryWorkspace
from .output_files import OutputFiles
from .paths import PathRefused
from .process_output import TextFilter
from .read import read_tool
from .workspace import FileKind, FileStat, FolderEntry, Workspace
from .write import write_tool

__all__ = [
    "FileKind",
    "FileStat",
    "FolderEntry",
    "LocalWorkspace",
    "MemoryWorkspace",
    "PathRefused",
    "Workspace",
    "bash_tool",
    "coding_tools",
    "edit_tool",
    "find_tool",
    "grep_tool",
    "ls_tool",
    "read_tool",
    "write_tool",
]


def coding_tools(
    workspace: Workspace,
    *,
    hidden: Callable[[str], bool] | None = None,
    bash_timeout: float | None = DEFAULT_TIMEOUT_SECONDS,
    files: OutputFiles | None = None,
    clean: Callable[[], TextFilter] | None = None,
    keep_env: Iterable[str] = (),
) -> list[AgentTool[Any, Any]]:
    """All coding tools on *workspace*; without `bash` if that is not on disk.

    The calls of one reply run side by side only if all of them just read: what changes files and
    what may look at the change keep the order in which the model asked.

    `grep` shows nothing of files for which *hidden* is true, as `Policy.hides` is for those that
    may not be read. *bash_timeout*, in seconds, holds for commands whose call names none; None lets
    them run for ever. *files* says where long output is kept. *clean* makes what the output of a
    command goes through before it is shown or kept, such as what takes secrets out.
    *keep_env* names variables with keys that commands get all the same.

    A `LocalWorkspace` is made to let the model read the files in which `bash` keeps long output.
    """
    tools: list[AgentTool[Any, Any]] = [
        read_tool(workspace),
        edit_tool(workspace),
        write_tool(workspace),
        grep_tool(workspace, hidden=hidden),
        find_tool(workspace),
        ls_tool(workspace),
    ]
    if workspace.on_disk:
        files = files if files is not None else OutputFiles()
        if isinstance(workspace, LocalWorkspace):
            folder = os.path.realpath(files.folder)
            if folder not in workspace.readable:
                workspace.readable.append(folder)
        tools.insert(
            1,
            bash_tool(
                workspace,
                default_timeout=bash_timeout,
                files=files,
                clean=clean,
                keep_env=keep_env,
            ),
        )
    return tools
