"""Stream and agent events: plain data that comes back, with partials built only when read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.errors import DecodeError
from loopwright.events import (
    AgentEnd,
    AgentStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
    TurnStart,
    event_from_dict,
)
from loopwright.messages import (
    AgentToolResult,
    AssistantMessage,
    TextContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from loopwright.stream import (
    Done,
    Error,
    ReplyBuilder,
    Retry,
    Start,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    stream_event_from_dict,
)

text = st.text(max_size=6)
index = st.integers(0, 9)
free = st.dictionaries(st.sampled_from(["snake_key", "camelKey"]), text, max_size=2)
call = st.builds(ToolCall, text, text, free)
reply = st.builds(
    lambda words, calls: AssistantMessage([TextContent(words), *calls], timestamp=1),
    text,
    st.lists(call, max_size=2),
)
result = st.builds(
    lambda words: ToolResultMessage("c", "n", [TextContent(words)], timestamp=1), text
)
outcome = st.builds(
    lambda words, details: AgentToolResult([TextContent(words)], details), text, free
)
stream_events = st.one_of(
    st.builds(Start),
    st.builds(TextStart, index),
    st.builds(TextDelta, index, text),
    st.builds(TextEnd, index, text),
    st.builds(ThinkingStart, index),
    st.builds(ThinkingDelta, index, text),
    st.builds(ThinkingEnd, index, text),
    st.builds(lambda i, a, b: ToolCallStart(i, tool_call_id=a, tool_name=b), index, text, text),
    st.builds(ToolCallDelta, index, text),
    st.builds(ToolCallEnd, index, call),
    st.builds(Done, st.sampled_from(["stop", "length", "toolUse"]), reply),
    st.builds(Error, st.sampled_from(["error", "aborted"]), reply, st.booleans(),
              st.none() | st.floats(0, 9), st.none() | text),
    st.builds(Retry, index, index, st.floats(0, 9), text, st.none() | st.just(Usage(3))),
)  # fmt: skip
agent_events = st.one_of(
    st.builds(AgentStart),
    st.builds(AgentEnd, st.lists(reply, max_size=2)),
    st.builds(TurnStart),
    st.builds(TurnEnd, reply, st.lists(result, max_size=2)),
    st.builds(MessageStart, reply | st.builds(UserMessage, text, st.just(1))),
    st.builds(MessageUpdate, stream_events),
    st.builds(MessageEnd, reply | result),
    st.builds(ToolExecutionStart, text, text, free),
    st.builds(ToolExecutionUpdate, text, text, free, outcome),
    st.builds(ToolExecutionEnd, text, text, outcome, st.booleans()),
    st.builds(Retry, index, index, st.floats(0, 9), text),
)


@given(stream_events)
def test_behaviour_047_every_stream_event_comes_back_in_both_cases(event: Any) -> None:
    for data in (event.to_dict(), event.to_dict(camel=True), json.loads(event.to_json())):
        back = stream_event_from_dict(data)

        assert type(back) is type(event)
        assert back == event
    assert event.to_dict()["type"] == event.type


@given(agent_events)
def test_behaviour_047_every_agent_event_comes_back_in_both_cases(event: Any) -> None:
    for data in (event.to_dict(), event.to_dict(camel=True), json.loads(event.to_json())):
        back = event_from_dict(data)

        assert type(back) is type(event)
        assert back == event
    assert event.to_dict()["type"] == event.type


def test_behaviour_047_each_form_is_of_one_case() -> None:
    event = ToolExecutionUpdate("c", "n", {"mixed_Key": 1}, AgentToolResult([], {"other_Key": 2}))

    assert set(event.to_dict()) == {"type", "tool_call_id", "tool_name", "args", "partial_result"}
    assert set(event.to_dict(camel=True)) == {
        "type",
        "toolCallId",
        "toolName",
        "args",
        "partialResult",
    }
    assert event.to_dict(camel=True)["args"] == {"mixed_Key": 1}
    assert event.to_dict(camel=True)["partialResult"]["details"] == {"other_Key": 2}


@pytest.mark.parametrize("read", [stream_event_from_dict, event_from_dict])
def test_an_unknown_type_is_refused_by_name(read: Any) -> None:
    with pytest.raises(DecodeError, match="unknown type 'sneeze'"):
        read({"type": "sneeze"})
    with pytest.raises(DecodeError, match="no type"):
        read({})


def test_behaviour_041_an_update_carries_the_stream_event_as_it_is() -> None:
    builder = ReplyBuilder()
    position = builder.text_start().content_index
    delta = builder.text_delta(position, "a")
    builder.text_delta(position, "b")

    update = MessageUpdate(delta)

    assert update.assistant_message_event is delta
    assert update.message.text == "a"


def test_a_written_stream_leaves_partials_out_unless_asked() -> None:
    builder = ReplyBuilder()
    position = builder.text_start().content_index
    update = MessageUpdate(builder.text_delta(position, "a"))

    assert set(update.to_dict()) == {"type", "assistant_message_event"}
    assert set(update.to_dict()["assistant_message_event"]) == {"type", "content_index", "delta"}
    assert b"partial" not in update.to_json()
    with_partials = update.to_dict(partials=True)
    assert with_partials["message"]["content"] == [{"type": "text", "text": "a"}]
    assert with_partials["assistant_message_event"]["partial"]["content"][0]["text"] == "a"
    assert event_from_dict(with_partials) == update


def test_the_size_of_a_written_stream_is_linear() -> None:
    def written(deltas: int) -> int:
        builder = ReplyBuilder()
        position = builder.text_start().content_index
        return sum(
            len(MessageUpdate(builder.text_delta(position, "abcd")).to_json())
            for _ in range(deltas)
        )

    assert written(2_000) == 2 * written(1_000)


def test_an_event_without_a_draft_has_an_empty_partial() -> None:
    assert TextDelta(0, "a").partial.content == []


def test_an_event_shows_what_it_says() -> None:
    assert repr(TextDelta(0, "a")) == "TextDelta(content_index=0, delta='a')"


def test_closing_events_hold_the_whole_message() -> None:
    message = AssistantMessage([TextContent("x")], timestamp=1)

    assert Done("stop", message).message is message
    assert Error("error", message, kind="wire").error is message
