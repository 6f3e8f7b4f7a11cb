"""What cannot be written ends with one line and code 1, never with a traceback."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .conftest import Program, Vendor

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")


@pytest.mark.parametrize("mode", ["text", "json"])
def test_a_full_disk_is_told_in_one_line(program: Program, vendor: Vendor, mode: str) -> None:
    vendor.will_say("Hello.")

    with Path("/dev/full").open("wb") as full:
        finished = subprocess.run(
            program.command("-p", "hi", "--mode", mode),
            cwd=program.folder,
            env=program.env,
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
        )

    assert finished.returncode == 1
    assert finished.stderr.count("the output cannot be written") == 1
    assert "Traceback" not in finished.stderr


def test_what_a_tool_prints_is_no_part_of_the_answer(program: Program, vendor: Vendor) -> None:
    (program.folder / "own.py").write_text(
        "from loopwright import Agent\n"
        "from loopwright.testing import Call, Reply, ScriptedModel\n"
        "def shout() -> str:\n"
        "    'Shout.'\n"
        "    print('PRINTED')\n"
        "    return 'done'\n"
        "model = ScriptedModel([Reply(calls=[Call('shout')]), Reply('Quiet.')])\n"
        "agent = Agent(model.model, stream_fn=model.stream_fn, tools=[shout])\n"
    )
    arguments = ("--agent", "own.py:agent", "--permission-mode", "yolo", "-p", "Go.")

    finished = program.run(*arguments)

    assert finished.stdout == "Quiet.\n"
    assert "PRINTED" in finished.stderr


def test_a_tool_that_ends_the_program_is_told_by_its_deed(program: Program, vendor: Vendor) -> None:
    (program.folder / "own.py").write_text(
        "import sys\n"
        "from loopwright import Agent\n"
        "from loopwright.testing import Call, Reply, ScriptedModel\n"
        "def leave() -> str:\n"
        "    'Leave.'\n"
        "    sys.exit(5)\n"
        "model = ScriptedModel([Reply(calls=[Call('leave')]), Reply('Never said.')])\n"
        "agent = Agent(model.model, stream_fn=model.stream_fn, tools=[leave])\n"
    )
    arguments = ("--agent", "own.py:agent", "--permission-mode", "yolo", "-p", "Go.")

    finished = program.run(*arguments)

    assert finished.returncode == 1
    assert "called sys.exit(5)" in finished.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ("-p", "hi"),
        ("-p", "hi", "--mode", "json"),
        ("--mode", "rpc"),
        ("--version",),
        ("--help",),
        ("models", "sonnet"),
    ],
    ids=" ".join,
)
def test_case_154_a_closed_output_is_told_in_one_line_and_nothing_is_asked(
    program: Program, vendor: Vendor, arguments: tuple[str, ...]
) -> None:
    finished = subprocess.run(
        ["sh", "-c", 'exec "$@" >&-', "sh", *program.command(*arguments)],
        cwd=program.folder,
        env=program.env,
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )

    assert finished.returncode == 1, finished.stderr
    assert finished.stderr.count("the output cannot be written") == 1
    assert "Traceback" not in finished.stderr
    assert vendor.requests == []
