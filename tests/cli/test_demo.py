"""`loopwright demo`: what a newcomer sees first."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Callable
from typing import Any

from loopwright.events import AgentEnd, event_from_dict
from loopwright.messages import ToolResultMessage

from .conftest import Program, Terminal


def test_the_demo_repairs_a_real_file_and_explains_every_step(program: Program) -> None:
    finished = program.run("demo")

    assert (finished.returncode, finished.stderr) == (0, "")
    told = finished.stdout
    for step in (
        "agent_start",
        "user: receipt.py crashes.",
        "Let me run it, and read it meanwhile.",
        "asks for run_python(path='receipt.py')",
        "run_python failed: ValueError",
        "2 results go back to the model",
        "replace_text: replaced in line 3 of receipt.py",
        "run_python: total: 15.0",
        "Repaired. receipt.py now says 'total: 15.0'.",
        "agent_end",
        "--mode json",
    ):
        before, found, told = told.partition(step)
        assert found, f"{step!r} does not come after {before[-300:]!r}"


def test_the_demo_fits_a_terminal_of_80_columns(program: Program) -> None:
    finished = program.run("demo")

    lines = finished.stdout.splitlines()
    assert max(map(len, lines)) < 80
    assert len(lines) < 50
    assert finished.stdout.isprintable() or all(line.isprintable() for line in lines)


def test_the_demo_counts_as_many_events_as_it_prints_as_json(program: Program) -> None:
    shown = program.run("demo").stdout
    events = program.run("demo", "--mode", "json").stdout.splitlines()

    counted = re.search(r"^(\d+) events in 3 turns", shown, re.MULTILINE)
    assert counted
    assert int(counted[1]) == len(events)
    updates = sum(json.loads(line)["type"] == "message_update" for line in events)
    assert sum(map(int, re.findall(r"×(\d+)$", shown, re.MULTILINE))) == updates


def test_every_line_of_json_is_an_event_and_the_first_tells_the_version(program: Program) -> None:
    finished = program.run("demo", "--mode", "json")

    assert (finished.returncode, finished.stderr) == (0, "")
    lines = [json.loads(line) for line in finished.stdout.splitlines()]
    assert lines[0] == {"type": "agent_start", "version": 1}
    events = [event_from_dict(line) for line in lines]
    end = events[-1]
    assert isinstance(end, AgentEnd)
    answers = [m.text for m in end.messages if isinstance(m, ToolResultMessage)]
    assert "invalid literal for int()" in answers[0]
    assert answers[-1] == "total: 15.0"


def test_the_events_of_the_first_turn_come_in_the_order_of_the_loop(program: Program) -> None:
    lines = [json.loads(x) for x in program.run("demo", "--mode", "json").stdout.splitlines()]

    types = [line["type"] for line in lines if line["type"] != "message_update"]
    first_turn = types[: types.index("turn_end") + 1]
    message, tool = ["message_start", "message_end"], "tool_execution"
    assert first_turn == [
        "agent_start", "turn_start", *message, *message,
        f"{tool}_start", f"{tool}_start", f"{tool}_end", f"{tool}_end",
        *message, *message, "turn_end",
    ]  # fmt: skip


def test_keys_of_the_json_are_camel_case_everywhere_but_in_the_users_own_data(
    program: Program,
) -> None:
    lines = [json.loads(x) for x in program.run("demo", "--mode", "json").stdout.splitlines()]

    keys: set[str] = set()

    def collect(value: Any) -> None:
        if isinstance(value, dict):
            keys.update(value)
            for item in value.values():
                collect(item)
        elif isinstance(value, list):
            for item in value:
                collect(item)

    collect(lines)
    assert {"toolCallId", "assistantMessageEvent", "stopReason"} <= keys
    assert not {key for key in keys if "_" in key}


def test_the_demo_leaves_no_file_behind(program: Program) -> None:
    program.run("demo")

    assert list((program.folder / "temporary").iterdir()) == []


def test_a_reader_that_has_seen_enough_ends_the_demo_quietly(program: Program) -> None:
    """`loopwright demo --mode json | head -1`"""
    process = program.start("demo", "--mode", "json")
    assert process.stdout
    assert process.stderr
    first = process.stdout.readline()
    process.stdout.close()

    told = process.stderr.read()

    assert json.loads(first)["type"] == "agent_start"
    assert process.wait() == 141
    assert told == b""
    process.stderr.close()
    assert list((program.folder / "temporary").iterdir()) == []


def test_the_demo_works_where_the_encoding_knows_no_unicode(program: Program) -> None:
    finished = program.run("demo", env={"PYTHONIOENCODING": "ascii"})

    assert finished.returncode == 0
    assert r"\xd77" in finished.stdout  # the times sign of ×7


def test_a_terminal_gets_styles(terminal: Callable[..., Terminal]) -> None:
    screen = terminal("demo")

    assert screen.end() == 0
    assert "\x1b[36magent_start" in screen.screen


def test_no_styles_where_they_are_not_wanted(terminal: Callable[..., Terminal]) -> None:
    for env in ({"NO_COLOR": "1"}, {"TERM": "dumb"}):
        screen = terminal("demo", **env)

        assert screen.end() == 0
        assert "\x1b" not in screen.screen


def test_ctrl_c_stops_the_demo_in_good_order(
    terminal: Callable[..., Terminal], program: Program
) -> None:
    screen = terminal("demo", NO_COLOR="1")
    screen.read_until("Let me")

    screen.type("\x03")

    assert screen.end() == 130
    assert "stop reason aborted" in screen.screen
    assert "agent_end" in screen.screen
    assert list((program.folder / "temporary").iterdir()) == []


def test_sigterm_stops_the_demo_in_good_order(terminal: Callable[..., Terminal]) -> None:
    screen = terminal("demo", NO_COLOR="1")
    screen.read_until("Let me")

    screen.process.send_signal(signal.SIGTERM)

    assert screen.end() == 143
    assert "agent_end" in screen.screen
