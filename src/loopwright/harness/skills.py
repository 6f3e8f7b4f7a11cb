"""Skills: folders with a SKILL.md that tells a model how to do one kind of work.

Found in the paths given, then in the project (`.loopwright/skills` and `.agents/skills` in the
working folder and those above it), then in the user's own folders. The first of a name wins. A
skill is listed in the system prompt, so that the model reads the file when it fits; the user calls
one with `/skill:name arguments`, which puts its text into the message.

Not here: which folders belong to a project (places.py), the system prompt around the list.
Format: agentskills.io, "Specification"; a name that breaks its rules is reported and loaded.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ConfigurationError
from .first_wins import FirstWins
from .framing import escape, framed, one_line
from .frontmatter import FrontmatterInvalid, parse_frontmatter
from .ignore_rules import IgnoreRules
from .places import Place, Scope, project_places
from .resource_files import Diagnostic, Unreadable, read_text

__all__ = [
    "Skill",
    "UnknownSkill",
    "expand_skill",
    "is_skill_command",
    "list_for_prompt",
    "load_skills",
]

SKILL_FILE = "SKILL.md"
COMMAND = "/skill:"
MOST_BYTES = 1024 * 1024
MOST_ENTRIES = 2_000  # names looked at below one folder of skills
MOST_LEVELS = 8
LONGEST_NAME = 64
LONGEST_DESCRIPTION = 1024

_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")


class UnknownSkill(ConfigurationError):
    """No skill has the name that `/skill:name` says; the hint has near names."""


@dataclass(frozen=True, slots=True)
class Skill:
    """One skill, read whole when it was found: later changes of the file do not change it."""

    name: str
    description: str
    file: Path
    """Its Markdown file; relative references in the text start at its folder."""
    body: str
    """The text without the header."""
    scope: Scope
    hidden: bool = False
    """Not listed for the model (`disable-model-invocation`); the user can call it."""

    @property
    def folder(self) -> Path:
        return self.file.parent


def load_skills(
    cwd: Path,
    *,
    home: Path | None,
    config_dir: Path | None,
    explicit: Iterable[Path] = (),
    search: bool = True,
) -> tuple[list[Skill], list[Diagnostic]]:
    """Every skill for work in *cwd*, the winning ones only, and what was wrong with others.

    *explicit* are Markdown files or folders of skills, relative to *cwd*. *cwd* and
    *home* are real paths, absolute and without links. *config_dir* is the
    user's folder for this program. Without *search* only *explicit* is loaded. Nothing is raised:
    what cannot be loaded becomes a diagnostic.
    """
    skills = FirstWins(_read_skill)

    def add_folder(place: Place) -> None:
        if os.path.isdir(place.folder):
            for file in _Search(place, skills.notes).files():
                skills.add(file, place)

    for path in explicit:
        skills.add_explicit(cwd / os.path.expanduser(path), add_folder)
    if search:
        for place in _places(cwd, home, config_dir):
            add_folder(place)
    return list(skills.found.values()), skills.notes


def _places(cwd: Path, home: Path | None, config_dir: Path | None) -> list[Place]:
    """The folders of skills, the one that wins first. The user's own are never the project's,
    though home may lie on the way up."""
    own: list[Place] = []
    if config_dir is not None:
        own.append(Place(config_dir / "skills", "user"))
    if home is not None:
        own.append(Place(home / ".agents" / "skills", "user"))
    users = [place.folder for place in own]
    project = [
        place.below(folder, "skills")
        for place in project_places(cwd, home)
        for folder in (".loopwright", ".agents")
    ]
    return [*(place for place in project if place.folder not in users), *own]


class _Search:
    """Walks one folder of skills, in the order of names."""

    def __init__(self, place: Place, notes: list[Diagnostic]) -> None:
        self._place = place
        self._notes = notes
        self._entered: set[Path] = set()
        self._looked_at = 0

    def files(self) -> Iterator[Path]:
        """The Markdown files that are skills, or claim to be."""
        yield from self._below(self._place.folder, IgnoreRules(), level=0)

    def _below(self, folder: Path, rules: IgnoreRules, level: int) -> Iterator[Path]:
        if not self._may_enter(folder):
            return
        try:
            with os.scandir(folder) as entries:
                found = sorted(self._counted(entries), key=lambda entry: entry.name)
        except OSError as error:
            told = f"cannot be listed: {error.strerror}"
            self._notes.append(Diagnostic("unreadable", told, folder))
            return
        names = [entry.name for entry in found]
        rules = rules.within(folder, names, self._place, self._notes)
        if SKILL_FILE in names:
            if not rules.leave_out(folder / SKILL_FILE, is_folder=False):
                yield folder / SKILL_FILE
            return  # what else lies here belongs to that skill
        for entry in found:
            path = folder / entry.name
            if entry.name.lower() in (SKILL_FILE.lower(), f"{SKILL_FILE.lower()}.txt", "skills.md"):
                told = f"not loaded: a skill's file is called {SKILL_FILE}, in capital letters"
                self._notes.append(Diagnostic("misnamed", told, path))
                continue
            if entry.name.startswith(".") or entry.name == "node_modules":
                continue
            if _is_folder(entry):
                if level < MOST_LEVELS and not rules.leave_out(path, is_folder=True):
                    yield from self._below(path, rules, level + 1)
            elif (
                level == 0
                and entry.name.endswith(".md")
                and _has_header(path)
                and not rules.leave_out(path, is_folder=False)
            ):
                yield path

    def _counted(self, entries: Iterator[os.DirEntry[str]]) -> Iterator[os.DirEntry[str]]:
        for entry in entries:
            self._looked_at += 1
            if self._looked_at == MOST_ENTRIES + 1:
                told = f"holds more than {MOST_ENTRIES:,} files; the others are not looked at"
                self._notes.append(Diagnostic("too-many-files", told, self._place.folder))
            if self._looked_at > MOST_ENTRIES:
                return
            yield entry

    def _may_enter(self, folder: Path) -> bool:
        """Whether *folder* is allowed and new; links make circles and second ways."""
        try:
            real = self._place.check(folder)
        except Unreadable as error:
            self._notes.append(error.of(folder))
            return False
        if real in self._entered:
            return False
        self._entered.add(real)
        return True


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:
        return False


def _has_header(path: Path) -> bool:
    """A README beside the skills is none, and no mistake either."""
    try:
        return read_text(path, most_bytes=8).text.startswith("---")
    except Unreadable:
        return True  # which is told when it is read


def _read_skill(file: Path, place: Place, notes: list[Diagnostic]) -> Skill:
    """The skill that *file* is. Raises `Unreadable` if it is none."""
    read = read_text(file, most_bytes=MOST_BYTES)
    if read.cut:
        raise Unreadable("too-large", f"larger than {MOST_BYTES:,} bytes; left out")
    try:
        document = parse_frontmatter(read.text)
    except FrontmatterInvalid as error:
        hint = f" ({error.hint})" if error.hint else ""
        raise Unreadable("bad-frontmatter", f"{error.message}; left out{hint}") from error
    fields = document.fields or {}
    description = _as_text(fields.get("description"))
    if not description:
        raise Unreadable(
            "no-description",
            "has no description, so the model could not know when to use it; left out"
            if document.fields is not None
            else "starts with no header that holds a description; left out",
        )
    checks = _Checks(file, notes)
    return Skill(
        name=checks.name(fields.get("name")),
        description=checks.description(description),
        file=file,
        body=document.body.strip("\n"),
        scope=place.scope,
        hidden=checks.hidden(fields.get("disable-model-invocation")),
    )


class _Checks:
    """What is reported of a skill that is loaded all the same."""

    def __init__(self, file: Path, notes: list[Diagnostic]) -> None:
        self._file = file
        self._notes = notes

    def name(self, given: Any) -> str:
        in_folder = self._file.name == SKILL_FILE
        place = self._file.parent.name if in_folder else self._file.stem
        name = _as_text(given)
        if given is not None and not name:
            self._tell("bad-field", f"`name` is no text; {place!r}, where it lies, is used instead")
        name = name or place or "skill"
        if len(name) > LONGEST_NAME:
            self._tell("bad-name", f"the name is longer than {LONGEST_NAME} characters")
        if not _NAME.fullmatch(name):
            self._tell(
                "bad-name",
                f"the name {name[:LONGEST_NAME]!r} is not made of lowercase letters, digits and"
                " single hyphens between them",
            )
        if name != place:
            where = "its folder" if in_folder else "its file"
            self._tell("bad-name", f"the name {name[:LONGEST_NAME]!r} is not that of {where}")
        return name

    def description(self, text: str) -> str:
        if len(text) > LONGEST_DESCRIPTION:
            self._tell(
                "long-description",
                f"the description is longer than {LONGEST_DESCRIPTION:,} characters;"
                " the model is shown no more",
            )
        return text

    def hidden(self, given: Any) -> bool:
        if given is None or isinstance(given, bool):
            return bool(given)
        word = str(given).lower()
        if word in ("yes", "on", "no", "off"):  # truth values of older YAML
            return word in ("yes", "on")
        self._tell(
            "bad-field", "`disable-model-invocation` is neither true nor false; taken as true"
        )
        return True

    def _tell(self, code: Any, message: str) -> None:
        self._notes.append(Diagnostic(code, message, self._file))


def _as_text(value: Any) -> str:
    """A scalar as text in one line, anything else as nothing."""
    if isinstance(value, str):
        return " ".join(value.split())
    return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else ""


def list_for_prompt(skills: Sequence[Skill], reader_tool: bool = True) -> str:
    """The skills that a model may choose from, for the system prompt, or "" if there are none.

    *reader_tool*: a tool that reads files is active. Without it the list is of no use to the model
    and is left out. Names, descriptions and locations are escaped as XML.
    """
    listed = [skill for skill in skills if not skill.hidden]
    if not listed or not reader_tool:
        return ""
    rows = [
        "Skills are instructions for particular kinds of work. When a task fits a description below,",
        "read the file at its location before you start. Paths inside it start at its folder.",
        "<available_skills>",
    ]
    for skill in listed:
        description = skill.description
        if len(description) > LONGEST_DESCRIPTION:
            description = description[:LONGEST_DESCRIPTION].rstrip() + "…"
        rows += [
            "  <skill>",
            f"    <name>{escape(skill.name)}</name>",
            f"    <description>{escape(description)}</description>",
            f"    <location>{escape(str(skill.file))}</location>",
            "  </skill>",
        ]
    return "\n".join([*rows, "</available_skills>"])


def is_skill_command(text: str) -> bool:
    """Whether *text* calls a skill, known or not."""
    return text.startswith(COMMAND)


def expand_skill(text: str, skills: Iterable[Skill], *, pass_through: bool = False) -> str:
    """What `/skill:name arguments` says to the model: the skill's text, then the arguments.

    Any other text is returned as it is. Raises `UnknownSkill` if no skill has that name; with
    *pass_through*, as a text front end wants it, such a text is returned as it is, too.
    """
    if not is_skill_command(text):
        return text
    name, *rest = text[len(COMMAND) :].split(maxsplit=1) or [""]
    if text[len(COMMAND) :][:1].isspace():
        name = ""  # `/skill: name`
    known = {skill.name: skill for skill in skills}
    skill = known.get(name)
    if skill is None:
        if pass_through:
            return text
        raise _unknown(name, list(known))
    content = f"References are relative to {one_line(str(skill.folder))}.\n\n{skill.body}"
    block = framed("skill", content, name=skill.name, location=str(skill.file))
    arguments = rest[0].strip() if rest else ""
    return f"{block}\n\n{arguments}" if arguments else block


def _unknown(name: str, known: list[str]) -> UnknownSkill:
    near = difflib.get_close_matches(name, known, n=1)
    if near:
        hint = f"did you mean {COMMAND}{near[0]}?"
    else:
        hint = f"there are: {', '.join(sorted(known))}" if known else "no skills were found"
    return UnknownSkill(f"no skill is named {name[:LONGEST_NAME]!r}", hint=hint)
