"""How a session stands: open in another process, waiting for somebody's word, or left unfinished.

Looking takes no lease.

Not here: doing something about it (sessions/unfinished.py).
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from ...session.leases import describe_owner, owner_is_dead
from ...session.rows import Approval, Operation, SessionInfo
from ...session.store import SessionStore

__all__ = ["Mark", "Standing", "standing_of"]

Mark = Literal["in use", "waiting", "unfinished"]
"""In use: a process has it open now. Waiting: a call waits for an approval. Unfinished: a process
ended in the middle of its work."""


class Standing(NamedTuple):
    """What a session has that is not over."""

    info: SessionInfo
    holder: str | None
    """The process that has it open, in words."""
    operations: list[Operation]
    """Those that are open, at most one in each lane."""
    waiting: list[Approval]
    """Calls that wait for somebody's word; of operations that are open."""

    @property
    def mark(self) -> Mark | None:
        """In a word; None if the session is at rest."""
        if self.holder is not None:
            return "in use"
        if self.waiting:
            return "waiting"
        return "unfinished" if self.operations else None

    def advice(self, name: str) -> str | None:
        """What is going on, and what can be done about it, where *name* is how the session is
        called on a command line. One or two lines; None for one that is at rest."""
        if self.holder is not None:
            return (
                f"it is open in {self.holder}; "
                f"`loopwright sessions stop {name}` stops what goes on there"
                if self.operations
                else f"it is open in {self.holder}"
            )
        give_up = f"`loopwright sessions stop {name}` gives it up"
        if self.waiting:
            tools = ", ".join(dict.fromkeys(approval.tool_name for approval in self.waiting))
            return (
                f"it waits for an approval of {tools}: `loopwright sessions approvals {name}` "
                f"shows it; {give_up}"
            )
        if not self.operations:
            return None
        kind = self.operations[0].kind
        if any(operation.parked for operation in self.operations):
            return f"a {kind} in it ended its process again and again; {give_up}"
        on = "" if self.is_on_main else f" on the lane {self.operations[0].lane}"
        return f"a {kind}{on} was left unfinished: `loopwright --session {name}` takes it up; {give_up}"

    @property
    def is_on_main(self) -> bool:
        """What is open is on the lane that the command line goes on with."""
        return any(operation.lane == "main" for operation in self.operations)


async def standing_of(store: SessionStore, session_id: str) -> Standing:
    """How *session_id* stands. Raises what the store raises."""
    state = await store.state(session_id)
    busy = {lane.operation_id: lane.name for lane in state.lanes if lane.operation_id is not None}
    open_lanes = set(busy.values())
    owner = state.info.locked_by
    # The lease of a process that was killed still lasts for a while.
    alive = owner is not None and not owner_is_dead(owner)
    return Standing(
        info=state.info,
        holder=describe_owner(owner) if owner is not None and alive else None,
        operations=[operation for operation in state.operations if operation.id in busy],
        waiting=[
            approval
            for approval in state.approvals
            if approval.status == "pending" and approval.lane in open_lanes
        ],
    )
