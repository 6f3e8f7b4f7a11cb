"""Many agents side by side in one process, each with a listener.

A live reply brings its tokens one by one, so the row with one delta a network read is what a program
with many conversations meets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial

from .. import bare
from ..measure import interleaved
from ..report import Row
from ..sizes import Sizes
from ..subject import Counter, Peer, Say, Work

__all__ = ["measure"]

_PIECE = "word "
_READ = 20


def measure(peers: Sequence[Peer], sizes: Sizes) -> list[Row]:
    """The rows of this work."""
    agents, each = sizes.agents, sizes.deltas_each
    total = agents * each
    text = _PIECE * each
    kinds = {
        "": (Say(text, len(_PIECE)), 0.4),
        f", {_READ} a network read": (Say(text, len(_PIECE), per_read=_READ), 0.4),
        ", one a network read": (Say(text, len(_PIECE), per_read=1), 0.5),
    }
    contestants: dict[str, tuple[Callable[[], Work], int]] = {}
    for kind, (say, _) in kinds.items():
        contestants[f"bare{kind}"] = (partial(bare.side_by_side, agents, say), total)
        for peer in peers:
            contestants[f"{peer.name}{kind}"] = (partial(_side_by_side, peer, agents, say), total)
    best = interleaved(contestants, sizes.rounds)
    return [
        Row(
            f"{agents:,} agents side by side, {total:,} deltas{kind}",
            "of bare",
            {peer.name: best[f"bare{kind}"] / best[f"{peer.name}{kind}"] for peer in peers},
            at_least=target,
            note=f"{total / best[f'loopwright{kind}'] / 1000:,.0f} k/s, "
            f"bare {total / best[f'bare{kind}'] / 1000:,.0f} k/s",
        )
        for kind, (_, target) in kinds.items()
    ]


def _side_by_side(peer: Peer, agents: int, say: Say) -> Work:
    counter = Counter()
    made = [peer.agent([say], {}, counter) for _ in range(agents)]

    async def work() -> int:
        await asyncio.gather(*[agent.prompt("Go.") for agent in made])
        return counter.deltas

    return work
