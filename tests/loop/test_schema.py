"""A function's signature becomes the schema a model is shown."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import functools
import json
import subprocess
import sys
import time
import typing
import uuid
from pathlib import Path
from typing import Annotated, Any, Literal, NotRequired, Optional, TypedDict, Union

import msgspec
import pytest
import typing_extensions
from pydantic import BaseModel, Field

from loopwright.loop.tool import InvalidTool, OnUpdate, ToolContext, as_tool, tool
from loopwright.messages import TextContent
from loopwright.signals import AbortSignal


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Options(TypedDict):
    deep: bool
    limit: NotRequired[int]


class ExtendedOptions(typing_extensions.TypedDict):
    deep: bool


class Branch(TypedDict):
    name: str
    branches: NotRequired[list[Branch]]


class ExtendedBranch(typing_extensions.TypedDict):
    branches: typing_extensions.NotRequired[list[ExtendedBranch]]


class Tag(BaseModel):
    """A tag."""

    name: str
    weight: float = 1.0


class Task(BaseModel):
    title: str
    tags: list[Tag]
    parent: Task | None = None


class Note(msgspec.Struct):
    text: str
    stars: int = 0


class Opaque:
    pass


def property_of(hint: Any) -> dict[str, Any]:
    def f(value) -> None:
        raise NotImplementedError

    f.__annotations__ = {"value": hint}
    return as_tool(f).parameters["properties"]["value"]


@pytest.mark.parametrize(
    ("hint", "schema"),
    [
        (str, {"type": "string"}),
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (bool, {"type": "boolean"}),
        (list, {"type": "array", "items": {}}),
        (dict, {"type": "object", "additionalProperties": True}),
        (None, {"type": "null"}),
        (type(None), {"type": "null"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["a"], {"type": "string", "enum": ["a"]}),
        (Literal[1, 2], {"type": "integer", "enum": [1, 2]}),
        (Colour, {"type": "string", "enum": ["red", "blue"]}),
        (Level, {"type": "integer", "enum": [1, 2]}),
        (Any, {}),
        (str | None, {"anyOf": [{"type": "string"}, {"type": "null"}]}),
        (Optional[str], {"anyOf": [{"type": "string"}, {"type": "null"}]}),  # noqa: UP045
        (Union[int, str], {"anyOf": [{"type": "integer"}, {"type": "string"}]}),  # noqa: UP007
        (
            list[int | None] | None,
            {
                "anyOf": [
                    {
                        "type": "array",
                        "items": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
                    },
                    {"type": "null"},
                ]
            },
        ),
        (
            tuple[int, str],
            {
                "type": "array",
                "prefixItems": [{"type": "integer"}, {"type": "string"}],
                "minItems": 2,
                "maxItems": 2,
            },
        ),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
        (datetime.datetime, {"type": "string", "format": "date-time"}),
        (datetime.date, {"type": "string", "format": "date"}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (Path, {"type": "string", "format": "path"}),
        (
            Point,
            {
                "type": "object",
                "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
                "required": ["x"],
            },
        ),
        (
            Options,
            {
                "type": "object",
                "properties": {"deep": {"type": "boolean"}, "limit": {"type": "integer"}},
                "required": ["deep"],
            },
        ),
        (
            ExtendedOptions,
            {
                "type": "object",
                "properties": {"deep": {"type": "boolean"}},
                "required": ["deep"],
            },
        ),
        (
            list[Options],
            {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"deep": {"type": "boolean"}, "limit": {"type": "integer"}},
                    "required": ["deep"],
                },
            },
        ),
        (
            Tag,
            {
                "type": "object",
                "description": "A tag.",
                "properties": {
                    "name": {"type": "string"},
                    "weight": {"type": "number", "default": 1.0},
                },
                "required": ["name"],
            },
        ),
        (
            list[Note],
            {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "text": {"type": "string"},
                        "stars": {"type": "integer", "default": 0},
                    },
                    "required": ["text"],
                },
            },
        ),
        (Annotated[int, "in seconds"], {"type": "integer", "description": "in seconds"}),
        (
            Annotated[int, Field(ge=1, description="at least one")],
            {"type": "integer", "minimum": 1, "description": "at least one"},
        ),
        (
            Annotated[Point, "where"],
            {
                "type": "object",
                "description": "where",
                "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
                "required": ["x"],
            },
        ),
    ],
)
def test_behaviour_131_134_every_kind_of_annotation(hint: Any, schema: dict[str, Any]) -> None:
    assert property_of(hint) == schema


def test_behaviour_134_decimal_is_a_number_or_its_text() -> None:
    assert {branch["type"] for branch in property_of(decimal.Decimal)["anyOf"]} == {
        "number",
        "string",
    }


def test_our_own_records_know_their_schema() -> None:
    assert property_of(TextContent)["type"] == "object"


def test_behaviour_128_the_schema_of_a_function_comes_from_its_signature() -> None:
    @tool
    async def read_file(path: str, limit: int = 2000, *, ctx: ToolContext) -> str:
        """Read a file.

        Args:
            path: Which one.
            limit: How many lines.
        """
        raise NotImplementedError

    assert read_file.spec.name == "read_file"
    assert read_file.spec.description == "Read a file."
    assert read_file.parameters == {
        "type": "object",
        "properties": {
            "path": {"type": "string", "description": "Which one."},
            "limit": {"type": "integer", "description": "How many lines.", "default": 2000},
        },
        "required": ["path"],
        "additionalProperties": False,
    }


def test_behaviour_129_annotations_that_are_strings_are_resolved() -> None:
    class Local(BaseModel):
        size: int

    @tool
    def f(local: Local, here: list[Colour]) -> None:
        raise NotImplementedError

    assert f.parameters["properties"]["local"]["properties"] == {"size": {"type": "integer"}}
    assert f.parameters["properties"]["here"]["items"]["enum"] == ["red", "blue"]


def test_behaviour_129_a_type_defined_after_its_function_is_found_when_registered() -> None:
    namespace: dict[str, Any] = {"__name__": "somewhere"}
    exec("def f(value: 'Later') -> None: ...", namespace)
    later = tool(namespace["f"])
    exec("class Later(dict): ...", namespace)
    namespace["Later"] = dict[str, int]

    assert later.parameters["properties"]["value"]["type"] == "object"


def test_behaviour_129_an_unresolvable_annotation_is_refused_by_name() -> None:
    def f(a: int, value: Nowhere) -> None:  # noqa: F821  # pyright: ignore[reportUndefinedVariable]
        raise NotImplementedError

    with pytest.raises(InvalidTool, match=r"tool 'f'.*'value'.*Nowhere"):
        as_tool(f).check()


def test_a_typed_dict_may_contain_itself_where_python_lets_pydantic_see_it() -> None:
    def grow(branch: Branch) -> None:
        raise NotImplementedError

    def grow_more(branch: ExtendedBranch) -> None:
        raise NotImplementedError

    assert as_tool(grow_more).parameters["properties"]["branch"] == {
        "$ref": "#/$defs/ExtendedBranch"
    }
    if sys.version_info >= (3, 12):
        assert as_tool(grow).parameters["properties"]["branch"] == {"$ref": "#/$defs/Branch"}
    else:
        with pytest.raises(InvalidTool, match=r"Branch contains itself.*\n.*typing_extensions"):
            as_tool(grow).check()


@pytest.mark.parametrize("hint", [Opaque, list[Opaque], typing.Callable[[int], int], type])
def test_behaviour_131_an_unsupported_type_is_refused_by_name(hint: Any) -> None:
    def f(good: int, value) -> None:
        raise NotImplementedError

    f.__annotations__["value"] = hint

    with pytest.raises(InvalidTool, match=r"tool 'f'.*parameter 'value'"):
        as_tool(f).check()


def test_behaviour_131_without_annotation_anything_goes() -> None:
    def f(value) -> None:
        raise NotImplementedError

    assert as_tool(f).parameters["properties"] == {"value": {}}
    for value in (1, "a", None, [True], {"a": {}}):
        assert as_tool(f).bind({"value": value}).params == {"value": value}


def test_behaviour_132_a_default_makes_optional_and_none_in_the_type_does_not() -> None:
    @tool
    def f(a: int | None, b: int | None = None, c: int = 3, *, d: str, e: str = "x") -> None:
        raise NotImplementedError

    assert f.parameters["required"] == ["a", "d"]
    assert f.parameters["properties"]["b"] == {
        "anyOf": [{"type": "integer"}, {"type": "null"}],
        "default": None,
    }


def test_behaviour_133_only_defaults_with_a_json_form_are_published() -> None:
    marker = object()

    @tool
    def f(
        a: Colour = Colour.RED,
        b: Any = marker,
        c: float = float("nan"),
        d: Path = Path("x"),
        e: list[int] = [1],  # noqa: B006
        f: Point = Point(1),  # noqa: B008
    ) -> None:
        raise NotImplementedError

    properties = f.parameters["properties"]

    assert "required" not in f.parameters
    assert [properties[name].get("default", "none") for name in "abcdef"] == [
        "red",
        "none",
        "none",
        "x",
        [1],
        {"x": 1, "y": 0},
    ]


def test_behaviour_134_words_in_the_annotation_win_over_the_docstring() -> None:
    @tool
    def f(
        a: Annotated[int, "annotated"],
        b: Annotated[int, Field(description="field")],
        c: int,
        d: Point,
    ) -> None:
        """Do.

        Args:
            a: documented
            b: documented
            c: documented
            d: documented
        """

    texts = [f.parameters["properties"][name]["description"] for name in "abcd"]

    assert texts == ["annotated", "field", "documented", "documented"]


@pytest.mark.parametrize(
    ("source", "word"),
    [("def f(a, /, b): ...", "'a'"), ("def f(a, *rest): ...", r"'\*rest'")],
)
def test_behaviour_135_what_cannot_be_passed_by_name_is_refused_at_once(
    source: str, word: str
) -> None:
    namespace: dict[str, Any] = {}
    exec(source, namespace)

    with pytest.raises(InvalidTool, match=rf"tool 'f'.*{word}"):
        tool(namespace["f"])


def test_behaviour_136_keyword_arguments_open_the_schema() -> None:
    @tool
    def anything(a: int, **rest: Any) -> None:
        raise NotImplementedError

    @tool
    def numbers(a: int, **rest: int) -> None:
        raise NotImplementedError

    @tool
    def closed(a: int) -> None:
        raise NotImplementedError

    assert anything.parameters["additionalProperties"] is True
    assert numbers.parameters["additionalProperties"] == {"type": "integer"}
    assert closed.parameters["additionalProperties"] is False
    assert anything.bind({"a": 1, "b": "x"}).params == {"a": 1, "b": "x"}
    assert numbers.bind({"a": 1, "b": "2"}).params == {"a": 1, "b": 2}


def test_behaviour_137_injected_parameters_are_left_out_of_the_schema() -> None:
    @tool
    def f(
        a: int,
        ctx: ToolContext,
        maybe: ToolContext | None,
        signal: AbortSignal,
        stop: Optional[AbortSignal],  # noqa: UP045
        report: OnUpdate,
        noted: Annotated[ToolContext, "the call"],
    ) -> None:
        """Do.

        Args:
            a: number
            ctx: documented for people
        """

    assert list(f.parameters["properties"]) == ["a"]
    assert f.parameters["required"] == ["a"]


def test_behaviour_137_a_value_for_an_injected_name_is_ignored_as_extra() -> None:
    @tool
    def f(a: int, ctx: ToolContext, **rest: Any) -> None:
        raise NotImplementedError

    bound = f.bind({"a": 1, "ctx": "mine", "other": 2})

    assert bound.args == {"a": 1, "other": 2}
    assert "ctx" in bound.notes[0]


def test_names_that_mean_something_to_pydantic_are_ordinary_names() -> None:
    @tool
    def f(schema: int, json: str, _private: int, model_config: dict[str, int], self_: int) -> None:
        raise NotImplementedError

    given = {"schema": 1, "json": "x", "_private": 2, "model_config": {"a": 1}, "self_": 3}

    assert f.bind(given).params == given


def test_what_a_partial_has_bound_is_never_shown() -> None:
    def fetch(url: str, token: str = "none", *, depth: int = 1) -> str:
        """Fetch."""
        return f"{url} {token} {depth}"

    bound = as_tool(functools.partial(fetch, token="secret"))

    assert bound.name == "fetch"
    assert bound.spec.description == "Fetch."
    assert list(bound.parameters["properties"]) == ["url", "depth"]
    assert "secret" not in json.dumps(bound.parameters)
    assert bound.bind({"url": "u", "token": "stolen"}).args == {"url": "u"}


def test_a_pydantic_field_as_default_is_refused_with_the_right_spelling() -> None:
    def f(a: int = Field(5, ge=1)) -> None:
        raise NotImplementedError

    with pytest.raises(InvalidTool, match="Annotated"):
        as_tool(f).check()


def test_behaviour_138_case_044_references_are_inlined_and_the_words_beside_them_kept() -> None:
    @tool
    def add(tag: Tag, more: list[Tag]) -> None:
        """Add.

        Args:
            tag: new one
        """

    assert "$ref" not in json.dumps(add.parameters)
    assert add.parameters["properties"]["tag"]["description"] == "new one"
    assert add.parameters["properties"]["tag"]["required"] == ["name"]
    assert add.parameters["properties"]["more"]["items"]["description"] == "A tag."


def test_behaviour_138_case_044_a_recursive_type_keeps_its_reference_and_definition() -> None:
    @tool
    def add(task: Annotated[Task, "new one"]) -> None:
        raise NotImplementedError

    started = time.perf_counter()
    schema = add.parameters
    took = time.perf_counter() - started

    assert schema["properties"]["task"] == {"$ref": "#/$defs/Task", "description": "new one"}
    assert list(schema["$defs"]) == ["Task"]
    definition = schema["$defs"]["Task"]
    assert definition["properties"]["tags"]["items"]["required"] == ["name"]
    assert definition["properties"]["parent"]["anyOf"][0] == {"$ref": "#/$defs/Task"}
    assert took < 1  # pydantic's own import included
    nested = {"title": "a", "tags": [], "parent": {"title": "b", "tags": [{"name": "t"}]}}
    assert add.bind({"task": nested}).params["task"].parent.tags[0].name == "t"


def test_titles_are_stripped_but_not_a_property_of_that_name() -> None:
    @tool
    def f(title: str, value: Task) -> None:
        raise NotImplementedError

    assert f.parameters["properties"]["title"] == {"type": "string"}
    assert f.parameters["$defs"]["Task"]["properties"]["title"] == {"type": "string"}


def test_behaviour_139_the_schema_is_the_same_in_every_process() -> None:
    source = """
import enum, json, typing
from loopwright.loop.tool import tool
@tool
def f(z: set[str], a: typing.Literal["x", "y"], m: dict[str, int] | None = None, b: int = 1) -> None: ...
print(json.dumps(f.parameters))
"""
    runs = {
        subprocess.run(
            [sys.executable, "-c", source],
            env={"PYTHONHASHSEED": seed, "PYTHONPATH": ":".join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2", "3")
    }

    assert len(runs) == 1
    assert list(json.loads(runs.pop())["properties"]) == ["z", "a", "m", "b"]
