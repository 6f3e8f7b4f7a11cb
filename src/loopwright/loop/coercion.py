"""Slips a model makes in the type of a value, set right by what the schema says.

Vendors hand over numbers as text, lists as encoded text, null for "not given". Where the schema
leaves no doubt what was meant, the value is changed to that; everything else stays as it is and
meets the ordinary check. Text fields are never touched: "[1,2]" for a string is a string.

Not here: the check itself, and when to come here: only after a value did not pass it
(arguments.py).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from typing import Any, cast

from .json_schema import Schema, resolve_pointer

__all__ = ["coerce"]

IsValid = Callable[[Any, Schema], bool]


def coerce(value: Any, schema: Schema, is_valid: IsValid) -> Any:
    """A copy of *value* with unambiguous slips set right; *schema* is the whole document.

    *is_valid(value, subschema)* decides between the branches of a union.
    """
    return _Coercion(schema, is_valid).any(value, schema)


class _Coercion:
    def __init__(self, root: Schema, is_valid: IsValid) -> None:
        self.root = root
        self.is_valid = is_valid

    def any(self, value: Any, schema: Any) -> Any:
        if not isinstance(schema, dict):  # true and false are schemas, too
            return value
        known = cast("Schema", schema)
        reference = known.get("$ref")
        if isinstance(reference, str):
            target = resolve_pointer(self.root, reference)
            siblings = {key: item for key, item in known.items() if key != "$ref"}
            return self.any(value, {**target, **siblings})
        for part in known.get("allOf", ()):
            value = self.any(value, part)
        for union in ("anyOf", "oneOf"):
            if union in known:
                value = self._union(value, known[union])
        types = known.get("type")
        if isinstance(types, list):
            kinds = cast("list[str]", types)
            return self._union(value, [{**known, "type": kind} for kind in kinds])
        if types is None:
            types = "object" if "properties" in known else "array" if "items" in known else None
        return self._typed(value, types, known)

    def _union(self, value: Any, branches: list[Schema]) -> Any:
        """The first branch that takes *value* unchanged, else the first that takes it coerced."""
        if any(self.is_valid(value, branch) for branch in branches):
            return value
        for branch in branches:
            coerced = self.any(value, branch)
            if self.is_valid(coerced, branch):
                return coerced
        return value

    def _typed(self, value: Any, kind: Any, schema: Schema) -> Any:
        match kind:
            case "object":
                decoded = _decode(value, dict)
                if isinstance(decoded, dict):
                    return self._object(cast("dict[str, Any]", decoded), schema)
            case "array":
                decoded = _decode(value, list)
                if isinstance(decoded, list):
                    return self._array(cast("list[Any]", decoded), schema)
            case "integer":
                return _to_integer(value)
            case "number":
                return _to_number(value)
            case "boolean":
                return _to_boolean(value)
            case "string":
                return _to_string(value)
            case _:
                pass
        return value

    def _object(self, value: dict[str, Any], schema: Schema) -> dict[str, Any]:
        properties: dict[str, Any] = schema.get("properties", {})
        required: list[str] = schema.get("required", [])
        others: Any = schema.get("additionalProperties")
        coerced: dict[str, Any] = {}
        for name, item in value.items():
            if name not in properties:
                coerced[name] = self.any(item, others)
            elif item is not None:
                coerced[name] = self.any(item, properties[name])
            elif name in required or self.is_valid(None, properties[name]):
                coerced[name] = None
            # else: null for what is optional and cannot be null means that it was not given
        return coerced

    def _array(self, value: list[Any], schema: Schema) -> list[Any]:
        first: list[Any] = schema.get("prefixItems", [])
        rest: Any = schema.get("items")
        return [
            self.any(item, first[index] if index < len(first) else rest)
            for index, item in enumerate(value)
        ]


# -- single values; bool comes before int everywhere, since it is one to Python -----------------

_NUMBER = re.compile(r"[+-]?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?")


def _to_number(value: Any) -> Any:
    if not isinstance(value, str):
        return value
    match = _NUMBER.fullmatch(value.strip())
    if match is None:
        return value
    try:
        number = float(match.group()) if match.group(1) or match.group(2) else int(match.group())
    except ValueError:  # more digits than Python reads
        return value
    return value if isinstance(number, float) and not math.isfinite(number) else number


def _to_integer(value: Any) -> Any:
    number = _to_number(value)
    if isinstance(number, float) and number.is_integer() and abs(number) <= 2**53:
        return int(number)
    return number if isinstance(number, int) else value


def _to_boolean(value: Any) -> Any:
    if isinstance(value, str) and value.strip().lower() in ("true", "false"):
        return value.strip().lower() == "true"
    if isinstance(value, int) and value in (0, 1):
        return bool(value)
    return value


def _to_string(value: Any) -> Any:
    return json.dumps(value) if isinstance(value, bool | int | float) else value


def _decode(value: Any, kind: type[dict[Any, Any]] | type[list[Any]]) -> Any:
    """*value*, or what its text encodes if that is the container wanted."""
    if not isinstance(value, str):
        return value
    try:
        decoded = _decoder.decode(value)
    except (ValueError, RecursionError):
        return value
    return cast("Any", decoded) if isinstance(decoded, kind) else value


def _refuse(text: str) -> Any:
    raise ValueError(text)


_decoder = json.JSONDecoder(parse_constant=_refuse)
