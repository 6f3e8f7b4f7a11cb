"""Whether a call may run: lookup, arguments, the gate, approval.

After its preflight a call has one of two things: arguments that its body can be given, or an
outcome that says why it does not run. No reason for that stops the run.

Not here: running it (body), or how the model is told (wording).
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, cast

from ..events import ToolExecutionStart
from . import wording
from .batch import Batch, Slot
from .hooks import BeforeToolCall, BeforeToolCallResult, check_returned
from .interrupt import Interrupted
from .journal import Starting
from .tool import AgentTool, ArgumentsRejected, BoundCall

__all__ = ["preflight"]


async def preflight(batch: Batch, slot: Slot) -> None:
    """Give the call its bound arguments, or its outcome. May be called again after an
    interruption: what was told or decided is not told or decided twice."""
    if not slot.started:
        slot.started = True
        call = slot.call
        slot.args = _copied(call.arguments)
        await batch.run.emit(ToolExecutionStart(call.id, call.name, slot.args))
    if slot.outcome is not None or slot.bound is not None or await _recall(batch, slot):
        return
    if batch.refused:
        slot.outcome = wording.refused(wording.cut_by_length(slot.call.name))
    elif batch.stopped:
        slot.outcome = batch.stopped_result()
    else:
        await _examine(batch, slot)


async def _recall(batch: Batch, slot: Slot) -> bool:
    """Take up what is known of the call from before this run. False if it is new."""
    journal, call = batch.run.journal, slot.call
    known = None if journal is None else journal.recall(batch.reply, slot.index, call)
    if known is None:
        return False
    slot.message = known.message
    slot.durable = known.kind == "ended"
    if known.kind == "parked":
        slot.parked = True
        slot.outcome = wording.waits_for_approval(call.name)
    elif known.kind == "again" and not batch.stopped:
        tool = _look_up(batch, slot)
        if tool is not None:
            _bind(slot, tool, known.arguments or {})
            gate = batch.run.config.hook("before_tool_call")
            if known.approved and gate is not None and slot.bound is not None:
                # The mode, or a rule, may have changed since somebody said yes.
                await _pass_gate(batch, slot, tool, slot.bound, gate, approved=True)
    else:
        slot.outcome = known.result or batch.stopped_result()
    return True


async def _examine(batch: Batch, slot: Slot) -> None:
    """Everything that a call has to pass which is neither known nor hopeless."""
    call = slot.call
    tool = _look_up(batch, slot)
    if tool is not None:
        if call.arguments_error is not None:
            slot.outcome = wording.refused(wording.unreadable_arguments(call))
        else:
            _bind(slot, tool, call.arguments)
    if tool is None or slot.bound is None:
        return  # a gate is only asked about what could run
    gate = batch.run.config.hook("before_tool_call")
    approval: bool | None = None
    if gate is not None:
        approval = await _pass_gate(batch, slot, tool, slot.bound, gate)
    if slot.outcome is not None:
        return
    if tool.approval if approval is None else approval:
        await _park(batch, slot, tool, slot.bound)


def _look_up(batch: Batch, slot: Slot) -> AgentTool[Any, Any] | None:
    tools, name = batch.run.tools, slot.call.name
    slot.tool = tools.get(name)
    if slot.tool is None:
        slot.outcome = wording.refused(wording.unknown_tool(name, tools))
    return slot.tool


def _bind(slot: Slot, tool: AgentTool[Any, Any], arguments: dict[str, Any]) -> None:
    try:
        slot.bound = tool.bind(arguments)
    except ArgumentsRejected as error:
        slot.outcome = wording.refused(str(error))


async def _pass_gate(
    batch: Batch,
    slot: Slot,
    tool: AgentTool[Any, Any],
    bound: BoundCall,
    gate: Callable[..., Any],
    *,
    approved: bool = False,
) -> bool | None:
    """Ask the hook, which sees a copy of the arguments. One that raises, or is late, blocks the call.

    Returns whether it wants the call approved, None if it leaves that open.
    """
    run, call = batch.run, slot.call
    args = copy.deepcopy(bound.args)
    question = BeforeToolCall(batch.reply, call, args, run.context, approved)
    verdict: BeforeToolCallResult | None = None
    batch.at_gate = True
    try:
        verdict = await run.call(gate, question, run.signal)
        check_returned(verdict, BeforeToolCallResult, "before_tool_call")
    except Interrupted:
        verdict = None
    except Exception as error:  # noqa: BLE001 - a hook is foreign code
        run.report_fault(error, "before_tool_call")
        fault = wording.hook_raised("before_tool_call", call.name, error)
        slot.outcome = wording.refused(fault)
    finally:
        batch.at_gate = False
    if batch.stopped:
        slot.outcome = batch.stopped_result()
    if verdict is None or slot.outcome is not None:
        return None
    slot.terminate = verdict.terminate
    if verdict.block:
        slot.outcome = wording.refused(verdict.reason or wording.blocked(call.name))
    elif verdict.args is not None and not approved:
        _bind(slot, tool, verdict.args)
    return verdict.approval


async def _park(batch: Batch, slot: Slot, tool: AgentTool[Any, Any], bound: BoundCall) -> None:
    """Somebody must say yes before this is run."""
    run, call = batch.run, slot.call
    if run.journal is None:
        slot.outcome = wording.refused(wording.needs_approval(call.name))
        return
    starting = Starting(slot.index, call, tool, bound.args)
    await run.record(run.journal.park(batch.reply, starting))
    slot.bound = None
    slot.parked = True
    slot.outcome = wording.waits_for_approval(call.name)


def _copied(value: Any) -> Any:
    """A deep copy of JSON data, several times faster than `copy.deepcopy`."""
    if type(value) is dict:
        fields = cast("dict[Any, Any]", value)
        return {key: _copied(item) for key, item in fields.items()}
    if type(value) is list:
        return [_copied(item) for item in cast("list[Any]", value)]
    return value
