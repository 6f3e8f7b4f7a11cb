"""The user's database of sessions: opened for one command, and closed again.

Not here: which session is meant (session_choice.py).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from ..errors import SessionError, SessionNotFound, StoreUnavailable
from .settings import sessions_file

if TYPE_CHECKING:
    from ..session.sqlite import SqliteStore

__all__ = ["reading_sessions", "writing_sessions"]


@asynccontextmanager
async def writing_sessions() -> AsyncGenerator[SqliteStore]:
    """The database, made if it is not there. Raises `SessionError` if it cannot be used."""
    from ..session.sqlite import SqliteStore

    async with await SqliteStore.open(sessions_file()) as store:
        yield store


@asynccontextmanager
async def reading_sessions() -> AsyncGenerator[SqliteStore]:
    """The database for looking, also where it cannot be written. Raises `SessionNotFound` if there
    is none yet, `SessionError` if it cannot be read."""
    from ..session.sqlite import SqliteStore

    file = sessions_file()
    if not file.exists():
        raise SessionNotFound(
            f"there are no sessions yet in {file.parent}", hint="every run keeps one"
        )
    try:
        store = await SqliteStore.open(file, read_only=True)
    except StoreUnavailable as unreadable:
        try:  # of an earlier format, or empty: opening it for writing mends both
            store = await SqliteStore.open(file)
        except SessionError:
            raise unreadable from None
    async with store:
        yield store
