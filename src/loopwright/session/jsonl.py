"""Sessions as files, one each, in the v4 format of pi: pp-agent-core reads and goes on with them.

Files stand where pi looks for them: `<root>/--<folder with dashes>--/<time>_<id>.jsonl`. Each
commit is one write of whole lines to the end, and is there whole or not at all. Between two
openings somebody else's program may append, too; while one of ours has a session open, its lease
keeps our other processes out, and pp-agent-core only from writing at the same instant.

Not for network file systems, whose locks cannot be trusted; and not for very large sessions: a
file is read whole when it is opened. SQLite has neither limit.

Not here: locks and leases (jsonl_lock), one file (jsonl_file), its lines (jsonl_log).
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

from ..errors import Misuse, StoreUnavailable
from . import columns, refusals
from .entries import EntryRow
from .jsonl_file import Repair
from .jsonl_folder import SessionFolder
from .kept_rows import Rows
from .rows import (
    Approval,
    InboxItem,
    InboxQueue,
    InboxStatus,
    Operation,
    SessionInfo,
    UsageRow,
)
from .store import Commit, Lease, SessionState
from .tables import check_limit

__all__ = ["JsonlStore"]

T = TypeVar("T")


class JsonlStore:
    """A `SessionStore` of files in a folder. Made by `JsonlStore.open`; closed by `aclose`."""

    def __init__(self, root: Path, fsync: bool) -> None:
        self._folder = SessionFolder(root, fsync)
        self._thread = ThreadPoolExecutor(1, "loopwright-jsonl")
        self._pid = os.getpid()
        self._closed = False

    @classmethod
    async def open(cls, root: str | os.PathLike[str], *, fsync: bool = False) -> Self:
        """Open the folder *root*, which is made with the first session.

        *fsync*: every commit is on the disk before anybody is told, and so survives a loss of
        power; without it a commit survives the end of the process, not that of the machine.
        """
        return cls(_absolute(root), fsync)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Do what was handed over. Leases stay: closing is like a crash."""
        if self._closed:
            return
        self._closed = True
        await asyncio.get_running_loop().run_in_executor(self._thread, _nothing)
        self._thread.shutdown(wait=False)

    @property
    def root(self) -> Path:
        """The folder."""
        return self._folder.root

    @property
    def repairs(self) -> list[Repair]:
        """What was cut off from files so far, because a crash had left it behind."""
        return [*self._folder.repairs]

    async def path(self, session_id: str) -> Path:
        """The file of a session."""
        return await self._run(self._folder.locate, session_id)

    async def _run(self, work: Callable[..., T], *args: Any) -> T:
        if self._closed:
            raise refusals.store_closed(str(self.root))
        if os.getpid() != self._pid:
            raise Misuse(
                "a session store cannot be used in a forked process: its thread stayed behind",
                hint="open the store after the fork",
            )
        loop = asyncio.get_running_loop()
        job = loop.run_in_executor(
            self._thread, partial(_with_faults_named, self.root, work, *args)
        )
        job.add_done_callback(_looked_at)
        return await asyncio.shield(job)  # what was handed over is done, whoever waits for it

    async def _look(self, session_id: str, work: Callable[[Rows], T]) -> T:
        return await self._run(self._folder.look, session_id, work)

    # -- sessions -----------------------------------------------------------------------------

    async def create(self, info: SessionInfo) -> None:
        await self._run(self._folder.create, info)

    async def info(self, session_id: str) -> SessionInfo:
        return await self._run(self._folder.info, session_id)

    async def list(self, *, cwd: str | None = None, limit: int | None = None) -> list[SessionInfo]:
        check_limit(limit)
        return await self._run(self._folder.list, columns.shown(cwd), limit)

    async def delete(self, session_id: str) -> None:
        await self._run(self._folder.delete, session_id)

    # -- leases -------------------------------------------------------------------------------

    async def claim(self, session_id: str, owner: str, seconds: float) -> Lease:
        owner = columns.key(owner, "the owner")
        return await self._run(self._folder.claim, session_id, owner, seconds)

    async def renew(self, lease: Lease, seconds: float) -> None:
        await self._run(self._folder.renew, lease, seconds)

    async def release(self, lease: Lease) -> None:
        await self._run(self._folder.release, lease)

    # -- commits ------------------------------------------------------------------------------

    async def commit(self, lease: Lease, commit: Commit) -> int:
        return await self._run(self._folder.commit, lease, commit)

    # -- reading ------------------------------------------------------------------------------

    async def state(self, session_id: str) -> SessionState:
        return await self._run(self._folder.state, session_id)

    async def entries(
        self,
        session_id: str,
        *,
        before: int | None = None,
        after: int | None = None,
        limit: int | None = None,
        newest_first: bool = False,
    ) -> list[EntryRow]:
        check_limit(limit)
        return await self._look(
            session_id,
            lambda rows: rows.entries_between(before, after, limit, newest_first),
        )

    async def find(self, session_id: str, entry_ids: Sequence[str]) -> list[EntryRow]:
        wanted = [*entry_ids]
        return await self._look(session_id, lambda rows: rows.found(wanted))

    async def usage(self, session_id: str) -> list[UsageRow]:
        return await self._look(session_id, Rows.usage_list)

    async def operations(
        self, session_id: str, *, request_id: str | None = None
    ) -> list[Operation]:
        return await self._look(session_id, lambda rows: rows.operation_list(request_id))

    # -- without a lease ----------------------------------------------------------------------

    async def enqueue(self, session_id: str, item: InboxItem) -> InboxItem:
        return await self._run(self._folder.enqueue, session_id, item)

    async def inbox(
        self,
        session_id: str,
        *,
        lane: str | None = None,
        queues: Sequence[InboxQueue] = (),
        after: str | None = None,
        ids: Sequence[str] | None = None,
    ) -> list[InboxItem]:
        return await self._look(session_id, lambda rows: rows.pending(lane, queues, after, ids))

    async def withdraw(self, session_id: str, item_id: str) -> InboxStatus | None:
        return await self._run(self._folder.withdraw, session_id, item_id)

    async def decide(
        self,
        session_id: str,
        approval_id: str,
        verdict: Literal["approved", "denied"],
        *,
        arguments: dict[str, Any] | None = None,
        digest: str | None = None,
        reason: str | None = None,
        decided_by: str | None = None,
    ) -> Approval:
        said = (arguments, digest, reason, decided_by)
        return await self._run(self._folder.decide, session_id, approval_id, verdict, *said)

    async def approvals(self, session_id: str) -> list[Approval]:
        return await self._look(session_id, Rows.approval_list)


def _absolute(root: str | os.PathLike[str]) -> Path:
    return Path(root).expanduser().absolute()


def _nothing() -> None:
    """The last job: when it is done, so are those before."""


def _looked_at(job: asyncio.Future[Any]) -> None:
    if not job.cancelled():
        job.exception()  # nothing is logged when nobody waits any more


def _with_faults_named(root: Path, work: Callable[..., T], *args: Any) -> T:
    try:
        return work(*args)
    except OSError as error:
        place = error.filename or root
        raise StoreUnavailable(
            f"{place} cannot be read or written: {error.strerror or error}",
            hint="see whether the disk is full, and whose the files are",
        ) from error
