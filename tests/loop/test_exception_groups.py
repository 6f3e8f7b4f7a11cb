"""A group of exceptions is the failure of the code that raised it, unless it is to end the program."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from loopwright import Agent, tool
from loopwright.loop.faults import told
from loopwright.messages import ToolResultMessage
from loopwright.testing import Call, Reply, ScriptedModel

GROUPS = [
    BaseExceptionGroup("g", [asyncio.CancelledError(), ValueError("connection refused")]),
    BaseExceptionGroup(
        "g", [BaseExceptionGroup("in it", [GeneratorExit(), OSError("connection refused")])]
    ),
    ExceptionGroup("g", [ExceptionGroup("in it", [ValueError("connection refused")])]),
]


def agent_with(body: Any, **hooks: Any) -> Agent:
    async def beside() -> str:
        return "kept"

    turns = [Reply(calls=[Call("fail"), Call("beside")]), Reply("done"), Reply("again")]
    scripted = ScriptedModel(turns)
    tools = [tool(name="fail")(body), beside]
    return Agent(scripted.model, stream_fn=scripted.stream_fn, tools=tools, **hooks)


def results(agent: Agent) -> list[str]:
    return [m.text for m in agent.state.messages if isinstance(m, ToolResultMessage)]


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_case_099_a_group_is_the_failure_of_the_tool_and_its_leaves_are_told(
    kind: str, group: BaseException
) -> None:
    async def later() -> str:
        raise group

    def at_once() -> str:
        raise group

    agent = agent_with(later if kind == "async" else at_once)

    result = await agent.prompt("go")

    assert (result.stop_reason, result.text) == ("stop", "done")
    failed, kept = results(agent)
    assert "connection refused" in failed
    assert kept == "kept"
    assert (await agent.prompt("more")).text == "again"


async def test_case_099_the_model_reads_what_failed_in_a_task_group() -> None:
    async def connect() -> None:
        raise ConnectionRefusedError("no server at port 12345")

    async def body() -> str:
        async with asyncio.TaskGroup() as group:
            group.create_task(connect())
        return "connected"

    agent = agent_with(body)
    await agent.prompt("go")

    assert "ConnectionRefusedError: no server at port 12345" in results(agent)[0]


def raise_in_process() -> str:
    raise BaseExceptionGroup("g", [asyncio.CancelledError(), ValueError("connection refused")])


async def test_case_099_a_group_in_a_process_is_told_as_well() -> None:
    agent = agent_with(lambda: "")
    agent.state.tools = [
        tool(name="fail", isolation="process")(raise_in_process),
        *agent.state.tools[1:],
    ]

    result = await agent.prompt("go")

    assert result.text == "done"
    assert "connection refused" in results(agent)[0]


HOOKS = [
    "before_tool_call", "after_tool_call", "prepare_request", "transform_context",
    "prepare_next_turn", "finish_turn", "should_stop_after_turn",
]  # fmt: skip


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("name", HOOKS)
@pytest.mark.parametrize("kind", ["async", "sync"])
async def test_case_099_a_group_out_of_a_hook_does_not_leave_the_run(
    kind: str, name: str, group: BaseException
) -> None:
    async def later(*_: object) -> None:
        raise group

    def at_once(*_: object) -> None:
        raise group

    faults: list[str] = []

    def note(error: BaseException, where: str) -> None:
        faults.append(told(error))

    async def fine() -> str:
        return "fine"

    hook = later if kind == "async" else at_once
    agent = agent_with(fine, on_error=note, **{name: hook})

    result = await agent.prompt("go")

    told_somewhere = [*faults, *results(agent), result.error_message or ""]
    assert any("connection refused" in text for text in told_somewhere)


@pytest.mark.parametrize("group", GROUPS)
async def test_case_099_a_group_out_of_a_listener_is_reported(group: BaseException) -> None:
    async def later(*_: object) -> None:
        raise group

    def at_once(*_: object) -> None:
        raise group

    async def fine() -> str:
        return "fine"

    faults: list[BaseException] = []
    agent = agent_with(fine, on_error=lambda error, where: faults.append(error))
    agent.subscribe(at_once)
    agent.subscribe(later)
    agent.subscribe(at_once)

    assert (await agent.prompt("go")).text == "done"
    assert set(faults) == {group}


@pytest.mark.parametrize("leaf", [KeyboardInterrupt(), SystemExit(3)])
@pytest.mark.parametrize("nested", [False, True])
async def test_case_099_a_group_that_is_to_end_the_program_does(
    leaf: BaseException, nested: bool
) -> None:
    group = BaseExceptionGroup("g", [ValueError("x"), leaf])

    async def body() -> str:
        raise BaseExceptionGroup("around", [group]) if nested else group

    with pytest.raises(BaseExceptionGroup):
        await agent_with(body).prompt("go")


@pytest.mark.parametrize("place", ["fail", "before_tool_call", "after_tool_call", "finish_turn"])
async def test_case_099_a_run_cancelled_from_outside_ends_as_cancelled(place: str) -> None:
    reached = asyncio.Event()

    async def waits_and_fails(*_: object) -> None:
        try:
            reached.set()
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError as error:
            raise BaseExceptionGroup("g", [error, ValueError("while it closed")]) from None

    async def fail() -> str:
        if place == "fail":
            await waits_and_fails()
        return "fine"

    agent = agent_with(fail, **({} if place == "fail" else {place: waits_and_fails}))
    run = asyncio.create_task(agent.prompt("go"))
    await reached.wait()
    run.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(run, 5)


async def test_case_099_an_aborted_run_ends_as_aborted() -> None:
    reached = asyncio.Event()

    async def body() -> str:
        try:
            reached.set()
            await asyncio.get_running_loop().create_future()
        except asyncio.CancelledError as error:
            raise BaseExceptionGroup("g", [error, ValueError("while it closed")]) from None
        return ""

    agent = agent_with(body)
    run = asyncio.create_task(agent.prompt("go"))
    await reached.wait()
    agent.abort()

    assert (await run).stopped_by == "abort"


@pytest.mark.parametrize("size", [1, 3, 5000])
def test_case_099_what_is_told_of_a_group_is_bounded(size: int) -> None:
    leaves = [ValueError(f"{n} " + "x" * 50_000) for n in range(size)]
    text = told(ExceptionGroup("outer", [ExceptionGroup("inner", leaves)]))

    assert len(text) < 25_000
    assert "ValueError: 0 x" in text
    assert ("more" in text) == (size > 20)
