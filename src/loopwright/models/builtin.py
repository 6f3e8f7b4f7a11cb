"""The vendor that is there without any set-up.                                         (data)

`local` runs a small model on this machine. All others stand in the table of vendors.py.
"""

from __future__ import annotations

from .model import Model
from .provider import Endpoint, Provider

__all__ = ["builtin_providers"]


def builtin_providers() -> list[Provider]:
    """Its row; nothing is started or imported for it."""
    return [_local()]


def _local() -> Provider:
    model = Model(
        "local",
        "smollm2-135m-instruct",
        "openai-chat",
        name="SmolLM2 135M Instruct, on this machine",
        context_window=8192,
        max_tokens=2048,
        thinking_levels={},
    )
    return Provider(
        id="local",
        name="Local model",
        api="openai-chat",
        needs_key=False,
        flags={
            "max_tokens_field": "max_tokens",
            "reasoning_effort": False,
            "body_defaults": _SHORT_AND_REPEATABLE,
        },
        models=(model,),
        prepare=_start_local_server,
        ready=_local_is_installed,
    )


_SHORT_AND_REPEATABLE = {"temperature": 0, "repeat_penalty": 1.1, "max_tokens": 512}
"""A model this small answers at random when it samples, and tells a long story without an end."""


async def _start_local_server() -> Endpoint:
    from .local import ensure_local_server

    server = await ensure_local_server()
    return Endpoint(server.base_url, server.api_key, model_id=server.model_id)


def _local_is_installed() -> bool:
    from importlib.util import find_spec

    return find_spec("xllamacpp") is not None
