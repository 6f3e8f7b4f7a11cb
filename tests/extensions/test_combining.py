"""The hooks of several extensions do what each alone was promised."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.extensions.scenes import REPLY, SIGNAL, after, before

from loopwright import (
    AbortSignal,
    AfterToolCall,
    AfterToolCallResult,
    Agent,
    AgentContext,
    BeforeToolCall,
    BeforeToolCallResult,
    FinishTurn,
    TurnContext,
)
from loopwright.events import AgentStart
from loopwright.extensions import Extension, ExtensionFailed, Hooks, combine, combine_hooks
from loopwright.messages import AgentMessage, TextContent, UserMessage
from loopwright.testing import Call, Reply, ScriptedModel


def named(**hooks: Any) -> list[Extension]:
    """An extension for each keyword, which is its name, with `(kind, hook)`."""
    return [Extension(name, hooks=Hooks(**{kind: hook})) for name, (kind, hook) in hooks.items()]


async def called(hook: Any, value: Any) -> Any:
    assert hook is not None
    said = hook(value, SIGNAL)
    return await said if hasattr(said, "__await__") else said


def test_without_hooks_nothing_is_combined() -> None:
    assert combine([Extension("a"), Extension("b")]) == Hooks()


# -- before_tool_call ------------------------------------------------------------------------

verdicts = st.builds(
    BeforeToolCallResult,
    block=st.booleans(),
    terminate=st.booleans(),
    args=st.none() | st.fixed_dictionaries({"n": st.integers()}),
    approval=st.sampled_from([None, True, False]),
)


@given(st.lists(st.none() | verdicts, min_size=1, max_size=5), st.lists(st.booleans(), min_size=5))
def test_a_call_is_judged_by_all_up_to_the_first_that_blocks(
    said: list[BeforeToolCallResult | None], are_async: list[bool]
) -> None:
    shown: list[dict[str, Any]] = []

    def hook(verdict: BeforeToolCallResult | None, is_async: bool) -> Any:
        def judge(call: BeforeToolCall) -> BeforeToolCallResult | None:
            shown.append(call.args)
            return verdict

        async def judge_later(call: BeforeToolCall, signal: AbortSignal) -> Any:
            assert signal is SIGNAL
            await asyncio.sleep(0)
            return judge(call)

        return judge_later if is_async else judge

    extensions = [
        Extension(f"e{i}", hooks=Hooks(before_tool_call=hook(verdict, are_async[i])))
        for i, verdict in enumerate(said)
    ]
    verdict = asyncio.run(called(combine(extensions).before_tool_call, before(n=0)))

    blocks = [v is not None and v.block for v in said]
    heard = said[: blocks.index(True) + 1] if any(blocks) else said
    spoken = [v for v in heard if v is not None]
    assert len(shown) == len(heard)
    args = {"n": 0}
    for each, verdict_of_it in zip(shown, heard, strict=True):
        assert each == args
        args = verdict_of_it.args if verdict_of_it and verdict_of_it.args else args
    if not spoken:
        assert verdict is None
        return
    assert verdict.block == any(blocks)
    assert verdict.terminate == any(v.terminate for v in spoken)
    if not verdict.block:
        wanted = [v.approval for v in spoken]
        assert verdict.approval is (True if True in wanted else False if False in wanted else None)
        assert (verdict.args or {"n": 0}) == args


async def test_changing_the_arguments_in_place_changes_nothing_for_the_next() -> None:
    shown: list[Any] = []

    def meddle(call: BeforeToolCall) -> None:
        call.args["list"].append("more")
        call.args.clear()

    hook = combine(
        named(
            meddler=("before_tool_call", meddle),
            next=("before_tool_call", lambda call: shown.append(call.args)),
        )
    ).before_tool_call

    assert await called(hook, before(list=[1])) is None
    assert shown == [{"list": [1]}]


async def test_a_block_without_a_reason_says_whose_it_is() -> None:
    hook = combine(
        named(guard=("before_tool_call", lambda call: BeforeToolCallResult(block=True)))
    ).before_tool_call

    assert "extension 'guard'" in (await called(hook, before())).reason


@pytest.mark.parametrize("fault", [ValueError("no such thing"), "no verdict"])
async def test_a_hook_that_fails_blocks_the_call_and_is_named(fault: Any) -> None:
    def failing(call: BeforeToolCall) -> Any:
        if isinstance(fault, Exception):
            raise fault
        return fault

    hooks = combine(
        named(
            sound=("before_tool_call", lambda call: None),
            faulty=("before_tool_call", failing),
        )
    )
    ran: list[str] = []

    def note(text: str) -> None:
        ran.append(text)

    model = ScriptedModel([Reply(calls=[Call("note", {"text": "hello"})]), Reply("Sorry.")])
    agent = Agent(
        model.model,
        stream_fn=model.stream_fn,
        tools=[note],
        before_tool_call=hooks.before_tool_call,
        on_error=lambda error, where: None,
    )
    await agent.prompt("Note hello")

    told = model.requests[1].context.messages[-1].text
    assert ran == []
    assert "extension 'faulty': before_tool_call raised" in told
    assert "sound" not in told


async def test_a_cancelled_hook_is_its_own_fault_unless_the_run_is_stopped() -> None:
    async def cancelled(call: BeforeToolCall) -> None:
        raise asyncio.CancelledError

    async def waiting(call: BeforeToolCall) -> None:
        started.set()
        await asyncio.Event().wait()

    started = asyncio.Event()
    at_once = combine(named(one=("before_tool_call", cancelled))).before_tool_call
    for_ever = combine(named(one=("before_tool_call", waiting))).before_tool_call

    with pytest.raises(ExtensionFailed, match="extension 'one'"):
        await called(at_once, before())

    task = asyncio.ensure_future(called(for_ever, before()))
    await started.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


# -- after_tool_call -------------------------------------------------------------------------

changes = st.builds(
    AfterToolCallResult,
    content=st.none() | st.text(max_size=3).map(lambda text: [TextContent(text)]),
    details=st.none() | st.integers(),
    is_error=st.sampled_from([None, True, False]),
    terminate=st.sampled_from([None, True, False]),
)


@given(st.lists(st.none() | changes, min_size=1, max_size=5))
def test_each_sees_a_result_as_the_one_before_left_it(
    said: list[AfterToolCallResult | None],
) -> None:
    seen: list[AfterToolCall] = []

    def hook(change: AfterToolCallResult | None) -> Any:
        def look(call: AfterToolCall) -> AfterToolCallResult | None:
            seen.append(call)
            return change

        return look

    parts = [(f"part {i}", Hooks(after_tool_call=hook(change))) for i, change in enumerate(said)]
    total = asyncio.run(called(combine_hooks(parts).after_tool_call, after("first")))

    fields = ("content", "details", "is_error", "terminate")
    expected: dict[str, Any] = {
        "content": [TextContent("first")], "details": None, "is_error": False, "terminate": False
    }  # fmt: skip
    made: dict[str, Any] = {}
    for call, change in zip(seen, said, strict=True):
        assert {name: getattr(call.result, name) for name in fields} == expected
        assert call.is_error == expected["is_error"]
        for name in fields:
            if change is not None and getattr(change, name) is not None:
                expected[name] = made[name] = getattr(change, name)
    if all(change is None for change in said):
        assert total is None
    else:
        assert {n: getattr(total, n) for n in fields if getattr(total, n) is not None} == made


@pytest.mark.parametrize(
    "faulty",
    [
        lambda call: 1 / 0,
        lambda call: "text",
        lambda call: AfterToolCallResult(content="text"),  # pyright: ignore[reportArgumentType]
        lambda call: AfterToolCallResult(content=TextContent("x")),  # pyright: ignore[reportArgumentType]
    ],
)
async def test_a_result_keeps_what_others_made_of_it_when_one_fails(faulty: Any) -> None:
    def shout(call: AfterToolCall) -> AfterToolCallResult:
        return AfterToolCallResult(content=[TextContent(call.result.text.upper())])

    def ask(call: AfterToolCall) -> AfterToolCallResult:
        return AfterToolCallResult(content=[TextContent(call.result.text + "?")])

    told: list[tuple[BaseException, str]] = []
    hooks = combine(
        named(
            shouting=("after_tool_call", shout),
            faulty=("after_tool_call", faulty),
            asking=("after_tool_call", ask),
        ),
        on_error=lambda error, where: told.append((error, where)),
    )

    total = await called(hooks.after_tool_call, after("fine"))

    assert total.content == [TextContent("FINE?")]
    [(error, where)] = told
    assert where == "extension 'faulty', after_tool_call"
    assert not isinstance(error, ExtensionFailed)


# -- requests and turns ----------------------------------------------------------------------


async def test_requests_are_prepared_and_transformed_in_a_row() -> None:
    def prompt(word: str) -> Any:
        return lambda context: msgspec.structs.replace(
            context, system_prompt=context.system_prompt + word
        )

    def say(word: str) -> Any:
        async def add(messages: list[AgentMessage]) -> list[AgentMessage]:
            return [*messages, UserMessage(word)]

        return add

    hooks = combine(
        [
            Extension("a", hooks=Hooks(prepare_request=prompt("a"), transform_context=say("A"))),
            Extension("none", hooks=Hooks(prepare_request=lambda context: None)),
            Extension("b", hooks=Hooks(prepare_request=prompt("b"), transform_context=say("B"))),
        ]
    )
    model = ScriptedModel([Reply("Hello.")])
    agent = Agent(
        model.model,
        stream_fn=model.stream_fn,
        system_prompt="x",
        prepare_request=hooks.prepare_request,
        transform_context=hooks.transform_context,
    )

    await agent.prompt("Hi")

    context = model.requests[0].context
    assert context.system_prompt == "xab"
    assert [message.text for message in context.messages] == ["Hi", "A", "B"]
    assert len(agent.state.messages) == 2  # what was transformed is not written back


async def test_a_context_that_nobody_changed_is_not_replaced() -> None:
    hooks = combine([Extension("a", hooks=Hooks(prepare_request=lambda context: None))])

    assert await called(hooks.prepare_request, AgentContext("x")) is None


@pytest.mark.parametrize(
    ("kind", "value", "wrong"),
    [
        ("prepare_request", AgentContext(), "text"),
        ("transform_context", [], None),
        ("transform_context", [], "text"),
        ("finish_turn", TurnContext(REPLY, [], AgentContext(), []), True),
    ],
)
async def test_what_a_hook_may_not_return_is_told_with_its_owner(
    kind: str, value: Any, wrong: Any
) -> None:
    hooks = combine(named(faulty=(kind, lambda value: wrong)))

    with pytest.raises(ExtensionFailed, match=f"extension 'faulty': {kind} raised TypeError"):
        await called(getattr(hooks, kind), value)


async def test_hooks_that_are_combined_twice_keep_their_owner() -> None:
    inner = combine(named(faulty=("finish_turn", lambda turn: 1 / 0)))
    outer = combine_hooks([("the program", inner)])

    with pytest.raises(ExtensionFailed, match="^extension 'faulty': finish_turn raised"):
        await called(outer.finish_turn, TurnContext(REPLY, [], AgentContext(), []))


@given(st.lists(st.sampled_from([None, FinishTurn.END, FinishTurn.CONTINUE]), min_size=1))
def test_all_are_asked_at_the_end_of_a_turn_and_whoever_ends_it_wins(
    said: list[FinishTurn | None],
) -> None:
    asked: list[int] = []

    def hook(number: int) -> Any:
        def finish(turn: TurnContext) -> FinishTurn | None:
            asked.append(number)
            return said[number]

        return finish

    parts = [(str(i), Hooks(finish_turn=hook(i))) for i in range(len(said))]
    turn = TurnContext(REPLY, [], AgentContext(), [])
    verdict = asyncio.run(called(combine_hooks(parts).finish_turn, turn))

    assert asked == list(range(len(said)))
    ends, goes_on = FinishTurn.END in said, FinishTurn.CONTINUE in said
    assert verdict is (FinishTurn.END if ends else FinishTurn.CONTINUE if goes_on else None)


# -- events ----------------------------------------------------------------------------------


async def test_a_listener_that_raises_keeps_nobody_else_from_hearing() -> None:
    heard: list[str] = []
    told: list[str] = []

    def sync(event: Any) -> None:
        heard.append("sync")

    async def later(event: Any, signal: AbortSignal) -> None:
        await asyncio.sleep(0)
        heard.append("async")

    async def fails_later(event: Any) -> None:
        await asyncio.sleep(0)
        raise ValueError

    async def cancelled(event: Any) -> None:
        raise asyncio.CancelledError

    hooks = combine(
        named(
            a=("on_event", lambda event: 1 / 0),
            b=("on_event", sync),
            c=("on_event", fails_later),
            d=("on_event", later),
            e=("on_event", cancelled),
            f=("on_event", sync),
        ),
        on_error=lambda error, where: told.append(f"{where}: {type(error).__name__}"),
    )

    await called(hooks.on_event, AgentStart())

    assert heard == ["sync", "async", "sync"]
    assert told == [
        "extension 'a', on_event: ZeroDivisionError",
        "extension 'c', on_event: ValueError",
        "extension 'e', on_event: CancelledError",
    ]


async def test_sync_listeners_are_told_without_an_await() -> None:
    heard: list[Any] = []
    hooks = combine(named(a=("on_event", heard.append), b=("on_event", heard.append)))
    assert hooks.on_event is not None

    waiting = hooks.on_event(AgentStart(), SIGNAL)

    assert waiting is None
    assert len(heard) == 2


async def test_a_listener_that_raises_every_time_is_reported_once_and_not_by_the_agent() -> None:
    told: list[str] = []
    hooks = combine(
        named(lone=("on_event", lambda event: 1 / 0)),
        on_error=lambda error, where: told.append(where),
    )
    model = ScriptedModel([Reply("Hello.")])
    agents: list[str] = []
    agent = Agent(
        model.model, stream_fn=model.stream_fn, on_error=lambda error, where: agents.append(where)
    )
    assert hooks.on_event is not None
    agent.subscribe(hooks.on_event)

    result = await agent.prompt("Hi")

    assert (result.text, agents) == ("Hello.", [])
    assert told == ["extension 'lone', on_event"]
