"""The user's database of sessions: opened for one command, and closed again.

Not here: which session is meant (sessions/choice.py).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING

from ...errors import SessionError, SessionNotFound, StoreUnavailable
from ..places import sessions_file
from .advice import advised

if TYPE_CHECKING:
    from ...session.sqlite import SqliteStore
    from ...session.store import SessionStore

__all__ = ["SessionStores", "reading_sessions", "writing_sessions"]


class SessionStores:
    """The database of a program that goes on, opened when it is wanted; without *keep*, a store in
    memory."""

    def __init__(self, *, keep: bool) -> None:
        self._keep = keep
        self._exit = AsyncExitStack()
        self._store: SessionStore | None = None

    async def get(self) -> SessionStore:
        """The store, made if it is not there. Raises `SessionError` if it cannot be used."""
        if self._store is None:
            if self._keep:
                self._store = await self._exit.enter_async_context(writing_sessions())
            else:
                from ...session.memory import MemoryStore

                self._store = MemoryStore()
        return self._store

    async def there(self) -> SessionStore | None:
        """The store if there is one; nothing is made."""
        if self._store is None and self._keep and not sessions_file().exists():
            return None
        return await self.get()

    async def aclose(self) -> None:
        """Close it, if it was opened."""
        await self._exit.aclose()


@asynccontextmanager
async def writing_sessions() -> AsyncGenerator[SqliteStore]:
    """The database, made if it is not there. Raises `SessionError` if it cannot be used."""
    from ...session.sqlite import SqliteStore

    try:
        opened = await SqliteStore.open(sessions_file())
    except SessionError as error:
        raise advised(error, "ID") from error
    async with opened as store:
        yield store


@asynccontextmanager
async def reading_sessions() -> AsyncGenerator[SqliteStore]:
    """The database for looking, also where it cannot be written. Raises `SessionNotFound` if there
    is none yet, `SessionError` if it cannot be read."""
    from ...session.sqlite import SqliteStore

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
