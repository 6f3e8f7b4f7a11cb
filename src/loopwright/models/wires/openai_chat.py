"""Chat Completions: the dialect of OpenAI's older API, which most other hosts speak.

This module sends; `openai_chat_encode` writes the body and `openai_chat_decode` reads the answer.
The request goes through the openai SDK's public `post` with our own bytes, so that authentication,
proxies and the reading of error answers stay the SDK's, while neither its request models nor its
stream objects cost anything. Its retries are off: ours serve all wires alike.

Further flags read here: `session_affinity`, `extra_headers`, `key_header` (the header for the key,
in place of `Authorization`), `key_prefix` (what stands before it there), `path` (below the base
URL, with `{model}` in it), `query`.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, cast

from ...errors import ConfigurationError, MissingExtra
from ...stream import ReplyBuilder
from ..url_parts import path_part
from . import Decoder, WireCall
from .openai_chat_decode import ChatDecoder
from .openai_chat_encode import encode

if TYPE_CHECKING:
    import httpx2
    import openai

__all__ = ["OpenAIResponse", "openai_client", "post", "wire"]

NO_KEY = "no-key"
"""The SDK wants a key to be made; the header it would go into is left out."""


class OpenAIChat:
    """See `wires.Wire`."""

    api = "openai-chat"
    options = frozenset({"output_schema", "response_format", "parallel_tool_calls", "extra_body"})

    def encode(self, call: WireCall) -> bytes:
        return encode(call)

    def decoder(self, builder: ReplyBuilder, flags: Mapping[str, Any]) -> Decoder:
        return ChatDecoder(builder, flags)

    async def send(self, call: WireCall, body: bytes) -> OpenAIResponse:
        return await post(call, "/chat/completions", body)


async def post(call: WireCall, path: str, body: bytes) -> OpenAIResponse:
    """Send *body* to *path* below the endpoint's base URL, through the SDK's client."""
    client = await openai_client(call)
    httpx2, sdk = await _load_sdk()
    headers = {**_left_out(call, sdk.Omit()), **_headers(call)}
    options: dict[str, Any] = {"headers": headers, "max_retries": 0}
    key_header = call.flags.get("key_header")
    if key_header and call.endpoint.api_key:
        key = call.flags.get("key_prefix", "") + call.endpoint.api_key
        headers = {"Authorization": sdk.Omit(), key_header: key, **headers}
        # A client follows redirects without `Authorization`, but knows of no other secret header.
        options.update(headers=headers, follow_redirects=False)
    if call.flags.get("query"):
        options["params"] = dict(call.flags["query"])
    if call.flags.get("path"):
        name = path_part(call.endpoint.model_id or call.model.id, "model id")
        path = call.flags["path"].replace("{model}", name)
    timeout_ms = call.options.get("timeout_ms")
    if timeout_ms is not None:
        options["timeout"] = timeout_ms / 1000
    response = await client.post(
        path,
        content=body,
        cast_to=httpx2.Response,
        stream=True,
        stream_cls=sdk.AsyncStream[object],
        options=cast("Any", options),
    )
    return OpenAIResponse(response)


class OpenAIResponse:
    """The head of an answer, and its body on the way. See `wires.Response`."""

    __slots__ = ("_response", "headers", "status")

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self.status: int = response.status_code
        self.headers: Mapping[str, str] = response.headers

    def chunks(self) -> AsyncIterator[bytes]:
        return self._response.aiter_raw()  # the client has unpacked it (bodies.py)

    async def aclose(self) -> None:
        await self._response.aclose()


async def openai_client(call: WireCall) -> openai.AsyncOpenAI:
    """The SDK's client for the call's endpoint and key on the running event loop.

    Raises `MissingExtra` if the SDK is not installed, `ConfigurationError` without a base URL.
    """
    endpoint = call.endpoint
    if not endpoint.base_url:
        raise ConfigurationError(
            f"the provider {call.model.provider!r} has no base URL",
            hint="give it one: Provider.openai_compatible(id, base_url=...)",
        )
    _, sdk = await _load_sdk()

    def make(http: httpx2.AsyncClient) -> openai.AsyncOpenAI:
        return sdk.AsyncOpenAI(
            api_key=endpoint.api_key or NO_KEY,
            base_url=endpoint.base_url,
            max_retries=0,
            http_client=http,
        )

    return await call.clients.get(("openai", endpoint.base_url, endpoint.api_key), make)


def _left_out(call: WireCall, omit: Any) -> dict[str, Any]:
    """Headers the SDK would add from the user's OpenAI account, and which no other host may see."""
    endpoint = call.endpoint
    names: list[str] = [] if endpoint.api_key else ["Authorization"]
    if not (endpoint.base_url or "").startswith("https://api.openai.com/"):
        names += ["OpenAI-Organization", "OpenAI-Project"]
        for line in os.environ.get("OPENAI_CUSTOM_HEADERS", "").split("\n"):
            name, colon, _ = line.partition(":")
            if colon and name.strip().lower() != "authorization":
                names.append(name.strip())
    return dict.fromkeys(names, omit)


def _headers(call: WireCall) -> dict[str, str]:
    headers: dict[str, str] = dict(call.flags.get("extra_headers") or {})
    session = call.options.get("session_id")
    if session and call.options.get("cache", "short") != "none":
        affinity = call.flags.get("session_affinity")
        responses = call.model.api == "openai-responses"
        if affinity == "openai":
            headers["session-id" if responses else "session_id"] = str(session)
        if affinity in ("openai", "openai-nosession"):
            headers["x-client-request-id"] = str(session)
            if not responses:
                headers["x-session-affinity"] = str(session)
        elif affinity == "openrouter":
            headers["x-session-id"] = str(session)
        elif affinity == "x-session-affinity":
            headers["x-session-affinity"] = str(session)
    headers.update(call.endpoint.headers)
    return headers


_loaded: tuple[Any, Any] | None = None


async def _load_sdk() -> tuple[Any, Any]:
    """httpx2 and openai, imported in a thread the first time: it takes most of a second."""
    global _loaded
    if _loaded is None:
        try:
            _loaded = await asyncio.to_thread(_import_sdk)
        except ImportError as error:
            raise MissingExtra(
                "the wires of OpenAI need the openai SDK, which is not installed",
                hint="pip install 'loopwright[openai]'",
            ) from error
    return _loaded


def _import_sdk() -> tuple[Any, Any]:
    import httpx2
    import openai

    return httpx2, openai


wire = OpenAIChat()
