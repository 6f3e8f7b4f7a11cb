"""Prompt templates: `/name some arguments` becomes the text of `name.md`, with the arguments put in.

All placeholders are replaced in one pass, so what a user types is never itself expanded. A template
is a Markdown file directly in a folder of templates; its header may have a `description` and an
`argument-hint`.

Not here: skills (skills.py), or which commands a front end has beside them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from .first_wins import FirstWins
from .framing import one_line
from .frontmatter import FrontmatterInvalid, parse_frontmatter
from .places import Place, Scope, project_places
from .resource_files import Diagnostic, Unreadable, read_text

__all__ = [
    "Template",
    "expand_template",
    "fill_in",
    "load_templates",
    "split_arguments",
]

MOST_BYTES = 1024 * 1024
MOST_TEMPLATES = 1_000  # in one folder
LONGEST_DESCRIPTION = 60

_PLACEHOLDER = re.compile(
    r"\$(?:(?P<number>[1-9][0-9]*)|@|ARGUMENTS|\{@:(?P<first>[0-9]+)(?::(?P<count>[0-9]+))?\})"
)


@dataclass(frozen=True, slots=True)
class Template:
    """One prompt template, read whole when it was found."""

    name: str
    description: str
    """From the header, else the beginning of the text, for a list of templates."""
    content: str
    file: Path
    scope: Scope
    argument_hint: str | None = None
    """Which arguments it wants, in its author's words."""


def load_templates(
    cwd: Path,
    *,
    home: Path | None,
    config_dir: Path | None,
    explicit: Iterable[Path] = (),
    search: bool = True,
) -> tuple[list[Template], list[Diagnostic]]:
    """Every template for work in *cwd*, the winning ones only, and what was wrong with others.

    Searched are *explicit* (files or folders, relative to *cwd*), then `.loopwright/templates` of
    the project, then `templates` in *config_dir*, the user's folder for this program. The first of
    a name wins. Without *search* only *explicit* is loaded. Nothing is raised: what cannot be loaded
    becomes a diagnostic.
    """
    templates = FirstWins(_read_template)

    def add_folder(place: Place) -> None:
        for file in _files(place, templates.notes):
            templates.add(file, place)

    for path in explicit:
        templates.add_explicit(cwd / os.path.expanduser(path), add_folder)
    if search:
        for place in project_places(cwd, home):
            add_folder(place.below(".loopwright", "templates"))
        if config_dir is not None:
            add_folder(Place(config_dir / "templates", "user"))
    return list(templates.found.values()), templates.notes


def _files(place: Place, notes: list[Diagnostic]) -> list[Path]:
    """The Markdown files directly in *place*, in the order of their names."""
    if not os.path.isdir(place.folder):
        return []
    try:
        place.check(place.folder)
        names = sorted(os.listdir(place.folder))
    except Unreadable as error:
        notes.append(error.of(place.folder))
        return []
    except OSError as error:
        notes.append(Diagnostic("unreadable", f"cannot be listed: {error.strerror}", place.folder))
        return []
    names = [name for name in names if name.endswith(".md") and not name.startswith(".")]
    if len(names) > MOST_TEMPLATES:
        told = f"holds more than {MOST_TEMPLATES:,} templates; the others are left out"
        notes.append(Diagnostic("too-many-files", told, place.folder))
    files = [place.folder / name for name in names[:MOST_TEMPLATES]]
    return [file for file in files if not os.path.isdir(file)]


def _read_template(file: Path, place: Place, _notes: list[Diagnostic]) -> Template:
    """The template in *file*. Raises `Unreadable`."""
    if re.search(r"\s", file.stem):
        raise Unreadable(
            "bad-name", "a name that holds blanks cannot be called; left out, rename the file"
        )
    read = read_text(file, most_bytes=MOST_BYTES)
    if read.cut:
        raise Unreadable("too-large", f"larger than {MOST_BYTES:,} bytes; left out")
    try:
        document = parse_frontmatter(read.text, verbatim=("argument-hint",))
    except FrontmatterInvalid as error:
        hint = f" ({error.hint})" if error.hint else ""
        raise Unreadable("bad-frontmatter", f"{error.message}; left out{hint}") from error
    fields = document.fields or {}
    content = document.body.strip("\n")
    described, hint = fields.get("description"), fields.get("argument-hint")
    return Template(
        name=file.stem,
        description=_described(described if isinstance(described, str) else "", content),
        content=content,
        file=file,
        scope=place.scope,
        argument_hint=one_line(hint) if isinstance(hint, str) else None,
    )


def _described(given: str, content: str) -> str:
    """*given*, or the first line of *content* that says something, cut to fit into a list."""
    given = " ".join(given.split())
    if given:
        return given
    line = next((line.strip() for line in content.split("\n") if line.strip()), "")
    if len(line) <= LONGEST_DESCRIPTION:
        return line
    return line[:LONGEST_DESCRIPTION].rstrip() + "…"


def expand_template(text: str, templates: Iterable[Template]) -> str:
    """What `/name arguments` says: the template of that name with the arguments put in.

    A text that names none of *templates* is returned as it is; it may be a path or somebody's
    own way of writing.
    """
    if not text.startswith("/"):
        return text
    name, *rest = re.split(r"\s", text[1:], maxsplit=1)
    for template in templates:
        if template.name == name:
            return fill_in(template.content, split_arguments(rest[0] if rest else ""))
    return text


def fill_in(content: str, arguments: Sequence[str]) -> str:
    """*content* with its placeholders replaced, each once and all at the same time.

    `$1`, `$2`, ..., `$10`: one argument; nothing if there are not so many. `$@` and `$ARGUMENTS`:
    all, with a blank between them. `${@:N}`: those from the Nth on, counted from 1; `${@:N:L}`: at
    most L of those. Anything else that starts with a dollar stays.
    """

    def value(found: re.Match[str]) -> str:
        number, first, count = found["number"], found["first"], found["count"]
        if number is not None:
            place = _bounded(number)
            return arguments[place - 1] if place <= len(arguments) else ""
        chosen = arguments
        if first is not None:
            chosen = chosen[max(_bounded(first), 1) - 1 :]
        if count is not None:
            chosen = chosen[: _bounded(count)]
        return " ".join(chosen)

    return _PLACEHOLDER.sub(value, content)


def _bounded(digits: str) -> int:
    """The number, or one beyond all lists: Python refuses to read thousands of digits."""
    return int(digits) if len(digits) < 10 else 10**9


def split_arguments(text: str) -> list[str]:
    """The arguments in *text*, which blanks part.

    Single or double quotes keep blanks inside; `""` is an empty argument; there are no escapes. A
    quote that is never closed, and an apostrophe inside a word, are ordinary characters: people
    write "don't".
    """
    arguments: list[str] = []
    word: list[str] = []
    inside = False  # a word has begun, even if it is still empty
    last = {quote: text.rfind(quote) for quote in "'\""}
    at = 0
    while at < len(text):
        character = text[at]
        if character.isspace():
            if inside:
                arguments.append("".join(word))
                word, inside = [], False
        elif character in last and at < last[character] and not _apostrophe(text, at):
            end = text.index(character, at + 1)
            word.append(text[at + 1 : end])
            inside, at = True, end
        else:
            word.append(character)
            inside = True
        at += 1
    if inside:
        arguments.append("".join(word))
    return arguments


def _apostrophe(text: str, at: int) -> bool:
    return text[at] == "'" and at > 0 and text[at - 1].isalnum()
