"""Where the user types: several lines, a history, a menu of completions.

A paste stays here until Enter is pressed, however many lines it has; a long one is folded
(pastes.py). What Enter then means is decided in keys.py and app.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from prompt_toolkit.application.current import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.completion import Completer, DummyCompleter, DynamicCompleter
from prompt_toolkit.filters import Condition
from prompt_toolkit.layout import (
    ConditionalContainer,
    HSplit,
    UIContent,
    UIControl,
    VSplit,
    Window,
)
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.layout.menus import CompletionsMenu
from prompt_toolkit.layout.processors import (
    AfterInput,
    ConditionalProcessor,
    HighlightIncrementalSearchProcessor,
)
from prompt_toolkit.search import SearchDirection, start_search, stop_search
from prompt_toolkit.widgets.toolbars import SearchToolbar

from .footer import Fragments
from .pastes import Pastes
from .shell_line import as_text
from .shown_input import ShownInput

if TYPE_CHECKING:
    from pathlib import Path

    from prompt_toolkit.data_structures import Size
    from prompt_toolkit.history import History

__all__ = ["Editor"]

PROMPT = "> "
MENU_ROWS = 8
SEARCH = "history: "


class Editor:
    """The input. `container` is what is drawn, `window` what gets the focus."""

    def __init__(
        self,
        history: History,
        pastes: Pastes,
        *,
        size: Callable[[], Size],
        placeholder: Callable[[], str],
    ) -> None:
        """*size* is the terminal's; *placeholder* is shown while nothing is typed."""
        self._size = size
        self._pastes = pastes
        self.completer: Completer = DummyCompleter()
        """May be replaced at any time."""
        self.buffer = Buffer(
            name="input",
            multiline=True,
            history=history,
            completer=DynamicCompleter(lambda: self.completer),
            complete_while_typing=True,
        )
        self._search = SearchToolbar(
            ignore_case=True, backward_search_prompt=SEARCH, forward_search_prompt=SEARCH
        )
        self._control = BufferControl(
            self.buffer,
            search_buffer_control=self._search.control,
            preview_search=True,
            input_processors=[
                HighlightIncrementalSearchProcessor(),
                ShownInput(pastes.label),
                ConditionalProcessor(
                    AfterInput(placeholder, style="class:note"),
                    Condition(lambda: not self.buffer.text and not self.searching),
                ),
            ],
        )
        self.window = Window(
            self._control,
            height=lambda: Dimension(min=1, max=self._most_rows()),
            wrap_lines=True,
            dont_extend_height=True,
            get_line_prefix=_line_prefix,
        )
        menu = CompletionsMenu(
            max_height=MENU_ROWS,
            scroll_offset=1,
            extra_filter=Condition(lambda: size().rows > MENU_ROWS),
        )
        # Below the lines, since it is drawn after them and then knows which are to be seen.
        hidden = ConditionalContainer(
            Window(_Late(self._hidden_lines), height=1), Condition(self._is_cut)
        )
        self.container = HSplit([self.window, hidden, self._search, VSplit([menu, Window()])])

    @property
    def text(self) -> str:
        """What was typed so far, with all that was pasted."""
        return self._pastes.whole(self.buffer.text)

    @text.setter
    def text(self, text: str) -> None:
        self._set(self._pastes.folded(text))

    @property
    def is_empty(self) -> bool:
        """Nothing is typed, not even a blank."""
        return not self.buffer.text

    @property
    def begins_with_paste(self) -> bool:
        """What comes first was pasted and is long."""
        return self._pastes.label(self.buffer.text[:1]) is not None

    def paste(self, text: str, folder: Path) -> None:
        """Insert *text*, folded if it is long; the paths of images, if it is nothing else, as
        `@path`. What is folded right before the cursor is unfolded by pasting it again."""
        from ..bench.prompt_message import pasted_image

        before = self.buffer.document.text_before_cursor
        mentions = pasted_image(text, folder)
        if mentions is not None:
            gap = " " if before and not before[-1].isspace() else ""
            # The blank: what is typed next is no part of the path.
            self.buffer.insert_text(f"{gap}{mentions} ")
        elif self._pastes.unfolds(before[-1:], text):
            self.buffer.delete_before_cursor()
            self.buffer.insert_text(text)
        else:
            self.buffer.insert_text(self._pastes.fold(text))

    def put_before(self, text: str) -> None:
        """Put *text* before what is there, a blank line between them. Together they are no command."""
        rest = self.buffer.text
        if rest.strip():
            self._set(f"{self._pastes.folded(as_text(text))}\n\n{rest}")
        else:
            self._set(self._pastes.folded(text))

    def type_ahead(self, text: str) -> None:
        """Add what was typed while something else had the keys."""
        self.buffer.insert_text(text, fire_event=False)

    def take(self) -> str:
        """All of it, which goes into the history; the input is empty then."""
        text = self.text
        self.buffer.cancel_completion()
        self.buffer.append_to_history()
        self.buffer.reset()
        return text

    def _set(self, typed: str) -> None:
        self.buffer.cancel_completion()
        self.buffer.text = typed
        self.buffer.cursor_position = len(typed)

    # -- completions ---------------------------------------------------------------------------

    def accept_completion(self) -> bool:
        """Take the chosen completion. False if that is no step of its own: none is chosen, or it is
        what was typed, or the only command that was meant."""
        state = self.buffer.complete_state
        if state is None or state.current_completion is None:
            return False
        self.buffer.complete_state = None  # what is chosen stands in the text already
        if state.original_document.text == self.buffer.text:
            return False
        return len(state.completions) > 1 or not self.buffer.text.startswith("/")

    def close_menu(self) -> bool:
        """Close the menu of completions, if it is open."""
        if self.buffer.complete_state is None:
            return False
        self.buffer.cancel_completion()
        return True

    # -- history -------------------------------------------------------------------------------

    @property
    def searching(self) -> bool:
        """The user looks for something typed before."""
        return self._search.control in get_app().layout.search_links

    def search_history(self) -> None:
        """Look for it: each key narrows it down, Ctrl-R goes further back."""
        start_search(self._control, SearchDirection.BACKWARD)

    def stop_search(self) -> bool:
        """Leave the search without a result, if there is one."""
        if not self.searching:
            return False
        stop_search(self._control)
        return True

    # -- what is to be seen ----------------------------------------------------------------------

    def _most_rows(self) -> int:
        return max(3, self._size().rows // 3)

    def _is_cut(self) -> bool:
        most = self._most_rows()
        needed = self._control.preferred_height(
            self._size().columns, most + 1, wrap_lines=True, get_line_prefix=_line_prefix
        )
        return needed is not None and needed > most

    def _hidden_lines(self) -> Fragments:
        shown = self.window.render_info
        if shown is None:
            return []
        above = shown.first_visible_line()
        below = self.buffer.document.line_count - 1 - shown.last_visible_line()
        parts = [
            f"{number:,} more line{'s' * (number != 1)} {where}"
            for number, where in ((above, "above"), (below, "below"))
            if number > 0
        ]
        return [("class:note", f"  … {' · '.join(parts)}")] if parts else []

    # -- lines ---------------------------------------------------------------------------------

    def new_line(self) -> None:
        """Begin another line."""
        self.buffer.newline(copy_margin=False)

    def backslash_line(self) -> bool:
        r"""A `\` right before the cursor becomes a new line. False if there is none."""
        if not self.buffer.document.text_before_cursor.endswith("\\"):
            return False
        self.buffer.delete_before_cursor()
        self.new_line()
        return True


def _line_prefix(line: int, wrapped: int) -> Fragments:
    first = line == 0 and wrapped == 0
    return [("class:prompt", PROMPT if first else " " * len(PROMPT))]


class _Late(UIControl):
    """One line of text, made when it is drawn and not before."""

    def __init__(self, text: Callable[[], Fragments]) -> None:
        self._text = text

    def create_content(self, width: int, height: int) -> UIContent:
        line = self._text()
        return UIContent(lambda _: line, line_count=1, show_cursor=False)
