"""What `loopwright doctor` says: one line for each thing it looked at.

Not here: looking (the other checkup modules), showing (checkup/command.py).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from ...errors import LoopwrightError
from ...extensions import LoadedExtensions
from ...models import Models
from ..models.choice import Chosen
from ..settings.files import LoadedSettings

__all__ = ["Check", "Checked", "Learned", "Level", "checked"]

Level = Literal["ok", "note", "warning", "problem"]
"""A problem keeps something from working; a warning is lived with; a note is only good to know."""


class Checked(NamedTuple):
    """One thing that was looked at."""

    area: str
    """A word: what it is about."""
    level: Level
    message: str
    hint: str | None = None
    """What to do about it."""


@dataclass
class Learned:
    """What one check has found out and later ones need. None: it could not be found out."""

    ask: bool
    """The user wants the model to be asked."""
    folder: Path | None = None
    """Where the command was started."""
    trusted: bool = False
    settings: LoadedSettings | None = None
    extensions: LoadedExtensions | None = None
    models: Models | None = None
    default_model: str | None = None
    """What the user's models.toml names."""
    chosen: Chosen | None = None
    """The model that a run would ask, if it could."""


Check = Callable[[Learned], Iterable[Checked]]


def checked(area: str, check: Check, learned: Learned) -> Iterator[Checked]:
    """What *check* finds, one by one. Whatever it raises is a problem, and never raised.

    Of an error that is not one of ours only the type is told, and its text where it comes from the
    operating system: other texts may quote what they stumbled over.
    """
    try:
        yield from check(learned)
    except LoopwrightError as error:
        yield Checked(area, "problem", error.message, error.hint)
    except OSError as error:
        name = f"{error.filename}: " if isinstance(error.filename, str) else ""
        yield Checked(area, "problem", f"{name}{error.strerror or type(error).__name__}")
    except (Exception, SystemExit) as error:  # noqa: BLE001 - a doctor does not die of the illness
        yield Checked(
            area,
            "problem",
            f"this could not be looked at: {type(error).__name__}",
            "report this as a fault",
        )
