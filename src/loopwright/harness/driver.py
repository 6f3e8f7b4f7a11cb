"""Driving one lane's operations: accepting a run, running it, stopping it.

Everything here happens for one agent, one operation at a time. Who may call, and when, is the
harness's business.

Not here: what each step of a run writes (journal), what an earlier process left open (unfinished),
or what a person calls (harness).
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Generic, cast

import msgspec

from ..errors import InboxNotEmpty, SessionClosed, SessionError
from ..loop.agent import Agent
from ..loop.queues import QueueName
from ..loop.run import Run
from ..loop.run_result import OutputT, RunResult
from ..messages import AgentMessage, AssistantMessage
from ..session.entries import Entry, MessageEntry, now_ms
from ..session.rows import InboxItem, LaneConfig, Operation
from ..session.session import Session
from ..session.store import Commit
from .compactor import Compactor
from .inbox import SessionInbox
from .journal import SessionJournal
from .navigation import Navigator
from .resume import ResumePlan

if TYPE_CHECKING:
    from ..telemetry import Trace

__all__ = ["LaneDriver", "cancelled"]

_log = logging.getLogger("loopwright")

_ACCEPT_TRIES = 5

_LOOK_SECONDS = 1.0
"""How often a run looks for what other processes have said to it."""


class LaneDriver(Generic[OutputT]):
    """Belongs to one open harness."""

    def __init__(self, session: Session, agent: Agent[OutputT], compactor: Compactor) -> None:
        self.session = session
        self.agent = agent
        self.inbox = SessionInbox(session, agent._own_inbox(), self._mode)  # pyright: ignore[reportPrivateUsage]
        self.compactor = compactor
        self.navigator: Navigator | None = None
        """Moves the lane just now."""
        self.run: Run | None = None
        """The run that is going on."""
        self.stopped: tuple[str | None] | None = None
        """The reason of an abort that came before the run had begun."""
        self.closed: SessionClosed | None = None
        """The harness is closed; a run that begins all the same writes nothing."""
        self.trace: Trace | None = None

    def show_transcript(self, without: int = 0) -> None:
        """The agent's transcript is the session's, but for the last messages."""
        state, told = self.agent.state, self.session.branch.transcript
        if without:
            told = told[: len(told) - without]
        if told != state.messages:  # it nearly never is, and assigning looks at each message
            state.messages = told

    def new_navigator(self) -> Navigator:
        navigator = Navigator(self.session, self.agent, self.compactor.settings)
        navigator.trace = self.trace
        self.navigator = navigator
        return navigator

    def stop_summary(self, reason: object) -> None:
        """Stop a compaction by hand or a navigation, if one is going on."""
        self.compactor.abort(reason)
        if self.navigator is not None:
            self.navigator.controller.abort(reason)

    async def accept(
        self, messages: list[AgentMessage], request_id: str | None
    ) -> tuple[list[AgentMessage], SessionJournal]:
        """One commit: the operation, its prompt, and what was said for the next run."""
        for _ in range(_ACCEPT_TRIES):
            try:
                return await self._accept(messages, request_id)
            except InboxNotEmpty:
                continue  # something for the next run was withdrawn just now; read again
        return await self._accept(messages, request_id)

    async def _accept(
        self, messages: list[AgentMessage], request_id: str | None
    ) -> tuple[list[AgentMessage], SessionJournal]:
        session = self.session
        operation = Operation(
            lane=self.session.lane.name, request_id=request_id, source_leaf_id=session.tip.leaf_id
        )
        items = await self.session.store.inbox(
            session.id, lane=self.session.lane.name, queues=("nextRun", "cancel")
        )
        entries: list[Entry] = []
        parent = session.tip.leaf_id
        said = [(item.id, item.message) for item in items if item.message is not None]
        for entry_id, message in [*said, *((None, message) for message in messages)]:
            entry = MessageEntry(parent_id=parent, message=message, operation_id=operation.id)
            if entry_id is not None:
                entry = msgspec.structs.replace(entry, id=entry_id)
            entries.append(entry)
            parent = entry.id
        placed = [
            # A request to cancel that is older than the run is not about it.
            msgspec.structs.replace(item, status="withdrawn")
            if item.queue == "cancel"
            else msgspec.structs.replace(item, status="placed", operation_id=operation.id)
            for item in items
        ]
        lane = session.lane_at(parent, operation_id=operation.id, config=self._config())
        commit = Commit(lanes=[lane], operations=[operation], inbox=placed)
        try:
            await session.commit(commit, entries)
        except asyncio.CancelledError:
            self._give_up(operation)
            raise
        prompts = [cast("MessageEntry", entry).message for entry in entries]
        journal = self.journal_of(operation)
        journal.place_before(prompts)
        return prompts, journal

    def _give_up(self, operation: Operation) -> None:
        """Cancelled before it began; the commit that accepts it may be written all the same."""
        operation = msgspec.structs.replace(
            operation, status="aborted", stop_reason="aborted", finished_at=now_ms()
        )
        lane = self.session.lane_at(self.session.tip.leaf_id, operation_id=None)
        try:
            self.session.submit(Commit(lanes=[lane], operations=[operation]))
        except SessionError as error:
            _log.warning("the operation %s stays open: %s", operation.id, error)

    async def drive(
        self, prompts: list[AgentMessage], journal: SessionJournal, plan: ResumePlan | None
    ) -> RunResult[OutputT]:
        agent, inbox = self.agent, self.inbox
        self.compactor.begin_run()
        inbox.begin_run()
        # The kernel announces the prompts, which are in the session already.
        self.show_transcript(without=len(prompts) if plan is None else 0)
        begun = False

        def take_up(run: Run) -> None:
            nonlocal begun
            begun = True
            self.run = journal.run = run
            if self.closed is not None:
                run.lose_journal(self.closed)
            if journal.operation.cancelled_at is not None:
                run.controller.abort(journal.operation.cancel_reason)
            if self.stopped is not None:
                run.controller.abort(self.stopped[0])
            if plan is not None:
                _set_going(run, plan, journal, self.compactor)

        traced = nullcontext()
        if self.trace is not None:
            traced = self.trace.run(journal.operation.id, recovery=plan is not None)
        watching = asyncio.create_task(self._watch(inbox, journal))
        try:
            with traced:
                result = await agent._run(  # pyright: ignore[reportPrivateUsage]
                    prompts, journal=journal, inbox=inbox, take_up=take_up
                )
        except Exception:
            if not begun:  # a wrong set-up, such as two tools with one name
                await self._refuse(journal.operation)
            raise
        finally:
            self.run = None
            watching.cancel()
            await asyncio.wait({watching})
            self.show_transcript()
        left = inbox.undelivered() + result.undelivered
        return msgspec.structs.replace(result, undelivered=left)

    async def _refuse(self, operation: Operation) -> None:
        """It was accepted and cannot be run: it has failed, and the lane is free."""
        failed = msgspec.structs.replace(
            operation,
            status="failed",
            stop_reason="error",
            error_message="The run could not be set up.",
            finished_at=now_ms(),
        )
        lane = self.session.lane_at(self.session.tip.leaf_id, operation_id=None)
        await self.session.commit(Commit(lanes=[lane], operations=[failed]))

    async def _watch(self, inbox: SessionInbox, journal: SessionJournal) -> None:
        """Hear, during a run, what other processes say."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                requests = await inbox.look()
                if requests:
                    await self._heed_cancel(requests, journal)
            except Exception as error:  # noqa: BLE001 - a store is foreign code; look again
                _log.warning("looking at the inbox of session %s: %s", self.session.id, error)

    async def _heed_cancel(self, requests: list[InboxItem], journal: SessionJournal) -> None:
        meant = [r for r in requests if r.operation_id in (None, journal.operation.id)]
        if meant:
            await self.cancel_running(meant[0].reason, requests)
        else:
            done = [msgspec.structs.replace(request, status="withdrawn") for request in requests]
            await self.session.commit(Commit(inbox=done))

    async def cancel_running(self, reason: str | None, requests: list[InboxItem]) -> None:
        run = self.run
        if run is None or not isinstance(run.journal, SessionJournal):
            self.agent.abort(reason)
            return
        journal = run.journal
        if journal.operation.finished_at is not None:
            return  # it has just come to its own end
        if journal.operation.cancelled_at is None:
            journal.operation = cancelled(journal.operation, reason)
            done = [msgspec.structs.replace(request, status="placed") for request in requests]
            await self.session.commit(Commit(operations=[journal.operation], inbox=done))
        self.agent.abort(reason)

    def journal_of(self, operation: Operation) -> SessionJournal:
        tools = {tool.name: tool for tool in self.agent.state.tools}
        return SessionJournal(self.session, self.inbox, operation, tools, self.compactor)

    def _config(self) -> LaneConfig:
        state = self.agent.state
        return LaneConfig(
            provider=state.model.provider,
            model_id=state.model.id,
            thinking_level=state.thinking_level,
            active_tools=[tool.name for tool in state.tools],
        )

    def _mode(self, queue: QueueName) -> str:
        return self.agent.steering_mode if queue == "steering" else self.agent.follow_up_mode

    async def result_of(self, operation_id: str, *, at_leaf: bool = False) -> RunResult[OutputT]:
        """What an operation came to, from what is stored of it.

        *at_leaf*: it has just been driven, so the branch ends with all that it wrote. Of one that
        ended before, the lane may have left any part since.
        """
        session = self.session
        operation = session.operation_of(operation_id)
        if operation is None:
            every = await session.store.operations(session.id)
            operation = next(op for op in every if op.id == operation_id)
        loaded = session.branch.entries
        entries = [e for e in loaded if e.operation_id == operation_id]
        older = bool(loaded) and loaded[0].parent_id is not None
        if not at_leaf or not entries or (older and entries[0] is loaded[0]):  # not all in memory
            rows = await session.rows()
            entries = [row.entry() for row in rows if row.operation_id == operation_id]
        messages = [e.message for e in entries if isinstance(e, MessageEntry)]
        usage = await session.spent_on(operation_id)
        replies = [m for m in messages if isinstance(m, AssistantMessage)]
        stop_reason = operation.stop_reason or (replies[-1].stop_reason if replies else "stop")
        stopped_by = "approval" if operation.status == "waiting" else operation.stopped_by
        return RunResult(
            messages,
            stop_reason,
            cast("Any", stopped_by),
            operation.error_message,
            usage,
            None,
            self.inbox.undelivered(),
        )


def cancelled(operation: Operation, reason: str | None) -> Operation:
    return msgspec.structs.replace(operation, cancelled_at=now_ms(), cancel_reason=reason)


def _set_going(run: Run, plan: ResumePlan, journal: SessionJournal, compactor: Compactor) -> None:
    """Put *run* where an earlier one was."""
    run.turns = plan.replies
    run.earlier_results_end = plan.results_end
    if plan.reply is not None and isinstance(plan.reply.message, AssistantMessage):
        run.taken_up = plan.reply.message
        if run.answer is not None:
            run.answer.take_up(run.taken_up, plan.results)
    if plan.next == "calls" and plan.reply is not None:
        reply = plan.reply.message
        assert isinstance(reply, AssistantMessage)
        run.reply = reply
        run.results = list(plan.results)
        run.progress.turn = "answered"
    elif plan.next == "ask":
        run.progress.extra_turn = True
        if plan.input_is_last:
            run.progress.steering = []  # one message is heard at a time: this one comes first
    elif plan.failed and journal.operation.cancelled_at is None:
        if journal.operation.overflow_used:
            run.progress.extra_turn = True  # it was about to be asked again, with less
            compactor.overflowed = True
        else:
            run.failure = getattr(plan.reply.message, "error_message", None) if plan.reply else None
            run.progress.stopped_by = "error"
    elif plan.results:
        run.progress.terminated = True  # the tools had asked for the end
