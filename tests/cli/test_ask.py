"""`loopwright "prompt"` against a vendor on this machine: what it asks, what it prints, how it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable

import pytest

from loopwright.events import AgentEnd, event_from_dict

from .conftest import Program, Terminal, Vendor


def test_the_answer_and_nothing_else_goes_to_standard_output(
    program: Program, vendor: Vendor
) -> None:
    vendor.will_say("Hello ", "there.")

    finished = program.run("-p", "Say hello.")

    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "Hello there.\n", "")
    assert vendor.messages() == [("user", "Say hello.")]


def test_a_prompt_of_several_words_needs_no_quotes(program: Program, vendor: Vendor) -> None:
    vendor.will_say("Hello.")

    program.run("say", "-p", "hello", "twice")

    assert vendor.messages() == [("user", "say hello twice")]


def test_a_prompt_that_looks_like_an_option_goes_behind_dashes(
    program: Program, vendor: Vendor
) -> None:
    vendor.will_say("-4")

    program.run("-p", "--", "-5 + 1")

    assert vendor.messages() == [("user", "-5 + 1")]


def test_options_reach_the_vendor(program: Program, vendor: Vendor) -> None:
    vendor.will_say("Oui.")

    program.run("-p", "Ça va?", "--model", "toy/two:low", "--system-prompt", "Speak French.")

    assert vendor.system_prompt().startswith("Speak French.")
    assert vendor.requests[0]["model"] == "two"
    assert vendor.requests[0]["reasoning_effort"] == "low"


def test_thinking_given_as_an_option_wins_over_the_models_name(
    program: Program, vendor: Vendor
) -> None:
    vendor.will_say("Yes.")

    program.run("-p", "Well?", "--model", "toy/two:low", "--thinking", "high")

    assert vendor.requests[0]["reasoning_effort"] == "high"


def test_what_is_piped_in_comes_before_the_prompt(program: Program, vendor: Vendor) -> None:
    vendor.will_say("Sound.")

    program.run("Is this sound?", stdin="a = 1 # é\n".encode())

    assert vendor.messages() == [("user", "a = 1 # é\n\nIs this sound?")]


def test_what_is_piped_in_may_be_the_whole_prompt(program: Program, vendor: Vendor) -> None:
    vendor.will_say("Hello.")

    program.run(stdin=b"Say hello.\n")

    assert vendor.messages() == [("user", "Say hello.")]


def test_bytes_that_are_no_text_are_replaced_and_that_is_told(
    program: Program, vendor: Vendor
) -> None:
    vendor.will_say("Odd.")

    finished = program.run("What is this?", stdin=b"ab\xff")

    assert vendor.messages() == [("user", "ab\ufffd\n\nWhat is this?")]
    assert "not UTF-8 (first at byte 2)" in finished.stderr


def test_a_closed_standard_input_is_none(program: Program, vendor: Vendor) -> None:
    vendor.will_say("Hello.")
    command = " ".join(program.command("-p", "hi"))

    finished = subprocess.run(
        ["sh", "-c", f"exec {command} <&-"],
        cwd=program.folder,
        env=program.env,
        capture_output=True,
        timeout=60,
    )

    assert (finished.returncode, finished.stdout) == (0, b"Hello.\n"), finished.stderr


def test_an_open_pipe_is_waited_for_and_after_a_while_that_is_told(
    program: Program, vendor: Vendor
) -> None:
    """A slow command may stand before it; answering without its output would be wrong."""
    vendor.will_say("Two lines.")
    process = program.start("Count.", stdin=subprocess.PIPE)
    assert process.stdin
    assert process.stderr

    told = process.stderr.readline().decode()
    process.stdin.write(b"one\ntwo\n")
    output, errors = process.communicate(timeout=60)

    assert "waiting for standard input" in told
    assert "/dev/null" in told
    assert (process.returncode, output, errors) == (0, b"Two lines.\n", b"")
    assert vendor.messages() == [("user", "one\ntwo\n\nCount.")]


def test_json_mode_prints_events_that_can_be_read_back(program: Program, vendor: Vendor) -> None:
    vendor.will_say("é", "\u2028", "\x1b[31m")

    finished = program.run("-p", "hi", "--mode", "json", env={"PYTHONIOENCODING": "ascii"})

    assert (finished.returncode, finished.stderr) == (0, "")
    session, *lines = finished.stdout.split("\n")[:-1]
    events = [event_from_dict(json.loads(line)) for line in lines]
    end = events[-1]
    assert isinstance(end, AgentEnd)
    assert end.messages[-1].text == "é\u2028\x1b[31m"  # pyright: ignore[reportAttributeAccessIssue]
    assert json.loads(lines[0])["version"] == 1
    assert json.loads(session)["type"] == "session"
    assert all(json.loads(line).get("message") is None for line in lines if "_update" in line)


def test_a_failed_run_ends_with_1_and_does_not_show_the_key(
    program: Program, vendor: Vendor
) -> None:
    program.write_models_file(
        f'[providers.toy]\nbase_url = "{vendor.base_url}"\nenv = "TOY_KEY"\nmodels = ["one"]\n'
    )
    vendor.will_refuse(401, "the key abc-secret-123 is not valid")

    finished = program.run("-p", "hi", "--model", "toy", env={"TOY_KEY": "abc-secret-123"})

    assert vendor.headers[0]["authorization"] == "Bearer abc-secret-123"
    assert (finished.returncode, finished.stdout) == (1, "")
    assert finished.stderr.startswith("error: toy/one: HTTP 401: the key [key] is not valid\nhint:")


def test_a_failed_run_in_json_mode_ends_with_1_and_all_its_events(
    program: Program, vendor: Vendor
) -> None:
    vendor.will_refuse(401, "no")

    finished = program.run("-p", "hi", "--mode", "json")

    assert finished.returncode == 1
    assert json.loads(finished.stdout.splitlines()[-1])["type"] == "agent_end"
    assert finished.stderr.startswith("error: ")


def test_a_request_that_is_sent_again_is_told(program: Program, vendor: Vendor) -> None:
    vendor.will_refuse(503, "overloaded")
    vendor.will_say("Now.")

    finished = program.run("-p", "hi")

    assert (finished.returncode, finished.stdout) == (0, "Now.\n")
    assert "attempt 2 of" in finished.stderr
    assert "overloaded" in finished.stderr


def test_a_reply_that_was_cut_is_told(program: Program, vendor: Vendor) -> None:
    vendor.will_say("Once upon a", finish="length")

    finished = program.run("-p", "Tell me a tale.")

    assert (finished.returncode, finished.stdout) == (0, "Once upon a\n")
    assert "the reply was cut" in finished.stderr


def test_ctrl_c_aborts_the_run_and_what_there_is_stays_printed(
    program: Program, vendor: Vendor
) -> None:
    vendor.will_say("Once upon a", threading.Event(), " time")
    process = program.start("-p", "Tell me a tale.")
    assert process.stdout
    seen = os.read(process.stdout.fileno(), 100)

    process.send_signal(signal.SIGINT)
    rest, errors = process.communicate(timeout=60)

    assert seen + rest == b"Once upon a\n"
    assert process.returncode == 130
    assert errors == b"aborted\n"


def test_ctrl_c_in_json_mode_still_prints_the_closing_events(
    program: Program, vendor: Vendor
) -> None:
    vendor.will_say("Once upon a", threading.Event(), " time")
    process = program.start("-p", "Tell me a tale.", "--mode", "json")
    assert process.stdout
    lines = [process.stdout.readline()]
    while b"text_delta" not in lines[-1]:
        lines.append(process.stdout.readline())

    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate(timeout=60)

    events = [event_from_dict(json.loads(line)) for line in [*lines[1:], *rest.splitlines()]]
    assert process.returncode == 130
    assert [event.type for event in events[-3:]] == ["message_end", "turn_end", "agent_end"]


def test_sigterm_aborts_the_run_as_well(program: Program, vendor: Vendor) -> None:
    vendor.will_say("Once upon a", threading.Event(), " time")
    process = program.start("-p", "Tell me a tale.")
    assert process.stdout
    seen = os.read(process.stdout.fileno(), 100)

    process.terminate()
    rest, _ = process.communicate(timeout=60)

    assert (seen + rest, process.returncode) == (b"Once upon a\n", 143)


def test_a_second_ctrl_c_ends_the_program_at_once() -> None:
    """Even if whatever was aborted does not end."""
    script = """
import asyncio
from loopwright.cli.interrupts import Interrupts

async def main():
    with Interrupts(lambda: print("aborting", flush=True)):
        print("ready", flush=True)
        await asyncio.Event().wait()

asyncio.run(main())
"""
    process = subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    assert process.stdout
    for word in (b"ready\n", b"aborting\n"):
        assert process.stdout.readline() == word
        process.send_signal(signal.SIGINT)

    assert process.wait(60) == -signal.SIGINT
    process.stdout.close()


def test_a_reader_that_goes_away_ends_the_run_quietly(program: Program, vendor: Vendor) -> None:
    more = threading.Event()
    vendor.will_say("Once upon a", more, " time", *["."] * 100)
    process = program.start("-p", "Tell me a tale.")
    assert process.stdout
    assert process.stderr
    os.read(process.stdout.fileno(), 100)
    process.stdout.close()

    more.set()
    told = process.stderr.read()

    assert process.wait(60) == 141
    assert told == b""
    process.stderr.close()


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="a device that Linux has")
def test_a_full_disk_is_told(program: Program, vendor: Vendor) -> None:
    vendor.will_say("Hello.")

    with open("/dev/full", "wb") as full:
        finished = subprocess.run(
            program.command("-p", "hi"),
            cwd=program.folder,
            env=program.env,
            stdin=subprocess.DEVNULL,
            stdout=full,
            stderr=subprocess.PIPE,
            timeout=60,
        )

    assert finished.returncode == 1
    assert finished.stderr.startswith(b"error: the output cannot be written: No space left")


EVIL = "a\x1b]0;title\x07b\x1b[2Jc\x9b31md\re\u202ef"


def test_escape_sequences_of_a_model_are_shown_on_a_terminal_and_not_obeyed(
    terminal: Callable[..., Terminal], vendor: Vendor
) -> None:
    vendor.will_say(EVIL)
    screen = terminal("-p", "hi", NO_COLOR="1")

    assert screen.end() == 0
    assert "a␛]0;title␇b␛[2Jc\\x9b31md␍e" in screen.screen
    assert "\x1b" not in screen.screen


def test_a_pipe_gets_what_the_model_said_unchanged(program: Program, vendor: Vendor) -> None:
    vendor.will_say(EVIL)

    finished = program.run("-p", "hi")

    assert finished.stdout == EVIL + "\n"


def test_a_terminal_is_told_what_was_used(
    terminal: Callable[..., Terminal], vendor: Vendor
) -> None:
    vendor.will_say("Hello.")
    screen = terminal("-p", "hi", NO_COLOR="1")

    assert screen.end() == 0
    assert screen.screen.splitlines() == ["Hello.", "1,200 tokens in, 5 out"]


def test_a_terminal_without_a_prompt_is_a_conversation(
    terminal: Callable[..., Terminal], vendor: Vendor
) -> None:
    vendor.will_say("Hello.")
    vendor.will_say("As I said: hello.")
    screen = terminal(NO_COLOR="1", TERM="dumb")
    screen.read_until("> ")

    screen.type("hi\r")
    screen.read_until("Hello.\r\n1,200 tokens in, 5 out\r\n> ")
    screen.type("\rwhat?\r")  # an empty line is none
    screen.read_until("As I said: hello.\r\n1,200 tokens in, 5 out\r\n> ")
    screen.type("\x04")

    assert screen.end() == 0
    assert vendor.messages() == [("user", "hi"), ("assistant", "Hello."), ("user", "what?")]


def test_ctrl_c_stops_an_answer_and_the_conversation_goes_on(
    terminal: Callable[..., Terminal], vendor: Vendor
) -> None:
    vendor.will_say("Once upon a", threading.Event(), " time")
    vendor.will_say("Hello.")
    screen = terminal(NO_COLOR="1", TERM="dumb")
    screen.read_until("> ")

    screen.type("A tale.\r")
    screen.read_until("Once upon a")
    screen.type("\x03")
    screen.read_until("aborted\r\n")
    screen.read_until("> ", times=2)
    screen.type("Just say hello.\r")
    screen.read_until("Hello.\r\n")
    screen.read_until("> ", times=3)
    screen.type("\x04")

    assert screen.end() == 0
