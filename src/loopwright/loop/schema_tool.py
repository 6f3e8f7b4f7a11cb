"""A tool that comes with a JSON Schema instead of a signature, from MCP or another runtime.

Not here: the check (json_schema_check.py).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, Literal

from .agent_tool import AgentTool, ExecutionMode, Place, Replay
from .calling import call_blocking, is_async, refuse_generator
from .schema import Contract
from .signature import InvalidTool, raw_signature
from .tool_context import ToolContext

__all__ = ["SchemaTool"]

_Form = Literal["args", "context", "class"]


class SchemaTool(AgentTool[dict[str, Any], Any]):
    """Made by `AgentTool.from_schema`."""

    def __init__(
        self,
        name: str,
        description: str,
        parameters: dict[str, Any],
        run: Callable[..., Any],
        label: str | None,
        execution_mode: ExecutionMode | None,
        timeout: float | None,
        replay: Replay,
    ) -> None:
        self.name = name
        self.description = description
        self.label = label
        self.execution_mode = execution_mode
        self.timeout = timeout
        self.replay = replay
        self._given = parameters
        self._function = run
        self._form: _Form = "args"

    @property
    def runs_in(self) -> Place:
        """Where the body runs, which decides how it can be stopped."""
        return "loop" if self._is_async else "thread"

    async def _run(self, params: dict[str, Any], context: ToolContext) -> Any:
        if self._form == "args":
            arguments: tuple[Any, ...] = (params,)
        elif self._form == "context":
            arguments = (params, context)
        else:
            arguments = (context.tool_call_id, params, context.signal, context.update)
        if self._is_async:
            return await self._function(*arguments)
        return await call_blocking(context.signal, self._function, *arguments)

    def _check_body(self) -> None:
        if not callable(self._function):
            raise InvalidTool(
                f"tool {self.name!r}: execute is {self._function!r}, which cannot be called",
                hint="a function of (args) or (args, ctx)",
            )
        refuse_generator(self._function, self.name)
        self._is_async = is_async(self._function)
        self._form = _form_of(self._function, self.name)

    def _contract(self) -> Contract:
        from .json_schema_check import contract_of_schema

        return contract_of_schema(self._given, self.name)


def _form_of(function: Callable[..., Any], tool: str) -> _Form:
    """Which of its three forms *function* has: `(args)`, `(args, ctx)`, or that of a class tool,
    `(tool_call_id, args, signal, on_update)`. Raises `InvalidTool` for any other."""
    try:
        parameters = list(raw_signature(function).parameters.values())
    except (TypeError, ValueError):
        return "args"
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    if any(p.kind is p.VAR_POSITIONAL for p in parameters) and len(positional) < 2:
        return "args"
    if len(positional) == 4 and positional[0].name == "tool_call_id":
        return "class"
    required = [p for p in positional if p.default is p.empty]
    if len(positional) >= 2 and _is_context(positional[1]) and len(required) <= 2:
        return "context"
    unfillable = [p for p in parameters if p.kind is p.KEYWORD_ONLY and p.default is p.empty]
    if len(positional) >= 1 and len(required) <= 1 and not unfillable:
        return "args"
    names = ", ".join(str(p) for p in parameters)
    raise InvalidTool(
        f"tool {tool!r}: execute takes ({names}), but is called with the arguments as one dict",
        hint="a function of (args), (args, ctx) or (tool_call_id, args, signal, on_update)",
    )


def _is_context(parameter: inspect.Parameter) -> bool:
    named = parameter.name in ("ctx", "context") or "ToolContext" in str(parameter.annotation)
    return named or (
        parameter.default is parameter.empty and parameter.annotation is parameter.empty
    )
