"""Colours of the interactive mode: which style stands for what, on dark and on light terminals.

Every style is written twice: with 24-bit colours, chosen to be readable on the background of their
theme, and with the eight colours every terminal has, of which only those are used that are readable
there, too (blue on black and yellow on white are not). Where NO_COLOR asks for it there are none.

Not here: what is drawn with them (transcript.py and the modules beside it).
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cached_property
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal, cast, get_args

from ...errors import ConfigurationError

if TYPE_CHECKING:
    import rich.theme
    from prompt_toolkit.styles import BaseStyle

__all__ = ["ColorDepth", "Theme", "ThemeName", "theme_named"]

ThemeName = Literal["auto", "dark", "light"]

ColorDepth = Literal["none", "standard", "256", "truecolor"]
"""How many colours are written: none, the first eight, or more."""

# name: (dark, dark with eight colours, light, light with eight colours)
_TABLE: dict[str, tuple[str, str, str, str]] = {
    "user": ("bold #8ab4f8", "bold cyan", "bold #0b57d0", "bold blue"),
    "assistant": ("", "", "", ""),
    "thinking": ("italic #9e9e9e", "dim", "italic #5f6368", "dim"),
    "tool": ("#e3b566", "yellow", "#7a4b00", "magenta"),
    "tool.ok": ("#87d787", "green", "#146c2e", "blue"),
    "tool.failed": ("#ff8f8f", "red", "#b3261e", "red"),
    "note": ("#9e9e9e", "dim", "#5f6368", "dim"),
    "error": ("bold #ff8f8f", "bold red", "bold #b3261e", "bold red"),
    "diff.add": ("#87d787", "green", "#146c2e", "blue"),
    "diff.remove": ("#ff8f8f", "red", "#b3261e", "red"),
    "diff.context": ("#9e9e9e", "dim", "#5f6368", "dim"),
    "meter": ("#9e9e9e", "dim", "#5f6368", "dim"),
    "meter.high": ("bold #ffb26b", "bold yellow", "bold #9a4600", "bold red"),
    "prompt": ("bold #8ab4f8", "bold cyan", "bold #0b57d0", "bold blue"),
    "border": ("#8a8a8a", "dim", "#6b6b6b", "dim"),
    "selected": ("reverse", "reverse", "reverse", "reverse"),
    "badge": ("bold #1b1b1b on #8ab4f8", "reverse", "bold #ffffff on #0b57d0", "reverse"),
    # what Markdown is made of
    "heading": ("bold #8ab4f8", "bold", "bold #0b57d0", "bold"),
    "strong": ("bold", "bold", "bold", "bold"),
    "emphasis": ("italic", "italic", "italic", "italic"),
    "deleted": ("strike", "strike", "strike", "strike"),
    "code": ("#e3b566", "yellow", "#7a4b00", "magenta"),
    "link": ("underline", "underline", "underline", "underline"),
    "url": ("#9e9e9e", "dim", "#5f6368", "dim"),
    "bullet": ("#9e9e9e", "dim", "#5f6368", "dim"),
    # what code is made of
    "code.keyword": ("#c792ea", "magenta", "#8e24aa", "magenta"),
    "code.name": ("#82aaff", "cyan", "#0b57d0", "blue"),
    "code.string": ("#9ece6a", "green", "#2e6b1f", "red"),
    "code.number": ("#ffb26b", "yellow", "#9a4600", "red"),
    "code.comment": ("italic #9e9e9e", "dim", "italic #5f6368", "dim"),
    "code.bad": ("#ff8f8f", "red", "#b3261e", "red"),
}


@dataclass(frozen=True)
class Theme:
    """The styles of one look, by the name of what they are for."""

    name: Literal["dark", "light"]
    depth: ColorDepth
    styles: Mapping[str, str]
    """In the words of rich: `bold #8ab4f8`, `dim`, `reverse`; empty for text as it is."""

    @property
    def plain(self) -> bool:
        """There are no colours, and text is not made bold or underlined either."""
        return self.depth == "none"

    def rich(self) -> rich.theme.Theme:
        """For a `rich.console.Console`. Names are those of `styles`."""
        from rich.theme import Theme as RichTheme

        return RichTheme(dict(self.styles), inherit=False)

    def prompt_toolkit(self) -> BaseStyle:
        """For an application of prompt_toolkit: `class:user`, `class:tool.failed`, ..."""
        return self._prompt_toolkit

    @cached_property
    def _prompt_toolkit(self) -> BaseStyle:
        from prompt_toolkit.styles import Style

        return Style([(name, _for_prompt_toolkit(style)) for name, style in self.styles.items()])


def theme_named(name: str, environment: Mapping[str, str] | None = None) -> Theme:
    """The theme *name*, "auto", "dark" or "light", as the terminal that *environment* tells of can
    show it (`os.environ` unless given).

    "auto" believes COLORFGBG, which some terminals set, and is dark without it. NO_COLOR and
    TERM=dumb leave no styles at all but the reversed line that is chosen in a list.
    Raises `ConfigurationError` for another name.
    """
    if name not in get_args(ThemeName):
        near = get_close_matches(name, get_args(ThemeName), 1)
        raise ConfigurationError(
            f"no theme is named {name!r}",
            hint=f"did you mean {near[0]!r}?" if near else "there are auto, dark and light",
        )
    env = os.environ if environment is None else environment
    known = cast("Literal['dark', 'light']", _background(env) if name == "auto" else name)
    depth = _depth(env)
    column = (0 if known == "dark" else 2) + (depth == "standard")
    styles = {style: row[column] for style, row in _TABLE.items()}
    if depth == "none":
        styles = dict.fromkeys(styles, "") | {"selected": "reverse"}
    return Theme(known, depth, MappingProxyType(styles))


def _background(env: Mapping[str, str]) -> Literal["dark", "light"]:
    """From `15;0` or `0;default;15`: the last number is the background's colour. Those of rxvt,
    which began this, are light from 7 on, but for 8, which is dark grey."""
    last = env.get("COLORFGBG", "").rpartition(";")[2]
    return "light" if last.isascii() and last.isdigit() and int(last) in _LIGHT else "dark"


_LIGHT = frozenset({7, *range(9, 16)})


def _depth(env: Mapping[str, str]) -> ColorDepth:
    term = env.get("TERM", "")
    if env.get("NO_COLOR") or term == "dumb":
        return "none"
    if env.get("COLORTERM", "").lower() in ("truecolor", "24bit"):
        return "truecolor"
    if term.endswith(("-256color", "-direct")) or term in ("xterm-kitty", "alacritty"):
        return "256"
    return "standard"


def _for_prompt_toolkit(style: str) -> str:
    """The same style in the words of prompt_toolkit."""
    words: list[str] = []
    background = False
    for word in style.split():
        if word == "on":
            background = True
        elif word in _ATTRIBUTES:
            words.append(word)
        else:
            words.append(("bg:" if background else "fg:") + _color(word))
    return " ".join(words)


_ATTRIBUTES = frozenset({"bold", "dim", "italic", "underline", "strike", "reverse"})


def _color(word: str) -> str:
    return word if word.startswith("#") else f"ansi{word}"
