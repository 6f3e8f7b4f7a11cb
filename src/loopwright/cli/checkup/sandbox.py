"""Where tools work: the folder, the temporary folder, process groups, and as whom.

There is no sandbox of our own: commands have the rights of the user who runs them.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from .lines import Checked, Learned

__all__ = ["check_folders", "check_processes", "check_user"]

END_SECONDS = 1.0
"""How long a killed process may take to be gone."""


def check_folders(learned: Learned) -> Iterator[Checked]:
    """Whether files can be written, here and in the temporary folder."""
    folder = learned.folder
    wrong = None if folder is None else _cannot_write(folder)
    if folder is not None and wrong is None:
        yield Checked("sandbox", "ok", f"the workspace can be written: {folder}")
    elif folder is not None:
        yield Checked(
            "sandbox",
            "warning",
            f"the workspace {folder} cannot be written: {wrong}",
            "work somewhere else, or only read: --permission-mode read-only",
        )
    try:
        temporary = Path(tempfile.gettempdir())
    except OSError:
        yield Checked(
            "sandbox",
            "problem",
            "there is no temporary folder that can be written; long outputs are kept there",
            "set TMPDIR to one",
        )
        return
    wrong = _cannot_write(temporary)
    if wrong is None:
        yield Checked("sandbox", "ok", f"the temporary folder can be written: {temporary}")
    else:
        yield Checked(
            "sandbox",
            "problem",
            f"the temporary folder {temporary} cannot be written: {wrong}",
            "set TMPDIR to one that can",
        )


def _cannot_write(folder: Path) -> str | None:
    try:
        with tempfile.TemporaryFile(dir=folder) as probe:
            probe.write(b"loopwright")
            probe.flush()
    except OSError as error:
        return error.strerror or str(error)
    return None


def check_processes(_learned: Learned) -> Iterator[Checked]:
    """Start a process in a group of its own, and kill the group, as the tool `bash` does."""
    if sys.platform == "win32":
        yield Checked("sandbox", "note", "there are no process groups on Windows")
        return
    sleep = shutil.which("sleep")
    command = (
        [sleep, "60"] if sleep else [sys.executable, "-I", "-c", "import time; time.sleep(60)"]
    )
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        is_leader = os.getpgid(process.pid) == process.pid
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(END_SECONDS)
    except (OSError, subprocess.TimeoutExpired) as error:
        process.kill()
        yield Checked(
            "sandbox",
            "problem",
            f"a process group cannot be killed: {type(error).__name__}",
            "commands that a run leaves behind must be ended by hand",
        )
        return
    if is_leader:
        yield Checked("sandbox", "ok", "commands run in groups of their own, which can be killed")
    else:
        yield Checked("sandbox", "warning", "commands get no process group of their own here")


def check_user(learned: Learned) -> Iterator[Checked]:
    """As whom commands run."""
    settings = learned.settings
    is_guarded = settings is None or settings.settings.permissions.mode != "yolo"
    container = _container()
    if container is not None:
        yield Checked("sandbox", "ok", f"this is a container ({container})")
    is_root = hasattr(os, "geteuid") and os.geteuid() == 0
    if is_root:
        yield Checked(
            "sandbox",
            "note" if container is not None else "warning",
            "this runs as root: commands may change everything on this machine"
            if container is None
            else "this runs as root of the container",
            None if container is not None else "run it as a user of your own",
        )
    if container is None and not is_guarded:
        yield Checked(
            "sandbox",
            "warning",
            "commands run without asking, with all your rights, and this is no container",
            "work in a container, or choose another permissions.mode",
        )
    elif container is None and not is_root:
        yield Checked("sandbox", "ok", "commands run with your rights; this is no container")


def _container() -> str | None:
    """What kind, as far as it can be told."""
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    if os.path.exists("/run/.containerenv"):
        return "podman"
    if os.path.exists("/.dockerenv"):
        return "docker"
    kind = os.environ.get("container", "")  # noqa: SIM112 - so systemd-nspawn writes it
    if kind:
        return kind if kind.isalnum() else "unknown kind"
    try:
        groups = Path("/proc/1/cgroup").read_text("utf-8", "replace")
    except OSError:
        return None
    names = ("docker", "kubepods", "containerd", "lxc")
    return next((name for name in names if name in groups), None)
