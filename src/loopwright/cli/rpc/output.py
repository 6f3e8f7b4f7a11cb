"""What the rpc mode says beside the events: one struct each, as it stands on a line.      (pure)

Every field is always written; null says that there is nothing. Events and the line `session` are
those of the json mode (json_mode.py), unchanged.

Not here: putting them together from a session (answers.py).
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal, cast

import msgspec

from ...loop.transcript import StoppedBy
from ...messages import StopReason, Usage
from ...permissions.policy import Mode
from ...records import Record, to_jsonable
from .commands import Command, name_of
from .response_data import Data, UnfinishedWork

__all__ = [
    "PROTOCOL_VERSION",
    "ApprovalOutcome",
    "ApprovalRequest",
    "ApprovalSettled",
    "ErrorKind",
    "Fault",
    "Line",
    "Note",
    "Ready",
    "RunEnd",
    "StartFailed",
    "failure",
    "success",
    "to_line",
]

PROTOCOL_VERSION = 1
"""Grows when a client of the old protocol would misunderstand the new one."""

ErrorKind = Literal[
    "malformed",
    "too_long",
    "unknown_command",
    "invalid",
    "busy",
    "unfinished",
    "not_found",
    "locked",
    "configuration",
    "model",
    "session",
    "refused",
    "io",
    "internal",
]
"""
malformed, too_long: the line is no JSON object in UTF-8, or is longer than 16 MiB
unknown_command, invalid: it is none that we know, or its fields are wrong
busy: something is going on that it must not overlap
unfinished: an earlier run must be resumed or aborted first
not_found, locked, session: no such session; another process has it; its store cannot be used
configuration, model: a model, key or package is missing; the vendor refused
refused: it makes no sense now; the message says why
io: a file cannot be written
internal: a fault of this program
"""


class Fault(msgspec.Struct, rename="camel"):
    """What was wrong, and what to do about it."""

    message: str
    hint: str | None
    kind: ErrorKind


# -- lines -----------------------------------------------------------------------------------


class Ready(msgspec.Struct, rename="camel", tag_field="type", tag="ready"):
    """The first line: commands are read from now on."""

    type: ClassVar[str] = "ready"
    version: int
    program: str
    folder: str
    session_id: str | None
    """None: a new session, which is made when something is said."""
    model: str
    permission_mode: Mode
    unfinished: UnfinishedWork | None
    notes: list[str]
    """What a user should be told, about settings and extensions."""


class StartFailed(msgspec.Struct, rename="camel", tag_field="type", tag="start_failed"):
    """The only line, if the session cannot be opened or the settings are wrong."""

    type: ClassVar[str] = "start_failed"
    version: int
    program: str
    error: Fault


class RunEnd(msgspec.Struct, rename="camel", tag_field="type", tag="run_end"):
    """A run that was accepted is over; the next prompt may come."""

    type: ClassVar[str] = "run_end"
    id: str | None
    """That of the prompt, or of resume."""
    command: Literal["prompt", "resume"]
    session_id: str | None
    stop_reason: StopReason
    stopped_by: StoppedBy | None
    error_message: str | None
    usage: Usage
    """Of all requests of the run, retried ones and those of tools included; `cost` in US dollars."""
    code: Literal[0, 1]
    """1 if the run failed or was aborted."""


class ApprovalRequest(msgspec.Struct, rename="camel", tag_field="type", tag="approval_request"):
    """A call waits for somebody's word: `approve` or `deny`."""

    type: ClassVar[str] = "approval_request"
    approval_id: str
    tool_call_id: str
    tool_name: str
    args: Any
    reason: str
    """Why it is asked for."""
    rule: str | None
    """What `always` would allow from then on. None: such a call can be allowed only once."""


ApprovalOutcome = Literal["approved", "always", "denied", "cancelled"]


class ApprovalSettled(msgspec.Struct, rename="camel", tag_field="type", tag="approval_settled"):
    """Nobody needs to answer any more. `cancelled`: the run was stopped or interrupted meanwhile."""

    type: ClassVar[str] = "approval_settled"
    approval_id: str
    outcome: ApprovalOutcome


class Note(msgspec.Struct, rename="camel", tag_field="type", tag="note"):
    """Something to tell the user, or (*into_input*) to put into their input."""

    type: ClassVar[str] = "note"
    text: str
    into_input: bool


Line = Ready | StartFailed | RunEnd | ApprovalRequest | ApprovalSettled | Note


# -- writing ---------------------------------------------------------------------------------


def to_line(line: Line) -> bytes:
    """*line* as UTF-8 JSON without a line break."""
    return msgspec.json.encode(_plain(line))


def success(command: Command, data: Data) -> bytes:
    """The response to a command that was done."""
    said = {
        "type": "response",
        "id": command.id,
        "command": name_of(command),
        "success": True,
        "data": data,
    }
    return msgspec.json.encode(_plain(said))


def failure(id: str | None, command: str | None, error: Fault) -> bytes:
    """The response to what was not done; *command* is None if the line did not say which."""
    said = {"type": "response", "id": id, "command": command, "success": False, "error": error}
    return msgspec.json.encode(_plain(said))


def _plain(value: Any) -> Any:
    """*value* as plain data: our records as everywhere, structs with every field."""
    if isinstance(value, Record):
        return value.to_dict(camel=True)
    if isinstance(value, msgspec.Struct):
        config = value.__struct_config__
        data: dict[str, Any] = {} if config.tag is None else {str(config.tag_field): config.tag}
        for field in msgspec.structs.fields(value):
            data[field.encode_name] = _plain(getattr(value, field.name))
        return data
    if isinstance(value, list):
        return [_plain(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in cast("dict[str, Any]", value).items()}
    return to_jsonable(value)
