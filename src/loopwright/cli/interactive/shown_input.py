"""How what is typed looks while it is typed: what nobody could see is written out, and a long paste
is a few words. The text itself stays what it is.

Control characters of ASCII are shown by prompt_toolkit (`^[`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import TYPE_CHECKING

from prompt_toolkit.formatted_text.utils import fragment_list_to_text
from prompt_toolkit.layout.processors import Processor, Transformation, TransformationInput
from prompt_toolkit.layout.utils import explode_text_fragments

from ..streams import visible

if TYPE_CHECKING:
    from prompt_toolkit.formatted_text import StyleAndTextTuples

__all__ = ["ShownInput"]

_BEYOND = "\U00100000"
"""From here on a character may stand for a paste (pastes.py)."""


class ShownInput(Processor):
    """Writes out what is hidden, and what *label* knows a character to stand for."""

    def __init__(self, label: Callable[[str], str | None] = lambda _character: None) -> None:
        self._label = label

    def apply_transformation(self, transformation_input: TransformationInput) -> Transformation:
        """A line as it is to be drawn."""
        fragments = transformation_input.fragments
        line = fragment_list_to_text(fragments)
        if line.isascii() or (max(line) < _BEYOND and visible(line) == line):
            return Transformation(fragments)
        starts = [0]
        """Where each character begins on the screen, and at last the end of them all."""
        shown: StyleAndTextTuples = []
        for fragment in explode_text_fragments(fragments):
            written = self._written(fragment[1])
            text = fragment[1] if written is None else written
            style = fragment[0] if written is None else f"{fragment[0]} class:note"
            shown.append((style, text))
            starts.append(starts[-1] + len(text))

        def to_display(place: int) -> int:
            past = max(0, place - (len(starts) - 1))
            return starts[min(place, len(starts) - 1)] + past

        def to_source(place: int) -> int:
            past = max(0, place - starts[-1])
            return bisect_right(starts, place) - 1 + past

        return Transformation(shown, to_display, to_source)

    def _written(self, character: str) -> str | None:
        """What is shown in place of *character*; None for itself."""
        if character.isascii():
            return None
        if character >= _BEYOND and (label := self._label(character)) is not None:
            return label
        shown = visible(character)
        return None if shown == character else shown
