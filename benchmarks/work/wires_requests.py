"""The way to the vendor: a long transcript as a request, and the next turn's request after it."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from loopwright.messages import (
    AssistantMessage,
    Message,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from loopwright.models import Context, Models, ToolSpec
from loopwright.models.handoff import SendableTranscript

from ..measure import in_turns
from ..report import Row
from ..sizes import Sizes
from ..subject import Peer, Work
from ..wire_models import available_wires, model_at, models_of
from ..wire_server import WireServer, wire_server

__all__ = ["measure"]

_MOST_MS = 5.0
_NEXT_AT_MOST = 0.25
_LINE = "The quick brown fox jumps over the lazy dog, again and again. "

_TOOLS = [
    ToolSpec(
        f"tool_{n}",
        "Do something with a file.",
        {
            "type": "object",
            "properties": {"path": {"type": "string"}, "lines": {"type": "integer"}},
            "required": ["path"],
        },
    )
    for n in range(10)
]


def measure(peers: Sequence[Peer], sizes: Sizes) -> list[Row]:
    """The rows of this work; only ours is asked."""
    with wire_server() as server:
        return asyncio.run(_measure(sizes, server))


async def _measure(sizes: Sizes, server: WireServer) -> list[Row]:
    rows: list[Row] = []
    async with models_of() as models:
        for wire in available_wires():
            rows += await _one_wire(wire, models, sizes, server)
    return rows


async def _one_wire(wire: str, models: Models, sizes: Sizes, server: WireServer) -> list[Row]:
    url = server.url("bursts", wire, "text", 1)
    history = _transcript(wire, sizes.history)
    growing = _transcript(wire, sizes.history)
    transcript = SendableTranscript(model_at(wire, url))
    transcript.extend(growing)

    def ask(messages: Sequence[Message]) -> Any:
        return _ask(models, wire, url, messages)

    async def first() -> int:
        return await ask(list(history))

    async def shortest() -> int:
        return await ask(history[:1])

    async def following() -> int:
        transcript.extend(_turn(wire, len(growing)))
        return await ask(transcript.view())

    contestants: dict[str, tuple[Work, int]] = {
        "first": (first, 1),
        "shortest": (shortest, 1),
        "following": (following, 1),
    }
    for work, _ in contestants.values():
        await work()
    best = await in_turns(contestants, sizes.wire_rounds * 3)
    encoded = best["first"] - best["shortest"]
    return [
        Row(
            f"{wire}, a request of {sizes.history} messages",
            "ms",
            {"loopwright": encoded * 1e3},
            at_most=_MOST_MS,
            note=f"above one of 1 message, which takes {best['shortest'] * 1e3:.2f} ms",
        ),
        Row(
            f"{wire}, the next turn's request",
            "of the first",
            {"loopwright": max(0.0, best["following"] - best["shortest"]) / encoded},
            at_most=_NEXT_AT_MOST,
        ),
    ]


async def _ask(models: Models, wire: str, url: str, messages: Sequence[Message]) -> int:
    """Ask, and read the reply of one word. Returns how many blocks it has."""
    options = {"aws_region": "us-east-1"} if wire == "bedrock-converse" else {}
    context = Context("You are helpful.", messages, _TOOLS)
    reply = await models.complete(model_at(wire, url), context, **options)
    if reply.error_message:
        raise RuntimeError(f"our own request failed: {reply.error_message}")
    return len(reply.content)


def _transcript(wire: str, length: int) -> list[Message]:
    messages: list[Message] = [UserMessage(_LINE, 0)]
    while len(messages) < length:
        messages += _turn(wire, len(messages))
    return [*messages[: length - 1], UserMessage("Go on.", 0)]


def _turn(wire: str, n: int) -> list[Message]:
    call = ToolCall(f"call_{n}", f"tool_{n % 10}", {"path": f"src/file_{n}.py", "lines": n})
    said = TextContent(f"{n}: {_LINE}")
    return [
        AssistantMessage([said, call], wire, wire, "some", stop_reason="toolUse"),
        ToolResultMessage(call.id, call.name, [TextContent(_LINE * 6)], timestamp=0),
    ]
