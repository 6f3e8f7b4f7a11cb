"""Tools that come with a JSON Schema, from MCP and other runtimes."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopwright.loop.tool import AgentTool, ArgumentsRejected, InvalidTool, ToolContext

OPEN_FILE: dict[str, Any] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "type": "object",
    "properties": {
        "path": {"type": "string", "minLength": 1},
        "lines": {"type": "array", "items": {"type": "integer"}},
        "mode": {"enum": ["r", "w"], "title": "The mode"},
    },
    "required": ["path"],
}


async def echo(args: dict[str, Any]) -> dict[str, Any]:
    return args


def made(parameters: Any, execute: Any = echo) -> AgentTool[dict[str, Any], Any]:
    return AgentTool.from_schema(
        name="open_file", description="Open.", parameters=parameters, execute=execute
    )


async def call(of: AgentTool[Any, Any], arguments: dict[str, Any]) -> Any:
    result = await of.invoke(of.bind(arguments), ToolContext("id", deps="deps"))
    return json.loads(result.text)


def test_the_schema_is_offered_as_it_is_but_for_bookkeeping() -> None:
    offered = made(OPEN_FILE).spec

    assert offered.name == "open_file"
    assert offered.description == "Open."
    assert offered.parameters == {k: v for k, v in OPEN_FILE.items() if k != "$schema"}


async def test_arguments_are_checked_coerced_and_handed_over_as_a_dict() -> None:
    assert await call(made(OPEN_FILE), {"path": "a", "lines": '["1", 2]'}) == {
        "path": "a",
        "lines": [1, 2],
    }


def test_refusals_name_every_problem() -> None:
    with pytest.raises(ArgumentsRejected) as caught:
        made(OPEN_FILE).bind({"lines": ["x", {}], "mode": "q", "size": 1})

    text = str(caught.value)
    for part in ("Missing: path", "lines[0]", "lines[1]", "mode", "size"):
        assert part in text


def test_behaviour_142_extra_arguments_are_dropped_unless_the_schema_is_open() -> None:
    given = {"path": "a", "size": 1}

    assert made(OPEN_FILE).bind(given).args == {"path": "a"}
    assert made(OPEN_FILE).bind(given).notes
    for more in (True, {"type": "integer"}):
        open_ended = made({**OPEN_FILE, "additionalProperties": more})
        assert open_ended.bind(given).args == given
    with pytest.raises(ArgumentsRejected, match="size"):
        made({**OPEN_FILE, "additionalProperties": {"type": "array"}}).bind(given)


def test_a_schema_without_a_word_on_properties_takes_anything() -> None:
    for schema in ({}, {"type": "object"}):
        free = made(schema)
        assert free.bind({"a": [1]}).args == {"a": [1]}
        assert free.parameters == {"type": "object", "properties": {}}


@pytest.mark.parametrize("context_name", ["ctx", "anything"])
async def test_execute_may_take_the_context_and_be_sync(context_name: str) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def run(args, {context_name}): return [args, {context_name}.deps]", namespace)

    assert await call(made({}, namespace["run"]), {"a": 1}) == [{"a": 1}, "deps"]


async def test_a_second_parameter_with_a_default_is_left_alone() -> None:
    def run(args: dict[str, Any], limit: int = 5) -> int:
        return limit

    assert await call(made({}, run), {}) == 5


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"type": "objekt"}, r"\$\.type"),
        ({"properties": {"a": {"type": "strin"}}}, r"\$\.properties\.a\.type"),
        ({"type": "array"}, "object"),
        ({"properties": {"a": {"$ref": "#/$defs/A"}}}, r"\$\.properties\.a"),
        ({"properties": {"a": {"$ref": "https://example.org/a"}}}, r"example\.org"),
        ([], "JSON Schema"),
        (None, "JSON Schema"),
    ],
)
def test_case_044_a_schema_that_cannot_be_used_is_refused_with_tool_and_path(
    parameters: Any, message: str
) -> None:
    with pytest.raises(InvalidTool, match=message) as caught:
        made(parameters)

    assert "'open_file'" in str(caught.value)


def test_what_cannot_be_called_is_refused() -> None:
    with pytest.raises(InvalidTool, match="execute"):
        made({}, "not a function")


def test_behaviour_138_references_are_inlined_and_recursive_ones_still_checked() -> None:
    tree = made(
        {
            "type": "object",
            "properties": {"root": {"$ref": "#/$defs/Node"}, "n": {"$ref": "#/$defs/N"}},
            "$defs": {
                "Node": {
                    "type": "object",
                    "properties": {
                        "value": {"type": "integer"},
                        "next": {"anyOf": [{"$ref": "#/$defs/Node"}, {"type": "null"}]},
                    },
                    "required": ["value"],
                },
                "N": {"type": "integer"},
            },
        }
    )

    assert tree.parameters["properties"]["n"] == {"type": "integer"}
    assert list(tree.parameters["$defs"]) == ["Node"]
    assert tree.bind({"root": {"value": "1", "next": {"value": "2"}}}).args == {
        "root": {"value": 1, "next": {"value": 2}}
    }
    with pytest.raises(ArgumentsRejected, match=r"root\.next"):
        tree.bind({"root": {"value": 1, "next": {"value": "x"}}})


def test_a_pattern_only_javascript_can_read_does_no_harm() -> None:
    letters = made({"properties": {"a": {"type": "string", "pattern": r"^\p{L}+$"}}})

    assert letters.bind({"a": "x"}).args == {"a": "x"}
    assert letters.parameters["properties"]["a"]["pattern"] == r"^\p{L}+$"


def test_a_schema_that_refers_to_itself_for_ever_is_no_crash() -> None:
    circular = made(
        {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"$ref": "#/$defs/A"}}}
    )

    with pytest.raises(ArgumentsRejected):
        circular.bind({"a": 1})


def test_the_given_schema_is_not_changed() -> None:
    before = json.dumps(OPEN_FILE)

    made(OPEN_FILE).bind({"path": "a", "lines": "[1]"})

    assert json.dumps(OPEN_FILE) == before
