"""Gemini, requests: JSON Schemas as the vendor takes them.                                   (pure)

Two fields take one: the newer reads JSON Schema, with references only where nothing stands beside
them and where they may be left out; the older reads a subset of OpenAPI 3.0. References are
always replaced here; a type that holds itself ends in a plain object the second time it comes.
https://ai.google.dev/api/caching#Schema

Not here: the schemas of tools before any vendor sees them (loop/json_schema.py).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from ...errors import Misuse

__all__ = ["json_schema", "openapi_schema"]

MAX_NODES = 10_000
"""Definitions that double at every step would fill the memory; beyond this, references end in a
plain object."""

Schema = dict[str, Any]

_DEFINITIONS = ("$defs", "definitions")
_MAPS = ("properties", "patternProperties", "dependentSchemas")


def json_schema(schema: Schema) -> Schema:
    """*schema* without references. Raises `Misuse` for one that leads nowhere."""
    return _Inliner(schema).tidied(schema, ())


class _Inliner:
    def __init__(self, root: Schema) -> None:
        self._root = root
        self._nodes = 0

    def tidied(self, schema: Any, inside: tuple[str, ...]) -> Any:
        if isinstance(schema, list):
            return [self.tidied(item, inside) for item in cast("list[Any]", schema)]
        if not isinstance(schema, dict):
            return schema
        self._nodes += 1
        fields = cast("Schema", schema)
        reference = fields.get("$ref")
        if isinstance(reference, str):
            beside = {key: value for key, value in fields.items() if key != "$ref"}
            if reference in inside or self._nodes > MAX_NODES:
                said = {k: v for k, v in beside.items() if k in ("title", "description")}
                return {"type": "object", **said}
            fields, inside = {**self._target(reference), **beside}, (*inside, reference)
            if isinstance(fields.get("$ref"), str):
                return self.tidied(fields, inside)
        made: Schema = {}
        for key, value in fields.items():
            if key in _DEFINITIONS or key in ("$schema", "$id"):
                continue
            if key in _MAPS and isinstance(value, dict):
                members = cast("Schema", value)
                made[key] = {name: self.tidied(one, inside) for name, one in members.items()}
            elif key in ("enum", "const", "default", "examples", "required"):
                made[key] = value
            else:
                made[key] = self.tidied(value, inside)
        if "const" in made and "enum" not in made:  # the vendor does not know it
            made["enum"] = [made.pop("const")]
        return made

    def _target(self, reference: str) -> Schema:
        found: Any = self._root
        for name in reference.removeprefix("#").strip("/").split("/"):
            if not name:
                continue
            key = name.replace("~1", "/").replace("~0", "~")
            found = cast("Schema", found).get(key) if isinstance(found, dict) else None
        if not reference.startswith("#") or not isinstance(found, dict):
            raise Misuse(f"the reference {reference!r} leads nowhere in a JSON Schema")
        return cast("Schema", found)


_KEPT = frozenset({
    "type", "format", "title", "description", "nullable", "enum", "items", "minItems", "maxItems",
    "properties", "required", "anyOf", "minimum", "maximum", "minLength", "maxLength", "pattern",
    "propertyOrdering",
})  # fmt: skip


def openapi_schema(schema: Schema) -> Schema:
    """*schema* in the subset of OpenAPI that the older field reads: one type each, `nullable`
    instead of null, texts as the only constants. What it cannot say is left out."""
    return _openapi(json_schema(schema))


def _openapi(schema: Any) -> Schema:
    if not isinstance(schema, dict):  # `true`: anything
        return {"type": "string"}
    fields = dict(cast("Schema", schema))
    for part in cast("Iterable[Any]", fields.pop("allOf", None) or ()):
        fields = _merged(fields, _openapi(part))
    choices: list[Any] = list(fields.get("anyOf") or fields.pop("oneOf", None) or ())
    types: Any = fields.get("type")
    if isinstance(types, list):
        named = cast("list[str]", types)
        if "null" in named:
            fields["nullable"] = True
        rest = [name for name in named if name != "null"]
        fields.pop("type")
        if len(rest) == 1:
            fields["type"] = rest[0]
        elif not choices:
            choices = [{"type": name} for name in rest]
    real = [choice for choice in choices if choice != {"type": "null"}]
    if len(real) < len(choices):
        fields["nullable"] = True
    fields.pop("anyOf", None)
    if len(real) == 1:
        fields = _merged(_openapi(real[0]), fields)
    elif real:
        fields["anyOf"] = [_openapi(choice) for choice in real]
    if fields.get("type") == "null":
        fields.update(type="string", nullable=True)
    if isinstance(fields.get("properties"), dict):
        members = cast("Schema", fields["properties"])
        fields["properties"] = {name: _openapi(one) for name, one in members.items()}
        fields.setdefault("type", "object")
    if isinstance(fields.get("items"), dict):
        fields["items"] = _openapi(fields["items"])
        fields.setdefault("type", "array")
    elif fields.get("type") == "array":
        fields["items"] = {"type": "string"}
    if isinstance(fields.get("enum"), list):
        values = [value for value in cast("list[Any]", fields["enum"]) if value is not None]
        if len(values) < len(fields["enum"]):
            fields["nullable"] = True
        if all(isinstance(value, str) for value in values) and values:
            fields["enum"] = values
            fields.setdefault("type", "string")
        else:
            fields.pop("enum")
    if "type" not in fields and "anyOf" not in fields:
        fields["type"] = "string" if "enum" in fields else "object"
    return {key: value for key, value in fields.items() if key in _KEPT}


def _merged(first: Schema, second: Schema) -> Schema:
    """Both at once; *second* has the last word, their properties are put together."""
    made = {**first, **second}
    if isinstance(first.get("properties"), dict) and isinstance(second.get("properties"), dict):
        made["properties"] = {**first["properties"], **second["properties"]}
    if isinstance(first.get("required"), list) and isinstance(second.get("required"), list):
        made["required"] = list(dict.fromkeys([*first["required"], *second["required"]]))
    return made
