"""The arguments of one tool call, in small deltas."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import msgspec

from .. import bare
from ..measure import interleaved
from ..report import Row
from ..sizes import Sizes
from ..subject import Ask, Counter, Peer, Say, Work

__all__ = ["measure"]

_PIECE = 20


def measure(peers: Sequence[Peer], sizes: Sizes) -> list[Row]:
    """The rows of this work."""
    small, large = _arguments(sizes.argument_bytes), _arguments(sizes.argument_bytes * 4)
    contestants: dict[str, tuple[Callable[[], Work], int]] = {
        "bare": (partial(bare.tool_arguments, small, _PIECE), len(small))
    }
    for peer in peers:
        contestants[peer.name] = (partial(_one_call, peer, small), len(small))
        contestants[f"{peer.name} large"] = (partial(_one_call, peer, large), len(large))
    best = interleaved(contestants, sizes.rounds)
    size = f"{len(small) / 1000:,.0f} KB of tool arguments in {_PIECE}-character deltas"
    longer = len(large) / len(small)
    return [
        Row(
            size,
            "seconds",
            {peer.name: best[peer.name] for peer in peers},
            at_most=0.06,
            note=f"bare {best['bare'] * 1000:.1f} ms",
            digits=3,
        ),
        Row(
            f"cost of a KB, {len(large) / 1000:,.0f} KB against {len(small) / 1000:,.0f}",
            "times",
            {p.name: best[f"{p.name} large"] / best[p.name] / longer for p in peers},
            at_most=1.2,
        ),
    ]


def _arguments(size: int) -> str:
    """Source code being written to a file: JSON with escapes, as such calls have."""
    line = "    print(\"line\", number, 'of', total)\n"
    content = line * (size // (len(line) + 3))  # three of its characters are escaped
    return msgspec.json.encode({"path": "main.py", "content": content}).decode()


def _one_call(peer: Peer, text: str) -> Work:
    """The model asks for a tool that takes text and gets what the tool says."""
    counter = Counter()
    script = [Say(calls=[Ask("write_file", text, _PIECE)]), Say("Done.", 5)]
    agent = peer.agent(script, {"write_file": write_file}, counter)

    async def work() -> int:
        await agent.prompt("Go.")
        assert counter.results == 1
        return counter.characters - len("Done.")

    return work


async def write_file(path: str, content: str) -> str:
    """Write a file."""
    return f"{len(content)} characters"
