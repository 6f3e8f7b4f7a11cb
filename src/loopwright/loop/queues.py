"""Messages waiting for their moment: steering before the next request, follow-ups before the end.

A message leaves its queue when it is about to be said, never earlier, so that a run which ends in
between leaves it queued. All methods may be called from any thread.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable
from typing import Any, Literal, Protocol

from ..messages import AgentMessage
from .config import AgentLoopConfig

__all__ = ["CallbackInbox", "Inbox", "MessageQueue", "QueueInbox"]

QueueName = Literal["steering", "follow_up"]


class MessageQueue:
    """First in, first out; *urgent* messages jump the queue and ask for an interruption."""

    __slots__ = ("_lock", "_messages", "_urgent", "_urgent_taken", "on_urgent")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._messages: list[AgentMessage] = []  # short, and much smaller than a deque
        self._urgent = 0  # how many of the first ones are urgent
        self._urgent_taken = 0  # how many of those that were taken last
        self.on_urgent: Callable[[], object] | None = None
        """Called when an urgent message arrives, in the thread that brought it."""

    def __len__(self) -> int:
        return len(self._messages)

    @property
    def urgent(self) -> bool:
        """An urgent message waits."""
        return self._urgent > 0

    def put(self, message: AgentMessage, *, urgent: bool = False) -> None:
        """Add *message*; urgent ones go before all others, in their own order."""
        with self._lock:
            if not urgent:
                self._messages.append(message)
                return
            self._messages.insert(self._urgent, message)
            self._urgent += 1
        if self.on_urgent is not None:
            self.on_urgent()

    def take(self, mode: Literal["one-at-a-time", "all"]) -> list[AgentMessage]:
        """Remove and return the oldest message, or all of them."""
        with self._lock:
            count = len(self._messages) if mode == "all" else 1
            taken, self._messages = self._messages[:count], self._messages[count:]
            self._urgent_taken = min(self._urgent, len(taken))
            self._urgent -= self._urgent_taken
            return taken

    def give_back(self, messages: list[AgentMessage]) -> None:
        """Put the last of those that were taken, which were not said, back to the front."""
        with self._lock:
            self._messages[:0] = messages
            self._urgent += min(self._urgent_taken, len(messages))
            self._urgent_taken = 0

    def clear(self) -> None:
        """Forget everything that waits."""
        with self._lock:
            self._messages.clear()
            self._urgent = 0

    def waiting(self) -> tuple[AgentMessage, ...]:
        """What waits, oldest first."""
        return tuple(self._messages)


class Inbox(Protocol):
    """Where the kernel gets the messages that were queued during a run."""

    def poll(self, queue: QueueName) -> list[AgentMessage] | Awaitable[list[AgentMessage]]:
        """Fetch what should be said now; empty if nothing waits."""
        ...

    def give_back(self, queue: QueueName, messages: list[AgentMessage]) -> Any:
        """The run ended before *messages* could be said. What this returns is awaited if it can."""
        ...

    @property
    def urgent(self) -> bool:
        """A message waits that should interrupt running tools."""
        ...

    @property
    def waits(self) -> bool:
        """Some message is known to wait."""
        ...

    def watch(self, callback: Callable[[], object] | None) -> None:
        """Call *callback*, from any thread, when an urgent message arrives; None stops that."""
        ...


class QueueInbox:
    """The two queues of an agent, read in the modes its config has at that moment."""

    __slots__ = ("_config", "_follow_up", "_steering")

    def __init__(
        self, config: AgentLoopConfig, steering: MessageQueue, follow_up: MessageQueue
    ) -> None:
        self._config = config
        self._steering = steering
        self._follow_up = follow_up

    def poll(self, queue: QueueName) -> list[AgentMessage]:
        """Take by the queue's mode."""
        if queue == "steering":
            return self._steering.take(self._config.steering_mode)
        return self._follow_up.take(self._config.follow_up_mode)

    def give_back(self, queue: QueueName, messages: list[AgentMessage]) -> None:
        """They are queued again, before all others."""
        (self._steering if queue == "steering" else self._follow_up).give_back(messages)

    @property
    def urgent(self) -> bool:
        """An urgent steering message waits."""
        return self._steering.urgent

    @property
    def waits(self) -> bool:
        """Something waits in one of the queues."""
        return bool(self._steering or self._follow_up)

    def watch(self, callback: Callable[[], object] | None) -> None:
        """See `Inbox`."""
        self._steering.on_urgent = callback


class CallbackInbox:
    """The functions that a low-level caller put into its config."""

    __slots__ = ("_config", "urgent", "waits")

    def __init__(self, config: AgentLoopConfig) -> None:
        self._config = config
        self.urgent = False
        self.waits = False  # functions cannot be asked without taking

    def poll(self, queue: QueueName) -> Any:
        """Call the function for *queue*, if there is one."""
        config = self._config
        fetch = (
            config.get_steering_messages if queue == "steering" else config.get_follow_up_messages
        )
        return [] if fetch is None else fetch()

    def give_back(self, queue: QueueName, messages: list[AgentMessage]) -> Any:
        """Hand them to `on_undelivered`, the caller's only way to keep them."""
        hook = self._config.on_undelivered
        return None if hook is None else hook(messages)

    def watch(self, callback: Callable[[], object] | None) -> None:
        """Functions have no way to interrupt."""
