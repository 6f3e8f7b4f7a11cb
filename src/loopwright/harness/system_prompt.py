"""The system prompt: one text, built from what was found, the same bytes for the same inputs.

Whatever may change during a session stands as late as possible and is fixed when the session
starts: vendors keep the beginning of a request in a cache, and a clock in it would empty that cache.

Not here: finding and reading what goes in (resources.py). Nothing here reads a file or the time.
"""

from __future__ import annotations

import datetime
from collections.abc import Collection, Iterable, Sequence

from ..records import clean_text
from .framing import framed, one_line

__all__ = ["READER_TOOLS", "build_system_prompt", "guidelines_for"]

READER_TOOLS = frozenset({"read"})
"""Tools that read a file by its path; a list of skills is of no use without one."""

BASE = """\
You are a coding agent. You work in a person's project, through a terminal, together with them.
Find out before you claim: the files and what commands print are the truth, not your memory.
Do what was asked, completely, and nothing beside it. Ask only where a wrong guess would cost much.
Answer briefly and in plain words. Say what you did, what you checked, and what you could not do."""

# (tools, all of which must be active; tools, none of which may be; what to do then)
_GUIDELINES: list[tuple[set[str], set[str], str]] = [
    ({"read"}, set(), "Read a file before you change it."),
    ({"edit"}, set(), "Change existing files with edit, by as few lines as the change needs."),
    ({"edit", "write"}, set(), "Use write for new files, or to replace a file whole."),
    ({"write"}, {"edit"}, "write replaces a file whole: keep what should stay."),
    ({"grep"}, set(), "Look for text with grep before you read whole files."),
    ({"find"}, set(), "Look for files with find before you guess their paths."),
    ({"bash"}, {"grep", "find", "ls"}, "Look around with bash: ls, find, grep."),
    ({"bash"}, set(), "Run the project's own tests or checks after a change."),
    ({"bash"}, set(), "Do not run commands that destroy work unless you were asked to."),
    (set(), {"bash", "edit", "write"}, "You cannot change files here; say what to change instead."),
]  # fmt: skip


def guidelines_for(tools: Collection[str], more: Iterable[str] = ()) -> list[str]:
    """What to keep in mind with these active *tools*, then *more*, nothing twice."""
    active = set(tools)
    chosen = [
        text for needed, excluded, text in _GUIDELINES if needed <= active and not excluded & active
    ]
    lines = [" ".join(clean_text(line).split()) for line in (*chosen, *more)]
    return list(dict.fromkeys(line for line in lines if line))


def build_system_prompt(
    *,
    date: datetime.date,
    directory: str,
    base: str | None = None,
    tools: Collection[str] = (),
    guidelines: Iterable[str] = (),
    appended: Sequence[str] = (),
    context_files: Sequence[tuple[str, str]] = (),
    skills: str = "",
) -> str:
    """The whole prompt: base, appended texts, context files, skills, date, working directory.

    *base* replaces the text of ours and its guidelines. *tools* are the names of those active;
    their order does not matter. *guidelines* come after those for *tools*. *context_files* are
    (path, text), the one with the last word last. *skills* is what `list_for_prompt` gave. *date*
    is that of the session's start, not of the request.

    A context file cannot end the tags around it, whatever it holds.
    """
    parts: list[str] = []
    if base is not None:
        parts.append(base)
    else:
        lines = guidelines_for(tools, guidelines)
        parts.append("\n".join([BASE, "", *[f"- {line}" for line in lines]]))
    parts.extend(appended)
    if context_files:
        parts.append(
            "The user and the project left these instructions. They apply to everything below the"
            " folder of their file; where they disagree, the later one counts, and what the user"
            " says in this conversation counts more than all of them."
        )
        parts.extend([framed("context_file", text, path=path) for path, text in context_files])
    parts.append(skills)
    parts.append(f"Date: {date.isoformat()}\nWorking directory: {one_line(directory)}")
    return "\n\n".join([clean_text(part).strip() for part in parts if part.strip()])
