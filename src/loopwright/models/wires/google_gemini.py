"""Gemini: the dialect of Google's models, at the Gemini API, on Vertex and behind gateways.

This module sends; `google_gemini_encode` writes the body and `google_gemini_decode` reads the
answer. Google's SDK has no public way to send bytes of ours, and builds objects of each chunk; so
the request is our own, on the HTTP client that all wires share. Its URL never holds the key.

Vertex is the same dialect at another address with another kind of key: see `google_vertex`.

Flags read here: `auth` (how the key is sent: `x-goog-api-key`, which is also meant by `api-key`;
`bearer`, also meant by `google-adc`; `none`; of a list the first that is known), `extra_headers`,
`session_affinity`.
"""

from __future__ import annotations

import re
import time
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar
from urllib.parse import urlsplit

from ...errors import ConfigurationError, InvalidRequest, MissingExtra, ModelError
from ...stream import ReplyBuilder
from ..url_parts import path_part, path_parts
from . import Decoder, WireCall
from .google_gemini_decode import GeminiDecoder
from .google_gemini_encode import encode, forget_signatures, sends_signatures
from .google_gemini_failures import failure_of_answer

if TYPE_CHECKING:
    import httpx2

__all__ = ["GeminiResponse", "GoogleGemini", "SignatureRefused", "wire"]

DEFAULT_VERSION = "/v1beta"
"""For a base URL that names only the host."""


class SignatureRefused(InvalidRequest):
    """The vendor takes the signature of an earlier reply no longer.

    The same transcript can be sent once more without it, which the next attempt does.
    """

    kind: ClassVar[str] = "signature"
    retryable = True


class GoogleGemini:
    """See `wires.Wire`."""

    api = "google-gemini"
    options = frozenset({
        "output_schema", "server_tools", "safety_settings", "cached_content", "replay_thinking",
        "extra_body",
    })  # fmt: skip

    def encode(self, call: WireCall) -> bytes:
        return encode(call)

    def decoder(self, builder: ReplyBuilder, flags: Mapping[str, Any]) -> Decoder:
        return GeminiDecoder(builder)

    async def send(self, call: WireCall, body: bytes) -> GeminiResponse:
        url, headers = _url(call), _headers(call)
        try:
            client = await call.clients.http()
        except MissingExtra as error:
            raise MissingExtra(
                "the wire google-gemini needs the HTTP library httpx2, which is not installed",
                hint="pip install 'loopwright[google]'",
            ) from error
        timeout_ms = call.options.get("timeout_ms")
        timeout: dict[str, Any] = {} if timeout_ms is None else {"timeout": timeout_ms / 1000}
        request = client.build_request("POST", url, content=body, headers=headers, **timeout)
        # A redirect could carry the key to another host.
        response = await client.send(request, stream=True, follow_redirects=False)
        if response.is_success:
            return GeminiResponse(response)
        try:
            said = await response.aread()
        finally:
            await response.aclose()
        raise _failure(call, response, said)


class GeminiResponse:
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


# -- faults ------------------------------------------------------------------------------------

_SIGNATURE_FAULT = re.compile(r"thought[ _]?signature", re.I)


def _failure(call: WireCall, response: httpx2.Response, body: bytes) -> ModelError:
    """What to raise for an answer that is no success."""
    headers = {name.lower(): value for name, value in response.headers.items()}
    failure = failure_of_answer(
        response.status_code,
        headers,
        body,
        now=time.time(),
        provider=call.model.provider,
        model=call.model.id,
    )
    refused = response.status_code == 400 and _SIGNATURE_FAULT.search(str(failure))
    if not refused or not sends_signatures(call):
        return failure
    forget_signatures(call)
    return SignatureRefused(
        f"{failure} (signatures of earlier replies are left out from now on)",
        provider=call.model.provider,
        model=call.model.id,
        status=400,
        retry_after_seconds=0.0,
        retryable=True,
    )


# -- address and headers -----------------------------------------------------------------------


_RESOURCE = re.compile(
    r"(projects/[^/]+/locations/[^/]+/)?"
    r"(models|tunedModels|endpoints|publishers/[^/]+/models)/[^/:]+"
)
"""An id that says itself in which collection the model is."""


def _url(call: WireCall) -> str:
    """Where to post. Raises `ConfigurationError` without a base URL."""
    base = (call.endpoint.base_url or "").rstrip("/")
    if not base:
        raise ConfigurationError(
            f"the provider {call.model.provider!r} has no base URL",
            hint="give it one: Provider(id, api='google-gemini', base_url=...)",
        )
    if not urlsplit(base).path:
        base += DEFAULT_VERSION
    name = call.endpoint.model_id or call.model.id
    if _RESOURCE.fullmatch(name):
        name = path_parts(name, "model id")
    else:
        name = f"models/{path_part(name, 'model id')}"
    return f"{base}/{name}:streamGenerateContent?alt=sse"


_KEY_HEADERS = {
    "x-goog-api-key": "x-goog-api-key",
    "api-key": "x-goog-api-key",
    "bearer": "authorization",
    "google-adc": "authorization",
    "none": None,
}


def _headers(call: WireCall) -> dict[str, str]:
    headers = {"content-type": "application/json"}
    key, told = call.endpoint.api_key, call.flags.get("auth")
    styles: list[Any] = [told] if isinstance(told, str) else list(told or ())
    style = next((style for style in styles if style in _KEY_HEADERS), "x-goog-api-key")
    name = _KEY_HEADERS[style]
    if key and name:
        headers[name] = f"Bearer {key}" if name == "authorization" else key
    session = call.options.get("session_id")
    if session and call.options.get("cache", "short") != "none":
        affinity = call.flags.get("session_affinity")
        if affinity:
            short = affinity == "openrouter"
            headers["x-session-id" if short else "x-session-affinity"] = str(session)
    extra: Mapping[str, str] = call.flags.get("extra_headers") or {}
    for given in (extra, call.endpoint.headers):
        headers.update({name.lower(): value for name, value in given.items()})
    return headers


wire = GoogleGemini()
