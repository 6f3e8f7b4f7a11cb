"""Calls that a run left waiting for somebody's word: asked about, one after the other.

Not here: calls of a run that goes on, which the permission gate asks about (permissions/gate.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ...permissions.gate import Answer, Question
    from ..live_session import LiveSession

__all__ = ["decide_waiting"]

REASON = "the run was left waiting for your word on it"


async def decide_waiting(
    live: LiveSession, decide: Callable[[Question], Awaitable[Answer | None]]
) -> bool:
    """Put the user's word on each of them into the session. False: they want no more of the run.

    Raises `LoopwrightError` if the session cannot be told.
    """
    from ...permissions.gate import AllowAlways, AllowOnce, Deny, Question
    from ...permissions.policy import Decision

    for approval in live.pending_approvals():
        asked = Question(
            approval.tool_call_id,
            approval.tool_name,
            approval.arguments,
            Decision("ask", REASON),
            rule=None,
        )
        match await decide(asked):
            case AllowOnce() | AllowAlways():
                await live.approve(approval.id)
            case Deny(reason):
                await live.deny(approval.id, reason=reason or None)
            case None:
                await live.deny(approval.id)
                return False
    return True
