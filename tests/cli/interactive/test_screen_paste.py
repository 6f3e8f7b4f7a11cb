"""What is pasted into the input: many lines, and the paths of images that are dropped on it."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest
from tests.cli.interactive.screen_scene import ENTER, UP, desk_with, folder, paste

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


async def test_of_a_long_paste_the_lines_that_are_not_seen_are_counted(folder: Path) -> None:
    async with desk_with(ScriptedModel([]), folder) as desk:
        await desk.idle()
        desk.type(paste("\n".join(f"line {number}" for number in range(40))))
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
