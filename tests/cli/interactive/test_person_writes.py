"""As a person would: files, many lines, pastes, and what was typed before."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.cli.interactive.acting_vendor import ActingVendor
from tests.cli.interactive.person_scene import (
    Start,
    answered,
    at_work,
    both_sizes,
    in_order,
    is_idle,
    say,
    words,
)

if TYPE_CHECKING:
    from tests.cli.conftest import Program


@both_sizes
def test_files_lines_and_pastes_reach_the_model_as_they_are_and_come_back_after_a_restart(
    tmux: Start, actor: ActingVendor, program: Program, columns: int, rows: int
) -> None:
    (program.folder / "recipe.txt").write_text("The secret is basil.\n")
    (program.folder / "hidden.txt").write_text("not for you\n")
    (program.folder / ".gitignore").write_text("hidden.txt\n")
    pasted = "\n".join(f"\tpasted line {number}" for number in range(1, 31))
    for answer in ("Basil.", "Three lines.", "Thirty lines.", "Again."):
        actor.will_answer(answer)
    screen = at_work(tmux, columns=columns, rows=rows)

    screen.type("What is secret in @rec")
    menu = screen.wait_for(lambda seen: "in @rec\n" in seen and "recipe.txt" in seen)
    screen.keys("Tab")
    screen.wait_for("> What is secret in @recipe.txt")
    screen.type(" please?")
    screen.keys("Enter")
    answered(screen, "Basil.")
    screen.type("one")
    screen.keys("C-j")
    say(screen, "two\\")
    say(screen, "three")
    answered(screen, "Three lines.")
    sent = len(actor.requests)
    screen.paste(pasted)
    shown = screen.wait_for("> [pasted 1: 30 lines]")
    sent_by_paste = len(actor.requests) - sent
    screen.keys("Enter")
    told = answered(screen, "Thirty lines.")
    screen.keys("C-d")
    screen.wait_for_end()
    later = at_work(tmux, columns=columns, rows=rows)
    later.keys("Up")
    later.wait_for("pasted line 30")
    later.keys("C-c")
    later.wait_for(is_idle)
    later.keys("C-r")
    later.wait_for("history:")
    later.type("secret in")
    later.wait_for(lambda seen: "> What is secret in @recipe.txt please?" in words(seen))
    later.keys("Enter")
    later.wait_for(lambda seen: "history:" not in seen)
    later.keys("Enter")
    answered(later, "Again.")

    assert "hidden.txt" not in menu
    first = actor.said(0)[-1][1]
    assert "What is secret in @recipe.txt please?" in first
    assert "The secret is basil." in first
    assert actor.said(1)[-1] == ("user", "one\ntwo\nthree")
    assert sent_by_paste == 0
    assert "> ask something" not in shown
    assert actor.said(2)[-1] == ("user", pasted)
    assert in_order(
        told,
        [
            "Basil.",
            "› one two three",
            "Three lines.",
            "› pasted line 1 pasted line 2 ",
            "pasted line 30",
            "Thirty lines.",
        ],
    )
    assert "The secret is basil." in actor.said(3)[-1][1]
