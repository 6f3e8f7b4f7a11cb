"""A session as a Markdown document for people.

What was said is untrusted text: a fence left open, HTML, or a heading of its own must not change
what follows it. So a reply stands as it is only if a parser finds that it ends where it ends;
other text is quoted, or fenced with more backticks than it has itself.

Not here: HTML (html), or files that are read back (pi_v4).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import msgspec

from ...messages import (
    AgentMessage,
    AssistantMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from ...records import clean_text, to_jsonable
from ..entries import BranchSummaryEntry, CompactionEntry, Entry, MessageEntry
from ..formats.pi_messages import BashExecution, ExtensionMessage
from ..rows import SessionInfo
from .wording import (
    failure,
    image_bytes,
    models_of,
    pieces,
    spent,
    title_of,
    usage_text,
    when,
)

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

__all__ = ["to_markdown"]

_LINE_END = re.compile(r"\r\n?|\n")
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>()#+\-.!|~&$:@])")
_SENTINEL = "loopwright-ends-here"
_PARSED_CHARACTERS = 100_000
"""Longer replies are fenced unseen: parsing them would take longer than reading them."""


def to_markdown(
    info: SessionInfo,
    entries: Sequence[Entry],
    *,
    tools: bool = True,
    thinking: bool = True,
    images: bool = False,
    labels: Mapping[str, str] | None = None,
) -> str:
    """*entries*, one branch from its root to its leaf, as a document that ends with a line end.

    *tools* shows calls and results, *thinking* what the model thought; *images* puts pictures in
    as data, where else a note stands for them. *labels* are those of the entries by id. Entries of
    a program's own are left out.
    """
    parts = [_head(info, entries)]
    for entry in entries:
        section = _section(entry, tools=tools, thinking=thinking, images=images)
        if section:
            label = (labels or {}).get(entry.id)
            heading, *rest = section
            parts += [f"{heading} — {_inline(label)}" if label else heading, *rest]
    parts += ["---", f"Tokens: {_inline(usage_text(spent(info, entries)))}"]
    return "\n\n".join(parts) + "\n"


def _head(info: SessionInfo, entries: Iterable[Entry]) -> str:
    lines = [f"- Date: {when(info.created_at)}"]
    if info.cwd:
        lines.append(f"- Folder: {_code(info.cwd)}")
    models = models_of(entries)
    if models:
        noun = "Model" if len(models) == 1 else "Models"
        lines.append(f"- {noun}: {', '.join(map(_code, models))}")
    lines.append(f"- Session: {_code(info.id)}")
    return "\n\n".join([f"# {_inline(title_of(info))}", "\n".join(lines)])


def _section(entry: Entry, *, tools: bool, thinking: bool, images: bool) -> list[str]:
    """Heading and paragraphs of one entry; nothing for one that is not shown."""
    match entry:
        case MessageEntry():
            return _message(entry.message, tools=tools, thinking=thinking, images=images)
        case CompactionEntry():
            kept = "what was kept follows it" if entry.first_kept_id or entry.retained_tail else ""
            note = "*For the model, all above was replaced by this summary" + (
                f"; {kept}.*" if kept else ".*"
            )
            return ["## Compaction", note, _contained(entry.summary)]
        case BranchSummaryEntry():
            note = "*Another branch was left; this is what happened there.*"
            return ["## Summary of a branch", note, _contained(entry.summary)]
        case _:
            return []


def _message(message: AgentMessage, *, tools: bool, thinking: bool, images: bool) -> list[str]:
    at = when(message.timestamp)
    match message:
        case UserMessage():
            return [f"## User ({at})", *_blocks(message.content, images)]
        case AssistantMessage():
            return _reply(message, at, tools=tools, thinking=thinking)
        case ToolResultMessage():
            return _result(message, images) if tools else []
        case BashExecution():
            if not tools:
                return []
            ending = "" if message.exit_code is None else f" (exit code {message.exit_code})"
            heading = f"## Command of the user ({at})"
            return [heading, f"{_code(message.command)}{ending}", _fenced(message.output)]
        case ExtensionMessage():
            heading = f"## {_inline(message.custom_type)} ({at})"
            return [heading, *_blocks(message.content, images)]
        case _:
            return [f"## {_inline(message.role)} ({at})", _json(message.to_dict(camel=True))]


def _reply(message: AssistantMessage, at: str, *, tools: bool, thinking: bool) -> list[str]:
    parts = [f"## Assistant ({at})"]
    wrong = failure(message)
    if wrong:
        parts.append(f"**This reply {'was ' if wrong[0] in 'ac' else ''}{_inline(wrong)}.**")
    for block in message.content:
        match block:
            case TextContent():
                if block.text.strip():
                    parts.append(_contained(block.text, as_it_is=True))
            case ThinkingContent():
                if thinking and block.thinking.strip():
                    parts += ["*Thinking:*", _contained(block.thinking)]
            case ToolCall():
                if tools:
                    parts += _call(block)
    return parts if len(parts) > 1 else []


def _call(call: ToolCall) -> list[str]:
    if call.arguments_error is not None:
        wrong = f"*Its arguments could not be read: {_inline(call.arguments_error)}*"
        return [f"**Tool call** {_code(call.name)}", wrong, _fenced(call.raw_arguments or "")]
    return [f"**Tool call** {_code(call.name)}", _json(call.arguments)]


def _result(message: ToolResultMessage, images: bool) -> list[str]:
    parts = [
        f"### {'Failed result' if message.is_error else 'Result'} of {_code(message.tool_name)}"
    ]
    parts += [
        _image(piece.image, images) if piece.image else _fenced(piece.text)
        for piece in pieces(message.content)
    ]
    return parts if len(parts) > 1 else [*parts, "*Nothing.*"]


def _blocks(content: str | list[TextContent | ImageContent], images: bool) -> list[str]:
    return [
        _image(piece.image, images) if piece.image else _contained(piece.text)
        for piece in pieces(content)
    ]


def _image(image: ImageContent, shown: bool) -> str:
    size = image_bytes(image)
    if size is None:
        return f"*An image ({_inline(image.mime_type)}) that cannot be shown.*"
    if shown:
        return f"![image](data:{image.mime_type};base64,{image.data})"
    return f"*An image ({_inline(image.mime_type)}, {size:,} bytes).*"


# -- keeping text where it is ----------------------------------------------------------------


def _contained(text: str, *, as_it_is: bool = False) -> str:
    """*text* so that it ends where it ends: as it is, if that may be, quoted, or fenced."""
    text = clean_text(text).strip("\r\n")
    if len(text) > _PARSED_CHARACTERS:
        return _fenced(text)
    if as_it_is and _stays(text, loud=False):
        return text
    quoted = _quoted(text)
    return quoted if _stays(quoted, loud=True) else _fenced(text)


def _stays(text: str, *, loud: bool) -> bool:
    """Whether *text* has no say about what follows it; headings and rules only if *loud* may be.

    HTML always has a say, and so have definitions of links, which hold for the whole document.
    """
    environment: dict[str, Any] = {}
    tokens = _parser().parse(f"{text}\n\n{_SENTINEL}", environment)
    if environment.get("references") or len(tokens) < 3:
        return False
    if tokens[-2].content != _SENTINEL or tokens[-3].level:
        return False  # it goes on: a fence, a list or a comment was left open
    unwanted = ("html_block",) if loud else ("html_block", "heading_open", "hr")
    return not any(
        token.type in unwanted or any(child.type == "html_inline" for child in token.children or ())
        for token in tokens
    )


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # comes with rich; needed for documents only

    return MarkdownIt("commonmark", {"html": True})


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" if line else ">" for line in _LINE_END.split(text))


def _fenced(text: str, language: str = "") -> str:
    """*text* between fences that are longer than any run of backticks in it."""
    text = clean_text(text)
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{text}{'' if text.endswith(chr(10)) else chr(10)}{fence}"


def _json(value: Any) -> str:
    encoded = msgspec.json.format(msgspec.json.encode(to_jsonable(value)), indent=2)
    return _fenced(encoded.decode(), "json")


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def _code(text: str) -> str:
    """*text* as code in a line of text."""
    line = " ".join(clean_text(text).split())
    fence = "`" * (_longest_run(line) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") or not line else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def _inline(text: str) -> str:
    """*text* in a line of text, nothing in it being Markdown."""
    return _SPECIAL.sub(r"\\\1", " ".join(clean_text(text).split()))
