"""Many tools of one reply that wait at the same time: what is left of their time is overhead."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from .. import bare
from ..measure import interleaved
from ..report import Row
from ..sizes import Sizes
from ..subject import Ask, Counter, Peer, Say, Work

__all__ = ["measure"]


def measure(peers: Sequence[Peer], sizes: Sizes) -> list[Row]:
    """The rows of this work."""
    calls, seconds = sizes.calls, sizes.tool_seconds
    contestants: dict[str, tuple[Callable[[], Work], int]] = {
        "bare": (partial(bare.parallel_sleeps, calls, seconds), calls),
        **{peer.name: (partial(_calls, peer, calls, seconds), calls) for peer in peers},
    }
    # A round is short, and its overhead a small part of it that any disturbance swells.
    best = interleaved(contestants, sizes.rounds * 3, waits=True)
    over = {name: time - seconds for name, time in best.items()}
    return [
        Row(
            f"{calls:,} parallel tools of {seconds * 1000:g} ms, time over that",
            "of bare",
            {peer.name: over[peer.name] / over["bare"] for peer in peers},
            at_most=2.5,
            note=f"{over['loopwright'] * 1000:.1f} ms, bare {over['bare'] * 1000:.1f} ms",
        )
    ]


def _calls(peer: Peer, calls: int, seconds: float) -> Work:
    counter = Counter()

    async def wait(number: int) -> str:
        """Wait for a moment."""
        await asyncio.sleep(seconds)
        return "done"

    asked = [Ask("wait", f'{{"number":{number}}}') for number in range(calls)]
    agent = peer.agent([Say(calls=asked), Say("Done.")], {"wait": wait}, counter)

    async def work() -> int:
        await agent.prompt("Go.")
        return counter.results

    return work
