"""A session of any store as a v4 file that pp-agent-core, pi and our own `JsonlStore` open.

Entries, lanes, name, labels and the ledger are lines of v4; what it has none for (lane
configuration, a program's own facts, messages of its own roles) stands beside them in the way of
`JsonlStore`. What is unfinished or waits is not taken along: the file is a copy, and would do or
hear it a second time.

Not here: the lines (formats.pi_v4_lines), or files for people (markdown, html).
"""

from __future__ import annotations

import asyncio
import os
import secrets
from pathlib import Path
from typing import BinaryIO

import msgspec

from ...errors import StoreUnavailable
from ..entries import EntryRow, now_ms
from ..formats.pi_v4_writing import header_line
from ..jsonl_log import SessionLog
from ..rows import Fact, Lane, SessionInfo, UsageRow
from ..store import Commit, SessionState, SessionStore

__all__ = ["export_pi_v4"]

_PAGE = 2_000


async def export_pi_v4(store: SessionStore, session_id: str, path: str | os.PathLike[str]) -> Path:
    """Write the session to *path*, in the place of what may be there. Returns the path.

    The file is there whole or not at all, and readable by its owner only. The session may be open
    elsewhere: what it holds at this moment is written. Raises `SessionNotFound`, `SessionDamaged`,
    `StoreUnavailable`.
    """
    state = await store.state(session_id)
    ledger = await store.usage(session_id)
    target = Path(path)
    writing = await asyncio.to_thread(_Writing, target, state.info)
    try:
        after = 0
        while rows := await store.entries(session_id, after=after, limit=_PAGE):
            after = rows[-1].seq
            # What was committed since the state was read belongs to what is not in it.
            await asyncio.to_thread(writing.add, [row for row in rows if row.seq <= state.head])
            if after >= state.head:
                break
        usage = [row for row in ledger if row.seq <= state.head]
        await asyncio.to_thread(writing.finish, state, usage)
    except BaseException:
        writing.drop()
        raise
    return target


class _Writing:
    """A file being written under another name. Blocks."""

    def __init__(self, target: Path, info: SessionInfo) -> None:
        self.target = target
        self.staged = target.with_name(f"{target.name}.{secrets.token_hex(4)}.tmp")
        header = header_line(info)
        self.log = SessionLog(info, header_bytes=len(header))
        try:
            descriptor = os.open(self.staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            self.file: BinaryIO = os.fdopen(descriptor, "wb")
            self.file.write(header)
        except OSError as error:
            raise _unwritable(target, error) from error

    def add(self, rows: list[EntryRow]) -> None:
        """Entries, parents before children."""
        self._commit(Commit(entries=rows), atomic=False)

    def finish(self, state: SessionState, usage: list[UsageRow]) -> None:
        """What is not history; then the file gets its name."""
        self._commit(
            Commit(
                lanes=[_idle(lane) for lane in state.lanes],
                facts=_facts(state),
                usage=usage,
                usage_total=state.info.usage,
                preview=state.info.preview,
            )
        )
        try:
            self.file.flush()
            os.fsync(self.file.fileno())
            self.file.close()
            os.replace(self.staged, self.target)
        except OSError as error:
            raise _unwritable(self.target, error) from error

    def drop(self) -> None:
        """It was not to be."""
        self.file.close()
        self.staged.unlink(missing_ok=True)

    def _commit(self, commit: Commit, *, atomic: bool = True) -> None:
        lines = self.log.lines_of(commit, now_ms(), atomic=atomic)
        try:
            self.file.write(lines)
        except OSError as error:
            raise _unwritable(self.target, error) from error
        self.log.feed(lines)


def _idle(lane: Lane) -> Lane:
    return msgspec.structs.replace(lane, operation_id=None)


def _facts(state: SessionState) -> list[Fact]:
    """The facts; the name first, also where only the session's row has it."""
    if state.info.name is None or any(fact.namespace == "name" for fact in state.facts):
        return state.facts
    return [Fact(namespace="name", value=state.info.name), *state.facts]


def _unwritable(path: Path, error: OSError) -> StoreUnavailable:
    return StoreUnavailable(
        f"{path} could not be written: {error.strerror or error}",
        hint="choose another place, or make room; nothing was left behind",
    )
