"""JSON, one value a line, as others wrote it: with a byte order mark, CRLF, and a torn end.

Lines end with "\\n" and nothing else, since JSON may hold the other separators. A last line that is
no JSON is what a crash leaves behind, and is left out with a warning; anywhere else it is damage.

Not here: what the lines mean.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NoReturn

import msgspec

from ...errors import SessionDamaged

__all__ = ["damaged", "decode_line", "json_lines"]

_BOM = b"\xef\xbb\xbf"
MOST_LEVELS = 200
"""Other programs that read or write a session again end somewhere above."""
_BRACKETS = re.compile(rb'"(?:[^"\\]|\\.)*"|[\[\]{}]', re.DOTALL)
LENIENT_HINT = "import it leniently to leave out what cannot be read; the file is not touched"


def damaged(number: int, message: str) -> SessionDamaged:
    """The error for line *number*, counted from 1."""
    return SessionDamaged(message, where=f"line {number}", hint=LENIENT_HINT)


def json_lines(
    lines: Iterable[bytes], warnings: list[str], *, lenient: bool = False
) -> Iterator[tuple[int, Any]]:
    """The values of *lines* with the numbers of their lines, from 1. Blank lines are passed over.

    Raises `SessionDamaged` for a line that is no JSON and is not the last; *lenient* warns of it
    and goes on.
    """
    bad: tuple[int, str] | None = None
    for number, line in enumerate(lines, 1):
        text = line.removeprefix(_BOM) if number == 1 else line
        if not text.strip():
            continue
        if bad is not None:
            _refuse(bad, warnings, lenient)
            bad = None
        try:
            value = decode_line(text)
        except ValueError as error:
            bad = (number, str(error))
            continue
        yield number, value
    if bad is not None:
        warnings.append(f"line {bad[0]}: the last line is torn ({bad[1]}) and was left out")


def _refuse(bad: tuple[int, str], warnings: list[str], lenient: bool) -> None:
    number, why = bad
    if not lenient:
        raise damaged(number, why)
    warnings.append(f"line {number}: {why}; left out")


def decode_line(text: bytes) -> Any:
    """The JSON value in *text*. Raises `ValueError` saying what is wrong."""
    if _depth(text) > MOST_LEVELS:
        raise ValueError(f"nested too deeply: more than {MOST_LEVELS} levels")
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        pass  # mostly wrong, but others write half surrogate pairs, which msgspec refuses
    try:
        decoded = text.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 at byte {error.start + 1} of the line") from error
    try:
        return json.loads(decoded, parse_constant=_no_constant)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON at column {error.colno}: {error.msg}") from error


def _depth(text: bytes) -> int:
    """How many lists and objects are open at once in *text*; at most one more than matters."""
    if text.count(b"[") + text.count(b"{") <= MOST_LEVELS:
        return 0
    depth = deepest = 0
    for piece in _BRACKETS.findall(text):
        if piece in b"[{":
            depth += 1
            deepest = max(deepest, depth)
        elif piece in b"]}":
            depth -= 1
    return deepest


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"not JSON: {name} is no number")
