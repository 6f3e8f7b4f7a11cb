"""Making a lane's context smaller: when it is due, asking for the summary, and committing it.

A context that grows past the window's threshold is compacted before the next request. That may
fail, and then the run goes on with what it has. One that the model refused as too large is
compacted once for each input; if that does not help the run ends and says what takes the room.

Not here: what is cut where (compaction), how large it is (token_estimate), the words (summary).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ..errors import ContextOverflow, Misuse, SessionError
from ..loop.agent import Agent
from ..loop.context import AgentContext
from ..loop.faults import report
from ..loop.run import Run
from ..messages import AssistantMessage, Usage
from ..models.model import Model
from ..session.entries import CompactionEntry, now_ms
from ..session.rows import Operation, UsageRow
from ..session.session import Session
from ..session.store import Commit
from ..signals import AbortController, AbortSignal
from .compaction import (
    CompactionPlan,
    CompactionSettings,
    overhead_error,
    plan_compaction,
    should_compact,
)
from .overflow import is_overflow
from .summary import SummaryFailed, summarize
from .token_estimate import ContextTally, estimate_fixed

if TYPE_CHECKING:
    from ..telemetry import Trace

__all__ = [
    "BeforeCompaction",
    "CompactionRequest",
    "CompactionVerdict",
    "Compactor",
]

_log = logging.getLogger("loopwright")

Reason = Literal["threshold", "overflow", "manual"]


class CompactionRequest(msgspec.Struct):
    """What a `before_compaction` hook is asked."""

    reason: Reason
    plan: CompactionPlan
    instructions: str | None


class CompactionVerdict(msgspec.Struct):
    """What it answers: a summary of its own, or that nothing be compacted now."""

    summary: str | None = None
    decline: bool = False
    details: Any = None


BeforeCompaction = Callable[
    [CompactionRequest], CompactionVerdict | Awaitable[CompactionVerdict | None] | None
]
"""Called before a summary is asked for; None lets the model write it. After a crash it may be
called again for the same compaction."""


class Compactor:
    """Belongs to one open harness."""

    def __init__(
        self,
        session: Session,
        agent: Agent[Any],
        settings: CompactionSettings,
        hook: BeforeCompaction | None,
    ) -> None:
        self.session = session
        self._agent = agent
        self.settings = settings
        self._hook = hook
        self.overflowed = False
        """The last request was too large for the model."""
        self._tried = False  # since the last good reply
        self._tally = ContextTally()
        self._controller: AbortController | None = None
        self.trace: Trace | None = None

    def begin_run(self) -> None:
        """A run begins."""
        self.overflowed = self._tried = False

    def replied(self, reply: AssistantMessage) -> None:
        """A good reply allows another compaction."""
        if reply.stop_reason not in ("error", "aborted"):
            self._tried = False

    # -- within a run -------------------------------------------------------------------------

    def recovers(self, run: Run, reply: AssistantMessage, kind: str | None) -> bool:
        """Whether *reply* says that the context was too large, and it can be made smaller."""
        if not self.settings.enabled:
            return False
        self.overflowed = is_overflow(reply, kind=kind, window=run.model.context_window)
        return self.overflowed

    async def before_request(self, run: Run, operation_id: str) -> None:
        """Compact if it is due. Raises `ContextOverflow` if the last request was too large and
        nothing can be done about it."""
        overflowed, self.overflowed = self.overflowed, False
        if not self.settings.enabled or (self._tried and not overflowed):
            return
        model, window = run.model, run.model.context_window
        fixed = estimate_fixed(run.context.system_prompt, run.specs)
        entries = self.session.branch.entries
        if not overflowed:
            tokens = self._tally.tokens(entries, fixed=fixed, model=(model.provider, model.id))
            if not should_compact(tokens, window, self.settings, fixed=fixed):
                return
        self._tried = True
        plan = plan_compaction(
            entries,
            self.settings,
            window=window,
            fixed=fixed,
            model=(model.provider, model.id),
            overflowed=overflowed,
        )
        reason: Reason = "overflow" if overflowed else "threshold"
        try:
            entry = None
            if plan is not None:
                entry = await self._make(plan, reason, None, model, operation_id, run.signal)
        except SummaryFailed as error:
            run.extra_usage += error.usage
            if overflowed:
                raise ContextOverflow(
                    f"the request is larger than the model's context window, and no summary could "
                    f"be made: {error}"
                ) from error
            _log.warning("session %s goes on without compaction: %s", self.session.id, error)
            report(run.config.on_error, error, "compaction")
            return
        if entry is not None:
            run.extra_usage += entry.usage or Usage()
            context = run.context
            run.use(AgentContext(context.system_prompt, self.session.transcript(), context.tools))
        elif overflowed:
            raise ContextOverflow(overhead_error(fixed, window))

    # -- by hand ------------------------------------------------------------------------------

    async def compact(self, instructions: str | None) -> CompactionEntry | None:
        """An operation of its own. None if there is nothing to compact, or the hook declined."""
        session = self.session
        if self._plan(session) is None:
            return None
        self._controller = AbortController()
        operation = Operation(
            lane=session.lane.name,
            kind="compaction",
            source_leaf_id=session.tip.leaf_id,
            intent={"instructions": instructions},
        )
        lane = session.lane_at(session.tip.leaf_id, operation_id=operation.id)
        await session.commit(Commit(lanes=[lane], operations=[operation]))
        return await self.take_up(operation)

    async def take_up(self, operation: Operation) -> CompactionEntry | None:
        """Drive *operation* to its end. Raises `SummaryFailed`; the operation has failed then."""
        plan = self._plan(self.session)
        instructions = (operation.intent or {}).get("instructions")
        controller = self._controller = self._controller or AbortController()
        entry: CompactionEntry | None = None
        try:
            if plan is not None:
                entry = await self._make(
                    plan,
                    "manual",
                    instructions,
                    self._agent.model,
                    operation.id,
                    controller.signal,
                    operation,
                )
        except SessionError:
            raise  # nothing more can be written; it stays open
        except Exception as error:
            aborted = controller.signal.aborted
            ended = self._end(operation, "aborted" if aborted else "failed", str(error))
            await self.session.commit(ended)
            raise
        except BaseException:  # the caller's cancellation
            self.session.submit(self._end(operation, "aborted", None))
            raise
        finally:
            self._controller = None
        if entry is None:
            await self.session.commit(self._end(operation, "declined", None))
        return entry

    def abort(self, reason: object) -> bool:
        """Stop a compaction by hand, if one is going on."""
        if self._controller is None:
            return False
        self._controller.abort(reason)
        return True

    def _plan(self, session: Session) -> CompactionPlan | None:
        agent = self._agent
        specs = [tool.spec for tool in agent.state.tools]
        fixed = estimate_fixed(agent.state.system_prompt, specs)
        model = agent.model
        return plan_compaction(
            session.branch.entries,
            self.settings,
            window=model.context_window,
            fixed=fixed,
            model=(model.provider, model.id),
        )

    def _end(
        self,
        operation: Operation,
        status: Literal["aborted", "failed", "declined"],
        error: str | None,
    ) -> Commit:
        ended = msgspec.structs.replace(
            operation, status=status, error_message=error, finished_at=now_ms()
        )
        lane = self.session.lane_at(self.session.tip.leaf_id, operation_id=None)
        return Commit(lanes=[lane], operations=[ended])

    # -- inside -------------------------------------------------------------------------------

    async def _make(
        self,
        plan: CompactionPlan,
        reason: Reason,
        instructions: str | None,
        model: Model,
        operation_id: str,
        signal: AbortSignal,
        ends: Operation | None = None,
    ) -> CompactionEntry | None:
        """The summary, from the hook or the model, and its commit. None if the hook declined."""
        done = _nothing if self.trace is None else self.trace.compaction(reason, operation_id)
        outcome = "failed"
        try:
            verdict = await self._ask_hook(CompactionRequest(reason, plan, instructions), signal)
            if verdict is not None and verdict.decline:
                outcome = "declined"
                return None
            entry = await self._summarized(plan, verdict, instructions, model, operation_id, signal)
            lane = self.session.lane_at(entry.id)
            commit = Commit(lanes=[lane])
            if entry.usage is not None:
                commit.usage.append(self._cost(entry.usage, model, operation_id, entry.id))
            if ends is not None:
                commit.operations = [
                    msgspec.structs.replace(ends, status="completed", finished_at=now_ms())
                ]
                commit.lanes = [msgspec.structs.replace(lane, operation_id=None)]
            await self.session.commit(commit, [entry])
            outcome = "succeeded"
            return entry
        finally:
            done(outcome)

    async def _summarized(
        self,
        plan: CompactionPlan,
        verdict: CompactionVerdict | None,
        instructions: str | None,
        model: Model,
        operation_id: str,
        signal: AbortSignal,
    ) -> CompactionEntry:
        text = None if verdict is None else verdict.summary
        details: Any = None if verdict is None else verdict.details
        usage: Usage | None = None
        if text is None:
            agent = self._agent
            try:
                summary = await summarize(
                    plan,
                    model=model,
                    stream_fn=agent.stream_fn,
                    settings=self.settings,
                    instructions=instructions,
                    thinking_level=agent.thinking_level,
                    get_api_key=agent.get_api_key,
                    stream_options=agent.stream_options,
                    signal=signal,
                )
            except SummaryFailed as error:
                if not error.usage.is_empty:
                    row = self._cost(error.usage, model, operation_id, None)
                    await self.session.commit(Commit(usage=[row]))
                raise
            text, usage, details = summary.text, summary.usage, summary.details
        elif details is None:
            details = plan.details  # which files were read and changed, for the compactions to come
        return CompactionEntry(
            parent_id=self.session.tip.leaf_id,
            summary=text,
            first_kept_id=plan.first_kept_id,
            retained_tail=plan.retained_tail,
            tokens_before=plan.tokens_before,
            details=details,
            usage=usage,
            from_hook=verdict is not None and verdict.summary is not None,
            operation_id=operation_id,
        )

    async def _ask_hook(
        self, request: CompactionRequest, signal: AbortSignal
    ) -> CompactionVerdict | None:
        if self._hook is None:
            return None
        try:
            verdict: Any = self._hook(request)
            if hasattr(verdict, "__await__"):
                asking = asyncio.ensure_future(verdict)
                forget = signal.on_abort(asking.cancel)  # a hook may wait for a person
                try:
                    verdict = await asking
                finally:
                    forget()
        except asyncio.CancelledError:
            if not signal.aborted:
                raise
            raise SummaryFailed("the compaction was stopped", Usage(), aborted=True) from None
        except Exception as error:
            raise SummaryFailed(f"the hook before_compaction failed: {error}", Usage()) from error
        if verdict is not None and not isinstance(verdict, CompactionVerdict):
            raise Misuse(
                f"before_compaction returned {type(verdict).__name__}, not CompactionVerdict or None"
            )
        return verdict

    def _cost(
        self, usage: Usage, model: Model, operation_id: str, entry_id: str | None
    ) -> UsageRow:
        return UsageRow(
            cause="compaction",
            usage=usage,
            entry_id=entry_id,
            operation_id=operation_id,
            provider=model.provider,
            model=model.id,
        )


def _nothing(outcome: str) -> None:
    return None
