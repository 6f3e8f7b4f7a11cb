"""The messages of pi beside those a model knows: read as pi wrote them, shown as pi shows them.

They stay in the tree as they were, so that nothing is lost for an export; `shown_to_model` says
how they read for a model. Importing this module registers their roles.

Not here: entries and files (legacy, pi_v4_spec).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, cast

from msgspec import field

from ...errors import DecodeError
from ...messages import (
    AgentMessage,
    CustomMessage,
    ImageContent,
    TextContent,
    UserMessage,
    message_from_dict,
)
from .pi_v4_messages import message_from_pi

__all__ = [
    "BashExecution",
    "BranchSummaryMessage",
    "CompactionSummaryMessage",
    "ExtensionMessage",
    "read_message",
    "shown_to_model",
    "with_rest",
]


def _yes() -> bool:
    return True


class BashExecution(CustomMessage, tag="bashExecution"):
    """A command that the user, not the model, ran."""

    command: str
    output: str = field(default_factory=str)
    exit_code: int | None = None
    cancelled: bool = field(default_factory=bool)
    truncated: bool = field(default_factory=bool)
    full_output_path: str | None = None
    exclude_from_context: bool = False
    """The user ran it for himself: no model is shown it."""


class ExtensionMessage(CustomMessage, tag="custom"):
    """Said by an extension of pi. The older name of the role is `hookMessage`."""

    custom_type: str
    content: str | list[TextContent | ImageContent]
    display: bool = field(default_factory=_yes)
    """People are shown it, too."""
    details: Any = None


class BranchSummaryMessage(CustomMessage, tag="branchSummary"):
    """What happened on a branch that was left."""

    summary: str
    from_id: str = field(default_factory=str)


class CompactionSummaryMessage(CustomMessage, tag="compactionSummary"):
    """What stands for the messages that a compaction took away."""

    summary: str
    tokens_before: int = field(default_factory=int)


def shown_to_model(message: AgentMessage) -> AgentMessage | None:
    """A message of pi's as a model is shown it: text of the user, or None for nothing.

    Any other message, those of a program's own included, is given back as it is.
    """
    from ..tree import branch_summary_text, compaction_text  # which imports the entries, as we do

    match message:
        case BashExecution():
            if message.exclude_from_context:
                return None
            return UserMessage(_bash_text(message), timestamp=message.timestamp)
        case ExtensionMessage():
            return UserMessage(message.content, timestamp=message.timestamp)
        case BranchSummaryMessage():
            return _summary(branch_summary_text, message)
        case CompactionSummaryMessage():
            return _summary(compaction_text, message)
        case _:
            return message


def _summary(
    worded: Callable[[str], str], message: BranchSummaryMessage | CompactionSummaryMessage
) -> UserMessage | None:
    if not message.summary.strip():
        return None
    return UserMessage(worded(message.summary), timestamp=message.timestamp)


def _bash_text(message: BashExecution) -> str:
    longest = max((len(run) for run in re.findall("`{3,}", message.output)), default=2)
    fence = "`" * (longest + 1)
    body = f"{fence}\n{message.output}\n{fence}" if message.output else "It printed nothing."
    said = [f"The user ran `{message.command}`:", body]
    if message.cancelled:
        said.append("The command was cancelled.")
    elif message.exit_code:
        said.append(f"The command ended with exit code {message.exit_code}.")
    if message.truncated:
        kept = f" All of it is in {message.full_output_path}." if message.full_output_path else ""
        said.append(f"The output was cut.{kept}")
    return "\n\n".join(said)


# -- reading ---------------------------------------------------------------------------------


def read_message(data: Any, *, timestamp: int) -> tuple[AgentMessage, dict[str, Any] | None]:
    """A message as pi wrote it, of any version, and what of it our messages have no field for.

    *timestamp* (ms) is for one that has none. The rest has the shape of the message, lists as
    objects by index; None if there is none. Raises `DecodeError`.
    """
    if not isinstance(data, dict):
        raise DecodeError(f"a message must be an object, not {type(data).__name__}")
    fields = dict(cast("dict[str, Any]", data))
    if fields.get("role") == "hookMessage":
        fields["role"] = "custom"
    fields = dict(message_from_pi(fields, timestamp))
    if isinstance(fields.get("timestamp"), bool) or not isinstance(fields.get("timestamp"), int):
        fields["timestamp"] = timestamp
    message = message_from_dict(fields)
    return message, cast("dict[str, Any] | None", _missing(fields, message.to_dict(camel=True)))


def _missing(original: Any, kept: Any) -> Any:
    """The parts of *original* that *kept* lacks; None if there are none."""
    if isinstance(original, dict) and isinstance(kept, dict):
        ours = cast("dict[str, Any]", kept)
        rest: dict[str, Any] = {}
        for name, value in cast("dict[str, Any]", original).items():
            if name in ours:
                value = _missing(value, ours[name])
            elif (name, value) == ("redacted", False):
                continue
            if value is not None:
                rest[name] = value
        return rest or None
    if isinstance(original, list) and isinstance(kept, list):
        pairs = zip(cast("list[Any]", original), cast("list[Any]", kept), strict=False)
        rest = {
            str(index): part
            for index, pair in enumerate(pairs)
            if (part := _missing(*pair)) is not None
        }
        return rest or None
    return None


def with_rest(kept: Any, rest: Any) -> Any:
    """The JSON data *kept* together with what `read_message` found to be missing from it."""
    if not isinstance(rest, dict):
        return kept if kept is not None else rest
    changes = cast("dict[str, Any]", rest)
    if isinstance(kept, dict):
        merged = dict(cast("dict[str, Any]", kept))
        for name, part in changes.items():
            merged[name] = with_rest(merged.get(name), part)
        return merged
    if isinstance(kept, list):
        return [
            with_rest(item, changes.get(str(index)))
            for index, item in enumerate(cast("list[Any]", kept))
        ]
    return changes if kept is None else kept
