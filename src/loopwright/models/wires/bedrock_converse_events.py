"""Bedrock Converse, answers: what of an event is read, and what its usage means.            (pure)

Only the fields that are used are declared; what is read once in a reply stays raw until then. The
events' shapes are those of `ConverseStreamOutput` in botocore's model of bedrock-runtime.
"""

from __future__ import annotations

import json
from typing import Any, cast

import msgspec

from ...messages import Usage
from ...records import clean_text
from ..usage_counts import output_tokens

__all__ = [
    "Delta",
    "DeltaEvent",
    "ReasoningDelta",
    "Start",
    "StartEvent",
    "StopEvent",
    "ToolDelta",
    "decode_delta",
    "read_leniently",
    "usage_of",
]

NOTHING = msgspec.Raw()


class ToolDelta(msgspec.Struct, gc=False):
    input: str | dict[str, Any] = ""
    """A piece of JSON text; of some models the whole object."""


class ReasoningDelta(msgspec.Struct, gc=False, rename="camel"):
    text: str | None = None
    signature: str | None = None
    redacted_content: str | None = None


class Delta(msgspec.Struct, gc=False, rename="camel"):
    text: str | None = None
    tool_use: ToolDelta | None = None
    reasoning_content: ReasoningDelta | None = None
    citation: msgspec.Raw = NOTHING
    tool_result: msgspec.Raw = NOTHING


class DeltaEvent(msgspec.Struct, gc=False, rename="camel"):
    delta: Delta = msgspec.field(default_factory=Delta)
    content_block_index: int = 0


class Start(msgspec.Struct, rename="camel"):
    tool_use: dict[str, Any] | None = None
    tool_result: dict[str, Any] | None = None


class StartEvent(msgspec.Struct, rename="camel"):
    start: Start = msgspec.field(default_factory=Start)
    content_block_index: int = 0


class StopEvent(msgspec.Struct, rename="camel"):
    content_block_index: int = 0


decode_delta = msgspec.json.Decoder(DeltaEvent).decode


def read_leniently(data: bytes) -> bytes:
    """*data* with U+FFFD for bytes that are no UTF-8 and for halves of surrogate pairs.

    Raises `msgspec.DecodeError` for what is not JSON at all.
    """
    try:
        document: Any = json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise msgspec.DecodeError(str(error)) from None
    return msgspec.json.encode(_clean(document))


def _clean(value: Any) -> Any:
    if isinstance(value, str):
        return clean_text(value)
    if isinstance(value, list):
        return [_clean(item) for item in cast("list[Any]", value)]
    if isinstance(value, dict):
        return {_clean(k): _clean(item) for k, item in cast("dict[str, Any]", value).items()}
    return value


def usage_of(fields: dict[str, Any]) -> Usage:
    """Tokens as we count them. The dialect counts cached ones beside `inputTokens`, as we do, and
    says nothing of thinking, which is within `outputTokens`."""
    uncached = _count(fields, "inputTokens") or 0
    cache_read = _count(fields, "cacheReadInputTokens") or 0
    cache_write = _count(fields, "cacheWriteInputTokens") or 0
    total = _count(fields, "totalTokens")
    read = uncached + cache_read + cache_write
    output = output_tokens(_count(fields, "outputTokens"), total, read)
    return Usage(
        input=uncached,
        output=output,
        cache_read=cache_read,
        cache_write=cache_write,
        total_tokens=max(total or 0, read + output),
    )


def _count(fields: dict[str, Any], name: str) -> int | None:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return max(0, int(value))
