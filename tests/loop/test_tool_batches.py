"""The calls of one reply: gates, order, results, hooks around them. Behaviours 60 to 89."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from typing import Any, Literal

import pytest
from pydantic import BaseModel
from tests.loop.traces import (
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

from loopwright import (
    AfterToolCall,
    AfterToolCallResult,
    AgentTool,
    AgentToolResult,
    BeforeToolCall,
    BeforeToolCallResult,
    ToolContext,
    tool,
)
from loopwright.errors import ToolError
from loopwright.events import (
    AgentEvent,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
    TurnEnd,
)
from loopwright.messages import (
    AssistantMessage,
    TextContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from loopwright.stream import AssistantStream, Done
from loopwright.testing import Call, Reply


def add(a: int, b: int) -> int:
    return a + b


def read(path: str) -> str:
    return f"contents of {path}"


ADD = Call("add", {"a": 17, "b": 25}, id="c1")


async def told(*calls: Call, tools: Any, **options: Any) -> list[ToolResultMessage]:
    """The results that one reply with *calls* leads to."""
    agent, _, events = scripted(Reply(calls=calls), "Done.", tools=tools, **options)
    result = await agent.prompt("go")
    assert_well_formed(agent.state.messages)
    assert_paired(events)
    assert result.text == "Done."
    return results(result.messages)


# -- calls that cannot run -------------------------------------------------------------------


async def test_behaviour_060_061_an_unknown_tool_is_named_with_what_is_on_offer() -> None:
    (result,) = await told(Call("raed", {"path": "a"}), tools=[read, add])

    assert result.is_error
    assert result.text == "No tool is named 'raed'. On offer: add, read."


async def test_a_call_without_a_name_is_told_so_with_what_is_on_offer() -> None:
    (result,) = await told(Call("", {"path": "a"}), tools=[read])

    assert result.is_error
    assert result.text == "The call named no tool. On offer: read."


async def test_behaviour_061_a_long_list_of_tools_is_capped() -> None:
    tools = [tool(name=f"tool_{n:03}")(add) for n in range(80)]

    (result,) = await told(Call("missing"), tools=tools)

    assert "tool_049 and 30 more." in result.text
    assert "tool_050" not in result.text


async def test_behaviour_062_faulty_arguments_name_the_tool_and_every_problem() -> None:
    ran: list[int] = []

    def write(path: str, mode: Literal["a", "w"], size: int) -> None:
        ran.append(size)

    (result,) = await told(Call("write", {"mode": "x", "size": "many"}), tools=[write])

    assert ran == []
    assert result.is_error
    for part in ("write", "path", "mode", "size", "many"):
        assert part in result.text


async def test_behaviour_063_the_text_of_the_exception_is_the_error_result() -> None:
    def fail() -> None:
        raise ValueError("the disk is full")

    def refuse() -> None:
        raise ToolError("Say please.")

    failed, refused = await told(Call("fail"), Call("refuse"), tools=[fail, refuse])

    assert failed.is_error
    assert refused.is_error
    assert "ValueError: the disk is full" in failed.text
    assert refused.text == "Say please."


async def test_behaviour_064_a_fault_inside_the_tool_is_told_from_wrong_arguments() -> None:
    def broken(n: int) -> None:
        raise TypeError("unsupported operand")

    inside, wrong = await told(Call("broken", {"n": 1}), Call("broken", {"n": "x"}), tools=[broken])

    assert inside.text.startswith("The arguments were accepted, but the tool 'broken' failed")
    assert "unsupported operand" in inside.text
    assert "accepted" not in wrong.text


class ControlFlow(BaseException):
    """What a framework raises to end the run."""


async def test_behaviour_065_only_exceptions_are_caught_around_a_tool() -> None:
    async def leave() -> None:
        raise ControlFlow("out")

    agent, _, events = scripted(Reply(calls=[Call("leave", id="c1")]), tools=[leave])

    async with no_task_left():
        with pytest.raises(ControlFlow, match="out"):
            await agent.prompt("go")

    assert_paired(events)
    assert_well_formed(agent.state.messages)
    assert not agent.state.is_streaming


async def test_behaviour_065_an_exit_is_not_lost_while_a_listener_is_busy() -> None:
    async def leave(*, ctx: ToolContext) -> None:
        ctx.update("going")
        await listening.wait()
        raise ControlFlow("out")

    listening = asyncio.Event()

    async def dawdle(event: AgentEvent) -> None:
        if isinstance(event, ToolExecutionUpdate):
            listening.set()
            for _ in range(5):
                await asyncio.sleep(0)

    agent, model, _ = scripted(Reply(calls=[Call("leave", id="c1")]), "Never.", tools=[leave])
    agent.subscribe(dawdle)

    with pytest.raises(ControlFlow, match="out"):
        await agent.prompt("go")

    assert len(model.requests) == 1


def test_behaviour_065_an_interpreter_exit_goes_on() -> None:
    async def leave() -> None:
        raise SystemExit(3)

    agent, _, _ = scripted(Reply(calls=[Call("leave")]), tools=[leave])

    with pytest.raises(SystemExit):
        agent.prompt_sync("go")


async def test_behaviour_066_no_content_is_an_empty_list() -> None:
    class Silent(AgentTool[Any, Any]):
        name = "silent"

        async def execute(self, tool_call_id: str, params: Any) -> AgentToolResult:  # type: ignore[override]
            return AgentToolResult(None)  # type: ignore[arg-type]

    (result,) = await told(Call("silent"), tools=[Silent()])

    assert result.content == []


# -- gates -----------------------------------------------------------------------------------


async def test_behaviour_067_no_tool_runs_before_every_gate_has_answered() -> None:
    order: list[str] = []

    async def work(n: int) -> None:
        order.append(f"run {n}")

    async def gate(question: BeforeToolCall) -> None:
        await asyncio.sleep(0)
        order.append(f"gate {question.args['n']}")

    await told(*[Call("work", {"n": n}) for n in (1, 2, 3)], tools=[work], before_tool_call=gate)

    assert order == ["gate 1", "gate 2", "gate 3", "run 1", "run 2", "run 3"]


async def test_behaviour_068_preflight_goes_start_lookup_repair_validation_gate() -> None:
    order: list[str] = []

    class Params(BaseModel):
        n: int

    class Work(AgentTool[Params, None]):
        name = "work"

        def prepare_arguments(self, args: dict[str, Any]) -> dict[str, Any]:
            order.append("repair")
            return {"n": args.pop("number")} if "number" in args else args

        async def execute(self, tool_call_id: str, params: Params) -> AgentToolResult:  # type: ignore[override]
            order.append("run")
            return AgentToolResult([TextContent(str(params.n))])

    agent, _, _ = scripted(
        Reply(
            calls=[
                Call("work", {"number": "5"}, id="good"),
                Call("work", {"number": "x"}, id="bad"),
            ]
        ),
        "Done.",
        tools=[Work()],
    )
    agent.subscribe(
        lambda event: order.append("start") if isinstance(event, ToolExecutionStart) else None
    )
    agent.before_tool_call = lambda question: order.append(f"gate {question.args}")

    result = await agent.prompt("go")

    assert order == ["start", "repair", "gate {'n': 5}", "start", "repair", "run"]
    good, bad = results(result.messages)
    assert good.text == "5"
    assert bad.is_error


async def test_behaviour_069_the_gate_sees_validated_arguments_and_the_asking_message() -> None:
    seen: list[Any] = []
    agent, _, _ = scripted(
        Reply(calls=[Call("add", {"a": "17", "b": 25}, id="c1")]), "Done.", tools=[add]
    )

    def gate(question: BeforeToolCall) -> None:
        seen.extend(
            [
                question.args,
                question.tool_call.arguments,
                question.assistant_message is agent.state.messages[-1],
                question.context.messages[-1] is question.assistant_message,
                agent.state.pending_tool_calls,
            ]
        )

    agent.before_tool_call = gate
    await agent.prompt("go")

    assert seen == [{"a": 17, "b": 25}, {"a": "17", "b": 25}, True, True, frozenset({"c1"})]


@pytest.mark.parametrize("reason", [None, "not on my watch"])
async def test_behaviour_070_a_blocked_call_is_answered_and_never_runs(
    reason: str | None,
) -> None:
    ran: list[int] = []

    def record(n: int) -> None:
        ran.append(n)

    blocked, other = await told(
        Call("record", {"n": 1}),
        Call("record", {"n": 2}),
        tools=[record],
        before_tool_call=lambda question: BeforeToolCallResult(
            block=question.args["n"] == 1, reason=reason
        ),
    )

    assert ran == [2]
    assert blocked.is_error
    assert blocked.text == (reason or "The call of 'record' was blocked and not run.")
    assert not other.is_error


async def test_behaviour_071_a_gate_that_raises_blocks_its_call_only() -> None:
    faults: list[tuple[str, str]] = []
    ran: list[int] = []

    def record(n: int) -> None:
        ran.append(n)

    async def gate(question: BeforeToolCall) -> None:
        if question.args["n"] == 1:
            raise RuntimeError("no verdict")

    blocked, other = await told(
        Call("record", {"n": 1}),
        Call("record", {"n": 2}),
        tools=[record],
        before_tool_call=gate,
        on_error=lambda error, where: faults.append((str(error), where)),
    )

    assert ran == [2]
    assert blocked.is_error
    assert "before_tool_call" in blocked.text
    assert "no verdict" in blocked.text
    assert not other.is_error
    assert faults == [("no verdict", "before_tool_call")]


async def test_behaviour_072_the_gates_arguments_are_a_copy() -> None:
    def count(names: list[str]) -> int:
        return len(names)

    def meddle(question: BeforeToolCall) -> None:
        question.args["names"].append("mine")

    (result,) = await told(Call("count", {"names": ["a"]}), tools=[count], before_tool_call=meddle)

    assert result.text == "1"


@pytest.mark.parametrize("given", [{"a": 1, "b": "2"}, {"a": 1, "b": "x"}])
async def test_behaviour_072_a_replacement_of_the_arguments_is_validated_again(
    given: dict[str, Any],
) -> None:
    agent, _, events = scripted(Reply(calls=[ADD]), "Done.", tools=[add])
    agent.before_tool_call = lambda question: BeforeToolCallResult(args=given)

    (result,) = results((await agent.prompt("go")).messages)

    if given["b"] == "2":
        assert result.text == "3"
    else:
        assert result.is_error
        assert "b" in result.text
    asked = next(event for event in events if isinstance(event, ToolExecutionStart))
    assert asked.args == {"a": 17, "b": 25}
    assert agent.state.messages[1].tool_calls[0].arguments == {"a": 17, "b": 25}  # type: ignore[union-attr]


# -- after the call --------------------------------------------------------------------------


async def test_behaviour_073_after_tool_call_sees_the_result_and_replaces_what_it_sets() -> None:
    seen: list[AfterToolCall] = []
    spent, other = Usage(input=1, total_tokens=1), Usage(input=2, total_tokens=2)

    def work() -> AgentToolResult:
        return AgentToolResult([TextContent("raw")], {"a": {"deep": 1}}, False, False, spent)

    def after(question: AfterToolCall) -> AfterToolCallResult:
        seen.append(question)
        return AfterToolCallResult(details={"a": {"other": 2}}, usage=other)

    (result,) = await told(Call("work"), tools=[work], after_tool_call=after)

    (question,) = seen
    assert question.result.text == "raw"
    assert question.is_error is False
    assert question.result.usage == spent
    assert question.args == {}
    assert result.text == "raw"
    assert result.details == {"a": {"other": 2}}
    assert result.usage == other


async def test_behaviour_074_it_can_set_and_clear_the_error_flag_and_terminate() -> None:
    def good() -> str:
        return "good"

    def bad() -> str:
        raise ToolError("bad")

    agent, model, _ = scripted(Reply(calls=[Call("good"), Call("bad")]), tools=[good, bad])
    agent.after_tool_call = lambda question: AfterToolCallResult(
        is_error=not question.is_error, terminate=True
    )

    result = await agent.prompt("go")

    assert [r.is_error for r in results(result.messages)] == [True, False]
    assert result.stopped_by == "terminate"
    assert len(model.requests) == 1


@pytest.mark.parametrize("way", ["sync", "async"])
async def test_behaviour_075_an_after_hook_that_raises_keeps_the_result_and_reports(
    way: str,
) -> None:
    faults: list[tuple[str, str]] = []

    def boom(question: AfterToolCall) -> None:
        raise RuntimeError("boom")

    async def boom_later(question: AfterToolCall) -> None:
        await asyncio.sleep(0)
        raise RuntimeError("boom")

    (result,) = await told(
        ADD,
        tools=[add],
        after_tool_call=boom if way == "sync" else boom_later,
        on_error=lambda error, where: faults.append((str(error), where)),
    )

    assert (result.text, result.is_error) == ("42", False)
    assert faults == [("boom", "after_tool_call")]


async def test_behaviour_076_new_content_leaves_the_details_unless_they_are_set_too() -> None:
    """There is no structured content that could go stale; `details` are for people (073)."""

    def work() -> AgentToolResult:
        return AgentToolResult([TextContent("raw")], {"diff": 1})

    (alone,) = await told(
        Call("work"),
        tools=[work],
        after_tool_call=lambda question: AfterToolCallResult(content=[TextContent("***")]),
    )
    (both,) = await told(
        Call("work"),
        tools=[work],
        after_tool_call=lambda question: AfterToolCallResult([TextContent("***")], {"new": 1}),
    )

    assert (alone.text, alone.details) == ("***", {"diff": 1})
    assert (both.text, both.details) == ("***", {"new": 1})


async def test_behaviour_077_a_tool_may_report_failure_in_its_result() -> None:
    def work() -> AgentToolResult:
        return AgentToolResult([TextContent("not found")], is_error=True)

    (result,) = await told(Call("work"), tools=[work])

    assert (result.text, result.is_error) == ("not found", True)


# -- side by side, or one at a time ----------------------------------------------------------


async def peak_of(setting: Any, modes: list[Any], extra: tuple[Call, ...] = ()) -> int:
    """How many of the tools, one for each mode, ran at the same time."""
    running = peak = 0

    async def work() -> None:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await asyncio.sleep(0)
        running -= 1

    tools = [tool(name=f"t{n}", execution_mode=mode)(work) for n, mode in enumerate(modes)]
    calls = [*(Call(made.name) for made in tools), *extra]
    await told(*calls, tools=tools, tool_execution=setting)
    return peak


async def test_behaviour_078_079_calls_run_side_by_side_unless_somebody_objects() -> None:
    assert await peak_of("parallel", [None, None, None]) == 3
    assert await peak_of("parallel", [None, "sequential", None]) == 1
    assert await peak_of("sequential", [None, None]) == 1


async def test_behaviour_079_a_tool_cannot_override_the_setting_and_unknown_names_do_not_count() -> (
    None
):
    assert await peak_of("sequential", ["parallel", "parallel"]) == 1
    assert await peak_of("parallel", [None, None], (Call("missing"),)) == 2


async def test_a_sequential_tool_that_is_not_called_slows_nobody() -> None:
    running = peak = 0

    async def work() -> None:
        nonlocal running, peak
        running += 1
        peak = max(peak, running)
        await asyncio.sleep(0)
        running -= 1

    slow = tool(name="slow", execution_mode="sequential")(add)
    await told(Call("work"), Call("work"), tools=[work, slow])

    assert peak == 2


async def test_sync_tools_of_a_batch_run_side_by_side_in_threads() -> None:
    barrier = threading.Barrier(3, timeout=5)

    def meet() -> str:
        barrier.wait()
        return "met"

    assert texts(await told(*[Call("meet")] * 3, tools=[meet])) == ["met"] * 3


async def test_tools_see_the_context_variables_of_whoever_prompted() -> None:
    user: contextvars.ContextVar[str] = contextvars.ContextVar("user")
    user.set("ada")

    def in_thread() -> str:
        return user.get()

    async def in_loop() -> str:
        return user.get()

    calls = Call("in_thread"), Call("in_loop")
    assert texts(await told(*calls, tools=[in_thread, in_loop])) == ["ada", "ada"]


# -- terminate -------------------------------------------------------------------------------


def finish(agree: bool) -> AgentToolResult:
    return AgentToolResult([TextContent("finished")], terminate=agree)


@pytest.mark.parametrize("agreed", [[True], [True, True], [True, False], [False]])
async def test_behaviour_080_the_run_ends_only_if_every_result_says_so(
    agreed: list[bool],
) -> None:
    calls = [Call("finish", {"agree": agree}) for agree in agreed]
    agent, model, _ = scripted(Reply(calls=calls), "Going on.", tools=[finish])

    result = await agent.prompt("go")

    ended = all(agreed)
    assert len(model.requests) == (1 if ended else 2)
    assert result.stopped_by == ("terminate" if ended else None)
    assert result.stop_reason == ("toolUse" if ended else "stop")


@pytest.mark.parametrize("agrees", [True, False])
async def test_behaviour_080_a_blocked_call_may_agree_as_well(agrees: bool) -> None:
    agent, model, _ = scripted(
        Reply(calls=[Call("finish", {"agree": True}), ADD]), "Going on.", tools=[finish, add]
    )
    agent.before_tool_call = lambda question: BeforeToolCallResult(
        block=question.tool_call.name == "add", terminate=agrees
    )

    await agent.prompt("go")

    assert len(model.requests) == (1 if agrees else 2)


@pytest.mark.parametrize("queue", ["steer", "follow_up"])
async def test_behaviour_081_after_a_terminated_batch_what_waits_starts_another_turn(
    queue: str,
) -> None:
    agent, _, _ = scripted(
        Reply(calls=[Call("finish", {"agree": True})]), "Well then.", tools=[finish]
    )
    agent.subscribe(
        lambda event: (
            getattr(agent, queue)("One more thing")
            if isinstance(event, ToolExecutionStart)
            else None
        )
    )

    result = await agent.prompt("go")

    assert texts(result.messages)[-3:] == ["finished", "One more thing", "Well then."]
    assert result.stopped_by is None


async def test_behaviour_082_terminate_leaves_no_mark_in_history() -> None:
    agent, model, events = scripted(
        Reply(calls=[Call("finish", {"agree": True})]), "Hello again.", tools=[finish]
    )

    await agent.prompt("go")
    await agent.prompt("still there?")

    (message,) = results(agent.state.messages)
    assert "terminate" not in message.to_dict()
    ended = next(event for event in events if isinstance(event, ToolExecutionEnd))
    assert ended.result.terminate
    assert len(model.requests) == 2


# -- progress --------------------------------------------------------------------------------


async def test_behaviour_083_updates_come_in_order_while_the_tool_runs() -> None:
    heard: list[str] = []
    go_on = asyncio.Event()

    async def work(*, ctx: ToolContext) -> str:
        ctx.update("one")
        ctx.update("two")
        await go_on.wait()
        heard.append("running on")
        ctx.update("three")
        return "done"

    agent, _, _ = scripted(Reply(calls=[Call("work")]), "Done.", tools=[work])

    def listen(event: AgentEvent) -> None:
        if isinstance(event, ToolExecutionUpdate):
            heard.append(event.partial_result.text)
            if heard[-1] == "two":
                go_on.set()

    agent.subscribe(listen)
    await agent.prompt("go")

    assert heard == ["one", "two", "running on", "three"]


async def test_behaviour_083_late_updates_are_dropped_and_leave_nothing_behind() -> None:
    contexts: list[ToolContext] = []
    go_on = asyncio.Event()

    async def quick(*, ctx: ToolContext) -> str:
        contexts.append(ctx)
        ctx.update("in time")
        return "done"

    async def slow() -> str:
        await go_on.wait()
        return "done"

    agent, _, events = scripted(
        Reply(calls=[Call("quick", id="q"), Call("slow", id="s")]), "Done.", tools=[quick, slow]
    )

    async with no_task_left():
        running = asyncio.create_task(agent.prompt("go"))
        await until(lambda: "tool q end" in trace(events))
        contexts[0].update("too late")
        go_on.set()
        await running
        contexts[0].update("far too late")
        await asyncio.sleep(0)

    updates = [e.partial_result.text for e in events if isinstance(e, ToolExecutionUpdate)]
    assert updates == ["in time"]


async def test_behaviour_084_accepted_updates_come_before_the_end_of_their_call() -> None:
    def from_a_thread(*, ctx: ToolContext) -> str:
        for n in range(20):
            ctx.update(str(n))
        return "done"

    agent, _, events = scripted(
        Reply(calls=[Call("from_a_thread", id="c1")]), "Done.", tools=[from_a_thread]
    )

    await agent.prompt("go")

    names = [name for name in trace(events) if name.startswith("tool")]
    assert names == ["tool c1 start", *["tool c1 update"] * 20, "tool c1 end"]
    updates = [e.partial_result.text for e in events if isinstance(e, ToolExecutionUpdate)]
    assert updates == [str(n) for n in range(20)]


async def test_behaviour_085_a_listener_that_fails_on_an_update_changes_no_outcome() -> None:
    faults: list[str] = []

    async def work(*, ctx: ToolContext) -> str:
        ctx.update("half")
        return "whole"

    agent, _, _ = scripted(
        Reply(calls=[Call("work")]),
        "Done.",
        tools=[work],
        on_error=lambda error, where: faults.append(str(error)),
    )

    def fail(event: AgentEvent) -> None:
        if isinstance(event, ToolExecutionUpdate):
            raise RuntimeError("cannot draw that")

    agent.subscribe(fail)
    result = await agent.prompt("go")

    assert texts(results(result.messages)) == ["whole"]
    assert faults == ["cannot draw that"]


# -- what the model sees ---------------------------------------------------------------------


async def test_behaviour_086_details_stay_here_and_usage_is_counted_apart() -> None:
    spent = Usage(input=1000, total_tokens=1000)

    def work() -> AgentToolResult:
        return AgentToolResult([TextContent("done")], {"log": "secret"}, usage=spent)

    agent, _, _ = scripted(
        Reply(calls=[Call("work")], usage=Usage(input=1, total_tokens=1)),
        Reply("Done.", usage=Usage(input=2, total_tokens=2)),
        tools=[work],
    )

    result = await agent.prompt("go")

    (message,) = results(result.messages)
    assert message.details == {"log": "secret"}
    assert "secret" not in message.text
    assert message.usage == spent
    assert result.usage.total_tokens == 1003
    replies = [m for m in result.messages if isinstance(m, AssistantMessage)]
    assert [reply.usage.total_tokens for reply in replies] == [1, 2]


async def test_behaviour_088_each_of_several_calls_with_one_id_gets_its_own_result() -> None:
    """A foreign stream that made no ids unique; the loop tells calls apart by position."""
    calls: list[Any] = [ToolCall("x", "read", {"path": path}) for path in "abc"]
    messages = [AssistantMessage(calls), AssistantMessage([TextContent("Done.")])]
    agent, _, events = scripted(tools=[read])
    asked: list[list[Any]] = []

    def stream_fn(model: Any, context: Any, **options: Any) -> AssistantStream:
        asked.append(list(context.messages))
        return AssistantStream.from_events([Done("stop", messages.pop(0))])

    agent.stream_fn = stream_fn
    result = await agent.prompt("go")

    expected = ["contents of a", "contents of b", "contents of c"]
    assert texts(results(result.messages)) == expected
    sent_ids = [call.id for call in asked[1][1].tool_calls]
    assert len(set(sent_ids)) == 3
    assert [r.tool_call_id for r in results(asked[1])] == sent_ids
    assert texts(results(asked[1])) == expected
    assert_paired(events)


async def test_behaviour_089_a_call_that_history_left_unanswered_is_answered_in_requests() -> None:
    said = AssistantMessage(
        [ToolCall("a", "add", {}), ToolCall("b", "add", {})], stop_reason="toolUse"
    )
    agent, model, _ = scripted(
        "Hello.",
        messages=[
            UserMessage("go"),
            said,
            ToolResultMessage("b", "add", [TextContent("3")]),
            ToolResultMessage("nobody", "add", [TextContent("stray")]),
        ],
    )

    await agent.prompt("and?")

    sent = model.requests[0].context.messages
    assert_well_formed(sent)
    first, second = results(sent)
    assert (first.tool_call_id, first.is_error) == ("a", True)
    assert second.text == "3"
    assert len(agent.state.messages) == 6  # as it was, and the new pair


async def test_a_big_batch_keeps_its_order() -> None:
    async def echo(n: int) -> int:
        for _ in range(n % 7):
            await asyncio.sleep(0)
        return n

    calls = [Call("echo", {"n": n}, id=f"c{n}") for n in range(200)]
    agent, _, events = scripted(Reply(calls=calls), "Done.", tools=[echo])

    result = await agent.prompt("go")

    assert texts(results(result.messages)) == [str(n) for n in range(200)]
    assert [n for n in trace(events) if n.startswith("result")] == result_of(
        *[f"c{n}" for n in range(200)]
    )
    turn = next(event for event in events if isinstance(event, TurnEnd))
    assert turn.tool_results == results(result.messages)


async def test_a_tool_that_takes_too_long_is_stopped_by_its_own_limit() -> None:
    stopped: list[str] = []

    @tool(timeout=0.02)
    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append("hang")

    (result,) = await told(Call("hang"), tools=[hang])

    assert stopped == ["hang"]
    assert result.is_error
    assert "limit of 0.02 seconds" in result.text


async def test_a_timeout_error_of_the_tool_itself_is_its_own() -> None:
    @tool(timeout=5)
    async def fetch() -> None:
        raise TimeoutError("the server did not answer")

    (result,) = await told(Call("fetch"), tools=[fetch])

    assert "the server did not answer" in result.text
    assert "limit" not in result.text
