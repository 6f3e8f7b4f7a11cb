"""Saying something while a run goes on. Behaviours 116 to 120, and interrupting."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from tests.loop.traces import (
    REPLY,
    USER,
    assert_paired,
    assert_well_formed,
    no_task_left,
    result_of,
    results,
    scripted,
    texts,
    trace,
    until,
)

from loopwright import FinishTurn
from loopwright.errors import Misuse, NothingToResume
from loopwright.events import AgentEvent, MessageUpdate, ToolExecutionStart, TurnEnd, TurnStart
from loopwright.messages import AssistantMessage, TextContent, ToolCall, UserMessage
from loopwright.testing import Call, Reply


def add(a: int, b: int) -> int:
    return a + b


ADD = Call("add", {"a": 17, "b": 25}, id="add")
HANG = Call("hang", id="hang")


class Hang:
    """A tool that never ends by itself, and says when it began and that it was cancelled."""

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.go_on = asyncio.Event()
        self.cancelled = False

    async def hang(self) -> str:
        self.started.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.cancelled = True
            raise
        return "went on"


# -- modes -----------------------------------------------------------------------------------


@pytest.mark.parametrize("queue", ["steering", "follow_up"])
async def test_behaviour_116_one_at_a_time_takes_the_oldest_and_all_takes_everything(
    queue: str,
) -> None:
    async def requests(mode: str) -> list[list[str]]:
        agent, model, _ = scripted("1", "2", "3", "4", **{f"{queue}_mode": mode})
        for text in ("a", "b", "c"):
            agent.steer(text) if queue == "steering" else agent.follow_up(text)
        await agent.prompt("go")
        return [texts(request.context.messages) for request in model.requests]

    one, every = await requests("one-at-a-time"), await requests("all")

    if queue == "steering":
        assert one[-1] == ["go", "a", "1", "b", "2", "c"]
        assert every == [["go", "a", "b", "c"]]
    else:
        assert one[-1] == ["go", "1", "a", "2", "b", "3", "c"]
        assert every == [["go"], ["go", "1", "a", "b", "c"]]


async def test_behaviour_116_one_at_a_time_is_the_default_and_can_be_changed_during_a_run() -> None:
    agent, model, _ = scripted("1", "2", "3")
    assert agent.steering_mode == agent.follow_up_mode == "one-at-a-time"
    for text in ("a", "b", "c"):
        agent.steer(text)

    def change(event: AgentEvent) -> None:
        if isinstance(event, TurnEnd):
            agent.steering_mode = "all"

    agent.subscribe(change)
    await agent.prompt("go")

    assert texts(model.requests[0].context.messages) == ["go", "a"]
    assert texts(model.requests[1].context.messages) == ["go", "a", "1", "b", "c"]


async def test_behaviour_117_steering_waits_until_every_call_is_done() -> None:
    tool = Hang()
    agent, model, events = scripted(Reply(calls=[HANG, ADD]), "Done.", tools=[tool.hang, add])

    running = asyncio.create_task(agent.prompt("go"))
    await tool.started.wait()
    agent.steer("hurry")
    await until(lambda: "tool add end" in trace(events))
    for _ in range(20):
        await asyncio.sleep(0)
    assert not running.done()
    tool.go_on.set()
    result = await running

    assert texts(result.messages) == ["go", "", "went on", "42", "hurry", "Done."]
    assert len(model.requests) == 2


async def test_behaviour_118_steering_is_drained_before_follow_ups() -> None:
    agent, _, _ = scripted("1", "2", "3", "4", "5")
    agent.follow_up("f1")
    agent.follow_up("f2")
    agent.steer("s1")
    agent.steer("s2")

    result = await agent.prompt("go")

    assert texts(result.messages) == ["go", "s1", "1", "s2", "2", "f1", "3", "f2", "4"]


async def test_behaviour_119_what_is_queued_is_not_in_the_transcript() -> None:
    agent, _, _ = scripted("Hello.")
    agent.steer("one")
    agent.follow_up("two")

    assert agent.state.messages == []
    assert agent.has_queued_messages()


@pytest.mark.parametrize("ending", ["hook", "error", "abort", "max_turns"])
async def test_behaviour_119_what_is_queued_stays_queued_when_the_run_is_stopped(
    ending: str,
) -> None:
    agent, _, _ = scripted(
        Reply("half", error="broken") if ending == "error" else Reply("Hi", calls=[ADD]),
        tools=[add],
    )

    def finish(turn: Any) -> FinishTurn | None:
        if ending == "abort":
            agent.abort()
        return FinishTurn.END if ending == "hook" else None

    agent.finish_turn = finish
    if ending == "max_turns":
        agent.max_turns = 1

    def listen(event: AgentEvent) -> None:
        if isinstance(event, MessageUpdate) and not agent.has_queued_messages():
            agent.follow_up("f")
            agent.steer("s")

    agent.subscribe(listen)
    result = await agent.prompt("go")

    assert result.stopped_by == ending
    assert texts(result.undelivered) == ["s", "f"]
    assert agent.has_queued_messages()
    assert_well_formed(agent.state.messages)


async def test_clearing_forgets_what_waits() -> None:
    agent, model, _ = scripted("Hello.", "Hello.")

    agent.steer("s")
    agent.follow_up("f")
    agent.clear_steering_queue()
    assert agent.has_queued_messages()
    agent.clear_follow_up_queue()
    assert not agent.has_queued_messages()
    agent.steer("s", when="interrupt")
    agent.follow_up("f")
    agent.clear_all_queues()
    await agent.prompt("go")

    assert texts(model.requests[0].context.messages) == ["go"]
    assert len(model.requests) == 1


# -- resuming --------------------------------------------------------------------------------


def answered() -> list[Any]:
    return [UserMessage("go"), AssistantMessage([TextContent("done")])]


async def test_behaviour_120_resume_on_a_reply_takes_one_batch_of_steering() -> None:
    agent, model, events = scripted("1", "2", messages=answered())
    agent.steer("a")
    agent.steer("b")
    agent.follow_up("f")
    agent.finish_turn = lambda turn: FinishTurn.END

    first = await agent.resume()

    assert texts(first.messages) == ["a", "1"]
    assert trace(events) == ["agent_start", "turn_start", *USER, *REPLY, "turn_end", "agent_end"]
    assert texts(model.requests[0].context.messages) == ["go", "done", "a"]
    assert texts((await agent.resume()).messages) == ["b", "2"]


async def test_behaviour_120_steering_drained_by_resume_is_not_polled_again_at_once() -> None:
    agent, model, _ = scripted("1", "2", messages=answered())
    agent.steer("a")
    agent.steer("b")

    result = await agent.resume()

    assert texts(result.messages) == ["a", "1", "b", "2"]
    assert len(model.requests) == 2


async def test_behaviour_120_without_steering_it_takes_a_follow_up() -> None:
    agent, _, _ = scripted("1", "2", messages=answered())
    agent.follow_up("f1")
    agent.follow_up("f2")

    result = await agent.continue_()

    assert texts(result.messages) == ["f1", "1", "f2", "2"]


async def test_behaviour_120_a_failing_resume_takes_nothing() -> None:
    agent, _, events = scripted(messages=answered())

    with pytest.raises(NothingToResume):
        await agent.resume()

    agent.steer("a")
    agent.state.messages = []
    result_of_empty = asyncio.ensure_future(agent.resume())
    await asyncio.wait({result_of_empty})
    assert texts(result_of_empty.result().messages)[0] == "a"
    assert trace(events)[:2] == ["agent_start", "turn_start"]


async def test_behaviour_120_resume_on_an_empty_agent_raises_and_changes_nothing() -> None:
    agent, _, events = scripted()

    with pytest.raises(NothingToResume, match="empty"):
        await agent.resume()

    assert events == []
    assert not agent.state.is_streaming


# -- interrupting ----------------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["parallel", "sequential"])
@pytest.mark.parametrize("thread", [False, True])
async def test_interrupting_running_tools_answers_every_call_and_is_said_next(
    mode: Any, thread: bool
) -> None:
    tool = Hang()
    agent, model, events = scripted(
        Reply(calls=[ADD, HANG, Call("hang", id="second")]),
        "As you wish.",
        tools=[add, tool.hang],
        tool_execution=mode,
    )
    agent.steer("ordinary")
    agent.steering_mode = "one-at-a-time"

    async with no_task_left():
        running = asyncio.create_task(agent.prompt("go"))
        await tool.started.wait()
        await until(lambda: "tool add end" in trace(events))
        if thread:
            worker = threading.Thread(target=agent.steer, args=("stop that", "interrupt"))
            worker.start()
            result = await running
            worker.join()
        else:
            agent.steer("stop that", when="interrupt")
            result = await running

    assert tool.cancelled
    told = results(result.messages)
    assert [r.tool_call_id for r in told] == ["add", "hang", "second"]
    assert told[0].text == "42"
    assert all(r.is_error and r.text.startswith("Operation aborted") for r in told[1:])
    assert texts(model.requests[1].context.messages)[-1] == "stop that"
    assert (result.stop_reason, result.stopped_by) == ("stop", None)
    assert result.text == "As you wish."
    assert_paired(events)
    assert_well_formed(agent.state.messages)


async def test_an_interrupting_message_goes_before_those_that_wait_already() -> None:
    tool = Hang()
    agent, model, _ = scripted(Reply(calls=[HANG]), "One.", "Two.", tools=[tool.hang])

    running = asyncio.create_task(agent.prompt("go"))
    await tool.started.wait()
    agent.steer("later")
    agent.steer("now", when="interrupt")
    await running

    assert texts(model.requests[1].context.messages)[-1] == "now"
    assert texts(model.requests[2].context.messages)[-1] == "later"


async def test_interrupting_while_the_model_speaks_lets_it_finish_and_runs_no_call() -> None:
    ran: list[int] = []

    def record(n: int) -> None:
        ran.append(n)

    agent, model, events = scripted(
        Reply("A long reply", calls=[Call("record", {"n": 1}, id="c1")], chunk_size=2),
        "As you wish.",
        tools=[record],
    )
    gated: list[str] = []
    agent.before_tool_call = lambda question: gated.append(question.tool_call.id)

    def listen(event: AgentEvent) -> None:
        if isinstance(event, MessageUpdate) and event.message.text == "A ":
            agent.steer("no, wait", when="interrupt")

    agent.subscribe(listen)
    result = await agent.prompt("go")

    assert ran == []
    assert gated == []
    assert texts(result.messages)[:2] == ["go", "A long reply"]
    (told,) = results(result.messages)
    assert told.is_error
    assert told.text.startswith("Operation aborted")
    assert texts(model.requests[1].context.messages)[-1] == "no, wait"
    assert result.messages[1].stop_reason == "toolUse"  # type: ignore[union-attr]
    assert trace(events)[-10:] == [
        *result_of("c1"),
        "turn_end",
        "turn_start",
        *USER,
        *REPLY,
        "turn_end",
        "agent_end",
    ]
    assert_paired(events)


async def test_interrupting_while_idle_is_ordinary_steering() -> None:
    agent, model, _ = scripted(Reply(calls=[ADD]), "Done.", tools=[add])
    agent.steer("beforehand", when="interrupt")

    result = await agent.prompt("go")

    assert texts(model.requests[0].context.messages) == ["go", "beforehand"]
    assert texts(results(result.messages)) == ["42"]


async def test_interrupting_during_preflight_starts_no_tool() -> None:
    ran: list[str] = []

    def work() -> None:
        ran.append("work")

    agent, _, events = scripted(
        Reply(calls=[Call("work", id="a"), Call("work", id="b")]), "Done.", tools=[work]
    )

    def listen(event: AgentEvent) -> None:
        if isinstance(event, ToolExecutionStart) and event.tool_call_id == "b":
            agent.steer("stop", when="interrupt")

    agent.subscribe(listen)
    result = await agent.prompt("go")

    assert ran == []
    assert len(results(result.messages)) == 2
    assert result.text == "Done."
    assert_paired(events)


async def test_the_next_batch_after_an_interruption_runs_as_usual() -> None:
    tool = Hang()
    agent, _, _ = scripted(Reply(calls=[HANG]), Reply(calls=[ADD]), "Done.", tools=[tool.hang, add])

    running = asyncio.create_task(agent.prompt("go"))
    await tool.started.wait()
    agent.steer("add instead", when="interrupt")
    result = await running

    assert texts(results(result.messages))[1:] == ["42"]


async def test_interrupting_at_the_turn_limit_ends_the_tools_and_stays_undelivered() -> None:
    tool = Hang()
    agent, _, _ = scripted(Reply(calls=[HANG]), tools=[tool.hang], max_turns=1)

    running = asyncio.create_task(agent.prompt("go"))
    await tool.started.wait()
    agent.steer("stop", when="interrupt")
    result = await running

    assert result.stopped_by == "max_turns"
    assert texts(result.undelivered) == ["stop"]
    assert tool.cancelled


async def test_an_unknown_moment_is_refused() -> None:
    agent, _, _ = scripted()

    with pytest.raises(Misuse, match="after_batch"):
        agent.steer("hi", when="now")  # type: ignore[arg-type]
    with pytest.raises(Misuse):
        agent.steer(3)  # type: ignore[arg-type]

    assert not agent.has_queued_messages()


# -- from other threads ----------------------------------------------------------------------


async def test_steering_and_follow_ups_may_come_from_many_threads() -> None:
    tool = Hang()
    agent, _, _ = scripted(
        Reply(calls=[HANG]),
        "Done.",
        "And done.",
        tools=[tool.hang],
        steering_mode="all",
        follow_up_mode="all",
    )
    running = asyncio.create_task(agent.prompt("go"))
    await tool.started.wait()

    def send(n: int) -> None:
        for m in range(50):
            agent.steer(f"s{n}.{m}")
            agent.follow_up(f"f{n}.{m}")

    threads = [threading.Thread(target=send, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    tool.go_on.set()
    result = await running

    said = texts(m for m in result.messages if isinstance(m, UserMessage))[1:]
    assert sorted(said) == sorted(f"{q}{n}.{m}" for q in "sf" for n in range(4) for m in range(50))
    for n in range(4):
        mine = [text for text in said if text.startswith(f"s{n}.")]
        assert mine == [f"s{n}.{m}" for m in range(50)]


async def test_a_message_that_was_taken_but_not_said_is_queued_again() -> None:
    agent, _, _ = scripted(Reply(calls=[ADD]), tools=[add])

    async def prepare(turn: Any) -> None:
        agent.abort()
        await asyncio.Event().wait()

    agent.prepare_next_turn = prepare
    agent.finish_turn = lambda turn: agent.steer("next please")
    result = await agent.prompt("go")

    assert result.stopped_by == "abort"
    assert texts(result.undelivered) == ["next please"]
    assert_well_formed(agent.state.messages)


async def test_an_abort_between_poll_and_delivery_loses_no_message() -> None:
    agent, _, _ = scripted("One.", steering_mode="all")
    turns = 0

    def listen(event: AgentEvent) -> None:
        nonlocal turns
        if isinstance(event, TurnEnd):
            agent.steer("a")
            agent.steer("b")
        if isinstance(event, TurnStart):
            turns += 1
            if turns == 2:
                agent.abort()

    agent.subscribe(listen)
    result = await agent.prompt("go")

    said = texts(m for m in result.messages if isinstance(m, UserMessage))
    assert said[1:] + texts(result.undelivered)[: 2 - len(said[1:])] == ["a", "b"]


async def test_calls_that_history_left_open_do_not_run_when_a_new_prompt_comes() -> None:
    open_call = AssistantMessage([ToolCall("c1", "add", {"a": 1, "b": 2})], stop_reason="toolUse")
    agent, model, _ = scripted("Hello.", messages=[UserMessage("go"), open_call], tools=[add])

    await agent.prompt("go on")

    assert_well_formed(model.requests[0].context.messages)
    assert results(agent.state.messages) == []
