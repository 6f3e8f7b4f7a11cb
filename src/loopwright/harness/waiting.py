"""What is known to wait in a lane's inbox, in the order in which it is to be heard.          (pure)

Urgent messages come before all others of their queue, each kind in order of arrival. Whatever is
done here costs the same however much waits.

Not here: where it comes from and what becomes of it (inbox).
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from itertools import chain, islice

from ..session.rows import InboxItem, InboxQueue

__all__ = ["HEARD_IN_RUNS", "Waiting"]

HEARD_IN_RUNS: tuple[InboxQueue, ...] = ("steer", "followUp")
"""The queues that a run listens to."""


class Waiting:
    """The messages of one lane that nobody has heard yet, as far as this process knows."""

    def __init__(self) -> None:
        # Ordered ones, since a plain dictionary is slow to find its beginning once much was taken.
        self._urgent = {queue: OrderedDict[str, InboxItem]() for queue in HEARD_IN_RUNS}
        self._others = {queue: OrderedDict[str, InboxItem]() for queue in HEARD_IN_RUNS}
        self._places: dict[str, int] = {}
        """Of each that waits, for the order among all."""
        self._first = self._last = 0

    def _line(self, item: InboxItem) -> OrderedDict[str, InboxItem]:
        return (self._urgent if item.urgent else self._others)[item.queue]

    def put(self, item: InboxItem) -> None:
        """*item* has arrived behind all others; it may have been here already."""
        line = self._line(item)
        line[item.id] = item
        line.move_to_end(item.id)
        self._last += 1
        self._places[item.id] = self._last

    def put_back(self, item: InboxItem) -> None:
        """*item* was taken and not heard: it is the first again."""
        line = self._line(item)
        line[item.id] = item
        line.move_to_end(item.id, last=False)
        self._first -= 1
        self._places[item.id] = self._first

    def remove(self, item_id: str) -> None:
        """It does not wait any more; does nothing if it did not."""
        if self._places.pop(item_id, None) is None:
            return
        for line in chain(self._urgent.values(), self._others.values()):
            line.pop(item_id, None)

    def take(self, queue: InboxQueue, count: int | None) -> list[InboxItem]:
        """Remove and return the first *count* of *queue*; None: all of them."""
        taken = list(islice(self._of(queue), count))
        for item in taken:
            self.remove(item.id)
        return taken

    def first(self, count: int) -> list[str]:
        """The ids of the first *count* of each queue."""
        return [item.id for queue in HEARD_IN_RUNS for item in islice(self._of(queue), count)]

    @property
    def urgent(self) -> bool:
        """A message waits that should interrupt running tools."""
        return any(self._urgent.values())

    def _of(self, queue: InboxQueue) -> Iterable[InboxItem]:
        return chain(self._urgent[queue].values(), self._others[queue].values())

    def __contains__(self, item_id: str) -> bool:
        return item_id in self._places

    def __len__(self) -> int:
        return len(self._places)

    def __iter__(self) -> Iterator[InboxItem]:
        """All of them, oldest first."""
        every = chain.from_iterable(map(self._of, HEARD_IN_RUNS))
        return iter(sorted(every, key=lambda item: self._places[item.id]))
