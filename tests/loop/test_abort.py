"""Stopping a run: by abort, by signal, by cancelling its task. Behaviours 90 to 103."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import pytest
from tests.loop.traces import (
    PLAIN,
    assert_paired,
    assert_well_formed,
    executed,
    no_task_left,
    result_of,
    results,
    roles,
    scripted,
    texts,
    trace,
    until,
)

from loopwright import (
    AbortController,
    AbortSignal,
    AfterToolCall,
    Agent,
    AgentContext,
    AgentLoopConfig,
    AgentToolResult,
    BeforeToolCall,
    BeforeToolCallResult,
    ToolContext,
    run_agent_loop,
)
from loopwright.events import (
    AgentEvent,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionUpdate,
    TurnEnd,
)
from loopwright.messages import AssistantMessage, TextContent, UserMessage
from loopwright.stream import AssistantStream, TextDelta, TextStart
from loopwright.testing import Call, Reply, ScriptedModel


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Opened at the end, so that no thread of a test outlives it for long."""
    event = threading.Event()
    yield event
    event.set()


def add(a: int, b: int) -> int:
    return a + b


ADD = Call("add", {"a": 17, "b": 25}, id="add")


class Hang:
    """A tool that never ends by itself, and says when it began and that it was cancelled."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.cancelled = False

    async def hang(self) -> str:
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return "never"


HANG = Call("hang", id="hang")


# -- abort -----------------------------------------------------------------------------------


async def test_behaviour_090_abort_never_raises_out_of_prompt() -> None:
    tool = Hang()
    agent, model, events = scripted(Reply(calls=[HANG]), "Again.", tools=[tool.hang])

    async with no_task_left():
        running = asyncio.create_task(agent.prompt("go"))
        await tool.started.wait()
        agent.abort("enough")
        result = await running

    assert (result.stop_reason, result.stopped_by) == ("aborted", "abort")
    assert tool.cancelled
    assert_paired(events)
    assert (await agent.prompt("still there?")).text == "Again."
    assert len(model.requests) == 2


async def test_behaviour_090_abort_while_idle_does_nothing() -> None:
    agent, _, events = scripted("Hello.")

    agent.abort()
    result = await agent.prompt("go")
    agent.abort()

    assert result.stop_reason == "stop"
    assert trace(events) == PLAIN


async def test_behaviour_090_aborting_twice_is_aborting_once() -> None:
    tool = Hang()
    agent, _, events = scripted(Reply(calls=[HANG]), tools=[tool.hang])

    running = asyncio.create_task(agent.prompt("go"))
    await tool.started.wait()
    agent.abort("first")
    signal = agent.signal
    agent.abort("second")
    result = await running
    agent.abort("third")

    assert signal is not None
    assert signal.reason == "first"
    assert result.stopped_by == "abort"
    assert_paired(events)


@pytest.mark.parametrize("way", ["abort", "signal", "cancel"])
async def test_behaviour_091_every_way_to_stop_fires_the_one_signal_and_only_one_raises(
    way: str,
) -> None:
    seen: list[AbortSignal] = []
    started = asyncio.Event()

    async def hang(*, ctx: ToolContext) -> None:
        seen.append(ctx.signal)
        started.set()
        await asyncio.Event().wait()

    controller = AbortController()
    model = ScriptedModel([Reply(calls=[HANG])])
    if way == "signal":
        run = run_agent_loop(
            [UserMessage("go")],
            AgentContext("", [], [hang]),
            AgentLoopConfig(model.model),
            lambda event: None,
            controller.signal,
            model.stream_fn,
        )
    else:
        agent = Agent(model.model, stream_fn=model.stream_fn, tools=[hang])
        run = agent.prompt("go")

    async with no_task_left():
        running = asyncio.ensure_future(run)
        await started.wait()
        if way == "abort":
            agent.abort()  # pyright: ignore[reportPossiblyUnboundVariable]
        elif way == "signal":
            controller.abort()
        else:
            running.cancel()
        await asyncio.wait({running})

    assert seen[0].aborted
    assert model.requests[0].options["signal"].aborted
    assert running.cancelled() == (way == "cancel")
    if way != "cancel":
        running.result()


async def test_behaviour_092_what_arrived_is_kept_in_the_aborted_message() -> None:
    agent, _, _ = scripted(Reply("Hello there", thinking="Hm", chunk_size=2))

    def listen(event: AgentEvent) -> None:
        if isinstance(event, MessageUpdate) and event.message.text == "Hello ":
            agent.abort()

    agent.subscribe(listen)
    result = await agent.prompt("go")

    message = result.messages[-1]
    assert isinstance(message, AssistantMessage)
    assert (message.thinking, message.text) == ("Hm", "Hello ")
    assert message.stop_reason == "aborted"
    assert message.error_message == "Operation aborted"


async def test_behaviour_093_half_a_call_is_neither_run_nor_answered_nor_sent() -> None:
    agent, model, events = scripted(
        Reply("Adding", calls=[Call("add", {"a": 17, "b": 25})], chunk_size=3),
        "Here.",
        tools=[add],
    )

    def listen(event: AgentEvent) -> None:
        if (
            isinstance(event, MessageUpdate)
            and event.assistant_message_event.type == "toolcall_delta"
        ):
            agent.abort()

    agent.subscribe(listen)
    first = await agent.prompt("go")
    second = await agent.prompt("still there?")

    assert first.stop_reason == "aborted"
    assert roles(first.messages) == ["user", "assistant"]
    assert len(first.messages[-1].tool_calls) == 1  # type: ignore[union-attr]
    assert not [name for name in trace(events) if name.startswith("tool")]
    assert texts(model.requests[1].context.messages) == ["go", "still there?"]
    assert second.text == "Here."


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
async def test_behaviour_094_098_an_aborted_batch_answers_every_call_and_asks_no_more(
    mode: Any,
) -> None:
    tool = Hang()
    gated: list[str] = []
    agent, model, events = scripted(
        Reply(calls=[ADD, HANG, Call("hang", id="second"), Call("missing", id="unknown")]),
        tools=[add, tool.hang],
        tool_execution=mode,
        before_tool_call=lambda question: gated.append(question.tool_call.id),
    )

    running = asyncio.create_task(agent.prompt("go"))
    await tool.started.wait()
    await until(lambda: "tool add end" in trace(events))
    agent.abort()
    result = await running

    told = results(result.messages)
    assert [r.tool_call_id for r in told] == ["add", "hang", "second", "unknown"]
    assert told[0].text == "42"
    assert told[1].is_error
    assert told[1].text == told[2].text == "Operation aborted"
    if mode == "sequential":
        assert told[3].text == "Operation aborted"
        assert gated == ["add", "hang"]
        assert trace(events)[-9:-5] == [
            "tool second end",
            *result_of("second"),
            "tool unknown start",
        ]
    assert (result.stop_reason, result.stopped_by) == ("aborted", "abort")
    assert roles(result.messages) == ["user", "assistant", *["toolResult"] * 4]
    assert trace(events)[-2:] == ["turn_end", "agent_end"]
    assert len(model.requests) == 1
    assert_paired(events)
    assert_well_formed(agent.state.messages)


async def test_behaviour_095_a_prepared_call_does_not_start_after_the_abort() -> None:
    ran: list[str] = []

    async def work() -> None:
        ran.append("work")

    agent, _, events = scripted(
        Reply(calls=[Call("work", id="a"), Call("work", id="b")]), tools=[work]
    )

    def gate(question: BeforeToolCall) -> None:
        if question.tool_call.id == "b":
            agent.abort()

    agent.before_tool_call = gate
    result = await agent.prompt("go")

    assert ran == []
    assert texts(results(result.messages)) == ["Operation aborted"] * 2
    assert trace(events)[6:] == [
        "tool a start",
        *executed("b"),
        "tool a end",
        *result_of("a", "b"),
        "turn_end",
        "agent_end",
    ]


@pytest.mark.parametrize("verdict", [None, BeforeToolCallResult(block=True, reason="no")])
async def test_behaviour_096_an_abort_wins_over_the_decision_of_the_gate(
    verdict: BeforeToolCallResult | None,
) -> None:
    agent, _, _ = scripted(Reply(calls=[ADD]), tools=[add])

    def gate(question: BeforeToolCall) -> BeforeToolCallResult | None:
        agent.abort()
        return verdict

    agent.before_tool_call = gate
    result = await agent.prompt("go")

    assert texts(results(result.messages)) == ["Operation aborted"]


async def test_behaviour_096_a_gate_that_hangs_does_not_keep_the_run() -> None:
    asked = asyncio.Event()
    agent, _, events = scripted(Reply(calls=[ADD]), tools=[add])

    async def gate(question: BeforeToolCall) -> None:
        asked.set()
        await asyncio.Event().wait()

    agent.before_tool_call = gate
    async with no_task_left():
        running = asyncio.create_task(agent.prompt("go"))
        await asked.wait()
        agent.abort()
        result = await running

    assert texts(results(result.messages)) == ["Operation aborted"]
    assert_paired(events)


async def test_behaviour_097_a_tool_that_finishes_all_the_same_keeps_its_result() -> None:
    started = asyncio.Event()
    seen: list[str] = []

    async def stubborn() -> AgentToolResult:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            pass
        return AgentToolResult([TextContent("saved what there was")], terminate=True)

    agent, model, _ = scripted(Reply(calls=[Call("stubborn")]), tools=[stubborn])

    def after(question: AfterToolCall) -> None:
        seen.append(question.result.text)

    agent.after_tool_call = after
    running = asyncio.create_task(agent.prompt("go"))
    await started.wait()
    agent.abort()
    result = await running

    (told,) = results(result.messages)
    assert (told.text, told.is_error) == ("saved what there was", False)
    assert seen == ["saved what there was"]
    assert result.stopped_by == "abort"
    assert len(model.requests) == 1


async def test_behaviour_098_an_abort_between_two_turns_adds_no_message() -> None:
    agent, model, events = scripted(Reply(calls=[ADD]), tools=[add])
    agent.subscribe(lambda event: agent.abort() if isinstance(event, TurnEnd) else None)

    result = await agent.prompt("go")

    assert roles(result.messages) == ["user", "assistant", "toolResult"]
    assert (result.stop_reason, result.stopped_by) == ("aborted", "abort")
    assert len(model.requests) == 1
    assert_paired(events)


# -- the signal ------------------------------------------------------------------------------


async def test_behaviour_099_the_loop_hears_a_signal_it_was_given_and_lets_go_of_it() -> None:
    controller = AbortController()
    model = ScriptedModel([Reply("Hi.")] * 20)

    for _ in range(20):
        await run_agent_loop(
            [UserMessage("go")],
            AgentContext(),
            AgentLoopConfig(model.model),
            lambda event: None,
            controller.signal,
            model.stream_fn,
        )

    assert controller.signal._callbacks == {}
    calls: list[int] = []
    controller.signal.on_abort(lambda: calls.append(1))
    controller.abort("a")
    controller.abort("b")
    controller.signal.on_abort(lambda: calls.append(2))
    assert calls == [1, 2]
    assert await controller.signal.wait() == "a"


async def test_behaviour_099_within_a_run_requests_and_batches_let_go_of_the_signal() -> None:
    counts: list[int] = []
    agent, _, _ = scripted(*[Reply(calls=[ADD])] * 20, "Done.", tools=[add])

    def count(event: AgentEvent, signal: AbortSignal) -> None:
        if isinstance(event, TurnEnd):
            counts.append(len(signal._callbacks))

    agent.subscribe(count)
    await agent.prompt("go")

    assert len(set(counts)) == 1


# -- the request in flight -------------------------------------------------------------------


class Speaker:
    """A stream that says one word and then waits; it knows when it was closed."""

    def __init__(self) -> None:
        self.waiting = asyncio.Event()
        self.closed = False
        self.model = ScriptedModel().model

    async def _speak(self) -> AsyncGenerator[Any, None]:
        try:
            yield TextStart(0)
            yield TextDelta(0, "Hello")
            self.waiting.set()
            await asyncio.Event().wait()
        finally:
            self.closed = True

    def stream_fn(self, *args: Any, **options: Any) -> AssistantStream:
        return AssistantStream.from_events(self._speak())


@pytest.mark.parametrize("way", ["abort", "cancel"])
async def test_behaviour_100_the_request_in_flight_is_cancelled(way: str) -> None:
    speaker = Speaker()
    agent = Agent(speaker.model, stream_fn=speaker.stream_fn)
    events: list[AgentEvent] = []
    agent.subscribe(events.append)

    async with no_task_left():
        running = asyncio.create_task(agent.prompt("go"))
        await speaker.waiting.wait()
        if way == "abort":
            agent.abort()
            await running
        else:
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running

    assert speaker.closed
    assert trace(events) == PLAIN
    assert texts(agent.state.messages) == ["go", "Hello"]
    assert agent.state.messages[-1].stop_reason == "aborted"  # type: ignore[union-attr]


@pytest.mark.parametrize("way", ["abort", "cancel"])
async def test_behaviour_100_a_stream_function_that_is_still_connecting_is_cancelled(
    way: str,
) -> None:
    connecting = asyncio.Event()
    ended: list[str] = []

    async def stream_fn(*args: Any, **options: Any) -> AssistantStream:
        connecting.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("connection")
        raise AssertionError("never reached")

    agent = Agent(ScriptedModel().model, stream_fn=stream_fn)
    events: list[AgentEvent] = []
    agent.subscribe(events.append)

    async with no_task_left():
        running = asyncio.create_task(agent.prompt("go"))
        await connecting.wait()
        if way == "abort":
            agent.abort()
        else:
            running.cancel()
        await asyncio.wait({running})

    assert ended == ["connection"]
    assert running.cancelled() == (way == "cancel")
    assert trace(events) == PLAIN


async def test_behaviour_101_only_our_own_signal_makes_an_aborted_message() -> None:
    agent, _, _ = scripted(Reply("half", stop_reason="aborted"))

    result = await agent.prompt("go")

    assert (result.stop_reason, result.stopped_by) == ("error", "error")
    assert result.messages[-1].stop_reason == "error"  # type: ignore[union-attr]


async def test_behaviour_101_a_lost_connection_is_an_error() -> None:
    async def broken() -> AsyncGenerator[Any, None]:
        yield TextStart(0)
        yield TextDelta(0, "Hel")
        raise ConnectionError("reset by peer")

    agent = Agent(
        ScriptedModel().model, stream_fn=lambda *a, **o: AssistantStream.from_events(broken())
    )

    result = await agent.prompt("go")

    assert result.stop_reason == "error"
    assert result.error_message == "reset by peer"
    assert result.text == "Hel"


# -- threads ---------------------------------------------------------------------------------


async def test_behaviour_102_an_aborted_thread_has_a_grace_time_then_it_is_left_behind(
    gate: threading.Event,
) -> None:
    running = threading.Event()

    def block(*, ctx: ToolContext) -> str:
        running.set()
        gate.wait(20)
        ctx.update("too late")
        return "too late"

    agent, _, events = scripted(Reply(calls=[Call("block", id="c1")]), "Here.", tools=[block])
    run = asyncio.create_task(agent.prompt("go"))
    await until(running.is_set)

    started = time.perf_counter()
    agent.abort()
    result = await run
    assert time.perf_counter() - started < 10

    (told,) = results(result.messages)
    assert (told.text, told.is_error) == ("Operation aborted", True)
    assert_paired(events)
    events.clear()
    second = asyncio.create_task(agent.prompt("go on"))
    gate.set()
    assert (await second).text == "Here."
    await asyncio.sleep(0.01)
    assert trace(events) == PLAIN


async def test_behaviour_102_a_thread_that_heeds_the_signal_gives_its_real_result() -> None:
    running = threading.Event()

    def block(*, ctx: ToolContext) -> str:
        running.set()
        stopped = threading.Event()
        ctx.signal.on_abort(stopped.set)
        assert stopped.wait(5)
        return "stopped in good order"

    agent, _, _ = scripted(Reply(calls=[Call("block")]), tools=[block])
    run = asyncio.create_task(agent.prompt("go"))
    await until(running.is_set)

    started = time.perf_counter()
    agent.abort()
    result = await run

    assert texts(results(result.messages)) == ["stopped in good order"]
    assert time.perf_counter() - started < 1.9  # not the grace time


async def test_behaviour_103_a_tool_that_raises_cancelled_error_by_itself_has_failed() -> None:
    async def odd() -> None:
        raise asyncio.CancelledError

    async def inner() -> None:
        task = asyncio.create_task(asyncio.sleep(10))
        await asyncio.sleep(0)
        task.cancel()
        await task

    agent, _, _ = scripted(
        Reply(calls=[Call("odd"), Call("inner"), ADD]), "Done.", tools=[odd, inner, add]
    )

    async with no_task_left():
        result = await agent.prompt("go")

    first, second, third = results(result.messages)
    assert first.is_error
    assert second.is_error
    assert "cancelled from within" in first.text
    assert third.text == "42"
    assert result.text == "Done."


# -- cancelling the task in every phase ------------------------------------------------------


async def cancel_at(phase: str, twice: bool = False) -> tuple[Agent, list[AgentEvent]]:
    """Run an agent that hangs in *phase* and cancel its task there."""
    reached = asyncio.Event()

    async def hang(*values: Any) -> Any:
        reached.set()
        await asyncio.Event().wait()

    async def tool() -> None:
        await hang()

    agent, _, events = scripted(
        Reply("Hi", calls=[ADD, Call("tool", id="c2")]), "Done.", tools=[add, tool]
    )
    if phase != "tool":
        agent.state.tools = [add]
    if phase.startswith("on "):
        hung: list[str] = []

        async def listen(event: AgentEvent) -> None:
            if event.type == phase[3:] and not hung:
                hung.append("")
                await hang()

        agent.subscribe(listen)
    elif phase != "tool":
        setattr(agent, phase, hang)

    running = asyncio.create_task(agent.prompt("go"))
    await reached.wait()
    running.cancel()
    if twice:
        await asyncio.sleep(0)
        running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    return agent, events


PHASES = [
    "tool",
    "before_tool_call",
    "after_tool_call",
    "prepare_request",
    "prepare_next_turn",
    "finish_turn",
    "should_stop_after_turn",
    "transform_context",
    "convert_to_llm",
    "get_api_key",
    "on agent_start",
    "on turn_start",
    "on message_start",
    "on message_update",
    "on message_end",
    "on tool_execution_start",
    "on tool_execution_end",
    "on turn_end",
    "on agent_end",
]


@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
@pytest.mark.parametrize("phase", PHASES)
async def test_behaviour_040_cancelling_the_task_closes_the_run_in_every_phase(
    phase: str, twice: bool
) -> None:
    started = time.perf_counter()

    async with no_task_left():
        agent, events = await cancel_at(phase, twice)

    assert_paired(events)
    assert_well_formed(agent.state.messages)
    assert texts(agent.state.messages)[0] == "go"
    assert not agent.state.is_streaming
    assert agent.state.streaming_message is None
    assert not agent.state.pending_tool_calls
    if phase != "finish_turn":  # it is asked again, for the turn that is closed, and hangs again
        assert time.perf_counter() - started < 1.9  # not the grace time


async def test_a_cancelled_run_can_be_gone_on_with() -> None:
    agent, _ = await cancel_at("tool")

    result = await agent.resume()

    assert result.text == "Done."


async def test_cancelling_does_not_lose_updates_that_were_accepted() -> None:
    busy = asyncio.Event()
    done = asyncio.Event()

    async def work(*, ctx: ToolContext) -> str:
        for n in range(5):
            ctx.update(str(n))
        done.set()
        return "done"

    agent, _, events = scripted(Reply(calls=[Call("work", id="c1")]), tools=[work])

    async def listen(event: AgentEvent) -> None:
        if isinstance(event, ToolExecutionUpdate) and not busy.is_set():
            busy.set()
            await asyncio.Event().wait()

    agent.subscribe(listen)
    running = asyncio.create_task(agent.prompt("go"))
    await busy.wait()
    started = time.perf_counter()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    updates = [e.partial_result.text for e in events if isinstance(e, ToolExecutionUpdate)]
    assert updates == ["0", "1", "2", "3", "4"]
    ended = next(event for event in events if isinstance(event, ToolExecutionEnd))
    assert ended.result.text == "done"
    assert time.perf_counter() - started < 1.9  # not the grace time


async def test_a_timeout_around_a_run_works_as_around_anything_else() -> None:
    tool = Hang()
    agent, _, events = scripted(Reply(calls=[HANG]), "Again.", tools=[tool.hang])

    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await agent.prompt("go")

    assert tool.cancelled
    assert_paired(events)
    assert_well_formed(agent.state.messages)
    assert (await agent.prompt("go on")).text == "Again."


async def test_abort_and_cancellation_at_once_is_a_cancellation() -> None:
    tool = Hang()
    agent, _, events = scripted(Reply(calls=[HANG]), tools=[tool.hang])

    running = asyncio.create_task(agent.prompt("go"))
    await tool.started.wait()
    agent.abort()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert_paired(events)
    assert_well_formed(agent.state.messages)


@pytest.mark.parametrize("abort_first", [True, False])
@pytest.mark.parametrize("phase", ["stream", "hook", "listener"])
async def test_abort_and_cancellation_at_once_is_a_cancellation_wherever_the_run_waits(
    phase: str, abort_first: bool
) -> None:
    speaker = Speaker()
    reached = speaker.waiting

    async def hang_once(*values: Any) -> Any:
        if not reached.is_set():
            reached.set()
            await asyncio.Event().wait()

    agent = Agent(speaker.model, stream_fn=speaker.stream_fn)
    if phase == "hook":
        agent.prepare_request = hang_once
    elif phase == "listener":
        agent.subscribe(hang_once)
    events: list[AgentEvent] = []
    agent.subscribe(events.append)

    running = asyncio.create_task(agent.prompt("go"))
    await reached.wait()
    if abort_first:
        agent.abort()
    running.cancel()
    if not abort_first:
        agent.abort()
    await asyncio.wait({running})

    assert running.cancelled()
    assert_paired(events)


# -- other threads ---------------------------------------------------------------------------


async def test_abort_may_come_from_another_thread() -> None:
    tool = Hang()
    agent, _, events = scripted(Reply(calls=[HANG]), tools=[tool.hang])

    running = asyncio.create_task(agent.prompt("go"))
    await tool.started.wait()
    thread = threading.Thread(target=agent.abort)
    thread.start()
    result = await running
    thread.join()

    assert result.stopped_by == "abort"
    assert_paired(events)


async def test_abort_from_another_thread_while_the_model_speaks() -> None:
    speaker = Speaker()
    agent = Agent(speaker.model, stream_fn=speaker.stream_fn)

    running = asyncio.create_task(agent.prompt("go"))
    await speaker.waiting.wait()
    thread = threading.Thread(target=agent.abort)
    thread.start()
    result = await running
    thread.join()

    assert (result.stop_reason, result.text) == ("aborted", "Hello")


async def test_a_listener_that_hangs_after_an_abort_is_left_after_the_grace_time() -> None:
    agent, _, events = scripted("Hello.")
    aborted = False

    async def listen(event: AgentEvent) -> None:
        nonlocal aborted
        if isinstance(event, TurnEnd) and not aborted:
            aborted = True
            agent.abort()
            await asyncio.Event().wait()

    agent.subscribe(listen)
    started = time.perf_counter()
    async with no_task_left():
        result = await agent.prompt("go")

    assert 1 < time.perf_counter() - started < 10
    assert_paired(events)
    assert result.stopped_by == "abort"
