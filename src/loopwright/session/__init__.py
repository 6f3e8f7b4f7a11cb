"""Sessions: the entry tree, what is kept beside it, and the stores that keep both.

The stores are imported when they are first asked for; none of them is needed to use another.
"""

import typing as _typing

from .entries import (
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    Entry,
    EntryRow,
    MessageEntry,
)
from .rows import (
    Approval,
    Fact,
    InboxItem,
    Intent,
    Lane,
    LaneConfig,
    Operation,
    SessionInfo,
    UsageRow,
)
from .session import Session
from .store import Commit, Lease, SessionState, SessionStore

if _typing.TYPE_CHECKING:
    from .fork import fork_session
    from .jsonl import JsonlStore
    from .memory import MemoryStore
    from .postgres import PostgresStore
    from .search import SearchHit, search_sessions
    from .sqlite import SqliteStore

__all__ = [
    "Approval",
    "BranchSummaryEntry",
    "Commit",
    "CompactionEntry",
    "CustomEntry",
    "Entry",
    "EntryRow",
    "Fact",
    "InboxItem",
    "Intent",
    "JsonlStore",
    "Lane",
    "LaneConfig",
    "Lease",
    "MemoryStore",
    "MessageEntry",
    "Operation",
    "PostgresStore",
    "SearchHit",
    "Session",
    "SessionInfo",
    "SessionState",
    "SessionStore",
    "SqliteStore",
    "UsageRow",
    "fork_session",
    "search_sessions",
]

_LAZY = {
    "JsonlStore": "jsonl",
    "MemoryStore": "memory",
    "PostgresStore": "postgres",
    "SearchHit": "search",
    "SqliteStore": "sqlite",
    "fork_session": "fork",
    "search_sessions": "search",
}


def __getattr__(name: str) -> _typing.Any:
    """Each store is imported when it is first asked for."""
    module = _LAZY.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f".{module}", __name__), name)
