"""The kernel's journal over a session: every step of a run is committed before the next one.

What happens together is one commit: a reply with its cost; a result with what was waiting for its
place behind it; an intent with the approval that it uses up. The id of a result's entry is derived
from its reply and its place there, so a call can be answered once, whoever tries.

Not here: deciding what comes next (loop.transcript, resume), or what a store does with a commit.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

import msgspec

from ..errors import InboxNotEmpty, SessionError
from ..loop.journal import Recall, Starting
from ..loop.run import Run
from ..loop.tool import AgentTool
from ..loop.wording import refused
from ..messages import (
    AgentMessage,
    AgentToolResult,
    AssistantMessage,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from ..records import to_jsonable
from ..session.entries import Entry, MessageEntry, now_ms
from ..session.rows import Approval, Intent, Operation, OperationStatus, UsageRow
from ..session.session import Session
from ..session.store import Commit
from ..stream import Retry
from .approvals import digest_of
from .inbox import SessionInbox
from .resume import ResumePlan

__all__ = ["Compacts", "SessionJournal", "result_id"]

LOST = (
    "The tool {name!r} was interrupted: the program ended while it was running, so it may have run "
    "in part or as a whole, or be running still. Look at what it has changed before you call it again."
)
UNFIT = "The call of {name!r} was not run: what is stored is not what was approved."
DENIED = "The call of {name!r} was not approved and not run."


def result_id(assistant_id: str, index: int) -> str:
    """The id of the entry that answers call *index* of the reply in entry *assistant_id*."""
    return f"{assistant_id}.{index}"


class Compacts(Protocol):
    """Keeps a run within the model's window."""

    async def before_request(self, run: Run, operation_id: str) -> None:
        """May replace the run's context."""
        ...

    def recovers(self, run: Run, reply: AssistantMessage, kind: str | None) -> bool:
        """Whether a smaller context would mend *reply*."""
        ...

    def replied(self, reply: AssistantMessage) -> None:
        """A reply was given."""
        ...


class SessionJournal:
    """One operation's hand in its session. Made when a run starts or is taken up."""

    def __init__(
        self,
        session: Session,
        inbox: SessionInbox,
        operation: Operation,
        tools: dict[str, AgentTool[Any, Any]],
        compactor: Compacts,
    ) -> None:
        self.session = session
        self.operation = operation
        """As it was last handed over."""
        self._inbox = inbox
        self._tools = tools
        self._compactor = compactor
        self.run: Run | None = None
        """The run that is recorded, once it has begun."""
        self._changed = False  # the operation, since it was handed over last
        self._accepted: list[AgentMessage] = []  # prompts that the accepting commit has placed
        self._admitted: AgentMessage | None = None  # placed, and about to be said
        self._in_flight: tuple[AgentMessage, asyncio.Future[int]] | None = None
        self._ended: dict[int, asyncio.Future[int]] = {}  # by call, of the present reply
        self._refused = False  # a message was to be heard before the end, and has not come yet
        self._usage: list[UsageRow] = []  # of attempts that were retried; goes with the next commit
        self._reply: AssistantMessage | None = None
        self._reply_id = ""
        self._answered: set[int] = set()
        self._next = 0  # the first call without a result in the tree
        self._outcomes: dict[int, tuple[ToolResultMessage, bool]] = {}  # not in their place yet
        self._begun: set[str] = set()
        self._left: dict[str, Intent] = {}  # by an earlier process; kept, since settling forgets

    def take_up(self, plan: ResumePlan) -> None:
        """Go on in the middle of a batch that an earlier process began."""
        if plan.reply is None or not isinstance(plan.reply.message, AssistantMessage):
            return
        reply = self._reply = plan.reply.message
        self._reply_id = plan.reply.id
        missing = iter(plan.calls)
        wanted = next(missing, None)
        for index, call in enumerate(reply.tool_calls):
            if call is wanted:
                wanted = next(missing, None)
            else:
                self._answered.add(index)
        for intent in self.session.intents.values():
            if intent.assistant_id != self._reply_id:
                continue
            self._left[intent.id] = intent
            if intent.result is not None:
                self._outcomes[intent.index] = intent.result, intent.terminate
                self._begun.add(intent.id)

    def place_before(self, messages: Sequence[AgentMessage]) -> None:
        """These are in the tree already: the commit that accepted the run has them."""
        self._accepted = list(messages)

    # -- what the kernel calls ----------------------------------------------------------------

    async def before_request(self, run: Run) -> None:
        """Make the context smaller if it has to be."""
        try:
            await self._compactor.before_request(run, self.operation.id)
        except SessionError as error:
            run.lose_journal(error)
            raise

    def retried(self, event: Retry) -> None:
        """A failed attempt is in the ledger, too."""
        if event.usage is not None:
            self._usage.append(
                UsageRow(cause="retry", usage=event.usage, operation_id=self.operation.id)
            )

    def recovers(self, run: Run, reply: AssistantMessage, kind: str | None) -> bool:
        """Once for each input, a context that was too large is made smaller."""
        if self.operation.overflow_used or not self._compactor.recovers(run, reply, kind):
            return False
        self._change(overflow_used=True)
        return True

    async def admits(self, message: AgentMessage) -> bool:
        """Place a queued message before it is said, unless it was withdrawn meanwhile."""
        if self._accepted and self._accepted[0] is message:
            return True
        try:
            await self.message(message)
        except InboxNotEmpty:
            self._in_flight = None
            self._inbox.settled(message)
            self._changed = True  # what the commit said of the operation was not written either
            return False
        # Cancelled, it stays in hand: the commit goes on, and nobody may say it again.
        self._inbox.settled(message)
        self._admitted = message
        return True

    async def message(self, message: AgentMessage) -> None:
        """Place *message* behind the leaf, with what it cost."""
        if isinstance(message, ToolResultMessage):
            return  # placed by `ended`
        if self._in_flight is not None and self._in_flight[0] is message:
            await asyncio.shield(self._in_flight[1])  # we were interrupted while waiting for it
            self._in_flight = None
            return
        if self._admitted is message:
            self._admitted = None
            return
        if self._accepted and self._accepted[0] is message:
            del self._accepted[0]
            return
        entry = self._entry(message)
        commit = Commit(lanes=[self.session.lane_at(entry.id)])
        item = self._inbox.hand_over(message, self.operation.id)
        if item is not None:
            entry = msgspec.structs.replace(entry, id=item.id)
            commit.lanes = [self.session.lane_at(entry.id)]
            commit.inbox.append(item)
        if isinstance(message, AssistantMessage):
            self._reply, self._reply_id = message, entry.id
            self._answered, self._next, self._outcomes = set(), 0, {}
            self._ended, self._begun, self._left = {}, set(), {}
            commit.usage = [*self._usage, self._cost(message, entry)]
            self._usage = []
            self._compactor.replied(message)
        elif isinstance(message, UserMessage) and self.operation.overflow_used:
            self._change(overflow_used=False)  # new input, new allowance
        self._refused = False
        future = self._submit(commit, [entry])
        self._in_flight = message, future
        await asyncio.shield(future)
        self._in_flight = None

    def recall(self, reply: AssistantMessage, index: int, call: ToolCall) -> Recall | None:
        """What an earlier process left of this call."""
        reserved = self._result_id(reply, index)
        intent = self._left.get(reserved)
        if intent is not None and intent.result is not None:
            result = _as_result(intent.result, intent.terminate)
            return Recall("ended", result, intent.result)
        if intent is not None:
            tool = self._tools.get(intent.tool_name)
            if intent.replay == "safe" and tool is not None and tool.replay == "safe":
                return Recall("again", arguments=intent.arguments)
            return Recall("lost", refused(LOST.format(name=call.name)))
        approval = self.session.approvals.get(reserved)
        if approval is None:
            return None
        if approval.status == "approved":
            if digest_of(approval.tool_name, approval.arguments) != approval.digest:
                return Recall("denied", refused(UNFIT.format(name=call.name)))
            return Recall("again", arguments=approval.arguments, approved=True)
        if approval.status == "denied":
            return Recall("denied", refused(approval.reason or DENIED.format(name=call.name)))
        return Recall("parked")

    async def park(self, reply: AssistantMessage, starting: Starting) -> None:
        """Ask for approval of exactly this."""
        arguments = to_jsonable(starting.args)
        await self.session.commit(
            Commit(
                approvals=[
                    Approval(
                        id=self._result_id(reply, starting.index),
                        lane=self.session.lane.name,
                        tool_call_id=starting.call.id,
                        tool_name=starting.call.name,
                        arguments=arguments,
                        digest=digest_of(starting.call.name, arguments),
                    )
                ]
            )
        )

    async def begin(self, reply: AssistantMessage, starting: Sequence[Starting]) -> None:
        """Intents, for all that must not simply be run again; approvals are used up with them."""
        commit = Commit()
        for start in starting:
            reserved = self._result_id(reply, start.index)
            approval = self.session.approvals.get(reserved)
            if start.tool.replay == "safe" and approval is None:
                continue
            self._begun.add(reserved)
            arguments = to_jsonable(start.args)
            if approval is not None:  # `recall` has seen that these are what was approved
                commit.consume.append((reserved, approval.digest))
            commit.intents.append(
                Intent(
                    id=reserved,
                    lane=self.session.lane.name,
                    assistant_id=self._reply_id,
                    index=start.index,
                    tool_call_id=start.call.id,
                    tool_name=start.call.name,
                    arguments=arguments,
                    replay=start.tool.replay,
                )
            )
        if commit.intents:
            await self.session.commit(commit)

    async def ended(
        self, reply: AssistantMessage, index: int, message: ToolResultMessage, terminate: bool
    ) -> None:
        """Place the result if it is its turn, with those that waited for it; else keep it."""
        known = self._ended.get(index)
        if known is not None:  # we were interrupted while waiting for it
            await asyncio.shield(known)
            return
        reserved = self._result_id(reply, index)
        commit = Commit()
        approval = self.session.approvals.get(reserved)
        if approval is not None and approval.status in ("approved", "denied"):
            commit.consume.append((reserved, approval.digest))
        elif approval is not None:  # the run was stopped before anybody decided
            gone = msgspec.structs.replace(
                approval, status="consumed", reason="The run was stopped.", decided_at=now_ms()
            )
            commit.approvals.append(gone)
        if message.usage is not None:
            commit.usage.append(
                UsageRow(
                    cause="tool",
                    usage=message.usage,
                    entry_id=reserved,
                    operation_id=self.operation.id,
                )
            )
        self._outcomes[index] = message, terminate
        self._pass_answered()
        if index == self._next:
            entries = self._in_their_place(reply, commit)
        else:
            entries = []
            self._begun.add(reserved)
            begun = self.session.intents.get(reserved)
            commit.intents.append(
                Intent(
                    id=reserved,
                    lane=self.session.lane.name,
                    assistant_id=self._reply_id,
                    index=index,
                    tool_call_id=message.tool_call_id,
                    tool_name=message.tool_name,
                    arguments={} if begun is None else begun.arguments,
                    replay="never" if begun is None else begun.replay,
                    result=message,
                    terminate=terminate,
                )
            )
        future = self._ended[index] = self._submit(commit, entries)
        await asyncio.shield(future)

    def _in_their_place(self, reply: AssistantMessage, commit: Commit) -> list[Entry]:
        """The entries of the results whose turn it is."""
        leaf = self.session.tip.leaf_id
        entries: list[Entry] = []
        while (outcome := self._outcomes.pop(self._next, None)) is not None:
            message, terminate = outcome
            reserved = self._result_id(reply, self._next)
            entries.append(
                MessageEntry(
                    id=reserved,
                    parent_id=leaf,
                    message=message,
                    terminate=terminate,
                    operation_id=self.operation.id,
                )
            )
            leaf = reserved
            if reserved in self._begun or reserved in self.session.intents:
                commit.settled.append(reserved)
            self._answered.add(self._next)
            self._pass_answered()
        commit.lanes = [self.session.lane_at(leaf)]
        return entries

    def _pass_answered(self) -> None:
        while self._next in self._answered:
            self._next += 1

    async def finish(self, run: Run) -> bool:
        """The outcome, and the lane is free; or the run waits for an approval and stays open."""
        outcome = run.outcome()
        status: OperationStatus = "completed"
        if outcome.stopped_by == "approval":
            status = "waiting"
        elif outcome.stop_reason == "aborted":
            status = "aborted"
        elif outcome.stop_reason == "error":
            status = "failed"
        if status == "waiting":
            self._change(status=status)
            await self._hand_over(Commit(), [])
            return True
        self._change(
            status=status,
            stop_reason=outcome.stop_reason,
            stopped_by=outcome.stopped_by,
            error_message=outcome.error_message,
            finished_at=now_ms(),
            restarts=0,
        )
        lane = self.session.lane_at(self.session.tip.leaf_id, operation_id=None)
        commit = Commit(lanes=[lane])
        limit = run.config.max_turns
        may_go_on = limit is None or run.turns < limit
        ends_by_itself = outcome.stopped_by in (None, "terminate") and not run.signal.aborted
        if ends_by_itself and may_go_on and not self._refused:
            commit.unless_waiting = lane.name
        try:
            await self._hand_over(commit, [])
        except InboxNotEmpty:
            self._refused = True
            self._change(status="open", stop_reason=None, stopped_by=None, finished_at=None)
            return False
        return True

    # -- inside -------------------------------------------------------------------------------

    def _result_id(self, reply: AssistantMessage, index: int) -> str:
        if reply is not self._reply:
            raise SessionError("a call came without its reply; report this as a fault")
        return result_id(self._reply_id, index)

    def _entry(self, message: AgentMessage) -> MessageEntry:
        return MessageEntry(
            parent_id=self.session.tip.leaf_id, message=message, operation_id=self.operation.id
        )

    def _cost(self, message: AssistantMessage, entry: MessageEntry) -> UsageRow:
        return UsageRow(
            cause="assistant",
            usage=message.usage,
            entry_id=entry.id,
            operation_id=self.operation.id,
            provider=message.provider or None,
            model=message.model or None,
        )

    def _change(self, **changes: Any) -> None:
        """The operation as it is from the next commit on."""
        self.operation = msgspec.structs.replace(self.operation, **changes)
        self._changed = True

    async def _hand_over(self, commit: Commit, entries: list[Entry]) -> None:
        await asyncio.shield(self._submit(commit, entries))

    def _submit(self, commit: Commit, entries: list[Entry]) -> asyncio.Future[int]:
        run = self.run
        if run is not None and run.signal.aborted and self.operation.cancelled_at is None:
            # Aborted past the harness: whoever takes over shall know it from here on.
            self._change(cancelled_at=now_ms(), cancel_reason=run.describe(run.cause))
        if entries and self.operation.restarts:
            self._change(restarts=0)  # it has come further
        if self._changed:
            self._changed = False
            commit.operations = [self.operation]
        return self.session.submit(commit, entries)


def _as_result(message: ToolResultMessage, terminate: bool) -> AgentToolResult:
    return AgentToolResult(
        message.content, message.details, message.is_error, terminate, message.usage
    )
