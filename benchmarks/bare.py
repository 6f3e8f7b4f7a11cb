"""The references: the least that plain asyncio does for the same work.

They make the same event objects and call the same listener, but know no transcript, no abort, no
exact partials and no errors.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, cast

from loopwright.events import MessageUpdate
from loopwright.stream import TextDelta, ToolCallDelta

from .peers.loopwright import async_listener, sync_listener
from .subject import Counter, Listening, Say, Work

__all__ = ["parallel_sleeps", "side_by_side", "text_deltas", "tool_arguments"]

# Events of the agent hold the draft that they belong to; here anything will do.
_NO_DRAFT = cast("Any", "")


async def _generate(pieces: list[str], per_read: int | None) -> AsyncGenerator[MessageUpdate, None]:
    for position, piece in enumerate(pieces, 1):
        yield MessageUpdate(TextDelta(0, piece, _NO_DRAFT, position))
        if per_read and position % per_read == 0:
            await asyncio.sleep(0)


async def _consume(say: Say, listener: Any, listening: Listening) -> None:
    if listening == "async":
        async for event in _generate(say.pieces, say.per_read):
            await listener(event, None)
    else:
        async for event in _generate(say.pieces, say.per_read):
            listener(event, None)


def text_deltas(say: Say, listening: Listening = "sync") -> Work:
    """One async generator that makes the events, one loop that calls the listener."""

    async def work() -> int:
        counter = Counter()
        listener = (async_listener if listening == "async" else sync_listener)(counter)
        await _consume(say, listener, listening)
        return counter.deltas

    return work


def side_by_side(agents: int, say: Say) -> Work:
    """As many generators at once, each in a task of its own."""

    async def work() -> int:
        counter = Counter()
        listener = sync_listener(counter)
        await asyncio.gather(*[_consume(say, listener, "sync") for _ in range(agents)])
        return counter.deltas

    return work


def tool_arguments(text: str, piece: int) -> Work:
    """The events of a call's argument text; the text joined and parsed once."""
    import msgspec

    pieces = [text[i : i + piece] for i in range(0, len(text), piece)]

    async def generate() -> AsyncGenerator[MessageUpdate, None]:
        for position, part in enumerate(pieces):
            yield MessageUpdate(ToolCallDelta(0, part, _NO_DRAFT, position))

    async def work() -> int:
        counter = Counter()
        listener = sync_listener(counter)
        async for event in generate():
            listener(event, None)
        msgspec.json.decode("".join(pieces))
        return counter.characters

    return work


def parallel_sleeps(calls: int, seconds: float) -> Work:
    """As many tasks that sleep, and one that waits for all."""

    async def sleep() -> int:
        await asyncio.sleep(seconds)
        return 1

    async def work() -> int:
        tasks = [asyncio.create_task(sleep()) for _ in range(calls)]
        return sum(await asyncio.gather(*tasks))

    return work
