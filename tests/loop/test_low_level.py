"""The loop without an agent: as a function with a callback, and as a stream. Behaviour 125."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from tests.loop.traces import (
    PLAIN,
    REPLY,
    USER,
    assert_paired,
    assert_well_formed,
    executed,
    no_task_left,
    result_of,
    results,
    roles,
    texts,
    trace,
    until,
)

from loopwright import (
    AbortController,
    AgentContext,
    AgentLoopConfig,
    agent_loop,
    agent_loop_continue,
    run_agent_loop,
    run_agent_loop_continue,
    set_default_stream_fn,
    tool,
)
from loopwright.errors import Misuse, NoStreamFunction, NothingToResume
from loopwright.events import AgentEvent
from loopwright.messages import AgentMessage, AssistantMessage, TextContent, UserMessage
from loopwright.models import Model
from loopwright.testing import Call, Reply, ScriptedModel


def add(a: int, b: int) -> int:
    return a + b


ADD = Call("add", {"a": 17, "b": 25}, id="c1")
GO = [UserMessage("go")]
TWO_TURNS = [
    "agent_start",
    "turn_start",
    *USER,
    *REPLY,
    *executed("c1"),
    *result_of("c1"),
    "turn_end",
    "turn_start",
    *REPLY,
    "turn_end",
    "agent_end",
]


def adding() -> ScriptedModel:
    return ScriptedModel([Reply(calls=[ADD]), Reply("42")])


# -- the function ----------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["sync", "async"])
async def test_emit_may_be_sync_or_async(way: str) -> None:
    model = adding()
    events: list[AgentEvent] = []

    async def later(event: AgentEvent) -> None:
        await asyncio.sleep(0)
        events.append(event)

    returned = await run_agent_loop(
        GO,
        AgentContext("", [], [add]),
        AgentLoopConfig(model.model),
        events.append if way == "sync" else later,
        stream_fn=model.stream_fn,
    )

    assert trace(events) == TWO_TURNS
    assert texts(returned) == ["go", "", "42", "42"]


async def test_behaviour_125_an_awaited_emit_is_a_barrier() -> None:
    model = adding()
    go_on = asyncio.Event()
    heard: list[str] = []

    async def hold(event: AgentEvent) -> None:
        heard.append(event.type)
        if event.type == "turn_end":
            await go_on.wait()

    running = asyncio.create_task(
        run_agent_loop(
            GO,
            AgentContext("", [], [add]),
            AgentLoopConfig(model.model),
            hold,
            stream_fn=model.stream_fn,
        )
    )
    await until(lambda: "turn_end" in heard)
    for _ in range(20):
        await asyncio.sleep(0)
    assert heard[-1] == "turn_end"
    assert len(model.requests) == 1
    go_on.set()

    await running


async def test_all_options_of_an_agent_are_options_of_the_loop() -> None:
    model = ScriptedModel([Reply(calls=[ADD])])
    queued: list[AgentMessage] = [UserMessage("hurry")]
    config = AgentLoopConfig(
        model.model,
        thinking_level="high",
        max_turns=1,
        tool_execution="sequential",
        deps={"db": 1},
        session_id="s",
        stream_options={"temperature": 0},
        get_steering_messages=lambda: [queued.pop()] if queued else [],
    )

    returned = await run_agent_loop(
        GO, AgentContext("", [], [add]), config, lambda event: None, stream_fn=model.stream_fn
    )

    options = model.requests[0].options
    assert (options["reasoning"], options["temperature"], options["session_id"]) == ("high", 0, "s")
    assert roles(returned) == ["user", "user", "assistant", "toolResult"]


async def test_messages_fetched_but_not_said_are_handed_back() -> None:
    model = ScriptedModel([Reply("Hi.")])
    controller = AbortController()
    queued: list[AgentMessage] = []
    back: list[AgentMessage] = []

    async def prepare(turn: Any) -> None:
        controller.abort()
        await asyncio.Event().wait()

    def finish(turn: Any) -> None:
        queued.append(UserMessage("too late"))

    config = AgentLoopConfig(
        model.model,
        finish_turn=finish,
        prepare_next_turn=prepare,
        get_steering_messages=lambda: [queued.pop()] if queued else [],
        on_undelivered=back.extend,
    )

    await run_agent_loop(
        GO, AgentContext(), config, lambda event: None, controller.signal, model.stream_fn
    )

    assert texts(back) == ["too late"]


async def test_a_queue_may_be_fetched_asynchronously() -> None:
    model = ScriptedModel([Reply("One."), Reply("Two.")])
    queued: list[AgentMessage] = [UserMessage("more")]

    async def fetch() -> list[AgentMessage]:
        await asyncio.sleep(0)
        return [queued.pop()] if queued else []

    config = AgentLoopConfig(model.model, get_follow_up_messages=fetch)
    returned = await run_agent_loop(
        GO, AgentContext(), config, lambda event: None, stream_fn=model.stream_fn
    )

    assert texts(returned) == ["go", "One.", "more", "Two."]


async def test_without_a_stream_function_the_default_serves() -> None:
    model = ScriptedModel([Reply("Hi.")])
    set_default_stream_fn(model.stream_fn)
    try:
        returned = await run_agent_loop(
            GO, AgentContext(), AgentLoopConfig(model.model), lambda event: None
        )
    finally:
        set_default_stream_fn(None)

    assert texts(returned) == ["go", "Hi."]


async def test_without_anyone_to_ask_it_raises_before_any_event() -> None:
    events: list[AgentEvent] = []
    config = AgentLoopConfig(Model("nowhere", "nothing", "unknown-wire"))

    with pytest.raises(NoStreamFunction):
        await run_agent_loop(GO, AgentContext(), config, events.append)
    with pytest.raises(NoStreamFunction):
        agent_loop(GO, AgentContext(), config)

    assert events == []


@pytest.mark.parametrize("base", [asyncio.CancelledError, SystemExit])
async def test_what_emit_raises_comes_out_even_if_it_is_no_ordinary_exception(base: Any) -> None:
    if base is SystemExit:

        class Leave(BaseException):
            pass

        base = Leave
    model = adding()

    def emit(event: AgentEvent) -> None:
        if event.type == "tool_execution_start":
            raise base("out")

    async with no_task_left():
        with pytest.raises(base):
            await run_agent_loop(
                GO,
                AgentContext("", [], [add]),
                AgentLoopConfig(model.model),
                emit,
                stream_fn=model.stream_fn,
            )


# -- the stream ------------------------------------------------------------------------------


async def test_behaviour_125_the_stream_shows_every_event_in_order() -> None:
    model = adding()
    stream = agent_loop(
        GO, AgentContext("", [], [add]), AgentLoopConfig(model.model), model.stream_fn
    )

    events = [event async for event in stream]

    assert trace(events) == TWO_TURNS
    assert texts(await stream.result()) == ["go", "", "42", "42"]


async def test_behaviour_125_the_producer_does_not_wait_for_the_consumer() -> None:
    model = adding()
    stream = agent_loop(
        GO, AgentContext("", [], [add]), AgentLoopConfig(model.model), model.stream_fn
    )

    first = await anext(stream)
    await until(lambda: stream._task.done())

    assert first.type == "agent_start"
    assert trace([first, *[event async for event in stream]]) == TWO_TURNS


async def test_behaviour_125_the_result_may_be_awaited_without_reading() -> None:
    model = adding()

    async with no_task_left():
        stream = agent_loop(
            GO, AgentContext("", [], [add]), AgentLoopConfig(model.model), model.stream_fn
        )
        assert texts(await stream.result()) == ["go", "", "42", "42"]


async def test_a_stream_may_continue_a_transcript() -> None:
    model = ScriptedModel([Reply("Hi.")])

    stream = agent_loop_continue(
        AgentContext("", list(GO)), AgentLoopConfig(model.model), model.stream_fn
    )

    assert trace([event async for event in stream]) == [
        "agent_start",
        "turn_start",
        *REPLY,
        "turn_end",
        "agent_end",
    ]


async def test_wrong_calls_raise_where_they_are_made() -> None:
    model = ScriptedModel()
    answered = AgentContext("", [*GO, AssistantMessage([TextContent("hi")])])

    with pytest.raises(Misuse):
        agent_loop([], AgentContext(), AgentLoopConfig(model.model), model.stream_fn)
    with pytest.raises(NothingToResume):
        agent_loop_continue(answered, AgentLoopConfig(model.model), model.stream_fn)


class Hang:
    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.cancelled = False

    async def hang(self) -> None:
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise


def hanging() -> tuple[Hang, ScriptedModel, AgentContext]:
    thing = Hang()
    return (
        thing,
        ScriptedModel([Reply(calls=[Call("hang", id="c1")])]),
        AgentContext("", [], [tool(thing.hang)]),
    )


@pytest.mark.parametrize("way", ["cancel", "signal", "aclose"])
async def test_behaviour_091_cancelling_the_stream_aborts_the_run(way: str) -> None:
    thing, model, context = hanging()
    controller = AbortController()

    async with no_task_left():
        stream = agent_loop(
            GO, context, AgentLoopConfig(model.model), model.stream_fn, controller.signal
        )
        await thing.started.wait()
        if way == "cancel":
            stream.cancel("enough")
        elif way == "signal":
            controller.abort("enough")
        else:
            await stream.aclose()
        events = [event async for event in stream]
        messages = await stream.result()

    assert thing.cancelled
    assert_paired(events)
    assert_well_formed(messages)
    assert texts(results(messages)) == ["Operation aborted"]
    assert controller.signal._callbacks == {}


async def test_leaving_the_streams_context_aborts_the_run() -> None:
    thing, model, context = hanging()

    stream = agent_loop(GO, context, AgentLoopConfig(model.model), model.stream_fn)
    async with stream:
        async for event in stream:
            if event.type == "tool_execution_start":
                break

    assert stream._task.done()
    assert (await stream.result())[-1].role == "toolResult"
    assert thing.cancelled or not thing.started.is_set()


@pytest.mark.parametrize("reading", [True, False])
async def test_cancelling_the_reader_ends_the_run_first(reading: bool) -> None:
    thing, model, context = hanging()

    async def read() -> None:
        stream = agent_loop(GO, context, AgentLoopConfig(model.model), model.stream_fn)
        if reading:
            async for _ in stream:
                pass
        else:
            await stream.result()

    async with no_task_left():
        reader = asyncio.create_task(read())
        await thing.started.wait()
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader

    assert thing.cancelled


async def test_a_failing_run_is_a_stream_with_closing_events() -> None:
    model = ScriptedModel([Reply("half", error="broken")])
    stream = agent_loop(GO, AgentContext(), AgentLoopConfig(model.model), model.stream_fn)

    events = [event async for event in stream]

    assert trace(events) == PLAIN
    assert (await stream.result())[-1].stop_reason == "error"  # type: ignore[union-attr]


async def test_a_stream_nobody_looks_at_leaves_no_warning_behind() -> None:
    model = adding()
    stream = agent_loop(
        GO, AgentContext("", [], [add]), AgentLoopConfig(model.model), model.stream_fn
    )
    await asyncio.wait({stream._task})
    del stream

    gc.collect()


async def test_continuing_by_function_and_by_stream_is_the_same() -> None:
    history: list[AgentMessage] = [UserMessage("go")]
    one, two = (ScriptedModel([Reply("Hi.")]) for _ in range(2))

    by_function = await run_agent_loop_continue(
        AgentContext("", history),
        AgentLoopConfig(one.model),
        lambda event: None,
        stream_fn=one.stream_fn,
    )
    by_stream = await agent_loop_continue(
        AgentContext("", history), AgentLoopConfig(two.model), two.stream_fn
    ).result()

    assert texts(by_function) == texts(by_stream) == ["Hi."]
    assert texts(history) == ["go"]
