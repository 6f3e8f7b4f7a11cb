"""Keys that mean something only where they stand alone.

A question opens while somebody types, or is about to: the "a" of "also check the docs" is no
answer. So a key waits a moment before it counts. What follows sooner makes a word of it, and all of
the word goes to the input, where it was meant to go.

Not here: what the keys mean (question.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

__all__ = ["LoneKeys"]

ALONE_SECONDS = 0.3
"""A key that nothing follows for so long stands alone. People type a letter in 0.1 to 0.25."""

WORD_SECONDS = 0.6
"""After a pause of so long no word is being typed any more."""


class LoneKeys:
    """Tells keys from words. To be used in an event loop."""

    def __init__(self, typed: Callable[[str], None]) -> None:
        """*typed* is given what was text."""
        self._typed = typed
        self._waiting: tuple[str, asyncio.TimerHandle] | None = None
        self._word_until = 0.0

    def press(
        self, text: str, action: Callable[[], object] | None = None, *, at_once: bool = False
    ) -> None:
        """A key was pressed that writes *text*, and does *action* if it stands alone; *at_once*: if
        only nothing stands before it."""
        loop = asyncio.get_running_loop()
        if self._waiting is not None:
            before, timer = self._waiting
            timer.cancel()
            self._waiting = None
            text = before + text
        elif loop.time() >= self._word_until and action is not None:
            if at_once:
                action()
                return
            self._waiting = text, loop.call_later(ALONE_SECONDS, self._stands_alone, action)
            return
        self._word_until = loop.time() + WORD_SECONDS
        self._typed(text)

    def _stands_alone(self, action: Callable[[], object]) -> None:
        self._waiting = None
        action()
