"""The question whether a call may run: what would be run, why it is asked, and the answers.

What would be run is a model's and shown as such: neutralized, and bounded so that the answers stay
on the screen. Where something is left out, that is said, and `v` prints all of it above.

Not here: what is asked for (permissions/policy.py), taking the keys while the user types (app.py).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from prompt_toolkit.application.current import get_app
from prompt_toolkit.buffer import Buffer
from prompt_toolkit.filters import Condition
from prompt_toolkit.key_binding import KeyBindings
from prompt_toolkit.keys import Keys
from prompt_toolkit.layout import ConditionalContainer, HSplit, Window
from prompt_toolkit.layout.controls import BufferControl
from prompt_toolkit.layout.dimension import Dimension
from prompt_toolkit.utils import get_cwidth

from ...permissions.gate import AllowAlways, AllowOnce, Answer, Deny, Question
from ..streams import visible
from .footer import Fragments, cut
from .lone_keys import LoneKeys
from .one_line import one_line
from .panels import settle, text_control
from .shown_input import ShownInput

if TYPE_CHECKING:
    from prompt_toolkit.key_binding.key_processor import KeyPressEvent

__all__ = [
    "Lines",
    "QuestionPanel",
    "argument_lines",
    "full_text",
    "plain_rows",
    "question_rows",
    "rule_text",
]

Lines = list[tuple[str, str]]
"""Whole lines, each with its style."""

MOST_ROWS = 16
"""Of what would be run, on however big a screen."""


class QuestionPanel:
    """Asks one question; `done` gets the answer, or None when the user wants to stop it all."""

    def __init__(
        self,
        question: Question,
        *,
        show_all: Callable[[str], None],
        typed: Callable[[str], None],
        lines: Lines | None = None,
        allow_edits: Callable[[], object] | None = None,
    ) -> None:
        """*show_all* is given the whole text when it is asked for, *typed* what is no answer but the
        beginning of something the user wants to say. *lines* are what would be done,
        where that says more than the arguments; *allow_edits* lets all edits pass from now on, if
        that is a choice. To be made in an event loop."""
        self.done: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
        self.question = question
        self._lines = argument_lines(question.tool_name, question.args) if lines is None else lines
        self._allow_edits = allow_edits
        self.saying_why = False
        """The keys write a reason."""
        self._reason = Buffer(name="reason", multiline=False)
        keys = KeyBindings()
        lone = LoneKeys(typed)

        def on(*names: str, at_once: bool = False) -> Callable[[Callable[[], object]], None]:
            def bind(action: Callable[[], object]) -> None:
                for name in names:
                    # Eager: in vi some are the beginning of something longer.
                    @keys.add(name, eager=True)
                    def _(event: KeyPressEvent) -> None:
                        lone.press(event.data, action, at_once=at_once)

            return bind

        @keys.add(Keys.Any)
        def _(event: KeyPressEvent) -> None:
            if event.data.isprintable():
                lone.press(event.data)

        on("y", "Y")(lambda: settle(self.done, AllowOnce()))
        on("n", "N")(lambda: settle(self.done, Deny()))
        if question.rule is not None:
            on("a", "A")(lambda: settle(self.done, AllowAlways()))
        if allow_edits is not None:
            on("s", "S")(self._allow_all_edits)
        # These answer nothing, so they do no harm if they were to begin a word.
        on("v", "V", at_once=True)(lambda: show_all(full_text(question, self._lines)))
        on("e", "E", at_once=True)(self._say_why)

        @keys.add("escape", eager=True)
        def _(event: KeyPressEvent) -> None:
            self.cancel()

        reason_keys = KeyBindings()

        @reason_keys.add("enter", eager=True)
        def _(event: KeyPressEvent) -> None:
            settle(self.done, Deny(self._reason.text.strip()))

        @reason_keys.add("escape", eager=True)
        def _(event: KeyPressEvent) -> None:
            self.saying_why = False
            get_app().layout.focus(self._body)

        self._body = Window(
            text_control(self._fragments, keys),
            wrap_lines=False,
            dont_extend_height=True,
            always_hide_cursor=True,
        )
        self._line = Window(
            BufferControl(self._reason, key_bindings=reason_keys, input_processors=[ShownInput()]),
            height=Dimension(min=1, max=3),
            wrap_lines=True,
            dont_extend_height=True,
            get_line_prefix=lambda line, wrapped: [
                ("class:prompt", "why: " if not wrapped else "")
            ],
        )
        self.container = HSplit(
            [
                self._body,
                ConditionalContainer(self._line, Condition(lambda: self.saying_why)),
            ]
        )

    def cancel(self) -> None:
        """No, and stop the run."""
        settle(self.done, None)

    def allow(self) -> None:
        """Something else has allowed the call."""
        settle(self.done, AllowOnce())

    def refuse(self, reason: str) -> None:
        """Something else has refused the call."""
        settle(self.done, Deny(reason, by_user=False))

    def _allow_all_edits(self) -> None:
        if self._allow_edits is not None and not self.done.done():
            self._allow_edits()
            self.allow()

    def _say_why(self) -> None:
        self.saying_why = True
        get_app().layout.focus(self._line)

    def _fragments(self) -> Fragments:
        size = get_app().output.get_size()
        rows = question_rows(
            self.question,
            self._lines,
            size.columns,
            size.rows,
            saying_why=self.saying_why,
            edits=self._allow_edits is not None,
        )
        shown: Fragments = []
        for row in rows:
            if shown:
                shown.append(("", "\n"))
            shown += row
        return shown


def question_rows(
    question: Question,
    lines: Lines,
    columns: int,
    screen_rows: int,
    *,
    saying_why: bool = False,
    edits: bool = False,
) -> list[Fragments]:
    """The question as rows that fit; on a small screen more of the arguments is left out. *edits*:
    all edits may be allowed at once."""
    width = max(10, columns - 1)
    title = f"{one_line(question.tool_name)} needs your word"
    rows: list[Fragments] = [[("class:prompt", cut(title, width))]]
    reason = cut(one_line(question.decision.reason), width * (2 if screen_rows >= 16 else 1))
    why = _wrapped(reason, width)
    rule_columns = 2 * width if screen_rows >= 16 else width - 2
    answers = _answers(question, width, rule_columns, saying_why=saying_why, edits=edits)
    room = max(1, min(MOST_ROWS, screen_rows - len(rows) - len(why) - len(answers) - 3))
    rows += _bounded(lines, width - 2, room)
    for part in why:
        rows.append([("class:note", part)])
    return rows + answers


def plain_rows(lines: Lines, columns: int, rows: int) -> list[str]:
    """*lines* in at most *rows* rows, for a terminal that can only show text."""
    bounded = _bounded(lines, max(10, columns - 3), rows)
    return ["".join(piece[1] for piece in row) for row in bounded]


def rule_text(question: Question) -> str:
    """What "always" would allow, as one line; empty if that is no choice."""
    rule = question.rule
    if rule is None:
        return ""
    text = str(rule)
    exact = question.tool_name == "bash" and rule.pattern == question.args.get("command")
    return "this very command" if exact and len(text) > 40 else one_line(text)


def _answers(
    question: Question, width: int, rule_columns: int, *, saying_why: bool, edits: bool
) -> list[Fragments]:
    if saying_why:
        return [[("class:note", "Enter says no with this reason · Esc goes back")]]
    choices = [("y", "once"), ("n", "no"), ("e", "no, and why"), ("v", "all of it")]
    choices.append(("Esc", "no and stop"))
    if edits:
        choices.insert(1, ("s", "all edits from now on (auto-edit)"))
    if question.rule is not None:
        choices.insert(1, ("a", cut(f"always {rule_text(question)}", rule_columns)))
    rows: list[Fragments] = []
    taken = 0
    for key, meaning in choices:
        needed = get_cwidth(key) + 1 + get_cwidth(meaning)
        if rows and taken + 3 + needed <= width:
            rows[-1].append(("class:note", " · "))
            taken += 3 + needed
        else:
            rows.append([])
            taken = needed
        first, *more = _wrapped(meaning, width - get_cwidth(key) - 1)
        rows[-1] += [("class:prompt", key), ("", f" {first}")]
        for part in more:
            rows.append([("", f"  {part}")])
            taken = width
    return rows


def argument_lines(tool_name: str, args: Mapping[str, Any]) -> Lines:
    """What a call would do, as lines: a command as it is, an edit as what goes and what comes."""
    match tool_name, args:
        case "bash", {"command": str(command)}:
            rest = {key: value for key, value in args.items() if key != "command"}
            return _text(command, "") + _plain(rest)
        case "write", {"path": str(path), "content": str(content)}:
            return [*_text(path, "class:tool"), *_text(content, "class:diff.add", "+ ")]
        case "edit", {"path": str(path), "edits": [*edits]}:
            lines = _text(path, "class:tool")
            for edit in cast("Sequence[object]", edits):
                match edit:
                    case {"oldText": str(old), "newText": str(new)}:
                        lines += _text(old, "class:diff.remove", "- ")
                        lines += _text(new, "class:diff.add", "+ ")
                    case _:
                        lines += _plain({"edit": edit})
            return lines
        case _:
            return _plain(args)


def full_text(question: Question, lines: Lines) -> str:
    """All of a call, for the scrollback."""
    told = [f"{one_line(question.tool_name)}:", *(f"  {text}" for _, text in lines)]
    if question.rule is not None:
        told.append(f"always would allow: {visible(str(question.rule))}")
    return "\n".join(told)


# -- inside ----------------------------------------------------------------------------------


def _plain(args: Mapping[str, Any]) -> Lines:
    lines: Lines = []
    for key, value in args.items():
        if isinstance(value, str):
            first, *rest = visible(value).split("\n")
            lines.append(("", f"{one_line(key)}: {first}"))
            lines += [("", f"  {line}") for line in rest]
        else:
            text = json.dumps(value, ensure_ascii=False, default=str)
            lines += _text(f"{key}: {text}", "")
    return lines


def _text(text: str, style: str, before: str = "") -> Lines:
    return [(style, f"{before}{line}") for line in visible(text).rstrip("\n").split("\n")]


def _bounded(lines: Lines, width: int, room: int) -> list[Fragments]:
    """*lines* in at most *room* rows. Beginning and end are kept: what matters may stand in
    either, and a model that hides something would put it where nobody looks."""
    # No more is wrapped than could be shown, or a megabyte would be wrapped for every frame.
    head = _rows(lines[: room + 1], width, room + 1, first=True)
    everything = len(lines) <= room and sum(len(text) for _, text in lines) <= room * width * 2
    if everything:
        whole = _rows(lines, width, 10 * room, first=True)
        if len(whole) <= room:
            return whole
    below = max(0, room // 3)
    above = max(0, room - below - 1)
    tail = _rows(lines[-(below + 1) :], width, below, first=False) if below else []
    gap: Fragments = [("class:note", "  … more, v shows all of it")]
    return [*head[:above], gap, *tail[len(tail) - below :]]


def _rows(lines: Lines, width: int, most: int, *, first: bool) -> list[Fragments]:
    """The first or the last rows of *lines*."""
    rows: list[Fragments] = []
    longest = most * width
    for style, text in lines:
        kept = text if len(text) <= longest else text[:longest] if first else text[-longest:]
        rows.extend(_indented(style, part) for part in _wrapped(kept, width))
    return rows[:most] if first else rows[-most:] if most else []


def _indented(style: str, text: str) -> Fragments:
    return [("", "  "), (style, text)]


def _wrapped(text: str, width: int) -> list[str]:
    """*text* broken at any place, so that not a character of it is lost; tabs are four wide."""
    text = text.expandtabs(4)
    if text.isascii():
        return [text[i : i + width] for i in range(0, len(text), width)] or [""]
    parts: list[str] = []
    part, taken = "", 0
    for char in text:
        wide = get_cwidth(char)
        if taken + wide > width and part:
            parts.append(part)
            part, taken = "", 0
        part += char
        taken += wide
    return [*parts, part]
