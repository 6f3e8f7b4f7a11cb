"""Long pastes, each of them one character in the input: `[pasted 1: 5,120 lines]` is what is shown.

One character is deleted, walked over and undone as one piece, and nobody types it: it is of a plane
for private use. What is sent is the text itself.                                         (pure)

Not here: showing it (shown_input.py), reading it quickly (paste_input.py).
"""

from __future__ import annotations

import re

__all__ = ["Pastes"]

MOST_LINES = 10
MOST_CHARACTERS = 1_000
"""What has more is folded: it would push everything else out of the input."""

UNFOLDED_CHARACTERS = 20_000
"""More is never put into the input itself, which becomes slow with it."""

_FIRST = 0x100000
_LAST = 0x10FFFD
_OURS = re.compile(f"[{chr(_FIRST)}-{chr(_LAST)}]")


class Pastes:
    """Those of one use of the program. They are kept to its end, since a line that was sent can be
    fetched back."""

    def __init__(self) -> None:
        self._texts: dict[str, str] = {}

    def fold(self, text: str) -> str:
        """What stands for *text* in the input: itself if it is short."""
        is_long = len(text) > MOST_CHARACTERS or text.count("\n") >= MOST_LINES
        # A short one that looks like ours must not be taken for one.
        if not is_long and not _OURS.search(text):
            return text
        token = chr(_FIRST + len(self._texts) + 1)
        if ord(token) > _LAST:
            return text
        self._texts[token] = text
        return token

    def unfolds(self, token: str, text: str) -> bool:
        """*text* is what *token* stands for, and short enough to be shown as it is."""
        return len(text) <= UNFOLDED_CHARACTERS and self._texts.get(token) == text

    def whole(self, typed: str) -> str:
        """*typed*, from the input, with all that was pasted."""
        return _OURS.sub(lambda found: self._texts.get(found[0], found[0]), typed)

    def folded(self, text: str) -> str:
        """*text*, which was sent, as it stood in the input. Undoes `whole`."""
        for token, pasted in sorted(self._texts.items(), key=lambda known: -len(known[1])):
            if len(pasted) <= len(text):
                text = text.replace(pasted, token)
        return text

    def label(self, character: str) -> str | None:
        """How *character* is shown; None if it stands for nothing."""
        text = self._texts.get(character)
        if text is None:
            return None
        lines = text.count("\n") + (not text.endswith("\n"))
        size = f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"
        return f"[pasted {ord(character) - _FIRST}: {size}]"
