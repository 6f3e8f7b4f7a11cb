"""The list to choose from, with real keys and a screen that is read back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence

import pytest
from prompt_toolkit.application import Application
from prompt_toolkit.application.current import create_app_session
from prompt_toolkit.data_structures import Size
from prompt_toolkit.enums import EditingMode
from prompt_toolkit.input import PipeInput, create_pipe_input
from prompt_toolkit.layout import HSplit, Layout, Window
from prompt_toolkit.output import DummyOutput

from loopwright.cli.interactive.matching import fits_words, matcher
from loopwright.cli.interactive.picker import Picker
from loopwright.cli.interactive.screen import PickItem

UP, DOWN, PAGE_UP, PAGE_DOWN = "\x1b[A", "\x1b[B", "\x1b[5~", "\x1b[6~"
HOME, END, ENTER, ESC, BACKSPACE = "\x1b[H", "\x1b[F", "\r", "\x1b", "\x7f"


class Sized(DummyOutput):
    def __init__(self, rows: int, columns: int) -> None:
        self.size = Size(rows=rows, columns=columns)

    def get_size(self) -> Size:
        return self.size


class Shown:
    """A picker in an application that runs."""

    def __init__(self, picker: Picker, app: Application[None], pipe: PipeInput) -> None:
        self.picker = picker
        self.app = app
        self._pipe = pipe

    async def press(self, *keys: str) -> PickItem | None:
        """Press *keys*; what is chosen when something is."""
        self._pipe.send_text("".join(keys))
        return await asyncio.wait_for(self.picker.done, 10)

    async def type(self, keys: str, until: Callable[[], bool]) -> None:
        self._pipe.send_text(keys)
        async with asyncio.timeout(10):
            while not until():
                await asyncio.sleep(0.005)

    async def drawn(self) -> list[str]:
        """The lines on the screen, once what was typed is drawn."""
        drawn = asyncio.Event()

        def done(_: object) -> None:
            drawn.set()

        self.app.after_render += done
        self.app.invalidate()
        await asyncio.wait_for(drawn.wait(), 10)
        screen = self.app.renderer.last_rendered_screen
        assert screen is not None
        lines: list[str] = []
        for row in range(screen.height):
            cells = screen.data_buffer[row]
            lines.append(
                "".join([cells[column].char for column in range(max(cells, default=-1) + 1)])
            )
        return "\n".join([line.rstrip() for line in lines]).rstrip("\n").split("\n")


Show = Callable[..., Awaitable[Shown]]


@pytest.fixture
async def show() -> AsyncIterator[Show]:
    """Puts a picker on a screen of 24 x 80: `await show(["one", "two"])`."""
    with create_pipe_input() as pipe:
        running: list[tuple[Application[None], asyncio.Task[None]]] = []

        async def start(
            items: Sequence[PickItem | str],
            *,
            title: str = "pick",
            selected: int = 0,
            rows: int = 24,
            columns: int = 80,
            vi: bool = False,
        ) -> Shown:
            made = [PickItem(one) if isinstance(one, str) else one for one in items]
            picker = Picker(title, made, selected=selected)
            with create_app_session(input=pipe, output=Sized(rows, columns)):
                app: Application[None] = Application(
                    Layout(HSplit([Window(height=0), picker.container]), picker.window),
                    input=pipe,
                    output=Sized(rows, columns),
                    editing_mode=EditingMode.VI if vi else EditingMode.EMACS,
                )
            app.ttimeoutlen = 0.05
            started = asyncio.Event()
            task = asyncio.create_task(app.run_async(pre_run=started.set))
            running.append((app, task))
            await started.wait()
            return Shown(picker, app, pipe)

        yield start
        for app, task in running:
            app.exit()
            await task


NUMBERS = [f"number {count}" for count in range(100)]


@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        ([], "number 0"),
        ([DOWN, DOWN, UP], "number 1"),
        ([UP], "number 99"),
        ([END], "number 99"),
        ([END, DOWN], "number 0"),
        ([END, HOME], "number 0"),
        ([PAGE_DOWN, PAGE_DOWN, PAGE_UP], "number 5"),
        ([END, PAGE_DOWN], "number 99"),
        ([PAGE_UP], "number 0"),
        (["42"], "number 42"),
        (["4", "2", BACKSPACE, DOWN], "number 43"),
        (["nothing\x15"], "number 0"),
        (["7 number 5"], "number 57"),
        (["\x1b[200~9\n9\x1b[201~"], "number 99"),
    ],
)
async def test_keys_move_and_letters_filter(show: Show, keys: list[str], chosen: str) -> None:
    shown = await show(NUMBERS)

    picked = await shown.press(*keys, ENTER)

    assert picked is not None
    assert picked.label == chosen


@pytest.mark.parametrize("key", [ESC, "\x03", "\x07"])
async def test_it_can_be_left_without_choosing(show: Show, key: str) -> None:
    shown = await show(NUMBERS)

    assert await shown.press(DOWN, key) is None


async def test_letters_filter_in_vi_mode_as_well(show: Show) -> None:
    shown = await show(["jk", "dd", "ab"], vi=True)

    picked = await shown.press("dd", ENTER)

    assert picked == PickItem("dd")


async def test_enter_with_nothing_that_fits_chooses_nothing(show: Show) -> None:
    shown = await show(["one", "two"])

    await shown.type("xyz" + ENTER, lambda: shown.picker.query == "xyz")

    assert shown.picker.current is None
    assert not shown.picker.done.done()
    assert "  nothing fits" in await shown.drawn()
    assert await shown.press("\x15", ENTER) == PickItem("one")


async def test_it_begins_at_the_selected_item_and_shows_it(show: Show) -> None:
    shown = await show(NUMBERS, selected=50)

    lines = await shown.drawn()

    assert "> number 50" in lines
    assert "51/100" in lines[0]


@pytest.mark.parametrize(("rows", "lines"), [(24, 8), (60, 20), (10, 5), (6, 5)])
async def test_it_takes_a_third_of_the_screen_but_at_least_five_lines(
    show: Show, rows: int, lines: int
) -> None:
    shown = await show(NUMBERS, rows=rows)

    assert len(await shown.drawn()) == lines


async def test_what_is_above_and_below_is_counted(show: Show) -> None:
    shown = await show(NUMBERS[:10])

    first = await shown.drawn()
    await shown.type(END, lambda: shown.picker.current == PickItem("number 9"))
    last = await shown.drawn()
    await shown.type(UP * 6, lambda: shown.picker.current == PickItem("number 3"))
    middle = await shown.drawn()

    assert first[1:] == ["> number 0", *(f"  number {n}" for n in range(1, 6)), "  … 4 more below"]
    assert last[-2:] == ["> number 9", "  … 4 more above"]
    assert middle[-1] == "  … 3 more above · 1 more below"
    assert len(first) == len(middle) == len(last) == 8


async def test_a_list_that_fits_has_no_line_for_others(show: Show) -> None:
    shown = await show(NUMBERS[:7])

    assert (await shown.drawn())[-1] == "  number 6"


async def test_a_short_list_takes_no_more_lines_than_it_has(show: Show) -> None:
    shown = await show(["one", "two"])

    assert await shown.drawn() == ["pick  1/2  enter chooses, esc leaves", "> one", "  two"]


async def test_hostile_labels_are_shown_and_not_obeyed_in_one_line_each(show: Show) -> None:
    shown = await show(
        [PickItem("a\x1b]0;owned\x07b\nc\u202ed", "h\x9bi\rnt"), PickItem("wide 漢字 " * 40)],
        title="t\x1b[2Jitle\nx",
        columns=40,
    )

    lines = await shown.drawn()

    assert len(lines) == 3
    whole = "".join(lines)
    assert not set(whole) & set("\x1b\x07\x9b\r\n\u202e")
    assert lines[0].startswith("t␛[2Jitle x")
    assert "a␛]0;owned␇b c" in lines[1]
    assert lines[2].endswith("…")


async def test_hints_are_filtered_by_too_and_pinned_items_stay(show: Show) -> None:
    items = [
        PickItem("alpha", "cheap"),
        PickItem("beta", "dear"),
        PickItem("… something else", pinned=True),
    ]
    shown = await show(items)

    await shown.type("dear", lambda: shown.picker.query == "dear")

    assert [item.label for item in shown.picker.offered] == ["beta", "… something else"]
    assert "1/1" in (await shown.drawn())[0]
    await shown.type("x", lambda: shown.picker.query == "dearx")
    assert shown.picker.current == items[2]


async def test_the_lines_of_a_tree_go_when_something_is_typed(show: Show) -> None:
    shown = await show([PickItem("one", lead="│ ○ "), PickItem("two", indent=2)])

    before = await shown.drawn()
    await shown.type("t", lambda: shown.picker.query == "t")

    assert before[1:] == ["> │ ○ one", "    two"]
    assert (await shown.drawn())[1:] == ["> two"]


async def test_a_deep_tree_leaves_room_for_the_words(show: Show) -> None:
    shown = await show([PickItem("the words", lead="│ " * 200 + "● ")])

    line = (await shown.drawn())[1]

    assert line.endswith("● the words")
    assert len(line) <= 80


async def test_an_empty_list_can_be_left(show: Show) -> None:
    shown = await show([])

    assert (await shown.drawn())[1:] == ["  there is nothing"]
    assert await shown.press(DOWN, END, PAGE_UP, ENTER, ESC) is None


async def test_it_follows_a_resize(show: Show) -> None:
    shown = await show(NUMBERS, selected=90)
    await shown.drawn()

    output = shown.app.output
    assert isinstance(output, Sized)
    output.size = Size(rows=60, columns=20)

    lines = await shown.drawn()
    assert len(lines) == 20
    assert "> number 90" in lines


async def test_five_thousand_items_are_filtered_between_two_keys(show: Show) -> None:
    shown = await show(
        [f"session about the {count}th thing that was said" for count in range(5000)]
    )

    began = time.perf_counter()
    picked = await shown.press("4999 thing", ENTER)
    took = time.perf_counter() - began

    assert picked is not None
    assert "4999th" in picked.label
    assert took < 3  # eleven keys, on a machine that may be busy; measured 0.3 s


# -- what fits ---------------------------------------------------------------------------------


def test_what_holds_the_words_comes_before_what_only_has_the_letters() -> None:
    rank = matcher("cli")

    ranks = [
        rank(text) for text in ("src/cli.py", "src/a-cli.py", "cli/a.py", "c1l2i3", "c1l2i345i")
    ]

    assert ranks == [0, 1, 2, 8, 8]
    assert rank("ilc") is None
    assert fits_words("b a")("a.b") is not None
    assert fits_words("b a")("b.c") is None


def test_a_pattern_made_to_be_slow_is_not() -> None:
    rank = matcher("a" * 200 + "b")

    began = time.perf_counter()
    assert rank("a" * 100_000) is None

    assert time.perf_counter() - began < 2
