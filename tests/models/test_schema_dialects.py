"""Schemas of typed answers as each vendor accepts them."""

from __future__ import annotations

import copy
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, ConfigDict, Field

from loopwright.loop.output import AnswerFormat
from loopwright.models.models import default_models
from loopwright.models.schema_dialects import DIALECTS, answer_schema, tells_schema


class Car(BaseModel):
    kind: Literal["car"]
    brand: str


class Bike(BaseModel):
    kind: Literal["bike"]
    gears: int = 1


class Ride(BaseModel):
    ride: Annotated[Car | Bike, Field(discriminator="kind")]


class Tags(BaseModel):
    tags: set[str]


class Order(BaseModel):
    customer: str
    quantities: dict[str, int]


class Deep(BaseModel):
    orders: list[Order]


class Extra(BaseModel):
    model_config = ConfigDict(extra="allow")
    name: str


class Anything(BaseModel):
    value: Any


class Pair(BaseModel):
    pair: tuple[int, str]


class Tree(BaseModel):
    name: str
    parts: list[Tree] = []


class Limits(BaseModel):
    age: int = Field(ge=0, le=150, default=3)
    code: str = Field(pattern=r"^b\b", min_length=2)
    many: list[int] = Field(min_length=2, max_length=5)


def schema_of(type: Any) -> dict[str, Any]:
    return AnswerFormat(type).schema


CLOSED = ["anthropic-messages", "bedrock-converse"]


@pytest.mark.parametrize("api", CLOSED)
@pytest.mark.parametrize("type", [Order, Deep, Extra, Anything, Tree, Pair, dict[str, int]])
def test_case_094_a_type_that_would_lose_values_is_not_asked_for_in_the_native_form(
    type: Any, api: str
) -> None:
    assert not tells_schema(schema_of(type), api)


@pytest.mark.parametrize("type", [Anything, Tree])
def test_case_094_gemini_gets_no_circles_and_no_values_of_any_type(type: Any) -> None:
    assert not tells_schema(schema_of(type), "google-gemini")
    assert tells_schema(schema_of(Order), "google-gemini")


@pytest.mark.parametrize("api", [*CLOSED, "openai-responses", "openai-chat", "mistral"])
@pytest.mark.parametrize("type", [Ride, Tags, Limits, Car | Bike, Car, int])
def test_case_095_what_can_be_rewritten_is_rewritten(type: Any, api: str) -> None:
    made = answer_schema(schema_of(type), api)

    assert made is not None
    assert_in_dialect(made, api)


@pytest.mark.parametrize("type", [Order, Extra, Anything, Pair])
def test_case_095_openai_enforces_no_schema_that_it_cannot(type: Any) -> None:
    assert answer_schema(schema_of(type), "openai-responses") is None
    assert tells_schema(schema_of(type), "openai-responses")


def test_case_095_an_optional_property_is_nullable_and_null_means_its_default() -> None:
    made = answer_schema(schema_of(Bike), "openai-chat")

    assert made is not None
    assert made["required"] == ["kind", "gears"]
    assert made["properties"]["gears"] == {"anyOf": [{"type": "integer"}, {"type": "null"}]}
    answer = AnswerFormat(Bike).begin(native=True)
    assert answer._read('{"kind": "bike", "gears": null}') is None
    assert answer.value == Bike(kind="bike")


@pytest.mark.parametrize(
    ("name", "takes"),
    [("openai/gpt-4", False), ("openai/gpt-4-turbo", False), ("openai/gpt-4o-2024-05-13", False),
     ("openai/gpt-4o", True), ("openai/gpt-5", True)],
)  # fmt: skip
def test_case_095_a_row_that_takes_no_schema_says_so(name: str, takes: bool) -> None:
    models = default_models()

    assert models.takes_output_schema(models.resolve(name)) is takes


def assert_in_dialect(node: Any, api: str) -> None:
    """Every node of a rewritten schema is in the vendor's subset."""
    dialect = DIALECTS[api]
    assert node.keys() <= dialect.keywords
    if node.get("type") == "object" and not dialect.open_objects:
        assert node["additionalProperties"] is False
        if dialect.all_required:
            assert set(node.get("required", ())) == set(node["properties"])
    for key in ("properties", "$defs"):
        for child in node.get(key, {}).values():
            assert_in_dialect(child, api)
    for key in ("anyOf", "prefixItems"):
        for child in node.get(key, ()):
            assert_in_dialect(child, api)
    if "items" in node:
        assert_in_dialect(node["items"], api)


def objects(children: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    def made(members: dict[str, Any]) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": members,
            "required": sorted(members)[::2],
            "additionalProperties": False,
        }

    return st.dictionaries(st.sampled_from("abc"), children, max_size=3).map(made)


LEAVES: st.SearchStrategy[Any] = st.sampled_from([
    {"type": "string"}, {"type": "integer", "minimum": 2}, {"type": ["string", "null"]},
    {"type": "string", "format": "uri", "default": "x"}, {"enum": ["a", 1]}, {"const": 3},
    {"type": "object", "additionalProperties": {"type": "integer"}}, {}, True,
    {"type": "array", "items": {"type": "integer"}, "uniqueItems": True, "minItems": 2},
    {"type": "array", "prefixItems": [{"type": "integer"}], "items": False}, {"type": "object"},
    {"not": {"type": "string"}}, {"type": "string", "pattern": r"(?!a)"},
])  # fmt: skip
SCHEMAS = objects(
    st.recursive(
        LEAVES,
        lambda children: (
            objects(children)
            | st.lists(children, min_size=1, max_size=3).map(lambda s: {"anyOf": s})
            | st.lists(children, min_size=1, max_size=3).map(lambda s: {"oneOf": s})
            | children.map(lambda one: {"type": "array", "items": one})
            | children.map(lambda one: {"allOf": [one]})
        ),
        max_leaves=8,
    )
)
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.sampled_from(["a", "x", 1, 3, 5, True]),
    lambda children: (
        st.lists(children, max_size=3) | st.dictionaries(st.sampled_from("abc"), children)
    ),
    max_leaves=8,
)


@given(SCHEMAS, st.dictionaries(st.sampled_from("abc"), VALUES), st.sampled_from(sorted(DIALECTS)))
def test_case_095_a_rewritten_schema_stays_in_its_dialect_and_accepts_no_less(
    schema: dict[str, Any], value: dict[str, Any], api: str
) -> None:
    before = copy.deepcopy(schema)

    made = answer_schema(schema, api)

    assert schema == before
    if made is None:
        return
    assert_in_dialect(made, api)
    if Draft202012Validator(schema).is_valid(value) and not DIALECTS[api].all_required:
        assert Draft202012Validator(made).is_valid(value)
