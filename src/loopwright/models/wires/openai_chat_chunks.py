"""Chat Completions, answers: what of a chunk is read, and what its usage means.            (pure)

Only the fields that are used are declared: a flat typed struct is decoded in a fraction of the
time of the whole.
"""

from __future__ import annotations

from typing import Any, TypeGuard, cast

import msgspec

from ...messages import Cost, Usage
from ..usage_counts import output_tokens

__all__ = [
    "XAI_TICKS_PER_DOLLAR",
    "CallFragment",
    "Choice",
    "Chunk",
    "Delta",
    "Function",
    "decode_chunk",
    "decode_head",
    "decode_leniently",
    "detail_text",
    "is_thought",
    "only_text",
    "part_text",
    "usage_of",
]


XAI_TICKS_PER_DOLLAR = 10_000_000_000
"""xAI tells the cost in ticks; recorded replies at its published prices give this number."""


class Function(msgspec.Struct, gc=False):
    name: str | None = None
    arguments: str | dict[str, Any] | None = None


class CallFragment(msgspec.Struct, gc=False):
    index: int | None = None
    id: str | None = None
    function: Function | None = None
    extra_content: dict[str, Any] | None = None


class Delta(msgspec.Struct, gc=False):
    content: str | list[dict[str, Any]] | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    reasoning_text: str | None = None
    reasoning_details: list[dict[str, Any]] | None = None
    tool_calls: list[CallFragment] | None = None
    function_call: Function | None = None
    refusal: str | None = None
    extra_content: dict[str, Any] | None = None


class Choice(msgspec.Struct, gc=False):
    delta: Delta | None = None
    finish_reason: str | None = None
    index: int | None = 0
    message: Delta | None = None
    usage: dict[str, Any] | None = None
    error: Any = None


class Chunk(msgspec.Struct, gc=False):
    choices: list[Choice] | None = None
    usage: dict[str, Any] | None = None
    x_groq: dict[str, Any] | None = None
    error: Any = None


class Head(msgspec.Struct):
    id: str | None = None
    model: str | None = None


decode_chunk = msgspec.json.Decoder(Chunk).decode
decode_head = msgspec.json.Decoder(Head).decode


def only_text(chunk: Chunk) -> str | None:
    """The text of a chunk that says nothing else."""
    choices = chunk.choices
    if not choices or len(choices) > 1 or chunk.usage is not None or chunk.error is not None:
        return None
    choice = choices[0]
    delta = choice.delta
    if delta is None or choice.finish_reason is not None or choice.index or choice.usage:
        return None
    if choice.error is not None or choice.message is not None or chunk.x_groq is not None:
        return None
    if (
        type(delta.content) is not str
        or delta.tool_calls is not None
        or delta.reasoning_content is not None
        or delta.reasoning is not None
        or delta.reasoning_details is not None
        or delta.extra_content is not None
        or delta.refusal
    ):
        return None
    return delta.content


def detail_text(detail: dict[str, Any]) -> str:
    for key in ("text", "summary"):
        value = detail.get(key)
        if isinstance(value, str):
            return value
    return ""


def part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    text = cast("dict[str, Any]", part).get("text") if isinstance(part, dict) else None
    return text if isinstance(text, str) else ""


def is_thought(delta: Delta) -> bool:
    """Google's hosts send thinking as content, marked (`include_thoughts`)."""
    return any(
        isinstance(extra, dict) and cast("dict[str, Any]", extra).get("thought") is True
        for extra in (delta.extra_content or {}).values()
    )


# -- usage -------------------------------------------------------------------------------------


def usage_of(fields: dict[str, Any]) -> Usage:
    """Tokens as we count them: `input` without the cached ones, `output` with the reasoning."""
    prompt = _count_of(fields, "prompt_tokens") or 0
    completion = _count_of(fields, "completion_tokens") or 0
    prompt_details: Any = fields.get("prompt_tokens_details")
    cache_read = (
        _count_of(prompt_details, "cached_tokens")
        or _count_of(fields, "cached_tokens")
        or _count_of(fields, "prompt_cache_hit_tokens")
        or _count_of(fields, "cache_read_input_tokens")
        or 0
    )
    cache_write = (
        _count_of(prompt_details, "cache_write_tokens")
        or _count_of(fields, "cache_creation_input_tokens")
        or 0
    )
    reasoning = _count_of(fields.get("completion_tokens_details"), "reasoning_tokens")
    if reasoning is None:
        reasoning = _count_of(fields, "reasoning_tokens")
    total = _count_of(fields, "total_tokens")
    if reasoning and total is not None and total == prompt + completion + reasoning:
        completion += reasoning  # xAI counts it beside the completion, not in it
    completion = output_tokens(completion, total, prompt)
    return Usage(
        input=max(0, prompt - cache_read - cache_write),
        output=completion,
        cache_read=cache_read,
        cache_write=cache_write,
        reasoning=reasoning,
        total_tokens=max(total or 0, prompt + completion),
        cost=_cost(fields),
        doubtful=cache_read + cache_write > prompt,
    )


def _cost(fields: dict[str, Any]) -> Cost:
    """What the vendor says it charges: OpenRouter a number, Perplexity its parts and their sum.
    With a key of one's own at the vendor behind OpenRouter (`is_byok`) that one charges, too."""
    cost: Any = fields.get("cost")
    if isinstance(cost, dict):
        cost = cast("dict[str, Any]", cost).get("total_cost")
    ticks = fields.get("cost_in_usd_ticks")
    if not _is_number(cost) and _is_number(ticks) and ticks:  # xAI; some replies say 0 for unknown
        return Cost(total=ticks / XAI_TICKS_PER_DOLLAR)
    if not _is_number(cost):
        return Cost()
    if fields.get("is_byok") is True:
        details: Any = fields.get("cost_details")
        known = isinstance(details, dict)
        upstream: Any = (
            cast("dict[str, Any]", details).get("upstream_inference_cost") if known else None
        )
        return Cost(total=float(cost) + float(upstream)) if _is_number(upstream) else Cost()
    return Cost(total=float(cost))


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _count_of(fields: Any, name: str) -> int | None:
    value = cast("dict[str, Any]", fields).get(name) if isinstance(fields, dict) else None
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return max(0, int(value))


# -- hosts that do not keep to the types -------------------------------------------------------


def decode_leniently(data: bytes) -> Chunk:
    """A chunk in which some field has a type nobody expects: what can be used of it.

    Raises `msgspec.DecodeError` for what is not JSON at all.
    """
    document: Any = msgspec.json.decode(data)
    if not isinstance(document, dict):
        raise msgspec.ValidationError(f"expected an object, got {type(document).__name__}")
    return _fit(Chunk, cast("dict[str, Any]", document))


def _fit(kind: Any, fields: dict[str, Any]) -> Any:
    """*fields* as *kind*, without those whose type does not fit."""
    values: dict[str, Any] = {}
    for field in msgspec.structs.fields(kind):
        if field.encode_name not in fields:
            continue
        value = fields[field.encode_name]
        if field.name in _MANY and isinstance(value, dict):  # one of them, without the list
            value = cast("list[Any]", [value])
        if field.name in _LISTS_OF and isinstance(value, list):
            items = cast("list[Any]", value)
            values[field.name] = [
                _fit(_LISTS_OF[field.name], cast("dict[str, Any]", item))
                for item in items
                if isinstance(item, dict)
            ]
        elif field.name in _INNER and isinstance(value, dict):
            values[field.name] = _fit(_INNER[field.name], cast("dict[str, Any]", value))
        else:
            try:
                values[field.name] = msgspec.convert(value, field.type, strict=False)
            except msgspec.ValidationError:
                if field.name != "arguments":
                    continue
                # Left out, the call would run without any.
                values[field.name] = msgspec.json.encode(value).decode()
    return kind(**values)


_LISTS_OF: dict[str, Any] = {"choices": Choice, "tool_calls": CallFragment}
_MANY = {*_LISTS_OF, "content", "reasoning_details"}
_INNER: dict[str, Any] = {
    "delta": Delta,
    "message": Delta,
    "function": Function,
    "function_call": Function,
}
