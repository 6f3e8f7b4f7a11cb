"""The store in memory does what every store does."""

from __future__ import annotations

from loopwright.session.memory import MemoryStore
from loopwright.session.store import SessionStore
from loopwright.testing.store_conformance import StoreConformance


class TestMemoryStore(StoreConformance):
    closes = False

    async def make_store(self) -> SessionStore:
        return MemoryStore()


async def test_it_opens_like_the_others() -> None:
    async with await MemoryStore.open() as store:
        assert await store.list() == []
