"""What a request costs: each class of tokens at its rate, and unknown where a rate is."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from importlib.util import find_spec
from typing import Any

import pytest

from loopwright.messages import Cost, Usage, UserMessage
from loopwright.models import Context, Model, Models, Provider
from loopwright.models.costs import priced, rates_for
from loopwright.models.model import CostTier
from loopwright.models.price_list import PriceList
from loopwright.models.vendors import vendor_table

from .fault_server import DONE, event, serving, stream

RATES = Cost(input=1.0, output=2.0, cache_read=0.1, cache_write=1.25)
PROVIDER = Provider(id="acme", base_url="http://127.0.0.1:1/v1")


def model(**fields: Any) -> Model:
    return Model("acme", "m", "openai-chat", **fields)


def dollars(usage: Usage, asked: Model, **more: Any) -> float | None:
    """With the catalog's and the user's rates only."""
    return PriceList().priced(usage, asked, PROVIDER, **more).cost.total


def usage_chunk(**usage: Any) -> bytes:
    return event(None, None, choices=[], usage=usage)


# -- case 042 ----------------------------------------------------------------------------------


async def test_case_042_cached_tokens_in_the_openai_form_are_paid_once() -> None:
    usage = {
        "prompt_tokens": 10_000,
        "completion_tokens": 0,
        "total_tokens": 10_000,
        "prompt_tokens_details": {"cached_tokens": 9_800},
    }
    pieces = [event({"content": "hi"}), event({}, "stop"), usage_chunk(**usage), DONE]
    async with serving(stream(*pieces)) as server:
        models = Models([Provider.openai_compatible("acme", base_url=server.base_url)])

        message = await models.complete(model(cost=RATES), Context("", [UserMessage("x", 1)]))
        await models.aclose()

    assert (message.usage.input, message.usage.cache_read) == (200, 9_800)
    assert message.usage.cost.total == pytest.approx(0.00118)


def test_case_042_cached_tokens_in_the_anthropic_form_are_paid_once() -> None:
    from loopwright.models.wires.anthropic_messages_events import usage_of

    usage = usage_of({"input_tokens": 200, "cache_read_input_tokens": 9_800, "output_tokens": 0})

    assert (usage.input, usage.cache_read) == (200, 9_800)
    assert dollars(usage, model(cost=RATES)) == pytest.approx(0.00118)


def test_case_042_cache_writes_are_a_class_of_their_own() -> None:
    cost = priced(Usage(input=200, cache_read=400, cache_write=800), RATES).cost

    assert cost.cache_write == pytest.approx(0.001)
    assert cost.total == pytest.approx(0.0002 + 0.00004 + 0.001)


def test_case_042_more_cached_than_there_is_makes_no_negative_input() -> None:
    from loopwright.models.wires.openai_chat_chunks import usage_of

    usage = usage_of({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 25}})

    assert usage.input == 0


def test_case_042_a_total_is_the_plain_sum() -> None:
    one = priced(Usage(input=100, output=10, total_tokens=110), RATES)
    two = priced(Usage(input=50, cache_read=50, total_tokens=100), RATES)

    both = one + two

    assert (both.input, both.cache_read) == (150, 50)
    assert both.cost.total == pytest.approx((one.cost.total or 0) + (two.cost.total or 0))


# -- rates -------------------------------------------------------------------------------------


def test_a_rate_not_known_makes_the_cost_unknown_but_only_if_it_is_needed() -> None:
    rates = Cost(input=1.0, output=2.0)

    assert priced(Usage(input=10, output=10), rates).cost.total == pytest.approx(0.00003)
    assert priced(Usage(input=10, cache_read=1), rates).cost.total is None
    assert priced(Usage(input=10, cache_read=1), rates).cost.input == pytest.approx(0.00001)
    assert dollars(Usage(input=10), model()) is None


def test_a_long_input_has_the_rates_of_its_tier_for_all_its_tokens() -> None:
    long = Cost(input=2.0, output=3.0, cache_read=0.2, cache_write=2.5)
    asked = model(cost=RATES, cost_tiers=[CostTier(200_000, long)])

    assert dollars(Usage(input=200_000), asked) == pytest.approx(0.2)
    assert dollars(Usage(input=1, cache_read=200_000, output=1000), asked) == pytest.approx(
        (2.0 + 0.2 * 200_000 + 3.0 * 1000) / 1_000_000
    )


def test_a_cache_that_keeps_for_an_hour_costs_more_to_write() -> None:
    asked = model(cost=RATES, long_cache_write=2.0)
    usage = Usage(cache_write=1_000_000)

    assert dollars(usage, asked) == pytest.approx(1.25)
    assert dollars(usage, asked, long_cache=True) == pytest.approx(2.0)


def test_the_hour_is_dearer_in_a_tier_as_well() -> None:
    long = Cost(input=2.0, output=3.0, cache_read=0.2, cache_write=2.5)
    asked = model(cost=RATES, cost_tiers=[CostTier(10, long)], long_cache_write=2.0)

    rates = rates_for(asked, Usage(input=11), long_cache=True)

    assert rates is not None
    assert rates.cache_write == pytest.approx(4.0)


async def test_what_the_vendor_reports_wins() -> None:
    usage = {"prompt_tokens": 10, "completion_tokens": 2, "total_tokens": 12, "cost": 0.5}
    pieces = [event({"content": "hi"}), event({}, "stop"), usage_chunk(**usage), DONE]
    async with serving(stream(*pieces)) as server:
        models = Models([Provider.openai_compatible("acme", base_url=server.base_url)])

        message = await models.complete(model(cost=RATES), Context("", [UserMessage("x", 1)]))
        await models.aclose()

    assert message.usage.cost.total == 0.5


async def test_the_catalogs_rates_price_a_request_without_any_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setitem(sys.modules, "genai_prices", None)  # as if it were not installed
    prices = PriceList()
    prices.load()
    await prices.ready()
    provider = vendor_table().get("anthropic")
    assert provider is not None
    asked = provider.get_model("claude-sonnet-4-6")
    assert asked is not None

    usage = prices.priced(Usage(input=1_000_000, output=1_000_000), asked, provider)

    assert usage.cost.total == pytest.approx(18.0)


# -- the extra ---------------------------------------------------------------------------------

needs_prices = pytest.mark.skipif(find_spec("genai_prices") is None, reason="extra `prices`")


async def listed_prices() -> PriceList:
    prices = PriceList()
    prices.load()
    await prices.ready()
    return prices


@needs_prices
@pytest.mark.parametrize(
    ("vendor", "id", "usage", "cost"),
    [
        ("anthropic", "claude-sonnet-4-6", Usage(input=1000, cache_read=9000, output=100), 0.0072),
        ("openai", "gpt-5.4", Usage(input=300_000, output=0), 1.5),
        ("xai", "grok-4.3", Usage(input=1000, output=1000), 0.00375),
        ("google", "gemini-2.5-pro", Usage(input=1000, cache_read=9000, output=100), 0.003375),
    ],
)
async def test_the_price_list_knows_tiers_and_caches(
    vendor: str, id: str, usage: Usage, cost: float
) -> None:
    prices = await listed_prices()
    provider = vendor_table().get(vendor)
    assert provider is not None
    asked = provider.get_model(id)
    assert asked is not None

    found = prices.priced(usage, asked, provider, at=datetime(2026, 11, 1, tzinfo=UTC)).cost

    assert found.total == pytest.approx(cost)
    parts = (found.input, found.output, found.cache_read, found.cache_write)
    assert sum(part or 0 for part in parts) == pytest.approx(found.total)


@needs_prices
async def test_the_price_list_knows_the_hour() -> None:
    prices = await listed_prices()
    provider = vendor_table().get("anthropic")
    assert provider is not None
    asked = provider.get_model("claude-sonnet-4-6")
    assert asked is not None
    usage = Usage(cache_write=1_000_000)

    assert prices.priced(usage, asked, provider).cost.total == pytest.approx(3.75)
    assert prices.priced(usage, asked, provider, long_cache=True).cost.total == pytest.approx(6.0)


@needs_prices
async def test_the_users_own_rates_come_before_the_price_list() -> None:
    prices = await listed_prices()
    provider = vendor_table().get("anthropic")
    assert provider is not None
    own = Model("anthropic", "claude-sonnet-4-6", "anthropic-messages", cost=Cost(1.0, 1.0))

    assert prices.priced(Usage(input=1_000_000), own, provider).cost.total == pytest.approx(1.0)


@needs_prices
async def test_a_model_on_no_list_has_no_price() -> None:
    prices = await listed_prices()
    provider = vendor_table().get("anthropic")
    assert provider is not None
    unknown = Model("anthropic", "zzz-no-such-model", "anthropic-messages")

    assert prices.priced(Usage(input=10), unknown, provider).cost.total is None
