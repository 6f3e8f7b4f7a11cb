"""A long reply over every wire, from a real server, as the reader of the stream sees it.

What counts is the processor time of the reading process for an event: the server runs beside it,
and what the network takes is no matter of ours.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from contextlib import AsyncExitStack

from ..bare_wires import read_reply
from ..measure import in_turns
from ..report import Row
from ..sdk_streams import SDKS, sdk_stream
from ..sizes import Sizes
from ..subject import Peer, StreamingPeer, Work
from ..wire_bodies import MODES
from ..wire_models import available_wires, models_of, our_stream
from ..wire_server import WireServer, wire_server

__all__ = ["measure"]

_AT_MOST = {"bursts": 1.5, "singly": 1.3}
_IN_WORDS = {"bursts": "64 KB at a time", "singly": "each on its own"}
_SDK_AT_LEAST = {"openai": 20.0, "anthropic": 5.0}
_PEER_AT_LEAST = 2.0


def measure(peers: Sequence[Peer], sizes: Sizes) -> list[Row]:
    """The rows of this work."""
    with wire_server() as server:
        return asyncio.run(_measure(peers, sizes, server))


async def _measure(peers: Sequence[Peer], sizes: Sizes, server: WireServer) -> list[Row]:
    rows: list[Row] = []
    async with AsyncExitStack() as until:
        for wire in available_wires():
            print(f"... wires: {wire}", file=sys.stderr, flush=True)
            rows += await _one_wire(wire, peers, sizes, server, until)
    return rows


async def _one_wire(
    wire: str, peers: Sequence[Peer], sizes: Sizes, server: WireServer, until: AsyncExitStack
) -> list[Row]:
    import httpx2

    http = await until.enter_async_context(httpx2.AsyncClient())
    models = await until.enter_async_context(models_of())
    contestants: dict[str, tuple[Work, int]] = {}
    for mode in MODES:
        url = server.url(mode, wire, "text", sizes.wire_events)
        contestants[f"bare {mode}"] = (read_reply(http, url, wire), sizes.wire_events)
        contestants[f"loopwright {mode}"] = (our_stream(models, wire, url), sizes.wire_events)
    few = server.url("bursts", wire, "text", sizes.sdk_events)
    if wire in SDKS:
        contestants["sdk"] = (await sdk_stream(wire, few, until), sizes.sdk_events)
    others: list[str] = []
    for peer in peers:
        work = peer.stream(wire, few) if isinstance(peer, StreamingPeer) else None
        if work is not None:
            others.append(peer.name)
            contestants[peer.name] = (work, sizes.sdk_events)
    for work, _ in contestants.values():  # imports, connections, the server's bodies
        await work()
    best = await in_turns(contestants, sizes.wire_rounds)
    each = {name: best[name] / count for name, (_, count) in contestants.items()}
    return _rows(wire, each, others)


def _rows(wire: str, each: dict[str, float], others: list[str]) -> list[Row]:
    """*each*: seconds of processor time an event."""
    rows: list[Row] = []
    for mode in MODES:
        bare, ours = each[f"bare {mode}"], each[f"loopwright {mode}"]
        measured = {"loopwright": ours / bare}
        if mode == "bursts":
            measured.update({name: each[name] / bare for name in others})
        rows.append(
            Row(
                f"{wire}, events {_IN_WORDS[mode]}",
                "of bare",
                measured,
                at_most=_AT_MOST[mode],
                note=f"{ours * 1e6:.2f} \u00b5s an event, bare {bare * 1e6:.2f}",
            )
        )
    ours = each["loopwright bursts"]
    if "sdk" in each:
        sdk = SDKS[wire]
        rows.append(
            Row(
                f"{wire}, the {sdk} SDK's own stream",
                "times ours",
                {"loopwright": each["sdk"] / ours},
                at_least=_SDK_AT_LEAST[sdk],
                note=f"{each['sdk'] * 1e6:.1f} \u00b5s an event",
                digits=1,
            )
        )
    rows += [
        Row(
            f"{wire}, the stream of {name}",
            "times ours",
            {"loopwright": each[name] / ours},
            at_least=_PEER_AT_LEAST,
            note=f"{each[name] * 1e6:.1f} \u00b5s an event",
            digits=1,
        )
        for name in others
    ]
    return rows
