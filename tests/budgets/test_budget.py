"""Caps are kept before a request, shared by many, and never exceeded."""

from __future__ import annotations

import asyncio
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.budgets.vendor import RATES, Answer, Vendor, model_of
from tests.loop.invariants import check_events, check_idle
from tests.loop.virtual_time import VirtualTimeLoop

from loopwright import Agent, tool
from loopwright.errors import Misuse
from loopwright.events import AgentEvent
from loopwright.harness.overflow import is_overflow
from loopwright.loop.budget import Budget
from loopwright.loop.budget_stream import limit
from loopwright.loop.request_bounds import exact
from loopwright.messages import AssistantMessage, Cost, Usage, UserMessage
from loopwright.models import Context, Model, Models
from loopwright.models.model import CostTier
from loopwright.testing import Reply, ScriptedModel


def agent_of(vendor: Vendor, model: Model | None = None, **options: Any) -> Agent[Any]:
    return Agent(model or model_of(), stream_fn=vendor.stream_fn, **options)


def step() -> str:
    return "went a step"


def test_a_cap_that_is_no_number_is_refused_at_once() -> None:
    wrong_ones: list[dict[str, Any]] = [
        {"max_turns": 1.5},
        {"max_tokens": -1},
        {"max_cost_usd": float("nan")},
    ]
    for wrong in wrong_ones:
        with pytest.raises(Misuse, match=next(iter(wrong))):
            Budget(**wrong)
    with pytest.raises(Misuse):
        Budget().max_turns = True


async def test_a_run_out_of_turns_ends_in_order_and_says_which_cap_it_was() -> None:
    vendor = Vendor(Answer(call=("step", {})))
    agent = agent_of(vendor, tools=[step])
    events: list[AgentEvent] = []
    agent.subscribe(events.append)
    budget = Budget(max_turns=3)
    limit(agent, run=budget)

    result = await agent.prompt("Go")

    assert (result.stop_reason, result.stopped_by) == ("error", "error")
    assert result.error_message is not None
    assert "3 of 3 turns (max_turns)" in result.error_message
    assert "raise max_turns, for example to 10," in result.error_message
    assert len(vendor.asked) == 3
    check_events(events)
    check_idle(agent)


async def test_after_the_cap_is_raised_the_work_goes_on() -> None:
    agent = agent_of(Vendor(Answer(call=("step", {})), Answer()), tools=[step])
    budget = Budget(max_turns=1)
    agent.stream_fn = budget.stream_fn(agent.stream_fn)
    await agent.prompt("Go")

    budget.max_turns = 2
    result = await agent.resume()

    assert result.stop_reason == "stop"
    assert budget.spent.turns == 2


async def test_each_run_begins_anew_and_the_session_does_not() -> None:
    agent = agent_of(Vendor())
    run, session = Budget(max_turns=1), Budget(max_turns=3, name="session")
    remove = limit(agent, run=run, session=session)

    ended = [(await agent.prompt("again")).stop_reason for _ in range(4)]
    after_the_last = run.spent.turns
    remove()

    assert ended == ["stop", "stop", "stop", "error"]
    assert session.spent.turns == 3
    assert after_the_last == 1
    assert (await agent.prompt("unlimited")).stop_reason == "stop"


async def test_a_model_without_a_price_is_not_asked_when_dollars_are_capped() -> None:
    vendor = Vendor()
    unknown = [None, Cost(), Cost(input=3.0), Cost(input=float("nan"), output=1.0)]
    for cost in unknown:
        agent = agent_of(vendor, model_of("mystery", cost=cost))
        limit(agent, run=Budget(max_cost_usd=5.0))

        result = await agent.prompt("Hi")

        assert result.stop_reason == "error"
        assert "acme/mystery" in str(result.error_message)
        assert "max_cost_usd=5.0" in str(result.error_message)
    assert vendor.asked == []


async def test_unknown_prices_can_be_allowed_and_are_never_called_nothing() -> None:
    agent = agent_of(Vendor(), model_of("mystery", cost=None))
    budget = Budget(max_cost_usd=0.01, allow_unknown_prices=True)
    limit(agent, session=budget)

    result = await agent.prompt("Hi")

    assert result.stop_reason == "stop"
    assert budget.spent.cost_usd is None


async def test_a_dollar_cap_set_when_the_past_has_no_price_asks_nothing() -> None:
    budget = Budget(max_cost_usd=1.0)
    budget.count(Usage(input=5, total_tokens=5))
    vendor = Vendor()
    agent = agent_of(vendor)
    limit(agent, session=budget)

    result = await agent.prompt("Hi")

    assert "no known price" in str(result.error_message)
    assert vendor.asked == []


async def test_a_fallback_without_a_price_counts_as_no_price() -> None:
    cheap = ScriptedModel([Reply("hi")], model=model_of("cheap"))
    mystery = ScriptedModel([Reply("hi")], model=Model("other", "mystery", "other-wire"))
    models = Models([cheap.provider, mystery.provider]).with_fallback(["other/mystery"])
    agent: Agent[Any] = Agent(cheap.model, stream_fn=models.stream)
    limit(agent, run=Budget(max_cost_usd=1.0), session=Budget())

    result = await agent.prompt("Hi")

    assert "other/mystery" in str(result.error_message)
    assert cheap.requests == []


async def test_tenths_of_a_cent_add_up_to_exactly_a_cent() -> None:
    def reply() -> Reply:
        cost = Cost(0.1, 0.0, 0.0, 0.0, 0.1)
        return Reply("x", usage=Usage(input=1, output=0, total_tokens=1, cost=cost))

    model = ScriptedModel([reply() for _ in range(4)], model=model_of(cost=Cost(0.0, 0.0)))
    agent: Agent[Any] = Agent(model.model, stream_fn=model.stream_fn)
    budget = Budget(max_cost_usd=0.3)
    limit(agent, session=budget)
    for _ in range(3):
        await agent.prompt("x")

    assert budget.spent.cost_usd == 0.3
    assert sum([0.1, 0.1, 0.1]) != 0.3


async def test_a_reply_that_would_not_fit_is_asked_for_shorter() -> None:
    vendor = Vendor(Answer(words=8_000))
    agent = agent_of(vendor)
    budget = Budget(max_tokens=3_000)
    limit(agent, run=budget)

    result = await agent.prompt("Tell me everything")

    assert result.stop_reason == "length"
    assert 2_000 < vendor.asked[0]["max_tokens"] < 3_000
    assert budget.spent.tokens == vendor.tokens <= 3_000


async def test_without_shortening_it_is_not_asked_for() -> None:
    vendor = Vendor()
    agent = agent_of(vendor)
    limit(agent, run=Budget(max_tokens=3_000, shorten=False))

    result = await agent.prompt("Tell me everything")

    assert "max_tokens" in str(result.error_message)
    assert vendor.asked == []


async def test_a_limit_of_the_request_itself_is_what_is_reserved() -> None:
    vendor = Vendor(Answer(words=8_000))
    agent = agent_of(vendor, stream_options={"max_tokens": 100})
    limit(agent, run=Budget(max_tokens=3_000))

    await agent.prompt("Hi")

    assert vendor.asked[0]["max_tokens"] == 100


async def test_thinking_beside_the_reply_is_within_the_shorter_one() -> None:
    asked: list[dict[str, Any]] = []
    model = Model("a", "m", "anthropic-messages", max_tokens=32_000, cost=RATES)
    scripted = ScriptedModel([Reply("x")] * 2, model=model)

    def stream_fn(model: Model, context: Context, **options: Any) -> Any:
        asked.append(options)
        return scripted.stream_fn(model, context, **options)

    agent: Agent[Any] = Agent(model, stream_fn=stream_fn, thinking_level="high")
    limit(agent, run=Budget(max_tokens=9_000))
    await agent.prompt("think")
    agent.stream_fn = Budget(max_tokens=1_500).stream_fn(stream_fn)
    await agent.prompt("think")

    first, second = asked
    assert first["max_tokens"] + first["thinking_budgets"]["high"] <= 9_000
    assert first["reasoning"] == "high"
    assert "reasoning" not in second


async def test_failed_attempts_within_a_request_count_and_end_it_when_they_use_all_up() -> None:
    vendor = Vendor(Answer(words=900, failing_attempts=5))
    agent = agent_of(vendor, model_of(max_tokens=1_000))
    events: list[AgentEvent] = []
    agent.subscribe(events.append)
    budget = Budget(max_tokens=3_500)
    limit(agent, run=budget)

    result = await agent.prompt("Hi")

    assert result.stop_reason == "error"
    assert "max_tokens" in str(result.error_message)
    assert vendor.tokens <= 3_500
    assert budget.spent.tokens == vendor.tokens
    assert result.usage.total_tokens == vendor.tokens
    check_events(events)


async def test_a_vendor_that_refuses_takes_nothing_and_one_that_is_silent_on_usage_does() -> None:
    nothing = Usage()
    model = ScriptedModel(
        [Reply(error="401 bad key", usage=nothing), Reply("word " * 50, usage=nothing)],
        model=model_of(),
    )
    agent: Agent[Any] = Agent(model.model, stream_fn=model.stream_fn)
    budget = Budget(max_tokens=50_000)
    limit(agent, session=budget)

    await agent.prompt("Hi")
    refused = budget.spent
    await agent.prompt("Hi")

    assert (refused.tokens, refused.estimated) == (0, False)
    assert budget.spent.tokens > 50
    assert budget.spent.cost_usd
    assert budget.spent.estimated


async def test_an_aborted_reply_counts_what_was_seen_of_it_and_leaves_nothing_reserved() -> None:
    model = ScriptedModel([Reply("word " * 200, chunk_size=5, delay=0.001)], model=model_of())
    agent: Agent[Any] = Agent(model.model, stream_fn=model.stream_fn)
    budget = Budget(max_tokens=50_000)
    limit(agent, session=budget)
    agent.subscribe(lambda event: agent.abort() if event.type == "message_update" else None)

    result = await agent.prompt("Hi")

    assert result.stop_reason == "aborted"
    assert 0 < budget.spent.tokens < 1_000
    assert not budget.reserved


async def test_the_error_is_never_taken_for_a_full_context_window() -> None:
    empty: list[dict[str, Any]] = [{"max_turns": 0}, {"max_tokens": 0}, {"max_cost_usd": 0.0}]
    for cap in empty:
        agent = agent_of(Vendor())
        limit(agent, run=Budget(**cap))

        result = await agent.prompt("Hi")

        reply = result.messages[-1]
        assert isinstance(reply, AssistantMessage)
        assert reply.stop_reason == "error", cap
        for kind in ("budget", None, "model_error"):
            assert not is_overflow(reply, kind=kind, window=100)


async def test_models_are_still_named_and_resolved_behind_a_budget() -> None:
    scripted = ScriptedModel([Reply("hi")], model=model_of("small"))
    models = Models([scripted.provider])
    stream_fn = Budget().stream_fn(Budget().stream_fn(models.stream))

    agent: Agent[Any] = Agent("acme/small", stream_fn=stream_fn)

    assert (await agent.prompt("Hi")).text == "hi"


async def test_rates_of_the_tier_and_of_the_cache_are_reserved() -> None:
    tier = CostTier(100, Cost(input=30.0, output=150.0, cache_write=60.0))
    model = Model("acme", "m", "w", cost=RATES, cost_tiers=[tier], max_tokens=1_000)
    context = Context("", [UserMessage("x" * 1_000)])
    from loopwright.loop.request_bounds import bound_of

    bound = bound_of([model], context, {})
    uncached = bound_of([model], context, {"cache": "none"})

    assert bound.prices is not None
    assert uncached.prices is not None
    assert bound.prices.output == exact(150.0) / 1_000_000
    assert bound.prices.input == exact(60.0) / 1_000_000
    assert uncached.prices.input == exact(30.0) / 1_000_000


# -- many at once ----------------------------------------------------------------------------


async def test_what_fits_only_without_the_others_waits_for_them() -> None:
    vendor = Vendor(Answer(words=100, breaths=5))
    budget = Budget(max_tokens=20_000)
    agents = [agent_of(vendor) for _ in range(6)]
    for agent in agents:
        limit(agent, session=budget)

    results = await asyncio.gather(*[agent.prompt("Hi") for agent in agents])

    assert {result.stop_reason for result in results} == {"stop"}
    assert vendor.most_at_once == 2  # each reserves its model's 8,000
    assert not budget.reserved


async def test_who_waits_can_be_aborted_and_cancelled() -> None:
    gate = asyncio.Event()

    async def slow(context: Context) -> Reply:
        await gate.wait()
        return Reply("done")

    model = ScriptedModel([slow, Reply("b"), Reply("c")], model=model_of())
    budget = Budget(max_tokens=10_000)
    agents = [Agent(model.model, stream_fn=budget.stream_fn(model.stream_fn)) for _ in range(4)]
    tasks = [asyncio.create_task(agent.prompt("Hi")) for agent in agents]
    for _ in range(5):
        await asyncio.sleep(0)

    agents[1].abort()
    tasks[2].cancel()
    aborted = await tasks[1]
    with pytest.raises(asyncio.CancelledError):
        await tasks[2]
    gate.set()

    assert aborted.stop_reason == "aborted"
    assert [(await tasks[n]).stop_reason for n in (0, 3)] == ["stop", "stop"]
    assert budget.spent.turns == 2
    assert not budget.reserved


answers = st.builds(
    Answer,
    words=st.sampled_from([1, 300, 2_000, 3_900, 4_000]),
    breaths=st.integers(0, 4),
    filled=st.sampled_from([0.1, 0.9, 1.0]),
    failing_attempts=st.integers(0, 2),
    call=st.one_of(st.none(), st.just(("step", {}))),
)
caps = st.fixed_dictionaries(
    {},
    optional={
        "max_turns": st.integers(0, 12),
        "max_tokens": st.integers(0, 15_000),
        "max_cost_usd": st.floats(0, 0.1).map(lambda x: round(x, 4)),
    },
)


@settings(max_examples=150)
@given(
    scripts=st.lists(st.lists(answers, min_size=1, max_size=4), min_size=1, max_size=5),
    cap=caps,
    own=caps,
    aborts=st.lists(st.tuples(st.integers(1, 200), st.integers(0, 4)), max_size=3),
)
def test_agents_that_share_a_budget_never_spend_more_than_it_holds(
    scripts: list[list[Answer]],
    cap: dict[str, Any],
    own: dict[str, Any],
    aborts: list[tuple[int, int]],
) -> None:
    budget = Budget(**cap, name="session")
    vendors: list[Vendor] = []

    def check() -> None:
        tokens = sum(vendor.tokens for vendor in vendors)
        dollars = sum((vendor.dollars for vendor in vendors), Fraction(0))
        if "max_tokens" in cap:
            assert tokens <= cap["max_tokens"]
        if "max_cost_usd" in cap:
            assert dollars <= exact(cap["max_cost_usd"])
        if "max_turns" in cap:
            assert sum(len(vendor.asked) for vendor in vendors) <= cap["max_turns"]

    loop = VirtualTimeLoop()
    agents: list[Agent[Any]] = []
    told: list[list[AgentEvent]] = []
    for script in scripts:
        vendor = Vendor(*script, Answer(), watch=check)
        vendors.append(vendor)
        agent = agent_of(vendor, model_of(max_tokens=4_000), tools=[tool(step)])
        told.append([])
        agent.subscribe(told[-1].append)
        limit(agent, run=Budget(**own), session=budget)
        agents.append(agent)
    for at, who in aborts:
        loop.strikes[at] = agents[who % len(agents)].abort

    async def main() -> None:
        await asyncio.gather(*[agent.prompt("Go on " * 20) for agent in agents])

    loop.live(main())

    check()
    assert not budget.reserved
    for agent, events in zip(agents, told, strict=True):
        check_events(events)
        check_idle(agent)
    if not any(event.type == "message_end" and _is_aborted(event) for e in told for event in e):
        assert budget.spent.tokens == sum(vendor.tokens for vendor in vendors)
        total = sum((vendor.dollars for vendor in vendors), Fraction(0))
        assert budget.spent.cost_usd == float(total)


def _is_aborted(event: Any) -> bool:
    return getattr(event.message, "stop_reason", None) == "aborted"
