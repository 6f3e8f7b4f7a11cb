"""Blocks that are finished when they come: prompts, notes, errors."""

from __future__ import annotations

from collections.abc import Sequence

from ...messages import ImageContent, TextContent
from .image_words import image_words
from .paint import Painter, Run
from .text_lines import TextLines

__all__ = ["Said", "error_words", "users_words"]

PROMPT_LINES = 30
"""Of a prompt more lines are only counted: files that were given with it stand in it, too."""

_LINE_CHARACTERS = 10_000
"""Of one line."""


class Said:
    """A block that was finished when it came: a prompt, a note, an error.

    *lines* are runs; the first stands behind *mark*, the others are moved as far. More than *most*
    lines of the text are counted only.
    """

    finished = True

    def __init__(
        self,
        kind: str,
        painter: Painter,
        paragraphs: Sequence[tuple[str, str]],
        *,
        mark: str = "",
        most: int = 1_000,
    ) -> None:
        self.kind = kind
        self.done = False
        self._painter = painter
        self._paragraphs = paragraphs
        self._mark = mark
        self._most = most

    def close(self) -> None:
        return

    def take(self, width: int) -> list[str]:
        if self.done:
            return []
        self.done = True
        return self._rows(width)

    def live(self, width: int, most: int) -> list[str]:
        return [] if self.done or most < 1 else self._rows(width)[-most:]

    def _rows(self, width: int) -> list[str]:
        rows: list[str] = []
        rest = [Run(" " * len(self._mark))] if self._mark else []
        for text, style in self._paragraphs:
            all_lines = TextLines(text)
            lines = [line[:_LINE_CHARACTERS] for line in all_lines.first(self._most)]
            left = len(all_lines) - len(lines)
            first = [Run(self._mark, (style,))] if self._mark and not rows else rest
            shown = [Run("\n".join(lines), (style,))]
            rows += self._painter.rows(shown, width, first=first, rest=rest)
            if left > 0:
                words = Run(f"… {left:,} more line{'s' * (left != 1)}", ("note",))
                rows += self._painter.rows([words], width, first=rest, rest=rest)
        return rows


def users_words(content: str | list[TextContent | ImageContent], painter: Painter) -> Said:
    """What the user said."""
    if isinstance(content, str):
        paragraphs = [(content, "user")]
    else:
        paragraphs = [
            (block.text, "user") if isinstance(block, TextContent) else (image_words(block), "note")
            for block in content
        ]
    return Said("user", painter, paragraphs, mark="› ", most=PROMPT_LINES)


def error_words(message: str, hint: str | None, painter: Painter) -> Said:
    """What was wrong, and what to do about it."""
    hints = [(f"hint: {line}", "note") for line in (hint or "").splitlines()]
    return Said("error", painter, [(f"error: {message}", "error"), *hints])
