"""The provider `local`: a real small model on this machine, without key or network.

`ensure_local_server` gives a llama.cpp server that speaks the `openai-chat` wire on loopback,
starting it on first use; the weights are found or fetched before. Nothing here talks to a model:
the wires do that, as with any other vendor.
"""

from __future__ import annotations

from .model_file import LocalModelNotFetched, LocalModelUnavailable
from .server import (
    CONTEXT_WINDOW,
    MODEL_ID,
    LocalServer,
    can_run_locally,
    ensure_local_server,
    stop_local_server,
)

__all__ = [
    "CONTEXT_WINDOW",
    "MODEL_ID",
    "LocalModelNotFetched",
    "LocalModelUnavailable",
    "LocalServer",
    "can_run_locally",
    "ensure_local_server",
    "stop_local_server",
]
