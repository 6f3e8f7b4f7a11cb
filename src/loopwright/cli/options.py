"""What the command line says about a run. Kept by itself, so that the help pages load nothing more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..models import ThinkingLevel

__all__ = ["ExportFormat", "Mode", "RunOptions", "SessionOptions"]

Mode = Literal["text", "json"]
"""How a run is shown: as text for people, or as one event a line for programs."""

ExportFormat = Literal["md", "html", "pi", "json"]


@dataclass(frozen=True, slots=True)
class SessionOptions:
    """Which session a run belongs to; a new one unless something else is said."""

    continue_last: bool = False
    pick: bool = False
    session: str | None = None
    fork: str | None = None
    keep: bool = True
    name: str | None = None

    @property
    def goes_on(self) -> bool:
        """With one that is there, which may have something unfinished."""
        return self.continue_last or self.pick or self.session is not None

    def contradiction(self) -> str | None:
        """What cannot be meant together; None if all is well."""
        said = {
            "--continue": self.continue_last,
            "--resume": self.pick,
            "--session": self.session is not None,
            "--fork": self.fork is not None,
            "--no-session": not self.keep,
        }
        given = [name for name, is_given in said.items() if is_given]
        if len(given) > 1:
            return f"{' and '.join(given)} cannot be meant together"
        if self.name is not None and not self.keep:
            return "--no-session keeps nothing that could be given a --name"
        return None


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of `loopwright "prompt"`; app.py says what each one means."""

    prompt: str = ""
    print_only: bool = False
    model: str | None = None
    thinking: ThinkingLevel | None = None
    system_prompt: str = ""
    append_system_prompt: tuple[str, ...] = ()
    skills: tuple[str, ...] = ()
    find_skills: bool = True
    find_context_files: bool = True
    mode: Mode = "text"
    sessions: SessionOptions = SessionOptions()
