"""Agent: the handle a program holds. A transcript, tools, a model, and runs one after another.

It adds to the kernel what has a life between runs: state that listeners can read, queues that
outlast a run, and the rule that only one run goes on at a time.
"""

from __future__ import annotations

import asyncio
from asyncio import CancelledError
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any, Generic, Literal, TypeVar, cast, overload

from ..errors import AgentBusy, Misuse, NothingToResume
from ..events import AgentEvent, MessageUpdate
from ..messages import AgentMessage, ImageContent, TextContent, UserMessage
from ..models.model import Model, ThinkingLevel
from ..signals import AbortController, AbortSignal
from . import hooks
from .agent_state import AgentState
from .agent_stream import AgentStream
from .config import AgentLoopConfig
from .context import AgentContext
from .faults import report
from .hooks import default_convert_to_llm
from .journal import Journal
from .kernel import check_resumable, drive
from .listeners import Listener, Listeners, hear_last, tell_rest
from .model_choice import choose_model
from .outbox import Outbox
from .queues import Inbox, MessageQueue, QueueInbox
from .run import Run, StreamFn
from .run_result import OutputT, RunResult
from .stream_function import stream_function

__all__ = ["Agent", "Prompt", "as_message", "as_messages"]

Prompt = str | AgentMessage | Sequence[AgentMessage]
T = TypeVar("T")


class _Option(Generic[T]):
    """An option of the config, shown as an attribute of the agent."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, agent: None, owner: type) -> _Option[T]: ...
    @overload
    def __get__(self, agent: Agent[Any], owner: type) -> T: ...
    def __get__(self, agent: Agent[Any] | None, owner: type) -> T | _Option[T]:
        if agent is None:
            return self
        return getattr(agent._config, self._name)  # pyright: ignore[reportPrivateUsage]

    def __set__(self, agent: Agent[Any], value: T) -> None:
        setattr(agent._config, self._name, value)  # pyright: ignore[reportPrivateUsage]


class Agent(Generic[OutputT]):
    """A stateful agent.

    *model* is a `Model` or a name. *stream_fn* asks it; without one the program's default or the
    built-in vendors do. *tools* are functions, `@tool` functions or `AgentTool`s. Everything else
    is an option of the run: see `AgentLoopConfig`; each can be changed later as an attribute.

    Raises `ModelNotFound` for an unknown name, `NoStreamFunction` if nothing can ask the model,
    `InvalidTool` for what cannot be a tool.
    """

    __slots__ = (
        "__weakref__",
        "_active",
        "_config",
        "_follow_up",
        "_listeners",
        "_outbox",
        "_owner",
        "_state",
        "_steering",
        "_stream_fn",
    )

    convert_to_llm: _Option[hooks.ConvertToLlm] = _Option()
    transform_context: _Option[hooks.TransformContext | None] = _Option()
    get_api_key: _Option[hooks.GetApiKey | None] = _Option()
    before_tool_call: _Option[hooks.BeforeToolCallHook | None] = _Option()
    after_tool_call: _Option[hooks.AfterToolCallHook | None] = _Option()
    prepare_request: _Option[hooks.PrepareRequest | None] = _Option()
    prepare_next_turn: _Option[hooks.PrepareNextTurn | None] = _Option()
    finish_turn: _Option[hooks.FinishTurnHook | None] = _Option()
    should_stop_after_turn: _Option[hooks.ShouldStop | None] = _Option()
    max_turns: _Option[int | None] = _Option()
    run_timeout: _Option[float | None] = _Option()
    idle_timeout: _Option[float | None] = _Option()
    steering_mode: _Option[Literal["one-at-a-time", "all"]] = _Option()
    follow_up_mode: _Option[Literal["one-at-a-time", "all"]] = _Option()
    tool_execution: _Option[Literal["parallel", "sequential"]] = _Option()
    thinking_level: _Option[ThinkingLevel] = _Option()
    session_id: _Option[str | None] = _Option()
    thinking_budgets: _Option[dict[str, int] | None] = _Option()
    stream_options: _Option[dict[str, Any] | None] = _Option()
    on_error: _Option[hooks.OnError | None] = _Option()
    output_type: _Option[Any] = _Option()
    deps: _Option[Any] = _Option()

    def __init__(
        self,
        model: Model | str,
        *,
        stream_fn: StreamFn | None = None,
        system_prompt: str = "",
        thinking_level: ThinkingLevel | None = None,
        tools: Iterable[Any] = (),
        messages: Iterable[AgentMessage] = (),
        output_type: type[OutputT] | Any = None,
        deps: Any = None,
        convert_to_llm: hooks.ConvertToLlm = default_convert_to_llm,
        transform_context: hooks.TransformContext | None = None,
        get_api_key: hooks.GetApiKey | None = None,
        before_tool_call: hooks.BeforeToolCallHook | None = None,
        after_tool_call: hooks.AfterToolCallHook | None = None,
        prepare_request: hooks.PrepareRequest | None = None,
        prepare_next_turn: hooks.PrepareNextTurn | None = None,
        finish_turn: hooks.FinishTurnHook | None = None,
        should_stop_after_turn: hooks.ShouldStop | None = None,
        max_turns: int | None = None,
        run_timeout: float | None = None,
        idle_timeout: float | None = None,
        steering_mode: Literal["one-at-a-time", "all"] = "one-at-a-time",
        follow_up_mode: Literal["one-at-a-time", "all"] = "one-at-a-time",
        tool_execution: Literal["parallel", "sequential"] = "parallel",
        session_id: str | None = None,
        thinking_budgets: dict[str, int] | None = None,
        stream_options: dict[str, Any] | None = None,
        on_error: hooks.OnError | None = None,
    ) -> None:
        chosen, level = choose_model(model, stream_fn)
        self._stream_fn = stream_function(stream_fn, chosen)
        self._config = AgentLoopConfig(
            chosen,
            thinking_level=thinking_level or level or "off",
            output_type=output_type,
            deps=deps,
            convert_to_llm=convert_to_llm,
            transform_context=transform_context,
            get_api_key=get_api_key,
            before_tool_call=before_tool_call,
            after_tool_call=after_tool_call,
            prepare_request=prepare_request,
            prepare_next_turn=prepare_next_turn,
            finish_turn=finish_turn,
            should_stop_after_turn=should_stop_after_turn,
            max_turns=max_turns,
            run_timeout=run_timeout,
            idle_timeout=idle_timeout,
            steering_mode=steering_mode,
            follow_up_mode=follow_up_mode,
            tool_execution=tool_execution,
            session_id=session_id,
            thinking_budgets=thinking_budgets,
            stream_options=stream_options,
            on_error=on_error,
        )
        self._state = AgentState(self._config, system_prompt)
        self._state.tools = tools
        self._state.messages = messages
        self._listeners = Listeners()
        self._outbox = Outbox()
        self._steering = MessageQueue()
        self._follow_up = MessageQueue()
        self._active: _ActiveRun | None = None
        self._owner: str | None = None
        """Who alone may start runs, such as a session's harness."""

    @property
    def state(self) -> AgentState:
        """What the agent knows and does; prompt, model, thinking level, tools and messages can
        be assigned and hold from the next run on."""
        return self._state

    @property
    def model(self) -> Model:
        """The model of the next run."""
        return self._config.model

    @model.setter
    def model(self, model: Model | str) -> None:
        self._config.model, level = choose_model(model, self._stream_fn)
        if level is not None:
            self._config.thinking_level = level

    @property
    def stream_fn(self) -> StreamFn:
        """What asks the model."""
        return self._stream_fn

    @stream_fn.setter
    def stream_fn(self, stream_fn: StreamFn | None) -> None:
        self._stream_fn = stream_function(stream_fn, self._config.model)

    @property
    def signal(self) -> AbortSignal | None:
        """The signal of the run that is going on."""
        return None if self._active is None else self._active.controller.signal

    # -- running ------------------------------------------------------------------------------

    async def prompt(
        self, prompt: Prompt, images: Sequence[ImageContent] = ()
    ) -> RunResult[OutputT]:
        """Say something and let the agent work until nothing is left to do.

        *prompt* is text (with *images* behind it), one message, or several. Failures of the model
        or of tools do not raise; they are in the result. Raises `AgentBusy` during a run, and
        `Misuse` for an empty list unless the transcript asks for an answer.
        """
        messages = as_messages(prompt, images)
        self._refuse_while_running("prompt")
        if not messages:
            try:
                check_resumable(self._state.messages)
            except NothingToResume as error:
                raise Misuse("there is nothing to say: the list of messages is empty") from error
        return await self._run(messages, ask=not messages)

    async def resume(self) -> RunResult[OutputT]:
        """Go on from the present transcript without saying anything new.

        If it ends with a finished reply, queued messages are said: one batch of steering, else
        one of follow-ups. Raises `NothingToResume` if there is nothing to do, `AgentBusy` during
        a run.
        """
        self._refuse_while_running("resume")
        try:
            check_resumable(self._state.messages)
        except NothingToResume:
            queued = self._steering.take(self._config.steering_mode)
            if queued:
                return await self._run(queued, polled=True)
            queued = self._follow_up.take(self._config.follow_up_mode)
            if not queued:
                raise
            return await self._run(queued)
        return await self._run([], ask=True)

    async def continue_(self) -> RunResult[OutputT]:
        """The same as `resume`."""
        return await self.resume()

    def prompt_sync(
        self, prompt: Prompt, images: Sequence[ImageContent] = ()
    ) -> RunResult[OutputT]:
        """`prompt` for scripts. Raises `Misuse` inside a running event loop: await there."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            inside_a_loop = False
        else:
            inside_a_loop = True
        if inside_a_loop:
            raise Misuse(
                "prompt_sync was called inside a running event loop",
                hint="write `await agent.prompt(...)` instead",
            )
        return asyncio.run(self.prompt(prompt, images))

    def stream(self, prompt: Prompt, images: Sequence[ImageContent] = ()) -> AgentStream[OutputT]:
        """Say something and watch: `async with agent.stream("...") as events: async for ...`.

        The run keeps step with the reader: it goes on when the next event is asked for. Leaving
        early aborts it.
        """

        def enter(listener: Listener) -> Callable[[], None]:
            self._refuse_while_running("stream")
            return self.subscribe(listener)

        return AgentStream(enter, lambda: self.prompt(prompt, images), self.abort)

    async def _run(
        self,
        prompts: list[AgentMessage],
        *,
        ask: bool = False,
        polled: bool = False,
        journal: Journal | None = None,
        inbox: Inbox | None = None,
        take_up: Callable[[Run], object] | None = None,
    ) -> RunResult[OutputT]:
        """One run. *ask*: the model is asked without a prompt. *polled*: steering has been.

        *journal* and *inbox* make it part of a session; *take_up* sets where it goes on from.
        """
        state = self._state
        active = self._active = _ActiveRun()
        state.begin_run()
        try:
            run = Run(
                context=AgentContext(state.system_prompt, state.messages, list(state.tools)),
                config=self._config,
                emit=active.emitter(self),
                stream_fn=self._stream_fn,
                controller=active.controller,
                inbox=inbox or QueueInbox(self._config, self._steering, self._follow_up),
                prompts=prompts,
                answer=self._config.begin_answer(self._stream_fn),
                outbox=self._outbox,
                journal=journal,
            )
            run.progress.extra_turn = ask
            run.progress.steering = [] if polled else None
            if take_up is not None:
                take_up(run)
            outcome = await drive(run)
        finally:
            state.end_run()
            self._active = None
            active.end()
        output: OutputT | None = None if run.answer is None else run.answer.value
        return RunResult[OutputT].of(
            outcome, output, self._steering.waiting() + self._follow_up.waiting()
        )

    def _claim(self, owner: str) -> None:
        """From now on only *owner* starts runs. Raises `AgentBusy` if somebody else does."""
        if self._owner is not None:
            raise AgentBusy(f"the agent's runs belong to {self._owner} already")
        self._owner = owner

    def _release(self) -> None:
        self._owner = None

    def _own_inbox(self) -> QueueInbox:
        return QueueInbox(self._config, self._steering, self._follow_up)

    def _refuse_while_running(self, method: str) -> None:
        if self._owner is not None:
            raise Misuse(
                f"{method}() was called on the agent, but its runs belong to {self._owner}",
                hint=f"call {method}() on the harness, or close that first",
            )
        if self._active is not None:
            raise AgentBusy(
                f"{method}() was called while the agent is working",
                hint="use steer() or follow_up() to say something during a run, or await "
                "wait_for_idle() first",
            )

    def abort(self, reason: object = None) -> None:
        """Stop the run, if there is one: it ends with its closing events and stop reason
        `aborted`. Returns at once, may be called from any thread and more than once."""
        active = self._active
        if active is not None:
            active.controller.abort(reason)

    async def wait_for_idle(self) -> None:
        """Return when no run is going on and its last listener is through."""
        active = self._active
        if active is None:
            return
        if active.task is asyncio.current_task():
            raise Misuse(
                "wait_for_idle() was awaited inside the run it waits for, and would never return",
                hint="a listener or hook cannot wait for its own run; do it after prompt()",
            )
        await active.wait()

    def reset(self) -> None:
        """Forget the transcript, the last error and both queues. Raises `AgentBusy` in a run."""
        self._refuse_while_running("reset")
        self._state.forget()
        self.clear_all_queues()

    # -- queues -------------------------------------------------------------------------------

    def steer(
        self,
        message: str | AgentMessage,
        when: Literal["after_batch", "interrupt"] = "after_batch",
    ) -> None:
        """Say *message* to the model before its next request.

        `after_batch` lets tools already running finish; `interrupt` aborts and answers them, and
        says the message next. Returns at once; may be called from any thread.
        """
        if when not in ("after_batch", "interrupt"):
            raise Misuse(f"when is 'after_batch' or 'interrupt', not {when!r}")
        self._steering.put(as_message(message), urgent=when == "interrupt")

    def follow_up(self, message: str | AgentMessage) -> None:
        """Say *message* when the run would end. Returns at once; may be called from any thread."""
        self._follow_up.put(as_message(message))

    def clear_steering_queue(self) -> None:
        """Forget the steering messages that wait."""
        self._steering.clear()

    def clear_follow_up_queue(self) -> None:
        """Forget the follow-up messages that wait."""
        self._follow_up.clear()

    def clear_all_queues(self) -> None:
        """Forget everything that waits."""
        self._steering.clear()
        self._follow_up.clear()

    def has_queued_messages(self) -> bool:
        """Whether something waits to be said."""
        return bool(self._steering) or bool(self._follow_up)

    # -- listening ----------------------------------------------------------------------------

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener(event, signal)` for every event, sync or async, awaited in the order of
        subscription. Returns what unsubscribes it.

        The run waits for its listeners. One that raises is reported to `on_error` and changes
        nothing.
        """
        if not callable(listener):
            raise Misuse(f"a listener is a function, not {type(listener).__name__}")
        return self._listeners.add(listener)

    def _report(self, error: BaseException) -> None:
        report(self._config.on_error, error, "a listener")


class _ActiveRun:
    """The run that is going on: how to stop it, and who waits for its end."""

    __slots__ = ("_ended", "controller", "task")

    def __init__(self) -> None:
        self.controller = AbortController()
        self.task = asyncio.current_task()
        self._ended: list[asyncio.Future[None]] = []

    def emitter(self, agent: Agent[Any]) -> Callable[[AgentEvent], Awaitable[None] | None]:
        """What the kernel reports to: the state first, then the listeners."""
        state = agent.state
        apply = state.apply
        listeners = agent._listeners  # pyright: ignore[reportPrivateUsage]
        on_fault = agent._report  # pyright: ignore[reportPrivateUsage]
        signal = self.controller.signal

        def emit(event: AgentEvent) -> Awaitable[None] | None:
            # Called for every delta: no await and no further call while listeners are sync.
            if type(event) is MessageUpdate:
                state._streaming = event  # pyright: ignore[reportPrivateUsage]
            else:
                apply(event)
            told = listeners.told
            position = 0
            for listener in told:
                position += 1
                try:
                    waiting = listener(event, signal)
                except (Exception, CancelledError) as error:  # noqa: BLE001 - foreign code
                    on_fault(error)
                    continue
                if waiting is not None and hasattr(waiting, "__await__"):
                    if position == len(told):
                        return hear_last(waiting, on_fault)
                    return tell_rest(waiting, told[position:], event, signal, on_fault)
            return None

        return emit

    async def wait(self) -> None:
        """Return when the run has ended."""
        ended = asyncio.get_running_loop().create_future()
        self._ended.append(ended)
        await ended

    def end(self) -> None:
        """Wake everybody who waits."""
        for ended in self._ended:
            if not ended.done():
                ended.get_loop().call_soon_threadsafe(_resolve, ended)


def _resolve(ended: asyncio.Future[None]) -> None:
    if not ended.done():
        ended.set_result(None)


def as_message(message: Any) -> AgentMessage:
    """*message* itself, or text as the user's. Raises `Misuse` for what is neither."""
    if isinstance(message, str):
        return UserMessage([TextContent(message)])
    if hasattr(message, "role"):
        return cast("AgentMessage", message)
    raise Misuse(
        f"a message is text or has a role; got {type(message).__name__}",
        hint='UserMessage("..."), or a subclass of CustomMessage',
    )


def as_messages(prompt: Any, images: Sequence[ImageContent]) -> list[AgentMessage]:
    """What a prompt says, as messages. Raises `Misuse` for what is none."""
    if isinstance(prompt, str):
        return [UserMessage([TextContent(prompt), *images])]
    if images:
        raise Misuse("images go with a text prompt; put them into the content of the message")
    if isinstance(prompt, list | tuple):
        return [as_message(message) for message in cast("Sequence[Any]", prompt)]
    return [as_message(prompt)]
