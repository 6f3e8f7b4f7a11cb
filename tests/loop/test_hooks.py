"""Where a program steps in around requests. Behaviours 121 to 124 and 127."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from tests.loop.traces import (
    PLAIN,
    REPLY,
    USER,
    assert_paired,
    assert_well_formed,
    executed,
    result_of,
    results,
    scripted,
    texts,
    trace,
)

from loopwright import (
    AbortSignal,
    AgentContext,
    AgentLoopConfig,
    CustomMessage,
    FinishTurn,
    default_convert_to_llm,
    run_agent_loop,
)
from loopwright.events import AgentEvent
from loopwright.messages import UserMessage
from loopwright.testing import Call, Reply, ScriptedModel


def add(a: int, b: int) -> int:
    return a + b


ADD = Call("add", {"a": 17, "b": 25}, id="c1")


class Note(CustomMessage, tag="note-hooks"):
    text: str


# -- requests --------------------------------------------------------------------------------


async def test_behaviour_121_the_key_is_asked_for_before_every_request() -> None:
    keys = ["first", "second", None, ""]
    asked: list[str] = []

    async def key(provider: str) -> str | None:
        asked.append(provider)
        return keys[len(asked) - 1]

    agent, model, _ = scripted(
        *[Reply(calls=[ADD])] * 3,
        "Done.",
        tools=[add],
        get_api_key=key,
        stream_options={"api_key": "static"},
    )

    await agent.prompt("go")

    assert asked == ["scripted"] * 4
    assert [request.options["api_key"] for request in model.requests] == [
        "first",
        "second",
        "static",
        "static",
    ]


async def test_behaviour_122_transform_comes_before_conversion() -> None:
    order: list[str] = []
    agent, model, _ = scripted("Hi.")

    def transform(messages: list[Any], signal: AbortSignal) -> list[Any]:
        order.append("transform")
        return [*messages, Note(text="noted")]

    async def convert(messages: list[Any]) -> list[Any]:
        order.append("convert")
        return [UserMessage(f"[{m.text}]") if isinstance(m, Note) else m for m in messages]

    agent.transform_context = transform
    agent.convert_to_llm = convert
    await agent.prompt("go")

    assert order == ["transform", "convert"]
    assert texts(model.requests[0].context.messages) == ["go", "[noted]"]


async def test_behaviour_122_custom_roles_vanish_by_default() -> None:
    agent, model, _ = scripted("Hi.")

    await agent.prompt([UserMessage("go"), Note(text="unseen")])

    assert texts(model.requests[0].context.messages) == ["go"]
    assert texts(agent.state.messages) == ["go", "unseen", "Hi."]
    assert default_convert_to_llm(agent.state.messages) == [
        agent.state.messages[0],
        agent.state.messages[2],
    ]


async def test_behaviour_122_any_object_with_a_role_may_stand_in_a_live_transcript() -> None:
    class Banner:
        role = "banner"
        text = "=== new day ==="

    agent, model, events = scripted("Hi.")

    await agent.prompt([Banner(), UserMessage("go")])  # type: ignore[list-item]

    assert texts(model.requests[0].context.messages) == ["go"]
    assert trace(events)[2:4] == ["banner start", "banner end"]


async def test_behaviour_123_transforms_are_for_one_request_and_never_written_back() -> None:
    seen: list[list[str]] = []

    def transform(messages: list[Any]) -> list[Any]:
        seen.append(texts(messages))
        messages.clear()
        return [UserMessage(f"summary {len(seen)}")]

    agent, model, _ = scripted(
        Reply(calls=[ADD]), "Done.", tools=[add], transform_context=transform
    )

    await agent.prompt("go")

    assert seen == [["go"], ["go", "", "42"]]
    assert [texts(request.context.messages) for request in model.requests] == [
        ["summary 1"],
        ["summary 2"],
    ]
    assert texts(agent.state.messages) == ["go", "", "42", "Done."]


def boom(*values: Any) -> Any:
    raise RuntimeError("hook fell over")


async def boom_later(*values: Any) -> Any:
    await asyncio.sleep(0)
    raise RuntimeError("hook fell over")


REQUEST_HOOKS = ["transform_context", "convert_to_llm", "get_api_key", "prepare_request"]
AFTER = ["turn_start", *REPLY, "turn_end", "agent_end"]
ONE_CALL = [
    "agent_start",
    "turn_start",
    *USER,
    *REPLY,
    *executed("c1"),
    *result_of("c1"),
    "turn_end",
]


@pytest.mark.parametrize("hook", [boom, boom_later])
@pytest.mark.parametrize("name", REQUEST_HOOKS)
async def test_behaviour_124_a_request_hook_that_raises_ends_the_run_with_its_text(
    name: str, hook: Callable[..., Any]
) -> None:
    agent, model, events = scripted("Never.", **{name: hook})
    agent.follow_up("later")

    result = await agent.prompt("go")

    assert trace(events) == PLAIN
    assert (result.stop_reason, result.stopped_by) == ("error", "error")
    assert result.error_message == "hook fell over"
    assert result.text == ""
    assert texts(result.undelivered) == ["later"]
    assert model.requests == []


@pytest.mark.parametrize("hook", [boom, boom_later])
@pytest.mark.parametrize("name", ["prepare_next_turn", "finish_turn", "should_stop_after_turn"])
async def test_behaviour_124_a_turn_hook_that_raises_ends_the_run_in_a_turn_of_its_own(
    name: str, hook: Callable[..., Any]
) -> None:
    agent, _, events = scripted(Reply(calls=[ADD]), "Never.", tools=[add], **{name: hook})
    agent.follow_up("later")

    result = await agent.prompt("go")

    assert trace(events) == [*ONE_CALL, *AFTER]
    assert (result.stop_reason, result.stopped_by) == ("error", "error")
    assert result.error_message == "hook fell over"
    assert result.messages[-1].stop_reason == "error"  # type: ignore[union-attr]
    assert texts(result.undelivered) == ["later"]
    assert_paired(events)
    assert_well_formed(agent.state.messages)


@pytest.mark.parametrize(
    "name", [*REQUEST_HOOKS, "get_steering_messages", "get_follow_up_messages"]
)
async def test_behaviour_124_the_low_level_function_produces_the_closing_events_too(
    name: str,
) -> None:
    model = ScriptedModel([Reply("Hi.")])
    events: list[AgentEvent] = []
    config = AgentLoopConfig(model.model, **{name: boom})  # type: ignore[arg-type]

    returned = await run_agent_loop(
        [UserMessage("go")], AgentContext(), config, events.append, stream_fn=model.stream_fn
    )

    assert_paired(events)
    assert returned[-1].stop_reason == "error"  # type: ignore[union-attr]
    assert returned[-1].error_message == "hook fell over"  # type: ignore[union-attr]


async def test_the_hook_of_a_turn_that_failed_is_not_asked_about_the_failure_it_caused() -> None:
    asked: list[str] = []

    def finish(turn: Any) -> None:
        asked.append(turn.message.stop_reason)
        raise RuntimeError("hook fell over")

    agent, _, _ = scripted("Hi.", finish_turn=finish)

    await agent.prompt("go")

    assert asked == ["stop"]


async def test_a_finish_hook_that_raises_on_a_failed_turn_is_reported_and_the_failure_stays() -> (
    None
):
    faults: list[str] = []
    agent, _, events = scripted(
        Reply(error="the vendor fell over"),
        finish_turn=boom,
        on_error=lambda error, where: faults.append(str(error)),
    )

    result = await agent.prompt("go")

    assert result.error_message == "the vendor fell over"
    assert faults == ["hook fell over"]
    assert trace(events) == PLAIN


async def test_a_request_hook_sees_the_signal_and_is_cut_off_by_an_abort() -> None:
    waiting = asyncio.Event()
    seen: list[AbortSignal] = []

    async def transform(messages: list[Any], signal: AbortSignal) -> list[Any]:
        seen.append(signal)
        waiting.set()
        await asyncio.Event().wait()
        return messages

    agent, model, events = scripted("Never.", transform_context=transform)
    running = asyncio.create_task(agent.prompt("go"))
    await waiting.wait()
    agent.abort()
    result = await running

    assert seen[0].aborted
    assert trace(events) == PLAIN
    assert (result.stop_reason, result.stopped_by) == ("aborted", "abort")
    assert model.requests == []


async def test_a_request_hook_cancelled_from_within_is_a_failure_and_no_cancellation() -> None:
    async def odd(messages: list[Any]) -> list[Any]:
        raise asyncio.CancelledError

    agent, _, events = scripted("Never.", transform_context=odd)

    result = await agent.prompt("go")

    assert result.stop_reason == "error"
    assert trace(events) == PLAIN


async def test_a_gate_cancelled_from_within_blocks_its_call() -> None:
    async def odd(question: Any) -> None:
        raise asyncio.CancelledError

    agent, _, _ = scripted(Reply(calls=[ADD]), "Done.", tools=[add], before_tool_call=odd)

    result = await agent.prompt("go")

    (told,) = results(result.messages)
    assert told.is_error
    assert result.text == "Done."


# -- options ---------------------------------------------------------------------------------


async def test_behaviour_127_the_loop_sets_key_and_reasoning_all_else_passes_through() -> None:
    given = {
        "temperature": 0.3,
        "max_tokens": 100,
        "reasoning": "max",
        "api_key": "static",
        "session_id": "mine",
        "metadata": {"user": "ada"},
        "something_unknown": object(),
    }
    agent, model, _ = scripted(
        "Hi.",
        "Hi.",
        stream_options=given,
        session_id="theirs",
        get_api_key=lambda provider: "fresh",
        thinking_level="low",
        thinking_budgets={"low": 5},
    )

    await agent.prompt("go")
    agent.thinking_level = "off"
    await agent.prompt("go")

    first, second = (dict(request.options) for request in model.requests)
    first.pop("signal")
    assert first == {
        **given,
        "reasoning": "low",
        "api_key": "fresh",
        "thinking_budgets": {"low": 5},
    }
    assert second["reasoning"] == "off"
    assert given["reasoning"] == "max"


# -- how hooks are called --------------------------------------------------------------------

TURN_HOOKS = [
    "transform_context",
    "before_tool_call",
    "after_tool_call",
    "prepare_request",
    "prepare_next_turn",
    "finish_turn",
    "should_stop_after_turn",
]


@pytest.mark.parametrize("name", TURN_HOOKS)
@pytest.mark.parametrize("shape", ["alone", "signal", "by name", "anything", "method", "async"])
async def test_every_hook_may_leave_the_signal_out_and_be_sync_or_async(
    name: str, shape: str
) -> None:
    calls: list[int] = []

    def answer(values: tuple[Any, ...]) -> Any:
        calls.append(len(values))
        return values[0] if name == "transform_context" else None

    def alone(value: Any) -> Any:
        return answer((value,))

    def with_signal(value: Any, signal: AbortSignal) -> Any:
        assert not signal.aborted
        return answer((value, signal))

    def by_name(value: Any, *, signal: AbortSignal) -> Any:
        assert not signal.aborted
        return answer((value, signal))

    def anything(*values: Any) -> Any:
        return answer(values)

    async def later(value: Any) -> Any:
        await asyncio.sleep(0)
        return answer((value,))

    class Object:
        def method(self, value: Any, signal: AbortSignal) -> Any:
            return answer((value, signal))

    hook = {
        "alone": alone,
        "signal": with_signal,
        "by name": by_name,
        "anything": anything,
        "method": Object().method,
        "async": later,
    }[shape]
    agent, _, _ = scripted(Reply(calls=[ADD]), "Done.", tools=[add], **{name: hook})

    result = await agent.prompt("go")

    assert (result.text, result.stopped_by) == ("Done.", None)
    assert set(calls) == {1 if shape in ("alone", "async") else 2}


async def test_a_value_kept_in_a_default_is_not_taken_for_the_signal() -> None:
    seen: list[Any] = []

    def optional(turn: Any, signal: AbortSignal | None = None) -> None:
        seen.append(signal is not None)

    agent, _, _ = scripted("Hi.", finish_turn=optional)
    for n in range(2):
        agent.subscribe(lambda event, n=n: seen.append(n) if event.type == "agent_end" else None)

    await agent.prompt("go")

    assert seen == [True, 0, 1]


async def test_hooks_are_read_live_during_a_run() -> None:
    agent, model, _ = scripted(*[Reply(calls=[ADD])] * 3, tools=[add])

    def stop(turn: Any) -> FinishTurn:
        return FinishTurn.END

    def later(context: AgentContext) -> None:
        if len(model.requests) == 1:
            agent.finish_turn = stop

    agent.prepare_request = later
    result = await agent.prompt("go")

    assert result.stopped_by == "hook"
    assert len(model.requests) == 2


async def test_a_hook_can_be_removed_again() -> None:
    agent, model, _ = scripted(Reply(calls=[ADD]), "Done.", tools=[add])
    agent.finish_turn = lambda turn: FinishTurn.END
    agent.finish_turn = None

    await agent.prompt("go")

    assert len(model.requests) == 2
    assert agent.finish_turn is None


async def test_case_146_a_request_without_any_message_is_not_sent() -> None:
    agent, model, _ = scripted(
        Reply(calls=[ADD]),
        "Done.",
        tools=[add],
        transform_context=lambda messages: messages[-1:],
    )

    result = await agent.prompt("go")

    assert result.stop_reason == "error"
    assert "transform_context" in (result.error_message or "")
    assert len(model.requests) == 1
