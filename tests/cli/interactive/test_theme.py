"""The themes: which one, in how many colours, and whether it can be read."""

from __future__ import annotations

import pytest

from loopwright.cli.interactive.paint import Painter, Run
from loopwright.cli.interactive.theme import theme_named
from loopwright.errors import ConfigurationError

NAMES = [
    "user",
    "assistant",
    "thinking",
    "tool",
    "tool.ok",
    "tool.failed",
    "note",
    "error",
    "diff.add",
    "diff.remove",
    "diff.context",
    "meter",
    "meter.high",
    "prompt",
    "border",
    "selected",
    "badge",
]


def test_every_theme_has_a_style_for_all_that_is_drawn() -> None:
    dark, light = theme_named("dark", {}), theme_named("light", {})

    assert dark.styles.keys() == light.styles.keys()
    assert set(NAMES) <= dark.styles.keys()


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({}, "dark"),
        ({"COLORFGBG": "0;15"}, "light"),
        ({"COLORFGBG": "0;default;15"}, "light"),
        ({"COLORFGBG": "15;0"}, "dark"),
        ({"COLORFGBG": "7;8"}, "dark"),
        ({"COLORFGBG": "15;default"}, "dark"),
        ({"COLORFGBG": "²"}, "dark"),
    ],
)
def test_auto_believes_what_the_terminal_says_of_its_background(
    environment: dict[str, str], name: str
) -> None:
    assert theme_named("auto", environment).name == name


@pytest.mark.parametrize(
    ("environment", "depth"),
    [
        ({"TERM": "linux"}, "standard"),
        ({"TERM": "xterm-256color"}, "256"),
        ({"TERM": "xterm-256color", "COLORTERM": "truecolor"}, "truecolor"),
        ({"TERM": "xterm-256color", "NO_COLOR": "1"}, "none"),
        ({"TERM": "xterm", "NO_COLOR": ""}, "standard"),
        ({"TERM": "dumb"}, "none"),
    ],
)
def test_as_many_colours_are_used_as_the_terminal_has(
    environment: dict[str, str], depth: str
) -> None:
    assert theme_named("dark", environment).depth == depth


@pytest.mark.parametrize(("name", "background"), [("dark", "#1e1e1e"), ("light", "#ffffff")])
def test_every_colour_can_be_read_on_its_background(name: str, background: str) -> None:
    """By the contrast that WCAG 2.2 asks of text, 4.5 to 1."""
    theme = theme_named(name, {"COLORTERM": "truecolor"})

    for style, words in theme.styles.items():
        front, _, behind = words.partition(" on ")
        color = next((word for word in front.split() if word.startswith("#")), None)
        if color is not None:
            assert _contrast(color, behind or background) >= 4.5, style


def _contrast(one: str, other: str) -> float:
    light, dark = sorted([_luminance(one), _luminance(other)], reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = [
        part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts
    ]
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


@pytest.mark.parametrize("name", ["dark", "light"])
def test_with_eight_colours_none_is_used_that_cannot_be_read(name: str) -> None:
    theme = theme_named(name, {"TERM": "linux"})
    painter = Painter(theme)
    unreadable = "34" if name == "dark" else "33"

    for style in theme.styles:
        written = painter.line([Run("x", (style,))])
        codes = (
            written.removeprefix("\x1b[").partition("m")[0].split(";") if "\x1b" in written else []
        )
        assert unreadable not in codes, style
        assert all(len(code) == 1 or code.startswith("3") for code in codes), style


def test_without_colours_text_is_neither_bold_nor_underlined() -> None:
    painter = Painter(theme_named("dark", {"NO_COLOR": "1"}))

    assert painter.line([Run("a", ("strong",)), Run("b", ("link", "error"))]) == "ab"


def test_both_libraries_take_every_style() -> None:
    from rich.console import Console

    for environment in ({"COLORTERM": "truecolor"}, {"TERM": "linux"}, {"NO_COLOR": "1"}):
        for name in ("dark", "light"):
            theme = theme_named(name, environment)

            console = Console(theme=theme.rich())
            made = theme.prompt_toolkit()

            for style in theme.styles:
                console.get_style(style)
                made.get_attrs_for_style_str(f"class:{style}")
    bold = theme_named("dark", {"COLORTERM": "truecolor"}).prompt_toolkit()
    assert bold.get_attrs_for_style_str("class:error").color == "ff8f8f"


def test_an_unknown_theme_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ConfigurationError, match="no theme is named 'drak'") as refused:
        theme_named("drak", {})

    assert refused.value.hint == "did you mean 'dark'?"
