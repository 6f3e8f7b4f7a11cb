"""One tool at work, in a task of its own: whatever it does, an outcome comes of it.

Its limit of time, its updates, the hook behind it, and every way in which foreign code can fail
are dealt with here. Word of it goes to the batch's inbox; nothing here reports an event.

Not here: when bodies are started and stopped (dispatch).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from ..messages import AgentToolResult
from . import wording
from .batch import Batch, Slot
from .faults import is_failure
from .hook_calls import is_hook_fault
from .hooks import AfterToolCall, AfterToolCallResult, check_returned
from .results import cap_result
from .run import Run
from .tool import AgentTool, BoundCall, ToolContext

__all__ = ["run_body"]


async def run_body(batch: Batch, slot: Slot, tool: AgentTool[Any, Any], bound: BoundCall) -> None:
    """Run *tool*: its outcome goes to the slot, and word of it to the inbox."""
    run = batch.run
    if batch.stopped:  # since it was launched
        slot.outcome = batch.stopped_result()
        batch.tell(slot, None)
        return
    if tool.timeout is not None:
        limit = tool.timeout + run.grace_seconds
        slot.overdue = batch.loop.call_later(limit, _overdue, batch, slot, tool)

    def deliver(partial: AgentToolResult) -> None:
        if slot.outcome is None:
            batch.tell(slot, partial)

    context = ToolContext(slot.call.id, batch.controller.signal, run.config.deps, deliver)
    try:
        if tool.timeout is None:
            result = cap_result(await _invoke(run, tool, bound, context))
        else:
            result = cap_result(await _within(tool.timeout, run, tool, bound, context))
    except GeneratorExit as error:
        if _is_gone(batch.loop):
            raise
        result = wording.raised(tool.name, error)
    except asyncio.CancelledError:
        # Ours if the batch was stopped; a tool that raises it by itself has failed.
        result = batch.stopped_result() if batch.stopped else wording.cancelled(tool.name)
    except BaseException as error:  # noqa: BLE001 - a tool is foreign code
        if not is_failure(error):
            batch.note_fatal(error)  # raised again in the kernel's task
        result = wording.raised(tool.name, error)
    slot.returned = True
    if slot.overdue is not None:
        slot.overdue.cancel()  # the tool kept its time; what a hook takes is not its fault
    hook = run.config.hook("after_tool_call")
    if hook is not None:
        result = await _after(batch, slot, bound, hook, result)
    if slot.outcome is None:
        slot.outcome = result
        batch.tell(slot, None)


def _invoke(
    run: Run, tool: AgentTool[Any, Any], bound: BoundCall, context: ToolContext
) -> Awaitable[AgentToolResult]:
    invoke = run.config.invoke_tool
    return tool.invoke(bound, context) if invoke is None else invoke(tool, bound, context)


async def _within(
    limit: float, run: Run, tool: AgentTool[Any, Any], bound: BoundCall, context: ToolContext
) -> AgentToolResult:
    timer = asyncio.timeout(limit)
    try:
        async with timer:
            return await _invoke(run, tool, bound, context)
    except TimeoutError:
        if timer.expired():
            return wording.timed_out(tool.name, limit)
        raise


def _overdue(batch: Batch, slot: Slot, tool: AgentTool[Any, Any]) -> None:
    """A body that did not heed its timeout is left behind."""
    if slot.outcome is None:
        slot.outcome = wording.timed_out(tool.name, tool.timeout or 0.0)
        batch.tell(slot, None)
        if slot.task is not None:
            slot.task.cancel()  # what waits behind the swallowed cancellation is let go of


async def _after(
    batch: Batch, slot: Slot, bound: BoundCall, hook: Callable[..., Any], result: AgentToolResult
) -> AgentToolResult:
    """The result as the hook wants it. A hook that fails changes nothing, and is reported."""
    run = batch.run
    question = AfterToolCall(
        batch.reply, slot.call, bound.args, result, result.is_error, run.context
    )
    try:
        change = hook(question, run.signal)
        if hasattr(change, "__await__"):
            change = await change
        check_returned(change, AfterToolCallResult, "after_tool_call")
        return result if change is None else cap_result(_changed(result, change))
    except GeneratorExit as error:
        if _is_gone(batch.loop):
            raise
        run.report_fault(error, "after_tool_call")
    except asyncio.CancelledError as error:
        if not batch.stopped:  # the hook cancelled itself
            run.report_fault(error, "after_tool_call")
    except BaseException as error:  # noqa: BLE001 - a hook is foreign code, and ends no program
        if is_hook_fault(error):
            run.report_fault(error, "after_tool_call")
        else:
            batch.note_fatal(error)  # raised again in the kernel's task
    return result


def _is_gone(loop: asyncio.AbstractEventLoop) -> bool:
    """The event loop has ended, and whoever waited with it: the task is being thrown away."""
    return loop.is_closed() or not loop.is_running()


def _changed(result: AgentToolResult, change: AfterToolCallResult) -> AgentToolResult:
    """Each field that is set replaces that field, whole."""
    names = ("content", "details", "is_error", "terminate", "usage")
    fields = {name: getattr(change, name) for name in names}
    return msgspec.structs.replace(
        result, **{name: value for name, value in fields.items() if value is not None}
    )
