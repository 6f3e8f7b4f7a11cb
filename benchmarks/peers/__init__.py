"""The libraries that can be measured, one file each. Which are is up to what is installed."""

from __future__ import annotations

import importlib
import importlib.metadata
import pkgutil

from ..subject import Peer

__all__ = ["known_peers", "load_peer"]


def known_peers() -> list[str]:
    """The names of the files here, ours first."""
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    return sorted(names, key=lambda name: (name != "loopwright", name))


def load_peer(name: str) -> tuple[Peer, str] | str:
    """The peer in the file *name* with its version, or in words why it cannot be measured here.

    Several of them install packages of the same names, so presence is asked of the metadata.
    """
    distribution = name.replace("_", "-")
    try:
        version = importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        if name != "loopwright":
            return f"{distribution} is not installed here"
        version = "(source)"
    return importlib.import_module(f"{__name__}.{name}").PEER, version
