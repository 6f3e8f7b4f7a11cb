"""Strikes at every step of a run in a session: afterwards it is whole, and can be gone on with.

The run is repeated for every step of its event loop and struck right before it: its caller is
cancelled, it is aborted, the harness is closed. Then the session is opened anew, as by the next
process, and brought to its end.
"""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.harness.crash_programs import PROMPT, an_item, by_last_message
from tests.loop.invariants import check_sendable, frozen_garbage
from tests.loop.virtual_time import VirtualTimeLoop

from loopwright import Agent, Harness, tool
from loopwright.events import AgentEvent, MessageEnd
from loopwright.messages import AgentMessage, AssistantMessage, ToolResultMessage, Usage
from loopwright.session import MemoryStore, Session
from loopwright.testing import Call, Reply, ScriptedModel

GRACE_SECONDS = 2.0


@pytest.fixture(autouse=True, scope="module")
def cheap_collections() -> Iterator[None]:
    with frozen_garbage():
        yield


SCRIPT = {
    "Go": Reply(
        "On my way.",
        calls=[
            Call("look", {"where": "a"}, id="a"),
            Call("pay", {"what": "tea"}, id="b"),
            Call("nobody", {}, id="c"),
        ],
        chunk_size=8,
        delay=0.001,
    ),
    "Faster!": Reply(calls=[Call("pay", {"what": "milk"}, id="d"), Call("look", {"where": "b"}, id="e")]),
    "e": Reply("That was that."),
    "And the bill?": Reply("It is paid.", chunk_size=4, delay=0.001),
    "Next": Reply("Here I am."),
}  # fmt: skip

EXPECTED = ["Go", "On my way.", "seen a", "paid tea", "No tool", "Faster!", "", "paid milk", "seen b",
            "That was that.", "And the bill?", "It is paid."]  # fmt: skip


class Scene:
    """One session, and what happened on its way."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        self.paid: list[str] = []
        self.said: list[str] = []
        self.heard: list[AgentMessage] = []
        self.faults: list[str] = []
        self.requests: list[list[Any]] = []

    def agent(self) -> Agent[Any]:
        @tool(replay="safe")
        async def look(where: str) -> str:
            if where == "a":
                await self.say("steer", "Faster!")
                await self.say("followUp", "And the bill?")
            await asyncio.sleep(0.003)
            return f"seen {where}"

        @tool
        async def pay(what: str) -> str:
            self.paid.append(what)
            await asyncio.sleep(0.001)
            return f"paid {what}"

        model = ScriptedModel(by_last_message(SCRIPT))
        agent: Agent[Any] = Agent(
            model.model, stream_fn=model.stream_fn, tools=[look, pay], system_prompt=PROMPT
        )
        self.requests.append([])
        requests = self.requests[-1]

        def ask(*args: Any, **options: Any) -> Any:
            requests.append(list(args[1].messages))
            return model.stream_fn(*args, **options)

        agent.stream_fn = ask
        agent.on_error = lambda error, where: self.faults.append(f"{where}: {error}")
        return agent

    async def say(self, queue: Any, text: str) -> None:
        await self.store.enqueue("s", an_item(queue, text))
        self.said.append(text)

    def hear(self, event: AgentEvent) -> None:
        if isinstance(event, MessageEnd):
            self.heard.append(event.message)

    async def stored(self) -> list[AgentMessage]:
        return (await Session.read(self.store, "s")).transcript()


Strike = Callable[["asyncio.Task[Any]", Harness[Any], VirtualTimeLoop], "asyncio.Task[Any] | None"]


def cancel(caller: asyncio.Task[Any], harness: Harness[Any], loop: VirtualTimeLoop) -> None:
    caller.cancel()


def cancel_twice(caller: asyncio.Task[Any], harness: Harness[Any], loop: VirtualTimeLoop) -> None:
    caller.cancel()
    loop.call_soon(lambda: loop.call_soon(caller.cancel))


def abort(caller: Any, harness: Harness[Any], loop: VirtualTimeLoop) -> asyncio.Task[Any]:
    return loop.create_task(harness.abort())


def abort_then_cancel(caller: Any, harness: Harness[Any], loop: VirtualTimeLoop) -> Any:
    loop.call_soon(lambda: loop.call_soon(caller.cancel))
    return loop.create_task(harness.abort())


def close(caller: Any, harness: Harness[Any], loop: VirtualTimeLoop) -> asyncio.Task[Any]:
    return loop.create_task(harness.aclose())


def close_then_cancel(caller: Any, harness: Harness[Any], loop: VirtualTimeLoop) -> Any:
    loop.call_soon(lambda: loop.call_soon(caller.cancel))
    return loop.create_task(harness.aclose())


STOPS: list[Strike] = [cancel, cancel_twice, abort, abort_then_cancel]
CLOSINGS: list[Strike] = [close, close_then_cancel]


async def struck(scene: Scene, strike: Strike, at: int, loop: VirtualTimeLoop) -> bool:
    """Run, or go on, and strike before step *at*. False if the run was over by then."""
    made: list[Any] = []
    harness = await Harness.open(scene.store, "s", agent=scene.agent()).__aenter__()
    harness.subscribe(scene.hear)
    working = harness.prompt("Go") if harness.open_operation is None else harness.resume()
    caller: asyncio.Task[Any] = loop.create_task(working)

    def now() -> None:
        if not caller.done():
            made.append(strike(caller, harness, loop))

    began = loop.now
    loop.strikes[loop.steps + at] = now
    await asyncio.wait({caller})
    loop.strikes.clear()
    assert not made or loop.now - began < GRACE_SECONDS
    for task in made:
        if task is not None:
            await task
    await harness.aclose()
    return bool(made)


async def check_what_was_heard(scene: Scene) -> list[AgentMessage]:
    """All that was announced is stored, in that order. An outcome may still wait for its place."""
    stored = await scene.stored()
    places = [stored.index(message) for message in scene.heard if message in stored]
    assert places == sorted(places)
    waiting = [intent.result for intent in (await scene.store.state("s")).intents]
    lost = [message for message in scene.heard if message not in [*stored, *waiting]]
    assert all(is_failure(message) for message in lost), lost
    return stored


def is_failure(message: AgentMessage) -> bool:
    """It says itself that it has failed, so nobody takes it for done."""
    if isinstance(message, ToolResultMessage):
        return message.is_error
    return isinstance(message, AssistantMessage) and message.stop_reason in ("error", "aborted")


async def check_books(scene: Scene) -> None:
    total = Usage()
    for row in await scene.store.usage("s"):
        total += row.usage
    assert (await scene.store.info("s")).usage == total
    assert len(scene.paid) == len(set(scene.paid)), f"paid twice: {scene.paid}"
    texts = [getattr(message, "text", "") for message in await scene.stored()]
    waiting = [getattr(item.message, "text", "") for item in await scene.store.inbox("s")]
    for text in ("Faster!", "And the bill?"):
        assert [*texts, *waiting].count(text) == (text in scene.said), (text, texts, waiting)


async def gone_on_with(scene: Scene) -> tuple[list[AgentMessage], str | None]:
    """By the next process, to the end. Returns the transcript and what the run came to."""
    async with Harness.open(scene.store, "s", agent=scene.agent()) as harness:
        await harness.resume()
        assert harness.open_operation is None
        assert harness.session.intents == {}
        ended = harness.session.last_operation
    transcript = await scene.stored()
    await check_books(scene)
    async with Harness.open(scene.store, "s", agent=scene.agent()) as harness:
        for item in await scene.store.inbox("s"):  # of the run that was stopped
            await harness.withdraw(item.id)
        assert (await harness.prompt("Next")).text == "Here I am."
    for requests in scene.requests:
        for request in requests:
            check_sendable(request)
    return transcript, None if ended is None else ended.status


def matches(message: AgentMessage, expected: str) -> bool:
    text = getattr(message, "text", "")
    return text.startswith(expected) if expected else text == ""


async def one_strike(strike: Strike, at: int, loop: VirtualTimeLoop, closed_before: int) -> bool:
    scene = Scene()
    if closed_before:
        await struck(scene, close, closed_before, loop)
        assert (await scene.store.state("s")).lanes[0].operation_id is not None
        scene.heard = []
    made = await struck(scene, strike, at, loop)
    before = await check_what_was_heard(scene)
    await check_books(scene)
    state = await scene.store.state("s")

    if made and state.lanes[0].operation_id is not None:
        # Going on was cancelled before it began, or the session was closed.
        assert strike in CLOSINGS or (closed_before and not scene.heard)
        transcript, status = await gone_on_with(scene)
        assert transcript[: len(before)] == before
        check_complete(transcript)
        assert status == "completed"
        return made

    if not made:
        check_complete(before)
    status = state.operations[-1].status if state.operations else None
    assert state.lanes[0].operation_id is None, status
    assert state.intents == []
    if status == "completed":
        check_complete(before)
    elif status is not None:
        assert status == "aborted"
        check_aborted(before)
    transcript, _ = await gone_on_with(scene)
    assert transcript == before
    return made


def is_interrupted(message: AgentMessage) -> bool:
    return isinstance(message, ToolResultMessage) and "interrupted" in message.text


def check_complete(transcript: list[AgentMessage]) -> None:
    """It is the expected one, but for calls that may have been begun by an earlier process."""
    assert [
        is_interrupted(m) or matches(m, e) for m, e in zip(transcript, EXPECTED, strict=True)
    ] == [True] * len(EXPECTED)


def check_aborted(transcript: list[AgentMessage]) -> None:
    """As far as it went it is the expected one; then come calls answered unrun, or half a reply."""
    for place, (message, expected) in enumerate(zip(transcript, EXPECTED, strict=False)):
        if not matches(message, expected) and not is_interrupted(message):
            assert is_failure(message), (place, message)
            assert "abort" in str(message).lower(), (place, message)
    calls: list[str] = []
    for message in transcript:
        if isinstance(message, AssistantMessage) and message.stop_reason not in (
            "error",
            "aborted",
        ):
            assert calls == []
            calls = [call.id for call in message.tool_calls]
        elif isinstance(message, ToolResultMessage):
            assert message.tool_call_id == calls.pop(0)
    assert calls == []


EVERY_STRIKE = pytest.mark.parametrize(
    "strike", [*STOPS, *CLOSINGS], ids=lambda strike: strike.__name__
)


def strike_everywhere(strike: Strike, closed_before: int = 0) -> int:
    """How many strikes were made."""
    at = 0
    going_on = True
    while going_on:
        at += 1
        loop = VirtualTimeLoop()
        try:
            going_on = loop.live(one_strike(strike, at, loop, closed_before))
        except BaseException as error:
            error.add_note(f"{strike.__name__} before step {at}, closed before {closed_before}")
            raise
    gc.collect()
    return at - 1


@EVERY_STRIKE
def test_a_strike_at_any_step_of_a_run_leaves_a_session_that_is_whole(strike: Strike) -> None:
    assert strike_everywhere(strike) > 100


@pytest.mark.parametrize("closed_before", [45, 60, 100])
@EVERY_STRIKE
def test_a_strike_at_any_step_of_going_on_leaves_a_session_that_is_whole(
    strike: Strike, closed_before: int
) -> None:
    assert strike_everywhere(strike, closed_before) > 30
