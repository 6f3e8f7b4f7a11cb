"""The dialects vendors speak. A wire turns a request into bytes, and bytes into events.

Encoding and decoding are pure and can be tried without a network; `send` is the only part that
waits, and goes through the vendor's own client library for authentication, proxies and status
errors. To add a wire: write a module with an object that fits `Wire`, and name it in `_MODULES`.
It is imported when a model that needs it is first asked.

Not here: trying again, keys, which host (Models, Provider).
"""

from __future__ import annotations

import importlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

from ...errors import ConfigurationError
from ...stream import AssistantMessageEvent, ReplyBuilder
from ..clients import Clients
from ..handoff import MessageView
from ..model import Context, Model
from ..provider import Endpoint

__all__ = ["COMMON_OPTIONS", "Decoder", "Response", "Wire", "WireCall", "known_wires", "load_wire"]

_MODULES = {
    "anthropic-messages": "anthropic_messages",
    "bedrock-converse": "bedrock_converse",
    "google-gemini": "google_gemini",
    "mistral": "mistral",
    "openai-chat": "openai_chat",
    "openai-responses": "openai_responses",
}

COMMON_OPTIONS = frozenset({
    "api_key", "reasoning", "thinking_budgets", "temperature", "max_tokens", "sampling_params",
    "tool_choice", "cache", "session_id", "headers", "metadata", "transport", "base_url", "env",
    "timeout_ms", "max_retries", "max_retry_delay_ms", "retry_after_content", "on_payload", "on_response", "signal",
})  # fmt: skip
"""Options of a stream function that every wire takes, each as far as its vendor allows."""


@dataclass(slots=True)
class WireCall:
    """One request, with everything a wire needs to write and send it."""

    model: Model
    context: Context
    messages: MessageView
    """The context's messages, made sendable to `model`."""
    options: Mapping[str, Any]
    flags: Mapping[str, Any]
    """The vendor's quirks on this wire."""
    endpoint: Endpoint
    """Where it goes, with the key."""
    clients: Clients


class Response(Protocol):
    """The head of a successful answer, its body still on the way."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Mapping[str, str]:
        """With lower-case names."""
        ...

    def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes, content decoding undone."""
        ...

    async def aclose(self) -> None:
        """Let go of the connection at once, whatever is still to come."""
        ...


class Decoder(Protocol):
    """Reads one response body. Pure: cut anywhere, the same bytes give the same events."""

    ended: bool
    """The closing event was given; what the body still holds is not read."""

    def feed(self, chunk: bytes) -> list[AssistantMessageEvent]:
        """The events that are complete with *chunk*; none at all is a sign of life."""
        ...

    def finish(self) -> list[AssistantMessageEvent]:
        """The body is over: the rest, with `Done` or `Error` last. Not called once `ended`."""
        ...


class Wire(Protocol):
    """One dialect. `options` names what it takes beyond `COMMON_OPTIONS`."""

    api: str
    options: frozenset[str]

    def encode(self, call: WireCall) -> bytes:
        """The body of the request. Raises `Misuse` for an option it cannot express."""
        ...

    def decoder(self, builder: ReplyBuilder, flags: Mapping[str, Any]) -> Decoder:
        """A decoder for one answer, which writes into *builder*."""
        ...

    async def send(self, call: WireCall, body: bytes) -> Response:
        """Send the request; returns once the answer's head is there. Raises what its client
        library raises for connection faults and error statuses (failures.py sorts them out),
        `MissingExtra` if that library is not installed."""
        ...


def known_wires() -> list[str]:
    """The ids of all wires."""
    return sorted(_MODULES)


def load_wire(api: str) -> Wire:
    """The wire with the id *api*. Raises `ConfigurationError` if there is none."""
    module = _MODULES.get(api)
    if module is None:
        raise ConfigurationError(
            f"no wire is named {api!r}", hint=f"known wires: {', '.join(known_wires())}"
        )
    return cast("Wire", importlib.import_module(f".{module}", __name__).wire)
