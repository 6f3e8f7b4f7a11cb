"""What a model says, in parts that follow each other: replies and thinking, as they grow.

Each part gives out its rows once (`take`) and shows what is not finished as often as it is asked
(`live`).

Not here: prompts and notes (said.py), calls of tools (tool_view.py), which parts there are
(transcript.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from .markdown_blocks import MarkdownBlocks
from .markdown_view import MarkdownView
from .paint import Painter, Run
from .tool_view import seconds_text

__all__ = ["Part", "ReplyText", "Thinking"]


class Part(Protocol):
    """Something that is shown in its turn."""

    @property
    def kind(self) -> str:
        """What it is, which decides about empty lines around it."""
        ...

    @property
    def done(self) -> bool:
        """All of it has been given out."""
        ...

    @property
    def finished(self) -> bool:
        """It changes no more."""
        ...

    def take(self, width: int) -> list[str]:
        """Rows that were finished since the last call."""
        ...

    def live(self, width: int, most: int) -> list[str]:
        """The end of what has not been taken, at most *most* rows."""
        ...

    def close(self) -> None:
        """Nothing more will come."""
        ...


class ReplyText:
    """Markdown that is being written."""

    kind = "text"

    def __init__(self, painter: Painter, base: tuple[str, ...] = ("assistant",)) -> None:
        self._blocks = MarkdownBlocks()
        self._view = MarkdownView(painter, base)
        self.finished = False
        self.done = False
        self._version = 0
        """Counts what was fed and taken, so that nothing is drawn twice in vain."""
        self._drawn: tuple[int, int, list[str]] = (-1, 0, [])

    def feed(self, text: str) -> None:
        """More of it."""
        self._blocks.feed(text)
        self._version += 1

    def close(self) -> None:
        self.finished = True

    def take(self, width: int) -> list[str]:
        if self.done:
            return []
        leaves = self._blocks.take()
        if self.finished:
            leaves += self._blocks.close()
            self.done = True
        if leaves:
            self._version += 1
        return [row for leaf in leaves for row in self._view.draw(leaf, width)]

    def live(self, width: int, most: int) -> list[str]:
        if self.done:
            return []
        version, drawn_width, rows = self._drawn
        if version != self._version or drawn_width != width:
            ahead = self._view.ahead()
            rows = [row for leaf in self._blocks.open() for row in ahead.draw(leaf, width)]
            self._drawn = (self._version, width, rows)
        return rows[-most:] if most > 0 else []


class Thinking:
    """What the model thinks: a line that counts, or all of it, as *shown* says at the time."""

    kind = "thinking"

    def __init__(
        self, painter: Painter, shown: Callable[[], bool], clock: Callable[[], float] | None
    ) -> None:
        self._painter = painter
        self._shown = shown
        self._clock = clock
        self._began = clock() if clock is not None else 0.0
        self._seconds = 0.0
        self._text = ReplyText(painter, ("thinking",))
        self._arrived: list[str] = []
        self._words = 0
        self._in_word = False
        self._hidden = False
        self.finished = False
        self.done = False

    def feed(self, text: str) -> None:
        """More of it."""
        self._text.feed(text)
        self._arrived.append(text)

    def hide(self) -> None:
        """The vendor keeps it to itself."""
        self._hidden = True

    def close(self) -> None:
        if not self.finished:
            self.finished = True
            self._text.close()
            self._seconds = self._clock() - self._began if self._clock is not None else 0.0

    def take(self, width: int) -> list[str]:
        if self.done:
            return []
        self.done = self.finished
        if self._shown() and not self._hidden:
            return self._text.take(width)
        return (
            self._painter.rows([Run(self._summary(), ("thinking",))], width)
            if (self.done and (self._count() or self._hidden))
            else []
        )

    def live(self, width: int, most: int) -> list[str]:
        if self.done or most < 1:
            return []
        if self._shown() and not self._hidden:
            return self._text.live(width, most)
        if self.finished:
            words = self._summary()
        else:
            words = f"thinking … {self._time()}{self._count():,} words"
        return self._painter.rows([Run(words, ("thinking",))], width)[:most]

    def _time(self) -> str:
        return f"{self._clock() - self._began:.0f} s, " if self._clock is not None else ""

    def _summary(self) -> str:
        if self._clock is not None:
            if self._seconds < 1:
                return "thought for a moment"
            return f"thought for {seconds_text(self._seconds)}"
        count = self._count()
        return f"thought, {count:,} word{'s' * (count != 1)}" if count else "thought"

    def _count(self) -> int:
        if self._arrived:
            text = "".join(self._arrived)
            self._arrived = []
            self._words += len(text.split()) - (self._in_word and not text[:1].isspace())
            self._in_word = not text[-1:].isspace() if text else self._in_word
        return self._words
