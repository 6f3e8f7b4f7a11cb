"""A session as one HTML page for people: it needs no other file, no network and no script.

All that was said is untrusted and becomes text (html_text). The policy of the page (html_page)
would stop what slipped through. A call stands where its result does, with both told as one (calls).

Not here: Markdown (markdown), or files that are read back (pi_v4).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from itertools import groupby
from typing import NamedTuple

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
from ..entries import BranchSummaryEntry, CompactionEntry, CustomEntry, Entry, MessageEntry
from ..formats.pi_messages import BashExecution, ExtensionMessage
from ..rows import SessionInfo
from ..tree import children_index, parents_index, path_to_root
from .calls import OUTPUT_LINES, Calls, Part, ShownCall, json_text, shown_call
from .html_page import POLICY, STYLE
from .html_text import code, escaped, plain, preformatted, rendered
from .wording import (
    command_notes,
    counted,
    failure,
    head_rows,
    image_bytes,
    lines_in,
    pieces,
    reply_notes,
    title_of,
    when,
)

__all__ = ["to_html"]

_LINE_CHARACTERS = 120
"""A text that has as many characters as so long lines is folded like one that has these lines."""
_SIGNS = {"+": "ins", "-": "del"}


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
    return (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n'
        f"<title>{escaped(title_of(info))}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n"
        + "\n".join(body)
        + "\n</body>\n</html>\n"
    )


def _head(info: SessionInfo, entries: Sequence[Entry]) -> str:
    listed = "".join(
        f"<dt>{row.name}</dt><dd>{', '.join(map(code if row.is_code else escaped, row.values))}</dd>"
        for row in head_rows(info, entries)
    )
    return f"<header><h1>{escaped(title_of(info))}</h1><dl>{listed}</dl></header>"


class _Page:
    """What is known of all entries while they are written one by one."""

    def __init__(
        self, entries: Sequence[Entry], labels: Mapping[str, str], *, tools: bool, thinking: bool
    ) -> None:
        self.entries = entries
        self.labels = labels
        self.tools = tools
        self.thinking = thinking
        self.calls = Calls(entries)
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
        answered = self.calls.answered(entries)
        for entry in entries:
            yield from self._entry(entry, answered)
            others = self.starts.get(entry.id, [])
            if others:
                links = ", ".join(f'<a href="#b{other}">branch {other}</a>' for other in others)
                yield f'<p class="about">It also went on as {links}.</p>'
        yield "</section>" if number else "</main>"

    def _entry(self, entry: Entry, answered: Set[tuple[str, str]]) -> Iterator[str]:
        match entry:
            case MessageEntry():
                article = self._message(entry, entry.message, answered)
            case CompactionEntry():
                about = (
                    '<p class="about">For the model, all above was replaced by this summary.</p>'
                )
                article = _Article("summary", "Compaction", [about, rendered(entry.summary)])
            case BranchSummaryEntry():
                who = "Summary of a branch that was left"
                article = _Article("summary", who, [rendered(entry.summary)])
            case CustomEntry():
                article = _data(entry.custom_type, entry.data) if self.tools else None
        if article is None:
            return
        label = self.labels.get(entry.id)
        marked = f' <span class="label">{escaped(label)}</span>' if label else ""
        time = entry.message.timestamp if isinstance(entry, MessageEntry) else entry.timestamp
        at = "" if article.kind.startswith("tool") else f' <span class="when">{when(time)}</span>'
        yield (
            f'<article class="{article.kind}" id="{self.anchors[entry.id]}">'
            f'<p class="about">{_heading(article)}{at}{marked}</p>{"".join(article.body)}</article>'
        )

    def _message(
        self, entry: MessageEntry, message: AgentMessage, answered: Set[tuple[str, str]]
    ) -> _Article | None:
        match message:
            case UserMessage():
                return _said("User", message.content)
            case AssistantMessage():
                return self._reply(entry, message, answered)
            case ToolResultMessage():
                shown = shown_call(self.calls.of(entry), message)
                return _call_article(shown) if self.tools else None
            case BashExecution():
                return _command(message) if self.tools else None
            case ExtensionMessage():
                return _said(message.custom_type, message.content)
            case _:
                return _data(message.role, message.to_dict(camel=True))

    def _reply(
        self, entry: MessageEntry, message: AssistantMessage, answered: Set[tuple[str, str]]
    ) -> _Article | None:
        body: list[str] = []
        wrong = failure(message)
        if wrong:
            body.append(f'<p class="wrong">This reply: {escaped(wrong)}</p>')
        for block in message.content:
            match block:
                case TextContent():
                    if block.text.strip():
                        body.append(rendered(block.text))
                case ThinkingContent():
                    if self.thinking and block.thinking.strip():
                        body.append(_folded("Thinking", plain(block.thinking)))
                case ToolCall():
                    if self.tools and (entry.id, block.id) not in answered:
                        shown = shown_call(block, None)
                        body += [f'<p class="about">{_heading(_call_article(shown))}</p>']
                        body += map(_part, shown.parts)
        # One that only called is shown for what it took: its calls come after it.
        if not body and not (self.tools and message.tool_calls):
            return None
        kind = "assistant bad" if wrong else "assistant"
        return _Article(kind, "Assistant", body, notes=reply_notes(message, entry.timestamp))


class _Article(NamedTuple):
    """What is shown of an entry."""

    kind: str
    """A class of the page."""
    who: str
    body: list[str]
    what: str = ""
    notes: Sequence[str] = ()


def _heading(article: _Article) -> str:
    what = f" {code(article.what)}" if article.what else ""
    notes = [f' <span class="note">{escaped(note)}</span>' for note in article.notes]
    return f"<strong>{escaped(article.who)}</strong>{what}{''.join(notes)}"


def _said(who: str, content: str | list[TextContent | ImageContent]) -> _Article | None:
    body = [_image(piece.image) if piece.image else plain(piece.text) for piece in pieces(content)]
    return _Article("user", who, body) if body else None


def _data(who: str, data: object) -> _Article:
    body = [] if data is None else [_folded("Data", preformatted(json_text(data)))]
    return _Article("custom", who, body)


def _command(message: BashExecution) -> _Article:
    """What the user has run himself."""
    parts = [
        Part("command", message.command, "Command", OUTPUT_LINES),
        Part("text", message.output, "Output", OUTPUT_LINES),
    ]
    body = [*map(_part, parts)]
    return _Article("user", "Command of the user", body, notes=command_notes(message))


# -- calls -----------------------------------------------------------------------------------


def _call_article(shown: ShownCall) -> _Article:
    body = [_part(part) for part in shown.parts]
    kind = "tool bad" if shown.failed else "tool"
    return _Article(kind, shown.name, body, what=shown.what, notes=shown.notes)


def _part(part: Part) -> str:
    match part.kind:
        case "image":
            return _image(part.image) if part.image is not None else ""
        case "diff":
            body = _diff(part.text)
        case "command":
            body = preformatted(part.text, "command")
        case "prose":
            body = rendered(part.text)
        case "text" | "json":
            body = preformatted(part.text)
    lines = lines_in(part.text)
    long = lines > part.open_lines or len(part.text) > part.open_lines * _LINE_CHARACTERS
    if not long:
        return body
    size = "" if "," in part.title else f", {counted(lines, 'line')}"
    return _folded(f"{part.title}{size}", body)


def _diff(diff: str) -> str:
    """Lines that were added or removed, each run of them as an element of its own."""
    shown: list[str] = []
    for sign, run in groupby(diff.split("\n"), lambda line: line[:1]):
        element = _SIGNS.get(sign)
        lines = escaped("".join(f"{line}\n" for line in run))
        shown.append(lines if element is None else f"<{element}>{lines}</{element}>")
    return f'<pre class="diff">\n{"".join(shown)}</pre>'


def _image(image: ImageContent) -> str:
    size = image_bytes(image)
    if size is None:
        return f"<p><em>An image ({escaped(image.mime_type)}) that cannot be shown.</em></p>"
    # Both parts were looked at: a type from our list, and letters of base64.
    return f'<p><img alt="image" src="data:{image.mime_type};base64,{image.data}"></p>'


def _folded(name: str, shown: str) -> str:
    return f"<details><summary>{escaped(name)}</summary>{shown}</details>"
