"""A file outside of the workspace that was allowed: the workspace is told, so that tools reach it.

The policy decides about every call; the workspace is a second fence behind it, which knows nothing
of rules and answers. What the first one lets through, the second one must let through, too.
"""

from __future__ import annotations

from typing import Any

from ...loop.hooks import BeforeToolCall, BeforeToolCallResult
from ...permissions.gate import PermissionGate
from ...permissions.rules import CHANGING_TOOLS, FILE_TOOLS
from ...tools import LocalWorkspace
from ...tools.paths import is_within_any

__all__ = ["GateWithDoor"]


class GateWithDoor:
    """A `before_tool_call` hook: *gate*, then a door in the fence of *workspace* for what passed."""

    def __init__(self, gate: PermissionGate, workspace: LocalWorkspace) -> None:
        self._gate = gate
        self._workspace = workspace

    async def __call__(self, call: BeforeToolCall, signal: Any) -> BeforeToolCallResult | None:
        """The gate's verdict."""
        verdict = await self._gate(call, signal)
        name = call.tool_call.name
        # One that waits for an approval passes no gate a second time. The door is opened for it
        # now: whoever comes through later is judged by the gate as before.
        if name in FILE_TOOLS and (verdict is None or not verdict.block):
            args = call.args if verdict is None or verdict.args is None else verdict.args
            path = args.get("path")
            if isinstance(path, str):
                self._open(path, writing=name in CHANGING_TOOLS)
        return verdict

    def _open(self, path: str, *, writing: bool) -> None:
        places = self._workspace.writable if writing else self._workspace.readable
        for real in self._gate.policy.leads_to(path):
            if not is_within_any(real, self._workspace.writable) and not is_within_any(
                real, places
            ):
                places.append(real)
