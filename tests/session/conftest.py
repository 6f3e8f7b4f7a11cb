"""What tests of sessions share: a database of their own, empty, on a real PostgreSQL."""

from __future__ import annotations

import importlib
import os
import secrets
from collections.abc import AsyncGenerator, Iterator
from typing import Any, NoReturn

import pytest

from .postgres_server import NoPostgres, PostgresServer, find_server, start_server


def _cannot(reason: str) -> NoReturn:
    """At a desk the test is left out; in CI a test that never ran would look like one that passed."""
    if os.environ.get("CI", "").lower() in ("", "0", "false"):
        pytest.skip(reason)
    pytest.fail(reason)


def _driver() -> Any:
    try:
        return importlib.import_module("asyncpg")
    except ImportError:
        _cannot("asyncpg is not installed: pip install 'loopwright[postgres]'")


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[PostgresServer]:
    """One for each test process, started when the first test asks for it."""
    try:
        server = find_server()
    except NoPostgres as reason:
        _cannot(str(reason))
    yield server
    server.close()


@pytest.fixture
async def postgres_url(postgres_server: PostgresServer) -> AsyncGenerator[str]:
    """The URL of an empty database that no other test has."""
    asyncpg = _driver()
    name = f"loopwright_test_{secrets.token_hex(8)}"
    connection = await asyncpg.connect(postgres_server.url)
    await connection.execute(f"CREATE DATABASE {name}")
    await connection.close()
    yield postgres_server.database_url(name)
    connection = await asyncpg.connect(postgres_server.url)
    await connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
    await connection.close()


@pytest.fixture(scope="session")
def own_postgres_server(postgres_server: PostgresServer) -> Iterator[PostgresServer]:
    """One that a test may stop, whatever the others use."""
    if postgres_server.is_ours:
        yield postgres_server
        return
    try:
        server = start_server()
    except NoPostgres as reason:
        _cannot(str(reason))
    yield server
    server.close()


@pytest.fixture
def stoppable_postgres(own_postgres_server: PostgresServer) -> Iterator[PostgresServer]:
    """A server that the test may stop and start. It runs again afterwards."""
    yield own_postgres_server
    own_postgres_server.start()
