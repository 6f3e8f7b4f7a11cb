"""The kernel's inbox over the store's: what was said to a lane, by whoever, is heard once.

A message leaves the inbox in the commit that places it in the tree, never earlier, so that a run
which ends in between leaves it waiting.

Thousands may wait and be heard one a turn. So while many wait, a poll reads only what has come since
the last one, and whether the first ones still wait: that others took theirs back is noticed when
its turn comes.

Not here: the order in which they are heard (waiting), or the queues of a plain agent (loop.queues),
which are heard as well; those are in memory.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any, cast

import msgspec

from ..loop.queues import Inbox, QueueName
from ..messages import AgentMessage
from ..session.rows import InboxItem, InboxQueue
from ..session.session import Session
from .waiting import HEARD_IN_RUNS, Waiting

__all__ = ["SessionInbox"]

_FEW = 16
"""So many that wait are simply read again."""
_CHECKED_AT_ONCE = 256


class _Held(msgspec.Struct):
    """A message that was taken out to be said."""

    message: AgentMessage
    item: InboxItem
    handed_over: bool = False
    """The commit that places it has been handed over, and is written whatever happens here."""


_QUEUES: dict[QueueName, InboxQueue] = {"steering": "steer", "follow_up": "followUp"}


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
        self._waiting = Waiting()
        self._in_hand: dict[int, _Held] = {}
        self._known: set[str] = set()
        """Ids that were seen in this run: what was and does not wait any more is no news."""
        self._read_up_to: str | None = None
        """The last item that was read; None: nothing yet in this run."""
        self._meanwhile: list[InboxItem] = []
        """Stored by this process since the read that is going on began."""
        self._reading = asyncio.Lock()
        self._callback: Callable[[], object] | None = None

    async def look(self) -> list[InboxItem]:
        """Read what waits now; urgent news are passed on. Returns requests to cancel."""
        await self._read()
        session = self._session
        return await session.store.inbox(session.id, lane=session.lane.name, queues=("cancel",))

    async def _read(self) -> None:
        async with self._reading:  # one at a time, or an older answer could come last
            if self._read_up_to is None or len(self._waiting) <= _FEW:
                await self._read_all()
            else:
                self._hear(await self._pending(after=self._read_up_to))
                await self._drop_withdrawn()

    async def _read_all(self) -> None:
        before = [item.id for item in self._waiting]  # one that comes meanwhile may be missing
        pending = await self._pending()
        there = {item.id for item in pending}
        for item_id in before:
            if item_id not in there:
                self._waiting.remove(item_id)
        self._hear(pending)

    async def _drop_withdrawn(self) -> None:
        """Make sure that the first of each queue still waits."""
        count = 1
        while first := self._waiting.first(count):
            there = {item.id for item in await self._pending(ids=first)}
            gone = [item_id for item_id in first if item_id not in there]
            if not gone:
                return
            for item_id in gone:
                self._waiting.remove(item_id)
            count = min(count * 4, _CHECKED_AT_ONCE)

    async def _pending(
        self, after: str | None = None, ids: Sequence[str] | None = None
    ) -> list[InboxItem]:
        self._meanwhile.clear()
        session = self._session
        # Both are always given: a store that does not know them shall fail at its first run, and
        # not on the day when many wait.
        return await session.store.inbox(
            session.id, lane=session.lane.name, queues=HEARD_IN_RUNS, after=after, ids=ids
        )

    def _hear(self, items: list[InboxItem]) -> None:
        """*items* are what the store has behind those read before, in its order."""
        urgent = False
        for item in items:
            news = item.id not in self._known
            if item.message is not None and (news or item.id in self._waiting):
                self._known.add(item.id)
                self._waiting.put(item)
                urgent = urgent or (news and item.urgent)
        if items:
            self._read_up_to = items[-1].id
        if self._meanwhile:
            there = {item.id for item in items}
            for item in self._meanwhile:
                if item.id not in there and item.id in self._waiting:
                    self._waiting.put(item)  # it came after what was read, and is heard after it
        if urgent:
            self._tell_urgent()

    def add(self, item: InboxItem) -> None:
        """*item* was just stored by this process."""
        if item.queue in HEARD_IN_RUNS and item.status == "pending" and item.id not in self._known:
            # What is in hand is known by its message, and the caller may say this one again.
            item = msgspec.structs.replace(item, message=copy(item.message))
            self._known.add(item.id)
            self._waiting.put(item)
            self._meanwhile.append(item)
            if item.urgent:
                self._tell_urgent()

    def forget(self, item_id: str) -> None:
        """It was withdrawn."""
        self._known.add(item_id)
        self._waiting.remove(item_id)

    @property
    def waiting(self) -> list[InboxItem]:
        """What this process knows to be queued and nobody has heard, oldest first."""
        return list(self._waiting)

    def begin_run(self) -> None:
        """Nothing is in hand; what an earlier run could not say waits in the store."""
        self._in_hand.clear()
        self._known = {item.id for item in self._waiting}
        self._read_up_to = None

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
        await self._read()
        taken = self._waiting.take(_QUEUES[queue], None if self._mode(queue) == "all" else 1)
        if not taken:
            waiting: Any = self._own.poll(queue)
            if hasattr(waiting, "__await__"):
                waiting = await waiting
            return cast("list[AgentMessage]", waiting)
        messages: list[AgentMessage] = []
        for item in taken:
            assert item.message is not None
            self._in_hand[id(item.message)] = _Held(item.message, item)
            messages.append(item.message)
        return messages

    def give_back(self, queue: QueueName, messages: list[AgentMessage]) -> object:
        """They were not said; those that are stored still wait there."""
        own: list[AgentMessage] = []
        for message in reversed(messages):
            held = self._in_hand.pop(id(message), None)
            if held is None:
                own.insert(0, message)
            elif not held.handed_over:  # else it is placed, though nobody heard of it here
                self._waiting.put_back(held.item)
        return self._own.give_back(queue, own) if own else None

    @property
    def urgent(self) -> bool:
        """A message waits that should interrupt running tools."""
        return self._waiting.urgent or self._own.urgent

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
