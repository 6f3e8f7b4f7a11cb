"""The arguments of one tool call over every wire, in small events, or whole where a vendor does so."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from ..measure import in_turns
from ..report import Row
from ..sizes import Sizes
from ..subject import Peer, Work
from ..wire_bodies import argument_text
from ..wire_models import available_wires, models_of, our_stream
from ..wire_server import WireServer, wire_server

__all__ = ["measure"]


def measure(peers: Sequence[Peer], sizes: Sizes) -> list[Row]:
    """The rows of this work; only ours is asked."""
    with wire_server() as server:
        return asyncio.run(_measure(sizes, server))


async def _measure(sizes: Sizes, server: WireServer) -> list[Row]:
    small, large = sizes.argument_bytes, sizes.argument_bytes * 4
    lengths = {size: len(argument_text(size)) for size in (small, large)}
    wires = available_wires()
    contestants: dict[str, tuple[Work, int]] = {}
    async with models_of() as models:
        for wire in wires:
            for size, length in lengths.items():
                url = server.url("bursts", wire, "call", size)
                work = our_stream(models, wire, url, kind="call")
                contestants[f"{wire} {size}"] = (work, length)
        for work, _ in contestants.values():
            await work()
        best = await in_turns(contestants, sizes.wire_rounds)
    longer = lengths[large] / lengths[small]
    return [
        Row(
            f"{wire}, cost of a KB of arguments, {large / 1000:,.0f} KB against {small / 1000:,.0f}",
            "times",
            {"loopwright": best[f"{wire} {large}"] / best[f"{wire} {small}"] / longer},
            at_most=1.2,
            note=f"{best[f'{wire} {small}'] * 1e3:.1f} ms for the smaller",
        )
        for wire in wires
    ]
