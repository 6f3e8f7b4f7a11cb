"""`loopwright sessions stop | approvals | approve | deny`: what is unfinished, brought further.

A decision is kept in the session and needs no lease; going on with the session then runs the call,
or tells the model why not. Stopping asks no model and runs no tool: calls that are not over get the
result that they were stopped.

Not here: which sessions have something unfinished (sessions/standing.py).
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from typing import Any

import msgspec

from ...errors import (
    ApprovalRefused,
    SessionDamaged,
    SessionError,
    SessionLocked,
    SessionNotFound,
)
from ...session.rows import Approval, InboxItem, Operation
from ...session.store import SessionStore
from ..exit_codes import ExitCode
from ..options import Mode
from ..places import working_folder
from ..streams import Output, Piece, print_error, print_note, visible
from .choice import age_text, find_session, session_title, short_ids
from .standing import Standing, standing_of
from .store import reading_sessions, writing_sessions

__all__ = ["approve", "deny", "list_approvals", "stop"]

HEARD_SECONDS = 10.0
"""How long another process may take to hear that it shall stop; it looks every second."""
LOOK_SECONDS = 0.1


# -- stop ------------------------------------------------------------------------------------


def stop(reference: str, *, reason: str | None) -> ExitCode:
    """Bring to its end as aborted what is unfinished in a session, or goes on in it elsewhere."""
    return asyncio.run(_stop(reference, reason or "stopped by the user"))


async def _stop(reference: str, reason: str) -> ExitCode:
    async with writing_sessions() as store:
        info = await find_session(store, reference, str(working_folder()))
        standing = await standing_of(store, info.id)
        if not standing.operations:
            print_note(f"{session_title(info, 60)}: nothing is unfinished there")
            return ExitCode.DONE
        if standing.holder is None:
            try:
                for operation in standing.operations:
                    await _give_up(store, info.id, operation, reason)
                print_note(f"{session_title(info, 60)}: {_kinds(standing)} given up")
                return ExitCode.DONE
            except SessionLocked:  # somebody has just opened it
                standing = await standing_of(store, info.id)
        return await _ask_to_stop(store, standing, reason)


async def _give_up(store: SessionStore, session_id: str, operation: Operation, reason: str) -> None:
    from ... import Agent
    from ...harness.harness import Harness
    from ...models import Model

    # A harness belongs to an agent; this one is stopped before it could ask anybody.
    agent = Agent(Model(provider="none", id="none", api="none"), stream_fn=_ask_nobody)
    async with Harness.open(
        store, session_id, agent=agent, lane=operation.lane, create=False
    ) as harness:
        await harness.abort(reason)


def _ask_nobody(*_args: Any, **_options: Any) -> Any:
    raise SessionError("a run that was stopped wanted to ask a model; report this as a fault")


async def _ask_to_stop(store: SessionStore, standing: Standing, reason: str) -> ExitCode:
    """Say it to the process that has the session open, and wait until it has heard."""
    ids = {operation.id for operation in standing.operations}
    for operation in standing.operations:
        await store.enqueue(
            standing.info.id,
            InboxItem(
                lane=operation.lane, queue="cancel", operation_id=operation.id, reason=reason
            ),
        )
    holder = standing.holder or "another process"
    end = asyncio.get_running_loop().time() + HEARD_SECONDS
    while asyncio.get_running_loop().time() < end:
        await asyncio.sleep(LOOK_SECONDS)
        now = await standing_of(store, standing.info.id)
        if not ids & {operation.id for operation in now.operations}:
            print_note(f"{session_title(standing.info, 60)}: stopped in {holder}")
            return ExitCode.DONE
    print_error(
        f"{holder} was asked to stop and has not done so yet",
        hint="it will as soon as it looks; if it hangs, end that process and say this again",
    )
    return ExitCode.FAILED


def _kinds(standing: Standing) -> str:
    kinds = [operation.kind for operation in standing.operations]
    return f"a {kinds[0]} was" if len(kinds) == 1 else f"{len(kinds)} operations were"


# -- approvals -------------------------------------------------------------------------------


def list_approvals(reference: str | None, *, every: bool, mode: Mode) -> ExitCode:
    """Print the calls that wait for an approval: of one session, of this folder's, or of all."""
    return asyncio.run(_list_approvals(reference, every, mode))


async def _list_approvals(reference: str | None, every: bool, mode: Mode) -> ExitCode:
    folder = str(working_folder())
    output = Output(sys.stdout)
    async with reading_sessions() as store:
        known = await store.list()
        short = short_ids(known)
        if reference is not None:
            info = await find_session(store, reference, folder)
            found = [await standing_of(store, info.id)]
        else:
            here = [info.id for info in known if every or info.cwd == folder]
            found = await _standing_of_each(store, here)
    waiting = [standing for standing in found if standing.waiting]
    if mode == "json":
        for standing in waiting:
            for approval in standing.waiting:
                output.write_line_of_bytes(_as_json(standing, approval))
        return ExitCode.DONE
    if not waiting:
        where = "that session" if reference is not None else "any session"
        here = "" if every or reference is not None else " of this folder; --all looks further"
        print_note(f"no call waits for an approval in {where}{here}")
        return ExitCode.DONE
    for standing in waiting:
        output.write_pieces(_shown(standing, short[standing.info.id], output.width))
    name = short[waiting[0].info.id]
    print_note(
        f"`loopwright sessions approve {name}` lets a call run, `deny` does not; "
        f"then `loopwright --session {name}` goes on"
    )
    return ExitCode.DONE


async def _standing_of_each(store: SessionStore, ids: Sequence[str]) -> list[Standing]:
    """How each of *ids* stands. One that is damaged does not hide the others."""
    found: list[Standing] = []
    for session_id in ids:
        try:
            found.append(await standing_of(store, session_id))
        except SessionNotFound:  # deleted meanwhile
            continue
        except SessionDamaged as error:
            print_note(error.message)
    return found


def _shown(standing: Standing, name: str, width: int) -> list[Piece]:
    pieces = [
        Piece(f"{name}  ", "event"),
        Piece(f"{session_title(standing.info, max(20, width - len(name) - 2))}\n"),
    ]
    for approval in standing.waiting:
        pieces += [
            Piece(f"  {_line(approval.tool_name)}", "call"),
            Piece(
                f"  {_line(approval.tool_call_id)}  {age_text(approval.requested_at)}\n", "quiet"
            ),
        ]
        for key, value in approval.arguments.items():
            pieces += _argument(key, value)
    return pieces


def _argument(key: str, value: Any) -> list[Piece]:
    """Whole, since it is decided on. Every line is marked, so that none can pass for one of ours."""
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    # Also in a pipe: what is read before a decision must look like what would be run.
    first, *more = visible(text).split("\n")
    lines = [f"    {_line(key)}: {first}\n", *(f"    {' ' * len(_line(key))}| {m}\n" for m in more)]
    return [Piece("".join(lines))]


def _as_json(standing: Standing, approval: Approval) -> bytes:
    return msgspec.json.encode(
        {
            "session": standing.info.id,
            "id": approval.id,
            "toolCallId": approval.tool_call_id,
            "toolName": approval.tool_name,
            "arguments": approval.arguments,
            "requestedAt": approval.requested_at,
            "lane": approval.lane,
        }
    )


def _line(text: str) -> str:
    return " ".join(visible(text).split())


# -- deciding --------------------------------------------------------------------------------


def approve(reference: str, call: str | None) -> ExitCode:
    """Let a waiting call run when the session is gone on with."""
    return asyncio.run(_decide(reference, call, allowed=True, reason=None))


def deny(reference: str, call: str | None, *, reason: str | None) -> ExitCode:
    """Do not let a waiting call run; the model is told *reason*."""
    return asyncio.run(_decide(reference, call, allowed=False, reason=reason))


async def _decide(
    reference: str, call: str | None, *, allowed: bool, reason: str | None
) -> ExitCode:
    from ...harness import approvals

    async with writing_sessions() as store:
        info = await find_session(store, reference, str(working_folder()))
        standing = await standing_of(store, info.id)
        approval = _meant(standing, call)
        if allowed:
            await approvals.approve(store, info.id, approval.id, by="user")
        else:
            await approvals.deny(store, info.id, approval.id, reason=reason, by="user")
        left = [each for each in standing.waiting if each.id != approval.id]
        name = short_ids(await store.list())[info.id]
    said = "may run" if allowed else "will not run"
    print_note(f"the call of {_line(approval.tool_name)} ({_line(approval.tool_call_id)}) {said}")
    if left:
        print_note(f"{len(left)} more wait: `loopwright sessions approvals {name}`")
    elif standing.holder is None:
        print_note(f"`loopwright --session {name}` goes on")
    return ExitCode.DONE


def _meant(standing: Standing, call: str | None) -> Approval:
    """The waiting call with the id *call*; without one, the only one that waits."""
    waiting = standing.waiting
    if call is None:
        found = waiting
    else:
        found = [approval for approval in waiting if call in (approval.id, approval.tool_call_id)]
        found = found or [a for a in waiting if a.tool_call_id.startswith(call)]
    if len(found) == 1:
        return found[0]
    if not waiting:
        raise ApprovalRefused(
            f"no call waits for an approval in session {standing.info.id}",
            hint="`loopwright sessions approvals --all` shows those that do",
        )
    what = f"no call {call!r} waits" if not found else f"{len(found)} calls wait"
    raise ApprovalRefused(
        f"{what} for an approval in session {standing.info.id}", hint=_which(found or waiting)
    )


def _which(waiting: Sequence[Approval]) -> str:
    lines = [
        f"{_line(approval.tool_call_id)}  {_line(approval.tool_name)}  "
        f"{_line(msgspec.json.encode(approval.arguments).decode())[:100]}"
        for approval in waiting
    ]
    return "\n".join(["say which:", *lines])
