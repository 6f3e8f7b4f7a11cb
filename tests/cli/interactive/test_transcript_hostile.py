"""Whatever a model, a tool or a program says: the terminal obeys nothing of it, and nothing raises."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loopwright.cli.interactive.paint import SEQUENCE, cells
from loopwright.cli.interactive.theme import theme_named
from loopwright.cli.interactive.transcript import Transcript
from loopwright.events import (
    AgentEnd,
    AgentEvent,
    AgentStart,
    MessageEnd,
    MessageStart,
    MessageUpdate,
    Retry,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from loopwright.messages import (
    AgentToolResult,
    AssistantMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from loopwright.stream import (
    TextDelta,
    TextEnd,
    ThinkingDelta,
    ThinkingEnd,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)

COLORED = theme_named("dark", {"COLORTERM": "truecolor"})

OBEYED = re.compile(
    "[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff]"
)

ATTACKS = [
    "\x1b[2J", "\x1b]0;title\x07", "\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\", "\x9b31m",
    "\x1b]52;c;ZXZpbA==\x07", "\x1bP+q544e\x1b\\", "\x1bc", "\r", "\a", "\b\b\b", "\x0e", "\u202etxt.exe\u202c",
    "\u2066x\u2069", "\u2028", "\ud83d", "\x00", "\x7f", "\x85", "&#27;[2J", "&#x9b;2J", "&#13;", "&#x202e;",
    "[a](<\x1b[2J>)", "[a](https://x.example/%1b[2J)", "![\x1b[31m](x)", "`\x1b[31m`", "```\x1b[31m\n\x1b[32m\n```",
    "<a href='x'>", "|\x1b[1m|b|\n|-|-|\n|\x07|", "\t", "x" * 300, "日本語" * 30, "👩‍👩‍👧", "e\u0301" * 50, "\x1b", "\n",
]  # fmt: skip

HOSTILE = st.lists(st.sampled_from(ATTACKS) | st.text(max_size=6), max_size=6).map("".join)


def check(rows: str, width: int) -> None:
    for row in SEQUENCE.sub("", rows).split("\n"):
        assert not OBEYED.search(row)
        assert cells(row) <= width


def everywhere(text: str) -> list[AgentEvent]:
    """*text* in every place that an event has for what others say."""
    args: Any = {"path": text, "command": text, "pattern": text, "content": text, text: [text]}
    details: Any = {
        "diff": f"+1 {text}\n{text}",
        "created": True,
        "exitCode": text,
        "seconds": text,
    }
    result = AgentToolResult([TextContent(text), ImageContent(text, text)], details)
    child = {"id": text, "agent": text, "depth": 1, "parentId": text}
    inside = [
        {"type": "tool_execution_start", "toolName": text, "args": args},
        {"type": "message_update", "assistantMessageEvent": {"type": "text_delta", "delta": text}},
    ]
    events: list[AgentEvent] = [
        AgentStart(),
        MessageEnd(UserMessage([TextContent(text), ImageContent(text, text)])),
        MessageStart(AssistantMessage([])),
        MessageUpdate(ThinkingDelta(0, text)),
        MessageUpdate(ThinkingEnd(0, text)),
        MessageUpdate(TextDelta(1, text)),
        MessageUpdate(TextEnd(1, text)),
        Retry(1, 2, 0.5, text),
    ]
    calls: list[ToolCall] = []
    names = ["read", "bash", "edit", "write", "grep", "find", "ls", "task", text]
    for index, name in enumerate(names, 2):
        call = ToolCall(f"{index}", name, args)
        calls.append(call)
        events += [
            MessageUpdate(ToolCallStart(index, tool_call_id=text, tool_name=text)),
            MessageUpdate(ToolCallDelta(index, text)),
            MessageUpdate(ToolCallEnd(index, call)),
        ]
    content = [ThinkingContent(text), TextContent(text), *calls]
    events.append(MessageEnd(AssistantMessage(content, stop_reason="toolUse")))
    for call in calls:
        events.append(ToolExecutionStart(call.id, call.name, args))
        events.append(ToolExecutionUpdate(call.id, call.name, args, result))
        for event in inside:
            told = AgentToolResult([], {"subagent": {**child, "event": event}})
            events.append(ToolExecutionUpdate(call.id, call.name, args, told))
    for number, call in enumerate(calls):
        events.append(ToolExecutionEnd(call.id, call.name, result, bool(number % 2)))
        events.append(MessageEnd(ToolResultMessage(call.id, call.name, result.content, details)))
    failed = AssistantMessage([TextContent(text)], stop_reason="error", error_message=text)
    return [*events, MessageStart(failed), MessageEnd(failed), AgentEnd([])]


@given(HOSTILE, st.sampled_from([20, 80]), st.booleans())
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None, max_examples=60)
def test_no_event_makes_the_terminal_do_anything(text: str, width: int, thinking: bool) -> None:
    transcript = Transcript(COLORED, show_thinking=thinking)
    for event in everywhere(text):
        transcript.feed(event)
        check(transcript.take(width), width)
        live = transcript.live(width, 10)
        check(live, width)
        assert live.count("\n") < 10
    transcript.said(text)
    transcript.note(text)
    transcript.error(text, text)
    check(transcript.take(width), width)
    check(transcript.expand_last(width), width)
    messages = [event.message for event in everywhere(text) if isinstance(event, MessageEnd)]
    check(transcript.replay(messages, width), width)


@pytest.mark.parametrize("attack", ATTACKS)
def test_each_attack_alone_is_seen_and_not_obeyed(attack: str) -> None:
    transcript = Transcript(COLORED, show_thinking=True)

    for event in everywhere(attack):
        transcript.feed(event)
    transcript.live(80, 10)

    check(transcript.take(80), 80)


@pytest.mark.parametrize("length", [0, 1, 2, 3])
def test_arguments_of_any_shape_are_shown(length: int) -> None:
    shapes: list[Any] = [
        None,
        1,
        "x",
        [1],
        {"path": None},
        {"offset": "a", "path": "b", "limit": []},
    ]
    transcript = Transcript(COLORED)

    for name in ("read", "bash", "write", "grep", "task", "own"):
        for shape in shapes:
            transcript.feed(ToolExecutionStart(f"{name}{shape}", name, shape))
            details = [None, {}, {"diff": 1, "created": 0}, "x"][length]
            result = AgentToolResult([], details)
            transcript.feed(ToolExecutionEnd(f"{name}{shape}", name, result, False))

    check(transcript.take(40), 40)
    check(transcript.expand_last(40), 40)
