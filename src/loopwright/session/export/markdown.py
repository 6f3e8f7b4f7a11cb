"""A session as a Markdown document for people.

What was said is untrusted text: a fence left open, HTML, or a heading of its own must not change
what follows it. So a reply stands as it is only if a parser finds that it ends where it ends;
other text is quoted, or fenced with more backticks than it has itself. A call stands where its result
does, with both told as one (calls).

Not here: HTML (html), or files that are read back (pi_v4).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

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
from ..entries import BranchSummaryEntry, CompactionEntry, Entry, MessageEntry
from ..formats.pi_messages import BashExecution, ExtensionMessage
from ..rows import SessionInfo
from .calls import Calls, Part, ShownCall, json_text, shown_call
from .harmless import harmless
from .wording import (
    command_notes,
    failure,
    head_rows,
    image_bytes,
    pieces,
    reply_notes,
    title_of,
    when,
)

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

__all__ = ["to_markdown"]

_SPECIAL = re.compile(
    r"(?![-+](?=\w)|(?<=\d)[.:](?=\d)|[.:!](?=\s|$))([\\`*_{}\[\]<>()#+\-.!|~&$:@])"
)
"""What may be Markdown; signs before words, points in numbers and at the end of words never are,
since no line begins with what is written so."""
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
    writing = _Writing(entries, tools=tools, thinking=thinking, images=images)
    parts = [_head(info, entries)]
    for entry in entries:
        label = (labels or {}).get(entry.id)
        section = writing.section(entry, labelled=bool(label))
        if section and label:
            section[0] += f" — {_inline(label)}"
        parts += section
    return "\n\n".join(parts) + "\n"


def _head(info: SessionInfo, entries: Sequence[Entry]) -> str:
    lines = [
        f"- {row.name}: {', '.join(map(_code if row.is_code else _inline, row.values))}"
        for row in head_rows(info, entries)
    ]
    return "\n\n".join([f"# {_inline(title_of(info))}", "\n".join(lines)])


class _Writing:
    """What is known of all entries while they are written one by one."""

    def __init__(
        self, entries: Sequence[Entry], *, tools: bool, thinking: bool, images: bool
    ) -> None:
        self.tools = tools
        self.thinking = thinking
        self.images = images
        self.calls = Calls(entries)
        self.answered = self.calls.answered(entries)
        self.replying = False
        """What was written last is a reply, or a call of one: the next reply belongs to it."""

    def section(self, entry: Entry, *, labelled: bool = False) -> list[str]:
        """Heading and paragraphs of one entry; nothing for one that is not shown.

        All turns of one answer stand below one heading, unless an entry is *labelled*.
        """
        heading, *rest = self._section(entry) or [""]
        if not heading:
            return []
        message = entry.message if isinstance(entry, MessageEntry) else None
        is_reply = isinstance(message, AssistantMessage)
        goes_on = is_reply and self.replying and not labelled
        if not isinstance(message, ToolResultMessage):
            self.replying = is_reply
        return rest if goes_on else [heading, *rest]

    def _section(self, entry: Entry) -> list[str]:
        match entry:
            case MessageEntry():
                return self._message(entry, entry.message)
            case CompactionEntry():
                kept = entry.first_kept_id or entry.retained_tail
                note = "*For the model, all above was replaced by this summary" + (
                    "; what was kept follows it.*" if kept else ".*"
                )
                return ["## Compaction", note, _contained(entry.summary)]
            case BranchSummaryEntry():
                note = "*Another branch was left; this is what happened there.*"
                return ["## Summary of a branch", note, _contained(entry.summary)]
            case _:
                return []

    def _message(self, entry: MessageEntry, message: AgentMessage) -> list[str]:
        at = when(message.timestamp)
        match message:
            case UserMessage():
                return [f"## User ({at})", *_blocks(message.content, self.images)]
            case AssistantMessage():
                return self._reply(entry, message, at)
            case ToolResultMessage():
                if not self.tools:
                    return []
                return self._call(shown_call(self.calls.of(entry), message))
            case BashExecution():
                if not self.tools:
                    return []
                notes = ", ".join(command_notes(message))
                ending = f" ({notes})" if notes else ""
                heading = f"## Command of the user ({at})"
                return [heading, f"{_code(message.command)}{ending}", _fenced(message.output)]
            case ExtensionMessage():
                heading = f"## {_inline(message.custom_type)} ({at})"
                return [heading, *_blocks(message.content, self.images)]
            case _:
                data = json_text(message.to_dict(camel=True))
                return [f"## {_inline(message.role)} ({at})", _fenced(data, "json")]

    def _reply(self, entry: MessageEntry, message: AssistantMessage, at: str) -> list[str]:
        parts: list[str] = []
        wrong = failure(message)
        if wrong:
            parts.append(f"**This reply {'was ' if wrong[0] in 'ac' else ''}{_inline(wrong)}.**")
        for block in message.content:
            match block:
                case TextContent():
                    if block.text.strip():
                        parts.append(_contained(block.text, as_it_is=True))
                case ThinkingContent():
                    if self.thinking and block.thinking.strip():
                        parts += ["*Thinking:*", _contained(block.thinking)]
                case ToolCall():
                    if self.tools and (entry.id, block.id) not in self.answered:
                        parts += self._call(shown_call(block, None))
        # One that only called is shown for what it took: its calls come after it.
        if not parts and not (self.tools and message.tool_calls):
            return []
        notes = " · ".join(reply_notes(message, entry.timestamp))
        return [f"## Assistant ({at})", *([f"*{_inline(notes)}*"] if notes else []), *parts]

    def _call(self, shown: ShownCall) -> list[str]:
        what = f" {_code(shown.what)}" if shown.what else ""
        notes = f" ({_inline(', '.join(shown.notes))})" if shown.notes else ""
        parts = [f"### {_code(shown.name)}{what}{notes}"]
        for part in shown.parts:
            parts += self._part(part)
        return parts

    def _part(self, part: Part) -> list[str]:
        match part.kind:
            case "image":
                return [] if part.image is None else [_image(part.image, self.images)]
            case "diff":
                return [_fenced(part.patch or part.text, "diff")]
            case "command":
                return [_fenced(part.text, "sh")]
            case "json":
                return [f"*{part.title}:*", _fenced(part.text, "json")]
            case "prose":
                return [f"*{part.title}:*", _contained(part.text)]
            case "text":
                return [_fenced(part.text, part.language)]


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


_LINKED = (None, "http", "https", "mailto")


def _contained(text: str, *, as_it_is: bool = False) -> str:
    """*text* so that it ends where it ends: as it is, if that may be, quoted, or fenced."""
    text = harmless(text).strip("\n")
    if len(text) > _PARSED_CHARACTERS:
        return _fenced(text)
    if as_it_is and _stays(text, loud=False) and not _reaches_out(text):
        return text
    fetched = _reaches_out(text)
    if fetched:
        return f"*Shown as text: {fetched}.*\n\n{_fenced(text)}"
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


def _reaches_out(text: str) -> str:
    """Why a reader's program should not render *text*: it would fetch a picture, which tells
    another machine, or offer a link that runs something. Empty if it may."""
    for token in _parser().parse(text):
        for child in token.children or ():
            if child.type == "image" and _scheme(child.attrGet("src")) is not None:
                return "it holds a picture that would be fetched from elsewhere"
            if child.type == "link_open" and _scheme(child.attrGet("href")) not in _LINKED:
                return "it holds a link that is neither http, https nor mailto"
    return ""


def _scheme(address: object) -> str | None:
    """The scheme of *address*; None for a path in the same place."""
    plain = re.sub(r"[\s\x00-\x1f]", "", unquote(str(address or ""))).replace("\\", "/").lower()
    if plain.startswith("//"):
        return "https"
    found = re.match(r"([a-z][a-z0-9+.-]*):", plain)
    return found[1] if found else None


@cache
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt  # comes with rich; needed for documents only

    parser = MarkdownIt("commonmark", {"html": True})
    parser.validateLink = lambda url: True  # what it would not link, another program does
    return parser


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}" if line else ">" for line in text.split("\n"))


def _fenced(text: str, language: str = "") -> str:
    """*text* between fences that are longer than any run of backticks in it."""
    text = harmless(text)
    fence = "`" * max(3, _longest_run(text) + 1)
    return f"{fence}{language}\n{text}{'' if text.endswith(chr(10)) else chr(10)}{fence}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def _code(text: str) -> str:
    """*text* as code in a line of text."""
    line = " ".join(harmless(text).split())
    fence = "`" * (_longest_run(line) + 1)
    pad = " " if line.startswith("`") or line.endswith("`") or not line else ""
    return f"{fence}{pad}{line}{pad}{fence}"


def _inline(text: str) -> str:
    """*text* in a line of text, nothing in it being Markdown."""
    return _SPECIAL.sub(r"\\\1", " ".join(harmless(text).split()))
