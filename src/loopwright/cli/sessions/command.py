"""`loopwright sessions list | show | fork | rename | delete`.

Looking takes no lease, so it works while a session is open elsewhere. On a terminal, control
characters in what was said are shown as symbols (streams.py).

Not here: finding words (sessions/search.py), files (sessions/files.py), or damage
(sessions/doctor.py).
"""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import msgspec

from ...errors import Misuse, SessionDamaged, SessionNotFound
from ...session.outline import OutlineNode, outline
from ...session.rows import SessionInfo
from ...session.session import Session
from ...session.store import SessionStore
from ..exit_codes import ExitCode
from ..json_mode import session_line
from ..options import Mode
from ..places import working_folder
from ..streams import Output, Piece, print_error, print_note
from ..table import Column, table_lines
from .choice import (
    age_text,
    check_new_name,
    find_session,
    last_or_found,
    local_time,
    session_title,
    short_ids,
)
from .export import labels_of
from .standing import Standing, standing_of
from .store import reading_sessions, writing_sessions
from .wrapping import readable

__all__ = [
    "delete",
    "fork",
    "list_sessions",
    "open_to_read",
    "rename",
    "show_session",
]

TITLE_CELLS = (120, 100, 80, 70, 65, 60, 55, 50, 45, 40, 35, 30, 25, 20, 16, 12)
"""How long a title may be, by the room there is."""
SHOWN = 20
"""Sessions that a terminal is shown unless it is said how many: the last one stands first, and more
would push it out of sight."""
WIDE = 120
"""Columns of a terminal in which ids are shown whole. In a pipe they always are."""


class Listed(NamedTuple):
    """A session as a list shows it."""

    standing: Standing
    short: str
    """The beginning of its id that means no other session."""

    @property
    def info(self) -> SessionInfo:
        """What is known of it."""
        return self.standing.info


def list_sessions(*, every: bool, limit: int | None, mode: Mode) -> ExitCode:
    """Print the sessions of this folder, or of *every* one."""
    if limit is not None and limit < 1:
        print_error(f"the limit must be at least 1, not {limit}", hint="leave it out for all")
        return ExitCode.USAGE
    folder = str(working_folder())
    output = Output(sys.stdout)
    is_cut = limit is None and mode == "text" and output.is_terminal
    try:
        found, left = asyncio.run(_listed(None if every else folder, SHOWN if is_cut else limit))
    except SessionNotFound as nothing_yet:
        print_note(nothing_yet.message)
        return ExitCode.DONE
    if mode == "json":
        for one in found:
            data = {**one.info.to_dict(camel=True), "state": one.standing.mark}
            output.write_line_of_bytes(msgspec.json.encode(data))
        return ExitCode.DONE
    if not found:
        print_note(
            "there are no sessions yet"
            if every
            else f"there are no sessions of the folder {folder}; --all lists those of others"
        )
        return ExitCode.DONE
    width = output.width if output.is_terminal else None
    head, *lines = table_lines(_columns(every, width, found), found, width)
    output.write_pieces([Piece(head + "\n", "quiet"), Piece("\n".join(lines) + "\n")])
    if is_cut and left:
        print_note(f"{left:,} older; --limit {len(found) + left} shows all, `search` finds words")
    return ExitCode.DONE


async def _listed(cwd: str | None, limit: int | None) -> tuple[list[Listed], int]:
    """The sessions, and how many more there are."""
    async with reading_sessions() as store:
        every = await store.list()
        short = short_ids(every)
        meant = [info for info in every if cwd is None or info.cwd == cwd]
        chosen = meant[:limit]
        found: list[Listed] = []
        for info in chosen:
            try:
                found.append(Listed(await standing_of(store, info.id), short[info.id]))
            except SessionNotFound:  # deleted meanwhile
                continue
            except SessionDamaged:  # a matter for `sessions doctor`; it is there all the same
                found.append(Listed(Standing(info, None, [], []), short[info.id]))
        return found, len(meant) - len(chosen)


def _columns(every: bool, width: int | None, found: Sequence[Listed]) -> list[Column[Listed]]:
    lengths = TITLE_CELLS if width is not None else TITLE_CELLS[2:3]
    title, *shorter = [partial(_title, cells=length) for length in lengths]
    whole = width is None or width >= WIDE
    columns = [
        Column[Listed]("ID", lambda one: one.info.id if whole else one.short),
        Column[Listed](
            "CHANGED",
            lambda one: (local_time if whole else age_text)(one.info.modified_at),
            right=not whole,
        ),
        Column[Listed]("ENTRIES", lambda one: str(one.info.entries), right=True),
    ]
    if any(one.standing.mark for one in found):
        columns.append(Column[Listed]("STATE", lambda one: one.standing.mark or ""))
    columns.append(Column[Listed]("SESSION", title, instead=tuple(shorter)))
    if every:
        columns.append(Column[Listed]("FOLDER", lambda one: _line(one.info.cwd or "")))
    return columns


def _title(one: Listed, cells: int) -> str:
    return session_title(one.info, cells)


def _line(text: str) -> str:
    """*text* without anything that would end a line of a table."""
    return " ".join(text.split())


# -- show ------------------------------------------------------------------------------------


def show_session(reference: str | None, *, lane: str, tree: bool, mode: Mode) -> ExitCode:
    """Print a branch of a session, the last one without a *reference*, or an outline of all."""
    return asyncio.run(_show(reference, lane, tree, mode))


async def _show(reference: str | None, lane: str, tree: bool, mode: Mode) -> ExitCode:
    async with reading_sessions() as store:
        info = await last_or_found(store, reference, str(working_folder()))
        session = await open_to_read(store, info.id, lane)
        output = Output(sys.stdout)
        if tree:
            labels = labels_of(session)
            nodes = outline(await session.rows(), session.leaf_id, labels)
            if mode == "json":
                for node in nodes:
                    output.write_line_of_bytes(_node_as_json(node))
            else:
                output.write_pieces([piece for node in nodes for piece in _drawn(node)])
            return ExitCode.DONE
        if mode == "json":
            output.write_line_of_bytes(session_line(session.info))
            for entry in await session.history():
                output.write_line_of_bytes(entry.to_json())
            return ExitCode.DONE
        from ...session.export.markdown import to_markdown

        document = to_markdown(session.info, await session.history(), labels=labels_of(session))
        if output.is_terminal:
            output.write_pieces(readable(document, output.width))
        else:
            output.write(document)
        advice = (await standing_of(store, info.id)).advice(short_ids(await store.list())[info.id])
        if advice is not None:
            print_note(advice)
        return ExitCode.DONE


async def open_to_read(store: SessionStore, session_id: str, lane: str) -> Session:
    """A session with one of its lanes. Raises `SessionNotFound` if it has no such lane."""
    state = await store.state(session_id)
    names = [each.name for each in state.lanes]
    if lane not in names:
        raise SessionNotFound(
            f"session {session_id} has no lane {lane!r}", hint=f"it has: {', '.join(names)}"
        )
    return await Session.read(store, session_id, lane=lane)


def _drawn(node: OutlineNode) -> Sequence[Piece]:
    """One line: bars for the forks passed, a mark for the branch one is on, id, who, what."""
    rails = "│ " * node.depth
    mark = "●" if node.on_branch else "○"
    label = f" [{_line(node.label)}]" if node.label else ""
    return (
        Piece(f"{rails}{mark} ", "event" if node.on_branch else "quiet"),
        Piece(f"{node.id} ", "quiet"),
        Piece(f"{node.role or node.type}", "speech"),
        Piece(label, "good"),
        Piece(f" {_line(node.preview)}\n"),
    )


def _node_as_json(node: OutlineNode) -> bytes:
    return msgspec.json.encode(
        {
            "id": node.id,
            "parentId": node.parent_id,
            "type": node.type,
            "role": node.role,
            "depth": node.depth,
            "onBranch": node.on_branch,
            "isLeaf": node.is_leaf,
            "label": node.label,
            "preview": node.preview,
            "timestamp": node.timestamp,
        }
    )


# -- changing --------------------------------------------------------------------------------


def fork(reference: str, *, at: str | None, lane: str, tree: bool, name: str | None) -> ExitCode:
    """Copy a session, and print the id of the copy."""
    if tree and at is not None:
        print_error("a copy of all branches ends nowhere", hint="leave --tree or --at out")
        return ExitCode.USAGE
    return asyncio.run(_fork(reference, at, lane, tree, name))


async def _fork(
    reference: str, at: str | None, lane: str, tree: bool, name: str | None
) -> ExitCode:
    from ...session.fork import fork_session

    async with writing_sessions() as store:
        info = await find_session(store, reference, str(working_folder()))
        if name:
            await check_new_name(store, name, None)
        try:
            made = await fork_session(
                store,
                info.id,
                scope="tree" if tree else "branch",
                lane=lane,
                entry_id=at,
                position="at" if at is not None else None,
                name=name,
            )
        except Misuse as error:  # an entry or lane that is not there
            ids = f"`loopwright sessions show {info.id} --tree` has the ids of its entries"
            raise SessionNotFound(error.message, hint=error.hint or ids) from error
    Output(sys.stdout).write(f"{made.id}\n")
    count = f"{made.entries} entries" if made.entries != 1 else "1 entry"
    print_note(f"{count} of {info.id} copied")
    return ExitCode.DONE


def rename(reference: str, name: str) -> ExitCode:
    """Give a session a name, or take it away."""
    return asyncio.run(_rename(reference, name.strip()))


async def _rename(reference: str, name: str) -> ExitCode:
    async with writing_sessions() as store:
        info = await find_session(store, reference, str(working_folder()))
        if name:
            await check_new_name(store, name, info.id)
        async with await Session.open(store, info.id, create=False) as session:
            await session.set_name(name or None)
    print_note(f"{info.id} is called {name!r} now" if name else f"{info.id} has no name now")
    return ExitCode.DONE


def delete(references: Sequence[str], *, yes: bool) -> ExitCode:
    """Forget sessions for good: all of them, or none if one of them is not there."""
    if not yes and not _can_be_asked():
        print_error(
            "a session is deleted for good, and there is no terminal to ask at",
            hint=f"loopwright sessions delete {shlex.join(references)} --yes",
        )
        return ExitCode.USAGE
    return asyncio.run(_delete(references, yes))


async def _delete(references: Sequence[str], yes: bool) -> ExitCode:
    async with writing_sessions() as store:
        found = [await find_session(store, each, str(working_folder())) for each in references]
        meant = list({info.id: info for info in found}.values())
        if not yes and not _agreed(_question(meant)):
            print_note("nothing was deleted")
            return ExitCode.FAILED
        for info in meant:
            await store.delete(info.id)
            print_note(f"deleted {info.id}: {session_title(info, 60)}")
    return ExitCode.DONE


def _question(meant: Sequence[SessionInfo]) -> str:
    if len(meant) == 1:
        (info,) = meant
        entries = f"{info.entries} {'entry' if info.entries == 1 else 'entries'}"
        return f"Delete {session_title(info, 60)!r} with {entries} for good?"
    titles = "".join(f"  {session_title(info, 70)}\n" for info in meant)
    return f"{titles}Delete these {len(meant)} sessions for good?"


def _can_be_asked() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty()


def _agreed(question: str) -> bool:
    """Whether the person at the terminal says yes."""
    Output(sys.stderr).write(f"{question} [y/N] ")
    return sys.stdin.readline().strip().lower() in ("y", "yes")
