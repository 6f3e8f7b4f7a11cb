"""A small HTTP server of our own that answers as told, faults included.

Each request takes the next step of the script. A step is an async function that is given the
connection and may write whatever bytes it likes, wait, or break off.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Request:
    """What came in; header names in lower case."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> dict[str, Any]:
        return json.loads(self.body)


@dataclass
class Connection:
    """One request and the way back to its sender."""

    request: Request
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def write(self, *chunks: bytes) -> None:
        for chunk in chunks:
            self.writer.write(chunk)
            await self.writer.drain()

    async def head(self, status: int = 200, /, **headers: str) -> None:
        lines = [f"HTTP/1.1 {status} Whatever"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        await self.write(("\r\n".join(lines) + "\r\n\r\n").encode())

    async def body(self, *pieces: bytes) -> None:
        """Pieces in HTTP chunks of their own, so that the client reads them one by one."""
        for piece in pieces:
            await self.write(b"%x\r\n%b\r\n" % (len(piece), piece))
            await asyncio.sleep(0)

    async def end(self) -> None:
        await self.write(b"0\r\n\r\n")

    async def closed_by_client(self) -> None:
        """Wait until the other side has closed the connection."""
        while await self.reader.read(1024):
            pass

    def reset(self) -> None:
        """Break the connection without a farewell."""
        self.writer.transport.abort()


Step = Callable[[Connection], Awaitable[None]]


@dataclass
class FaultServer:
    """A running server; `script` may grow while it runs."""

    script: list[Step]
    requests: list[Request] = field(default_factory=list)
    connections: int = 0
    base_url: str = ""

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                request = await _read_request(reader)
                if request is None:
                    return
                self.requests.append(request)
                step = self.script.pop(0) if self.script else refuse
                await step(Connection(request, reader, writer))
        except (ConnectionError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()


async def _read_request(reader: asyncio.StreamReader) -> Request | None:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    lines = head.split("\r\n")
    headers = {
        name.strip().lower(): value.strip()
        for name, _, value in (line.partition(":") for line in lines[1:] if line)
    }
    body = await reader.readexactly(int(headers.get("content-length", "0")))
    return Request(lines[0].split(" ")[1], headers, body)


@asynccontextmanager
async def serving(*script: Step) -> AsyncGenerator[FaultServer]:
    """A server for the length of the block."""
    server = FaultServer(list(script))
    handlers: set[asyncio.Task[None]] = set()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        handlers.add(task)
        try:
            await server._serve(reader, writer)
        except asyncio.CancelledError:
            writer.transport.abort()
        finally:
            handlers.discard(task)

    listening = await asyncio.start_server(handle, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    server.base_url = f"http://127.0.0.1:{port}/v1"
    try:
        yield server
    finally:
        listening.close()
        for task in list(handlers):
            task.cancel()
        if handlers:
            await asyncio.wait(list(handlers))
        await listening.wait_closed()


# -- steps -------------------------------------------------------------------------------------


async def refuse(connection: Connection) -> None:
    await answer(599, {"error": {"message": "the script of the test server is used up"}})(
        connection
    )


def answer(status: int, body: Any, **headers: str) -> Step:
    """One whole answer; *body* is JSON unless it is bytes."""

    async def step(connection: Connection) -> None:
        raw = body if isinstance(body, bytes) else json.dumps(body).encode()
        headers.setdefault("content_type", "application/json")
        await connection.head(status, content_length=str(len(raw)), **headers)
        await connection.write(raw)

    return step


def stream(*pieces: bytes, end: bool = True, **headers: str) -> Step:
    """An event stream, each piece in an HTTP chunk of its own."""

    async def step(connection: Connection) -> None:
        await connection.head(
            content_type="text/event-stream", transfer_encoding="chunked", **headers
        )
        await connection.body(*pieces)
        if end:
            await connection.end()

    return step


def zipped(body: bytes) -> Step:
    """An event stream under gzip, cut in three."""
    raw = gzip.compress(body)
    third = len(raw) // 3
    return stream(raw[:third], raw[third : 2 * third], raw[2 * third :], content_encoding="gzip")


# -- bodies ------------------------------------------------------------------------------------


def event(delta: dict[str, Any] | None = None, finish: str | None = None, **more: Any) -> bytes:
    """One chunk of Chat Completions."""
    choice = {"index": 0, "delta": delta or {}, "finish_reason": finish}
    return b"data: " + json.dumps({"id": "r1", "choices": [choice], **more}).encode() + b"\n\n"


DONE = b"data: [DONE]\n\n"
USAGE = (
    b'data: {"choices":[],"usage":{"prompt_tokens":10,"completion_tokens":2,"total_tokens":12}}\n\n'
)


def said(*pieces: str, finish: str = "stop") -> list[bytes]:
    """A whole reply that says *pieces*."""
    return [*(event({"content": piece}) for piece in pieces), event({}, finish), USAGE, DONE]


def text_reply(text: str) -> Step:
    """A well-behaved streamed reply."""
    return stream(*said(text))


def joined(pieces: Iterable[bytes]) -> bytes:
    return b"".join(pieces)
