"""Whether a process that holds a lease can still be there. Never sure means: it lives."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys

import pytest

from loopwright.session.leases import describe_owner, new_owner, owner_is_dead

PRINT_OWNER_AND_WAIT = """
import sys
from loopwright.session.leases import new_owner
print(new_owner(), flush=True)
sys.stdin.read()
"""

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
posix_only = pytest.mark.skipif(sys.platform == "win32", reason="signal 0 would end the process")


def started() -> tuple[subprocess.Popen[str], str]:
    process = subprocess.Popen(
        [sys.executable, "-c", PRINT_OWNER_AND_WAIT],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


def ended(process: subprocess.Popen[str]) -> None:
    process.communicate()


def test_this_process_lives_and_every_owner_is_another() -> None:
    one, other = new_owner(), new_owner()

    assert one != other
    assert not owner_is_dead(one)
    assert one.split(":")[:2] == [socket.gethostname(), str(os.getpid())]


@posix_only
def test_case_034_a_process_is_dead_once_it_has_ended() -> None:
    process, owner = started()

    alive = owner_is_dead(owner)
    process.kill()
    ended(process)

    assert not alive
    assert owner_is_dead(owner)


@linux_only
def test_a_process_that_was_killed_and_not_collected_is_dead() -> None:
    """Its parent may never look; the number is taken as long as it does not."""
    process, owner = started()

    process.kill()
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    found = owner_is_dead(owner)
    ended(process)

    assert found


@linux_only
def test_a_process_that_is_stopped_lives() -> None:
    process, owner = started()

    process.send_signal(signal.SIGSTOP)
    os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
    found = owner_is_dead(owner)
    process.kill()
    ended(process)

    assert not found


@linux_only
def test_a_number_that_was_given_to_a_later_process_does_not_keep_the_lease() -> None:
    host, pid, start, chance = new_owner().split(":")
    place, _, ticks = start.rpartition(".")

    earlier = f"{host}:{pid}:{place}.{int(ticks) - 1}:{chance}"

    assert owner_is_dead(earlier)


@linux_only
@pytest.mark.parametrize("part", [0, 1], ids=["boot", "namespace"])
def test_of_another_boot_or_container_nothing_is_sure(part: int) -> None:
    process, owner = started()
    process.kill()
    ended(process)
    host, pid, start, chance = owner.split(":")
    places = start.split(".")

    places[part] = "another"

    assert owner_is_dead(owner)
    assert not owner_is_dead(f"{host}:{pid}:{'.'.join(places)}:{chance}")


def test_of_another_machine_nothing_is_sure() -> None:
    process, owner = started()
    process.kill()
    ended(process)

    _, *rest = owner.split(":")

    assert not owner_is_dead(":".join(["another-host", *rest]))


@pytest.mark.parametrize(
    "owner",
    [
        "",
        "worker-7",
        "a:b",
        "a:b:c:d:e",
        f"{socket.gethostname()}:x:-:1",
        f"{socket.gethostname()}:0:-:1",
        f"{socket.gethostname()}:-1:-:1",
        f"{socket.gethostname()}:99999999999999999999:-:1",
        f"{socket.gethostname()}:²:-:1",
    ],
)
def test_an_owner_that_is_not_of_our_making_lives(owner: str) -> None:
    assert not owner_is_dead(owner)


def test_an_owner_is_told_in_words() -> None:
    assert describe_owner("box:17:s:r") == "process 17 on box"
    assert describe_owner(new_owner()).endswith(" (this process)")
    assert describe_owner("worker-7") == "worker-7"
