"""Checking values against a JSON Schema with the jsonschema library.

For tools that come with a schema instead of a signature, and for telling the branches of a union
apart. The library is imported when it is first needed.

Not here: pydantic's checks (schema.py).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

from .arguments import Fault, Unfit
from .json_schema import Schema, UnusableReference, inline_references, map_subschemas
from .schema import Contract
from .signature import InvalidTool

__all__ = ["branch_check", "contract_of_schema"]


def branch_check(root: Schema) -> Callable[[Any, Schema], bool]:
    """Whether a value fits a subschema of *root*, where its references are looked up."""
    validator = _validator(root)

    def is_valid(value: Any, schema: Schema) -> bool:
        return cast("bool", validator.evolve(schema=_checkable(schema)).is_valid(value))

    return is_valid


def contract_of_schema(parameters: Any, tool: str) -> Contract:
    """Of a tool described by a JSON Schema; the check hands the arguments through.

    Raises `InvalidTool`, naming *tool* and the path, for what is no JSON Schema of an object, and
    for references that lead nowhere.
    """
    if not isinstance(parameters, dict):
        raise InvalidTool(
            f"tool {tool!r}: its parameters are a {type(parameters).__name__}, "
            "not a JSON Schema in a dict",
            hint='for example {"type": "object", "properties": {"path": {"type": "string"}}}',
        )
    given = cast("Schema", parameters)
    _refuse_invalid(given, tool)
    if given.get("type", "object") != "object":
        raise InvalidTool(
            f"tool {tool!r}: its parameters have the type {given['type']!r}, "
            "but arguments are always an object"
        )
    try:
        schema = inline_references(given)
    except UnusableReference as error:
        raise InvalidTool(f"tool {tool!r}: {error}") from error
    said = {key: value for key, value in schema.items() if key not in _UNSENT}
    sent: Schema = {"type": "object", "properties": {}, **said}
    return Contract(sent, _checker(schema), open=_is_open(schema))


_UNSENT = ("$schema", "$id", "$comment")
_COMBINING = ("$ref", "allOf", "anyOf", "oneOf", "if", "patternProperties")


def _is_open(schema: Schema) -> bool:
    """Whether unnamed arguments may mean something: said so, or not to be told from the names."""
    if "patternProperties" not in schema and "additionalProperties" in schema:
        return schema["additionalProperties"] is not False
    return "properties" not in schema or any(key in schema for key in _COMBINING)


def _refuse_invalid(schema: Schema, tool: str) -> None:
    from jsonschema.exceptions import SchemaError

    try:
        _validator_class(schema).check_schema(_checkable(schema))
    except SchemaError as error:
        path = "$" + "".join(
            f"[{step}]" if isinstance(step, int) else f".{step}" for step in error.absolute_path
        )
        raise InvalidTool(
            f"tool {tool!r}: its parameters are no valid JSON Schema: {path}: {error.message}"
        ) from error


def _validator_class(schema: Schema) -> Any:
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for

    return cast("Any", validator_for(schema, default=Draft202012Validator))


def _validator(schema: Schema) -> Any:
    return _validator_class(schema)(_checkable(schema))


def _checkable(schema: Any) -> Any:
    """*schema* without patterns Python cannot read (ECMA's differ); the model still sees them."""
    if not isinstance(schema, dict):
        return schema
    known = cast("Schema", schema)
    changed = map_subschemas(known, _checkable)
    pattern = changed.get("pattern")
    if isinstance(pattern, str) and not _readable(pattern):
        del changed["pattern"]
    by_pattern = changed.get("patternProperties")
    if isinstance(by_pattern, dict):
        members = cast("Schema", by_pattern)
        changed["patternProperties"] = {
            pattern: child for pattern, child in members.items() if _readable(pattern)
        }
    return changed


def _readable(pattern: str) -> bool:
    try:
        re.compile(pattern)
    except re.error:
        return False
    return True


def _checker(schema: Schema) -> Callable[[dict[str, Any]], dict[str, Any]]:
    validator = _validator(schema)

    def check(arguments: dict[str, Any]) -> dict[str, Any]:
        faults = [_fault(error) for error in validator.iter_errors(arguments)]
        if faults:
            raise Unfit([fault for group in faults for fault in group])
        return arguments

    return check


def _fault(error: Any) -> list[Fault]:
    path = ""
    for step in error.absolute_path:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else str(step)
    if error.validator == "required":
        absent = [name for name in error.validator_value if name not in error.instance]
        # The library reports each missing name by itself; the message starts with its repr.
        return [
            Fault(f"{path}.{name}" if path else name, "is missing", missing=True)
            for name in absent
            if error.message.startswith(repr(name))
        ]
    if error.validator in ("anyOf", "oneOf") and error.context:
        ways = _missing_names(error)
        if ways:
            return [Fault(path, f"needs {' or '.join(ways)}")]
    return [Fault(path, str(error.message)[:300])]


def _missing_names(error: Any) -> list[str]:
    """What each branch of a union lacks, if that is all that is wrong with it; else nothing."""
    branches: dict[int, list[str]] = {}
    for one in error.context:
        if one.validator != "required" or len(one.absolute_path) != len(error.absolute_path):
            return []
        names = branches.setdefault(one.schema_path[0], [])
        names += [fault.path.rpartition(".")[2] for fault in _fault(one)]
    return [" and ".join(names) for names in branches.values()]
