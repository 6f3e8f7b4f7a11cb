"""What an open session knows of its rows that are not history: the store's, as of its last commit.

Not here: the entries (loaded_branch), or writing a commit (session, writer).
"""

from __future__ import annotations

from typing import Any

import msgspec

from ..messages import Usage
from .rows import Operation, SessionInfo
from .store import Commit, SessionState

__all__ = ["KnownState"]


class KnownState:
    """Begins with what the store said, and follows what is written."""

    def __init__(self, state: SessionState) -> None:
        self.info = state.info
        self.head = state.head
        self.lanes = {lane.name: lane for lane in state.lanes}
        self.operations: dict[str, Operation] = {}
        """Of each lane the open one, and the last that came to an end."""
        self.intents = {intent.id: intent for intent in state.intents}
        self.approvals = {approval.id: approval for approval in state.approvals}
        self.facts = {(fact.namespace, fact.key): fact for fact in state.facts}
        self.spent: dict[str, Usage] = {}
        """What those of `operations` used that began here; of others only the ledger knows."""
        self._ended: dict[str, str] = {}
        """The last operation of each lane that came to an end."""
        for operation in state.operations:
            self._put_operation(operation)

    def last_operation(self, lane: str) -> Operation | None:
        """The last one on *lane* that came to an end."""
        return self.operations.get(self._ended.get(lane, ""))

    def apply(self, commit: Commit, head: int) -> None:
        """*commit* has been written, and *head* is the last sequence number since."""
        for operation in commit.operations:
            if operation.id not in self.operations and operation.status == "open":
                self.spent[operation.id] = Usage()
            self._put_operation(operation)
        for row in commit.usage:
            if row.operation_id in self.spent:
                self.spent[row.operation_id] += row.usage
        for intent in commit.intents:
            self.intents[intent.id] = intent
        for settled in commit.settled:
            self.intents.pop(settled, None)
        for approval in commit.approvals:
            self.approvals[approval.id] = approval
            if approval.status == "consumed":
                del self.approvals[approval.id]
        for consumed, _ in commit.consume:
            self.approvals.pop(consumed, None)
        for fact in commit.facts:
            self.facts.pop((fact.namespace, fact.key), None)
            if not fact.deleted:
                self.facts[fact.namespace, fact.key] = fact
        self.info = _after(self.info, commit)
        self.head = head
        for lane in commit.lanes:
            self.lanes[lane.name] = lane

    def _put_operation(self, operation: Operation) -> None:
        self.operations[operation.id] = operation
        if operation.status in ("open", "waiting"):
            return
        before = self._ended.get(operation.lane)
        if before is not None and before != operation.id:
            self.operations.pop(before, None)  # a session may have had thousands
            self.spent.pop(before, None)
        self._ended[operation.lane] = operation.id


def _after(info: SessionInfo, commit: Commit) -> SessionInfo:
    changes: dict[str, Any] = {"entries": info.entries + len(commit.entries)}
    names = [fact for fact in commit.facts if fact.namespace == "name"]
    if names:
        changes["name"] = None if names[-1].deleted else names[-1].value
    if commit.usage_total is not None:
        changes["usage"] = commit.usage_total
    if commit.preview is not None:
        changes["preview"] = commit.preview
    return msgspec.structs.replace(info, **changes)
