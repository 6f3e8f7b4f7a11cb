"""What is unfinished on a lane: taking it up, giving it up, and refusing what it stands in the way of.

Not here: where a run goes on (resume), driving it there (driver), or who may ask (harness).
"""

from __future__ import annotations

import msgspec

from ..errors import OperationOpen, OperationParked
from ..loop.run_result import OutputT, RunResult
from ..messages import Usage
from ..session.entries import now_ms
from ..session.rows import Operation, UsageRow
from ..session.session import Session
from ..session.store import Commit
from .driver import LaneDriver, cancelled
from .resume import plan_resume

__all__ = ["RESTART_LIMIT", "give_up", "refuse_unfinished", "take_up"]

RESTART_LIMIT = 5
"""An operation taken up so often without getting any further is left alone."""


def refuse_unfinished(session: Session) -> None:
    """Raise `OperationOpen` if something is unfinished on the lane."""
    operation = session.operation
    if operation is None:
        return
    waiting = [a.tool_name for a in session.approvals.values() if a.status == "pending"]
    why = f" that waits for approval of {', '.join(waiting)}" if waiting else ""
    raise OperationOpen(
        f"the lane {session.lane.name!r} of session {session.id} has an unfinished "
        f"{operation.kind}{why}",
        hint="approve() or deny() what waits, then resume(); abort() gives it up"
        if waiting
        else "resume() drives it to its end, abort() gives it up",
    )


async def take_up(driver: LaneDriver[OutputT], *, parked: bool) -> RunResult[OutputT] | None:
    """Drive what is open to its end; None if nothing is. See `Harness.resume`."""
    session = driver.session
    operation = session.operation
    if operation is None:
        return None
    await session.refresh()
    operation = await _heed_waiting_cancel(driver, operation)
    if operation.status == "open":
        operation = await _count_restart(session, operation, parked)
    elif any(a.status != "pending" for a in session.approvals.values()):
        operation = msgspec.structs.replace(operation, status="open")
        await session.commit(Commit(operations=[operation]))
    if operation.kind == "compaction":
        await driver.compactor.take_up(operation)
        driver.show_transcript()
        return RunResult([], "stop")
    if operation.kind == "navigation":
        await driver.new_navigator().take_up(operation)
        driver.show_transcript()
        return RunResult([], "stop")
    plan = plan_resume(session.branch.entries, operation.id)
    operation = msgspec.structs.replace(operation, status="open")
    journal = driver.journal_of(operation)
    journal.take_up(plan)
    driven = await driver.drive([], journal, plan)
    whole = await driver.result_of(operation.id, at_leaf=True)
    return msgspec.structs.replace(
        driven, messages=whole.messages, usage=whole.usage, undelivered=driven.undelivered
    )


async def give_up(driver: LaneDriver[OutputT], operation: Operation, reason: str | None) -> None:
    """Bring *operation*, which nobody drives, to its end as aborted."""
    session = driver.session
    await session.refresh()
    stopped = cancelled(operation, reason)
    if stopped.kind != "run":
        stopped = msgspec.structs.replace(stopped, status="aborted", finished_at=now_ms())
        lane = session.lane_at(session.tip.leaf_id, operation_id=None)
        await session.commit(Commit(lanes=[lane], operations=[stopped]))
        return
    await session.commit(Commit(operations=[stopped]))
    plan = plan_resume(session.branch.entries, operation.id)
    journal = driver.journal_of(msgspec.structs.replace(stopped, status="open"))
    journal.take_up(plan)
    await driver.drive([], journal, plan)


async def _count_restart(session: Session, operation: Operation, parked: bool) -> Operation:
    """One more start without progress; too many of them and it is left alone."""
    if operation.restarts >= RESTART_LIMIT and not parked:
        operation = msgspec.structs.replace(operation, parked=True)
        await session.commit(Commit(operations=[operation]))
        raise OperationParked(
            f"the {operation.kind} {operation.id} of session {session.id} was taken up "
            f"{operation.restarts} times and never got any further",
            hint="look at what it does at that point; resume(parked=True) tries once more, "
            "abort() gives it up",
        )
    restarts = 0 if parked else operation.restarts + 1
    operation = msgspec.structs.replace(operation, restarts=restarts, parked=False)
    commit = Commit(operations=[operation])
    plan = plan_resume(session.branch.entries, operation.id)
    if operation.kind == "run" and operation.cancelled_at is None and plan.next == "ask":
        # Whether the request that was lost reached the model, and what it cost, nobody knows.
        lost = UsageRow(cause="lost", usage=Usage(), operation_id=operation.id)
        commit.usage.append(lost)
    await session.commit(commit)
    return operation


async def _heed_waiting_cancel(driver: LaneDriver[OutputT], operation: Operation) -> Operation:
    """*operation*, cancelled if somebody asked for that while nobody drove it."""
    requests = await driver.inbox.look()
    meant = [r for r in requests if r.operation_id in (None, operation.id)]
    if not requests:
        return operation
    if meant and operation.cancelled_at is None:
        operation = cancelled(operation, meant[0].reason)
    done = [msgspec.structs.replace(request, status="placed") for request in requests]
    await driver.session.commit(Commit(operations=[operation], inbox=done))
    return operation
