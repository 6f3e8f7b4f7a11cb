"""What the environment and the user's folders say. Read here and nowhere else in the command line."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["MODEL_VARIABLE", "model_from_environment", "project_models_file", "user_models_file"]

MODEL_VARIABLE = "LOOPWRIGHT_MODEL"


def model_from_environment() -> str | None:
    """The model to use when the command line names none."""
    return os.environ.get(MODEL_VARIABLE, "").strip() or None


def user_models_file() -> Path:
    """`loopwright/models.toml` in the user's configuration folder (XDG base directories)."""
    xdg = os.environ.get("XDG_CONFIG_HOME", "")
    # The specification says to ignore a relative path there.
    base = Path(xdg) if os.path.isabs(xdg) else Path.home() / ".config"
    return base / "loopwright" / "models.toml"


def project_models_file() -> Path:
    """`.loopwright/models.toml` in the folder the command was started in."""
    return Path(".loopwright") / "models.toml"
