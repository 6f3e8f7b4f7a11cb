"""A store whose process "dies" after commit k: that one is written, and nothing ever again.

It stands in for kill -9 where a test needs thousands of deaths; test_crash_kit.py kills for real.
"""

from __future__ import annotations

from typing import Any

from loopwright.errors import StoreUnavailable
from loopwright.session import Commit, Lease


class DyingStore:
    """Wraps *store*. *dies_after* None only counts."""

    def __init__(self, store: Any, dies_after: int | None = None) -> None:
        self._store = store
        self._dies_after = dies_after
        self.commits: list[Commit] = []
        self.dead = False

    async def commit(self, lease: Lease, commit: Commit) -> int:
        if self.dead:
            raise StoreUnavailable("the process is dead")
        head = await self._store.commit(lease, commit)
        self.commits.append(commit)
        if self._dies_after is not None and len(self.commits) >= self._dies_after:
            self.dead = True
            raise StoreUnavailable("the process has died")
        return head

    def __getattr__(self, name: str) -> Any:
        if self.dead and name in ("enqueue", "withdraw", "decide"):
            raise StoreUnavailable("the process is dead")
        return getattr(self._store, name)


def dying(store: Any, dies_after: int) -> Any:
    """*store* in a process that is dead after that many commits."""
    return DyingStore(store, dies_after)
