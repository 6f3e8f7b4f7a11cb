"""Where in a TOML text a key stands, and putting one in or taking one out by whole lines.   (pure)

A line is found by parsing what stands above it, so that texts of several lines and comments that
look like keys mislead nobody. What comes out of a change is a proposal: it may not mean what was
wanted (in inline tables, say), so whoever uses it parses it.

Not here: reading files (settings/toml_file.py), or changing a value that is there (settings/edit.py).
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Sequence
from typing import Any, cast

__all__ = ["line_of", "toml_value", "with_new_key", "without_key"]

MOST_LOOKS = 200
"""So many places are tried to find the line of a key; each one costs a parse."""
WIDE = 60
"""Characters; a longer list has one item a line."""


def line_of(text: str, key: Sequence[str]) -> int | None:
    """The line of *text*, which is valid TOML, in which *key* begins. None if it is not found."""
    lines = _lines(text)
    found: int | None = None
    candidates = [number for number, line in enumerate(lines) if key[-1] in line]
    for number in candidates[:MOST_LOOKS]:
        above = _parsed(lines[:number])
        if above is None:  # within a value of several lines
            continue
        if _at(above, key) is not None:
            break
        found = number + 1
    return found


def with_new_key(text: str, key: Sequence[str], value: Any) -> str | None:
    """*text* with *key*, which is not in there: behind the last value of its table, or with a new
    table at the end. None if there is no such place."""
    lines = _lines(text)
    end = "\r\n" if "\r\n" in text else "\n"
    new = [f"{key[-1]} = {toml_value(value)}".replace("\n", end) + end]
    table = _at(tomllib.loads(text), key[:-1])
    if table is None:
        if lines and lines[-1].strip():
            lines[-1] = lines[-1].rstrip("\r\n") + end
            lines.append(end)
        return "".join([*lines, f"[{'.'.join(key[:-1])}]{end}", *new])
    if not isinstance(table, dict):
        return None
    values = cast("dict[str, Any]", table)
    ends = [_end_of(text, (*key[:-1], name)) for name in values if not _is_table(values[name])]
    place = max((found for found in ends if found is not None), default=None)
    if place is None and len(key) > 1:
        return None
    if place is None:
        place = _below_first_comment(lines)
        if place:
            lines[place - 1] = lines[place - 1].rstrip("\r\n") + end
            new = [end, *new]
        if "".join(lines[place : place + 1]).strip():
            new.append(end)
    elif not lines[place - 1].endswith("\n"):
        lines[place - 1] += end
    return "".join([*lines[:place], *new, *lines[place:]])


def without_key(text: str, key: Sequence[str]) -> str | None:
    """*text* without the lines of *key*: a value, or a table up to its last value. Comments behind
    that belong to what follows. None if it is not found."""
    start = line_of(text, key)
    if start is None:
        return None
    value = _at(tomllib.loads(text), key)
    ends = [_end_of(text, leaf) for leaf in _leaves(value, tuple(key))]
    end = max((found for found in ends if found is not None), default=start)
    lines = _lines(text)
    if start > 1 and not lines[start - 2].strip() and not "".join(lines[end : end + 1]).strip():
        start -= 1  # one of two empty lines that would meet
    return "".join([*lines[: start - 1], *lines[end:]])


def toml_value(value: Any) -> str:
    """*value*, a text, a number, a truth value or a list of such, as TOML."""
    if isinstance(value, list):
        items = [toml_value(item) for item in cast("list[Any]", value)]
        if sum(map(len, items)) <= WIDE:
            return "[" + ", ".join(items) + "]"
        return "[\n" + "".join(f"    {item},\n" for item in items) + "]"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):  # as in JSON, but for one character
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    return repr(value).removesuffix(".0")


def _lines(text: str) -> list[str]:
    """Lines with their ends. `splitlines` knows more ends than TOML does."""
    lines = [line + "\n" for line in text.split("\n")]
    lines[-1] = lines[-1][:-1]
    return lines if lines[-1] else lines[:-1]


def _end_of(text: str, key: Sequence[str]) -> int | None:
    """The last line of the value at *key*."""
    lines = _lines(text)
    start = line_of(text, key)
    if start is None:
        return None
    for number in range(start, min(start + MOST_LOOKS, len(lines)) + 1):
        above = _parsed(lines[:number])
        if above is not None and _at(above, key) is not None:
            return number
    return None


def _parsed(lines: Sequence[str]) -> dict[str, Any] | None:
    try:
        return tomllib.loads("".join(lines))
    except ValueError:
        return None


def _at(table: Any, key: Sequence[str]) -> Any:
    for name in key:
        if not isinstance(table, dict) or name not in table:
            return None
        table = cast("dict[str, Any]", table)[name]
    return table


def _leaves(value: Any, at: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    if not _is_table(value):
        yield at
        return
    for name, below in cast("dict[str, Any]", value).items():
        yield from _leaves(below, (*at, name))


def _is_table(value: Any) -> bool:
    return isinstance(value, dict)


def _below_first_comment(lines: Sequence[str]) -> int:
    """Behind a comment on the whole file, which an empty line parts from the rest."""
    count = 0
    while count < len(lines) and lines[count].startswith("#"):
        count += 1
    is_parted = count == len(lines) or not lines[count].strip()
    return count if is_parted else 0
