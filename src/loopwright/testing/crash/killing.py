"""The points at which a process may be killed, and a store that passes through them.

Not here: which of them is to kill (campaign), or the process (worker).
"""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Awaitable, Callable, Collection
from typing import Any, Literal, TypeVar

from ...session.rows import Approval, InboxItem, InboxStatus
from ...session.store import Commit, Lease, SessionStore

__all__ = ["KillPoints", "KillingStore", "PointKind", "When"]

T = TypeVar("T")

PointKind = Literal["create", "claim", "commit", "enqueue", "withdraw", "decide", "effect"]
"""A method of the store that writes, or an effect that the scenario has told of."""

When = Literal["after", "before"]
"""Right after what happens at a point has happened, and before anybody heard of it; or right
before it happens."""


class KillPoints:
    """Counts the points of *kinds*, from 1, and ends the process at number *at*, if it is not None."""

    def __init__(
        self,
        kinds: Collection[PointKind],
        at: int | None,
        when: When,
        note: Callable[[dict[str, Any]], object],
    ) -> None:
        """*note* keeps a record beyond the death of this process."""
        self.passed: list[str] = []
        """What happened at each, in words."""
        self._kinds = frozenset(kinds)
        self._at = at
        self._when = when
        self._note = note
        self._lock = threading.Lock()  # tools have effects in threads

    def enter(self, kind: PointKind, what: str) -> int:
        """Something is about to happen. Returns the number of the point, 0 if it is none."""
        if kind not in self._kinds:
            return 0
        with self._lock:
            self.passed.append(what)
            number = len(self.passed)
        if number == self._at and self._when == "before":
            self._die(number, what)
        return number

    def leave(self, number: int) -> None:
        """It has happened."""
        if number and number == self._at and self._when == "after":
            self._die(number, self.passed[number - 1])

    def _die(self, number: int, what: str) -> None:
        self._note({"killed": number, "what": what})
        # On Windows SIGTERM is TerminateProcess, which is as sudden.
        os.kill(os.getpid(), getattr(signal, "SIGKILL", signal.SIGTERM))
        threading.Event().wait()  # a signal may take a moment; nothing goes on behind this line


class KillingStore:
    """*store*, whose writes are points. Reading is as it was."""

    def __init__(self, store: SessionStore, points: KillPoints) -> None:
        self._store = store
        self._points = points

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def _pass(self, kind: PointKind, what: str, doing: Awaitable[T]) -> T:
        number = self._points.enter(kind, what)
        try:
            return await doing
        finally:
            self._points.leave(number)

    async def create(self, info: Any) -> None:
        """See `SessionStore`; so for the others."""
        await self._pass("create", f"create session {info.id}", self._store.create(info))

    async def claim(self, session_id: str, owner: str, seconds: float) -> Lease:
        claiming = self._store.claim(session_id, owner, seconds)
        return await self._pass("claim", f"claim session {session_id}", claiming)

    async def commit(self, lease: Lease, commit: Commit) -> int:
        return await self._pass("commit", _in_words(commit), self._store.commit(lease, commit))

    async def enqueue(self, session_id: str, item: InboxItem) -> InboxItem:
        enqueuing = self._store.enqueue(session_id, item)
        return await self._pass("enqueue", f"enqueue {item.queue}", enqueuing)

    async def withdraw(self, session_id: str, item_id: str) -> InboxStatus | None:
        withdrawing = self._store.withdraw(session_id, item_id)
        return await self._pass("withdraw", f"withdraw {item_id}", withdrawing)

    async def decide(
        self,
        session_id: str,
        approval_id: str,
        verdict: Literal["approved", "denied"],
        **options: Any,
    ) -> Approval:
        deciding = self._store.decide(session_id, approval_id, verdict, **options)
        return await self._pass("decide", f"decide {verdict}", deciding)


def _in_words(commit: Commit) -> str:
    """What a commit is about, for reports."""
    parts: list[str] = []
    for entry in commit.entries:
        role = entry.type
        if entry.type == "message":
            import msgspec

            role = msgspec.json.decode(entry.payload)["message"].get("role", role)
        parts.append(role)
    parts += [
        f"outcome of {intent.tool_name}" if intent.result else f"intent of {intent.tool_name}"
        for intent in commit.intents
    ]
    parts += [f"operation {operation.status}" for operation in commit.operations]
    parts += [f"{len(commit.inbox)} of the inbox"] if commit.inbox else []
    parts += ["approval asked for"] if commit.approvals else []
    parts += ["approval used"] if commit.consume else []
    parts += ["fact"] if commit.facts else []
    return "commit: " + (", ".join(parts) or "nothing but usage")
