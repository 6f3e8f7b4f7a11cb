"""A new session that begins with what another one holds.

Entries keep their ids, so the two can be compared; what they cost stays with the session that
paid. Unfinished work is not taken along: no operation, call, message or approval that waits. The
fork is written in one commit, so it is there whole or not at all, whatever the process meets.

Not here: moving within one session (session), or files of other formats (formats).
"""

from __future__ import annotations

import contextlib
from typing import Literal

import msgspec

from ..errors import Misuse, SessionDamaged, SessionError, SessionExists
from ..messages import UserMessage
from .entries import EntryRow, MessageEntry
from .leases import new_owner
from .rows import Fact, Lane, SessionInfo
from .store import Commit, SessionState, SessionStore
from .tree import BranchWalk

__all__ = ["fork_session"]

_PAGE = 2048
_LEASE_SECONDS = 60.0
_PREVIEW_CHARACTERS = 200


async def fork_session(
    source: SessionStore,
    session_id: str,
    *,
    to: SessionStore | None = None,
    scope: Literal["branch", "tree"] = "branch",
    lane: str = "main",
    entry_id: str | None = None,
    position: Literal["before", "at"] | None = None,
    name: str | None = None,
    cwd: str | None = None,
) -> SessionInfo:
    """Copy *session_id* into a new session, in the store *to* or its own. Returns the new one.

    `branch` copies one path, which becomes `main`: up to the message *entry_id*, without it
    unless *position* is `at`; or else the whole branch of *lane*, without its leaf if *position*
    is `before`. `tree` copies every entry and lane, and a program's own facts. The name goes
    along unless another is given, and so do the labels of what is copied.

    The source may be open elsewhere: what it holds at this moment is copied. Memory for all that
    is copied is needed once. Raises `Misuse` for a lane or message that is not there, and
    `SessionDamaged` if the path cannot be followed; nothing was made then.
    """
    state = await source.state(session_id)
    rows: list[EntryRow]
    if scope == "tree":
        if entry_id is not None or position is not None:
            raise Misuse(
                "a fork of the whole tree has no entry or position",
                hint='scope="branch" copies the path to one entry',
            )
        rows, lanes = await _all_rows(source, state), [_idle(lane) for lane in state.lanes]
    else:
        found = _lane(state, lane)
        leaf_id = await _leaf(source, state, found, entry_id, position)
        rows = await _branch(source, state, leaf_id)
        lanes = [Lane(name="main", leaf_id=leaf_id, config=found.config)]
    commit = Commit(
        entries=[msgspec.structs.replace(row, operation_id=None, seq=0) for row in rows],
        lanes=lanes,
        facts=_facts(state, rows, scope, name),
        preview=_preview(rows),
    )
    info = SessionInfo(cwd=state.info.cwd if cwd is None else cwd, parent_id=session_id)
    return await _publish(source if to is None else to, info, commit)


async def _publish(store: SessionStore, info: SessionInfo, commit: Commit) -> SessionInfo:
    owner = new_owner()
    try:
        await store.create(info)
        lease = await store.claim(info.id, owner, _LEASE_SECONDS)
        await store.commit(lease, commit)
        await store.release(lease)
        return await store.info(info.id)
    except SessionExists:
        raise  # somebody else's
    except BaseException:
        await _forget(store, info.id, owner)
        raise


async def _forget(store: SessionStore, session_id: str, owner: str) -> None:
    """Delete what was made of the fork, as far as the store can still be reached.

    Whoever was cancelled does not know how far the store came, nor that it stopped. Claiming
    again, which the same owner may, shuts a late commit out and gives a lease to return.
    """
    with contextlib.suppress(SessionError):
        await store.release(await store.claim(session_id, owner, _LEASE_SECONDS))
        await store.delete(session_id)


def _lane(state: SessionState, name: str) -> Lane:
    for lane in state.lanes:
        if lane.name == name:
            return lane
    raise Misuse(
        f"the session {state.info.id} has no lane named {name!r}",
        hint=f"it has: {', '.join(lane.name for lane in state.lanes)}",
    )


def _idle(lane: Lane) -> Lane:
    return Lane(name=lane.name, leaf_id=lane.leaf_id, config=lane.config)


async def _leaf(
    store: SessionStore,
    state: SessionState,
    lane: Lane,
    entry_id: str | None,
    position: Literal["before", "at"] | None,
) -> str | None:
    """The last entry to copy; None for none at all."""
    target_id = lane.leaf_id if entry_id is None else entry_id
    at = position == "at" if entry_id is not None else position != "before"
    if target_id is None or (entry_id is None and at):
        return target_id
    found = await store.find(state.info.id, [target_id])
    if not found or found[0].seq > state.head:
        raise Misuse(f"the session {state.info.id} has no entry {target_id!r}")
    if entry_id is not None and found[0].type != "message":
        raise Misuse(
            f"the entry {target_id} is a {found[0].type}, and a fork begins at a message",
            hint="name a message, or none to copy the whole branch",
        )
    return target_id if at else found[0].parent_id


async def _branch(store: SessionStore, state: SessionState, leaf_id: str | None) -> list[EntryRow]:
    walk = BranchWalk(leaf_id)
    before = state.head + 1
    while not walk.done:
        page = await store.entries(state.info.id, before=before, limit=_PAGE, newest_first=True)
        if not page:
            walk.end()
            break
        walk.feed(page)
        before = page[-1].seq
    return walk.rows


async def _all_rows(store: SessionStore, state: SessionState) -> list[EntryRow]:
    rows: list[EntryRow] = []
    after = 0
    while page := await store.entries(
        state.info.id, after=after, before=state.head + 1, limit=_PAGE
    ):
        rows += page
        after = page[-1].seq
    return rows


def _facts(
    state: SessionState, rows: list[EntryRow], scope: Literal["branch", "tree"], name: str | None
) -> list[Fact]:
    copied = {row.id for row in rows}
    facts = [
        Fact(namespace=fact.namespace, key=fact.key, value=fact.value)
        for fact in state.facts
        if not fact.deleted
        and (
            (fact.namespace == "name" and name is None)
            or (fact.namespace == "label" and fact.key in copied)
            or (fact.namespace == "custom" and scope == "tree")
        )
    ]
    return facts if name is None else [Fact(namespace="name", value=name), *facts]


def _preview(rows: list[EntryRow]) -> str | None:
    """The beginning of the first thing the user said."""
    for row in rows:
        if row.type != "message":
            continue
        try:
            entry = row.entry()
        except SessionDamaged:
            continue  # copied as it is; whoever reads it is told
        if isinstance(entry, MessageEntry) and isinstance(entry.message, UserMessage):
            return " ".join(entry.message.text.split())[:_PREVIEW_CHARACTERS] or None
    return None
