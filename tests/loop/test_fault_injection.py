"""Strikes at every step of a run, and faults at every call of foreign code; the run must stand.

The first family runs a scene again and again and strikes before the k-th step of its event loop,
for every k until the run is over: abort, cancel, both, twice, from another thread, an interrupting
message. The second makes the k-th call of any hook, listener, tool or stream misbehave. After each
the same invariants hold (invariants.py), and the next prompt works.
"""

from __future__ import annotations

import asyncio
import gc
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Any

import pytest
from tests.loop.invariants import (
    check_events,
    check_idle,
    check_sendable,
    frozen_garbage,
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

GRACE_SECONDS = 2.0
SMALL = 0.3


@pytest.fixture(autouse=True, scope="module")
def cheap_collections() -> Iterator[None]:
    with frozen_garbage():
        yield


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


# -- strikes ---------------------------------------------------------------------------------

Strike = Callable[[Scene, "asyncio.Task[None]", VirtualTimeLoop], object]


def abort(scene: Scene, caller: asyncio.Task[None], loop: VirtualTimeLoop) -> None:
    scene.abort()


def cancel(scene: Scene, caller: asyncio.Task[None], loop: VirtualTimeLoop) -> None:
    scene.cancelled |= caller.cancel()


def soon(loop: VirtualTimeLoop, act: Callable[[], object]) -> None:
    """Up to three rounds of the loop later, by turns, to fall into what the first strike began."""
    rounds = loop.steps % 4

    def wait() -> None:
        nonlocal rounds
        rounds -= 1
        if rounds < 0:
            act()
        else:
            loop.call_soon(wait)

    wait()


def cancel_twice(scene: Scene, caller: asyncio.Task[None], loop: VirtualTimeLoop) -> None:
    cancel(scene, caller, loop)
    soon(loop, caller.cancel)


def cancel_again_and_again(scene: Scene, caller: asyncio.Task[None], loop: VirtualTimeLoop) -> None:
    """At every step, as by somebody who has lost patience."""
    left = 60

    def again() -> None:
        nonlocal left
        left -= 1
        if caller.cancel() and left:
            scene.cancelled = True
            loop.call_soon(again)

    again()


def abort_then_cancel(scene: Scene, caller: asyncio.Task[None], loop: VirtualTimeLoop) -> None:
    scene.abort()
    soon(loop, lambda: cancel(scene, caller, loop))


def cancel_then_abort(scene: Scene, caller: asyncio.Task[None], loop: VirtualTimeLoop) -> None:
    cancel(scene, caller, loop)
    soon(loop, scene.abort)


def abort_from_a_thread(scene: Scene, caller: asyncio.Task[None], loop: VirtualTimeLoop) -> None:
    thread = threading.Thread(target=scene.abort)
    thread.start()
    thread.join()


def interrupting_message(scene: Scene, caller: asyncio.Task[None], loop: VirtualTimeLoop) -> None:
    scene.queue("urgent", "interrupt")


ABORTS: list[Strike] = [abort, abort_from_a_thread]
CANCELS: list[Strike] = [
    cancel,
    cancel_twice,
    cancel_again_and_again,
    abort_then_cancel,
    cancel_then_abort,
]
STRIKES: list[Strike] = [*ABORTS, *CANCELS, interrupting_message]


class Strikes:
    """Runs one scene once for every step of it, struck there."""

    def __init__(self, scene: str, way_in: str, strike: Strike, first: int, stride: int) -> None:
        """*first* step to strike at, and how many to go on by."""
        self.scene, self.way_in, self.strike = scene, way_in, strike
        self.first, self.stride = first, stride
        self.made = 0

    def make_all(self) -> int:
        """How many strikes were made."""
        at = self.first
        while self.make(at):
            self.made += 1
            at += self.stride
        gc.collect()
        return self.made

    def make(self, at: int) -> bool:
        """Strike before step *at*. False if the run was over by then."""
        loop = VirtualTimeLoop()
        try:
            return loop.live(self._run(loop, at))
        except BaseException as error:
            error.add_note(f"{self.scene} by {self.way_in}, {self.strike.__name__} at step {at}")
            raise

    @property
    def learns_late(self) -> bool:
        """The run hears of it one step later, from its reader or its caller's signal; a request
        may come between."""
        if self.way_in == "prompt":
            return False
        through_the_reader = self.way_in in ("stream", "agent_loop") and self.strike in CANCELS
        through_a_signal = self.way_in != "stream" and self.strike is abort_from_a_thread
        return through_the_reader or through_a_signal

    async def _run(self, loop: VirtualTimeLoop, at: int) -> bool:
        scene = Scene(SCENES[self.scene])
        way_in = WAYS_IN[self.way_in]

        async def call() -> None:
            task = asyncio.current_task()
            assert task is not None
            try:
                await way_in(scene)
            finally:
                scene.cancelling = task.cancelling()

        caller = loop.create_task(call())
        requests = -1
        struck = begun = False
        struck_at = 0.0

        def strike() -> None:
            nonlocal requests, struck, struck_at, begun
            if not caller.done():
                struck = True
                struck_at = loop.now
                begun = bool(scene.heard[0])
                requests = len(scene.requests)
                self.strike(scene, caller, loop)

        def tick() -> None:
            """Something else that the loop does: so there are steps in the middle of a wait."""
            if not caller.done():
                loop.call_later(0.007, tick)

        tick()
        loop.strikes[loop.steps + at] = strike
        await asyncio.wait({caller})
        loop.strikes.clear()
        if struck:
            took = loop.now - struck_at
            assert self.strike is interrupting_message or took <= GRACE_SECONDS + SMALL, took
            if scene.cancelled:
                assert caller.cancelled(), "the caller's cancellation got lost"
            else:
                assert caller.exception() is None, caller.exception()
                assert scene.cancelling == 0, "a cancellation of ours was left behind"
            if self.strike is not interrupting_message and begun and not self.learns_late:
                assert len(scene.requests) == requests, "the model was asked after the stop"
        else:
            caller.result()
        assert not scene.reported, scene.reported
        await check(scene, loop)
        return struck


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


STRIDES = {"prompt": 1, "stream": 4, "agent_loop": 2, "run_agent_loop": 2}
"""A prompt is struck at every step. The other ways in share the kernel; the strikes of each kind
begin at another step, so that together they leave out none."""


@pytest.mark.parametrize("strike", STRIKES, ids=lambda strike: strike.__name__)
@pytest.mark.parametrize("way_in", WAYS_IN)
@pytest.mark.parametrize("scene", SCENES)
def test_a_strike_at_any_step_leaves_a_run_that_is_whole(
    scene: str, way_in: str, strike: Strike
) -> None:
    stride = STRIDES[way_in]
    first = 1 + STRIKES.index(strike) % stride

    made = Strikes(scene, way_in, strike, first, stride).make_all()

    assert made >= 15 // stride


# -- faults ----------------------------------------------------------------------------------

Act = Callable[[Scene, "asyncio.Task[None]", VirtualTimeLoop], object]


def raise_boom(scene: Scene, caller: asyncio.Task[None], loop: VirtualTimeLoop) -> None:
    raise Boom("on purpose")


def raise_cancelled(scene: Scene, caller: asyncio.Task[None], loop: VirtualTimeLoop) -> None:
    raise asyncio.CancelledError


def crash(scene: Scene, caller: asyncio.Task[None], loop: VirtualTimeLoop) -> None:
    raise Crash("on purpose")


def cancel_from_here(scene: Scene, caller: asyncio.Task[None], loop: VirtualTimeLoop) -> None:
    if threading.current_thread() is threading.main_thread():
        caller.cancel()
    else:
        loop.call_soon_threadsafe(caller.cancel)


RAISES: list[Act] = [raise_boom, raise_cancelled]
ACTS: list[Act] = [*RAISES, crash, cancel_from_here, abort, interrupting_message]


class Injections:
    """Runs one scene once for every call of foreign code in it, and lets that one misbehave."""

    def __init__(self, scene: str, way_in: str, act: Act, first: int, stride: int) -> None:
        """*first* call to spoil, and how many to go on by."""
        self.scene, self.way_in, self.act = scene, way_in, act
        self.first, self.stride = first, stride
        self.made = 0

    def make_all(self) -> int:
        """How many faults were made."""
        at = self.first
        while self.make(at):
            self.made += 1
            at += self.stride
        gc.collect()
        return self.made

    def make(self, at: int) -> bool:
        loop = VirtualTimeLoop()
        scenes: list[Scene] = []
        try:
            return loop.live(self._run(loop, at, scenes))
        except BaseException as error:
            place = scenes[0].faults.place
            error.add_note(
                f"{self.scene} by {self.way_in}: {self.act.__name__} in call {at}, where {place}"
            )
            raise

    async def _run(self, loop: VirtualTimeLoop, at: int, scenes: list[Scene]) -> bool:
        scene = Scene(SCENES[self.scene])
        scenes.append(scene)
        way_in = WAYS_IN[self.way_in]

        async def call() -> None:
            task = asyncio.current_task()
            assert task is not None
            try:
                await way_in(scene)
            finally:
                scene.cancelling = task.cancelling()

        caller = loop.create_task(call())
        began = 0.0

        def act(place: str) -> None:
            nonlocal began
            began = loop.time()
            if self.act is crash and "listener" in place:
                raise Boom("a crash in a listener is a crash of the program")
            self.act(scene, caller, loop)

        scene.faults.at = at
        scene.faults.act = act
        await asyncio.wait({caller})
        scene.faults.at = 0
        place = scene.faults.place
        if self.act is cancel_from_here and place is not None:
            assert caller.cancelled(), "the caller's cancellation got lost"
            assert loop.time() - began <= GRACE_SECONDS + SMALL
        elif self.act is crash and place is not None and "listener" not in place:
            assert isinstance(caller.exception(), Crash), caller
        else:
            assert not caller.cancelled(), "a cancellation nobody asked for came out"
            assert caller.exception() is None, caller.exception()
            assert scene.cancelling == 0
        if place is not None and self.act in RAISES and "listener" in place:
            assert [where for _, where in scene.reported] == ["a listener"]
        await check(scene, loop)
        return place is not None


@pytest.mark.parametrize("act", ACTS, ids=lambda act: act.__name__)
@pytest.mark.parametrize("scene", ["scripted", "raising"])
def test_a_fault_in_any_call_of_foreign_code_leaves_a_run_that_is_whole(
    scene: str, act: Act
) -> None:
    """Hooks, listeners, tools and streams raise, are cancelled from within, crash, cancel their own
    caller, abort, interrupt."""
    stride = 1 if act in RAISES or scene == "raising" else 3

    made = Injections(scene, "prompt", act, 1 + ACTS.index(act) % stride, stride).make_all()

    assert made >= 100 // stride


@pytest.mark.parametrize("act", RAISES, ids=lambda act: act.__name__)
@pytest.mark.parametrize("way_in", ["stream", "agent_loop", "run_agent_loop"])
def test_a_fault_in_any_call_leaves_a_run_that_is_whole_whoever_watches_it(
    way_in: str, act: Act
) -> None:
    assert Injections("raising", way_in, act, 1, 1).make_all() >= 40


# -- other bad habits ------------------------------------------------------------------------

HOOKS = [
    "transform_context",
    "get_api_key",
    "before_tool_call",
    "after_tool_call",
    "prepare_request",
    "prepare_next_turn",
    "finish_turn",
    "should_stop_after_turn",
    "convert_to_llm",
]


@pytest.mark.parametrize("value", [3, "text", object(), [None]], ids=lambda v: type(v).__name__)
@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_that_returns_something_else_leaves_a_run_that_is_whole(
    hook: str, value: Any
) -> None:
    loop = VirtualTimeLoop()

    async def run() -> None:
        scene = Scene(scripted)
        setattr(scene.agent, hook, lambda *arguments: value)
        await scene.prompt()
        setattr(scene.agent, hook, None)
        await check(scene, loop)

    loop.live(run())


@pytest.mark.parametrize(("strike", "swallows"), [(abort, 0), (abort, 1), (cancel, 0)])
@pytest.mark.parametrize("hook", HOOKS)
def test_a_hook_that_hangs_and_swallows_its_cancellation_is_stopped_within_the_grace(
    hook: str, swallows: int, strike: Strike
) -> None:
    loop = VirtualTimeLoop()

    async def hang(*arguments: Any) -> None:
        for _ in range(swallows):
            try:
                await asyncio.sleep(1e6)
            except asyncio.CancelledError:
                continue
        await asyncio.sleep(1e6)

    async def run() -> None:
        scene = Scene(scripted)
        setattr(scene.agent, hook, hang)
        caller = asyncio.create_task(scene.prompt())
        loop.call_later(100, strike, scene, caller, loop)
        await asyncio.wait({caller})
        assert loop.now - 100 <= GRACE_SECONDS + SMALL
        assert caller.cancelled() is (strike is cancel)
        setattr(scene.agent, hook, None)
        await check(scene, loop)

    loop.live(run())


@pytest.mark.parametrize("strike", [abort, cancel])
@pytest.mark.parametrize(
    "hung", ["message_start", "message_update", "tool_execution_end", "agent_end"]
)
def test_a_listener_that_hangs_does_not_keep_a_stopped_run_for_long(
    hung: str, strike: Strike
) -> None:
    loop = VirtualTimeLoop()

    async def run() -> None:
        scene = Scene(scripted)
        hang = True

        async def listen(event: AgentEvent) -> None:
            if hang and event.type == hung:
                await asyncio.sleep(1e6)

        scene.agent.subscribe(listen)
        scene.agent.subscribe(scene.plain_listener())
        caller = asyncio.create_task(scene.prompt())
        loop.call_later(100, strike, scene, caller, loop)
        await asyncio.wait({caller})
        assert loop.now - 100 <= 2 * GRACE_SECONDS
        assert caller.cancelled() is (strike is cancel)
        hang = False
        await check(scene, loop)

    loop.live(run())


def test_a_prompt_under_a_timeout_raises_the_timeout_and_nothing_else() -> None:
    loop = VirtualTimeLoop()

    async def run() -> None:
        scene = Scene(scripted)
        scene.agent.finish_turn = lambda turn: asyncio.sleep(1e6)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await scene.prompt()
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0
        scene.agent.finish_turn = None
        await check(scene, loop)

    loop.live(run())


def test_a_prompt_in_the_clean_up_of_a_cancelled_task_runs_as_any_other() -> None:
    """The cancellation that is being dealt with is not about this run."""
    loop = VirtualTimeLoop()
    scene = Scene(scripted)

    async def cancelled() -> None:
        try:
            await asyncio.sleep(1e6)
        finally:
            await scene.prompt()

    async def run() -> None:
        task = asyncio.create_task(cancelled())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
        last = scene.agent.state.messages[-1]
        assert isinstance(last, AssistantMessage)
        assert last.stop_reason == "stop"
        await check(scene, loop)

    loop.live(run())


def test_behaviour_102_a_thread_that_is_stuck_is_left_behind_after_the_grace() -> None:
    loop = VirtualTimeLoop()
    gate = threading.Event()

    @tool
    def stuck() -> str:
        loop.stuck += 1
        gate.wait(30)
        return "too late"

    async def run() -> None:
        scene = Scene(scripted)
        scene.agent.stream_fn = ScriptedModel([Reply(calls=[Call("stuck")])]).stream_fn
        scene.agent.state.tools = [stuck]
        loop.call_later(10, scene.abort)
        await scene.prompt()
        assert 0 < loop.now - 10 <= GRACE_SECONDS + SMALL
        await check(scene, loop)

    try:
        loop.live(run())
    finally:
        gate.set()
