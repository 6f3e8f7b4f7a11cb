"""Which key does what. What it does is in app.py.

Esc, Ctrl-C and Ctrl-D mean the nearest thing there is to leave: a menu, a search, a list, a
question, the run, the program, in this order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from prompt_toolkit.application.current import get_app
from prompt_toolkit.completion import CompleteEvent, Completion, get_common_complete_suffix
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.filters import Condition, has_completions, has_selection, vi_insert_mode
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.keys import Keys

if TYPE_CHECKING:
    from prompt_toolkit.buffer import Buffer
    from prompt_toolkit.key_binding.key_processor import KeyPressEvent

__all__ = ["Actions", "keys_of"]

LONGEST_LINE = 4_000
"""Characters that are taken of a paste where one line is asked for."""


class Actions(Protocol):
    """What keys can ask for."""

    @property
    def at_input(self) -> bool:
        """The input has the keys: no list or question is open, nor a search."""
        ...

    @property
    def at_question(self) -> bool:
        """It is asked whether a call may run."""
        ...

    @property
    def working(self) -> bool:
        """A run goes on."""
        ...

    @property
    def input_is_empty(self) -> bool: ...

    def enter(self) -> None: ...
    def alt_enter(self) -> None: ...
    def new_line(self) -> None: ...
    def paste(self, text: str) -> None: ...
    def take_back(self) -> None: ...
    def escape(self) -> None: ...
    def ctrl_c(self) -> None: ...
    def leave(self) -> None: ...
    def suspend(self) -> None: ...
    def search_history(self) -> None: ...
    def edit_elsewhere(self) -> None: ...
    def toggle_thinking(self) -> None: ...
    def show_last_output(self) -> None: ...
    def next_permission_mode(self) -> None: ...
    def clear_screen(self) -> None: ...


def keys_of(actions: Actions) -> KeyBindings:
    """The key bindings of the whole application; those of lists and questions come before them."""
    keys = KeyBindings()
    at_input = Condition(lambda: actions.at_input)
    at_question = Condition(lambda: actions.at_question)
    empty = Condition(lambda: actions.input_is_empty)

    @Condition
    def escape_is_ours() -> bool:
        # In vi it leaves the insert mode first, unless there is a run and nothing to edit.
        if get_app().editing_mode != EditingMode.VI or not vi_insert_mode():
            return True
        return actions.working and actions.input_is_empty

    @keys.add("enter", filter=at_input)
    def _(event: KeyPressEvent) -> None:
        actions.enter()

    @keys.add("escape", "enter", filter=at_input)
    def _(event: KeyPressEvent) -> None:
        actions.alt_enter()

    @keys.add("c-j", filter=at_input)
    def _(event: KeyPressEvent) -> None:
        actions.new_line()

    @keys.add(Keys.BracketedPaste, filter=at_input)
    def _(event: KeyPressEvent) -> None:
        actions.paste(event.data.replace("\r\n", "\n").replace("\r", "\n"))

    @keys.add(Keys.BracketedPaste, filter=~at_input)
    def _(event: KeyPressEvent) -> None:
        # A search, a reason, a name: one line, for which nobody means more than that.
        event.current_buffer.insert_text(event.data[:LONGEST_LINE].replace("\r", "\n"))

    @keys.add("escape", "up", filter=at_input)
    def _(event: KeyPressEvent) -> None:
        actions.take_back()

    @keys.add("escape", filter=at_input & escape_is_ours)
    def _(event: KeyPressEvent) -> None:
        actions.escape()

    @keys.add("c-c")
    @keys.add(Keys.SIGINT)
    def _(event: KeyPressEvent) -> None:
        actions.ctrl_c()

    @keys.add("c-d", filter=at_input & empty)
    def _(event: KeyPressEvent) -> None:
        actions.leave()

    @keys.add("c-z")
    def _(event: KeyPressEvent) -> None:
        actions.suspend()

    @keys.add("c-r", filter=at_input)
    def _(event: KeyPressEvent) -> None:
        actions.search_history()

    @keys.add("c-x", "c-e", filter=at_input)
    @keys.add("c-g", filter=at_input & ~has_completions & ~has_selection)
    def _(event: KeyPressEvent) -> None:
        actions.edit_elsewhere()

    @keys.add("c-t")
    def _(event: KeyPressEvent) -> None:
        actions.toggle_thinking()

    @keys.add("c-o")
    def _(event: KeyPressEvent) -> None:
        actions.show_last_output()

    @keys.add("c-l")
    def _(event: KeyPressEvent) -> None:
        actions.clear_screen()

    @keys.add("s-tab", filter=(at_input & ~has_completions) | at_question)
    def _(event: KeyPressEvent) -> None:
        actions.next_permission_mode()

    @keys.add("tab", filter=at_input)
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        if buffer.complete_state is None or not buffer.complete_state.completions:
            event.app.create_background_task(_complete(buffer))
        elif len(buffer.complete_state.completions) == 1:
            _complete_with(buffer, buffer.complete_state.completions[0])
        else:
            buffer.complete_next()

    return keys


async def _complete(buffer: Buffer) -> None:
    """What all completions have in common. `Buffer.start_completion` does nothing while completions
    are looked for as somebody types, which takes longer on a slow machine."""
    document = buffer.document
    wanted = CompleteEvent(completion_requested=True)
    found = [each async for each in buffer.completer.get_completions_async(document, wanted)]
    if not found or buffer.document != document:
        return
    if len(found) == 1:
        _complete_with(buffer, found[0])
    elif common := get_common_complete_suffix(document, found):
        buffer.insert_text(common)
    elif buffer.complete_state is None:
        buffer.start_completion()


def _complete_with(buffer: Buffer, only: Completion) -> None:
    """Take what is the only one, so that there is nothing left to choose from."""
    state = buffer.complete_state
    if state is not None and state.complete_index is not None:
        buffer.complete_state = None  # it stands in the text already
    else:
        buffer.apply_completion(only)
