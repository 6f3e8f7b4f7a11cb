"""What a store says when it refuses: the same words, whichever store it is."""

from __future__ import annotations

from datetime import UTC, datetime

from ..errors import (
    ApprovalRefused,
    InboxNotEmpty,
    LeaseLost,
    SessionClosed,
    SessionDamaged,
    SessionExists,
    SessionLocked,
    SessionNotFound,
    SessionTooNew,
)
from .leases import describe_owner
from .store import Lease
from .tables import FORMAT_VERSION

__all__ = [
    "approval_decided",
    "approval_not_standing",
    "duplicate_id",
    "inbox_not_empty",
    "item_changed",
    "lease_lost",
    "read_only",
    "session_exists",
    "session_locked",
    "session_not_found",
    "store_closed",
    "too_new",
    "unknown_parent",
]


def session_not_found(session_id: str) -> SessionNotFound:
    """No session with that id."""
    return SessionNotFound(
        f"no session has the id {session_id!r}",
        hint="`loopwright sessions list` shows those that are there",
    )


def session_exists(session_id: str) -> SessionExists:
    """One is there already."""
    return SessionExists(
        f"there is a session with the id {session_id!r} already",
        hint="open it, or leave the id out",
    )


def session_locked(session_id: str, owner: str, until_ms: int) -> SessionLocked:
    """Somebody else writes."""
    until = datetime.fromtimestamp(until_ms / 1000, UTC).strftime("%H:%M:%S UTC")
    return SessionLocked(
        f"session {session_id!r} is open for writing in {describe_owner(owner)}; "
        f"its lease lasts until {until} unless it is renewed",
        hint="open it for reading, fork it, or wait until the other is done",
    )


def lease_lost(lease: Lease) -> LeaseLost:
    """The epoch has moved on."""
    return LeaseLost(
        f"the right to write to session {lease.session_id!r} (epoch {lease.epoch}) was given back "
        "or taken over; nothing was written",
        hint="open the session again and go on from what is stored",
    )


def inbox_not_empty(session_id: str, lane: str) -> InboxNotEmpty:
    """Somebody spoke just now."""
    return InboxNotEmpty(
        f"a message for lane {lane!r} of session {session_id!r} has arrived; nothing was written",
        hint="place it, and try to finish again",
    )


def item_changed(item_id: str) -> InboxNotEmpty:
    """An item was withdrawn or placed by the time it was to be put."""
    return InboxNotEmpty(
        f"inbox item {item_id} is not pending any more; nothing was written",
        hint="it was withdrawn meanwhile: read the inbox again",
    )


def approval_not_standing(approval_id: str) -> ApprovalRefused:
    """To be consumed, and cannot be."""
    return ApprovalRefused(
        f"no decision stands for call {approval_id} with these arguments; nothing was written",
        hint="it is still pending, was used already, or was made for other arguments",
    )


def approval_decided(approval_id: str, status: str | None) -> ApprovalRefused:
    """To be decided, and is not pending."""
    said = "nobody asked for one" if status is None else f"it is {status} already"
    return ApprovalRefused(f"no decision can be made on call {approval_id}: {said}")


def duplicate_id(what: str, session_id: str) -> SessionDamaged:
    """A row that is written once was to be written again."""
    return SessionDamaged(
        f"{what} is there already; nothing was written", where=f"session {session_id}"
    )


def unknown_parent(entry_id: str, parent_id: str, session_id: str) -> SessionDamaged:
    """An entry would hang in the air."""
    return SessionDamaged(
        f"the parent {parent_id} of entry {entry_id} is not there; nothing was written",
        where=f"session {session_id}",
    )


def too_new(where: str, version: object) -> SessionTooNew:
    """A later format."""
    return SessionTooNew(
        f"{where} has format {version}; this version of loopwright knows up to {FORMAT_VERSION}",
        hint="update loopwright; nothing was changed",
    )


def store_closed(where: str) -> SessionClosed:
    """Used after `aclose`."""
    return SessionClosed(f"the session store {where} was closed", hint="open it again")


def read_only(where: str) -> SessionClosed:
    """Opened with `read_only=True`."""
    return SessionClosed(
        f"the session store {where} was opened for reading only", hint="open it without read_only"
    )
