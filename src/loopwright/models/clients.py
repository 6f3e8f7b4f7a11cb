"""HTTP clients: one for each event loop, and on it one SDK client for each endpoint and key.

A client belongs to the event loop it was first used on; using it on another fails, often only on
the second request. So clients are kept per loop. When a loop ends in an orderly way (`asyncio.run`
and everything built on `asyncio.Runner`) its clients are closed on it, before it is closed, so
that nothing is left for the garbage collector to complain about.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Hashable
from typing import TYPE_CHECKING, Any

from ..errors import MissingExtra

if TYPE_CHECKING:
    import httpx2

__all__ = ["Clients", "load_http_library"]

CONNECT_TIMEOUT_SECONDS = 15.0
READ_TIMEOUT_SECONDS = 600.0
"""Without a single byte: models may think for minutes before they say a word."""
LOOPBACK = ("all://localhost", "all://127.0.0.1", "all://[::1]")


class Clients:
    """All clients of one `Models`. Safe to use from several loops and threads at once."""

    def __init__(self) -> None:
        self._by_loop: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopClients] = (
            weakref.WeakKeyDictionary()
        )
        self._lock = threading.Lock()

    async def http(self) -> httpx2.AsyncClient:
        """The running loop's client. Raises `MissingExtra` if the HTTP library is not there."""
        return await (await self._here()).http()

    async def get(self, key: Hashable, make: Callable[[httpx2.AsyncClient], Any]) -> Any:
        """What *make* makes of the running loop's HTTP client; made once for each *key*."""
        here = await self._here()
        made = here.made.get(key)
        if made is None:
            made = here.made[key] = make(await here.http())
        return made

    async def aclose(self) -> None:
        """Close every client, those of other loops that still run as well. Idempotent; clients are
        made anew if they are wanted again."""
        with self._lock:
            everything = list(self._by_loop.items())
            self._by_loop.clear()
        running = asyncio.get_running_loop()
        for loop, clients in everything:
            if loop is running:
                await clients.aclose()
            elif loop.is_running():
                elsewhere = asyncio.run_coroutine_threadsafe(clients.aclose(), loop)
                try:
                    await asyncio.wait_for(asyncio.wrap_future(elsewhere), timeout=2.0)
                except TimeoutError:
                    continue  # that loop is busy; it closes them when it ends

    async def _here(self) -> _LoopClients:
        loop = asyncio.get_running_loop()
        with self._lock:
            clients = self._by_loop.get(loop)
            new = clients is None
            if clients is None:
                clients = self._by_loop[loop] = _LoopClients()
        if new:
            await clients.close_when_the_loop_ends()
        return clients


class _LoopClients:
    """The clients of one loop; used only on it."""

    __slots__ = ("_at_end", "_http", "made")

    def __init__(self) -> None:
        self.made: dict[Hashable, Any] = {}
        self._http: httpx2.AsyncClient | None = None
        self._at_end: AsyncGenerator[None, None] | None = None

    async def http(self) -> httpx2.AsyncClient:
        http = self._http
        if http is None:
            httpx2 = await load_http_library()
            http = self._http  # another task may have been quicker
            if http is None:
                from .bodies import ACCEPTED, bound_body

                http = self._http = httpx2.AsyncClient(
                    timeout=httpx2.Timeout(READ_TIMEOUT_SECONDS, connect=CONNECT_TIMEOUT_SECONDS),
                    limits=httpx2.Limits(max_connections=1000, max_keepalive_connections=100),
                    # A redirect could carry keys, headers and the conversation to another host.
                    follow_redirects=False,
                    # A proxy from the environment is for the world; it cannot reach this machine.
                    mounts=dict.fromkeys(LOOPBACK),
                    headers={"Accept-Encoding": ACCEPTED},
                    event_hooks={"response": [bound_body]},
                )
        return http

    async def close_when_the_loop_ends(self) -> None:
        # An event loop that shuts down closes the async generators that were started on it; one
        # that waits here, and does its work in `finally`, is told in time. There is no other hook.
        self._at_end = _call_at_end(self.aclose)
        await anext(self._at_end)

    async def aclose(self) -> None:
        self.made.clear()
        http, self._http = self._http, None
        if http is not None:
            await http.aclose()


async def _call_at_end(close: Callable[[], Awaitable[None]]) -> AsyncGenerator[None, None]:
    try:
        yield
    finally:
        await close()


_loaded: Any = None


async def load_http_library() -> Any:
    """The HTTP client library, imported in a thread the first time, since that takes a while."""
    global _loaded
    if _loaded is None:
        try:
            _loaded = await asyncio.to_thread(_import_http_library)
        except ImportError as error:
            raise MissingExtra(
                "requests to models need the HTTP library httpx2, which is not installed",
                hint="pip install 'loopwright[openai]'",
            ) from error
    return _loaded


def _import_http_library() -> Any:
    import httpx2

    return httpx2
