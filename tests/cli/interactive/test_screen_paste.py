"""What is pasted into the input: many lines, and the paths of images that are dropped on it."""

from __future__ import annotations

import asyncio
import struct
import zlib
from pathlib import Path

import pytest
from tests.cli.interactive.screen_scene import (
    ALT_UP,
    ENTER,
    UP,
    Desk,
    desk_with,
    folder,
    paste,
)

from loopwright.messages import ImageContent, UserMessage
from loopwright.testing import Reply, ScriptedModel

__all__ = ["folder"]


def png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return (
            struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
        )

    head = struct.pack(">IIBBBBB", 2, 2, 8, 2, 0, 0, 0)
    pixels = zlib.compress(b"\0" * 14)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("before", ["", "look at", "look at "], ids=repr)
async def test_an_image_that_is_dropped_is_attached_from_wherever_it_lies(
    folder: Path, tmp_path: Path, before: str
) -> None:
    image = tmp_path / "my shot.png"
    image.write_bytes(png())
    model = ScriptedModel([Reply("Nothing much.")])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type(before + paste(str(image).replace(" ", "\\ ")) + "and say")
        await desk.until(lambda: desk.input().endswith("and say"))
        typed = desk.input()
        desk.type(ENTER)
        await desk.reads("Nothing much.")

    assert typed == f'{before.strip()} @"{image}" and say'.lstrip()
    said = model.requests[-1].context.messages[0]
    assert isinstance(said, UserMessage)
    assert [type(block) for block in said.content].count(ImageContent) == 1


async def test_a_path_in_a_sentence_or_of_no_image_is_pasted_as_it_is(folder: Path) -> None:
    (folder / "a.png").write_bytes(png())
    (folder / "a.txt").write_text("no image")

    async with desk_with(ScriptedModel([]), folder) as desk:
        await desk.idle()
        desk.type(paste("see a.png\r\nthen") + paste("a.txt"))
        await desk.until(lambda: desk.input() == "see a.png\nthena.txt")


async def test_of_many_lines_those_that_are_not_seen_are_counted(folder: Path) -> None:
    async with desk_with(ScriptedModel([]), folder) as desk:
        await desk.idle()
        for first in range(0, 40, 8):
            piece = "\n".join(f"line {number}" for number in range(first, first + 8))
            desk.type(paste(piece + "\n" * (first < 32)))
        await desk.sees("  … 32 more lines above")
        at_the_end = desk.rows()
        desk.type(UP * 9)
        await desk.sees("  … 30 more lines above · 2 more lines below")
        desk.type("\x03")
        await desk.until(lambda: desk.input() == "")
        await desk.sees("> ask something")

        assert at_the_end.index("  … 32 more lines above") == at_the_end.index("  line 39") + 1
        assert "more lines" not in desk.drawn()


async def test_lines_that_are_all_to_be_seen_are_not_counted(folder: Path) -> None:
    async with desk_with(ScriptedModel([]), folder) as desk:
        await desk.idle()
        desk.type(paste("\n".join(f"line {number}" for number in range(8))))
        await desk.sees("  line 7")

        assert "> line 0" in desk.drawn()
        assert "more line" not in desk.drawn()


# -- long ones ---------------------------------------------------------------------------------

LONG = "\n".join(f"line {number}" for number in range(1, 13))


@pytest.mark.parametrize(
    ("pasted", "shown"),
    [
        (LONG, "[pasted 1: 12 lines]"),
        (LONG + "\n", "[pasted 1: 12 lines]"),
        ("x" * 1_001, "[pasted 1: 1,001 characters]"),
        (LONG.replace("\n", "\r\n"), "[pasted 1: 12 lines]"),
    ],
    ids=["lines", "a line end behind them", "characters", "from Windows"],
)
async def test_a_long_paste_is_a_few_words_in_the_input_and_whole_when_it_is_sent(
    folder: Path, pasted: str, shown: str
) -> None:
    model = ScriptedModel([Reply("Read.")])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type("look at " + paste(pasted) + " please")
        await desk.sees(f"> look at {shown} please")
        desk.type(ENTER)
        await desk.reads("Read.")

        whole = pasted.replace("\r\n", "\n")
        assert desk.asked() == [f"look at {whole} please"]
        shown_as_said = desk.printed().partition("\n› look at")[2].partition("Read.")[0]
        assert whole[:6] in shown_as_said


@pytest.mark.parametrize(
    "pasted", ["x" * 1_000, "\n".join("1234567890")], ids=["1,000", "10 lines"]
)
async def test_what_is_not_long_stays_as_it_is(folder: Path, pasted: str) -> None:
    async with desk_with(ScriptedModel([]), folder) as desk:
        await desk.idle()
        desk.type(paste(pasted))
        await desk.until(lambda: desk.conversation.screen.editor.buffer.text == pasted)


async def test_a_long_paste_is_deleted_and_walked_over_as_one_piece(folder: Path) -> None:
    async with desk_with(ScriptedModel([]), folder) as desk:
        await desk.idle()
        desk.type("ab" + paste(LONG) + paste(LONG.upper()))
        await desk.sees("> ab[pasted 1: 12 lines][pasted 2: 12 lines]")
        desk.type("\x7f")
        await desk.until(lambda: desk.input() == f"ab{LONG}")
        desk.type("\x1b[Dc")
        await desk.sees("> abc[pasted 1: 12 lines]")
        desk.type("\x7f\x1b[3~")
        await desk.until(lambda: desk.input() == "ab")
        await desk.until(lambda: "pasted" not in desk.drawn())


async def test_pasted_once_more_it_is_unfolded(folder: Path) -> None:
    async with desk_with(ScriptedModel([]), folder) as desk:
        await desk.idle()
        desk.type(paste(LONG))
        await desk.sees("> [pasted 1: 12 lines]")
        desk.type(paste(LONG))
        await desk.sees("  line 12")

        assert desk.input() == LONG


async def test_a_line_with_a_long_paste_comes_back_folded_and_in_another_process_whole(
    folder: Path, tmp_path: Path
) -> None:
    file = tmp_path / "history.jsonl"

    async with desk_with(
        ScriptedModel([Reply("One."), Reply("Two.")]), folder, history=file
    ) as desk:
        await desk.idle()
        desk.type("see " + paste(LONG) + ENTER)
        await desk.reads("One.")
        await desk.idle()
        desk.type(UP)
        await desk.sees("> see [pasted 1: 12 lines]")
        desk.type(ENTER)
        await desk.reads("Two.")
        again = desk.asked()[-1]
    async with desk_with(ScriptedModel([]), folder, history=file) as later:
        await later.idle()
        later.type(UP)
        await later.sees("  line 12")
        typed = later.input()

    assert again == typed == f"see {LONG}"


async def test_what_is_given_back_is_folded_again(folder: Path) -> None:
    hold = asyncio.Event()

    async def wait(request: object) -> Reply:
        await hold.wait()
        return Reply("Late.")

    async with desk_with(ScriptedModel([wait, Reply("x")]), folder) as desk:
        await desk.idle()
        desk.type("go" + ENTER)
        await desk.sees("waiting for the model")
        desk.type("see " + paste(LONG) + ENTER)
        await desk.sees("queued: see line 1 line 2")
        desk.type(ALT_UP)
        await desk.sees("> see [pasted 1: 12 lines]")
        hold.set()
        await desk.reads("Late.")

        assert desk.input() == f"see {LONG}"


@pytest.mark.parametrize("first", ["!touch made", "/quit"])
async def test_a_long_paste_is_never_a_command(folder: Path, first: str) -> None:
    model = ScriptedModel([Reply("Read.")])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type(paste(f"{first}\n{LONG}") + ENTER)
        await desk.reads("Read.")

        assert desk.asked() == [f"{first}\n{LONG}"]
    assert not (folder / "made").exists()


async def test_a_character_that_looks_like_a_folded_paste_is_taken_for_none(folder: Path) -> None:
    model = ScriptedModel([Reply("Read.")])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type(paste(LONG) + paste("\U00100001") + ENTER)
        await desk.reads("Read.")

        assert desk.asked() == [f"{LONG}\U00100001"]


async def test_a_paste_where_one_line_is_asked_for_is_cut(folder: Path) -> None:
    async with desk_with(ScriptedModel([]), folder) as desk:
        await desk.idle()
        desk.type("\x12" + paste("y" * 20_000))
        await desk.sees("yyy")
        search = desk.conversation.screen.app.current_buffer.text

    assert search == "y" * 4_000


async def test_control_characters_in_a_long_paste_are_neutralized_on_the_screen(
    folder: Path,
) -> None:
    pasted = f"\x1b]0;title\x07\x9b2J\n{LONG}"
    model = ScriptedModel([Reply("Read.")])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type(paste(pasted) + ENTER)
        await desk.reads("Read.")

        assert desk.asked() == [pasted]
        assert "\x1b]0;title" not in desk.written.getvalue()
        assert "\x9b" not in desk.written.getvalue()
        assert "␛]0;title␇" in desk.printed()


# -- what nobody could see ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("typed", "shown"),
    [
        ("rm \u202egpj.exe\u202c now", "rm \\u202egpj.exe\\u202c now"),
        ("a\u2066b\u200bc\u00add\ufeffe", "a\\u2066b\\u200bc\\u00add\\ufeffe"),
        ("tag \U000e0041 end", "tag \\U000e0041 end"),
        ("a\u2028b", "a\\u2028b"),
    ],
    ids=["reordered", "no width", "tags", "line end"],
)
@pytest.mark.parametrize("pasted", [True, False], ids=["pasted", "typed"])
async def test_what_is_hidden_is_written_out_in_the_input_and_sent_as_it_is(
    folder: Path, typed: str, shown: str, pasted: bool
) -> None:
    model = ScriptedModel([Reply("Read.")])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type(paste(typed) if pasted else typed)
        await desk.sees(f"> {shown}")
        desk.type(ENTER)
        await desk.reads("Read.")

        assert desk.asked() == [typed]


async def test_the_cursor_stands_where_the_text_goes_that_is_typed_next(folder: Path) -> None:
    async with desk_with(ScriptedModel([]), folder) as desk:
        await desk.idle()
        desk.type("a\u202eb" + paste(LONG) + "c")
        await desk.sees("> a\\u202eb[pasted 1: 12 lines]c")
        columns: list[int] = []
        for _ in range(5):
            await desk.until(lambda: cursor(desk) not in columns)
            columns.append(cursor(desk))
            desk.type("\x1b[D")

    assert columns == [2 + n for n in (29, 28, 8, 7, 1)]


def cursor(desk: Desk) -> int:
    shown = desk.conversation.screen.app.renderer.last_rendered_screen
    assert shown is not None
    return shown.get_cursor_position(desk.conversation.screen.editor.window).x
