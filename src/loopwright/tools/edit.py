"""The tool `edit`: pieces of a file replaced, told apart by their text.

Not here: what counts as a match (edit_matching.py), and writing (the workspace).
"""

from __future__ import annotations

import json
from typing import Any, cast

from typing_extensions import TypedDict

from ..loop.function_tool import FunctionTool
from ..messages import AgentToolResult, TextContent
from .edit_diff import diff_of
from .edit_matching import Replacement, apply_edits
from .paths import shown
from .read import refuse_binary
from .workspace import Workspace, locate

__all__ = ["EditSpec", "edit_tool"]


class EditSpec(TypedDict):
    """One replacement."""

    oldText: str
    newText: str


def edit_tool(workspace: Workspace) -> EditTool:
    """The tool `edit` on *workspace*.

    The details of its result are `edits` (how many), `diff`, `patch`, `firstChangedLine`, and
    `inexact`: the indices of edits that matched only with typographic differences forgiven.
    """

    async def edit(path: str, edits: list[EditSpec]) -> AgentToolResult:
        """Replace exact pieces of text in a file.

        Each oldText must occur exactly once in the file as it is now; add lines around it if it
        does not. All edits are matched against the original file, not against each other's
        output, and must not overlap: merge edits of the same lines into one. Give several edits
        of a file in one call. Line ends and encoding of the file are kept.

        Args:
            path: the file, relative to the workspace or absolute
            edits: the replacements; oldText is the text to find, with its indentation, newText what takes its place
        """
        wanted = [Replacement(each["oldText"], each["newText"]) for each in edits]
        real, _ = await locate(workspace, path)
        name = shown(real, workspace.root)

        def change(content: bytes) -> tuple[bytes, dict[str, Any]]:
            refuse_binary(content[:8192], name)
            applied = apply_edits(content, wanted)
            diff = diff_of(content, applied, name)
            return applied.content, {
                "edits": len(wanted),
                "diff": diff.display,
                "patch": diff.patch,
                "firstChangedLine": diff.first_changed_line,
                "inexact": sorted(span.edit for span in applied.spans if not span.exact),
            }

        details = await workspace.mutate(real, change)
        count = len(wanted)
        text = (
            f"Made {count} edit{'' if count == 1 else 's'} in {name}; "
            f"the first changed line is {details['firstChangedLine']}."
        )
        if details["inexact"]:
            which = ", ".join(f"edits[{index}]" for index in details["inexact"])
            text += f" {which} matched only with quotes, dashes or blanks made alike."
        return AgentToolResult([TextContent(text)], details=details)

    return EditTool(edit, label="Edit", execution_mode="sequential")


class EditTool(FunctionTool[[str, list[EditSpec]], Any]):
    """A function tool that also takes what models were taught by older tools."""

    def prepare_arguments(self, args: dict[str, Any]) -> dict[str, Any]:
        """Also takes `oldText` and `newText` beside `path`, and `edits` as JSON text."""
        edits = args.get("edits")
        if isinstance(edits, str):
            try:
                edits = json.loads(edits)
            except ValueError:  # the check that follows says what was expected
                return args
        if isinstance(edits, dict):
            edits = [cast("dict[str, Any]", edits)]
        if "oldText" in args or "newText" in args:
            flat = {name: args.pop(name) for name in ("oldText", "newText") if name in args}
            if edits is None:
                edits = [flat]
            elif isinstance(edits, list):
                edits = [*cast("list[Any]", edits), flat]
        if edits is not None:
            args["edits"] = edits
        return args
