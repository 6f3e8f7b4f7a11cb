"""Run the calls of one reply: preflight in order, side by side, results in the order asked.

Whatever happens, each call ends with exactly one result: an unknown tool, bad arguments, a block,
a raise, a timeout, an abort. A batch remembers what it has told of each call, so that after an
interruption it can be gone on with and still pairs every start with one end.

Each body runs in a task of its own that leaves what it has to say in one inbox; only the kernel's
task reads that and reports it. A TaskGroup cannot be used for them: it waits for its children for
ever, and a body that ignores its cancellation must be left behind.

Not here: what a tool is (tool), or how hooks look (hooks).
"""

from __future__ import annotations

import asyncio
import copy
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any, cast

import msgspec

from ..events import ToolExecutionEnd, ToolExecutionStart, ToolExecutionUpdate
from ..messages import AgentToolResult, AssistantMessage, ToolCall, ToolResultMessage
from ..signals import AbortController
from . import wording
from .hooks import AfterToolCall, AfterToolCallResult, BeforeToolCall, BeforeToolCallResult
from .interrupt import Interrupted
from .journal import Starting
from .results import cap_result
from .run import Run
from .tool import AgentTool, ArgumentsRejected, BoundCall, ToolContext

__all__ = ["Batch", "run_tools"]


class _Slot:
    """One call of the batch. Tracked by its place, since ids may repeat."""

    __slots__ = (
        "announced",
        "args",
        "bound",
        "call",
        "durable",
        "ended",
        "index",
        "message",
        "outcome",
        "overdue",
        "parked",
        "returned",
        "started",
        "task",
        "terminate",
        "tool",
        "unknown",
    )

    def __init__(self, index: int, call: ToolCall) -> None:
        self.index = index
        self.call = call
        self.message: ToolResultMessage | None = None
        self.durable = False
        """The journal has the outcome."""
        self.parked = False
        """Waits for somebody's approval; the run ends without its result."""
        self.tool: AgentTool[Any, Any] | None = None
        self.bound: BoundCall | None = None
        self.task: asyncio.Task[None] | None = None
        self.args: Any = None
        """What events show: a copy, since listeners must not change what is run."""
        self.overdue: asyncio.TimerHandle | None = None
        self.outcome: AgentToolResult | None = None
        self.terminate = False
        self.unknown = False
        self.started = False
        self.returned = False
        self.ended = False
        self.announced = False

    def needs_approval(self, asked: bool | None) -> bool:
        """By the gate's word, else the tool's own."""
        if asked is not None:
            return asked
        return self.tool is not None and self.tool.approval


class Batch:
    """The calls of one reply on their way to results."""

    def __init__(self, run: Run, reply: AssistantMessage, calls: list[ToolCall]) -> None:
        self.run = run
        self.reply = reply
        self.slots = _slots(reply, calls)
        self.controller = AbortController()
        """Tools see this signal: it fires with the run's, and when steering interrupts them."""
        self.refused = reply.stop_reason == "length"
        """The reply was cut by the output limit: nothing in it can be trusted to be whole."""
        self.interrupted = False
        self.fatal: BaseException | None = None
        self._news: deque[tuple[_Slot, AgentToolResult | None]] = deque()
        self._open = 0  # calls of the present group that have not ended
        self._at_gate = False  # `before_tool_call` is being awaited
        self._waiter: asyncio.Future[None] | None = None
        self._loop = asyncio.get_running_loop()

    # -- settings -----------------------------------------------------------------------------

    @property
    def stopped(self) -> bool:
        """No tool may be started any more."""
        return self.run.signal.aborted or self.interrupted

    def groups(self) -> list[list[_Slot]]:
        """What runs side by side: everything, or one call at a time."""
        run = self.run
        tools = [run.tools.get(slot.call.name) for slot in self.slots]
        one_by_one = (
            self.refused
            or run.config.tool_execution == "sequential"
            or any(tool is not None and tool.execution_mode == "sequential" for tool in tools)
        )
        return [[slot] for slot in self.slots] if one_by_one else [self.slots]

    def interrupt(self) -> None:
        """A steering message is not willing to wait. May be called from any thread."""
        self.interrupted = True  # at once, so that a preflight in progress starts nothing more
        try:
            self._loop.call_soon_threadsafe(self._heed_interrupt)
        except RuntimeError:  # the loop is gone, and the batch with it
            return

    def _heed_interrupt(self) -> None:
        self.controller.abort("interrupted by a steering message")
        if self._at_gate:
            self.run.interrupt.cut()  # a gate may wait for a person
        self._wake()

    def _heed_stop(self) -> None:
        """The run is stopped: tools hear of it at once, whatever the kernel is waiting for."""
        self.controller.abort(self.run.signal.reason)
        self._wake()

    # -- running ------------------------------------------------------------------------------

    async def settle(self) -> None:
        """Bring every call to its result. After an interruption: go on where it happened."""
        run = self.run
        if run.inbox.urgent:
            self.interrupted = True
        run.inbox.watch(self.interrupt)
        unregister = run.signal.on_abort(self._heed_stop)
        try:
            waits = False
            for group in self.groups():
                for slot in group:
                    await self._preflight(slot)
                await self._execute(group)
                for slot in group:
                    if slot.parked and self.stopped:
                        await self._unpark(slot)
                    waits = waits or slot.parked
                    if not waits:  # what comes behind a parked call waits for its place, too
                        await self._announce(slot)
                if waits:
                    break  # one at a time: the next call may build on the one that waits
        finally:
            unregister()
            run.inbox.watch(None)

    async def _preflight(self, slot: _Slot) -> None:
        """Start, lookup, repair, validation, gate; a call that fails one of them is settled."""
        run = self.run
        if slot.ended or slot.task is not None:
            return
        if not slot.started:
            slot.started = True
            call = slot.call
            slot.args = _copied(call.arguments)
            await run.emit(ToolExecutionStart(call.id, call.name, slot.args))
        if slot.outcome is None and slot.bound is None and not self._recall(slot):
            slot.outcome = self._look_up(slot)
            gate = run.config.hook("before_tool_call")
            approval: bool | None = None
            if gate is not None and (slot.bound is not None or slot.unknown):
                approval = await self._pass_gate(gate, slot)
            if slot.outcome is None and slot.bound is not None and slot.needs_approval(approval):
                await self._park(slot, slot.bound)
        if slot.outcome is not None:
            await self._end(slot)

    def _look_up(self, slot: _Slot) -> AgentToolResult | None:
        """Find the tool and bind its arguments. Returns why that cannot be, or None."""
        run, call = self.run, slot.call
        if self.refused:
            return wording.refused(wording.cut_by_length(call.name))
        if self.stopped:
            return self._stopped_result()
        tool = slot.tool = run.tools.get(call.name)
        if tool is None:
            slot.unknown = True
            return wording.refused(wording.unknown_tool(call.name, run.tools))
        if call.arguments_error is not None:
            return wording.refused(wording.unreadable_arguments(call))
        return self._bind(slot, tool, call.arguments)

    def _bind(
        self, slot: _Slot, tool: AgentTool[Any, Any], arguments: dict[str, Any]
    ) -> AgentToolResult | None:
        try:
            slot.bound = tool.bind(arguments)
        except ArgumentsRejected as error:
            return wording.refused(str(error))
        return None

    def _recall(self, slot: _Slot) -> bool:
        """Take up what is known of the call from before this run. False if it is new."""
        journal, call = self.run.journal, slot.call
        known = None if journal is None else journal.recall(self.reply, slot.index, call)
        if known is None:
            return False
        slot.message = known.message
        slot.durable = known.kind == "ended"
        if known.kind == "parked":
            slot.parked = True
            slot.outcome = wording.waits_for_approval(call.name)
        elif known.kind == "again" and not self.stopped:
            tool = slot.tool = self.run.tools.get(call.name)
            if tool is None:
                slot.outcome = wording.refused(wording.unknown_tool(call.name, self.run.tools))
            else:
                slot.outcome = self._bind(slot, tool, known.arguments or {})
        else:
            slot.outcome = known.result or self._stopped_result()
        return True

    async def _park(self, slot: _Slot, bound: BoundCall) -> None:
        """Somebody must say yes before this is run."""
        run, call, tool = self.run, slot.call, slot.tool
        assert tool is not None
        if run.journal is None:
            slot.outcome = wording.refused(wording.needs_approval(call.name))
            return
        starting = Starting(slot.index, call, tool, bound.args)
        await run.record(run.journal.park(self.reply, starting))
        slot.bound = None
        slot.parked = True
        slot.outcome = wording.waits_for_approval(call.name)

    async def _pass_gate(self, gate: Callable[..., Any], slot: _Slot) -> bool | None:
        """Ask the hook, which sees a copy of the arguments. One that raises blocks the call.

        It is shown calls of unknown tools as well, but cannot make them run. Returns whether it
        wants the call approved, if it has a word in that.
        """
        run, call, bound = self.run, slot.call, slot.bound
        args = copy.deepcopy(call.arguments if bound is None else bound.args)
        question = BeforeToolCall(self.reply, call, args, run.context)
        verdict: BeforeToolCallResult | None = None
        self._at_gate = True
        try:
            verdict = await run.call(gate, question, run.signal)
            _check_type(verdict, BeforeToolCallResult, "before_tool_call")
        except Interrupted:
            verdict = None
        except Exception as error:  # noqa: BLE001 - a hook is foreign code
            report_fault(run, error, "before_tool_call")
            fault = wording.hook_raised("before_tool_call", call.name, error)
            slot.outcome = slot.outcome or wording.refused(fault)
        finally:
            self._at_gate = False
        if self.stopped:
            slot.outcome = self._stopped_result()
        if verdict is None or slot.outcome is not None or slot.tool is None:
            return None
        slot.terminate = verdict.terminate
        if verdict.block:
            slot.outcome = wording.refused(verdict.reason or wording.blocked(call.name))
        elif verdict.args is not None:
            slot.outcome = self._bind(slot, slot.tool, verdict.args)
        return verdict.approval

    async def _execute(self, group: list[_Slot]) -> None:
        """Run the prepared calls of *group* side by side and report what they say."""
        ready = [s for s in group if s.task is None and s.bound is not None and not s.ended]
        if ready and self.run.journal is not None and not self.stopped:
            await self.run.record(self.run.journal.begin(self.reply, _starting(ready)))
        for slot in ready:
            if not self.stopped:
                self._launch(slot)
        self._open = sum(not slot.ended for slot in group)
        deadline: float | None = None
        while self._open:
            if self.stopped and deadline is None:
                deadline = self._loop.time() + self.run.grace_seconds
                self._stop_bodies(group)
            self._raise_fatal()
            for _ in range(len(self._news)):  # one by one: a cancellation must lose none
                slot, partial = self._news[0]
                if partial is None and not slot.ended:
                    await self._end(slot)  # interrupted in there, we come here again
                self._news.popleft()
                if partial is not None and not slot.ended:  # else too late: it was left behind
                    await self._update(slot, partial)
            if deadline is not None:
                late = self._loop.time() >= deadline
                left_behind: list[asyncio.Task[None]] = []
                for slot in group:
                    if not slot.ended and (slot.task is None or late):
                        slot.outcome = slot.outcome or self._stopped_result()
                        if slot.task is not None:
                            slot.task.cancel()  # lets go of a thread that does not return
                            left_behind.append(slot.task)
                        await self._end(slot)
                if left_behind:
                    await asyncio.wait(left_behind, timeout=0.1)
            if self._open and not self._news:
                await self._wait(deadline)
        self._raise_fatal()

    def _launch(self, slot: _Slot) -> None:
        tool = slot.tool
        assert tool is not None
        slot.task = self._loop.create_task(self._body(slot))
        if tool.timeout is not None:
            limit = tool.timeout + self.run.grace_seconds
            slot.overdue = self._loop.call_later(limit, self._overdue, slot)

    async def _body(self, slot: _Slot) -> None:
        """One tool, in its own task: its outcome goes to the slot, and word of it to the inbox."""
        tool, bound = slot.tool, slot.bound
        assert tool is not None
        assert bound is not None
        run = self.run

        def deliver(partial: AgentToolResult) -> None:
            if slot.outcome is None:
                self._tell(slot, partial)

        context = ToolContext(slot.call.id, self.controller.signal, run.config.deps, deliver)
        try:
            if tool.timeout is None:
                result = cap_result(await self._invoke(tool, bound, context))
            else:
                result = cap_result(await self._within(tool, bound, context))
        except GeneratorExit as error:
            if self._loop.is_closed() or not self._loop.is_running():
                raise  # the event loop is gone, and whoever waited
            result = wording.raised(tool.name, error)
        except asyncio.CancelledError:
            # Ours if the batch was stopped; a tool that raises it by itself has failed.
            result = self._stopped_result() if self.stopped else wording.cancelled(tool.name)
        except Exception as error:  # noqa: BLE001 - a tool is foreign code
            result = wording.raised(tool.name, error)
        except BaseException as error:  # noqa: BLE001 - raised again in the kernel's task
            self._note_fatal(error)
            result = wording.raised(tool.name, error)
        slot.returned = True
        if slot.overdue is not None:
            slot.overdue.cancel()  # the tool kept its time; what a hook takes is not its fault
        hook = run.config.hook("after_tool_call")
        if hook is not None:
            result = await self._after(hook, slot, result)
        if slot.outcome is None:
            slot.outcome = result
            self._tell(slot, None)

    def _invoke(
        self, tool: AgentTool[Any, Any], bound: BoundCall, context: ToolContext
    ) -> Awaitable[AgentToolResult]:
        invoke = self.run.config.invoke_tool
        return tool.invoke(bound, context) if invoke is None else invoke(tool, bound, context)

    async def _within(
        self, tool: AgentTool[Any, Any], bound: BoundCall, context: ToolContext
    ) -> AgentToolResult:
        limit = tool.timeout
        assert limit is not None
        timer = asyncio.timeout(limit)
        try:
            async with timer:
                return await self._invoke(tool, bound, context)
        except TimeoutError:
            if timer.expired():
                return wording.timed_out(tool.name, limit)
            raise

    async def _after(
        self, hook: Callable[..., Any], slot: _Slot, result: AgentToolResult
    ) -> AgentToolResult:
        """The result as the hook wants it. A hook that fails changes nothing, and is reported."""
        run, bound = self.run, slot.bound
        assert bound is not None
        question = AfterToolCall(
            self.reply, slot.call, bound.args, result, result.is_error, run.context
        )
        try:
            change = hook(question, run.signal)
            if hasattr(change, "__await__"):
                change = await change
            _check_type(change, AfterToolCallResult, "after_tool_call")
            return result if change is None else cap_result(_changed(result, change))
        except GeneratorExit as error:
            if self._loop.is_closed() or not self._loop.is_running():
                raise
            report_fault(run, error, "after_tool_call")
        except asyncio.CancelledError as error:
            if not self.stopped:  # the hook cancelled itself
                report_fault(run, error, "after_tool_call")
        except Exception as error:  # noqa: BLE001 - a hook is foreign code
            report_fault(run, error, "after_tool_call")
        except BaseException as error:  # noqa: BLE001 - raised again in the kernel's task
            self._note_fatal(error)
        return result

    # -- the inbox ----------------------------------------------------------------------------

    def _tell(self, slot: _Slot, partial: AgentToolResult | None) -> None:
        self._news.append((slot, partial))
        self._wake()

    def _note_fatal(self, error: BaseException) -> None:
        if self.run.cause != "cancelled":  # the run is being closed already, perhaps for another
            self.fatal = error

    def _raise_fatal(self) -> None:
        """What no `except Exception` stops ends the run, in the kernel's task."""
        fatal, self.fatal = self.fatal, None
        if fatal is not None:
            raise fatal

    def _wake(self) -> None:
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def _wait(self, deadline: float | None) -> None:
        self._waiter = waiter = self._loop.create_future()
        timer = None if deadline is None else self._loop.call_at(deadline, self._wake)
        try:
            if self.stopped and deadline is None:
                return  # the stop came while something else was awaited
            await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()

    def _overdue(self, slot: _Slot) -> None:
        """A body that did not heed its timeout is left behind."""
        if slot.outcome is None and slot.tool is not None:
            slot.outcome = wording.timed_out(slot.tool.name, slot.tool.timeout or 0.0)
            self._tell(slot, None)
            if slot.task is not None:
                slot.task.cancel()  # what waits behind the swallowed cancellation is let go of

    # -- stopping -----------------------------------------------------------------------------

    def _stopped_result(self) -> AgentToolResult:
        if self.interrupted and not self.run.signal.aborted:
            return wording.refused(wording.INTERRUPTED)
        return wording.refused(wording.ABORTED)

    def _stop_bodies(self, group: list[_Slot]) -> None:
        """Ask every body to stop. A thread cannot be cancelled, only told; it keeps its grace."""
        self.controller.abort(self.run.signal.reason or "interrupted by a steering message")
        for slot in group:
            if slot.task is None or slot.tool is None:
                continue
            if slot.returned or slot.tool.runs_in != "thread":  # a hook behind a thread can be, too
                slot.task.cancel()

    async def abandon(self) -> None:
        """The run ends without results: stop the bodies and wait for them, within the grace."""
        tasks = [slot.task for slot in self.slots if slot.task is not None and not slot.task.done()]
        self.interrupted = True
        self._stop_bodies(self.slots)
        if tasks:
            _, late = await asyncio.wait(tasks, timeout=self.run.grace_seconds)
            for task in late:
                task.cancel()
            if late:
                await asyncio.wait(late, timeout=0.1)

    # -- reporting ----------------------------------------------------------------------------

    async def _update(self, slot: _Slot, partial: AgentToolResult) -> None:
        call = slot.call
        await self.run.emit(ToolExecutionUpdate(call.id, call.name, slot.args, partial))

    async def _end(self, slot: _Slot) -> None:
        if slot.ended:
            return
        if slot.overdue is not None:
            slot.overdue.cancel()
        result = slot.outcome
        assert result is not None
        if slot.terminate and not result.terminate:
            result = slot.outcome = msgspec.structs.replace(result, terminate=True)
        await self._record(slot, result)
        result = slot.outcome or result
        slot.ended = True
        self._open -= 1
        call = slot.call
        await self.run.emit(ToolExecutionEnd(call.id, call.name, result, result.is_error))

    async def _record(self, slot: _Slot, result: AgentToolResult) -> None:
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
        run = self.run
        if slot.message is None or slot.durable:
            return
        if run.journal is not None:
            writing = run.journal.ended(self.reply, slot.index, slot.message, result.terminate)
            await run.record(writing)
            slot.durable = True
        if run.journal_lost and not result.is_error:  # nobody may take it for done
            lost = slot.outcome = wording.refused(run.failure or "The result is lost.")
            slot.message = msgspec.structs.replace(
                slot.message, content=lost.content, details=None, is_error=True
            )

    async def _unpark(self, slot: _Slot) -> None:
        """The run is stopped, or the user has said something else: nobody needs to decide."""
        slot.parked = False
        slot.outcome = self._stopped_result()
        await self._record(slot, slot.outcome)

    async def _announce(self, slot: _Slot) -> None:
        if slot.announced:
            return
        slot.announced = True
        message = slot.message
        assert message is not None
        self.run.results.append(message)
        await self.run.announce(message)

    @property
    def parked(self) -> bool:
        """Some call waits for an approval."""
        return any(slot.parked for slot in self.slots)

    @property
    def terminates(self) -> bool:
        """Every result asks for the run to end. After a stop nobody's wish counts."""
        return (
            bool(self.slots)
            and not self.run.signal.aborted
            and all(slot.outcome is not None and slot.outcome.terminate for slot in self.slots)
        )


async def run_tools(run: Run, reply: AssistantMessage, calls: list[ToolCall]) -> None:
    """Answer every call of *reply*; the results are then part of the transcript."""
    batch = run.batch
    if batch is None or batch.reply is not reply:
        batch = run.batch = Batch(run, reply, calls)
    await batch.settle()
    ends = batch.terminates and run.earlier_results_end
    run.progress.terminated = ends and not batch.parked
    if batch.parked:
        run.progress.parked = True
        run.notice_stop()
        run.progress.stopped_by = run.progress.stopped_by or "approval"
    run.batch = None


def _slots(reply: AssistantMessage, calls: list[ToolCall]) -> list[_Slot]:
    """One for each of *calls*, which are those of *reply* that have no result yet."""
    slots: list[_Slot] = []
    for index, call in enumerate(reply.tool_calls):
        if len(slots) < len(calls) and call is calls[len(slots)]:
            slots.append(_Slot(index, call))
    return slots


def _starting(slots: list[_Slot]) -> list[Starting]:
    """What the journal is told of calls that are about to run."""
    found: list[Starting] = []
    for slot in slots:
        assert slot.tool is not None
        assert slot.bound is not None
        found.append(Starting(slot.index, slot.call, slot.tool, slot.bound.args))
    return found


def _check_type(value: Any, kind: type, hook: str) -> None:
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{hook} returned {type(value).__name__}, not {kind.__name__} or None")


def _copied(value: Any) -> Any:
    """A deep copy of JSON data, several times faster than `copy.deepcopy`."""
    if type(value) is dict:
        fields = cast("dict[Any, Any]", value)
        return {key: _copied(item) for key, item in fields.items()}
    if type(value) is list:
        return [_copied(item) for item in cast("list[Any]", value)]
    return value


def _changed(result: AgentToolResult, change: AfterToolCallResult) -> AgentToolResult:
    """Each field that is set replaces that field, whole."""
    names = ("content", "details", "is_error", "terminate", "usage")
    fields = {name: getattr(change, name) for name in names}
    return msgspec.structs.replace(
        result, **{name: value for name, value in fields.items() if value is not None}
    )


def report_fault(run: Run, error: BaseException, where: str) -> None:
    """Tell the program about a fault of its own code that did not stop the run."""
    from .faults import report

    report(run.config.on_error, error, where)
