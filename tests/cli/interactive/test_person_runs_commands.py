"""As a person would: commands of one's own, and a very long paste."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cli.interactive.acting_vendor import ActingVendor
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


@both_sizes
def test_a_command_runs_at_once_and_the_model_reads_it_with_the_next_prompt(
    tmux: Start, actor: ActingVendor, program: Program, columns: int, rows: int
) -> None:
    (program.folder / "here.txt").write_text("x")
    actor.will_answer("One file.")
    actor.will_answer("Still one.")
    screen = at_work(tmux, columns=columns, rows=rows)

    say(screen, "!ls; echo to-stderr >&2; exit 3")
    screen.wait_for(lambda seen: "exit code 3" in seen and is_idle(seen))
    say(screen, "!!echo $((40 + 2)) secret")
    screen.wait_for(lambda seen: "42 secret" in seen and is_idle(seen))
    asked_before = len(actor.requests)
    say(screen, "What did it print?")
    told = answered(screen, "One file.")
    screen.keys("C-d")
    screen.wait_for_end()
    later = at_work(tmux, "-c", columns=columns, rows=rows)
    again = later.history()
    say(later, "And now?")
    answered(later, "Still one.")

    assert asked_before == 0
    first = actor.said(0)
    assert "The user ran `ls; echo to-stderr >&2; exit 3`" in first[-2][1]
    assert "here.txt" in first[-2][1]
    assert "to-stderr" in first[-2][1]
    assert "exit code 3" in first[-2][1]
    assert first[-1] == ("user", "What did it print?")
    assert "42 secret" not in str(actor.requests)
    parts = ["✗ ! ls; echo", "failed, exit code 3", "here.txt", "✓ !! echo", "42 secret", "› What"]
    assert in_order(told, parts)
    assert in_order(again, parts)


@both_sizes
def test_escape_ends_a_command_with_all_it_started_and_what_was_said_meanwhile_comes_back(
    tmux: Start, actor: ActingVendor, program: Program, columns: int, rows: int
) -> None:
    actor.will_answer("You stopped it.")
    file = program.folder / "child"
    screen = at_work(tmux, columns=columns, rows=rows)

    say(screen, "!echo begun; sleep 600 & echo $! > child; wait")
    screen.wait_for(lambda seen: "begun" in words(seen).partition("wait")[2])
    wait_until(lambda: file.exists() and file.read_text().strip(), "the child's number")
    child = int(file.read_text())
    runs = not is_gone(child)
    say(screen, "and then")
    screen.wait_for("queued: and then")
    screen.keys("Escape")
    screen.wait_for("> and then")
    wait_until(lambda: is_gone(child), "the child's end")
    screen.wait_for(lambda seen: "stopped" in seen and "Esc interrupts" not in seen)
    screen.keys("Enter")
    answered(screen, "You stopped it.")

    assert runs
    assert "The command was cancelled." in actor.said(0)[-2][1]
    assert "begun" in actor.said(0)[-2][1]


def test_five_megabytes_are_pasted_as_one_piece_and_sent_whole(
    tmux: Start, actor: ActingVendor
) -> None:
    pasted = "".join(f"{number:06} {'x' * 92}\n" for number in range(52_429))
    actor.will_answer("That is a lot.")
    screen = at_work(tmux, "--model", "toy/one")

    screen.paste(pasted)
    screen.wait_for("> [pasted 1: 52,429 lines]")
    screen.keys("Enter")
    answered(screen, "That is a lot.")

    assert len(pasted) > 5 << 20 >> 1
    assert actor.said(0)[-1] == ("user", pasted)
