"""The tool `write` writes exactly what it was given, where it says."""

from __future__ import annotations

import pytest
from tests.tools.calling import call, refusal

from loopwright.tools import MemoryWorkspace, write_tool


async def test_a_new_file_is_made_with_its_folders_and_its_size_is_in_bytes() -> None:
    workspace = MemoryWorkspace()

    result = await call(write_tool(workspace), path="a/b.txt", content="\u20ac\r\n")

    assert workspace.files == {"a/b.txt": "\u20ac\r\n".encode()}
    assert result.text == "Wrote 5 bytes to a/b.txt, a new file."
    assert result.details == {"bytes": 5, "created": True}


async def test_an_old_file_is_overwritten_and_that_is_said() -> None:
    workspace = MemoryWorkspace({"f": b"\xff\0 anything"})

    result = await call(write_tool(workspace), path="./f", content="x")

    assert workspace.files == {"f": b"x"}
    assert result.text == "Wrote 1 byte to f, which was overwritten."
    assert result.details == {"bytes": 1, "created": False}


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        (b"a\r\nb\r\n", "a\nc\n", "The old file had CRLF line ends, which"),
        (b"\xef\xbb\xbfa\r\n", "a\n", "had CRLF line ends and a byte order mark, which"),
        ("a\n".encode("utf-16"), "a\n", "had the encoding UTF-16, which"),
        (b"a\r\nb\r\n", "a\r\nc\r\n", None),
        (b"\xef\xbb\xbfa\n", "\ufeffb\n", None),
        (b"a\nb\n", "c\n", None),
        (b"\0\r\n", "c\n", None),
        (b"a\r\n", "", None),
    ],
)
async def test_what_a_model_could_not_see_of_the_old_file_is_told_when_it_is_lost(
    old: bytes, new: str, words: str | None
) -> None:
    workspace = MemoryWorkspace({"f": old})

    result = await call(write_tool(workspace), path="f", content=new)

    assert workspace.files["f"] == new.encode()
    assert (words in result.text) if words else result.text.endswith("which was overwritten.")


@pytest.mark.parametrize("path", ["d", ".", "", "../x", "f/g", "a\0b"])
async def test_what_cannot_be_a_file_is_refused_in_words(path: str) -> None:
    workspace = MemoryWorkspace({"d/x": "", "f": ""})

    await refusal(write_tool(workspace), path=path, content="x")

    assert workspace.files == {"d/x": b"", "f": b""}


def test_write_is_not_repeated_after_a_crash() -> None:
    assert write_tool(MemoryWorkspace()).replay == "never"
