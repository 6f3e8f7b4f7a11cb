"""What a command may ask of the screen: the words between the commands and what draws.

The commands know nothing of terminals, so they are tested with a screen that is a list of what was
said. Everything handed over here is plain text: whoever draws it neutralizes and styles it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["PickItem", "Screen"]


@dataclass(frozen=True, slots=True)
class PickItem:
    """One line of a list to choose from."""

    label: str
    """What is shown, and what typing filters by. May be a model's words: it is neutralized where
    it is drawn."""
    hint: str = ""
    """Said beside the label, more quietly; filtered by as well."""
    value: Any = None
    """What the one who asked wants to know of the choice. Not shown."""
    indent: int = 0
    """Columns that the label is moved to the right."""
    lead: str = ""
    """Drawn before the label, as the lines of a tree are; left out while something is typed."""
    pinned: bool = False
    """Offered whatever is typed: not one of the things, but what else can be done."""


class Screen(Protocol):
    """What draws. Every method is called on the event loop's own thread."""

    def said(self, text: str) -> None:
        """Show *text* as what the user typed. Not for what is sent: that comes as an event."""
        ...

    def note(self, text: str) -> None:
        """Tell the user *text*, of one or more lines, in the stream of what was said."""
        ...

    def error(self, message: str, hint: str | None = None) -> None:
        """Tell the user what was wrong, and what to do about it."""
        ...

    async def pick(
        self, title: str, items: Sequence[PickItem], *, selected: int = 0
    ) -> PickItem | None:
        """Let the user choose one of *items*; *selected* is the index of the one to begin at.
        None: they left without choosing."""
        ...

    async def ask_text(self, title: str, initial: str = "") -> str | None:
        """Let the user type a line. None: they left without an answer."""
        ...

    async def confirm(self, question: str) -> bool:
        """Let the user say yes or no. Leaving without an answer is no."""
        ...

    async def settle_unfinished(self) -> None:
        """Have the user say what is to become of what an earlier process left in the session, and
        begin with it. Nothing if it left nothing."""
        ...

    def set_input(self, text: str) -> None:
        """Put *text* into the input, in place of what is there."""
        ...

    def copy(self, text: str) -> None:
        """Ask the terminal to put *text* on the clipboard. Whether it does is not known."""
        ...

    def redraw(self) -> None:
        """The session or its branch has changed: show what was said in it."""
        ...

    def set_theme(self, name: str) -> None:
        """Draw with the theme *name*: "auto", "dark" or "light"."""
        ...

    def toggle_thinking(self) -> None:
        """Show the model's thinking in full, or fold it again."""
        ...

    def leave(self) -> None:
        """End the program when the command is done."""
        ...
