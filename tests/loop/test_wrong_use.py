"""Sources, hooks and callers that do not keep their side: the run still ends as it should."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncGenerator
from typing import Any, cast

import msgspec
import pytest
from tests.loop.traces import no_task_left

from loopwright import (
    AbortController,
    Agent,
    AgentContext,
    AgentLoopConfig,
    AgentTool,
    ToolContext,
    TurnUpdate,
    run_agent_loop,
    tool,
)
from loopwright.errors import AgentBusy, Misuse
from loopwright.events import AgentEvent, ToolExecutionStart
from loopwright.loop.tool import InvalidTool
from loopwright.messages import AgentMessage, AssistantMessage, TextContent, ToolCall, UserMessage
from loopwright.stream import (
    AssistantStream,
    Done,
    Error,
    Start,
    StreamWriter,
    TextDelta,
    TextEnd,
    TextStart,
)
from loopwright.testing import Call, Reply, ScriptedModel


def agent_over(source: Any, **options: Any) -> Agent[Any]:
    return Agent(ScriptedModel().model, stream_fn=lambda *_, **__: source, **options)


# -- sources -----------------------------------------------------------------------------------


async def test_a_reply_that_only_its_event_calls_cut_runs_no_call() -> None:
    """`stop_reason` defaults to stop, so a source easily says `length` in one place only."""
    ran: list[str] = []

    async def remove(path: str) -> None:
        ran.append(path)

    cut = Done("length", AssistantMessage([ToolCall("1", "remove", {"path": "a"})]))
    replies = [[cut], [Done("stop", AssistantMessage([TextContent("ok")]))]]
    agent = Agent(
        ScriptedModel().model,
        stream_fn=lambda *_, **__: AssistantStream.from_events(replies.pop(0)),
        tools=[remove],
    )

    result = await agent.prompt("go")

    assert (ran, result.text) == ([], "ok")
    assert cast("AssistantMessage", result.messages[1]).stop_reason == "length"


async def single_events() -> AsyncGenerator[Any, None]:
    yield Start()
    yield Done("stop", AssistantMessage([TextContent("hello")]))


async def batches_of_junk() -> AsyncGenerator[Any, None]:
    yield ["nonsense"]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (lambda: AssistantStream(single_events()), ("stop", "hello")),
        (lambda: AssistantStream(batches_of_junk()), ("error", "")),
        (lambda: AssistantStream.from_events([Error("error", cast("Any", "boom"))]), ("error", "")),
        (lambda: AssistantStream.from_events([Done("stop", cast("Any", None))]), ("error", "")),
        (lambda: AssistantStream.from_events([cast("Any", 5)]), ("error", "")),
        (lambda: 5, ("error", "")),
    ],
)
async def test_a_source_that_gives_something_odd_ends_in_events(
    source: Any, expected: tuple[str, str]
) -> None:
    agent = agent_over(source())
    kinds: list[str] = []
    agent.subscribe(lambda event: kinds.append(event.type))

    result = await agent.prompt("go")

    assert (result.stop_reason, result.text) == expected
    assert kinds[-2:] == ["turn_end", "agent_end"]


async def test_events_that_are_given_again_belong_to_their_new_reply() -> None:
    """Constants at the top of a module are a natural way to write a stream function."""
    start, begin, end = Start(), TextStart(0), TextEnd(0, "hi")
    seen: list[str] = []

    def ask(model: Any, *_: Any, **__: Any) -> AssistantStream:
        head = AssistantMessage([], model.api, model.provider, model.id)
        done = Done("stop", msgspec.structs.replace(head, content=[TextContent("hi")]))
        return AssistantStream.from_events([start, begin, TextDelta(0, "hi"), end, done], head=head)

    model = ScriptedModel().model
    agent = Agent(model, stream_fn=ask)
    agent.subscribe(
        lambda event: seen.append(event.message.model) if event.type == "message_update" else None
    )

    await agent.prompt("one")
    agent.model = msgspec.structs.replace(model, id="another")
    await agent.prompt("two")

    assert set(seen[:3]) == {"scripted"}
    assert set(seen[3:]) == {"another"}


async def test_a_writer_may_be_returned_itself_and_written_from_a_thread() -> None:
    def ask(*_: Any, **__: Any) -> Any:
        writer = StreamWriter(model="m")

        def feed() -> None:
            writer.text("from a thread")
            writer.done()

        threading.Thread(target=feed, daemon=True).start()
        return writer

    result = await asyncio.wait_for(Agent(ScriptedModel().model, stream_fn=ask).prompt("go"), 5)

    assert result.text == "from a thread"


async def test_a_writer_used_as_a_block_ends_the_reply_when_its_feeder_dies() -> None:
    writer = StreamWriter()

    async with writer:
        writer.text("half")
        raise RuntimeError("the feeder died")

    message = await writer.stream.result()
    assert (message.text, message.stop_reason) == ("half", "error")
    assert message.error_message == "the feeder died"


def test_a_writer_is_not_written_with_two_hands() -> None:
    writer = StreamWriter()
    writer.push(Start())

    with pytest.raises(Misuse, match="push"):
        writer.text("x")


# -- hooks -------------------------------------------------------------------------------------


async def test_a_hook_may_name_the_next_model_or_fail_in_words(caplog: Any) -> None:
    scripted = ScriptedModel([Reply(calls=[Call("f")])])

    async def f() -> None: ...

    agent = Agent(
        scripted.model,
        stream_fn=scripted.stream_fn,
        tools=[f],
        prepare_next_turn=lambda turn: TurnUpdate(model=cast("Any", "nobody/nothing")),
    )

    result = await agent.prompt("go")

    assert result.stop_reason == "error"
    assert "nobody" in (result.error_message or "")


async def test_a_finish_turn_that_says_something_else_fails_instead_of_being_ignored() -> None:
    scripted = ScriptedModel([Reply("a")])
    told: list[str] = []
    agent = Agent(
        scripted.model,
        stream_fn=scripted.stream_fn,
        finish_turn=cast("Any", lambda turn: "end"),
        on_error=lambda error, where: told.append(str(error)),
    )

    result = await agent.prompt("go")

    assert result.stop_reason == "error"
    assert "FinishTurn" in (result.error_message or "")
    assert told


async def test_a_slow_after_hook_is_not_the_tools_timeout() -> None:
    """Mended by ending the tool's clock when the tool is through."""
    scripted = ScriptedModel([Reply(calls=[Call("quick")]), Reply("done")])

    @tool(timeout=0.05)
    async def quick() -> str:
        return "real"

    async def slowly(call: Any) -> None:
        await asyncio.sleep(0.2)

    agent = Agent(
        scripted.model, stream_fn=scripted.stream_fn, tools=[quick], after_tool_call=slowly
    )

    result = await agent.prompt("go")

    assert cast("Any", result.messages[2]).text == "real"


async def test_undelivered_messages_that_nobody_can_take_do_not_keep_the_run_from_ending() -> None:
    scripted = ScriptedModel([Reply("a")])
    queue: list[AgentMessage] = [UserMessage("late")]
    kinds: list[str] = []
    controller_holder: list[Any] = []

    def take() -> list[AgentMessage]:
        if kinds and queue:
            controller_holder[0].abort()
            return [queue.pop()]
        return []

    def refuse(messages: list[AgentMessage]) -> None:
        raise RuntimeError("disk full")

    controller_holder.append(AbortController())
    told: list[str] = []
    config = AgentLoopConfig(
        scripted.model,
        get_follow_up_messages=take,
        on_undelivered=refuse,
        on_error=lambda error, where: told.append(where),
    )

    await run_agent_loop(
        [UserMessage("go")],
        AgentContext(),
        config,
        lambda event: kinds.append(event.type),
        controller_holder[0].signal,
        scripted.stream_fn,
    )

    assert kinds[-1] == "agent_end"
    assert told == ["on_undelivered"]


# -- the signal of a running tool ------------------------------------------------------------------


async def test_a_thread_hears_of_an_abort_while_a_listener_is_awaited() -> None:
    scripted = ScriptedModel([Reply(calls=[Call("wait")])])
    heard = threading.Event()
    listening = asyncio.Event()

    def wait(ctx: ToolContext) -> str:
        ctx.update("started")
        while not ctx.signal.aborted:
            time.sleep(0.001)
        heard.set()
        return "stopped"

    agent = Agent(scripted.model, stream_fn=scripted.stream_fn, tools=[wait])

    async def listen(event: AgentEvent) -> None:
        if event.type == "tool_execution_update":
            listening.set()
            while not heard.is_set():
                await asyncio.sleep(0.001)

    agent.subscribe(listen)
    run = asyncio.create_task(agent.prompt("go"))
    await listening.wait()

    agent.abort()

    result = await asyncio.wait_for(run, 5)
    assert result.stop_reason == "aborted"
    assert cast("Any", result.messages[-1]).text == "stopped"


async def test_an_interrupting_message_does_not_wait_for_a_gate() -> None:
    """A gate may wait for a person; the person has just said something else."""
    scripted = ScriptedModel([Reply(calls=[Call("f")]), Reply("new plan")])
    ran: list[str] = []
    asked = asyncio.Event()

    async def f() -> None:
        ran.append("f")

    async def gate(call: Any) -> None:
        asked.set()
        await asyncio.get_running_loop().create_future()

    agent = Agent(scripted.model, stream_fn=scripted.stream_fn, tools=[f], before_tool_call=gate)
    run = asyncio.create_task(agent.prompt("go"))
    await asked.wait()

    agent.steer("stop that", when="interrupt")

    result = await asyncio.wait_for(run, 5)
    assert (ran, result.text) == ([], "new plan")


async def test_a_thread_that_is_left_behind_leaves_no_task_behind() -> None:
    scripted = ScriptedModel([Reply(calls=[Call("stuck")])])
    started, release = threading.Event(), threading.Event()

    def stuck() -> None:
        started.set()
        release.wait(10)

    agent = Agent(scripted.model, stream_fn=scripted.stream_fn, tools=[stuck])
    run = asyncio.create_task(agent.prompt("go"))
    await asyncio.to_thread(started.wait)
    agent.abort()

    await run

    assert no_task_left()
    release.set()


async def test_a_listener_cannot_change_what_a_tool_is_run_with() -> None:
    scripted = ScriptedModel([Reply(calls=[Call("f", {"a": [1]})]), Reply("done")])
    got: list[Any] = []

    async def f(a: list[int]) -> None:
        got.append(a)

    agent = Agent(scripted.model, stream_fn=scripted.stream_fn, tools=[f])

    def meddle(event: AgentEvent) -> None:
        if isinstance(event, ToolExecutionStart):
            event.args["a"].append(99)

    agent.subscribe(meddle)

    await agent.prompt("go")

    assert got == [[1]]


# -- callers -----------------------------------------------------------------------------------


async def test_a_second_stream_on_a_busy_agent_is_refused_and_hears_nothing() -> None:
    scripted = ScriptedModel([Reply("one"), Reply("two")])
    agent = Agent(scripted.model, stream_fn=scripted.stream_fn)

    async with agent.stream("x") as first, agent.stream("y") as second:
        with pytest.raises(AgentBusy):
            await asyncio.wait_for(anext(aiter(second)), 5)
        kinds = [event.type async for event in first]

    assert kinds[-1] == "agent_end"


async def test_waiting_for_idle_inside_the_run_is_refused() -> None:
    scripted = ScriptedModel([Reply("one")])
    faults: list[BaseException] = []
    agent = Agent(
        scripted.model,
        stream_fn=scripted.stream_fn,
        on_error=lambda error, where: faults.append(error),
    )

    async def listen(event: AgentEvent) -> None:
        if event.type == "agent_end":
            await agent.wait_for_idle()

    agent.subscribe(listen)

    result = await asyncio.wait_for(agent.prompt("go"), 5)

    assert result.text == "one"
    assert "would never return" in str(faults[0])


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Agent(ScriptedModel().model, stream_fn=cast("Any", 5)),
        lambda: agent_over(None, thinking_level="bogus"),
        lambda: agent_over(None, convert_to_llm=5),
        lambda: agent_over(None, messages=["hello"]),
        lambda: agent_over(None).subscribe(cast("Any", 5)),
        lambda: AgentLoopConfig(cast("Any", "openai/gpt")),
    ],
)
def test_what_cannot_work_is_refused_where_it_is_said(wrong: Any) -> None:
    with pytest.raises(Misuse):
        wrong()


async def test_prompts_that_are_no_messages_are_refused() -> None:
    config = AgentLoopConfig(ScriptedModel().model)

    with pytest.raises(Misuse, match="UserMessage"):
        await run_agent_loop(cast("Any", "hello"), AgentContext(), config, lambda event: None)


def test_execute_of_a_schema_tool_has_one_of_three_forms() -> None:
    def make(execute: Any) -> Any:
        return AgentTool.from_schema(
            name="t", description="", parameters={"type": "object"}, execute=execute
        )

    async def class_form(tool_call_id: str, params: Any, signal: Any, on_update: Any) -> str:
        return f"{tool_call_id} {params}"

    scripted = ScriptedModel([Reply(calls=[Call("t", {"a": 1}, id="x")]), Reply("ok")])
    agent = Agent(scripted.model, stream_fn=scripted.stream_fn, tools=[make(class_form)])
    result = agent.prompt_sync("go")
    assert cast("Any", result.messages[2]).text == "x {'a': 1}"
    with pytest.raises(InvalidTool, match="one dict"):
        make(lambda a, b, c: None)


async def test_many_prompts_make_each_message_sendable_once() -> None:
    """The copy outlives the run; counted, since a clock would lie."""
    scripted = ScriptedModel([Reply(f"{n}") for n in range(20)])
    agent = Agent(scripted.model, stream_fn=scripted.stream_fn)
    for n in range(20):
        await agent.prompt(str(n))

    first, last = (scripted.requests[n].context.messages for n in (1, 19))
    assert cast("Any", first).memo is cast("Any", last).memo
    assert list(last)[: len(first)] == list(first)

    agent.state.messages = agent.state.messages[:2]  # an edited transcript starts anew
    scripted.extend([Reply("again")])
    await agent.prompt("edited")
    assert len(scripted.requests[-1].context.messages) == 3


class _Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize("blocking", [False, True])
@pytest.mark.parametrize("error", [_Unspeakable, GeneratorExit])
async def test_an_exception_that_is_odd_itself_is_a_tool_error(
    error: type[BaseException], blocking: bool
) -> None:
    async def fail() -> None:
        raise error

    def fail_in_a_thread() -> None:
        raise error

    scripted = ScriptedModel([Reply(calls=[Call("fail")]), Reply("I see.")])
    body = tool(name="fail")(fail_in_a_thread if blocking else fail)
    agent = Agent(scripted.model, stream_fn=scripted.stream_fn, tools=[body])

    result = await asyncio.wait_for(agent.prompt("go"), 5)

    assert cast("Any", result.messages[2]).is_error
    assert result.text == "I see."


async def test_the_text_of_an_exception_is_bounded_like_any_result() -> None:
    async def fail() -> None:
        raise ValueError("x" * 1_000_000)

    scripted = ScriptedModel([Reply(calls=[Call("fail")]), Reply("I see.")])
    agent = Agent(scripted.model, stream_fn=scripted.stream_fn, tools=[fail])

    result = await agent.prompt("go")

    assert len(cast("Any", result.messages[2]).text) < 51_200
