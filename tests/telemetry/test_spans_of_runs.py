"""Runs, turns and requests as spans: the tree, what stands on it, and that all of it ends."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from tests.loop.traces import scripted, until

from loopwright import Agent
from loopwright.errors import RateLimited
from loopwright.events import AgentEvent, MessageUpdate
from loopwright.messages import AssistantMessage, TextContent
from loopwright.models import Context, Model, Models
from loopwright.stream import (
    AssistantMessageEvent,
    AssistantStream,
    Done,
    Retry,
    Start,
    StreamWriter,
    TextDelta,
    TextStart,
)
from loopwright.telemetry import RecordingTracer, Trace, trace
from loopwright.testing import Call, Reply, ScriptedModel


def add(a: int, b: int) -> int:
    return a + b


ADD = Call("add", {"a": 17, "b": 25}, id="c1")


def assert_settled(tracer: RecordingTracer) -> None:
    """Every span has ended, once, and within its parent."""
    assert tracer.open == []
    assert tracer.faults == []
    for span in tracer.spans:
        if span.parent is not None:
            assert span.parent.ended_at is not None
            assert span.ended_at is not None
            assert span.ended_at <= span.parent.ended_at


async def test_a_run_with_a_tool_is_one_tree() -> None:
    agent, _, _ = scripted(Reply(calls=[ADD]), "42.", tools=[add])
    tracer = RecordingTracer()
    trace(agent, tracer)

    await agent.prompt("17 + 25?")

    assert tracer.tree().splitlines() == [
        "loopwright.run",
        "  loopwright.turn",
        "    loopwright.request",
        "    loopwright.tool",
        "  loopwright.turn",
        "    loopwright.request",
    ]
    assert_settled(tracer)


async def test_the_run_says_who_was_asked_how_often_and_what_it_took() -> None:
    agent, _, _ = scripted(Reply(calls=[ADD]), "42.", tools=[add])
    tracer = RecordingTracer()
    trace(agent, tracer, session_id="s1", lane="main", agent_name="adder")

    result = await agent.prompt("17 + 25?")

    run = tracer.named("loopwright.run")[0]
    assert run.error_type is None
    assert {
        "loopwright.agent.name": "adder",
        "loopwright.session.id": "s1",
        "loopwright.lane.name": "main",
        "loopwright.operation.kind": "run",
        "loopwright.operation.outcome": "completed",
        "loopwright.provider": "scripted",
        "loopwright.model": "scripted",
        "loopwright.run.turns": 2,
        "loopwright.usage.total_tokens": result.usage.total_tokens,
    }.items() <= run.attributes.items()
    for span in tracer.spans:
        assert span.attributes["loopwright.session.id"] == "s1"
        assert span.attributes["loopwright.lane.name"] == "main"


async def test_without_a_session_the_agents_own_id_stands_on_the_spans() -> None:
    agent, _, _ = scripted("Hello.", session_id="mine")
    tracer = RecordingTracer()
    trace(agent, tracer)

    await agent.prompt("Hi.")

    assert {span.attributes["loopwright.session.id"] for span in tracer.spans} == {"mine"}


async def test_a_request_says_how_it_was_asked_and_what_came_of_it() -> None:
    agent, model, _ = scripted(
        Reply("abcdef", chunk_size=1),
        thinking_level="high",
        stream_options={"max_tokens": 100, "temperature": 0.5, "headers": {"x": "y"}},
    )
    tracer = RecordingTracer()
    trace(agent, tracer)

    result = await agent.prompt("Hi.")

    found = dict(tracer.named("loopwright.request")[0].attributes)
    first = found.pop("loopwright.stream.time_to_first_chunk_ms")
    assert isinstance(first, float)
    assert first > 0
    usage = result.usage
    assert found == {
        "loopwright.provider": "scripted",
        "loopwright.model": "scripted",
        "loopwright.api": "scripted",
        "loopwright.request.reasoning": "high",
        "loopwright.request.max_tokens": 100,
        "loopwright.request.temperature": 0.5,
        "loopwright.request.messages": 1,
        "loopwright.request.tools": 0,
        "loopwright.response.stop_reason": "stop",
        "loopwright.response.model": "scripted",
        "loopwright.stream.chunk_count": 10,  # start, text start, six deltas, text end, done
        "loopwright.usage.input_tokens": usage.input,
        "loopwright.usage.output_tokens": usage.output,
        "loopwright.usage.cache_read_tokens": usage.cache_read,
        "loopwright.usage.cache_write_tokens": usage.cache_write,
        "loopwright.usage.total_tokens": usage.total_tokens,
    }
    assert model.requests[0].options["max_tokens"] == 100


async def test_a_request_that_is_tried_again_counts_its_retries() -> None:
    async def at_once(seconds: float) -> None:
        await asyncio.sleep(0)

    model = ScriptedModel([Reply(error="overloaded"), Reply(error="overloaded"), Reply("Hello.")])
    models = Models([model.provider], sleep=at_once, random=lambda: 0.0)
    agent = Agent(model.model, stream_fn=models.stream_simple)
    tracer = RecordingTracer()
    trace(agent, tracer)

    result = await agent.prompt("Hi.")

    assert result.text == "Hello."
    request = tracer.named("loopwright.request")[0]
    assert request.error_type is None
    assert request.attributes["loopwright.request.retries"] == 2
    assert request.attributes["loopwright.request.retry_wait_ms"] == 1500
    assert request.attributes["loopwright.stream.chunk_count"] == 5


async def test_a_failed_request_is_told_by_its_kind_up_to_the_run() -> None:
    agent, _, _ = scripted(Reply(error=RateLimited("slow down, jane@example.com")))
    tracer = RecordingTracer()
    trace(agent, tracer)

    await agent.prompt("Hi.")

    assert tracer.tree().splitlines() == [
        "loopwright.run !rate_limit",
        "  loopwright.turn !rate_limit",
        "    loopwright.request !rate_limit",
    ]
    assert tracer.spans[0].attributes["loopwright.operation.outcome"] == "failed"


async def test_a_stream_function_that_raises_is_told_by_its_class() -> None:
    async def raises(model: Model, context: Context, **options: Any) -> AssistantStream:
        raise KeyError("/srv/jane")

    agent = Agent(ScriptedModel().model, stream_fn=raises)
    tracer = RecordingTracer()
    trace(agent, tracer)

    result = await agent.prompt("Hi.")

    assert result.stop_reason == "error"
    assert {span.error_type for span in tracer.spans} == {"KeyError"}
    assert_settled(tracer)


async def test_a_hook_that_ends_the_run_has_no_request_to_blame() -> None:
    def raises(context: object) -> None:
        raise ValueError("no")

    agent, _, _ = scripted("Never.", prepare_request=raises)
    tracer = RecordingTracer()
    trace(agent, tracer)

    await agent.prompt("Hi.")

    assert tracer.tree().splitlines() == ["loopwright.run !error", "  loopwright.turn !error"]
    assert_settled(tracer)


@pytest.mark.parametrize("kind", ["writer", "generator", "awaitable"])
async def test_every_kind_of_stream_has_its_span(kind: str) -> None:
    async def events() -> AsyncGenerator[AssistantMessageEvent, None]:
        yield Done("stop", AssistantMessage([TextContent("Hello.")]))

    async def awaited() -> AssistantStream:
        return AssistantStream.from_events(events())

    def stream_fn(model: Model, context: Context, **options: Any) -> Any:
        if kind == "writer":
            writer = StreamWriter()
            writer.text("Hello.")
            writer.done()
            return writer
        return events() if kind == "generator" else awaited()

    agent = Agent(ScriptedModel().model, stream_fn=stream_fn)
    tracer = RecordingTracer()
    trace(agent, tracer)

    result = await agent.prompt("Hi.")

    assert result.text == "Hello."
    request = tracer.named("loopwright.request")[0]
    assert request.attributes["loopwright.response.stop_reason"] == "stop"
    assert_settled(tracer)


async def test_what_is_no_stream_fails_as_it_does_untraced() -> None:
    agent = Agent(ScriptedModel().model, stream_fn=lambda model, context, **options: 7)  # type: ignore[arg-type, return-value]
    tracer = RecordingTracer()
    trace(agent, tracer)

    result = await agent.prompt("Hi.")

    assert "returned int" in (result.error_message or "")
    assert tracer.named("loopwright.request")[0].error_type == "TypeError"
    assert_settled(tracer)


# -- stopping --------------------------------------------------------------------------------


async def test_an_aborted_reply_is_no_failure() -> None:
    agent, _, _ = scripted(Reply("abcdef", chunk_size=1, delay=0.001))
    tracer = RecordingTracer()
    trace(agent, tracer)
    agent.subscribe(lambda event: agent.abort() if type(event) is MessageUpdate else None)

    result = await agent.prompt("Hi.")

    assert result.stop_reason == "aborted"
    assert [span.error_type for span in tracer.spans] == [None, None, None]
    assert {span.attributes["loopwright.operation.outcome"] for span in tracer.spans} == {"aborted"}
    assert_settled(tracer)


async def test_a_run_that_takes_too_long_ends_as_a_timeout() -> None:
    async def hangs() -> None:
        await asyncio.Event().wait()

    agent, _, _ = scripted(Reply(calls=[Call("hangs", {})]), tools=[hangs], run_timeout=0.05)
    tracer = RecordingTracer()
    trace(agent, tracer)

    await agent.prompt("Hi.")

    run = tracer.named("loopwright.run")[0]
    assert run.error_type == "timeout"
    assert run.attributes["loopwright.operation.outcome"] == "aborted"
    assert_settled(tracer)


@pytest.mark.parametrize("where", ["reply", "tool"])
async def test_a_cancelled_run_ends_all_its_spans(where: str) -> None:
    async def hangs() -> None:
        await asyncio.Event().wait()

    reply = Reply("abc", delay=60) if where == "reply" else Reply(calls=[Call("hangs", {})])
    agent, _, _ = scripted(reply, tools=[hangs])
    tracer = RecordingTracer()
    trace(agent, tracer)
    name = "loopwright.request" if where == "reply" else "loopwright.tool"

    running = asyncio.create_task(agent.prompt("Hi."))
    await until(lambda: tracer.named(name))
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert tracer.named("loopwright.run")[0].attributes["loopwright.operation.outcome"] == "aborted"
    assert {span.error_type for span in tracer.spans} == {None}
    assert_settled(tracer)


async def test_leaving_a_stream_of_events_early_ends_all_spans() -> None:
    agent, _, _ = scripted(Reply("abcdef", chunk_size=1, delay=0.001))
    tracer = RecordingTracer()
    trace(agent, tracer)

    async with agent.stream("Hi.") as events:
        async for event in events:
            if type(event) is MessageUpdate:
                break

    assert len(tracer.spans) == 3
    assert_settled(tracer)


async def test_a_listener_that_kills_the_run_leaves_no_span_open() -> None:
    class Stop(BaseException):
        pass

    def kills(event: AgentEvent) -> None:
        if event.type == "message_end":
            raise Stop

    agent, _, _ = scripted("Hello.")
    tracer = RecordingTracer()
    trace(agent, tracer)
    agent.subscribe(kills)

    running = asyncio.create_task(_swallow(agent, Stop))
    await running
    await asyncio.sleep(0)

    assert tracer.spans[0].error_type == "abandoned"
    assert_settled(tracer)


async def _swallow(agent: Agent, kind: type[BaseException]) -> None:
    with pytest.raises(kind):
        await agent.prompt("Hi.")


async def test_the_next_run_ends_what_a_killed_one_left_open() -> None:
    class Stop(BaseException):
        pass

    def kills(event: AgentEvent) -> None:
        if event.type == "turn_start" and not agent.state.messages:
            raise Stop

    agent, _, _ = scripted("Hello.")
    tracer = RecordingTracer()
    trace(agent, tracer)
    agent.subscribe(kills)

    with pytest.raises(Stop):
        await agent.prompt("Hi.")
    agent.state.messages = [AssistantMessage([TextContent("Here.")])]
    await agent.prompt("Hi.")

    first, second = tracer.named("loopwright.run")
    assert (first.error_type, second.error_type) == ("abandoned", None)
    assert_settled(tracer)


# -- several ---------------------------------------------------------------------------------


async def test_agents_side_by_side_keep_their_own_trees() -> None:
    tracer = RecordingTracer()
    agents: list[Agent] = []
    for number in range(8):
        agent, _, _ = scripted(
            Reply("ab", calls=[ADD], chunk_size=1, delay=0.001), "42.", tools=[add]
        )
        trace(agent, tracer, session_id=str(number))
        agents.append(agent)

    await asyncio.gather(*[agent.prompt("17 + 25?") for agent in agents])

    assert len(tracer.roots) == 8
    for span in tracer.spans:
        root = span
        while root.parent is not None:
            root = root.parent
        assert span.attributes["loopwright.session.id"] == root.attributes["loopwright.session.id"]
    assert len(tracer.named("loopwright.tool")) == 8
    assert_settled(tracer)


def test_agents_in_threads_of_their_own_share_a_tracer() -> None:
    tracer = RecordingTracer()

    def work(number: int) -> None:
        agent, _, _ = scripted(Reply(calls=[ADD]), "42.", tools=[add])
        trace(agent, tracer, session_id=str(number))
        agent.prompt_sync("17 + 25?")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(tracer.roots) == 8
    assert all(len(root.children) == 2 for root in tracer.roots)
    assert_settled(tracer)


async def test_an_agent_inside_a_tool_can_be_traced_below_it() -> None:
    tracer = RecordingTracer()

    async def ask() -> str:
        inner, _, _ = scripted("Deep.")
        trace(inner, tracer, parent=tracer.named("loopwright.tool")[0])
        return (await inner.prompt("Go.")).text

    agent, _, _ = scripted(Reply(calls=[Call("ask", {})]), "Done.", tools=[ask])
    trace(agent, tracer)

    await agent.prompt("Hi.")

    assert tracer.tree().splitlines()[3:5] == ["    loopwright.tool", "      loopwright.run"]
    assert_settled(tracer)


# -- starting and stopping to trace ----------------------------------------------------------


async def test_an_agent_is_as_before_when_tracing_stops() -> None:
    agent, _, _ = scripted("One.", "Two.")
    before = agent.stream_fn
    tracer = RecordingTracer()

    untrace = trace(agent, tracer)
    await agent.prompt("1")
    untrace()
    untrace()
    await agent.prompt("2")

    assert agent.stream_fn == before
    assert len(tracer.named("loopwright.run")) == 1


async def test_two_tracers_see_the_same_and_can_go_in_any_order() -> None:
    agent, _, _ = scripted(Reply(calls=[ADD]), "One.", Reply(calls=[ADD]), "Two.", tools=[add])
    before = agent.stream_fn
    first, second = RecordingTracer(), RecordingTracer()
    stop_first, stop_second = trace(agent, first), trace(agent, second)

    await agent.prompt("1")
    stop_first()
    await agent.prompt("2")
    stop_second()

    assert len(first.spans) == 6
    assert len(second.spans) == 12
    assert second.tree().startswith(first.tree())
    assert first.faults == second.faults == []
    assert agent.stream_fn is not before  # the first to come is still there, and does nothing
    agent.state.messages = []


async def test_what_is_open_ends_when_tracing_stops() -> None:
    agent, _, _ = scripted(Reply("abc", chunk_size=1, delay=0.001))
    tracer = RecordingTracer()
    untrace = trace(agent, tracer)
    agent.subscribe(lambda event: untrace() if type(event) is MessageUpdate else None)

    result = await agent.prompt("Hi.")

    assert result.text == "abc"
    assert [span.error_type for span in tracer.spans] == ["abandoned"] * 3
    assert_settled(tracer)


async def test_tracing_may_begin_in_the_middle_of_a_run() -> None:
    agent, _, _ = scripted(Reply(calls=[ADD]), "42.", "Again.", tools=[add])
    tracer = RecordingTracer()
    begun: list[Trace] = []

    def begin(event: AgentEvent) -> None:
        if event.type == "message_end" and not begun:
            begun.append(trace(agent, tracer))

    agent.subscribe(begin)

    await agent.prompt("17 + 25?")
    await agent.prompt("Again?")

    assert tracer.tree().splitlines() == [
        "loopwright.run",
        "  loopwright.turn",
        "    loopwright.request",
    ]


async def test_without_a_tracer_the_agent_is_left_alone() -> None:
    agent, _, _ = scripted("Hello.")
    before = agent.stream_fn

    untrace = trace(agent, None)

    assert agent.stream_fn == before
    with untrace.compaction("manual") as span:
        span.set({"loopwright.anything": 1})
    untrace()


async def test_models_are_still_looked_up_by_name_where_the_stream_function_belongs() -> None:
    model = ScriptedModel([Reply("Hello.")])
    models = Models([model.provider])
    agent = Agent(model.model, stream_fn=models.stream_simple)

    trace(agent, RecordingTracer())
    agent.model = "scripted/scripted"

    assert (await agent.prompt("Hi.")).text == "Hello."


async def test_reading_a_traced_stream_by_hand_gives_its_events_and_its_span() -> None:
    model = ScriptedModel([Reply("ab", chunk_size=1), Reply(error=RateLimited("no")), Reply("c")])
    agent = Agent(model.model, stream_fn=model.stream_fn)
    tracer = RecordingTracer()
    trace(agent, tracer)
    ask: Any = agent.stream_fn

    events = [event.type async for event in ask(model.model, Context())]
    failed = await ask(model.model, Context()).result()
    async with ask(model.model, Context()) as left:
        async for _ in left:
            break

    assert events[-1] == "done"
    assert failed.stop_reason == "error"
    assert [span.error_type for span in tracer.spans] == [None, "rate_limit", None]
    assert tracer.spans[0].attributes["loopwright.stream.chunk_count"] == len(events)
    assert tracer.spans[2].attributes["loopwright.operation.outcome"] == "aborted"
    assert_settled(tracer)


async def test_a_reply_that_begins_anew_counts_its_retry_and_what_was_said() -> None:
    async def events() -> AsyncGenerator[AssistantMessageEvent, None]:
        yield Start()
        yield TextStart(0)
        yield TextDelta(0, "Hel")
        yield Retry(2, 4, 0.25, "it broke off")
        yield Start()
        yield Done("stop", AssistantMessage([TextContent("Hello.")]))

    agent = Agent(ScriptedModel().model, stream_fn=lambda model, context, **options: events())  # type: ignore[arg-type, return-value]
    tracer = RecordingTracer()
    trace(agent, tracer)
    ask: Any = agent.stream_fn

    await ask(agent.model, Context()).result()
    read = [event async for event in ask(agent.model, Context())]

    assert len(read) == 6
    for span in tracer.spans:
        assert span.attributes["loopwright.request.retries"] == 1
        assert span.attributes["loopwright.request.retry_wait_ms"] == 250
        assert span.attributes["loopwright.stream.chunk_count"] == 5
    assert_settled(tracer)


async def test_leaving_a_traced_stream_closes_its_source() -> None:
    closed: list[bool] = []

    async def events() -> AsyncGenerator[AssistantMessageEvent, None]:
        try:
            yield Start()
            await asyncio.Event().wait()
        finally:
            closed.append(True)

    agent = Agent(ScriptedModel().model, stream_fn=lambda model, context, **options: events())  # type: ignore[arg-type, return-value]
    trace(agent, RecordingTracer())
    ask: Any = agent.stream_fn

    async with ask(agent.model, Context()) as stream:
        async for _ in stream:
            break

    assert closed == [True]
    assert stream.ended
