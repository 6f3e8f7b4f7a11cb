"""What is drawn, how often, and that it fits."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.interactive.screen_scene import CTRL_O, ENTER, Desk, desk_with, folder, paste

from loopwright.cli.exit_codes import ExitCode
from loopwright.errors import ConfigurationError
from loopwright.models import Model
from loopwright.testing import Call, Reply, ScriptedModel

__all__ = ["folder"]

OTHER = Model("toy", "other", "scripted")


def resize(desk: Desk, columns: int, rows: int) -> None:
    desk.size[:] = [columns, rows]
    os.kill(os.getpid(), signal.SIGWINCH)


@pytest.mark.parametrize(("columns", "rows"), [(40, 10), (80, 24), (200, 60)])
async def test_the_live_area_fits_the_screen_while_much_is_written(
    folder: Path, columns: int, rows: int
) -> None:
    text = "\n".join(f"| {number} | {'words ' * 30} |" for number in range(40))
    model = ScriptedModel([Reply(text, chunk_size=20, delay=0.001)])
    heights: list[int] = []

    async with desk_with(model, folder, columns=columns, rows=rows) as desk:
        await desk.idle()
        desk.conversation.screen.app.after_render += lambda app: heights.append(len(desk.rows()))
        desk.type("go" + ENTER)
        await desk.sees("writing")
        desk.type(paste("typed\n" * 30))
        await desk.until(lambda: not desk.live.working)

    assert max(heights) <= rows


def timers(loop: asyncio.AbstractEventLoop) -> list[asyncio.TimerHandle]:
    """What is going to happen by itself."""
    planned: list[asyncio.TimerHandle] = loop._scheduled  # type: ignore[attr-defined]
    return [timer for timer in planned if not timer.cancelled()]


async def test_many_events_make_few_drawings_and_silence_makes_none(folder: Path) -> None:
    model = ScriptedModel([Reply("word " * 1_500, chunk_size=5, delay=0.0001)])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        loop = asyncio.get_running_loop()
        app = desk.conversation.screen.app
        before, begun = app.frames, loop.time()
        desk.type("go" + ENTER)
        await desk.until(lambda: model.requests)
        await desk.until(lambda: not desk.live.working)
        await desk.idle()
        drawings, seconds = app.frames - before, loop.time() - begun
        # Nothing is drawn again if nothing is going to happen: no timer is left.
        await desk.until(lambda: not timers(loop))

        assert drawings <= 25 * seconds + 3


async def test_a_resize_is_followed_at_once(folder: Path) -> None:
    model = ScriptedModel([])

    async with desk_with(model, folder, columns=120) as desk:
        await desk.idle()
        wide = desk.drawn()
        resize(desk, 40, 10)
        await desk.until(lambda: len(desk.rows()) == 3)
        narrow = desk.drawn()
        resize(desk, 120, 24)
        await desk.sees("Ctrl-D leaves")

        assert "Ctrl-D leaves" in wide
        assert "Enter sends" not in narrow


async def test_nothing_is_asked_of_the_terminal(folder: Path) -> None:
    model = ScriptedModel([Reply("Hello.")])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type("go" + ENTER)
        await desk.reads("Hello.")

    written = desk.written.getvalue()
    for query in ("\x1b[6n", "\x1b[c", "\x1b[>", "\x1b]1", "\x1b[?u", "\x1bP"):
        assert query not in written
    assert written.count("\x1b[?2004h") == written.count("\x1b[?2004l")


async def test_no_color_leaves_no_colours(folder: Path) -> None:
    model = ScriptedModel([Reply("# Title\n\n`code` and **bold**\n")])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type("go" + ENTER)
        await desk.reads("code")

    styles = re.findall(r"\x1b\[([0-9;]*)m", desk.written.getvalue())
    assert set(styles) <= {"", "0"}


async def test_what_others_print_becomes_a_note_above(folder: Path) -> None:
    async with desk_with(ScriptedModel([]), folder) as desk:
        await desk.idle()
        print("from print", file=sys.stderr)
        logging.getLogger("somebody").addHandler(handler := logging.StreamHandler())
        try:
            logging.getLogger("somebody").warning("from a log \x1b[2J")
        finally:
            logging.getLogger("somebody").removeHandler(handler)
        await desk.reads("from print")
        await desk.reads("from a log")

    assert "\x1b[2J" not in desk.written.getvalue()


async def test_ctrl_o_prints_the_last_tool_output_in_full(folder: Path) -> None:
    (folder / "long.txt").write_text("\n".join(f"line {number}" for number in range(300)))
    model = ScriptedModel([Reply("", calls=[Call("read", {"path": "long.txt"})]), Reply("Read.")])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type("go" + ENTER)
        await desk.reads("Read.")
        folded = "line 150" in desk.printed()
        desk.type(CTRL_O)
        await desk.reads("line 150")

        assert not folded


async def test_a_known_session_is_shown_before_the_first_prompt(folder: Path) -> None:
    async with desk_with(ScriptedModel([Reply("The answer.")]), folder) as desk:
        await desk.idle()
        desk.type("The question." + ENTER)
        await desk.reads("The answer.")
        await desk.idle()
        info = desk.live.info

    assert info is not None
    async with desk_with(ScriptedModel([]), folder, session=info.id) as again:
        await again.reads("The answer.")

        assert "The question." in again.printed()


async def test_a_session_that_cannot_be_opened_ends_it_with_that_error(folder: Path) -> None:
    async def fail() -> None:
        raise ConfigurationError("no such model", hint="choose another")

    async with desk_with(ScriptedModel([]), folder, setting_up=fail) as desk:
        with pytest.raises(ConfigurationError, match="no such model"):
            await desk.ends()

    assert desk.written.getvalue().endswith("\x1b[?25h") or "\x1b[?2004l" in desk.written.getvalue()


async def test_a_fault_of_the_screen_is_told_and_the_session_is_closed(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with desk_with(ScriptedModel([]), folder) as desk:
        await desk.idle()

        def broken(*_: Any) -> str:
            raise ZeroDivisionError("drawing went wrong")

        desk.conversation.screen.transcript.live = broken  # type: ignore[method-assign]
        desk.type("x")
        code = await desk.ends()

    assert code == ExitCode.FAILED
    told = capsys.readouterr().err
    assert "drawing went wrong" in told
    assert "Traceback" in told


async def test_a_fault_in_hearing_an_event_is_told_as_well(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with desk_with(ScriptedModel([Reply("Hello.")]), folder) as desk:
        await desk.idle()

        def broken(*_: Any) -> None:
            raise ZeroDivisionError("hearing went wrong")

        desk.conversation.screen.transcript.feed = broken  # type: ignore[method-assign]
        desk.type("go" + ENTER)
        code = await desk.ends()

    assert code == ExitCode.FAILED
    assert "hearing went wrong" in capsys.readouterr().err


async def test_the_input_ending_ends_the_program(folder: Path) -> None:
    async with desk_with(ScriptedModel([]), folder) as desk:
        await desk.idle()
        desk.hang_up()

        assert await desk.ends() == ExitCode.TERMINATED


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_a_signal_stops_the_run_and_closes_the_session(
    folder: Path, number: signal.Signals
) -> None:
    nap = Reply("", calls=[Call("bash", {"command": "sleep 60"})])
    if signal.getsignal(number) is signal.SIG_IGN:  # as under nohup
        signal.signal(number, signal.SIG_DFL)

    async with desk_with(ScriptedModel([nap]), folder) as desk:
        await desk.idle()
        desk.live.permission_mode = "yolo"
        desk.type("go" + ENTER)
        await desk.sees("running bash")
        info = desk.live.info
        os.kill(os.getpid(), number)
        code = await desk.ends()

    assert code == ExitCode.TERMINATED
    assert info is not None
    async with desk_with(ScriptedModel([]), folder, session=info.id) as again:
        await again.idle()

        assert again.live.unfinished is None


@pytest.mark.parametrize(
    ("again", "named", "chosen", "told"),
    [
        ((), None, None, "loopwright --session {id}"),
        (("--agent", "my agent.py:agent"), None, None,
         "loopwright --agent 'my agent.py:agent' --session {id}"),
        ((), "scripted/scripted", None, "loopwright --model scripted/scripted --session {id}"),
        ((), "scripted/scripted", OTHER, "loopwright --session {id}"),
    ],
    ids=["as it is", "an agent", "a model", "another model since then"],
)  # fmt: skip
async def test_the_end_says_how_to_go_on(
    folder: Path,
    capsys: pytest.CaptureFixture[str],
    again: tuple[str, ...],
    named: str | None,
    chosen: Model | None,
    told: str,
) -> None:
    model = ScriptedModel([Reply("Hello.")])

    async with desk_with(model, folder, again=again, named_model=named) as desk:
        await desk.idle()
        desk.type("go" + ENTER)
        await desk.reads("Hello.")
        await desk.idle()
        if chosen is not None:
            desk.live.agent.model = chosen
        info = desk.live.info

    assert info is not None
    assert f"to go on with this session: {told.format(id=info.id)}\n" in capsys.readouterr().err
