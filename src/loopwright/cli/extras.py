"""The command that installs what an optional part of loopwright needs."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

__all__ = ["install_command"]


def install_command(*extras: str) -> str:
    """How *extras* are installed here: from the package index, or from the folder that loopwright
    itself was installed from."""
    names = ",".join(extras)
    origin = _origin()
    folder = None if origin is None else _folder_of(origin)
    if origin is None or folder is None:
        return f"pip install 'loopwright[{names}]'"
    option = "-e " if origin["dir_info"].get("editable") else ""
    if folder == Path.cwd():
        return f"pip install {option}'.[{names}]'"
    return f"pip install {option}{shlex.quote(f'{folder}[{names}]')}"


def _origin() -> dict[str, Any] | None:
    """What the installer wrote down, if it was a folder; see PEP 610."""
    from importlib import metadata

    try:
        written = metadata.distribution("loopwright").read_text("direct_url.json")
        origin: Any = json.loads(written or "null")
    except (metadata.PackageNotFoundError, OSError, ValueError):
        return None
    if isinstance(origin, dict) and isinstance(origin.get("dir_info"), dict):  # pyright: ignore[reportUnknownMemberType]
        return origin  # pyright: ignore[reportUnknownVariableType]
    return None


def _folder_of(origin: dict[str, Any]) -> Path | None:
    """It may have been moved or deleted since then."""
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    folder = Path(url2pathname(urlsplit(str(origin.get("url", ""))).path))
    return folder if (folder / "pyproject.toml").is_file() else None
