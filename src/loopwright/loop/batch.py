"""The calls of one reply on their way to results: how far each has come, and what stops them all.

A batch outlives an interruption. What has been told of each call stands here, so that going on
with it still pairs every start with one end.

Bodies run in tasks of their own and leave what they have to say in one inbox; only the kernel's
task reads that and reports it.

Not here: what is done with a call (preflight, body), or in which order (dispatch).
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from ..messages import AgentToolResult, AssistantMessage, ToolCall, ToolResultMessage
from ..signals import AbortController
from . import wording
from .run import Run
from .tool import AgentTool, BoundCall

__all__ = ["Batch", "Slot"]


class Slot:
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
    )

    def __init__(self, index: int, call: ToolCall) -> None:
        self.index = index
        self.call = call
        self.args: Any = None
        """What events show: a copy, since listeners must not change what is run."""
        self.tool: AgentTool[Any, Any] | None = None
        self.bound: BoundCall | None = None
        """What the body will be given; None as long as the call may not run."""
        self.terminate = False
        """The gate wants the run to end with this call."""
        self.parked = False
        """Waits for somebody's approval; the run ends without its result."""
        self.task: asyncio.Task[None] | None = None
        self.overdue: asyncio.TimerHandle | None = None
        self.returned = False
        """The body is through; what still runs in its task is a hook."""
        self.outcome: AgentToolResult | None = None
        self.message: ToolResultMessage | None = None
        self.durable = False
        """The journal has the outcome."""
        # What has been told of it.
        self.started = False
        self.ended = False
        self.announced = False


class Batch:
    """The calls of one reply. Made in the task that drives the run."""

    def __init__(self, run: Run, reply: AssistantMessage, calls: list[ToolCall]) -> None:
        self.run = run
        self.reply = reply
        self.slots = _slots(reply, calls)
        self.controller = AbortController()
        """Tools see this signal: it fires with the run's, and when steering interrupts them."""
        self.refused = reply.stop_reason == "length"
        """The reply was cut by the output limit: nothing in it can be trusted to be whole."""
        self.interrupted = False
        self.at_gate = False
        """`before_tool_call` is being awaited."""
        self.news: deque[tuple[Slot, AgentToolResult | None]] = deque()
        """Updates in the order they were reported; None says that the outcome is there."""
        self.loop = asyncio.get_running_loop()
        self._fatal: BaseException | None = None
        self._waiter: asyncio.Future[None] | None = None

    def groups(self) -> list[list[Slot]]:
        """What runs side by side: everything, or one call at a time."""
        run = self.run
        tools = [run.tools.get(slot.call.name) for slot in self.slots]
        one_by_one = (
            self.refused
            or run.config.tool_execution == "sequential"
            or any(tool is not None and tool.execution_mode == "sequential" for tool in tools)
        )
        return [[slot] for slot in self.slots] if one_by_one else [self.slots]

    @property
    def parked(self) -> bool:
        """Some call waits for an approval."""
        return any(slot.parked for slot in self.slots)

    @property
    def terminates(self) -> bool:
        """Every result asks for the run to end. A stop comes before that wish."""
        outcomes = [slot.outcome for slot in self.slots]
        return bool(outcomes) and all(o is not None and o.terminate for o in outcomes)

    # -- what stops it ------------------------------------------------------------------------

    @property
    def stopped(self) -> bool:
        """No tool may be started any more."""
        return self.run.signal.aborted or self.interrupted

    def stopped_result(self) -> AgentToolResult:
        """What is said of a call that was stopped, or never run because of that."""
        if self.interrupted and not self.run.signal.aborted:
            return wording.refused(wording.INTERRUPTED)
        return wording.refused(wording.ABORTED)

    def watch(self) -> Callable[[], None]:
        """Heed the run's signal and messages that interrupt. Returns what ends it."""
        run = self.run
        if run.inbox.urgent:
            self.interrupted = True
        run.inbox.watch(self.interrupt)
        unregister = run.signal.on_abort(self._heed_stop)

        def unwatch() -> None:
            unregister()
            run.inbox.watch(None)

        return unwatch

    def interrupt(self) -> None:
        """A steering message is not willing to wait. May be called from any thread."""
        self.interrupted = True  # at once, so that a preflight in progress starts nothing more
        try:
            self.loop.call_soon_threadsafe(self._heed_interrupt)
        except RuntimeError:  # the loop is gone, and the batch with it
            return

    def _heed_interrupt(self) -> None:
        self.controller.abort("interrupted by a steering message")
        if self.at_gate:
            self.run.interrupt.cut()  # a gate may wait for a person
        self.wake()

    def _heed_stop(self) -> None:
        """The run is stopped: tools hear of it at once, whatever the kernel is waiting for."""
        self.controller.abort(self.run.signal.reason)
        self.wake()

    # -- the inbox ----------------------------------------------------------------------------

    def tell(self, slot: Slot, partial: AgentToolResult | None) -> None:
        """Leave word for the kernel's task."""
        self.news.append((slot, partial))
        self.wake()

    def note_fatal(self, error: BaseException) -> None:
        """Leave an exception that ends the program, to be raised in the kernel's task."""
        if self.run.cause != "cancelled":  # the run is being closed already, perhaps for another
            self._fatal = error

    def raise_fatal(self) -> None:
        """What no `except Exception` stops ends the run, in the kernel's task."""
        fatal, self._fatal = self._fatal, None
        if fatal is not None:
            raise fatal

    def wake(self) -> None:
        """There is something to see to."""
        waiter = self._waiter
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def wait(self, deadline: float | None) -> None:
        """Return when there is something to see to, at *deadline* at the latest."""
        self._waiter = waiter = self.loop.create_future()
        timer = None if deadline is None else self.loop.call_at(deadline, self.wake)
        try:
            if self.stopped and deadline is None:
                return  # the stop came while something else was awaited
            await waiter
        finally:
            self._waiter = None
            if timer is not None:
                timer.cancel()


def _slots(reply: AssistantMessage, calls: list[ToolCall]) -> list[Slot]:
    """One for each of *calls*, which are those of *reply* that have no result yet."""
    slots: list[Slot] = []
    for index, call in enumerate(reply.tool_calls):
        if len(slots) < len(calls) and call is calls[len(slots)]:
            slots.append(Slot(index, call))
    return slots
