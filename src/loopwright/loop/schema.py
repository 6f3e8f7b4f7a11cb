"""From Python types to the JSON Schema a model is shown and the check behind it.

Both come from one pydantic adapter, so they cannot drift apart. Pydantic is imported here when
the first tool is registered, not before.

Not here: reading signatures (signature.py), coercion and the wording of refusals (arguments.py).
"""

from __future__ import annotations

import json
import sys
import types
import typing
import warnings
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from ..records import Record
from .arguments import Fault, Unfit
from .docstrings import Documentation
from .json_schema import (
    Schema,
    UnusableReference,
    enumerate_constants,
    inline_references,
    strip_titles,
)
from .signature import InvalidTool, Parameter, Signature

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter, ValidationError
    from pydantic_core import CoreSchema

__all__ = ["Contract", "contract_of_signature", "contract_of_type", "empty_contract"]


class Contract(msgspec.Struct, frozen=True):
    """What a tool takes: the schema shown to the model, and the check that makes its parameters."""

    schema: Schema
    check: Callable[[dict[str, Any]], Any]
    """JSON-like arguments -> what the tool receives. Raises `Unfit`; changes nothing it is given
    and forgives nothing: coercion has happened before."""
    open: bool = False
    """Arguments the schema does not name are passed on, not dropped."""


def empty_contract() -> Contract:
    """Of a tool without parameters."""
    schema: Schema = {"type": "object", "properties": {}, "additionalProperties": False}
    return Contract(schema, lambda arguments: arguments)


def contract_of_signature(
    signature: Signature, documentation: Documentation, tool: str
) -> Contract:
    """Of a function, whose parameters become properties; the check gives keyword arguments.

    Raises `InvalidTool`, naming *tool* and parameter, for types pydantic has no schema for. Warns
    about described names that are no parameter.
    """
    unknown = [name for name in documentation.parameters if name not in signature.names]
    if unknown and not signature.rest_name:
        warnings.warn(
            f"tool {tool!r}: its docstring describes {', '.join(map(repr, unknown))}, "
            "which is no parameter",
            stacklevel=2,
        )
    for parameter in signature.parameters:
        _refuse_field_default(parameter, tool)
    hints = {
        p.name: _supported(p.hint) if p.required else _optional(_supported(p.hint))
        for p in signature.parameters
    }
    adapter, generated = _build(
        lambda: _arguments_type(hints, open_ended=signature.rest_name is not None),
        lambda: [(p.name, _supported(p.hint)) for p in signature.parameters],
        tool,
    )
    properties: dict[str, Schema] = generated.get("properties", {})
    for parameter in signature.parameters:
        _describe(properties[parameter.name], parameter, documentation)
    schema: Schema = {"type": "object", "properties": properties}
    required = [p.name for p in signature.parameters if p.required]
    if required:
        schema["required"] = required
    schema["additionalProperties"] = signature.rest_name is not None
    if "$defs" in generated:
        schema["$defs"] = generated["$defs"]
    check = _json_check(adapter)
    if signature.rest_name is not None and signature.rest is not Any:
        rest, rest_schema = _build(
            lambda: dict[str, _supported(signature.rest)],
            lambda: [(f"**{signature.rest_name}", _supported(signature.rest))],
            tool,
        )
        schema["additionalProperties"] = rest_schema.get("additionalProperties", True)
        schema["$defs"] = {**schema.get("$defs", {}), **rest_schema.get("$defs", {})}
        check = _check_rest(check, _json_check(rest), frozenset(hints))
    return Contract(_tidy(schema, tool), check, open=signature.rest_name is not None)


def contract_of_type(params: Any, tool: str) -> Contract:
    """Of a parameters class: a pydantic model, dataclass, TypedDict or msgspec Struct."""
    kind = _supported(params)
    adapter, generated = _build(lambda: kind, list, tool)
    schema = _tidy(generated, tool)
    if schema.get("type") != "object":
        raise InvalidTool(
            f"tool {tool!r}: its params {params!r} is no object with named fields",
            hint="use a pydantic model, a dataclass, a TypedDict or a msgspec Struct",
        )
    return Contract(schema, _json_check(adapter), open=bool(schema.get("additionalProperties")))


# -- building --------------------------------------------------------------------------------


def _build(
    make: Callable[[], Any], parts: Callable[[], list[tuple[str, Any]]], tool: str
) -> tuple[TypeAdapter[Any], Schema]:
    """The adapter and raw schema of what *make* returns; *parts* finds the culprit of a failure."""
    from pydantic import TypeAdapter

    try:
        adapter = TypeAdapter[Any](make())
        return adapter, adapter.json_schema()
    except InvalidTool:
        raise
    except Exception as error:
        for name, hint in parts():
            try:
                TypeAdapter[Any](hint).json_schema()
            except Exception as cause:  # foreign types run code of their own
                raise InvalidTool(
                    f"tool {tool!r}: parameter {name!r} has the type {_name(hint)}, "
                    f"which has no JSON Schema: {_first_line(cause)}",
                    hint="use JSON types, dataclasses, TypedDicts or pydantic models",
                ) from cause
        raise InvalidTool(
            f"tool {tool!r}: no JSON Schema can be made of its parameters: {_first_line(error)}"
        ) from error


def _arguments_type(hints: Mapping[str, Any], *, open_ended: bool) -> Any:
    """A TypedDict: unlike a model it allows every parameter name, and yields only what came."""
    from typing_extensions import TypedDict

    arguments: Any = TypedDict("Arguments", dict(hints))  # pyright: ignore[reportArgumentType, reportGeneralTypeIssues]
    arguments.__module__ = __name__
    arguments.__pydantic_config__ = {"extra": "allow" if open_ended else "ignore"}
    return arguments


def _optional(hint: Any) -> Any:
    return typing.NotRequired[hint]


def _tidy(schema: Schema, tool: str) -> Schema:
    try:
        return inline_references(enumerate_constants(strip_titles(schema)))
    except UnusableReference as error:
        raise InvalidTool(f"tool {tool!r}: {error}") from error


def _describe(prop: Schema, parameter: Parameter, documentation: Documentation) -> None:
    """Add description and default. Words in the annotation win over those of the docstring."""
    text = _annotated_text(parameter.hint) or documentation.parameters.get(parameter.name)
    if text:
        prop.setdefault("description", text)
    if not parameter.required:
        from pydantic_core import PydanticSerializationError, to_jsonable_python

        try:
            default = to_jsonable_python(parameter.default)
            json.dumps(default, allow_nan=False)
        except (PydanticSerializationError, ValueError, TypeError):
            return  # an object only Python knows: the model learns that it may leave it out
        prop["default"] = default


def _annotated_text(hint: Any) -> str | None:
    """`Annotated[int, "in seconds"]`, or PEP 727's `Doc`."""
    if typing.get_origin(hint) is not typing.Annotated:
        return None
    for note in typing.get_args(hint)[1:]:
        text = note if isinstance(note, str) else getattr(note, "documentation", None)
        if isinstance(text, str):
            return text
    return None


def _refuse_field_default(parameter: Parameter, tool: str) -> None:
    if type(parameter.default).__name__ == "FieldInfo":
        raise InvalidTool(
            f"tool {tool!r}: the default of parameter {parameter.name!r} is a pydantic Field, "
            "which Python would pass to the function as it is",
            hint=f"write `{parameter.name}: Annotated[..., Field(...)] = default`",
        )


def _name(hint: Any) -> str:
    return hint.__qualname__ if isinstance(hint, type) else str(hint)


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0]


# -- checking --------------------------------------------------------------------------------

_encode = msgspec.json.Encoder().encode


def _json_check(adapter: TypeAdapter[Any]) -> Callable[[dict[str, Any]], Any]:
    """Checks in pydantic's strict JSON mode: text may be a date, but never a number."""
    from pydantic import ValidationError

    validate = adapter.validator.validate_json

    def check(arguments: dict[str, Any]) -> Any:
        try:
            try:
                return validate(_encode(arguments), strict=True)
            except OverflowError:  # an integer beyond 64 bits
                return validate(json.dumps(arguments), strict=True)
        except ValidationError as error:
            raise Unfit(_faults(error)) from None

    return check


def _check_rest(
    check: Callable[[dict[str, Any]], dict[str, Any]],
    check_rest: Callable[[dict[str, Any]], dict[str, Any]],
    named: frozenset[str],
) -> Callable[[dict[str, Any]], dict[str, Any]]:
    """A check that also looks at what `**kwargs` of a type collects."""

    def check_all(arguments: dict[str, Any]) -> dict[str, Any]:
        rest = {name: value for name, value in arguments.items() if name not in named}
        return {**check(arguments), **check_rest(rest)}

    return check_all


def _faults(error: ValidationError) -> list[Fault]:
    faults: list[Fault] = []
    for detail in error.errors(include_url=False, include_context=False):
        path = _path(detail["loc"])
        if detail["type"] == "missing":
            faults.append(Fault(path, "is missing", missing=True))
        else:
            faults.append(Fault(path, detail["msg"], detail["input"]))
    return faults


def _path(location: tuple[int | str, ...]) -> str:
    path = ""
    for step in location:
        path += f"[{step}]" if isinstance(step, int) else f".{step}" if path else step
    return path


# -- annotations pydantic needs help with ------------------------------------------------------


def _supported(hint: Any, inside: tuple[Any, ...] = ()) -> Any:
    """*hint* with msgspec Structs and, before Python 3.12, `typing.TypedDict`s made readable.

    *inside* are the TypedDicts it was found in; one that contains itself raises `InvalidTool`.
    """
    if _is_plain_struct(hint):
        return typing.Annotated[Any, _StructField(hint)]
    if sys.version_info < (3, 12) and typing.is_typeddict(hint):
        return _readable_typed_dict(hint, inside)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if not arguments or origin is typing.Literal:
        return hint
    if origin is typing.Annotated:
        inner = _supported(arguments[0], inside)
        return hint if inner is arguments[0] else typing.Annotated[(inner, *arguments[1:])]
    changed = tuple(_supported(argument, inside) for argument in arguments)
    if all(new is old for new, old in zip(changed, arguments, strict=True)):
        return hint
    if origin in (typing.Union, types.UnionType):
        return typing.Union[changed]  # noqa: UP007 - built at run time
    return origin[changed]


def _is_plain_struct(hint: Any) -> bool:
    """A Struct pydantic knows nothing of; our own Records tell it what they are."""
    return (
        isinstance(hint, type) and issubclass(hint, msgspec.Struct) and not issubclass(hint, Record)
    )


def _readable_typed_dict(kind: Any, inside: tuple[Any, ...]) -> Any:
    """The same as a `typing_extensions.TypedDict`: pydantic takes no other before Python 3.12."""
    from typing_extensions import TypedDict

    if kind in inside:
        raise InvalidTool(
            f"{kind.__module__}.{kind.__qualname__} contains itself, and can as a tool's parameter "
            "only from Python 3.12 on",
            hint="import TypedDict from typing_extensions, not from typing",
        )
    fields: dict[str, Any] = {}
    for name, hint in typing.get_type_hints(kind, include_extras=True).items():
        # What the class itself noted is wrong where annotations were strings.
        qualifier = typing.Required if name in kind.__required_keys__ else typing.NotRequired
        while typing.get_origin(hint) in (typing.Required, typing.NotRequired):
            qualifier: Any = typing.get_origin(hint)
            (hint,) = typing.get_args(hint)
        fields[name] = qualifier[_supported(hint, (*inside, kind))]
    made: Any = TypedDict(kind.__name__, fields)  # pyright: ignore[reportArgumentType]
    made.__module__ = kind.__module__
    made.__doc__ = kind.__doc__
    return made


class _StructField:
    """Lets pydantic hand an object to msgspec, which knows its Struct best."""

    def __init__(self, kind: type[msgspec.Struct]) -> None:
        self.kind = kind

    def __get_pydantic_core_schema__(
        self, source: Any, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        from pydantic_core import core_schema

        def convert(value: Any) -> msgspec.Struct:
            try:
                return msgspec.convert(value, self.kind)
            except msgspec.ValidationError as error:
                raise ValueError(str(error)) from error

        return core_schema.no_info_plain_validator_function(convert)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> Schema:
        return inline_references(msgspec.json.schema(self.kind))
