"""What the environment and the user's folders say. Read here and nowhere else in the command line."""

from __future__ import annotations

import os
from pathlib import Path

from ..errors import ConfigurationError

__all__ = [
    "MODEL_VARIABLE",
    "grants_file",
    "model_from_environment",
    "project_models_file",
    "project_settings_file",
    "sessions_file",
    "shown_path",
    "trust_file",
    "user_models_file",
    "user_settings_file",
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


def user_settings_file() -> Path:
    """`settings.toml` beside the user's models.toml."""
    return _base_folder("XDG_CONFIG_HOME", ".config") / "loopwright" / "settings.toml"


def project_settings_file(folder: Path) -> Path:
    """`.loopwright/settings.toml` in the folder of a project."""
    return folder / ".loopwright" / "settings.toml"


def grants_file() -> Path:
    """`grants.toml`, the rules that the user granted with "always". Kept where keys are."""
    return _kept("grants.toml")


def trust_file() -> Path:
    """`trust.json`, the folders that the user trusts. Kept where keys are."""
    return _kept("trust.json")


def shown_path(path: Path) -> str:
    """*path* for people: `~` for the user's home. Not neutralized for a terminal."""
    try:
        return str(Path("~") / path.relative_to(Path.home()))
    except (ValueError, RuntimeError):  # elsewhere, or there is no home
        return str(path)


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


def _kept(name: str) -> Path:
    """A file that the program keeps by itself: in `$LOOPWRIGHT_HOME`, as the keys are, else in the
    user's configuration folder. What people write by hand does not move with that variable."""
    home = os.environ.get("LOOPWRIGHT_HOME", "").strip()
    if home:
        return Path(home).expanduser().absolute() / name
    return _base_folder("XDG_CONFIG_HOME", ".config") / "loopwright" / name


def _base_folder(variable: str, *below_home: str) -> Path:
    xdg = os.environ.get(variable, "")
    # The specification says to ignore a relative path there.
    return Path(xdg) if os.path.isabs(xdg) else Path.home().joinpath(*below_home)
