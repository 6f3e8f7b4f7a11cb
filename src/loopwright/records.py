"""What all our messages and events have in common: reading, writing, and being shown to pydantic.

A `Record` is a frozen msgspec Struct whose JSON is camelCase (pi's files and front ends) and
whose dictionaries are snake_case (Python) unless asked otherwise. Both are read back, by a walk
over the declared fields only: keys inside free-form values such as the arguments of a tool call
are the user's and are never renamed. A field that still has its constant default is left out, so
an absent optional value never appears as null. Fields that start with an underscore are internal;
those a class names in `_unwritten_` are read but not written.

Not here: any particular message or event.
"""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any, Self, cast

import msgspec

from .errors import DecodeError, Misuse

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
    from pydantic_core import CoreSchema

__all__ = ["Record", "RecordMeta", "clean_text", "decode_tagged", "to_jsonable"]

_SURROGATE = re.compile("[\ud800-\udfff]")


def clean_text(text: str) -> str:
    """The same text as valid Unicode: surrogate pairs joined, lone halves become U+FFFD.

    Python strings may hold halves of a pair (a cut emoji, undecodable bytes); no encoder and no
    vendor accepts them.
    """
    if text.isascii() or not _SURROGATE.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def to_jsonable(value: Any) -> Any:
    """Free-form *value* as plain JSON data: pydantic models dumped, the unknown as its text."""
    if value is None or type(value) in (bool, int, float):
        return value
    if type(value) is str:
        return clean_text(value)
    return _clean(msgspec.to_builtins(value, str_keys=True, enc_hook=_foreign_to_jsonable))


def _foreign_to_jsonable(value: Any) -> Any:
    if isinstance(value, Record):
        return value.to_dict(camel=True)
    dump = getattr(value, "model_dump", None)
    return dump(mode="json") if callable(dump) else str(value)


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in cast("dict[Any, Any]", value).items()}
    if isinstance(value, list | tuple):  # msgspec leaves a tuple what it is
        return [_clean(item) for item in cast("list[Any]", value)]
    return value


@typing.dataclass_transform(frozen_default=True, field_specifiers=(msgspec.field,), eq_default=True)
class RecordMeta(msgspec.StructMeta):
    """Tells type checkers what the Struct options say at run time: records are frozen."""


class Record(msgspec.Struct, metaclass=RecordMeta, frozen=True, rename="camel", omit_defaults=True):
    """A finished fact: a message, a piece of one, or an event."""

    def to_dict(self, camel: bool = False) -> dict[str, Any]:
        """As plain data, snake_case or all camelCase; the tag (`role` or `type`) comes first."""
        plan = _plan(type(self))
        data: dict[str, Any] = dict(plan.tag)
        for name, wire_name, default in plan.fields:
            value = getattr(self, name)
            if value is default:
                continue
            data[wire_name if camel else name] = _to_plain(value, camel)
        return data

    def to_json(self) -> bytes:
        """As camelCase JSON bytes; lone surrogates become U+FFFD."""
        return msgspec.json.encode(self.to_dict(camel=True))

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """From what `to_dict` gave, in either case. Raises `DecodeError` naming what is wrong."""
        return cast("Self", _read(cls, data, cls.__name__))

    @classmethod
    def from_json(cls, data: bytes | str) -> Self:
        """From JSON in either case. Raises `DecodeError` naming what is wrong."""
        return cls.from_dict(_parse(data))

    @classmethod
    def __get_pydantic_core_schema__(cls, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema

        def check(value: Any) -> Any:
            if isinstance(value, cls):
                return value
            if not isinstance(value, dict):
                raise ValueError(
                    f"expected {cls.__name__} or an object, got {type(value).__name__}"
                )
            try:
                return cls.from_dict(cast("dict[str, Any]", value))
            except DecodeError as error:
                raise ValueError(str(error)) from error

        return core_schema.no_info_plain_validator_function(
            check,
            serialization=core_schema.plain_serializer_function_ser_schema(_dump_for_pydantic),
        )

    @classmethod
    def __get_pydantic_json_schema__(
        cls, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return _json_schema(cls)


def _dump_for_pydantic(value: Record) -> dict[str, Any]:
    return value.to_dict(camel=True)


def decode_tagged(kinds: object, data: bytes | str | dict[str, Any], where: str) -> Any:
    """*data* as one of *kinds*, a union of Records told apart by their tag."""
    return _read(kinds, data if isinstance(data, dict) else _parse(data), where)


def _parse(data: bytes | str) -> dict[str, Any]:
    try:
        value = msgspec.json.decode(data)
    except RecursionError as error:
        raise DecodeError("not readable: nested too deeply") from error
    except (msgspec.DecodeError, UnicodeError) as error:
        raise DecodeError(f"not valid JSON: {error}") from error
    if not isinstance(value, dict):
        raise DecodeError(f"expected a JSON object, got {type(value).__name__}")
    return cast("dict[str, Any]", value)


# -- writing ---------------------------------------------------------------------------------


class _Plan:
    """How one class is written and read, worked out once."""

    __slots__ = ("cls", "fields", "hints", "readable", "required", "tag")

    def __init__(self, cls: type[Record]) -> None:
        self.cls = cls
        config = cls.__struct_config__
        unwritten: frozenset[str] = getattr(cls, "_unwritten_", frozenset())
        self.tag: tuple[tuple[str, str], ...] = (
            () if config.tag is None else ((str(config.tag_field), str(config.tag)),)
        )
        every = [f for f in msgspec.structs.fields(cls) if not f.name.startswith("_")]
        self.fields = tuple(
            (f.name, f.encode_name, _MISSING if f.default is msgspec.NODEFAULT else f.default)
            for f in every
            if f.name not in unwritten
        )
        self.readable = tuple((f.name, f.encode_name) for f in every)
        self.required = frozenset(f.name for f in every if f.required)
        self.hints = {f.name: f.type for f in every}


_MISSING = object()


@cache
def _plan(cls: type[Record]) -> _Plan:
    return _Plan(cls)


def _to_plain(value: Any, camel: bool) -> Any:
    if type(value) is str:
        return clean_text(value)
    if isinstance(value, Record):
        return value.to_dict(camel)
    if isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        return [_to_plain(item, camel) for item in items]
    if value is None or isinstance(value, bool | int | float):
        return value
    role = getattr(value, "role", None)
    as_dict: Any = getattr(value, "to_dict", None)
    if role is not None and not callable(as_dict):
        raise Misuse(
            f"a message with the role {role!r} cannot be stored: {type(value).__name__} is not one "
            "of ours",
            hint=f'class {type(value).__name__}(CustomMessage, tag="{role}")',
        )  # a foreign message with a role of its own
    return to_jsonable(as_dict() if callable(as_dict) else value)


# -- reading ---------------------------------------------------------------------------------


def _read(kinds: object, data: Any, where: str) -> Any:
    """*data* as *kinds*: a Record class, a union or list of them, or anything msgspec knows."""
    if isinstance(kinds, type) and issubclass(kinds, Record):
        return _read_tagged((kinds,), data, where)
    origin = typing.get_origin(kinds)
    arguments = typing.get_args(kinds)
    if origin in (typing.Union, types.UnionType):
        return _read_union(arguments, data, where)
    if origin is list and _mentions_record(arguments[0]):
        if not isinstance(data, list):
            raise DecodeError(f"{where}: expected a list, got {type(data).__name__}")
        items = cast("list[Any]", data)
        return [_read(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(items)]
    try:
        return msgspec.convert(data, kinds)
    except (msgspec.ValidationError, UnicodeError, RecursionError) as error:
        raise DecodeError(f"{where}: {error}") from error


def _read_union(members: tuple[Any, ...], data: Any, where: str) -> Any:
    records = tuple(m for m in members if isinstance(m, type) and issubclass(m, Record))
    if records and isinstance(data, dict):
        return _read_tagged(records, data, where)
    if isinstance(data, list):
        for member in members:
            if typing.get_origin(member) is list:
                return _read(member, data, where)
    rest = tuple(m for m in members if m not in records and not _mentions_record(m))
    if Any in members or object in members:
        return cast("Any", data)
    if not rest:
        kind = type(cast("Any", data)).__name__
        raise DecodeError(f"{where}: expected an object, got {kind}")
    try:
        return msgspec.convert(cast("Any", data), typing.Union[rest])  # noqa: UP007 - built at run time
    except (msgspec.ValidationError, UnicodeError, RecursionError) as error:
        raise DecodeError(f"{where}: {error}") from error


def _read_tagged(kinds: tuple[type[Record], ...], data: Any, where: str) -> Any:
    if not isinstance(data, dict):
        raise DecodeError(f"{where}: expected an object, got {type(data).__name__}")
    fields = cast("dict[str, Any]", data)
    return _read_fields(_choose(kinds, fields, where), fields, where)


def _choose(kinds: tuple[type[Record], ...], data: dict[str, Any], where: str) -> type[Record]:
    """Which of *kinds* the tag in *data* names. An unknown tag is refused by name."""
    tag_field = next((k.__struct_config__.tag_field for k in kinds), None)
    if tag_field is None:
        return kinds[0]
    known: dict[str, type[Record]] = {}
    for kind in kinds:
        by_tag: Callable[[], dict[str, type[Record]]] | None = getattr(kind, "_by_tag_", None)
        known |= by_tag() if by_tag else {str(kind.__struct_config__.tag): kind}
    tag = data.get(tag_field)
    if tag is None and len(kinds) == 1 and len(known) == 1:
        return kinds[0]
    found = known.get(tag) if isinstance(tag, str) else None
    if found is None:
        said = f"no {tag_field}" if tag is None else f"unknown {tag_field} {tag!r}"
        names = ", ".join(sorted(repr(name) for name in known))
        raise DecodeError(f"{where}: {said}; known here: {names}")
    return found


def _read_fields(cls: type[Record], data: dict[str, Any], where: str) -> Record:
    plan = _plan(cls)
    values: dict[str, Any] = {}
    for name, wire_name in plan.readable:
        if wire_name in data:
            raw = data[wire_name]
        elif name in data:
            raw = data[name]
        elif name in plan.required:
            raise DecodeError(f"{where}: {cls.__name__} has no {wire_name!r}")
        else:
            continue
        values[name] = _read(plan.hints[name], raw, f"{where}.{wire_name}")
    return cls(**values)


@cache
def _mentions_record(kind: Any) -> bool:
    if isinstance(kind, type):
        return issubclass(kind, Record)
    arguments: tuple[Any, ...] = typing.get_args(kind)
    return any(_mentions_record(argument) for argument in arguments)


# -- describing ------------------------------------------------------------------------------


def _json_schema(kind: Any) -> dict[str, Any]:
    """The JSON Schema of the camelCase form, without references."""
    if isinstance(kind, type) and issubclass(kind, Record):
        plan = _plan(kind)
        properties: dict[str, Any] = {key: {"const": value} for key, value in plan.tag}
        properties |= {wire: _json_schema(plan.hints[name]) for name, wire, _ in plan.fields}
        required = [key for key, _ in plan.tag]
        required += [wire for name, wire, _ in plan.fields if name in plan.required]
        schema: dict[str, Any] = {
            "title": kind.__name__,
            "type": "object",
            "properties": properties,
            "required": required,
        }
        if getattr(kind, "_by_tag_", None):  # any custom message: its own fields are unknown here
            schema["properties"] = {str(kind.__struct_config__.tag_field): {"type": "string"}}
            schema["required"] = [str(kind.__struct_config__.tag_field)]
        return schema
    if _mentions_record(cast("Any", kind)):
        arguments: tuple[Any, ...] = typing.get_args(kind)
        if typing.get_origin(kind) is list:
            return {"type": "array", "items": _json_schema(arguments[0])}
        return {"anyOf": [_json_schema(argument) for argument in arguments]}
    return msgspec.json.schema(kind)
