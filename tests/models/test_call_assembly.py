"""Pieces of tool calls, however a host cuts, names, numbers and repeats them, become its calls."""

from __future__ import annotations

import json
import sys
from types import FrameType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright import Agent, tool
from loopwright.messages import AssistantMessage
from loopwright.models import Models, Provider
from loopwright.models.wires.call_assembly import settle
from loopwright.testing import decode

from .fault_server import DONE, event, said, serving, stream

Piece = tuple[int | None, str | None, str | None, str]
"""Index, id, name and arguments; what is None is left out."""


def chunk(piece: Piece) -> bytes:
    index, id, name, arguments = piece
    function = {"arguments": arguments, **({"name": name} if name is not None else {})}
    fragment: dict[str, Any] = {"function": function}
    if index is not None:
        fragment["index"] = index
    if id is not None:
        fragment["id"] = id
    return event({"tool_calls": [fragment]})


def body(*pieces: Piece) -> list[bytes]:
    return [*map(chunk, pieces), event({}, "tool_calls"), DONE]


def reply(*pieces: Piece, wire: str = "openai-chat") -> AssistantMessage:
    message = decode(wire, body(*pieces))
    assert message.stop_reason == "toolUse", message.error_message
    return message


def calls(*pieces: Piece, wire: str = "openai-chat") -> list[tuple[str, dict[str, Any]]]:
    message = reply(*pieces, wire=wire)
    assert [c.arguments_error for c in message.tool_calls if c.arguments_error] == []
    return [(c.name, c.arguments) for c in message.tool_calls]


DROP = [("drop", {"table": "old"})]


@pytest.mark.parametrize("wire", ["openai-chat", "mistral"])
@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ([(0, "a", "drop", ""), (0, "b", None, '{"table":'), (0, "b", None, '"old"}')], DROP),
        ([(0, "a", "drop", ""), (0, "b", "drop", '{"table":'), (0, "c", "drop", '"old"}')], DROP),
        ([(0, "a", "drop", '{"ta'), (0, "b", None, 'ble":'), (0, "c", "", '"old"}')], DROP),
        ([(0, "a", "drop", "{}"), (0, "b", None, '{"table":"old"}')], DROP),
        ([(0, "a", "drop", '{"ta'), (1, None, None, 'ble":'), (1, None, None, '"old"}')], DROP),
        ([(0, "a", "drop", '{"ta'), (1, "a", "drop", 'ble":'), (2, "a", "drop", '"old"}')], DROP),
        ([(0, "a", "drop", '{"ta'), (1, "b", None, 'ble":"old"}')], DROP),
        ([(None, "a", "drop", '{"ta'), (None, "b", None, 'ble":"old"}')], DROP),
        (
            [(0, "a", "x", '{"n":'), (1, "b", "y", '{"n":'), (0, "c", None, "1}"), (1, "d", None, "2}")],
            [("x", {"n": 1}), ("y", {"n": 2})],
        ),
        ([(0, "a", "now", ""), (0, "b", "now", "")], [("now", {}), ("now", {})]),
        ([(0, "a", "now", ""), (0, "b", "look", "{}")], [("now", {}), ("look", {})]),
        ([(0, "a", "x", '{"n":1}'), (0, "b", "x", '{"n":1}')], [("x", {"n": 1})] * 2),
    ],
)  # fmt: skip
def test_case_075_pieces_that_change_their_id_or_index_are_one_call(
    wire: str, pieces: list[Piece], expected: list[tuple[str, dict[str, Any]]]
) -> None:
    assert calls(*pieces, wire=wire) == expected


@pytest.mark.parametrize(
    "pieces",
    [
        [(0, "a", "drop", ""), (1, "b", None, '{"table":"old"}')],
        [(0, "a", "drop", ""), (0, "b", "drop", ""), (0, "b", None, '{"table":"old"}')],
        [(0, "a", "drop", ""), (1, "b", "drop", ""), (2, None, None, '{"table":"old"}')],
    ],
)
def test_case_075_a_torn_call_is_never_run(pieces: list[Piece]) -> None:
    for call in reply(*pieces).tool_calls:
        runs = call.name == "drop" and call.arguments_error is None
        assert not runs or call.arguments == {"table": "old"}


PAY = [("pay", {"amount": 100})]


@pytest.mark.parametrize("wire", ["openai-chat", "mistral"])
@pytest.mark.parametrize("index", [0, None])
@pytest.mark.parametrize(("id", "name"), [("a", "pay"), (None, None), ("a", None), (None, "pay")])
@pytest.mark.parametrize(
    "again", [['{"amount":100}'], ['{ "amount" :\n100 }'], ["{}"], ["", "\n"], ['{"amount":100}'] * 2]
)  # fmt: skip
def test_case_076_arguments_sent_once_more_are_dropped(
    wire: str, index: int | None, id: str | None, name: str | None, again: list[str]
) -> None:
    first: list[Piece] = [
        (index, "a", "pay", ""),
        (index, None, None, '{"amount"'),
        (index, None, None, ":100}"),
    ]
    repeated: list[Piece] = [(index, id, name, text) for text in again]
    if again == ["{}"] and name and index is None:
        return  # without an index, this is how the next call begins

    assert calls(*first, *repeated, wire=wire) == PAY


async def test_case_076_a_run_pays_once() -> None:
    paid: list[int] = []

    @tool
    def pay(amount: int) -> str:
        """Pay."""
        paid.append(amount)
        return "paid"

    chunks = body((0, "a", "pay", '{"amount":1}'), (0, "a", "pay", '{"amount":1}'))
    async with (
        serving(stream(*chunks), stream(*said("Done."))) as server,
        Models().add(Provider.openai_compatible("acme", base_url=server.base_url)) as models,
    ):
        await Agent("acme/large", stream_fn=models.stream, tools=[pay]).prompt("Pay!")

    assert paid == [1]


@pytest.mark.parametrize(
    ("first", "second"),
    [('{"n":1}', '{"n":2}'), ('{"n":1}', '{"n":true}'), ('{"n":1}', '{"n":1,"m":2}')],
)
def test_case_076_arguments_sent_twice_that_differ_are_reported_and_not_run(
    first: str, second: str
) -> None:
    (call,) = reply((0, "a", "pay", first), (0, "a", "pay", second)).tool_calls

    assert "sent twice and differ" in (call.arguments_error or "")
    assert call.arguments == {}


@pytest.mark.parametrize("each_names", [True, False])
@pytest.mark.parametrize("last_twice", [True, False])
def test_case_079_cumulative_arguments_are_the_last_piece(
    each_names: bool, last_twice: bool
) -> None:
    texts = ['{"q":"c', '{"q":"cats","n', '{"q":"cats","n":10000}']
    texts += texts[-1:] * last_twice
    pieces: list[Piece] = []
    for at, text in enumerate(texts):
        for index in (0, 1):
            named = each_names or at == 0
            pieces.append((index, f"c{index}" if named else None, "find" if named else None, text))

    assert calls(*pieces) == [("find", {"q": "cats", "n": 10000})] * 2


def test_case_079_pieces_that_happen_to_repeat_are_joined() -> None:
    texts = ['{"q":"cats","n":1', "00", "00", "}"]
    pieces: list[Piece] = [(0, "c" if at == 0 else None, "find", t) for at, t in enumerate(texts)]

    assert calls(*pieces) == [("find", {"q": "cats", "n": 10000})]


@pytest.mark.parametrize("wire", ["openai-chat", "mistral"])
@pytest.mark.parametrize(
    "pieces",
    [
        [(0, "c", "get_", ""), (0, None, "weather", ""), (0, None, None, '{"n":1}')],
        [(0, "c", "get_", ""), (0, "c", "weather", '{"n":1}')],
        [(0, "c", "get_", '{"n"'), (0, None, "weather", ":1}")],
        [(0, "c", "get_weather", ""), (0, None, "get_weather", '{"n":'), (0, "c", "get_weather", "1}")],
        [(0, "c", None, ""), (0, None, "get_weather", '{"n":'), (0, None, "", "1}")],
    ],
)  # fmt: skip
def test_case_080_a_name_in_pieces_is_joined(wire: str, pieces: list[Piece]) -> None:
    assert calls(*pieces, wire=wire) == [("get_weather", {"n": 1})]


values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 999) | st.text('a{}"\\ é', max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab", max_size=2), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
objects = st.dictionaries(st.sampled_from(["a", "b", "{}"]), values, min_size=1, max_size=3)


def split(text: str, data: st.DataObject) -> list[str]:
    cuts = sorted(data.draw(st.sets(st.integers(1, len(text) - 1), max_size=5)))
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


@given(said=objects, way=st.sampled_from(["plain", "twice", "cumulative"]), data=st.data())
def test_cases_075_076_079_any_split_and_any_ids_give_the_call(
    said: dict[str, Any], way: str, data: st.DataObject
) -> None:
    text = json.dumps(said)
    parts = split(text, data)
    if way == "twice":
        parts += data.draw(st.sampled_from([[], ["{}"]])) + split(json.dumps(said, indent=1), data)
    elif way == "cumulative":
        parts = ["".join(parts[: n + 1]) for n in range(len(parts))]
    ids = st.sampled_from([None, "c0", "c1", "c2"])
    pieces: list[Piece] = [(0, "c0", "find", "")]
    pieces += [(0, data.draw(ids), None, part) for part in parts]

    assert calls(*pieces) == [("find", said)]


@given(st.lists(st.sampled_from(['{"a":1}', "{}", '{"a":', "1}", "{", "}", '"', "\\", " ", "2"])))
def test_cases_075_076_no_call_is_run_with_half_its_arguments(pieces: list[str]) -> None:
    said = settle(pieces)
    if said.arguments_error is None and said.arguments:
        assert any(said.arguments == whole for whole in _wholes("".join(pieces)))


def _wholes(text: str) -> list[Any]:
    found: list[Any] = []
    for at in range(len(text)):
        try:
            found.append(json.JSONDecoder(strict=False).raw_decode(text, at)[0])
        except ValueError:
            continue
    return found


@pytest.mark.parametrize(
    "piece",
    [(None, None, "drop", '{"table":"old"}'), (0, None, "drop", '{"table":"old"}')],
    ids=["no index", "no id"],
)
def test_a_call_sent_again_and_again_takes_work_in_proportion(piece: Piece) -> None:
    def work(pieces: int) -> int:
        made = 0

        def count(frame: FrameType, kind: str, argument: object) -> None:
            nonlocal made
            made += kind in ("call", "c_call")

        chunks = body(*[piece] * pieces)
        sys.setprofile(count)
        try:
            decode("openai-chat", chunks)
        finally:
            sys.setprofile(None)
        return made

    assert work(400) < 2.5 * work(200)
