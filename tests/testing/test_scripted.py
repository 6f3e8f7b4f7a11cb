"""The scripted model says what was written, as a real stream, and remembers what it was shown."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from loopwright.errors import RateLimited
from loopwright.messages import (
    AssistantMessage,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    Usage,
    UserMessage,
)
from loopwright.models import Context, ToolSpec
from loopwright.models.handoff import MessageView
from loopwright.signals import AbortController
from loopwright.stream import AssistantMessageEvent, Done, Error, TextDelta, ToolCallDelta
from loopwright.testing import Call, Reply, ScriptedModel
from loopwright.testing.scripted import EVENTS_PER_BATCH, EVENTS_PER_BREATH

CONTEXT = Context("Be brief.", [UserMessage("Hi", 1)])


async def reply_of(reply: Reply) -> AssistantMessage:
    script = ScriptedModel([reply])
    return await script.stream_fn(script.model, CONTEXT).result()


async def events_of(reply: Reply) -> list[AssistantMessageEvent]:
    script = ScriptedModel([reply])
    return [event async for event in script.stream_fn(script.model, CONTEXT)]


def types(events: Sequence[AssistantMessageEvent]) -> list[str]:
    return [event.type for event in events]


async def test_replies_are_given_in_order() -> None:
    script = ScriptedModel([Reply("a"), Reply("b")])
    script.extend([Reply("c")])

    said = [(await script.stream_fn(script.model, CONTEXT).result()).text for _ in range(3)]

    assert said == ["a", "b", "c"]


async def test_a_script_that_is_used_up_fails_and_never_repeats() -> None:
    script = ScriptedModel([Reply("a")])
    await script.stream_fn(script.model, CONTEXT).result()

    message = await script.stream_fn(script.model, CONTEXT).result()

    assert message.stop_reason == "error"
    assert "used up: request 2" in (message.error_message or "")


async def test_thinking_text_and_calls_come_as_real_events() -> None:
    events = await events_of(Reply("Look.", thinking="hm", calls=[Call("look", {"a": 1})]))

    assert types(events) == [
        "start", "thinking_start", "thinking_delta", "thinking_end",
        "text_start", "text_delta", "text_end",
        "toolcall_start", "toolcall_delta", "toolcall_end", "done",
    ]  # fmt: skip
    closing = events[-1]
    assert isinstance(closing, Done)
    assert closing.reason == "toolUse"
    assert closing.message.content == [
        ThinkingContent("hm"), TextContent("Look."), ToolCall("call_1", "look", {"a": 1})
    ]  # fmt: skip


async def test_text_and_arguments_come_in_chunks_of_the_size_asked_for() -> None:
    events = await events_of(Reply("abcdefghij", chunk_size=4, calls=[Call("x", {"k": "v"})]))

    assert [e.delta for e in events if isinstance(e, TextDelta)] == ["abcd", "efgh", "ij"]
    assert [e.delta for e in events if isinstance(e, ToolCallDelta)] == ['{"k"', ':"v"', "}"]


async def test_a_long_reply_comes_in_batches_and_lets_others_run_between_them() -> None:
    script = ScriptedModel([Reply("x" * 10_000, chunk_size=1)])
    stream = script.stream_fn(script.model, CONTEXT)
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    counting = asyncio.create_task(count())
    sizes: list[int] = []
    while (batch := await stream.next_batch()) is not None:
        sizes.append(len(batch))
    counting.cancel()

    assert max(sizes) <= EVENTS_PER_BATCH
    assert sum(sizes) == 10_004
    assert turns >= 10_000 // EVENTS_PER_BREATH - 1


async def test_a_slow_reply_waits_before_each_delta() -> None:
    loop = asyncio.get_running_loop()
    began = loop.time()

    events = await events_of(Reply("abc", chunk_size=1, delay=0.01))

    assert loop.time() - began >= 0.03
    assert types(events).count("text_delta") == 3


async def test_calls_get_ids_of_their_own_over_the_whole_script() -> None:
    script = ScriptedModel(
        [Reply(calls=[Call("a"), Call("a", id="mine")]), Reply(calls=[Call("a")])]
    )

    ids: list[str] = []
    for _ in range(2):
        message = await script.stream_fn(script.model, CONTEXT).result()
        ids += [call.id for call in message.tool_calls]

    assert ids == ["call_1", "mine", "call_2"]


async def test_broken_argument_text_can_be_written_out() -> None:
    message = await reply_of(Reply(calls=[Call("a", raw='{"path": "a'), Call("b", raw="")]))

    broken, empty = message.tool_calls
    assert broken.raw_arguments == '{"path": "a'
    assert broken.arguments_error
    assert (empty.arguments, empty.arguments_error) == ({}, None)


async def test_arguments_with_half_a_surrogate_pair_are_streamed_as_escapes() -> None:
    message = await reply_of(Reply(calls=[Call("a", {"x": "\ud83d"})]))

    assert message.tool_calls[0].arguments == {"x": "�"}


async def test_the_arguments_of_the_script_are_not_those_of_the_message() -> None:
    arguments: dict[str, Any] = {"list": [1]}

    message = await reply_of(Reply(calls=[Call("a", arguments)]))
    message.tool_calls[0].arguments["list"].append(2)

    assert arguments == {"list": [1]}


@pytest.mark.parametrize("reason", ["length", "stop"])
async def test_the_stop_reason_can_be_given(reason: Any) -> None:
    assert (await reply_of(Reply("x", stop_reason=reason))).stop_reason == reason


async def test_case_010_tool_calls_announced_but_not_there() -> None:
    message = await reply_of(Reply(stop_reason="toolUse"))

    assert (message.stop_reason, message.content) == ("stop", [])


async def test_an_error_ends_the_reply_after_what_was_said() -> None:
    events = await events_of(Reply("Par", error="overloaded"))

    closing = events[-1]
    assert isinstance(closing, Error)
    assert (closing.kind, closing.retryable) == ("overloaded", True)
    assert (closing.error.text, closing.error.error_message) == ("Par", "overloaded")


async def test_an_error_can_say_exactly_what_it_is() -> None:
    events = await events_of(Reply(error=RateLimited("slow", retry_after_seconds=3)))

    closing = events[-1]
    assert isinstance(closing, Error)
    assert (closing.kind, closing.retry_after_seconds) == ("rate_limit", 3)


async def test_a_reply_may_be_made_from_what_the_model_is_shown() -> None:
    async def later(context: Context) -> Reply:
        await asyncio.sleep(0)
        return Reply(str(len(context.messages)))

    script = ScriptedModel([lambda context: Reply(context.system_prompt), later])

    first = await script.stream_fn(script.model, CONTEXT).result()
    second = await script.stream_fn(script.model, CONTEXT).result()

    assert (first.text, second.text) == ("Be brief.", "1")


async def test_a_reply_maker_that_fails_fails_the_reply() -> None:
    def wrong(context: Context) -> Reply:
        raise AssertionError("the tool result is missing")

    script = ScriptedModel([wrong, lambda context: "text"])  # type: ignore[list-item,return-value]

    first = await script.stream_fn(script.model, CONTEXT).result()
    second = await script.stream_fn(script.model, CONTEXT).result()

    assert first.error_message == "the tool result is missing"
    assert "Reply objects, not str" in (second.error_message or "")


async def test_requests_hold_what_was_shown_at_that_moment() -> None:
    messages: list[Message] = [UserMessage("one", 1)]
    tools = [ToolSpec("t", "", {})]
    script = ScriptedModel([Reply("a")])

    script.stream_fn(script.model, Context("P", messages, tools), temperature=0)
    messages.append(UserMessage("two", 1))
    tools.clear()

    (request,) = script.requests
    assert request.model is script.model
    assert request.context.messages == (UserMessage("one", 1),)
    assert [tool.name for tool in request.context.tools] == ["t"]
    assert request.options == {"temperature": 0}


async def test_a_view_is_kept_as_it_is_since_it_cannot_change() -> None:
    view = MessageView([UserMessage("one", 1)])
    script = ScriptedModel([Reply("a")])

    script.stream_fn(script.model, Context("", view))

    assert script.requests[0].context.messages is view


async def test_usage_is_made_up_or_as_written() -> None:
    made_up = (await reply_of(Reply("x" * 100, thinking="y" * 40))).usage
    written = (await reply_of(Reply("x", usage=Usage(input=7)))).usage

    assert made_up.input > 0
    assert made_up.output >= 35
    assert made_up.reasoning == 10
    assert made_up.total_tokens == made_up.input + made_up.output
    assert written == Usage(input=7)


async def test_an_abort_ends_a_slow_reply_at_once() -> None:
    script = ScriptedModel([Reply("never", delay=3600)])
    stream = script.stream_fn(script.model, CONTEXT)
    asyncio.get_running_loop().call_soon(stream.cancel)

    message = await asyncio.wait_for(stream.result(), 5)

    assert message.stop_reason == "aborted"


async def test_the_signal_does_the_same_and_is_let_go_of() -> None:
    controller = AbortController()
    script = ScriptedModel([Reply("x"), Reply("never", delay=3600), Reply("unasked")])

    def ask() -> Any:
        return script.stream_fn(script.model, CONTEXT, signal=controller.signal)

    await ask().result()
    assert controller.signal._callbacks == {}
    asyncio.get_running_loop().call_soon(controller.abort)
    aborted = await asyncio.wait_for(ask().result(), 5)
    unasked = await ask().result()

    assert [m.stop_reason for m in (aborted, unasked)] == ["aborted", "aborted"]
    assert unasked.content == []


def test_it_says_how_far_the_script_is() -> None:
    assert repr(ScriptedModel([Reply("a")])) == "<ScriptedModel 0 of 1 replies given>"
