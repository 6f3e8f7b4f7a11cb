"""Many turns of one tool call each, in one prompt."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from pydantic import BaseModel

from loopwright import Agent, AgentTool, AgentToolResult
from loopwright.messages import TextContent
from loopwright.testing import Call, Reply, ScriptedModel

from ..measure import interleaved
from ..peers.loopwright import sync_listener
from ..report import Row
from ..sizes import Sizes
from ..subject import Ask, Counter, Peer, Say, Work

__all__ = ["measure"]


def measure(peers: Sequence[Peer], sizes: Sizes) -> list[Row]:
    """The rows of this work."""
    turns, few, many = sizes.turns, sizes.fewer_turns, sizes.more_turns
    contestants: dict[str, tuple[Callable[[], Work], int]] = {
        "class": (partial(_with_a_class_tool, turns), turns)
    }
    for peer in peers:
        for count in (turns, few, many):
            if count == many and peer.name != "loopwright":
                continue  # several of them grow with the transcript; it would take minutes
            contestants[f"{peer.name} {count}"] = (partial(_turns, peer, count), count)
    best = interleaved(contestants, sizes.rounds)
    growth = best[f"loopwright {many}"] / many * few / best[f"loopwright {few}"]
    return [
        Row(
            f"{turns:,} turns of one call of a function tool",
            "turns/s",
            {peer.name: turns / best[f"{peer.name} {turns}"] for peer in peers},
            at_least=7_000,
            digits=0,
        ),
        Row(
            f"{turns:,} turns of one call of a class tool",
            "turns/s",
            {"loopwright": turns / best["class"]},
            at_least=7_000,
            digits=0,
        ),
        Row(
            f"cost of a turn, {many:,} against {few:,}",
            "times",
            {"loopwright": growth},
            at_most=1.3,
        ),
        Row(
            f"cost of a turn, {turns:,} against {few:,}",
            "times",
            {
                p.name: best[f"{p.name} {turns}"] / turns * few / best[f"{p.name} {few}"]
                for p in peers
            },
        ),
    ]


async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


def _turns(peer: Peer, turns: int) -> Work:
    counter = Counter()
    script = [Say(calls=[Ask("add", f'{{"a":{turn},"b":25}}')]) for turn in range(turns)]
    agent = peer.agent([*script, Say("Done.")], {"add": add}, counter)

    async def work() -> int:
        await agent.prompt("Go.")
        return counter.results

    return work


class _Sum(BaseModel):
    a: int
    b: int


class _Add(AgentTool[_Sum, Any]):
    name = "add"
    description = "Add two numbers."

    async def execute(
        self, tool_call_id: str, params: _Sum, signal: Any = None, on_update: Any = None
    ) -> AgentToolResult:
        return AgentToolResult([TextContent(str(params.a + params.b))])


def _with_a_class_tool(turns: int) -> Work:
    counter = Counter()
    replies = [Reply(calls=[Call("add", {"a": turn, "b": 25})]) for turn in range(turns)]
    model = ScriptedModel([*replies, Reply("Done.")])
    agent = Agent(model.model, stream_fn=model.stream_fn, tools=[_Add()])
    agent.subscribe(sync_listener(counter))

    async def work() -> int:
        await agent.prompt("Go.")
        return counter.results

    return work
