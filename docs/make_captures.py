"""Screen captures of the interactive mode: the real program, in a real terminal, played by hand.

    python docs/make_captures.py                 # all scenes, into docs/captures/
    python docs/make_captures.py approval tree   # some of them

Each scene starts `loopwright` in tmux against a vendor on this machine that says what the scene
wants; the tools, the files and the session are real. What the terminal shows is written as an SVG
with its colours and as plain text. Session ids and times are masked, so that a capture changes
only if the product does. Needs tmux and the packages of the extra `dev`.
"""

from __future__ import annotations

import argparse
import io
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from rich.console import Console  # noqa: E402
from rich.terminal_theme import TerminalTheme  # noqa: E402
from rich.text import Text  # noqa: E402
from tests.cli.interactive.acting_vendor import (  # noqa: E402
    ActingVendor,
    Thinking,
    ToolCall,
    Used,
)
from tests.cli.tmux_screen import Tmux  # noqa: E402

FOLDER = ROOT / "docs" / "captures"

BASKET = '''\
def total(prices: list[float], discount_percent: float = 0) -> float:
    """What is to be paid, rounded to cents."""
    full = sum(prices)
    return round(full - discount_percent, 2)
'''
TEST = """\
from basket import total

for number, (prices, discount, paid) in enumerate(
    [([3.2, 4.5, 7.3], 0, 15.0), ([20.0], 10, 18.0)], start=1
):
    got = total(prices, discount)
    print(f"test {number}: {paid} expected, {got} found", flush=True)
    assert got == paid
"""
CHECK = """\
for page in 1 2 3 4 5 6 7 8 9 10 11 12; do echo "page $page of 40 checked"; done
exec sleep 60
"""
RUN = ToolCall("bash", {"command": "python3 -B test_basket.py"})
REPAIR = ToolCall(
    "edit",
    {
        "path": "basket.py",
        "edits": [
            {
                "oldText": "full - discount_percent",
                "newText": "full * (1 - discount_percent / 100)",
            }
        ],
    },
)


@dataclass
class Stage:
    """A user's home with one small project in it, and the program as that user starts it."""

    home: Path
    vendor: ActingVendor
    env: dict[str, str] = field(default_factory=dict[str, str])
    screens: list[Tmux] = field(default_factory=list[Tmux])

    @property
    def folder(self) -> Path:
        return self.home / "shop"

    def command(self, *arguments: str) -> list[str]:
        return [sys.executable, "-P", "-m", "loopwright", *arguments]

    def open(self, *arguments: str, columns: int = 80, rows: int = 24) -> Tmux:
        """Start the program, and wait until it is ready."""
        screen = Tmux(self, *arguments, columns=columns, rows=rows)
        self.screens.append(screen)
        screen.wait_for("toy/one")
        return screen


@contextmanager
def stage() -> Iterator[Stage]:
    """Everything new, and nothing of this machine's user."""
    with tempfile.TemporaryDirectory() as name, ActingVendor.serving() as vendor:
        home = Path(name).resolve() / "home"
        config = home / ".config" / "loopwright"
        config.mkdir(parents=True)
        (config / "models.toml").write_text(vendor.models_file(context_window=32_000))
        made = Stage(home, vendor)
        made.env = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "LC_ALL": "C.UTF-8",
            "COLORTERM": "truecolor",
        }
        made.folder.mkdir()
        (made.folder / "basket.py").write_text(BASKET)
        (made.folder / "test_basket.py").write_text(TEST)
        try:
            yield made
        finally:
            for screen in made.screens:
                screen.kill()


# -- the scenes ----------------------------------------------------------------------------------
# Each gives the terminal as it is to be captured. A key is pressed only when the screen shows what
# it is pressed for.


def answer(on: Stage) -> Tmux:
    """A first prompt, and its answer in Markdown."""
    on.vendor.will_answer(
        Thinking("The user wants to know what the function does. The discount looks odd."),
        "`total` adds up the prices and takes the discount off. "
        "**One thing is odd:** the discount is a *percentage*, but it is used as an amount.\n\n"
        "```python\nreturn round(full - discount_percent, 2)\n```\n\n"
        "- `total([20.0], 10)` gives 10.0\n- it should give 18.0\n\n"
        "Shall I put it right?",
        used=Used(prompt=2140, completion=112, reasoning=21),
    )
    screen = on.open()
    say(screen, "What does basket.py do?")
    screen.wait_for("Shall I put it right?")
    at_rest(screen)
    return screen


def approval(on: Stage) -> Tmux:
    """A command that no rule allows, and the question for it."""
    on.vendor.will_answer(
        "I run the test first, to see it fail.", RUN, used=Used(prompt=2210, completion=41)
    )
    screen = on.open()
    say(screen, "The test fails. Repair it.")
    screen.wait_for(re.compile(r"once.*always", re.DOTALL))
    return screen


def diff(on: Stage) -> Tmux:
    """A repair: the test fails, an edit, the test passes."""
    on.vendor.will_answer("I run the test first.", RUN, used=Used(prompt=2210, completion=41))
    on.vendor.will_answer(
        "The discount is a percentage, but taken off as an amount.",
        REPAIR,
        used=Used(prompt=2390, completion=87, cached=2200),
    )
    on.vendor.will_answer("Once more.", RUN, used=Used(prompt=2520, completion=30, cached=2380))
    on.vendor.will_answer(
        "The test passes. A discount of 10 is now **10 percent** of the price.",
        used=Used(prompt=2600, completion=33, cached=2510),
    )
    screen = on.open("--permission-mode", "yolo", rows=40)  # all of it, without scrolling
    say(screen, "The test fails. Repair it.")
    screen.wait_for("The test passes.")
    at_rest(screen)
    return screen


def steering(on: Stage) -> Tmux:
    """A message said while a command runs, and one for afterwards."""
    (on.folder / "check_pages.sh").write_text(CHECK)
    on.vendor.will_answer(
        "I check all pages; that takes a while.",
        ToolCall("bash", {"command": "sh check_pages.sh"}),
        used=Used(prompt=2210, completion=41),
    )
    screen = on.open("--permission-mode", "yolo")
    say(screen, "Check all pages of the manual.")
    screen.wait_for("page 12 of 40")
    say(screen, "Leave out the appendix.")
    screen.wait_for(lambda seen: "Leave out the appendix." in seen)
    screen.type("Then write down what you found.")
    screen.keys("M-Enter")
    screen.wait_for(lambda seen: seen.count("Then write down what you found.") == 1)
    return screen


def tree(on: Stage) -> Tmux:
    """The tree of a session with two branches."""
    screen = on.open(rows=40)
    for said, told in (
        ("What is a good name for it?", "`amount_due` says it best."),
        ("And in German?", "`zu_zahlen`, perhaps."),
        ("Which one would you take?", "The English one: so is the rest of the code."),
    ):
        on.vendor.will_answer(told, used=Used(prompt=900, completion=20))
        say(screen, said)
        screen.wait_for(told.replace("`", ""))
        at_rest(screen)
    say(screen, "/tree")
    screen.wait_for("you: And in German?")
    screen.keys("Up", "Up", "Up")
    screen.wait_for("> ● you: And in German?")
    screen.keys("Enter")
    screen.wait_for("is left as it is")
    screen.keys("Enter")
    screen.wait_for("> And in German?")
    screen.keys("C-a", "C-k")
    at_rest(screen)
    on.vendor.will_answer("`montant_dû`.", used=Used(prompt=900, completion=20))
    say(screen, "And in French?")
    screen.wait_for("montant_dû")
    at_rest(screen)
    say(screen, "/tree")
    screen.wait_for("you: And in French?")
    return screen


def model(on: Stage) -> Tmux:
    """The choice of a model, filtered by what is typed."""
    screen = on.open()
    say(screen, "/model")
    screen.wait_for("toy/two")
    return screen


def commands(on: Stage) -> Tmux:
    """What can be typed behind a slash."""
    screen = on.open()
    screen.type("/")
    screen.wait_for("choose the model")
    return screen


def in_light(scene: Callable[[Stage], Tmux], on: Stage) -> Tmux:
    """*scene* for somebody whose terminal is light."""
    settings = on.home / ".config" / "loopwright" / "settings.toml"
    settings.write_text('theme = "light"\n')
    return scene(on)


SCENES: dict[str, Callable[[Stage], Tmux]] = {
    "answer": answer,
    "answer-light": lambda on: in_light(answer, on),
    "approval": approval,
    "diff": diff,
    "diff-light": lambda on: in_light(diff, on),
    "steering": steering,
    "tree": tree,
    "model": model,
    "commands": commands,
}


def say(screen: Tmux, text: str) -> None:
    """Type *text* and send it, once it stands there."""
    screen.type(text)
    screen.wait_for(text)
    screen.keys("Enter")


def at_rest(screen: Tmux) -> None:
    """Wait until the program waits for the user."""
    screen.wait_for("ask something")


# -- the pictures --------------------------------------------------------------------------------

MASKS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"\b[0-9a-f]{24,32}\b"), lambda found: ("0123456789abcdef" * 2)[: len(found[0])]),
    (re.compile(r"\b\d+\.\d s\b"), lambda found: "0.1 s".rjust(len(found[0]), "0")),
    (re.compile(r"\b\d+ s\b"), lambda found: "2 s".rjust(len(found[0]), "1")),
    (re.compile("[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]"), lambda _: "⠹"),
    (re.compile(r"\b\d\d:\d\d(:\d\d)?\b"), lambda found: "12:34:56"[: len(found[0])]),
    (re.compile(r"\b20\d\d-\d\d-\d\d\b"), lambda _: "2025-01-31"),
)
"""What differs from run to run, and what stands for it, as wide as that."""

FONT_FACE = re.compile(r"@font-face \{.*?\}\s*", re.DOTALL)
"""Fonts that would be fetched from somewhere. A reader's own monospace one does as well."""

DARK = TerminalTheme(
    (24, 26, 31),
    (214, 217, 224),
    [
        (40, 44, 52), (224, 108, 117), (152, 195, 121), (229, 192, 123),
        (97, 175, 239), (198, 120, 221), (86, 182, 194), (190, 195, 205),
    ],
    [
        (110, 117, 130), (240, 135, 143), (175, 215, 145), (245, 212, 150),
        (130, 195, 255), (218, 150, 238), (115, 205, 215), (245, 247, 250),
    ],
)  # fmt: skip
LIGHT = TerminalTheme(
    (252, 252, 250),
    (45, 48, 56),
    [
        (45, 48, 56), (190, 40, 50), (30, 125, 50), (150, 105, 0),
        (25, 95, 190), (150, 50, 160), (0, 120, 135), (120, 125, 135),
    ],
    [
        (95, 100, 110), (215, 60, 70), (45, 150, 65), (175, 125, 10),
        (45, 120, 220), (175, 75, 185), (20, 145, 160), (160, 165, 172),
    ],
)  # fmt: skip


def masked(text: str, home: Path) -> str:
    """*text* without what only this run has."""
    text = text.replace(str(home), "~")
    for pattern, stand_in in MASKS:
        text = pattern.sub(stand_in, text)
    return text


def picture(ansi: str, *, name: str, columns: int, theme: TerminalTheme) -> str:
    """The screen as an SVG that needs nothing from elsewhere."""
    console = Console(
        width=columns,
        file=io.StringIO(),
        record=True,
        force_terminal=True,
        color_system="truecolor",
    )
    for line in ansi.splitlines():
        console.print(Text.from_ansi(line), no_wrap=True, crop=True)
    svg = console.export_svg(title="loopwright", theme=theme, unique_id=f"capture-{name}")
    svg = FONT_FACE.sub("", svg).replace("font-family: Fira Code, ", "font-family: ")
    # Some viewers drop blanks at the ends of a text otherwise, hard ones too.
    return svg.replace("<svg ", '<svg xml:space="preserve" ', 1)


def capture(name: str, scene: Callable[[Stage], Tmux], folder: Path) -> None:
    """Play *scene* and write what it leaves on the screen."""
    with stage() as on:
        screen = scene(on)
        plain = masked(screen.screen(), on.home)
        coloured = masked(screen.screen(colours=True), on.home)
    lines = coloured.rstrip("\n").split("\n")
    theme = LIGHT if name.endswith("-light") else DARK
    svg = picture("\n".join(lines), name=name, columns=80, theme=theme)
    folder.mkdir(exist_ok=True)
    (folder / f"{name}.svg").write_text(svg, "utf-8")
    (folder / f"{name}.txt").write_text(plain.rstrip("\n") + "\n", "utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Make the captures that were asked for. 1 if tmux is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n\n")[0])
    parser.add_argument("scene", nargs="*", help=f"one of {', '.join(SCENES)}; default all")
    parser.add_argument("--into", type=Path, default=FOLDER, help="where to write")
    asked = parser.parse_args(arguments)
    unknown = [name for name in asked.scene if name not in SCENES]
    if unknown:
        parser.error(f"there is no scene {unknown[0]!r}; there are {', '.join(SCENES)}")
    if shutil.which("tmux") is None:
        print("tmux is missing: install it with the system's packages", file=sys.stderr)
        return 1
    for name in asked.scene or SCENES:
        capture(name, SCENES[name], asked.into)
        print(asked.into / f"{name}.svg")
    return 0


if __name__ == "__main__":
    sys.exit(main())
