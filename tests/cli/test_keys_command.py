"""`loopwright keys`: keys go into the file unseen and never come out again."""

from __future__ import annotations

import os
import pty
import stat
import subprocess
import time
from pathlib import Path

import pytest

from .conftest import Program

SECRET = "gsk-very-secret-0123456789"


def file_of(program: Program) -> Path:
    return program.folder / "config" / "loopwright" / "credentials.json"


def test_a_key_is_read_from_standard_input_and_never_shown(program: Program) -> None:
    done = program.run("keys", "set", "groq", stdin=f"{SECRET}\n".encode())
    listed = program.run("keys", "list")

    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == f"the key for Groq is kept in {file_of(program)}\n"
    assert stat.S_IMODE(file_of(program).stat().st_mode) == 0o600
    assert SECRET in file_of(program).read_text()
    assert (listed.returncode, listed.stdout) == (0, "groq  key\n")
    assert SECRET not in done.stderr + listed.stdout + listed.stderr


def test_a_key_typed_on_a_terminal_is_not_shown(program: Program) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        program.command("keys", "set", "groq"),
        cwd=program.folder, env=program.env, stdin=theirs, stdout=theirs, stderr=theirs,
        start_new_session=True,
    )  # fmt: skip
    os.close(theirs)
    shown = b""
    end = time.monotonic() + 60
    while b"not shown" not in shown and time.monotonic() < end:
        shown += os.read(ours, 1024)
    os.write(ours, f"{SECRET}\n".encode())
    while True:
        try:
            piece = os.read(ours, 1024)
        except OSError:
            break
        if not piece:
            break
        shown += piece

    assert process.wait() == 0
    os.close(ours)
    assert SECRET.encode() not in shown
    assert SECRET in file_of(program).read_text()


def test_a_variable_that_comes_before_the_file_is_mentioned(program: Program) -> None:
    done = program.run("keys", "set", "groq", stdin=b"k-123\n", env={"GROQ_API_KEY": "x"})

    assert "but GROQ_API_KEY is set, which comes before it" in done.stderr


@pytest.mark.parametrize("given", [b"", b"\n", b"two words\n", b"one\ntwo\n", b"\x1b[A\n"])
def test_what_is_no_key_is_refused(program: Program, given: bytes) -> None:
    done = program.run("keys", "set", "groq", stdin=given)

    assert done.returncode == 2
    assert done.stderr.startswith("error: that is no key")
    assert not file_of(program).exists()


def test_a_misspelt_vendor_is_answered_with_near_ones(program: Program) -> None:
    done = program.run("keys", "set", "grok", stdin=b"k\n")

    assert done.returncode == 3
    assert "no provider is named 'grok'" in done.stderr
    assert "groq" in done.stderr


def test_the_local_model_needs_none(program: Program) -> None:
    done = program.run("keys", "set", "local", stdin=b"k\n")

    assert (done.returncode, done.stderr) == (3, "error: Local model needs no key\n")


def test_a_removed_key_is_gone(program: Program) -> None:
    program.run("keys", "set", "groq", stdin=b"k-123\n")

    done = program.run("keys", "remove", "groq")
    again = program.run("keys", "remove", "groq")

    assert done.returncode == 0
    assert again.returncode == 1
    assert "nothing is kept for 'groq'" in again.stderr
    assert program.run("keys", "list").stdout == ""


def test_a_file_that_others_can_read_is_refused(program: Program) -> None:
    program.run("keys", "set", "groq", stdin=b"k-123\n")
    file_of(program).chmod(0o644)

    ask = ("-p", "hi", "--model", "groq/openai/gpt-oss-120b")
    for arguments in (("keys", "list"), ("models", "groq"), ask):
        done = program.run(*arguments)
        assert done.returncode == 3, arguments
        assert f"hint: chmod 600 {file_of(program)}" in done.stderr


def test_a_key_of_the_file_is_enough_to_ask(program: Program) -> None:
    """The request itself would leave this machine, so it is forbidden here and says so."""
    program.run("keys", "set", "groq", stdin=f"{SECRET}\n".encode())

    done = program.run(
        "-p", "hi", "--model", "groq/openai/gpt-oss-120b",
        env={"LOOPWRIGHT_FORBID_MODEL_REQUESTS": "1"},
    )  # fmt: skip

    assert "real model requests are forbidden" in done.stderr
    assert SECRET not in done.stderr
