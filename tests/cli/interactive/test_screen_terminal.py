"""The real program on a real terminal: how it begins, and every way it can end."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import Terminal, Vendor

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals are POSIX")

RESTORED = "\x1b[?2004l"
"""Bracketed paste is switched off again."""


def ready(terminal: Callable[..., Terminal]) -> Terminal:
    shown = terminal()
    shown.read_until("ask something")
    return shown


def test_a_conversation_from_the_first_key_to_the_last(
    terminal: Callable[..., Terminal], vendor: Vendor
) -> None:
    vendor.will_say("Blue", ", of course.")

    shown = ready(terminal)
    shown.type("Which colour?\r")
    shown.read_until("Blue, of course.")
    shown.read_until("1.2k")  # the meter, when the run is over
    shown.type("\x04")

    assert shown.end() == 0
    assert RESTORED in shown.screen
    assert vendor.messages()[-1] == ("user", "Which colour?")
    assert "to go on with this session: loopwright --session" in shown.screen


def test_sigterm_in_the_middle_of_an_answer_ends_it_in_order(
    terminal: Callable[..., Terminal], vendor: Vendor
) -> None:
    import threading

    vendor.will_say("It begins", threading.Event())

    shown = ready(terminal)
    shown.type("Go on\r")
    shown.read_until("It begins")
    shown.process.send_signal(signal.SIGTERM)

    assert shown.end() == 143
    assert RESTORED in shown.screen
    assert "Traceback" not in shown.screen


def test_a_terminal_that_vanishes_ends_the_program(
    terminal: Callable[..., Terminal], vendor: Vendor
) -> None:
    import threading

    vendor.will_say("It begins", threading.Event())

    shown = ready(terminal)
    shown.type("Go on\r")
    shown.read_until("It begins")
    os.close(shown._main)

    assert shown.process.wait(20) in (143, -signal.SIGHUP)


def test_stopped_from_outside_and_continued_it_draws_itself_again(
    terminal: Callable[..., Terminal], vendor: Vendor
) -> None:
    shown = ready(terminal)
    shown.type("half a sentence")
    shown.read_until("half a sentence")

    # Of an orphaned group, such as this one, nobody can be stopped: it goes on at once.
    shown.process.send_signal(signal.SIGTSTP)
    shown.read_until("half a sentence", times=2)
    shown.type("\x15\x04")

    assert shown.end() == 0


def test_the_input_is_there_before_anything_is_set_up(
    terminal: Callable[..., Terminal], vendor: Vendor
) -> None:
    vendor.will_say("Early bird.")

    shown = terminal()
    begun = time.monotonic()
    shown.read_until("starting")
    seconds = time.monotonic() - begun
    shown.type("too early\r")
    shown.read_until("Early bird.")
    shown.type("\x04")

    assert shown.end() == 0
    assert seconds < 20  # benchmarks/ measures it; here only that it comes at all
