"""The end of a branch in memory: all that a model is shown of it, and no older entries.

It is read backwards from the leaf, page by page, and grows by the entries that are written behind
it: what an entry costs does not depend on how many there are.

Not here: finding a branch among rows (tree), or writing entries (session).
"""

from __future__ import annotations

from ..errors import SessionDamaged
from ..messages import AgentMessage
from .entries import CompactionEntry, Entry, EntryRow
from .store import SessionStore
from .tree import BranchWalk, adds_to_context, context_of, transcript_of

__all__ = ["LoadedBranch", "read_branch"]

_PAGE = 256
_LARGEST_PAGE = 8192


class LoadedBranch:
    """What was read of one branch, and what was written behind it since. Read it, do not change it."""

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = entries
        """Oldest first, as far back as the newest compaction needed when it was read."""
        self.context = context_of(entries)
        """What the model is shown."""
        self.transcript: list[AgentMessage] = transcript_of(entries)
        """The same, with the replies that failed or were aborted."""

    @classmethod
    async def load(cls, store: SessionStore, session_id: str, leaf_id: str | None) -> LoadedBranch:
        """Read the branch that ends with *leaf_id*. Raises `SessionDamaged`, and what *store* does."""
        rows = await read_branch(store, session_id, leaf_id, whole=False)
        return cls([row.entry() for row in rows])

    def grow(self, entry: Entry) -> None:
        """*entry* was written behind the leaf."""
        self.entries.append(entry)
        if isinstance(entry, CompactionEntry):
            self.context = context_of(self.entries)
            self.transcript = transcript_of(self.entries)
            return
        shown = adds_to_context(entry)
        if shown is not None:
            self.context.append(shown)
            self.transcript.append(shown)
        else:
            self.transcript += transcript_of([entry])  # a failed reply is told, not shown


async def read_branch(
    store: SessionStore, session_id: str, leaf_id: str | None, *, whole: bool
) -> list[EntryRow]:
    """The branch that ends with *leaf_id*, oldest first: all of it, or what a model is shown."""
    if leaf_id is None:
        return []
    leaf = await store.find(session_id, [leaf_id])
    if not leaf:
        raise SessionDamaged(f"the leaf {leaf_id} is missing", where=f"session {session_id}")
    walk = BranchWalk(leaf_id)
    before, size = leaf[0].seq + 1, _PAGE
    while not walk.done and (whole or not walk.enough_for_context):
        page = await store.entries(session_id, before=before, limit=size, newest_first=True)
        if not page:
            walk.end()
            break
        walk.feed(page)
        before, size = page[-1].seq, min(size * 4, _LARGEST_PAGE)
    return walk.rows if whole else walk.context_rows
