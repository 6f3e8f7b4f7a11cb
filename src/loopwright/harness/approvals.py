"""Saying yes or no to a call, from any process, once.

A call that needs approval is parked in the session with a digest of exactly what would be run. A
decision is on that digest and no other; it is used up in the very commit that lets the call start,
so that it cannot let a second one start.

Not here: which calls need one (the tool, or a hook), or parking them (journal).
"""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec

from ..errors import ApprovalRefused
from ..records import to_jsonable
from ..session.rows import Approval
from ..session.store import SessionStore

__all__ = ["approve", "deny", "digest_of", "pending_approvals"]


def digest_of(tool_name: str, arguments: dict[str, Any]) -> str:
    """SHA-256, in hexadecimal, of the tool's name and its arguments in canonical JSON (sorted keys)."""
    canonical = msgspec.json.encode([tool_name, to_jsonable(arguments)], order="sorted")
    return hashlib.sha256(canonical).hexdigest()


async def pending_approvals(store: SessionStore, session_id: str) -> list[Approval]:
    """The calls that wait for somebody's word, oldest first."""
    state = await store.state(session_id)  # not those used up, of which there may be thousands
    return [a for a in state.approvals if a.status == "pending"]


async def approve(
    store: SessionStore,
    session_id: str,
    approval: str,
    *,
    arguments: dict[str, Any] | None = None,
    by: str | None = None,
) -> Approval:
    """Let the call run, with other *arguments* if given. *approval* is its id, or the call's.

    Whoever drives the session does the rest with `resume()`. Raises `ApprovalRefused` if nothing
    of that name waits.
    """
    found = await _find(store, session_id, approval)
    return await store.decide(
        session_id,
        found.id,
        "approved",
        arguments=arguments,
        digest=None if arguments is None else digest_of(found.tool_name, arguments),
        decided_by=by,
    )


async def deny(
    store: SessionStore,
    session_id: str,
    approval: str,
    *,
    reason: str | None = None,
    by: str | None = None,
) -> Approval:
    """Do not let the call run; the model is told *reason*. Raises like `approve`."""
    found = await _find(store, session_id, approval)
    return await store.decide(session_id, found.id, "denied", reason=reason, decided_by=by)


async def _find(store: SessionStore, session_id: str, name: str) -> Approval:
    waiting = [
        a for a in await pending_approvals(store, session_id) if name in (a.id, a.tool_call_id)
    ]
    if len(waiting) == 1:
        return waiting[0]
    if waiting:
        raise ApprovalRefused(
            f"{len(waiting)} calls that wait have the id {name!r}",
            hint=f"say which: {', '.join(a.id for a in waiting)}",
        )
    named = [a for a in await store.approvals(session_id) if name in (a.id, a.tool_call_id)]
    if named:
        raise ApprovalRefused(f"the call {name!r} was decided already: {named[-1].status}")
    raise ApprovalRefused(f"no call {name!r} waits for approval in session {session_id}")
