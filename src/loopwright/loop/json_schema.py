"""JSON Schemas as plain data: walked, tidied, and freed of references.

Vendors differ in what they make of `$ref`, so references are replaced by what they refer to.
Recursive types keep theirs, with the definitions they need; so do schemas that would grow beyond
all measure. Keys beside a reference override the definition, as pydantic and every model expect.

Not here: where a schema comes from (schema.py), and what a vendor's row cuts away.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, cast

__all__ = [
    "Schema",
    "UnusableReference",
    "enumerate_constants",
    "inline_references",
    "map_subschemas",
    "resolve_pointer",
    "strip_titles",
]

Schema = dict[str, Any]

_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_SINGLE = (
    "additionalItems",
    "additionalProperties",
    "contains",
    "contentSchema",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
)
_DEFINITIONS = ("$defs", "definitions")

MAX_NODES = 10_000
"""Definitions that double at every step could inline to gigabytes; beyond this, references stay."""


class UnusableReference(ValueError):
    """A `$ref` that leads nowhere, or out of the document."""


def _children(schema: Schema) -> Iterator[tuple[str, Schema]]:
    """Each schema directly inside *schema* with its path. `enum`, `default` and such are data."""
    for key, value in schema.items():
        if key in _MAPS and isinstance(value, dict):
            for name, child in cast("dict[str, Any]", value).items():
                if isinstance(child, dict):
                    yield f"{key}.{name}", cast("Schema", child)
        elif isinstance(value, dict) and key in _SINGLE:
            yield key, cast("Schema", value)
        elif isinstance(value, list) and (key in _LISTS or key == "items"):
            for index, child in enumerate(cast("list[Any]", value)):
                if isinstance(child, dict):
                    yield f"{key}[{index}]", cast("Schema", child)


def map_subschemas(schema: Schema, change: Callable[[Schema], Any]) -> Schema:
    """A copy of *schema* whose direct subschemas went through *change*; the rest is shared."""
    changed: Schema = {}
    for key, value in schema.items():
        if key in _MAPS and isinstance(value, dict):
            members = cast("dict[str, Any]", value)
            changed[key] = {
                name: change(cast("Schema", child)) if isinstance(child, dict) else child
                for name, child in members.items()
            }
        elif isinstance(value, dict) and key in _SINGLE:
            changed[key] = change(cast("Schema", value))
        elif isinstance(value, list) and (key in _LISTS or key == "items"):
            changed[key] = [
                change(cast("Schema", child)) if isinstance(child, dict) else child
                for child in cast("list[Any]", value)
            ]
        else:
            changed[key] = value
    return changed


def strip_titles(schema: Schema) -> Schema:
    """Without the titles pydantic makes up, and OpenAPI's discriminator, which points to names."""
    kept = {
        key: value
        for key, value in schema.items()
        if not (key == "title" and isinstance(value, str)) and key != "discriminator"
    }
    return map_subschemas(kept, strip_titles)


def enumerate_constants(schema: Schema) -> Schema:
    """With `const` written as an `enum` of one, which more vendors know."""
    changed = map_subschemas(schema, enumerate_constants)
    if "const" not in changed:
        return changed
    return {
        "enum" if key == "const" else key: [value] if key == "const" else value
        for key, value in changed.items()
    }


# -- references ------------------------------------------------------------------------------


def _meant_by(step: str) -> str:
    """The key that one *step* of a reference means (RFC 6901, sections 4 and 6)."""
    if "%" in step:
        from urllib.parse import unquote  # costs a fifth of our import time, and is rarely needed

        step = unquote(step)
    return step.replace("~1", "/").replace("~0", "~")


def resolve_pointer(root: Schema, reference: str, path: str = "$") -> Schema:
    """What *reference* means in *root*. Raises `UnusableReference`, naming *path*."""
    if reference != "#" and not reference.startswith("#/"):
        raise UnusableReference(
            f"{path}: $ref {reference!r} leads out of the schema or to an anchor; "
            "only references such as '#/$defs/Name' can be sent to a model"
        )
    found: Any = root
    for part in reference.split("/")[1:]:
        step = _meant_by(part)
        if isinstance(found, dict) and step in found:
            found = cast("dict[str, Any]", found)[step]
        elif (
            isinstance(found, list)
            and step.isdecimal()
            and int(step) < len(cast("list[Any]", found))
        ):
            found = cast("list[Any]", found)[int(step)]
        else:
            raise UnusableReference(f"{path}: $ref {reference!r} has no definition")
    if not isinstance(found, dict):
        raise UnusableReference(f"{path}: $ref {reference!r} is not a schema")
    return cast("Schema", found)


def inline_references(root: Schema) -> Schema:
    """A copy of *root* without references, but for recursive ones and their definitions.

    Raises `UnusableReference`, naming the path, for a reference without a definition, one that
    leads out of the document, and for dynamic references.
    """
    return _Inliner(root).run()


class _Inliner:
    """One schema being inlined: what its references mean, and which of them turn in circles."""

    def __init__(self, root: Schema) -> None:
        self.root = root
        self.targets: dict[str, Schema] = {}
        self._collect(root, "$")
        self.inner = {
            reference: set(_references_in(target)) for reference, target in self.targets.items()
        }
        self.recursive = {reference for reference in self.inner if self._returns(reference)}
        self.done: dict[str, tuple[Schema, int]] = {}

    def _collect(self, schema: Schema, path: str) -> None:
        for key in ("$dynamicRef", "$recursiveRef"):
            if key in schema:
                raise UnusableReference(f"{path}: {key} is not supported")
        reference = schema.get("$ref")
        if isinstance(reference, str) and reference not in self.targets:
            target = resolve_pointer(self.root, reference, path)
            self.targets[reference] = target
            self._collect(target, reference)  # a pointer may lead where no keyword does
        for step, child in _children(schema):
            self._collect(child, f"{path}.{step}")

    def _returns(self, start: str) -> bool:
        seen: set[str] = set()
        waiting = list(self.inner[start])
        while waiting:
            reference = waiting.pop()
            if reference == start:
                return True
            if reference not in seen:
                seen.add(reference)
                waiting.extend(self.inner[reference])
        return False

    def run(self) -> Schema:
        body = {key: value for key, value in self.root.items() if key not in _DEFINITIONS}
        reference = body.get("$ref")
        if isinstance(reference, str):  # a model is offered an object, not a reference to one
            target = {k: v for k, v in self.targets[reference].items() if k not in _DEFINITIONS}
            body = {**target, **{key: value for key, value in body.items() if key != "$ref"}}
        try:
            inlined, _ = self._inline(body)
            return self._with_definitions(inlined)
        except _TooLarge:
            return {**body, **{key: self.root[key] for key in _DEFINITIONS if key in self.root}}

    def _inline(self, schema: Schema) -> tuple[Schema, int]:
        """The inlined schema and how many nodes it has."""
        size = 1

        def change(child: Schema) -> Schema:
            nonlocal size
            inlined, nodes = self._inline(child)
            size += nodes
            if size > MAX_NODES:
                raise _TooLarge
            return inlined

        changed = map_subschemas(schema, change)
        reference = changed.get("$ref")
        if not isinstance(reference, str) or reference in self.recursive:
            return changed, size
        if reference not in self.done:
            self.done[reference] = self._inline(self.targets[reference])
        target, nodes = self.done[reference]
        del changed["$ref"]
        return {**target, **changed}, size + nodes

    def _with_definitions(self, inlined: Schema) -> Schema:
        """*inlined* and the definitions its remaining references need, at their old place."""
        waiting = list(_references_in(inlined))
        kept: dict[str, dict[str, Schema]] = {}
        while waiting:
            parts = waiting.pop().split("/")
            if len(parts) < 3 or parts[1] not in _DEFINITIONS:
                continue  # into the body, which is still there
            name = _meant_by(parts[2])
            if name in kept.get(parts[1], {}):
                continue
            definition, _ = self._inline(self.root[parts[1]][name])
            kept.setdefault(parts[1], {})[name] = definition
            waiting.extend(_references_in(definition))
        for key, definitions in kept.items():
            inlined[key] = {
                name: definitions[name] for name in self.root[key] if name in definitions
            }
        return inlined


class _TooLarge(Exception):
    """Inlining would make the schema larger than any vendor takes."""


def _references_in(schema: Schema) -> Iterator[str]:
    reference = schema.get("$ref")
    if isinstance(reference, str):
        yield reference
    for step, child in _children(schema):
        if not step.startswith(_DEFINITIONS):
            yield from _references_in(child)
