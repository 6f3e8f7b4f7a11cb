"""Going on from another entry of the tree, and telling the model what was left behind.

The move, the summary of the branch that is left, and a label are one commit: a crash leaves the
lane where it was or where it goes, never in between.

Not here: what the summary says (branch_summary).
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from ..errors import Misuse, SessionError
from ..loop.agent import Agent
from ..messages import Usage
from ..session.entries import BranchSummaryEntry, Entry, EntryRow, now_ms
from ..session.rows import Fact, Operation, UsageRow
from ..session.session import Session
from ..session.store import Commit
from ..session.tree import common_ancestor
from ..signals import AbortController
from .branch_summary import plan_branch_summary, summarize_branch
from .compaction import CompactionSettings
from .summary import SummaryFailed

if TYPE_CHECKING:
    from ..telemetry import Trace

__all__ = ["Navigator"]


class Navigator:
    """Made for one navigation."""

    def __init__(self, session: Session, agent: Agent[Any], settings: CompactionSettings) -> None:
        self._session = session
        self._agent = agent
        self._settings = settings
        self.controller = AbortController()
        self.trace: Trace | None = None

    async def navigate(
        self, target: str | None, summarize: bool, instructions: str | None, label: str | None
    ) -> None:
        """Move the lane. Raises `Misuse` for an unknown entry, `SummaryFailed`; nothing moved then."""
        session = self._session
        if target is not None and not await session.store.find(session.id, [target]):
            raise Misuse(f"the session {session.id} has no entry {target!r}")
        if target is None and label is not None:
            raise Misuse("the beginning of a session is no entry and takes no label")
        if not summarize:
            with self._traced(None):
                await self._move(target, label, None, None)
            return
        operation = Operation(
            lane=session.lane.name,
            kind="navigation",
            source_leaf_id=session.tip.leaf_id,
            intent={"targetId": target, "instructions": instructions, "label": label},
        )
        lane = session.lane_at(session.tip.leaf_id, operation_id=operation.id)
        await session.commit(Commit(lanes=[lane], operations=[operation]))
        await self.take_up(operation)

    async def take_up(self, operation: Operation) -> None:
        """Drive *operation*, which summarizes before it moves, to its end."""
        with self._traced(operation.id):
            await self._drive(operation)

    def _traced(self, operation_id: str | None) -> AbstractContextManager[object]:
        if self.trace is None:
            return nullcontext()
        summarize = operation_id is not None
        return self.trace.navigation(summarize=summarize, operation_id=operation_id)

    async def _drive(self, operation: Operation) -> None:
        intent = operation.intent or {}
        target, label = intent.get("targetId"), intent.get("label")
        try:
            summary = await self._summarize(target, intent.get("instructions"), operation.id)
        except SessionError:
            raise  # nothing more can be written; it stays open
        except Exception as error:
            aborted = self.controller.signal.aborted
            ended = self._end(operation, "aborted" if aborted else "failed", str(error))
            await self._session.commit(ended)
            raise
        except BaseException:  # the caller's cancellation
            self._session.submit(self._end(operation, "aborted", None))
            raise
        await self._move(target, label, summary, operation)

    async def _summarize(
        self, target: str | None, instructions: str | None, operation_id: str
    ) -> BranchSummaryEntry | None:
        """The summary of what is left, as the entry below *target*; None if nothing is left."""
        session, agent = self._session, self._agent
        here = await session.path(session.leaf_id)
        there = await session.path(target)
        meeting = common_ancestor([row.id for row in here], [row.id for row in there])
        left = _behind(here, meeting)
        leaf_id = session.leaf_id
        model = agent.model
        plan = plan_branch_summary(left, model.context_window, self._settings)
        if plan is None or leaf_id is None:
            return None
        try:
            summary = await summarize_branch(
                plan,
                model=model,
                stream_fn=agent.stream_fn,
                settings=self._settings,
                instructions=instructions,
                thinking_level=agent.thinking_level,
                get_api_key=agent.get_api_key,
                stream_options=agent.stream_options,
                signal=self.controller.signal,
            )
        except SummaryFailed as error:
            if not error.usage.is_empty:
                row = self._cost(error.usage, operation_id, None)
                await session.commit(Commit(usage=[row]))
            raise
        return BranchSummaryEntry(
            parent_id=target,
            from_id=leaf_id,
            summary=summary.text,
            details=summary.details,
            usage=summary.usage,
            operation_id=operation_id,
        )

    async def _move(
        self,
        target: str | None,
        label: str | None,
        summary: BranchSummaryEntry | None,
        operation: Operation | None,
    ) -> None:
        session = self._session
        leaf = target if summary is None else summary.id
        changes: dict[str, Any] = {} if operation is None else {"operation_id": None}
        commit = Commit(lanes=[session.lane_at(leaf, **changes)])
        if label is not None and leaf is not None:
            commit.facts.append(Fact(namespace="label", key=leaf, value=label))
        if summary is not None and summary.usage is not None and operation is not None:
            commit.usage.append(self._cost(summary.usage, operation.id, summary.id))
        if operation is not None:
            ended = msgspec.structs.replace(operation, status="completed", finished_at=now_ms())
            commit.operations = [ended]
        entries: list[Entry] = [] if summary is None else [summary]
        await session.commit(commit, entries)
        await session.reload()

    def _end(
        self, operation: Operation, status: Literal["aborted", "failed"], error: str | None
    ) -> Commit:
        ended = msgspec.structs.replace(
            operation, status=status, error_message=error, finished_at=now_ms()
        )
        lane = self._session.lane_at(self._session.tip.leaf_id, operation_id=None)
        return Commit(lanes=[lane], operations=[ended])

    def _cost(self, usage: Usage, operation_id: str, entry_id: str | None) -> UsageRow:
        model = self._agent.model
        return UsageRow(
            cause="branch_summary",
            usage=usage,
            entry_id=entry_id,
            operation_id=operation_id,
            provider=model.provider,
            model=model.id,
        )


def _behind(path: list[EntryRow], meeting: str | None) -> list[Entry]:
    """The entries of *path* (oldest first) behind the one called *meeting*."""
    start = 0
    for place, row in enumerate(path):
        if row.id == meeting:
            start = place + 1
    return [row.entry() for row in path[start:]]
