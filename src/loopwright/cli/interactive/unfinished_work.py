"""What a run, or an earlier process, left behind: what is to become of it, and of the calls in it
that wait for somebody's word.

Not here: driving it (delivery.py); calls of a run that goes on, which the permission gate asks
about (permissions/gate.py).
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Literal, Protocol, cast

from .screen import PickItem

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ...permissions.gate import Answer, Question
    from ..live.session import LiveSession

__all__ = ["Fate", "Pick", "ask_fate", "decide_waiting"]

Fate = Literal["taken up", "given up", "left"]

REASON = "the run was left waiting for your word on it"

_FATES = (
    PickItem("take it up", "it goes on where it stopped", value="taken up"),
    PickItem("give it up", "what it did stays", value="given up"),
    PickItem("leave it", "nothing can be said here before it is settled", value="left"),
)


class Pick(Protocol):
    """`Screen.pick`."""

    def __call__(
        self, title: str, items: Sequence[PickItem], *, selected: int = 0
    ) -> Awaitable[PickItem | None]: ...


async def ask_fate(kind: str, pick: Pick) -> Fate:
    """Have the user say what is to become of an unfinished operation."""
    picked = await pick(f"an earlier {kind} was left unfinished", _FATES)
    return "left" if picked is None else cast("Fate", picked.value)


async def decide_waiting(
    live: LiveSession, decide: Callable[[Question], Awaitable[Answer | None]]
) -> bool:
    """Put the user's word on each waiting call into the session. False: they want no more of the
    run.

    Raises `LoopwrightError` if the session cannot be told.
    """
    from ...permissions.gate import AllowAlways, AllowOnce, Deny, Question, declined
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
                said = f"{approval.tool_name} was not run: {declined(reason)}"
                await live.deny(approval.id, reason=said if reason else None)
            case None:
                await live.deny(approval.id)
                return False
    return True
