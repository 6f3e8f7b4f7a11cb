"""The commands of the rpc mode: one struct each, as it stands on a line of the input.     (pure)

A field that nobody knows is refused, so that a misspelt one is not passed over in silence.

Not here: reading the line (requests.py), or doing what it says (answers.py, dialogue.py).
"""

from __future__ import annotations

import typing
from typing import Any, Literal

import msgspec

from ...models.model import ThinkingLevel
from ...permissions.policy import Mode
from ..options import ExportFormat

__all__ = [
    "COMMANDS",
    "Abort",
    "Approvals",
    "Approve",
    "Command",
    "Commands",
    "Compact",
    "Deny",
    "Export",
    "FollowUp",
    "Fork",
    "Image",
    "Messages",
    "Model",
    "Models",
    "Name",
    "Navigate",
    "New",
    "Open",
    "PermissionMode",
    "Prompt",
    "Queued",
    "Resume",
    "RunCommand",
    "Sessions",
    "Shutdown",
    "State",
    "Steer",
    "Thinking",
    "Tree",
    "Withdraw",
    "name_of",
]


class Image(msgspec.Struct, rename="camel", forbid_unknown_fields=True):
    """An image: base64 data and its MIME type, such as `image/png`."""

    data: str
    mime_type: str
    type: Literal["image"] = "image"


class _Command(
    msgspec.Struct,
    tag_field="type",
    rename="camel",
    forbid_unknown_fields=True,
    kw_only=True,
):
    id: str | None = None
    """Given back with the response. The client's own; need not be unique."""


# -- saying something ------------------------------------------------------------------------


class Prompt(_Command, tag="prompt"):
    """Say something to the model. Answered when it is accepted; the line `run_end` tells the end."""

    text: str
    images: list[Image] = []
    request_id: str | None = None
    """The same one never runs a second time in a session, also after a crash."""


class Steer(_Command, tag="steer"):
    """Say something in the middle of the run: when the running tools are done, or at once."""

    text: str
    images: list[Image] = []
    when: Literal["after_batch", "interrupt"] = "after_batch"


class FollowUp(_Command, tag="follow_up"):
    """Say something when the run would end."""

    text: str
    images: list[Image] = []


class Queued(_Command, tag="queued"):
    """What was said and not heard yet."""


class Withdraw(_Command, tag="withdraw"):
    """Take back what was queued."""

    item_id: str


class Abort(_Command, tag="abort"):
    """Stop the run, the compaction or the move that is going on."""

    reason: str | None = None


class Resume(_Command, tag="resume"):
    """Drive what an earlier process left unfinished, or what waited for approval."""


# -- approvals -------------------------------------------------------------------------------


class Approvals(_Command, tag="approvals"):
    """The calls that wait for somebody's word."""


class Approve(_Command, tag="approve"):
    """Let a call run."""

    approval_id: str
    arguments: dict[str, Any] | None = None
    """Instead of the model's; only for a call that was left waiting by an earlier run."""
    always: bool = False
    """Such calls are not asked for any more: the request's `rule` is kept."""


class Deny(_Command, tag="deny"):
    """Do not let a call run."""

    approval_id: str
    reason: str | None = None
    """Told to the model."""


# -- what is there ---------------------------------------------------------------------------


class State(_Command, tag="state"):
    """What is going on, with which model, how full the context is."""


class Messages(_Command, tag="messages"):
    """The entries of the branch, oldest first."""

    since_entry: str | None = None
    """Only those behind this one."""
    limit: typing.Annotated[int, msgspec.Meta(ge=1)] | None = None


class Commands(_Command, tag="commands"):
    """What can be called by name: templates and skills in a prompt, commands of extensions."""


class RunCommand(_Command, tag="run_command"):
    """Run a command of an extension. Answered with what it returns."""

    name: str
    argument: str = ""


class Models(_Command, tag="models"):
    """The models of vendors that there is a key for."""


# -- settings of the session -----------------------------------------------------------------


class Model(_Command, tag="model"):
    """Ask another model from the next request on."""

    model: str
    """`vendor/id`, with `:level` behind it if the level of thinking is to change too."""


class Thinking(_Command, tag="thinking"):
    """How hard the model shall think from the next request on."""

    level: ThinkingLevel


class PermissionMode(_Command, tag="permission_mode"):
    """What tools may do without asking, from the next call on."""

    mode: Mode


class Name(_Command, tag="name"):
    """Give the session a name; null takes it away."""

    name: str | None


# -- the tree and other sessions -------------------------------------------------------------


class Compact(_Command, tag="compact"):
    """Replace what is old by a summary. Answered when that is done."""

    instructions: str | None = None


class Tree(_Command, tag="tree"):
    """All branches, in drawing order."""


class Navigate(_Command, tag="navigate"):
    """Go on from another entry; null is the beginning. Answered when that is done."""

    entry_id: str | None
    summarize: bool = False
    """Tell the model there what happened on the branch that is left."""


class Fork(_Command, tag="fork"):
    """Go on in a copy: of the whole branch, or of what comes before an entry."""

    entry_id: str | None = None
    name: str | None = None


class Open(_Command, tag="open"):
    """Go on in another session."""

    session: str
    """Its id, the beginning of it, or its name."""


class New(_Command, tag="new"):
    """Go on in a new session, which is made when something is said in it."""


class Sessions(_Command, tag="sessions"):
    """The sessions of this folder, the last used first."""

    all: bool = False
    """Of every folder."""
    limit: typing.Annotated[int, msgspec.Meta(ge=1)] = 50


class Export(_Command, tag="export"):
    """Write the branch to a file."""

    path: str
    """Relative to the folder of the session."""
    format: ExportFormat | None = None
    """None: by the ending of the path."""
    force: bool = False
    """Take the place of what is there."""


class Shutdown(_Command, tag="shutdown"):
    """Stop what is going on, close the session, end. The answer is the last line."""


Command = (
    Prompt
    | Steer
    | FollowUp
    | Queued
    | Withdraw
    | Abort
    | Resume
    | Approvals
    | Approve
    | Deny
    | State
    | Messages
    | Commands
    | RunCommand
    | Models
    | Model
    | Thinking
    | PermissionMode
    | Name
    | Compact
    | Tree
    | Navigate
    | Fork
    | Open
    | New
    | Sessions
    | Export
    | Shutdown
)


def name_of(command: Command | type[Command]) -> str:
    """The `type` on its line."""
    return str(command.__struct_config__.tag)


COMMANDS: dict[str, type[Command]] = {name_of(kind): kind for kind in typing.get_args(Command)}
"""Every command by its name."""
