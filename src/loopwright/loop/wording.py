"""What the model is told about a call that did not give an ordinary result.

A model mends what it is told precisely: whether its arguments were wrong, or the tool failed
though they were accepted, or nobody ran it at all.
"""

from __future__ import annotations

from collections.abc import Iterable

from ..errors import ToolError
from ..messages import AgentToolResult, TextContent, ToolCall
from ..records import clean_text
from .faults import text_of, told

__all__ = [
    "ABORTED",
    "INTERRUPTED",
    "blocked",
    "cancelled",
    "cut_by_length",
    "hook_raised",
    "needs_approval",
    "raised",
    "refused",
    "timed_out",
    "unknown_tool",
    "unreadable_arguments",
    "waits_for_approval",
]

ABORTED = "Operation aborted"
INTERRUPTED = "Operation aborted: the user sent a new message, which follows."
_SHOWN_NAMES = 50


def refused(text: str, *, terminate: bool = False) -> AgentToolResult:
    """An error result with *text*."""
    return AgentToolResult([TextContent(clean_text(text))], None, True, terminate)


def unknown_tool(name: str, known: Iterable[str]) -> str:
    """Names what is there, sorted and bounded, since the model can only choose from that."""
    names = sorted(known)
    fault = f"No tool is named {name!r}." if name else "The call named no tool."
    if not names:
        return f"{fault} There are no tools."
    more = f" and {len(names) - _SHOWN_NAMES} more" if len(names) > _SHOWN_NAMES else ""
    return f"{fault} On offer: {', '.join(names[:_SHOWN_NAMES])}{more}."


def unreadable_arguments(call: ToolCall) -> str:
    """The arguments were not a JSON object."""
    return f"The tool {call.name!r} was not run: {call.arguments_error}"


def cut_by_length(name: str) -> str:
    """The reply broke off, so that even arguments that look whole may not be."""
    return (
        f"The tool {name!r} was not run: your reply was cut off by the output limit, so its "
        "arguments may be incomplete. Send the call again with complete arguments; if they are "
        "large, split the work into smaller calls."
    )


def needs_approval(name: str) -> str:
    """Nobody can be asked: there is no session that could keep the question."""
    return f"The tool {name!r} was not run: it needs an approval, and nobody can be asked here."


def waits_for_approval(name: str) -> AgentToolResult:
    """What is shown, never told to the model, of a call that is parked."""
    text = TextContent(f"The call of {name!r} waits for approval.")
    return AgentToolResult([text], {"awaitingApproval": True})


def blocked(name: str) -> str:
    """A gate gave no reason of its own."""
    return f"The call of {name!r} was blocked and not run."


def hook_raised(hook: str, name: str, error: BaseException) -> str:
    """A gate that fails gives no permission."""
    return f"The tool {name!r} was not run: the hook {hook} failed ({told(error)})."


def timed_out(name: str, seconds: float) -> AgentToolResult:
    """The tool was stopped by its own limit."""
    return refused(
        f"The arguments were accepted, but the tool {name!r} was stopped: "
        f"it took longer than its limit of {seconds:g} seconds."
    )


def cancelled(name: str) -> AgentToolResult:
    """Something inside the tool was cancelled, not the run."""
    return refused(f"The arguments were accepted, but the tool {name!r} was cancelled from within.")


def raised(name: str, error: BaseException) -> AgentToolResult:
    """The tool failed. A `ToolError` is worded by its author, anything else is explained."""
    if isinstance(error, ToolError):
        return refused(text_of(error) or f"The tool {name!r} failed.")
    return refused(f"The arguments were accepted, but the tool {name!r} failed: {told(error)}")
