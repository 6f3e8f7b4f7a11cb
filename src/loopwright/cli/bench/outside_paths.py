"""What the gate let through, told to the workspace: where a path may lead, also outside of it.

The policy decides about every call; the workspace is a second fence behind it, which knows nothing
of rules and answers. What the first one lets through, the second one must let through, too: the
files that were judged, and no others that the same path has come to lead to meanwhile.
"""

from __future__ import annotations

from typing import Any

from ...loop.hooks import BeforeToolCall, BeforeToolCallResult
from ...permissions.gate import PermissionGate
from ...permissions.rules import CHANGING_TOOLS, FILE_TOOLS
from ...tools import LocalWorkspace

__all__ = ["GateWithDoor"]


class GateWithDoor:
    """A `before_tool_call` hook: *gate*, then a door in the fence of *workspace* for what passed."""

    time_limit_seconds = PermissionGate.time_limit_seconds

    def __init__(self, gate: PermissionGate, workspace: LocalWorkspace) -> None:
        self._gate = gate
        self._workspace = workspace

    async def __call__(self, call: BeforeToolCall, signal: Any) -> BeforeToolCallResult | None:
        """The gate's verdict."""
        judged = await self._gate.judge(call, signal)
        verdict, name = judged.verdict, call.tool_call.name
        path = judged.args.get("path", ".")
        if name in FILE_TOOLS and isinstance(path, str) and not (verdict and verdict.block):
            writing = name in CHANGING_TOOLS
            self._workspace.judged.note(path, judged.real, writing=writing)
            # One that waits for an approval passes no gate a second time, and runs in another
            # task. Whoever comes through later is judged by the gate as before.
            if verdict and verdict.approval:
                places = self._workspace.writable if writing else self._workspace.readable
                places += [real for real in judged.real if real not in places]
        return verdict
