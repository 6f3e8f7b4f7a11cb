"""What people are shown of a tool's call and its result: a heading, notes, and parts.    (pure)

A call is told with what came of it: an edit as a diff, a command with what it printed, a file that
was written as its content. Arguments and details are of any shape, since models and other programs
wrote them; whatever has none that is known is shown as the JSON it is.

Not here: the diffs (edits.py), or how it looks (html.py, markdown.py).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple, cast

import msgspec

from ...messages import AssistantMessage, ImageContent, ToolCall, ToolResultMessage
from ...records import to_jsonable
from ..entries import Entry, MessageEntry
from .edits import diff_of_texts, made_diff, made_patch, replacements
from .languages import language_of
from .wording import counted, lines_in, pieces, seconds_text, tokens_text, was_declined

__all__ = ["OUTPUT_LINES", "Calls", "Part", "ShownCall", "json_text", "shown_call"]

OUTPUT_LINES = 20
"""Of what a command printed, or a failure said, that need no unfolding."""
FOUND_LINES = 5
DIFF_LINES = 60
WRITTEN_LINES = 20


class Part(NamedTuple):
    """A piece of what a call shows."""

    kind: Literal["command", "diff", "text", "json", "prose", "image"]
    """Prose is Markdown."""
    text: str
    title: str
    """What it is, where that must be said."""
    open_lines: int = 0
    """Up to so many lines need no unfolding."""
    image: ImageContent | None = None
    patch: str | None = None
    """The same diff as programs take it, if the tool made one."""
    language: str = ""
    """What a text is written in, for a fence; empty if that is not known."""


class ShownCall(NamedTuple):
    """A call, and its result if there is one."""

    name: str
    what: str
    """What it is about, such as a path; may be empty."""
    notes: list[str]
    failed: bool
    parts: list[Part]


class Calls:
    """Which call a result belongs to: the one with its id in the reply before it."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        """*entries* have their parents before them."""
        self._asked: dict[str, tuple[str, dict[str, ToolCall]]] = {}
        """By the id of each entry: the last reply up to it, and the calls in it."""
        for entry in entries:
            known = self._asked.get(entry.parent_id or "")
            if isinstance(entry, MessageEntry) and isinstance(entry.message, AssistantMessage):
                known = (entry.id, {call.id: call for call in entry.message.tool_calls})
            if known is not None:
                self._asked[entry.id] = known

    def of(self, entry: Entry) -> ToolCall | None:
        """The call that *entry* is the result of."""
        if not (isinstance(entry, MessageEntry) and isinstance(entry.message, ToolResultMessage)):
            return None
        _, calls = self._asked.get(entry.id, ("", {}))
        return calls.get(entry.message.tool_call_id)

    def answered(self, branch: Iterable[Entry]) -> set[tuple[str, str]]:
        """The calls with a result on *branch*: the id of the reply, and that of the call."""
        return {
            (self._asked[entry.id][0], call.id)
            for entry in branch
            if (call := self.of(entry)) is not None
        }


def shown_call(call: ToolCall | None, result: ToolResultMessage | None) -> ShownCall:
    """A *call* with its *result*; one of them may not be known."""
    name = call.name if call is not None else result.tool_name if result is not None else ""
    if call is not None and call.arguments_error is not None:
        written = [
            Part("text", call.arguments_error, "What was wrong", OUTPUT_LINES),
            Part("text", call.raw_arguments or "", "Arguments that could not be read"),
        ]
        known = _Known("", [], written, {})
    else:
        known = _known(name, {} if call is None else call.arguments, result)
    notes, parts = known.notes, known.parts
    if known.rest:
        parts.append(Part("json", json_text(known.rest), "Arguments"))
    if result is None:
        return ShownCall(name, known.what, [*notes, "no result"], False, parts)
    said = _said(result, known)
    if result.is_error and known.changes:  # what was not done comes behind the reason
        notes.clear()
        parts = [*said, *(part._replace(open_lines=0) for part in parts)]
    else:
        parts += said
    if result.is_error:
        notes.insert(0, _how_it_failed(result))
    seconds = _number(_mapping(result.details).get("seconds"))
    if seconds is not None and seconds >= 0.1:
        notes.append(seconds_text(seconds))
    if result.usage is not None and not result.usage.is_empty:
        notes.append(tokens_text(result.usage))
    return ShownCall(name, known.what, notes, result.is_error, parts)


def json_text(value: Any) -> str:
    """*value* as JSON that people can read."""
    return msgspec.json.format(msgspec.json.encode(to_jsonable(value)), indent=2).decode()


def _said(result: ToolResultMessage, known: _Known) -> list[Part]:
    """What a result says, unless it is one line that repeats what is shown already."""
    told = known.changes and not result.is_error and "\n" not in result.text.strip()
    kind = "text" if result.is_error else known.result_kind
    shown = pieces(result.content)
    with_image = any(piece.image is not None for piece in shown)  # then the text is a note on it
    open_lines = OUTPUT_LINES if result.is_error or with_image else known.result_lines
    parts: list[Part] = []
    for piece in shown:
        if piece.image is not None:
            parts.append(Part("image", "", "Image", image=piece.image))
        elif not told:
            language = "" if result.is_error else known.result_language
            part = Part(kind, piece.text, known.result_title, open_lines, language=language)
            parts.append(part)
    return parts


def _how_it_failed(result: ToolResultMessage) -> str:
    if was_declined(result):
        return "declined"
    told = _mapping(result.details)
    code = told.get("exitCode")
    if isinstance(code, int):
        return f"failed, exit code {code}"
    if told.get("timedOut") is True:
        return "timed out"
    return "stopped" if told.get("aborted") is True else "failed"


# -- tools that are known --------------------------------------------------------------------


class _Known(NamedTuple):
    """What the words for a tool make of a call."""

    what: str
    notes: list[str]
    parts: list[Part]
    rest: Mapping[str, Any]
    """The arguments that are not shown elsewhere."""
    result_title: str = "Result"
    result_lines: int = 0
    result_kind: Literal["text", "prose"] = "text"
    result_language: str = ""
    changes: bool = False
    """It shows what was to be changed; a result of one line that is no failure says no more."""


def _known(name: str, arguments: Mapping[str, Any], result: ToolResultMessage | None) -> _Known:
    from ...tools.argument_names import in_our_words  # its package brings all the tools

    arguments = in_our_words(name, arguments)
    details = _mapping(None if result is None else result.details)
    match name:
        case "edit":
            return _edit(arguments, details)
        case "write" if isinstance(arguments.get("content"), str):
            return _write(arguments, details)
        case "bash" if isinstance(arguments.get("command"), str):
            return _bash(arguments)
        case "read" if _text(arguments, "path"):
            return _read(arguments, details)
        case "grep" | "find" if _text(arguments, "pattern"):
            pattern, path = _text(arguments, "pattern"), _text(arguments, "path")
            what = f"{pattern} in {path}" if path and path != "." else pattern
            return _Known(what, [], [], _rest(arguments, "pattern", "path"), "Found", FOUND_LINES)
        case "ls":
            what = _text(arguments, "path") or "."
            return _Known(what, [], [], _rest(arguments, "path"), "Entries", FOUND_LINES)
        case "task" if isinstance(arguments.get("prompt"), str):
            return _task(arguments, details)
        case _:
            diff = made_diff(details)
            parts = [] if diff is None else [_diff(diff, details)]
            return _Known("", [], parts, arguments)


def _edit(arguments: Mapping[str, Any], details: Mapping[str, Any]) -> _Known:
    path = _text(arguments, "path")
    asked = replacements(arguments)
    diff = made_diff(details)
    if diff is None and asked is not None:
        diff = diff_of_texts(asked)
    if diff is None:
        return _Known(path, [], [], _rest(arguments, "path"))
    signs = [line[:1] for line in diff.split("\n") if not line.startswith(("+++ ", "--- "))]
    notes = [f"+{signs.count('+')} -{signs.count('-')}"]
    if details.get("inexact"):
        notes.append("matched inexactly")
    rest = _rest(arguments, "path", "oldText", "newText") if asked else arguments
    rest = {key: value for key, value in rest.items() if key != "edits" or not asked}
    return _Known(path, notes, [_diff(diff, details)], rest, changes=True)


def _diff(diff: str, details: Mapping[str, Any]) -> Part:
    title = f"Diff, {counted(lines_in(diff), 'line')}"
    return Part("diff", diff, title, DIFF_LINES, patch=made_patch(details))


def _write(arguments: Mapping[str, Any], details: Mapping[str, Any]) -> _Known:
    content = _text(arguments, "content")
    size = details.get("bytes")
    if not isinstance(size, int):
        size = len(content.encode("utf-8", "replace"))
    notes = [counted(size, "byte"), counted(lines_in(content), "line")]
    created = details.get("created")
    if isinstance(created, bool):
        notes.append("a new file" if created else "overwritten")
    path = _text(arguments, "path")
    title, language = f"Content, {notes[1]}", language_of(path)
    part = Part("text", content, title, WRITTEN_LINES, language=language)
    return _Known(path, notes, [part], _rest(arguments, "path", "content"), changes=True)


def _bash(arguments: Mapping[str, Any]) -> _Known:
    part = Part("command", _text(arguments, "command"), "Command", DIFF_LINES)
    timeout = _number(arguments.get("timeout"))
    notes = [] if timeout is None else [f"timeout {timeout:g} s"]
    rest = _rest(arguments, "command", numbers=["timeout"])
    return _Known("", notes, [part], rest, "Output", OUTPUT_LINES)


def _read(arguments: Mapping[str, Any], details: Mapping[str, Any]) -> _Known:
    what = path = _text(arguments, "path")
    offset, limit = _number(arguments.get("offset")), _number(arguments.get("limit"))
    if offset is not None or limit is not None:
        first = 1 if offset is None else offset
        what += f":{first}-{'' if limit is None else f'{first + limit - 1}'}"
    notes: list[str] = []
    start, end = details.get("startLine"), details.get("endLine")
    if isinstance(start, int) and isinstance(end, int) and end >= start:
        notes.append(counted(end - start + 1, "line"))
    rest = _rest(arguments, "path", numbers=["offset", "limit"])
    return _Known(what, notes, [], rest, "Content", result_language=language_of(path))


def _task(arguments: Mapping[str, Any], details: Mapping[str, Any]) -> _Known:
    child = _mapping(details.get("subagent"))
    agent = _text(child, "agent") or _text(arguments, "agent")
    description = _text(arguments, "description")
    what = f"{agent}: {description}" if agent and description else agent or description
    notes: list[str] = []
    turns = child.get("turns")
    if isinstance(turns, int):
        notes.append(counted(turns, "turn"))
    if _text(child, "model"):
        notes.append(_text(child, "model"))
    if _text(child, "transcript"):
        notes.append(f"transcript {_text(child, 'transcript')}")
    asked = Part("prose", _text(arguments, "prompt"), "What it was asked")
    rest = _rest(arguments, "agent", "description", "prompt")
    return _Known(what, notes, [asked], rest, "What it answered", 0, "prose")


def _mapping(value: Any) -> Mapping[str, Any]:
    return cast("Mapping[str, Any]", value) if isinstance(value, Mapping) else {}


def _text(arguments: Mapping[str, Any], key: str) -> str:
    value = arguments.get(key)
    return value if isinstance(value, str) else ""


def _number(value: Any) -> int | float | None:
    """*value* if it is a number that may count something."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return value if 0 <= value < 1_000_000_000 else None


def _rest(arguments: Mapping[str, Any], *texts: str, numbers: Sequence[str] = ()) -> dict[str, Any]:
    """The *arguments* without those that are shown elsewhere, as they are *texts* or *numbers*."""
    return {
        key: value
        for key, value in arguments.items()
        if not (isinstance(value, str) and key in texts)
        and not (_number(value) is not None and key in numbers)
    }
