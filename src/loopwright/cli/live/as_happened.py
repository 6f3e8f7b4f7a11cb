"""A branch for people: what the model is shown of it, and beside that what only the user ran.

A command of the user's reads for a model as if the user had said it (`shown_to_model`), or not at
all; people are to see it as the command it was.                                          (pure)
"""

from __future__ import annotations

from collections.abc import Sequence

from ...messages import AgentMessage, UserMessage
from ...session.entries import Entry, MessageEntry
from ...session.formats.pi_messages import BashExecution
from ...session.tree import compaction_text, context_parts, transcript_of

__all__ = ["as_happened"]


def as_happened(entries: Sequence[Entry]) -> list[AgentMessage]:
    """`transcript_of`, with the user's commands as they are."""
    compaction, kept, newer = context_parts(entries)
    said: list[AgentMessage] = []
    if compaction is not None:
        summary = compaction_text(compaction.summary)
        said += [UserMessage(summary, timestamp=compaction.timestamp)]
        said += compaction.retained_tail or ()
    for entry in (*kept, *newer):
        if isinstance(entry, MessageEntry) and isinstance(entry.message, BashExecution):
            said.append(entry.message)
        else:
            said += transcript_of([entry])
    return said
