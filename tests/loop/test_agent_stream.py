"""An agent's run read event by event, the run keeping step with the reader."""

from __future__ import annotations

import asyncio

import pytest
from tests.loop.traces import (
    PLAIN,
    assert_paired,
    assert_well_formed,
    no_task_left,
    results,
    scripted,
    texts,
    trace,
)

from loopwright.errors import AgentBusy, Misuse
from loopwright.events import AgentEvent, MessageUpdate, TurnStart
from loopwright.testing import Call, Reply


def add(a: int, b: int) -> int:
    return a + b


ADD = Call("add", {"a": 17, "b": 25}, id="c1")


class Hang:
    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.cancelled = False

    async def hang(self) -> None:
        self.started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise


async def test_the_stream_shows_every_event_and_then_the_result() -> None:
    agent, _, heard = scripted(Reply("Adding", calls=[ADD]), "42.", tools=[add])

    async with no_task_left(), agent.stream("17 + 25?") as events:
        read = [event async for event in events]
        result = await events.result()

    assert read == heard
    assert_paired(read)
    assert result.text == "42."


async def test_the_run_goes_on_only_when_the_next_event_is_asked_for() -> None:
    agent, model, heard = scripted(Reply("abc", chunk_size=1), "Never.")

    async with agent.stream("go") as events:
        async for event in events:
            for _ in range(5):
                await asyncio.sleep(0)
            assert heard[-1] is event
            if isinstance(event, TurnStart):
                assert model.requests == []
                assert agent.state.messages == []


async def test_leaving_early_aborts_the_run() -> None:
    agent, _, heard = scripted(Reply("A long reply", chunk_size=1), "Again.")

    async with no_task_left(), agent.stream("go") as events:
        async for event in events:
            if isinstance(event, MessageUpdate) and event.message.text == "A l":
                break

    assert_paired(heard)
    assert agent.state.messages[-1].stop_reason == "aborted"  # type: ignore[union-attr]
    assert agent.state.messages[-1].text == "A l"  # type: ignore[union-attr]
    assert not agent.state.is_streaming
    assert (await agent.prompt("again")).text == "Again."


async def test_leaving_before_the_first_event_aborts_the_run_too() -> None:
    agent, model, heard = scripted("Never.")

    async with no_task_left(), agent.stream("go"):
        pass

    assert model.requests == []
    if heard:
        assert_paired(heard)
    assert not agent.state.is_streaming


async def test_an_exception_in_the_body_aborts_the_run_and_comes_out() -> None:
    thing = Hang()
    agent, _, heard = scripted(Reply(calls=[Call("hang", id="h")]), tools=[thing.hang])

    async with no_task_left():
        with pytest.raises(ZeroDivisionError):
            async with agent.stream("go") as events:
                async for event in events:
                    if event.type == "tool_execution_start":
                        raise ZeroDivisionError

    assert_paired(heard)
    assert_well_formed(agent.state.messages)
    assert texts(results(agent.state.messages)) == ["Operation aborted"]


@pytest.mark.parametrize("where", ["reading", "working", "result"])
async def test_cancelling_the_reader_ends_the_run_first(where: str) -> None:
    thing = Hang()
    agent, _, heard = scripted(Reply(calls=[Call("hang", id="h")]), tools=[thing.hang])

    async def read() -> None:
        async with agent.stream("go") as events:
            if where == "result":
                await events.result()
            async for event in events:
                if where == "working" and event.type == "tool_execution_start":
                    thing.started.set()
                    await asyncio.Event().wait()

    async with no_task_left():
        reader = asyncio.create_task(read())
        await thing.started.wait()
        await asyncio.sleep(0)
        reader.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reader

    assert_paired(heard)
    assert_well_formed(agent.state.messages)
    assert not agent.state.is_streaming


async def test_the_result_may_be_had_without_reading_on() -> None:
    agent, _, heard = scripted(Reply(calls=[ADD]), "42.", tools=[add])

    async with agent.stream("go") as events:
        first = await anext(events)
        result = await events.result()
        rest = [event async for event in events]

    assert first.type == "agent_start"
    assert result.text == "42."
    assert rest == []
    assert_paired(heard)


async def test_a_wrong_prompt_raises_where_the_events_are_read() -> None:
    agent, _, _ = scripted()

    async with no_task_left():
        with pytest.raises(Misuse, match="nothing to say"):
            async with agent.stream([]) as events:
                await anext(events)


async def test_a_stream_on_a_busy_agent_disturbs_nobody() -> None:
    thing = Hang()
    agent, _, heard = scripted(Reply(calls=[Call("hang", id="h")]), tools=[thing.hang])
    running = asyncio.create_task(agent.prompt("go"))
    await thing.started.wait()

    with pytest.raises(AgentBusy):
        async with agent.stream("me too") as events:
            await anext(events)
    with pytest.raises(AgentBusy):
        async with agent.stream("me too") as events:
            await events.result()
    try:
        async with agent.stream("me too"):
            pass
    except AgentBusy:
        pass

    assert not running.done()
    assert not agent.signal.aborted  # type: ignore[union-attr]
    agent.abort()
    result = await running
    assert result.stopped_by == "abort"
    assert_paired(heard)


async def test_a_stream_is_entered_once_and_before_it_is_read() -> None:
    agent, _, _ = scripted("Hi.")
    stream = agent.stream("go")

    with pytest.raises(Misuse, match="async with"):
        aiter(stream)
    async with stream as events:
        async for _ in events:
            pass
    with pytest.raises(Misuse, match="once"):
        await stream.__aenter__()


async def test_aborting_from_the_body_shows_the_closing_events() -> None:
    agent, _, _ = scripted(Reply("A long reply", chunk_size=1))
    read: list[AgentEvent] = []

    async with agent.stream("go") as events:
        async for event in events:
            read.append(event)
            if isinstance(event, MessageUpdate):
                agent.abort()
        result = await events.result()

    assert trace(read) == PLAIN
    assert result.stopped_by == "abort"


async def test_steering_from_the_body_reaches_the_run() -> None:
    agent, _, _ = scripted("One.", "Two.")

    async with agent.stream("go") as events:
        async for event in events:
            first_reply = event.type == "message_update" and len(agent.state.messages) == 1
            if first_reply and not agent.has_queued_messages():
                agent.steer("more")
        result = await events.result()

    assert texts(result.messages) == ["go", "One.", "more", "Two."]
