"""What a run works on: the system prompt, the transcript and the tools."""

from __future__ import annotations

from typing import Any

import msgspec

from ..messages import AgentMessage

__all__ = ["AgentContext"]


class AgentContext(msgspec.Struct):
    """The system prompt, the messages so far, and the tools on offer.

    A caller's context is never changed by a run. The one that hooks are shown is the run's own:
    read it, and return a new one to change something.
    """

    system_prompt: str = ""
    messages: list[AgentMessage] = msgspec.field(default_factory=list[AgentMessage])
    tools: list[Any] = msgspec.field(default_factory=list[Any])
    """Tools, or plain functions that become tools."""
