"""What a session keeps beside its tree: lanes, operations, intents, the inbox, approvals, the ledger.

The transcript is the program counter. These rows hold only what it cannot tell: which branch is
being worked on, what was begun and has not been settled, what was said and not yet heard.

Not here: the entries (entries), or when which row is written (harness).
"""

from __future__ import annotations

from typing import Any, Literal

from msgspec import field

from ..messages import AgentMessage, StopReason, ToolResultMessage, Usage
from ..models.model import ThinkingLevel
from ..records import Record
from .entries import new_id, now_ms

__all__ = [
    "Approval",
    "ApprovalStatus",
    "Fact",
    "InboxItem",
    "InboxQueue",
    "InboxStatus",
    "Intent",
    "Lane",
    "LaneConfig",
    "Operation",
    "OperationKind",
    "OperationStatus",
    "SessionInfo",
    "UsageCause",
    "UsageRow",
]

OperationKind = Literal["run", "compaction", "navigation"]
OperationStatus = Literal["open", "waiting", "completed", "aborted", "failed", "declined"]
"""`waiting`: unfinished, and nothing can be done before somebody decides on a call."""
InboxQueue = Literal["steer", "followUp", "nextRun", "prompt", "cancel"]
InboxStatus = Literal["pending", "placed", "withdrawn"]
ApprovalStatus = Literal["pending", "approved", "denied", "consumed"]
UsageCause = Literal[
    "assistant", "retry", "compaction", "branch_summary", "tool", "import", "lost", "adjustment"
]


class SessionInfo(Record, kw_only=True):
    """What a list of sessions shows. Times are in milliseconds since 1970."""

    id: str = field(default_factory=new_id)
    created_at: int = field(default_factory=now_ms)
    modified_at: int = field(default_factory=now_ms)
    cwd: str | None = None
    """The folder the work is about."""
    parent_id: str | None = None
    """The session this one was forked from."""
    name: str | None = None
    """Given by a person; the fact `name` of the session."""
    preview: str | None = None
    """The beginning of the first thing the user said."""
    entries: int = field(default_factory=int)
    usage: Usage = field(default_factory=Usage)
    """The sum of the ledger."""
    metadata: dict[str, Any] | None = None
    locked_by: str | None = None
    """Who has it open for writing, while their lease lasts. Never stored by `create`."""


class LaneConfig(Record, kw_only=True):
    """What the lane's last run worked with. Replaced whole, never patched."""

    provider: str
    model_id: str
    thinking_level: ThinkingLevel | None = None
    active_tools: list[str] = field(default_factory=list[str])


class Lane(Record, kw_only=True):
    """A named cursor into the tree. `main` is always there; names are for good."""

    name: str
    leaf_id: str | None = None
    """The entry that the next one will follow; None: before the first."""
    operation_id: str | None = None
    """The operation that is open here. There is at most one."""
    config: LaneConfig | None = None


class Operation(Record, kw_only=True):
    """One run, compaction or navigation, from its acceptance to its outcome."""

    id: str = field(default_factory=new_id)
    lane: str
    kind: OperationKind = "run"
    status: OperationStatus = field(default="open")
    request_id: str | None = None
    """Given by the client: the same one never starts a second operation."""
    started_at: int = field(default_factory=now_ms)
    source_leaf_id: str | None = None
    """Where the lane stood before."""
    intent: dict[str, Any] | None = None
    """What a compaction or navigation was asked to do."""
    cancelled_at: int | None = None
    cancel_reason: str | None = None
    restarts: int = 0
    """How often it was taken up again since it last wrote anything."""
    parked: bool = False
    """It ended its process too often; see `OperationParked`."""
    overflow_used: bool = False
    """The one compaction that an overflow of the context allows has been made."""
    stop_reason: StopReason | None = None
    stopped_by: str | None = None
    error_message: str | None = None
    finished_at: int | None = None


class Intent(Record, kw_only=True):
    """A tool call that was started, or has ended and waits for its place in the tree.

    The id is that of the result's entry, reserved: a result is inserted under it once, or never.
    """

    id: str
    lane: str
    assistant_id: str
    """The entry of the reply that asked."""
    index: int
    """Which of the reply's calls; ids of calls may repeat."""
    tool_call_id: str
    tool_name: str
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    """As they were run: repaired, changed by hooks, validated."""
    replay: Literal["never", "safe"] = field(default="never")
    started_at: int = field(default_factory=now_ms)
    result: ToolResultMessage | None = None
    """None: started, and nobody knows what came of it."""
    terminate: bool = False


class InboxItem(Record, kw_only=True):
    """Something said to a lane, by whoever, that is to be heard exactly once."""

    id: str = field(default_factory=new_id)
    """Of the entry it will become."""
    lane: str
    queue: InboxQueue
    message: AgentMessage | None = None
    """None for `cancel`."""
    urgent: bool = False
    """Interrupts running tools."""
    request_id: str | None = None
    status: InboxStatus = field(default="pending")
    operation_id: str | None = None
    """The operation it became part of, or is meant for."""
    reason: str | None = None
    created_at: int = field(default_factory=now_ms)


class Approval(Record, kw_only=True):
    """A call that waits for somebody's word. The id is that of the result's entry."""

    id: str
    lane: str
    tool_call_id: str
    tool_name: str
    arguments: dict[str, Any] = field(default_factory=dict[str, Any])
    digest: str
    """SHA-256 of the tool's name and arguments, canonical; what is approved is this and no other."""
    status: ApprovalStatus = field(default="pending")
    reason: str | None = None
    """Why it was denied; told to the model."""
    decided_by: str | None = None
    requested_at: int = field(default_factory=now_ms)
    decided_at: int | None = None


class UsageRow(Record, kw_only=True):
    """What one request cost, failed and retried ones included. The ledger only grows."""

    id: str = field(default_factory=new_id)
    cause: UsageCause
    usage: Usage
    entry_id: str | None = None
    operation_id: str | None = None
    provider: str | None = None
    model: str | None = None
    details: dict[str, Any] | None = None
    timestamp: int = field(default_factory=now_ms)
    seq: int = 0


class Fact(Record, kw_only=True):
    """Something true of the session now; the last one with a key counts.

    `name`: the session's name (key empty, a string). `label`: of an entry (key: its id, a string).
    `custom`: a program's own (any JSON). Deleting a fact and storing null differ.
    """

    namespace: Literal["name", "label", "custom"]
    key: str = field(default_factory=str)
    value: Any = None
    deleted: bool = False
    seq: int = 0
