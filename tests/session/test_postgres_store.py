"""The store in PostgreSQL does what every store does."""

from __future__ import annotations

import pytest

from loopwright.session.postgres import PostgresStore
from loopwright.session.store import SessionStore
from loopwright.testing.store_conformance import StoreConformance


class TestPostgresStore(StoreConformance):
    """With few connections, so that whoever waits for one is not waited for by whoever has it."""

    @pytest.fixture(autouse=True)
    def _database(self, postgres_url: str) -> None:
        self.url = postgres_url

    async def make_store(self) -> SessionStore:
        return await PostgresStore.open(self.url, pool_size=2)

    async def open_again(self, store: SessionStore) -> SessionStore:
        return await PostgresStore.open(self.url, pool_size=1)
