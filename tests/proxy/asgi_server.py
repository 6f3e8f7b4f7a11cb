"""An ASGI app on a real HTTP server, in the test's own event loop."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from typing import Any

import uvicorn


class _Server(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Generator[None]:
        yield  # the test runner's signals are not ours


@asynccontextmanager
async def serving_app(app: Any) -> AsyncGenerator[str]:
    """The base URL of *app* for the length of the block."""
    config = uvicorn.Config(
        app, host="127.0.0.1", port=0, lifespan="off", log_config=None, ws="none",
        timeout_graceful_shutdown=1,
    )  # fmt: skip
    server = _Server(config)
    running = asyncio.create_task(server.serve())
    try:
        while not server.started:
            await asyncio.sleep(0.005)
        port = server.servers[0].sockets[0].getsockname()[1]
        yield f"http://127.0.0.1:{port}"
    finally:
        server.should_exit = True
        await running
