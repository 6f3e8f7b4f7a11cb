"""As a person would: letting tools do something, or not."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from tests.cli.interactive.acting_vendor import ActingVendor, ToolCall
from tests.cli.interactive.person_scene import (
    WAIT_SECONDS,
    Start,
    answered,
    asked_about,
    at_work,
    both_sizes,
    say,
    words,
    write_settings,
)

if TYPE_CHECKING:
    from tests.cli.conftest import Program


def touch(name: str) -> ToolCall:
    return ToolCall("bash", {"command": f"touch {name}"})


@both_sizes
def test_each_answer_to_a_question_does_what_it_says(
    tmux: Start, actor: ActingVendor, columns: int, rows: int
) -> None:
    actor.will_answer("Four things.", *map(touch, ("once", "never", "reasoned", "always")))
    actor.will_answer("Two of four.")
    actor.will_answer("Again.", touch("always"), touch("once"))
    actor.will_answer("One of two.")

    screen = at_work(tmux, columns=columns, rows=rows)
    say(screen, "Do four things.")
    seen = screen.wait_for(asked_about("bash", "touch once"), WAIT_SECONDS)
    before = sorted(screen.folder.glob("[onra]*"))
    screen.keys("y")
    screen.wait_for(asked_about("bash", "touch never"))
    screen.keys("n")
    screen.wait_for(asked_about("bash", "touch reasoned"))
    screen.keys("e")
    screen.wait_for("why:")
    say(screen, "Use make, not touch.")
    screen.wait_for(asked_about("bash", "touch always"))
    screen.keys("a")
    answered(screen, "Two of four.")
    made = {name for name in ("once", "never", "reasoned", "always") if there(screen.folder, name)}
    results = [text for role, text in actor.said() if role == "tool"]
    screen.keys("C-d")
    screen.wait_for_end()
    (screen.folder / "always").unlink()
    later = at_work(tmux, columns=columns, rows=rows)
    say(later, "Once more.")
    later.wait_for(asked_about("bash", "touch once"), WAIT_SECONDS)
    later.keys("n")
    told = answered(later, "One of two.")

    assert before == []
    for choice in ("y once", "a always bash(touch once)", "n no", "e no, and why", "Esc no"):
        assert choice in words(seen)
    assert made == {"once", "always"}
    assert len(results) == 4
    assert "Use make, not touch." not in "".join(results[:2] + results[3:])
    assert "Use make, not touch." in results[2]
    assert there(later.folder, "always")
    assert "needs your word" not in told


def test_a_rule_that_denies_is_not_asked_about_and_holds_in_every_mode(
    tmux: Start, actor: ActingVendor, program: Program
) -> None:
    actor.will_answer("Away.", ToolCall("bash", {"command": "true && rm kept"}))
    actor.will_answer("It may not be.", touch("made"))
    actor.will_answer("So be it.")
    (program.folder / "kept").touch()
    write_settings(program.folder, '[permissions]\ndeny = ["bash(rm:*)"]\n')

    screen = at_work(tmux, "--permission-mode", "yolo")
    say(screen, "Tidy up.")
    told = answered(screen, "So be it.")

    assert "needs your word" not in told
    assert there(screen.folder, "kept")
    assert there(screen.folder, "made")
    refused = next(text for role, text in actor.said() if role == "tool")
    assert "the rule 'bash(rm:*)'" in refused
    assert "settings.toml" in refused


def there(folder: Path, name: str) -> bool:
    return (folder / name).exists()
