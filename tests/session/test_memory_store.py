"""The store in memory does what every store does."""

from __future__ import annotations

from loopwright.session.memory import MemoryStore
from loopwright.session.rows import InboxItem, Operation, SessionInfo
from loopwright.session.store import Commit, SessionStore
from loopwright.testing.store_conformance import StoreConformance


class TestMemoryStore(StoreConformance):
    closes = False

    async def make_store(self) -> SessionStore:
        return MemoryStore()


async def test_it_opens_like_the_others() -> None:
    async with await MemoryStore.open() as store:
        assert await store.list() == []


def waiting(item_id: str, request_id: str | None) -> InboxItem:
    return InboxItem(id=item_id, lane="main", queue="steer", request_id=request_id)


async def test_a_request_id_that_a_row_gave_up_is_free_for_another() -> None:
    store = MemoryStore()
    await store.create(SessionInfo(id="s"))
    lease = await store.claim("s", "owner", 60)
    await store.commit(lease, Commit(operations=[Operation(id="a", lane="main", request_id="r")]))
    await store.enqueue("s", waiting("a", "r"))

    gave_up = Commit(
        operations=[Operation(id="a", lane="main"), Operation(id="b", lane="main", request_id="r")],
        inbox=[waiting("a", None), waiting("b", "r")],
    )
    await store.commit(lease, gave_up)

    assert [op.id for op in await store.operations("s", request_id="r")] == ["b"]
    assert (await store.enqueue("s", waiting("c", "r"))).id == "b"
