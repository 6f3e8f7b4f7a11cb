"""A reply drawn while it comes: the processor time of the transcript in a second of stream.

2,000 deltas a second are fed, and 25 times a second what is finished is taken and what is open is
drawn; painting it on a terminal is left out. Bare does what the plainest chat program would: it
joins the deltas, hands on whole lines, and cuts the open one to the width.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable

from loopwright.cli.interactive.theme import theme_named
from loopwright.cli.interactive.transcript import Transcript
from loopwright.events import MessageEnd, MessageStart, MessageUpdate
from loopwright.messages import AssistantMessage, TextContent
from loopwright.stream import TextDelta

from ..measure import in_turns
from ..report import Row
from ..sizes import Sizes
from ..subject import Work

__all__ = ["measure"]

DELTAS_A_SECOND = 2_000
FRAMES_A_SECOND = 25
_PIECE = 6
_SCREENS = ((80, 24), (200, 60))
_BELOW = 6
"""Rows of the input and the footer."""

_ROUNDS = 3
"""The best of so many stands, at most: every round draws seconds of stream on ten screens."""


def measure(peers: object, sizes: Sizes) -> list[Row]:
    """The rows of this work."""
    count = sizes.fewer_deltas
    seconds = count / DELTAS_A_SECOND
    rows: list[Row] = []
    for name, write in _ANSWERS.items():
        text = _long_enough(write, count * _PIECE)
        marks = text.count("e")
        contestants: dict[str, tuple[Work, int]] = {
            "bare": (_bare(text), marks),
            **{f"{w}x{h}": (_drawn(text, w, h), marks) for w, h in _SCREENS},
        }
        best = asyncio.run(in_turns(contestants, min(sizes.rounds, _ROUNDS)))
        rows += [
            Row(
                f"drawing {name} at {screen}, 2,000 deltas a second",
                "cores",
                {"loopwright": taken / seconds},
                at_most=0.5,
                note=f"{taken / best['bare']:,.0f} times bare",
                digits=3,
            )
            for screen, taken in best.items()
            if screen != "bare"
        ]
    return rows


def _drawn(text: str, width: int, height: int) -> Work:
    events = [MessageUpdate(TextDelta(0, delta)) for delta in _deltas(text)]
    theme = theme_named("dark", {"TERM": "xterm-256color"})

    async def work() -> int:
        transcript = Transcript(theme)
        transcript.feed(MessageStart(AssistantMessage([])))
        taken: list[str] = []
        for start in range(0, len(events), _PER_FRAME):
            for event in events[start : start + _PER_FRAME]:
                transcript.feed(event)
            taken.append(transcript.take(width))
            transcript.live(width, height - _BELOW)
        transcript.feed(MessageEnd(AssistantMessage([TextContent(text)])))
        taken.append(transcript.take(width))
        return "".join(taken).count("e")

    return work


def _bare(text: str) -> Work:
    deltas = _deltas(text)

    async def work() -> int:
        taken: list[str] = []
        tail = ""
        for start in range(0, len(deltas), _PER_FRAME):
            lines, found, tail = (tail + "".join(deltas[start : start + _PER_FRAME])).rpartition(
                "\n"
            )
            taken += (lines, found)
            [tail[at : at + 80] for at in range(0, len(tail), 80)]
        return "".join([*taken, tail]).count("e")

    return work


_PER_FRAME = DELTAS_A_SECOND // FRAMES_A_SECOND


def _deltas(text: str) -> list[str]:
    return [text[at : at + _PIECE] for at in range(0, len(text), _PIECE)]


# -- what is said ------------------------------------------------------------------------------

_WORDS = ("the", "**longer**", "`code`", "sentence.", "of", "an", "interactive", "mode", "*here*")


def _words(chance: random.Random, count: int) -> str:
    return " ".join(chance.choices(_WORDS, k=count))


_CODE = '''def function(argument: int, other: str = "text") -> dict[str, int]:
    """What it is for."""
    for index, value in enumerate(range(argument)):
        if value % 2 == 0:  # every second one
            yield {other: index + 0x1F, "key": f"{value}"}
'''

_ANSWERS: dict[str, Callable[[random.Random], str]] = {
    "paragraphs": lambda chance: _words(chance, 60) + "\n\n",
    "one long paragraph": lambda chance: _words(chance, 60) + " ",
    "a long list": lambda chance: f"- {_words(chance, 12)}\n",
    "a long code block": lambda chance: _CODE,
    "a long table": lambda chance: f"| {_words(chance, 3)} | {_words(chance, 2)} |\n",
}

_BEGINNINGS = {"a long code block": "```python\n", "a long table": "| one | two |\n|---|---|\n"}


def _long_enough(write: Callable[[random.Random], str], length: int) -> str:
    """An answer of that many characters, the same every time."""
    chance = random.Random(5)
    name = next(name for name, found in _ANSWERS.items() if found is write)
    pieces = [_BEGINNINGS.get(name, "")]
    total = 0
    while total < length:
        pieces.append(write(chance))
        total += len(pieces[-1])
    return "".join(pieces)[:length].rsplit(" ", 1)[0]
