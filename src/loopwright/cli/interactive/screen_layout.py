"""What stands where: what is unfinished, what goes on, what waits, the input or a question, where
one is, and the keys. On a small screen the keys go first, then what is unfinished.

Not here: the lines themselves (footer.py, editor.py), what the keys do (app.py).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from prompt_toolkit.data_structures import Size
from prompt_toolkit.filters import Condition
from prompt_toolkit.layout import ConditionalContainer, DynamicContainer, HSplit, Window
from prompt_toolkit.layout.containers import VerticalAlign
from prompt_toolkit.layout.dimension import Dimension

from .activity import Activity
from .editor import Editor
from .footer import (
    COMMAND_KEYS,
    IDLE_KEYS,
    MOST_QUEUE_LINES,
    WORKING_KEYS,
    Footer,
    Fragments,
    cut,
    footer_line,
    hint_line,
    queue_lines,
    status_line,
)
from .live_area import LiveArea
from .panels import text_control, text_window

if TYPE_CHECKING:
    from prompt_toolkit.history import History

    from .asking import Asking
    from .pastes import Pastes

__all__ = ["HINT_SECONDS", "ScreenLayout"]

HINT_SECONDS = 2.0
HINT_ROWS = 12
"""A terminal with fewer rows shows no line of keys."""


class ScreenLayout:
    """`root` is what is drawn; `arrange` is to be called before each drawing."""

    def __init__(
        self,
        history: History,
        pastes: Pastes,
        *,
        footer: Footer,
        activity: Activity,
        asking: Asking,
        working: Callable[[], bool],
        runs_command: Callable[[], bool],
        placeholder: Callable[[], str],
        changed: Callable[[], object],
    ) -> None:
        """*runs_command* says whether a command of the user's is what goes on; *changed* asks for
        a drawing."""
        self._footer = footer
        self._activity = activity
        self._asking = asking
        self._working = working
        self._runs_command = runs_command
        self._changed = changed
        self._size = Size(24, 80)
        self._queued: list[tuple[bool, str]] = []
        self._hint = ""
        self._hint_until = 0.0
        self._live = LiveArea()
        self.editor = Editor(history, pastes, size=lambda: self._size, placeholder=placeholder)
        self._below = self._made_below()
        self.root = HSplit([self._live.window, self._below], align=VerticalAlign.TOP)

    def _made_below(self) -> HSplit:
        def status() -> Fragments:
            now = time.monotonic()
            activity = self._activity
            return status_line(activity.text(now), activity.seconds(now), self._size.columns)

        def queue() -> Fragments:
            return queue_lines(self._queued, self._size.columns)

        def queue_height() -> Dimension:
            return Dimension.exact(min(len(self._queued), MOST_QUEUE_LINES))

        working = Condition(lambda: self._working() and self._asking.shown is None)
        roomy = Condition(lambda: self._size.rows >= HINT_ROWS)
        return HSplit(
            [
                Window(height=1),
                ConditionalContainer(text_window(status), working),
                Window(text_control(queue), height=queue_height),
                DynamicContainer(self._front),
                text_window(lambda: footer_line(self._footer, self._size.columns)),
                ConditionalContainer(text_window(self._hint_fragments), roomy),
            ],
            align=VerticalAlign.TOP,
        )

    def arrange(
        self, size: Size, queued: Iterable[tuple[bool, str]], live: Callable[[int, int], str]
    ) -> None:
        """Give the live area what the rest leaves of the screen. *queued* is what waits to be heard,
        as `queue_lines` takes it; *live* is `Transcript.live`."""
        self._size = size
        self._queued = list(queued)
        below = self._below.preferred_height(size.columns, size.rows).preferred
        room = max(0, min(size.rows - below, max(4, size.rows // 2)))
        self._live.show(live(size.columns, room) if room else "")

    def say_hint(self, text: str) -> None:
        """Show *text* for a moment in place of the keys."""
        self._hint, self._hint_until = text, time.monotonic() + HINT_SECONDS
        asyncio.get_running_loop().call_later(HINT_SECONDS, self._changed)
        self._changed()

    def _front(self) -> Any:
        return (self._asking.shown or self.editor).container

    def _hint_fragments(self) -> Fragments:
        if self._hint and time.monotonic() < self._hint_until:
            return [("class:meter.high", cut(self._hint, self._size.columns - 1))]
        keys = WORKING_KEYS if self._working() else IDLE_KEYS
        if self._runs_command():
            keys = COMMAND_KEYS
        return hint_line(keys if self._asking.shown is None else (), self._size.columns)
