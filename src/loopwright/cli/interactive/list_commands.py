"""`/help`, `/skills`, `/templates`, `/theme`, `/thinking-display` and `/quit`: the program itself."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from .command import BuiltIn, no_such_choice
from .screen import PickItem, Screen

if TYPE_CHECKING:
    from ..live.session import LiveSession

__all__ = [
    "choose_theme",
    "help_text",
    "quit_program",
    "show_skills",
    "show_templates",
    "theme_words",
    "toggle_thinking",
]

THEMES = {
    "auto": "as the terminal says; dark if it says nothing",
    "dark": "for a dark background",
    "light": "for a light background",
}

KEYS = (
    ("enter", "send; while the model works: steer it"),
    ("alt+enter", "say it when the model is done"),
    (
        "ctrl+j, shift+enter",
        "a new line; a long paste is one piece, and pasted twice it is unfolded",
    ),
    ("alt+up", "take back what waits to be said"),
    ("esc", "interrupt"),
    ("ctrl+c twice", "leave"),
    ("ctrl+r", "search what was typed before"),
    ("ctrl+x ctrl+e, ctrl+g", "write it in an editor, $VISUAL or $EDITOR"),
    ("tab", "complete a command, its argument, or an @path"),
    ("shift+tab", "the next permission mode, also while a question is open"),
    ("ctrl+t", "show the model's thinking, or fold it"),
    ("ctrl+o", "show what the last tool said in full"),
    ("ctrl+l", "clear the screen"),
)


def help_text(built_in: Iterable[BuiltIn], more: Sequence[tuple[str, str]]) -> str:
    """All commands and keys. *more* are those of extensions, with their slash."""
    commands = [(f"/{one.name} {one.argument}".rstrip(), one.meaning) for one in built_in]
    sections = [("commands", commands)]
    if more:
        sections.append(("of extensions", list(more)))
    sections.append(("keys", list(KEYS)))
    sections.append(
        (
            "in a prompt",
            [
                ("@path", "puts a file beside it, or an image, or the names in a folder/"),
                ("/template args", "says the template of that name; /templates lists them"),
                ("!command", "runs it in a shell at once; the model reads it with the next prompt"),
                ("!!command", "runs it, and the model is not told"),
                (" /word, !word", "with a blank in front is no command"),
            ],
        )
    )
    width = max(len(name) for _, rows in sections for name, _ in rows) + 2
    blocks = [
        "\n".join([title, *(f"  {name:<{width}}{meaning}" for name, meaning in rows)])
        for title, rows in sections
    ]
    return "\n\n".join(blocks)


async def show_skills(argument: str, live: LiveSession, screen: Screen) -> None:
    """List the skills."""
    skills = live.bench.resources.skills
    if not skills:
        screen.note("there are no skills; .loopwright/skills/NAME/SKILL.md makes one")
        return
    screen.note(_table([(f"/skill:{skill.name}", skill.description) for skill in skills]))


async def show_templates(argument: str, live: LiveSession, screen: Screen) -> None:
    """List the templates."""
    templates = live.bench.resources.templates
    if not templates:
        screen.note("there are no templates; .loopwright/templates/NAME.md makes one")
        return
    rows = [
        (f"/{template.name} {template.argument_hint or ''}".rstrip(), template.description)
        for template in templates
    ]
    screen.note(_table(rows))


def _table(rows: Sequence[tuple[str, str]]) -> str:
    width = min(max(len(name) for name, _ in rows) + 2, 40)
    return "\n".join(
        [f"{name:<{width}} {' '.join(meaning.split())[:200]}" for name, meaning in rows]
    )


async def choose_theme(argument: str, live: LiveSession, screen: Screen) -> None:
    """Choose the colours."""
    name = argument.lower()
    if not name:
        picked = await screen.pick(
            "theme", [PickItem(theme, meaning, value=theme) for theme, meaning in THEMES.items()]
        )
        if picked is None:
            return
        name = str(picked.value)
    if name not in THEMES:
        raise no_such_choice("theme", argument, list(THEMES))
    screen.set_theme(name)
    screen.note(f"theme {name}; `theme` in the settings keeps it")


def theme_words(live: LiveSession) -> Sequence[tuple[str, str]]:
    """The themes."""
    return list(THEMES.items())


async def toggle_thinking(argument: str, live: LiveSession, screen: Screen) -> None:
    """Show the model's thinking in full, or fold it."""
    screen.toggle_thinking()


async def quit_program(argument: str, live: LiveSession, screen: Screen) -> None:
    """Leave."""
    screen.leave()
