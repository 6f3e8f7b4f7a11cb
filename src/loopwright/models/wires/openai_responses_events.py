"""Responses, answers: what of an event is read, and what its usage means.                  (pure)

Only the fields that are used are declared. Nearly all events are deltas, so these have a small
struct of their own; whatever holds a whole item or the whole response stays raw until it is wanted.
"""

from __future__ import annotations

from typing import Any, TypeVar, cast

import msgspec

from ...messages import Cost, Usage
from ..usage_counts import output_tokens
from .openai_chat_chunks import XAI_TICKS_PER_DOLLAR

__all__ = [
    "Delta",
    "Event",
    "Item",
    "ItemHead",
    "Part",
    "ResponseState",
    "arguments_text",
    "decode_delta",
    "decode_event",
    "decode_head",
    "decode_item",
    "decode_items",
    "decode_leniently",
    "decode_state",
    "usage_of",
]


class Delta(msgspec.Struct, gc=False):
    """A piece of text, thinking or arguments, and where it belongs."""

    type: str = ""
    delta: str | None = None
    item_id: str | None = None
    output_index: int | None = None
    content_index: int | None = None
    summary_index: int | None = None


class Event(msgspec.Struct):
    """Every other event."""

    type: str = ""
    item: msgspec.Raw = msgspec.Raw()
    response: msgspec.Raw = msgspec.Raw()
    part: msgspec.Raw = msgspec.Raw()
    text: str | None = None
    refusal: str | None = None
    arguments: Any = None
    error: Any = None
    code: Any = None
    message: Any = None
    output_index: int | None = None


class ItemHead(msgspec.Struct):
    type: str = ""
    id: str | None = None


class Part(msgspec.Struct):
    """A part of a message or of reasoning."""

    type: str = ""
    text: str | None = None
    refusal: str | None = None
    annotations: list[Any] | None = None


class Item(msgspec.Struct):
    """An item of a kind we take apart: a message, reasoning, or a call of one of our tools."""

    type: str = ""
    id: str | None = None
    call_id: str | None = None
    name: str | None = None
    arguments: Any = None
    input: str | None = None
    phase: str | None = None
    content: list[Part] | None = None
    summary: list[Part] | None = None
    caller: msgspec.Raw = msgspec.Raw()
    namespace: str | None = None


class ResponseState(msgspec.Struct):
    """What a response says about itself."""

    id: str | None = None
    model: str | None = None
    status: str | None = None
    error: Any = None
    incomplete_details: Any = None
    usage: Any = None
    output: msgspec.Raw = msgspec.Raw()


decode_head = msgspec.json.Decoder(ItemHead).decode
decode_items = msgspec.json.Decoder(list[msgspec.Raw]).decode
decode_state = msgspec.json.Decoder(ResponseState).decode

decode_delta = msgspec.json.Decoder(Delta).decode
_decode_event = msgspec.json.Decoder(Event).decode
_decode_item = msgspec.json.Decoder(Item).decode


def decode_event(data: bytes) -> Event:
    """*data*, without the fields whose type nobody expects."""
    try:
        return _decode_event(data)
    except msgspec.ValidationError:
        return _fit(Event, _object(data))


def decode_item(raw: msgspec.Raw) -> Item:
    """*raw*, likewise; a text stands for a list of one part."""
    try:
        return _decode_item(raw)
    except msgspec.ValidationError:
        fields = _object(raw)
    for name, kind in (("content", "output_text"), ("summary", "summary_text")):
        parts = fields.get(name)
        if isinstance(parts, str):
            parts = [{"type": kind, "text": parts}]
        if isinstance(parts, list):
            fields[name] = [
                _fit(Part, cast("dict[str, Any]", part))
                for part in cast("list[Any]", parts)
                if isinstance(part, dict)
            ]
    return _fit(Item, fields)


_Fitted = TypeVar("_Fitted", Event, Item, Part)


def _object(data: bytes | msgspec.Raw) -> dict[str, Any]:
    document: Any = msgspec.json.decode(data)
    if not isinstance(document, dict):
        raise msgspec.ValidationError(f"expected an object, got {type(document).__name__}")
    return cast("dict[str, Any]", document)


def _fit(kind: type[_Fitted], fields: dict[str, Any]) -> _Fitted:
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        if field.name not in fields:
            continue
        value = fields[field.name]
        if field.type is msgspec.Raw:
            values[field.name] = msgspec.Raw(msgspec.json.encode(value))
            continue
        try:
            values[field.name] = msgspec.convert(value, field.type, strict=False)
        except msgspec.ValidationError:
            continue
    return kind(**values)


def decode_leniently(data: bytes) -> Delta:
    """The small view of an event in which a field has a type nobody expects; it counts as absent.

    Raises `msgspec.DecodeError` for what is not a JSON object.
    """
    document: Any = msgspec.json.decode(data)
    if not isinstance(document, dict):
        raise msgspec.ValidationError(f"expected an object, got {type(document).__name__}")
    fields = cast("dict[str, Any]", document)
    texts = {
        name: fields[name]
        for name in ("type", "delta", "item_id")
        if isinstance(fields.get(name), str)
    }
    places = {
        name: fields[name]
        for name in ("output_index", "content_index", "summary_index")
        if type(fields.get(name)) is int
    }
    return Delta(**texts, **places)


def arguments_text(arguments: Any) -> str:
    """Arguments as JSON text; some hosts send the object itself."""
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else msgspec.json.encode(arguments).decode()


def usage_of(counts: dict[str, Any]) -> Usage:
    """Tokens as we count them: `input` without the cached ones, `output` with the reasoning."""
    read = _count(counts, "input_tokens") or 0
    details = counts.get("input_tokens_details")
    cache_read = _count(details, "cached_tokens") or 0
    cache_write = _count(details, "cache_write_tokens") or 0
    reasoning = _count(counts.get("output_tokens_details"), "reasoning_tokens")
    total = _count(counts, "total_tokens")
    written = output_tokens(_count(counts, "output_tokens"), total, read)
    return Usage(
        input=max(0, read - cache_read - cache_write),
        output=written,
        cache_read=cache_read,
        cache_write=cache_write,
        reasoning=reasoning,
        total_tokens=max(total or 0, read + written),
        cost=_cost(counts),
        doubtful=cache_read + cache_write > read,
    )


def _cost(counts: dict[str, Any]) -> Cost:
    """What the vendor says it charges (OpenRouter, xAI)."""
    cost = counts.get("cost")
    if isinstance(cost, int | float) and not isinstance(cost, bool):
        return Cost(total=float(cost))
    ticks = _count(counts, "cost_in_usd_ticks")
    # Some replies say 0 where it is not known.
    return Cost(total=ticks / XAI_TICKS_PER_DOLLAR) if ticks else Cost()


def _count(fields: Any, name: str) -> int | None:
    value = cast("dict[str, Any]", fields).get(name) if isinstance(fields, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return max(0, int(value))
