"""Gemini, answers: what of a chunk is read, and what its usage means.                       (pure)

Every event is a whole, small answer of its own. What is read once in a reply, or seldom, stays raw
until then.
"""

from __future__ import annotations

import json
from typing import Any, cast

import msgspec

from ...messages import Usage
from ...records import clean_text
from ..usage_counts import output_tokens

__all__ = [
    "Candidate",
    "Chunk",
    "FunctionCall",
    "Part",
    "PartialArgument",
    "decode_call",
    "decode_chunk",
    "decode_leniently",
    "raw_parts",
    "usage_of",
]

_NOTHING = msgspec.Raw()


class Part(msgspec.Struct, gc=False, rename="camel"):
    """A piece of the reply: text, thinking, a call; anything else has none of these fields."""

    text: str | None = None
    thought: bool = False
    thought_signature: str | None = None
    function_call: msgspec.Raw = _NOTHING


class Content(msgspec.Struct, gc=False):
    parts: list[Part] | None = None


class Candidate(msgspec.Struct, gc=False, rename="camel"):
    content: Content | None = None
    finish_reason: str | None = None
    finish_message: str | None = None
    index: int | None = None
    grounding_metadata: msgspec.Raw = _NOTHING
    citation_metadata: msgspec.Raw = _NOTHING
    url_context_metadata: msgspec.Raw = _NOTHING


class Chunk(msgspec.Struct, gc=False, rename="camel"):
    candidates: list[Candidate] | None = None
    usage_metadata: msgspec.Raw = _NOTHING
    prompt_feedback: msgspec.Raw = _NOTHING
    response_id: str | None = None
    model_version: str | None = None
    error: msgspec.Raw = _NOTHING


class PartialArgument(msgspec.Struct, gc=False, rename="camel"):
    """A piece of one argument; exactly one of the values is there."""

    json_path: str = ""
    string_value: str | msgspec.UnsetType = msgspec.UNSET
    number_value: int | float | msgspec.UnsetType = msgspec.UNSET
    bool_value: bool | msgspec.UnsetType = msgspec.UNSET
    will_continue: bool = False

    @property
    def value(self) -> str | float | bool | None:
        """What came; None for null."""
        if self.string_value is not msgspec.UNSET:
            return self.string_value
        if self.number_value is not msgspec.UNSET:
            return self.number_value
        return None if self.bool_value is msgspec.UNSET else self.bool_value


class FunctionCall(msgspec.Struct, gc=False, rename="camel"):
    id: str | None = None
    name: str | None = None
    args: msgspec.Raw = _NOTHING
    partial_args: list[PartialArgument] | None = None
    will_continue: bool | None = None


class _RawContent(msgspec.Struct):
    parts: list[msgspec.Raw] | None = None


class _RawCandidate(msgspec.Struct):
    content: _RawContent | None = None
    index: int | None = None


class _RawChunk(msgspec.Struct):
    candidates: list[_RawCandidate] | None = None


decode_chunk = msgspec.json.Decoder(Chunk).decode
decode_call = msgspec.json.Decoder(FunctionCall).decode
_decode_raw_chunk = msgspec.json.Decoder(_RawChunk).decode


def raw_parts(data: bytes) -> list[bytes]:
    """The parts of the first candidate in *data*, as they came."""
    for candidate in _decode_raw_chunk(data).candidates or ():
        if not candidate.index:
            parts = candidate.content.parts if candidate.content is not None else None
            return [bytes(part) for part in parts or ()]
    return []


def decode_leniently(data: bytes) -> tuple[Chunk, bytes]:
    """A chunk some field of which nobody expects, or whose text is broken: what can be used, and
    the bytes it would have been.

    Bytes that are no UTF-8 and halves of surrogate pairs become U+FFFD. Raises
    `msgspec.DecodeError` for what is not a JSON object at all.
    """
    try:
        document: Any = json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from None
    if not isinstance(document, dict):
        raise msgspec.ValidationError(f"expected an object, got {type(document).__name__}")
    fields = cast("dict[str, Any]", _clean(document))
    candidates = [_candidate(item) for item in _list(fields, "candidates")]
    mended: dict[str, Any] = {"candidates": [c for c in candidates if c is not None]}
    for name in ("responseId", "modelVersion"):
        if isinstance(fields.get(name), str):
            mended[name] = fields[name]
    for name in ("usageMetadata", "promptFeedback", "error"):
        if fields.get(name) is not None:
            mended[name] = fields[name]
    encoded = msgspec.json.encode(mended)
    return decode_chunk(encoded), encoded


def _candidate(value: Any) -> dict[str, Any] | None:
    if not isinstance(value, dict):
        return None
    fields = cast("dict[str, Any]", value)
    content = fields.get("content")
    parts = _list(cast("dict[str, Any]", content), "parts") if isinstance(content, dict) else []
    read = [_part(cast("dict[str, Any]", part)) for part in parts if isinstance(part, dict)]
    mended: dict[str, Any] = {"content": {"parts": read}}
    for name in ("finishReason", "finishMessage"):
        if isinstance(fields.get(name), str):
            mended[name] = fields[name]
    if type(fields.get("index")) is int:
        mended["index"] = fields["index"]
    for name in ("groundingMetadata", "citationMetadata", "urlContextMetadata"):
        if isinstance(fields.get(name), dict):
            mended[name] = fields[name]
    return mended


def _part(fields: dict[str, Any]) -> dict[str, Any]:
    kinds = {"text": str, "thoughtSignature": str, "thought": bool, "functionCall": dict}
    return {
        name: value
        for name, value in fields.items()
        if name not in kinds or isinstance(value, kinds[name])
    }


def _list(fields: dict[str, Any], name: str) -> list[Any]:
    value = fields.get(name)
    return cast("list[Any]", value) if isinstance(value, list) else []


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_clean(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {_clean(k): _clean(item) for k, item in cast("dict[str, Any]", value).items()}
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return None
    return value


def usage_of(fields: dict[str, Any]) -> Usage:
    """Tokens as we count them.

    The dialect counts cached tokens within those of the prompt and thinking beside those of the
    answer. What its own tools brought in (`toolUsePromptTokenCount`) stands beside the prompt and
    is paid as input. https://ai.google.dev/api/generate-content#UsageMetadata
    """
    prompt = _count(fields, "promptTokenCount") or 0
    cached = _count(fields, "cachedContentTokenCount") or 0
    brought_in = _count(fields, "toolUsePromptTokenCount")
    thoughts = _count(fields, "thoughtsTokenCount")
    uncached = max(0, prompt - cached)
    total = _count(fields, "totalTokenCount")
    others = uncached + cached + (brought_in or 0) + (thoughts or 0)
    said = output_tokens(_count(fields, "candidatesTokenCount"), total, others)
    return Usage(
        input=uncached,
        output=said + (thoughts or 0),
        cache_read=cached,
        reasoning=thoughts,
        total_tokens=max(total or 0, others + said),
        doubtful=cached > prompt,
        tool_input=brought_in,
    )


def _count(fields: dict[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return max(0, int(value))
