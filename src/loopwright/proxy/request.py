"""The body of a request to a proxy, written and read.                                        (pure)

It is JSON in pi's words: `{model, context, options}`, camelCase throughout, options that are not
set left out. Some of our wires bear other names there; both are understood. Of the model only its
vendor and id are believed: where it is, what it costs and how to get in is the server's business.

Not here: the events of the answer (event_writer, event_reader), or who may ask (server).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

import msgspec

from ..errors import DecodeError, Misuse
from ..messages import AssistantMessage, Message, ToolResultMessage
from ..models.model import Context, Model, ThinkingLevel, ToolSpec
from ..records import decode_tagged, to_jsonable
from .headers import forwardable

__all__ = ["FULL_HEADER", "PATH", "ProxyRequest", "decode_request", "encode_request"]

PATH = "/api/stream"

FULL_HEADER = "x-loopwright-proxy"
"""Sent by our client and our server, each to tell the other that the fields which pi's protocol
lacks are understood; without it the shapes are exactly pi's."""

_PIS_NAMES = {
    "openai-chat": "openai-completions",
    "google-gemini": "google-generative-ai",
    "bedrock-converse": "bedrock-converse-stream",
}
_OUR_NAMES = {theirs: ours for ours, theirs in _PIS_NAMES.items()}

_OPTIONS: dict[str, tuple[str, Any]] = {
    "temperature": ("temperature", float),
    "sampling_params": ("samplingParams", dict[str, Any]),
    "max_tokens": ("maxTokens", int),
    "reasoning": ("reasoning", ThinkingLevel),
    "cache": ("cacheRetention", Literal["none", "short", "long"]),
    "session_id": ("sessionId", str),
    "headers": ("headers", dict[str, Any]),
    "metadata": ("metadata", dict[str, Any]),
    "transport": ("transport", str),
    "thinking_budgets": ("thinkingBudgets", dict[str, int]),
    "max_retry_delay_ms": ("maxRetryDelayMs", float),
    "tool_choice": ("toolChoice", Any),  # pi's protocol lacks it; its servers pass over it
}
"""What is carried: our name, the name in the body, the type."""

_FOR_ONE_SIDE_ONLY = frozenset({
    "api_key", "env", "max_retries", "timeout_ms", "signal", "on_response",
})  # fmt: skip
"""Options that concern the client's own process, or are the server's to decide."""


class ProxyRequest(msgspec.Struct, frozen=True):
    """What a client asks for. The options bear our names."""

    provider: str
    model: str
    context: Context
    options: dict[str, Any]


def encode_request(model: Model, context: Context, options: Mapping[str, Any]) -> bytes:
    """The body of a request. Raises `Misuse` for an option that the protocol does not carry."""
    sent: dict[str, Any] = {}
    for name, value in options.items():
        if value is None or name in _FOR_ONE_SIDE_ONLY:
            continue
        if name not in _OPTIONS:
            raise Misuse(
                f"a proxy does not carry the option {name!r}",
                hint=f"it takes: {', '.join(sorted(_OPTIONS))}",
            )
        if name == "headers":
            value = forwardable(value)
            if not value:
                continue
        elif name == "reasoning" and value == "off":  # pi says so by leaving it out
            continue
        sent[_OPTIONS[name][0]] = to_jsonable(value)
    said: dict[str, Any] = {
        "systemPrompt": to_jsonable(context.system_prompt),
        "messages": [_message(message) for message in context.messages],
        "tools": [tool.to_dict(camel=True) for tool in context.tools],
    }
    return msgspec.json.encode({"model": _model(model), "context": said, "options": sent})


def _model(model: Model) -> dict[str, Any]:
    """*model* with every field that pi's own servers count on, 0 where nothing is known."""
    cost = model.cost
    levels = model.thinking_levels or {}
    written: dict[str, Any] = {
        "id": model.id,
        "name": model.name or model.id,
        "api": _PIS_NAMES.get(model.api, model.api),
        "provider": model.provider,
        "baseUrl": "",
        "reasoning": any(word is not None for level, word in levels.items() if level != "off"),
        "input": list(model.input),
        "cost": {
            "input": (cost and cost.input) or 0,
            "output": (cost and cost.output) or 0,
            "cacheRead": (cost and cost.cache_read) or 0,
            "cacheWrite": (cost and cost.cache_write) or 0,
        },
        "contextWindow": model.context_window or 0,
        "maxTokens": model.max_tokens or 0,
    }
    if levels:
        written["thinkingLevelMap"] = levels
    return written


def _message(message: Message) -> dict[str, Any]:
    if isinstance(message, ToolResultMessage) and message.details is not None:
        message = msgspec.structs.replace(message, details=None)  # never shown to a model
    written = message.to_dict(camel=True)
    if isinstance(message, AssistantMessage):
        written["api"] = _PIS_NAMES.get(message.api, message.api)
    return written


# -- reading -----------------------------------------------------------------------------------


def decode_request(body: bytes) -> ProxyRequest:
    """What *body* asks for. Raises `DecodeError`, whose text names what is wrong and quotes
    nothing of what was said."""
    try:
        document: Any = msgspec.json.decode(body)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise DecodeError(f"the body is not valid JSON: {error}") from error
    fields = _object(document, "the body")
    model = _object(fields.get("model"), "model")
    provider, model_id = model.get("provider"), model.get("id")
    if not isinstance(provider, str) or not isinstance(model_id, str) or not provider:
        raise DecodeError("model: needs the texts 'provider' and 'id'")
    return ProxyRequest(
        provider,
        model_id,
        _context(_object(fields.get("context"), "context")),
        _options(_object(fields.get("options") or {}, "options")),
    )


def _object(value: Any, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DecodeError(f"{where}: expected an object, got {_kind(value)}")
    return cast("dict[str, Any]", value)


def _list(value: Any, where: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise DecodeError(f"{where}: expected a list, got {_kind(value)}")
    return cast("list[Any]", value)


def _kind(value: Any) -> str:
    return "nothing" if value is None else type(value).__name__


def _context(fields: dict[str, Any]) -> Context:
    prompt = fields.get("systemPrompt", fields.get("system_prompt")) or ""
    if not isinstance(prompt, str):
        raise DecodeError(f"context.systemPrompt: expected a text, got {_kind(prompt)}")
    messages: list[Message] = []
    for i, item in enumerate(_list(fields.get("messages"), "context.messages")):
        where = f"context.messages[{i}]"
        data = _object(item, where)
        if isinstance(data.get("api"), str):
            data = {**data, "api": _OUR_NAMES.get(data["api"], data["api"])}
        messages.append(decode_tagged(Message, data, where))
    tools = [
        decode_tagged(ToolSpec, _object(item, f"context.tools[{i}]"), f"context.tools[{i}]")
        for i, item in enumerate(_list(fields.get("tools"), "context.tools"))
    ]
    return Context(prompt, messages, tools)


def _options(fields: dict[str, Any]) -> dict[str, Any]:
    """The options that are carried; others are passed over, as newer clients may send more."""
    options: dict[str, Any] = {}
    for name, (written, kind) in _OPTIONS.items():
        value = fields.get(written)
        if value is None:
            continue
        try:
            value = msgspec.convert(value, kind)
        except msgspec.ValidationError as error:
            raise DecodeError(f"options.{written}: {error}") from error
        options[name] = forwardable(value) if name == "headers" else value
    return options
