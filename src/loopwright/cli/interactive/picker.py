"""A list to choose from, shown in place of the input: type to filter, arrows to move.

It takes at most a third of the screen, but five lines on a small one. Only the lines that are seen
are drawn, so that a list of thousands costs no more than a short one.

Not here: what is chosen from (commands.py and its kin), or where it is shown (the screen).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from prompt_toolkit.application.current import get_app
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout.containers import HSplit, Window
from prompt_toolkit.layout.controls import FormattedTextControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.utils import get_cwidth

from ..streams import visible
from .footer import cut
from .matching import fits_words
from .one_line import one_line
from .screen import PickItem

if TYPE_CHECKING:
    from prompt_toolkit.formatted_text import StyleAndTextTuples

__all__ = ["Picker"]

FEWEST_ROWS = 5
HELP = "enter chooses, esc leaves"


class Picker:
    """Shows *items*; `done` gets the one that is chosen, or None.

    Put `container` into a layout, focus `window`, await `done`. All keys are its own while it has
    the focus, whatever the editing mode of the input is.
    """

    def __init__(self, title: str, items: Sequence[PickItem], *, selected: int = 0) -> None:
        """*selected* is the index to begin at. To be made on a running event loop."""
        self.done: asyncio.Future[PickItem | None] = asyncio.get_running_loop().create_future()
        self._title = one_line(title)
        self._items = list(items)
        self._labels = [one_line(item.label) for item in self._items]
        self._hints = [one_line(item.hint) for item in self._items]
        self._query = ""
        self._shown = list(range(len(self._items)))
        """Indexes of what is offered now."""
        self._place = min(max(selected, 0), max(len(self._items) - 1, 0))
        """In `_shown`."""
        self._top = 0
        control = FormattedTextControl(
            self._fragments, focusable=True, key_bindings=self._bindings(), show_cursor=False
        )
        self.window = Window(
            control,
            height=lambda: Dimension.exact(self._list_rows()),
            style="class:picker",
            always_hide_cursor=True,
        )
        head = Window(FormattedTextControl(self._head), height=1, style="class:picker.head")
        self.container = HSplit([head, self.window])

    def cancel(self) -> None:
        """Leave without choosing."""
        self._finish(None)

    # -- what is offered -----------------------------------------------------------------------

    @property
    def query(self) -> str:
        """What was typed."""
        return self._query

    @property
    def offered(self) -> list[PickItem]:
        """What is left of the items by that."""
        return [self._items[index] for index in self._shown]

    @property
    def current(self) -> PickItem | None:
        """The one that Enter would choose."""
        return self._items[self._shown[self._place]] if self._shown else None

    def _type(self, query: str) -> None:
        kept = self._shown[self._place] if self._shown else None
        longer = query.startswith(self._query) and query != self._query
        self._query = query
        self._shown = self._fitting()
        # Whoever takes a letter back stays where they are; whoever adds one looks for the best.
        if kept is not None and not longer and kept in self._shown:
            self._place = self._shown.index(kept)
        else:
            self._place = 0
        self._top = 0

    def _fitting(self) -> list[int]:
        everything = range(len(self._items))
        if not self._query.strip():
            return list(everything)
        rank = fits_words(self._query)
        ranked: list[tuple[int, int]] = []
        pinned: list[int] = []
        for index in everything:
            if self._items[index].pinned:
                pinned.append(index)
                continue
            found = rank(self._labels[index])
            if found is None and self._hints[index]:
                found = rank(f"{self._labels[index]} {self._hints[index]}")
                found = None if found is None or found > 2 else 2
            if found is not None:
                # What holds the words keeps its order; what only has the letters comes behind.
                ranked.append((0 if found <= 2 else found, index))
        return [index for _, index in sorted(ranked)] + pinned

    # -- keys ----------------------------------------------------------------------------------

    def _bindings(self) -> KeyBindings:
        keys = KeyBindings()

        def on(*names: Keys | str, eager: bool = False) -> Callable[[Callable[[], None]], None]:
            def bind(action: Callable[[], None]) -> None:
                for name in names:

                    def act(event: KeyPressEvent) -> None:
                        action()

                    keys.add(name, eager=eager)(act)

            return bind

        on("up", "c-p", "s-tab")(lambda: self._move(-1, around=True))
        on("down", "c-n", "tab")(lambda: self._move(1, around=True))
        on("pageup")(lambda: self._move(-self._page()))
        on("pagedown")(lambda: self._move(self._page()))
        on("home", "c-home")(lambda: self._move(-len(self._shown)))
        on("end", "c-end")(lambda: self._move(len(self._shown)))
        on("enter")(self._choose)
        # Eager: else Esc would wait for the key that makes it Alt and something.
        on("escape", "c-c", "c-g", "c-d", eager=True)(self.cancel)
        on("backspace")(lambda: self._type(self._query[:-1]))
        on("c-u")(lambda: self._type(""))
        on("c-w")(lambda: self._type(" ".join(self._query.split()[:-1])))

        @keys.add(Keys.BracketedPaste)
        def paste(event: KeyPressEvent) -> None:
            self._insert(event.data)

        @keys.add(Keys.Any)
        def type_(event: KeyPressEvent) -> None:
            self._insert(event.data)

        return keys

    def _insert(self, text: str) -> None:
        typed = "".join([character for character in text if character.isprintable()])
        if typed:
            self._type((self._query + typed)[:200])

    def _move(self, by: int, *, around: bool = False) -> None:
        count = len(self._shown)
        if not count:
            return
        if around and len(self._shown) > 1:
            self._place = (self._place + by) % count
        else:
            self._place = min(max(self._place + by, 0), count - 1)

    def _choose(self) -> None:
        if self.current is not None:
            self._finish(self.current)

    def _finish(self, item: PickItem | None) -> None:
        if not self.done.done():
            self.done.set_result(item)

    # -- drawing -------------------------------------------------------------------------------

    def _page(self) -> int:
        return max(self._item_rows() - 1, 1)

    def _list_rows(self) -> int:
        """Lines of the list; the head has one more."""
        most = max(get_app().output.get_size().rows // 3, FEWEST_ROWS) - 1
        return min(max(len(self._shown), 1), most)

    def _item_rows(self) -> int:
        """Of these with an item; where not all fit, the last line tells of the others."""
        rows = self._list_rows()
        return rows - 1 if len(self._shown) > rows else rows

    def _head(self) -> StyleAndTextTuples:
        columns = get_app().output.get_size().columns
        count = sum(1 for index in self._shown if not self._items[index].pinned)
        place = f"  {min(self._place + 1, count)}/{count}" if count else ""
        typed = cut(visible(self._query), max(columns - 2, 8))
        head: StyleAndTextTuples = [("class:prompt", cut(self._title, columns))]
        if self._query:
            head = [("class:prompt", cut(f"{self._title}: ", columns // 2)), ("", f"{typed}▏")]
        used = sum(get_cwidth(piece[1]) for piece in head)
        rest = f"{place}  {HELP}"
        if used + len(rest) > columns:
            rest = place
        if used + len(rest) <= columns:
            head.append(("class:note", rest))
        return head

    def _fragments(self) -> StyleAndTextTuples:
        columns = get_app().output.get_size().columns
        if not self._shown:
            return [("class:note", "  nothing fits" if self._query else "  there is nothing")]
        rows = self._item_rows()
        self._top = min(max(self._top, self._place - rows + 1), self._place)
        self._top = max(min(self._top, len(self._shown) - rows), 0)
        lines: StyleAndTextTuples = []
        for place in range(self._top, min(self._top + rows, len(self._shown))):
            if lines:
                lines.append(("", "\n"))
            lines += self._line(self._shown[place], columns, is_current=place == self._place)
        above, below = self._top, len(self._shown) - self._top - rows
        hidden = [
            f"{n:,} more {where}" for n, where in ((above, "above"), (below, "below")) if n > 0
        ]
        if hidden:
            lines += [("", "\n"), ("class:note", cut(f"  … {' · '.join(hidden)}", columns))]
        return lines

    def _line(self, index: int, columns: int, *, is_current: bool) -> StyleAndTextTuples:
        item = self._items[index]
        before = (
            "" if self._query.strip() else " " * item.indent + visible(item.lead).replace("\n", " ")
        )
        # A deep tree must not push its words off the screen.
        before = before[-(columns // 3) :] if len(before) > columns // 3 else before
        room = columns - 2 - get_cwidth(before) - 1
        label = cut(self._labels[index], max(room, 4))
        room -= get_cwidth(label) + 2
        hint = cut(self._hints[index], room) if room > 6 else ""
        style = "class:selected" if is_current else ""
        pieces: StyleAndTextTuples = [
            (style, "> " if is_current else "  "),
            (style or "class:border", before),
            (style or ("class:note" if item.pinned else ""), label),
        ]
        if hint:
            pieces.append((style or "class:note", f"  {hint}"))
        return pieces
