"""Whatever a tool returns becomes content a model can read, of bounded size."""

from __future__ import annotations

import base64
import dataclasses
import datetime
import enum
import json
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from loopwright.loop.results import DEFAULT_LIMIT_BYTES, cap_result, render
from loopwright.messages import AgentToolResult, ImageContent, TextContent, Usage


@dataclasses.dataclass
class Point:
    x: int
    y: float


class Pair(NamedTuple):
    left: int
    right: str


class Record(msgspec.Struct):
    name: str


class Model(BaseModel):
    when: datetime.date


class Colour(enum.Enum):
    RED = "red"


class Plain:
    def __str__(self) -> str:
        return "a plain thing"


PNG = b"\x89PNG\r\n\x1a\n" + b"\0" * 8


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("as it is", "as it is"),
        ("", ""),
        (None, "(no output)"),
        (42, "42"),
        (True, "true"),
        (1.5, "1.5"),
        ({"a": 1, "b": [None, "é"]}, '{"a":1,"b":[null,"é"]}'),
        ([], "[]"),
        ({}, "{}"),
        (["a", "b"], '["a","b"]'),
        ((1, 2), "[1,2]"),
        ({1: "a"}, '{"1":"a"}'),
        (Point(1, 2.5), '{"x":1,"y":2.5}'),
        ([Point(1, 2.0)], '[{"x":1,"y":2.0}]'),
        (Pair(1, "a"), '[1,"a"]'),
        (Record("n"), '{"name":"n"}'),
        (Model(when=datetime.date(2026, 1, 2)), '{"when":"2026-01-02"}'),
        ({"m": Model(when=datetime.date(2026, 1, 2))}, '{"m":{"when":"2026-01-02"}}'),
        ({"p": Path("a/b"), "c": Colour.RED}, '{"p":"a/b","c":"red"}'),
        (10**30, "1" + "0" * 30),
        ({"n": 10**30}, '{"n":1' + "0" * 30 + "}"),
        (Colour.RED, "red"),
        (Path("a/b"), "a/b"),
        (datetime.date(2026, 1, 2), "2026-01-02"),
        (Plain(), "a plain thing"),
        (b"plain bytes", "plain bytes"),
    ],
)
def test_behaviour_149_values_are_rendered(value: Any, text: str) -> None:
    assert render(value) == AgentToolResult([TextContent(text)])


def test_behaviour_149_data_json_cannot_hold_is_shown_by_its_string_form() -> None:
    value = {"a": Plain()}

    assert render(value).text == str(value)


def test_behaviour_149_a_structure_that_contains_itself_does_no_harm() -> None:
    value: list[Any] = [1]
    value.append(value)

    assert render(value).text == "[1, [...]]"


def test_content_blocks_stay_what_they_are() -> None:
    image = ImageContent("aGk=", "image/png")
    text = TextContent("hello")

    assert render(image).content == [image]
    assert render([text, image]).content == [text, image]
    assert render(("look:", image)).content == [TextContent("look:"), image]


@pytest.mark.parametrize(
    ("data", "mime_type"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0rest", "image/jpeg"),
        (b"GIF89a....", "image/gif"),
        (b"RIFF\0\0\0\0WEBPVP8 ", "image/webp"),
    ],
)
def test_bytes_of_an_image_are_an_image(data: bytes, mime_type: str) -> None:
    assert render(data).content == [ImageContent(base64.b64encode(data).decode(), mime_type)]
    assert render(bytearray(data)).content == render(data).content


def test_other_bytes_are_described_and_not_dumped() -> None:
    assert "6 bytes of binary data" in render(b"\xff\xfe\0\1\2\3").text
    assert "3 bytes of binary data" in render(b"a\0b").text


def test_behaviour_066_a_result_is_passed_on_with_content_that_is_a_list() -> None:
    ready = AgentToolResult([TextContent("x")], details={"a": 1}, is_error=True, terminate=True)
    loose: Any = AgentToolResult
    usage = Usage(input=1)

    assert render(ready) is ready
    assert render(loose(None)).content == []
    assert render(loose([])).content == []
    assert render(loose("text", usage=usage)) == AgentToolResult([TextContent("text")], usage=usage)
    assert render(loose(["a", ImageContent("", "image/png")])).content == [
        TextContent("a"),
        ImageContent("", "image/png"),
    ]
    assert render(loose({"a": 1})).text == '{"a":1}'


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("done \ud83d", "done \ufffd"),
        ("caf\udce9", "caf\ufffd"),
        ("\ud83d\ude42 ok", "🙂 ok"),
        ({"a\ud83d": ["\udce9"]}, '{"a\ufffd":["\ufffd"]}'),
        (AgentToolResult([TextContent("x\ud83d")]), "x\ufffd"),
        ([TextContent("x\ud83d"), ImageContent("", "image/png")], "x\ufffd"),
    ],
)
def test_behaviour_150_case_021_lone_surrogates_are_replaced(value: Any, text: str) -> None:
    assert render(value).text == text


def test_behaviour_148_what_fits_is_not_touched() -> None:
    for text in ("", "short", "x" * DEFAULT_LIMIT_BYTES, "é" * (DEFAULT_LIMIT_BYTES // 2)):
        result = AgentToolResult([TextContent(text)])
        assert cap_result(result) is result


def test_behaviour_148_case_040_one_enormous_line_is_cut_and_the_note_says_how_to_go_on() -> None:
    line = "x" * 6_000_000 + "needle" + "x" * 6_000_000

    capped = cap_result(AgentToolResult([TextContent(line)], details={"kept": True}))

    head, note = (block.text for block in capped.content if isinstance(block, TextContent))
    assert line.startswith(head)
    assert len(head) + len(note) <= DEFAULT_LIMIT_BYTES
    assert "12,000,006 bytes" in note
    assert f"{12_000_006 - len(head):,}" in note
    assert "offset" in note
    assert capped.details == {"kept": True}


def test_behaviour_148_case_021_a_cut_never_splits_a_character() -> None:
    capped = cap_result(AgentToolResult([TextContent("🙂" * 30000)]))

    (head, _) = (block.text for block in capped.content if isinstance(block, TextContent))
    assert set(head) == {"🙂"}
    assert len(capped.text.encode()) <= DEFAULT_LIMIT_BYTES


def test_behaviour_148_all_text_blocks_count_together_and_images_stay() -> None:
    image = ImageContent("x" * 200_000, "image/png")
    blocks = [TextContent("a" * 30_000), image, TextContent("b" * 30_000), TextContent("c"), image]

    capped = cap_result(AgentToolResult(blocks))

    text = capped.text
    assert [block for block in capped.content if block is image] == [image, image]
    assert len(text) <= DEFAULT_LIMIT_BYTES
    assert "c" not in text.partition("[Output cut")[0]
    assert "60,001 bytes" in text


@given(st.lists(st.text(max_size=300), max_size=5), st.integers(min_value=300, max_value=600))
def test_behaviour_148_the_cap_holds_for_any_text(texts: list[str], limit: int) -> None:
    result = AgentToolResult([TextContent(text) for text in texts])

    capped = cap_result(result, limit)

    assert len(capped.text.encode()) <= limit
    if capped is not result:
        shown = "".join(b.text for b in capped.content[:-1] if isinstance(b, TextContent))
        assert "".join(texts).startswith(shown)


json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda children: st.lists(children) | st.dictionaries(st.text(), children),
    max_leaves=10,
)


@given(st.lists(json_values) | st.dictionaries(st.text(), json_values))
def test_behaviour_149_json_data_can_be_read_back_from_its_text(value: Any) -> None:
    assert json.loads(render(value).text) == value
