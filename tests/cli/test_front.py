"""Version, help, and what is said about a command line that makes no sense."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

import loopwright

from .conftest import Program


@pytest.mark.parametrize("flag", ["--version", "-v"])
def test_the_version_is_told(program: Program, flag: str) -> None:
    finished = program.run(flag)

    assert (finished.returncode, finished.stderr) == (0, "")
    assert finished.stdout == f"loopwright {loopwright.__version__}\n"


def test_telling_the_version_loads_neither_the_parser_nor_anything_slow() -> None:
    slow = {"cyclopts", "rich", "pydantic", "openai", "httpx2", "sqlite3", "loopwright.harness"}
    script = (
        "import sys; from loopwright.cli import main; main(['--version']);"
        f"print(sorted({slow!r} & set(sys.modules)))"
    )

    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert finished.stdout.splitlines()[1] == "[]"


@pytest.mark.parametrize("arguments", [["-h"], ["sessions", "-h"], ["sessions", "doctor", "-h"]])
def test_the_help_pages_load_no_database_and_no_harness(arguments: list[str]) -> None:
    script = (
        f"import sys; from loopwright.cli import main; main({arguments!r});"
        "print(sorted({'sqlite3', 'loopwright.harness', 'openai', 'yaml'} & set(sys.modules)))"
    )

    finished = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True
    )

    assert finished.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("flag", ["--help", "-h"])
def test_the_help_names_every_option_and_the_exit_codes(program: Program, flag: str) -> None:
    finished = program.run(flag)

    assert (finished.returncode, finished.stderr) == (0, "")
    options = ["--print", "-p", "--model", "--thinking", "--system-prompt", "--mode", "--version"]
    options += ["--continue", "-c", "--resume", "-r", "--session", "--fork", "--no-session"]
    options += ["--name", "--skill", "--no-skills", "--no-context-files", "--append-system-prompt"]
    for word in [
        *options,
        "demo",
        "sessions",
        "LOOPWRIGHT_SESSION_DIR",
        "LOOPWRIGHT_MODEL",
        "NO_COLOR",
        "OPENAI_API_KEY",
        "Exit codes",
    ]:
        assert word in finished.stdout
    assert "\x1b" not in finished.stdout


def test_the_help_needs_no_unicode(program: Program) -> None:
    finished = program.run("-h", env={"PYTHONIOENCODING": "ascii"})

    assert finished.returncode == 0
    assert finished.stdout.isascii()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ([], "nothing to say"),
        (["-p"], "nothing to say"),
        (["--mode", "json"], "nothing to say"),
        (["--modell", "local", "hi"], "--model"),
        (["hi", "--mode", "xml"], '"text", "json"'),
        (["hi", "--thinking", "hard"], '"high"'),
        (["hi", "--model"], "--model requires an argument"),
        (["demo", "twice"], "too many arguments: twice"),
        (["demo", "--model", "local"], "--model"),
        (["hi", "-c", "--session", "x"], "--continue and --session cannot be meant together"),
        (["hi", "--fork", "x", "--no-session"], "--fork and --no-session"),
        (["hi", "--no-session", "--name", "x"], "--no-session keeps nothing"),
        (["hi", "-r"], "--session ID"),
        (["sessions", "list", "--limit", "0"], "at least 1"),
        (["sessions", "search"], "nothing to look for"),
        (["sessions", "import"], "nothing to import"),
    ],
    ids=str,
)
def test_a_wrong_command_line_ends_with_2_and_says_what_to_do(
    program: Program, arguments: list[str], told: str
) -> None:
    finished = program.run(*arguments)

    assert finished.returncode == 2
    assert finished.stdout == ""
    assert finished.stderr.startswith("error: ")
    assert told in finished.stderr
    assert "\nhint: " in finished.stderr


@pytest.mark.parametrize("arguments", [["-h"], ["--version"], ["demo"]], ids=str)
def test_a_reader_that_is_gone_is_no_trouble(program: Program, arguments: list[str]) -> None:
    """`loopwright -h | true`"""
    reading, writing = os.pipe()
    os.close(reading)

    finished = subprocess.run(
        program.command(*arguments),
        cwd=program.folder,
        env=program.env,
        stdin=subprocess.DEVNULL,
        stdout=writing,
        stderr=subprocess.PIPE,
        timeout=60,
    )
    os.close(writing)

    assert (finished.returncode, finished.stderr) == (141, b"")


@pytest.mark.parametrize(("closed", "code"), [("2>&-", 0), (">&- 2>&-", 1)])
def test_case_154_closed_errors_are_no_trouble_but_a_closed_output_is(
    program: Program, closed: str, code: int
) -> None:
    command = " ".join(program.command("demo"))

    finished = subprocess.run(
        ["sh", "-c", f"exec {command} {closed}"],
        cwd=program.folder,
        env=program.env,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        timeout=60,
    )

    assert finished.returncode == code
