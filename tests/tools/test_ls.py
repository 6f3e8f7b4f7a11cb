"""The tool `ls` lists a folder."""

from __future__ import annotations

from tests.tools.calling import call, refusal

from loopwright.loop.results import cap_result
from loopwright.tools import MemoryWorkspace, ls_tool


async def test_names_are_sorted_with_hidden_ones_and_a_slash_for_folders() -> None:
    workspace = MemoryWorkspace(
        {"b": "", ".env": "", "A/x": "", "c.txt": ""}, links={"to-a": "A", "out": "/etc"}
    )

    result = await call(ls_tool(workspace))

    assert result.text == ".env\nA/\nb\nc.txt\nout\nto-a/"
    assert result.details == {"entries": 6, "truncated": False}
    assert (await call(ls_tool(workspace), path="A")).text == "x"


async def test_an_empty_folder_is_said_to_be_empty() -> None:
    assert (await call(ls_tool(MemoryWorkspace()))).text == "(empty folder)"


async def test_a_limit_says_how_many_there_are() -> None:
    tool = ls_tool(MemoryWorkspace({f"f{n:03}": "" for n in range(501)}))

    result = await call(tool)

    assert result.text.endswith(
        "f499\n\n[500 of 501 names are shown. Give limit=501 for all of them.]"
    )
    assert result.details == {"entries": 501, "truncated": True}
    assert (await call(tool, limit=501)).text.endswith("f500")


async def test_many_long_names_stay_under_the_cap() -> None:
    tool = ls_tool(MemoryWorkspace({f"{n:04}" + "\u20ac" * 80: "" for n in range(400)}))

    result = await call(tool)

    assert cap_result(result) is result
    assert "of 400 names are shown. Use find" in result.text


async def test_a_line_feed_in_a_name_makes_no_second_name() -> None:
    result = await call(ls_tool(MemoryWorkspace({"a\nb": "", "c\x1b[31m": ""})))

    assert result.text == "a\\x0ab\nc\\x1b[31m"


async def test_what_is_no_folder_is_refused_in_words() -> None:
    tool = ls_tool(MemoryWorkspace({"f": ""}))

    assert "is a file" in await refusal(tool, path="f")
    assert "use ls or find" in await refusal(tool, path="nothing/there")
    assert "at least 1" in await refusal(tool, limit=0)


def test_ls_may_be_repeated_after_a_crash() -> None:
    assert ls_tool(MemoryWorkspace()).replay == "safe"
