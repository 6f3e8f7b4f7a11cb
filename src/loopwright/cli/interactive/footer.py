"""The lines around the input: what goes on, which keys there are, where one is.

Each line is made of parts of different worth. What does not fit is left out, the least worth first,
so that a terminal of 40 columns still shows what matters most.

Not here: the numbers (delivery.py, activity.py), colours (theme.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from prompt_toolkit.formatted_text import StyleAndTextTuples
from prompt_toolkit.utils import get_cwidth

from .one_line import one_line

if TYPE_CHECKING:
    from ..live.session import LiveSession

__all__ = [
    "COMMAND_KEYS",
    "IDLE_KEYS",
    "MOST_QUEUE_LINES",
    "WORKING_KEYS",
    "Footer",
    "Fragments",
    "cut",
    "footer_line",
    "hint_line",
    "measure",
    "meter_text",
    "queue_lines",
    "short_number",
    "status_line",
]

Fragments = StyleAndTextTuples
"""Pieces of a line: a style of prompt_toolkit, and text."""

SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
SPINS_PER_SECOND = 5
HIGH_SHARE = 0.8
"""Of the context window; from there on the meter warns."""

GAP = "  "


@dataclass(slots=True)
class Footer:
    """What the footer tells."""

    folder: str = ""
    model: str = ""
    """`vendor/id`."""
    thinking: str = ""
    mode: str = ""
    """Of permissions."""
    context_tokens: int | None = None
    context_window: int | None = None
    taken: int = 0
    """Tokens that went in, in the whole session."""
    written: int = 0
    """Tokens that came out."""
    cost: float | None = None
    """US dollars."""


def measure(footer: Footer, live: LiveSession) -> None:
    """Have *footer* tell of *live* as it is now."""
    model, meter = live.agent.model, live.meter()
    usage = meter.usage
    footer.model = f"{model.provider}/{model.id}"
    footer.thinking = live.thinking_level or ""
    footer.mode = live.permission_mode
    footer.context_tokens, footer.context_window = meter.context_tokens, meter.context_window
    footer.taken = usage.input + usage.cache_read + usage.cache_write
    footer.written, footer.cost = usage.output, usage.cost.total


class _Part(NamedTuple):
    style: str
    forms: tuple[str, ...]
    """The same, longest first; an empty one leaves it out."""
    worths: tuple[int, ...] = ()
    """Of each form before the next shorter one. What is of least worth is given up first."""


def footer_line(footer: Footer, columns: int) -> Fragments:
    """Where one is: folder, model, permission mode, context, tokens, cost."""
    meter = meter_text(footer.context_tokens, footer.context_window)
    share = _share(footer.context_tokens, footer.context_window)
    folder, model = one_line(footer.folder), one_line(footer.model)
    thinking = "" if footer.thinking in ("", "off") else f":{footer.thinking}"
    tail = folder.rstrip("/").rpartition("/")[2]
    name = model.rpartition("/")[2]
    cost = "" if footer.cost is None else f"${footer.cost:.4f}"
    used = ""
    if footer.taken or footer.written:
        used = f"↑{short_number(footer.taken)} ↓{short_number(footer.written)}"
    high = share is not None and share >= HIGH_SHARE
    short = f"…/{tail}" if tail != folder else tail
    parts = [
        _Part("class:meter", (folder, short, tail, ""), (1, 3, 5)),
        _Part("class:meter", (f"{model}{thinking}", f"{name}{thinking}", cut(name, 16)), (4, 7)),
        _Part("class:badge", (footer.mode,)),
        _Part(
            "class:meter.high" if high else "class:meter", (meter, meter.partition(" ")[2]), (8,)
        ),
        _Part("class:meter", (used, ""), (2,)),
        _Part("class:meter", (cost, ""), (6,)),
    ]
    return _fit(parts, columns)


def status_line(
    doing: str, seconds: float, columns: int, keys: str = "Esc interrupts"
) -> Fragments:
    """What goes on, with something that moves while it does."""
    spin = SPINNER[int(seconds * SPINS_PER_SECOND) % len(SPINNER)]
    parts = [
        _Part("class:prompt", (spin,)),
        _Part("class:note", (one_line(doing), cut(one_line(doing), 20)), (2,)),
        _Part("class:note", (_duration(seconds),)),
        _Part("class:note", (f"· {keys}", ""), (1,)),
    ]
    return _fit(parts, columns, gap=" ")


MOST_QUEUE_LINES = 4


def queue_lines(queued: Sequence[tuple[bool, str]], columns: int) -> Fragments:
    """What waits to be heard, a line each: whether it is said only after the run, and its text. Of
    many the last line says how many more there are."""
    room = MOST_QUEUE_LINES if len(queued) <= MOST_QUEUE_LINES else MOST_QUEUE_LINES - 1
    lines: Fragments = []
    for is_after, text in queued[:room]:
        label = "after: " if is_after else "queued: "
        shown = cut(one_line(text), columns - len(label) - 1)
        lines += [("class:note", label), ("class:user", shown), ("", "\n")]
    if len(queued) > room:
        lines.append(("class:note", f"and {len(queued) - room} more"))
    return lines


IDLE_KEYS = (
    "Enter sends",
    "/ commands",
    "@ files",
    "! shell",
    "Ctrl-J new line",
    "Shift-Tab mode",
    "Ctrl-R history",
    "Ctrl-D leaves",
)
WORKING_KEYS = (
    "Enter steers",
    "Alt-Enter says it after",
    "Alt-Up takes back",
    "Ctrl-O tool output",
    "Ctrl-T thinking",
)


COMMAND_KEYS = (
    "Enter says it afterwards",
    "Esc stops the command",
    "Alt-Up takes back",
    "Ctrl-O tool output",
)
"""While a command of the user's runs."""


def hint_line(keys: Sequence[str], columns: int) -> Fragments:
    """The keys there are, as many of them as fit."""
    shown = ""
    for key in keys:
        longer = f"{shown} · {key}" if shown else key
        if get_cwidth(longer) > columns - 1:
            break
        shown = longer
    return [("class:note", shown)]


def meter_text(tokens: int | None, window: int | None) -> str:
    """`12.3k/200k 6 %`; a question mark stands for what is not known."""
    if tokens is None and window is None:
        return "?"
    share = _share(tokens or 0, window)
    percent = "" if share is None else f" {share * 100:.0f} %"
    size = "?" if window is None else short_number(window)
    return f"{short_number(tokens or 0)}/{size}{percent}"


def short_number(number: int) -> str:
    """Three digits and a unit: 999, 12.3k, 200k, 1.25M."""
    if number < 1_000:
        return str(number)
    for size, unit in ((1_000, "k"), (1_000_000, "M"), (1_000_000_000, "G")):
        value = number / size
        if value < 999.5 or unit == "G":
            digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
            text = f"{value:.{digits}f}"
            return (text.rstrip("0").rstrip(".") if "." in text else text) + unit
    return str(number)


def cut(text: str, columns: int) -> str:
    """*text* in at most so many columns, with an ellipsis where something is missing."""
    if get_cwidth(text) <= columns:
        return text
    kept, width = "", 0
    for char in text:
        width += get_cwidth(char)
        if width > columns - 1:
            break
        kept += char
    return f"{kept}…" if columns > 0 else ""


# -- inside ----------------------------------------------------------------------------------


def _share(tokens: int | None, window: int | None) -> float | None:
    return tokens / window if tokens is not None and window else None


def _duration(seconds: float) -> str:
    whole = int(seconds)
    return f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60:02d} s"


def _fit(parts: Sequence[_Part], columns: int, gap: str = GAP) -> Fragments:
    """The longest forms that fit together; the last column stays free, since some terminals break
    the line there."""
    chosen = [0] * len(parts)

    def shown() -> list[tuple[str, str]]:
        texts = [(part.style, part.forms[i]) for part, i in zip(parts, chosen, strict=True)]
        return [(style, text) for style, text in texts if text]

    def width() -> int:
        texts = shown()
        return sum(get_cwidth(text) for _, text in texts) + len(gap) * max(0, len(texts) - 1)

    while width() > columns - 1:
        steps = [
            (part.worths[form], i)
            for i, (part, form) in enumerate(zip(parts, chosen, strict=True))
            if form < len(part.worths)
        ]
        if not steps:
            break
        chosen[min(steps)[1]] += 1
    line: Fragments = []
    left = columns - 1
    for style, text in shown():
        before = gap if line else ""
        left -= len(before)
        fitting = cut(text, left)
        if not fitting:
            break
        line += [("", before)] if before else []
        line.append((style, fitting))
        left -= get_cwidth(fitting)
    return line
