"""Harness: an agent whose work survives. One lane of a session, driven by one agent.

It has the runs of `Agent`; what it adds is that each of them is an operation in the session:
accepted in one commit, recorded step by step, and, if the process dies, taken up by another with
`resume()`. Opening starts nothing.

Not here: driving a run (driver) and what was left unfinished (unfinished), recording the steps
(journal), or making the context smaller (compactor).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Generic, Literal

from ..errors import AgentBusy, LeaseLost, Misuse, SessionClosed
from ..loop.agent import Agent, Prompt, as_messages
from ..loop.agent_stream import AgentStream
from ..loop.listeners import Listener
from ..loop.run_result import OutputT, RunResult
from ..messages import AgentMessage, ImageContent
from ..session.entries import CompactionEntry, Entry, MessageEntry
from ..session.rows import (
    Approval,
    InboxItem,
    InboxQueue,
    InboxStatus,
    Operation,
    SessionInfo,
)
from ..session.session import LEASE_SECONDS, Session
from ..session.store import Commit, SessionStore
from . import approvals
from .compaction import CompactionSettings
from .compactor import BeforeCompaction, Compactor
from .driver import LaneDriver
from .saying import say
from .unfinished import RESTART_LIMIT, give_up, refuse_unfinished, take_up

if TYPE_CHECKING:
    from ..telemetry import Trace, Tracer

__all__ = ["RESTART_LIMIT", "Harness"]

_log = logging.getLogger("loopwright")


class Harness(Generic[OutputT]):
    """Made by `Harness.open`, and used as an async context manager."""

    def __init__(
        self,
        store: SessionStore,
        session_id: str | None,
        *,
        agent: Agent[OutputT],
        lane: str,
        cwd: str | None,
        create: bool,
        lease_seconds: float,
        compaction: CompactionSettings,
        before_compaction: BeforeCompaction | None,
        tracer: Tracer | None,
    ) -> None:
        self.agent = agent
        self._store = store
        self._session_id = session_id
        self._lane = lane
        self._cwd = cwd
        self._create = create
        self._lease_seconds = lease_seconds
        self._tracer = tracer
        self._compaction = compaction
        self._before_compaction = before_compaction
        self._entered: LaneDriver[OutputT] | None = None
        self._busy = False
        self._closing: asyncio.Task[None] | None = None
        self._idle: asyncio.Event = asyncio.Event()
        self._trace: Trace | None = None

    @classmethod
    def open(
        cls,
        store: SessionStore,
        session_id: str | None = None,
        *,
        agent: Agent[OutputT],
        lane: str = "main",
        cwd: str | None = None,
        create: bool = True,
        lease_seconds: float = LEASE_SECONDS,
        compaction: CompactionSettings | None = None,
        before_compaction: BeforeCompaction | None = None,
        tracer: Tracer | None = None,
    ) -> Harness[OutputT]:
        """Bind *agent* to a lane of a session: `async with Harness.open(store, id, agent=...)`.

        A session that is not there is made if *create*; without an id a new one is. *cwd* is the
        folder that a new one is about. Entering takes
        the lease, *lease_seconds* long and renewed while open, and raises `SessionLocked` while
        another process has it. *before_compaction* may supply a summary or decline; see
        `BeforeCompaction`. Until it is left, the agent's runs are started here.
        """
        return cls(
            store,
            session_id,
            agent=agent,
            lane=lane,
            cwd=cwd,
            create=create,
            lease_seconds=lease_seconds,
            compaction=compaction or CompactionSettings(),
            before_compaction=before_compaction,
            tracer=tracer,
        )

    async def __aenter__(self) -> Harness[OutputT]:
        if self._entered is not None:
            raise Misuse("a harness is entered once; call Harness.open again")
        agent = self.agent
        if agent.state.is_streaming:
            raise AgentBusy("the agent is in the middle of a run")
        agent._claim("a session")  # pyright: ignore[reportPrivateUsage]
        try:
            session = await Session.open(
                self._store,
                self._session_id,
                lane=self._lane,
                cwd=self._cwd,
                create=self._create,
                lease_seconds=self._lease_seconds,
            )
            try:
                await self._adopt(session)
            except BaseException:
                await session.aclose()
                raise
        except BaseException:
            agent._release()  # pyright: ignore[reportPrivateUsage]
            raise
        compactor = Compactor(session, agent, self._compaction, self._before_compaction)
        self._entered = LaneDriver(session, agent, compactor)
        session.on_lost = self._lose
        self._idle.set()
        if self._tracer is not None:
            from ..telemetry import trace

            tracing = trace(agent, self._tracer, session_id=session.id, lane=self._lane)
            self._trace = self._entered.trace = compactor.trace = tracing
            session.on_commit = tracing.commit
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Let go of the session. Closing is like a crash, only tidier: a run that is going on is
        stopped and stays open in the session, to be taken up with `resume()`."""
        if self._entered is None:
            return
        if self._closing is None:
            # A task of its own: whoever asked may be cancelled, and be it by the end of the run.
            self._closing = asyncio.create_task(self._close(self._entered))
        await asyncio.shield(self._closing)

    async def _close(self, driver: LaneDriver[OutputT]) -> None:
        closed = driver.closed = SessionClosed("the session was closed during the run")
        if driver.run is not None:
            driver.run.lose_journal(closed)
        driver.stop_summary(closed)
        try:
            await self._idle.wait()
            await driver.session.aclose()
        finally:
            if self._trace is not None:
                self._trace()
            self.agent._release()  # pyright: ignore[reportPrivateUsage]

    # -- what is there ------------------------------------------------------------------------

    @property
    def session(self) -> Session:
        """The session that is open. Raises `SessionClosed` before the harness is entered."""
        return self._driver.session

    @property
    def _driver(self) -> LaneDriver[OutputT]:
        if self._entered is None:
            raise SessionClosed(
                "the harness has not been entered", hint="async with Harness.open(...) as harness:"
            )
        return self._entered

    @property
    def open_operation(self) -> Operation | None:
        """What is unfinished on this lane; `resume()` drives it."""
        return self.session.operation

    @property
    def pending_approvals(self) -> list[Approval]:
        """The calls that wait for somebody's word, as far as this process knows."""
        return [a for a in self.session.approvals.values() if a.status == "pending"]

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """`Agent.subscribe`. What a listener hears of as finished has been written before."""
        return self.agent.subscribe(listener)

    # -- running ------------------------------------------------------------------------------

    async def prompt(
        self,
        prompt: Prompt,
        images: Sequence[ImageContent] = (),
        *,
        request_id: str | None = None,
    ) -> RunResult[OutputT]:
        """`Agent.prompt`, recorded. The prompt is in the session before anything is done.

        With a *request_id* the same prompt is never run twice: the second time returns what the
        first one came to, or takes it up if it is unfinished. Raises `OperationOpen` if the lane
        has something unfinished, `AgentBusy` during a run.
        """
        messages = as_messages(prompt, images)
        if not messages:
            raise Misuse("there is nothing to say: the list of messages is empty")
        self._begin("prompt")
        try:
            if request_id is not None:
                known = await self._store.operations(self.session.id, request_id=request_id)
                if known:
                    return await self._known(known[0])
            refuse_unfinished(self.session)
            prompts, journal = await self._driver.accept(messages, request_id)
            return await self._driver.drive(prompts, journal, None)
        finally:
            self._end()

    def stream(
        self, prompt: Prompt, images: Sequence[ImageContent] = (), *, request_id: str | None = None
    ) -> AgentStream[OutputT]:
        """`Agent.stream`, recorded."""

        def enter(listener: Listener) -> Callable[[], None]:
            self._refuse_busy("stream")
            return self.subscribe(listener)

        return AgentStream(
            enter, lambda: self.prompt(prompt, images, request_id=request_id), self.agent.abort
        )

    async def resume(self, *, parked: bool = False) -> RunResult[OutputT] | None:
        """Drive what an earlier process left open, or what waited for approvals. None if nothing
        is open.

        Calls that had not been started are run, and those declared `replay="safe"` again; one that
        was started and may not be repeated gets the result that it was interrupted. The messages
        of the result are those of the whole operation. An operation that has ended its process
        `RESTART_LIMIT` times without progress raises `OperationParked`, unless *parked*.
        """
        self._begin("resume")
        try:
            return await take_up(self._driver, parked=parked)
        finally:
            self._end()

    # -- stopping -----------------------------------------------------------------------------

    async def abort(self, reason: object = None) -> None:
        """Stop the run: first in the session, then here. After that nothing new is started, also
        by a process that takes over. What is queued stays queued.

        If an operation is open and nobody drives it, it is brought to its end as aborted.
        """
        said = None if reason is None else str(reason)
        if self._driver.run is not None:
            await self._driver.cancel_running(said, [])
            return
        if self._busy:  # a summary is being written; it is not worth a commit of its own
            self._driver.stopped = (said,)
            self._driver.stop_summary(reason)
            return
        operation = self.session.operation
        if operation is None:
            return
        self._begin("abort")
        try:
            await give_up(self._driver, operation, said)
        finally:
            self._end()

    # -- saying something ---------------------------------------------------------------------

    async def steer(
        self,
        message: str | AgentMessage,
        when: Literal["after_batch", "interrupt"] = "after_batch",
        *,
        request_id: str | None = None,
    ) -> InboxItem:
        """`Agent.steer`, durable. The same *request_id* is never queued twice."""
        if when not in ("after_batch", "interrupt"):
            raise Misuse(f"when is 'after_batch' or 'interrupt', not {when!r}")
        return await self._say("steer", message, request_id, urgent=when == "interrupt")

    async def follow_up(
        self, message: str | AgentMessage, *, request_id: str | None = None
    ) -> InboxItem:
        """`Agent.follow_up`, durable."""
        return await self._say("followUp", message, request_id)

    async def next_run(
        self, message: str | AgentMessage, *, request_id: str | None = None
    ) -> InboxItem:
        """Say *message* before the next prompt, whenever that comes."""
        return await self._say("nextRun", message, request_id)

    async def _say(
        self,
        queue: InboxQueue,
        message: str | AgentMessage,
        request_id: str | None,
        *,
        urgent: bool = False,
    ) -> InboxItem:
        if self._closing is not None:
            raise SessionClosed("the harness is closed; nobody would hear the message")
        return await say(
            self.session, self._driver.inbox, queue, message, request_id, urgent=urgent
        )

    def queued(self) -> list[InboxItem]:
        """What was said with `steer` and `follow_up` and is not in the transcript yet, as far as
        this process knows; oldest first."""
        return self._driver.inbox.waiting

    async def withdraw(self, item_id: str) -> InboxStatus | None:
        """Take back what was queued. Returns `withdrawn`, `placed` if it has been heard already,
        None if there is no such thing."""
        status = await self._store.withdraw(self.session.id, item_id)
        if status == "withdrawn":
            self._driver.inbox.forget(item_id)
        return status

    # -- approvals ----------------------------------------------------------------------------

    async def approve(
        self, approval: str, *, arguments: dict[str, Any] | None = None, by: str | None = None
    ) -> Approval:
        """Let a parked call run, with other *arguments* if given; then `resume()`. *approval* is
        its id or the call's. Raises `ApprovalRefused`."""
        decided = await approvals.approve(
            self._store, self.session.id, approval, arguments=arguments, by=by
        )
        self.session.note(decided)
        return decided

    async def deny(
        self, approval: str, *, reason: str | None = None, by: str | None = None
    ) -> Approval:
        """Do not let a parked call run; then `resume()`. Raises `ApprovalRefused`."""
        decided = await approvals.deny(self._store, self.session.id, approval, reason=reason, by=by)
        self.session.note(decided)
        return decided

    # -- the tree -----------------------------------------------------------------------------

    async def compact(self, instructions: str | None = None) -> CompactionEntry | None:
        """Replace what is old by a summary now. None if there is nothing to compact, or a hook
        declined. Raises `SummaryFailed` if the model gave no summary."""
        self._begin("compact")
        try:
            refuse_unfinished(self.session)
            entry = await self._driver.compactor.compact(instructions)
            self._driver.show_transcript()
            return entry
        finally:
            self._end()

    async def navigate(
        self,
        entry_id: str | None,
        *,
        summarize: bool = False,
        instructions: str | None = None,
        label: str | None = None,
    ) -> None:
        """Go on from another entry; None is the beginning. Nothing is deleted.

        With *summarize* the branch that is left is summed up and told to the model there. The
        move, the summary and the *label* are one commit. Raises `Misuse` for an unknown entry.
        """
        self._begin("navigate")
        try:
            refuse_unfinished(self.session)
            await self._driver.new_navigator().navigate(entry_id, summarize, instructions, label)
            self._driver.show_transcript()
        finally:
            self._end()

    async def fork(
        self,
        entry_id: str | None = None,
        *,
        position: Literal["before", "at"] | None = None,
        scope: Literal["branch", "tree"] = "branch",
        name: str | None = None,
    ) -> SessionInfo:
        """A new session with a copy of this branch (or tree). Without *entry_id*, up to the leaf;
        with one, before it unless *position* says `at`. Open it with another harness."""
        from ..session.fork import fork_session

        return await fork_session(
            self._store,
            self.session.id,
            scope=scope,
            lane=self._lane,
            entry_id=entry_id,
            position=position,
            name=name,
        )

    # -- inside -------------------------------------------------------------------------------

    async def _adopt(self, session: Session) -> None:
        """The agent's transcript is the session's. An agent that brings one begins a new session."""
        brought = list(self.agent.state.messages)
        if brought and session.leaf_id is not None:
            raise Misuse(
                f"the agent has a transcript of {len(brought)} messages, and so has the session "
                f"{session.id}",
                hint="agent.reset() before, or open a new session",
            )
        if brought:
            entries: list[Entry] = []
            parent: str | None = None
            for message in brought:
                entries.append(MessageEntry(parent_id=parent, message=message))
                parent = entries[-1].id
            await session.commit(Commit(lanes=[session.lane_at(parent)]), entries)
        self.agent.state.messages = session.transcript()

    def _lose(self, error: Exception) -> None:
        if isinstance(error, LeaseLost):
            _log.error("session %s: %s", self.session.id, error)
        run = self._driver.run
        if run is not None:
            run.lose_journal(error)

    def _begin(self, method: str) -> None:
        self.session  # noqa: B018 - raises if it was not entered
        if self._closing is not None:
            raise SessionClosed(f"{method}() was called on a harness that is closed")
        self._refuse_busy(method)
        self._busy = True
        self._driver.stopped = None
        self._idle.clear()

    def _end(self) -> None:
        self._busy = False
        self._driver.navigator = None
        self._idle.set()

    def _refuse_busy(self, method: str) -> None:
        if self._busy:
            raise AgentBusy(
                f"{method}() was called while the harness is working",
                hint="use steer() or follow_up() to say something during a run",
            )

    async def _known(self, operation: Operation) -> RunResult[OutputT]:
        if operation.id == self.session.lane.operation_id:
            result = await take_up(self._driver, parked=False)
            assert result is not None
            return result
        return await self._driver.result_of(operation.id)
