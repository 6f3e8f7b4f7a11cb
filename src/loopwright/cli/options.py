"""What the command line says about a run. Kept by itself, so that the help pages load nothing more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..models import ThinkingLevel
from ..permissions.policy import Mode as PermissionMode

__all__ = ["Caps", "ExportFormat", "Mode", "RunMode", "RunOptions", "SessionOptions"]

Mode = Literal["text", "json"]
"""How something is shown: as text for people, or as one object a line for programs."""

RunMode = Literal["text", "json", "rpc"]
"""How a run is driven and shown: `rpc` is told by a program what to do, line by line."""

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
class Caps:
    """The most that one run may use; None is as the settings say."""

    max_turns: int | None = None
    max_tokens: int | None = None
    max_cost_usd: float | None = None


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
    mode: RunMode = "text"
    tools: tuple[str, ...] | None = None
    """None: as the settings say. Empty: none."""
    permission_mode: PermissionMode | None = None
    agent: str | None = None
    extensions: tuple[str, ...] = ()
    find_extensions: bool = True
    caps: Caps = Caps()
    sessions: SessionOptions = SessionOptions()

    def contradiction(self) -> str | None:
        """What cannot be meant together; None if all is well."""
        if self.mode == "rpc" and self.prompt.strip():
            return "--mode rpc takes its prompts line by line, so a prompt and it cannot be meant"
        if self.mode == "rpc" and self.sessions.pick:
            return "--mode rpc and --resume cannot be meant together: nobody is there to choose"
        return self.sessions.contradiction()
