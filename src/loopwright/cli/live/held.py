"""Which session is meant, and holding it for writing only while something is going on in it.

So a conversation that waits for its next line locks nobody out, and hears, when it goes on, what
was said elsewhere meanwhile. A new session is made with the first thing that holds it.

Not here: what is done in the session (live/session.py).
"""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, NamedTuple

from ...errors import ConfigurationError, SessionError
from ...session.entries import new_id
from ...session.rows import InboxItem, SessionInfo
from ..bench.workbench import Workbench
from ..sessions.advice import advised
from ..sessions.choice import check_new_name
from ..sessions.store import SessionStores

if TYPE_CHECKING:
    from ...harness.harness import Harness
    from ...session.session import Session
    from ...session.store import SessionStore

__all__ = ["HeldSession"]


class _Place(NamedTuple):
    """All that changes together when another session is gone on with."""

    id: str | None = None
    """None: a new session, in which nothing was said yet."""
    session: Session | None = None
    """As it was when it was last held; for looking."""
    queued: tuple[InboxItem, ...] = ()
    """What nobody had heard when it was let go of."""
    name: str | None = None
    """What a new session will be called."""


class HeldSession:
    """Belongs to one `LiveSession`."""

    def __init__(self, bench: Workbench, *, keep: bool) -> None:
        self._bench = bench
        self._agent = bench.agent
        self.stores = SessionStores(keep=keep)
        self._brought = list(self._agent.state.messages)
        """What an agent of the user's has as its transcript; each new session begins with it."""
        self._place = _Place()
        self._harness: Harness[str] | None = None
        self._holders = 0
        self._counted: tuple[str, str | None] | None = None
        """The session, and the leaf up to which its budget knows what was used."""
        self._changing = asyncio.Lock()

    # -- what is there -------------------------------------------------------------------------

    @property
    def id(self) -> str | None:
        """None for a new session, in which nothing was said yet."""
        return self._place.id

    @property
    def session(self) -> Session | None:
        """For looking; None as for `id`."""
        return self._place.session

    @property
    def name(self) -> str | None:
        """The session's, or what a new one will be called."""
        session = self._place.session
        return self._place.name if session is None else session.name

    @property
    def queued(self) -> list[InboxItem]:
        """What was said and not heard yet, oldest first."""
        return list(self._place.queued) if self._harness is None else self._harness.queued()

    def existing(self) -> str:
        """The id. Raises `ConfigurationError` for a new session."""
        if self._place.id is None:
            raise ConfigurationError("there is no session yet", hint="say something first")
        return self._place.id

    async def reading(self) -> Session:
        """The session as it is now, for looking. Raises as `existing`."""
        from ...session.session import Session

        if self._harness is not None:
            return self._harness.session
        return await Session.read(await self.stores.get(), self.existing())

    # -- holding it ----------------------------------------------------------------------------

    @asynccontextmanager
    async def held(self) -> AsyncGenerator[Harness[str]]:
        """Hold the session, which is made if there is none; the last one to leave lets go.

        Raises `SessionError`, with what can be done about it, if it cannot be held.
        """
        async with self._changing:
            harness = self._harness or await self._hold()
            self._holders += 1
        try:
            yield harness
        finally:
            async with self._changing:
                self._holders -= 1
                if not self._holders and harness is self._harness:
                    await self._let_go()

    @asynccontextmanager
    async def held_if_there(self) -> AsyncGenerator[Harness[str] | None]:
        """As `held`, but a new session stays unmade."""
        if self._place.id is None:
            yield None
        else:
            async with self.held() as harness:
                yield harness

    async def aclose(self) -> None:
        """Let go of it for good. What is going on in it stays open there."""
        try:
            async with self._changing:
                await self._let_go()
        finally:
            await self.stores.aclose()

    async def _hold(self) -> Harness[str]:
        from ...harness.harness import Harness

        create = self._place.id is None
        session_id = self._place.id or new_id()
        store = await self.stores.get()
        self._agent.reset()
        if create:
            self._agent.state.messages = list(self._brought)
        self._agent.session_id = session_id
        harness = Harness.open(
            store,
            session_id,
            agent=self._agent,
            cwd=str(self._bench.folder),
            create=create,
            compaction=self._bench.compaction,
        )
        try:
            await harness.__aenter__()
        except SessionError as error:
            raise advised(error, session_id) from error
        session, before = harness.session, self._place
        try:
            if self._counted != (session_id, session.leaf_id):
                self._bench.start_budget()
                await self._bench.count_session(session)
            if create and before.name is not None:
                await session.set_name(before.name)
        except BaseException:
            await harness.aclose()
            raise
        if before.session is not None and session.leaf_id != before.session.leaf_id:
            self._bench.note(
                "the session was gone on with elsewhere; what was said there is known here"
            )
        self._harness, self._place = harness, _Place(session_id, session)
        return harness

    async def _let_go(self) -> None:
        harness, self._harness = self._harness, None
        if harness is not None:
            queued = tuple(harness.queued())
            await harness.aclose()
            session = harness.session
            self._counted = (session.id, session.leaf_id)
            self._place = self._place._replace(queued=queued)

    # -- another one ---------------------------------------------------------------------------

    async def change_to(self, session_id: str) -> None:
        """Go on with that session. It is held for a moment, so that a refusal comes now; then
        nothing has changed."""
        async with self._changing:
            await self._let_go()
            before, self._place = self._place, _Place(session_id)
        try:
            async with self.held():
                pass
        except BaseException:
            self._place = before
            raise

    async def begin_new(self) -> None:
        """Go on with a new session, which is made when it is held."""
        async with self._changing:
            await self._let_go()
            self._place = _Place()
            self._agent.reset()

    async def rename(self, name: str | None) -> None:
        """Give the session a name, or take it away. Raises `SessionExists` if it is another
        session's id."""
        await self.check_name(name, self._place.id)
        async with self._changing:  # a new one that is being made has taken its name already
            if self._place.id is None:
                self._place = self._place._replace(name=name)
                return
        async with self.held() as harness:
            await harness.session.set_name(name)

    async def check_name(self, name: str | None, session_id: str | None) -> None:
        """Raises `SessionExists` if *name* is the id of another session than *session_id*."""
        store = None if name is None else await self.stores.there()
        if name is not None and store is not None:
            await check_new_name(store, name, session_id)

    async def copy(
        self, session_id: str, entry_id: str | None = None, *, name: str | None = None
    ) -> SessionInfo:
        """A new session with the branch of that one, or with what comes before *entry_id*."""
        from ...session.fork import fork_session

        await self.check_name(name, None)
        store = await self.stores.get()
        if name is None:
            name = await _name_of_copy(store, session_id)
        return await fork_session(
            store,
            session_id,
            cwd=str(self._bench.folder),
            entry_id=entry_id,
            name=name,
        )


async def _name_of_copy(store: SessionStore, session_id: str) -> str | None:
    """Two of one name could not be told from each other."""
    name = (await store.info(session_id)).name
    if name is None:
        return None
    base = re.sub(r" \(\d+\)$", "", name)
    taken = {info.name for info in await store.list()}
    return next(new for n in itertools.count(2) if (new := f"{base} ({n})") not in taken)
