"""How long a vendor asks to wait: in a header, in the body, or in the words of an error.

The longest of those given counts. A wait of zero, or until a time that is past, says nothing.

Not here: how long is waited where nothing is said, and the cap (retry.py).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime

__all__ = ["retry_after_seconds", "wait_in_words"]

_UNITS = {"ms": 0.001, "mi": 60.0, "m": 60.0, "s": 1.0, "h": 3600.0}
_PART = r"\d{1,9}(?:\.\d{1,9})?\s?(?:milliseconds?|msecs?|ms|minutes?|mins?|m|seconds?|secs?|s|hours?|hrs?|h)\b"
_PARTS = re.compile(r"(\d+(?:\.\d+)?)\s?(milli|ms|mi|m|s|h)", re.I)
_JOINED = _PART.replace(r"\b", r"(?![a-z])")
_DURATION = rf"{_JOINED}(?:[\s,]{{0,2}}(?:and )?{_JOINED}){{0,3}}"
_WORDS = re.compile(
    rf"(?:again|retry|retrying|resets?|wait|available)\b[\s:]{{0,3}}(?:(?:in|after|for|at least)[\s:]{{1,2}}){{0,2}}"
    rf"(?:about |approximately )?({_DURATION})",
    re.I,
)
_IN_BODY = re.compile(r'"retryDelay"\s*:\s*"(\d+(?:\.\d+)?)s"')


def wait_in_words(text: str) -> float | None:
    """The longest wait in seconds that *text* asks for, as in `try again in 1m30s`.

    >>> wait_in_words("Limit 30000, Requested 5000. Please try again in 12.5s.")
    12.5
    """
    waits = [_seconds(found) for found in _WORDS.findall(text)]
    return max(waits, default=None)


def _seconds(duration: str) -> float:
    total = 0.0
    for number, unit in _PARTS.findall(duration):
        unit = unit.lower()
        total += float(number) * _UNITS["ms" if unit == "milli" else unit]
    return total


def retry_after_seconds(headers: Mapping[str, str], now: float, body: str = "") -> float | None:
    """How long the vendor asks us to wait: `retry-after-ms`, `retry-after` in seconds, with a unit, or
    as an HTTP date (RFC 9110 section 10.2.3), Google's `retryDelay`, or words in *body*. *now* is
    Unix time. The longest counts; None if nothing is said.
    """
    milliseconds = _number(headers.get("retry-after-ms"))
    in_header = _in_header(headers.get("retry-after", "").strip(), now)
    waits = [
        in_header if milliseconds is None else milliseconds / 1000,  # the finer one of two forms
        *(float(found) for found in _IN_BODY.findall(body)),
        wait_in_words(body),
    ]
    return max((max(0.0, wait) for wait in waits if wait is not None), default=None)


def _in_header(value: str, now: float) -> float | None:
    if not value:
        return None
    seconds = _number(value)
    if seconds is not None:
        return seconds
    if re.fullmatch(_DURATION, value, re.I):
        return _seconds(value)
    try:
        date = parsedate_to_datetime(value)
        return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp() - now
    except (ValueError, TypeError, OverflowError):
        return None


def _number(value: str | None) -> float | None:
    try:
        number = float(value) if value else None
    except ValueError:
        return None
    return number if number is not None and number == number and number < 1e9 else None
