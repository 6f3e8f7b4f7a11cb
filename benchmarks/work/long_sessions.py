"""What a turn costs in a session that grew long, and while many messages wait to be heard.

The sessions are in memory: what a disk takes is measured by `sessions`, and does not grow.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from loopwright import Agent, Harness
from loopwright.session import MemoryStore
from loopwright.testing import Call, Reply, ScriptedModel

from ..measure import interleaved
from ..report import Row
from ..sizes import Sizes
from ..subject import Peer, Work

__all__ = ["measure"]


def measure(peers: Sequence[Peer], sizes: Sizes) -> list[Row]:
    """The rows of this work."""
    long, short = sizes.durable_turns, sizes.fewer_durable_turns
    many, few = sizes.queued, sizes.fewer_queued
    contestants: dict[str, tuple[Callable[[], Work], int]] = {
        "turns long": (partial(_turns, long), long),
        "turns short": (partial(_turns, short), short),
        "prompts long": (partial(_prompts, long), long),
        "prompts short": (partial(_prompts, short), short),
        "queued many": (partial(_queued, many), many),
        "queued few": (partial(_queued, few), few),
    }
    best = interleaved(contestants, min(sizes.rounds, 3))

    def row(work: str, more: str, count: int, less: str, fewer: int, at_most: float) -> Row:
        each = best[more] / count
        return Row(
            work,
            "times",
            {"loopwright": each / (best[less] / fewer)},
            at_most=at_most,
            note=f"{each * 1e3:.2f} ms",
        )

    return [
        row(
            f"a turn of one call in a session, {long:,} of them against {short:,}",
            *("turns long", long, "turns short", short, 1.3),
        ),
        row(
            f"a prompt and its reply in a session, {long:,} of them against {short:,}",
            *("prompts long", long, "prompts short", short, 2.0),
        ),
        row(
            f"hearing a queued message, {many:,} of them against {few:,}",
            *("queued many", many, "queued few", few, 1.5),
        ),
    ]


async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


def _agent(replies: list[Reply]) -> tuple[Agent[Any], ScriptedModel]:
    model = ScriptedModel(replies)
    return Agent(model.model, stream_fn=model.stream_fn, tools=[add]), model


def _turns(count: int) -> Work:
    calls = [Reply(calls=[Call("add", {"a": n, "b": 25})]) for n in range(count)]
    agent, model = _agent([*calls, Reply("Done.")])

    async def work() -> int:
        async with Harness.open(MemoryStore(), agent=agent) as harness:
            await harness.prompt("Go.")
        return len(model.requests) - 1

    return work


def _prompts(count: int) -> Work:
    agent, model = _agent([Reply("Yes.") for _ in range(count)])

    async def work() -> int:
        async with Harness.open(MemoryStore(), agent=agent) as harness:
            for n in range(count):
                await harness.prompt(f"{n}")
        return len(model.requests)

    return work


def _queued(count: int) -> Work:
    store = MemoryStore()

    async def fill() -> None:
        agent, _ = _agent([])
        async with Harness.open(store, "queued", agent=agent) as harness:
            for n in range(count):
                await harness.follow_up(f"{n}")

    asyncio.run(fill())
    agent, model = _agent([Reply("Yes.") for _ in range(count + 1)])

    async def work() -> int:
        async with Harness.open(store, "queued", agent=agent) as harness:
            await harness.prompt("Go.")
        return len(model.requests) - 1

    return work
