"""The tree of a session: the path from the root to a leaf, and what a model is shown of it.

A parent is always older than its children, so a branch is found in one pass over the entries,
newest first: take the one that is wanted, then want its parent. The model is shown the newest
summary of the branch, the messages it kept, and what came later; nothing older is read.

Not here: the entries themselves (entries), drawing the tree (outline), looking for damage in it
(tree_check), or reading from a store, which hands its rows in.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TypeVar, cast, get_args

from ..errors import Misuse, SessionDamaged
from ..messages import AgentMessage, AssistantMessage, CustomMessage, UserMessage
from .entries import (
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    Entry,
    EntryRow,
    EntryType,
    MessageEntry,
)
from .formats.pi_messages import shown_to_model

__all__ = [
    "BranchWalk",
    "adds_to_context",
    "branch_rows",
    "branch_summary_text",
    "children_index",
    "common_ancestor",
    "compaction_text",
    "context_parts",
    "context_of",
    "parents_index",
    "path_to_root",
    "query_branch",
    "transcript_of",
]


# -- from the leaf to the root ---------------------------------------------------------------


class BranchWalk:
    """Finds one branch among rows that are fed newest first, in as many pieces as one likes.

        walk = BranchWalk(leaf_id)
        while not walk.enough_for_context:      # or `not walk.done`, for the whole branch
            page = await store.entries(..., before=before, newest_first=True)
            if not page:
                walk.end()                      # raises: something is missing
            walk.feed(page)
            before = page[-1].seq

    Rows that stand on other branches are passed over. `feed` raises `SessionDamaged` for a
    compaction that cannot be read, and for an entry that is its own parent.
    """

    def __init__(self, leaf_id: str | None) -> None:
        self.wanted: str | None = leaf_id
        """The entry that must come next; None once the root was passed."""
        self._found: list[EntryRow] = []  # newest first
        self._compaction_met = False
        self._kept_from: str | None = None
        self._context_size: int | None = None  # how many of those found the context needs

    @property
    def rows(self) -> list[EntryRow]:
        """The branch as far as it was found, oldest first."""
        return self._found[::-1]

    @property
    def context_rows(self) -> list[EntryRow]:
        """Those of `rows` that the model's context is made of, and no older ones."""
        return self._found[: self._context_size][::-1]

    @property
    def done(self) -> bool:
        """The root was passed; there is nothing more to find."""
        return self.wanted is None

    @property
    def enough_for_context(self) -> bool:
        """What was found is all that `context_of` needs."""
        return self.wanted is None or self._context_size is not None

    def feed(self, rows_descending: Iterable[EntryRow]) -> None:
        """Go on with *rows_descending*, all older than those fed before, newest first."""
        wanted = self.wanted
        if wanted is None:
            return
        found = self._found
        for row in rows_descending:
            if row.id != wanted:
                continue
            found.append(row)
            wanted = self.wanted = row.parent_id
            if not self._compaction_met and row.type == "compaction":
                self._meet(row)
            elif row.id == self._kept_from:
                self._context_size = len(found)
            if wanted is None:
                return
            if wanted == row.id:
                raise _damaged(row.id, "it is its own parent")

    def end(self) -> None:
        """There are no more rows. Raises `SessionDamaged` if one was still wanted."""
        if self.wanted is None:
            return
        if not self._found:
            raise _damaged(self.wanted, "the entry is missing")
        child = self._found[-1].id
        if any(row.id == self.wanted for row in self._found):
            raise _damaged(child, f"its parent {self.wanted} also descends from it")
        raise _damaged(child, f"its parent {self.wanted} is missing, or stands behind it")

    def _meet(self, row: EntryRow) -> None:
        self._compaction_met = True
        compaction = row.entry()
        assert isinstance(compaction, CompactionEntry)
        if compaction.retained_tail is None:
            self._kept_from = compaction.first_kept_id
        if self._kept_from is None:
            self._context_size = len(self._found)


def branch_rows(rows_newest_first: Iterable[EntryRow], leaf_id: str | None) -> list[EntryRow]:
    """The branch that ends with *leaf_id*, oldest first; empty for None.

    Raises `SessionDamaged` if an entry is missing, or stands behind its child.
    """
    walk = BranchWalk(leaf_id)
    walk.feed(rows_newest_first)
    walk.end()
    return walk.rows


def _damaged(entry_id: str, what: str) -> SessionDamaged:
    return SessionDamaged(
        what,
        where=f"entry {entry_id}",
        hint="`loopwright sessions doctor` explains what can be repaired",
    )


# -- what a model is shown -------------------------------------------------------------------


def context_of(entries: Sequence[Entry]) -> list[AgentMessage]:
    """What the model is shown of a branch, given oldest first.

    The branch is whole, or goes back to what its newest compaction keeps. Replies that failed or
    were aborted are left out, and so is a program's own data. Raises `SessionDamaged` if the
    compaction keeps from an entry that is not there.
    """
    return [message for message in transcript_of(entries) if not _failed(message)]


def transcript_of(entries: Sequence[Entry]) -> list[AgentMessage]:
    """What happened: as `context_of`, with the replies that failed or were aborted."""
    compaction, kept, newer = context_parts(entries)
    messages = [] if compaction is None else _summary_and_tail(compaction)
    for part in (kept, newer):
        for entry in part:
            said = (
                _shown(entry.message) if isinstance(entry, MessageEntry) else adds_to_context(entry)
            )
            if said is not None:
                messages.append(said)
    return messages


def adds_to_context(entry: Entry) -> AgentMessage | None:
    """What *entry*, as the new leaf, adds to what the model is shown; None for nothing.

    None also for a compaction: it does not add, the context is to be made anew.
    """
    if isinstance(entry, MessageEntry):
        return None if _failed(entry.message) else _shown(entry.message)
    if isinstance(entry, BranchSummaryEntry) and entry.summary.strip():
        return UserMessage(branch_summary_text(entry.summary), timestamp=entry.timestamp)
    return None


def compaction_text(summary: str) -> str:
    """What a model reads in place of the messages that *summary* stands for."""
    return (
        "The earlier part of this conversation was replaced by a summary:\n\n"
        f"<conversation-summary>\n{summary.strip()}\n</conversation-summary>"
    )


def branch_summary_text(summary: str) -> str:
    """What a model reads of another branch, which was left for this one."""
    return (
        "The user tried another branch of this conversation and came back to this point. "
        "A summary of what happened there:\n\n"
        f"<branch-summary>\n{summary.strip()}\n</branch-summary>"
    )


def context_parts(
    entries: Sequence[Entry],
) -> tuple[CompactionEntry | None, Sequence[Entry], Sequence[Entry]]:
    """The newest compaction, the entries it keeps, and those after it."""
    for place in range(len(entries) - 1, -1, -1):
        compaction = entries[place]
        if not isinstance(compaction, CompactionEntry):
            continue
        first, newer = compaction.first_kept_id, entries[place + 1 :]
        if first is None or compaction.retained_tail is not None:
            return compaction, (), newer
        for kept_from in range(place - 1, -1, -1):
            if entries[kept_from].id == first:
                return compaction, entries[kept_from:place], newer
        raise _damaged(compaction.id, f"it keeps what follows {first}, which is not on its branch")
    return None, (), entries


def _summary_and_tail(compaction: CompactionEntry) -> list[AgentMessage]:
    text = compaction_text(compaction.summary)
    return [UserMessage(text, timestamp=compaction.timestamp), *(compaction.retained_tail or ())]


def _shown(message: AgentMessage) -> AgentMessage | None:
    """*message* itself, or what imported ones with roles of pi's say; None for nothing."""
    return shown_to_model(message) if isinstance(message, CustomMessage) else message


def _failed(message: AgentMessage) -> bool:
    return isinstance(message, AssistantMessage) and message.stop_reason in ("error", "aborted")


# -- asking a branch -------------------------------------------------------------------------

EntryT = TypeVar(
    "EntryT", Entry, EntryRow, MessageEntry, CompactionEntry, BranchSummaryEntry, CustomEntry
)

_TYPES = frozenset(cast("tuple[str, ...]", get_args(EntryType)))


def query_branch(
    entries_newest_first: Iterable[EntryT],
    *,
    stop_at_id: str | None = None,
    stop_at_type: EntryType | None = None,
    types: Collection[EntryType] | None = None,
    custom_type: str | None = None,
    cursor: int | None = None,
    limit: int | None = None,
    oldest_first: bool = False,
) -> list[EntryT]:
    """Entries of a branch, in the order asked for.

    Going in that order, everything after the first entry with *stop_at_id* or *stop_at_type* is
    cut off. Of the rest, that entry included, those of *types* and *custom_type* are taken, then
    those beyond *cursor* (a sequence number, exclusive: smaller ones, or larger ones with
    *oldest_first*), then the first *limit*. Raises `Misuse` for a query that makes no sense,
    whatever the branch.
    """
    _check_query(stop_at_type, types, cursor, limit)
    wanted = None if types is None else frozenset[str](types)
    found: list[EntryT] = []
    for entry in reversed(list(entries_newest_first)) if oldest_first else entries_newest_first:
        if (
            (wanted is None or entry.type in wanted)
            and (custom_type is None or getattr(entry, "custom_type", None) == custom_type)
            and (cursor is None or (entry.seq > cursor if oldest_first else entry.seq < cursor))
        ):
            found.append(entry)
            if len(found) == limit:
                break
        if entry.id == stop_at_id or entry.type == stop_at_type:
            break
    return found


def _check_query(
    stop_at_type: str | None,
    types: Collection[str] | None,
    cursor: int | None,
    limit: int | None,
) -> None:
    if isinstance(types, str):
        raise Misuse(f"types must be a collection, not the string {types!r}", hint=f'["{types}"]')
    asked = {*(types or ()), *(() if stop_at_type is None else (stop_at_type,))}
    if unknown := sorted(asked - _TYPES):
        raise Misuse(
            f"no entry has the type {unknown[0]!r}", hint=f"known: {', '.join(sorted(_TYPES))}"
        )
    if limit is not None and (not _is_whole(limit) or limit < 1):
        raise Misuse(f"the limit must be a whole number above 0, not {limit!r}")
    if cursor is not None and (not _is_whole(cursor) or cursor < 0):
        raise Misuse(f"the cursor must be a sequence number, not {cursor!r}")


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


# -- paths -----------------------------------------------------------------------------------


def parents_index(entries: Iterable[Entry | EntryRow]) -> dict[str, str | None]:
    """Each entry's parent, by its id; None for a root."""
    return {entry.id: entry.parent_id for entry in entries}


def children_index(entries: Iterable[Entry | EntryRow]) -> dict[str | None, list[str]]:
    """Each entry's children, in the order given; under None the roots. Leaves have no key."""
    children: dict[str | None, list[str]] = {}
    for entry in entries:
        children.setdefault(entry.parent_id, []).append(entry.id)
    return children


def path_to_root(parents: Mapping[str, str | None], leaf_id: str | None) -> list[str]:
    """The ids from the root to *leaf_id*, root first, by a `parents_index`; empty for None.

    Raises `SessionDamaged` for an entry that is missing or descends from itself.
    """
    path: dict[str, None] = {}
    child, here = leaf_id, leaf_id
    while here is not None:
        if here in path:
            raise _damaged(str(child), f"its parent {here} also descends from it")
        if here not in parents:
            what = "the entry is missing" if here == leaf_id else f"its parent {here} is missing"
            raise _damaged(str(child), what)
        path[here] = None
        child, here = here, parents[here]
    return list(path)[::-1]


def common_ancestor(path_a: Sequence[str], path_b: Sequence[str]) -> str | None:
    """The newest entry on both paths, which begin at the root; None if they share nothing."""
    found = None
    for on_a, on_b in zip(path_a, path_b, strict=False):
        if on_a != on_b:
            break
        found = on_a
    return found
