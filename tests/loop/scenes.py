"""Runs with everything in them, to be struck and spoilt: an agent with all hooks, listeners, tools,
queues and several kinds of streams, started in four ways; and what must hold of it afterwards.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from tests.loop.invariants import (
    check_events,
    check_idle,
    check_sendable,
    said,
    same_objects,
)
from tests.loop.virtual_time import VirtualTimeLoop

from loopwright import (
    AbortController,
    AfterToolCall,
    Agent,
    AgentContext,
    AgentLoopConfig,
    BeforeToolCall,
    ToolContext,
    TurnContext,
    agent_loop,
    default_convert_to_llm,
    run_agent_loop,
    tool,
)
from loopwright.events import AgentEnd, AgentEvent
from loopwright.messages import AssistantMessage, TextContent, ToolCall, UserMessage
from loopwright.models import Context, Model
from loopwright.stream import (
    AssistantStream,
    Done,
    Retry,
    Start,
    TextDelta,
    TextEnd,
    TextStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from loopwright.testing import Call, Reply, ScriptedModel


class Boom(Exception):
    """What misbehaving code raises."""


class Crash(BaseException):
    """Not an `Exception`: as an exit of the interpreter is."""


class Faults:
    """Counts the calls of foreign code; the k-th misbehaves."""

    def __init__(self) -> None:
        self.at = 0
        self.act: Callable[[str], object] = lambda place: None
        self.count = 0
        self.place: str | None = None
        self.places: list[str] = []

    def __call__(self, place: str) -> None:
        self.count += 1
        self.places.append(place)
        if self.count == self.at:
            self.place = place
            self.act(place)


# -- the scenes ------------------------------------------------------------------------------


StreamFn = Callable[..., Any]


class Scene:
    """An agent with everything set that can be set, and a record of what happened to it."""

    def __init__(self, stream_fn: Callable[[Scene], StreamFn]) -> None:
        self.faults = Faults()
        self.requests: list[Context] = []
        self.heard: list[list[AgentEvent]] = []
        self.read: list[AgentEvent] = []
        self.reported: list[tuple[BaseException, str]] = []
        self.cancelling: int | None = None
        self.cancelled = False
        """The caller was cancelled while there was something to cancel."""
        self.signals: set[Any] = set()
        self.queued: list[str] = []
        self.controller = AbortController()
        self.stream: Any = None
        self._inner = stream_fn(self)
        self.options: dict[str, Any] = {
            "convert_to_llm": self.convert_to_llm,
            "transform_context": self.transform_context,
            "get_api_key": self.get_api_key,
            "before_tool_call": self.before_tool_call,
            "after_tool_call": self.after_tool_call,
            "prepare_request": self.prepare_request,
            "prepare_next_turn": self.prepare_next_turn,
            "finish_turn": self.finish_turn,
            "should_stop_after_turn": self.should_stop_after_turn,
            "on_error": lambda error, where: self.reported.append((error, where)),
        }
        self.agent = Agent(MODEL, stream_fn=self.stream_fn, tools=TOOLS, deps=self, **self.options)
        for listener in (self.plain_listener(), self.async_listener(), self.plain_listener()):
            self.agent.subscribe(listener)

    # hooks ------------------------------------------------------------------------------

    async def _pass(self, place: str) -> None:
        self.faults(f"{place} begins")
        await asyncio.sleep(0.01)
        self.faults(f"{place} ends")

    async def convert_to_llm(self, messages: list[Any]) -> list[Any]:
        await self._pass("convert_to_llm")
        return default_convert_to_llm(messages)

    async def transform_context(self, messages: list[Any], signal: Any) -> list[Any]:
        await self._pass("transform_context")
        return messages

    async def get_api_key(self, provider: str) -> str:
        await self._pass("get_api_key")
        return "key"

    async def before_tool_call(self, question: BeforeToolCall, signal: Any) -> None:
        await self._pass("before_tool_call")

    async def after_tool_call(self, question: AfterToolCall, signal: Any) -> None:
        await self._pass("after_tool_call")

    async def prepare_request(self, context: AgentContext, signal: Any) -> None:
        await self._pass("prepare_request")

    async def prepare_next_turn(self, turn: TurnContext, signal: Any) -> None:
        await self._pass("prepare_next_turn")

    async def finish_turn(self, turn: TurnContext, signal: Any) -> None:
        await self._pass("finish_turn")

    async def should_stop_after_turn(self, turn: TurnContext, signal: Any) -> bool:
        await self._pass("should_stop_after_turn")
        return False

    # listeners ---------------------------------------------------------------------------

    def plain_listener(self) -> Callable[[AgentEvent, Any], None]:
        events: list[AgentEvent] = []
        self.heard.append(events)

        def listen(event: AgentEvent, signal: Any) -> None:
            events.append(event)
            self.signals.add(signal)
            self.faults(f"a listener hears {event.type}")

        return listen

    def async_listener(self) -> Callable[[AgentEvent, Any], Awaitable[None]]:
        events: list[AgentEvent] = []
        self.heard.append(events)

        async def listen(event: AgentEvent, signal: Any) -> None:
            events.append(event)
            self.faults(f"an async listener hears {event.type}")
            await asyncio.sleep(0)
            self.faults(f"an async listener has heard {event.type}")

        return listen

    # queues ------------------------------------------------------------------------------

    def queue(self, text: str, when: str = "after_batch") -> None:
        self.queued.append(text)
        if when == "follow_up":
            self.agent.follow_up(text)
        else:
            self.agent.steer(text, when=when)  # pyright: ignore[reportArgumentType]

    # the model ---------------------------------------------------------------------------

    async def stream_fn(self, model: Model, context: Context, **options: Any) -> AssistantStream:
        self.requests.append(context)
        check_sendable(context.messages)
        await self._pass("stream_fn")
        return self._inner(model, context, **options)

    # ways in -----------------------------------------------------------------------------

    async def prompt(self) -> None:
        self.queue("queued before")
        self.queue("at the end", "follow_up")
        await self.agent.prompt("go")

    async def watch(self) -> None:
        self.queue("queued before")
        self.queue("at the end", "follow_up")
        async with self.agent.stream("go") as events:
            async for event in events:
                self.read.append(event)
            await events.result()

    def _low_level(self) -> tuple[AgentContext, AgentLoopConfig]:
        def poll(queue: Any) -> Callable[[], Any]:
            async def fetch() -> list[Any]:
                await self._pass("a queue")
                return queue.take("one-at-a-time")

            return fetch

        async def keep(messages: list[Any]) -> None:
            self.agent._steering.give_back(messages)
            await self._pass("on_undelivered")

        config = AgentLoopConfig(
            MODEL,
            deps=self,
            **self.options,
            get_steering_messages=poll(self.agent._steering),
            get_follow_up_messages=poll(self.agent._follow_up),
            on_undelivered=keep,
        )
        return AgentContext("", [], list(TOOLS)), config

    async def low_level_stream(self) -> None:
        self.heard = [self.read]
        context, config = self._low_level()
        prompts = [UserMessage("go")]
        signal = self.controller.signal
        self.stream = agent_loop(prompts, context, config, self.stream_fn, signal)
        async for event in self.stream:
            self.read.append(event)
        await self.stream.result()

    async def low_level(self) -> None:
        self.heard = [self.read]
        context, config = self._low_level()

        async def emit(event: AgentEvent) -> None:
            self.read.append(event)
            await asyncio.sleep(0)

        signal = self.controller.signal
        prompts = [UserMessage("go")]
        messages = await run_agent_loop(prompts, context, config, emit, signal, self.stream_fn)
        assert isinstance(last := self.read[-1], AgentEnd)
        assert last.messages is messages

    def abort(self) -> None:
        self.agent.abort("enough")
        self.controller.abort("enough")


@tool
async def quick(ctx: ToolContext) -> str:
    scene: Scene = ctx.deps
    scene.faults("quick")
    if "steered" not in scene.queued:
        scene.queue("steered")
    ctx.update("half")
    return "quick result"


@tool
async def slow(ctx: ToolContext) -> str:
    ctx.deps.faults("slow begins")
    for i in range(3):
        ctx.update(f"{i}")
        await asyncio.sleep(0.01)
    ctx.deps.faults("slow ends")
    return "slow result"


@tool
def threaded(ctx: ToolContext) -> str:
    ctx.update("in a thread")
    ctx.deps.faults("threaded")
    return "threaded result"


@tool(execution_mode="sequential", timeout=5)
async def alone(ctx: ToolContext) -> str:
    ctx.deps.faults("alone begins")
    await asyncio.sleep(0.01)
    ctx.deps.faults("alone ends")
    return "alone result"


TOOLS = [quick, slow, threaded, alone]
MODEL = ScriptedModel().model

MANY = "a long text by and by"


def scripted(scene: Scene) -> StreamFn:
    """Several turns, tools side by side and one by one, many deltas."""
    model = ScriptedModel(
        [
            Reply(MANY, calls=[Call("quick"), Call("slow"), Call("threaded")], chunk_size=4),
            Reply(calls=[Call("alone"), Call("quick"), Call("nobody")], thinking="hm"),
            Reply("Done.", chunk_size=1, delay=0.01),
            Reply("Done again."),
            Reply("And again."),
        ]
    )
    return model.stream_fn


def foreign(*replies: Callable[[Scene], AsyncIterator[Any]]) -> Callable[[Scene], StreamFn]:
    """Async generators of other people's, one a request."""

    def stream_fn_of(scene: Scene) -> StreamFn:
        waiting = list(replies)

        def stream_fn(model: Model, context: Context, **options: Any) -> AssistantStream:
            reply = waiting.pop(0) if waiting else whole
            return AssistantStream.from_events(reply(scene))

        return stream_fn

    return stream_fn_of


async def whole(scene: Scene) -> AsyncIterator[Any]:
    yield Start()
    yield TextDelta(0, "All is well.")
    yield Done("stop", AssistantMessage([TextContent("All is well.")]))


async def retried_then_calling(scene: Scene) -> AsyncIterator[Any]:
    scene.faults("the stream begins")
    yield Retry(2, 4, 0.05, "overloaded")
    await asyncio.sleep(0.05)
    yield Start()
    yield TextStart(0)
    for piece in ("a", "b", "c"):
        scene.faults("the stream goes on")
        await asyncio.sleep(0.01)
        yield TextDelta(0, piece)
    yield TextEnd(0, "abc")
    yield ToolCallStart(1, tool_call_id="c1", tool_name="slow")
    yield ToolCallDelta(1, "{}")
    yield ToolCallEnd(1, ToolCall("c1", "slow", {}))
    scene.faults("the stream ends")
    content: Any = [TextContent("abc"), ToolCall("c1", "slow", {})]
    yield Done("toolUse", AssistantMessage(content, stop_reason="toolUse"))


async def raising(scene: Scene) -> AsyncIterator[Any]:
    yield Start()
    await asyncio.sleep(0.01)
    yield TextDelta(0, "half a")
    await asyncio.sleep(0.01)
    raise Boom("the line went dead")


async def ending_early(scene: Scene) -> AsyncIterator[Any]:
    yield Start()
    await asyncio.sleep(0.01)
    yield TextDelta(0, "half a")
    await asyncio.sleep(0.01)


async def swallowing(scene: Scene) -> AsyncIterator[Any]:
    yield Start()
    for piece in ("a", "b", "c"):
        try:
            await asyncio.sleep(0.01)
        except asyncio.CancelledError:
            await asyncio.sleep(0.01)
        yield TextDelta(0, piece)
    yield Done("stop", AssistantMessage([TextContent("abc")]))


async def slow_to_close(scene: Scene) -> AsyncIterator[Any]:
    try:
        yield Start()
        for piece in ("a", "b"):
            await asyncio.sleep(0.01)
            yield TextDelta(0, piece)
        yield Done("stop", AssistantMessage([TextContent("ab")]))
    finally:
        await asyncio.sleep(0.05)


SCENES: dict[str, Callable[[Scene], StreamFn]] = {
    "scripted": scripted,
    "raising": foreign(retried_then_calling, raising),
    "ending_early": foreign(ending_early),
    "swallowing": foreign(swallowing, swallowing),
    "slow_to_close": foreign(slow_to_close, slow_to_close),
}
WAYS_IN: dict[str, Callable[[Scene], Awaitable[None]]] = {
    "prompt": Scene.prompt,
    "stream": Scene.watch,
    "agent_loop": Scene.low_level_stream,
    "run_agent_loop": Scene.low_level,
}


async def check(scene: Scene, loop: VirtualTimeLoop) -> None:
    """Everything that holds after a run, and that the next one works."""
    if scene.stream is not None:  # a reader that was cancelled has not read them all
        scene.read += [event async for event in scene.stream]
    others = asyncio.all_tasks() - {asyncio.current_task()}
    assert not others, f"tasks outlived the run: {others}"
    agent = scene.agent
    for signal in [*scene.signals, scene.controller.signal]:
        assert not signal._callbacks, "callbacks were left on a signal"
    started = bool(scene.heard[0])
    for events in scene.heard:
        assert [e.type for e in events] == [e.type for e in scene.heard[0]]
    if scene.heard[0] is not scene.read:
        heard = scene.heard[0]
        assert same_objects(scene.read, heard[: len(scene.read)]), "the reader read other events"
    messages = check_events(scene.heard[0]) if started else []
    if scene.stream is None and scene.heard[0] is not scene.read:
        assert same_objects(agent.state.messages, messages), "the transcript is not what was told"
    else:
        agent.state.messages = messages
    check_idle(agent)

    # The next prompt is sendable, works, and says what was queued, once.
    again = ScriptedModel([Reply(f"Fine {i}.") for i in range(10)])
    agent.stream_fn = again.stream_fn
    result = await agent.prompt("next")

    assert result.stop_reason == "stop", result.error_message
    for request in again.requests:
        check_sendable(request.context.messages)
    assert not agent.has_queued_messages()
    history = said(agent.state.messages)
    expected = [*(["go"] if started else []), *scene.queued, "next"]
    assert sorted(history) == sorted(expected), "queued messages were lost or doubled"
    check_idle(agent)
