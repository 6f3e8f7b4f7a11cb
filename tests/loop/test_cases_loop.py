"""Faults that people reported of loops like this one, each with its whole kind.

There is no session store yet: the parts about saving, kill and resume come with it; what is tested
here is what the transcript holds and what the next request carries.
"""

from __future__ import annotations

import asyncio
import gc
import logging
import random
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.loop.traces import (
    PLAIN,
    assert_paired,
    assert_well_formed,
    no_task_left,
    results,
    roles,
    scripted,
    texts,
    trace,
    until,
)

from loopwright import (
    AfterToolCall,
    Agent,
    AgentContext,
    AgentLoopConfig,
    BeforeToolCall,
    BeforeToolCallResult,
    agent_loop,
)
from loopwright.events import AgentEvent, MessageUpdate, ToolExecutionEnd
from loopwright.messages import (
    AssistantMessage,
    StopReason,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from loopwright.stream import AssistantStream, Done
from loopwright.testing import Call, Reply, ScriptedModel


def add(a: int, b: int) -> int:
    return a + b


def read(path: str) -> str:
    return f"contents of {path}"


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Opened at the end, so that no thread of a test outlives it for long."""
    event = threading.Event()
    yield event
    event.set()


def replaying(*messages: AssistantMessage, **options: Any) -> tuple[Agent, list[list[Any]]]:
    """An agent whose foreign stream function says *messages*, and what it was asked with."""
    left = list(messages)
    asked: list[list[Any]] = []

    def stream_fn(model: Any, context: Any, **given: Any) -> AssistantStream:
        asked.append(list(context.messages))
        return AssistantStream.from_events([Done("stop", left.pop(0))])

    return Agent(ScriptedModel().model, stream_fn=stream_fn, **options), asked


# -- 009 and 010: the finish reason and the calls disagree -----------------------------------


@pytest.mark.parametrize("raw", ["stop", None, "other", "unknown"])
@pytest.mark.parametrize("reason", ["stop", "toolUse"])
async def test_case_009_calls_are_run_although_the_finish_reason_says_stop(
    reason: StopReason, raw: str | None
) -> None:
    calls: list[Any] = [ToolCall(f"c{n}", "add", {"a": n, "b": n}) for n in range(3)]
    content = [TextContent("Let me look that up."), *calls]
    agent, asked = replaying(
        AssistantMessage(content, stop_reason=reason, raw_stop_reason=raw),
        AssistantMessage([TextContent("There.")], raw_stop_reason="stop"),
        tools=[add],
    )

    result = await agent.prompt("go")

    assert texts(results(result.messages)) == ["0", "2", "4"]
    assert len(asked) == 2
    assert texts(results(asked[1])) == ["0", "2", "4"]
    first = result.messages[1]
    assert isinstance(first, AssistantMessage)
    assert first.stop_reason == "toolUse"
    if raw is not None:
        assert first.raw_stop_reason == raw
    assert (result.text, result.stop_reason) == ("There.", "stop")


@pytest.mark.parametrize("reason", ["length", "error", "aborted"])
async def test_case_009_calls_of_a_cut_or_failed_reply_are_not_run(reason: StopReason) -> None:
    ran: list[int] = []

    def record() -> None:
        ran.append(1)

    agent, model, _ = scripted(
        Reply(calls=[Call("record")], stop_reason=reason), "Then not.", tools=[record]
    )

    await agent.prompt("go")

    assert ran == []
    assert len(model.requests) == (2 if reason == "length" else 1)


async def test_case_010_a_reply_that_claims_calls_and_has_none_ends_the_run() -> None:
    empty = AssistantMessage([], stop_reason="toolUse", raw_stop_reason="tool_use")
    agent, asked = replaying(*[empty] * 5, tools=[add])

    result = await agent.prompt("go")

    assert len(asked) == 1
    assert (result.stop_reason, result.stopped_by) == ("stop", None)
    message = result.messages[-1]
    assert isinstance(message, AssistantMessage)
    assert message.raw_stop_reason == "tool_use"

    await agent.prompt("again")
    assert texts(asked[1]) == ["go", "again"]  # nothing empty is sent


async def test_case_010_with_text_it_is_an_ordinary_answer() -> None:
    said = AssistantMessage([TextContent("Done.")], stop_reason="toolUse")
    agent, asked = replaying(*[said] * 5, tools=[add])

    result = await agent.prompt("go")

    assert (len(asked), result.stop_reason, result.text) == (1, "stop", "Done.")


# -- 022 and 023: abort between calls and results --------------------------------------------


async def test_case_022_after_an_abort_between_call_and_result_the_next_request_is_valid() -> None:
    started = asyncio.Event()
    late: list[str] = []

    async def bash(command: str) -> str:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            late.append(command)
        return "never"

    agent, model, _ = scripted(
        Reply(calls=[Call("bash", {"command": "sleep 600"}, id="c1")]), "Going on.", tools=[bash]
    )
    running = asyncio.create_task(agent.prompt("go"))
    await started.wait()
    agent.abort()
    await running

    result = await agent.prompt("go on")

    sent = model.requests[1].context.messages
    assert_well_formed(sent)
    assert roles(sent) == ["user", "assistant", "toolResult", "user"]
    assert sent[2].text == "Operation aborted"
    assert sent[2].is_error  # type: ignore[union-attr]
    assert late == ["sleep 600"]
    assert result.text == "Going on."
    assert len(results(agent.state.messages)) == 1


async def test_case_022_an_abort_while_the_arguments_stream_leaves_nothing_to_answer() -> None:
    agent, model, _ = scripted(
        Reply(calls=[Call("read", {"path": "a long path"}, id="c1")], chunk_size=2),
        "Going on.",
        tools=[read],
    )

    def listen(event: AgentEvent) -> None:
        if isinstance(event, MessageUpdate):
            agent.abort()

    unsubscribe = agent.subscribe(listen)
    await agent.prompt("go")
    unsubscribe()
    await agent.prompt("go on")

    assert texts(model.requests[1].context.messages) == ["go", "go on"]
    assert_well_formed(agent.state.messages)


async def test_case_022_a_history_that_broke_off_before_any_result_is_repaired_on_a_copy() -> None:
    """As a process that was killed leaves it behind."""
    call = AssistantMessage([ToolCall("c1", "read", {"path": "a"})], stop_reason="toolUse")
    history = [UserMessage("go"), call]
    agent, model, _ = scripted("Going on.", messages=history, tools=[read])

    await agent.prompt("go on")

    sent = model.requests[0].context.messages
    assert_well_formed(sent)
    assert sent[2].is_error  # type: ignore[union-attr]
    assert agent.state.messages[:2] == history
    assert roles(agent.state.messages) == ["user", "assistant", "user", "assistant"]


async def test_case_023_results_that_are_there_survive_the_abort_of_the_others() -> None:
    async def quick() -> int:
        return 42

    async def forever() -> None:
        await asyncio.Event().wait()

    calls = [Call("forever", id="c0"), Call("quick", id="c1"), Call("forever", id="c2")]
    agent, model, events = scripted(Reply(calls=calls), "Going on.", tools=[quick, forever])

    running = asyncio.create_task(agent.prompt("go"))
    await until(lambda: "tool c1 end" in trace(events))
    assert not running.done()
    ended = next(event for event in events if isinstance(event, ToolExecutionEnd))
    assert (ended.tool_call_id, ended.result.text) == ("c1", "42")
    agent.abort()
    await running
    await agent.prompt("go on")

    told = results(model.requests[1].context.messages)
    assert [r.tool_call_id for r in told] == ["c0", "c1", "c2"]
    assert texts(told) == ["Operation aborted", "42", "Operation aborted"]
    assert [r.is_error for r in told] == [True, False, True]


async def test_case_023_the_same_when_the_task_is_cancelled() -> None:
    async def quick() -> int:
        return 42

    async def forever() -> None:
        await asyncio.Event().wait()

    calls = [Call("quick", id="c1"), Call("forever", id="c2")]
    agent, _, events = scripted(Reply(calls=calls), tools=[quick, forever])

    running = asyncio.create_task(agent.prompt("go"))
    await until(lambda: "tool c1 end" in trace(events))
    running.cancel()
    await asyncio.wait({running})

    assert texts(results(agent.state.messages)) == ["42", "Operation aborted"]


# -- 024 and 025: one call of several goes wrong ---------------------------------------------


class Control(BaseException):
    """A control exception of a framework, which must end the run."""


@pytest.mark.parametrize("way", ["control", "control among clean-up faults", "cancel"])
async def test_case_024_nothing_is_left_running_when_a_batch_breaks(
    way: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    proof = tmp_path / "written-too-late"
    started = asyncio.Event()

    async def breaks() -> None:
        await started.wait()
        if way == "cancel":
            await asyncio.Event().wait()
        raise Control("out")

    async def writes() -> None:
        started.set()
        try:
            await asyncio.sleep(0.1)
            proof.write_text("oh no")
        except asyncio.CancelledError:
            if way == "control among clean-up faults":
                raise ValueError("clean-up failed") from None
            raise

    agent, _, events = scripted(
        Reply(calls=[Call("breaks"), Call("writes")]), tools=[breaks, writes]
    )

    with caplog.at_level(logging.DEBUG):
        async with no_task_left():
            running = asyncio.create_task(agent.prompt("go"))
            await started.wait()
            if way == "cancel":
                running.cancel()
            expected = asyncio.CancelledError if way == "cancel" else Control
            with pytest.raises(expected):
                await running
        gc.collect()
        await asyncio.sleep(0.15)

    assert not proof.exists()
    assert [r for r in caplog.records if "never retrieved" in r.message] == []
    assert_paired(events)
    assert_well_formed(agent.state.messages)
    assert len(results(agent.state.messages)) == 2


@pytest.mark.parametrize("streaming", [False, True])
async def test_case_025_one_failing_tool_takes_nothing_from_the_others(streaming: bool) -> None:
    async def good() -> str:
        return "ok"

    async def bad() -> None:
        raise ValueError("bad")

    async def cancels_itself() -> None:
        inner = asyncio.create_task(asyncio.sleep(10))
        await asyncio.sleep(0)
        inner.cancel()
        await inner

    tools = [good, bad, cancels_itself]
    model = ScriptedModel(
        [Reply(calls=[Call(made.__name__) for made in tools]), Reply("Two of three failed.")]
    )

    async with no_task_left():
        if streaming:
            stream = agent_loop(
                [UserMessage("go")],
                AgentContext("", [], list(tools)),
                AgentLoopConfig(model.model),
                model.stream_fn,
            )
            assert_paired([event async for event in stream])
            messages = await stream.result()
        else:
            agent = Agent(model.model, stream_fn=model.stream_fn, tools=tools)
            messages = (await agent.prompt("go")).messages

    told = results(messages)
    assert [r.is_error for r in told] == [False, True, True]
    assert told[0].text == "ok"
    assert "bad" in told[1].text
    assert all(len(r.text) < 200 for r in told)
    assert messages[-1].text == "Two of three failed."  # type: ignore[union-attr]


# -- 026: hooks and listeners that raise -----------------------------------------------------


async def test_case_026_faulty_hooks_and_listeners_do_not_end_the_run() -> None:
    written: list[str] = []
    faults: list[tuple[str, str]] = []

    def write(path: str) -> None:
        written.append(path)

    def before(question: BeforeToolCall) -> None:
        if question.tool_call.name == "write":
            raise RuntimeError("boom")

    def after(question: AfterToolCall) -> None:
        raise RuntimeError("bang")

    agent, _, events = scripted(
        Reply(
            "ab", calls=[Call("write", {"path": "a"}), Call("read", {"path": "b"})], chunk_size=1
        ),
        "Well.",
        tools=[write, read],
        before_tool_call=before,
        after_tool_call=after,
        on_error=lambda error, where: faults.append((str(error), where)),
    )

    def listen(event: AgentEvent) -> None:
        if (
            isinstance(event, MessageUpdate)
            and event.assistant_message_event.type == "text_delta"
            and len(event.message.text) < 3
        ):
            raise RuntimeError("crack")

    agent.subscribe(listen)
    result = await agent.prompt("go")

    blocked, kept = results(result.messages)
    assert written == []
    assert blocked.is_error
    assert "before_tool_call" in blocked.text
    assert (kept.text, kept.is_error) == ("contents of b", False)
    assert faults == [
        ("crack", "a listener"),
        ("crack", "a listener"),
        ("boom", "before_tool_call"),
        ("bang", "after_tool_call"),
    ]
    assert (result.text, result.stop_reason) == ("Well.", "stop")
    assert_paired(events)


# -- 027: a tool that ignores the abort ------------------------------------------------------


async def test_case_027_a_thread_that_ignores_the_abort_does_not_keep_the_agent(
    gate: threading.Event,
) -> None:
    running = threading.Event()

    def block() -> str:
        running.set()
        gate.wait(30)
        return "too late"

    agent, model, events = scripted(
        Reply(calls=[Call("block", id="c1")]), "Here I am.", tools=[block]
    )
    first = asyncio.create_task(agent.prompt("go"))
    await until(running.is_set)

    started = time.perf_counter()
    agent.abort()
    assert time.perf_counter() - started < 1
    await asyncio.sleep(0.05)
    agent.abort()
    aborted = await first
    assert time.perf_counter() - started < 10
    assert not agent.state.is_streaming
    assert (aborted.stop_reason, aborted.stopped_by) == ("aborted", "abort")
    assert texts(results(aborted.messages)) == ["Operation aborted"]

    events.clear()
    second = await agent.prompt("still there?")  # the old thread still blocks
    assert second.text == "Here I am."
    gate.set()
    await asyncio.sleep(0.02)

    assert trace(events) == PLAIN
    assert len(agent.state.messages) == 5
    assert_well_formed(model.requests[1].context.messages)


async def test_case_027_an_async_tool_that_swallows_its_cancellation_is_left_behind() -> None:
    started = asyncio.Event()
    let_go = asyncio.Event()
    ended = asyncio.Event()

    async def stubborn() -> str:
        started.set()
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        ended.set()
        return "too late"

    agent, _, events = scripted(
        Reply(calls=[Call("stubborn", id="c1")]), "Here I am.", tools=[stubborn]
    )
    first = asyncio.create_task(agent.prompt("go"))
    await started.wait()
    before = time.perf_counter()
    agent.abort()
    aborted = await first
    assert time.perf_counter() - before < 3
    assert texts(results(aborted.messages)) == ["Operation aborted"]

    events.clear()
    let_go.set()
    assert (await agent.prompt("still there?")).text == "Here I am."
    await ended.wait()
    assert trace(events) == PLAIN
    assert len(results(agent.state.messages)) == 1


# -- 028: steering as the run ends -----------------------------------------------------------


async def exactly_once(seed: int) -> str:
    """Steer at a random moment near the end of a run. Says what became of the message."""
    dice = random.Random(seed)
    limit = dice.choice([None, None, 1])
    slow = dice.random() < 0.5
    agent, model, events = scripted(
        Reply("The answer", chunk_size=dice.choice([None, 3])), "In metric units.", max_turns=limit
    )

    async def breathe(event: AgentEvent) -> None:
        if slow:
            for _ in range(dice.randrange(3)):
                await asyncio.sleep(0)

    agent.subscribe(breathe)

    running: list[bool] = []

    async def steer() -> None:
        for _ in range(dice.randrange(24)):
            await asyncio.sleep(0)
        running.append(agent.state.is_streaming)
        agent.steer("use metric units", when=dice.choice(["after_batch", "interrupt"]))

    at = dice.choice(["message_end", "turn_end", "agent_end", None])
    if at is not None:
        nth = dice.randrange(2) if at == "message_end" else 0
        seen: list[str] = []

        def listen(event: AgentEvent) -> None:
            if event.type == at:
                seen.append(at)
                if len(seen) == nth + 1:
                    agent.steer("use metric units")

        agent.subscribe(listen)
        result = await agent.prompt("How far?")
    else:
        result, _ = await asyncio.gather(agent.prompt("How far?"), steer())

    said = texts(m for m in agent.state.messages if isinstance(m, UserMessage))
    waiting = texts(agent._steering.waiting())
    assert said.count("use metric units") + waiting.count("use metric units") == 1, seed
    assert_paired(events)
    if waiting:
        # Known as undelivered, unless it came before or after the run.
        assert texts(result.undelivered) == waiting or running == [False], seed
        agent.max_turns = None
        model.extend([Reply("And again.")] * 2)
        await agent.prompt("go on")
        assert agent.has_queued_messages() is False
        said = texts(m for m in agent.state.messages if isinstance(m, UserMessage))
        assert said.count("use metric units") == 1, seed
        return "undelivered"
    assert texts(model.requests[-1].context.messages).count("use metric units") == 1, seed
    return "delivered"


async def test_case_028_steering_at_any_moment_reaches_the_model_exactly_once() -> None:
    outcomes = [await exactly_once(seed) for seed in range(1000)]

    assert set(outcomes) == {"delivered", "undelivered"}  # both kinds of moment were hit


async def test_case_028_the_same_from_another_thread() -> None:
    for seed in range(60):
        agent, _, _ = scripted(Reply("The answer", chunk_size=1), "In metric units.")
        go = threading.Event()

        def steer(agent: Agent = agent, go: threading.Event = go, seed: int = seed) -> None:
            go.wait(5)
            for _ in range(seed * 20):
                pass
            agent.steer("use metric units")

        thread = threading.Thread(target=steer)
        thread.start()
        agent.subscribe(lambda event, go=go: go.set() if event.type == "message_update" else None)
        await agent.prompt("How far?")
        thread.join()

        said = texts(m for m in agent.state.messages if isinstance(m, UserMessage))
        waiting = texts(agent._steering.waiting())
        assert [*said[1:], *waiting] == ["use metric units"]


@pytest.mark.parametrize("at", ["turn_end", "agent_end"])
async def test_case_028_order_is_kept_steering_before_follow_ups(at: str) -> None:
    agent, _, _ = scripted("1", "2", "3", "4", "5", "6")
    told = False

    def listen(event: AgentEvent) -> None:
        nonlocal told
        if event.type == at and not told:
            told = True
            for text in ("f1", "f2"):
                agent.follow_up(text)
            for text in ("s1", "s2"):
                agent.steer(text)

    agent.subscribe(listen)
    result = await agent.prompt("go")
    if at == "agent_end":
        assert texts(result.undelivered) == ["s1", "s2", "f1", "f2"]
        await agent.resume()

    said = texts(m for m in agent.state.messages if isinstance(m, UserMessage))
    assert said == ["go", "s1", "s2", "f1", "f2"]


# -- 029: tools that do not exist ------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["list_files", "Read", "READ", "vendor.read", "functions:read", ""]
)
async def test_case_029_an_unknown_name_is_told_with_what_is_on_offer(name: str) -> None:
    def bash(command: str) -> str:
        return command

    seen: list[str] = []

    def gate(question: BeforeToolCall) -> BeforeToolCallResult:
        seen.append(question.tool_call.name)
        return BeforeToolCallResult(args={"path": "forced"})

    agent, model, events = scripted(
        Reply(calls=[Call(name, {"dir": "."}, id="c1"), Call("read", {"path": "a"}, id="c2")]),
        "I see.",
        tools=[read, bash],
        before_tool_call=gate,
    )

    result = await agent.prompt("go")

    unknown, known = results(result.messages)
    assert unknown.is_error
    assert (repr(name) if name else "named no tool") in unknown.text
    assert "bash, read" in unknown.text
    assert known.text == "contents of forced"
    assert seen == ["read"]
    assert result.text == "I see."
    assert_well_formed(model.requests[1].context.messages)
    assert_paired(events)


async def test_case_029_without_any_tool_the_model_is_told_so() -> None:
    agent, _, _ = scripted(Reply(calls=[Call("read", id="c1")]), "I see.")

    (told,) = results((await agent.prompt("go")).messages)

    assert told.text == "No tool is named 'read'. There are no tools."


async def test_case_029_the_hook_may_block_an_unknown_call_in_its_own_words() -> None:
    """It sees the call, but whatever it says cannot make it run."""
    agent, _, _ = scripted(
        Reply(calls=[Call("reed", id="c1")]),
        "I see.",
        tools=[read],
        before_tool_call=lambda question: BeforeToolCallResult(block=True, reason="no"),
    )

    (told,) = results((await agent.prompt("go")).messages)

    assert isinstance(told, ToolResultMessage)
    assert told.is_error
