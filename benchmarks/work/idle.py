"""What many idle agents hold: the memory between before they were made and when all are done.

Each has answered prompts until its transcript is as long as asked, so that what a run leaves
behind counts, too. What the stand-in for the model keeps does not: replies that come in reads
(`per_read`) are forgotten once said.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ..processes import ask_fresh_process
from ..report import Row
from ..sizes import Sizes
from ..subject import Counter, Peer, Say

__all__ = ["grown_agents", "measure", "resident_bytes"]

_ANSWER = "Here is the answer to your question."

_MEASURE = """
import asyncio, gc, json, sys, tracemalloc
from benchmarks.peers import load_peer
from benchmarks.work.idle import grown_agents, resident_bytes

name, agents, messages, how = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
peer = load_peer(name)[0]
asyncio.run(grown_agents(peer, 2, messages))
gc.collect()
if how == "traced":
    tracemalloc.start()
    held = asyncio.run(grown_agents(peer, agents, messages))
    gc.collect()
    print(tracemalloc.get_traced_memory()[0])
else:
    before = resident_bytes()
    held = asyncio.run(grown_agents(peer, agents, messages))
    gc.collect()
    print(resident_bytes() - before)
"""


def measure(peers: Sequence[Peer], sizes: Sizes) -> list[Row]:
    """The rows of this work."""
    return [_row(peers, sizes, "traced"), _row(peers, sizes, "resident")]


def _row(peers: Sequence[Peer], sizes: Sizes, how: str) -> Row:
    sized = (str(sizes.idle_agents), str(sizes.idle_messages), how)
    work = f"{sizes.idle_agents:,} idle agents with {sizes.idle_messages} messages each"
    return Row(
        f"{work}, {how}",
        "MB",
        {
            peer.name: ask_fresh_process(_MEASURE, peer.name.replace("-", "_"), *sized) / 1e6
            for peer in peers
        },
        at_most=12,
        digits=1,
    )


async def grown_agents(peer: Peer, agents: int, messages: int) -> list[Any]:
    """Agents that have done their work and wait."""
    made: list[Any] = []
    for _ in range(agents):
        say = Say(_ANSWER, len(_ANSWER), per_read=1)
        script = [say for _ in range(messages // 2)]
        agent = peer.agent(script, {}, Counter(), "no")
        for turn in range(messages // 2):
            await agent.prompt(f"A question, number {turn}.")
        made.append(agent)
    return made


def resident_bytes() -> int:
    """Memory of this process that lies in the machine's; 0 where that cannot be read."""
    try:
        fields = Path("/proc/self/statm").read_text(encoding="ascii").split()
    except OSError:
        return 0
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")
