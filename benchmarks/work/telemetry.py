"""What tracing costs: an agent that nobody traces, and one whose tracer does nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from loopwright import Agent
from loopwright.telemetry import trace
from loopwright.testing import Call, Reply, ScriptedModel

from ..measure import interleaved
from ..peers.loopwright import sync_listener
from ..report import Row
from ..sizes import Sizes
from ..subject import Counter, Work

__all__ = ["measure"]

_PIECE = "word "


def measure(peers: object, sizes: Sizes) -> list[Row]:
    """The rows of this work."""
    works: dict[str, tuple[Callable[[bool], Work], int]] = {
        f"{sizes.deltas:,} text deltas": (partial(_deltas, sizes.deltas), sizes.deltas),
        f"{sizes.turns:,} turns of one tool call": (partial(_turns, sizes.turns), sizes.turns),
    }
    rows: list[Row] = []
    for name, (make, count) in works.items():
        best = interleaved(
            {"off": (partial(make, False), count), "on": (partial(make, True), count)}, sizes.rounds
        )
        each = (best["on"] - best["off"]) / count * 1e6
        rows.append(
            Row(
                f"{name}, traced, against not",
                "times",
                {"loopwright": best["on"] / best["off"]},
                at_most=1.5 if "turns" in name else 1.25,
                note=f"{each:+.2f} µs each",
            )
        )
    return rows


class _Span:
    def set(self, attributes: Mapping[str, Any]) -> None:
        return None

    def end(self, error_type: str | None = None) -> None:
        return None


class _Tracer:
    """Takes everything and does nothing with it."""

    def start(self, name: str, attributes: Mapping[str, Any], parent: Any) -> _Span:
        return _SPAN


_SPAN = _Span()


def _agent(model: ScriptedModel, traced: bool, counter: Counter, tools: Any = ()) -> Agent:
    agent = Agent(model.model, stream_fn=model.stream_fn, tools=tools)
    agent.subscribe(sync_listener(counter))
    if traced:
        trace(agent, _Tracer())
    return agent


def _deltas(count: int, traced: bool) -> Work:
    counter = Counter()
    model = ScriptedModel([Reply(_PIECE * count, chunk_size=len(_PIECE))])
    agent = _agent(model, traced, counter)

    async def work() -> int:
        await agent.prompt("Go.")
        return counter.deltas

    return work


async def add(a: int, b: int) -> str:
    """Add two numbers."""
    return str(a + b)


def _turns(count: int, traced: bool) -> Work:
    counter = Counter()
    replies = [Reply(calls=[Call("add", {"a": turn, "b": 25})]) for turn in range(count)]
    agent = _agent(ScriptedModel([*replies, Reply("Done.")]), traced, counter, [add])

    async def work() -> int:
        await agent.prompt("Go.")
        return counter.results

    return work
