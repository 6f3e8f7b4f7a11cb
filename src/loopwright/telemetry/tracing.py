"""`trace`: the spans of one agent, and those that a session's harness tells of.

    loopwright.run
      loopwright.turn
        loopwright.compaction        when it is due before a request
          loopwright.request
        loopwright.request           from sending it to the end of the stream
        loopwright.tool              a tool that was really run; none for a call that was refused
      loopwright.session.commit      below whatever is going on when it is handed over

Runs and turns are seen as events; requests by standing in for the stream function; tools by
running them. The listener is sync and returns at once for deltas, so that they cost no await.

Not here: what attributes may say (attributes), or who gets the spans (tracer).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, cast

from ..events import AgentEnd, AgentEvent, AgentStart, MessageUpdate, TurnEnd, TurnStart
from ..messages import AgentMessage, AgentToolResult, AssistantMessage, ToolResultMessage, Usage
from ..signals import AbortSignal
from .attributes import identifier, of_commit, of_model, of_options, of_usage
from .requests import RequestSpan, TracedStreamFn
from .spans import OUTCOME, Guard, OpenSpan, error_name
from .tracer import AttributeValue, Span, Tracer

if TYPE_CHECKING:
    from ..loop.agent import Agent
    from ..loop.agent_tool import AgentTool
    from ..loop.arguments import BoundCall
    from ..loop.tool_context import ToolContext
    from ..session.store import Commit

__all__ = ["Trace", "trace"]

_INERT = OpenSpan(None, None, None)
_HEARD = frozenset({AgentStart, AgentEnd, TurnStart, TurnEnd})


def trace(
    agent: Agent[Any],
    tracer: Tracer | None,
    *,
    session_id: str | None = None,
    lane: str | None = None,
    agent_name: str | None = None,
    parent: Span | None = None,
) -> Trace:
    """Tell *tracer* of everything that *agent* does from now on. Call what is returned to stop.

    *session_id* and *lane* stand on every span; without a *session_id* the agent's own does. Runs
    begin below *parent*, a span that this tracer made. With None for a tracer the agent is left as
    it is, and all methods of what is returned do nothing.
    """
    return Trace(agent, tracer, session_id, lane, agent_name, parent)


class Trace:
    """What `trace` returns. Call it to stop; the methods are for whoever drives the agent."""

    def __init__(
        self,
        agent: Agent[Any],
        tracer: Tracer | None,
        session_id: str | None,
        lane: str | None,
        agent_name: str | None,
        parent: Span | None,
    ) -> None:
        self._agent = agent
        self._guard = None if tracer is None else Guard(tracer)
        self._session_id = session_id
        self._lane = lane
        self._agent_name = agent_name
        self._root = OpenSpan(None, parent, None)
        """Never begun by us, and never ended; what stands below it ends when tracing does."""
        self._operation_id: str | None = None
        self._run: OpenSpan | None = None
        self._run_is_held = False
        self._turn: OpenSpan | None = None
        self._inner: list[OpenSpan] = []  # compactions and navigations, the innermost last
        self._turns = 0
        self._began_at = 0.0
        self._last_error: str | None = None
        self._task: asyncio.Task[Any] | None = None
        self._stop: Callable[[], None] = lambda: None
        if tracer is not None:
            self._stop = self._install()

    def _install(self) -> Callable[[], None]:
        agent = self._agent
        unsubscribe = agent.subscribe(self._listen)
        stream_fn = TracedStreamFn(agent.stream_fn, self._begin_request)
        agent.stream_fn = stream_fn
        config = cast("Any", agent)._config
        run_tool: Any = config.invoke_tool

        async def invoke_tool(
            tool: AgentTool[Any, Any], bound: BoundCall, context: ToolContext
        ) -> AgentToolResult:
            body = (
                tool.invoke(bound, context) if run_tool is None else run_tool(tool, bound, context)
            )
            return await self._run_tool(tool, context, body)

        config.invoke_tool = invoke_tool

        def stop() -> None:
            unsubscribe()
            if agent.stream_fn is stream_fn:  # else somebody else stands in front of us
                agent.stream_fn = stream_fn.inner
            if config.invoke_tool is invoke_tool:
                config.invoke_tool = run_tool

        return stop

    def __call__(self) -> None:
        """Stop. What is open ends now."""
        stop, self._stop = self._stop, lambda: None
        stop()
        self._forget_task()
        self._guard = None
        self._run = self._turn = None
        self._run_is_held = False
        self._root.end()

    # -- what the driver of an agent tells -----------------------------------------------------

    def run(self, operation_id: str, *, recovery: bool = False) -> OpenSpan:
        """Begin the run's span before its first event, so that what is written by then is below
        it: `with trace.run(operation.id): ...` around the run. *recovery*: it was left open by an
        earlier process."""
        if self._guard is None:
            return _INERT
        self._close_run()
        self._operation_id = operation_id
        self._begin_run(
            {
                "loopwright.operation.id": operation_id,
                "loopwright.operation.recovery": recovery,
            }
        )
        self._run_is_held = True
        assert self._run is not None
        return self._run

    def compaction(self, reason: str, operation_id: str | None = None) -> OpenSpan:
        """A compaction begins; *reason* is `threshold`, `overflow` or `manual`. Requests that the
        agent's stream function gets until it ends are below it.

        End it by calling it with its outcome, or use it as a context manager.
        """
        return self._begin_operation(
            "loopwright.compaction", {"loopwright.compaction.reason": reason}, operation_id
        )

    def navigation(self, *, summarize: bool, operation_id: str | None = None) -> OpenSpan:
        """The lane is being moved; with a request for a summary of what it leaves, if
        *summarize*. See `compaction`."""
        return self._begin_operation(
            "loopwright.navigation", {"loopwright.navigation.summarize": summarize}, operation_id
        )

    def commit(self, commit: Commit) -> Callable[[asyncio.Future[int]], None]:
        """*commit* has been handed over, complete. Returns what to add to its future as a
        callback."""
        span = self._start(
            "loopwright.session.commit", of_commit(commit), self._innermost(), outlives=True
        )
        return span.follow

    def _begin_operation(
        self, name: str, attributes: dict[str, AttributeValue], operation_id: str | None
    ) -> OpenSpan:
        if self._guard is None:
            return _INERT
        if operation_id is not None:
            attributes["loopwright.operation.id"] = operation_id
        span = self._start(name, attributes, self._innermost())
        self._inner.append(span)
        return span

    # -- runs and turns ------------------------------------------------------------------------

    def _listen(self, event: AgentEvent, signal: AbortSignal) -> None:
        kind = type(event)
        if kind is MessageUpdate or kind not in _HEARD:  # nearly always the first
            return
        if isinstance(event, TurnStart):
            self._begin_turn()
        elif isinstance(event, TurnEnd):
            self._end_turn(event)
        elif isinstance(event, AgentStart):
            self._start_run()
        elif isinstance(event, AgentEnd):
            self._end_run(event, signal)

    def _start_run(self) -> None:
        if not self._run_is_held or self._run is None or self._run.ended:
            self._close_run()
            self._operation_id = None
            self._begin_run({})
        self._task = asyncio.current_task()
        if self._task is not None:
            # A listener's KeyboardInterrupt, say, ends a run without its last event.
            self._task.add_done_callback(self._close_run)

    def _begin_run(self, attributes: dict[str, AttributeValue]) -> None:
        attributes["loopwright.operation.kind"] = "run"
        if self._agent_name is not None:
            attributes["loopwright.agent.name"] = self._agent_name
        attributes |= of_model(self._agent.model)
        self._run = self._start("loopwright.run", attributes, None)
        self._turns = 0
        self._last_error = None
        self._began_at = time.monotonic()

    def _begin_turn(self) -> None:
        if self._run is None:  # tracing began in the middle of it
            return
        if self._turn is not None:
            self._turn.abandon()
        self._turns += 1
        number: dict[str, AttributeValue] = {"loopwright.turn.number": self._turns}
        self._turn = self._start("loopwright.turn", number, self._run)
        self._last_error = None

    def _end_turn(self, event: TurnEnd) -> None:
        turn, self._turn = self._turn, None
        if turn is None:
            return
        turn.set({"loopwright.turn.tool_results": len(event.tool_results)})
        reason = event.message.stop_reason
        if reason == "aborted":
            turn.cut_off()
        elif reason == "error":
            self._last_error = self._last_error or "error"
            turn.end(self._last_error)
        else:
            turn.end()

    def _end_run(self, event: AgentEnd, signal: AbortSignal) -> None:
        run = self._run
        self._forget_task()
        if run is None:
            return
        if self._turn is not None:
            self._turn.abandon()
            self._turn = None
        outcome, run.error_type = self._outcome(event.messages, signal)
        usage = Usage()
        for message in event.messages:
            if isinstance(message, AssistantMessage):
                usage += message.usage
        run.set({OUTCOME: outcome, "loopwright.run.turns": self._turns, **of_usage(usage)})
        if not self._run_is_held:
            self._run = None
            run.end()

    def _outcome(self, messages: list[AgentMessage], signal: AbortSignal) -> tuple[str, str | None]:
        """How the run ended, as far as its events tell."""
        last: AssistantMessage | None = None
        answered = 0
        for message in reversed(messages):
            if isinstance(message, AssistantMessage):
                last = message
                break
            answered += isinstance(message, ToolResultMessage)
        if last is not None and last.stop_reason == "error":
            return "failed", self._last_error or "error"
        if signal.aborted:
            limit = self._agent.run_timeout
            if limit is not None and time.monotonic() - self._began_at >= limit:
                return "aborted", "timeout"
            return "aborted", None
        if last is None:
            return "completed", None
        if last.stop_reason == "aborted":
            return "aborted", None
        waits = answered < len(last.tool_calls)
        return ("parked" if waits else "completed"), None

    def _close_run(self, *_: object) -> None:
        """End what a run has left open that never told of its end."""
        self._forget_task()
        run, self._run, self._turn = self._run, None, None
        self._run_is_held = False
        if run is not None and not run.ended:
            run.abandon()

    def _forget_task(self) -> None:
        task, self._task = self._task, None
        if task is not None:
            task.remove_done_callback(self._close_run)

    # -- requests and tools --------------------------------------------------------------------

    def _begin_request(
        self, model: Any, context: Any, options: dict[str, Any]
    ) -> RequestSpan | None:
        if self._guard is None:
            return None
        attributes = of_model(model) | of_options(options)
        attributes["loopwright.request.messages"] = len(getattr(context, "messages", ()))
        attributes["loopwright.request.tools"] = len(getattr(context, "tools", ()))
        span = self._start("loopwright.request", attributes, self._innermost())
        return RequestSpan(span, self._note_error)

    def _note_error(self, error_type: str) -> None:
        self._last_error = error_type

    async def _run_tool(
        self, tool: AgentTool[Any, Any], context: ToolContext, body: Awaitable[AgentToolResult]
    ) -> AgentToolResult:
        above = self._turn or self._run
        if self._guard is None or above is None:
            return await body
        attributes: dict[str, AttributeValue] = {
            "loopwright.tool.name": tool.name,
            "loopwright.tool.replay": tool.replay,
        }
        call_id = identifier(context.tool_call_id)
        if call_id is not None:
            attributes["loopwright.tool.call_id"] = call_id
        span = self._start("loopwright.tool", attributes, above)
        try:
            result = await body
        except (asyncio.CancelledError, GeneratorExit) as error:
            if context.signal.aborted or isinstance(error, GeneratorExit):
                span.cut_off()
            elif tool.timeout is not None:
                span.set({"loopwright.tool.is_error": True})
                span.end("timeout")
            else:
                span.settle(error)
            raise
        except BaseException as error:
            span.set({"loopwright.tool.is_error": True})
            span.end(error_name(error))
            raise
        failed = bool(result.is_error)
        span.set({"loopwright.tool.is_error": failed})
        span.end("tool_error" if failed else None)
        return result

    # -- starting ------------------------------------------------------------------------------

    def _start(
        self,
        name: str,
        attributes: dict[str, AttributeValue],
        parent: OpenSpan | None,
        *,
        outlives: bool = False,
    ) -> OpenSpan:
        guard = self._guard
        if guard is None:
            return _INERT
        session_id = self._session_id or self._agent.session_id
        if session_id is not None:
            attributes["loopwright.session.id"] = session_id
        if self._lane is not None:
            attributes["loopwright.lane.name"] = self._lane
        if self._operation_id is not None and self._run is not None and not self._run.ended:
            attributes.setdefault("loopwright.operation.id", self._operation_id)
        return guard.start(name, attributes, parent or self._root, outlives=outlives)

    def _innermost(self) -> OpenSpan | None:
        """What is going on right now."""
        while self._inner and self._inner[-1].ended:
            self._inner.pop()
        if self._inner:
            return self._inner[-1]
        for span in (self._turn, self._run):
            if span is not None and not span.ended:
                return span
        return None
