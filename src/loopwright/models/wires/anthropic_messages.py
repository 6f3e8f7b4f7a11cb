"""Anthropic Messages: the dialect of Claude, and of many hosts that took it over.

This module sends; `anthropic_messages_encode` writes the body and `anthropic_messages_decode`
reads the answer. The request goes through the anthropic SDK's public `post` with our own bytes,
so that authentication, proxies and the reading of error answers stay the SDK's. Its retries are
off: ours serve all wires alike.

Anthropic itself gets the SDK's own headers. Other hosts mostly know the older ones: the key as
`x-api-key` and the API version 2023-06-01; a vendor's row says where that is different.

Flags read here: `auth` (how the key is sent: `bearer`, `x-api-key`, `cf-aig-authorization-bearer`,
`none`; of a list the first that is known), `anthropic_version`, `dialect` (`vertex`),
`session_affinity`, `extra_headers`, and by the decoder `message_stop`.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, cast
from urllib.parse import urlsplit

from ...errors import ConfigurationError, InvalidRequest, MissingExtra
from ...stream import ReplyBuilder
from ..failures import failure_from_response
from ..url_parts import path_part
from . import Decoder, WireCall
from .anthropic_messages_decode import MessagesDecoder
from .anthropic_messages_encode import encode, forget_thinking, samples, sends_thinking

if TYPE_CHECKING:
    import anthropic
    import httpx2

__all__ = ["AnthropicMessages", "AnthropicResponse", "SignatureRefused", "wire"]

OWN_HOST = "api.anthropic.com"
OLDER_VERSION = "2023-06-01"
"""What hosts know that took the dialect over, and the last version with sampling parameters."""

NO_KEY = "no-key"
"""The SDK looks for keys of its own if it is given none; the header it goes into is left out."""


class SignatureRefused(InvalidRequest):
    """The vendor takes the signature of earlier thinking no longer.

    The same transcript can be sent once more without it, which the next attempt does.
    """

    kind: ClassVar[str] = "signature"
    retryable = True


class AnthropicMessages:
    """See `wires.Wire`."""

    api = "anthropic-messages"
    options = frozenset({
        "output_schema", "parallel_tool_calls", "server_tools", "betas", "replay_thinking",
        "extra_body",
    })  # fmt: skip

    def encode(self, call: WireCall) -> bytes:
        return encode(call)

    def decoder(self, builder: ReplyBuilder, flags: Mapping[str, Any]) -> Decoder:
        return MessagesDecoder(builder, flags)

    async def send(self, call: WireCall, body: bytes) -> AnthropicResponse:
        httpx2, sdk = await _load_sdk()
        secret, headers = _headers(call, sdk.omit)
        client = await _client(call, secret)
        options: dict[str, Any] = {"headers": headers, "max_retries": 0}
        timeout_ms = call.options.get("timeout_ms")
        if timeout_ms is not None:
            options["timeout"] = timeout_ms / 1000
        try:
            response = await client.post(
                _path(call),
                content=body,
                cast_to=httpx2.Response,
                stream=True,
                stream_cls=sdk.AsyncStream[object],
                options=cast("Any", options),
            )
        except sdk.BadRequestError as error:
            refused = _signature_refused(error, call)
            if refused is None:
                raise
            raise refused from error
        return AnthropicResponse(response)


class AnthropicResponse:
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


# -- signatures --------------------------------------------------------------------------------

_SIGNATURE_FAULT = re.compile(
    r"\bsignature\b|thinking.{0,200}(?:cannot be modified|mismatch)|redacted_thinking.{0,200}invalid"
    r"|invalid.{0,200}redacted_thinking",
    re.I | re.S,
)


def _signature_refused(error: Any, call: WireCall) -> SignatureRefused | None:
    """What to raise so that the request is made once more, without past thinking; None if it is
    some other fault, or there was none in it."""
    headers = {str(name).lower(): str(value) for name, value in error.response.headers.items()}
    failure = failure_from_response(
        error.status_code, headers, error.body, now=0.0, model=call.model.id
    )
    text = str(failure)
    if not _SIGNATURE_FAULT.search(text) or "thinking" not in text or not sends_thinking(call):
        return None
    forget_thinking(call)
    return SignatureRefused(
        f"{text} (earlier thinking is left out from now on)",
        provider=call.model.provider,
        model=call.model.id,
        status=error.status_code,
        request_id=failure.request_id,
        retry_after_seconds=0.0,
        retryable=True,
    )


# -- address and headers -----------------------------------------------------------------------


def _path(call: WireCall) -> str:
    """Where to post, below the base URL, which some people write with the version."""
    if call.flags.get("dialect") == "vertex":
        name = path_part(call.endpoint.model_id or call.model.id, "model id")
        return f"/models/{name}:streamRawPredict"
    versioned = (call.endpoint.base_url or "").rstrip("/").endswith("/v1")
    return "/messages" if versioned else "/v1/messages"


def _is_own_host(call: WireCall) -> bool:
    return urlsplit(call.endpoint.base_url or "").hostname == OWN_HOST


_SECRET = re.compile(r"auth|key|token|secret|cookie|credential", re.I)


def _headers(call: WireCall, omit: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """The secret headers, which belong to the client, and the others, which go with the request:
    the SDK writes those into its debug log."""
    own = _is_own_host(call)
    headers: dict[str, Any] = {}
    if not own:
        headers.update(dict.fromkeys(_custom_names(), omit))
    _put_over(headers, _key_headers(call, own, omit))
    version = call.flags.get("anthropic_version")
    if version is None and (not own or samples(call)):
        version = OLDER_VERSION
    if version:
        headers["anthropic-version"] = str(version)
    betas: Any = call.options.get("betas")
    if betas:
        headers["anthropic-beta"] = betas if isinstance(betas, str) else ",".join(betas)
    _put_over(headers, cast("Mapping[str, str]", call.flags.get("extra_headers") or {}))
    session = call.options.get("session_id")
    if session and call.options.get("cache", "short") != "none":
        affinity = call.flags.get("session_affinity")
        if affinity == "openrouter":
            headers["x-session-id"] = str(session)
        elif affinity:
            headers["x-session-affinity"] = str(session)
    _put_over(headers, call.endpoint.headers)
    secret = {name: value for name, value in headers.items() if _SECRET.search(name)}
    return secret, {name: value for name, value in headers.items() if name not in secret}


def _put_over(headers: dict[str, Any], given: Mapping[str, Any]) -> None:
    """*given* goes over what stands in *headers*, however the names are written."""
    names = {name.lower() for name in given}
    for name in [name for name in headers if name.lower() in names]:
        del headers[name]
    headers.update(given)


_AUTH_STYLES = ("bearer", "x-api-key", "cf-aig-authorization-bearer", "none")


def _key_headers(call: WireCall, own: bool, omit: Any) -> dict[str, Any]:
    """The key, the way the host wants it; the SDK itself sends it as a bearer token."""
    key = call.endpoint.api_key
    told: Any = call.flags.get("auth")
    styles = [told] if isinstance(told, str) else [str(style) for style in told or ()]
    known = [style for style in styles if style in _AUTH_STYLES]
    style = known[0] if known else "bearer" if own or _is_vertex(call) else "x-api-key"
    if own and "bearer" in known:
        style = "bearer"
    if not key or style == "none":
        return {"Authorization": omit}
    if style == "x-api-key":
        return {"x-api-key": key, "Authorization": omit}
    if style == "cf-aig-authorization-bearer":
        return {"cf-aig-authorization": f"Bearer {key}", "Authorization": omit}
    return {}


def _is_vertex(call: WireCall) -> bool:
    return call.flags.get("dialect") == "vertex"


def _custom_names() -> list[str]:
    """Headers the SDK takes from the user's environment, and which no other host may see."""
    lines = os.environ.get("ANTHROPIC_CUSTOM_HEADERS", "").split("\n")
    pairs = [line.partition(":") for line in lines]
    return [name.strip() for name, colon, _ in pairs if colon and name.strip()]


async def _client(call: WireCall, secret: dict[str, Any]) -> anthropic.AsyncAnthropic:
    """The SDK's client for the call's endpoint, key and *secret* headers on the running loop.

    Raises `MissingExtra` if the SDK is not installed, `ConfigurationError` without a base URL.
    """
    endpoint = call.endpoint
    if not endpoint.base_url:
        raise ConfigurationError(
            f"the provider {call.model.provider!r} has no base URL",
            hint="give it one: Provider(id, api='anthropic-messages', base_url=...)",
        )
    _, sdk = await _load_sdk()

    def make(http: httpx2.AsyncClient) -> anthropic.AsyncAnthropic:
        return sdk.AsyncAnthropic(
            api_key=endpoint.api_key or NO_KEY,
            base_url=endpoint.base_url,
            max_retries=0,
            default_headers=secret,
            http_client=http,
            open_telemetry=False,
        )

    known_by = ("anthropic", endpoint.base_url, endpoint.api_key, *sorted(secret.items(), key=str))
    return await call.clients.get(known_by, make)


_loaded: tuple[Any, Any] | None = None


async def _load_sdk() -> tuple[Any, Any]:
    """httpx2 and anthropic, imported in a thread the first time: it takes more than a second."""
    global _loaded
    if _loaded is None:
        try:
            _loaded = await asyncio.to_thread(_import_sdk)
        except ImportError as error:
            raise MissingExtra(
                "the wire anthropic-messages needs the anthropic SDK, which is not installed",
                hint="pip install 'loopwright[anthropic]'",
            ) from error
    return _loaded


def _import_sdk() -> tuple[Any, Any]:
    import anthropic
    import httpx2

    return httpx2, anthropic


wire = AnthropicMessages()
