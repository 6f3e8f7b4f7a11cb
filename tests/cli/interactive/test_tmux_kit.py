"""The kit that the tests of the interactive mode stand on: a real terminal and an acting vendor."""

from __future__ import annotations

import re
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.cli.interactive.acting_vendor import (
    ActingVendor,
    BreakOff,
    Pause,
    Thinking,
    ToolCall,
    Used,
)
from tests.cli.tmux_screen import Tmux

Start = Callable[..., Tmux]


@dataclass
class Script:
    """A Python program, given as text, that can be started like ours."""

    folder: Path
    text: str
    env: dict[str, str] = field(
        default_factory=lambda: {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    )

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-c", self.text, *arguments]


@pytest.fixture
def script(tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Tmux]:
    """`script("print(1)", columns=40)`: a program of the test's own in a terminal."""

    def start(text: str, *arguments: str, **more: Any) -> Tmux:
        opened = Tmux(Script(tmp_path, text), *arguments, **more)
        request.addfinalizer(opened.kill)
        return opened

    return start


# -- the terminal --------------------------------------------------------------------------------


def test_the_demo_is_seen_as_a_person_sees_it(tmux: Start) -> None:
    demo = tmux("demo", columns=100, rows=50)

    code = demo.wait_for_end()

    screen = demo.wait_for("Repaired. receipt.py now says 'total: 15.0'.")
    assert code == 0
    assert "read_file" in screen
    assert max(map(len, screen.splitlines())) <= 100


def test_keys_typed_text_and_size_reach_the_program(script: Start) -> None:
    shell = script(
        "import os, sys\n"
        "while True:\n"
        "    line = input('> ')\n"
        "    print(repr(line), sys.argv[1:], os.get_terminal_size(), os.environ.get('MINE'))\n",
        "an argument;",
        columns=90,
        rows=10,
        env={"MINE": "yes"},
    )
    shell.wait_for(">")

    shell.type("$(id) -l; é;")
    shell.keys("Enter")

    screen = shell.wait_for("terminal_size(columns=90, lines=10) yes")
    assert "'$(id) -l; é;' ['an argument;']" in screen
    shell.resize(70, 12)
    shell.keys("x", "BSpace", "Enter")
    shell.wait_for("'' ['an argument;'] os.terminal_size(columns=70, lines=12) yes")


def test_pasted_text_comes_in_brackets_when_the_program_asks_for_them(script: Start) -> None:
    reader = script(
        "import os, sys, termios, tty\n"
        "tty.setraw(0); os.write(1, b'\\x1b[?2004hready')\n"
        "got = b''\n"
        "while not got.endswith(b'\\x1b[201~'): got += os.read(0, 1000)\n"
        "os.write(1, repr(got).encode())\n"
    )
    reader.wait_for("ready")

    reader.paste("one\ntwo; é")

    reader.wait_for(r"b'\x1b[200~one\rtwo; \xc3\xa9\x1b[201~'")


def test_what_has_scrolled_away_is_in_the_history(script: Start) -> None:
    program = script("for number in range(200): print('line', number)", rows=10)

    program.wait_for("line 199")

    assert "line 100\n" not in program.screen()
    assert "line 100\n" in program.wait_for("line 0\n", history=True)


def test_colours_are_told_when_they_are_asked_for(script: Start) -> None:
    program = script("print('\\x1b[31mred\\x1b[0m plain')")

    assert "red plain" in program.wait_for(re.compile("red.*plain"))
    assert "\x1b[31mred" in program.screen(colours=True)


def test_title_cursor_and_the_second_screen_can_be_seen(script: Start) -> None:
    program = script(
        "print('\\x1b]2;my title\\x07\\x1b[?1049h\\x1b[3;7Hx', end='', flush=True); input()"
    )

    program.wait_for("x")

    assert program.title == "my title"
    assert program.cursor == (7, 2)
    assert program.alternate


def test_an_end_is_told_with_its_code_and_what_was_shown_last(script: Start) -> None:
    program = script("print('last words'); raise SystemExit(7)")

    assert program.wait_for_end() == 7
    assert not program.alive
    assert "last words" in program.screen()


def test_an_end_by_a_signal_is_told(script: Start) -> None:
    program = script("print('here', flush=True); input()")
    program.wait_for("here")
    assert program.exit_code is None

    program.send_signal(signal.SIGKILL)

    assert program.wait_for_end() == -signal.SIGKILL


def test_waiting_in_vain_shows_the_screen(script: Start) -> None:
    program = script("print('something else', flush=True); input()")
    program.wait_for("something")

    with pytest.raises(pytest.fail.Exception) as failed:
        program.wait_for("never", seconds=0.1)

    assert "does not show 'never'" in str(failed.value)
    assert "something else" in str(failed.value)
    assert "80x24" in str(failed.value)


def test_waiting_ends_with_the_program(script: Start) -> None:
    program = script("print('bye'); raise SystemExit(3)")

    with pytest.raises(pytest.fail.Exception, match=r"ended \(exit code 3\)"):
        program.wait_for(lambda screen: "never" in screen)


def test_a_terminal_that_is_killed_leaves_others_alone(script: Start) -> None:
    first = script("print('first', flush=True); input()")
    second = script("print('second', flush=True); input()")
    first.wait_for("first")
    second.wait_for("second")

    first.kill()
    first.kill()

    assert second.alive
    second.keys("Enter")
    assert second.wait_for_end() == 0


# -- the vendor ----------------------------------------------------------------------------------


def test_a_reply_is_seen_while_it_comes(tmux: Start, actor: ActingVendor) -> None:
    hold = threading.Event()
    actor.will_answer("First ", hold, "second.", used=Used(prompt=900, completion=7))
    screen = tmux("-p", "Count.")

    shown = screen.wait_for("First")
    hold.set()

    assert "second" not in shown
    screen.wait_for("First second.")
    assert screen.wait_for_end() == 0
    assert actor.said()[-1] == ("user", "Count.")


def test_the_vendor_refuses_what_was_not_scripted(tmux: Start, actor: ActingVendor) -> None:
    screen = tmux("-p", "Hello.")

    screen.wait_for("the test has scripted no answer")

    assert screen.wait_for_end() == 1
    assert len(actor.requests) == 1


def test_the_vendor_answers_after_it_was_asked_again(tmux: Start, actor: ActingVendor) -> None:
    actor.will_refuse(500, "a moment")
    actor.will_answer(Pause(0.01), "Here.")

    screen = tmux("-p", "Hello.")

    screen.wait_for("Here.")
    assert actor.wait_for_requests(2)["model"] == "one"


def test_the_vendor_notices_who_hangs_up(tmux: Start, actor: ActingVendor) -> None:
    actor.will_answer("Begun", threading.Event())
    screen = tmux("-p", "Hello.")
    screen.wait_for("Begun")

    screen.keys("C-c")

    actor.wait_for_hang_ups(1)
    assert screen.wait_for_end() == 130


def ask(actor: ActingVendor) -> list[dict[str, Any]]:
    """What a client of the vendor hears, each event decoded, without the mark of the end."""
    import json
    from urllib.request import Request, urlopen

    body = json.dumps({"model": "one", "messages": [{"role": "user", "content": "?"}]}).encode()
    with urlopen(Request(f"{actor.base_url}/chat/completions", body)) as reply:
        lines = reply.read().decode().split("\n\n")
    return [json.loads(line[6:]) for line in lines if line and line != "data: [DONE]"]


def test_thinking_calls_and_usage_are_said_in_the_dialect(actor: ActingVendor) -> None:
    actor.will_answer(
        Thinking("hm"), ToolCall("ls", {"a": "bc"}, size=4), used=Used(9, 3, cached=2, reasoning=1)
    )

    events = ask(actor)

    deltas = [choice["delta"] for event in events for choice in event["choices"]]
    assert deltas == [
        {"reasoning_content": "hm"},
        {
            "tool_calls": [
                {
                    "index": 0,
                    "id": "call_1",
                    "type": "function",
                    "function": {"name": "ls", "arguments": ""},
                }
            ]
        },
        {"tool_calls": [{"index": 0, "function": {"arguments": '{"a"'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": ': "b'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": 'c"}'}}]},
        {},
    ]
    assert events[-1]["usage"] == {
        "prompt_tokens": 9,
        "completion_tokens": 3,
        "total_tokens": 12,
        "prompt_tokens_details": {"cached_tokens": 2},
        "completion_tokens_details": {"reasoning_tokens": 1},
    }


def test_a_reply_can_depend_on_the_request_and_break_off(actor: ActingVendor) -> None:
    actor.will_react(
        lambda request: [f"You asked {request['messages'][-1]['content']}", BreakOff()]
    )

    events = ask(actor)

    assert [event["choices"] for event in events] == [
        [{"index": 0, "delta": {"content": "You asked ?"}}]
    ]
