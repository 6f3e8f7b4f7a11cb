"""What a request cost, from its tokens and the model's rates.                                (pure)

A rate that is not known makes the cost unknown, never 0. What the vendor itself reported wins.
"""

from __future__ import annotations

import msgspec

from ..messages import Cost, Usage

__all__ = ["priced"]


def priced(usage: Usage, rates: Cost | None) -> Usage:
    """*usage* with its cost in US dollars; *rates* are dollars per million tokens."""
    if rates is None or usage.cost.total is not None or not usage.known:
        return usage
    parts = (
        _part(usage.input, rates.input),
        _part(usage.output, rates.output),
        _part(usage.cache_read, rates.cache_read),
        _part(usage.cache_write, rates.cache_write),
    )
    known = [part for part in parts if part is not None]
    total = sum(known) if len(known) == len(parts) else None
    return msgspec.structs.replace(usage, cost=Cost(*parts, total))


def _part(tokens: int, rate: float | None) -> float | None:
    if tokens == 0:
        return 0.0
    return None if rate is None else tokens * rate / 1_000_000
