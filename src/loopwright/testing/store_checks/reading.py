"""Entries are found and read in pages; a state is that of one instant."""

from __future__ import annotations

import asyncio
from typing import Any

from ...errors import (
    ApprovalRefused,
    SessionDamaged,
)
from ...session.leases import new_owner
from ...session.rows import (
    Fact,
    Lane,
    Operation,
    SessionInfo,
)
from ...session.store import Commit
from .ground import (
    StoreUnderTest,
    new_lease,
    refused,
    rows_of,
    said,
)

__all__ = ["ReadingChecks"]


class ReadingChecks(StoreUnderTest):
    """Entries are found and read in pages; a state is that of one instant."""

    async def test_entries_are_read_in_pages_from_either_end(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            session_id = lease.session_id
            for n in range(1, 11):
                # a fact in between, so that numbers of entries have gaps
                fact = Fact(namespace="custom", key="k", value=n)
                await store.commit(
                    lease, Commit(entries=[said(str(n), entry_id=f"e{n}")], facts=[fact])
                )

            async def read(**how: Any) -> list[int]:
                return [row.seq for row in await store.entries(session_id, **how)]

            every = list(range(1, 20, 2))
            assert await read() == every
            assert await read(newest_first=True) == every[::-1]
            assert await read(limit=3) == [1, 3, 5]
            assert await read(limit=3, newest_first=True) == [19, 17, 15]
            assert await read(after=5) == every[3:]
            assert await read(after=6) == every[3:]
            assert await read(before=5) == [1, 3]
            assert await read(before=6) == [1, 3, 5]
            assert await read(after=3, before=9) == [5, 7]
            assert await read(after=3, before=9, newest_first=True, limit=1) == [7]
            assert await read(after=19) == []
            assert await read(before=1) == []
            assert await read(limit=0) == []
            assert await read(limit=1_000_000) == every

    async def test_what_is_found_comes_in_sequence_and_the_unknown_is_left_out(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            ids = [f"e{n}" for n in range(1_200)]
            await store.commit(lease, Commit(entries=[said("x", entry_id=i) for i in ids]))

            found = await store.find(lease.session_id, ["e7", "nobody", "e1100", "e3", "e7"])

            assert [row.id for row in found] == ["e3", "e7", "e1100"]
            assert [r.id for r in await store.find(lease.session_id, ids[::-1])] == ids
            assert await store.find(lease.session_id, []) == []

    async def test_sessions_do_not_see_each_other(self) -> None:
        async with self.store() as store:
            for session_id in ("a", "b"):
                await store.create(SessionInfo(id=session_id))
            lease = await self.filled(store, "a")
            other = await store.claim("b", new_owner(), 60)

            state = await store.state("b")
            same_ids = await store.commit(other, Commit(entries=[said("x", entry_id="m1")]))

            assert (state.head, same_ids) == (0, 1)
            assert rows_of(state) == []
            assert await store.find("b", ["m2"]) == []
            assert await store.withdraw("b", "q") is None
            with refused(ApprovalRefused):
                await store.decide("b", "asked", "approved")
            with refused(SessionDamaged):
                await store.commit(other, Commit(entries=[said("x", "m2")]))
            await store.release(lease)

    async def test_the_state_is_that_of_one_instant(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            session_id = lease.session_id
            reader = await self.open_again(store)
            written = asyncio.Event()

            async def write() -> None:
                for n in range(1, self.tries + 1):
                    fact = Fact(namespace="custom", key="n", value=n)
                    lane = Lane(name="main", leaf_id=f"e{n}")
                    entry = said(str(n), entry_id=f"e{n}")
                    operation = Operation(id="o", lane="main", restarts=n)
                    await store.commit(
                        lease,
                        Commit(entries=[entry], lanes=[lane], facts=[fact], operations=[operation]),
                    )
                    await asyncio.sleep(0)
                written.set()

            async def read() -> int:
                looks = 0
                while not written.is_set():
                    state = await reader.state(session_id)
                    n = state.head // 2
                    assert state.info.entries == n
                    assert state.lanes[0].leaf_id == (f"e{n}" if n else None)
                    assert [fact.value for fact in state.facts] == ([n] if n else [])
                    assert [o.restarts for o in state.operations] == ([n] if n else [])
                    looks += 1
                    await asyncio.sleep(0)
                return looks

            _, looks = await asyncio.gather(write(), read())

            assert looks > 0
            await self.close_again(store, reader)
