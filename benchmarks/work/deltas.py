"""Text deltas through an agent, with a listener that reads each; and partials read in order."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from typing import Any

from loopwright import Agent
from loopwright.events import MessageUpdate
from loopwright.messages import AssistantMessage, TextContent
from loopwright.models import Context, Model
from loopwright.stream import (
    AssistantMessageEvent,
    AssistantStream,
    Done,
    ReplyBuilder,
    Start,
    TextDelta,
    TextEnd,
    TextStart,
)
from loopwright.testing import ScriptedModel

from .. import bare
from ..measure import interleaved
from ..peers.loopwright import batches, sync_listener
from ..report import Row
from ..sizes import Sizes
from ..subject import Counter, Listening, Peer, Say, Work

__all__ = ["measure", "through_agent"]

_PIECE = "word "
_READ = 128


def through_agent(peer: Peer, say: Say, listening: Listening = "sync") -> Work:
    """One prompt, answered with *say*; reports the deltas that the listener read."""
    counter = Counter()
    agent = peer.agent([say], {}, counter, listening)

    async def work() -> int:
        await agent.prompt("Go.")
        return counter.deltas

    return work


def measure(peers: Sequence[Peer], sizes: Sizes) -> list[Row]:
    """The rows of this work."""
    return [*_against_bare(peers, sizes), *_growth(peers, sizes), *_partials(sizes)]


def _say(deltas: int) -> Say:
    return Say(_PIECE * deltas, len(_PIECE))


def _against_bare(peers: Sequence[Peer], sizes: Sizes) -> list[Row]:
    count = sizes.deltas
    say = _say(count)
    ours = next(peer for peer in peers if peer.name == "loopwright")
    contestants: dict[str, tuple[Callable[[], Work], int]] = {
        "bare": (partial(bare.text_deltas, say), count),
        **{peer.name: (partial(through_agent, peer, say), count) for peer in peers},
        "bare, async listener": (partial(bare.text_deltas, say, "async"), count),
        "async listener": (partial(through_agent, ours, say, "async"), count),
        "foreign": (partial(_with_source, say, _foreign), count),
        "batches": (partial(_with_source, say, _own_batches), count),
    }
    best = interleaved(contestants, sizes.rounds)
    works = [
        ("one listener reading each", 0.5, "bare", {p.name: p.name for p in peers}),
        ("an async listener", 0.33, "bare", {"loopwright": "async listener"}),
        ("a foreign async generator", 0.33, "bare", {"loopwright": "foreign"}),
        (f"own batches of {_READ}", 0.5, "bare", {"loopwright": "batches"}),
        (
            "an async listener, against one",
            None,
            "bare, async listener",
            {"loopwright": "async listener"},
        ),
    ]
    return [
        Row(
            f"{count:,} text deltas, {what}",
            "of bare",
            {name: best[reference] / best[key] for name, key in measured.items()},
            at_least=target,
            note=f"{_rate(best[measured['loopwright']], count)}, bare {_rate(best[reference], count)}",
        )
        for what, target, reference, measured in works
    ]


def _rate(seconds: float, count: int) -> str:
    return f"{count / seconds / 1000:,.0f} k/s"


def _growth(peers: Sequence[Peer], sizes: Sizes) -> list[Row]:
    many, few = sizes.deltas, sizes.fewer_deltas
    contestants: dict[str, tuple[Callable[[], Work], int]] = {}
    for peer in peers:
        contestants[f"{peer.name} few"] = (partial(through_agent, peer, _say(few)), few)
        contestants[f"{peer.name} many"] = (partial(through_agent, peer, _say(many)), many)
    best = interleaved(contestants, sizes.rounds)
    grown = {p.name: best[f"{p.name} many"] / many * few / best[f"{p.name} few"] for p in peers}
    work = f"cost of a delta, {many:,} against {few:,}"
    return [Row(work, "times", grown, at_most=1.2)]


# -- sources of our own ----------------------------------------------------------------------


def _with_source(say: Say, source: Callable[[Say], AssistantStream], listener: Any = None) -> Work:
    counter = Counter()

    def stream_fn(model: Model, context: Context, **options: Any) -> AssistantStream:
        return source(say)

    agent = Agent(ScriptedModel().model, stream_fn=stream_fn)
    agent.subscribe(sync_listener(counter))

    async def work() -> int:
        await agent.prompt("Go.")
        return counter.deltas

    return work


def _own_batches(say: Say) -> AssistantStream:
    return AssistantStream(batches(Say(say.text, say.piece, per_read=_READ)))


def _foreign(say: Say) -> AssistantStream:
    return AssistantStream.from_events(_plain_events(say))


async def _plain_events(say: Say) -> AsyncGenerator[AssistantMessageEvent, None]:
    """What somebody writes who has never heard of drafts and batches."""
    yield Start()
    yield TextStart(0)
    for piece in say.pieces:
        yield TextDelta(0, piece)
    yield TextEnd(0, say.text)
    yield Done("stop", AssistantMessage([TextContent(say.text)]))


# -- partials --------------------------------------------------------------------------------


def _partials(sizes: Sizes) -> list[Row]:
    deltas, blocks = sizes.partials, 10
    best = interleaved(
        {
            "base": (partial(_reading_partials, deltas, blocks), deltas),
            "longer": (partial(_reading_partials, deltas * 4, blocks), deltas * 4),
            "wider": (partial(_reading_partials, deltas, blocks * 4), deltas),
        },
        sizes.rounds,
    )
    each = best["base"] / deltas * 1e6
    work = f"reading each partial of {deltas:,} deltas in {blocks} blocks"
    return [
        Row(
            f"{work}, 4 times the deltas",
            "times",
            {"loopwright": best["longer"] / best["base"] / 4},
            at_most=1.3,
            note=f"{each:.1f} µs each",
        ),
        Row(
            f"{work}, 4 times the blocks",
            "times",
            {"loopwright": best["wider"] / best["base"] / 4},
            at_most=1.3,
        ),
    ]


def _reading_partials(deltas: int, blocks: int) -> Work:
    """Text of one character a delta, so that copying it counts for little."""

    async def source() -> AsyncGenerator[list[AssistantMessageEvent], None]:
        builder = ReplyBuilder()
        yield [builder.start()]
        for _ in range(blocks):
            start = builder.text_start()
            index = start.content_index
            yield [start, *builder.text_deltas(index, ["x"] * (deltas // blocks))]
            yield [builder.text_end(index)]
        yield [builder.done("stop")]

    def stream_fn(model: Model, context: Context, **options: Any) -> AssistantStream:
        return AssistantStream(source())

    read = 0
    seen = 0

    def listen(event: object) -> None:
        nonlocal read, seen
        if type(event) is MessageUpdate and type(event.assistant_message_event) is TextDelta:
            content = event.message.content
            read += 1
            seen += len(content)

    agent = Agent(ScriptedModel().model, stream_fn=stream_fn)
    agent.subscribe(listen)

    async def work() -> int:
        await agent.prompt("Go.")
        assert seen == deltas // blocks * blocks * (blocks + 1) // 2
        return read

    return work
