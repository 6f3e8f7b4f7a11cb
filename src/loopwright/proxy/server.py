"""The endpoint behind `stream_proxy`: the server's side, as an ASGI app.

Whoever brings a known bearer token may ask the models on offer; the server's own `Models` adds the
key, retries and counts. A request that cannot begin is refused with a status and `{"error": text}`;
once it has begun, everything comes in band. When the client leaves, the vendor's request is
aborted.

A client is not trusted: of its model only the name is used, so that no key can be lured to another
address, its headers are sifted, and keys, addresses and environment are no options of the protocol.

Not here: what goes over the wire (request, event_writer), TLS, or limits by client: put it behind
a server that does those.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import ConfigurationError, DecodeError, MissingExtra
from ..models.model import Context, Model
from ..models.url_parts import check_id
from ..signals import AbortController
from ..stream import AssistantStream
from .event_writer import ALIVE, KEEP_ALIVE, EventWriter
from .request import FULL_HEADER, PATH, ProxyRequest, decode_request

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp, Receive, Scope, Send

__all__ = ["Served", "proxy_app", "run_proxy"]

MAX_REQUEST_BYTES = 32 * 1024 * 1024
"""As much as the largest request a vendor takes (Anthropic: 32 MB)."""

KEEPALIVE_SECONDS = 15.0
BODY_SECONDS = 120.0
"""32 MB at 270 kB a second."""
ALIVE_SECONDS = 1.0
"""At most so often a vendor's bare sign of life is passed on."""

_log = logging.getLogger("loopwright")

Authorize = Callable[[str], bool | Awaitable[bool]]


class Served(Protocol):
    """What is asked: `Models`, or `Models.with_fallback(...)`."""

    def get_model(self, provider_id: str, model_id: str, /) -> Model | None:
        """The model of that name, None if there is none."""
        ...

    def stream(self, model: Model, context: Context, /, **options: Any) -> AssistantStream:
        """Ask it."""
        ...


def proxy_app(
    models: Served,
    *,
    allow_models: Iterable[str],
    tokens: Iterable[str] = (),
    authorize: Authorize | None = None,
    max_request_bytes: int = MAX_REQUEST_BYTES,
    keepalive_seconds: float = KEEPALIVE_SECONDS,
    body_seconds: float = BODY_SECONDS,
) -> Starlette:
    """An ASGI app that answers `POST /api/stream` from *models*.

    *allow_models* names what is on offer: `provider/model`, with `*` at the end for all that begin
    so. A client is let in if its bearer token is one of *tokens*, or if *authorize* says so of it
    (an exception there refuses, and is logged). Comments keep the connection open while the model
    is silent for *keepalive_seconds*. A body that takes longer than *body_seconds* is refused (408).

    Raises `ConfigurationError` if nobody could be let in or nothing is on offer, `MissingExtra`
    without Starlette.
    """
    try:
        from starlette.applications import Starlette
        from starlette.routing import Route
    except ImportError as error:
        raise _missing("starlette") from error
    if isinstance(tokens, str) or isinstance(allow_models, str):
        raise ConfigurationError("tokens and allow_models are lists of texts, not one text")
    endpoint = _Endpoint(
        models,
        _Door(tuple(tokens), authorize),
        tuple(allow_models),
        max_request_bytes,
        keepalive_seconds,
        body_seconds,
    )
    return Starlette(routes=[Route(PATH, endpoint.answer, methods=["POST"])])


def run_proxy(app: ASGIApp, *, host: str = "127.0.0.1", port: int = 8787) -> None:
    """Serve *app* with uvicorn until interrupted; on this machine only, unless *host* says else.

    Tokens and conversations go over the line as they are, so let others in through a server that
    speaks TLS. Raises `MissingExtra` without uvicorn.
    """
    try:
        import uvicorn
    except ImportError as error:
        raise _missing("uvicorn") from error
    uvicorn.run(app, host=host, port=port, log_level="warning", access_log=False)


def _missing(package: str) -> MissingExtra:
    return MissingExtra(
        f"serving a proxy needs {package}, which is not installed",
        hint="pip install 'loopwright[serve]'",
    )


class _Door:
    """Who may come in. Tokens are compared in constant time, all of them each time."""

    def __init__(self, tokens: tuple[str, ...], authorize: Authorize | None) -> None:
        if any(not token.strip() for token in tokens):
            raise ConfigurationError("an empty token would let everybody in")
        if not tokens and authorize is None:
            raise ConfigurationError(
                "a proxy needs to know whom to let in", hint="pass tokens=[...] or authorize=..."
            )
        self._digests = tuple(_digest(token) for token in tokens)
        self._authorize = authorize

    async def admits(self, authorization: str) -> bool:
        """Whether the header *authorization* has a token that is let in."""
        scheme, _, token = authorization.partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            return False
        digest = _digest(token)
        known = False
        for other in self._digests:  # no early way out: the time would tell which one it was
            known |= hmac.compare_digest(digest, other)
        if known or self._authorize is None:
            return known
        try:
            verdict = self._authorize(token)
            return (await verdict if inspect.isawaitable(verdict) else verdict) is True
        except Exception as error:  # noqa: BLE001 - the program's own function raises anything
            # Not its text: the token may stand in it.
            _log.error("authorize raised %s; the client was refused", type(error).__name__)
            return False


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()


class _TooLarge(Exception):
    pass


class _Endpoint:
    """The one route."""

    def __init__(
        self,
        models: Served,
        door: _Door,
        offered: tuple[str, ...],
        max_request_bytes: int,
        keepalive_seconds: float,
        body_seconds: float,
    ) -> None:
        if not offered:
            raise ConfigurationError(
                "a proxy that offers no model is of no use",
                hint="pass allow_models=['provider/model', 'provider/*']",
            )
        self._models = models
        self._door = door
        self._offered = offered
        self._max_request_bytes = max_request_bytes
        self._keepalive_seconds = keepalive_seconds
        self._body_seconds = body_seconds

    async def answer(self, request: Request) -> Response:
        """The stream, or a refusal. Who asks is looked at before anything else is read."""
        if not await self._door.admits(request.headers.get("authorization", "")):
            return _refused(401, "a known bearer token is needed", **{"WWW-Authenticate": "Bearer"})
        from starlette.requests import ClientDisconnect
        from starlette.responses import Response

        try:
            asked = decode_request(await self._body(request))
        except _TooLarge:
            most = self._max_request_bytes
            return _refused(413, f"a request may have {most} bytes", Connection="close")
        except DecodeError as error:
            return _refused(400, str(error))
        except ClientDisconnect:
            return Response(status_code=400)  # nobody is there to read it
        except TimeoutError:
            most = self._body_seconds
            return _refused(408, f"the body took more than {most:g} seconds", Connection="close")
        name = f"{asked.provider}/{asked.model}"
        try:
            check_id(asked.model, "model id")
        except ConfigurationError as error:
            return _refused(400, str(error))
        if not self._offers(name):
            return _refused(403, f"the model {name!r} is not on offer here")
        model = self._models.get_model(asked.provider, asked.model)
        if model is None:
            return _refused(404, f"no model is named {name!r}")
        full = FULL_HEADER in request.headers
        return _event_stream(self._models, model, asked, full, self._keepalive_seconds)

    async def _body(self, request: Request) -> bytes:
        length = request.headers.get("content-length", "")
        if length.isdigit() and int(length) > self._max_request_bytes:
            raise _TooLarge
        chunks: list[bytes] = []
        size = 0
        async with asyncio.timeout(self._body_seconds):
            async for chunk in request.stream():
                size += len(chunk)
                if size > self._max_request_bytes:
                    raise _TooLarge
                chunks.append(chunk)
        return b"".join(chunks)

    def _offers(self, name: str) -> bool:
        return any(
            name.startswith(offer[:-1]) if offer.endswith("*") else name == offer
            for offer in self._offered
        )


def _refused(status: int, text: str, **headers: str) -> Response:
    from starlette.responses import JSONResponse

    return JSONResponse({"error": text}, status_code=status, headers=headers)


def _event_stream(
    models: Served, model: Model, asked: ProxyRequest, full: bool, keepalive_seconds: float
) -> Response:
    from starlette.responses import Response

    class EventStream(Response):
        """Starlette's own streaming looks for a client that left only when it has news for it."""

        async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
            await _Answer(models, model, asked, full, keepalive_seconds, receive, send).run()

    return EventStream()


class _Answer:
    """One reply on its way to one client."""

    def __init__(
        self,
        models: Served,
        model: Model,
        asked: ProxyRequest,
        full: bool,
        keepalive_seconds: float,
        receive: Receive,
        send: Send,
    ) -> None:
        self._models = models
        self._model = model
        self._asked = asked
        self._full = full
        self._keepalive_seconds = keepalive_seconds
        self._receive = receive
        self._send = send
        self._controller = AbortController()
        self._sending = asyncio.Lock()
        self._last_sent = 0.0

    async def run(self) -> None:
        headers = [
            (b"content-type", b"text/event-stream; charset=utf-8"),
            (b"cache-control", b"no-cache, no-transform"),
            (b"x-accel-buffering", b"no"),  # nginx would wait until it has some kilobytes
        ]
        if self._full:
            headers.append((FULL_HEADER.encode(), b"1"))
        try:
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(self._watch_the_client())
                ticking = group.create_task(self._keep_alive())
                await self._pass_on()
                watching.cancel()
                ticking.cancel()
            await self._send({"type": "http.response.body", "body": b"", "more_body": False})
        except* OSError:
            pass  # the client is gone

    async def _pass_on(self) -> None:
        writer = EventWriter(self._model, full=self._full)
        signal = self._controller.signal
        stream = self._models.stream(
            self._model, self._asked.context, signal=signal, **self._asked.options
        )
        async with stream:
            while (batch := await stream.next_batch()) is not None:
                if signal.aborted:
                    return
                if batch:
                    await self._write(writer.write(batch))
                elif self._silent_for() >= ALIVE_SECONDS:
                    await self._write(ALIVE)

    async def _watch_the_client(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self._controller.abort("the client left")

    async def _keep_alive(self) -> None:
        while True:
            wait = self._keepalive_seconds - self._silent_for()
            if wait > 0:
                await asyncio.sleep(wait)
                continue
            await self._write(KEEP_ALIVE)

    def _silent_for(self) -> float:
        return asyncio.get_running_loop().time() - self._last_sent

    async def _write(self, body: bytes) -> None:
        async with self._sending:
            await self._send({"type": "http.response.body", "body": body, "more_body": True})
            self._last_sent = asyncio.get_running_loop().time()
