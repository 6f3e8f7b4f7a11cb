"""What a command run by the agent cannot do to the terminal the user types in."""

from __future__ import annotations

from collections.abc import Callable

from tests.cli.interactive.acting_vendor import ActingVendor, ToolCall
from tests.cli.tmux_screen import Tmux

READS_ALL = (
    'echo asking; cat; read -r line; echo "got <$line>"; '
    "(read -r secret < /dev/tty) 2>/dev/null && echo 'read the terminal'; "
    "until test -e go_on; do sleep 0.02; done; echo over"
)


def test_case_039_what_is_typed_while_a_command_runs_does_not_reach_the_command(
    tmux: Callable[..., Tmux], actor: ActingVendor
) -> None:
    actor.will_answer("Let me ask.", ToolCall("bash", {"command": READS_ALL}))
    actor.will_answer("Nobody answered.")
    screen = tmux("--permission-mode", "yolo")
    screen.wait_for("toy/one")
    screen.type("Ask for my password.")
    screen.keys("Enter")
    screen.wait_for("got <>")

    screen.type("hunter2 typed by me")
    seen = screen.wait_for("hunter2 typed by me")
    folder = screen.folder
    (folder / "go_on").touch()
    screen.wait_for("Nobody answered.")

    assert "read the terminal" not in seen
    told = [text for role, text in actor.said() if role == "tool"]
    assert told == ["asking\ngot <>\nover\n"]
    assert "hunter2 typed by me" in screen.screen()
