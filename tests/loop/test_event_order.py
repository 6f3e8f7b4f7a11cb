"""The order of events, to the letter. Behaviours 24 to 47."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest
from tests.loop.traces import (
    PLAIN,
    REPLY,
    USER,
    assert_paired,
    executed,
    no_task_left,
    result_of,
    results,
    roles,
    scripted,
    short,
    texts,
    trace,
    until,
)

from loopwright import (
    AbortController,
    Agent,
    AgentContext,
    AgentLoopConfig,
    ToolContext,
    run_agent_loop,
)
from loopwright.events import (
    AgentEnd,
    AgentEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    Retry,
    ToolExecutionEnd,
    TurnEnd,
    event_from_dict,
)
from loopwright.messages import (
    AssistantMessage,
    ImageContent,
    TextContent,
    Usage,
    UserMessage,
)
from loopwright.stream import (
    AssistantStream,
    Done,
    Start,
    StreamEvent,
    StreamWriter,
    TextDelta,
    TextEnd,
    TextStart,
)
from loopwright.testing import Call, Reply, ScriptedModel


def add(a: int, b: int) -> int:
    return a + b


ADD = Call("add", {"a": 17, "b": 25}, id="c1")


class Gates:
    """Tools that wait until the test lets them go, one gate a name."""

    def __init__(self, *names: str) -> None:
        self.open = {name: asyncio.Event() for name in names}
        self.running: list[str] = []

    async def wait_for(self, gate: str) -> str:
        self.running.append(gate)
        await self.open[gate].wait()
        return f"{gate} opened"


def waits(gate: str) -> Call:
    return Call("wait_for", {"gate": gate}, id=gate)


# -- plain runs ------------------------------------------------------------------------------


async def test_behaviour_024_a_plain_prompt() -> None:
    agent, _, events = scripted(Reply("Hello there", chunk_size=4))

    await agent.prompt("Hi")

    assert trace(events, updates=True) == [
        "agent_start",
        "turn_start",
        "user start",
        "user end",
        "assistant start",
        *["update"] * 5,  # the block's start, three deltas, its end
        "assistant end",
        "turn_end",
        "agent_end",
    ]
    assert [e.tool_results for e in events if isinstance(e, TurnEnd)] == [[]]


async def test_behaviour_025_a_prompt_with_one_tool_takes_two_turns() -> None:
    async def add_slowly(a: int, b: int, *, ctx: ToolContext) -> int:
        ctx.update("thinking")
        ctx.update("still thinking")
        return a + b

    agent, _, events = scripted(
        Reply(calls=[Call("add_slowly", {"a": 17, "b": 25}, id="c1")]), "42", tools=[add_slowly]
    )

    await agent.prompt("17 + 25?")

    assert trace(events) == [
        "agent_start",
        "turn_start",
        *USER,
        *REPLY,
        "tool c1 start",
        "tool c1 update",
        "tool c1 update",
        "tool c1 end",
        *result_of("c1"),
        "turn_end",
        "turn_start",
        *REPLY,
        "turn_end",
        "agent_end",
    ]


async def test_behaviour_026_every_prompt_has_its_pair_inside_the_first_turn() -> None:
    agent, _, events = scripted("Yes.")

    await agent.prompt([UserMessage("one"), UserMessage("two")])

    assert trace(events) == [
        "agent_start",
        "turn_start",
        *USER,
        *USER,
        *REPLY,
        "turn_end",
        "agent_end",
    ]
    said = [e.message for e in events if isinstance(e, MessageEnd)]
    assert texts(said) == ["one", "two", "Yes."]


async def test_behaviour_026_there_is_one_turn_start_for_each_reply() -> None:
    agent, _, events = scripted(*[Reply(calls=[ADD])] * 4, "Done.", "More.", tools=[add])
    agent.follow_up("more")

    result = await agent.prompt("go")

    replies = roles(result.messages).count("assistant")
    assert replies == 6
    assert trace(events).count("turn_start") == trace(events).count("turn_end") == replies


async def test_behaviour_027_steering_found_at_the_start_comes_after_the_prompts() -> None:
    agent, _, events = scripted("Yes.")
    agent.steer("Quick!")

    await agent.prompt([UserMessage("one"), UserMessage("two")])

    assert trace(events) == [
        "agent_start",
        "turn_start",
        *USER,
        *USER,
        *USER,
        *REPLY,
        "turn_end",
        "agent_end",
    ]
    said = [e.message for e in events if isinstance(e, MessageEnd)]
    assert texts(said)[:3] == ["one", "two", "Quick!"]


async def test_behaviour_028_steering_found_after_a_turn_opens_the_next_one() -> None:
    agent, _, events = scripted(Reply(calls=[ADD]), "Done.", tools=[add])
    agent.subscribe(
        lambda event: agent.steer("Wait") if event.type == "tool_execution_start" else None
    )

    await agent.prompt("go")

    assert trace(events) == [
        "agent_start",
        "turn_start",
        *USER,
        *REPLY,
        *executed("c1"),
        *result_of("c1"),
        "turn_end",
        "turn_start",
        *USER,
        *REPLY,
        "turn_end",
        "agent_end",
    ]


async def test_behaviour_029_a_follow_up_has_the_same_shape() -> None:
    agent, _, events = scripted("One.", "Two.")
    agent.follow_up("And?")

    await agent.prompt("go")

    assert trace(events) == [
        "agent_start",
        "turn_start",
        *USER,
        *REPLY,
        "turn_end",
        "turn_start",
        *USER,
        *REPLY,
        "turn_end",
        "agent_end",
    ]


async def test_behaviour_029_follow_ups_are_polled_only_when_nothing_else_is_due() -> None:
    polls: list[str] = []
    model = ScriptedModel([Reply(calls=[ADD]), Reply("Done."), Reply("Steered.")])
    steering = [[], [UserMessage("also")], []]
    config = AgentLoopConfig(
        model.model,
        get_steering_messages=lambda: polls.append("steering") or (steering and steering.pop(0)),
        get_follow_up_messages=lambda: polls.append("follow-up") or [],
    )

    await run_agent_loop(
        [UserMessage("go")],
        AgentContext("", [], [add]),
        config,
        lambda event: None,
        stream_fn=model.stream_fn,
    )

    assert polls == ["steering"] * 3 + ["follow-up"]


async def test_behaviour_030_a_continued_run_goes_straight_to_the_reply() -> None:
    agent, _, events = scripted("Done.", messages=[UserMessage("go")])

    await agent.resume()

    assert trace(events) == ["agent_start", "turn_start", *REPLY, "turn_end", "agent_end"]


# -- batches ---------------------------------------------------------------------------------


async def test_behaviour_031_one_at_a_time_finishes_each_call_before_the_next() -> None:
    async def report(*, ctx: ToolContext) -> str:
        ctx.update("half")
        return "whole"

    calls = [Call("report", id="a"), Call("missing", id="b"), Call("report", id="c")]
    agent, _, events = scripted(
        Reply(calls=calls), "Done.", tools=[report], tool_execution="sequential"
    )

    await agent.prompt("go")

    assert trace(events)[6:-5] == [
        "tool a start",
        "tool a update",
        "tool a end",
        *result_of("a"),
        *executed("b"),
        *result_of("b"),
        "tool c start",
        "tool c update",
        "tool c end",
        *result_of("c"),
        "turn_end",
    ]


async def test_behaviour_032_side_by_side_starts_in_order_ends_as_they_come() -> None:
    gates = Gates("a", "b", "c")
    calls = [waits("a"), Call("missing", id="x"), waits("b"), waits("c")]
    agent, _, events = scripted(Reply(calls=calls), "Done.", tools=[gates.wait_for])

    running = asyncio.create_task(agent.prompt("go"))
    for name in ("c", "a", "b"):
        await until(lambda: len(gates.running) == 3)
        gates.open[name].set()
        await until(lambda name=name: f"tool {name} end" in trace(events))
    await running

    assert trace(events)[6:-5] == [
        "tool a start",
        "tool x start",
        "tool x end",
        "tool b start",
        "tool c start",
        "tool c end",
        "tool a end",
        "tool b end",
        *result_of("a", "x", "b", "c"),
        "turn_end",
    ]


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
async def test_behaviour_033_results_stand_in_source_order_everywhere(mode: Any) -> None:
    gates = Gates("a", "b", "c")
    agent, model, events = scripted(
        Reply(calls=[waits(name) for name in "abc"]),
        "Done.",
        tools=[gates.wait_for],
        tool_execution=mode,
    )

    running = asyncio.create_task(agent.prompt("go"))
    for name in "cba" if mode == "parallel" else "abc":
        await until(lambda name=name: name in gates.running)
        gates.open[name].set()
    result = await running

    turn = next(event for event in events if isinstance(event, TurnEnd))
    assert [r.tool_call_id for r in turn.tool_results] == ["a", "b", "c"]
    assert [r.tool_call_id for r in results(result.messages)] == ["a", "b", "c"]
    assert [r.tool_call_id for r in results(model.requests[1].context.messages)] == ["a", "b", "c"]
    assert [name for name in trace(events) if name.startswith("result")] == result_of(*"abc")


async def test_behaviour_034_a_truncated_batch_runs_through_call_by_call() -> None:
    calls = [ADD, Call("add", {"a": 1}, id="c2")]
    agent, _, events = scripted(Reply(calls=calls, stop_reason="length"), "Shorter.", tools=[add])

    await agent.prompt("go")

    assert trace(events) == [
        "agent_start",
        "turn_start",
        *USER,
        *REPLY,
        *executed("c1"),
        *result_of("c1"),
        *executed("c2"),
        *result_of("c2"),
        "turn_end",
        "turn_start",
        *REPLY,
        "turn_end",
        "agent_end",
    ]
    assert all(e.is_error for e in events if isinstance(e, ToolExecutionEnd))


# -- failures --------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "half"])
async def test_behaviour_035_a_reported_failure_has_one_start_and_one_end(text: str) -> None:
    agent, _, events = scripted(Reply(text, error="the vendor fell over"))

    await agent.prompt("go")

    assert trace(events) == PLAIN
    message = next(e.message for e in events if isinstance(e, TurnEnd))
    assert message.stop_reason == "error"
    assert message.error_message == "the vendor fell over"
    assert message.text == text


def raising(*args: Any, **options: Any) -> AssistantStream:
    raise RuntimeError("no route to the vendor")


async def raising_async(*args: Any, **options: Any) -> AssistantStream:
    raise RuntimeError("no route to the vendor")


@pytest.mark.parametrize("stream_fn", [raising, raising_async])
@pytest.mark.parametrize("level", ["agent", "low"])
async def test_behaviour_036_a_stream_function_that_raises_gives_the_full_order(
    stream_fn: Any, level: str
) -> None:
    model = ScriptedModel().model
    events: list[AgentEvent] = []

    if level == "agent":
        agent = Agent(model, stream_fn=stream_fn)
        agent.subscribe(events.append)
        result = await agent.prompt("go")
        assert result.stop_reason == result.stopped_by == "error"
        assert result.error_message == "no route to the vendor"
    else:
        await run_agent_loop(
            [UserMessage("go")],
            AgentContext(),
            AgentLoopConfig(model),
            events.append,
            stream_fn=stream_fn,
        )

    assert trace(events) == PLAIN
    message = next(e.message for e in events if isinstance(e, TurnEnd))
    assert (message.api, message.provider, message.model) == (model.api, model.provider, model.id)
    assert message.text == ""
    assert message.stop_reason == "error"
    assert message.error_message == "no route to the vendor"


async def test_behaviour_036_what_is_no_stream_at_all_is_such_a_failure() -> None:
    agent = Agent(ScriptedModel().model, stream_fn=lambda *args, **options: "hello")  # type: ignore[arg-type,return-value]

    result = await agent.prompt("go")

    assert result.stop_reason == "error"
    assert "must return an AssistantStream" in str(result.error_message)


async def test_behaviour_037_a_failure_after_an_abort_is_labelled_aborted() -> None:
    agent = Agent(ScriptedModel().model, stream_fn=raising)
    events: list[AgentEvent] = []
    agent.subscribe(events.append)

    def abort_and_raise(*args: Any, **options: Any) -> AssistantStream:
        agent.abort()
        raise RuntimeError("because of the abort")

    agent.stream_fn = abort_and_raise
    result = await agent.prompt("go")

    assert trace(events) == PLAIN
    assert next(e.message for e in events if isinstance(e, TurnEnd)).stop_reason == "aborted"
    assert (result.stop_reason, result.stopped_by) == ("aborted", "abort")


async def test_behaviour_038_a_failed_run_ends_with_all_its_messages_and_the_failure() -> None:
    replies = ScriptedModel([Reply(calls=[ADD])])

    def fails_later(*args: Any, **options: Any) -> AssistantStream:
        if replies.requests:
            raise RuntimeError("gone")
        return replies.stream_fn(*args, **options)

    agent = Agent(replies.model, stream_fn=fails_later, tools=[add])
    events: list[AgentEvent] = []
    agent.subscribe(events.append)

    await agent.prompt("go")

    ended = events[-1]
    assert isinstance(ended, AgentEnd)
    assert roles(ended.messages) == ["user", "assistant", "toolResult", "assistant"]
    assert ended.messages[-1].error_message == "gone"  # type: ignore[union-attr]


async def test_behaviour_039_an_abort_while_the_model_speaks_closes_everything() -> None:
    agent, _, events = scripted(Reply("A long answer", chunk_size=2))
    agent.subscribe(lambda event: agent.abort() if event.type == "message_update" else None)

    await agent.prompt("go")

    assert trace(events)[-4:] == ["assistant start", "assistant end", "turn_end", "agent_end"]
    assert next(e.message for e in events if isinstance(e, TurnEnd)).stop_reason == "aborted"
    assert_paired(events)


async def test_behaviour_040_outer_cancellation_closes_what_is_open_then_propagates() -> None:
    agent, _, events = scripted(Reply("Hello", chunk_size=1, delay=0.001))
    spoken = asyncio.Event()

    def listen(event: AgentEvent) -> None:
        if isinstance(event, MessageUpdate) and event.message.text:
            spoken.set()

    agent.subscribe(listen)
    async with no_task_left():
        running = asyncio.create_task(agent.prompt("go"))
        await spoken.wait()
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running

    assert trace(events) == PLAIN
    assert_paired(events)
    message = next(e.message for e in events if isinstance(e, TurnEnd))
    assert message.stop_reason == "aborted"
    assert message.text
    assert agent.state.messages[-1] is message
    assert not agent.state.is_streaming


# -- updates ---------------------------------------------------------------------------------


async def test_behaviour_041_updates_are_of_replies_only_and_carry_the_stream_event() -> None:
    agent, _, events = scripted(
        Reply("Hi", thinking="Hm", calls=[Call("add", {"a": 1, "b": 2}, id="c1")]),
        "Done.",
        tools=[add],
    )

    await agent.prompt([UserMessage("one"), UserMessage([ImageContent("", "image/png")])])

    updates = [event for event in events if isinstance(event, MessageUpdate)]
    assert [update.assistant_message_event.type for update in updates] == [
        "thinking_start",
        "thinking_delta",
        "thinking_end",
        "text_start",
        "text_delta",
        "text_end",
        "toolcall_start",
        "toolcall_delta",
        "toolcall_end",
        "text_start",
        "text_delta",
        "text_end",
    ]
    assert {update.message.role for update in updates} == {"assistant"}


class Sparkle(StreamEvent, tag="sparkle"):
    """An event of a kind that did not exist when the loop was written."""

    type: ClassVar[str] = "sparkle"
    colour: str
    partial: AssistantMessage = AssistantMessage([])
    _at: int = 0


async def test_behaviour_042_events_of_a_new_kind_pass_through() -> None:
    message = AssistantMessage([TextContent("Hi")])

    def stream_fn(*args: Any, **options: Any) -> AssistantStream:
        return AssistantStream.from_events(
            [Start(message), Sparkle("green", message), Done("stop", message)]  # type: ignore[list-item]
        )

    agent = Agent(ScriptedModel().model, stream_fn=stream_fn)
    events: list[AgentEvent] = []
    agent.subscribe(events.append)

    result = await agent.prompt("go")

    assert result.text == "Hi"
    sparkles = [e.assistant_message_event for e in events if isinstance(e, MessageUpdate)]
    assert [(event.type, event.colour) for event in sparkles] == [  # type: ignore[union-attr]
        ("sparkle", "green")
    ]


async def test_behaviour_043_the_message_of_an_update_is_exact_however_late_it_is_read() -> None:
    agent, _, events = scripted(Reply("abcdef", chunk_size=2))
    read_at_once: list[str] = []
    agent.subscribe(
        lambda event: (
            read_at_once.append(event.message.text) if isinstance(event, MessageUpdate) else None
        )
    )

    await agent.prompt("go")

    updates = [event for event in events if isinstance(event, MessageUpdate)]
    assert read_at_once == ["", "ab", "abcd", "abcdef", "abcdef"]
    assert [update.message.text for update in updates] == read_at_once
    assert [update.message.text for update in reversed(updates)] == read_at_once[::-1]
    updates[1].message.content.clear()
    assert updates[1].message.text == "ab"
    assert updates[2].message.text == "abcd"


async def test_behaviour_044_the_growing_reply_is_one_place_and_becomes_one_entry() -> None:
    agent, _, _ = scripted(Reply("abcd", chunk_size=1))
    lengths: set[int] = set()
    shown: list[str] = []

    def listen(event: AgentEvent) -> None:
        if isinstance(event, MessageUpdate):
            lengths.add(len(agent.state.messages))
            shown.append(agent.state.streaming_message.text)  # type: ignore[union-attr]

    agent.subscribe(listen)
    await agent.prompt("go")

    assert lengths == {1}
    assert shown == ["", "a", "ab", "abc", "abcd", "abcd"]
    assert texts(agent.state.messages) == ["go", "abcd"]
    assert agent.state.streaming_message is None


async def test_behaviour_045_a_stream_without_a_start_still_gives_a_message_start() -> None:
    async def stream_fn(*args: Any, **options: Any) -> AssistantStream:
        return AssistantStream.from_events([Done("stop", AssistantMessage([TextContent("Hi")]))])

    agent = Agent(ScriptedModel().model, stream_fn=stream_fn)
    events: list[AgentEvent] = []
    agent.subscribe(events.append)

    await agent.prompt("go")

    assert trace(events, updates=True) == PLAIN
    start = next(e for e in reversed(events) if isinstance(e, MessageStart))
    assert start.message.text == "Hi"  # type: ignore[union-attr]


async def test_behaviour_045_a_stream_that_begins_with_a_delta_gives_a_message_start_too() -> None:
    def stream_fn(*args: Any, **options: Any) -> AssistantStream:
        return AssistantStream.from_events(
            [
                TextStart(0),
                TextDelta(0, "Hi"),
                TextEnd(0, "Hi"),
                Done("stop", AssistantMessage([TextContent("Hi")])),
            ]
        )

    agent = Agent(ScriptedModel().model, stream_fn=stream_fn)
    events: list[AgentEvent] = []
    agent.subscribe(events.append)

    await agent.prompt("go")

    assert trace(events, updates=True)[4:-2] == [
        "assistant start",
        *["update"] * 3,
        "assistant end",
    ]


async def test_a_plain_async_generator_may_stand_for_a_stream() -> None:
    async def stream_fn(*args: Any, **options: Any) -> AsyncIterator[Any]:
        yield TextStart(0)
        yield TextDelta(0, "Hi")
        yield TextEnd(0, "Hi")
        yield Done("stop", AssistantMessage([TextContent("Hi")]))

    agent = Agent(ScriptedModel().model, stream_fn=stream_fn)  # type: ignore[arg-type]

    assert (await agent.prompt("go")).text == "Hi"


async def test_a_stream_that_stops_without_an_end_is_an_error_with_what_came() -> None:
    def stream_fn(*args: Any, **options: Any) -> AssistantStream:
        return AssistantStream.from_events([TextStart(0), TextDelta(0, "Half")])

    agent = Agent(ScriptedModel().model, stream_fn=stream_fn)

    result = await agent.prompt("go")

    assert result.stop_reason == "error"
    assert result.text == "Half"


async def test_a_pushed_stream_works_like_any_other() -> None:
    writer = StreamWriter()

    async def push() -> None:
        writer.text("Hel")
        await asyncio.sleep(0)
        writer.text("lo")
        writer.tool_call("c1", "add", {"a": 1, "b": 2})
        writer.done("toolUse")

    second = ScriptedModel([Reply("3")])
    streams = [writer.stream]

    def stream_fn(*args: Any, **options: Any) -> AssistantStream:
        return streams.pop() if streams else second.stream_fn(*args, **options)

    agent = Agent(second.model, stream_fn=stream_fn, tools=[add])
    async with asyncio.TaskGroup() as group:
        group.create_task(push())
        running = group.create_task(agent.prompt("go"))

    assert texts(running.result().messages) == ["go", "Hello", "3", "3"]


async def test_a_retry_is_passed_on_between_turn_start_and_message_start() -> None:
    spent = Usage(input=7, total_tokens=7)
    message = AssistantMessage([TextContent("Hi")], usage=Usage(input=1, total_tokens=1))

    def stream_fn(*args: Any, **options: Any) -> AssistantStream:
        return AssistantStream.from_events(
            [Retry(1, 3, 0.0, "overloaded", spent), Start(message), Done("stop", message)]
        )

    agent = Agent(ScriptedModel().model, stream_fn=stream_fn)
    events: list[AgentEvent] = []
    agent.subscribe(events.append)

    result = await agent.prompt("go")

    assert trace(events, updates=True) == [
        "agent_start",
        "turn_start",
        *USER,
        "retry",
        *REPLY,
        "turn_end",
        "agent_end",
    ]
    assert result.usage.input == 8


# -- pairs and forms -------------------------------------------------------------------------


@pytest.mark.parametrize("stop_at", range(40))
async def test_behaviour_046_starts_and_ends_pair_wherever_the_run_is_aborted(
    stop_at: int,
) -> None:
    gates = Gates("a", "b")
    for gate in gates.open.values():
        gate.set()
    agent, _, events = scripted(
        Reply("Hi", thinking="Hm", calls=[waits("a"), Call("missing", id="x"), waits("b")]),
        Reply("And", calls=[waits("a")]),
        "Done.",
        tools=[gates.wait_for],
    )
    agent.follow_up("more")

    def listen(event: AgentEvent) -> None:
        if len(events) == stop_at:
            agent.abort()

    agent.subscribe(listen)
    await agent.prompt("go")

    assert_paired(events)
    assert not agent.state.is_streaming
    assert not agent.state.pending_tool_calls


async def test_behaviour_047_events_are_written_all_in_one_case() -> None:
    agent, _, events = scripted(
        Reply("Hi", calls=[Call("add", {"a": 17, "b": 25, "camelKey_too": 1}, id="c1")]),
        "Done.",
        tools=[add],
    )

    await agent.prompt("go")

    def keys(value: Any, path: str = "") -> set[str]:
        if isinstance(value, dict):
            found = set(value) if path not in ("args", "arguments", "details") else set()
            return found.union(*(keys(item, key) for key, item in value.items()))
        if isinstance(value, list):
            return set().union(*(keys(item, path) for item in value))
        return set()

    for event in events:
        snake = keys(event.to_dict())
        camel = keys(json.loads(event.to_json()))
        assert [key for key in snake if key != key.lower()] == []
        assert [key for key in camel if "_" in key and key != "camelKey_too"] == []
        if not isinstance(event, MessageUpdate):
            assert short(event_from_dict(event.to_dict())) == short(event)
            assert event_from_dict(json.loads(event.to_json())) == event
    assert any("tool_call_id" in keys(event.to_dict()) for event in events)


async def test_a_signal_given_to_the_low_level_function_aborts_it_before_anything_is_asked() -> (
    None
):
    model = ScriptedModel([Reply("Never.")])
    controller = AbortController()
    controller.abort()
    events: list[AgentEvent] = []

    returned = await run_agent_loop(
        [UserMessage("go")],
        AgentContext(),
        AgentLoopConfig(model.model),
        events.append,
        controller.signal,
        model.stream_fn,
    )

    assert trace(events) == PLAIN
    assert model.requests == []
    assert returned[-1].stop_reason == "aborted"  # type: ignore[union-attr]
