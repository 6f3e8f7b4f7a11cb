"""The kernel's inbox over the store's: what was said to a lane, by whoever, is heard once.

A message leaves the inbox in the commit that places it in the tree, never earlier, so that a run
which ends in between leaves it waiting.

Not here: the queues of a plain agent (loop.queues), which are heard as well; those are in memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import msgspec

from ..loop.queues import Inbox, QueueName
from ..messages import AgentMessage
from ..session.rows import InboxItem
from ..session.session import Session

__all__ = ["SessionInbox"]


class _Held(msgspec.Struct):
    """A message that was taken out to be said."""

    message: AgentMessage
    item: InboxItem
    handed_over: bool = False
    """The commit that places it has been handed over, and is written whatever happens here."""


_QUEUES = {"steering": "steer", "follow_up": "followUp"}


class SessionInbox:
    """Belongs to one harness. *agents_own* is the inbox of the agent's queues in memory."""

    def __init__(
        self,
        session: Session,
        agents_own: Inbox,
        mode: Callable[[QueueName], str],
    ) -> None:
        self._session = session
        self._own = agents_own
        self._mode = mode
        self._waiting: list[InboxItem] = []
        self._in_hand: dict[int, _Held] = {}
        self._callback: Callable[[], object] | None = None

    async def look(self) -> list[InboxItem]:
        """Read what waits now; urgent news are passed on. Returns requests to cancel."""
        session = self._session
        pending = await session.store.inbox(session.id, lane=session.lane.name)
        known = {item.id for item in self._waiting}
        held = {held.item.id for held in self._in_hand.values()}
        self._waiting = [
            item
            for item in pending
            if item.queue in ("steer", "followUp")
            and item.message is not None
            and item.id not in held
        ]
        if any(item.urgent and item.id not in known for item in self._waiting):
            self._tell_urgent()
        return [item for item in pending if item.queue == "cancel"]

    def add(self, item: InboxItem) -> None:
        """*item* was just stored by this process."""
        if item.queue in ("steer", "followUp") and item.status == "pending":
            self._waiting.append(item)
            if item.urgent:
                self._tell_urgent()

    def forget(self, item_id: str) -> None:
        """It was withdrawn."""
        self._waiting = [item for item in self._waiting if item.id != item_id]

    @property
    def waiting(self) -> list[InboxItem]:
        """What this process knows to be queued and nobody has heard, oldest first."""
        return list(self._waiting)

    def begin_run(self) -> None:
        """Nothing is in hand; what an earlier run could not say waits in the store."""
        self._in_hand.clear()

    def hand_over(self, message: AgentMessage, operation_id: str) -> InboxItem | None:
        """The row of *message* as it is once placed; None if it did not come from here.

        It stays in hand until `settled`, so that nobody takes it for news meanwhile.
        """
        held = self._in_hand.get(id(message))
        if held is None:
            return None
        held.handed_over = True
        return msgspec.structs.replace(held.item, status="placed", operation_id=operation_id)

    def settled(self, message: AgentMessage) -> None:
        """The commit that places it was written, or refused because it had been withdrawn."""
        self._in_hand.pop(id(message), None)

    # -- what the kernel uses -----------------------------------------------------------------

    async def poll(self, queue: QueueName) -> list[AgentMessage]:
        """Take by the queue's mode, urgent ones first; what is stored before what is not."""
        await self.look()
        found = [item for item in self._waiting if item.queue == _QUEUES[queue]]
        found.sort(key=lambda item: not item.urgent)
        if not found:
            waiting: Any = self._own.poll(queue)
            if hasattr(waiting, "__await__"):
                waiting = await waiting
            return cast("list[AgentMessage]", waiting)
        if self._mode(queue) != "all":
            found = found[:1]
        messages: list[AgentMessage] = []
        for item in found:
            self._waiting.remove(item)
            assert item.message is not None
            self._in_hand[id(item.message)] = _Held(item.message, item)
            messages.append(item.message)
        return messages

    def give_back(self, queue: QueueName, messages: list[AgentMessage]) -> object:
        """They were not said; those that are stored still wait there."""
        own: list[AgentMessage] = []
        for message in messages:
            held = self._in_hand.pop(id(message), None)
            if held is None:
                own.append(message)
            elif not held.handed_over:  # else it is placed, though nobody heard of it here
                self._waiting.insert(0, held.item)
        return self._own.give_back(queue, own) if own else None

    @property
    def urgent(self) -> bool:
        """A message waits that should interrupt running tools."""
        return any(item.urgent for item in self._waiting) or self._own.urgent

    @property
    def waits(self) -> bool:
        """Something is known to wait."""
        return bool(self._waiting) or self._own.waits

    def watch(self, callback: Callable[[], object] | None) -> None:
        """See `loop.queues.Inbox`."""
        self._callback = callback
        self._own.watch(callback)

    def undelivered(self) -> tuple[AgentMessage, ...]:
        """What still waits, oldest first."""
        return tuple(item.message for item in self._waiting if item.message is not None)

    def _tell_urgent(self) -> None:
        if self._callback is not None:
            self._callback()
