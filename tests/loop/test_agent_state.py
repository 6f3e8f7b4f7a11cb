"""What an agent knows between runs and shows during one. Behaviours 104 to 106 and 110 to 115."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from tests.loop.traces import PLAIN, assert_paired, roles, scripted, texts, trace, until

from loopwright import Agent, set_default_stream_fn
from loopwright.errors import AgentBusy, Misuse, ModelNotFound, NoStreamFunction
from loopwright.events import (
    AgentEvent,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    TurnEnd,
)
from loopwright.loop.tool import InvalidTool
from loopwright.messages import AssistantMessage, ImageContent, TextContent, UserMessage
from loopwright.models import Model, default_models
from loopwright.testing import Call, Reply, ScriptedModel


def add(a: int, b: int) -> int:
    return a + b


ADD = Call("add", {"a": 17, "b": 25}, id="c1")


# -- state during a run ----------------------------------------------------------------------


async def test_behaviour_104_105_the_state_is_changed_before_listeners_hear_of_it() -> None:
    agent, _, _ = scripted(
        Reply("Hi", calls=[ADD, Call("add", {"a": 1, "b": 2}, id="c2")]),
        Reply("half", error="broken"),
        tools=[add],
    )
    seen: list[tuple[Any, ...]] = []

    def look(event: AgentEvent) -> None:
        state = agent.state
        match event:
            case MessageStart() | MessageUpdate():
                assert state.streaming_message == event.message
            case MessageEnd():
                assert state.streaming_message is None
                assert state.messages[-1] is event.message
            case ToolExecutionStart() | ToolExecutionEnd():
                seen.append((event.type, sorted(state.pending_tool_calls)))
            case TurnEnd():
                seen.append(("turn_end", state.error_message))
            case _:
                assert state.is_streaming

    agent.subscribe(look)
    await agent.prompt("go")

    assert seen[:4] == [
        ("tool_execution_start", ["c1"]),
        ("tool_execution_start", ["c1", "c2"]),
        seen[2],
        ("tool_execution_end", []),
    ]
    assert seen[4:] == [("turn_end", None), ("turn_end", "broken")]
    assert agent.state.error_message == "broken"


async def test_behaviour_105_the_error_is_forgotten_when_the_next_run_starts() -> None:
    agent, _, _ = scripted(Reply(error="broken"), "Fine.")

    await agent.prompt("go")
    assert agent.state.error_message == "broken"
    await agent.prompt("go")

    assert agent.state.error_message is None


async def test_behaviour_106_the_agent_is_idle_only_after_the_last_listener() -> None:
    agent, _, _ = scripted("Hello.")
    may_end = asyncio.Event()
    ending = asyncio.Event()

    async def listen(event: AgentEvent) -> None:
        if event.type == "agent_end":
            ending.set()
            await may_end.wait()

    agent.subscribe(listen)
    running = asyncio.create_task(agent.prompt("go"))
    await ending.wait()
    idle = asyncio.create_task(agent.wait_for_idle())
    await asyncio.sleep(0)

    assert agent.state.is_streaming
    assert not idle.done()
    with pytest.raises(AgentBusy):
        await agent.prompt("more")

    may_end.set()
    await running
    await idle
    assert not agent.state.is_streaming
    await agent.wait_for_idle()


async def test_a_new_run_may_begin_as_soon_as_the_agent_is_idle() -> None:
    agent, _, _ = scripted("One.", "Two.")

    async def then_prompt() -> str:
        await agent.wait_for_idle()
        return (await agent.prompt("second")).text

    first = asyncio.create_task(agent.prompt("first"))
    await asyncio.sleep(0)
    second = asyncio.create_task(then_prompt())

    assert (await first).text == "One."
    assert await second == "Two."


@pytest.mark.parametrize("method", ["prompt", "resume", "continue_", "reset"])
async def test_behaviour_110_a_second_run_is_refused_and_the_first_one_unharmed(
    method: str,
) -> None:
    agent, model, events = scripted("Hello.")
    refused: list[AgentBusy] = []

    async def listen(event: AgentEvent) -> None:
        if event.type == "turn_start":
            before = list(agent.state.messages)
            with pytest.raises(AgentBusy, match="wait_for_idle") as raised:
                if method == "prompt":
                    await agent.prompt("me too")
                elif method == "reset":
                    agent.reset()
                else:
                    await getattr(agent, method)()
            refused.append(raised.value)
            assert agent.state.messages == before

    agent.subscribe(listen)
    result = await agent.prompt("go")

    assert len(refused) == 1
    assert "steer()" in str(refused[0])
    assert "follow_up()" in str(refused[0])
    assert result.text == "Hello."
    assert trace(events) == PLAIN
    assert len(model.requests) == 1


async def test_behaviour_110_a_second_stream_is_refused_without_touching_the_run() -> None:
    agent, _, events = scripted("Hello.")
    heard: list[AgentEvent] = []

    async def listen(event: AgentEvent) -> None:
        if event.type == "turn_start":
            with pytest.raises(AgentBusy):
                async with agent.stream("me too") as stream:
                    heard.extend([event async for event in stream])

    agent.subscribe(listen)
    result = await agent.prompt("go")

    assert heard == []
    assert result.stop_reason == "stop"
    assert trace(events) == PLAIN


async def test_behaviour_111_lists_are_copied_in_and_what_is_read_can_be_changed() -> None:
    agent, model, _ = scripted("Hello.")
    messages: list[Any] = [UserMessage("one")]
    tools: list[Any] = [add]

    agent.state.messages = messages
    agent.state.tools = tools
    messages.append(UserMessage("not mine"))
    tools.clear()
    agent.state.messages.append(UserMessage("two"))
    await agent.prompt("three")

    assert texts(model.requests[0].context.messages) == ["one", "two", "three"]
    assert [tool.name for tool in model.requests[0].context.tools] == ["add"]
    assert len(messages) == 2


async def test_behaviour_112_a_run_works_on_what_was_there_when_it_began() -> None:
    def other() -> None:
        """Another tool."""

    agent, model, _ = scripted(
        Reply(calls=[ADD]), "Done.", "Later.", tools=[add], system_prompt="first"
    )

    def change(event: AgentEvent) -> None:
        if event.type == "turn_start" and len(model.requests) == 0:
            agent.state.system_prompt = "second"
            agent.state.tools = [other]
            agent.state.model = Model("scripted", "other", "scripted")
            agent.state.thinking_level = "high"

    agent.subscribe(change)
    await agent.prompt("go")
    await agent.prompt("again")

    def shape(n: int) -> tuple[Any, ...]:
        request = model.requests[n]
        return (
            request.context.system_prompt,
            [tool.name for tool in request.context.tools],
            request.model.id,
            request.options.get("reasoning"),
        )

    assert shape(0) == shape(1) == ("first", ["add"], "scripted", None)
    assert shape(2) == ("second", ["other"], "other", "high")


async def test_behaviour_112_messages_changed_during_a_run_do_not_reach_it() -> None:
    agent, model, _ = scripted(Reply(calls=[ADD]), "Done.", tools=[add])
    agent.subscribe(
        lambda event: agent.state.messages.clear() if event.type == "turn_end" else None
    )

    await agent.prompt("go")

    assert roles(model.requests[1].context.messages) == ["user", "assistant", "toolResult"]


async def test_behaviour_113_reset_forgets_the_transcript_and_all_traces_of_runs() -> None:
    agent, _, _ = scripted(Reply(error="broken"), "Hello.", tools=[add], system_prompt="stay")
    await agent.prompt("go")
    agent.steer("one")
    agent.follow_up("two")

    agent.reset()

    state = agent.state
    assert state.messages == []
    assert state.streaming_message is None
    assert state.pending_tool_calls == frozenset()
    assert state.error_message is None
    assert not agent.has_queued_messages()
    assert state.system_prompt == "stay"
    assert [tool.name for tool in state.tools] == ["add"]
    assert (await agent.prompt("again")).text == "Hello."


PICTURE = ImageContent("aGk=", "image/png")


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        (("hi",), [[TextContent("hi")]]),
        (("hi", [PICTURE, PICTURE]), [[TextContent("hi"), PICTURE, PICTURE]]),
        ((UserMessage("hi"),), ["hi"]),
        (([UserMessage("one"), UserMessage("two")],), ["one", "two"]),
        (((UserMessage("one"),),), ["one"]),
    ],
    ids=["text", "text and images", "a message", "messages", "a tuple"],
)
async def test_behaviour_114_a_prompt_is_text_text_and_images_a_message_or_several(
    prompt: Any, expected: Any
) -> None:
    agent, model, _ = scripted("Hello.")

    await agent.prompt(*prompt)

    said = model.requests[0].context.messages
    assert [message.content for message in said] == expected


@pytest.mark.parametrize("prompt", [(3,), (None,), ([3],), (UserMessage("hi"), [PICTURE])])
async def test_behaviour_114_anything_else_is_refused_before_the_run(prompt: Any) -> None:
    agent, _, events = scripted()

    with pytest.raises(Misuse):
        await agent.prompt(*prompt)

    assert events == []
    assert not agent.state.is_streaming


async def test_behaviour_115_an_empty_list_is_refused_unless_the_tail_can_be_continued() -> None:
    agent, _, events = scripted("Hello.")

    with pytest.raises(Misuse, match="nothing to say"):
        await agent.prompt([])
    assert events == []

    agent.state.messages.append(UserMessage("go"))
    result = await agent.prompt([])
    assert texts(result.messages) == ["Hello."]

    with pytest.raises(Misuse, match="nothing to say"):
        await agent.prompt([])


# -- making agents ---------------------------------------------------------------------------


def test_behaviour_126_an_agent_that_nobody_can_ask_is_refused_with_the_remedies() -> None:
    with pytest.raises(NoStreamFunction) as raised:
        Agent(Model("nowhere", "nothing", "unknown-wire"))

    assert "stream_fn=" in str(raised.value)
    assert "set_default_stream_fn" in str(raised.value)


async def test_behaviour_126_a_default_stream_function_serves_where_none_is_given() -> None:
    model = ScriptedModel([Reply("Hello.")])
    set_default_stream_fn(model.stream_fn)
    try:
        agent = Agent(model.model)
    finally:
        set_default_stream_fn(None)

    assert (await agent.prompt("go")).text == "Hello."


def test_an_unknown_model_is_refused_at_construction() -> None:
    with pytest.raises(ModelNotFound):
        Agent("nowhere/nothing")


async def test_a_model_may_be_given_by_name_with_a_thinking_level() -> None:
    model = ScriptedModel([Reply("Hello.")])
    default_models().add(model.provider)

    agent = Agent("scripted/scripted:high")
    result = await agent.prompt("go")

    assert result.text == "Hello."
    assert agent.state.thinking_level == "high"


def test_two_tools_of_one_name_are_refused() -> None:
    with pytest.raises((Misuse, InvalidTool), match="add"):
        scripted(tools=[add, add])


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("max_turns", 0),
        ("run_timeout", 0),
        ("idle_timeout", -1),
        ("tool_execution", "random"),
        ("steering_mode", "some"),
        ("follow_up_mode", "some"),
        ("before_tool_call", "no function"),
    ],
)
def test_an_option_that_cannot_be_is_refused_when_given_and_when_set(
    option: str, value: Any
) -> None:
    with pytest.raises(Misuse, match=option):
        scripted(**{option: value})

    agent, _, _ = scripted()
    with pytest.raises(Misuse, match=option):
        setattr(agent, option, value)


def test_a_name_that_is_no_option_cannot_be_set_by_mistake() -> None:
    agent, _, _ = scripted()

    with pytest.raises(AttributeError):
        agent.befor_tool_call = None  # type: ignore[attr-defined]


# -- several agents, several loops -----------------------------------------------------------


def test_prompt_sync_works_outside_an_event_loop_several_times() -> None:
    agent, model, _ = scripted(Reply(calls=[ADD]), "42.", "Still 42.", tools=[add])

    assert agent.prompt_sync("17 + 25?").text == "42."
    assert agent.prompt_sync("Sure?", [PICTURE]).text == "Still 42."
    assert roles(model.requests[-1].context.messages)[-1] == "user"


async def test_prompt_sync_inside_a_loop_says_what_to_write_instead() -> None:
    agent, _, _ = scripted("Never.")

    with pytest.raises(Misuse, match="await agent.prompt"):
        agent.prompt_sync("go")


def test_an_agent_may_be_used_in_one_event_loop_after_the_other() -> None:
    agent, _, events = scripted(Reply(calls=[ADD]), "One.", "Two.", tools=[add])

    async def once(text: str) -> str:
        agent.abort()
        agent.steer("more")
        return (await agent.prompt(text)).text

    assert asyncio.run(once("first")) == "One."
    assert asyncio.run(once("second")) == "Two."
    assert trace(events).count("agent_end") == 2


async def test_two_agents_side_by_side_do_not_disturb_each_other() -> None:
    def made(name: str) -> tuple[Agent, list[AgentEvent]]:
        agent, _, events = scripted(
            Reply(f"{name} calls", calls=[ADD], chunk_size=1, delay=0.0001),
            Reply(f"{name} is done", chunk_size=1, delay=0.0001),
            tools=[add],
        )
        return agent, events

    agents = {name: made(name) for name in ("ada", "bob")}

    async with asyncio.TaskGroup() as group:
        runs = {n: group.create_task(agent.prompt(f"I am {n}")) for n, (agent, _) in agents.items()}

    for name, run in runs.items():
        agent, events = agents[name]
        assert texts(run.result().messages) == [
            f"I am {name}",
            f"{name} calls",
            "42",
            f"{name} is done",
        ]
        assert_paired(events)
        assert len(agent.state.messages) == 4


async def test_aborting_one_of_two_agents_leaves_the_other_alone() -> None:
    started = asyncio.Event()
    go_on = asyncio.Event()

    async def wait() -> str:
        started.set()
        await go_on.wait()
        return "waited"

    one, _, _ = scripted(Reply(calls=[Call("wait")]), "Done.", tools=[wait])
    other, _, _ = scripted(Reply(calls=[Call("wait")]), "Done.", tools=[wait])
    runs = [asyncio.create_task(agent.prompt("go")) for agent in (one, other)]
    await until(lambda: one.state.pending_tool_calls and other.state.pending_tool_calls)
    await started.wait()

    one.abort()
    aborted = await runs[0]
    go_on.set()
    finished = await runs[1]

    assert aborted.stopped_by == "abort"
    assert (finished.stop_reason, finished.text) == ("stop", "Done.")


async def test_a_tool_may_run_an_agent_of_its_own() -> None:
    inner, _, _ = scripted("From inside.", messages=[AssistantMessage([TextContent("hi")])])

    async def ask(question: str) -> str:
        return (await inner.prompt(question)).text

    outer, _, _ = scripted(Reply(calls=[Call("ask", {"question": "?"})]), "Done.", tools=[ask])

    result = await outer.prompt("go")

    assert texts(result.messages) == ["go", "", "From inside.", "Done."]
