"""Messages that neither a user nor a model said: summaries, those of other programs' sessions, and
own roles.

Not here: commands of the user's (command_view.py).

They are told by their role, not their class: what a session stores outlives the classes.
"""

from __future__ import annotations

from typing import Any, cast

from ...messages import AgentMessage, UserMessage, text_of
from .one_line import one_line
from .paint import Painter
from .said import Said

__all__ = ["other_message", "summary_words"]

_LINES = 10

_TITLES = {
    "compactionSummary": "what was said before, in short:",
    "branchSummary": "what happened on the branch that was left:",
    "custom": "",
}


def other_message(message: AgentMessage, painter: Painter) -> Said | None:
    """*message* as a note; None if it says nothing to people."""
    said = cast("Any", message)
    if getattr(said, "display", True) is False:
        return None
    role = str(said.role)
    pieces = [getattr(said, name, None) for name in ("command", "summary", "text", "output")]
    text = "\n".join([piece for piece in pieces if isinstance(piece, str) and piece])
    content = getattr(said, "content", None)
    if not text and isinstance(content, str | list):
        text = text_of(cast("Any", content))
    if not text:
        return None
    title = _TITLES.get(role, f"{one_line(role, 40)}:")
    paragraphs = [(title, "note")] if title else []
    return Said("other", painter, [*paragraphs, (text, "note")], most=_LINES)


def summary_words(message: UserMessage, painter: Painter) -> Said | None:
    """A summary, which a model reads as if the user had said it, as a note; None for anything
    else."""
    text = message.content
    if not isinstance(text, str) or not text.endswith("-summary>"):
        return None
    from ...session.tree import branch_summary_text, compaction_text  # not for the first drawing

    for role, framed in (
        ("branchSummary", branch_summary_text),
        ("compactionSummary", compaction_text),
    ):
        before, _, behind = framed("\0").partition("\0")
        if text.startswith(before) and text.endswith(behind):
            summary = text[len(before) : len(text) - len(behind)]
            paragraphs = [(_TITLES[role], "note"), (summary, "note")]
            return Said("other", painter, paragraphs, most=_LINES)
    return None
