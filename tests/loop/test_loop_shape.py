"""The shape of a run: what makes it go on, and what ends it. Behaviours 1 to 23."""

from __future__ import annotations

import pytest
from tests.loop.traces import (
    PLAIN,
    REPLY,
    USER,
    assert_paired,
    assert_well_formed,
    results,
    roles,
    scripted,
    texts,
    trace,
)

from loopwright import (
    AgentContext,
    AgentLoopConfig,
    FinishTurn,
    TurnContext,
    TurnUpdate,
    run_agent_loop,
    run_agent_loop_continue,
)
from loopwright.errors import Misuse, NothingToResume
from loopwright.events import AgentEnd, AgentEvent, MessageEnd, TurnEnd
from loopwright.messages import (
    AssistantMessage,
    CustomMessage,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from loopwright.models import Model
from loopwright.testing import Call, Reply, ScriptedModel


def add(a: int, b: int) -> int:
    return a + b


def note(text: str) -> str:
    return f"noted {text}"


ADD = Call("add", {"a": 17, "b": 25}, id="c1")


# -- turns -----------------------------------------------------------------------------------


async def test_behaviour_001_a_run_asks_runs_the_tools_and_asks_again_until_nothing_is_left() -> (
    None
):
    agent, model, _ = scripted(
        Reply("Adding.", calls=[ADD]), "The sum is 42.", "Anything else?", tools=[add]
    )
    agent.follow_up("Thanks.")

    result = await agent.prompt("17 + 25?")

    assert result.stop_reason == "stop"
    assert result.stopped_by is None
    assert roles(result.messages) == [
        "user",
        "assistant",
        "toolResult",
        "assistant",
        "user",
        "assistant",
    ]
    assert texts(result.messages) == [
        "17 + 25?",
        "Adding.",
        "42",
        "The sum is 42.",
        "Thanks.",
        "Anything else?",
    ]
    assert len(model.requests) == 3
    assert roles(model.requests[1].context.messages) == ["user", "assistant", "toolResult"]


async def test_behaviour_002_a_turn_is_one_reply_and_all_the_calls_it_caused() -> None:
    agent, _, events = scripted(
        Reply(calls=[ADD, Call("add", {"a": 1, "b": 2}, id="c2")]), "Done.", tools=[add]
    )

    await agent.prompt("go")

    turns = [event for event in events if isinstance(event, TurnEnd)]
    assert [[r.tool_call_id for r in turn.tool_results] for turn in turns] == [["c1", "c2"], []]
    assert [turn.message.text for turn in turns] == ["", "Done."]


async def test_behaviour_003_follow_ups_wait_until_results_and_steering_are_dealt_with() -> None:
    agent, _, _ = scripted(
        Reply(calls=[ADD]), "After the tool.", "After steering.", "At last.", tools=[add]
    )
    agent.follow_up("follow-up")

    def steer_once(turn: TurnContext) -> None:
        if turn.message.text == "After the tool.":
            agent.steer("steering")

    agent.finish_turn = steer_once
    result = await agent.prompt("go")

    assert texts(result.messages)[2:] == [
        "42",
        "After the tool.",
        "steering",
        "After steering.",
        "follow-up",
        "At last.",
    ]


async def test_behaviour_004_text_typed_before_the_run_joins_its_first_turn() -> None:
    agent, model, events = scripted("Yes.")
    agent.steer("And be quick.")

    result = await agent.prompt("Hello?")

    assert texts(model.requests[0].context.messages) == ["Hello?", "And be quick."]
    assert trace(events).count("turn_start") == 1
    assert texts(result.messages) == ["Hello?", "And be quick.", "Yes."]


async def test_behaviour_005_calls_run_although_the_stop_reason_says_stop() -> None:
    agent, model, _ = scripted(Reply(calls=[ADD], stop_reason="stop"), "Done.", tools=[add])

    result = await agent.prompt("go")

    assert results(result.messages)[0].text == "42"
    assert len(model.requests) == 2


async def test_behaviour_006_an_error_ends_the_run_at_once() -> None:
    agent, model, events = scripted(
        Reply("Half", calls=[ADD], error="the vendor fell over"), tools=[add]
    )
    agent.follow_up("later")

    result = await agent.prompt("go")

    assert trace(events) == PLAIN
    assert [e.tool_results for e in events if isinstance(e, TurnEnd)] == [[]]
    assert result.stop_reason == "error"
    assert len(model.requests) == 1
    assert texts(result.undelivered) == ["later"]


async def test_behaviour_007_the_run_returns_the_list_of_agent_end_without_earlier_history() -> (
    None
):
    model = ScriptedModel([Reply(calls=[ADD]), Reply("Done.")])
    before = [UserMessage("earlier"), AssistantMessage([TextContent("yes")])]
    context = AgentContext("", list(before), [add])
    events: list[AgentEvent] = []
    steering = [[UserMessage("be brief")], []]
    config = AgentLoopConfig(
        model.model, get_steering_messages=lambda: steering.pop(0) if steering else []
    )

    returned = await run_agent_loop(
        [UserMessage("go")], context, config, events.append, stream_fn=model.stream_fn
    )

    ended = events[-1]
    assert isinstance(ended, AgentEnd)
    assert ended.messages is returned
    assert roles(returned) == ["user", "user", "assistant", "toolResult", "assistant"]
    assert [m for m in returned if m in before] == []


async def test_behaviour_008_a_continued_run_starts_with_no_new_messages() -> None:
    model = ScriptedModel([Reply("Done.")])
    context = AgentContext("", [UserMessage("go")])

    returned = await run_agent_loop_continue(
        context, AgentLoopConfig(model.model), lambda event: None, stream_fn=model.stream_fn
    )

    assert roles(returned) == ["assistant"]


@pytest.mark.parametrize("way", ["prompt", "continue"])
async def test_behaviour_009_the_context_of_the_caller_is_never_changed(way: str) -> None:
    model = ScriptedModel([Reply(calls=[ADD]), Reply("Done.")])
    context = AgentContext("prompt", [UserMessage("earlier")], [add])
    messages, tools = context.messages, context.tools
    config = AgentLoopConfig(model.model)

    if way == "prompt":
        await run_agent_loop(
            [UserMessage("go")], context, config, lambda event: None, stream_fn=model.stream_fn
        )
    else:
        await run_agent_loop_continue(
            context, config, lambda event: None, stream_fn=model.stream_fn
        )

    assert context.messages is messages
    assert texts(messages) == ["earlier"]
    assert context.tools is tools
    assert tools == [add]


async def test_behaviour_010_continuing_needs_something_to_answer_and_says_so_before_any_event() -> (
    None
):
    model = ScriptedModel()
    config = AgentLoopConfig(model.model)
    events: list[AgentEvent] = []
    empty = AgentContext()
    answered = AgentContext("", [UserMessage("go"), AssistantMessage([TextContent("done")])])

    for context in (empty, answered):
        with pytest.raises(NothingToResume):
            await run_agent_loop_continue(context, config, events.append, stream_fn=model.stream_fn)

    assert events == []
    assert model.requests == []


class Note(CustomMessage, tag="note-loop-shape"):
    text: str


async def test_behaviour_010_a_custom_message_may_be_the_last() -> None:
    model = ScriptedModel([Reply("Noted.")])
    config = AgentLoopConfig(
        model.model, convert_to_llm=lambda messages: [UserMessage(m.text) for m in messages]
    )

    returned = await run_agent_loop_continue(
        AgentContext("", [Note(text="remember")]),
        config,
        lambda event: None,
        stream_fn=model.stream_fn,
    )

    assert texts(returned) == ["Noted."]
    assert texts(model.requests[0].context.messages) == ["remember"]


async def test_behaviour_010_a_run_without_prompts_is_refused_before_any_event() -> None:
    model = ScriptedModel()
    events: list[AgentEvent] = []

    with pytest.raises(Misuse, match="empty"):
        await run_agent_loop(
            [], AgentContext(), AgentLoopConfig(model.model), events.append, None, model.stream_fn
        )

    assert events == []


@pytest.mark.parametrize("stop_reason", ["error", "aborted"])
async def test_behaviour_011_resume_after_a_failure_asks_again_and_history_keeps_the_failure(
    stop_reason: str,
) -> None:
    agent, model, _ = scripted(Reply("half", stop_reason=stop_reason), "Whole.")  # type: ignore[arg-type]

    first = await agent.prompt("go")
    second = await agent.resume()

    assert first.stop_reason == "error"  # nobody aborted, whatever the model claims
    assert second.stop_reason == "stop"
    assert texts(model.requests[1].context.messages) == ["go"]
    assert texts(agent.state.messages) == ["go", "half", "Whole."]


async def test_behaviour_011_the_low_level_function_accepts_a_failed_tail_too() -> None:
    model = ScriptedModel([Reply("Whole.")])
    failed = AssistantMessage(
        [TextContent("half"), ToolCall("c1", "add", {})], stop_reason="aborted"
    )

    returned = await run_agent_loop_continue(
        AgentContext("", [UserMessage("go"), failed]),
        AgentLoopConfig(model.model),
        lambda event: None,
        stream_fn=model.stream_fn,
    )

    assert texts(returned) == ["Whole."]
    assert texts(model.requests[0].context.messages) == ["go"]


async def test_behaviour_011_prompting_after_a_failure_works_as_well() -> None:
    agent, model, _ = scripted(Reply("half", error="no"), "Whole.")

    await agent.prompt("go")
    await agent.prompt("again")

    assert texts(model.requests[1].context.messages) == ["go", "again"]


# -- limits and verdicts ---------------------------------------------------------------------


async def test_behaviour_012_without_a_limit_the_run_goes_on_as_long_as_the_model_calls() -> None:
    agent, model, _ = scripted(*[Reply(calls=[ADD]) for _ in range(30)], "Done.", tools=[add])

    result = await agent.prompt("go")

    assert result.text == "Done."
    assert len(model.requests) == 31


@pytest.mark.parametrize("as_hook", [False, True])
async def test_behaviour_012_turns_can_be_bounded(as_hook: bool) -> None:
    agent, model, _ = scripted(*[Reply(calls=[ADD]) for _ in range(5)], tools=[add])
    if as_hook:
        agent.finish_turn = lambda turn: (
            FinishTurn.END if len(results(turn.new_messages)) == 2 else None
        )
    else:
        agent.max_turns = 2

    result = await agent.prompt("go")

    assert len(model.requests) == 2
    assert result.stopped_by == ("hook" if as_hook else "max_turns")


async def test_behaviour_013_the_turn_limit_counts_only_the_replies_of_this_run() -> None:
    agent, model, _ = scripted("1", "2", "3", Reply(calls=[ADD]), "5", tools=[add], max_turns=2)

    for _ in range(3):
        assert (await agent.prompt("again")).stopped_by is None
    result = await agent.prompt("and a tool")

    assert result.stopped_by is None
    assert result.text == "5"
    assert len(model.requests) == 5


async def test_behaviour_014_reaching_the_limit_is_told_and_the_transcript_can_be_sent() -> None:
    agent, model, events = scripted(Reply(calls=[ADD]), "Done.", tools=[add], max_turns=1)
    agent.follow_up("later")

    result = await agent.prompt("go")

    assert result.stopped_by == "max_turns"
    assert result.stop_reason == "toolUse"
    assert roles(result.messages) == ["user", "assistant", "toolResult"]
    assert_well_formed(agent.state.messages)
    assert_paired(events)
    assert texts(result.undelivered) == ["later"]

    agent.max_turns = None
    agent.clear_all_queues()
    assert (await agent.resume()).text == "Done."
    assert roles(model.requests[1].context.messages) == ["user", "assistant", "toolResult"]


async def test_behaviour_014_a_run_that_ends_by_itself_at_the_limit_is_no_reached_limit() -> None:
    agent, _, _ = scripted(Reply(calls=[ADD]), "Done.", tools=[add], max_turns=2)

    result = await agent.prompt("go")

    assert result.stopped_by is None
    assert result.stop_reason == "stop"


async def test_behaviour_015_finish_turn_runs_before_turn_end_also_for_failed_turns() -> None:
    seen: list[str] = []
    agent, _, _ = scripted("Fine.", Reply(error="broken"))
    agent.subscribe(lambda event: seen.append(event.type) if event.type == "turn_end" else None)
    agent.finish_turn = lambda turn: seen.append(f"finish {turn.message.stop_reason}")
    agent.should_stop_after_turn = lambda turn: bool(seen.append("should_stop"))

    await agent.prompt("go")
    await agent.prompt("go")

    assert seen == ["finish stop", "turn_end", "should_stop", "finish error", "turn_end"]


async def test_behaviour_015_016_should_stop_sees_the_finished_turn_and_leaves_the_queues() -> None:
    turns: list[TurnContext] = []
    agent, model, events = scripted(Reply(calls=[ADD]), tools=[add])

    def should_stop(turn: TurnContext) -> bool:
        turns.append(turn)
        agent.steer("steering")
        agent.follow_up("follow-up")
        return True

    agent.should_stop_after_turn = should_stop
    result = await agent.prompt("go")

    assert turns[0].message.tool_calls[0].name == "add"
    assert [r.text for r in turns[0].tool_results] == ["42"]
    assert roles(turns[0].new_messages) == ["user", "assistant", "toolResult"]
    assert result.stopped_by == "hook"
    assert len(model.requests) == 1
    assert trace(events)[-2:] == ["turn_end", "agent_end"]
    assert texts(result.undelivered) == ["steering", "follow-up"]


async def test_behaviour_016_a_stop_polls_steering_once_and_follow_ups_never() -> None:
    polled: list[str] = []
    model = ScriptedModel([Reply("Done.")])
    config = AgentLoopConfig(
        model.model,
        finish_turn=lambda turn: FinishTurn.END,
        get_steering_messages=lambda: polled.append("steering") or [],
        get_follow_up_messages=lambda: polled.append("follow-up") or [],
    )

    await run_agent_loop(
        [UserMessage("go")],
        AgentContext(),
        config,
        lambda event: None,
        stream_fn=model.stream_fn,
    )

    assert polled == ["steering"]


async def test_behaviour_017_a_stop_changes_nothing_about_the_turn() -> None:
    agent, _, events = scripted(
        Reply("Adding.", calls=[ADD, Call("note", {"text": "x"}, id="c2")]), tools=[add, note]
    )
    agent.finish_turn = lambda turn: FinishTurn.END

    result = await agent.prompt("go")

    assert result.stop_reason == "toolUse"
    assert result.text == "Adding."
    assert texts(results(result.messages)) == ["42", "noted x"]
    assert not any(r.is_error for r in results(result.messages))
    said = [e.message for e in events if isinstance(e, MessageEnd)][1]
    assert isinstance(said, AssistantMessage)
    assert said.stop_reason == "toolUse"


async def test_behaviour_018_continue_causes_one_more_request() -> None:
    verdicts = [FinishTurn.CONTINUE, None]
    agent, model, events = scripted("One.", "Two.")
    agent.finish_turn = lambda turn: verdicts.pop(0)

    result = await agent.prompt("go")

    assert texts(result.messages) == ["go", "One.", "Two."]
    assert len(model.requests) == 2
    assert trace(events) == [
        "agent_start",
        "turn_start",
        *USER,
        *REPLY,
        "turn_end",
        "turn_start",
        *REPLY,
        "turn_end",
        "agent_end",
    ]


@pytest.mark.parametrize("cause", ["results", "steering", "follow-up"])
async def test_behaviour_018_continue_adds_no_request_where_one_is_due_anyway(cause: str) -> None:
    first = Reply(calls=[ADD]) if cause == "results" else Reply("One.")
    agent, model, _ = scripted(first, "Two.", "Three.", tools=[add])
    verdicts: list[FinishTurn | None] = [FinishTurn.CONTINUE]

    def finish(turn: TurnContext) -> FinishTurn | None:
        if verdicts and cause == "steering":
            agent.steer("also")
        if verdicts and cause == "follow-up":
            agent.follow_up("also")
        return verdicts.pop() if verdicts else None

    agent.finish_turn = finish
    await agent.prompt("go")

    # A follow-up is not due while another turn is: it comes after the extra one.
    assert len(model.requests) == (3 if cause == "follow-up" else 2)


async def test_behaviour_018_continue_is_ignored_for_failed_turns() -> None:
    agent, model, _ = scripted(Reply(error="broken"), "Never asked.")
    agent.finish_turn = lambda turn: FinishTurn.CONTINUE

    result = await agent.prompt("go")

    assert result.stop_reason == "error"
    assert len(model.requests) == 1


# -- preparing -------------------------------------------------------------------------------


async def test_behaviour_019_the_next_turn_is_prepared_only_if_there_is_one() -> None:
    order: list[str] = []
    agent, _, _ = scripted(Reply(calls=[ADD]), "Done.", tools=[add])
    agent.subscribe(lambda event: order.append(event.type) if "turn" in event.type else None)

    def prepare(turn: TurnContext) -> None:
        assert roles(turn.tool_results) == ["toolResult"]
        order.append("prepare")

    agent.prepare_next_turn = prepare
    await agent.prompt("go")

    assert order == ["turn_start", "turn_end", "prepare", "turn_start", "turn_end"]


async def test_behaviour_020_the_next_turn_may_use_another_context_model_and_thinking_level() -> (
    None
):
    agent, model, _ = scripted(
        Reply(calls=[ADD]),
        Reply(calls=[ADD]),
        Reply(calls=[ADD]),
        "Done.",
        tools=[add],
        system_prompt="first",
        thinking_level="low",
    )
    other = Model("scripted", "other", "scripted")
    updates = [
        TurnUpdate(model=other, thinking_level="high"),
        TurnUpdate(context=AgentContext("second", [UserMessage("summary")], [note])),
        TurnUpdate(thinking_level="off"),
    ]
    agent.prepare_next_turn = lambda turn: updates.pop(0)

    await agent.prompt("go")

    asked = [
        (
            request.model.id,
            request.options.get("reasoning"),
            request.context.system_prompt,
            [tool.name for tool in request.context.tools],
        )
        for request in model.requests
    ]
    assert asked == [
        ("scripted", "low", "first", ["add"]),
        ("other", "high", "first", ["add"]),
        ("other", "high", "second", ["note"]),
        ("other", "off", "second", ["note"]),
    ]
    assert texts(model.requests[2].context.messages) == ["summary"]
    assert agent.state.model is model.model  # what the run used is not what the next one will
    assert roles(agent.state.messages)[-1] == "assistant"


@pytest.mark.parametrize("waiting", [False, True])
async def test_behaviour_021_after_preparing_steering_is_polled_again_only_if_none_was_found(
    waiting: bool,
) -> None:
    agent, model, _ = scripted(Reply(calls=[ADD]), "Two.", "Three.", tools=[add])

    def prepare(turn: TurnContext) -> None:
        if len(model.requests) == 1:
            agent.steer("typed while preparing")

    def finish(turn: TurnContext) -> None:
        if waiting and len(model.requests) == 1:
            agent.steer("typed before")

    agent.prepare_next_turn = prepare
    agent.finish_turn = finish
    await agent.prompt("go")

    second = texts(model.requests[1].context.messages)
    assert second[-1] == ("typed before" if waiting else "typed while preparing")
    assert len(model.requests) == (3 if waiting else 2)


async def test_behaviour_022_every_request_is_prepared_and_no_queue_is_polled_for_it() -> None:
    polls: list[str] = []
    prepared: list[list[str]] = []
    model = ScriptedModel([Reply(calls=[ADD]), Reply("Done.")])

    def prepare(context: AgentContext) -> AgentContext:
        prepared.append(roles(context.messages))
        before = len(polls)
        made = AgentContext("canonical", list(context.messages), context.tools)
        assert len(polls) == before
        return made

    config = AgentLoopConfig(
        model.model,
        prepare_request=prepare,
        get_steering_messages=lambda: polls.append("steering") or [],
        get_follow_up_messages=lambda: polls.append("follow-up") or [],
    )
    await run_agent_loop(
        [UserMessage("go")],
        AgentContext("given", [], [add]),
        config,
        lambda event: None,
        stream_fn=model.stream_fn,
    )

    assert prepared == [["user"], ["user", "assistant", "toolResult"]]
    assert [request.context.system_prompt for request in model.requests] == ["canonical"] * 2
    assert polls == ["steering", "steering", "steering", "follow-up"]


async def test_behaviour_023_async_hooks_are_awaited_before_they_are_judged() -> None:
    """A coroutine nobody awaits is true; it would stop every run."""

    async def no(turn: TurnContext) -> bool:
        return False

    async def nothing(*values: object) -> None:
        return None

    agent, model, _ = scripted(Reply(calls=[ADD]), "Done.", tools=[add])
    agent.should_stop_after_turn = no
    agent.finish_turn = nothing
    agent.prepare_next_turn = nothing
    agent.prepare_request = nothing
    agent.before_tool_call = nothing
    agent.after_tool_call = nothing

    result = await agent.prompt("go")

    assert result.stopped_by is None
    assert texts(results(result.messages)) == ["42"]
    assert len(model.requests) == 2


def test_results_stay_where_the_model_asked() -> None:
    """The check that other tests lean on refuses what it should."""
    call = AssistantMessage([ToolCall("a", "t", {}), ToolCall("b", "t", {})])
    a, b = (ToolResultMessage(id, "t", []) for id in "ab")

    assert_well_formed([call, a, b])
    for wrong in ([call, a], [call, b, a], [a], [call, a, b, b], [call, a, UserMessage(""), b]):
        with pytest.raises(AssertionError):
            assert_well_formed(wrong)
