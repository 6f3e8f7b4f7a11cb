"""What an earlier process may have left unfinished in a session, and what that forbids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ... import Agent
from ...errors import OperationOpen

if TYPE_CHECKING:
    from ...harness.harness import Harness

__all__ = ["check_tools", "refuse_unfinished"]


def check_tools(harness: Harness[str], agent: Agent[str]) -> None:
    """Raise `OperationOpen` if what is unfinished needs tools that *agent* does not have."""
    operation = harness.open_operation
    if operation is None:
        return
    here = {tool.name for tool in agent.state.tools}
    config = harness.session.lane.config
    missing = [name for name in config.active_tools if name not in here] if config else []
    if missing:
        raise OperationOpen(
            f"session {harness.session.id} has an unfinished {operation.kind} with tools that "
            f"this command does not have: {', '.join(missing)}",
            hint="let the program that began it resume it, or leave it as it is and go on in "
            f"a copy with `loopwright --fork {harness.session.id}`",
        )


def refuse_unfinished(harness: Harness[str]) -> None:
    """Raise `OperationOpen` if anything is unfinished: nothing can be put behind it."""
    operation = harness.open_operation
    if operation is not None:
        raise OperationOpen(
            f"session {harness.session.id} has an unfinished {operation.kind}",
            hint="/resume asks what is to become of it",
        )
