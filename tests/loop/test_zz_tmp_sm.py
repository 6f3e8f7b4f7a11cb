"""A program that does anything to an agent, in any order: the agent stays whole.

Hypothesis writes the program: it scripts the model, sets hooks and limits, queues messages, prompts
and resumes, and strikes at any step of a run. After every run the invariants hold. Examples are
derived from the test, so that the same code gets the same answer.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Coroutine
from typing import Any, Literal

import msgspec
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.loop.invariants import (
    check_events,
    check_idle,
    check_sendable,
    owed,
    said,
    same_objects,
)
from tests.loop.virtual_time import VirtualTimeLoop

from loopwright import (
    AfterToolCallResult,
    Agent,
    AgentToolResult,
    BeforeToolCallResult,
    FinishTurn,
    RunResult,
    ToolContext,
    TurnUpdate,
    tool,
)
from loopwright.errors import NothingToResume
from loopwright.events import AgentEvent
from loopwright.messages import AssistantMessage, TextContent, ToolResultMessage
from loopwright.models.handoff import sendable
from loopwright.testing import Call, Reply, ScriptedModel

GRACE_SECONDS = 2.0
SMALL = 0.3
AT_LAST_SECONDS = 100.0  # a run that hangs in a hook is aborted then

# -- what a program may do -------------------------------------------------------------------

Habit = Literal["unset", "pass", "wait", "raise", "cancelled", "hang", "replace"]
HABITS: list[Habit] = ["unset", "pass", "wait", "raise", "cancelled", "hang", "replace", "replace"]

REPLACEMENTS: dict[str, list[Any]] = {
    "before_tool_call": [
        BeforeToolCallResult(block=True, reason="not today"),
        BeforeToolCallResult(block=True, terminate=True),
        BeforeToolCallResult(terminate=True),
        BeforeToolCallResult(args={"number": 7}),
        BeforeToolCallResult(args={"number": "seven"}),
    ],
    "after_tool_call": [
        AfterToolCallResult(content=[TextContent("replaced")]),
        AfterToolCallResult(is_error=True),
        AfterToolCallResult(terminate=True),
    ],
    "prepare_next_turn": [TurnUpdate(), TurnUpdate(thinking_level="high")],
    "finish_turn": [FinishTurn.END, FinishTurn.CONTINUE],
    "should_stop_after_turn": [True, False],
    "prepare_request": [None],
    "get_api_key": ["key"],
}

CALLS = st.sampled_from(
    [
        *(Call(name) for name in ("fine", "failing", "slow", "talking", "ending", "threaded")),
        *(Call(name) for name in ("stubborn", "overdue", "alone", "nobody")),
        Call("fine", {"number": 3}),
        Call("fine", {"number": "three"}),
        Call("fine", raw='{"number": '),
        Call("slow", id="same"),
    ]
)
REPLIES = st.builds(
    Reply,
    st.text("ab ", max_size=8),
    calls=st.lists(CALLS, max_size=3),
    thinking=st.sampled_from(["", "", "hm"]),
    chunk_size=st.sampled_from([None, 1, 3]),
    delay=st.sampled_from([0, 0, 0.01]),
    error=st.sampled_from([None] * 8 + ["overloaded"]),
    stop_reason=st.sampled_from([None] * 8 + ["length"]),
)
STRIKES = st.dictionaries(
    st.integers(1, 120),
    st.sampled_from(["abort", "cancel", "steer", "steer", "interrupt", "follow_up"]),
    max_size=3,
)
OPTIONS: dict[str, list[Any]] = {
    "max_turns": [None, 1, 2],
    "run_timeout": [None, 0.015, 5],
    "idle_timeout": [None, 0.015, 5],
    "steering_mode": ["one-at-a-time", "all"],
    "follow_up_mode": ["one-at-a-time", "all"],
    "tool_execution": ["parallel", "sequential"],
}


@tool
async def fine(number: int = 1) -> str:
    return f"{number}"


@tool
async def failing() -> str:
    raise ValueError("no luck")


@tool
async def slow() -> str:
    await asyncio.sleep(0.02)
    return "at last"


@tool
async def talking(ctx: ToolContext) -> str:
    for i in range(3):
        ctx.update(f"{i}")
        await asyncio.sleep(0)
    return "said"


@tool
async def ending() -> AgentToolResult:
    return AgentToolResult([TextContent("the end")], terminate=True)


@tool
def threaded(ctx: ToolContext) -> str:
    ctx.update("in a thread")
    return "threaded"


@tool
async def stubborn() -> str:
    try:
        await asyncio.sleep(0.02)
    except asyncio.CancelledError:
        await asyncio.sleep(0.01)
    return "all the same"


@tool(timeout=0.01)
async def overdue() -> str:
    await asyncio.sleep(1e6)
    return "never"


@tool(execution_mode="sequential")
async def alone() -> str:
    await asyncio.sleep(0.01)
    return "alone"


TOOLS = [fine, failing, slow, talking, ending, threaded, stubborn, overdue, alone]


class AgentMachine(RuleBasedStateMachine):
    """One agent and everything that a program may do to it."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = VirtualTimeLoop()
        self.model = ScriptedModel()
        self.agent = Agent(
            self.model.model,
            stream_fn=self.model.stream_fn,
            tools=TOOLS,
            on_error=lambda error, where: None,
        )
        self.events: list[AgentEvent] = []
        self.heard: list[AgentEvent] = []
        self.agent.subscribe(self.events.append)
        self.agent.subscribe(self.listen)
        self.count = 0
        self.owed: list[str] = []
        """Texts that were queued or prompted and must be in the transcript or wait."""
        self.requests_before = 0
        self.came_late = False
        """A message was queued when the run had said that it is over."""
        self.first_request = 0
        """The requests from here on were made of one growing transcript."""

    async def listen(self, event: AgentEvent) -> None:
        self.heard.append(event)
        await asyncio.sleep(0)

    def new_text(self) -> str:
        self.count += 1
        self.owed.append(f"m{self.count}")
        return f"m{self.count}"

    # -- between runs -----------------------------------------------------------------------

    @initialize(replies=st.lists(REPLIES, min_size=1, max_size=6))
    def begin(self, replies: list[Reply]) -> None:
        self.model.extend(replies)

    @rule(replies=st.lists(REPLIES, min_size=1, max_size=4))
    def write_more(self, replies: list[Reply]) -> None:
        self.model.extend(replies)

    @rule(
        hook=st.sampled_from(sorted(REPLACEMENTS)),
        habit=st.sampled_from(HABITS),
        is_async=st.booleans(),
        data=st.data(),
    )
    def set_hook(self, hook: str, habit: Habit, is_async: bool, data: Any) -> None:
        value = data.draw(st.sampled_from(REPLACEMENTS[hook])) if habit == "replace" else None
        setattr(self.agent, hook, None if habit == "unset" else made_hook(habit, value, is_async))

    @rule(option=st.sampled_from(sorted(OPTIONS)), data=st.data())
    def set_option(self, option: str, data: Any) -> None:
        setattr(self.agent, option, data.draw(st.sampled_from(OPTIONS[option])))

    @rule(kind=st.sampled_from(["steer", "interrupt", "follow_up"]))
    def queue(self, kind: str) -> None:
        if kind == "follow_up":
            self.agent.follow_up(self.new_text())
        else:
            self.agent.steer(
                self.new_text(), when="interrupt" if kind == "interrupt" else "after_batch"
            )

    @rule()
    def abort_while_idle(self) -> None:
        self.agent.abort()

    @rule()
    def clear_queues(self) -> None:
        waiting = self.waiting()
        self.agent.clear_all_queues()
        self.owed = [text for text in self.owed if text not in waiting]

    @rule()
    def reset(self) -> None:
        self.agent.reset()
        self.owed = []
        self.first_request = len(self.model.requests)

    # -- runs -------------------------------------------------------------------------------

    @rule(strikes=STRIKES)
    def prompt(self, strikes: dict[int, str]) -> None:
        text = self.new_text()
        if not self.run(lambda: self.agent.prompt(text), strikes):
            self.owed.remove(text)  # cancelled before its first step

    @rule(strikes=STRIKES)
    def resume(self, strikes: dict[int, str]) -> None:
        self.run(self.agent.resume, strikes)

    def run(
        self, start: Callable[[], Coroutine[Any, Any, RunResult]], strikes: dict[int, str]
    ) -> bool:
        """Whether the run began."""
        before = list(self.agent.state.messages)
        self.requests_before = len(self.model.requests)
        self.came_late = False
        self.events.clear()
        self.heard.clear()
        self.loop.run_until_complete(self._run(start, strikes))
        assert not self.loop.complaints, self.loop.complaints
        assert [e.type for e in self.heard] == [e.type for e in self.events]
        messages = check_events(self.events) if self.events else []
        assert same_objects(self.agent.state.messages, [*before, *messages])
        return bool(self.events)

    async def _run(
        self, start: Callable[[], Coroutine[Any, Any, RunResult]], strikes: dict[int, str]
    ) -> None:
        stopped_at: float | None = None
        cancelled = False
        loop = self.loop

        async def call() -> tuple[RunResult, int]:
            task = asyncio.current_task()
            assert task is not None
            result = await start()
            return result, task.cancelling()

        caller = loop.create_task(call())

        def strike(kind: str) -> None:
            nonlocal stopped_at, cancelled
            if caller.done():
                return
            if kind in ("abort", "cancel") and self.events and stopped_at is None:
                stopped_at = loop.now
            if kind == "abort":
                self.agent.abort()
            elif kind == "cancel":
                cancelled = True
                caller.cancel()
            else:
                self.came_late |= self.events[-1:] != [] and self.events[-1].type == "agent_end"
                self.queue(kind)

        for step, kind in strikes.items():
            loop.strikes[loop.steps + step] = lambda kind=kind: strike(kind)
        at_last = loop.call_later(AT_LAST_SECONDS, strike, "abort")
        await asyncio.wait({caller})
        at_last.cancel()
        loop.strikes.clear()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert not others, others
        if stopped_at is not None:
            assert loop.now - stopped_at <= GRACE_SECONDS + SMALL
        assert caller.cancelled() is cancelled
        if not cancelled:
            if isinstance(caller.exception(), NothingToResume):
                assert not self.events
                return
            result, cancelling = caller.result()
            assert cancelling == 0
            self.check_result(result)

    def check_result(self, result: RunResult) -> None:
        """The table of how a run may end."""
        assert list(result.undelivered) == list(self.waiting_messages())
        replies = [m for m in result.messages if isinstance(m, AssistantMessage)]
        limit = self.agent.max_turns
        assert limit is None or len(self.model.requests) - self.requests_before <= limit
        match result.stopped_by:
            case None:
                assert result.stop_reason in ("stop", "length")
                assert result.messages[-1] is replies[-1]
                assert not owed(replies[-1])
                assert self.came_late or not result.undelivered
            case "terminate":
                assert isinstance(result.messages[-1], ToolResultMessage)
                assert result.stop_reason == "toolUse"
            case "abort":
                assert result.stop_reason == "aborted"
            case "timeout":
                assert result.stop_reason in ("aborted", "error")
            case "error":
                assert result.stop_reason == "error"
                assert result.error_message
            case "max_turns":
                assert len(replies) == limit
            case "hook":
                assert result.stop_reason in ("stop", "length", "toolUse")

    # -- always -----------------------------------------------------------------------------

    def waiting_messages(self) -> list[Any]:
        agent = self.agent
        return [*agent._steering.waiting(), *agent._follow_up.waiting()]

    def waiting(self) -> list[str]:
        return said(self.waiting_messages())

    @invariant()
    def nothing_goes_on(self) -> None:
        check_idle(self.agent)

    @invariant()
    def no_message_is_lost_or_doubled(self) -> None:
        assert sorted([*said(self.agent.state.messages), *self.waiting()]) == sorted(self.owed)

    @invariant()
    def the_transcript_is_sendable(self) -> None:
        messages: Any = self.agent.state.messages
        if said(messages):
            check_sendable(sendable(messages, self.model.model))

    @invariant()
    def every_request_begins_with_the_one_before_it(self) -> None:
        requests = [
            [msgspec.json.encode(m.to_dict()) for m in request.context.messages]
            for request in self.model.requests[self.first_request :]
        ]
        for earlier, later in itertools.pairwise(requests):
            assert later[: len(earlier)] == earlier
        if requests:  # so that each pair is compared once
            self.first_request = len(self.model.requests) - 1

    def teardown(self) -> None:
        async def nothing() -> None:
            return

        self.loop.live(nothing())


def made_hook(habit: Habit, value: Any, is_async: bool) -> Callable[..., Any]:
    """A hook with one habit; only an async one can wait or hang."""

    async def act_slowly(*arguments: Any) -> Any:
        if habit == "wait":
            await asyncio.sleep(0.02)
        elif habit == "hang":
            await asyncio.sleep(1e6)
        else:
            await asyncio.sleep(0)
        return act()

    def act(*arguments: Any) -> Any:
        if habit == "raise":
            raise ValueError("the hook has no luck either")
        if habit == "cancelled":
            raise asyncio.CancelledError
        return value

    return act_slowly if is_async or habit in ("wait", "hang") else act


TestAgent = AgentMachine.TestCase
TestAgent.settings = settings(
    max_examples=200,
    stateful_step_count=20,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
