"""As a person would: going on after the program was killed, and in a window that changes."""

from __future__ import annotations

import re
import signal
import threading

from tests.cli.interactive.acting_vendor import ActingVendor, ToolCall
from tests.cli.interactive.person_scene import (
    WAIT_SECONDS,
    Start,
    answered,
    asked_about,
    at_work,
    both_sizes,
    in_order,
    is_gone,
    say,
    wait_until,
    words,
)


@both_sizes
def test_killed_in_the_middle_of_a_command_it_goes_on_and_does_not_run_it_again(
    tmux: Start, actor: ActingVendor, columns: int, rows: int
) -> None:
    command = "echo $$ >> runs; echo begun; until test -e go_on; do sleep 0.02; done"
    actor.will_answer("I run it.", ToolCall("bash", {"command": command}))
    actor.will_answer("It may have run or not.")
    screen = at_work(tmux, "--permission-mode", "yolo", columns=columns, rows=rows)

    say(screen, "Run it.")
    screen.wait_for("  begun\n")
    screen.send_signal(signal.SIGKILL)
    code = screen.wait_for_end()
    later = tmux("-c", "--permission-mode", "yolo", columns=columns, rows=rows)
    told = answered(later, "It may have run or not.")
    (later.folder / "go_on").touch()  # nobody was there to end it
    runs = (later.folder / "runs").read_text().split()
    wait_until(lambda: all(is_gone(int(pid)) for pid in runs), "the command has ended")

    assert code == -signal.SIGKILL
    assert len(runs) == 1
    assert len(actor.requests) == 2
    assert in_order(
        told,
        [
            "› Run it.",
            "I run it.",
            "an earlier process left a run unfinished; taking it up",
            "It may have run or not.",
            "> ask something",
        ],
    )
    results = [text for role, text in actor.said() if role == "tool"]
    assert len(results) == 1
    assert "interrupted" in results[0].lower()


@both_sizes
def test_killed_while_it_asks_it_asks_again_and_does_what_is_answered(
    tmux: Start, actor: ActingVendor, columns: int, rows: int
) -> None:
    actor.will_answer("May I?", ToolCall("bash", {"command": "echo once >> made"}))
    actor.will_answer("It is made.")
    screen = at_work(tmux, columns=columns, rows=rows)

    say(screen, "Make it.")
    question = asked_about("bash", "echo once >> made")
    screen.wait_for(question)
    screen.send_signal(signal.SIGKILL)
    screen.wait_for_end()
    later = tmux("-c", columns=columns, rows=rows)
    later.wait_for(question, WAIT_SECONDS)
    before = (later.folder / "made").exists()
    later.keys("y")
    told = answered(later, "It is made.")

    assert not before
    assert (later.folder / "made").read_text() == "once\n"
    assert len(actor.requests) == 2
    assert in_order(told, ["› Make it.", "May I?", "✓ bash", "It is made.", "> ask something"])


HINTS = {
    200: "Ctrl-T thinking",
    120: "Ctrl-T thinking",
    80: "Ctrl-O tool output",
    44: "says it after",
}
"""The last of the keys that fit."""


@both_sizes
def test_a_window_that_changes_in_mid_stream_loses_nothing_and_doubles_nothing(
    tmux: Start, actor: ActingVendor, columns: int, rows: int
) -> None:
    sizes = [(120, 30), (44, 16), (200, 60), (80, 24)]
    if columns == 200:
        sizes = [(80, 24), (44, 40), (120, 20), (200, 60)]
    holds = [threading.Event() for _ in sizes]
    numbers = iter(range(1, 1000))

    def items(count: int) -> str:
        text = "with words enough behind it to be broken into more lines in a narrow window"
        return "".join(f"item{next(numbers):03} {text}.\n\n" for _ in range(count))

    tail = (
        "of an item so long that it takes two rows where the window is wide, and four where it is "
        "not, so that the way back to its first row is another one"
    )
    pieces: list[str | threading.Event] = []
    for part, hold in enumerate(holds):
        pieces += [items(11), f"- half{part} {tail}", hold, " goes on\n\n"]
    actor.will_answer(*pieces, items(12), "The last words.")
    screen = at_work(tmux, columns=columns, rows=rows)

    say(screen, "Tell me everything.")
    for part, (hold, (wide, high)) in enumerate(zip(holds, sizes, strict=True)):
        screen.wait_for(lambda seen, part=part: f"half{part} {tail}" in words(seen))
        if part == 1:
            screen.type("half a thought")
            screen.wait_for("> half a thought")
        screen.resize(wide, high)
        screen.wait_for(lambda seen, wide=wide: hint_of(seen).endswith(HINTS[wide]))
        hold.set()
    screen.wait_for(lambda seen: "The last words." in seen and "Enter sends" in seen, WAIT_SECONDS)
    told = screen.history()

    last = next(numbers)
    expected = [f"item{number:03}" for number in range(1, last)]
    assert re.findall(r"item\d+", told) == expected
    assert re.findall(r"half\d", told) == [f"half{part}" for part in range(len(sizes))]
    assert words(told).count(f"{tail} goes on") == len(sizes)
    assert told.count("half a thought") == 1
    assert told.count("Tell me everything.") == 1
    assert told.count("toy/one") == 1
    assert "Esc interrupts" not in told
    assert "Enter steers" not in told
    # What was printed in a wider window is broken by the terminal, also within words.
    assert "".join(told.split()).count("inanarrowwindow.") == len(expected)


def hint_of(seen: str) -> str:
    """The line of keys during a run."""
    return next(
        (line for line in seen.splitlines() if line.startswith("Enter steers")), ""
    ).rstrip()
