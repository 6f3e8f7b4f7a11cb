"""What takes the input's place for a while: lists, lines to type, questions. One is shown, the
others wait.

Not here: how each of them looks (picker.py, panels.py, question.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from .panels import ConfirmPanel, Panel, TextPanel
from .screen import PickItem

if TYPE_CHECKING:
    from ...permissions.gate import Answer
    from .question import QuestionPanel

__all__ = ["Asking"]

T = TypeVar("T")


class Asking:
    """The panels that are open. The last one is shown and has the keys."""

    def __init__(
        self,
        *,
        changed: Callable[[], None],
        focus: Callable[[Any], None],
        typing_seconds: Callable[[], float],
    ) -> None:
        """*focus* gives the keys to a window, None to the input; *typing_seconds* says for how long
        the user, who is typing, is not to be asked; 0 if they type nothing."""
        self._changed = changed
        self._focus = focus
        self._typing_seconds = typing_seconds
        self._open: list[tuple[Panel, Any]] = []
        self._question = asyncio.Lock()
        self._look_again = asyncio.Event()

    @property
    def shown(self) -> Panel | None:
        """What stands in the input's place."""
        return self._open[-1][0] if self._open else None

    async def pick(
        self, title: str, items: Sequence[PickItem], *, selected: int = 0
    ) -> PickItem | None:
        """See `Screen.pick`."""
        from .picker import Picker

        picker = Picker(title, items, selected=selected)
        return await self._show(_PickerPanel(picker), picker.window, picker.done)

    async def ask_text(self, title: str, initial: str = "") -> str | None:
        """See `Screen.ask_text`."""
        panel = TextPanel(title, initial)
        return await self._show(panel, panel.container, panel.done)

    async def confirm(self, question: str) -> bool:
        """See `Screen.confirm`."""
        panel = ConfirmPanel(question)
        return await self._show(panel, panel.container, panel.done)

    async def decide(self, make: Callable[[], Awaitable[QuestionPanel]]) -> Answer | None:
        """Ask about a call, when nothing else is asked; *make* is called then. None: no, and stop
        the run. Being cancelled closes the question."""
        async with self._question:
            await self._until_free()
            panel = await make()
            return await self._show(panel, panel.container, panel.done)

    def look_again(self) -> None:
        """The user may not be typing any more."""
        self._look_again.set()

    async def _until_free(self) -> None:
        """A list the user looks at is not taken away, and what they type is no answer."""
        while (pause := self._typing_seconds()) > 0 or self._open:
            self._look_again.clear()
            try:
                async with asyncio.timeout(None if self._open else pause):
                    await self._look_again.wait()
            except TimeoutError:
                continue

    async def _show(self, panel: Panel, window: Any, done: asyncio.Future[T]) -> T:
        entry = (panel, window)
        self._open.append(entry)
        self._refocus()
        try:
            return await done
        finally:
            self._open.remove(entry)
            self._look_again.set()
            self._refocus()

    def _refocus(self) -> None:
        self._focus(self._open[-1][1] if self._open else None)
        self._changed()


class _PickerPanel:
    """A picker as a panel."""

    def __init__(self, picker: Any) -> None:
        self._done = picker.done
        self.container = picker.container

    def cancel(self) -> None:
        if not self._done.done():
            self._done.set_result(None)
