"""What the files in the working folder and in the user's own folders say, for one run or talk."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from ...harness.resources import Resources, load_resources
from ..places import user_models_file
from ..settings.trust import is_trusted

__all__ = ["Prepared", "prepare_resources"]


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a run needs of the files."""

    system_prompt: str
    expand: Callable[[str], str]
    """To be applied to what the user says, before it is stored. Unknown commands stay text."""
    resources: Resources
    """For lists of skills and templates."""


def prepare_resources(
    cwd: Path,
    *,
    today: datetime.date,
    note: Callable[[str], object],
    tools: Collection[str] = (),
    system_prompt: str | None = None,
    appended: Sequence[str] = (),
    skill_paths: Sequence[str] = (),
    template_paths: Sequence[str] = (),
    find_skills: bool = True,
    find_templates: bool = True,
    find_context_files: bool = True,
) -> Prepared:
    """Read the files once and say through *note* what is wrong with some.

    *system_prompt* replaces SYSTEM.md and the text of ours. *tools* are the names of those active.
    *today* is the day the session started, also when it is continued later. A project's SYSTEM.md
    and APPEND_SYSTEM.md count if the user trusts their folder.
    """
    resources = load_resources(
        cwd,
        config_dir=user_models_file().parent,
        skill_paths=skill_paths,
        template_paths=template_paths,
        find_skills=find_skills,
        find_templates=find_templates,
        find_context_files=find_context_files,
        is_trusted=is_trusted,
    )
    for diagnostic in resources.diagnostics:
        note(str(diagnostic))
    prompt = resources.system_prompt(date=today, tools=tools, base=system_prompt, appended=appended)
    return Prepared(prompt, lambda text: resources.expand(text, pass_through=True), resources)
