"""A call of a tool in words: `read src/app.py:10-40`, `bash npm test`, `own_tool(key='value')`.

Arguments are the model's and may be of any shape, also while they are being looked at; what does
not fit the words for its tool is shown as Python would write the call.

Not here: what became of the call (tool_view.py).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from ..render import call_text
from .one_line import one_line

__all__ = ["call_words"]

_Arguments = Mapping[str, Any]


def call_words(name: str, arguments: object) -> tuple[str, str]:
    """The tool's name, and the rest of the line, which is empty or begins with what stands behind
    the name. Both are harmless and have no line ends."""
    shown = one_line(name, 80)
    words = _WORDS.get(name)
    if words is not None and isinstance(arguments, dict):
        from ...tools.argument_names import in_our_words  # its package brings all the tools

        said = words(in_our_words(name, cast("dict[str, Any]", arguments)))
        if said:
            return shown, " " + one_line(said)
    if isinstance(arguments, dict) and not arguments:
        return shown, ""
    return shown, one_line(call_text("", cast("Any", arguments)))


def _text(arguments: _Arguments, key: str) -> str:
    value = arguments.get(key)
    return value if isinstance(value, str) else ""


def _path(arguments: _Arguments) -> str:
    return _text(arguments, "path")


def _read(arguments: _Arguments) -> str:
    path = _path(arguments)
    offset, limit = arguments.get("offset"), arguments.get("limit")
    if not path or (offset is None and limit is None):
        return path
    first = offset if isinstance(offset, int) else 1
    last = str(first + limit - 1) if isinstance(limit, int) else ""
    return f"{path}:{first}-{last}"


def _bash(arguments: _Arguments) -> str:
    lines = _text(arguments, "command").strip().splitlines()
    if len(lines) <= 1:
        return "".join(lines)
    return f"{lines[0]} … {len(lines) - 1} more line{'s' * (len(lines) > 2)}"


def _grep(arguments: _Arguments) -> str:
    pattern = _text(arguments, "pattern")
    if not pattern:
        return ""
    path, glob = _path(arguments), _text(arguments, "glob")
    place = f" in {path}" if path and path != "." else ""
    return f'"{pattern}"{place}{f" ({glob})" if glob else ""}'


def _find(arguments: _Arguments) -> str:
    pattern, path = _text(arguments, "pattern"), _path(arguments)
    return f"{pattern} in {path}" if pattern and path and path != "." else pattern


def _ls(arguments: _Arguments) -> str:
    return _path(arguments) or "."


def _task(arguments: _Arguments) -> str:
    agent = _text(arguments, "agent")
    what = _text(arguments, "description") or _text(arguments, "prompt")
    return f"{agent}: {what}" if agent and what else what


_WORDS: dict[str, Callable[[_Arguments], str]] = {
    "read": _read,
    "bash": _bash,
    "!": _bash,  # the user ran it (command_view.py)
    "!!": _bash,
    "edit": _path,
    "write": _path,
    "grep": _grep,
    "find": _find,
    "ls": _ls,
    "task": _task,
}
