"""The vendors and models the command line knows: ours, the user's file, a trusted project's."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ...models import Models, default_models
from ..places import project_models_file, user_models_file, working_folder
from ..streams import print_note
from .file import add_project_models, add_user_models

__all__ = ["Known", "add_known", "known_models"]


class Known(NamedTuple):
    """Where models can be asked for."""

    models: Models
    default: str | None
    """The model that the user's file names."""


def known_models() -> Models:
    """All of them. Raises `ConfigurationError` for a file that cannot be read."""
    from ..settings.trust import is_trusted

    return add_known(default_models(), trusted=is_trusted(working_folder()), tell=print_note).models


def add_known(models: Models, *, trusted: bool, tell: Callable[[str], object]) -> Known:
    """Add the user's file to *models*, and that of the project, if it is *trusted*. *tell* is given
    notes. Raises `ConfigurationError`."""
    default = add_user_models(models, user_models_file())
    if trusted:
        add_project_models(models, project_models_file(), tell)
    return Known(models, default)
