"""What becomes of replies: all are kept, few are left out of requests. Behaviours 48 to 59."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from tests.loop.traces import assert_well_formed, results, roles, scripted, texts

from loopwright import Agent, CustomMessage
from loopwright.events import MessageUpdate
from loopwright.messages import (
    AssistantMessage,
    StopReason,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from loopwright.stream import AssistantStream, Done, Error
from loopwright.testing import Call, Reply, ScriptedModel


def add(a: int, b: int) -> int:
    return a + b


ADD = Call("add", {"a": 17, "b": 25}, id="c1")


def saying(*messages: AssistantMessage) -> Agent:
    """An agent whose model gives exactly these replies, in events of a foreign stream."""
    left = list(messages)

    def stream_fn(*args: Any, **options: Any) -> AssistantStream:
        message = left.pop(0)
        reason: Any = message.stop_reason
        failed = reason in ("error", "aborted")
        return AssistantStream.from_events(
            [Error(reason, message) if failed else Done(reason, message)]
        )

    return Agent(ScriptedModel().model, stream_fn=stream_fn, tools=[add])


async def test_behaviour_048_every_reply_is_kept_in_history() -> None:
    agent, _, _ = scripted(
        Reply("I would rather not."),
        Reply("half", error="broken"),
        Reply("cut", stop_reason="length"),
        Reply("stopped", chunk_size=1),
        "Fine.",
    )

    for text in ("1", "2", "3"):
        await agent.prompt(text)
    unsubscribe = agent.subscribe(
        lambda event: (
            agent.abort()
            if isinstance(event, MessageUpdate) and event.message.text == "stop"
            else None
        )
    )
    await agent.prompt("4")
    unsubscribe()
    await agent.prompt("5")

    replies = [m for m in agent.state.messages if isinstance(m, AssistantMessage)]
    assert [(m.text, m.stop_reason) for m in replies] == [
        ("I would rather not.", "stop"),
        ("half", "error"),
        ("cut", "length"),
        ("stop", "aborted"),
        ("Fine.", "stop"),
    ]


async def test_behaviour_049_a_truncated_reply_is_kept_and_the_next_request_is_another_one() -> (
    None
):
    agent, model, _ = scripted(
        Reply("Calling", calls=[ADD], stop_reason="length"), "Shorter.", tools=[add]
    )

    await agent.prompt("go")

    first, second = (request.context.messages for request in model.requests)
    assert roles(first) == ["user"]
    assert roles(second) == ["user", "assistant", "toolResult"]
    assert second[1].stop_reason == "length"  # type: ignore[union-attr]


async def test_behaviour_050_failed_and_aborted_replies_are_left_out_of_requests() -> None:
    failed = AssistantMessage([TextContent("half"), ToolCall("c1", "add", {})], stop_reason="error")
    aborted = AssistantMessage([ToolCall("c2", "add", {})], stop_reason="aborted")
    agent, model, _ = scripted(
        "Hello.",
        messages=[
            UserMessage("one"),
            failed,
            ToolResultMessage("c1", "add", [TextContent("stray")]),
            UserMessage("two"),
            aborted,
        ],
    )

    await agent.prompt("three")

    assert texts(model.requests[0].context.messages) == ["one", "two", "three"]
    assert agent.state.messages[1] is failed
    assert len(agent.state.messages) == 7


class Aside(CustomMessage, tag="aside-assistant-messages"):
    text: str


async def test_behaviour_051_each_request_begins_with_the_one_before_byte_for_byte() -> None:
    """Whatever happens: tools, failures, repeated ids, aborts, steering, custom messages."""

    async def hang() -> None:
        agent.abort()

    agent, model, _ = scripted(
        Reply("Adding", thinking="Hm", calls=[ADD, ADD]),
        Reply("Once more", calls=[ADD]),
        "42.",
        Reply("half", calls=[ADD], error="broken"),
        Reply("cut", calls=[ADD], stop_reason="length"),
        "Better.",
        Reply("Wait", calls=[Call("hang"), ADD]),
        "Here again.",
        "Bye \ud83d.",
        "Empty it was.",
        tools=[add, hang],
        system_prompt="Be brief.",
    )
    agent.follow_up("Sure?")

    await agent.prompt("17 + 25?")
    await agent.resume()
    await agent.prompt([UserMessage("more"), Aside(text="unseen")])
    await agent.prompt("still there?")
    agent.steer("and?")
    await agent.prompt("")

    sent = [
        [message.to_json() for message in request.context.messages] for request in model.requests
    ]
    assert len(sent) == 9
    for earlier, later in itertools.pairwise(sent):
        assert later[: len(earlier)] == earlier
    assert_well_formed(agent.state.messages)


async def test_behaviour_051_with_hooks_requests_are_stable_too() -> None:
    agent, model, _ = scripted(Reply(calls=[ADD]), Reply(calls=[ADD]), "Done.", "Bye.", tools=[add])
    agent.transform_context = lambda messages: list(messages)

    await agent.prompt("go")
    await agent.prompt("on")

    sent = [[m.to_json() for m in request.context.messages] for request in model.requests]
    for earlier, later in itertools.pairwise(sent):
        assert later[: len(earlier)] == earlier


async def test_behaviour_052_the_system_prompt_is_sent_as_it_was_given() -> None:
    agent, model, _ = scripted(Reply(calls=[ADD]), "Done.", tools=[add], system_prompt="Be brief.")

    await agent.prompt("go")

    assert [request.context.system_prompt for request in model.requests] == ["Be brief."] * 2


async def test_behaviour_053_only_what_was_set_is_handed_to_the_stream_function() -> None:
    agent, model, _ = scripted("Hi.", "Hi.", stream_options={"temperature": 0.5})

    await agent.prompt("go")
    agent.session_id = "s1"
    agent.thinking_level = "low"
    agent.thinking_budgets = {"low": 100}
    await agent.prompt("go")

    assert set(model.requests[0].options) == {"temperature", "signal"}
    assert set(model.requests[1].options) == {
        "temperature",
        "signal",
        "session_id",
        "reasoning",
        "thinking_budgets",
    }


async def test_behaviour_054_an_empty_reply_without_reason_or_usage_is_an_error() -> None:
    agent = saying(AssistantMessage([]))

    result = await agent.prompt("go")

    assert result.stop_reason == "error"
    assert result.error_message == "The model's reply was empty."


@pytest.mark.parametrize(
    "message",
    [
        AssistantMessage([], raw_stop_reason="end_turn"),
        AssistantMessage([], usage=Usage(input=10, output=1, total_tokens=11)),
        AssistantMessage([ThinkingContent("I need say nothing.")]),
    ],
    ids=["a reason", "a usage", "thinking"],
)
async def test_behaviour_054_an_empty_reply_that_was_meant_is_an_answer(
    message: AssistantMessage,
) -> None:
    agent = saying(message)

    result = await agent.prompt("go")

    assert (result.stop_reason, result.text) == ("stop", "")
    assert agent.state.messages[-1] is message


async def test_behaviour_055_length_without_calls_is_a_final_answer() -> None:
    agent, model, _ = scripted(Reply("As far as it goes", stop_reason="length"))

    result = await agent.prompt("go")

    assert result.stop_reason == "length"
    assert result.stopped_by is None
    assert result.text == "As far as it goes"
    assert len(model.requests) == 1


async def test_behaviour_056_a_reply_cut_far_below_the_limit_stays_what_it_is() -> None:
    agent, _, _ = scripted(Reply("s", stop_reason="length"), stream_options={"max_tokens": 8000})

    assert (await agent.prompt("go")).stop_reason == "length"


async def test_behaviour_057_no_call_of_a_cut_reply_is_run_and_the_run_goes_on() -> None:
    ran: list[int] = []

    def record(a: int) -> None:
        ran.append(a)

    agent, model, _ = scripted(
        Reply(
            calls=[
                Call("record", {"a": 1}, id="whole"),
                Call("record", raw='{"a": 2', id="cut"),
                Call("missing", id="unknown"),
            ],
            stop_reason="length",
        ),
        "Shorter then.",
        tools=[record],
    )
    gated: list[str] = []
    agent.before_tool_call = lambda question: gated.append(question.tool_call.id)

    result = await agent.prompt("go")

    assert ran == []
    assert gated == []
    told = results(result.messages)
    assert [r.tool_call_id for r in told] == ["whole", "cut", "unknown"]
    assert all(r.is_error and "output limit" in r.text for r in told)
    assert all("complete arguments" in r.text for r in told)
    assert result.text == "Shorter then."
    assert results(model.requests[1].context.messages) == told


async def test_behaviour_058_a_call_with_broken_arguments_is_not_run_and_the_model_is_told() -> (
    None
):
    agent, _, _ = scripted(
        Reply(calls=[Call("add", raw='{"a": 17, "b": 2', id="c1")]), "Sorry.", tools=[add]
    )

    result = await agent.prompt("go")

    call = result.messages[1].tool_calls[0]  # type: ignore[union-attr]
    assert call.arguments == {}
    assert call.raw_arguments == '{"a": 17, "b": 2'
    assert call.arguments_error is not None
    told = results(result.messages)[0]
    assert told.is_error
    assert call.arguments_error in told.text


async def test_behaviour_059_usage_of_failed_and_aborted_replies_is_counted() -> None:
    cost = Usage(input=100, output=10, total_tokens=110)
    agent, _, _ = scripted(
        Reply("half", error="broken", usage=cost),
        Reply("half", stop_reason="aborted", usage=cost),
    )

    assert (await agent.prompt("go")).usage.total_tokens == 110
    assert (await agent.prompt("go")).usage.total_tokens == 110
    assert [m.usage for m in agent.state.messages if isinstance(m, AssistantMessage)] == [
        cost,
        cost,
    ]


async def test_behaviour_059_timestamps_are_milliseconds_and_never_rewritten() -> None:
    agent, model, _ = scripted(Reply(calls=[ADD]), "Done.", tools=[add])
    old = UserMessage("long ago", timestamp=1_000_000_000_123)

    await agent.prompt(old)

    assert agent.state.messages[0] is old
    assert model.requests[1].context.messages[0].timestamp == 1_000_000_000_123
    for message in agent.state.messages[1:]:
        assert message.timestamp > 1_600_000_000_000
        assert json.loads(message.to_json())["timestamp"] == message.timestamp


@pytest.mark.parametrize("reason", ["stop", "toolUse"])
async def test_a_foreign_stream_may_report_any_reason_the_calls_decide(reason: StopReason) -> None:
    call = ToolCall("c1", "add", {"a": 1, "b": 2})
    agent = saying(
        AssistantMessage([call], stop_reason=reason),
        AssistantMessage([TextContent("3")], stop_reason=reason),
    )

    result = await agent.prompt("go")

    assert texts(result.messages) == ["go", "", "3", "3"]
    replies = [m for m in result.messages if isinstance(m, AssistantMessage)]
    assert [m.stop_reason for m in replies] == ["toolUse", "stop"]
