"""Stores are opened and closed."""

from __future__ import annotations

from ...errors import (
    SessionClosed,
)
from ...session.leases import new_owner
from ...session.rows import (
    SessionInfo,
)
from ...session.store import Commit
from .ground import (
    StoreUnderTest,
    refused,
)

__all__ = ["HandleChecks"]


class HandleChecks(StoreUnderTest):
    """Stores are opened and closed."""

    async def test_another_handle_sees_what_was_committed(self) -> None:
        async with self.store() as store:
            await store.create(SessionInfo(id="s"))
            await self.filled(store, "s")
            other = await self.open_again(store)

            seen = await self.everything(other, "s")

            assert seen == await self.everything(store, "s")
            await self.close_again(store, other)

    async def test_closing_is_like_a_crash_and_done_once(self) -> None:
        if not self.closes:
            return
        async with self.store() as store:
            await store.create(SessionInfo(id="s"))
            lease = await store.claim("s", new_owner(), 60)
            other = await self.open_again(store)

            await store.aclose()
            await store.aclose()

            for use in (
                lambda: store.info("s"),
                lambda: store.commit(lease, Commit()),
                lambda: store.list(),
            ):
                with refused(SessionClosed):
                    await use()
            if other is not store:
                assert (await other.info("s")).locked_by == lease.owner
            await self.close_again(store, other)
