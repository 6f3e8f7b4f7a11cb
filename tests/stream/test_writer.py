"""Writing a stream by pushing."""

from __future__ import annotations

import asyncio

from loopwright.messages import AssistantMessage, TextContent, ThinkingContent, ToolCall, Usage
from loopwright.stream import Done, Error, Start, StreamWriter, TextDelta, TextEnd, TextStart


async def test_what_is_written_is_read_in_order() -> None:
    writer = StreamWriter(api="api", provider="acme", model="large")
    writer.thinking("hm")
    writer.text("Hel")
    writer.text("lo")
    writer.tool_call("c", "look", {"a": 1})
    writer.done(usage=Usage(input=3))

    events = [event async for event in writer.stream]

    assert [event.type for event in events] == [
        "start", "thinking_start", "thinking_delta", "thinking_end",
        "text_start", "text_delta", "text_delta", "text_end",
        "toolcall_start", "toolcall_end", "done",
    ]  # fmt: skip
    message = await writer.stream.result()
    assert message.content == [
        ThinkingContent("hm"), TextContent("Hello"), ToolCall("c", "look", {"a": 1})
    ]  # fmt: skip
    assert (message.model, message.stop_reason, message.usage.input) == ("large", "toolUse", 3)


async def test_the_reader_is_woken_by_what_comes_later() -> None:
    writer = StreamWriter()
    reading = asyncio.create_task(writer.stream.result())
    await asyncio.sleep(0)

    writer.text("a")
    await asyncio.sleep(0)
    writer.text("b")
    writer.done()

    assert (await asyncio.wait_for(reading, 5)).text == "ab"


async def test_an_error_ends_it_with_what_was_written() -> None:
    writer = StreamWriter()
    writer.text("Par")
    writer.error("broke", retryable=True)

    closing = [event async for event in writer.stream][-1]

    assert isinstance(closing, Error)
    assert (closing.retryable, closing.error.text, closing.error.error_message) == (
        True, "Par", "broke"
    )  # fmt: skip


async def test_what_is_written_after_the_end_is_dropped() -> None:
    writer = StreamWriter()
    writer.done()
    writer.text("late")
    writer.error("late")

    assert writer.closed
    assert [event.type async for event in writer.stream] == ["start", "done"]


async def test_a_writer_sees_that_its_reader_left() -> None:
    writer = StreamWriter()
    writer.text("a")

    async with writer.stream as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                break

    assert writer.closed
    writer.text("into the void")


async def test_cancelling_a_reader_that_waits_ends_in_aborted() -> None:
    writer = StreamWriter()
    reading = asyncio.create_task(writer.stream.result())
    await asyncio.sleep(0)

    writer.stream.cancel()

    assert (await asyncio.wait_for(reading, 5)).stop_reason == "aborted"
    assert writer.closed


async def test_events_made_elsewhere_can_be_pushed_and_get_partials() -> None:
    writer = StreamWriter(provider="acme")
    for event in (Start(), TextStart(0), TextDelta(0, "a"), TextEnd(0, "a")):
        writer.push(event)
    writer.push(Done("stop", AssistantMessage([TextContent("a")])))

    events = [event async for event in writer.stream]

    delta = events[2]
    assert isinstance(delta, TextDelta)
    assert delta.partial.text == "a"
    assert delta.partial.provider == "acme"
    assert writer.closed
