"""References in JSON Schemas, from pydantic or from elsewhere."""

from __future__ import annotations

import itertools
import json
import time
from typing import Any

import pytest

from loopwright.loop.json_schema import UnusableReference, inline_references


def test_behaviour_138_keys_beside_a_reference_override_the_definition() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A", "description": "mine", "default": 1}},
        "$defs": {"A": {"type": "integer", "description": "theirs"}},
    }

    assert inline_references(schema) == {
        "type": "object",
        "properties": {"a": {"type": "integer", "description": "mine", "default": 1}},
    }


def test_references_may_go_anywhere_in_the_document_and_be_escaped() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"type": "array", "items": {"type": "integer"}},
            "b": {"$ref": "#/properties/a/items"},
            "c": {"$ref": "#/definitions/x~1y%20z"},
        },
        "definitions": {"x/y z": {"type": "string"}},
    }

    inlined = inline_references(schema)

    assert inlined["properties"]["b"] == {"type": "integer"}
    assert inlined["properties"]["c"] == {"type": "string"}
    assert "definitions" not in inlined


def test_definitions_through_definitions_are_inlined_and_unused_ones_dropped() -> None:
    schema = {
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {
            "A": {"type": "array", "items": {"$ref": "#/$defs/B"}},
            "B": {"type": "integer"},
            "Unused": {"type": "null"},
        },
    }

    assert inline_references(schema) == {
        "properties": {"a": {"type": "array", "items": {"type": "integer"}}}
    }


def test_a_recursive_root_is_shown_as_an_object() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}

    inlined = inline_references({"$ref": "#/$defs/Node", "$defs": {"Node": node}})

    assert inlined == {**node, "$defs": {"Node": node}}


def test_a_reference_to_the_whole_document_stays() -> None:
    schema = {"type": "object", "properties": {"child": {"$ref": "#"}}}

    assert inline_references(schema) == schema


def test_mutual_recursion_keeps_both_definitions() -> None:
    schema = {
        "properties": {"a": {"$ref": "#/$defs/A"}},
        "$defs": {
            "A": {"properties": {"b": {"$ref": "#/$defs/B"}}},
            "B": {"properties": {"a": {"$ref": "#/$defs/A"}, "c": {"$ref": "#/$defs/C"}}},
            "C": {"type": "integer"},
        },
    }

    inlined = inline_references(schema)

    assert list(inlined["$defs"]) == ["A", "B"]
    assert inlined["$defs"]["B"]["properties"]["c"] == {"type": "integer"}


def test_values_that_look_like_schemas_are_data() -> None:
    schema = {
        "properties": {
            "$ref": {"type": "string"},
            "a": {"enum": [{"$ref": "nowhere"}], "default": {"$ref": "nowhere", "title": "x"}},
        }
    }

    assert inline_references(schema) == schema


@pytest.mark.parametrize(
    "reference",
    ["#/$defs/Missing", "https://example.org/x.json", "#anchor", "other.json#/a", "#/type"],
)
def test_case_044_a_reference_that_leads_nowhere_is_refused_with_its_path(reference: str) -> None:
    schema = {"type": "object", "properties": {"a": {"items": {"$ref": reference}}}}

    with pytest.raises(UnusableReference, match=r"\$\.properties\.a\.items"):
        inline_references(schema)


def test_case_044_dynamic_references_are_refused() -> None:
    with pytest.raises(UnusableReference, match=r"\$dynamicRef"):
        inline_references({"properties": {"a": {"$dynamicRef": "#a"}}})


def test_case_044_definitions_that_double_at_every_step_stay_references_and_end_soon() -> None:
    names = [f"D{number}" for number in range(40)]
    definitions: dict[str, Any] = {
        name: {"properties": {"a": {"$ref": f"#/$defs/{below}"}, "b": {"$ref": f"#/$defs/{below}"}}}
        for name, below in itertools.pairwise(names)
    }
    definitions[names[-1]] = {"type": "integer"}
    schema = {"properties": {"a": {"$ref": "#/$defs/D0"}}, "$defs": definitions}

    started = time.perf_counter()
    inlined = inline_references(schema)

    assert time.perf_counter() - started < 2  # written out it would have 2**40 parts
    assert inlined == schema
    assert len(json.dumps(inlined)) < 10_000


def test_the_given_schema_is_not_changed() -> None:
    schema = {"properties": {"a": {"$ref": "#/$defs/A"}}, "$defs": {"A": {"type": "integer"}}}
    before = json.dumps(schema)

    inline_references(schema)

    assert json.dumps(schema) == before
