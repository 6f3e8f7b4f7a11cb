"""What the command line says about a run. Kept by itself, so that the help pages load nothing more."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ..models import ThinkingLevel

__all__ = ["Mode", "RunOptions"]

Mode = Literal["text", "json"]
"""How a run is shown: as text for people, or as one event a line for programs."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of `loopwright "prompt"`; app.py says what each one means."""

    prompt: str = ""
    print_only: bool = False
    model: str | None = None
    thinking: ThinkingLevel | None = None
    system_prompt: str = ""
    mode: Mode = "text"
