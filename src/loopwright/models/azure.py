"""OpenAI's models on Azure: a row like any other, with Azure's own address and keys.

Azure speaks the same two dialects. What differs is data: every customer has a host, a model is
asked for by the name of its deployment, and the key goes into a header of its own or is a token of
Microsoft Entra. https://learn.microsoft.com/azure/ai-foundry/openai/api-version-lifecycle

Not here: what is sent and read (the wires).
"""

from __future__ import annotations

import asyncio
import importlib
import os
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

from ..errors import ConfigurationError, MissingExtra
from .model import Model
from .provider import Dialect, KeySource, Provider
from .url_parts import host_label

__all__ = ["azure_base_url", "azure_provider", "entra_tokens"]

ENTRA_SCOPE = "https://cognitiveservices.azure.com/.default"
REFRESH_SECONDS_BEFORE_END = 300
"""A token is renewed so long before it ends, so that none ends in the middle of a request."""

_ENDPOINTS = ("AZURE_OPENAI_BASE_URL", "AZURE_OPENAI_ENDPOINT")
_RESOURCES = ("AZURE_OPENAI_RESOURCE_NAME", "AZURE_RESOURCE_NAME")
_DEPLOYMENTS = "AZURE_OPENAI_DEPLOYMENT_NAME_MAP"
_AZURE_HOSTS = (".openai.azure.com", ".cognitiveservices.azure.com", ".ai.azure.com")
_KEYS = ("AZURE_OPENAI_API_KEY", "AZURE_API_KEY")

_RESPONSES_FLAGS = {"reasoning_replay": "encrypted", "prompt_cache_key": True}
_CHAT_FLAGS = {"developer_role": False, "store": True, "strict_tools": True}


def azure_provider(
    endpoint: str | None = None,
    *,
    id: str = "azure",
    api_key: KeySource | None = None,
    entra: bool = False,
    deployments: Mapping[str, str] | None = None,
    api_version: str | None = None,
    api: str = "openai-responses",
    models: Iterable[Model] = (),
) -> Provider:
    """OpenAI's models at an Azure resource.

    *endpoint* is its URL or the resource's name, by default what the environment says.
    *deployments* says under which name a model is deployed, where that is not the model's own.
    The key is *api_key*, else from the environment; with *entra* it is a token of Microsoft Entra,
    from *api_key* if given, such as `entra_tokens(credential)`. *api_version* is only for
    resources that lack the versionless API. *api* is the wire for models that do not name one.

    Raises `ConfigurationError` if no endpoint is known.
    """
    base_url = azure_base_url(endpoint, versioned=api_version is not None)
    common: dict[str, Any] = {"deployments": dict(deployments or _deployments_from_environment())}
    if not entra:
        common["key_header"] = "api-key"
    paths: dict[str, dict[str, Any]] = {"openai-chat": {}, "openai-responses": {}}
    if api_version is not None:
        common["query"] = {"api-version": api_version}
        paths["openai-chat"]["path"] = "/deployments/{model}/chat/completions"
    flags = {
        "openai-responses": {**_RESPONSES_FLAGS, **common, **paths["openai-responses"]},
        "openai-chat": {**_CHAT_FLAGS, **common, **paths["openai-chat"]},
    }
    return Provider(
        id=id,
        name="Azure OpenAI",
        api=api,
        base_url=base_url,
        flags=flags[api],
        other_dialects=tuple(
            Dialect(other, base_url, flags[other]) for other in flags if other != api
        ),
        env=() if entra else _KEYS,
        api_key=entra_tokens() if entra and api_key is None else api_key,
        models=tuple(models),
        any_model=True,
    )


def azure_base_url(endpoint: str | None = None, *, versioned: bool = False) -> str:
    """The base URL of a resource, given as its URL or its name, or in the environment.

    A URL that only names the host gets the path of the API; *versioned*: of the one that wants an
    `api-version`. Raises `ConfigurationError` if nothing says where the resource is.
    """
    if endpoint is None:
        endpoint = next((os.environ[n] for n in _ENDPOINTS + _RESOURCES if os.environ.get(n)), None)
    if not endpoint:
        raise ConfigurationError(
            "no endpoint of Azure OpenAI is known",
            hint=f"pass it, or set {_ENDPOINTS[1]} or {_RESOURCES[0]}",
        )
    if "://" not in endpoint:
        endpoint = f"https://{host_label(endpoint, 'Azure resource')}.openai.azure.com"
    endpoint = endpoint.rstrip("/")
    url = urlsplit(endpoint)
    if (url.hostname or "").endswith(_AZURE_HOSTS) and url.path in ("", "/openai"):
        endpoint = f"{url.scheme}://{url.netloc}/openai{'' if versioned else '/v1'}"
    return endpoint


def entra_tokens(
    credential: Any = None, *, scope: str = ENTRA_SCOPE
) -> Callable[[], Awaitable[str]]:
    """A source of tokens of Microsoft Entra, to be used as an `api_key`.

    *credential* has a `get_token(scope)` as those of `azure.identity` do, whose default is taken if
    none is given. A token is kept until shortly before it ends; one refresh runs at a time.

    Raises `MissingExtra`, when a token is wanted, if `azure-identity` is not installed.
    """
    lock = threading.Lock()
    kept: list[Any] = [credential, None]  # the credential and its present token

    def current() -> str:
        with lock:
            if kept[0] is None:
                kept[0] = _default_credential()
            token = kept[1]
            if token is None or token.expires_on - time.time() < REFRESH_SECONDS_BEFORE_END:
                token = kept[1] = kept[0].get_token(scope)
            return token.token

    async def source() -> str:
        return await asyncio.to_thread(current)  # it may ask the network, or start a program

    return source


def _default_credential() -> Any:
    try:
        identity: Any = importlib.import_module("azure.identity")
    except ImportError as error:
        raise MissingExtra(
            "tokens of Microsoft Entra need azure-identity, which is not installed",
            hint="pip install 'loopwright[azure]'",
        ) from error
    return identity.DefaultAzureCredential()


def _deployments_from_environment() -> dict[str, str]:
    """`model=deployment` pairs, parted by commas."""
    pairs = (pair.partition("=") for pair in os.environ.get(_DEPLOYMENTS, "").split(","))
    return {model.strip(): name.strip() for model, equals, name in pairs if equals and name.strip()}
