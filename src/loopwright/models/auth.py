"""Where the key of a request comes from.

In this order: the option `api_key` (an agent's `get_api_key` ends up there), what the provider's
row gives, the provider's environment variables. It is asked anew for every request, since tokens
expire during long runs. Keys are never logged and never shown.

Not here: how a key is sent (the wires).
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Mapping
from typing import Any

from ..errors import MissingKey
from .provider import Provider

__all__ = ["has_key", "resolve_key"]


async def resolve_key(provider: Provider, options: Mapping[str, Any]) -> str | None:
    """The key to use. Raises `MissingKey` if *provider* needs one and none is found."""
    key: Any = options.get("api_key") or provider.api_key
    if callable(key):
        key = key()
        if inspect.isawaitable(key):
            key = await key
    if not key:
        key = _from_environment(provider, options.get("env"))
    if not key and provider.needs_key:
        raise MissingKey(
            f"no API key for {provider.display_name}",
            hint=f"{_how_to_give_one(provider)}; the model 'local' needs no key",
        )
    return key or None


def has_key(provider: Provider, env: Mapping[str, str] | None = None) -> bool:
    """Whether a request to *provider* would find the key it needs; nothing is called for that."""
    return bool(not provider.needs_key or provider.api_key or _from_environment(provider, env))


def _from_environment(provider: Provider, env: Mapping[str, str] | None) -> str | None:
    places = (env, os.environ) if env else (os.environ,)
    for place in places:
        for name in provider.env:
            value = place.get(name, "").strip()
            if value:
                return value
    return None


def _how_to_give_one(provider: Provider) -> str:
    if provider.env:
        return f"set {' or '.join(provider.env)}, or pass api_key=..."
    return "pass api_key=... to the provider or to the request"
