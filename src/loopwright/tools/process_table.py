"""Which processes belong to a command: its group, its session, and what descends from it.

A command's own group is not all of it. `timeout 60 make` and the jobs of `set -m` make groups of
their own within its session, and `setsid -w make` a session of its own below it. What has left the
session and lost its parent is not counted: that is how a program says that it wants to stay.

Linux tells all of that in /proc. Where there is no such thing, the group is all that is known.

Not here: when they are ended (process_group.py).
"""

from __future__ import annotations

import os
import signal
from collections.abc import Collection, Iterator
from typing import NamedTuple

__all__ = [
    "Member",
    "freeze_outside",
    "groups_of_session",
    "is_group_alive",
    "members_outside",
    "send_to",
    "still_run",
]


class Member(NamedTuple):
    """One process. Its number alone could be another's by the time a signal is sent."""

    pid: int
    started: int
    """In ticks since the system's start."""


class _Row(NamedTuple):
    member: Member
    parent: int
    group: int
    session: int


def is_group_alive(group: int) -> bool:
    """Whether a process of *group* still runs. Zombies do not: where nobody reaps orphans they stay
    for ever. Blocks for a moment."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # macOS: only zombies; elsewhere: others' processes
        return os.path.exists("/proc/self/stat")
    rows = list(_rows())
    return not rows or any(row.group == group for row in rows)


def groups_of_session(leader: int) -> tuple[int, ...]:
    """The groups that still run in the session of *leader*, its own first. Blocks for a moment."""
    rows = list(_rows())
    if not rows:
        return (leader,) if is_group_alive(leader) else ()
    groups = {row.group for row in rows if leader in (row.session, row.group)}
    return tuple(sorted(groups, key=lambda group: (group != leader, group)))


def members_outside(leader: int, known: Collection[Member] = ()) -> set[Member]:
    """What belongs to the command of *leader* and is not in its group, *known* and what descends
    from them included: their parents may have ended. Blocks for a moment."""
    rows = list(_rows())
    found = {row.member.pid for row in rows if row.session == leader or row.member in known}
    found.add(leader)
    below: dict[int, list[int]] = {}
    for row in rows:
        below.setdefault(row.parent, []).append(row.member.pid)
    waiting = list(found)
    while waiting:
        new = [pid for pid in below.get(waiting.pop(), ()) if pid not in found]
        found.update(new)
        waiting += new
    return {row.member for row in rows if row.member.pid in found and row.group != leader}


def freeze_outside(leader: int, known: Collection[Member] = ()) -> set[Member]:
    """`members_outside`, and what descends from *known*; each of them stopped (SIGSTOP), so that none
    starts another process before all are killed: a child whose parent was killed meanwhile could
    not be found any more. Blocks for a moment."""
    frozen: set[Member] = set()
    found = set(known)
    for _ in range(_ROUNDS):
        found |= members_outside(leader, found)
        new = found - frozen
        if not new:
            break
        send_to(new, signal.SIGSTOP)
        frozen |= new
    return frozen


_ROUNDS = 50
"""How often new processes are looked for. Two are usual; the bound is for what forks without end."""


def still_run(members: Collection[Member]) -> bool:
    """Whether one of *members* does. Blocks for a moment."""
    return any(_row(member.pid) == member for member in members)


def send_to(members: Collection[Member], number: signal.Signals) -> None:
    """Send a signal to those of *members* that still run and may be ended."""
    for member in members:
        if _row(member.pid) != member:
            continue
        try:
            os.kill(member.pid, number)
        except (PermissionError, ProcessLookupError):
            continue


def _rows() -> Iterator[_Row]:
    """All processes but zombies; none where nothing is told of them."""
    try:
        names = os.listdir("/proc")
    except OSError:
        return
    for name in names:
        if name.isdigit() and (row := _read(int(name))) is not None:
            yield row


def _row(pid: int) -> Member | None:
    row = _read(pid)
    return None if row is None else row.member


def _read(pid: int) -> _Row | None:
    """proc_pid_stat(5): the name in brackets may hold anything, so what counts is behind it."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        if fields[0] in (b"Z", b"X"):
            return None
        return _Row(Member(pid, int(fields[19])), int(fields[1]), int(fields[2]), int(fields[3]))
    except (OSError, ValueError, IndexError):  # it has just ended
        return None
