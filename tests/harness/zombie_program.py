"""A process that works on a session and stops still at a given moment, until it is told to go on.

    python -m tests.harness.zombie_program STORE MOMENT FENCED FILE

It says `paused` when it stands still, goes on when it reads a line, and says at the end how its run
ended. FILE gets a line for each effect. Not here: who takes the session over (test_zombie).
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any

import msgspec

from loopwright import Agent, Harness, tool
from loopwright.errors import LeaseLost
from loopwright.messages import AssistantMessage
from loopwright.session import Commit, Lease
from loopwright.testing import Call, Reply, ScriptedModel

LEASE_SECONDS = 0.4


async def open_store(place: str) -> Any:
    """SQLite in a file, or PostgreSQL by its URL."""
    if "://" in place:
        from loopwright.session import PostgresStore

        return await PostgresStore.open(place, pool_size=3)
    from loopwright.session import SqliteStore

    return await SqliteStore.open(place)


def agent_with_an_effect(file: str, before_it_ends: Any = None) -> Agent[Any]:
    """Pays once and says so."""

    @tool
    async def pay() -> str:
        note(file)
        if before_it_ends is not None:
            await before_it_ends()
        return "paid"

    def reply(context: Any) -> Reply:
        replies = [Reply(calls=[Call("pay", {}, id="p")]), Reply("Done.")]
        return replies[sum(isinstance(m, AssistantMessage) for m in context.messages)]

    model = ScriptedModel([reply] * 5)
    return Agent(model.model, stream_fn=model.stream_fn, tools=[pay])


def note(file: str) -> None:
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(descriptor, b"paid\n")
    os.close(descriptor)


def stand_still() -> None:
    """The whole process, its heartbeat included, as if it had been stopped."""
    print("paused", flush=True)
    sys.stdin.readline()


class PausingStore:
    """Stands still once, right before something is written."""

    def __init__(self, store: Any, moment: str, fenced: bool) -> None:
        self._store, self._moment, self._fenced = store, moment, fenced
        self._renews = moment in ("renew", "stopped")
        self.tool_runs = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    def _pause_at(self, *moments: str) -> None:
        if self._moment in moments:
            self._moment = ""
            stand_still()

    async def commit(self, lease: Lease, commit: Commit) -> int:
        self._pause_at(*moments_of(commit))
        try:
            return await self._store.commit(lease, commit)
        except LeaseLost:
            if self._fenced:
                raise
            owner = (await self._store.info(lease.session_id)).locked_by  # as if nobody looked
            forged = Lease(lease.session_id, owner, lease.epoch + 1)
            return await self._store.commit(forged, commit)

    async def renew(self, lease: Lease, seconds: float) -> None:
        """Where the fence of commits is looked at, the heartbeat must not be what saves us."""
        if self.tool_runs:  # the first heartbeat may come before it
            self._pause_at("renew")
        if self._renews:
            await self._store.renew(lease, seconds)


def moments_of(commit: Commit) -> list[str]:
    """What of interest a commit writes."""
    found = ["intent" for intent in commit.intents if intent.result is None]
    for row in commit.entries:
        message = msgspec.json.decode(row.payload)["message"]
        found += ["outcome"] if message["role"] == "toolResult" else []
        found += ["message"] if message.get("stopReason") == "stop" else []
    return found + ["finish" for operation in commit.operations if operation.status == "completed"]


async def main(place: str, moment: str, fenced: bool, file: str) -> None:
    async def wait() -> None:
        """While the tool runs."""
        if moment == "stopped":
            print("paused", flush=True)
            await asyncio.to_thread(sys.stdin.readline)
        elif moment == "renew":
            pausing.tool_runs = True
            await asyncio.Event().wait()

    store = await open_store(place)
    pausing: Any = PausingStore(store, moment, fenced)
    agent = agent_with_an_effect(file, wait)
    async with Harness.open(pausing, "s", agent=agent, lease_seconds=LEASE_SECONDS) as harness:
        result = await harness.prompt("Go")
    await store.aclose()
    print(json.dumps([result.stop_reason, result.error_message]), flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], sys.argv[3] == "fenced", sys.argv[4]))
