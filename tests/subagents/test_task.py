"""The `task` tool: a child does the work, and its parent hears of it, pays for it and can stop it."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from tests.budgets.vendor import RATES
from tests.loop.invariants import check_events, check_idle
from tests.loop.virtual_time import VirtualTimeLoop

from loopwright import Agent, BeforeToolCall, BeforeToolCallResult, ToolContext, tool
from loopwright.cli.json_mode import json_line
from loopwright.errors import Misuse
from loopwright.events import AgentEvent, ToolExecutionEnd, ToolExecutionUpdate, event_from_dict
from loopwright.loop.budget import Budget
from loopwright.loop.budget_stream import limit
from loopwright.messages import ToolResultMessage, Usage
from loopwright.models import Context, Model
from loopwright.testing import Call, Reply, ScriptedModel
from loopwright.tools.subagent_events import subagent_event
from loopwright.tools.task import AgentSpec, TaskRequest, task_tool


def task(prompt: str = "Do it", **more: Any) -> Call:
    return Call("task", {"description": "some work", "prompt": prompt, **more})


def scripted(*replies: Any, **options: Any) -> tuple[Agent[Any], ScriptedModel, list[AgentEvent]]:
    model = ScriptedModel(list(replies))
    agent: Agent[Any] = Agent(model.model, stream_fn=model.stream_fn, **options)
    events: list[AgentEvent] = []
    agent.subscribe(events.append)
    return agent, model, events


def results(agent: Agent[Any]) -> list[ToolResultMessage]:
    return [m for m in agent.state.messages if isinstance(m, ToolResultMessage)]


def envelopes(events: list[AgentEvent]) -> list[dict[str, Any]]:
    return [envelope for event in events if (envelope := subagent_event(event)) is not None]


def of_child(told: list[dict[str, Any]], child: str) -> list[str]:
    return [e["event"]["type"] for e in told if e["id"] == child]


# -- the answer ------------------------------------------------------------------------------


async def test_a_child_answers_and_its_parent_sees_only_that() -> None:
    agent, model, _ = scripted(
        Reply(calls=[task("What is 6 * 7?")]), Reply("It is 42."), Reply("So: 42.")
    )
    spec = AgentSpec(system_prompt="You count.", description="counts")
    agent.state.tools = [task_tool({"counter": spec}, parent=agent)]

    result = await agent.prompt("What is 6 * 7?")

    child = model.requests[1].context
    assert child.system_prompt == "You count."
    assert [m.text for m in child.messages] == ["What is 6 * 7?"]
    [told] = results(agent)
    assert told.text == "It is 42."
    details = told.details["subagent"]
    assert (details["agent"], details["turns"], details["depth"]) == ("counter", 1, 1)
    assert (details["stopReason"], details["stoppedBy"]) == ("stop", None)
    assert result.text == "So: 42."


async def test_what_a_child_used_is_the_result_s_usage_and_the_run_s() -> None:
    def used(n: int) -> Usage:
        return Usage(input=n, output=1, total_tokens=n + 1)

    agent, _, _ = scripted(
        Reply(calls=[task()], usage=used(10)),
        Reply("done", usage=used(500)),
        Reply("ok", usage=used(20)),
    )
    agent.state.tools = [task_tool({"a": AgentSpec()}, parent=agent)]

    result = await agent.prompt("Go")

    [told] = results(agent)
    assert told.usage == used(500)
    assert result.usage.total_tokens == 11 + 501 + 21


async def test_a_long_answer_is_cut_and_says_so() -> None:
    agent, _, _ = scripted(Reply(calls=[task()]), Reply("é" * 1_000), Reply("ok"))
    agent.state.tools = [task_tool({"a": AgentSpec()}, parent=agent, max_result_bytes=101)]

    await agent.prompt("Go")

    [told] = results(agent)
    assert told.text.startswith("é" * 50 + "\n\n[Cut: the answer has 2.0 KiB")


@pytest.mark.parametrize(
    ("reply", "spec", "said"),
    [
        (Reply("half", error="overloaded"), AgentSpec(), "The agent failed: overloaded"),
        (Reply("half", calls=[Call("step")]), AgentSpec(max_turns=1), "stopped after 1 turns"),
        (Reply("slow", delay=30), AgentSpec(timeout_seconds=1), "run_timeout=1 seconds"),
        (Reply("x"), AgentSpec(max_tokens=10), "The budget of this subagent is used up"),
        (Reply("x"), AgentSpec(max_cost_usd=1.0), "its price is not known"),
    ],
)
def test_a_child_that_does_not_finish_is_an_error_and_the_parent_goes_on(
    reply: Reply, spec: AgentSpec, said: str
) -> None:
    def step() -> str:
        return "stepped"

    spec.tools = [step]
    replies = [reply] if "budget" not in said and "price" not in said else []
    agent, _, events = scripted(Reply(calls=[task()]), *replies, Reply("I see."))
    agent.state.tools = [task_tool({"a": spec}, parent=agent)]

    result = VirtualTimeLoop().live(agent.prompt("Go"))

    [told] = results(agent)
    assert told.is_error
    assert said in told.text
    assert result.text == "I see."
    check_events(events)


async def test_a_child_that_cannot_be_made_is_an_error_of_the_call() -> None:
    agent, _, _ = scripted(Reply(calls=[task()]), Reply("I see."))
    agent.state.tools = [task_tool({"a": AgentSpec(model="nobody/nothing")}, parent=agent)]

    result = await agent.prompt("Go")

    [told] = results(agent)
    assert told.is_error
    assert "nobody" in told.text
    assert result.text == "I see."


def test_wrong_settings_are_refused_at_once() -> None:
    with pytest.raises(Misuse, match="no agents"):
        task_tool({})
    with pytest.raises(Misuse, match="has no model"):
        task_tool({"a": AgentSpec()})
    with pytest.raises(Misuse, match="max_cost_usd"):
        task_tool({"a": AgentSpec(model="m", max_cost_usd=-1)})
    with pytest.raises(Misuse, match="max_depth"):
        task_tool({"a": AgentSpec(model="m")}, max_depth=0)


async def test_of_several_agents_one_must_be_named_and_known() -> None:
    agent, _, _ = scripted(
        Reply(calls=[task(), task(agent="c"), task(agent="b")]), Reply("b!"), Reply("ok")
    )
    kinds = {"a": AgentSpec(description="reads"), "b": AgentSpec(description="writes")}
    made = task_tool(kinds, parent=agent)
    agent.state.tools = [made]

    await agent.prompt("Go")

    assert "- a: reads\n- b: writes" in made.description
    assert made.replay == "never"
    assert [told.is_error for told in results(agent)] == [True, True, False]


async def test_a_child_passes_its_parent_s_gate_and_has_its_deps() -> None:
    asked: list[str] = []
    seen: list[Any] = []

    def gate(question: BeforeToolCall) -> BeforeToolCallResult | None:
        asked.append(question.tool_call.name)
        return BeforeToolCallResult(block=question.tool_call.name == "erase")

    @tool
    def erase() -> str:
        raise AssertionError("the gate was passed by")

    @tool
    def look(ctx: ToolContext) -> str:
        seen.append(ctx.deps)
        return "seen"

    agent, _, _ = scripted(
        Reply(calls=[task()]),
        Reply(calls=[Call("erase"), Call("look")]),
        Reply("blocked"),
        Reply("ok"),
        before_tool_call=gate,
        deps="deps",
    )
    agent.state.tools = [task_tool({"a": AgentSpec(tools=[erase, look])}, parent=agent)]

    await agent.prompt("Go")

    assert asked == ["task", "erase", "look"]
    assert seen == ["deps"]


async def test_a_function_may_make_the_child_and_keep_its_transcript() -> None:
    kept: dict[str, list[str]] = {}
    agent, _, _ = scripted(Reply(calls=[task(agent="reader")]), Reply("ok"))

    async def make(request: TaskRequest) -> Agent[Any]:
        assert request.parent is agent
        own = ScriptedModel([Reply(f"{request.agent} at {request.depth}")])
        return Agent(own.model, stream_fn=own.stream_fn)

    def keep(name: Any, messages: list[Any]) -> str:
        kept[name.id] = [message.role for message in messages]
        return f"kept/{name.id}"

    agent.state.tools = [task_tool(make, parent=agent, save_transcript=keep)]

    await agent.prompt("Go")

    [told] = results(agent)
    assert told.text == "reader at 1"
    [child] = kept
    assert kept[child] == ["user", "assistant"]
    assert told.details["subagent"]["transcript"] == f"kept/{child}"


# -- events ----------------------------------------------------------------------------------


async def test_the_events_of_children_come_in_order_with_their_ids_and_can_be_read_back() -> None:
    def step(n: int) -> str:
        return f"step {n}"

    def child(context: Context) -> Reply:
        if len(context.messages) == 1:
            return Reply("Looking.", calls=[Call("step", {"n": 1})])
        return Reply("Done.")

    agent, _, events = scripted(Reply(calls=[task(), task()]), *[child] * 4, Reply("ok"))
    agent.state.tools = [task_tool({"a": AgentSpec(tools=[step])}, parent=agent)]

    await agent.prompt("Go")

    check_events(events)
    told = envelopes(events)
    ids = list(dict.fromkeys(e["id"] for e in told))
    assert len(ids) == 2
    for name in ids:
        mine = [e for e in told if e["id"] == name]
        assert [e["seq"] for e in mine] == list(range(len(mine)))
        assert {(e["depth"], e["parentId"], e["agent"]) for e in mine} == {(1, None, "a")}
        kinds = [event_from_dict(e["event"]).type for e in mine]
        assert kinds[0] == "agent_start"
        assert kinds[-1] == "agent_end"
        assert kinds.count("turn_end") == 2
        assert kinds.index("tool_execution_start") < kinds.index("tool_execution_end")
    for event in events:
        json.loads(json_line(event))
    [first, second] = [e for e in events if isinstance(e, ToolExecutionEnd)]
    assert {first.result.details["subagent"]["id"], second.result.details["subagent"]["id"]} == {
        *ids
    }


async def test_the_written_events_stay_linear_in_what_is_said() -> None:
    async def written(words: int) -> tuple[int, int]:
        text = "word " * words
        agent, _, events = scripted(Reply(calls=[task()]), Reply(text, chunk_size=5), Reply("ok"))
        agent.state.tools = [task_tool({"a": AgentSpec()}, parent=agent)]
        await agent.prompt("Go")
        updates = [e for e in events if isinstance(e, ToolExecutionUpdate)]
        return sum(len(json_line(e)) for e in updates), len(updates)

    small, _ = await written(2_000)
    large, count = await written(20_000)

    assert large < 11 * small
    assert large < 6 * 5 * 20_000
    assert count < 100  # of 20,000 pieces


def test_text_that_a_child_has_begun_is_told_while_the_model_thinks_on() -> None:
    agent, _, _ = scripted(
        Reply(calls=[task()]), Reply("abcdef", chunk_size=3, delay=5), Reply("k")
    )
    agent.state.tools = [task_tool({"a": AgentSpec()}, parent=agent)]
    loop = VirtualTimeLoop()
    heard: list[tuple[float, str]] = []

    def listen(event: AgentEvent) -> None:
        envelope = subagent_event(event)
        if envelope is not None and envelope["event"]["type"] == "message_update":
            said = envelope["event"]["assistantMessageEvent"]
            if said["type"] == "text_delta":
                heard.append((round(loop.now, 2), said["delta"]))

    agent.subscribe(listen)

    loop.live(agent.prompt("Go"))

    assert heard == [(5.05, "abc"), (10.0, "def")]


async def test_nested_three_deep_the_ids_say_whose_child_it_is_and_the_fourth_is_refused() -> None:
    def speak(context: Context) -> Reply:
        last = context.messages[-1]
        depth = context.system_prompt.count("child") and len(model.requests)
        if isinstance(last, ToolResultMessage):
            return Reply(f"({last.text})")
        return Reply(calls=[task(f"deeper {depth}")]) if context.tools else Reply("bottom")

    agent, model, events = scripted(*[speak] * 8)
    spec = AgentSpec(system_prompt="child", delegates=True)
    agent.state.tools = [task_tool({"a": spec}, parent=agent, max_depth=3)]

    result = await agent.prompt("Go")

    assert result.text == "(((bottom)))"
    told = envelopes(events)
    by_depth = {e["depth"]: (e["id"], e["parentId"]) for e in told}
    assert set(by_depth) == {1, 2, 3}
    assert by_depth[1][1] is None
    assert by_depth[2][1] == by_depth[1][0]
    assert by_depth[3][1] == by_depth[2][0]
    for name, _ in by_depth.values():
        kinds = of_child(told, name)
        assert (kinds[0], kinds[-1]) == ("agent_start", "agent_end")
    ends = [(e["depth"]) for e in told if e["event"]["type"] == "agent_end"]
    assert ends == [3, 2, 1]
    requests = [len(request.context.tools) for request in model.requests]
    assert requests == [1, 1, 1, 0, 1, 1, 1]


async def test_who_makes_its_own_children_cannot_nest_them_deeper_either() -> None:
    def speak(context: Context) -> Reply:
        last = context.messages[-1]
        return Reply(last.text) if isinstance(last, ToolResultMessage) else Reply(calls=[task()])

    agent, model, _ = scripted(*[speak] * 20)

    def make(request: TaskRequest) -> Agent[Any]:
        assert request.parent is not None
        return Agent(model.model, stream_fn=request.parent.stream_fn, tools=[request.tool])

    agent.state.tools = [task_tool(make, parent=agent, max_depth=2)]

    result = await agent.prompt("Go")

    assert "nested 2 deep" in result.text


# -- many ------------------------------------------------------------------------------------


def test_no_more_children_run_at_a_time_than_allowed_and_nesting_cannot_block_them() -> None:
    running = 0
    most = 0

    async def speak(context: Context) -> Reply:
        nonlocal running, most
        last = context.messages[-1]
        if isinstance(last, ToolResultMessage):
            return Reply("done")
        if context.system_prompt == "" or context.tools:
            return Reply(calls=[task() for _ in range(4)])
        running += 1
        most = max(most, running)
        await asyncio.sleep(1)
        running -= 1
        return Reply("leaf")

    agent, _, events = scripted(*[speak] * 60)
    spec = AgentSpec(system_prompt="child", delegates=True)
    agent.state.tools = [task_tool({"a": spec}, parent=agent, max_depth=2, max_parallel=2)]

    result = VirtualTimeLoop().live(agent.prompt("Go"))

    assert result.text == "done"
    assert most == 4  # two children with two each
    check_events(events)


async def test_children_side_by_side_never_overspend_their_parent_s_budget() -> None:
    model = Model("acme", "m", "w", cost=RATES, max_tokens=1_000)
    script = ScriptedModel(
        [
            Reply(calls=[task() for _ in range(8)]),
            *[Reply("x" * 800, delay=0.001)] * 8,
            Reply("all"),
        ],
        model=model,
    )
    agent: Agent[Any] = Agent(model, stream_fn=script.stream_fn)
    agent.state.tools = [task_tool({"a": AgentSpec()}, parent=agent, max_parallel=8)]
    budget = Budget(max_tokens=1_500)
    limit(agent, run=budget)

    result = await agent.prompt("Go")

    assert budget.spent.tokens <= 1_500
    assert budget.spent.tokens == result.usage.total_tokens
    failed = [told for told in results(agent) if told.is_error]
    assert failed
    assert all("max_tokens" in told.text for told in failed)
    assert (result.stop_reason, result.stopped_by) == ("error", "error")


async def test_a_child_s_own_budget_holds_for_its_children_too() -> None:
    def used(n: int) -> Usage:
        return Usage(input=n, output=1, total_tokens=n + 1)

    agent, model, _ = scripted(
        Reply(calls=[task()]),
        Reply(calls=[task()], usage=used(40_000)),
        Reply("grandchild", usage=used(15_000)),
        Reply("parent"),
    )
    spec = AgentSpec(delegates=True, max_tokens=55_100)
    agent.state.tools = [task_tool({"a": spec}, parent=agent)]

    await agent.prompt("Go")

    [told] = results(agent)
    assert told.is_error
    assert "55,002 of 55,100 tokens" in told.text
    assert len(model.requests) == 4


# -- stopping --------------------------------------------------------------------------------


class Scene:
    """A parent with two children at work, one of which has a child of its own."""

    def __init__(self) -> None:
        self.at_work = 0
        scene = self

        @tool
        async def work() -> str:
            scene.at_work += 1
            try:
                await asyncio.sleep(1)
            finally:
                scene.at_work -= 1
            return "worked"

        async def speak(context: Context) -> Reply:
            last = context.messages[-1]
            names = {spec.name for spec in context.tools}
            if isinstance(last, ToolResultMessage):
                return Reply("Done.", chunk_size=1, delay=0.02)
            if names == {"task"}:
                return Reply("I ask.", chunk_size=2, calls=[task(), task()])
            if "task" in names:
                return Reply(calls=[Call("work"), task()])
            return Reply("Leaf.", chunk_size=2, delay=0.02, calls=[Call("work")])

        self.agent, self.model, self.events = scripted(*[speak] * 40)
        spec = AgentSpec(system_prompt="child", tools=[work], delegates=True)
        made = task_tool({"a": spec}, parent=self.agent, max_depth=2)
        self.agent.state.tools = [made]
        self.budget = Budget(max_tokens=10_000_000)
        limit(self.agent, session=self.budget)

    def check(self) -> None:
        check_events(self.events)
        check_idle(self.agent)
        assert self.at_work == 0
        assert not self.budget.reserved
        told = envelopes(self.events)
        for name in {e["id"] for e in told}:
            mine = [e for e in told if e["id"] == name]
            assert [e["seq"] for e in mine] == list(range(len(mine)))
            kinds = [e["event"]["type"] for e in mine]
            assert kinds[0] == "agent_start"
            assert kinds[-1] == "agent_end", kinds
            assert kinds.count("turn_start") == kinds.count("turn_end")
            assert kinds.count("message_start") == kinds.count("message_end")
            assert kinds.count("tool_execution_start") == kinds.count("tool_execution_end")


def steps_of_a_whole_run() -> int:
    loop, scene = VirtualTimeLoop(), Scene()
    loop.live(scene.agent.prompt("Go"))
    scene.check()
    return loop.steps


@pytest.mark.parametrize("how", ["abort", "cancel", "interrupt"])
def test_stopped_at_any_step_a_parent_leaves_no_child_and_every_child_has_told_its_end(
    how: str,
) -> None:
    steps = steps_of_a_whole_run()
    for at in range(1, steps, max(1, steps // 120)):
        loop, scene = VirtualTimeLoop(), Scene()
        agent = scene.agent

        async def main(loop: Any = loop, agent: Any = agent, at: int = at) -> None:
            running = asyncio.current_task()
            assert running is not None
            loop.strikes[at] = {
                "abort": agent.abort,
                "cancel": running.cancel,
                "interrupt": lambda: agent.steer("Stop that", when="interrupt"),
            }[how]
            await agent.prompt("Go")

        try:
            loop.live(main())
        except asyncio.CancelledError:
            assert how == "cancel"
            if not scene.events:
                continue
        scene.check()


@pytest.mark.parametrize("of_the_run", [True, False])
def test_a_timeout_at_any_time_ends_the_children_first(of_the_run: bool) -> None:
    for tenths in range(1, 25):
        loop, scene = VirtualTimeLoop(), Scene()
        if of_the_run:
            scene.agent.run_timeout = tenths / 10
        else:
            scene.agent.state.tools[0].timeout = tenths / 10

        result = loop.live(scene.agent.prompt("Go"))

        scene.check()
        assert loop.now < (tenths / 10 + 0.1 if of_the_run else 5)
        if of_the_run and tenths < 10:
            assert result.stopped_by == "timeout"


def test_what_an_aborted_child_has_used_is_counted() -> None:
    def used(n: int) -> Usage:
        return Usage(input=n, output=1, total_tokens=n + 1)

    @tool
    async def wait() -> None:
        agent.abort("enough")
        await asyncio.sleep(100)

    agent, _, events = scripted(
        Reply(calls=[task()], usage=used(10)), Reply(calls=[Call("wait")], usage=used(700))
    )
    agent.state.tools = [task_tool({"a": AgentSpec(tools=[wait])}, parent=agent)]

    result = VirtualTimeLoop().live(agent.prompt("Go"))

    assert (result.stop_reason, result.stopped_by) == ("aborted", "abort")
    [told] = results(agent)
    assert told.is_error
    assert told.usage == used(700)
    assert told.details["subagent"]["stopReason"] == "aborted"
    assert result.usage.total_tokens == 11 + 701
    assert envelopes(events)[-1]["event"]["type"] == "agent_end"


def test_a_child_whose_tool_does_not_let_go_holds_nobody_up() -> None:
    @tool
    async def stubborn() -> None:
        agent.abort()
        for _ in range(5):
            try:
                await asyncio.sleep(0.7)
            except asyncio.CancelledError:
                continue

    agent, _, events = scripted(Reply(calls=[task()]), Reply(calls=[Call("stubborn")]))
    agent.state.tools = [task_tool({"a": AgentSpec(tools=[stubborn])}, parent=agent)]
    loop = VirtualTimeLoop()

    async def main() -> float:
        await agent.prompt("Go")
        took = loop.now
        await asyncio.sleep(20)  # it is left behind, and ends by itself
        return took

    assert loop.live(main()) < 3
    check_events(events)
