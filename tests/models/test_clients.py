"""The HTTP client and the user's proxy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from loopwright.messages import UserMessage
from loopwright.models import Context, Models, Provider
from loopwright.models.clients import Clients

from .fault_server import serving, text_reply

CONTEXT = Context("", [UserMessage("Hi", 1)])


@asynccontextmanager
async def a_proxy() -> AsyncGenerator[tuple[str, list[bytes]]]:
    """A proxy that refuses everybody, and the first lines of what it was asked."""
    asked: list[bytes] = []

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readline())
        writer.write(b"HTTP/1.1 403 No\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
        writer.close()

    server = await asyncio.start_server(refuse, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", asked


@pytest.fixture
def no_exceptions_from_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.usefixtures("no_exceptions_from_the_proxy")
@pytest.mark.parametrize("name", ["HTTP_PROXY", "http_proxy", "ALL_PROXY"])
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_server_on_this_machine_is_reached_without_the_proxy(
    name: str, host: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with a_proxy() as (url, asked), serving(text_reply("Hello")) as server:
        monkeypatch.setenv(name, url)
        base_url = server.base_url.replace("127.0.0.1", host)
        async with Models([Provider.openai_compatible("acme", base_url=base_url)]) as models:
            message = await models.complete("acme/m", CONTEXT, max_retries=0)

    assert (message.text, asked) == ("Hello", [])


@pytest.mark.usefixtures("no_exceptions_from_the_proxy")
async def test_everybody_else_is_reached_through_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clients = Clients()
    async with a_proxy() as (url, asked):
        monkeypatch.setenv("HTTP_PROXY", url)
        answer = await (await clients.http()).get("http://models.invalid/")
        await clients.aclose()

    assert (answer.status_code, asked) == (403, [b"GET http://models.invalid/ HTTP/1.1\r\n"])
