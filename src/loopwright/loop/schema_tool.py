"""A tool that comes with a JSON Schema instead of a signature, from MCP or another runtime.

Not here: the check (json_schema_check.py).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from .agent_tool import AgentTool, ExecutionMode, Place, Replay
from .calling import call_blocking, is_async, refuse_generator
from .schema import Contract
from .signature import InvalidTool
from .tool_context import ToolContext

__all__ = ["SchemaTool"]


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
        self._wants_context = False

    @property
    def runs_in(self) -> Place:
        """Where the body runs, which decides how it can be stopped."""
        return "loop" if self._is_async else "thread"

    async def _run(self, params: dict[str, Any], context: ToolContext) -> Any:
        arguments = (params, context) if self._wants_context else (params,)
        if self._is_async:
            return await self._function(*arguments)
        return await call_blocking(self._function, *arguments)

    def _check_body(self) -> None:
        if not callable(self._function):
            raise InvalidTool(
                f"tool {self.name!r}: execute is {self._function!r}, which cannot be called",
                hint="a function of (args) or (args, ctx)",
            )
        refuse_generator(self._function, self.name)
        self._is_async = is_async(self._function)
        self._wants_context = _takes_two(self._function)

    def _contract(self) -> Contract:
        from .json_schema_check import contract_of_schema

        return contract_of_schema(self._given, self.name)

    def _describe(self) -> str:
        return self.description


def _takes_two(function: Callable[..., Any]) -> bool:
    """Whether *function* is `(args, ctx)`: a second parameter with a default is its own affair."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return False
    positional = [
        parameter
        for parameter in signature.parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    if len(positional) < 2:
        return False
    second = positional[1]
    return second.default is second.empty or second.name in ("ctx", "context")
