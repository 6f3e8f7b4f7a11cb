"""A budget for a whole session: it goes on from what the session's ledger says was used.

Not here: keeping to it (loop.budget).
"""

from __future__ import annotations

from typing import Any, cast

from ..loop.budget import Budget
from ..messages import ToolResultMessage
from ..session.entries import MessageEntry
from ..session.rows import UsageRow
from ..session.session import Session

__all__ = ["count_session"]


async def count_session(budget: Budget, session: Session) -> None:
    """Count in *budget* what *session* has used so far, by all processes, children included.

    Do it once, before the first request that *budget* is to cover. What a process that died had
    asked for and not written down is not in the ledger; such a request counts as one turn. Raises
    what the store raises.
    """
    rows = await session.store.usage(session.id)
    turns = sum(map(_is_turn, rows))
    with_tools = {row.entry_id: row for row in rows if row.cause == "tool"}
    if with_tools:
        turns += await _turns_of_children(session, with_tools)
    budget.count(session.usage, turns=turns)


def _is_turn(row: UsageRow) -> bool:
    """A request that was made and used something, or was lost and may have."""
    if row.cause == "lost":
        return True
    made = row.cause in ("assistant", "compaction", "branch_summary")
    return made and not (row.usage.is_empty and row.usage.known)


async def _turns_of_children(session: Session, rows: dict[str | None, UsageRow]) -> int:
    """How many requests tools made: as their results tell, at least one each."""
    told: dict[str, int] = {}
    for entry_row in await session.store.entries(session.id):
        if entry_row.id not in rows:
            continue
        entry = entry_row.entry()
        if isinstance(entry, MessageEntry) and isinstance(entry.message, ToolResultMessage):
            told[entry.id] = _told_turns(entry.message.details)
    return sum(max(told.get(entry_id or "", 1), 1) for entry_id in rows)


def _told_turns(details: Any) -> int:
    child = cast("dict[str, Any]", details).get("subagent") if isinstance(details, dict) else None
    turns = cast("dict[str, Any]", child).get("turns") if isinstance(child, dict) else None
    return turns if isinstance(turns, int) else 1
