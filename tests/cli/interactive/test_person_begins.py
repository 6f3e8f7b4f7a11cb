"""As a person would: the first seconds in a project, with its settings, extensions and colours."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from tests.cli.interactive.acting_vendor import ActingVendor, Thinking, ToolCall
from tests.cli.interactive.person_scene import (
    WAIT_SECONDS,
    Start,
    answered,
    asked_about,
    at_work,
    in_order,
    is_idle,
    say,
    write_settings,
)

if TYPE_CHECKING:
    from tests.cli.conftest import Program

SHOUT = """\
from loopwright.extensions import Command, Extension


async def shout(context, argument):
    context.note(f"in {context.folder.name}")
    context.set_input("from the extension")
    return argument.upper()


extension = Extension(
    "shout", commands=[Command("shout", "say it louder", shout, lambda typed: ["hurray"])]
)
"""

OWN_AGENT = '''\
from loopwright import Agent
from loopwright.testing import Call, Reply, ScriptedModel


def ring(bell: str) -> str:
    """Ring a bell."""
    return f"{bell} rings"


model = ScriptedModel([Reply("I ring.", calls=[Call("ring", {"bell": "Big Ben"})]), Reply("Rung.")])
agent = Agent(model.model, stream_fn=model.stream_fn, tools=[ring])
'''


@pytest.mark.parametrize("trusted", [True, False], ids=["yes", "no"])
def test_settings_and_extensions_of_a_project_count_once_it_is_trusted(
    tmux: Start, actor: ActingVendor, program: Program, trusted: bool
) -> None:
    program.folder /= "project"  # the home, which is beside it, is not for trusting
    own = program.folder / ".loopwright"
    (own / "extensions").mkdir(parents=True)
    (own / "settings.toml").write_text('model = "toy/two"\n')
    (own / "extensions" / "shout.py").write_text(SHOUT)
    screen = tmux()

    asked = screen.wait_for("Trust this folder? [y/N]", WAIT_SECONDS)
    say(screen, "y" if trusted else "n")
    screen.wait_for(is_idle, WAIT_SECONDS)
    say(screen, "/shout hurray")
    heard = screen.wait_for("HURRAY" if trusted else "there is no command /shout")
    if trusted:
        screen.wait_for("> from the extension")
        screen.keys("C-u")
    actor.will_answer("Here.")
    say(screen, "Hello.")
    answered(screen, "Here.")
    screen.keys("C-d")
    screen.wait_for_end()
    later = tmux()
    again = later.wait_for(is_idle if trusted else "Trust this folder?", WAIT_SECONDS)

    assert "settings.toml" in asked
    assert actor.requests[-1]["model"] == ("two" if trusted else "one")
    assert (f"in {screen.folder.name}" in heard) == trusted
    assert ("Trust this folder?" in again) != trusted


def test_a_command_of_an_extension_is_completed_and_run(
    tmux: Start, actor: ActingVendor, program: Program
) -> None:
    (program.folder / "shout.py").write_text(SHOUT)
    screen = at_work(tmux, "--extension", "shout.py")

    screen.type("/sho")
    screen.wait_for(lambda seen: "> /sho\n" in seen and "say it louder" in seen)
    screen.keys("Tab")
    screen.wait_for("> /shout")
    screen.type(" hurr")
    screen.wait_for(lambda seen: "> /shout hurr\n" in seen and "\n hurray" in seen)
    screen.keys("Tab")
    screen.wait_for("> /shout hurray")
    screen.keys("Enter")
    told = screen.wait_for("HURRAY")

    assert in_order(told, [f"in {screen.folder.name}", "HURRAY"])
    screen.wait_for("> from the extension")
    assert actor.requests == []


def test_tab_completes_also_when_it_comes_right_behind_the_letters(
    tmux: Start, actor: ActingVendor
) -> None:
    screen = at_work(tmux)

    screen.type("/expo\t")  # in one piece, as over a slow line

    screen.wait_for("> /export", WAIT_SECONDS)


def test_an_agent_of_ones_own_asks_works_and_can_be_gone_on_with(
    tmux: Start, program: Program
) -> None:
    (program.folder / "own.py").write_text(OWN_AGENT)
    screen = at_work(tmux, "--agent", "own.py:agent")

    say(screen, "Ring the bell.")
    screen.wait_for(asked_about("ring", "bell: Big Ben"), WAIT_SECONDS)
    screen.keys("y")
    told = answered(screen, "Rung.")

    assert in_order(told, ["› Ring the bell.", "I ring.", "✓ ring", "Big Ben rings", "Rung."])


# -- colours -------------------------------------------------------------------------------------

SGR = re.compile(r"\x1b\[([\d;:]*)m")


def coloured(shown: str) -> set[tuple[str, str]]:
    """The colours of text and of what is behind it that occur in *shown*, by their codes; an empty
    one is the terminal's own."""
    found: set[tuple[str, str]] = set()
    text, behind = "", ""
    for codes, piece in zip(*[iter(SGR.split(shown)[1:])] * 2, strict=True):
        left = re.split("[;:]", codes)
        while left:
            code = left.pop(0)
            if code in ("", "0"):
                text, behind = "", ""
            elif code in ("38", "48"):
                size = 2 if left[0] == "5" else 4
                colour, left = ";".join(left[:size]), left[size:]
                text, behind = (colour, behind) if code == "38" else (text, colour)
            elif code == "39":
                text = ""
            elif code == "49":
                behind = ""
            elif re.fullmatch(r"3[0-7]|9[0-7]", code):
                text = code
            elif re.fullmatch(r"4[0-7]|10[0-7]", code):
                behind = code
        if piece.strip():
            found.add((text, behind))
    return found


def play_colourful_scene(tmux: Start, actor: ActingVendor, program: Program, **more: object) -> str:
    """All there is to see, with its colours, after a bit of everything was shown."""
    (program.folder / "some.txt").write_text("kept\nold\n")
    actor.will_answer(
        Thinking("Hm."),
        "# Heading\n\nSome `code` and [a link](https://example.org).\n\n"
        "```python\nfor each in range(3):  # a comment\n    print('text')\n```\n",
        ToolCall("edit", {"path": "some.txt", "edits": [{"oldText": "old", "newText": "new"}]}),
        ToolCall("bash", {"command": "exit 3"}),
    )
    actor.will_answer("That was all.")
    screen = at_work(tmux, "--permission-mode", "auto-edit", **more)
    say(screen, "Show me.")
    screen.wait_for(asked_about("bash", "exit 3"), WAIT_SECONDS)
    question = screen.screen(colours=True)
    screen.keys("y")
    answered(screen, "That was all.")
    say(screen, "/nonsense")
    screen.wait_for("there is no command /nonsense")
    assert (program.folder / "some.txt").read_text() == "kept\nnew\n"
    return question + screen.history(colours=True)


def test_no_color_is_heeded_everywhere(tmux: Start, actor: ActingVendor, program: Program) -> None:
    shown = play_colourful_scene(tmux, actor, program, env={"NO_COLOR": "1"})

    assert coloured(shown) <= {("", "")}
    assert "some.txt" in shown


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_colour_of_a_theme_is_readable_on_its_background(
    tmux: Start, actor: ActingVendor, program: Program, theme: str
) -> None:
    write_settings(program.folder, f'theme = "{theme}"\n')

    shown = play_colourful_scene(tmux, actor, program)

    found = coloured(shown)
    own = 0.0 if theme == "dark" else 1.0
    pale = {
        (text, behind)
        for text, behind in found
        if contrast(luminance(text, 1.0 - own), luminance(behind, own)) < 4
    }
    assert len(found) >= 8
    assert pale == set()


def luminance(colour: str, default: float) -> float:
    """Of a colour, exact or of the palette of 256, as WCAG 2 has it; *default* for none."""
    if not colour:
        return default
    if colour.startswith("2;"):  # a tmux of today promises all colours
        channels = [int(channel) for channel in colour.split(";")[1:]]
    else:
        channels = channels_of(int(colour.removeprefix("5;")))
    linear = [
        part / 12.92 if (part := one / 255) <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4
        for one in channels
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def channels_of(number: int) -> list[int]:
    """Red, green and blue of a colour of the palette of 256."""
    assert number >= 16, "the first sixteen are the terminal's own"
    if number >= 232:
        return [8 + 10 * (number - 232)] * 3
    steps = [0, 95, 135, 175, 215, 255]
    cube = number - 16
    return [steps[cube // 36], steps[cube // 6 % 6], steps[cube % 6]]


def contrast(one: float, other: float) -> float:
    return (max(one, other) + 0.05) / (min(one, other) + 0.05)
