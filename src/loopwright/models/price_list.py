"""Prices that change with the date, the hour or the tier: those of the package genai-prices.

It is an extra, and importing it takes a third of a second: so that happens in a thread, begun while
the first request waits for its vendor. Without it, or for a model it does not list, the rates of
the catalog hold. Rates the user gave come before both.

Not here: arithmetic (costs.py).
"""

from __future__ import annotations

import asyncio
import importlib
import threading
from datetime import UTC, datetime
from typing import Any

import msgspec

from ..messages import Cost, Usage
from .catalog import catalog, snapshot_of
from .costs import priced, rates_for
from .model import Model
from .provider import Provider

__all__ = ["PriceList", "price_list"]


class PriceList:
    """The package, once it is there. Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loading: threading.Thread | None = None
        self._library: Any = None

    def load(self) -> None:
        """Begin to import the package, in a thread; idempotent."""
        with self._lock:
            if self._loading is None:
                self._loading = threading.Thread(
                    target=self._import, name="loopwright-prices", daemon=True
                )
                self._loading.start()

    async def ready(self) -> None:
        """Wait for what `load` began, if it was called."""
        loading = self._loading
        if loading is not None and loading.is_alive():
            await asyncio.to_thread(loading.join)

    def _import(self) -> None:
        try:
            self._library = importlib.import_module("genai_prices")
        except ImportError:
            return

    def priced(
        self,
        usage: Usage,
        model: Model,
        provider: Provider,
        *,
        at: datetime | None = None,
        long_cache: bool = False,
    ) -> Usage:
        """*usage* with its cost in US dollars, as far as it is known.

        *at* is when the request was made, now if not given; *long_cache*: what it wrote into the
        vendor's cache is kept for an hour.
        """
        if usage.cost.total is not None or not usage.known:
            return usage
        listed = self._library is not None and provider.price_list is not None
        if listed and not _is_the_users_own(model, provider):
            cost = self._cost(usage, model, provider.price_list, at, long_cache)
            if cost is not None:
                return msgspec.structs.replace(usage, cost=cost)
        return priced(usage, rates_for(model, usage, long_cache=long_cache))

    def _cost(
        self,
        usage: Usage,
        model: Model,
        vendor: str | None,
        at: datetime | None,
        long_cache: bool,
    ) -> Cost | None:
        """None if the list does not have all that is needed."""
        tokens = usage.input + usage.cache_read + usage.cache_write
        counts: dict[str, int] = {"input_tokens": tokens, "output_tokens": usage.output}
        if usage.cache_read:
            counts["cache_read_tokens"] = usage.cache_read
        if usage.cache_write:
            counts["cache_write_tokens"] = usage.cache_write
            if long_cache:
                counts["cache_write_1h_tokens"] = usage.cache_write
        try:
            found = self._library.calc_price(
                self._library.Usage(**counts),
                model.id,
                provider_id=vendor,
                genai_request_timestamp=at or datetime.now(UTC),
            )
        except (LookupError, ValueError):
            return None
        prices = found.model_price
        read = _part(usage.cache_read, prices, ("cache_read_mtok",), tokens)
        kinds = ("cache_write_1h_mtok",) if long_cache else ("cache_write_mtok",)
        write = _part(usage.cache_write, prices, kinds, tokens)
        into = _part(usage.input, prices, ("input_mtok",), tokens)
        out = _part(usage.output, prices, ("output_mtok",), tokens)
        if read is None or write is None or into is None or out is None:
            return None  # the package would count the unknown as ordinary input
        return Cost(into, out, read, write, float(found.total_price))


def _part(tokens: int, prices: Any, names: tuple[str, ...], input_tokens: int) -> float | None:
    """What *tokens* cost at the first of *names* that has a price."""
    if tokens == 0:
        return 0.0
    for name in names:
        price = getattr(prices, name, None)
        if price is None:
            continue
        tiers = getattr(price, "tiers", None)
        if tiers is not None:
            rate = price.base
            for tier in tiers:
                if input_tokens > tier.start:
                    rate = tier.price
            price = rate
        return float(price * tokens) / 1_000_000
    return None


def _is_the_users_own(model: Model, provider: Provider) -> bool:
    """Whether somebody put in rates of their own, such as those of a contract."""
    if model.cost is None:
        return False
    models = catalog().models(provider.id, provider.api)
    listed = models.get(model.id) or models.get(snapshot_of(model.id) or "")
    return listed is None or listed.cost != model.cost


_LIST = PriceList()


def price_list() -> PriceList:
    """The one of this process: the package is imported once."""
    return _LIST
