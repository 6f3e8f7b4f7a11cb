"""Saying something to a lane: stored once, and known here at once.

Not here: when it is heard (inbox).
"""

from __future__ import annotations

import msgspec

from ..errors import Misuse
from ..loop.agent import as_message
from ..messages import AgentMessage, AssistantMessage, ToolResultMessage
from ..session.rows import InboxItem, InboxQueue
from ..session.session import Session
from .inbox import SessionInbox

__all__ = ["say"]


async def say(
    session: Session,
    inbox: SessionInbox,
    queue: InboxQueue,
    message: str | AgentMessage,
    request_id: str | None,
    *,
    urgent: bool = False,
) -> InboxItem:
    """Put *message* into *queue* of the lane. The same *request_id* is never queued twice.

    Returns the item as it is stored. Raises `Misuse` for what only a model or a tool can say, and
    for a *request_id* that another message has.
    """
    said = as_message(message)
    if isinstance(said, AssistantMessage | ToolResultMessage):
        raise Misuse(f"a message with the role {said.role!r} cannot be said to the model")
    item = InboxItem(
        lane=session.lane.name, queue=queue, message=said, urgent=urgent, request_id=request_id
    )
    stored = await session.store.enqueue(session.id, item)
    if stored.id == item.id:
        inbox.add(stored)
    elif stored.queue != queue or _content(stored.message) != _content(said):
        raise Misuse(
            f"the request id {request_id!r} was used before, for another message",
            hint="give each message an id of its own; the same id is for sending it again",
        )
    return stored


def _content(message: AgentMessage | None) -> object:
    """What *message* says, without when."""
    return None if message is None else msgspec.structs.replace(message, timestamp=0)
