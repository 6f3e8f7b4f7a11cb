"""What is wrong with the tree of a session. It only looks; mending is for whoever asks.

Not here: the other rows of a session, or the file they are kept in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import msgspec

from ..errors import SessionDamaged
from ..messages import AssistantMessage, ToolResultMessage
from .entries import CompactionEntry, Entry, EntryRow, MessageEntry

__all__ = ["Problem", "ProblemKind", "check_tree"]

ProblemKind = Literal[
    "duplicate_id",
    "missing_parent",
    "parent_after_child",
    "cycle",
    "missing_leaf",
    "unreadable",
    "kept_missing",
    "dangling_call",
]


class Problem(msgspec.Struct, frozen=True):
    """One thing that is wrong."""

    kind: ProblemKind
    where: str
    """`entry <id>` or `lane <name>`."""
    message: str
    severity: Literal["error", "warning"] = "error"
    """A warning is lived with: requests to a model are healed, and a resume settles the rest."""


def check_tree(
    rows: Sequence[EntryRow], leaves: Mapping[str, str | None] | None = None
) -> list[Problem]:
    """Everything wrong with *rows*, given in the order they are kept; *leaves* by lane.

    A call without a result is only a warning: it is normal on a lane whose operation is open or
    waits for an approval, and after a fork between a call and its result.
    """
    leaves = leaves or {}
    by_id: dict[str, EntryRow] = {}
    problems: list[Problem] = []
    for row in rows:
        if row.id in by_id:
            problems.append(_at(row, "duplicate_id", "another entry before it has the same id"))
        else:
            by_id[row.id] = row
    circular = _circular(by_id)
    problems += _misplaced(by_id, circular)
    notes: dict[str, _Note] = {}
    for row in by_id.values():
        try:
            notes[row.id] = _note(row.entry())
        except SessionDamaged as error:
            problems.append(_at(row, "unreadable", error.message.removeprefix(f"{error.where}: ")))
    problems += _kept_missing(by_id, notes)
    reported: set[tuple[str, str]] = set()
    for lane, leaf_id in leaves.items():
        if leaf_id is not None and leaf_id not in by_id:
            what = f"it stands at the entry {leaf_id}, which is missing"
            problems.append(Problem("missing_leaf", f"lane {lane}", what))
        for problem in _dangling(_path(by_id, leaf_id), notes):
            said = (problem.where, problem.message)
            if said not in reported:  # lanes share what lies before their fork
                reported.add(said)
                problems.append(problem)
    return problems


class _Note(msgspec.Struct, frozen=True):
    """What is remembered of an entry once it was read: a session may be larger than memory."""

    calls: tuple[str, ...] = ()
    """Ids of the calls of a reply that completed."""
    answers: str | None = None
    """The call a result is for."""
    kept_from: str | None = None


_NOTHING = _Note()


def _note(entry: Entry) -> _Note:
    if isinstance(entry, CompactionEntry):
        return _Note(kept_from=None if entry.retained_tail is not None else entry.first_kept_id)
    message = entry.message if isinstance(entry, MessageEntry) else None
    if isinstance(message, ToolResultMessage):
        return _Note(answers=message.tool_call_id)
    if isinstance(message, AssistantMessage) and message.stop_reason not in ("error", "aborted"):
        return _Note(calls=tuple(call.id for call in message.tool_calls))
    return _NOTHING


def _at(
    row: EntryRow, kind: ProblemKind, message: str, severity: Literal["error", "warning"] = "error"
) -> Problem:
    return Problem(kind, f"entry {row.id}", message, severity)


def _circular(by_id: Mapping[str, EntryRow]) -> set[str]:
    """The entries that descend from themselves."""
    found: set[str] = set()
    seen: set[str] = set()
    for start in by_id:
        trail: dict[str, int] = {}
        here: str | None = start
        while here is not None and here in by_id and here not in seen:
            seen.add(here)
            trail[here] = len(trail)
            here = by_id[here].parent_id
        if here is not None and here in trail:
            found.update(list(trail)[trail[here] :])
    return found


def _misplaced(by_id: Mapping[str, EntryRow], circular: set[str]) -> list[Problem]:
    problems: list[Problem] = []
    place = {entry_id: (row.seq, i) for i, (entry_id, row) in enumerate(by_id.items())}
    for row in by_id.values():
        parent = row.parent_id
        if parent is None:
            continue
        if row.id in circular:
            problems.append(_at(row, "cycle", f"its parent {parent} also descends from it"))
        elif parent not in by_id:
            problems.append(_at(row, "missing_parent", f"its parent {parent} is missing"))
        elif place[parent] > place[row.id]:
            what = f"its parent {parent} was written after it"
            problems.append(_at(row, "parent_after_child", what))
    return problems


def _path(by_id: Mapping[str, EntryRow], leaf_id: str | None) -> list[str]:
    """The ids from the root to *leaf_id*, as far as there is a path."""
    path: dict[str, None] = {}
    while leaf_id is not None and leaf_id in by_id and leaf_id not in path:
        path[leaf_id] = None
        leaf_id = by_id[leaf_id].parent_id
    return list(path)[::-1]


def _kept_missing(by_id: Mapping[str, EntryRow], notes: Mapping[str, _Note]) -> list[Problem]:
    problems: list[Problem] = []
    for entry_id, note in notes.items():
        if note.kept_from is None or note.kept_from in _path(by_id, entry_id)[:-1]:
            continue
        what = f"it keeps what follows {note.kept_from}, which is not on its branch"
        problems.append(_at(by_id[entry_id], "kept_missing", what))
    return problems


def _dangling(path: Sequence[str], notes: Mapping[str, _Note]) -> list[Problem]:
    """Calls on *path* that no result follows before the next reply with calls."""
    problems: list[Problem] = []
    reply, open_calls = "", list[str]()

    def settle() -> None:
        for call in open_calls:
            what = f"its call {call!r} has no result"
            problems.append(Problem("dangling_call", f"entry {reply}", what, "warning"))

    for entry_id in path:
        note = notes.get(entry_id, _NOTHING)
        if note.answers in open_calls:
            open_calls.remove(note.answers)
        elif note.calls:
            settle()
            reply, open_calls = entry_id, list(note.calls)
    settle()
    return problems
