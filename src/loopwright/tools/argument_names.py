"""What other tools call the arguments of ours.                                            (pure)

Models were trained on many tools that do the same: one calls it `path`, another `file_path`. A call
that names it so is understood by the tool, and by whatever shows or counts the call later, since a
transcript keeps the words of the model.

Not here: the cleaning of paths (file_tool.py).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

__all__ = ["OTHER_NAMES", "in_our_words", "rename"]

_FILE = (
    "file_path", "filePath", "filepath", "file", "filename", "file_name", "absolute_path",
    "target_file",
)  # fmt: skip

_FOLDER = (
    *_FILE, "directory", "dir", "folder", "dir_path", "directory_path", "folder_path",
)  # fmt: skip
"""For a path that may be a folder."""

_NAMES = (
    "glob", "glob_pattern", "globPattern", "file_pattern", "name", "filename", "file_name", "query",
)  # fmt: skip
"""For what files are called. Behind a pattern a `filename` is where to look."""

_TEXTS = {
    "oldText": ("old_text", "old_string", "oldString", "old_str", "old", "search"),
    "newText": ("new_text", "new_string", "newString", "new_str", "new", "replace", "replacement"),
}

OTHER_NAMES: Mapping[str, Mapping[str, Sequence[str]]] = {
    "read": {
        "path": _FILE,
        "offset": ("start_line", "startLine", "line_start"),
        "limit": ("max_lines", "maxLines", "line_count", "num_lines"),
        "end_line": ("endLine", "line_end"),
    },
    "write": {
        "path": _FILE,
        "content": ("contents", "file_text", "text", "file_content", "fileContent"),
    },
    "edit": {"path": _FILE, "edits": ("replacements", "changes"), **_TEXTS},
    "edit.edits": _TEXTS,
    "grep": {
        "pattern": ("regex", "query", "search_pattern", "search"),
        "path": _FOLDER,
        "glob": ("include", "file_pattern", "filePattern", "include_pattern"),
        "ignoreCase": ("ignore_case", "case_insensitive", "caseInsensitive", "-i"),
        "literal": ("fixed_strings", "fixedStrings"),
        "context": ("context_lines", "contextLines", "-C"),
        "limit": ("max_results", "maxResults", "head_limit", "max_count"),
    },
    "find": {
        "pattern": _NAMES,
        "path": _FOLDER,
        "limit": ("max_results", "maxResults", "head_limit"),
    },
    "ls": {"path": _FOLDER, "limit": ("max_results", "maxResults", "head_limit")},
}
"""By tool and argument."""


def rename(arguments: dict[str, Any], others: Mapping[str, Sequence[str]]) -> None:
    """Give what *arguments* hold under another name the one we use, unless that is taken."""
    for name, known_as in others.items():
        if arguments.get(name) is not None:
            continue
        for other in known_as:
            if arguments.get(other) is not None:
                arguments[name] = arguments.pop(other)
                break


def in_our_words(tool: str, arguments: Mapping[str, Any]) -> Mapping[str, Any]:
    """The *arguments* of a call to *tool* by our names; a copy where any is another."""
    others = OTHER_NAMES.get(tool)
    if others is None:
        return arguments
    ours = dict(arguments)
    rename(ours, others)
    edits = ours.get("edits")
    if tool == "edit" and isinstance(edits, list):
        ours["edits"] = [_edit_in_our_words(each) for each in cast("list[object]", edits)]
    return ours


def _edit_in_our_words(edit: object) -> object:
    if not isinstance(edit, Mapping):
        return edit
    ours = dict(cast("Mapping[str, Any]", edit))
    rename(ours, OTHER_NAMES["edit.edits"])
    return ours
