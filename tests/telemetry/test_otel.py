"""Spans as OpenTelemetry gets them: the conventions' names, and contexts passed by hand."""

from __future__ import annotations

import asyncio
import gc
import logging
import subprocess
import sys
import threading
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from opentelemetry import baggage, context
from opentelemetry import trace as otel
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import (
    InMemorySpanExporter,
)
from opentelemetry.trace import SpanKind, StatusCode
from tests.loop.traces import scripted

from loopwright.errors import RateLimited
from loopwright.events import AgentEvent, MessageUpdate
from loopwright.messages import Usage
from loopwright.telemetry import trace
from loopwright.telemetry.otel import OtelSpan, OtelTracer
from loopwright.testing import Call, Reply


def add(a: int, b: int) -> int:
    return a + b


ADD = Call("add", {"a": 17, "b": 25}, id="c1")


class Exported:
    """A provider of its own and what it exported."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.provider = TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))

    @property
    def spans(self) -> list[ReadableSpan]:
        found = list(self.exporter.get_finished_spans())
        return sorted(found, key=lambda span: span.start_time or 0)

    def tree(self) -> list[str]:
        """Names, each below its parent, in the order in which they began."""
        spans = self.spans

        def below(parent: int | None, depth: int) -> list[str]:
            lines: list[str] = []
            for span in spans:
                above = None if span.parent is None else span.parent.span_id
                if above == parent:
                    lines.append("  " * depth + span.name)
                    assert span.context is not None
                    lines += below(span.context.span_id, depth + 1)
            return lines

        return below(None, 0)

    def named(self, name: str) -> ReadableSpan:
        return next(span for span in self.spans if span.name == name)


@pytest.fixture
def exported() -> Exported:
    return Exported()


@pytest.fixture(autouse=True)
def nothing_is_logged(caplog: pytest.LogCaptureFixture) -> Any:
    """OpenTelemetry logs "Failed to detach context" where contexts were entered and left wrong."""
    with caplog.at_level(logging.WARNING):
        yield
        gc.collect()  # generators that were left behind are closed here
    assert [record.getMessage() for record in caplog.records] == []


async def test_a_run_is_told_in_the_words_of_the_conventions(exported: Exported) -> None:
    usage = Usage(10, 5, 100, 20, reasoning=2, total_tokens=135)
    agent, _, _ = scripted(
        Reply(calls=[ADD], usage=usage),
        "42.",
        tools=[add],
        thinking_level="low",
        stream_options={"max_tokens": 100},
    )
    trace(agent, OtelTracer(exported.provider), session_id="s1", agent_name="adder")

    await agent.prompt("17 + 25?")

    assert exported.tree() == [
        "invoke_agent adder",
        "  loopwright.turn",
        "    chat scripted",
        "    execute_tool add",
        "  loopwright.turn",
        "    chat scripted",
    ]
    run, chat, tool = (
        exported.named(name) for name in ("invoke_agent adder", "chat scripted", "execute_tool add")
    )
    assert (run.kind, chat.kind, tool.kind) == (
        SpanKind.INTERNAL,
        SpanKind.CLIENT,
        SpanKind.INTERNAL,
    )
    assert {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.provider.name": "scripted",
        "gen_ai.agent.name": "adder",
        "gen_ai.conversation.id": "s1",
        "gen_ai.request.model": "scripted",
    }.items() <= dict(run.attributes or {}).items()
    assert {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "scripted",
        "gen_ai.request.model": "scripted",
        "gen_ai.request.max_tokens": 100,
        "gen_ai.request.reasoning.level": "low",
        "gen_ai.request.stream": True,
        "gen_ai.response.model": "scripted",
        "gen_ai.response.finish_reasons": ("tool_call",),
        "gen_ai.usage.input_tokens": 130,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 100,
        "gen_ai.usage.cache_write.input_tokens": 20,
        "gen_ai.usage.reasoning.output_tokens": 2,
        "gen_ai.conversation.id": "s1",
    }.items() <= dict(chat.attributes or {}).items()
    first = (chat.attributes or {})["gen_ai.response.time_to_first_chunk"]
    ours = (chat.attributes or {})["loopwright.stream.time_to_first_chunk_ms"]
    assert isinstance(first, float)
    assert first * 1000 == pytest.approx(ours)
    assert {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.type": "function",
    }.items() <= dict(tool.attributes or {}).items()
    assert {span.status.status_code for span in exported.spans} == {StatusCode.UNSET}


async def test_a_failure_is_an_error_without_words(exported: Exported) -> None:
    agent, _, _ = scripted(Reply(error=RateLimited("slow down")))
    trace(agent, OtelTracer(exported.provider))

    await agent.prompt("Hi.")

    assert exported.tree() == ["invoke_agent", "  loopwright.turn", "    chat scripted"]
    for span in exported.spans:
        assert (span.attributes or {})["error.type"] == "rate_limit"
        assert span.status.status_code is StatusCode.ERROR
        assert span.status.description is None
        assert span.events == ()


@pytest.mark.parametrize(
    ("opted", "with_system"),
    [("", True), ("http, gen_ai_latest_experimental", False), ("gen_ai_latest", True)],
)
async def test_the_name_of_2024_goes_when_the_latest_form_is_asked_for(
    opted: str, with_system: bool, exported: Exported, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_SEMCONV_STABILITY_OPT_IN", opted)
    agent, _, _ = scripted("Hello.")
    trace(agent, OtelTracer(exported.provider))

    await agent.prompt("Hi.")

    chat = dict(exported.named("chat scripted").attributes or {})
    assert chat["gen_ai.provider.name"] == "scripted"
    assert ("gen_ai.system" in chat) is with_system


@pytest.mark.parametrize(
    ("ours", "theirs"), [("google", "gcp.gemini"), ("amazon-bedrock", "aws.bedrock"), ("x", "x")]
)
def test_known_providers_have_the_conventions_name(
    ours: str, theirs: str, exported: Exported
) -> None:
    tracer = OtelTracer(exported.provider)

    tracer.start("loopwright.request", {"loopwright.provider": ours}, None).end()

    assert (exported.spans[0].attributes or {})["gen_ai.provider.name"] == theirs


# -- where a run begins ----------------------------------------------------------------------


async def test_a_run_begins_below_the_span_of_whoever_starts_it(exported: Exported) -> None:
    agent, _, _ = scripted("Hello.", "Hello.")
    trace(agent, OtelTracer(exported.provider))
    theirs = exported.provider.get_tracer("web")

    with theirs.start_as_current_span("GET /chat"):
        await agent.prompt("Hi.")
        current = otel.get_current_span()
    await agent.prompt("Hi.")

    assert exported.tree() == [
        "GET /chat",
        "  invoke_agent",
        "    loopwright.turn",
        "      chat scripted",
        "invoke_agent",
        "  loopwright.turn",
        "    chat scripted",
    ]
    assert getattr(current, "name", None) == "GET /chat"


async def test_nothing_of_ours_is_ever_current(exported: Exported) -> None:
    seen: list[Any] = []

    def look() -> None:
        seen.append(otel.get_current_span())

    agent, _, _ = scripted(Reply(calls=[Call("look", {})]), "Done.", tools=[look])
    trace(agent, OtelTracer(exported.provider))
    agent.subscribe(lambda event: seen.append(otel.get_current_span()))

    await agent.prompt("Hi.")

    assert {span.get_span_context().is_valid for span in seen} == {False}


async def test_a_span_of_ones_own_can_be_the_parent(exported: Exported) -> None:
    agent, _, _ = scripted("Hello.")
    theirs = exported.provider.get_tracer("web").start_span("job")
    trace(agent, OtelTracer(exported.provider), parent=OtelSpan(theirs))

    await agent.prompt("Hi.")
    theirs.end()

    assert exported.tree()[:2] == ["job", "  invoke_agent"]


async def test_baggage_of_where_a_run_began_is_kept_below_it(exported: Exported) -> None:
    tracer = OtelTracer(exported.provider)
    token = context.attach(baggage.set_baggage("tenant", "t1"))
    run = tracer.start("loopwright.run", {}, None)
    context.detach(token)

    turn = tracer.start("loopwright.turn", {}, run)

    assert baggage.get_baggage("tenant", turn.context) == "t1"
    turn.end()
    run.end()


# -- what breaks others ----------------------------------------------------------------------


async def test_leaving_a_stream_early_detaches_nothing(exported: Exported) -> None:
    agent, _, _ = scripted(Reply("abcdef", chunk_size=1, delay=0.001))
    trace(agent, OtelTracer(exported.provider))

    async with agent.stream("Hi.") as events:
        async for event in events:
            if type(event) is MessageUpdate:
                break

    assert exported.tree() == ["invoke_agent", "  loopwright.turn", "    chat scripted"]


async def test_generators_that_are_left_behind_break_nothing(exported: Exported) -> None:
    agent, _, _ = scripted(Reply("abcdef", chunk_size=1, delay=0.001))
    trace(agent, OtelTracer(exported.provider))

    async def pieces() -> AsyncGenerator[AgentEvent, None]:
        async with agent.stream("Hi.") as events:
            async for event in events:
                yield event

    generator = pieces()
    await anext(generator)
    await asyncio.create_task(_close(generator))  # in another task than the one that read

    assert exported.tree()[0] == "invoke_agent"
    assert agent.state.is_streaming is False


async def _close(generator: Any) -> None:
    await generator.aclose()


async def test_runs_side_by_side_in_many_tasks_stay_apart(exported: Exported) -> None:
    tracer = OtelTracer(exported.provider)

    async def one(number: int) -> None:
        agent, _, _ = scripted(Reply("a", calls=[ADD], delay=0.001), "42.", tools=[add])
        trace(agent, tracer, session_id=str(number))
        await agent.prompt("17 + 25?")

    await asyncio.gather(*[one(number) for number in range(6)])

    by_trace: dict[int, set[object]] = {}
    for span in exported.spans:
        assert span.context is not None
        found = by_trace.setdefault(span.context.trace_id, set())
        found.add((span.attributes or {})["gen_ai.conversation.id"])
    assert sorted(map(len, by_trace.values())) == [1] * 6


def test_runs_in_threads_stay_apart(exported: Exported) -> None:
    tracer = OtelTracer(exported.provider)

    def work() -> None:
        agent, _, _ = scripted(Reply(calls=[ADD]), "42.", tools=[add])
        trace(agent, tracer)
        agent.prompt_sync("17 + 25?")

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    one = ["invoke_agent", "  loopwright.turn", "    chat scripted", "    execute_tool add"]
    assert exported.tree().count("invoke_agent") == 4
    assert exported.tree()[:4] == one


async def test_a_cancelled_run_is_exported_whole(exported: Exported) -> None:
    agent, _, _ = scripted(Reply("abc", delay=60))
    trace(agent, OtelTracer(exported.provider))

    running = asyncio.create_task(agent.prompt("Hi."))
    while agent.state.streaming_message is None:
        await asyncio.sleep(0)
    running.cancel()
    await asyncio.wait({running})

    assert exported.tree() == ["invoke_agent", "  loopwright.turn", "    chat scripted"]
    assert {span.status.status_code for span in exported.spans} == {StatusCode.UNSET}


def test_telemetry_itself_does_not_load_opentelemetry() -> None:
    code = (
        "import sys, loopwright, loopwright.telemetry\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )

    subprocess.run([sys.executable, "-c", code], check=True)
