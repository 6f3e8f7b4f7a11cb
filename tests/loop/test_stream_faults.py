"""Stream functions of other people that misbehave: the run stands, ends in time, and says why.

Each test gives an agent an async generator with one bad habit. Time is virtual: delays cost
nothing, and what never ends is noticed at once.
"""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest
from tests.loop.invariants import check_events, check_idle, check_sendable, same_objects
from tests.loop.virtual_time import VirtualTimeLoop

from loopwright import Agent, RunResult
from loopwright.events import AgentEvent, MessageEnd
from loopwright.messages import AssistantMessage, TextContent, ToolCall
from loopwright.models import Context, Model
from loopwright.stream import (
    AssistantStream,
    Done,
    Error,
    Retry,
    Start,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallEnd,
    ToolCallStart,
)
from loopwright.testing import Reply, ScriptedModel

GRACE_SECONDS = 2.0
Source = Callable[[], AsyncIterator[Any]]


class Watched:
    """An agent over one source, and what was heard of it. The run after it must work."""

    def __init__(self, source: Source, **options: Any) -> None:
        self.events: list[AgentEvent] = []
        self.closed = False
        self.loop = VirtualTimeLoop()
        self.source = source

        def ask(model: Model, context: Context, **options: Any) -> AssistantStream:
            return AssistantStream.from_events(source())

        self.agent = Agent(ScriptedModel().model, stream_fn=ask, **options)
        self.agent.subscribe(self.events.append)
        self.seconds = 0.0
        self.struck = 0.0

    @property
    def reply(self) -> AssistantMessage:
        """What the source is taken to have said."""
        last = self.events[-3]
        assert isinstance(last, MessageEnd)
        assert isinstance(last.message, AssistantMessage)
        return last.message

    def prompt(self) -> RunResult:
        """One prompt, to its end."""
        return self.loop.live(self._prompt())

    async def _prompt(self) -> RunResult:
        result = await self.agent.prompt("go")
        self.seconds = self.loop.now
        await self._after()
        return result

    async def _after(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        assert asyncio.all_tasks() == {task}
        messages = check_events(self.events)
        assert same_objects(self.agent.state.messages, messages)
        check_idle(self.agent)
        again = ScriptedModel([Reply("Fine.")])
        self.agent.stream_fn = again.stream_fn
        heard = list(self.events)
        result = await self.agent.prompt("next")
        self.events[:] = heard
        assert result.text == "Fine."
        check_sendable(again.requests[0].context.messages)

    def abort_after(self, seconds: float) -> RunResult:
        """Abort that long after the beginning; `seconds` is then how long it took to end."""

        async def run() -> RunResult:
            self.loop.call_later(seconds, self.agent.abort)
            result = await self.agent.prompt("go")
            self.seconds = self.loop.now - seconds
            await self._after()
            return result

        return self.loop.live(run())

    def cancel_after(self, seconds: float) -> None:
        """Cancel the caller that long after the beginning."""

        async def run() -> None:
            caller = asyncio.create_task(self.agent.prompt("go"))
            self.loop.call_later(seconds, caller.cancel)
            await asyncio.wait({caller})
            self.seconds = self.loop.now - seconds
            assert caller.cancelled()
            await self._after()

        self.loop.live(run())


STOPS = [Watched.abort_after, Watched.cancel_after]
stopped_either_way = pytest.mark.parametrize("stop", STOPS, ids=["abort", "cancel"])


def whole() -> list[Any]:
    """The events of a good reply."""
    content: Any = [TextContent("ab")]
    return [
        Start(),
        TextStart(0),
        TextDelta(0, "a"),
        TextDelta(0, "b"),
        TextEnd(0, "ab"),
        Done("stop", AssistantMessage(content)),
    ]


# -- raising ---------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [ValueError("no luck"), asyncio.CancelledError()], ids=repr)
@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("before", range(6))
def test_a_source_that_raises_ends_the_run_with_an_error_that_keeps_what_was_said(
    before: int, waits: bool, error: BaseException
) -> None:
    async def source() -> AsyncIterator[Any]:
        for event in whole()[:before]:
            if waits:
                await asyncio.sleep(0.01)
            yield event
        raise error

    watched = Watched(source)
    result = watched.prompt()

    assert result.stop_reason == "error"
    assert result.stopped_by == "error"
    text = "cancelled from within" if isinstance(error, asyncio.CancelledError) else "no luck"
    assert text in (result.error_message or "")
    assert watched.reply.text == "ab"[: max(0, before - 2)]


def test_a_source_that_raises_behind_its_end_changes_nothing() -> None:
    async def source() -> AsyncIterator[Any]:
        for event in whole():
            yield event
        raise ValueError("too late")

    assert Watched(source).prompt().text == "ab"


@pytest.mark.parametrize("error", [ValueError("no luck"), asyncio.CancelledError()], ids=repr)
def test_a_source_that_raises_while_it_is_closed_changes_nothing(error: BaseException) -> None:
    async def source() -> AsyncIterator[Any]:
        try:
            for event in whole():
                yield event
        finally:
            raise error

    assert Watched(source).prompt().text == "ab"


@pytest.mark.parametrize("error", [ValueError("no luck"), asyncio.CancelledError()], ids=repr)
@pytest.mark.parametrize("waits", [False, True])
def test_a_stream_function_that_raises_ends_the_run_with_an_error(
    waits: bool, error: BaseException
) -> None:
    watched = Watched(whole_source)

    async def ask(model: Model, context: Context, **options: Any) -> AssistantStream:
        if waits:
            await asyncio.sleep(0.01)
        raise error

    def ask_now(model: Model, context: Context, **options: Any) -> AssistantStream:
        raise error

    watched.agent.stream_fn = ask if waits else ask_now
    result = watched.prompt()

    assert (result.stop_reason, result.stopped_by) == ("error", "error")
    assert result.error_message


async def whole_source() -> AsyncIterator[Any]:
    for event in whole():
        yield event


def test_a_crash_in_a_source_comes_out_after_the_closing_events() -> None:
    class Crash(BaseException):
        pass

    async def source() -> AsyncIterator[Any]:
        yield Start()
        yield TextDelta(0, "a")
        raise Crash

    watched = Watched(source)

    async def run() -> None:
        with pytest.raises(Crash):
            await watched.agent.prompt("go")
        await watched._after()

    watched.loop.live(run())

    assert watched.reply.stop_reason == "aborted"


# -- ending, or not --------------------------------------------------------------------------


@pytest.mark.parametrize("before", range(6))
def test_a_source_that_ends_early_is_an_error(before: int) -> None:
    async def source() -> AsyncIterator[Any]:
        for event in whole()[:before]:
            yield event

    watched = Watched(source)
    result = watched.prompt()

    assert result.stop_reason == "error"
    assert result.error_message == "The stream ended before the reply was complete."
    assert watched.reply.text == "ab"[: max(0, before - 2)]


@stopped_either_way
@pytest.mark.parametrize("before", range(6))
def test_a_source_that_never_goes_on_is_stopped_at_once(
    before: int, stop: Callable[..., object]
) -> None:
    async def source() -> AsyncIterator[Any]:
        for event in whole()[:before]:
            yield event
        await asyncio.sleep(1e6)

    watched = Watched(source)
    stop(watched, 1.0)

    assert watched.seconds < 0.01
    assert watched.reply.stop_reason == "aborted"
    assert watched.reply.text == "ab"[: max(0, before - 2)]


def test_a_source_that_never_ends_is_stopped_by_idle_timeout() -> None:
    async def source() -> AsyncIterator[Any]:
        yield Start()
        yield TextDelta(0, "a")
        await asyncio.sleep(1e6)

    watched = Watched(source, idle_timeout=5)
    result = watched.prompt()

    assert (result.stop_reason, result.stopped_by) == ("error", "timeout")
    assert watched.reply.stop_reason == "error"
    assert watched.reply.text == "a"
    assert 5 <= watched.seconds < 5.1


@stopped_either_way
def test_a_source_that_speaks_for_ever_is_stopped_in_the_middle(
    stop: Callable[..., object],
) -> None:
    async def source() -> AsyncIterator[Any]:
        yield Start()
        while True:
            await asyncio.sleep(0.01)
            yield TextDelta(0, "a")

    watched = Watched(source)
    stop(watched, 1.005)

    assert watched.seconds < 0.01
    assert watched.reply.text == "a" * 100


def test_a_source_that_aborts_the_run_itself_and_then_waits_is_stopped() -> None:
    watched: list[Watched] = []

    async def source() -> AsyncIterator[Any]:
        yield Start()
        yield TextDelta(0, "a")
        watched[0].agent.abort()
        await asyncio.sleep(1e6)

    watched.append(Watched(source))
    result = watched[0].prompt()

    assert result.stopped_by == "abort"
    assert watched[0].seconds < 0.01


# -- swallowing cancellation -----------------------------------------------------------------


@pytest.mark.parametrize("times", [1, 2, 3])
def test_a_source_that_swallows_its_cancellation_and_waits_on_is_stopped_within_the_grace(
    times: int,
) -> None:
    async def source() -> AsyncIterator[Any]:
        yield Start()
        yield TextDelta(0, "a")
        for _ in range(times):
            try:
                await asyncio.sleep(1e6)
            except asyncio.CancelledError:
                continue
        await asyncio.sleep(1e6)

    watched = Watched(source)
    result = watched.abort_after(1.0)

    assert result.stop_reason == "aborted"
    assert watched.seconds <= GRACE_SECONDS
    assert watched.reply.text == "a"


@stopped_either_way
def test_what_a_source_says_after_its_cancellation_is_not_heard(
    stop: Callable[..., object],
) -> None:
    async def source() -> AsyncIterator[Any]:
        yield Start()
        yield TextDelta(0, "a")
        try:
            await asyncio.sleep(1e6)
        except asyncio.CancelledError:
            yield TextDelta(0, "too late")
        yield Done("stop", AssistantMessage([TextContent("too late")]))

    watched = Watched(source)
    stop(watched, 1.0)

    assert watched.reply.stop_reason == "aborted"
    assert watched.reply.text == "a"
    assert watched.seconds < 0.01


@stopped_either_way
def test_a_source_that_answers_its_cancellation_with_an_error_is_aborted_all_the_same(
    stop: Callable[..., object],
) -> None:
    async def source() -> AsyncIterator[Any]:
        yield Start()
        try:
            await asyncio.sleep(1e6)
        except asyncio.CancelledError:
            raise ValueError("who dares") from None

    watched = Watched(source)
    stop(watched, 1.0)

    assert watched.reply.stop_reason == "aborted"


# -- closing slowly --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slow", "stop"),
    [(0.5, Watched.abort_after), (0.5, Watched.cancel_after), (1e6, Watched.abort_after)],
)
def test_a_source_that_takes_long_to_close_is_given_some_time(
    slow: float, stop: Callable[..., object]
) -> None:
    closed: list[bool] = []

    async def source() -> AsyncIterator[Any]:
        try:
            yield Start()
            await asyncio.sleep(1e6)
        finally:
            await asyncio.sleep(slow)
            closed.append(True)

    watched = Watched(source)
    stop(watched, 1.0)

    assert watched.reply.stop_reason == "aborted"
    assert watched.seconds <= GRACE_SECONDS


@pytest.mark.parametrize("slow", [0.5, 1e6])
def test_a_source_that_is_left_between_two_events_is_closed_but_not_waited_for_for_ever(
    slow: float,
) -> None:
    closing: list[bool] = []

    async def source() -> AsyncIterator[Any]:
        try:
            yield Start()
            yield TextDelta(0, "a")
            yield TextDelta(0, "b")
            await asyncio.sleep(1e6)
        finally:
            closing.append(True)
            await asyncio.sleep(slow)

    watched = Watched(source)

    def abort(event: AgentEvent) -> None:
        if event.type == "message_update" and not closing:
            watched.agent.abort()

    watched.agent.subscribe(abort)
    result = watched.prompt()

    assert result.stop_reason == "aborted"
    assert closing == [True]
    assert watched.seconds <= GRACE_SECONDS
    assert watched.reply.text == "a"


@stopped_either_way
def test_a_source_that_will_not_close_behind_its_end_can_be_stopped(
    stop: Callable[..., object],
) -> None:
    async def source() -> AsyncIterator[Any]:
        try:
            for event in whole():
                yield event
        finally:
            await asyncio.sleep(1e6)

    watched = Watched(source)
    stop(watched, 1.0)

    assert watched.seconds <= GRACE_SECONDS


def test_a_source_is_closed_before_the_next_one_is_asked() -> None:
    order: list[str] = []

    async def source() -> AsyncIterator[Any]:
        order.append("opened")
        try:
            content: Any = [ToolCall("c", "nobody", {})]
            if len(order) == 1:
                yield Start()
                yield ToolCallStart(0, tool_call_id="c", tool_name="nobody")
                yield ToolCallEnd(0, content[0])
                yield Done("toolUse", AssistantMessage(content, stop_reason="toolUse"))
            else:
                for event in whole():
                    yield event
        finally:
            await asyncio.sleep(0)
            order.append("closed")

    watched = Watched(source)

    assert watched.prompt().text == "ab"
    assert order == ["opened", "closed"] * 2


# -- garbage ---------------------------------------------------------------------------------


GARBAGE: list[Any] = [None, "text", 3, {"type": "text_delta"}, [TextDelta(0, "a")], object()]


@pytest.mark.parametrize("garbage", GARBAGE, ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("before", range(6))
def test_a_source_that_yields_something_else_ends_the_run_with_an_error(
    before: int, garbage: Any
) -> None:
    async def source() -> AsyncIterator[Any]:
        for event in whole()[:before]:
            yield event
        yield garbage

    watched = Watched(source)
    result = watched.prompt()

    assert result.stop_reason == "error"
    assert "stream events" in (result.error_message or "")
    assert watched.reply.text == "ab"[: max(0, before - 2)]


@pytest.mark.parametrize("garbage", [None, 3, "text", object()], ids=lambda v: type(v).__name__)
def test_a_stream_function_that_returns_something_else_ends_the_run_with_an_error(
    garbage: Any,
) -> None:
    watched = Watched(whole_source)
    watched.agent.stream_fn = lambda model, context, **options: garbage

    result = watched.prompt()

    assert result.stop_reason == "error"
    assert "must return an AssistantStream" in (result.error_message or "")


def test_a_bare_async_generator_is_taken_for_a_stream() -> None:
    watched = Watched(whole_source)
    watched.agent.stream_fn = lambda model, context, **options: whole_source()  # pyright: ignore[reportAttributeAccessIssue]

    assert watched.prompt().text == "ab"


@pytest.mark.parametrize(
    "events",
    [
        [Done("stop", AssistantMessage([TextContent("ab")]))],
        [TextDelta(0, "a"), TextDelta(0, "b"), Done("stop", AssistantMessage([TextContent("ab")]))],
        [TextEnd(0, "ab"), Done("stop", AssistantMessage([TextContent("ab")]))],
        [Start(), Start(), TextDelta(0, "ab"), Done("stop", AssistantMessage([TextContent("ab")]))],
        [*whole(), TextDelta(0, "c")],
        [*whole(), Start(), Error("error", AssistantMessage([]))],
        [*whole(), *whole()],
        [*whole(), None],
    ],
    ids=[
        "only the end",
        "no start",
        "no deltas",
        "two starts",
        "a delta",
        "an error",
        "all",
        "None",
    ],
)
def test_events_that_are_missing_doubled_or_behind_the_end_do_no_harm(events: list[Any]) -> None:
    async def source() -> AsyncIterator[Any]:
        for event in events:
            await asyncio.sleep(0)
            yield event

    watched = Watched(source)
    result = watched.prompt()

    assert (result.stop_reason, result.text) == ("stop", "ab")


def test_a_retry_in_the_middle_of_a_reply_does_not_end_the_run() -> None:
    """It comes before `start`; a source that thinks otherwise is heard out."""

    async def source() -> AsyncIterator[Any]:
        yield Retry(2, 3, 0.1, "overloaded")
        await asyncio.sleep(0.1)
        for event in whole():
            yield event

    watched = Watched(source)

    assert watched.prompt().text == "ab"
    assert [e.type for e in watched.events].count("retry") == 1


@pytest.mark.parametrize("reason", ["error", "aborted"])
def test_behaviour_101_a_source_that_calls_itself_aborted_is_an_error_unless_we_aborted(
    reason: Any,
) -> None:
    async def source() -> AsyncIterator[Any]:
        yield Start()
        yield TextDelta(0, "a")
        content: Any = [TextContent("a")]
        yield Error(reason, AssistantMessage(content, stop_reason=reason, error_message="gone"))

    watched = Watched(source)
    result = watched.prompt()

    assert result.stop_reason == "error"
    assert watched.reply.stop_reason == "error"
    assert result.error_message == "gone"


# -- nothing is left behind ------------------------------------------------------------------


def test_a_source_that_was_never_begun_leaves_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    """The run is aborted between the stream function and the first event."""
    watched = Watched(whole_source)

    def ask(model: Model, context: Context, **options: Any) -> AssistantStream:
        stream = AssistantStream.from_events(whole_source())
        watched.agent.abort()
        return stream

    watched.agent.stream_fn = ask
    with caplog.at_level(logging.WARNING):
        result = watched.prompt()
        gc.collect()

    assert result.stop_reason == "aborted"
    assert not caplog.records
