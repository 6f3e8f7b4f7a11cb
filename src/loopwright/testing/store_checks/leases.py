"""There is one writer at a time, and a zombie is none."""

from __future__ import annotations

import asyncio

from ...errors import (
    LeaseLost,
    SessionLocked,
)
from ...session.leases import new_owner
from ...session.rows import (
    SessionInfo,
)
from ...session.store import Commit, Lease
from .ground import (
    StoreUnderTest,
    an_intent,
    new_lease,
    owner_of_a_dead_process,
    refused,
    said,
)

__all__ = ["LeaseChecks"]


class LeaseChecks(StoreUnderTest):
    """There is one writer at a time, and a zombie is none."""

    async def test_one_writes_and_the_other_is_told_who(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            other = await self.open_again(store)

            with refused(SessionLocked) as refusal:
                await other.claim(lease.session_id, new_owner(), 60)

            assert lease.owner.split(":")[1] in str(refusal[0])
            assert (await other.info(lease.session_id)).locked_by == lease.owner
            await self.close_again(store, other)

    async def test_of_many_who_claim_one_session_one_gets_it(self) -> None:
        async with self.store() as store:
            await store.create(SessionInfo(id="s"))

            claims = await asyncio.gather(
                *(store.claim("s", new_owner(), 60) for _ in range(8)), return_exceptions=True
            )

            got = [claim for claim in claims if isinstance(claim, Lease)]
            assert len(got) == 1
            assert all(isinstance(c, SessionLocked) for c in claims if c is not got[0])

    async def test_what_was_released_can_be_claimed_and_the_epoch_grows(self) -> None:
        async with self.store() as store:
            await store.create(SessionInfo(id="s"))
            first = await store.claim("s", new_owner(), 60)

            await store.release(first)
            unlocked = (await store.info("s")).locked_by
            second = await store.claim("s", new_owner(), 60)

            assert unlocked is None
            assert second.epoch > first.epoch

    async def test_a_lease_that_was_given_back_writes_nothing(self) -> None:
        async with self.store() as store:
            await store.create(SessionInfo(id="s"))
            lease = await store.claim("s", new_owner(), 60)
            await store.release(lease)

            with refused(LeaseLost):
                await store.commit(lease, Commit(entries=[said("late")]))
            with refused(LeaseLost):
                await store.renew(lease, 60)

            assert await store.entries("s") == []

    async def test_a_lease_that_has_run_out_is_good_until_somebody_takes_it(self) -> None:
        async with self.store() as store:
            await store.create(SessionInfo(id="s"))
            lease = await store.claim("s", new_owner(), 0)

            await store.commit(lease, Commit(entries=[said("late, and still mine")]))
            await store.renew(lease, 60)

            with refused(SessionLocked):
                await store.claim("s", new_owner(), 60)
            assert len(await store.entries("s")) == 1

    async def test_a_zombie_is_refused_whatever_it_tries(self) -> None:
        async with self.store() as store:
            await store.create(SessionInfo(id="s"))
            zombie = await store.claim("s", new_owner(), 0)
            other = await self.open_again(store)
            heir = await other.claim("s", new_owner(), 60)
            await other.commit(heir, Commit(entries=[said("heir", entry_id="heir")]))
            before = await self.everything(store, "s")

            with refused(LeaseLost):
                await store.commit(zombie, Commit(entries=[said("zombie")]))
            with refused(LeaseLost):
                await store.commit(zombie, Commit(intents=[an_intent("i")]))
            with refused(LeaseLost):
                await store.commit(zombie, Commit())
            with refused(LeaseLost):
                await store.renew(zombie, 60)
            await store.release(zombie)

            assert await self.everything(store, "s") == before
            assert (await store.info("s")).locked_by == heir.owner
            assert heir.epoch > zombie.epoch
            await other.commit(heir, Commit(entries=[said("more", "heir")]))
            await self.close_again(store, other)

    async def test_the_lease_of_a_process_that_is_no_more_is_taken_at_once(self) -> None:
        dead = owner_of_a_dead_process()
        async with self.store() as store:
            await store.create(SessionInfo(id="s"))
            await store.create(SessionInfo(id="t"))
            old = await store.claim("s", dead, 600)
            await store.claim("t", dead, 600)

            shown = (await store.info("s")).locked_by
            lease = await store.claim("s", new_owner(), 60)
            await store.delete("t")

            assert shown is None
            assert lease.epoch > old.epoch
            with refused(LeaseLost):
                await store.commit(old, Commit(entries=[said("from the grave")]))
