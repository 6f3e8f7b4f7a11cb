"""Everything that files say to an agent in one folder, found with one call.

Not here: the single kinds (skills.py, templates.py, context_files.py), and which folders are the
user's, which the caller knows.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from .context_files import ContextFile, load_context_files, load_system_file
from .places import real_path
from .resource_files import Diagnostic, Unreadable
from .skills import Skill, expand_skill, is_skill_command, list_for_prompt, load_skills
from .system_prompt import READER_TOOLS, build_system_prompt
from .templates import Template, expand_template, load_templates

__all__ = ["Resources", "load_resources"]


@dataclass(frozen=True, slots=True)
class Resources:
    """What was found for one folder. Read once; load again to see later changes."""

    cwd: Path
    skills: list[Skill] = field(default_factory=list[Skill])
    templates: list[Template] = field(default_factory=list[Template])
    context_files: list[ContextFile] = field(default_factory=list[ContextFile])
    system: ContextFile | None = None
    """SYSTEM.md, which replaces the system prompt."""
    append_system: ContextFile | None = None
    """APPEND_SYSTEM.md, which extends it."""
    diagnostics: list[Diagnostic] = field(default_factory=list[Diagnostic])

    def system_prompt(
        self,
        *,
        date: datetime.date,
        tools: Collection[str] = (),
        base: str | None = None,
        appended: Sequence[str] = (),
        guidelines: Iterable[str] = (),
    ) -> str:
        """The prompt for a session that starts on *date* with these active *tools*.

        *base* is used instead of SYSTEM.md, *appended* comes after APPEND_SYSTEM.md.
        """
        if base is None and self.system is not None:
            base = self.system.text
        found = [self.append_system.text] if self.append_system is not None else []
        return build_system_prompt(
            date=date,
            directory=str(self.cwd),
            base=base,
            tools=tools,
            guidelines=guidelines,
            appended=[*found, *appended],
            context_files=[(str(file.path), file.text) for file in self.context_files],
            skills=list_for_prompt(self.skills, bool(READER_TOOLS & set(tools))),
        )

    def expand(self, text: str, *, pass_through: bool = False) -> str:
        """*text* as the model shall see it: `/skill:name` and `/template` calls expanded, once.

        To be called before the message is stored. Raises `UnknownSkill`, unless *pass_through*.
        """
        if is_skill_command(text):
            return expand_skill(text, self.skills, pass_through=pass_through)
        return expand_template(text, self.templates)


def load_resources(
    cwd: str | os.PathLike[str],
    *,
    home: Path | None = None,
    config_dir: Path | None = None,
    skill_paths: Iterable[str | os.PathLike[str]] = (),
    template_paths: Iterable[str | os.PathLike[str]] = (),
    find_skills: bool = True,
    find_templates: bool = True,
    find_context_files: bool = True,
    is_trusted: Callable[[Path], bool] | None = None,
) -> Resources:
    """Find and read everything for work in *cwd*. Blocks for the time of some small reads.

    *home* is the user's home folder unless said, *config_dir* its `.config/loopwright`. With a
    `find_` switch off, only the paths given explicitly are used. *is_trusted* is asked of a
    project's folder before its SYSTEM.md or APPEND_SYSTEM.md counts; None: they count. Nothing that
    is wrong with a file is raised; `diagnostics` says it. Raises OSError if *cwd* cannot be
    resolved.
    """
    folder = Path(cwd).resolve()
    home = _real_or_none(_home() if home is None else home)
    if config_dir is None and home is not None:
        config_dir = home / ".config" / "loopwright"
    notes: list[Diagnostic] = []

    skills, told = load_skills(
        folder,
        home=home,
        config_dir=config_dir,
        explicit=[Path(path) for path in skill_paths],
        search=find_skills,
    )
    notes += told
    templates, told = load_templates(
        folder,
        home=home,
        config_dir=config_dir,
        explicit=[Path(path) for path in template_paths],
        search=find_templates,
    )
    notes += told
    context_files: list[ContextFile] = []
    if find_context_files:
        context_files, told = load_context_files(folder, home=home, config_dir=config_dir)
        notes += told
    system, told = load_system_file(
        "SYSTEM.md", folder, home=home, config_dir=config_dir, is_trusted=is_trusted
    )
    notes += told
    append_system, told = load_system_file(
        "APPEND_SYSTEM.md", folder, home=home, config_dir=config_dir, is_trusted=is_trusted
    )
    notes += told
    return Resources(
        cwd=folder,
        skills=skills,
        templates=templates,
        context_files=context_files,
        system=system,
        append_system=append_system,
        diagnostics=notes,
    )


def _home() -> Path | None:
    try:
        return Path.home()
    except RuntimeError:  # a user without an entry anywhere, as in some containers
        return None


def _real_or_none(folder: Path | None) -> Path | None:
    if folder is None:
        return None
    try:
        return real_path(folder)
    except Unreadable:
        return None
