"""The tool `edit`: pieces of a file replaced, told apart by their text.

Not here: what counts as a match (edit_matching.py), and writing (the workspace).
"""

from __future__ import annotations

import json
from typing import Any, cast

from typing_extensions import TypedDict

from ..errors import ToolError
from ..messages import AgentToolResult, TextContent
from .argument_names import OTHER_NAMES, rename
from .binary_files import refuse_binary
from .edit_diff import diff_of
from .edit_matching import EditRefused, Replacement, apply_edits
from .file_tool import FileTool
from .paths import PathRefused, shown
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
        try:
            real, _ = await locate(workspace, path)
        except ToolError as fault:
            if isinstance(fault, PathRefused) or all(edit.old for edit in wanted):
                raise
            raise EditRefused(
                "There is no such file, and an oldText is empty.", hint="use write to make a file"
            ) from None
        name = shown(real, workspace.root)

        def change(content: bytes) -> tuple[bytes, dict[str, Any]]:
            refuse_binary(content, name)
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
            text += f" {which} matched only with quotes, dashes, blanks or line ends made alike."
        return AgentToolResult([TextContent(text)], details=details)

    return EditTool(edit, workspace, label="Edit", execution_mode="sequential")


class EditTool(FileTool[[str, list[EditSpec]]]):
    """A file tool that also takes what models were taught by older tools."""

    def prepare_arguments(self, args: dict[str, Any]) -> dict[str, Any]:
        """Also takes `oldText` and `newText` beside `path`, and `edits` as JSON text."""
        args = super().prepare_arguments(args)
        edits = _decoded(args.get("edits"))
        if isinstance(edits, dict):
            edits = [cast("dict[str, Any]", edits)]
        if "oldText" in args or "newText" in args:
            flat = {name: args.pop(name) for name in ("oldText", "newText") if name in args}
            if edits is None:
                edits = [flat]
            elif isinstance(edits, list) and (not edits or flat.get("oldText")):
                edits = [*cast("list[Any]", edits), flat]
        if isinstance(edits, list):
            edits = [_decoded(each) for each in cast("list[Any]", edits)]
            for each in edits:
                if isinstance(each, dict):
                    rename(cast("dict[str, Any]", each), OTHER_NAMES["edit.edits"])
        if edits is not None:
            args["edits"] = edits
        return args


def _decoded(value: Any) -> Any:
    """*value*, or what it encodes if it is JSON text; line breaks in it are often bare."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value, strict=False)
    except (ValueError, RecursionError):  # the check that follows says what was expected
        return value
