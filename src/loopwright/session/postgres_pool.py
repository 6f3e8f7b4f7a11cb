"""Connections to one PostgreSQL database, and what may go wrong with them.

Whoever finds the connection gone waits for the server to come back, for a while. Whoever had begun
to write when it broke is told so at once and never tried again: nobody can know whether it was
written.

Not here: what is said over a connection (postgres, postgres_commit, postgres_tables).
"""

from __future__ import annotations

import asyncio
import importlib
from collections.abc import AsyncGenerator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache
from typing import Any, Protocol
from urllib.parse import urlsplit

from ..errors import LoopwrightError, MissingExtra, Misuse, StoreUnavailable
from .refusals import store_closed
from .tables import POSTGRES, in_dialect

__all__ = ["PostgresConnection", "PostgresPool", "driver", "sql"]

_CONNECT_SECONDS = 10.0
_STATEMENT_SECONDS = 60.0
"""A server that says nothing for so long is taken to be gone."""
_CLOSE_SECONDS = 5.0
_SETTINGS = {
    "application_name": "loopwright",
    "default_transaction_isolation": "read committed",  # what `postgres_commit` counts on
    # A process that is stopped in the middle of a transaction locks others out no longer.
    "idle_in_transaction_session_timeout": "15s",
    # Every statement here walks along one index. Plans are kept, and those that look good while the
    # tables are small must not be among them.
    "enable_seqscan": "off",
    "enable_bitmapscan": "off",
    "jit": "off",  # it would take the cost of what is switched off for true
}
_URL_HINT = (
    "postgresql://user:password@host:port/database, with special characters in the password "
    "written as %XX"
)


class PostgresConnection(Protocol):
    """What is used of asyncpg's, which has no types of its own."""

    async def execute(self, query: str, *values: Any) -> str: ...
    async def fetch(self, query: str, *values: Any) -> list[Sequence[Any]]: ...
    async def fetchrow(self, query: str, *values: Any) -> Sequence[Any] | None: ...
    async def fetchval(self, query: str, *values: Any) -> Any: ...
    def transaction(
        self, *, isolation: str | None = None, readonly: bool = False
    ) -> AbstractAsyncContextManager[object]: ...


class PostgresPool:
    """Connections, made when they are needed, at most *size* of them.

    A call uses one and never asks for a second while it has it, so that a pool in full use is a
    queue and no deadlock. `reconnect_seconds`, at first 0, is how long a call waits for a server.
    """

    def __init__(self, url: str, schema: str, size: int) -> None:
        self.place = _place(url)
        self.reconnect_seconds = 0.0
        self._closed = False
        settings = _SETTINGS | {"search_path": f'"{schema}"'}

        async def prepare(connection: PostgresConnection) -> None:
            set_all = ", ".join(
                f"set_config(${n}, ${n + 1}, false)" for n in range(1, 2 * len(settings), 2)
            )
            pairs = [word for setting in settings.items() for word in setting]
            await connection.fetchrow(f"SELECT {set_all}", *pairs)

        async def leave_as_it_is(_connection: PostgresConnection) -> None:
            """asyncpg's own reset takes a round trip, and would undo `prepare`."""

        self._pool = driver().create_pool(
            url,
            min_size=0,
            max_size=size,
            timeout=_CONNECT_SECONDS,
            command_timeout=_STATEMENT_SECONDS,
            init=prepare,
            reset=leave_as_it_is,
        )

    async def aclose(self) -> None:
        """Give the connections back. Calls that are going on get a moment to end."""
        if self._closed:
            return
        self._closed = True
        try:
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._pool.close()
        except TimeoutError:
            pass
        finally:
            self._pool.terminate()

    @asynccontextmanager
    async def connection(self, *, writing: bool = False) -> AsyncGenerator[PostgresConnection]:
        """One for the caller alone. *writing*: if it breaks, say that the outcome is not known.

        Raises `StoreUnavailable`, also for what the server says inside, and `SessionClosed`.
        """
        connection = await self._acquire()
        try:
            yield connection
        except _from_below() as error:
            if isinstance(error, LoopwrightError):
                raise
            if isinstance(error, ValueError):  # it says which; an integer of 65 bits, say
                raise Misuse(f"PostgreSQL cannot hold a value: {error}") from error
            if _is_passing(error):
                await self._pool.expire_connections()  # the others are no better, most likely
            raise self._unavailable(error, writing=writing) from error
        finally:
            await self._release(connection)

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[PostgresConnection]:
        """A connection, and on it a transaction for writing."""
        async with self.connection(writing=True) as connection, connection.transaction():
            yield connection

    async def _acquire(self) -> Any:
        clock = asyncio.get_running_loop().time
        give_up, pause = clock() + self.reconnect_seconds, 0.05
        while True:
            if self._closed:
                raise store_closed(f"at {self.place}")
            try:
                await self._pool  # does nothing from the second time on
                connection = await self._pool.acquire()
                if not self._closed:
                    return connection
                connection.terminate()  # the wait outlasted the pool; do not leave one open
                continue
            except ValueError:  # its words have parts of the URL in them, the password perhaps
                raise _unreadable_url() from None
            except _from_below() as error:
                if self._closed:
                    raise store_closed(f"at {self.place}") from error
                if not _is_passing(error) or clock() >= give_up:
                    raise self._unavailable(error) from error
            await asyncio.sleep(pause)
            pause = min(2 * pause, 1.0)

    async def _release(self, connection: Any) -> None:
        try:
            await self._pool.release(connection)
        except _from_below():
            pass  # it is broken, and the pool has let it go

    def _unavailable(self, error: Exception, *, writing: bool = False) -> StoreUnavailable:
        said = getattr(error, "message", None) or str(error) or type(error).__name__
        if writing and _is_passing(error):
            return StoreUnavailable(
                f"PostgreSQL at {self.place} was lost while something was being written, and "
                f"whether it was written is not known: {said}",
                hint="open the session again and go on from what is stored",
            )
        return StoreUnavailable(f"PostgreSQL at {self.place} cannot be used: {said}")


def sql(statement: str) -> str:
    """A statement of `tables` as PostgreSQL wants it."""
    return in_dialect(statement, POSTGRES)


@cache
def driver() -> Any:
    """The module `asyncpg`. Raises `MissingExtra`."""
    try:
        return importlib.import_module("asyncpg")
    except ImportError as error:
        raise MissingExtra(
            "sessions in PostgreSQL need asyncpg, which is not installed",
            hint='pip install "loopwright[postgres]"',
        ) from error


@cache
def _from_below() -> tuple[type[Exception], ...]:
    """What comes out of the driver and the sockets below it."""
    asyncpg = driver()
    return (asyncpg.PostgresError, asyncpg.InterfaceError, asyncpg.InternalClientError, OSError)


def _is_passing(error: Exception) -> bool:
    """The connection is gone or could not be made: another one, later, may do."""
    asyncpg = driver()
    return not isinstance(error, ValueError) and isinstance(
        error,
        (
            asyncpg.PostgresConnectionError,
            asyncpg.AdminShutdownError,
            asyncpg.CrashShutdownError,
            asyncpg.CannotConnectNowError,
            asyncpg.TooManyConnectionsError,
            asyncpg.IdleInTransactionSessionTimeoutError,
            asyncpg.InterfaceError,
            asyncpg.InternalClientError,
            OSError,  # TimeoutError is one
        ),
    )


def _place(url: str) -> str:
    """Where *url* leads, for messages: never who goes there, nor with which password."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _unreadable_url() from None
    # An @ further on means that what stands before it was not told from the password.
    if parts.scheme not in ("postgresql", "postgres") or "@" in parts.path or parts.fragment:
        raise _unreadable_url()
    host = parts.hostname or "the default address"
    return f"{host}:{port}{parts.path}" if port else f"{host}{parts.path}"


def _unreadable_url() -> StoreUnavailable:
    return StoreUnavailable("the URL of the database cannot be read", hint=_URL_HINT)
