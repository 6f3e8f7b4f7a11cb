"""`loopwright sessions stop | approvals | approve | deny`: what others left, brought further."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import pytest

from loopwright.session import SqliteStore
from loopwright.session.rows import Operation

from .conftest import Program, Terminal, Vendor

# Parks two calls (`wait`), dies in the middle of one (`die`), or takes up what was parked (`go`).
PROGRAM = """
import asyncio, os, signal, sys
from loopwright import Agent, Harness, tool
from loopwright.loop.hooks import BeforeToolCallResult
from loopwright.session import SqliteStore
from loopwright.testing import Call, Reply, ScriptedModel

database, what = sys.argv[1:]

@tool
def bash(command: str) -> str:
    "Run."
    if what == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    return "ran " + command

EVIL = "rm -rf build\\x1b[2J\\n  bash  call_9  0 s ago\\n    command: ls"

async def main():
    calls = [Call("bash", {"command": EVIL}), Call("bash", {"command": "ls"})]
    replies = [Reply("Done.")] if what == "go" else [Reply(calls=calls)]
    model = ScriptedModel(replies)
    approval = True if what == "wait" else None
    agent = Agent(
        model.model, stream_fn=model.stream_fn, tools=[bash],
        before_tool_call=lambda call, signal: BeforeToolCallResult(approval=approval),
    )
    async with await SqliteStore.open(database) as store:
        async with Harness.open(store, "s", agent=agent, cwd=os.getcwd()) as harness:
            if what == "go":
                await harness.resume()
            else:
                await harness.prompt("Tidy up.")

asyncio.run(main())
"""


def database(program: Program) -> Path:
    return program.folder / "home" / ".local" / "share" / "loopwright" / "sessions.db"


def run(program: Program, what: str) -> int:
    command = [sys.executable, "-c", PROGRAM, str(database(program)), what]
    return subprocess.run(command, cwd=program.folder, env=program.env, timeout=60).returncode


def state(program: Program) -> str | None:
    listed = program.run("sessions", "list", "--mode", "json")
    assert listed.returncode == 0, listed.stderr
    return json.loads(listed.stdout.splitlines()[0])["state"]


def waiting(program: Program) -> list[dict[str, Any]]:
    listed = program.run("sessions", "approvals", "--mode", "json")
    assert listed.returncode == 0, listed.stderr
    return [json.loads(line) for line in listed.stdout.splitlines()]


def results(program: Program) -> list[tuple[bool, str]]:
    """Whether it failed, and its text, of each result in the session."""
    shown = program.run("sessions", "show", "s", "--mode", "json").stdout.splitlines()[1:]
    messages = [json.loads(line)["message"] for line in shown]
    return [
        (message.get("isError", False), message["content"][0]["text"])
        for message in messages
        if message["role"] == "toolResult"
    ]


# -- what is said of it ----------------------------------------------------------------------


def test_list_and_show_tell_how_a_session_stands(
    program: Program, terminal: Callable[..., Terminal]
) -> None:
    run(program, "wait")

    waits = terminal("sessions", "list", NO_COLOR="1")
    assert waits.end() == 0
    shown = program.run("sessions", "show", "s")
    program.run("sessions", "approve", "s", "call_1")
    program.run("sessions", "approve", "s", "call_2")
    decided = state(program)
    run(program, "go")
    over = program.run("sessions", "list").stdout

    assert waits.screen.splitlines()[0].split() == ["ID", "CHANGED", "ENTRIES", "STATE", "SESSION"]
    assert "waiting" in waits.screen
    assert "it waits for an approval of bash: `loopwright sessions approvals s`" in shown.stderr
    assert "`loopwright sessions stop s` gives it up" in shown.stderr
    assert decided == "unfinished"
    assert "STATE" not in over


def test_what_a_killed_process_left_is_called_unfinished_at_once(program: Program) -> None:
    assert run(program, "die") == -signal.SIGKILL

    assert state(program) == "unfinished"
    shown = program.run("sessions", "show", "s").stderr
    assert "`loopwright --session s` takes it up" in shown


def test_the_doctor_warns_of_what_was_left_open_and_of_calls_that_wait_for_long(
    program: Program,
) -> None:
    run(program, "wait")
    fresh = program.run("sessions", "doctor")
    with closing(sqlite3.connect(database(program))) as connection, connection:
        (body,) = connection.execute("SELECT body FROM approval").fetchone()
        old = json.loads(body) | {"requestedAt": json.loads(body)["requestedAt"] - 86_400_000}
        connection.execute("UPDATE approval SET body = ?", (json.dumps(old),))
    late = program.run("sessions", "doctor")
    machine = program.run("sessions", "doctor", "--mode", "json").stdout.splitlines()

    assert (fresh.returncode, late.returncode) == (0, 0)
    (line,) = [line for line in fresh.stdout.splitlines() if "operation " in line]
    assert line.startswith("note: session s")
    (line,) = [line for line in late.stdout.splitlines() if "operation " in line]
    assert line.startswith("warning: session s")
    assert "`loopwright sessions approvals s` shows it" in line
    kinds = {json.loads(each).get("kind"): json.loads(each) for each in machine}
    assert kinds["operation_open"]["severity"] == "warning"


def test_the_doctor_warns_of_a_run_that_nobody_is_at(program: Program) -> None:
    run(program, "die")

    finished = program.run("sessions", "doctor")

    (line,) = [line for line in finished.stdout.splitlines() if "operation " in line]
    assert line.startswith("warning: session s")
    assert "`loopwright sessions stop s` gives it up" in line


# -- approvals -------------------------------------------------------------------------------


def test_calls_that_wait_are_listed_whole_and_none_can_make_up_another(
    program: Program, terminal: Callable[..., Terminal]
) -> None:
    run(program, "wait")

    piped = program.run("sessions", "approvals")
    screen = terminal("sessions", "approvals", "s", NO_COLOR="1")
    assert screen.end() == 0

    assert [call["toolCallId"] for call in waiting(program)] == ["call_1", "call_2"]
    for text in (piped.stdout, screen.screen):
        lines = text.splitlines()
        assert [line.split()[:2] for line in lines if line.startswith("  b")] == [
            ["bash", "call_1"],
            ["bash", "call_2"],
        ]
        assert "    command: rm -rf build␛[2J" in lines
        assert "           |   bash  call_9  0 s ago" in lines
        assert "\x1b" not in text
    assert "`loopwright sessions approve s`" in piped.stderr


def test_nothing_waits_is_said_and_is_no_failure(program: Program) -> None:
    run(program, "die")

    everywhere = program.run("sessions", "approvals")
    there = program.run("sessions", "approvals", "s")
    refused = program.run("sessions", "approve", "s")

    assert (everywhere.returncode, there.returncode, refused.returncode) == (0, 0, 4)
    assert "no call waits" in everywhere.stderr
    assert "no call waits" in there.stderr
    assert "no call waits" in refused.stderr


def test_which_call_is_meant_has_to_be_said_while_several_wait(program: Program) -> None:
    run(program, "wait")

    either = program.run("sessions", "approve", "s")
    unknown = program.run("sessions", "approve", "s", "call_7")
    first = program.run("sessions", "deny", "s", "call_1", "--reason", "Not the build folder.")
    again = program.run("sessions", "approve", "s", "call_1")
    second = program.run("sessions", "approve", "s")

    assert [either.returncode, unknown.returncode, again.returncode] == [4, 4, 4]
    assert [first.returncode, second.returncode] == [0, 0]
    assert "2 calls wait" in either.stderr
    assert "call_2  bash" in either.stderr
    assert "\x1b" not in either.stderr
    assert "1 more wait" in first.stderr
    assert "`loopwright --session s` goes on" in second.stderr


def test_what_was_decided_is_done_when_the_session_is_gone_on_with(program: Program) -> None:
    run(program, "wait")
    program.run("sessions", "deny", "s", "call_1", "--reason", "Not the build folder.")
    program.run("sessions", "approve", "s", "call_2")

    assert run(program, "go") == 0

    assert results(program) == [(True, "Not the build folder."), (False, "ran ls")]
    assert state(program) is None


# -- stop ------------------------------------------------------------------------------------


@pytest.mark.parametrize("what", ["wait", "die"])
def test_what_is_unfinished_is_given_up_and_every_call_has_its_result(
    program: Program, what: str
) -> None:
    run(program, what)

    stopped = program.run("sessions", "stop", "s", "--reason", "Enough.")
    again = program.run("sessions", "stop", "s")

    assert (stopped.returncode, again.returncode) == (0, 0)
    assert "a run was given up" in stopped.stderr
    assert "nothing is unfinished there" in again.stderr
    assert state(program) is None
    assert waiting(program) == []
    assert [failed for failed, _ in results(program)] == [True, True]
    assert program.run("sessions", "doctor").stdout.count("has no result") == 0
    operation = asyncio.run(_last_operation(program))
    assert (operation.status, operation.cancel_reason) == ("aborted", "Enough.")


async def _last_operation(program: Program) -> Operation:
    async with await SqliteStore.open(database(program), read_only=True) as store:
        return (await store.operations("s"))[-1]


@pytest.mark.parametrize("kind", ["compaction", "navigation"])
def test_an_unfinished_compaction_is_given_up_too(program: Program, kind: Any) -> None:
    run(program, "die")

    async def change() -> None:
        async with await SqliteStore.open(database(program)) as store:
            (operation,) = await store.operations("s")
            changed = msgspec.structs.replace(operation, kind=kind, intent={})
        with closing(sqlite3.connect(database(program))) as connection, connection:
            connection.execute("UPDATE operation SET body = ?", (changed.to_json().decode(),))
            connection.execute("DELETE FROM intent")

    asyncio.run(change())

    stopped = program.run("sessions", "stop", "s")

    assert stopped.returncode == 0, stopped.stderr
    assert f"a {kind} was given up" in stopped.stderr
    assert state(program) is None


def test_what_goes_on_in_another_process_is_stopped_there(program: Program, vendor: Vendor) -> None:
    vendor.will_say("Once upon a", threading.Event(), " time")
    process = program.start("-p", "Tell me a tale.", "--name", "tale")
    assert process.stdout
    os.read(process.stdout.fileno(), 100)
    in_use = state(program)

    stopped = program.run("sessions", "stop", "TALE")
    _, said = process.communicate(timeout=60)

    assert in_use == "in use"
    assert stopped.returncode == 0, stopped.stderr
    assert f"stopped in process {process.pid}" in stopped.stderr
    assert b"Traceback" not in said
    assert state(program) is None


def test_a_process_that_does_not_hear_is_said_not_to_have_stopped(
    program: Program, vendor: Vendor, monkeypatch: pytest.MonkeyPatch
) -> None:
    vendor.will_say("Once upon a", threading.Event(), " time")
    process = program.start("-p", "Tell me a tale.", "--name", "tale")
    assert process.stdout
    os.read(process.stdout.fileno(), 100)
    process.send_signal(signal.SIGSTOP)
    monkeypatch.setenv("LOOPWRIGHT_SESSION_DIR", str(database(program).parent))
    monkeypatch.chdir(program.folder)
    monkeypatch.setattr("loopwright.cli.sessions.unfinished.HEARD_SECONDS", 0.3)

    from loopwright.cli.sessions.unfinished import stop

    code = stop("tale", reason=None)
    process.send_signal(signal.SIGCONT)
    process.communicate(timeout=60)

    assert code == 1
    assert state(program) is None, "it heard as soon as it looked"
