"""Lines of text for a terminal, such as rich makes, inside an application of prompt_toolkit.

Taken apart line by line, and each line only when it is new: of an answer that is being written all
lines but the last are what they were a frame ago.
"""

from __future__ import annotations

from functools import lru_cache

from prompt_toolkit.formatted_text import ANSI, StyleAndTextTuples, to_formatted_text
from prompt_toolkit.layout import UIContent, UIControl, Window
from prompt_toolkit.layout.dimension import Dimension

__all__ = ["LiveArea"]


class LiveArea:
    """A window as high as the text that is shown in it."""

    def __init__(self) -> None:
        self._control = _Lines()
        self.window = Window(
            self._control,
            height=lambda: Dimension.exact(len(self._control.lines)),
            wrap_lines=False,
        )

    def show(self, text: str) -> None:
        """Show *text* from the next drawing on; an empty one takes no line."""
        self._control.lines = text.rstrip("\n").split("\n") if text else []


class _Lines(UIControl):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def create_content(self, width: int, height: int) -> UIContent:
        lines = self.lines
        return UIContent(
            lambda number: _fragments(lines[number]), line_count=len(lines), show_cursor=False
        )


@lru_cache(maxsize=512)
def _fragments(line: str) -> StyleAndTextTuples:
    """*line* in pieces of one style each; the parser gives every character alone."""
    joined: StyleAndTextTuples = []
    style, text = "", ""
    for piece in to_formatted_text(ANSI(line)):
        if piece[0] != style and text:
            joined.append((style, text))
            text = ""
        style = piece[0]
        text += piece[1]
    if text:
        joined.append((style, text))
    return joined
