"""Whether a table of settings is one, and if not, what is wrong with which key.            (pure)

Not here: files and lines (settings/files.py), rules of permissions (permissions/rules.py).
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from types import UnionType
from typing import Annotated, Any, Literal, Union, cast, get_args, get_origin

import msgspec

from .schema import Settings

__all__ = [
    "RULE_LISTS",
    "WrongSetting",
    "check_table",
    "describe",
    "is_table",
    "leaves",
    "merged",
    "type_of",
]

Key = tuple[str, ...]

RULE_LISTS: frozenset[Key] = frozenset(
    {("permissions", "allow"), ("permissions", "ask"), ("permissions", "deny")}
)
"""Lists that are added up; everything else is replaced by the stronger layer."""

_AGENT_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


class WrongSetting(Exception):
    """A key that there is not, or a value that it cannot have."""

    def __init__(self, key: Key, message: str, hint: str) -> None:
        super().__init__(message)
        self.key = key
        self.message = message
        self.hint = hint


def check_table(table: Mapping[str, Any], at: Key = (), of: Any = Settings) -> None:
    """Raises `WrongSetting` for the first key of *table* that is wrong. *at* is where it stands."""
    kinds = _fields(of)
    for name, value in table.items():
        key = (*at, name)
        if kinds is None and not _AGENT_NAME.fullmatch(name):
            raise WrongSetting(
                key,
                f"`{'.'.join(at)}` has an agent named {name!r}",
                "a name has letters, digits, - and _, at most 64 of them",
            )
        kind = get_args(of)[1] if kinds is None else kinds.get(name)
        if kind is None:
            raise _unknown(key, list(kinds or ()))
        if _is_table(kind):
            if not isinstance(value, dict):
                raise WrongSetting(
                    key,
                    f"`{'.'.join(key)}` is a table, not {_shown(value)}",
                    f"write [{'.'.join(key)}] on a line of its own, and its keys below",
                )
            check_table(cast("dict[str, Any]", value), key, kind)
        else:
            _check_value(key, value, kind)


def type_of(key: Key) -> Any:
    """The type of what stands at *key*: of a value, or of a table. Raises `WrongSetting`."""
    kind: Any = Settings
    for depth, name in enumerate(key):
        if not _is_table(kind):
            raise WrongSetting(
                key, f"`{'.'.join(key[:depth])}` is no table", "loopwright config lists all keys"
            )
        kinds = _fields(kind)
        if kinds is None:
            check_table({name: {}}, key[:depth], kind)
            kind = get_args(kind)[1]
        elif name in kinds:
            kind = kinds[name]
        else:
            raise _unknown(key[: depth + 1], list(kinds))
    return kind


def is_table(key: Key) -> bool:
    """Whether keys stand below *key*. Raises `WrongSetting` if there is no such key."""
    return _is_table(type_of(key))


def leaves(settings: Settings) -> Iterator[tuple[Key, Any]]:
    """Every key that holds a value, and the value, in the order of the schema."""
    yield from _leaves(settings, ())


def merged(weaker: Mapping[str, Any], stronger: Mapping[str, Any], at: Key = ()) -> dict[str, Any]:
    """*stronger* over *weaker*: tables key by key, lists of rules one after the other."""
    result = dict(weaker)
    for name, value in stronger.items():
        below = result.get(name)
        if isinstance(value, dict) and isinstance(below, dict):
            result[name] = merged(
                cast("dict[str, Any]", below), cast("dict[str, Any]", value), (*at, name)
            )
        elif (*at, name) in RULE_LISTS and below:
            result[name] = [*below, *value]
        else:
            result[name] = value
    return result


def describe(kind: Any) -> str:
    """What a value of the type *kind* is, for people."""
    origin, arguments = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return describe(next(one for one in arguments if one is not type(None)))
    if origin is Literal:
        return "one of " + ", ".join(f'"{value}"' for value in arguments)
    if origin is list:
        return 'a list of texts, such as ["a", "b"]'
    if origin is Annotated:
        limits = arguments[1]
        least = [f"at least {limits.ge}"] if limits.ge is not None else []
        least += [f"above {limits.gt}"] if limits.gt is not None else []
        least += [f"at most {limits.le:,}"] if limits.le is not None else []
        least += ["not empty"] if limits.min_length else []
        return ", ".join([describe(arguments[0]), *least])
    return {bool: "true or false", int: "a whole number", float: "a number", str: "a text"}.get(
        kind, "a table"
    )


# -- one value ---------------------------------------------------------------------------------


def _check_value(key: Key, value: Any, kind: Any) -> None:
    try:
        msgspec.convert(value, kind)
    except msgspec.ValidationError:
        pass
    else:
        # TOML knows inf and nan; an endless cap would be none.
        if not isinstance(value, float) or math.isfinite(value):
            return
    raise WrongSetting(
        key,
        f"`{'.'.join(key)}` cannot be {_shown(value)}",
        f"it is {describe(kind)}",
    )


def _unknown(key: Key, known: list[str]) -> WrongSetting:
    import difflib

    near = difflib.get_close_matches(key[-1].replace("-", "_"), known, n=1)
    above = "".join(f"{name}." for name in key[:-1])
    places = [".".join(found) for found in _all_keys(Settings) if found[-1] == key[-1]]
    if places:  # the right name in the wrong table
        hint = f"did you mean `{'` or `'.join(places[:2])}`?"
    elif near:
        hint = f"did you mean `{above}{near[0]}`?"
    else:
        hint = f"there are: {', '.join(known)}"
    return WrongSetting(key, f"nothing is called `{above}{key[-1]}`", hint)


def _all_keys(of: Any, at: Key = ()) -> Iterator[Key]:
    for name, kind in (_fields(of) or {}).items():
        if _is_table(kind):
            yield from _all_keys(kind, (*at, name))
        else:
            yield (*at, name)


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, bool):
        return str(value).lower()
    text = repr(cast("object", value))
    return text if len(text) <= 60 else text[:59] + "…"


# -- the schema --------------------------------------------------------------------------------


def _fields(of: Any) -> dict[str, Any] | None:
    """The keys of a table and their types; None if its keys are names of the user's choice."""
    if get_origin(of) is dict:
        return None
    return {field.name: field.type for field in msgspec.structs.fields(of)}


def _is_table(kind: Any) -> bool:
    return get_origin(kind) is dict or (isinstance(kind, type) and issubclass(kind, msgspec.Struct))


def _leaves(value: Any, at: Key) -> Iterator[tuple[Key, Any]]:
    if isinstance(value, msgspec.Struct):
        for name in value.__struct_fields__:
            yield from _leaves(getattr(value, name), (*at, name))
    elif isinstance(value, dict):
        for name, below in cast("dict[str, Any]", value).items():
            yield from _leaves(below, (*at, name))
    else:
        yield at, value
