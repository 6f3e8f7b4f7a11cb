"""What the responses of the rpc mode hold, command by command.                            (pure)

Every field is always written; null says that there is nothing.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

from ...messages import Cost, Usage
from ...models.model import ThinkingLevel
from ...permissions.policy import Mode
from ...session.entries import Entry, EntryType
from ...session.rows import InboxQueue, InboxStatus, OperationKind, OperationStatus

__all__ = [
    "DATA",
    "Data",
    "Aborting",
    "ChosenLevel",
    "ChosenMode",
    "ChosenModel",
    "CommandDone",
    "Compacted",
    "Decided",
    "Entries",
    "Exported",
    "GivenName",
    "Item",
    "KnownModels",
    "ModelData",
    "Named",
    "NamedThings",
    "Node",
    "Nothing",
    "Place",
    "Queue",
    "SessionData",
    "SessionList",
    "Started",
    "StateData",
    "TreeData",
    "UnfinishedWork",
    "Waiting",
    "WaitingCalls",
    "Withdrawn",
]


class _Data(msgspec.Struct, rename="camel"):
    pass


class UnfinishedWork(_Data):
    """What an earlier process left, or what waits for an approval; `resume` drives it."""

    id: str
    kind: OperationKind
    status: OperationStatus
    started_at: int


class Started(_Data):
    """Whether a run was begun. `run_end` will come then, and behind a prompt in any case."""

    started: bool
    session_id: str | None


class Item(_Data):
    """Something that was said and not heard yet."""

    id: str
    queue: InboxQueue
    text: str
    images: int
    urgent: bool
    status: InboxStatus
    created_at: int


class Queue(_Data):
    items: list[Item]


class Withdrawn(_Data):
    """`placed`: it was heard already. None: there is no such thing."""

    status: InboxStatus | None


class Aborting(_Data):
    """Whether there was something to stop."""

    stopping: bool


class Waiting(_Data):
    """A call that waits."""

    approval_id: str
    tool_call_id: str
    tool_name: str
    args: Any
    reason: str | None
    rule: str | None
    parked: bool
    """Its run has ended; after the last decision `resume` goes on."""


class WaitingCalls(_Data):
    approvals: list[Waiting]


class Decided(_Data):
    """Whether `resume` is needed now."""

    needs_resume: bool


class ModelData(_Data):
    """A model that can be asked. Limits are in tokens, `cost` in US dollars per million."""

    model: str
    """What the command `model` takes."""
    name: str | None
    context_window: int | None
    max_tokens: int | None
    input: list[str]
    thinking_levels: list[str] | None
    cost: Cost | None


class KnownModels(_Data):
    models: list[ModelData]


class StateData(_Data):
    session_id: str | None
    name: str | None
    folder: str
    kept: bool
    """False: everything is forgotten at the end (--no-session)."""
    activity: str | None
    """The command that is being worked on: prompt, resume, compact, navigate, fork, open or new."""
    unfinished: UnfinishedWork | None
    model: str
    thinking: ThinkingLevel | None
    permission_mode: Mode
    tools: list[str]
    queued: int
    approvals: int
    leaf_id: str | None
    """The entry that the next one will follow."""
    context_tokens: int | None
    context_window: int | None
    usage: Usage
    """Of the whole session."""


class Entries(_Data):
    entries: list[Entry]
    more: bool
    """The limit was reached before the end of the branch."""


class Named(_Data):
    """Something that can be called by name: `/name` of a template and `/skill:name` in a prompt,
    a command of an extension with `run_command`."""

    name: str
    kind: Literal["template", "skill", "command"]
    description: str


class NamedThings(_Data):
    commands: list[Named]


class CommandDone(_Data):
    """What the command returned, to be shown to the user."""

    text: str | None


class ChosenModel(_Data):
    model: str
    thinking: ThinkingLevel | None


class ChosenLevel(_Data):
    thinking: ThinkingLevel | None


class ChosenMode(_Data):
    permission_mode: Mode


class GivenName(_Data):
    name: str | None


class Compacted(_Data):
    """None: there was nothing to compact."""

    entry_id: str | None
    summary: str | None
    tokens_before: int | None


class Node(_Data):
    """One line of the drawing."""

    id: str
    parent_id: str | None
    type: EntryType
    role: str | None
    depth: int
    on_branch: bool
    is_leaf: bool
    label: str | None
    preview: str
    timestamp: int


class TreeData(_Data):
    leaf_id: str | None
    nodes: list[Node]


class Place(_Data):
    """Where the session stands."""

    session_id: str | None
    leaf_id: str | None


class SessionData(_Data):
    id: str
    name: str | None
    preview: str | None
    cwd: str | None
    parent_id: str | None
    created_at: int
    modified_at: int
    entries: int
    usage: Usage
    locked_by: str | None


class SessionList(_Data):
    sessions: list[SessionData]


class Exported(_Data):
    path: str


class Nothing(_Data):
    pass


Data = (
    Started
    | Item
    | Queue
    | Withdrawn
    | Aborting
    | WaitingCalls
    | Decided
    | KnownModels
    | StateData
    | Entries
    | NamedThings
    | CommandDone
    | ChosenModel
    | ChosenLevel
    | ChosenMode
    | GivenName
    | Compacted
    | TreeData
    | Place
    | SessionList
    | Exported
    | Nothing
)

DATA: dict[str, type[msgspec.Struct]] = {
    "prompt": Started,
    "steer": Item,
    "follow_up": Item,
    "queued": Queue,
    "withdraw": Withdrawn,
    "abort": Aborting,
    "resume": Started,
    "approvals": WaitingCalls,
    "approve": Decided,
    "deny": Decided,
    "state": StateData,
    "messages": Entries,
    "commands": NamedThings,
    "run_command": CommandDone,
    "models": KnownModels,
    "model": ChosenModel,
    "thinking": ChosenLevel,
    "permission_mode": ChosenMode,
    "name": GivenName,
    "compact": Compacted,
    "tree": TreeData,
    "navigate": Place,
    "fork": Place,
    "open": Place,
    "new": Place,
    "sessions": SessionList,
    "export": Exported,
    "shutdown": Nothing,
}
"""What the data of each command's response is."""
