"""What the environment and the user's folders say. Read here and nowhere else in the command line."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import ConfigurationError

__all__ = [
    "MODEL_VARIABLE",
    "model_from_environment",
    "project_models_file",
    "sessions_file",
    "user_models_file",
    "working_folder",
]

MODEL_VARIABLE = "LOOPWRIGHT_MODEL"


def model_from_environment() -> str | None:
    """The model to use when the command line names none."""
    return os.environ.get(MODEL_VARIABLE, "").strip() or None


def user_models_file() -> Path:
    """`loopwright/models.toml` in the user's configuration folder (XDG base directories)."""
    return _base_folder("XDG_CONFIG_HOME", ".config") / "loopwright" / "models.toml"


def project_models_file() -> Path:
    """`.loopwright/models.toml` in the folder the command was started in."""
    return Path(".loopwright") / "models.toml"


def sessions_file() -> Path:
    """The database of sessions: `sessions.db` in `$LOOPWRIGHT_SESSION_DIR`, else in
    `$LOOPWRIGHT_HOME`, else in the user's data folder (XDG base directories)."""
    for name in ("LOOPWRIGHT_SESSION_DIR", "LOOPWRIGHT_HOME"):
        folder = os.environ.get(name, "").strip()
        if folder:
            return Path(folder).expanduser() / "sessions.db"
    return _base_folder("XDG_DATA_HOME", ".local", "share") / "loopwright" / "sessions.db"


def working_folder() -> Path:
    """Where the command was started. Raises `ConfigurationError` if that folder is gone."""
    try:
        return Path.cwd()
    except OSError as error:
        raise ConfigurationError(
            f"the working folder cannot be used: {error.strerror or error}",
            hint="cd somewhere else",
        ) from error


def _base_folder(variable: str, *below_home: str) -> Path:
    xdg = os.environ.get(variable, "")
    # The specification says to ignore a relative path there.
    return Path(xdg) if os.path.isabs(xdg) else Path.home().joinpath(*below_home)
