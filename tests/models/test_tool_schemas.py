"""Schemas of tools as every vendor accepts them."""

from __future__ import annotations

import copy
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.loop.agent_tool import AgentTool
from loopwright.loop.arguments import ArgumentsRejected
from loopwright.messages import UserMessage
from loopwright.models.clients import Clients
from loopwright.models.handoff import sendable
from loopwright.models.model import Context, Model, ToolSpec
from loopwright.models.provider import Endpoint
from loopwright.models.tool_schemas import declared_tools, flat_schema
from loopwright.models.wires import WireCall, load_wire

A, B = {"type": "string"}, {"type": "integer"}
COMBINATORS = ("anyOf", "oneOf", "allOf", "not", "enum", "const", "if", "then", "else")
EITHER = {
    "type": "object",
    "properties": {"a": A, "b": A},
    "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
}
BRANCHES: list[dict[str, Any]] = [
    EITHER,
    {"oneOf": [{"type": "object", "properties": {"a": A}, "required": ["a"]},
               {"type": "object", "properties": {"b": B}, "required": ["b"]}]},
    {"type": "object", "allOf": [{"properties": {"a": A}, "required": ["a"]},
                                 {"properties": {"b": B}}]},
    {"type": "object", "properties": {"a": A}, "not": {"required": ["b"]}},
    {"type": "object", "properties": {"a": A}, "enum": [{"a": "x"}]},
    {"type": "object", "properties": {"a": A}, "if": {"required": ["a"]},
     "then": {"properties": {"b": B}, "required": ["b"]}, "else": True},
]  # fmt: skip
APIS = ["anthropic-messages", "bedrock-converse", "openai-chat", "openai-responses", "mistral",
        "google-gemini"]  # fmt: skip


def wire_call(api: str, tools: tuple[ToolSpec, ...]) -> WireCall:
    model = Model("x", "m", api)
    context = Context("", [UserMessage("hi")], tools)
    messages = sendable(context.messages, model)
    return WireCall(
        model=model,
        context=context,
        messages=messages,
        options={},
        flags={},
        endpoint=Endpoint("http://127.0.0.1:1"),
        clients=Clients(),
    )


@pytest.mark.parametrize("schema", BRANCHES)
def test_case_096_no_combinator_is_sent_at_the_top_of_a_tool(schema: dict[str, Any]) -> None:
    before = copy.deepcopy(schema)

    flat, words = flat_schema(schema)

    assert flat["type"] == "object"
    assert not flat.keys() & set(COMBINATORS)
    assert words
    assert schema == before


@pytest.mark.parametrize("api", APIS)
def test_case_096_on_every_wire(api: str) -> None:
    spec = ToolSpec("save", "Save it.", EITHER)
    call = wire_call(api, tools=(spec,))

    sent = load_wire(api).encode(call).decode()

    assert '"required":["a"]' not in sent
    assert "a or b" in sent


def test_case_096_properties_are_merged_and_only_what_each_branch_requires_is_required() -> None:
    flat, words = flat_schema(
        {
            "oneOf": [
                {"properties": {"op": {"const": "a"}, "x": A}, "required": ["op", "x"]},
                {"properties": {"op": {"const": "b"}}, "required": ["op"]},
            ]
        }
    )

    assert flat["properties"] == {"op": {"anyOf": [{"const": "a"}, {"const": "b"}]}, "x": A}
    assert flat["required"] == ["op"]
    assert '"const":"a"' in words


async def test_case_096_arguments_are_checked_against_the_schema_of_the_tool() -> None:
    tool = AgentTool.from_schema(
        name="save", description="Save it.", execute=lambda args: "ok", parameters=EITHER
    )

    with pytest.raises(ArgumentsRejected, match="a or b"):
        tool.bind({})
    assert tool.bind({"a": "x"}).args == {"a": "x"}
    assert tool.parameters["anyOf"] == EITHER["anyOf"]


def test_case_096_a_tool_that_cannot_be_said_does_not_take_the_others_with_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    odd = ToolSpec("odd", "", {"type": "object", "properties": {"größe": A}})
    fine = ToolSpec("fine", "", {"type": "object", "properties": {"size": A}})

    sent = load_wire("anthropic-messages").encode(
        wire_call("anthropic-messages", tools=(odd, fine))
    )

    assert [tool["name"] for tool in msgspec.json.decode(sent)["tools"]] == ["fine"]
    assert "'odd'" in caplog.text


def test_case_096_a_combinator_further_down_stays() -> None:
    spec = ToolSpec("t", "d", {"type": "object", "properties": {"a": {"anyOf": [A, B]}}})

    assert declared_tools([spec]) == [spec]


@given(st.recursive(
    st.sampled_from([True, False, {"type": "null"}, *BRANCHES]),
    lambda inner: st.lists(inner, max_size=3).flatmap(
        lambda parts: st.sampled_from(["anyOf", "oneOf", "allOf"]).map(lambda key: {key: parts})
    ),
    max_leaves=6,
).filter(lambda schema: isinstance(schema, dict)))  # fmt: skip
def test_case_096_any_nest_of_combinators_becomes_an_object(schema: dict[str, Any]) -> None:
    flat, _ = flat_schema(schema)

    assert flat["type"] == "object"
    assert not flat.keys() & set(COMBINATORS)
    assert set(flat.get("required", ())) <= flat["properties"].keys()
