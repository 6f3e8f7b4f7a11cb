"""As a person would: reading while it is written, saying something meanwhile, stopping it."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tests.cli.interactive.acting_vendor import ActingVendor, Thinking, ToolCall, Used
from tests.cli.interactive.person_scene import (
    Start,
    answered,
    at_work,
    both_sizes,
    in_order,
    is_gone,
    is_idle,
    say,
    wait_until,
    words,
)

if TYPE_CHECKING:
    from tests.cli.conftest import Program

SENTENCE = (
    "The discount is a percentage, but it is taken off as if it were an amount of money, which is "
    "why the price of a cheap basket with a large discount comes out too low"
)


@both_sizes
def test_an_answer_is_read_while_it_is_still_written(
    tmux: Start, actor: ActingVendor, columns: int, rows: int
) -> None:
    code, rest = threading.Event(), threading.Event()
    actor.will_answer(
        Thinking("Hidden thoughts of the model."),
        "## Findings\n\nThe **first** things:\n\n- apples\n- pears\n\nThen this",
        code,
        ":\n\n```python\nprint('basket')\n```\n\n",
        rest,
        f"{SENTENCE}. That is all.",
        used=Used(prompt=2000, completion=50),
    )
    actor.will_answer(Thinking("Open thoughts of the model."), "Nothing more.")
    screen = at_work(tmux, columns=columns, rows=rows)

    say(screen, "What did you find?")
    early = screen.wait_for("Then this")
    code.set()
    later = screen.wait_for("print('basket')")
    rest.set()
    told = answered(screen, "That is all.")
    footer = screen.wait_for("$0.0045")
    screen.keys("C-t")
    screen.wait_for("thinking is shown")
    say(screen, "Anything else?")
    more = answered(screen, "Nothing more.")

    assert "Esc interrupts" in early
    assert "pears" in early
    assert "print" not in early
    assert "That is all" not in later
    assert in_order(
        told,
        [
            "› What did you find?",
            "Findings",
            "The first things",
            "• apples",
            "• pears",
            "Then this:",
            "print('basket')",
            "That is all.",
            "> ask something",
        ],
    )
    assert (SENTENCE in told) == (columns == 200)
    assert all(len(line) <= columns for line in told.splitlines())
    assert "2.05k/8k" in footer
    assert "Hidden thoughts" not in more
    assert more.count("Open thoughts of the model.") == 1


@both_sizes
def test_what_is_said_during_a_command_waits_is_taken_back_or_heard_in_its_order(
    tmux: Start, actor: ActingVendor, program: Program, columns: int, rows: int
) -> None:
    (program.folder / "pages.sh").write_text(
        "echo page 1; until test -e more; do sleep 0.02; done; "
        "echo page 2; until test -e go_on; do sleep 0.02; done; echo page 3"
    )
    actor.will_answer("I look.", ToolCall("bash", {"command": "sh pages.sh"}))
    actor.will_answer("The red ones, then.")
    actor.will_answer("All summed up.")
    screen = at_work(tmux, "--permission-mode", "yolo", columns=columns, rows=rows)

    say(screen, "Check the pages.")
    first = screen.wait_for("  page 1\n")
    (screen.folder / "more").touch()
    screen.wait_for("  page 2\n")
    say(screen, "Never mind the cover.")
    screen.wait_for("queued: Never mind the cover.")
    screen.keys("M-Up")
    taken = screen.wait_for(
        lambda seen: "> Never mind the cover." in seen and "queued:" not in seen
    )
    screen.keys("C-c")
    screen.wait_for("> steer it, or Esc to stop")
    say(screen, "Only the red ones.")
    screen.wait_for("queued: Only the red ones.")
    screen.type("Then sum it up.")
    screen.keys("M-Enter")
    waiting = screen.wait_for("after: Then sum it up.")
    (screen.folder / "go_on").touch()
    told = answered(screen, "All summed up.")

    assert "page 2" not in first
    assert "running bash" in taken
    assert in_order(waiting, ["page 2", "queued: Only the red ones.", "after: Then sum it up."])
    assert in_order(
        told,
        [
            "› Check the pages.",
            "I look.",
            "page 3",
            "› Only the red ones.",
            "The red ones, then.",
            "› Then sum it up.",
            "All summed up.",
            "> ask something",
        ],
    )
    assert "queued:" not in told
    assert [part for part in actor.said(1) if part[0] != "system"][-2:] == [
        ("tool", "page 1\npage 2\npage 3\n"),
        ("user", "Only the red ones."),
    ]
    assert actor.said(2)[-1] == ("user", "Then sum it up.")
    assert not any("cover" in text for one in range(3) for _, text in actor.said(one))


def test_escape_stops_a_reply_and_a_command_with_all_of_its_processes(
    tmux: Start, actor: ActingVendor
) -> None:
    command = (
        "trap '' TERM INT HUP; echo $$ > pids; (trap '' TERM INT HUP; sleep 999) & "
        "echo $! >> pids; echo it runs; wait"
    )
    actor.will_answer("Once upon a", threading.Event(), " time.")
    actor.will_answer("I begin.", ToolCall("bash", {"command": command}))
    actor.will_answer("Here I am.")
    screen = at_work(tmux, "--permission-mode", "yolo")

    say(screen, "Tell me a story.")
    screen.wait_for("Once upon a")
    screen.keys("Escape")
    actor.wait_for_hang_ups(1)
    screen.wait_for(is_idle)
    say(screen, "Then run it.")
    screen.wait_for("  it runs\n")
    pids = [int(line) for line in (screen.folder / "pids").read_text().split()]
    running = [pid for pid in pids if not is_gone(pid)]
    screen.keys("Escape")
    screen.wait_for(is_idle)
    wait_until(lambda: all(map(is_gone, pids)), "the processes of the command are gone")
    say(screen, "Are you there?")
    told = answered(screen, "Here I am.")

    assert running == pids
    assert len(pids) == 2
    assert in_order(
        told,
        ["Once upon a", "› Then run it.", "I begin.", "✗ bash", "› Are you there?", "Here I am."],
    )
    assert "time." not in words(told)
    heard = actor.said()
    assert heard[-1] == ("user", "Are you there?")
    assert [role for role, _ in heard].count("tool") == 1


def test_what_a_stopped_command_had_said_stays_and_the_model_hears_it(
    tmux: Start, actor: ActingVendor
) -> None:
    actor.will_answer("I begin.", ToolCall("bash", {"command": "echo half; sleep 999"}))
    actor.will_answer("Here I am.")
    screen = at_work(tmux, "--permission-mode", "yolo")

    say(screen, "Run it.")
    screen.wait_for("  half\n")
    screen.keys("Escape")
    screen.wait_for(is_idle)
    say(screen, "What did it say?")
    told = answered(screen, "Here I am.")

    assert told.count("  half\n") == 1
    assert "half" in next(text for role, text in actor.said() if role == "tool")
