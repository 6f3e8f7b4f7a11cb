"""Calling a tool as the loop does: arguments bound, the body run, failures as results."""

from __future__ import annotations

from typing import Any

import pytest

from loopwright import AgentTool, AgentToolResult, ToolContext
from loopwright.errors import ToolError


async def call(tool: AgentTool[Any, Any], **args: Any) -> AgentToolResult:
    """The result of *tool*; raises what it raises."""
    return await tool.invoke(tool.bind(args), ToolContext("call-1"))


async def refusal(tool: AgentTool[Any, Any], **args: Any) -> str:
    """What a model is told when *tool* refuses."""
    with pytest.raises(ToolError) as refused:
        await call(tool, **args)
    return str(refused.value)
