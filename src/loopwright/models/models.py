"""`Models`: the vendors a program knows, and one stream function for all their models.

A request is made sendable, given its key, encoded by its wire, sent, decoded, and tried again as
the rules of retry.py say. Whatever fails after that ends the stream with `Error`; nothing is
raised for a failed request.

Not here: vendors (provider.py), dialects (wires), the rules of trying again (retry.py).
"""

from __future__ import annotations

import asyncio
import dataclasses
import inspect
import random
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Mapping
from functools import cache
from typing import Any

import msgspec

from ..errors import AuthenticationFailed, ConfigurationError, Misuse, ModelError
from ..messages import AssistantMessage
from ..stream import AssistantMessageEvent, AssistantStream, Done, Error, ReplyBuilder
from .abort import AbortWatch
from .auth import renewed_key, resolve_key
from .clients import Clients
from .directory import ProviderDirectory
from .failures import classify, redact
from .fallback import FallbackModels
from .handoff import sendable
from .model import Context, Model
from .offline import check_request_allowed
from .price_list import price_list
from .provider import Endpoint, Provider
from .retry import BatchSource, RetryPolicy, retrying
from .schema_dialects import tells_schema
from .wires import COMMON_OPTIONS, Response, WireCall, known_wires, load_wire

__all__ = ["Models", "ResponseHead", "default_models"]

DRAIN_SECONDS = 0.1
"""How long the end of a body is waited for after the reply is complete, so that the connection can
serve the next request."""


class ResponseHead(msgspec.Struct, frozen=True):
    """What the option `on_response` is shown."""

    status: int
    headers: dict[str, str]


_MADE_THEIR_DIALECT = frozenset({"openai", "anthropic", "google", "google-vertex"})


class Models(ProviderDirectory):
    """Vendors, and their models behind one stream function. Safe to use from several loops."""

    def __init__(
        self,
        providers: Iterable[Provider] = (),
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
        random: Callable[[], float] = random.random,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(providers)
        self._clients = Clients()
        self._sleep = sleep
        self._random = random
        self._clock = clock

    def require(self, model: Model) -> None:
        """Raise `ModelNotFound` or `ConfigurationError` if a request to *model* could never be
        sent: its vendor or its wire is unknown. Says nothing about keys."""
        provider = self.provider_of(model)
        if provider.stream is None and model.api not in known_wires():
            load_wire(model.api)

    def takes_output_schema(self, model: Model) -> bool:
        """Whether *model* can be told a JSON Schema for its reply, as the option `output_schema`.

        True for the vendors that made the dialects; others say so with the flag `output_schema`.
        """
        provider = self.get_provider(model.provider)
        if provider is None or provider.stream is not None or model.api not in known_wires():
            return False
        if "output_schema" not in load_wire(model.api).options:
            return False
        flags = provider.flags_for(model)
        return bool(flags.get("output_schema", model.provider in _MADE_THEIR_DIALECT))

    def can_tell(self, model: Model, schema: dict[str, Any]) -> bool:
        """Whether *schema* can be the `output_schema` of a request to *model* without losing
        values that it allows, such as the entries of a dict."""
        return tells_schema(schema, model.api)

    # -- asking ---------------------------------------------------------------------------------

    def stream(self, model: Model | str, context: Context, /, **options: Any) -> AssistantStream:
        """Ask *model*. The stream ends with `Done` or `Error`, whatever happens.

        Raises `ModelNotFound` only for a *model* given as a text that names none. The options are
        those of every stream function; a wire may take more, and names those it does not know.
        """
        if isinstance(model, str):
            model, level = self.resolve_with_level(model)
            if level is not None:
                options.setdefault("reasoning", level)
        asked = model
        watch = AbortWatch(options)

        def attempt() -> BatchSource:
            return self._attempt(asked, context, options, watch)

        source = retrying(
            attempt,
            RetryPolicy.from_options(options),
            watch,
            sleep=self._sleep,
            random=self._random,
        )
        head = AssistantMessage([], model.api, model.provider, model.id)
        stream = AssistantStream(source, head=head)
        watch.stream = stream
        return stream

    stream_simple = stream

    async def complete(
        self, model: Model | str, context: Context, /, **options: Any
    ) -> AssistantMessage:
        """Ask *model* and wait for the whole reply. Look at its stop reason: a failed request
        gives a message, too."""
        return await self.stream(model, context, **options).result()

    def with_fallback(self, models: Iterable[Model | str]) -> FallbackModels:
        """The same, with *models* to be asked in turn if the one asked for cannot answer now.

        `Agent("acme/large", stream_fn=models.with_fallback(["other/small"]))` is all it takes.
        Raises `ModelNotFound` at once for a name that means nothing. See fallback.py.
        """
        return FallbackModels(
            self, models, attempt=self._attempt, sleep=self._sleep, random=self._random
        )

    async def aclose(self) -> None:
        """Close all connections. Not needed under `asyncio.run`, which tells us when a loop ends;
        idempotent, works from any loop, and later requests open new ones."""
        await self._clients.aclose()

    async def __aenter__(self) -> Models:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.aclose()

    # -- one attempt ----------------------------------------------------------------------------

    async def _attempt(
        self, model: Model, context: Context, options: dict[str, Any], watch: AbortWatch
    ) -> AsyncGenerator[list[AssistantMessageEvent], None]:
        """One request and its answer. Every failure becomes an `Error` in band."""
        builder = ReplyBuilder(api=model.api, provider=model.provider, model=model.id)
        if watch.aborted:
            yield [builder.error("Operation aborted", reason="aborted")]
            return
        secrets = _Secrets(options)
        opened: list[Any] = []  # what must be closed, whatever happens
        try:
            provider = self.provider_of(model)
            if not provider.scripted:
                check_request_allowed(f"{model.provider}/{model.id}", None)
            if provider.stream is not None:
                stream: Any = provider.stream(model, context, **options)
                if inspect.isawaitable(stream):
                    stream = await stream
                opened.append(stream)
                async for batch in _batches(stream):
                    yield batch
                return
            response, call = await self._send(provider, model, context, options, secrets)
            opened.append(response)
            # Some hosts do not say that the limit cut a reply; then one must know what it was.
            flags = {**call.flags, "max_tokens": call.options.get("max_tokens")}
            decoder = load_wire(model.api).decoder(builder, flags)
            chunks = response.chunks()
            async for chunk in chunks:
                batch = decoder.feed(chunk)
                if decoder.ended:
                    await _drain(chunks)
                    await price_list().ready()
                    yield self._closing(batch, provider, call, secrets)
                    return
                yield batch
            await price_list().ready()
            yield self._closing(decoder.finish(), provider, call, secrets)
        except Exception as error:  # noqa: BLE001 - vendors' libraries and hooks raise anything
            yield [self._failed(error, builder, model, secrets)]
        finally:
            for resource in opened:
                await resource.aclose()

    async def _send(
        self,
        provider: Provider,
        model: Model,
        context: Context,
        options: dict[str, Any],
        secrets: _Secrets,
    ) -> tuple[Response, WireCall]:
        wire = load_wire(model.api)
        unknown = sorted(options.keys() - COMMON_OPTIONS - wire.options)
        if unknown:
            raise Misuse(
                f"the wire {wire.api} does not know the option {', '.join(map(repr, unknown))}",
                hint=f"beside the common ones it takes: {', '.join(sorted(wire.options))}",
            )
        endpoint, flags = await self._endpoint(provider, model, options)
        secrets.add(endpoint)
        check_request_allowed(f"{model.provider}/{model.id}", endpoint.base_url)
        call = WireCall(
            model=model,
            context=context,
            messages=sendable(context.messages, model),
            options=options,
            flags=flags,
            endpoint=endpoint,
            clients=self._clients,
        )
        body = wire.encode(call)
        on_payload = options.get("on_payload")
        if on_payload is not None:
            changed = await _resolved(on_payload(msgspec.json.decode(body), model))
            if changed is not None:
                body = msgspec.json.encode(changed)
        if provider.price_list is not None:
            price_list().load()
        try:
            response = await wire.send(call, body)
        except Exception as error:
            key = await self._key_instead(error, provider, call)
            if key is None:
                raise
            call.endpoint = dataclasses.replace(call.endpoint, api_key=key)
            secrets.add(call.endpoint)
            response = await wire.send(call, body)
        on_response = options.get("on_response")
        if on_response is not None:
            try:
                head = ResponseHead(response.status, dict(response.headers))
                await _resolved(on_response(head, model))
            except BaseException:
                await response.aclose()
                raise
        return response, call

    async def _endpoint(
        self, provider: Provider, model: Model, options: Mapping[str, Any]
    ) -> tuple[Endpoint, Mapping[str, Any]]:
        if provider.prepare is None or options.get("base_url"):
            prepared = Endpoint(None)  # a request that says where it goes needs nothing brought up
        else:
            prepared = await provider.prepare()
        dialect, env = provider.dialect(model.api), options.get("env")
        headers = {
            name: provider.address.fill(value, provider.display_name, env)
            for name, value in provider.headers.items()
        }
        key = None if options.get("api_key") else prepared.api_key
        if not key:
            key = await resolve_key(provider, options)
        endpoint = Endpoint(
            base_url=options.get("base_url")
            or prepared.base_url
            or model.base_url
            or provider.address.base_url(dialect.base_url, provider.display_name, env),
            api_key=key,
            headers={**headers, **prepared.headers, **(options.get("headers") or {})},
            model_id=prepared.model_id or dialect.flags.get("deployments", {}).get(model.id),
        )
        flags = provider.flags_for(model)
        return endpoint, {**flags, **prepared.flags} if prepared.flags else flags

    async def _key_instead(
        self, error: Exception, provider: Provider, call: WireCall
    ) -> str | None:
        """A new token where *error* says that the old one is refused; None for all else."""
        failure = classify(error, now=self._clock())
        if not isinstance(failure, AuthenticationFailed) or failure.status != 401:
            return None
        return await renewed_key(provider, call.options, call.endpoint.api_key)

    # -- endings --------------------------------------------------------------------------------

    def _closing(
        self,
        batch: list[AssistantMessageEvent],
        provider: Provider,
        call: WireCall,
        secrets: _Secrets,
    ) -> list[AssistantMessageEvent]:
        """*batch*, whose last event closes the stream, with the price and without secrets."""
        last, model = batch[-1], call.model
        asked_long = call.options.get("cache") == "long"
        long_cache = asked_long and call.flags.get("long_cache") is not False
        if type(last) is Done:
            usage = price_list().priced(last.message.usage, model, provider, long_cache=long_cache)
            if usage is not last.message.usage:
                batch[-1] = Done(last.reason, msgspec.structs.replace(last.message, usage=usage))
        elif type(last) is Error:
            message = last.error
            text = _named(model, secrets.cut(message.error_message or "the request failed"))
            usage = price_list().priced(message.usage, model, provider, long_cache=long_cache)
            message = msgspec.structs.replace(message, error_message=text, usage=usage)
            batch[-1] = msgspec.structs.replace(last, error=message)
        return batch

    def _failed(
        self, error: Exception, builder: ReplyBuilder, model: Model, secrets: _Secrets
    ) -> AssistantMessageEvent:
        failure = classify(error, now=self._clock(), provider=model.provider, model=model.id)
        text = secrets.cut(str(failure))
        if isinstance(failure, ModelError):
            return builder.error(
                _named(model, text),
                kind=failure.kind,
                retryable=failure.retryable,
                retry_after_seconds=failure.retry_after_seconds,
            )
        kind = "configuration" if isinstance(failure, ConfigurationError) else "misuse"
        return builder.error(text, kind=kind)


class _Secrets:
    """What must not appear in any text about this request."""

    __slots__ = ("_headers", "_keys")

    def __init__(self, options: Mapping[str, Any]) -> None:
        key = options.get("api_key")
        self._keys: list[str] = [key] if isinstance(key, str) else []
        self._headers: dict[str, str] = dict(options.get("headers") or {})

    def add(self, endpoint: Endpoint) -> None:
        if endpoint.api_key:
            self._keys.append(endpoint.api_key)
        self._headers.update(endpoint.headers)

    def cut(self, text: str) -> str:
        for key in self._keys:
            text = redact(text, api_key=key)
        return redact(text, headers=self._headers)


def _named(model: Model, text: str) -> str:
    """*text* with the model in front: at night one wants to know who said it."""
    name = f"{model.provider}/{model.id}"
    return text if text.startswith(name) else f"{name}: {text}"


async def _resolved(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


async def _batches(stream: AssistantStream) -> AsyncGenerator[list[AssistantMessageEvent], None]:
    while True:
        batch = await stream.next_batch()
        if batch is None:
            return
        yield batch


async def _drain(chunks: Any) -> None:
    """Read what is left of a body, so that the connection is free again; not for long."""
    try:
        async with asyncio.timeout(DRAIN_SECONDS):
            async for _ in chunks:
                pass
    except Exception:  # noqa: BLE001 - the reply is complete; nothing about its rest matters
        return


@cache
def default_models() -> Models:
    """The vendors that are known: the small local model, and those of the table, which are served
    as soon as there is a key. One for the whole process, made when first asked for."""
    from .builtin import builtin_providers
    from .vendors import vendor_table

    models = Models(builtin_providers())
    models.add_source(vendor_table())
    return models
