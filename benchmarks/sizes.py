"""How much of each work is done: what the targets speak of, or little enough for a test."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["SIZES", "Sizes"]


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of one run of the benchmarks; the defaults are those of the targets."""

    rounds: int = 11
    """The best of so many stands."""
    deltas: int = 100_000
    fewer_deltas: int = 20_000
    partials: int = 4_000
    """Deltas of the replies whose partial is read after each."""
    argument_bytes: int = 400_000
    turns: int = 3_000
    fewer_turns: int = 1_000
    more_turns: int = 10_000
    calls: int = 1_000
    tool_seconds: float = 0.05
    agents: int = 500
    deltas_each: int = 600
    idle_agents: int = 1_000
    idle_messages: int = 20
    processes: int = 15
    """Fresh processes for each import that is timed."""
    wire_rounds: int = 7
    wire_events: int = 20_000
    sdk_events: int = 2_000
    """Of the replies that vendors' own libraries and other ones read: they take so long."""
    history: int = 600
    """Messages of the request that is encoded."""
    commits: int = 400
    sessions: int = 1_000
    """Of one database, listed at once."""
    entries: int = 100_000
    """Of one session."""
    fewer_entries: int = 1_000
    durable_turns: int = 5_000
    """Of one session, by a harness."""
    fewer_durable_turns: int = 500
    queued: int = 1_000
    """Messages that wait in one session."""
    fewer_queued: int = 100
    output_bytes: int = 50 << 20
    """Of one command."""
    shown_deltas: int = 8_000
    """Of one reply on a terminal."""


_TINY = Sizes(
    rounds=1,
    deltas=400,
    fewer_deltas=200,
    partials=120,
    argument_bytes=2_000,
    turns=20,
    fewer_turns=10,
    more_turns=30,
    calls=10,
    tool_seconds=0.001,
    agents=5,
    deltas_each=40,
    idle_agents=10,
    idle_messages=4,
    processes=1,
    wire_rounds=1,
    wire_events=200,
    sdk_events=100,
    history=12,
    commits=5,
    sessions=4,
    entries=20,
    fewer_entries=10,
    durable_turns=6,
    fewer_durable_turns=3,
    queued=20,
    fewer_queued=4,
    output_bytes=200_000,
    shown_deltas=100,
)

SIZES = {"full": Sizes(), "quick": Sizes(rounds=3, processes=5, wire_rounds=3), "tiny": _TINY}
