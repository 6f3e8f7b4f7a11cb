"""The counts of one reply, gathered from every usage object that its vendor sends.           (pure)

Vendors send usage once or many times, and gateways add objects with zeros. Counts are totals so
far, never increments. One rule holds for every number of every wire, also within details:

- A positive number replaces the earlier one, also a lower one.
- A number that is missing, null, 0 or negative, or is no number, leaves an earlier positive one.
- Tokens that stand in the total and in no other count are output: see `output_tokens`.
- Usage is known as soon as one object held a number.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard, cast

from ..messages import Usage

__all__ = ["UsageCounts", "output_tokens"]

_DEPTH = 4
"""Details are read this many levels deep; vendors use one or two."""


class UsageCounts:
    """Gathers usage objects; *read* turns their merged fields into a `Usage`.

    counts = UsageCounts(usage_of)
    counts.add({"input_tokens": 100, "output_tokens": 1})
    counts.add({"input_tokens": 0, "output_tokens": 7})
    counts.usage  # 100 in, 7 out
    """

    __slots__ = ("_fields", "_read", "known")

    def __init__(self, read: Callable[[dict[str, Any]], Usage]) -> None:
        self._read = read
        self._fields: dict[str, Any] = {}
        self.known = False
        """Whether the vendor gave any number."""

    def add(self, usage: object) -> None:
        """Take in one usage object, as decoded from JSON; anything but an object says nothing."""
        if isinstance(usage, dict):
            _merge(self._fields, cast("dict[str, Any]", usage))
            self.known = self.known or _has_number(self._fields)

    @property
    def usage(self) -> Usage:
        """What was counted so far; `known` is False while there are no numbers."""
        return self._read(self._fields) if self.known else Usage(known=False)


def output_tokens(said: int | None, total: int | None, others: int) -> int:
    """The output: as the vendor said it or, without that, what *total* holds beside *others*."""
    return said or max(0, (total or 0) - others)


def _merge(known: dict[str, Any], later: dict[str, Any], depth: int = 0) -> None:
    for name, value in later.items():
        earlier = known.get(name)
        if isinstance(value, dict):
            if not isinstance(earlier, dict):
                if _is_positive(earlier) or depth == _DEPTH:
                    continue
                earlier = known[name] = {}
            _merge(cast("dict[str, Any]", earlier), cast("dict[str, Any]", value), depth + 1)
        elif not isinstance(earlier, dict) and (_is_positive(value) or not _is_positive(earlier)):
            known[name] = value


def _is_positive(value: object) -> bool:
    return _is_number(value) and value > 0


def _is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _has_number(fields: dict[str, Any]) -> bool:
    for value in fields.values():
        if isinstance(value, dict):
            if _has_number(cast("dict[str, Any]", value)):
                return True
        elif _is_number(value):
            return True
    return False
