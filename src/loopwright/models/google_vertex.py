"""Google's models on Vertex AI: a row like any other, with Vertex's own address and tokens.

Vertex speaks the dialect of the Gemini API. What differs is data: the address names a project and
a location, and the key is an access token of the application default credentials, or in express
mode an API key. https://docs.cloud.google.com/vertex-ai/generative-ai/docs/start

Not here: what is sent and read (the wires).
"""

from __future__ import annotations

import asyncio
import importlib
import os
import threading
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from ..errors import ConfigurationError, MissingExtra
from .model import Model
from .provider import KeySource, Provider
from .url_parts import host_label

__all__ = ["google_tokens", "vertex_base_url", "vertex_provider"]

CLOUD_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
DEFAULT_LOCATION = "global"
EXPRESS_URL = "https://aiplatform.googleapis.com/v1/publishers/google"

_PROJECTS = ("GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")
_LOCATION = "GOOGLE_CLOUD_LOCATION"
_KEY = "GOOGLE_CLOUD_API_KEY"
_MULTI_REGIONS = ("us", "eu")

_FLAGS = {
    "dialect": "google-vertex",
    "reasoning_replay": "signature",
    "tool_call_id": {"pattern": "^[a-zA-Z0-9_-]+$", "max": 64},
}


def vertex_provider(
    project: str | None = None,
    location: str | None = None,
    *,
    id: str = "google-vertex",
    api_key: KeySource | None = None,
    credentials: Any = None,
    models: Iterable[Model] = (),
) -> Provider:
    """Google's models in a Google Cloud *project* at a *location*, by default what the environment
    says, or `global`.

    Requests carry an access token of *credentials*, which are those of `google.auth`, by default
    the application default credentials. With *api_key*, or one in the environment and no project,
    it is express mode: the key alone, without a project.

    Raises `ConfigurationError` if neither a project nor a key is known.
    """
    project = project or _from_environment(*_PROJECTS)
    if api_key is None and project is None:
        api_key = _from_environment(_KEY)
    express = api_key is not None
    base_url = EXPRESS_URL if express else vertex_base_url(project, location)
    return Provider(
        id=id,
        name="Google Vertex AI",
        api="google-gemini",
        base_url=base_url,
        flags={**_FLAGS, "auth": "x-goog-api-key" if express else "google-adc"},
        api_key=api_key if express else google_tokens(credentials),
        models=tuple(models),
        any_model=True,
    )


def vertex_base_url(
    project: str | None = None, location: str | None = None, *, publisher: str = "google"
) -> str:
    """The base URL of a publisher's models in a project. Raises `ConfigurationError` if nothing
    says which project."""
    project = project or _from_environment(*_PROJECTS)
    if not project:
        raise ConfigurationError(
            "no project of Google Cloud is known",
            hint=f"pass it, or set {_PROJECTS[0]}; with an API key set {_KEY} instead",
        )
    project = host_label(project, "Google Cloud project")
    location = location or _from_environment(_LOCATION) or DEFAULT_LOCATION
    location = host_label(location, "Google Cloud location")
    if location == "global":
        host = "aiplatform.googleapis.com"
    elif location in _MULTI_REGIONS:
        host = f"aiplatform.{location}.rep.googleapis.com"
    else:
        host = f"{location}-aiplatform.googleapis.com"
    return f"https://{host}/v1/projects/{project}/locations/{location}/publishers/{publisher}"


def google_tokens(credentials: Any = None) -> Callable[[], Awaitable[str]]:
    """A source of access tokens of Google, to be used as an `api_key`.

    *credentials* are those of `google.auth`; the application default credentials are taken if none
    are given. A token is kept until shortly before it ends; one refresh runs at a time.

    Raises `MissingExtra`, when a token is wanted, if `google-auth` is not installed, and
    `ConfigurationError` if there are no credentials.
    """
    lock = threading.Lock()
    kept: list[Any] = [credentials]

    def current() -> str:
        with lock:
            auth, transport = _load_google_auth()
            if kept[0] is None:
                kept[0] = _default_credentials(auth)
            if not kept[0].valid:  # false already some minutes before the end
                kept[0].refresh(transport.Request())
            return kept[0].token

    async def source() -> str:
        return await asyncio.to_thread(current)  # it may read files and ask the network

    return source


def _load_google_auth() -> tuple[Any, Any]:
    try:
        auth = importlib.import_module("google.auth")
        return auth, importlib.import_module("google.auth.transport.requests")
    except ImportError as error:
        raise MissingExtra(
            "tokens of Google need google-auth with requests, which is not installed",
            hint="pip install 'loopwright[google]'",
        ) from error


def _default_credentials(auth: Any) -> Any:
    try:
        return auth.default(scopes=[CLOUD_SCOPE])[0]
    except auth.exceptions.DefaultCredentialsError as error:
        raise ConfigurationError(
            f"no credentials of Google were found: {error}",
            hint="run `gcloud auth application-default login`, or set "
            "GOOGLE_APPLICATION_CREDENTIALS to the file of a service account",
        ) from error


def _from_environment(*names: str) -> str | None:
    return next((os.environ[name] for name in names if os.environ.get(name)), None)
