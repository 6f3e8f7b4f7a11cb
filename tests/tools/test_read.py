"""The tool `read` shows what is in a file, says what it leaves out, and never too much."""

from __future__ import annotations

import asyncio
import io
import re
import shlex
import time
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.tools.calling import call, refusal

from loopwright.loop.results import cap_result
from loopwright.tools import LocalWorkspace, MemoryWorkspace, read_tool
from loopwright.tools.read import _read_lines, _result


async def told(content: str | bytes, **args: int) -> str:
    result = await call(read_tool(MemoryWorkspace({"f": content})), path="f", **args)
    assert cap_result(result) is result  # nothing is left for the last resort to cut
    return result.text


async def test_a_small_file_comes_as_it_is() -> None:
    assert await told("a\n\tb \n") == "a\n\tb \n"
    assert await told("no end") == "no end"
    assert await told("") == "(The file is empty.)"
    assert await told("", offset=1, limit=1) == "(The file is empty.)"


async def test_part_of_a_file_says_which_part_and_how_to_go_on() -> None:
    text = "".join(f"line {n}\n" for n in range(1, 11))

    assert await told(text, limit=2) == (
        "line 1\nline 2\n\n[Lines 1 to 2 of 10. Continue with offset=3.]"
    )
    assert await told(text, offset=9, limit=5) == "line 9\nline 10\n\n[Lines 9 to 10 of 10.]"
    assert await told(text, limit=10) == text


async def test_details_say_it_for_programs() -> None:
    tool = read_tool(MemoryWorkspace({"f": "a\nb\nc\n"}))

    result = await call(tool, path="f", offset=2, limit=1)

    assert result.details == {
        "startLine": 2, "endLine": 2, "totalLines": 3, "size": 6, "truncated": True,
    }  # fmt: skip


async def test_a_final_line_feed_begins_no_further_line() -> None:
    tool = read_tool(MemoryWorkspace({"f": "a\nb\n", "g": "a\nb", "empty": ""}))

    assert "offset 3 is past the end of 'f', which has 2 lines" in await refusal(
        tool, path="f", offset=3
    )
    assert "which has 2 lines" in await refusal(tool, path="g", offset=3)
    assert "which has 0 lines" in await refusal(tool, path="empty", offset=2)


async def test_two_thousand_lines_are_shown() -> None:
    text = "x\n" * 2001

    shown = await told(text)

    assert shown.startswith("x\n" * 1999 + "x\n\n[Lines 1 to 2000 of 2,001")
    assert shown.endswith("Continue with offset=2001.]")
    assert await told(text, limit=5000) == shown
    assert await told("x\n" * 2000) == "x\n" * 2000


async def test_fifty_kib_are_shown_in_bytes_and_whole_lines() -> None:
    line = "\u20ac" * 33 + "\n"  # 100 bytes

    shown = await told(line * 600)

    kept = shown.count(line)
    assert re.search(rf"\n\n\[Lines 1 to {kept} of 600, the most", shown)
    assert 50 * 1024 - 1000 < len(shown.encode()) <= 50 * 1024
    assert await told("y" * (50 * 1024)) == "y" * (50 * 1024)


async def test_a_file_can_be_read_to_its_end_piece_by_piece() -> None:
    lines = [f"{n} " + "\u00e9" * (n * 7 % 900) for n in range(700)]
    tool = read_tool(MemoryWorkspace({"f": "\n".join(lines)}))
    seen: list[str] = []

    while len(seen) < len(lines):
        result = await call(tool, path="f", offset=len(seen) + 1)
        body = result.text.rpartition("\n\n[")[0] or result.text
        seen += body.split("\n")

    assert seen == lines


async def test_of_a_line_that_is_too_long_the_beginning_is_shown() -> None:
    text = "short\n" + "\u20ac" * 50_000 + "\nlast\n"

    before = await told(text)
    shown = await told(text, offset=2)

    assert before.startswith("short\n\n[Lines 1 to 1 of 3")
    assert before.endswith("Continue with offset=2.]")
    assert shown.startswith("\u20ac" * 10_000)
    assert "[Line 2 of 3 is 146.5 KiB long; its first 50,688 bytes are shown" in shown
    assert "sed -n 2p FILE | tail -c +50689" in shown
    assert shown.endswith("Continue with offset=3.]")
    assert "\ufffd" not in shown


async def test_line_ends_and_byte_order_marks_are_not_shown() -> None:
    assert await told(b"\xef\xbb\xbfa\r\nb\r\n") == "a\nb\n"
    assert await told(b"\xef\xbb\xbfa\r\nb\r\n", offset=2) == "b\n\n[Lines 2 to 2 of 2.]"
    assert await told(b"\xef\xbb\xbf") == "(The file is empty.)"
    assert await told("a\rb") == "a\rb"


async def test_what_is_no_utf_8_is_shown_as_far_as_it_goes_with_a_word_on_it() -> None:
    shown = await told(b"caf\xe9\nok\n")

    assert shown.startswith("caf\ufffd\nok\n\n[")
    assert "not valid UTF-8" in shown
    assert await told("a genuine \ufffd\n") == "a genuine \ufffd\n"


async def test_bytes_that_are_no_utf_8_do_not_grow_over_the_limit() -> None:
    shown = await told(b"\xe9\xe9\xe9\xe9\xe9\xe9\xe9\xe9\xe9\n" * 5000)

    assert len(shown.encode()) <= 50 * 1024


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\x7fELF\0\0", "binary file"),
        ("text".encode("utf-16"), "UTF-16"),
        ("text".encode("utf-32"), "UTF-32"),
        (b"%PDF-1.7\n%\xe2\xe3\xcf\xd3\nstream\n", "pdftotext -layout f -"),
        (bytes(range(1, 256)) * 40, "binary file"),  # packed or encrypted, without a NUL
        (b"\x1f\x8b\x08\x01\x02\x03\xff\xfe\xfd", "binary file"),
    ],
)
async def test_what_is_no_text_is_refused_with_advice(content: bytes, words: str) -> None:
    tool = read_tool(MemoryWorkspace({"f": content}))

    refused = await refusal(tool, path="f")

    assert words in refused
    assert "hint:" in refused


@pytest.mark.parametrize(
    "content",
    [
        "caf\u00e9 na\u00efve \u2013 \u20ac\n".encode("cp1252") * 400,
        "\u540d\u5b57\uff1a\u6d4b\u8bd5\n".encode("gbk") * 400,
        "\u65e5\u672c\u8a9e\u306e\u6587\n".encode("shift-jis") * 400,
        "\u65e5\u672c\u8a9e\n".encode("iso2022-jp") * 400,
        "\u043f\u0440\u0438\u0432\u0435\u0442\n".encode("koi8-r") * 400,
        b"\x1b[31mred\x1b[0m caf\xe9\n" * 400,
        b"%PDF-1.4 is how it begins\n",
        b"a\x01b\x02c \x1f\x1e\n" * 400,
    ],
)
async def test_text_of_any_old_encoding_is_no_binary_file(content: bytes) -> None:
    shown = await told(content)

    assert shown.count("\n") >= content[:40000].count(b"\n")


async def test_a_command_in_a_hint_may_be_run_whatever_the_name_of_the_file() -> None:
    utf16 = "x".encode("utf-16")
    tool = read_tool(MemoryWorkspace({"a;reboot": utf16, "-f": utf16, "it's": utf16}))

    assert "UTF-8 'a;reboot'" in await refusal(tool, path="a;reboot")
    assert "UTF-8 ./-f" in await refusal(tool, path="-f")
    assert shlex.split((await refusal(tool, path="it's")).splitlines()[-1])[-1] == "it's"


async def test_line_zero_is_the_first_one() -> None:
    assert await told("a\nb\n", offset=0) == "a\nb\n"


async def test_nul_further_on_is_shown_as_a_replacement() -> None:
    assert (await told(b"a\n" * 5000 + b"b\0c", offset=5001)).startswith("b\ufffdc")


async def test_wrong_paths_and_numbers_are_refused_in_words() -> None:
    tool = read_tool(MemoryWorkspace({"src/main.py": ""}))

    assert "did you mean 'src/main.py'?" in await refusal(tool, path="src/man.py")
    assert "use ls" in await refusal(tool, path="src")
    assert "at least 1" in await refusal(tool, path="src/main.py", offset=-1)
    assert "at least 1" in await refusal(tool, path="src/main.py", limit=-1)
    assert "path is empty" in await refusal(tool, path="")


def test_read_may_be_repeated_after_a_crash() -> None:
    assert read_tool(MemoryWorkspace()).replay == "safe"


# -- properties --------------------------------------------------------------------------------


@given(
    st.lists(st.text(st.sampled_from("ab\r\u00e9\u20ac\ufeff"), max_size=6), max_size=12),
    st.booleans(),
    st.integers(1, 14),
    st.integers(1, 14),
)
def test_the_lines_asked_for_are_the_lines_shown(
    lines: list[str], final: bool, offset: int, limit: int
) -> None:
    data = "\n".join(lines).encode() + (b"\n" if final else b"")
    every = data.decode().removesuffix("\n").split("\n") if data else []

    part = _read_lines(io.BytesIO(data), offset, limit)

    assert part.total == len(every)
    wanted = "\n".join(every[offset - 1 :][:limit])
    assert part.data.decode().removesuffix("\n") == wanted
    if part.data:
        text = _result(part, "f", len(data), offset).text
        expected = "\n".join(line.removesuffix("\r") for line in wanted.split("\n")[:-1])
        if offset == 1:  # a byte order mark, which is not shown
            expected = expected.removeprefix("\ufeff")
        assert text.startswith(expected)
        assert ("Continue with" in text) == (offset + limit <= len(every))


# -- size --------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [b"\n", b""])
async def test_fifty_megabytes_take_little_memory_and_do_not_stall(
    tmp_path: Path, end: bytes
) -> None:
    with (tmp_path / "big").open("wb") as file:
        for _ in range(50):
            file.write((b"x" * 99 + (end or b"x")) * 10_000)
    tool = read_tool(LocalWorkspace(tmp_path))
    await call(tool, path="big", limit=1)  # imports done
    longest = 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            before = time.perf_counter()
            await asyncio.sleep(0.001)
            longest = max(longest, time.perf_counter() - before)

    tracemalloc.start()
    watcher = asyncio.create_task(watch())
    started = time.perf_counter()
    result = await call(tool, path="big", **({"offset": 400_000} if end else {}))
    took = time.perf_counter() - started
    watcher.cancel()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()

    assert result.details["totalLines"] == (500_000 if end else 1)
    assert peak < 2_000_000
    assert longest < max(0.5, took / 4)
