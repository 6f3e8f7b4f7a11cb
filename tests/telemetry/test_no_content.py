"""No span ever says what was said: not in a name, an attribute, a status or an event of it.

Every place where a program, a user, a model or a vendor can put text holds one marker; the tests
run agents through good and bad ends and look for it in everything that any tracer was given.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import msgspec
import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.loop.traces import until

from loopwright import (
    AfterToolCall,
    AfterToolCallResult,
    Agent,
    AgentToolResult,
    BeforeToolCall,
    BeforeToolCallResult,
    CustomMessage,
    Harness,
    ToolContext,
    tool,
)
from loopwright.errors import LoopwrightError, RateLimited, ToolError
from loopwright.harness.compaction import CompactionSettings
from loopwright.messages import AssistantMessage, TextContent, Usage
from loopwright.models import Context, Model, Models
from loopwright.session import MemoryStore
from loopwright.session.entries import CustomEntry, MessageEntry, to_row
from loopwright.session.rows import Fact, InboxItem, Lane, Operation, UsageRow
from loopwright.session.store import Commit
from loopwright.stream import AssistantMessageEvent, Done, Error
from loopwright.telemetry import RecordingTracer, Trace, trace
from loopwright.telemetry.otel import OtelTracer
from loopwright.testing import Call, Reply, ScriptedModel

MARKER = "ZEBRA"
SECRET = f"/srv/jane/{MARKER}.txt says {MARKER}"


class Told:
    """What both kinds of tracers were told, as text."""

    def __init__(self) -> None:
        self.recording = RecordingTracer()
        self.exporter = InMemorySpanExporter()
        provider = TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.otel = OtelTracer(provider)

    def trace(self, agent: Agent[Any]) -> list[Trace]:
        return [trace(agent, self.recording), trace(agent, self.otel)]

    def pieces(self) -> Iterator[str]:
        for span in self.recording.spans:
            yield span.name
            yield repr(span.attributes)
            yield repr(span.error_type)
        for span in self.exporter.get_finished_spans():
            yield span.to_json()

    def assert_clean(self, *, spans: int) -> None:
        """Nothing has the marker, and there is enough that could have had it."""
        assert self.recording.open == self.recording.faults == []
        assert len(self.recording.spans) >= spans
        assert len(self.exporter.get_finished_spans()) == len(self.recording.spans)
        assert [piece for piece in self.pieces() if MARKER in piece] == []


class Note(CustomMessage, tag="telemetry_note"):
    text: str


@tool(label=SECRET, description=SECRET)
async def read(path: str, *, ctx: ToolContext) -> AgentToolResult:
    ctx.update(SECRET)
    return AgentToolResult([TextContent(SECRET)], details={"path": SECRET})


def raises(path: str) -> None:
    raise ValueError(SECRET)


def refuses(path: str) -> None:
    raise ToolError(SECRET)


def model_of(*replies: Reply) -> ScriptedModel:
    return ScriptedModel(
        replies,
        model=Model("scripted", "scripted", "scripted", base_url=f"http://{MARKER}.example"),
    )


def agent_of(model: ScriptedModel, **options: Any) -> Agent[Any]:
    options.setdefault("stream_fn", model.stream_fn)
    return Agent(
        model.model,
        system_prompt=SECRET,
        tools=[read, raises, refuses],
        get_api_key=lambda provider: f"sk-{MARKER}",
        stream_options={
            "headers": {"authorization": SECRET, MARKER: "x"},
            "metadata": {"user_id": SECRET},
            "sampling_params": {"stop": [SECRET]},
            "temperature": SECRET,
            "base_url": SECRET,
            "env": {"KEY": SECRET},
        },
        on_error=lambda error, where: None,
        **options,
    )


PATH = {"path": SECRET}


async def test_a_run_with_everything_in_it_says_nothing_of_it() -> None:
    def gate(call: BeforeToolCall) -> BeforeToolCallResult | None:
        if call.tool_call.id == "blocked":
            return BeforeToolCallResult(block=True, reason=SECRET)
        return None

    def after(call: AfterToolCall) -> AfterToolCallResult:
        return AfterToolCallResult(content=[TextContent(SECRET)], details=SECRET)

    calls = [
        Call("read", PATH, id="c1"),
        Call("raises", PATH, id="c2"),
        Call("refuses", PATH, id="c3"),
        Call("read", PATH, id="blocked"),
        Call("read", {SECRET: SECRET}, id="c4"),
        Call("read", raw=f"{{{SECRET}", id="c5"),
        Call(f"{MARKER}_tool", PATH, id="c6"),
        Call("read", PATH, id=f"the id {MARKER}"),
    ]
    model = model_of(
        Reply(SECRET, thinking=SECRET, thinking_signature=SECRET, calls=calls, chunk_size=3),
        Reply(SECRET),
        Reply(SECRET),
    )
    agent = agent_of(model, before_tool_call=gate, after_tool_call=after, deps=SECRET)
    told = Told()
    told.trace(agent)
    agent.steer(SECRET)
    agent.follow_up(Note(SECRET))

    result = await agent.prompt(SECRET)

    assert MARKER in result.text
    assert len(told.recording.named("loopwright.tool")) == 4
    told.assert_clean(spans=9)


@pytest.mark.parametrize(
    "error", [SECRET, f"overloaded {SECRET}", RateLimited(SECRET, hint=SECRET, request_id=SECRET)]
)
async def test_a_failed_request_says_only_which_kind(error: Any) -> None:
    async def at_once(seconds: float) -> None:
        await asyncio.sleep(0)

    model = model_of(*[Reply(SECRET[:5], error=error)] * 5)
    models = Models([model.provider], sleep=at_once)
    agent = agent_of(model, stream_fn=models.stream_simple)
    told = Told()
    told.trace(agent)

    result = await agent.prompt(SECRET)

    assert result.stop_reason == "error"
    told.assert_clean(spans=3)


async def test_what_a_foreign_stream_makes_up_is_not_believed() -> None:
    reply = AssistantMessage(
        [TextContent(SECRET)],
        SECRET,
        SECRET,
        SECRET,
        Usage(1, 2, total_tokens=3),
        response_id=SECRET,
        raw_stop_reason=SECRET,
        error_message=SECRET,
    )
    ends: list[AssistantMessageEvent] = [
        Done("stop", reply),
        Done("stop", msgspec.structs.replace(reply, stop_reason=SECRET)),
        Error("error", reply, kind=SECRET),
        Error("error", reply, kind=MARKER),
    ]

    def stream_fn(model: Model, context: Context, **options: Any) -> Any:
        async def events() -> AsyncGenerator[AssistantMessageEvent, None]:
            yield ends.pop()

        return events()

    agent = agent_of(model_of(), stream_fn=stream_fn)
    told = Told()
    told.trace(agent)

    while ends:
        await agent.prompt(SECRET)

    told.assert_clean(spans=12)


@pytest.mark.parametrize("where", ["stream function", "hook", "listener", "answer"])
async def test_an_exception_says_only_its_class(where: str) -> None:
    def fails(*args: Any, **options: Any) -> Any:
        raise ValueError(SECRET)

    options: dict[str, Any] = {}
    if where == "stream function":
        options["stream_fn"] = fails
    elif where == "hook":
        options["transform_context"] = fails
    elif where == "answer":
        options["output_type"] = int
    agent = agent_of(model_of(*[Reply(SECRET)] * 4), **options)
    told = Told()
    told.trace(agent)
    if where == "listener":
        agent.subscribe(fails)

    await agent.prompt(SECRET)

    told.assert_clean(spans=2)


@pytest.mark.parametrize("how", ["abort", "cancel", "timeout"])
async def test_a_stopped_run_says_no_reason(how: str) -> None:
    @tool
    async def hangs(path: str) -> None:
        await asyncio.Event().wait()

    agent = agent_of(model_of(Reply(SECRET, calls=[Call("hangs", PATH)])))
    agent.state.tools = [hangs]
    agent.run_timeout = 0.05 if how == "timeout" else None
    told = Told()
    told.trace(agent)

    running = asyncio.create_task(agent.prompt(SECRET))
    await until(lambda: told.recording.named("loopwright.tool"))
    if how == "abort":
        agent.abort(SECRET)
    elif how == "cancel":
        running.cancel(SECRET)
    await asyncio.wait({running})

    told.assert_clean(spans=4)


async def test_what_a_session_writes_is_only_counted() -> None:
    agent = agent_of(model_of(Reply(SECRET)))
    told = Told()
    message = AssistantMessage([TextContent(SECRET)])
    entries = [
        to_row(MessageEntry(parent_id=None, message=message)),
        to_row(CustomEntry(parent_id=None, custom_type=MARKER, data={SECRET: SECRET})),
    ]
    commit = Commit(
        entries=entries,
        lanes=[Lane(name=MARKER)],
        operations=[Operation(lane=MARKER, intent={"instructions": SECRET}, error_message=SECRET)],
        inbox=[InboxItem(lane="main", queue="steer", message=message)],
        settled=[MARKER],
        consume=[(MARKER, MARKER)],
        facts=[Fact(namespace="name", value=SECRET), Fact(namespace="custom", key=SECRET, value=1)],
        usage=[UsageRow(cause="assistant", usage=Usage(), model=MARKER)],
        preview=SECRET,
    )
    loop = asyncio.get_running_loop()

    for told_of in told.trace(agent):
        for error in (None, ValueError(SECRET)):
            future: asyncio.Future[int] = loop.create_future()
            future.add_done_callback(told_of.commit(commit))
            if error is None:
                future.set_result(1)
            else:
                future.set_exception(error)
            await asyncio.wait({future})
            future.exception()
        with pytest.raises(ValueError), told_of.compaction("manual"):
            raise ValueError(SECRET)
        with pytest.raises(ValueError), told_of.navigation(summarize=True):
            raise ValueError(SECRET)
    await asyncio.sleep(0)

    told.assert_clean(spans=4)


async def test_a_harness_tells_nothing_of_its_session() -> None:
    spent = Usage(7_900, 10, total_tokens=7_910)
    model = ScriptedModel(
        [Reply(SECRET * 20, usage=spent), *[Reply(SECRET)] * 3, Reply(error=SECRET)],
        model=Model("scripted", "small", "scripted", context_window=8_000),
    )
    agent = agent_of(model)
    told = Told()
    settings = CompactionSettings(reserve_tokens=500, keep_recent_tokens=200)

    told.trace(agent)
    async with Harness.open(
        MemoryStore(), "s1", agent=agent, compaction=settings, tracer=told.recording, cwd=SECRET
    ) as harness:
        await harness.prompt(SECRET * 40, request_id=SECRET)
        await harness.prompt(SECRET)
        await harness.session.set_name(SECRET)
        await harness.session.set_label(harness.session.leaf_id or "", SECRET)
        await harness.prompt(SECRET * 60)
        with pytest.raises(LoopwrightError):
            await harness.compact(SECRET)

    assert len(told.recording.named("loopwright.compaction")) == 2
    assert told.recording.open == told.recording.faults == []
    assert [piece for piece in told.pieces() if MARKER in piece] == []


async def test_the_marker_would_be_found() -> None:
    """The search itself can fail."""
    told = Told()

    for tracer in (told.recording, told.otel):
        tracer.start("loopwright.run", {"loopwright.tool.name": SECRET}, None).end()

    with pytest.raises(AssertionError, match=MARKER):
        told.assert_clean(spans=1)
