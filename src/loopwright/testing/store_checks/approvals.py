"""A call is decided on once, and the decision is used once."""

from __future__ import annotations

import asyncio

import msgspec

from ...errors import (
    ApprovalRefused,
)
from ...session.rows import (
    Approval,
)
from ...session.store import Commit
from .ground import (
    StoreUnderTest,
    an_approval,
    an_intent,
    new_lease,
    refused,
)

__all__ = ["ApprovalChecks"]


class ApprovalChecks(StoreUnderTest):
    """A call is decided on once, and the decision is used once."""

    async def test_a_decision_is_made_once(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            session_id = lease.session_id
            await store.commit(lease, Commit(approvals=[an_approval("a"), an_approval("b")]))
            other = await self.open_again(store)

            decided = await other.decide(
                session_id, "a", "denied", reason="too risky", decided_by="ann"
            )
            with refused(ApprovalRefused):
                await store.decide(session_id, "a", "approved")
            with refused(ApprovalRefused):
                await store.decide(session_id, "nobody asked", "approved")

            assert (decided.status, decided.reason, decided.decided_by) == (
                "denied",
                "too risky",
                "ann",
            )
            assert decided.decided_at is not None
            assert await store.approvals(session_id) == [decided, an_approval("b")]
            assert (await store.state(session_id)).approvals == [decided, an_approval("b")]
            await self.close_again(store, other)

    async def test_of_many_who_decide_one_does(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            session_id = lease.session_id
            other = await self.open_again(store)
            await store.commit(lease, Commit(approvals=[an_approval("a")]))

            words = await asyncio.gather(
                *(
                    where.decide(session_id, "a", "approved", decided_by=str(n))
                    for n, where in enumerate([store, other] * 8)
                ),
                return_exceptions=True,
            )

            made = [word for word in words if isinstance(word, Approval)]
            assert len(made) == 1
            assert all(isinstance(w, ApprovalRefused) for w in words if w is not made[0])
            assert (await store.approvals(session_id)) == made
            await self.close_again(store, other)

    async def test_what_was_edited_is_approved_with_a_digest_of_its_own(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            session_id = lease.session_id
            await store.commit(lease, Commit(approvals=[an_approval("a", digest="asked")]))

            decided = await store.decide(
                session_id, "a", "approved", arguments={"path": "b.txt"}, digest="edited"
            )

            assert (decided.arguments, decided.digest) == ({"path": "b.txt"}, "edited")
            with refused(ApprovalRefused):
                await store.commit(lease, Commit(consume=[("a", "asked")]))
            await store.commit(lease, Commit(consume=[("a", "edited")]))

    async def test_an_approval_is_used_exactly_once(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            session_id = lease.session_id
            await store.commit(lease, Commit(approvals=[an_approval("yes"), an_approval("no")]))
            await store.decide(session_id, "yes", "approved")
            await store.decide(session_id, "no", "denied", reason="no")

            uses = await asyncio.gather(
                *(
                    store.commit(
                        lease, Commit(consume=[("yes", "d")], intents=[an_intent(f"i{n}")])
                    )
                    for n in range(8)
                ),
                return_exceptions=True,
            )
            await store.commit(lease, Commit(consume=[("no", "d")]))

            assert len([use for use in uses if isinstance(use, int)]) == 1
            assert all(isinstance(u, ApprovalRefused) for u in uses if not isinstance(u, int))
            state = await store.state(session_id)
            assert len(state.intents) == 1
            assert state.approvals == []
            every = await store.approvals(session_id)
            assert [(a.id, a.status) for a in every] == [("yes", "consumed"), ("no", "consumed")]
            with refused(ApprovalRefused):
                await store.decide(session_id, "yes", "approved")

    async def test_an_approval_can_be_asked_for_decided_and_used_in_one_commit(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            granted = msgspec.structs.replace(an_approval("a"), status="approved")

            await store.commit(lease, Commit(approvals=[granted], consume=[("a", "d")]))

            (kept,) = await store.approvals(lease.session_id)
            assert kept.status == "consumed"

    async def test_a_decision_is_not_undone_by_asking_again(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            await store.commit(lease, Commit(approvals=[an_approval("a")]))
            decided = await store.decide(lease.session_id, "a", "denied")

            with refused(ApprovalRefused):
                await store.commit(lease, Commit(approvals=[an_approval("a")]))

            assert await store.approvals(lease.session_id) == [decided]
