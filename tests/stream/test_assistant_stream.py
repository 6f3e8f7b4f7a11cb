"""A stream ends once and cleanly, whoever stops it and wherever."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncGenerator, AsyncIterator
from types import AsyncGeneratorType
from typing import Any

import pytest

from loopwright.messages import AssistantMessage, TextContent, ToolCall
from loopwright.stream import (
    AssistantMessageEvent,
    AssistantStream,
    Done,
    Error,
    ReplyBuilder,
    Start,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ToolCallEnd,
)

HEAD = AssistantMessage([], "api", "acme", "large", timestamp=1)
Batch = list[AssistantMessageEvent]


def reply(*pieces: str) -> list[AssistantMessageEvent]:
    builder = ReplyBuilder(api="api", provider="acme", model="large")
    events: list[AssistantMessageEvent] = [builder.start(), builder.text_start()]
    events += [builder.text_delta(0, piece) for piece in pieces]
    return [*events, builder.text_end(0), builder.done("stop")]


class Source:
    """An async generator of batches that says whether it was closed, and may wait between them."""

    def __init__(self, *batches: Batch, wait_before: int | None = None) -> None:
        self.batches = batches
        self.wait_before = wait_before
        self.waiting = asyncio.Event()
        self.closed = False

    async def run(self) -> AsyncGenerator[Batch, None]:
        try:
            for n, batch in enumerate(self.batches):
                if n == self.wait_before:
                    self.waiting.set()
                    await asyncio.sleep(3600)
                yield batch
        finally:
            self.closed = True


def one_each(events: list[AssistantMessageEvent]) -> list[Batch]:
    return [[event] for event in events]


async def all_of(stream: AssistantStream) -> list[AssistantMessageEvent]:
    return [event async for event in stream]


# -- reading -----------------------------------------------------------------------------------


async def test_events_come_one_by_one_and_the_message_after_them() -> None:
    events = reply("a", "b")
    stream = AssistantStream(Source(events[:3], [], events[3:]).run())

    read = await all_of(stream)

    assert read == events
    assert (await stream.result()).text == "ab"
    assert await all_of(stream) == []


async def test_the_message_can_be_had_without_reading_events() -> None:
    assert (await AssistantStream(Source(reply("a")).run()).result()).text == "a"


async def test_the_message_can_be_awaited_while_another_task_reads() -> None:
    stream = AssistantStream(Source(*one_each(reply("a", "b"))).run())

    read, message = await asyncio.gather(all_of(stream), stream.result())

    assert isinstance(read[-1], Done)
    assert message.text == "ab"


async def test_batches_come_as_they_were_made_and_an_empty_one_is_a_sign_of_life() -> None:
    events = reply("a")
    stream = AssistantStream(Source(events[:2], [], events[2:]).run())

    batches = [await stream.next_batch() for _ in range(4)]

    assert batches == [events[:2], [], events[2:], None]


async def test_two_readers_at_once_are_refused() -> None:
    source = Source(reply("a"), wait_before=0)
    stream = AssistantStream(source.run())
    reading = asyncio.create_task(stream.next_batch())
    await source.waiting.wait()

    with pytest.raises(RuntimeError, match="another task"):
        await stream.next_batch()

    stream.cancel()
    await reading


# -- sources that misbehave --------------------------------------------------------------------


async def test_a_source_that_raises_ends_in_an_error_with_what_came() -> None:
    async def source() -> AsyncGenerator[Batch, None]:
        yield reply("Par")[:3]
        raise ValueError("broke")

    stream = AssistantStream(source(), head=HEAD)

    closing = (await all_of(stream))[-1]

    assert isinstance(closing, Error)
    assert closing.error.text == "Par"
    assert closing.error.error_message == "broke"
    assert closing.error.stop_reason == "error"


async def test_a_source_that_raises_at_once_says_who_was_asked() -> None:
    async def source() -> AsyncGenerator[Batch, None]:
        raise ValueError
        yield []

    message = await AssistantStream(source(), head=HEAD).result()

    assert (message.provider, message.model, message.error_message) == (
        "acme",
        "large",
        "ValueError",
    )


async def test_case_012_a_source_that_just_ends_is_an_incomplete_reply() -> None:
    stream = AssistantStream(Source(reply("Par")[:3]).run())

    closing = (await all_of(stream))[-1]

    assert isinstance(closing, Error)
    assert (closing.kind, closing.retryable) == ("incomplete_stream", True)
    assert closing.error.text == "Par"


async def test_a_source_that_swallows_the_cancellation_is_not_listened_to() -> None:
    events = reply("a", "b")
    waiting = asyncio.Event()

    async def source() -> AsyncGenerator[Batch, None]:
        yield events[:3]
        try:
            waiting.set()
            await asyncio.sleep(3600)
        except asyncio.CancelledError:
            pass
        yield events[3:]

    stream = AssistantStream(source())
    reading = asyncio.create_task(all_of(stream))
    await waiting.wait()
    stream.cancel()
    read = await reading

    assert read[:3] == events[:3]
    assert isinstance(read[3], Error)
    assert (read[3].reason, read[3].error.text) == ("aborted", "a")
    assert reading.cancelling() == 0


async def test_a_clean_up_that_fails_changes_nothing() -> None:
    async def source() -> AsyncGenerator[Batch, None]:
        try:
            yield reply("a")
        finally:
            raise ValueError("clean-up")

    assert (await AssistantStream(source()).result()).text == "a"


# -- stopping ----------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 4, 7])
@pytest.mark.parametrize("point", range(8))
async def test_behaviour_100_cancel_at_every_point_ends_in_aborted_with_what_was_delivered(
    point: int, size: int
) -> None:
    """Cancelled by the reader between two events; the source hands over *size* at a time."""
    events = reply("a", "b", "c")
    source = Source(*[events[i : i + size] for i in range(0, len(events), size)])
    stream = AssistantStream(source.run(), head=HEAD)
    if point == 0:
        stream.cancel()
    read: list[AssistantMessageEvent] = []

    async for event in stream:
        read.append(event)
        if len(read) == point:
            stream.cancel()

    if point >= len(events):
        assert read == events
    else:
        assert read[:-1] == events[:point]
        closing = read[-1]
        assert isinstance(closing, Error)
        assert closing.reason == "aborted"
        assert closing.error.text == "".join(e.delta for e in read if isinstance(e, TextDelta))
        assert (await stream.result()) is closing.error
    assert source.closed or point == 0


async def test_behaviour_100_cancel_while_the_source_is_waited_for() -> None:
    events = reply("a", "b")
    source = Source(events[:3], events[3:], wait_before=1)
    stream = AssistantStream(source.run())
    reading = asyncio.create_task(all_of(stream))
    await source.waiting.wait()

    stream.cancel()
    stream.cancel()
    read = await asyncio.wait_for(reading, 5)

    assert isinstance(read[-1], Error)
    assert (read[-1].reason, read[-1].error.text) == ("aborted", "a")
    assert source.closed
    assert reading.cancelling() == 0


async def test_cancel_after_the_end_changes_nothing() -> None:
    stream = AssistantStream(Source(reply("a")).run())
    message = await stream.result()

    stream.cancel()

    assert await stream.result() is message
    assert message.stop_reason == "stop"


async def test_behaviour_100_an_outer_cancellation_is_passed_on_and_the_source_closed() -> None:
    source = Source(reply("a"), wait_before=0)
    stream = AssistantStream(source.run())
    reading = asyncio.create_task(stream.result())
    await source.waiting.wait()

    reading.cancel()

    with pytest.raises(asyncio.CancelledError):
        await reading
    assert source.closed


async def test_an_outer_cancellation_wins_over_ours() -> None:
    source = Source(reply("a"), wait_before=0)
    stream = AssistantStream(source.run())
    reading = asyncio.create_task(stream.result())
    await source.waiting.wait()

    stream.cancel()
    reading.cancel()

    with pytest.raises(asyncio.CancelledError):
        await reading


async def test_who_waits_for_the_message_is_woken_when_the_reader_is_cancelled() -> None:
    source = Source(reply("a"), wait_before=0)
    stream = AssistantStream(source.run())
    reading = asyncio.create_task(all_of(stream))
    await source.waiting.wait()
    waiting = asyncio.create_task(stream.result())
    await asyncio.sleep(0)

    reading.cancel()
    message = await asyncio.wait_for(waiting, 5)

    assert message.stop_reason == "error"
    assert reading.cancelled()


async def test_leaving_early_closes_the_source_at_once() -> None:
    source = Source(*one_each(reply("a", "b")))

    async with AssistantStream(source.run()) as stream:
        async for event in stream:
            if isinstance(event, TextDelta):
                break

    assert source.closed
    assert (await stream.result()).stop_reason == "aborted"


async def test_closing_while_another_task_reads_ends_that_reading() -> None:
    source = Source(reply("a"), wait_before=0)
    stream = AssistantStream(source.run())
    reading = asyncio.create_task(all_of(stream))
    await source.waiting.wait()

    await stream.aclose()
    read = await asyncio.wait_for(reading, 5)

    assert [event.type for event in read] == ["error"]
    assert source.closed


async def test_no_task_is_left_behind() -> None:
    before = asyncio.all_tasks()

    await AssistantStream(Source(*one_each(reply("a"))).run()).result()

    assert asyncio.all_tasks() == before


# -- hand-made events --------------------------------------------------------------------------


async def test_hand_made_events_get_their_partials() -> None:
    async def events() -> AsyncIterator[AssistantMessageEvent]:
        yield Start()
        yield TextStart(0)
        yield TextDelta(0, "a")
        yield ThinkingDelta(1, "hm")
        yield TextDelta(0, "b")
        yield TextEnd(0, "ab")
        yield ToolCallEnd(2, ToolCall("c", "look", {}))
        yield Done("toolUse", AssistantMessage([TextContent("ab")]))

    read = await all_of(AssistantStream.from_events(events(), head=HEAD))
    partials: list[Any] = [event.partial for event in read[:-1]]  # type: ignore[union-attr]

    assert [p.text for p in partials] == ["", "", "a", "a", "ab", "ab", "ab"]
    assert [p.thinking for p in partials][3:] == ["hm"] * 4
    assert partials[-1].tool_calls == [ToolCall("c", "look", {})]
    assert all(p.provider == "acme" for p in partials)


async def test_a_plain_list_of_events_will_do() -> None:
    stream = AssistantStream.from_events([TextDelta(0, "a"), Done("stop", AssistantMessage([]))])

    assert [event.type async for event in stream] == ["text_delta", "done"]


async def test_an_end_without_a_start_is_followed_too() -> None:
    events = [TextEnd(0, "ab"), Done("stop", AssistantMessage([TextContent("ab")]))]

    read = await all_of(AssistantStream.from_events(events))

    assert read[0].partial.text == "ab"  # type: ignore[union-attr]


async def test_a_partial_that_was_given_is_kept() -> None:
    mine = AssistantMessage([TextContent("mine")])
    events = [TextDelta(0, "a", mine), Done("stop", mine)]

    read = await all_of(AssistantStream.from_events(events))

    assert read[0].partial is mine  # type: ignore[union-attr]


async def test_what_is_no_event_is_an_error_that_says_so() -> None:
    message = await AssistantStream.from_events(["text"]).result()  # type: ignore[list-item]

    assert message.stop_reason == "error"
    assert "stream events, not str" in (message.error_message or "")


async def test_what_comes_after_the_end_is_not_read() -> None:
    done = Done("stop", AssistantMessage([]))

    read = await all_of(AssistantStream.from_events([done, TextDelta(0, "late")]))

    assert read == [done]


async def test_a_reading_left_by_break_is_closed_with_the_stream() -> None:
    """Otherwise the garbage collector would have a task started for it, whenever it comes by."""
    left_over: list[object] = []
    stream = AssistantStream(Source(one_each(reply("a"))[0], reply("a")).run())
    reading = aiter(stream)
    await anext(reading)

    await stream.aclose()

    assert isinstance(reading, AsyncGeneratorType)
    assert reading.ag_frame is None, "it has ended"
    with pytest.raises(StopAsyncIteration):
        await anext(reading)
    async with AssistantStream(Source(reply("a")).run()) as other:
        async for _ in other:
            break
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(finalizer=left_over.append)
    try:
        del reading, stream, other
        gc.collect()
    finally:
        sys.set_asyncgen_hooks(*hooks)
    assert left_over == []
