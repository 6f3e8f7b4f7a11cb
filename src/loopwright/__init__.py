"""loopwright: an agent runtime. A loop that works until the job is done.

The names here are the front door; each layer has more: `loopwright.messages`, `.events`,
`.stream`, `.models`, `.session`, `.testing`. Importing does nothing else: no files, no network, no SDK.
"""

# It guards the imports below; see there.
from . import module_start as _module_start  # noqa: F401 # pyright: ignore[reportUnusedImport]

# isort: split

import typing as _typing

from .loop.agent import Agent
from .loop.config import AgentLoopConfig
from .loop.context import AgentContext
from .loop.event_stream import agent_loop, agent_loop_continue
from .loop.hooks import (
    AfterToolCall,
    AfterToolCallResult,
    BeforeToolCall,
    BeforeToolCallResult,
    FinishTurn,
    TurnContext,
    TurnUpdate,
    default_convert_to_llm,
)
from .loop.kernel import run_agent_loop, run_agent_loop_continue
from .loop.run_result import RunResult
from .loop.stream_function import set_default_stream_fn
from .loop.tool import AgentTool, ToolContext, tool
from .messages import AgentToolResult, CustomMessage
from .signals import AbortController, AbortSignal

if _typing.TYPE_CHECKING:
    from .harness.harness import Harness

__version__ = "0.1.0"

__all__ = [
    "AbortController",
    "AbortSignal",
    "AfterToolCall",
    "AfterToolCallResult",
    "Agent",
    "AgentContext",
    "AgentLoopConfig",
    "AgentTool",
    "AgentToolResult",
    "BeforeToolCall",
    "BeforeToolCallResult",
    "CustomMessage",
    "FinishTurn",
    "Harness",
    "RunResult",
    "ToolContext",
    "TurnContext",
    "TurnUpdate",
    "agent_loop",
    "agent_loop_continue",
    "default_convert_to_llm",
    "run_agent_loop",
    "run_agent_loop_continue",
    "set_default_stream_fn",
    "tool",
]


def __getattr__(name: str) -> _typing.Any:
    """`Harness` is imported when it is first asked for: a plain agent needs no store."""
    if name == "Harness":
        from .harness.harness import Harness

        return Harness
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
