"""The schema of a tool as vendors accept it: an object, without a combinator at its top.     (pure)

Anthropic, Bedrock and OpenAI refuse the whole request for one tool whose schema has `anyOf` or the
like at its top. The properties of all branches are merged there, and the description says the rest
in words. Arguments are checked against the tool's own schema.

Not here: schemas of typed answers (schema_dialects.py).
"""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Any, cast

import msgspec

from ..records import to_jsonable
from .model import ToolSpec

__all__ = ["ANTHROPIC_PROPERTY", "declared_tools", "flat_schema"]

Schema = dict[str, Any]

_log = logging.getLogger("loopwright")

ANTHROPIC_PROPERTY = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
"""What Anthropic takes as the name of a property; it refuses the request for any other."""

_COMBINATORS = ("anyOf", "oneOf", "allOf", "not", "enum", "const", "if", "then", "else")
_SHOWN_CHARACTERS = 2_000


def declared_tools(
    tools: Sequence[ToolSpec], property_name: re.Pattern[str] | None = None
) -> list[ToolSpec]:
    """*tools* as they may be sent. One that cannot be said, since a name in it does not match
    *property_name*, is left out: it would take the whole request with it."""
    declared: list[ToolSpec] = []
    for tool in map(_declared, tools):
        if property_name is None or _is_named(tool.parameters, property_name):
            declared.append(tool)
        else:
            _log.warning(
                "the tool %r is left out of this request: the vendor takes no parameter with such "
                "a name as in %s",
                *(tool.name, list(tool.parameters["properties"])),
            )
    return declared


def _declared(tool: ToolSpec) -> ToolSpec:
    schema = tool.parameters
    if schema.get("type") == "object" and not any(key in schema for key in _COMBINATORS):
        return tool
    flat, words = flat_schema(schema)
    description = "\n\n".join(part for part in (tool.description, words) if part.strip())
    return ToolSpec(tool.name, description, flat)


def _is_named(schema: Schema, name: re.Pattern[str]) -> bool:
    return all(name.fullmatch(key) for key in cast("Schema", schema.get("properties") or {}))


def flat_schema(schema: Schema) -> tuple[Schema, str]:
    """*schema* without combinators at its top, and the rule that they made, in words.

    The properties of all branches are merged; required is what every branch requires. Empty words
    where nothing was lost. *schema* is not changed.
    """
    flat = _Flattener(schema).merged(schema, ())
    flat.setdefault("properties", {})
    made = {"type": "object", **{key: value for key, value in flat.items() if key != "type"}}
    rule = {key: schema[key] for key in _COMBINATORS if key in schema}
    return made, _in_words(rule) if rule else ""


def _in_words(rule: Schema) -> str:
    if len(rule) == 1 and (key := next(iter(rule))) in ("anyOf", "oneOf"):
        sets = [_only_required(branch) for branch in rule[key]]
        if sets and all(sets):
            ways = " or ".join(" and ".join(names) for names in sets if names)
            how = "exactly one of these" if key == "oneOf" else "at least one of these"
            return f"The arguments must have {how}: {ways}."
    text = msgspec.json.encode(to_jsonable(rule)).decode()
    if len(text) > _SHOWN_CHARACTERS:
        return "The arguments must fit further rules; an error says which one they break."
    return f"The arguments must also match this JSON Schema: {text}"


def _only_required(branch: Any) -> list[str] | None:
    if not isinstance(branch, dict) or set(cast("Schema", branch)) - {"required", "type"}:
        return None
    return cast("list[str]", cast("Schema", branch).get("required") or []) or None


class _Flattener:
    def __init__(self, root: Schema) -> None:
        self._root = root

    def merged(self, schema: Schema, inside: tuple[str, ...]) -> Schema:
        """*schema*, its branches taken into it."""
        made = {key: value for key, value in schema.items() if key not in _COMBINATORS}
        reference = made.pop("$ref", None)
        if isinstance(reference, str) and reference not in inside:
            target = self._target(reference)
            if target is not None:
                made = _both(made, self.merged(target, (*inside, reference)))
        for part in self._branches(schema.get("allOf"), inside):
            made = _both(made, part)
        for key in ("anyOf", "oneOf"):
            if key in schema:
                made = _both(made, _either(self._branches(schema[key], inside)))
        if "if" in schema:
            cases = [schema.get("then", True), schema.get("else", True)]
            made = _both(made, _either(self._branches(cases, inside)))
            for condition in self._branches([schema["if"]], inside):
                made = _both(made, {"properties": condition.get("properties") or {}})
        return made

    def _branches(self, given: Any, inside: tuple[str, ...]) -> list[Schema]:
        """The branches that an object may take."""
        found: list[Schema] = []
        for one in cast("list[Any]", given) if isinstance(given, list) else []:
            if one is True:
                found.append({})
            elif isinstance(one, dict):
                branch = cast("Schema", one)
                kind: Any = branch.get("type", "object")
                if kind == "object" or (isinstance(kind, list) and "object" in kind):
                    found.append(self.merged(branch, inside))
        return found

    def _target(self, reference: str) -> Schema | None:
        found: Any = self._root
        for name in reference.removeprefix("#").strip("/").split("/"):
            if name:
                key = name.replace("~1", "/").replace("~0", "~")
                found = cast("Schema", found).get(key) if isinstance(found, dict) else None
        return cast("Schema", found) if isinstance(found, dict) else None


def _both(first: Schema, second: Schema) -> Schema:
    """What must fit both; a property that both describe keeps the first description."""
    made = {**second, **first}
    properties = {
        **cast("Schema", second.get("properties") or {}),
        **cast("Schema", first.get("properties") or {}),
    }
    if properties or "properties" in made:
        made["properties"] = properties
    required = dict.fromkeys([*(first.get("required") or ()), *(second.get("required") or ())])
    if required:
        made["required"] = list(required)
    return made


def _either(branches: list[Schema]) -> Schema:
    """What is true whichever of *branches* is taken."""
    properties: dict[str, list[Any]] = {}
    for branch in branches:
        for name, value in cast("Schema", branch.get("properties") or {}).items():
            known = properties.setdefault(name, [])
            if value not in known:
                known.append(value)
    made: Schema = {
        "properties": {
            name: found[0] if len(found) == 1 else {"anyOf": found}
            for name, found in properties.items()
        }
    }
    required = [list(branch.get("required") or ()) for branch in branches]
    if required:
        made["required"] = [name for name in required[0] if all(name in r for r in required)]
    if branches and all(branch.get("additionalProperties") is False for branch in branches):
        made["additionalProperties"] = False
    return made
