"""One run from its first event to its last: what it works on, where it stands, how it reports.

Everything that must survive an interruption is a field here and is changed *before* the event
that tells of it goes out. So a run that was cancelled in the middle of anything can be brought to
its proper end by going on with it.

Not here: deciding what comes next (transcript), or doing it (kernel, reply, dispatch).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ..errors import SessionClosed
from ..events import AgentEvent, MessageEnd, MessageStart
from ..messages import AgentMessage, AssistantMessage, StopReason, ToolResultMessage, Usage
from ..signals import AbortController
from ..stream import AssistantStream, StreamEvent
from .config import AgentLoopConfig
from .context import AgentContext
from .faults import report
from .hook_calls import raise_as_fault
from .hooks import Hook
from .interrupt import GRACE_SECONDS, CancelledFromWithin, Interrupt
from .outbox import Outbox
from .queues import Inbox
from .tool import AgentTool, as_tool, check_names
from .transcript import Progress, StoppedBy

if TYPE_CHECKING:
    from .batch import Batch
    from .journal import Journal
    from .output import Answer

__all__ = ["Emit", "Run", "RunOutcome", "StreamFn"]

Emit = Callable[[AgentEvent], Any]
"""Takes each event in order; what it returns is awaited if it can be."""

StreamFn = Callable[..., AssistantStream | Awaitable[AssistantStream]]
"""`stream_fn(model, context, **options)`."""

FINAL_ANSWER = "final_answer"
"""The tool by which a typed answer is given; see output.py, which needs pydantic."""

_Cause = Literal["abort", "run_timeout", "idle_timeout", "cancelled", "journal"]


_STOPPED_BY: dict[str | None, StoppedBy] = {
    "run_timeout": "timeout",
    "idle_timeout": "timeout",
    "journal": "error",
}


class RunOutcome(msgspec.Struct):
    """How a run ended."""

    messages: list[AgentMessage]
    stop_reason: StopReason
    stopped_by: StoppedBy | None
    error_message: str | None
    extra_usage: Usage
    """Spent on requests that left no message: attempts that were retried."""


class Run:
    """The state of one run. Made in the task that drives it."""

    def __init__(
        self,
        *,
        context: AgentContext,
        config: AgentLoopConfig,
        emit: Emit,
        stream_fn: StreamFn,
        controller: AbortController,
        inbox: Inbox,
        prompts: Sequence[AgentMessage] = (),
        answer: Answer | None = None,
        outbox: Outbox | None = None,
        journal: Journal | None = None,
    ) -> None:
        self.config = config
        self.journal = journal
        """Makes the run durable; None once it has failed."""
        self.answer = answer
        self.failure: str | None = None
        self.correction: AgentMessage | None = None
        """What we ourselves are about to say about an answer that does not fit."""
        self.model = config.model
        self.thinking_level = config.thinking_level
        self.stream_fn = stream_fn
        self.inbox = inbox
        self.progress = Progress(prompts=list(prompts))
        self.new_messages: list[AgentMessage] = []
        self.turns = 0
        self.finished = False
        self.extra_usage = Usage()
        # The reply of this turn and its results.
        self.reply: AssistantMessage | None = None
        self.results: list[ToolResultMessage] = []
        self.batch: Batch | None = None
        # What has begun and not ended, in case we are interrupted.
        self.open_message: AgentMessage | None = None
        self.reply_is_open = False
        self.last_event: StreamEvent | None = None
        self.failure_kind: str | None = None
        """The wire's short name of why the present reply failed."""
        self.earlier_results_end = True
        """Results of this batch that an earlier process placed asked for the end, too."""
        self.taken_up: AssistantMessage | None = None
        """The last reply of an earlier process, whose run this one goes on with."""
        self.journal_lost = False
        self.hook_failed = False
        self.emit_raised = False
        self.outbox = outbox or Outbox()
        self.controller = controller
        self.signal = controller.signal
        self.cause: _Cause | None = None
        self.grace_seconds = GRACE_SECONDS
        self.tell = emit
        self._loop = asyncio.get_running_loop()
        self._last_news = self._loop.time()
        self._timers: list[asyncio.TimerHandle] = []
        self._idle_timer: asyncio.TimerHandle | None = None
        self._unwatch: Callable[[], None] = lambda: None
        self.interrupt = Interrupt(self.signal)
        self.use(context)

    def use(self, context: AgentContext) -> None:
        """Work on a copy of *context* from now on."""
        tools = [as_tool(tool) for tool in context.tools]
        check_names(tools)
        self.context = AgentContext(context.system_prompt, list(context.messages), tools)
        self.tools: dict[str, AgentTool[Any, Any]] = {tool.name: tool for tool in tools}
        self.specs = [tool.spec for tool in tools]
        if self.answer is not None and not self.answer.native:
            self.answer.refuse_clash(set(self.tools))
            self.tools[FINAL_ANSWER] = self.answer.tool
            self.specs.append(self.answer.tool.spec)
        self.outbox.check(self.context.messages)

    # -- the clock ----------------------------------------------------------------------------

    def begin(self) -> None:
        """Start the timers and watch the signal."""
        self._unwatch = self.interrupt.watch()
        config = self.config
        if config.run_timeout is not None:
            timer = self._loop.call_later(config.run_timeout, self.stop, "run_timeout")
            self._timers.append(timer)
        if config.idle_timeout is not None:
            self._arm_idle_timer(config.idle_timeout)

    def end(self) -> None:
        """Let go of timers and callbacks."""
        self._unwatch()
        self.inbox.watch(None)
        for timer in self._timers:
            timer.cancel()
        if self._idle_timer is not None:
            self._idle_timer.cancel()

    def move_to_this_task(self) -> None:
        """Another task drives the run from here on."""
        self._unwatch()
        self.interrupt = Interrupt(self.signal)
        self._unwatch = self.interrupt.watch()

    def touch(self) -> None:
        """Something was heard: the run is not idle."""
        if self._idle_timer is not None:
            self._last_news = self._loop.time()

    def _arm_idle_timer(self, seconds: float) -> None:
        self._idle_timer = self._loop.call_later(seconds, self._check_idle)

    def _check_idle(self) -> None:
        limit = self.config.idle_timeout
        if limit is None or self.signal.aborted:
            return
        left = self._last_news + limit - self._loop.time()
        if left > 0:
            self._arm_idle_timer(left)
        else:
            self.stop("idle_timeout")

    def stop(self, cause: _Cause) -> None:
        """Fire the signal, once; the first cause stays."""
        if self.cause is None and not self.signal.aborted:
            self.cause = cause
            self.controller.abort(self.describe(cause))

    def notice_stop(self) -> None:
        """Once the signal has fired nothing new is started."""
        if self.signal.aborted:
            if self.cause is None:
                self.cause = "abort"
            if self.progress.stopped_by is None:
                self.progress.stopped_by = _STOPPED_BY.get(self.cause, "abort")

    def describe(self, cause: _Cause | None) -> str:
        """The stop in words."""
        if cause == "run_timeout":
            return f"The run took longer than run_timeout={self.config.run_timeout:g} seconds."
        if cause == "journal":
            return self.failure or "The session could not be written."
        if cause == "idle_timeout":
            return f"Nothing happened for idle_timeout={self.config.idle_timeout:g} seconds."
        reason = self.signal.reason if cause == "abort" else None
        return "Operation aborted" if reason is None else f"Operation aborted: {reason}"

    # -- reporting ----------------------------------------------------------------------------

    async def emit(self, event: AgentEvent) -> None:
        """Report *event* and wait until everybody has dealt with it."""
        if self._idle_timer is not None:
            self._last_news = self._loop.time()
        try:
            waiting = self.tell(event)
            if waiting is not None and hasattr(waiting, "__await__"):
                # After a stop a listener has a grace time: one that hangs must not keep the run.
                await self.interrupt.settle(waiting, self.grace_seconds)
        except BaseException as error:
            self.note_emit_raised(error)
            raise

    def note_emit_raised(self, error: BaseException) -> None:
        """The callback itself has failed, unless it was the outside that cancelled it."""
        if not isinstance(error, asyncio.CancelledError) or not self.interrupt.from_outside:
            self.emit_raised = True

    async def announce(self, message: AgentMessage) -> None:
        """*message* appears and is part of the transcript."""
        self.open_message = message
        await self.emit(MessageStart(message))
        await self.end_message(message)

    async def end_message(self, message: AgentMessage) -> None:
        """A message that has begun is finished, and part of the transcript."""
        if self.journal is not None:
            self.open_message = message  # if we are interrupted here, it is ended once more
            await self.record(self.journal.message(message))
            message = self._as_written(message)
        self.open_message = None
        self.context.messages.append(message)
        self.new_messages.append(message)
        await self.emit(MessageEnd(message))

    def _as_written(self, message: AgentMessage) -> AgentMessage:
        """A reply that could not be written has failed, whatever the model meant."""
        if not self.journal_lost or not isinstance(message, AssistantMessage):
            return message
        if message.stop_reason in ("error", "aborted"):
            return message
        failed = msgspec.structs.replace(message, stop_reason="error", error_message=self.failure)
        if self.reply is message:
            self.reply = failed
        return failed

    def report_fault(self, error: BaseException, where: str) -> None:
        """Tell the program about a fault of its own code that did not stop the run."""
        report(self.config.on_error, error, where)

    # -- the journal --------------------------------------------------------------------------

    async def record(self, writing: Awaitable[Any]) -> Any:
        """Await the journal. If it fails, the run is stopped; returns None then."""
        try:
            return await writing
        except Exception as error:  # noqa: BLE001 - whatever it is, the session is lost to us
            self.lose_journal(error)
            return None

    def lose_journal(self, error: BaseException) -> None:
        """Nothing more can be written: start nothing more, and say why at the end."""
        if self.journal is None:
            return
        if not isinstance(error, SessionClosed):  # that is no fault
            self.report_fault(error, "writing the session")
        self.journal = None
        self.journal_lost = True
        self.failure = f"The session could not be written: {error}"
        self.stop("journal")

    # -- hooks --------------------------------------------------------------------------------

    async def call(self, hook: Hook, *arguments: Any, grace: float = 0.0) -> Any:
        """Call *hook* and await what it returns if it can be. Raises `Interrupted` on a stop, and
        `HookExited` for a fault that is no `Exception`."""
        try:
            value = hook(*arguments)
        except asyncio.CancelledError as error:  # not ours: nothing was awaited
            raise CancelledFromWithin from error
        except BaseException as error:
            raise_as_fault(error)
            raise
        if hasattr(value, "__await__"):
            try:
                value = await self.interrupt.guard(value, grace)
            except BaseException as error:
                raise_as_fault(error)
                raise
            self.touch()
        return value

    # -- the end ------------------------------------------------------------------------------

    def made_up_reply(
        self, text: str, stop_reason: Literal["error", "aborted"]
    ) -> AssistantMessage:
        """A message in the model's place that says why it said nothing."""
        model = self.model
        return AssistantMessage(
            [],
            model.api,
            model.provider,
            model.id,
            stop_reason=stop_reason,
            error_message=text,
        )

    def outcome(self) -> RunOutcome:
        """How the run ended, once it has."""
        stopped_by = self.progress.stopped_by
        answered = self.answer is not None and self.answer.given
        if stopped_by is None and self.progress.terminated and not answered:
            stopped_by = "terminate"
        last = next(
            (m for m in reversed(self.new_messages) if isinstance(m, AssistantMessage)), None
        )
        last = last or self.taken_up
        stop_reason: StopReason = last.stop_reason if last is not None else "stop"
        error_message = last.error_message if last is not None else None
        if self.journal_lost:  # whatever else happened: it is not in the session
            stop_reason, stopped_by, error_message = "error", "error", self.failure
        elif stopped_by in ("abort", "timeout"):
            stop_reason = "error" if self.cause == "idle_timeout" else "aborted"
            error_message = self.describe(self.cause)
        elif stopped_by == "approval":
            stop_reason = "toolUse"
        elif self.failure is not None:
            stop_reason, error_message = "error", self.failure
        return RunOutcome(
            self.new_messages, stop_reason, stopped_by, error_message, self.extra_usage
        )
