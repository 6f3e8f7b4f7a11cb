"""What a request cost, from its tokens and the model's rates.                                (pure)

A rate that is not known makes the cost unknown, never 0. What the vendor itself reported wins.

Not here: where rates come from (catalog.py, price_list.py, the user).
"""

from __future__ import annotations

import msgspec

from ..messages import Cost, Usage
from .model import Model

__all__ = ["priced", "rates_for"]


def priced(usage: Usage, rates: Cost | None) -> Usage:
    """*usage* with its cost in US dollars; *rates* are dollars per million tokens."""
    if rates is None or usage.cost.total is not None or not usage.known:
        return usage
    parts = (
        _part(usage.input + (usage.tool_input or 0), rates.input),
        _part(usage.output, rates.output),
        _part(usage.cache_read, rates.cache_read),
        _part(usage.cache_write, rates.cache_write),
    )
    known = [part for part in parts if part is not None]
    total = sum(known) if len(known) == len(parts) else None
    return msgspec.structs.replace(usage, cost=Cost(*parts, total))


def rates_for(model: Model, usage: Usage, *, long_cache: bool = False) -> Cost | None:
    """The rates of *model* for a request with *usage*: those of its tier, and what a cache costs
    that keeps for an hour (*long_cache*). None if nothing is known."""
    rates, base = model.cost, model.cost
    if rates is None or base is None:
        return None
    tokens = usage.input + usage.cache_read + usage.cache_write
    for tier in model.cost_tiers:
        if tokens > tier.above:
            rates = tier.cost
    if not long_cache or model.long_cache_write is None:
        return rates
    write: float | None = model.long_cache_write
    if rates is not base:  # a tier raises it as it raises the short cache's rate, if that is known
        write = (
            write * rates.cache_write / base.cache_write
            if rates.cache_write and base.cache_write
            else None
        )
    return msgspec.structs.replace(rates, cache_write=write)


def _part(tokens: int, rate: float | None) -> float | None:
    if tokens == 0:
        return 0.0
    return None if rate is None else tokens * rate / 1_000_000
