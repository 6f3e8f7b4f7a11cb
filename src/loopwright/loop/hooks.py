"""Where a program may step in: before and after a tool, before a request, at a turn's end.

Here are the values that hooks are given and give back, and the one rule for calling them: any
hook may be sync or async, and may leave the trailing signal out of its signature. Which of the
two it is gets settled once, when the hook is set.

Not here: when a hook is called (the kernel), or what its verdict means (transcript, preflight).
"""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from ..messages import (
    AgentMessage,
    AgentToolResult,
    AssistantMessage,
    ImageContent,
    Message,
    TextContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from ..models.model import Model, ThinkingLevel
from .context import AgentContext
from .signature import raw_signature

if TYPE_CHECKING:
    from typing import TypeVar

    T = TypeVar("T")
    Maybe = T | Awaitable[T]  # what a hook returns: the value, or a promise of it

__all__ = [
    "AfterToolCall",
    "AfterToolCallHook",
    "AfterToolCallResult",
    "BeforeToolCall",
    "BeforeToolCallHook",
    "BeforeToolCallResult",
    "FinishTurn",
    "Hook",
    "TurnContext",
    "TurnUpdate",
    "check_returned",
    "default_convert_to_llm",
    "with_signal",
]


class BeforeToolCall(msgspec.Struct):
    """A call that is about to run. *args* are validated, and a copy: changing them does nothing."""

    assistant_message: AssistantMessage
    tool_call: ToolCall
    args: dict[str, Any]
    context: AgentContext
    approved: bool = False
    """It waited for an approval, and has it. It may still be blocked; what else is returned has no
    effect."""


class BeforeToolCallResult(msgspec.Struct):
    """The verdict on a call. `args` replaces its arguments, which are validated again."""

    block: bool = False
    reason: str | None = None
    """Told to the model when blocked."""
    terminate: bool = False
    args: dict[str, Any] | None = None
    approval: bool | None = None
    """True: the call waits for somebody's approval. False: it needs none, or has it. None: as the
    tool says."""


class AfterToolCall(msgspec.Struct):
    """A call that has run, and what came of it."""

    assistant_message: AssistantMessage
    tool_call: ToolCall
    args: dict[str, Any]
    result: AgentToolResult
    is_error: bool
    context: AgentContext


class AfterToolCallResult(msgspec.Struct):
    """What to change about a result: each field that is set replaces that field, whole."""

    content: list[TextContent | ImageContent] | None = None
    details: Any = None
    is_error: bool | None = None
    terminate: bool | None = None
    usage: Usage | None = None


class TurnContext(msgspec.Struct):
    """A finished turn. `context.messages` is the whole history, `new_messages` this run's."""

    message: AssistantMessage
    tool_results: list[ToolResultMessage]
    context: AgentContext
    new_messages: list[AgentMessage]


class TurnUpdate(msgspec.Struct):
    """What the next turn should use instead; None keeps what is there."""

    context: AgentContext | None = None
    model: Model | str | None = None
    thinking_level: ThinkingLevel | None = None


class FinishTurn(enum.Enum):
    """What a `finish_turn` hook may ask for."""

    CONTINUE = "continue"
    """Ask the model once more, even if nothing calls for it."""
    END = "end"
    """End the run here; queued messages stay queued."""


Hook = Callable[..., Any]
ConvertToLlm = Callable[..., "Maybe[list[Message]]"]
TransformContext = Callable[..., "Maybe[list[AgentMessage]]"]
GetApiKey = Callable[[str], "Maybe[str | None]"]
BeforeToolCallHook = Callable[..., "Maybe[BeforeToolCallResult | None]"]
AfterToolCallHook = Callable[..., "Maybe[AfterToolCallResult | None]"]
PrepareRequest = Callable[..., "Maybe[AgentContext | None]"]
PrepareNextTurn = Callable[..., "Maybe[TurnUpdate | None]"]
FinishTurnHook = Callable[..., "Maybe[FinishTurn | None]"]
ShouldStop = Callable[..., "Maybe[bool]"]
GetMessages = Callable[[], "Maybe[list[AgentMessage]]"]
OnError = Callable[[BaseException, str], object]


def default_convert_to_llm(messages: Sequence[AgentMessage]) -> list[Message]:
    """The messages a model knows: user, assistant and tool results. Custom roles vanish."""
    return [
        m for m in messages if isinstance(m, UserMessage | AssistantMessage | ToolResultMessage)
    ]


def with_signal(hook: Hook, arguments: int = 1) -> Callable[..., Any]:
    """*hook* as a function of *arguments* values and the signal, whether it takes one or not."""
    try:
        parameters = list(raw_signature(hook).parameters.values())
    except (TypeError, ValueError):  # a builtin without a signature is called without it
        parameters = []
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    takes_any = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    # `lambda event, n=n: ...` keeps a value of its own and means no signal.
    takes_one = any(p.default is p.empty or "signal" in p.name for p in positional[arguments:])
    if takes_any or takes_one:
        return hook
    if any(p.name == "signal" and p.kind is p.KEYWORD_ONLY for p in parameters):
        return lambda *values: hook(*values[:-1], signal=values[-1])

    if arguments == 1:

        def without_signal(value: Any, signal: Any) -> Any:
            return hook(value)

        return without_signal
    return lambda *values: hook(*values[:-1])


def check_returned(value: Any, kind: type, hook: str) -> None:
    """Raise `TypeError` unless *hook* returned a *kind*, or nothing."""
    if value is not None and not isinstance(value, kind):
        raise TypeError(f"{hook} returned {type(value).__name__}, not {kind.__name__} or None")
