"""Making tools: the decorator for functions, and what `Agent(tools=[...])` accepts.

Not here: the kinds of tools themselves; they are re-exported, so that this module is the one to
import from.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from typing import Any, Literal, ParamSpec, TypeVar, cast, overload

from ..errors import Misuse
from .agent_tool import AgentTool, ExecutionMode, Replay
from .arguments import ArgumentsRejected, BoundCall
from .function_tool import FunctionTool
from .signature import InvalidTool
from .tool_context import OnUpdate, ToolContext

__all__ = [
    "AgentTool",
    "ArgumentsRejected",
    "BoundCall",
    "ExecutionMode",
    "FunctionTool",
    "InvalidTool",
    "OnUpdate",
    "Replay",
    "ToolContext",
    "as_tool",
    "tool",
]

P = ParamSpec("P")
R = TypeVar("R")


@overload
def tool(
    function: Callable[P, R],
    /,
    *,
    name: str | None = None,
    label: str | None = None,
    description: str | None = None,
    execution_mode: ExecutionMode | None = None,
    timeout: float | None = None,
    replay: Replay = "never",
    approval: bool = False,
    isolation: Literal["process"] | None = None,
) -> FunctionTool[P, R]: ...
@overload
def tool(
    *,
    name: str | None = None,
    label: str | None = None,
    description: str | None = None,
    execution_mode: ExecutionMode | None = None,
    timeout: float | None = None,
    replay: Replay = "never",
    approval: bool = False,
    isolation: Literal["process"] | None = None,
) -> Callable[[Callable[P, R]], FunctionTool[P, R]]: ...
def tool(function: Callable[..., Any] | None = None, /, **options: Any) -> Any:
    """Make a tool of a function: `@tool`, or `@tool(timeout=30)`.

    Name, description and schema come from the function's name, docstring, signature and type
    hints; options override the first two. A sync function runs in a thread, or with
    `isolation="process"` in a process that is killed after *timeout* seconds. With `approval=True`
    each call waits, in a session, for somebody to approve it. The function stays callable as
    before.

    Raises `InvalidTool` at once for what can never be called (positional-only parameters, `*args`,
    generators, functions a worker process could not import), and when registered for types without
    a JSON Schema.
    """
    if function is not None:
        local_names = sys._getframe(1).f_locals  # pyright: ignore[reportPrivateUsage]
        return FunctionTool(function, local_names=local_names, **options)

    def decorate(function: Callable[P, R]) -> FunctionTool[P, R]:
        local_names = sys._getframe(1).f_locals  # pyright: ignore[reportPrivateUsage]
        return FunctionTool(function, local_names=local_names, **options)

    return decorate


def as_tool(thing: Any) -> AgentTool[Any, Any]:
    """*thing* as a tool: an `AgentTool` as it is, a function as if decorated with `@tool`.

    Raises `InvalidTool` naming what came.
    """
    if isinstance(thing, AgentTool):
        return cast("AgentTool[Any, Any]", thing)
    if isinstance(thing, type):
        hint = f"give an instance: {thing.__name__}()" if issubclass(thing, AgentTool) else None
        raise InvalidTool(f"the class {thing.__qualname__} was given as a tool", hint=hint)
    if callable(thing):
        return FunctionTool(thing)
    raise InvalidTool(
        f"{thing!r} (a {type(thing).__name__}) was given as a tool",
        hint="a tool is a function, or an instance of an AgentTool subclass",
    )


def check_names(tools: Iterable[AgentTool[Any, Any]]) -> None:
    """Raise `Misuse` if two tools share a name: the model could not tell them apart."""
    seen: set[str] = set()
    for made in tools:
        if made.name in seen:
            raise Misuse(f"two tools are named {made.name!r}; give one another name")
        seen.add(made.name)
