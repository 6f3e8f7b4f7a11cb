"""Whether a call failed by itself, was stopped, or was never allowed to run.            (pure)

A stored result has nothing but its text to tell by, so the words that the loop, the permissions and
the session use are recognized. A tool that answers in the same words is shown in the same way,
which does no harm.

Not here: how it is shown (tool_view.py).
"""

from __future__ import annotations

from ...loop.wording import ABORTED, INTERRUPTED
from ...messages import AgentToolResult, ToolResultMessage

__all__ = ["was_refused", "was_stopped"]

Result = AgentToolResult | ToolResultMessage


def was_stopped(result: Result) -> bool:
    """By an abort, or by a message that interrupted it."""
    details: object = result.details
    if isinstance(details, dict):
        return details.get("aborted") is True  # pyright: ignore[reportUnknownMemberType]
    return result.text in (ABORTED, INTERRUPTED)


def was_refused(name: str, result: Result) -> bool:
    """By the user or by a rule: permissions/gate.py, harness/journal.py."""
    if result.details is not None:
        return False
    denied = f"The call of {name!r} was not approved and not run."
    return result.text.startswith((f"{name} was not run: ", denied))
