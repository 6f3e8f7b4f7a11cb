"""The vendors and models the command line knows: ours, the user's file, the project's."""

from __future__ import annotations

from ..models import Models, default_models
from .models_file import add_project_models, add_user_models
from .settings import project_models_file, user_models_file
from .streams import print_note

__all__ = ["known_models"]


def known_models() -> Models:
    """All of them. Raises `ConfigurationError` for a file that cannot be read."""
    models = default_models()
    add_user_models(models, user_models_file())
    add_project_models(models, project_models_file(), print_note)
    return models
