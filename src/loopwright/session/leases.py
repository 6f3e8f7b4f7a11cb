"""Who holds a lease, and whether that process can still be there.

An owner is `host:pid:start:random`. `start` tells a process from a later one with the same number:
on Linux it also has the boot and the process namespace, since a container numbers its processes
by itself. Where any of this is not known the process is taken to live, and its lease runs out by
time.

Not here: the lease itself, which is a row of its session (tables).
"""

from __future__ import annotations

import os
import secrets
import socket
import sys
from functools import cache
from pathlib import Path

__all__ = ["describe_owner", "new_owner", "owner_is_dead"]

_UNKNOWN = "-"
_STATE_GONE = "ZX"  # proc_pid_stat(5): a zombie has ended and only waits to be collected


def new_owner() -> str:
    """An owner nobody else is: this process, and a random part for each one who opens."""
    pid = os.getpid()
    return f"{_host()}:{pid}:{_start_of(pid) or _UNKNOWN}:{secrets.token_hex(6)}"


def owner_is_dead(owner: str) -> bool:
    """Whether *owner* is a process of this machine that is no more. False if that is not sure."""
    parts = owner.split(":")
    if len(parts) != 4 or parts[0] != _host() or not parts[1].isascii() or not parts[1].isdigit():
        return False
    pid, start = int(parts[1]), parts[2]
    if sys.platform == "win32" or not 0 < pid < 1 << 31:
        return False  # there, signal 0 would end the process instead of asking for it
    if _place_of(start) != _place_of(_own_start()):
        return False  # before a restart of the machine, or in another container
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        pass  # it runs, and is somebody else's
    found = _start_of(pid)
    return found is not None and start != _UNKNOWN and found != start


def describe_owner(owner: str) -> str:
    """*owner* in words, for messages."""
    parts = owner.split(":")
    if len(parts) != 4:
        return owner
    here = " (this process)" if parts[0] == _host() and parts[1] == str(os.getpid()) else ""
    return f"process {parts[1]} on {parts[0]}{here}"


@cache
def _host() -> str:
    return socket.gethostname().replace(":", "-") or _UNKNOWN


def _own_start() -> str:
    return _start_of(os.getpid()) or _UNKNOWN


def _place_of(start: str) -> str:
    """The part of *start* that all processes share that can see each other."""
    return start.rpartition(".")[0]


def _start_of(pid: int) -> str | None:
    """When process *pid* started, as `boot.namespace.ticks`. None where that cannot be read.

    Of a process that has ended but was not collected yet: `boot.namespace.gone`.
    """
    if not sys.platform.startswith("linux"):
        return None
    try:
        # proc_pid_stat(5): the name in parentheses may hold anything; field 3, the state, is the
        # first behind it and field 22, the start in ticks since the boot, the twentieth.
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].decode().split()
        ticks = "gone" if fields[0] in _STATE_GONE else fields[19]
    except (OSError, IndexError):
        return None
    return f"{_boot()}.{_namespace()}.{ticks}"


@cache
def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()[:13]
    except OSError:
        return _UNKNOWN


@cache
def _namespace() -> str:
    """Which processes we see; those of other containers have the same numbers as some of ours."""
    try:
        return str(Path("/proc/self/ns/pid").stat().st_ino)
    except OSError:
        return _UNKNOWN
