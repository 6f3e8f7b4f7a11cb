"""A session as one HTML page for people: it needs no other file, no network and no script.

All that was said is untrusted. It is escaped; the Markdown of replies is rendered with HTML off,
links go to http, https and mailto only, and no picture comes from anywhere but the page itself.
The policy of the page (html_page) would stop what slipped through.

Not here: Markdown (markdown), or files that are read back (pi_v4).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from html import escape
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
from ..entries import BranchSummaryEntry, CompactionEntry, CustomEntry, Entry, MessageEntry
from ..formats.pi_messages import BashExecution, ExtensionMessage
from ..rows import SessionInfo
from ..tree import children_index, parents_index, path_to_root
from .html_page import POLICY, STYLE
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

__all__ = ["to_html"]

_RENDERED_CHARACTERS = 50_000
"""Longer replies are shown as they are: rendering hostile Markdown may take very long."""
_LINK = re.compile(r"(https?://|mailto:)", re.IGNORECASE)
_MAYBE_MARKDOWN = re.compile(
    r"[^\w\s.,;:?'\"/()%-]|^\s*[\w]+[.)]|^ {4}|^[ \t]*-|\n[ \t]*[-\d]|  \n"
)
_CONTROL = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")


def to_html(
    info: SessionInfo,
    entries: Sequence[Entry],
    *,
    leaf_id: str | None = None,
    whole_tree: bool = True,
    tools: bool = True,
    thinking: bool = True,
    labels: Mapping[str, str] | None = None,
) -> str:
    """The session as a page: the branch that ends at *leaf_id*, then, of a *whole_tree*, the others.

    *entries* are those of the session, parents before children; None as *leaf_id* means the last.
    *tools* shows calls and results, *thinking* what the model thought, both folded; *labels* are
    those of the entries by id. Raises `SessionDamaged` if a parent is missing.
    """
    page = _Page(entries, labels or {}, tools=tools, thinking=thinking)
    leaf = leaf_id if leaf_id is not None else (entries[-1].id if entries else None)
    shown = page.branches(leaf, all_of_them=whole_tree)
    body = [_head(info, [entry for branch in shown for entry in branch])]
    for number, branch in enumerate(shown):
        body += page.branch(number, branch)
    body.append(f"<footer>Tokens: {_text(usage_text(spent(info, entries)))}</footer>")
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{_text(title_of(info))}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _head(info: SessionInfo, entries: Iterable[Entry]) -> str:
    rows = [("Date", _text(when(info.created_at)))]
    if info.cwd:
        rows.append(("Folder", f"<code>{_text(info.cwd)}</code>"))
    models = models_of(entries)
    if models:
        rows.append(("Model" if len(models) == 1 else "Models", _text(", ".join(models))))
    rows.append(("Session", f"<code>{_text(info.id)}</code>"))
    listed = "".join(f"<dt>{name}</dt><dd>{value}</dd>" for name, value in rows)
    return f"<header><h1>{_text(title_of(info))}</h1><dl>{listed}</dl></header>"


class _Page:
    """What is known of all entries while they are written one by one."""

    def __init__(
        self, entries: Sequence[Entry], labels: Mapping[str, str], *, tools: bool, thinking: bool
    ) -> None:
        self.entries = entries
        self.labels = labels
        self.tools = tools
        self.thinking = thinking
        self.by_id = {entry.id: entry for entry in entries}
        self.anchors = {entry.id: f"e{number}" for number, entry in enumerate(entries, 1)}
        """Ids come from files and may be anything; anchors are ours."""
        self.starts: dict[str, list[int]] = {}
        """By the entry they leave: the numbers of the other branches."""

    def branches(self, leaf: str | None, *, all_of_them: bool) -> list[list[Entry]]:
        """The branch to *leaf*, then the others, each from where it leaves one before it."""
        parents = parents_index(self.entries)
        children = children_index(self.entries)
        main = path_to_root(parents, leaf)
        found = [main]
        placed = set(main)
        for entry in self.entries if all_of_them else ():
            if entry.id in placed:
                continue
            run, at = [entry.id], entry.id
            while at in children:  # on with the youngest child; the others get runs of their own
                at = children[at][-1]
                run.append(at)
            placed.update(run)
            if entry.parent_id is not None:
                self.starts.setdefault(entry.parent_id, []).append(len(found))
            found.append(run)
        return [[self.by_id[entry_id] for entry_id in run] for run in found]

    def branch(self, number: int, entries: Sequence[Entry]) -> Iterator[str]:
        """The sections of one branch."""
        if number:
            above = self.anchors.get(entries[0].parent_id or "")
            link = f' <a href="#{above}">from here</a>' if above else ""
            yield f'<section id="b{number}"><h2>Another branch,{link or " from the start"}</h2>'
        else:
            yield "<main>"
        for entry in entries:
            yield from self._entry(entry)
            others = self.starts.get(entry.id, [])
            if others:
                links = ", ".join(f'<a href="#b{other}">branch {other}</a>' for other in others)
                yield f'<p class="about">It also went on as {links}.</p>'
        yield "</section>" if number else "</main>"

    def _entry(self, entry: Entry) -> Iterator[str]:
        match entry:
            case MessageEntry():
                kind, who, body = self._message(entry.message)
                time = entry.message.timestamp
            case CompactionEntry():
                kind, who, time = "summary", "Compaction", entry.timestamp
                body = [
                    '<p class="about">For the model, all above was replaced by this summary.</p>',
                    _rendered(entry.summary),
                ]
            case BranchSummaryEntry():
                kind, who, time = "summary", "Summary of a branch that was left", entry.timestamp
                body = [_rendered(entry.summary)]
            case CustomEntry():
                if not self.tools:
                    return
                kind, who, time = "custom", entry.custom_type, entry.timestamp
                body = [] if entry.data is None else [_folded("Data", _json(entry.data))]
        if not body and kind != "custom":
            return
        label = self.labels.get(entry.id)
        marked = f' <span class="label">{_text(label)}</span>' if label else ""
        yield (
            f'<article class="{kind}" id="{self.anchors[entry.id]}">'
            f'<p class="about"><strong>{_text(who)}</strong> {_text(when(time))}{marked}</p>'
            f"{''.join(body)}</article>"
        )

    def _message(self, message: AgentMessage) -> tuple[str, str, list[str]]:
        """The class, the heading and the pieces of a message; no pieces if it is not shown."""
        match message:
            case UserMessage():
                return "user", "User", _blocks(message.content)
            case AssistantMessage():
                return self._reply(message)
            case ToolResultMessage():
                return self._result(message)
            case BashExecution():
                ending = "" if message.exit_code is None else f" (exit code {message.exit_code})"
                body = [f"<p><code>{_text(message.command)}</code>{ending}</p>"]
                body.append(_folded("Output", _pre(message.output)))
                return "user", "Command of the user", body if self.tools else []
            case ExtensionMessage():
                return "user", message.custom_type, _blocks(message.content)
            case _:
                data = _json(message.to_dict(camel=True))
                return "custom", message.role, [_folded("Data", data)]

    def _reply(self, message: AssistantMessage) -> tuple[str, str, list[str]]:
        body: list[str] = []
        wrong = failure(message)
        if wrong:
            body.append(f'<p class="wrong">This reply: {_text(wrong)}</p>')
        for block in message.content:
            match block:
                case TextContent():
                    if block.text.strip():
                        body.append(_rendered(block.text))
                case ThinkingContent():
                    if self.thinking and block.thinking.strip():
                        body.append(_folded("Thinking", _plain(block.thinking)))
                case ToolCall():
                    if self.tools:
                        body.append(_call(block))
        return "assistant bad" if wrong else "assistant", "Assistant", body

    def _result(self, message: ToolResultMessage) -> tuple[str, str, list[str]]:
        if not self.tools:
            return "tool", "", []
        body = [
            _image(piece.image) if piece.image else _pre(piece.text)
            for piece in pieces(message.content)
        ]
        what = "Failed result" if message.is_error else "Result"
        shown = "".join(body) or "<p>Nothing.</p>"
        kind = "tool bad" if message.is_error else "tool"
        return kind, f"{what} of {message.tool_name}", [_folded("Show", shown)]


def _call(call: ToolCall) -> str:
    if call.arguments_error is not None:
        shown = (
            f'<p class="wrong">{_text(call.arguments_error)}</p>{_pre(call.raw_arguments or "")}'
        )
    else:
        shown = _json(call.arguments)
    return _folded(f"Tool call: {call.name}", shown)


def _blocks(content: str | list[TextContent | ImageContent]) -> list[str]:
    return [_image(piece.image) if piece.image else _plain(piece.text) for piece in pieces(content)]


def _image(image: ImageContent) -> str:
    size = image_bytes(image)
    if size is None:
        return f"<p><em>An image ({_text(image.mime_type)}) that cannot be shown.</em></p>"
    # Both parts were looked at: a type from our list, and letters of base64.
    return f'<p><img alt="image" src="data:{image.mime_type};base64,{image.data}"></p>'


def _folded(name: str, shown: str) -> str:
    return f"<details><summary>{_text(name)}</summary>{shown}</details>"


def _json(value: Any) -> str:
    return _pre(msgspec.json.format(msgspec.json.encode(to_jsonable(value)), indent=2).decode())


def _pre(text: str) -> str:
    return f"<pre>\n{_text(text)}</pre>"  # the first line end is not shown, so it is given


def _plain(text: str) -> str:
    return f'<div class="plain">{_text(text)}</div>'


def _text(text: str) -> str:
    """*text* as text, in an element or in an attribute with quotes."""
    return escape(_CONTROL.sub("\ufffd", clean_text(text)), quote=True)


# -- Markdown --------------------------------------------------------------------------------


def _rendered(text: str) -> str:
    """The Markdown in *text* as HTML; text without any, and very long text, as it is."""
    if len(text) > _RENDERED_CHARACTERS or not _MAYBE_MARKDOWN.search(text):
        return _plain(text)
    return (
        f'<div class="said">{_renderer().render(_CONTROL.sub(chr(0xFFFD), clean_text(text)))}</div>'
    )


@cache
def _renderer() -> MarkdownIt:
    from markdown_it import MarkdownIt  # comes with rich; needed for documents only

    renderer = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    renderer.validateLink = _is_link
    renderer.add_render_rule("image", _no_image)
    renderer.add_render_rule("link_open", _link_open)
    return renderer


def _is_link(url: str) -> bool:
    return _LINK.match(url.strip()) is not None


def _no_image(renderer: Any, tokens: Sequence[Any], index: int, *_: Any) -> str:
    """A picture from elsewhere would tell its server who reads this page."""
    token = tokens[index]
    source = str(token.attrGet("src") or "")
    return f"[{escape(token.content or 'image')}: {escape(source)}]"


def _link_open(renderer: Any, tokens: Sequence[Any], index: int, *_: Any) -> str:
    target = escape(str(tokens[index].attrGet("href") or ""), quote=True)
    return f'<a href="{target}" rel="noopener noreferrer nofollow">'
