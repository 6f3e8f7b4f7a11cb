"""Context files: what the user and the project tell every agent, in AGENTS.md or CLAUDE.md.

The user's own file comes first, then those of the folders from the root down to the working folder,
so that the nearest has the last word. SYSTEM.md and APPEND_SYSTEM.md, which replace and extend the
system prompt, are found here as well. They are read, never executed.

Not here: how they stand in the prompt (system_prompt.py).
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from .places import Place, Scope, all_places, project_places
from .resource_files import Diagnostic, Unreadable, read_text

__all__ = ["ContextFile", "load_context_files", "load_system_file"]

NAMES = ("AGENTS.md", "CLAUDE.md")
MOST_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class ContextFile:
    """One file that belongs into the prompt."""

    path: Path
    text: str
    scope: Scope


def load_context_files(
    cwd: Path, *, home: Path | None, config_dir: Path | None
) -> tuple[list[ContextFile], list[Diagnostic]]:
    """The context files for work in *cwd*, in the order of the prompt, and what was wrong.

    In each folder AGENTS.md counts, or CLAUDE.md if there is none that can be read. A file that was
    met before, by whatever path, is not repeated. Of a file larger than 64 KiB the beginning is
    used, and the text says so.
    """
    places = all_places(cwd, home)[::-1]
    if config_dir is not None:
        places.insert(0, Place(config_dir, "user"))
    files: list[ContextFile] = []
    notes: list[Diagnostic] = []
    seen: set[Path] = set()
    for place in places:
        notes += _near_misses(place.folder)
        found = _first_readable(place, NAMES, seen, notes)
        if found is not None:
            files.append(found)
    return files, notes


def load_system_file(
    name: str,
    cwd: Path,
    *,
    home: Path | None,
    config_dir: Path | None,
    is_trusted: Callable[[Path], bool] | None = None,
) -> tuple[ContextFile | None, list[Diagnostic]]:
    """The nearest `.loopwright/<name>` of the project, else `<name>` in the user's *config_dir*.

    *name* is SYSTEM.md, which replaces the system prompt, or APPEND_SYSTEM.md, which extends it.
    The model takes either for this program's own words, so a project's are passed over, with a
    note, where *is_trusted* says no to the folder that `.loopwright` is in.
    """
    places: list[Place] = []
    notes: list[Diagnostic] = []
    for place in project_places(cwd, home):
        inner = place.below(".loopwright")
        path = inner.folder / name
        if is_trusted is None or not os.path.lexists(path) or is_trusted(place.folder):
            places.append(inner)
        else:
            where = "" if place.folder == cwd else f" {shlex.quote(str(place.folder))}"
            told = (
                f"not used, since its folder is not trusted; to trust it: loopwright trust{where}"
            )
            notes.append(Diagnostic("not-trusted", told, path))
    if config_dir is not None:
        places.append(Place(config_dir, "user"))
    for place in places:
        found = _first_readable(place, (name,), set(), notes)
        if found is not None:
            return found, notes
    return None, notes


def _near_misses(folder: Path) -> list[Diagnostic]:
    """Files whose names differ from those that count by the case of letters alone."""
    try:
        names = os.listdir(folder)
    except (OSError, ValueError):  # gone, or a name that no system takes
        return []
    meant = {name.lower(): name for name in NAMES}
    return [
        Diagnostic("misnamed", f"not used: the file must be called {right}", folder / name)
        for name in sorted(names)
        if (right := meant.get(name.lower())) not in (None, name) and right not in names
    ]


def _first_readable(
    place: Place, names: tuple[str, ...], seen: set[Path], notes: list[Diagnostic]
) -> ContextFile | None:
    for name in names:
        path = place.folder / name
        if not os.path.lexists(path):
            continue
        try:
            real = place.check(path)
            if real in seen:
                return None
            text = _text(path, notes)
        except Unreadable as error:
            notes.append(error.of(path))
            continue
        seen.add(real)
        return ContextFile(path, text, place.scope) if text else None
    return None


def _text(path: Path, notes: list[Diagnostic]) -> str:
    """What *path* says, without blank lines around it. Raises `Unreadable`."""
    read = read_text(path, most_bytes=MOST_BYTES)
    if not read.cut:
        return read.text.strip()
    whole_lines = read.text[: read.text.rfind("\n") + 1] or read.text
    told = f"only the first {MOST_BYTES // 1024} KiB of {read.size:,} bytes are used"
    notes.append(Diagnostic("cut", told, path))
    return f"{whole_lines.strip()}\n\n[Cut here: {told}. Read the file for the rest.]"
