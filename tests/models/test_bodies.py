"""Bodies without end, and small ones that unpack to large ones: bounded, told, and never retried."""

from __future__ import annotations

import asyncio
import gzip
import subprocess
import sys
import textwrap
import zlib

import pytest

from loopwright.models import bodies, sse
from loopwright.stream import Error, Retry
from loopwright.stream.builder import MAX_BLOCKS

from .fault_server import Connection, Step, answer, event, said, serving, stream
from .test_faults_every_wire import (
    CONTEXT,
    VENDORS,
    models_for,
    no_account_of_this_machine,  # noqa: F401
)

SMALL = 1024 * 1024


def endless(head: bytes, piece: bytes, *, status: int = 200, closed: asyncio.Event) -> Step:
    """*head*, and then *piece* until the other side has enough."""

    async def step(connection: Connection) -> None:
        await connection.head(status, content_type="text/event-stream")
        await connection.write(head)
        try:
            while True:
                await connection.write(piece)
        except ConnectionError:
            closed.set()

    return step


def raw_deflate(body: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


# -- unpacking ---------------------------------------------------------------------------------

HALF = len(b"".join(said("Hel", "lo"))) // 2
PACKED = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "deflate, without its wrapping": raw_deflate,
    "identity": bytes,
    "none": bytes,
    "UTF-8": bytes,
    "gzip, identity": gzip.compress,
    "gzip, utf-8": gzip.compress,
    "deflate, gzip": lambda body: gzip.compress(zlib.compress(body)),
    "gzip, in two members": lambda body: gzip.compress(body[:HALF]) + gzip.compress(body[HALF:]),
    "gzip, with padding": lambda body: gzip.compress(body) + b"\0" * 20,
}


@pytest.mark.parametrize("cut", [1, 7, 100_000])
@pytest.mark.parametrize("way", PACKED)
async def test_what_a_vendor_may_pack_is_unpacked_however_it_is_cut(way: str, cut: int) -> None:
    coding = way.split(", with")[0].split(", in")[0]
    packed = PACKED[way](b"".join(said("Hel", "lo")))
    pieces = [packed[at : at + cut] for at in range(0, len(packed), cut)]

    async with (
        serving(stream(*pieces, content_encoding=coding)) as server,
        models_for("openai-chat", server) as models,
    ):
        message = await models.complete("acme/large", CONTEXT)

    assert (message.text, message.stop_reason) == ("Hello", "stop"), message.error_message
    assert server.requests[0].headers["accept-encoding"] == "gzip, deflate"


async def test_a_text_much_larger_than_its_packing_is_whole() -> None:
    """More than is unpacked at a time, several times over."""
    text = "abcdefgh" * (bodies.UNPACKED_BYTES // 2)
    packed = gzip.compress(b"".join(said(text, "end")))

    async with (
        serving(stream(packed, content_encoding="gzip")) as server,
        models_for("openai-chat", server) as models,
    ):
        message = await models.complete("acme/large", CONTEXT)

    assert message.text == text + "end"


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip, gzip, gzip"])
async def test_a_coding_nobody_asked_for_is_named(coding: str) -> None:
    async with (
        serving(stream(b"\x1b\x00\x00", content_encoding=coding)) as server,
        models_for("openai-chat", server) as models,
    ):
        message = await models.complete("acme/large", CONTEXT)

    assert message.stop_reason == "error"
    assert f"packed as {coding!r}" in (message.error_message or "")
    assert len(server.requests) == 1


@pytest.mark.parametrize("api", VENDORS)
async def test_a_coding_nobody_asked_for_is_named_and_not_asked_for_again_by_any_wire(
    api: str,
) -> None:
    async with (
        serving(stream(b"\x1b\x00\x00", content_encoding="br")) as server,
        models_for(api, server) as models,
    ):
        message = await models.complete("acme/large", CONTEXT)

    assert (message.error_message or "").startswith("acme/large: the answer is packed as 'br'")
    assert len(server.requests) == 1


async def test_an_error_packed_so_that_nobody_can_read_it_still_has_its_status() -> None:
    async with (
        serving(answer(402, b"\x1b\x00\x00", content_encoding="br")) as server,
        models_for("openai-chat", server) as models,
    ):
        message = await models.complete("acme/large", CONTEXT)

    assert "HTTP 402" in (message.error_message or "")


async def test_what_cannot_be_unpacked_is_told_with_what_came_before() -> None:
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    begun = packer.compress(event({"content": "Par"})) + packer.flush(zlib.Z_SYNC_FLUSH)
    async with (
        serving(stream(begun, b"\xff" * 100, content_encoding="gzip")) as server,
        models_for("openai-chat", server) as models,
    ):
        message = await models.complete("acme/large", CONTEXT)

    assert (message.text, message.stop_reason) == ("Par", "error")
    assert "cannot be unpacked" in (message.error_message or "")


# -- limits ------------------------------------------------------------------------------------


@pytest.mark.parametrize("api", VENDORS)
async def test_a_reply_without_end_is_one_error_with_the_text_and_the_connection_closed(
    api: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bodies, "LARGEST_REPLY_BYTES", SMALL)
    closed = asyncio.Event()
    vendor = VENDORS[api]
    begun = vendor.begun("abc" * 1000)
    async with (
        serving(endless(b"".join(begun), begun[-1], closed=closed)) as server,
        models_for(api, server) as models,
    ):
        events = [event async for event in models.stream("acme/large", CONTEXT)]
        await asyncio.wait_for(closed.wait(), 30)

    last = events[-1]
    assert isinstance(last, Error)
    assert not last.retryable
    assert (last.kind, last.error.stop_reason) == ("wire", "error")
    assert SMALL // 2 < len(last.error.text) < SMALL
    told = last.error.error_message or ""
    assert told.startswith("acme/large: the reply is larger than 1 MiB")
    assert "max_tokens" in told
    assert len(server.requests) == 1


async def test_more_calls_than_any_model_makes_are_one_error_with_the_text() -> None:
    calls = [
        {"index": n, "id": f"c{n}", "function": {"name": "f", "arguments": "{}"}}
        for n in range(MAX_BLOCKS + 1)
    ]
    body = [event({"content": "Hello"}), event({"tool_calls": calls}), *said("")]
    async with serving(stream(*body)) as server, models_for("openai-chat", server) as models:
        message = await models.complete("acme/large", CONTEXT)

    assert message.stop_reason == "error"
    assert message.text == "Hello"
    assert "more than 10,000 blocks" in (message.error_message or "")
    assert len(server.requests) == 1


async def test_small_replies_do_not_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bodies, "LARGEST_REPLY_BYTES", 2000)
    async with (
        serving(*[stream(*said("x" * 800)) for _ in range(5)]) as server,
        models_for("openai-chat", server) as models,
    ):
        for _ in range(5):
            message = await models.complete("acme/large", CONTEXT)
            assert message.stop_reason == "stop", message.error_message


HEADS = {
    "line": b"data: ",
    "event of many lines": b"data: a\n",
    "line with CRLF before it": b": hello\r\n\r\ndata: ",
    "body that is no stream": b'{"choices":[{"message":{"content":"',
}


@pytest.mark.parametrize("what", HEADS)
async def test_an_event_without_end_is_one_error_with_the_text(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sse, "LARGEST_EVENT_BYTES", SMALL)
    closed = asyncio.Event()
    piece = b"data: more\n" * 5000 if "lines" in what else b"a" * 50_000
    said_before = what != "body that is no stream"
    head = (event({"content": "Par"}) if said_before else b"") + HEADS[what]
    async with (
        serving(endless(head, piece, closed=closed)) as server,
        models_for("openai-chat", server) as models,
    ):
        events = [event async for event in models.stream("acme/large", CONTEXT)]
        await asyncio.wait_for(closed.wait(), 30)

    last = events[-1]
    assert isinstance(last, Error)
    assert not last.retryable
    assert last.error.text == ("Par" if said_before else "")
    assert "acme/large: one event of the answer is larger than" in (last.error.error_message or "")
    assert len(server.requests) == 1


async def test_comments_without_end_are_no_event() -> None:
    splitter = sse.SseSplitter()
    comment = b": " + b"x" * SMALL + b"\n\n"

    for _ in range(2 * sse.LARGEST_EVENT_BYTES // SMALL):
        assert splitter.feed(comment) == []

    assert splitter.feed(b"data: a\n\n") == [b"a"]


@pytest.mark.parametrize("api", VENDORS)
async def test_the_body_of_an_error_is_cut_and_its_status_counts(api: str) -> None:
    closed = asyncio.Event()
    head = b'{"error":{"message":"no such model"}}'
    async with (
        serving(endless(head, b" " * 50_000, status=404, closed=closed)) as server,
        models_for(api, server) as models,
    ):
        message = await models.complete("acme/large", CONTEXT)
        await asyncio.wait_for(closed.wait(), 30)

    assert message.stop_reason == "error"
    assert "no such model" in (message.error_message or "")
    assert len(server.requests) == 1


async def test_the_body_of_an_error_that_drips_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(bodies, "FAULT_SECONDS", 0.05)
    held = asyncio.Event()

    async def step(connection: Connection) -> None:
        await connection.head(429, content_length="1000", retry_after="0")
        await connection.write(b"slow down")
        await held.wait()

    async with (
        serving(step, stream(*said("Hello"))) as server,
        models_for("openai-chat", server) as models,
    ):
        events = [event async for event in models.stream("acme/large", CONTEXT)]
        held.set()

    assert isinstance(events[0], Retry)
    assert "slow down" in events[0].error
    assert events[-1].type == "done"


@pytest.mark.parametrize("api", VENDORS)
async def test_the_status_of_an_error_counts_though_its_body_was_cut(api: str) -> None:
    async def step(connection: Connection) -> None:
        await connection.head(401, content_length="1000")
        await connection.write(b'{"error":{"message":"no such key"}}')
        connection.writer.close()

    async with serving(step) as server, models_for(api, server) as models:
        events = [event async for event in models.stream("acme/large", CONTEXT)]

    last = events[-1]
    assert isinstance(last, Error)
    assert last.kind == "auth"
    assert "no such key" in (last.error.error_message or "")
    assert len(server.requests) == 1


def test_a_bomb_takes_little_memory() -> None:
    """Half a gigabyte of one event in some kilobytes, since it is packed twice, read by a process of
    its own with the true limits; the least that could be is the limit of one event."""
    program = f"""
        import asyncio, gzip, resource, zlib
        from loopwright.messages import UserMessage
        from loopwright.models import Context, Models, Provider
        from tests.models.fault_server import Connection, serving

        packer = zlib.compressobj(1, wbits=zlib.MAX_WBITS | 16)
        raw = packer.compress(b"data: ")
        for _ in range(512):
            raw += packer.compress(b"a" * {SMALL})
        raw = gzip.compress(raw + packer.flush())

        async def bomb(connection: Connection) -> None:
            await connection.head(content_encoding="gzip, gzip", content_length=str(len(raw)))
            await connection.write(raw)

        def peak() -> int:
            return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        async def main() -> None:
            async with serving(bomb) as server:
                host = Provider.openai_compatible("acme", base_url=server.base_url)
                async with Models().add(host) as models:
                    before = peak()
                    message = await models.complete("acme/large", Context("", [UserMessage("x")]))
            print((peak() - before) // 1024, message.error_message)

        asyncio.run(main())
    """
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip

    megabytes, _, told = ran.stdout.partition(" ")
    assert "one event of the answer is larger than 64 MiB" in told
    assert int(megabytes) < 300
