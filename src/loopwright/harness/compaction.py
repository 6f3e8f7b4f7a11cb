"""When to make a context smaller, where to cut it, and what is kept.                        (pure)

A branch is cut into what a summary will stand for and the tail that stays as it is. A cut never
parts a call from its results, nor the results of one reply from each other. Everything is planned
from the entries alone, so that a plan made again after a crash is the same.

Not here: how large things are (token_estimate), the summary (summary), or when this is called
(compactor).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from ..messages import (
    AgentMessage,
    AssistantMessage,
    ToolResultMessage,
)
from ..session.entries import BranchSummaryEntry, CompactionEntry, Entry, MessageEntry
from ..session.tree import adds_to_context, compaction_text, context_parts
from .fit_tail import fit_tail
from .token_estimate import context_tokens, estimate_message, is_failed, size_of
from .touched_files import TouchedFiles

__all__ = [
    "CompactionPlan",
    "CompactionSettings",
    "overhead_error",
    "plan_by_count",
    "plan_compaction",
    "should_compact",
]

SUMMARY_SHARE = 0.8
"""So much of the reserve a summary may fill."""

SHORTEST_SUMMARY = 128
"""Tokens. Below that no summary says anything, and all would be cut before they are complete."""


class CompactionSettings(msgspec.Struct, frozen=True):
    """When to compact, and how much to keep. All numbers are tokens."""

    enabled: bool = True
    """Compact without being asked. By hand it is always possible."""
    reserve_tokens: int = 16_384
    """What is left free for the reply; a larger context is compacted. At most a quarter of the
    model's window, so that small models have room for a conversation."""
    keep_recent_tokens: int = 20_000
    """About how much of the newest messages stays as it is. At most half of the room there is for
    the conversation, so that a compaction is not due again at once."""

    def reserve(self, window: int | None) -> int:
        """What is left free in a *window* of that size."""
        reserve = max(self.reserve_tokens, 0)
        return reserve if window is None else min(reserve, window // 4)

    def limit(self, window: int, fixed: int = 0) -> int:
        """The largest context that is not compacted yet.

        That is the window without the reserve. Where the *fixed* part of every request (system
        prompt, tools) leaves little more than that, half of what it leaves is conversation's.
        """
        return max(window - self.reserve(window), fixed + (window - fixed) // 2)

    def room(self, window: int, fixed: int = 0) -> int:
        """What of the largest context is left for the conversation."""
        return max(self.limit(window, fixed) - fixed, 0)

    def keep(self, window: int | None, fixed: int = 0) -> int:
        """How much of the newest messages to keep."""
        keep = max(self.keep_recent_tokens, 0)
        return keep if window is None else min(keep, self.room(window, fixed) // 2)

    def summary_limit(self, window: int | None, fixed: int = 0) -> int:
        """The longest summary; not shorter than what is of any use."""
        limit = int(self.reserve(window) * SUMMARY_SHARE)
        if window is None:
            return limit
        return min(limit, max(self.room(window, fixed) // 2, SHORTEST_SUMMARY))


class CompactionPlan(msgspec.Struct, frozen=True, kw_only=True):
    """What a compaction will do."""

    to_summarize: list[AgentMessage]
    """What the summary stands for, oldest first; failed replies included, which no model is shown.
    Empty if the summary there is stays as it is and only the tail is shortened."""
    previous_summary: str | None
    """What came before, already summarized; to be brought up to date. Without its file lists."""
    first_kept_id: str | None
    """The entry the tail begins with; None if nothing is kept, or `retained_tail` holds it."""
    retained_tail: list[AgentMessage] | None = None
    """The tail in place of the entries: parts of their results were left out because they are too
    large for the window, or it stands in no entries. The session keeps the whole."""
    tokens_before: int
    split_turn: bool = False
    """The tail begins within a turn; how the turn began is told by the summary alone."""
    read_files: list[str]
    modified_files: list[str]
    removed_tokens: int
    """What the messages to summarize take, estimated."""
    kept_tokens: int
    """What the tail takes, as it will be shown; estimated."""
    summary_limit: int | None = None
    """The longest summary that leaves room, in tokens; None if the window is not known."""

    @property
    def details(self) -> dict[str, list[str]]:
        """What the compaction's entry keeps for the next one."""
        return self.files().details()

    def files(self) -> TouchedFiles:
        """The files touched by all that the summary stands for."""
        files = TouchedFiles()
        files.add_details({"readFiles": self.read_files, "modifiedFiles": self.modified_files})
        return files


def should_compact(
    tokens: int, window: int | None, settings: CompactionSettings, *, fixed: int = 0
) -> bool:
    """Whether a context of *tokens* is to be compacted before the next request.

    Never without a known *window*, and never if the *fixed* part alone fills it: a shorter
    conversation would not help.
    """
    if not settings.enabled or not window or window <= 0 or fixed >= window:
        return False
    return tokens > settings.limit(window, fixed)


def overhead_error(fixed: int, window: int | None) -> str:
    """Why a request that was too large cannot be made smaller, with what takes the room."""
    of = "" if window is None else f" of the {window:,} tokens of the model's context window"
    if window is not None and fixed < window // 2:
        return (
            f"the request is larger than the model's context window of {window:,} tokens, and there "
            "is no older part of the conversation left to summarize: the newest message alone takes "
            f"the room (system prompt and tool definitions: about {fixed:,})"
        )
    return (
        "the request is larger than the model's context window, and summarizing the conversation "
        f"cannot help: the system prompt and the tool definitions alone take about {fixed:,}{of}; "
        "use fewer tools, a shorter prompt, or a model with a larger window"
    )


def plan_compaction(
    entries: Sequence[Entry],
    settings: CompactionSettings,
    *,
    window: int | None = None,
    fixed: int = 0,
    model: tuple[str, str] | None = None,
    overflowed: bool = False,
) -> CompactionPlan | None:
    """What to summarize and what to keep of a branch; None if there is nothing to compact.

    *entries* are the branch oldest first, whole or back to what its newest compaction keeps. About
    `keep_recent_tokens` are kept, walking back from the tail; always the last message, with the
    calls and results that belong to it. If that is more than the *window* has room for, its
    results are shortened, as far as the model is shown them (`retained_tail`); if that is not
    possible and it is no user's message, it is summarized as well.

    *fixed* are the tokens every request takes; *model* (provider, id) says whose token counts are
    to be believed. *overflowed*: the last request was too large, whatever the numbers say, so that
    at most half is kept.

    There is nothing to compact if nothing was said since the last compaction, if all that would be
    summarized is not shown anyway, or if the fixed part alone fills the window.
    """
    if window is not None and window <= 0:
        window = None
    branch = _Branch(entries)
    tokens_before = context_tokens(entries, fixed=fixed, model=model)
    if not branch.items or (not branch.has_news and not overflowed):
        return None
    if window is not None and fixed >= window:
        return None
    scale = _scale(branch, tokens_before - fixed)
    if overflowed and window is not None:
        scale = max(scale, _scale(branch, window - fixed))
    budget = int(settings.keep(window, fixed) / scale)
    if overflowed:
        budget = min(budget, branch.size(0) // 2)
    cut = branch.cut_within(budget)
    tail: list[AgentMessage] | None = None
    summary_limit = settings.summary_limit(window, fixed)
    if window is not None:
        room = settings.room(window, fixed)
        if branch.size(cut) * scale > room - min(summary_limit, room // 2):
            tail = fit_tail(branch.shown(cut), int(room // 2 / scale))
            if tail is None and branch.may_drop_last:
                cut = len(branch.items)
    if branch.size(0) == branch.size(cut) and not (tail and branch.previous_summary):
        return None
    return branch.plan(cut, tokens_before, tail, summary_limit if window is not None else None)


def plan_by_count(
    entries: Sequence[Entry], keep_messages: int, *, fixed: int = 0
) -> CompactionPlan | None:
    """As `plan_compaction`, keeping the last *keep_messages* whatever their size; None if that is
    all of them. More are kept where the border would part a call from a result."""
    branch = _Branch(entries)
    cut = branch.cut_at(max(len(branch.items) - max(keep_messages, 0), 0))
    if branch.size(0) == branch.size(cut):
        return None
    return branch.plan(cut, context_tokens(entries, fixed=fixed), None, None)


def _scale(branch: _Branch, tokens: int) -> float:
    """How many times larger the conversation is than it was estimated, at least 1."""
    estimated = branch.size(0) + branch.summary_size
    return max(1.0, tokens / estimated) if estimated > 0 else 1.0


class _Item(NamedTuple):
    """Something said, and the entry it stands in; None for what a compaction holds as a copy."""

    entry: Entry | None
    message: AgentMessage


class _Branch:
    """A branch as the model is shown it: the newest summary, and messages cut into units."""

    def __init__(self, entries: Sequence[Entry]) -> None:
        self.compaction, older, newer = context_parts(entries)
        self.items = [*_items_of_tail(self.compaction), *_items(older), *_items(newer)]
        self.has_news = any(not is_failed(item.message) for item in _items(newer))
        self._borders = _borders(self.items)
        sizes = [0]  # of the last 0, 1, 2 ... items
        for item in reversed(self.items):
            shown = not is_failed(item.message)
            sizes.append(sizes[-1] + (estimate_message(item.message) if shown else 0))
        self._sizes = sizes

    @property
    def previous_summary(self) -> str | None:
        if self.compaction is None:
            return None
        return TouchedFiles.cut_from(self.compaction.summary) or None

    @property
    def summary_size(self) -> int:
        if self.compaction is None:
            return 0
        return math.ceil(size_of(compaction_text(self.compaction.summary)) / 4)

    @property
    def may_drop_last(self) -> bool:
        """Whether the last unit may be summarized too: it is whole, and no user waits for it."""
        if self._borders[-1] != len(self.items) or len(self._borders) < 2:
            return False
        return isinstance(self.items[self._borders[-2]].message, AssistantMessage)

    def size(self, cut: int) -> int:
        """The tokens of what is kept if the border is before *cut*."""
        return self._sizes[len(self.items) - cut]

    def shown(self, cut: int) -> list[AgentMessage]:
        return [item.message for item in self.items[cut:] if not is_failed(item.message)]

    def cut_at(self, place: int) -> int:
        """The last border at or before *place*."""
        return max(border for border in self._borders if border <= place)

    def cut_within(self, budget: int) -> int:
        """The first border behind which no more than *budget* tokens stand; else the last one."""
        inner = [border for border in self._borders if border < len(self.items)]
        return next((border for border in inner if self.size(border) <= budget), inner[-1])

    def plan(
        self,
        cut: int,
        tokens_before: int,
        tail: list[AgentMessage] | None,
        summary_limit: int | None,
    ) -> CompactionPlan:
        removed, kept = self.items[:cut], self.items[cut:]
        if tail is None and kept and kept[0].entry is None:
            tail = self.shown(cut)
        files = TouchedFiles()
        if self.compaction is not None:
            files.add_details(self.compaction.details)
        for item in removed:
            if isinstance(item.entry, BranchSummaryEntry):
                files.add_details(item.entry.details)
        messages = [item.message for item in removed]
        files.add_messages(messages)
        first = kept[0].entry if kept and tail is None else None
        return CompactionPlan(
            to_summarize=messages,
            previous_summary=self.previous_summary,
            first_kept_id=None if first is None else first.id,
            retained_tail=tail,
            tokens_before=tokens_before,
            split_turn=bool(kept) and isinstance(kept[0].message, AssistantMessage),
            read_files=files.read,
            modified_files=files.modified,
            removed_tokens=self.size(0) - self.size(cut),
            kept_tokens=self.size(cut) if tail is None else sum(map(estimate_message, tail)),
            summary_limit=summary_limit,
        )


def _items_of_tail(compaction: CompactionEntry | None) -> list[_Item]:
    tail = None if compaction is None else compaction.retained_tail
    return [_Item(None, message) for message in tail or ()]


def _items(entries: Sequence[Entry]) -> list[_Item]:
    """What was said in *entries*; a summary among them is in the newest one."""
    items: list[_Item] = []
    for entry in entries:
        said = entry.message if isinstance(entry, MessageEntry) else adds_to_context(entry)
        if said is not None:
            items.append(_Item(entry, said))
    return items


def _borders(items: Sequence[_Item]) -> list[int]:
    """Where *items* may be cut: before these places. The first is 0.

    Results stay with their reply, and with whatever was said in between. While a reply still waits
    for results, there is no border behind it. Replies that failed stay with what came before.
    """
    count = len(items)
    borders: list[int] = [0]
    waiting: Counter[str] = Counter()
    opened_at = 0
    for place, item in enumerate(items):
        message = item.message
        if isinstance(message, ToolResultMessage):
            if waiting[message.tool_call_id] > 0:
                waiting[message.tool_call_id] -= 1
                while borders[-1] > opened_at:
                    borders.pop()
        elif not is_failed(message):
            if place:
                borders.append(place)
            if isinstance(message, AssistantMessage):
                # The calls of an earlier reply that got no result by now will get none.
                waiting = Counter(call.id for call in message.tool_calls)
                opened_at = place
    if count and waiting.total() > 0:
        while borders[-1] > opened_at:
            borders.pop()
    elif count:
        borders.append(count)
    return borders
