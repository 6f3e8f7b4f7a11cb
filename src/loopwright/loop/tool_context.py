"""What a running tool is given beside its arguments: which call it is, and how to report.

Not here: the tool (tool.py), and what becomes of the updates (dispatch.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ..messages import AgentToolResult
from ..signals import AbortSignal
from .results import render

__all__ = ["OnUpdate", "ToolContext"]

OnUpdate = Callable[[Any], None]
"""Reports progress; what it is given is rendered like a result."""


class ToolContext:
    """One call, seen from inside the tool.

    `tool_call_id` is the model's id of the call, `signal` tells when to stop, `deps` is what the
    agent was given as `deps`. Ask for it with a parameter of this type; it never shows in the
    schema.
    """

    __slots__ = ("_deliver", "_loop", "deps", "signal", "tool_call_id")

    def __init__(
        self,
        tool_call_id: str,
        signal: AbortSignal | None = None,
        deps: Any = None,
        deliver: Callable[[AgentToolResult], object] | None = None,
    ) -> None:
        """*deliver* takes the updates; it is always called in the loop this was made in."""
        self.tool_call_id = tool_call_id
        self.signal = signal or AbortSignal()
        self.deps = deps
        self._deliver = deliver
        try:
            self._loop = asyncio.get_running_loop()
        except RuntimeError:
            self._loop = None

    def update(self, partial: Any) -> None:
        """Report progress: text, or any value a tool may return.

        Returns at once and may be called from any thread. Updates arrive in the order given;
        those that come after the tool has settled are dropped.
        """
        deliver = self._deliver
        if deliver is None:
            return
        result = render(partial)
        loop = self._loop
        if loop is None:
            deliver(result)
            return
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is loop:
            deliver(result)
            return
        try:
            loop.call_soon_threadsafe(deliver, result)
        except RuntimeError:  # the loop is gone, and with it whoever was listening
            return
