"""Agent: the handle a program holds. A transcript, tools, a model, and runs one after another.

It adds to the kernel what has a life between runs: state that listeners can read, queues that
outlast a run, and the rule that only one run goes on at a time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Generic, Literal

from ..errors import AgentBusy, Misuse, NothingToResume
from ..messages import AgentMessage, ImageContent
from ..models.model import Model, ThinkingLevel
from ..signals import AbortSignal
from . import hooks
from .active_run import ActiveRun
from .agent_state import AgentState
from .agent_stream import AgentStream
from .config import AgentLoopConfig, Option
from .context import AgentContext
from .faults import report
from .hooks import default_convert_to_llm
from .journal import Journal
from .kernel import drive
from .listeners import Listener, Listeners, emitter
from .model_choice import choose_model
from .outbox import Outbox
from .prompts import Prompt, as_message, as_messages, check_resumable
from .queues import Inbox, MessageQueue, QueueInbox
from .run import Run, StreamFn
from .run_result import OutputT, RunResult
from .stream_function import chosen_stream_function, stream_function

__all__ = ["Agent", "Prompt", "as_message", "as_messages"]


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

    convert_to_llm: Option[hooks.ConvertToLlm] = Option()
    transform_context: Option[hooks.TransformContext | None] = Option()
    get_api_key: Option[hooks.GetApiKey | None] = Option()
    before_tool_call: Option[hooks.BeforeToolCallHook | None] = Option()
    after_tool_call: Option[hooks.AfterToolCallHook | None] = Option()
    prepare_request: Option[hooks.PrepareRequest | None] = Option()
    prepare_next_turn: Option[hooks.PrepareNextTurn | None] = Option()
    finish_turn: Option[hooks.FinishTurnHook | None] = Option()
    should_stop_after_turn: Option[hooks.ShouldStop | None] = Option()
    max_turns: Option[int | None] = Option()
    run_timeout: Option[float | None] = Option()
    idle_timeout: Option[float | None] = Option()
    steering_mode: Option[Literal["one-at-a-time", "all"]] = Option()
    follow_up_mode: Option[Literal["one-at-a-time", "all"]] = Option()
    tool_execution: Option[Literal["parallel", "sequential"]] = Option()
    thinking_level: Option[ThinkingLevel | None] = Option()
    session_id: Option[str | None] = Option()
    thinking_budgets: Option[dict[str, int] | None] = Option()
    stream_options: Option[dict[str, Any] | None] = Option()
    on_error: Option[hooks.OnError | None] = Option()
    output_type: Option[Any] = Option()
    deps: Option[Any] = Option()

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
        chosen, level = choose_model(model, chosen_stream_function(stream_fn))
        self._stream_fn = stream_function(stream_fn, chosen)
        self._config = AgentLoopConfig(
            chosen,
            thinking_level=thinking_level or level,
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
        self._state = AgentState(self._config, system_prompt, lambda: self._stream_fn)
        self._state.tools = tools
        self._state.messages = messages
        self._listeners = Listeners()
        self._outbox = Outbox()
        self._steering = MessageQueue()
        self._follow_up = MessageQueue()
        self._active: ActiveRun | None = None
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
            if not self.has_queued_messages():
                raise
            return await self._run([], take_up=self._say_queued)
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

    def _say_queued(self, run: Run) -> None:
        """Let *run* begin with what is queued. Not before it is made: that may fail."""
        run.progress.prompts = self._steering.take(self._config.steering_mode)
        if run.progress.prompts:
            run.progress.steering = []  # it has been polled
        else:
            run.progress.prompts = self._follow_up.take(self._config.follow_up_mode)

    async def _run(
        self,
        prompts: list[AgentMessage],
        *,
        ask: bool = False,
        journal: Journal | None = None,
        inbox: Inbox | None = None,
        take_up: Callable[[Run], object] | None = None,
    ) -> RunResult[OutputT]:
        """One run. *ask*: the model is asked without a prompt.

        *journal* and *inbox* make it part of a session; *take_up* sets where it goes on from.
        """
        state = self._state
        active = self._active = ActiveRun()
        state.begin_run()
        try:
            run = Run(
                context=AgentContext(state.system_prompt, state.messages, state.tools),
                config=self._config,
                emit=emitter(state, self._listeners, active.controller.signal, self._report),
                stream_fn=self._stream_fn,
                controller=active.controller,
                inbox=inbox or self._own_inbox(),
                prompts=prompts,
                answer=self._config.begin_answer(self._stream_fn),
                outbox=self._outbox,
                journal=journal,
            )
            run.progress.extra_turn = ask
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
