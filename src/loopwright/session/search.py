"""Where something was said: a plain scan over the sessions of a store, the newest first.

Most entries are ruled out by looking for the text in their stored bytes; only the rest are
decoded. Pictures, a model's thinking and what programs keep for themselves are never found.

Not here: an index. A thousand sessions are read in about the time a person needs to look up.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any, Literal, cast

import msgspec

from ..errors import Misuse, SessionDamaged, SessionNotFound, SessionTooNew
from ..messages import AssistantMessage, TextContent, ToolCall, ToolResultMessage, UserMessage
from ..records import clean_text
from .entries import BranchSummaryEntry, CompactionEntry, Entry, EntryRow, MessageEntry
from .rows import SessionInfo
from .store import SessionStore

__all__ = ["SearchHit", "SearchHitKind", "search_sessions"]

SearchHitKind = Literal["name", "user", "assistant", "toolResult", "compaction", "branch_summary"]

_PAGE = 128
_BEFORE = 40
_AFTER = 80


class SearchHit(msgspec.Struct, frozen=True):
    """One entry, or the name of a session, that holds the text."""

    session: SessionInfo
    entry_id: str | None
    """None for the session's name."""
    kind: SearchHitKind
    """The role of a message, the type of a summary, or `name`."""
    timestamp: int
    """Milliseconds since 1970; for a name, when the session was last modified."""
    excerpt: str
    """What stands around the first match, on one line."""
    start: int
    """Where in the excerpt the match begins."""
    end: int
    """Where in the excerpt it ends."""


async def search_sessions(
    store: SessionStore,
    text: str,
    *,
    cwd: str | None = None,
    limit: int = 20,
    ignore_case: bool = True,
) -> list[SearchHit]:
    """Where *text* stands: the last modified sessions first, and in each the newest entries.

    Looked at are names, what user and model said, the names and arguments of calls, results and
    summaries, on every branch; each piece of text by itself. *cwd* keeps to one folder. What
    cannot be read is passed over. Raises `Misuse` for an empty text or a limit below 1.
    """
    text = clean_text(text)
    if not text:
        raise Misuse("there is nothing to search for: the text is empty")
    if limit < 1:
        raise Misuse(f"the limit must be at least 1, not {limit}")
    pattern = re.compile(re.escape(text), re.IGNORECASE if ignore_case else 0)
    sieve = _Sieve(text, ignore_case=ignore_case)
    hits: list[SearchHit] = []
    for session in await store.list(cwd=cwd):
        if found := pattern.search(session.name or ""):
            hits.append(_hit(session, None, "name", session.modified_at, found))
        try:
            await _scan(store, session, sieve, pattern, hits, limit)
        except (SessionNotFound, SessionDamaged, SessionTooNew):
            pass  # deleted meanwhile, or a matter for the doctor
        if len(hits) >= limit:
            return hits[:limit]
        await asyncio.sleep(0)  # a store in memory never makes others wait for it, so we must not
    return hits


async def _scan(
    store: SessionStore,
    session: SessionInfo,
    sieve: _Sieve,
    pattern: re.Pattern[str],
    hits: list[SearchHit],
    limit: int,
) -> None:
    before: int | None = None
    while len(hits) < limit:
        page = await store.entries(session.id, before=before, limit=_PAGE, newest_first=True)
        for row in page:
            if row.type != "custom" and sieve.lets_pass(row.payload):
                found = _search_row(row, pattern)
                if found is not None:
                    hits.append(_hit(session, row.id, found[0], row.timestamp, found[1]))
        if len(page) < _PAGE:
            return
        before = page[-1].seq


def _search_row(
    row: EntryRow, pattern: re.Pattern[str]
) -> tuple[SearchHitKind, re.Match[str]] | None:
    try:
        entry = row.entry()
    except SessionDamaged:
        return None
    kind = entry.message.role if isinstance(entry, MessageEntry) else entry.type
    for piece in _pieces(entry):
        if found := pattern.search(piece):
            return cast("SearchHitKind", kind), found
    return None


def _hit(
    session: SessionInfo,
    entry_id: str | None,
    kind: SearchHitKind,
    timestamp: int,
    found: re.Match[str],
) -> SearchHit:
    whole = found.string
    first, last = max(0, found.start() - _BEFORE), min(len(whole), found.end() + _AFTER)
    lead = "…" if first > 0 else ""
    excerpt = lead + whole[first:last] + ("…" if last < len(whole) else "")
    return SearchHit(
        session=session,
        entry_id=entry_id,
        kind=kind,
        timestamp=timestamp,
        excerpt=_BREAKS.sub(" ", excerpt),  # one for one, so that places stay what they are
        start=found.start() - first + len(lead),
        end=found.end() - first + len(lead),
    )


_BREAKS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")


# -- what is looked at -----------------------------------------------------------------------


def _pieces(entry: Entry) -> Iterator[str]:
    if isinstance(entry, CompactionEntry | BranchSummaryEntry):
        yield entry.summary
    if not isinstance(entry, MessageEntry):
        return
    message = entry.message
    if isinstance(message, UserMessage):
        yield from _texts(message.content)
    elif isinstance(message, AssistantMessage):
        for block in message.content:
            if isinstance(block, TextContent):
                yield block.text
            elif isinstance(block, ToolCall):
                yield from _call_pieces(block)
    elif isinstance(message, ToolResultMessage):
        yield message.tool_name
        yield from _texts(message.content)


def _texts(content: str | list[Any]) -> Iterator[str]:
    if isinstance(content, str):
        yield content
    else:
        yield from (block.text for block in content if isinstance(block, TextContent))


def _call_pieces(call: ToolCall) -> Iterator[str]:
    yield call.name
    yield from _leaves(call.arguments)
    if call.raw_arguments is not None:
        yield call.raw_arguments


def _leaves(value: object) -> Iterator[str]:
    """Keys, texts and whole numbers in *value*, which came from JSON."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, int) and not isinstance(item, bool):
            yield str(item)
        elif isinstance(item, dict):
            for key, inner in reversed(cast("dict[str, object]", item).items()):
                waiting += (inner, key)
        elif isinstance(item, list):
            waiting += reversed(cast("list[object]", item))


# -- what is not looked at -------------------------------------------------------------------

_AS_ITSELF = frozenset(" !#$%()*+,-.:;=?@[]^_`{|}~") | {
    chr(code) for start, end in ("09", "AZ", "az") for code in range(ord(start), ord(end) + 1)
}
"""Characters that no writer of JSON has a reason to escape."""

_OTHER_CASES = {"i": "\u0130\u0131", "k": "\u212a", "s": "\u017f"}
"""What `re.IGNORECASE` takes for an ASCII letter besides the letter in both cases."""


class _Sieve:
    """Tells by its bytes alone that a payload cannot hold a text. It may let others pass."""

    def __init__(self, text: str, *, ignore_case: bool) -> None:
        escaped = msgspec.json.encode(text)[1:-1].decode()
        self._ignore_case = ignore_case
        self._escapable = not _AS_ITSELF.issuperset(text)
        self._anchor = _anchor(escaped) if ignore_case else escaped.encode()
        others = [
            other
            for letter, forms in _OTHER_CASES.items()
            for other in forms
            if ignore_case and letter.encode() in self._anchor
        ]
        self._others = [other.encode() for other in others]
        self._others_escaped = [f"\\u{ord(other):04x}".encode() for other in others]

    def lets_pass(self, payload: bytes) -> bool:
        body = payload.lower() if self._ignore_case else payload  # of ASCII letters only
        if self._anchor in body:
            return True
        if self._escapable and (b"\\u" in body or b"\\/" in body):
            return True  # written by others, who may have escaped what we leave as it is
        if not self._others:
            return False
        if not body.isascii() and any(other in body for other in self._others):
            return True
        return b"\\u" in body and any(other in body for other in self._others_escaped)


def _anchor(escaped: str) -> bytes:
    """The longest part of *escaped* that looks the same in bytes, but for the case of ASCII."""
    runs = "".join(c if c.isascii() or c.lower() == c == c.upper() else "\0" for c in escaped)
    return max(runs.split("\0"), key=len).encode().lower()
