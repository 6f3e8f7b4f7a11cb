"""What may take the input's place: a line to type, a yes or no.

Not here: choosing from a list (picker.py), the question about a call (question.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol, TypeVar

from prompt_toolkit.application.current import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.layout import AnyContainer, HSplit, Window
from prompt_toolkit.layout.controls import BufferControl, FormattedTextControl
from prompt_toolkit.layout.dimension import Dimension

from ..streams import visible
from .footer import Fragments
from .one_line import one_line
from .shown_input import ShownInput

if TYPE_CHECKING:
    from prompt_toolkit.key_binding.key_processor import KeyPressEvent

__all__ = ["ConfirmPanel", "Panel", "TextPanel", "text_control", "text_window"]

T = TypeVar("T")


class Panel(Protocol):
    """Something that is drawn in place of the input and takes the keys."""

    @property
    def container(self) -> AnyContainer:
        """What is drawn."""
        ...

    def cancel(self) -> None:
        """The user wants to be out of it."""
        ...


def text_control(
    text: Callable[[], Fragments], keys: KeyBindings | None = None
) -> FormattedTextControl:
    """Text that may take keys; the cursor is not shown there."""
    return FormattedTextControl(
        text, focusable=keys is not None, key_bindings=keys, show_cursor=False
    )


def text_window(text: Callable[[], Fragments], rows: int = 1) -> Window:
    """So many rows of text."""
    return Window(text_control(text), height=Dimension.exact(rows), wrap_lines=False)


def settle(future: asyncio.Future[T], value: T) -> None:
    """Give *future* its value, unless it has one: a key may be pressed twice."""
    if not future.done():
        future.set_result(value)


class TextPanel:
    """Asks for a line of text."""

    def __init__(self, title: str, initial: str = "") -> None:
        self.done: asyncio.Future[str | None] = asyncio.get_running_loop().create_future()
        self._buffer = Buffer(name="line", multiline=False)
        self._buffer.text = initial
        self._buffer.cursor_position = len(initial)
        keys = KeyBindings()

        @keys.add("enter", eager=True)
        def _(event: KeyPressEvent) -> None:
            settle(self.done, self._buffer.text)

        @keys.add("escape", eager=True)
        def _(event: KeyPressEvent) -> None:
            self.cancel()

        heading = one_line(title)
        self.container = HSplit(
            [
                Window(
                    text_control(lambda: [("class:prompt", heading)]),
                    wrap_lines=True,
                    dont_extend_height=True,
                ),
                Window(
                    BufferControl(self._buffer, key_bindings=keys, input_processors=[ShownInput()]),
                    height=Dimension(min=1, max=3),
                    wrap_lines=True,
                    dont_extend_height=True,
                    get_line_prefix=lambda line, wrapped: [("class:prompt", ": ")],
                ),
                text_window(lambda: [("class:note", "Enter takes it · Esc leaves")]),
            ]
        )

    def cancel(self) -> None:
        settle(self.done, None)


class ConfirmPanel:
    """Asks for a yes or no."""

    def __init__(self, question: str) -> None:
        self.done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        keys = KeyBindings()
        asked = visible(question).strip()

        @keys.add("y", eager=True)
        @keys.add("Y", eager=True)
        def _(event: KeyPressEvent) -> None:
            settle(self.done, True)

        @keys.add("n", eager=True)
        @keys.add("N", eager=True)
        @keys.add("escape", eager=True)
        @keys.add("enter", eager=True)
        def _(event: KeyPressEvent) -> None:
            self.cancel()

        def text() -> Fragments:
            return [("class:prompt", asked), ("class:note", "  y yes · n no")]

        self.container = Window(
            text_control(text, keys),
            wrap_lines=True,
            dont_extend_height=True,
            height=lambda: Dimension(max=max(3, get_app().output.get_size().rows // 2)),
        )

    def cancel(self) -> None:
        settle(self.done, False)
