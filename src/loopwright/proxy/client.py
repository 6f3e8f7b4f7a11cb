"""A stream function that asks through a proxy: the client's side.

Every failure comes in band, as from any stream function. Nothing is tried again here: the server
does that, where the vendor's wishes are known. To try again when the server itself cannot be
reached, give this function to a provider (`Provider(id, stream=partial(stream_proxy, ...))`) and
ask through `Models`.

Not here: what goes over the wire (request, event_reader).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Mapping
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ..errors import ConfigurationError, LoopwrightError, ModelError
from ..messages import AssistantMessage
from ..models.abort import AbortWatch
from ..models.clients import Clients
from ..models.failures import classify, failure_from_response, redact
from ..models.model import Context, Model
from ..models.offline import check_request_allowed
from ..models.provider import KeySource
from ..signals import AbortSignal
from ..stream import AssistantMessageEvent, AssistantStream, Error, ReplyBuilder
from .event_reader import EventReader
from .request import FULL_HEADER, PATH, encode_request

if TYPE_CHECKING:
    import httpx2

__all__ = ["stream_proxy"]

DRAIN_SECONDS = 0.1
"""How long the end of a body is waited for after the reply is complete, so that the connection can
serve the next request."""

MOST_BYTES_OF_A_REFUSAL = 65_536

_clients = Clients()


def stream_proxy(
    model: Model,
    context: Context,
    *,
    proxy_url: str,
    auth_token: KeySource,
    signal: AbortSignal | None = None,
    **options: Any,
) -> AssistantStream:
    """Ask *model* through the proxy at *proxy_url*, such as `https://llm.example.com`.

    *auth_token* is the bearer token for the proxy, or what gives one when a request needs it. The
    options are those of every stream function, as far as they can be sent as JSON; one that cannot
    ends the stream with an error that names it. A vendor's key is never sent, nor are headers that
    may hold a credential. `timeout_ms` is for the connection to the proxy.
    """
    head = AssistantMessage([], model.api, model.provider, model.id)
    watch = AbortWatch({"signal": signal})
    stream = AssistantStream(_ask(model, context, proxy_url, auth_token, options, watch), head=head)
    watch.stream = stream
    return stream


async def _ask(
    model: Model,
    context: Context,
    proxy_url: str,
    auth_token: KeySource,
    options: Mapping[str, Any],
    watch: AbortWatch,
) -> AsyncGenerator[list[AssistantMessageEvent], None]:
    builder = ReplyBuilder(api=model.api, provider=model.provider, model=model.id)
    if watch.aborted:
        yield [builder.error("Operation aborted", reason="aborted")]
        return
    token: str | None = None
    response: httpx2.Response | None = None
    with watch:
        try:
            check_request_allowed(f"{model.provider}/{model.id}", proxy_url)
            token = await _token(auth_token)
            body = encode_request(model, context, options)
            response = await _send(proxy_url, token, body, options.get("timeout_ms"))
            if response.status_code != 200:
                raise await _refusal(response, model)
            reader = EventReader(model, builder, full=FULL_HEADER in response.headers)
            chunks = response.aiter_bytes()
            async for chunk in chunks:
                batch = reader.feed(chunk)
                if reader.ended:
                    await _drain(chunks)
                    yield _without(token, batch)
                    return
                if batch or reader.alive:
                    yield batch
            yield _without(token, reader.finish())
        except Exception as error:  # noqa: BLE001 - the HTTP library and token sources raise anything
            yield _without(token, [_failed(error, builder, model)])
        finally:
            if response is not None:
                await response.aclose()


async def _token(source: KeySource) -> str:
    token: Any = source
    if callable(token):
        token = token()
        if inspect.isawaitable(token):
            token = await token
    if not isinstance(token, str) or not token.strip():
        raise ConfigurationError(
            "Proxy auth token is required", hint="pass auth_token=..., the server's bearer token"
        )
    return token


async def _send(proxy_url: str, token: str, body: bytes, timeout_ms: Any) -> httpx2.Response:
    http = await _clients.http()
    request = http.build_request(
        "POST",
        proxy_url.rstrip("/") + PATH,
        content=body,
        headers={
            "Authorization": f"Bearer {token}",
            "Content-Type": "application/json",
            "Accept": "text/event-stream",
            FULL_HEADER: "1",
        },
        **({} if timeout_ms is None else {"timeout": timeout_ms / 1000}),
    )
    # Followed, a redirect would carry the whole conversation to a host that nobody named.
    return await http.send(request, stream=True, follow_redirects=False)


async def _refusal(response: httpx2.Response, model: Model) -> ModelError:
    """What an answer that is no stream means: the proxy's own words, else the status."""
    body = b""
    async for chunk in response.aiter_bytes():
        body += chunk
        if len(body) > MOST_BYTES_OF_A_REFUSAL:
            break
    headers = {name.lower(): value for name, value in response.headers.items()}
    text = body.decode("utf-8", "replace")
    status = response.status_code
    failure = failure_from_response(
        status, headers, text, now=0.0, provider=model.provider, model=model.id
    )
    told = _told(body) or f"{status} {response.reason_phrase}".strip()
    refusal = type(failure)(
        f"Proxy error: {told}",
        provider=model.provider,
        model=model.id,
        status=status,
        request_id=failure.request_id,
        retry_after_seconds=failure.retry_after_seconds,
        retryable=failure.retryable,
    )
    if status == 401:
        refusal.hint = "the proxy does not know this auth_token"
    elif 300 <= status < 400:
        refusal.hint = "redirects are not followed; give the proxy's own URL"
    return refusal


def _told(body: bytes) -> str | None:
    try:
        fields: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
    error: Any = cast("dict[str, Any]", fields).get("error") if isinstance(fields, dict) else None
    if isinstance(error, dict):
        error = cast("dict[str, Any]", error).get("message")
    return error if isinstance(error, str) and error else None


def _failed(error: Exception, builder: ReplyBuilder, model: Model) -> AssistantMessageEvent:
    failure: LoopwrightError = classify(error, now=0.0, provider=model.provider, model=model.id)
    if not isinstance(failure, ModelError):
        kind = "configuration" if isinstance(failure, ConfigurationError) else "misuse"
        return builder.error(str(failure), kind=kind)
    text = str(failure)
    return builder.error(
        text if text.startswith("Proxy error") else f"Proxy error: {text}",
        kind=failure.kind,
        retryable=failure.retryable,
        retry_after_seconds=failure.retry_after_seconds,
    )


def _without(token: str | None, batch: list[AssistantMessageEvent]) -> list[AssistantMessageEvent]:
    """*batch* with no token in the text of its error, should a server have echoed it."""
    last = batch[-1]
    if token and isinstance(last, Error) and last.error.error_message:
        text = redact(last.error.error_message, api_key=token)
        message = msgspec.structs.replace(last.error, error_message=text)
        batch[-1] = msgspec.structs.replace(last, error=message)
    return batch


async def _drain(chunks: Any) -> None:
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            async for _ in chunks:
                pass
    except Exception:  # noqa: BLE001 - the reply is complete; nothing about its rest matters
        return
