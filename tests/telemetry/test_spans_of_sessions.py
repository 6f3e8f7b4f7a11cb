"""What a session's harness tells of: compactions, navigation, commits, runs taken up again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.loop.traces import scripted, until

from loopwright import Agent, Harness, tool
from loopwright.errors import LeaseLost
from loopwright.events import AgentEvent
from loopwright.harness.compaction import CompactionSettings
from loopwright.messages import Usage
from loopwright.models import Context, Model
from loopwright.session import MemoryStore
from loopwright.session.rows import Fact, Lane
from loopwright.session.store import Commit
from loopwright.telemetry import OpenSpan, RecordingTracer, Trace, trace
from loopwright.testing import Call, Reply, ScriptedModel


def traced(*replies: Reply | str) -> tuple[Agent, Trace, RecordingTracer]:
    agent, _, _ = scripted(*replies)
    tracer = RecordingTracer()
    return agent, trace(agent, tracer, session_id="s1", lane="main"), tracer


async def test_requests_during_a_compaction_are_below_it() -> None:
    model = ScriptedModel([Reply("A summary."), Reply("Hello.")])
    agent = Agent(model.model, stream_fn=model.stream_fn)
    tracer = RecordingTracer()
    told = trace(agent, tracer)

    async def compacts(context: object) -> None:
        ask: Any = agent.stream_fn
        with told.compaction("threshold", "op1"):
            await ask(model.model, Context()).result()

    agent.prepare_request = compacts
    await agent.prompt("Hi.")

    assert tracer.tree().splitlines() == [
        "loopwright.run",
        "  loopwright.turn",
        "    loopwright.compaction",
        "      loopwright.request",
        "    loopwright.request",
    ]
    found = tracer.named("loopwright.compaction")[0].attributes
    assert found["loopwright.compaction.reason"] == "threshold"
    assert found["loopwright.operation.id"] == "op1"
    assert tracer.open == tracer.faults == []


async def test_a_compaction_is_ended_by_its_outcome() -> None:
    _, told, tracer = traced()

    told.compaction("manual")("declined")
    with pytest.raises(LeaseLost):
        _raise_inside(told.compaction("manual"), LeaseLost("not ours"))
    with pytest.raises(asyncio.CancelledError):
        _raise_inside(told.compaction("manual"), asyncio.CancelledError())

    outcomes = [span.attributes["loopwright.operation.outcome"] for span in tracer.spans]
    assert outcomes == ["declined", "failed", "aborted"]
    assert [span.error_type for span in tracer.spans] == [None, "LeaseLost", None]


def _raise_inside(done: OpenSpan, error: BaseException) -> None:
    outcome = "failed"
    try:
        raise error
    finally:
        done(outcome)


async def test_a_request_that_was_dropped_ends_with_the_navigation_it_belongs_to() -> None:
    model = ScriptedModel([Reply("A summary.")])
    agent = Agent(model.model, stream_fn=model.stream_fn)
    tracer = RecordingTracer()
    told = trace(agent, tracer)
    ask: Any = agent.stream_fn

    with told.navigation(summarize=True):
        ask(model.model, Context())

    assert tracer.tree().splitlines() == [
        "loopwright.navigation",
        "  loopwright.request !abandoned",
    ]
    assert tracer.faults == []


async def test_a_commit_says_how_much_of_what_was_written() -> None:
    _, told, tracer = traced()
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    commit = Commit(
        lanes=[Lane(name="main")],
        facts=[Fact(namespace="name", value="Jane's"), Fact(namespace="name")],
    )

    future.add_done_callback(told.commit(commit))
    future.set_result(42)
    await asyncio.sleep(0)

    [span] = tracer.spans
    assert span.name == "loopwright.session.commit"
    assert span.attributes == {
        "loopwright.session.id": "s1",
        "loopwright.lane.name": "main",
        "loopwright.session.item_count": 3,
        "loopwright.session.item_kinds": "lanes,facts",
        "loopwright.session.seq": 42,
    }
    assert span.ended


async def test_a_commit_that_fails_or_is_cancelled_ends_so() -> None:
    _, told, tracer = traced()
    loop = asyncio.get_running_loop()
    futures: list[asyncio.Future[int]] = [loop.create_future(), loop.create_future()]

    for future in futures:
        future.add_done_callback(told.commit(Commit()))
    futures[0].set_exception(LeaseLost("taken by host:1"))
    futures[1].cancel()
    await asyncio.sleep(0)

    assert isinstance(futures[0].exception(), LeaseLost)
    assert [span.error_type for span in tracer.spans] == ["LeaseLost", None]
    assert tracer.open == []


async def test_a_run_that_is_begun_early_has_all_that_is_written_around_it_below() -> None:
    agent, told, tracer = traced("Hello.")
    loop = asyncio.get_running_loop()

    def commit() -> None:
        future: asyncio.Future[int] = loop.create_future()
        future.add_done_callback(told.commit(Commit()))
        future.set_result(1)

    def within(event: AgentEvent) -> None:
        if event.type == "turn_end":
            commit()

    agent.subscribe(within)

    with told.run("op1", recovery=True):
        commit()
        await agent.prompt("Hi.")
        commit()
        await asyncio.sleep(0)

    assert tracer.tree().splitlines() == [
        "loopwright.run",
        "  loopwright.session.commit",
        "  loopwright.turn",
        "    loopwright.request",
        "  loopwright.session.commit",
        "  loopwright.session.commit",
    ]
    run = tracer.spans[0]
    assert run.attributes["loopwright.operation.id"] == "op1"
    assert run.attributes["loopwright.operation.recovery"] is True
    assert run.attributes["loopwright.operation.outcome"] == "completed"
    assert {span.attributes["loopwright.operation.id"] for span in tracer.spans} == {"op1"}
    assert tracer.open == tracer.faults == []


async def test_a_run_that_is_begun_early_keeps_how_it_ended() -> None:
    agent, told, tracer = traced(Reply(error="invalid request"), "Better.")

    with told.run("op1"):
        await agent.prompt("Hi.")
    await agent.prompt("Again.")

    first, second = tracer.named("loopwright.run")
    assert first.error_type is not None
    assert first.attributes["loopwright.operation.outcome"] == "failed"
    assert second.error_type is None
    assert "loopwright.operation.id" not in second.attributes
    assert tracer.open == tracer.faults == []


async def test_a_commit_may_outlive_the_run_it_was_handed_over_in() -> None:
    agent, told, tracer = traced("Hello.")
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def hand_over(event: AgentEvent) -> None:
        if event.type == "turn_end":
            future.add_done_callback(told.commit(Commit()))

    agent.subscribe(hand_over)

    await agent.prompt("Hi.")
    waiting = [span.name for span in tracer.open]
    future.set_result(7)
    await asyncio.sleep(0)

    assert waiting == ["loopwright.session.commit"]
    [commit] = tracer.named("loopwright.session.commit")
    assert commit.parent is tracer.spans[0]
    assert commit.error_type is None
    assert commit.attributes["loopwright.session.seq"] == 7
    assert tracer.open == tracer.faults == []


# -- the harness itself ----------------------------------------------------------------------

SMALL = CompactionSettings(reserve_tokens=500, keep_recent_tokens=200)


def settled(tracer: RecordingTracer) -> bool:
    return tracer.open == [] and tracer.faults == []


async def test_a_harness_tells_of_its_runs_and_of_all_that_it_writes() -> None:
    agent, _, _ = scripted("Hello.")
    tracer = RecordingTracer()
    store = MemoryStore()

    async with Harness.open(store, "s1", agent=agent, tracer=tracer) as harness:
        await harness.prompt("Hi.")
        await harness.session.set_name("Greeting")
    await agent.prompt("Untraced.")

    [run] = tracer.named("loopwright.run")
    operation = run.attributes["loopwright.operation.id"]
    commits = tracer.named("loopwright.session.commit")
    assert operation == (await store.operations("s1"))[0].id
    assert run.attributes["loopwright.operation.outcome"] == "completed"
    assert (
        max(int(span.attributes["loopwright.session.seq"]) for span in commits)
        == (await store.state("s1")).head
    )
    assert "entries" in str([s.attributes["loopwright.session.item_kinds"] for s in commits])
    assert commits[-1].attributes["loopwright.session.item_kinds"] == "facts"
    assert "loopwright.operation.id" not in commits[-1].attributes
    assert {span.attributes["loopwright.session.id"] for span in tracer.spans} == {"s1"}
    assert settled(tracer)


async def test_a_compaction_that_was_due_is_told_with_its_request_and_its_commit() -> None:
    spent = Usage(7_900, 10, total_tokens=7_910)
    model = ScriptedModel(
        [Reply("word " * 100, usage=spent), Reply("A summary."), Reply("Done.")],
        model=Model("scripted", "small", "scripted", context_window=8_000),
    )
    agent = Agent(model.model, stream_fn=model.stream_fn)
    tracer = RecordingTracer()

    async with Harness.open(
        MemoryStore(), "s1", agent=agent, compaction=SMALL, tracer=tracer
    ) as harness:
        await harness.prompt("first " * 200)
        await harness.prompt("second")

    [compaction] = tracer.named("loopwright.compaction")
    assert compaction.attributes["loopwright.compaction.reason"] == "threshold"
    assert compaction.attributes["loopwright.operation.outcome"] == "succeeded"
    assert [span.name for span in compaction.children] == [
        "loopwright.request",
        "loopwright.session.commit",
    ]
    assert compaction.parent is not None
    assert compaction.parent.name == "loopwright.turn"
    assert settled(tracer)


async def test_closing_a_harness_in_the_middle_of_a_run_ends_all_spans() -> None:
    agent, _, _ = scripted(Reply("abc", delay=60))
    tracer = RecordingTracer()

    async with Harness.open(MemoryStore(), "s1", agent=agent, tracer=tracer) as harness:
        running = asyncio.create_task(harness.prompt("Hi."))
        await until(lambda: agent.state.streaming_message is not None)
    await asyncio.wait({running})

    assert tracer.named("loopwright.run")[0].attributes["loopwright.operation.outcome"] == "failed"
    assert settled(tracer)


async def test_a_call_that_waits_for_approval_parks_the_run_and_has_its_span_when_it_runs() -> None:
    @tool(approval=True)
    def erase() -> str:
        return "Gone."

    agent, _, _ = scripted(Reply(calls=[Call("erase", {}, id="c1")]), "Done.", tools=[erase])
    tracer = RecordingTracer()

    async with Harness.open(MemoryStore(), "s1", agent=agent, tracer=tracer) as harness:
        await harness.prompt("Erase it.")
        before = tracer.named("loopwright.tool")
        [asked] = harness.pending_approvals
        await harness.approve(asked.id)
        await harness.resume()

    first, second = tracer.named("loopwright.run")
    assert before == []
    assert first.attributes["loopwright.operation.outcome"] == "parked"
    assert second.attributes["loopwright.operation.recovery"] is True
    assert [
        span.attributes["loopwright.tool.call_id"] for span in tracer.named("loopwright.tool")
    ] == ["c1"]
    assert settled(tracer)
