"""What a run may start from: something to say, or a transcript that asks for an answer.

What cannot start one is refused here, before any event.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from ..errors import Misuse, NothingToResume
from ..messages import AgentMessage, AssistantMessage, ImageContent, TextContent, UserMessage

__all__ = ["Prompt", "as_message", "as_messages", "check_prompts", "check_resumable"]

Prompt = str | AgentMessage | Sequence[AgentMessage]
"""What `prompt` takes: text of the user, a message, or several."""


def as_message(message: Any) -> AgentMessage:
    """*message* itself, or text as the user's. Raises `Misuse` for what is neither."""
    if isinstance(message, str):
        return UserMessage([TextContent(message)])
    if hasattr(message, "role"):
        return cast("AgentMessage", message)
    raise Misuse(
        f"a message is text or has a role; got {type(message).__name__}",
        hint='UserMessage("..."), or a subclass of CustomMessage',
    )


def as_messages(prompt: Any, images: Sequence[ImageContent]) -> list[AgentMessage]:
    """What a prompt says, as messages. Raises `Misuse` for what is none."""
    if isinstance(prompt, str):
        return [UserMessage([TextContent(prompt), *images])]
    if images:
        raise Misuse("images go with a text prompt; put them into the content of the message")
    if isinstance(prompt, list | tuple):
        return [as_message(message) for message in cast("Sequence[Any]", prompt)]
    return [as_message(prompt)]


def check_prompts(prompts: Sequence[AgentMessage]) -> None:
    """Raise `Misuse` unless *prompts* are messages, at least one."""
    if not prompts:
        raise Misuse("there is nothing to say: the list of prompts is empty")
    if isinstance(prompts, str) or not all(hasattr(prompt, "role") for prompt in prompts):
        raise Misuse(
            "prompts are a list of messages", hint='[UserMessage("...")] says something as the user'
        )


def check_resumable(messages: Sequence[AgentMessage]) -> None:
    """Raise `NothingToResume` unless the model has something to answer."""
    if not messages:
        raise NothingToResume("there is nothing to resume: the transcript is empty")
    last = messages[-1]
    if isinstance(last, AssistantMessage) and last.stop_reason not in ("error", "aborted"):
        raise NothingToResume(
            "there is nothing to resume: the transcript ends with the model's reply",
            hint="send a new message with prompt()",
        )
