"""A program's own data as the JSON that will be read back, or a refusal that names the place.

Not here: details of tools and messages, of which what JSON cannot say is kept as text (records).
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any, cast

import msgspec

from ..errors import Misuse
from ..records import Record

__all__ = ["json_value"]


def json_value(value: Any, where: str) -> Any:
    """A copy of *value* that equals what is read back. Tuples become lists; dataclasses, Structs and
    pydantic models become objects. Raises `Misuse` that names the place, which begins with *where*.
    """
    try:
        return _copied(value, where, ())
    except RecursionError as error:
        raise Misuse(f"{where} is nested too deeply; nothing was written") from error


def _copied(value: Any, where: str, around: tuple[int, ...]) -> Any:
    """*around*: the identities of what *value* is in."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return _text(value, where)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise _refusal(where, f"the number {value}")
        return float(value)
    if id(cast("object", value)) in around:
        raise _refusal(where, "what it is in itself")
    around = (*around, id(cast("object", value)))
    if isinstance(value, list | tuple):
        items = cast("list[Any]", value)
        return [_copied(item, f"{where}[{n}]", around) for n, item in enumerate(items)]
    if isinstance(value, dict):
        return _object(cast("dict[Any, Any]", value), where, around)
    if isinstance(value, type):
        raise _refusal(where, "a class")
    if isinstance(value, Record):
        return _object(value.to_dict(camel=True), where, around)
    if isinstance(value, msgspec.Struct):
        fields = msgspec.structs.fields(value)
        return _object({f.encode_name: getattr(value, f.name) for f in fields}, where, around)
    if dataclasses.is_dataclass(value):
        names = [field.name for field in dataclasses.fields(value)]
        return _object({name: getattr(value, name) for name in names}, where, around)
    dump = getattr(cast("object", value), "model_dump", None)
    if callable(dump):
        return _copied(dump(mode="json"), where, around)
    raise _refusal(where, f"a {type(cast('object', value)).__name__}")


def _object(fields: dict[Any, Any], where: str, around: tuple[int, ...]) -> dict[str, Any]:
    copy: dict[str, Any] = {}
    for key, item in fields.items():
        if not isinstance(key, str):
            raise _refusal(where, f"the key {key!r}, which is no text")
        copy[_text(key, f"a key of {where}")] = _copied(item, f"{where}[{key!r}]", around)
    return copy


def _text(text: str, where: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise _refusal(where, "half of a surrogate pair") from error
    return str.__str__(text)


def _refusal(where: str, what: str) -> Misuse:
    return Misuse(
        f"{where} holds {what}, which JSON cannot say; nothing was written",
        hint="give text, finite numbers, booleans, None, lists, and dicts whose keys are text",
    )
