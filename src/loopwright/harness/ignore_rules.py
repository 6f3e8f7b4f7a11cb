"""`.gitignore`, `.ignore` and `.fdignore`: what a search for skills leaves out.

Patterns mean what they mean to git. A file speaks for its own folder and below; a deeper one
overrules a higher one, and in one folder the three are read in the order above, the last line that
matches winning. Patterns come from strangers and become regular expressions, so those that could
take for ever to compare are not used: more than two single stars, or more than 200 lines.

Not here: hidden folders and node_modules, which the search leaves out by itself (skills.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from .places import Place
from .resource_files import Diagnostic, Unreadable, read_text

if TYPE_CHECKING:
    from pathspec import GitIgnoreSpec

__all__ = ["IGNORE_FILES", "IgnoreRules"]

IGNORE_FILES = (".gitignore", ".ignore", ".fdignore")
MOST_BYTES = 64 * 1024
MOST_LINES = 200
MOST_STARS = 2  # three stars and a name of 250 characters take 0.2 s to compare; five, minutes

_WHOLE_SEGMENT = re.compile(r"(?:^|(?<=/))\*\*(?=/|$)")


class IgnoreRules:
    """The rules that hold in one folder, the nearest last."""

    def __init__(self, *rules: tuple[Path, GitIgnoreSpec]) -> None:
        self._rules = rules

    def within(
        self, folder: Path, names: Sequence[str], place: Place, notes: list[Diagnostic]
    ) -> IgnoreRules:
        """The rules that hold in *folder*, one of whose files are *names*."""
        lines: list[str] = []
        for name in IGNORE_FILES:
            if name in names:
                lines += _lines(folder / name, place, notes)
        if not lines:
            return self
        from pathspec import GitIgnoreSpec

        return IgnoreRules(*self._rules, (folder, GitIgnoreSpec.from_lines(lines)))

    def leave_out(self, path: Path, *, is_folder: bool) -> bool:
        """Whether *path* is to be ignored. Folders above it are not looked at: nobody enters them."""
        for folder, spec in reversed(self._rules):
            verdict = spec.check_file(
                path.relative_to(folder).as_posix() + ("/" if is_folder else "")
            )
            if verdict.include is not None:
                return verdict.include
        return False


def _lines(file: Path, place: Place, notes: list[Diagnostic]) -> list[str]:
    """The patterns of *file* that can be used."""
    try:
        place.check(file)
        read = read_text(file, most_bytes=MOST_BYTES)
    except Unreadable as error:
        notes.append(error.of(file))
        return []
    usable: list[str] = []
    for number, line in enumerate(read.text.split("\n"), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        if len(usable) == MOST_LINES:
            notes.append(_not_used(file, number, f"only {MOST_LINES} patterns are used"))
            break
        problem = _problem(line)
        if problem:
            notes.append(_not_used(file, number, problem))
        else:
            usable.append(line)
    return usable


def _problem(line: str) -> str | None:
    from pathspec import GitIgnoreSpec

    if _WHOLE_SEGMENT.sub("", line).count("*") > MOST_STARS:
        return f"more than {MOST_STARS} stars, which can take for ever"
    try:
        GitIgnoreSpec.from_lines([line])
    except (ValueError, re.error) as error:
        return str(error)
    return None


def _not_used(file: Path, line: int, reason: str) -> Diagnostic:
    return Diagnostic("bad-ignore-pattern", f"line {line} is not used: {reason}", file)
