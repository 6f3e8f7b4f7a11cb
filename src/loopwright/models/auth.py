"""Where the key of a request comes from.

In this order: the option `api_key` (an agent's `get_api_key` ends up there), what the provider's
row gives, the provider's environment variables, the user's credential file. It is asked anew for
every request, since tokens expire during long runs. Keys are never logged and never shown.

Not here: how a key is sent (the wires), the file (credentials.py), tokens that end (tokens.py).
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..errors import MissingKey
from .addresses import look_up
from .credentials import credential_file
from .provider import Provider
from .tokens import RefreshingToken, Token

__all__ = ["KeyStatus", "has_key", "key_status", "renewed_key", "resolve_key"]


class KeyStatus(NamedTuple):
    """Whether a key is there, and where it comes from or could: never the key itself."""

    present: bool
    source: str | None
    """A variable's name, `credentials file`, `configuration`, `identity`; None if none is needed
    and none is there. If it is missing, the variable to set."""


async def resolve_key(provider: Provider, options: Mapping[str, Any]) -> str | None:
    """The key to use. Raises `MissingKey` if *provider* needs one and none is found,
    `ConfigurationError` if the user's credential file cannot be used."""
    key: Any = options.get("api_key") or provider.api_key
    if callable(key):
        key = key()
        if inspect.isawaitable(key):
            key = await key
    if isinstance(key, Token):
        key = key.value
    if not key:
        found = look_up(provider.env, options.get("env"))
        key = found.value if found is not None else credential_file().key(provider.id)
    if not key and provider.needs_key:
        raise MissingKey(
            f"no API key for {provider.display_name}",
            hint=f"{how_to_give_a_key(provider)}; the model 'local' needs no key",
        )
    return key or None


async def renewed_key(
    provider: Provider, options: Mapping[str, Any], refused: str | None
) -> str | None:
    """Another key in place of the *refused* one; None where that is no token that can be renewed.

    Raises what fetching a token raises.
    """
    source = options.get("api_key") or provider.api_key
    if not refused or not isinstance(source, RefreshingToken):
        return None
    source.refused(refused)
    key = await source()
    return key if key != refused else None


def has_key(provider: Provider, env: Mapping[str, str] | None = None) -> bool:
    """Whether a request to *provider* would find the key it needs; nobody is asked for that."""
    return not provider.needs_key or key_status(provider, env).present


def key_status(provider: Provider, env: Mapping[str, str] | None = None) -> KeyStatus:
    """Whether *provider*'s key is there. Nobody is asked and nothing is fetched."""
    source = provider.api_key
    available = getattr(source, "available", None)  # a source of tokens may have it
    if available is not None:
        if available():
            return KeyStatus(True, "identity")
    elif source:
        return KeyStatus(True, "configuration")
    found = look_up(provider.env, env)
    if found is not None:
        return KeyStatus(True, found.name)
    if credential_file().key(provider.id):
        return KeyStatus(True, "credentials file")
    for group in provider.identities:
        if all(look_up([name], env) for name in group):
            return KeyStatus(True, group[0])
    if not provider.needs_key and not provider.identities:
        return KeyStatus(True, None)
    groups = [group[0] for group in provider.identities]
    return KeyStatus(False, next(iter([*provider.env, *groups]), None))


def how_to_give_a_key(provider: Provider) -> str:
    """What to do where *provider*'s key is missing."""
    if provider.key_hint:
        return f"{provider.key_hint}; pass one as api_key=..."
    if provider.env:
        return (
            f"set {' or '.join(provider.env)}, say `loopwright keys set {provider.id}`, "
            "or pass api_key=..."
        )
    return "pass api_key=... to the provider or to the request"
