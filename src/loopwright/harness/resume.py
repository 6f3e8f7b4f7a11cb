"""What an unfinished run wants next, read from where its branch ends. Pure.

    last = the last reply;  missing = its calls without a result behind it
    last failed or was aborted, and is the leaf → the run was about to end; its calls never run
    missing            → answer exactly these
    last is the leaf   → the run was about to end
    a batch that asked for the end → the same
    else               → ask the model

A crash between two results of one reply leaves a *result* at the leaf, so looking at the leaf
alone would skip the second call.

Not here: running anything (harness), or what is known of each call (journal).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from ..loop.transcript import unanswered_calls
from ..messages import AssistantMessage, ToolCall, ToolResultMessage
from ..session.entries import CompactionEntry, Entry, MessageEntry

__all__ = ["ResumePlan", "plan_resume"]


class ResumePlan(msgspec.Struct):
    """Where a run is taken up."""

    next: Literal["ask", "calls", "end"]
    reply: MessageEntry | None = None
    """The last reply."""
    calls: list[ToolCall] = []
    """Those of its calls that have no result yet, in source order."""
    results: list[ToolResultMessage] = []
    """The results that are there."""
    failed: bool = False
    """The last reply failed and nothing was said after it."""
    input_is_last: bool = False
    """The branch ends with something said to the model, which it has not answered."""
    results_end: bool = True
    """The results that are there all asked for the end of the run."""
    replies: int = 0
    """How many replies the operation has had."""


def plan_resume(entries: Sequence[Entry], operation_id: str | None = None) -> ResumePlan:
    """What to do on the branch *entries* (oldest first, as far back as the context goes).

    With *operation_id*, for that operation: a reply of another is behind it. Its calls may have no
    result on this branch, where the lane has gone back to it; they were settled on another one.
    """
    plan = _plan(entries, operation_id)
    plan.replies = sum(
        isinstance(entry, MessageEntry) and isinstance(entry.message, AssistantMessage)
        for entry in entries
        if operation_id is not None and entry.operation_id == operation_id
    )
    return plan


def _plan(entries: Sequence[Entry], operation_id: str | None) -> ResumePlan:
    reply: MessageEntry | None = None
    behind: list[MessageEntry] = []
    for entry in reversed(entries):
        if isinstance(entry, CompactionEntry):
            # It was made because the model was about to be asked.
            return ResumePlan("ask", input_is_last=not behind or _is_input(behind[0]))
        if not isinstance(entry, MessageEntry):
            continue
        if isinstance(entry.message, AssistantMessage):
            if operation_id is None or entry.operation_id == operation_id:
                reply = entry
            break
        behind.append(entry)
    behind.reverse()
    input_is_last = bool(behind) and _is_input(behind[-1])
    if reply is None or not isinstance(reply.message, AssistantMessage):
        return ResumePlan("ask" if behind else "end", input_is_last=input_is_last)
    message = reply.message
    failed = message.stop_reason in ("error", "aborted")
    if failed:
        return ResumePlan("ask" if behind else "end", reply, failed=not behind)
    results = [e.message for e in behind if isinstance(e.message, ToolResultMessage)]
    _, calls = unanswered_calls([message, *(e.message for e in behind)])
    results_end = all(
        entry.terminate for entry in behind if isinstance(entry.message, ToolResultMessage)
    )
    if calls:
        return ResumePlan("calls", reply, calls, results, results_end=results_end)
    if not behind:
        return ResumePlan("end", reply)
    ends = results_end and not input_is_last
    return ResumePlan("end" if ends else "ask", reply, [], results, input_is_last=input_is_last)


def _is_input(entry: MessageEntry) -> bool:
    return not isinstance(entry.message, ToolResultMessage)
