"""Run the calls of one reply: preflight in order, side by side, results in the order asked.

Whatever happens, each call ends with exactly one result: an unknown tool, bad arguments, a block,
a raise, a timeout, an abort.

A TaskGroup cannot be used for the bodies: it waits for its children for ever, and a body that
ignores its cancellation must be left behind.

Not here: what a batch knows of its calls (batch), whether one may run (preflight), or what becomes
of one that does (body).
"""

from __future__ import annotations

import asyncio

import msgspec

from ..events import ToolExecutionEnd, ToolExecutionUpdate
from ..messages import AgentToolResult, AssistantMessage, ToolCall, ToolResultMessage
from . import wording
from .batch import Batch, Slot
from .body import run_body
from .journal import Starting
from .preflight import preflight
from .run import Run

__all__ = ["abandon_tools", "run_tools"]


async def run_tools(run: Run, reply: AssistantMessage, calls: list[ToolCall]) -> None:
    """Answer every call of *reply*; the results are then part of the transcript."""
    batch = run.batch
    if batch is None or batch.reply is not reply:
        batch = run.batch = Batch(run, reply, calls)
    await _settle(batch)
    ends = batch.terminates and run.earlier_results_end
    run.progress.terminated = ends and not batch.parked
    if batch.parked:
        run.progress.parked = True
        run.notice_stop()
        run.progress.stopped_by = run.progress.stopped_by or "approval"
    run.batch = None


async def _settle(batch: Batch) -> None:
    """Bring every call to its result. After an interruption: go on where it happened."""
    unwatch = batch.watch()
    try:
        waits = False
        for group in batch.groups():
            for slot in group:
                if slot.task is None and not slot.ended:
                    await preflight(batch, slot)
                    if slot.outcome is not None:
                        await _end(batch, slot)
            await _execute(batch, group)
            for slot in group:
                if slot.parked and batch.stopped:
                    await _unpark(batch, slot)
                waits = waits or slot.parked
                if not waits:  # what comes behind a parked call waits for its place, too
                    await _announce(batch, slot)
            if waits:
                break  # one at a time: the next call may build on the one that waits
    finally:
        unwatch()


async def _execute(batch: Batch, group: list[Slot]) -> None:
    """Run the prepared calls of *group* side by side and report what they say."""
    await _launch(batch, group)
    deadline: float | None = None
    left = sum(not slot.ended for slot in group)
    while left:
        if batch.stopped and deadline is None:
            deadline = batch.loop.time() + batch.run.grace_seconds
            _stop_bodies(batch, group)
        batch.raise_fatal()
        for _ in range(len(batch.news)):  # one by one: a cancellation must lose none
            slot, partial = batch.news[0]
            if partial is None and not slot.ended:
                await _end(batch, slot)  # interrupted in there, we come here again
                left -= 1
            batch.news.popleft()
            if partial is not None and not slot.ended:  # else too late: it was left behind
                await _update(batch, slot, partial)
        if deadline is not None:
            left -= await _leave_behind(batch, group, late=batch.loop.time() >= deadline)
        if left and not batch.news:
            await batch.wait(deadline)
    batch.raise_fatal()


async def _launch(batch: Batch, group: list[Slot]) -> None:
    run = batch.run
    ready = [
        (slot, slot.tool, slot.bound)
        for slot in group
        if slot.task is None and slot.tool is not None and slot.bound is not None and not slot.ended
    ]
    if ready and run.journal is not None and not batch.stopped:
        starting = [
            Starting(slot.index, slot.call, tool, bound.args) for slot, tool, bound in ready
        ]
        await run.record(run.journal.begin(batch.reply, starting))
    for slot, tool, bound in ready:
        if not batch.stopped:
            slot.task = batch.loop.create_task(run_body(batch, slot, tool, bound))


async def _leave_behind(batch: Batch, group: list[Slot], *, late: bool) -> int:
    """After a stop: answer the calls that do not run, and when it is *late* those that do not
    return. Says how many."""
    answered = 0
    tasks: list[asyncio.Task[None]] = []
    for slot in group:
        task = slot.task
        never_began = task is None or (task.done() and slot.outcome is None)
        if not slot.ended and (never_began or late):
            slot.outcome = slot.outcome or batch.stopped_result()
            if task is not None:
                task.cancel()  # lets go of a thread that does not return
                tasks.append(task)
            await _end(batch, slot)
            answered += 1
    if tasks:
        await asyncio.wait(tasks, timeout=0.1)
    return answered


def _stop_bodies(batch: Batch, group: list[Slot]) -> None:
    """Ask every body to stop. A thread cannot be cancelled, only told; it keeps its grace."""
    batch.controller.abort(batch.run.signal.reason or "interrupted by a steering message")
    for slot in group:
        if slot.task is None or slot.tool is None:
            continue
        if slot.returned or slot.tool.runs_in != "thread":  # a hook behind a thread can be, too
            slot.task.cancel()
    batch.loop.call_soon(batch.wake)  # one that was stopped before its first step tells nothing


async def abandon_tools(batch: Batch) -> None:
    """The run ends without results: stop the bodies and wait for them, within the grace."""
    tasks = [slot.task for slot in batch.slots if slot.task is not None and not slot.task.done()]
    batch.interrupted = True
    _stop_bodies(batch, batch.slots)
    if tasks:
        _, late = await asyncio.wait(tasks, timeout=batch.run.grace_seconds)
        for task in late:
            task.cancel()
        if late:
            await asyncio.wait(late, timeout=0.1)


# -- reporting -------------------------------------------------------------------------------


async def _update(batch: Batch, slot: Slot, partial: AgentToolResult) -> None:
    call = slot.call
    await batch.run.emit(ToolExecutionUpdate(call.id, call.name, slot.args, partial))


async def _end(batch: Batch, slot: Slot) -> None:
    """Tell of the outcome, once the journal has it."""
    if slot.overdue is not None:
        slot.overdue.cancel()
    result = slot.outcome
    assert result is not None
    if slot.terminate and not result.terminate:
        result = slot.outcome = msgspec.structs.replace(result, terminate=True)
    await _record(batch, slot, result)
    result = slot.outcome or result
    slot.ended = True
    call = slot.call
    await batch.run.emit(ToolExecutionEnd(call.id, call.name, result, result.is_error))


async def _record(batch: Batch, slot: Slot, result: AgentToolResult) -> None:
    """The journal has the outcome before anybody hears of it."""
    if slot.message is None and not slot.parked:
        slot.message = ToolResultMessage(
            slot.call.id,
            slot.call.name,
            result.content,
            result.details,
            result.is_error,
            result.usage,
        )
    run = batch.run
    if slot.message is None or slot.durable:
        return
    if run.journal is not None:
        writing = run.journal.ended(batch.reply, slot.index, slot.message, result.terminate)
        await run.record(writing)
        slot.durable = True
    if run.journal_lost and not result.is_error:  # nobody may take it for done
        lost = slot.outcome = wording.refused(run.failure or "The result is lost.")
        slot.message = msgspec.structs.replace(
            slot.message, content=lost.content, details=None, is_error=True
        )


async def _unpark(batch: Batch, slot: Slot) -> None:
    """The run is stopped, or the user has said something else: nobody needs to decide."""
    slot.parked = False
    slot.outcome = batch.stopped_result()
    await _record(batch, slot, slot.outcome)


async def _announce(batch: Batch, slot: Slot) -> None:
    if slot.announced:
        return
    slot.announced = True
    message = slot.message
    assert message is not None
    batch.run.results.append(message)
    await batch.run.announce(message)
