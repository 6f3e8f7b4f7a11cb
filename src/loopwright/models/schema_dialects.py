"""What each vendor accepts of JSON Schema in typed answers, and schemas rewritten to it.     (pure)

One row a wire says which keywords its constrained decoding reads. `answer_schema` rewrites a schema
to such a row, or says that it cannot be done without losing values: then the caller sends it
without the vendor's guarantee, or asks for the answer by a tool. Every rewrite only makes a schema
wider; the reply is checked against the original.

Not here: tools (tool_schemas.py), Gemini's references (google_gemini_schema.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

from msgspec import Struct

__all__ = ["DIALECTS", "Dialect", "answer_schema", "tells_schema"]

Schema = dict[str, Any]

_STRUCTURE = frozenset({"type", "title", "description", "properties", "required", "items",
                        "anyOf", "enum", "const", "additionalProperties", "$ref", "$defs"})  # fmt: skip
_NUMBERS = frozenset({
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
})  # fmt: skip
_FORMATS = frozenset({
    "date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid",
})  # fmt: skip


class Dialect(Struct, frozen=True):
    """What the typed answers of one vendor accept."""

    keywords: frozenset[str]
    """Besides these, only what may be left out or rewritten is taken."""
    formats: frozenset[str] = _FORMATS
    open_objects: bool = False
    """Objects may hold properties that are not named (`additionalProperties`)."""
    all_required: bool = False
    """Each property must be required; an optional one is made nullable."""
    unenforced: bool = False
    """Any other schema of an object is taken as well, as advice (`strict: false`)."""
    recursive: bool = False
    min_items: int | None = None
    """The largest value of `minItems` that is read; None: any."""
    max_depth: int | None = None
    max_properties: int | None = None
    max_optional: int | None = None
    """How many optional properties a schema may have in all."""
    max_unions: int | None = None


_OPENAI = Dialect(
    _STRUCTURE | _NUMBERS | {"format", "pattern", "minItems", "maxItems"},
    all_required=True,
    unenforced=True,
    recursive=True,
    max_depth=10,
    max_properties=5_000,
)
"""https://platform.openai.com/docs/guides/structured-outputs#supported-schemas"""

_ANTHROPIC = Dialect(
    _STRUCTURE | {"format", "pattern", "minItems"},
    formats=_FORMATS | {"uri"},
    min_items=1,
    max_optional=24,
    max_unions=16,
)
"""https://platform.claude.com/docs/en/build-with-claude/structured-outputs#json-schema-limitations"""

_GEMINI = Dialect(
    _STRUCTURE
    | {"format", "minItems", "maxItems", "prefixItems", "minimum", "maximum", "propertyOrdering"},
    formats=frozenset({"date-time", "date", "time"}),
    open_objects=True,
)
"""https://ai.google.dev/gemini-api/docs/structured-output#json_schema_support"""

DIALECTS: Mapping[str, Dialect] = {
    "openai-chat": _OPENAI,
    "openai-responses": _OPENAI,
    "mistral": _OPENAI,
    "anthropic-messages": _ANTHROPIC,
    "bedrock-converse": _ANTHROPIC,
    "google-gemini": _GEMINI,
}
"""By the wire's id. Other wires take no schema."""

_WITHOUT_MEANING = frozenset({
    "default", "examples", "deprecated", "readOnly", "writeOnly", "discriminator", "$schema",
    "$id", "$comment", "contentEncoding", "contentMediaType",
})  # fmt: skip
_LIMITS = _NUMBERS | {
    "minLength", "maxLength", "pattern", "format", "minItems", "maxItems", "uniqueItems",
    "minProperties", "maxProperties",
}  # fmt: skip
"""What only narrows a value may be left out: the reply is checked here."""

_HARD_PATTERN = re.compile(r"\(\?|\\[bB1-9]|\\k")
"""Look-around, word borders and references back, which no vendor's grammar knows."""

_MOST_NODES = 20_000


class _Misfit(Exception):
    """The schema cannot be said in this dialect without losing values."""


def answer_schema(schema: Schema, api: str) -> Schema | None:
    """*schema* as the typed answers of the wire *api* accept it, or None if they do not.

    The result accepts every object that *schema* accepts, give or take optional properties that
    are null. None is returned for what would lose values: objects with free keys where they must
    be closed, values of any type, references in a circle, constructs that the vendor refuses.
    *schema* is not changed.
    """
    dialect = DIALECTS.get(api)
    if dialect is None:
        return None
    try:
        return _Rewriter(schema, dialect).rewritten()
    except (_Misfit, RecursionError):
        return None


class _Rewriter:
    def __init__(self, root: Schema, dialect: Dialect) -> None:
        self._root = root
        self._dialect = dialect
        self._nodes = self._properties = self._optional = self._unions = 0

    def rewritten(self) -> Schema:
        root = self._root
        seen: set[str] = set()
        while isinstance(reference := root.get("$ref"), str):  # the top must be an object
            if reference in seen:
                raise _Misfit
            seen.add(reference)
            root = self._target(reference)
        definitions: Schema = self._root.get("$defs") or self._root.get("definitions") or {}
        if not self._dialect.recursive:
            self._refuse_circles(root, ())
        made = self._node({k: v for k, v in root.items() if k not in ("$defs", "definitions")}, 1)
        if made.get("type") != "object" or "anyOf" in made:
            raise _Misfit
        if "$ref" in _keys(made):
            made["$defs"] = {name: self._node(one, 1) for name, one in definitions.items()}
        most = self._dialect
        for count, limit in (
            (self._properties, most.max_properties),
            (self._optional, most.max_optional),
            (self._unions, most.max_unions),
        ):
            if limit is not None and count > limit:
                raise _Misfit
        return made

    def _target(self, reference: str) -> Schema:
        match = re.fullmatch(r"#/(\$defs|definitions)/([^/]+)", reference)
        found: Any = None
        if reference == "#":
            found = self._root
        elif match:
            name = match[2].replace("~1", "/").replace("~0", "~")
            found = cast("Schema", self._root.get(match[1]) or {}).get(name)
        if not isinstance(found, dict):
            raise _Misfit
        return cast("Schema", found)

    def _refuse_circles(self, node: Any, inside: tuple[str, ...]) -> None:
        self._count()
        if isinstance(node, list):
            for one in cast("list[Any]", node):
                self._refuse_circles(one, inside)
        elif isinstance(node, dict):
            for key, value in cast("Schema", node).items():
                if key == "$ref" and isinstance(value, str):
                    if value in inside:
                        raise _Misfit
                    self._refuse_circles(self._target(value), (*inside, value))
                elif key not in ("$defs", "definitions", *_DATA):
                    self._refuse_circles(value, inside)

    def _count(self) -> None:
        self._nodes += 1
        if self._nodes > _MOST_NODES:
            raise _Misfit

    def _node(self, given: Any, depth: int) -> Schema:
        self._count()
        if not isinstance(given, dict):  # true: anything; false: nothing
            raise _Misfit
        node = _merged_all_of(cast("Schema", given))
        if isinstance(node.get("$ref"), str):
            self._target(node["$ref"])
            if _narrows(node):
                raise _Misfit
            return {"$ref": node["$ref"].replace("#/definitions/", "#/$defs/")}
        if "oneOf" in node:
            if "anyOf" in node:
                raise _Misfit
            node["anyOf"] = node.pop("oneOf")
        if not node.keys() & {"type", "anyOf", "enum", "const"}:
            raise _Misfit
        made: Schema = {}
        for key, value in node.items():
            self._keyword(key, value, made, depth)
        if "object" in _types(node):
            self._close(node, made)
        if "array" in _types(node) and not made.keys() & {"items", "prefixItems"}:
            raise _Misfit
        return made

    def _keyword(self, key: str, value: Any, made: Schema, depth: int) -> None:
        dialect = self._dialect
        if key in _WITHOUT_MEANING:
            return
        if key in _LIMITS and not self._reads(key, value):
            if key == "minItems" and key in dialect.keywords and isinstance(value, int):
                made[key] = dialect.min_items
        elif key not in dialect.keywords:
            raise _Misfit
        elif key == "properties":
            if dialect.max_depth is not None and depth > dialect.max_depth:
                raise _Misfit
            members = cast("Schema", value)
            self._properties += len(members)
            made[key] = {name: self._node(one, depth + 1) for name, one in members.items()}
        elif key in ("anyOf", "prefixItems"):
            self._unions += key == "anyOf"
            made[key] = [self._node(one, depth) for one in cast("list[Any]", value)]
        elif key == "items":
            if value is not False:  # nothing behind the prefix: that is said by maxItems
                made[key] = self._node(value, depth)
        elif key == "enum":
            if any(isinstance(one, dict | list) for one in cast("list[Any]", value)):
                raise _Misfit
            made[key] = value
        elif key == "type":
            self._unions += isinstance(value, list)
            made[key] = value
        elif key != "additionalProperties":
            made[key] = value

    def _reads(self, key: str, value: Any) -> bool:
        dialect = self._dialect
        if key not in dialect.keywords:
            return False
        if key == "format":
            return value in dialect.formats
        if key == "pattern":
            return _HARD_PATTERN.search(str(value)) is None
        if key == "minItems" and dialect.min_items is not None:
            return bool(value <= dialect.min_items)
        return True

    def _close(self, node: Schema, made: Schema) -> None:
        dialect = self._dialect
        more = node.get("additionalProperties", "properties" not in node)
        if more is not False:
            if not dialect.open_objects:
                raise _Misfit
            made["additionalProperties"] = more if isinstance(more, bool) else self._node(more, 1)
            return
        properties: Schema = made.setdefault("properties", {})
        required: list[str] = list(made.get("required") or ())
        if not set(required) <= properties.keys():
            raise _Misfit
        made["additionalProperties"] = False
        optional = [name for name in properties if name not in required]
        if dialect.all_required:
            for name in optional:
                properties[name] = _nullable(properties[name])
            if properties:
                made["required"] = list(properties)
        else:
            self._optional += len(optional)


_DATA = ("enum", "const", "default", "examples")


def _types(node: Schema) -> list[str]:
    kind: Any = node.get("type")
    return cast("list[str]", kind) if isinstance(kind, list) else [kind]


def _narrows(node: Schema) -> bool:
    """Whether something that matters stands beside a reference."""
    return bool(node.keys() - _WITHOUT_MEANING - {"$ref", "title", "description"})


def _merged_all_of(node: Schema) -> Schema:
    """*node* without an `allOf` that has one part, as generators write it around a reference."""
    parts: Any = node.get("allOf")
    rest = {key: value for key, value in node.items() if key != "allOf"}
    if parts is None:
        return rest
    if not isinstance(parts, list) or len(cast("list[Any]", parts)) != 1:
        raise _Misfit
    part: Any = cast("list[Any]", parts)[0]
    if not isinstance(part, dict):
        raise _Misfit
    only = _merged_all_of(cast("Schema", part))
    if (only.keys() & rest.keys()) - {"title", "description"}:
        raise _Misfit
    return {**only, **rest}


def _nullable(node: Schema) -> Schema:
    if "null" in _types(node) or {"type": "null"} in cast("list[Any]", node.get("anyOf") or []):
        return node
    return {"anyOf": [node, {"type": "null"}]}


def _keys(node: Any) -> set[str]:
    """All keys in *node*, at any depth."""
    if isinstance(node, list):
        return {key for one in cast("list[Any]", node) for key in _keys(one)}
    if not isinstance(node, dict):
        return set()
    found = cast("Schema", node)
    return set(found) | {key for one in found.values() for key in _keys(one)}


def tells_schema(schema: Schema, api: str) -> bool:
    """Whether the wire *api* can tell *schema* to its vendor without losing values.

    OpenAI's dialects take any schema of an object, though only some are enforced. Of wires that
    are not built in nothing is known, so they are believed.
    """
    dialect = DIALECTS.get(api)
    return dialect is None or (dialect.unenforced or answer_schema(schema, api) is not None)
