"""A session's budget counts summaries, children and earlier processes, as its ledger does."""

from __future__ import annotations

import asyncio
import threading
from fractions import Fraction
from typing import Any

import pytest
from tests.budgets.vendor import RATES, model_of

from loopwright import Agent, Harness, tool
from loopwright.harness.compaction import CompactionSettings
from loopwright.harness.session_budget import count_session
from loopwright.harness.summary import SummaryFailed
from loopwright.loop.budget import Budget
from loopwright.loop.budget_stream import limit
from loopwright.loop.request_bounds import exact, tokens_of
from loopwright.messages import Usage
from loopwright.models import Model, Models
from loopwright.models.costs import priced
from loopwright.session import MemoryStore, SessionStore
from loopwright.testing import Call, Reply, ScriptedModel
from loopwright.tools.task import AgentSpec, task_tool

SMALL = CompactionSettings(reserve_tokens=500, keep_recent_tokens=200)


def used(total: int, output: int = 10) -> Usage:
    return priced(Usage(input=total, output=output, total_tokens=total + output), RATES)


def scripted(*replies: Any, window: int = 8_000) -> tuple[Agent[Any], ScriptedModel]:
    model = Model("acme", "large", "w", cost=RATES, context_window=window, max_tokens=1_000)
    script = ScriptedModel(list(replies), model=model)
    return Agent(model, stream_fn=script.stream_fn), script


async def ledger(store: SessionStore) -> tuple[int, Fraction]:
    rows = await store.usage("s")
    tokens = sum(tokens_of(row.usage) for row in rows)
    return tokens, sum((exact(row.usage.cost.total or 0.0) for row in rows), Fraction(0))


async def test_a_summary_is_paid_from_the_session_s_budget() -> None:
    store = MemoryStore()
    agent, model = scripted(
        Reply("word " * 100, usage=used(7_900)),
        Reply("A summary.", usage=used(2_000)),
        Reply("Done.", usage=used(500)),
    )
    budget = Budget(max_turns=10, max_tokens=100_000, max_cost_usd=5.0, name="session")
    async with Harness.open(store, "s", agent=agent, compaction=SMALL) as harness:
        await count_session(budget, harness.session)
        limit(agent, session=budget)
        await harness.prompt("first " * 200)
        await harness.prompt("second")

    assert len(model.requests) == 3
    tokens, dollars = await ledger(store)
    assert budget.spent.turns == 3
    assert budget.spent.tokens == tokens == 7_910 + 2_010 + 510
    assert budget.spent.cost_usd == float(dollars)
    assert not budget.spent.estimated


async def test_with_nothing_left_no_summary_is_asked_for_and_the_run_says_why() -> None:
    store = MemoryStore()
    agent, model = scripted(Reply("word " * 100, usage=used(7_900)))
    budget = Budget(max_turns=1, name="session")
    async with Harness.open(store, "s", agent=agent, compaction=SMALL) as harness:
        limit(agent, session=budget)
        await harness.prompt("first " * 200)

        result = await harness.prompt("second")
        with pytest.raises(SummaryFailed, match="max_turns"):
            await harness.compact()

        assert harness.open_operation is None
    assert (result.stop_reason, result.stopped_by) == ("error", "error")
    assert "max_turns" in str(result.error_message)
    assert len(model.requests) == 1
    assert budget.spent.turns == 1


async def test_a_summary_by_hand_belongs_to_the_coming_run_and_not_to_the_last_one() -> None:
    store = MemoryStore()
    agent, _ = scripted(
        Reply("word " * 400, usage=used(1_900)), Reply("A summary.", usage=used(1_000))
    )
    run = Budget(max_turns=1)
    async with Harness.open(store, "s", agent=agent, compaction=SMALL) as harness:
        limit(agent, run=run)
        await harness.prompt("first " * 200)

        assert await harness.compact() is not None


async def test_an_opened_session_goes_on_counting_where_it_was() -> None:
    store = MemoryStore()
    agent, _ = scripted(*[Reply("x", usage=used(1_000))] * 2)
    first = Budget(name="session")
    async with Harness.open(store, "s", agent=agent) as harness:
        limit(agent, session=first)
        await harness.prompt("one")
        await harness.prompt("two")

    agent, model = scripted(*[Reply("x", usage=used(1_000))] * 2)
    second = Budget(max_turns=3, name="session")
    async with Harness.open(store, "s", agent=agent) as harness:
        await count_session(second, harness.session)
        limit(agent, session=second)
        assert second.spent.tokens == first.spent.tokens == 2_020
        assert second.spent.turns == first.spent.turns == 2
        assert second.spent.cost_usd == pytest.approx(first.spent.cost_usd)
        ended = [(await harness.prompt("more")).stop_reason for _ in range(2)]

    assert ended == ["stop", "error"]
    assert len(model.requests) == 1


async def test_children_are_in_the_budget_while_they_run_and_in_the_ledger_afterwards() -> None:
    store = MemoryStore()
    work = Reply(
        calls=[Call("task", {"description": f"part {n}", "prompt": "Do it"}) for n in range(3)],
        usage=used(700),
    )
    agent, _ = scripted(work, *[Reply("child done", usage=used(300))] * 3, Reply("all done"))
    agent.state.tools = [task_tool({"worker": AgentSpec()}, parent=agent)]
    budget = Budget(max_tokens=500_000, max_cost_usd=5.0, name="session")
    async with Harness.open(store, "s", agent=agent) as harness:
        limit(agent, session=budget)
        result = await harness.prompt("Split it up")
        usage = harness.session.usage
        again = Budget(name="session")
        await count_session(again, harness.session)

    assert result.text == "all done"
    tokens, _ = await ledger(store)
    assert budget.spent.tokens == tokens == tokens_of(usage) == tokens_of(result.usage)
    causes = [row.cause for row in await store.usage("s")]
    assert sorted(causes) == ["assistant", "assistant", "tool", "tool", "tool"]
    assert again.spent.turns == budget.spent.turns == 5
    assert again.spent.tokens == budget.spent.tokens


async def test_what_an_aborted_child_has_used_is_in_the_ledger() -> None:
    working = asyncio.Event()

    @tool
    async def work() -> None:
        working.set()
        await asyncio.Event().wait()

    store = MemoryStore()
    call = Call("task", {"description": "work", "prompt": "Do it"})
    agent, _ = scripted(
        Reply(calls=[call], usage=used(100)), Reply(calls=[Call("work")], usage=used(700))
    )
    agent.state.tools = [task_tool({"worker": AgentSpec(tools=[work])}, parent=agent)]
    budget = Budget(name="session")
    limit(agent, session=budget)
    async with Harness.open(store, "s", agent=agent) as harness:
        running = asyncio.create_task(harness.prompt("go"))
        await working.wait()
        await harness.abort("enough")
        result = await running
        usage = harness.session.usage

    assert result.stop_reason == "aborted"
    assert tokens_of(usage) == budget.spent.tokens == 110 + 710


async def test_retries_within_a_request_are_in_the_budget_as_in_the_ledger() -> None:
    async def no_wait(seconds: float) -> None:
        return None

    model = model_of()
    busy = Reply(error="overloaded", usage=used(300))
    script = ScriptedModel([busy, busy, Reply("x", usage=used(400))], model=model)
    models = Models([script.provider], sleep=no_wait)
    store = MemoryStore()
    agent: Agent[Any] = Agent(model, stream_fn=models.stream)
    budget = Budget(max_cost_usd=1.0, name="session")
    limit(agent, session=budget)
    async with Harness.open(store, "s", agent=agent) as harness:
        await harness.prompt("go")

    tokens, dollars = await ledger(store)
    assert budget.spent.tokens == tokens == 310 + 310 + 410
    assert budget.spent.cost_usd == float(dollars)
    assert budget.spent.turns == 1


def test_a_budget_may_be_shared_by_threads() -> None:
    budget = Budget(max_turns=50, max_tokens=90_000)
    ended: list[str] = []

    def work() -> None:
        for _ in range(12):
            model = ScriptedModel([Reply("x", usage=used(1_000))], model=model_of())
            agent: Agent[Any] = Agent(model.model, stream_fn=budget.stream_fn(model.stream_fn))
            ended.append(agent.prompt_sync("Go").stop_reason)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert ended.count("stop") == budget.spent.turns == 50
    assert ended.count("error") == 72 - 50
    assert not budget.reserved


async def test_a_past_without_a_price_keeps_a_dollar_cap_closed() -> None:
    store = MemoryStore()
    priceless = ScriptedModel([Reply("x")], model=model_of(cost=None))
    async with Harness.open(
        store, "s", agent=Agent(priceless.model, stream_fn=priceless.stream_fn)
    ) as harness:
        await harness.prompt("one")

    agent, model = scripted(Reply("x"))
    budget = Budget(max_cost_usd=100.0, name="session")
    async with Harness.open(store, "s", agent=agent) as harness:
        await count_session(budget, harness.session)
        limit(agent, session=budget)
        result = await harness.prompt("two")

    assert "no known price" in str(result.error_message)
    assert model.requests == []


async def test_a_refused_request_is_recorded_as_any_failure_and_the_session_can_go_on() -> None:
    @tool
    def step() -> str:
        return "a step"

    store = MemoryStore()
    agent, _ = scripted(Reply(calls=[Call("step")]), Reply("done"))
    agent.state.tools = [step]
    run = Budget(max_turns=1)
    async with Harness.open(store, "s", agent=agent) as harness:
        limit(agent, run=run)
        failed = await harness.prompt("go")
        [operation] = await store.operations("s")
        run.max_turns = 5
        result = await harness.prompt("go on")

    assert failed.stop_reason == "error"
    assert operation.status == "failed"
    assert "max_turns" in str(operation.error_message)
    assert result.text == "done"
