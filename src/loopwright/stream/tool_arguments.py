"""The text of a tool call's arguments, as a model streamed it, read once and strictly.

A cut or broken text must never become a call: a salvage parser turns `rm -r build/cache`, cut
short, into `rm -r build`. So only slips inside strings are mended whose meaning is beyond doubt,
raw control characters and escapes JSON does not know, and everything else is reported in words a
model can act on.

Not here: whether the arguments fit the tool (loop/arguments.py).
"""

from __future__ import annotations

import json
import math
import re
from bisect import bisect_right
from collections.abc import Iterator
from typing import Any, NoReturn, cast

import msgspec

from ..records import clean_text

__all__ = ["ParsedArguments", "parse_arguments", "parse_partial_arguments"]

SHOWN_CHARACTERS = 200
"""How much of a refused text is shown back to the model."""

MAX_DEPTH = 128
"""Deeper nesting is refused here, so that nothing behind can run into the recursion limit."""

_EXPECTED = (
    "Expected one JSON object with double quotes, no comments, no trailing commas and no raw "
    'newlines inside strings, for example {"path": "notes.md", "limit": 10}.'
)


class ParsedArguments(msgspec.Struct, frozen=True):
    """What a call's text says. With an error, `arguments` is empty and the call is never run."""

    arguments: dict[str, Any]
    raw_arguments: str | None = None
    """The text as it came, if it was refused or had to be mended."""
    arguments_error: str | None = None
    """What was wrong, in words for the model; None for good and for mended texts."""


def parse_arguments(text: str | None) -> ParsedArguments:
    """Read the complete *text* of a call. Never raises; takes linear time.

    Nothing, blanks and JSON `null` mean no arguments. What is not a JSON object gives an error
    that says what came, where, what was expected, and how the text began.
    """
    if text is None:
        return ParsedArguments({})
    try:
        value = _fast.decode(text)
        text_is_deep = len(text) > MAX_DEPTH and text.count("[") + text.count("{") > MAX_DEPTH
        if type(value) is dict and not text_is_deep:  # nearly always
            return ParsedArguments(cast("dict[str, Any]", value))
    except (msgspec.MsgspecError, RecursionError, UnicodeEncodeError):
        if not text.strip():
            return ParsedArguments({})
        return _parse_slowly(text)
    return _checked(value, text, None, deep=text_is_deep)


def parse_partial_arguments(text: str) -> dict[str, Any]:
    """What can be shown of a call whose text is still growing. Never raises, and never runs."""
    from pydantic_core import from_json

    for candidate in _as_it_is_and_mended(clean_text(text)):
        try:
            value = from_json(candidate, allow_partial="trailing-strings", allow_inf_nan=False)
        except ValueError:
            continue
        return cast("dict[str, Any]", value) if isinstance(value, dict) else {}
    return {}


def _as_it_is_and_mended(text: str) -> Iterator[str]:
    yield text
    mended = _mend(text)
    if mended is not None:
        yield mended[0]


# -- strict reading --------------------------------------------------------------------------

_fast = msgspec.json.Decoder()


class _Refused(ValueError):
    """A number JSON or Python cannot hold."""

    def __init__(self, token: str, problem: str) -> None:
        super().__init__(f"{_shorten(token, 40)} {problem}")
        self.token = token


def _refuse_constant(name: str) -> NoReturn:
    raise _Refused(name, "is not a JSON value")


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise _Refused(digits, "is too large a number")
    return value


def _integer(digits: str) -> int:
    try:
        return int(digits)
    except ValueError:  # Python refuses thousands of digits, for their quadratic cost
        raise _Refused(digits, "has too many digits") from None


# The standard library's decoder reads lone surrogates and says where it stopped; msgspec's does
# neither, and is what nearly every call goes through.
_strict = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_finite, parse_int=_integer)


def _parse_slowly(text: str) -> ParsedArguments:
    body = text.removeprefix("\ufeff")  # RFC 8259 section 8.1 lets a reader ignore the mark
    skipped = len(text) - len(body)
    mended = _mend(body)
    try:
        value = _strict.decode(body if mended is None else mended[0])
    except json.JSONDecodeError as error:
        position = error.pos if mended is None else mended[1].original(error.pos)
        fault = _describe(error.msg, body, min(position, len(body)), skipped)
    except _Refused as error:
        outside = _STRING.sub(lambda match: " " * len(match.group()), body)
        fault = f"{error}, at offset {outside.find(error.token) + skipped}"
    except RecursionError:
        fault = _too_deep()
    else:
        return _checked(value, text, text if mended else None, deep=True, clean=True)
    return _refused(text, f"The arguments are not valid JSON: {fault}.")


def _checked(
    value: Any, text: str, raw: str | None, *, deep: bool, clean: bool = False
) -> ParsedArguments:
    if value is None:
        return ParsedArguments({}, raw)
    if not isinstance(value, dict):
        kind = _KINDS[type(value)]
        return _refused(text, f"The arguments must be a JSON object, but {kind} came (offset 0).")
    arguments = cast("dict[str, Any]", value)
    if deep and _depth_exceeds(arguments, MAX_DEPTH):
        return _refused(text, f"The arguments cannot be used: {_too_deep()}.")
    return ParsedArguments(_clean(arguments) if clean else arguments, raw)


_KINDS: dict[type, str] = {
    bool: "a boolean",
    int: "a number",
    float: "a number",
    list: "an array (list)",
    str: "a string",
}


def _refused(text: str, problem: str) -> ParsedArguments:
    shown = clean_text(text[:SHOWN_CHARACTERS])
    if len(text) > SHOWN_CHARACTERS:
        received = f"Received {len(text)} characters, the first {SHOWN_CHARACTERS}: {shown}"
    else:
        received = f"Received: {shown}"
    return ParsedArguments({}, text, f"{problem} {_EXPECTED} {received}")


def _describe(message: str, body: str, position: int, skipped: int) -> str:
    found = "the end of the text" if position == len(body) else repr(clean_text(body[position]))
    return f"{message.removesuffix(' at')} at offset {position + skipped} (found {found})"


def _too_deep() -> str:
    return f"they are nested more than {MAX_DEPTH} levels deep"


def _shorten(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}…"


def _depth_exceeds(value: Any, limit: int) -> bool:
    """Whether containers nest deeper than *limit*, level by level and without recursion."""
    level: list[Any] = [value]
    for _ in range(limit):
        below: list[Any] = []
        for item in level:
            children = cast("list[Any]", item if type(item) is list else list(item.values()))
            below.extend(child for child in children if type(child) in (dict, list))
        if not below:
            return False
        level = below
    return True


def _clean(value: Any) -> Any:
    """A copy without lone surrogates, which only the slow reader lets in."""
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_clean(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        return {clean_text(key): _clean(item) for key, item in members.items()}
    return value


# -- mending ---------------------------------------------------------------------------------

# A string, up to its closing quote or the end of the text. Always matches at a quote and never
# backtracks, which keeps hostile texts linear.
_STRING = re.compile(r'"(?:[^"\\]++|\\(?:.|\Z))*+"?+', re.DOTALL)
_SLIP = re.compile(r'\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})|\\|[\x00-\x1f]')
_SHORT_ESCAPES = {"\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t"}


class _Offsets:
    """Where places of the mended text lie in the original."""

    __slots__ = ("_added", "_places")

    def __init__(self) -> None:
        self._places: list[int] = [0]
        self._added: list[int] = [0]

    def grow(self, place: int, by: int) -> None:
        """The mended text became *by* characters longer at *place* of the original."""
        total = self._added[-1] + by
        self._places.append(place + total)
        self._added.append(total)

    def original(self, place: int) -> int:
        return place - self._added[bisect_right(self._places, place) - 1]


def _mend(text: str) -> tuple[str, _Offsets] | None:
    """*text* with the slips inside its strings mended, or None if there are none."""
    offsets = _Offsets()
    slips = 0

    def mend_slip(match: re.Match[str], start: int) -> str:
        nonlocal slips
        found = match.group()
        if found == "\\":  # it escapes nothing JSON knows: it was meant as itself
            mended = "\\\\"
        elif len(found) > 1:
            return found
        else:
            mended = _SHORT_ESCAPES.get(found) or f"\\u{ord(found):04x}"
        slips += 1
        offsets.grow(start + match.start(), len(mended) - 1)
        return mended

    def mend_string(match: re.Match[str]) -> str:
        start = match.start()
        return _SLIP.sub(lambda slip: mend_slip(slip, start), match.group())

    mended = _STRING.sub(mend_string, text)
    return (mended, offsets) if slips else None
