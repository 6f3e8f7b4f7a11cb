"""The sendable copy of a transcript, grown with it, over all runs of an agent.

Making a message sendable costs something once; a request then costs only what is new. The copy is
good as long as the transcript still begins with the very messages it was made of, for one model.

Not here: what makes a message sendable (models.handoff).
"""

from __future__ import annotations

import operator

from ..messages import AgentMessage, AssistantMessage, ToolResultMessage, UserMessage
from ..models.handoff import MessageView, SendableTranscript
from ..models.model import Model

__all__ = ["Outbox"]

_SAID_TO_MODELS = (UserMessage, AssistantMessage, ToolResultMessage)


class Outbox:
    """Belongs to one transcript. `check` it when the transcript may have been edited."""

    __slots__ = ("_sendable", "_sent")

    def __init__(self) -> None:
        self._sendable: SendableTranscript | None = None
        self._sent: list[AgentMessage] = []

    def check(self, messages: list[AgentMessage]) -> None:
        """Start anew unless *messages* go on from what was sent before."""
        sent = self._sent
        if len(messages) < len(sent) or not all(map(operator.is_, sent, messages)):
            self._sendable = None

    def grow(self, messages: list[AgentMessage], model: Model) -> MessageView:
        """What may be sent of *messages* to *model*. Roles that models do not know are left out."""
        sendable = self._sendable
        if sendable is None or sendable.prepared_for != (model.provider, model.api, model.id):
            sendable = self._sendable = SendableTranscript(model)
            self._sent = []
        new = messages[len(self._sent) :]
        self._sent += new
        sendable.extend([message for message in new if isinstance(message, _SAID_TO_MODELS)])
        return sendable.view()
