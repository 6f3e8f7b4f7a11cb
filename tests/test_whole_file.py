"""The content of a file is replaced as a whole, also where a new file cannot take its place."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from loopwright.whole_file import overwrite, write_whole_file


def may_mount(folder: Path) -> bool:
    """Whether a process may mount in a name space of its own."""
    (folder / "a").write_text("a")
    (folder / "b").write_text("b")
    try:
        tried = in_a_mount(folder / "a", folder / "b", ["cat", str(folder / "b")])
    except FileNotFoundError:
        return False
    return tried.stdout == "a"


def in_a_mount(
    outside: Path, inside: Path, command: list[str], **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run *command* where *inside* is the file *outside*, mounted by itself."""
    script = 'mount --bind "$1" "$2" && shift 2 && exec "$@"'
    return subprocess.run(
        ["unshare", "-rm", "sh", "-c", script, "sh", str(outside), str(inside), *command],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=60,
        check=False,
    )


EDIT = """
import asyncio, sys
from loopwright.tools import LocalWorkspace, coding_tools
from loopwright.testing import Call, Reply, ScriptedModel
from loopwright import Agent
calls = [
    Call("read", {"path": "conf.txt"}),
    Call("edit", {"path": "conf.txt", "old_text": "old", "new_text": "new"}),
]
model = ScriptedModel([*[Reply(calls=[call]) for call in calls], Reply("done")])
agent = Agent(model.model, stream_fn=model.stream_fn, tools=coding_tools(LocalWorkspace(".")))
result = agent.prompt_sync("Go.")
print([m.text for m in result.messages if m.role == "toolResult"])
"""

COMMANDS = {
    "edit": ["-c", EDIT],
    "whole file": [
        "-c",
        "from pathlib import Path; from loopwright.whole_file import write_whole_file;"
        "write_whole_file(Path('conf.txt'), b'new content\\n')",
    ],
}


@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_case_105_a_file_that_is_a_mount_point_is_written_in_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: list[str]
) -> None:
    if not may_mount(tmp_path):
        pytest.skip("this machine lets no process mount in a name space of its own")
    work = tmp_path / "work"
    work.mkdir()
    outside, inside = tmp_path / "host.txt", work / "conf.txt"
    outside.write_text("old content\n")
    inside.write_text("below the mount\n")
    monkeypatch.chdir(work)

    done = in_a_mount(outside, inside, [sys.executable, *command])

    assert done.returncode == 0, done.stderr
    assert outside.read_text() == "new content\n", done.stdout
    assert os.listdir(work) == ["conf.txt"]


def test_case_105_settings_that_are_a_mount_point_can_be_changed(tmp_path: Path) -> None:
    if not may_mount(tmp_path):
        pytest.skip("this machine lets no process mount in a name space of its own")
    settings = tmp_path / "config" / "loopwright" / "settings.toml"
    settings.parent.mkdir(parents=True)
    outside = tmp_path / "host.toml"
    outside.write_text("")
    settings.write_text("")

    command = [sys.executable, "-m", "loopwright", "config", "set", "theme", "light"]
    done = in_a_mount(outside, settings, command, XDG_CONFIG_HOME=str(tmp_path / "config"))

    assert done.returncode == 0, done.stderr
    assert 'theme = "light"' in outside.read_text()


def test_case_105_a_failed_write_in_place_puts_the_old_content_back(tmp_path: Path) -> None:
    """The file may grow to 8 bytes only; the system stops the write there."""
    file = tmp_path / "conf.txt"
    file.write_text("old")
    program = """
import os, resource, signal, sys
from loopwright.whole_file import overwrite
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (8, 8))
descriptor = os.open(sys.argv[1], os.O_RDWR)
try:
    overwrite(descriptor, b"much longer than eight bytes")
except OSError as error:
    print(error.strerror)
"""

    done = subprocess.run(
        [sys.executable, "-c", program, str(file)], capture_output=True, text=True, check=True
    )

    assert "too large" in done.stdout
    assert file.read_text() == "old"


def test_the_content_is_replaced_and_shorter_content_leaves_no_rest(tmp_path: Path) -> None:
    file = tmp_path / "conf.txt"
    write_whole_file(file, b"first")
    assert file.read_bytes() == b"first"

    with file.open("r+b", buffering=0) as opened:
        overwrite(opened.fileno(), b"2")

    assert file.read_bytes() == b"2"
    assert os.listdir(tmp_path) == ["conf.txt"]
