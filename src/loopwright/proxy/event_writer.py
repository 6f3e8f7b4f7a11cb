"""Stream events -> the bytes a proxy answers with.                                           (pure)

One `data:` line each, in pi's shapes: no partials, since the client can rebuild them. What a client
cannot know from the pieces is added where it matters: signatures, and calls that are not what
their text says. To a client that understands them (see `FULL_HEADER`) go further fields: which
model answered, whether to try again, unknown prices as unknown.

Not here: requests (request), or sending (server).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from ..messages import AssistantMessage, TextContent, ThinkingContent, ToolCall, Usage
from ..models.model import Model
from ..records import clean_text
from ..stream import (
    AssistantMessageEvent,
    Done,
    Error,
    Retry,
    Start,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from ..stream.tool_arguments import parse_arguments

__all__ = ["ALIVE", "KEEP_ALIVE", "EventWriter"]

KEEP_ALIVE = b": keep-alive\n\n"
"""Keeps the connection open while the model is silent. It says nothing about the model."""

ALIVE = b": alive\n\n"
"""The vendor gave a sign of life that is no event."""

_encode = msgspec.json.encode


class EventWriter:
    """Writes one answer to a client that asked for *asked*."""

    __slots__ = ("_asked", "_calls", "_full", "_pieces")

    def __init__(self, asked: Model, *, full: bool = False) -> None:
        self._asked = asked
        self._full = full
        self._pieces: dict[int, list[str]] = {}  # what the client has of each open block
        self._calls: dict[int, tuple[str, str]] = {}

    def write(self, events: Iterable[AssistantMessageEvent]) -> bytes:
        """The bytes for *events*, which go on from those written before."""
        written: list[bytes] = []
        for event in events:
            written += self._lines(event)
        return b"".join(written)

    def _lines(self, event: AssistantMessageEvent) -> list[bytes]:
        match event:
            case (
                TextDelta(index, delta) | ThinkingDelta(index, delta) | ToolCallDelta(index, delta)
            ):
                return [self._delta(event.type, index, delta)]
            case TextStart(index) | ThinkingStart(index):
                self._pieces[index] = []
                block = _block(event.partial, index) if self._full else None
                hidden = isinstance(block, ThinkingContent) and block.redacted
                more = {"redacted": True} if hidden else {}
                return [_line(type=event.type, contentIndex=index, **more)]
            case ToolCallStart(index):
                return [self._call_start(event, index)]
            case TextEnd(index, content) | ThinkingEnd(index, content):
                return self._end(event, index, content)
            case ToolCallEnd(index, call):
                return self._call_end(index, call)
            case Start():
                return [_line(type="start")]
            case Done():
                return [self._closing(event, event.message, reason=event.reason)]
            case Error():
                return [self._error(event)]
            case Retry():
                return [_line(**event.to_dict(camel=True)) if self._full else ALIVE]

    def _delta(self, kind: str, index: int, delta: str) -> bytes:
        delta = clean_text(delta)
        self._pieces.setdefault(index, []).append(delta)
        head = f'data: {{"type":"{kind}","contentIndex":{index},"delta":'
        return b"%b%b}\n\n" % (head.encode(), _encode(delta))

    def _end(self, event: TextEnd | ThinkingEnd, index: int, content: str) -> list[bytes]:
        thinking = isinstance(event, ThinkingEnd)
        block = _block(event.partial, index)
        signature: str | None = None
        more: dict[str, Any] = {}
        if isinstance(block, TextContent):
            signature = block.text_signature
        elif isinstance(block, ThinkingContent):
            signature = block.thinking_signature
        lines: list[bytes] = []
        said = "".join(self._pieces.get(index, ()))
        content = clean_text(content)
        if content != said:
            if content.startswith(said):  # the vendor's last word was longer than its pieces
                kind = "thinking_delta" if thinking else "text_delta"
                lines.append(self._delta(kind, index, content[len(said) :]))
            elif self._full:
                more["content"] = content
        self._pieces.pop(index, None)
        if signature is not None:
            more = {"contentSignature": signature, **more}
        return [*lines, _line(type=event.type, contentIndex=index, **more)]

    def _call_start(self, event: ToolCallStart, index: int) -> bytes:
        call_id, name = event.tool_call_id, event.tool_name
        block = _block(event.partial, index)
        if isinstance(block, ToolCall):  # a stream written by hand may name the call only there
            call_id, name = call_id or block.id, name or block.name
        self._pieces[index] = []
        self._calls[index] = (call_id, name)
        return _line(type="toolcall_start", contentIndex=index, id=call_id, toolName=name)

    def _call_end(self, index: int, call: ToolCall) -> list[bytes]:
        lines: list[bytes] = []
        pieces = self._pieces.get(index, [])
        if not pieces and call.arguments:  # given as a whole; older clients read only pieces
            arguments = _encode(call.to_dict()["arguments"]).decode()
            lines.append(self._delta("toolcall_delta", index, arguments))
            pieces = [arguments]
        self._pieces.pop(index, None)
        parsed = parse_arguments("".join(pieces))
        rebuilt = ToolCall(
            *self._calls.pop(index, ("", "")),
            parsed.arguments,
            None,
            parsed.raw_arguments,
            parsed.arguments_error,
        )
        more = {} if rebuilt == call else {"toolCall": call.to_dict(camel=True)}
        return [*lines, _line(type="toolcall_end", contentIndex=index, **more)]

    def _error(self, event: Error) -> bytes:
        message = event.error
        fields: dict[str, Any] = {"reason": event.reason}
        if message.error_message is not None:
            fields["errorMessage"] = clean_text(message.error_message)
        more: dict[str, Any] = {"kind": event.kind, "retryAfterSeconds": event.retry_after_seconds}
        if event.retryable:
            more["retryable"] = True
        return self._closing(event, message, more, **fields)

    def _closing(
        self,
        event: Done | Error,
        message: AssistantMessage,
        more: dict[str, Any] | None = None,
        /,
        **fields: Any,
    ) -> bytes:
        if not self._full:
            return _line(type=event.type, **fields, usage=_pis_usage(message.usage))
        asked = self._asked
        here = (message.provider, message.model, message.api)
        if here != (asked.provider, asked.id, asked.api):
            fields.update(provider=message.provider, model=message.model, api=message.api)
        further = {
            "responseId": message.response_id,
            "rawStopReason": message.raw_stop_reason,
            **(more or {}),
        }
        fields.update({name: value for name, value in further.items() if value is not None})
        return _line(type=event.type, **fields, usage=message.usage.to_dict(camel=True))


def _line(**fields: Any) -> bytes:
    return b"data: %b\n\n" % _encode(fields)


def _block(partial: AssistantMessage, index: int) -> Any:
    return partial.content[index] if 0 <= index < len(partial.content) else None


def _pis_usage(usage: Usage) -> dict[str, Any]:
    """Every number pi's clients do sums with; what is not known is 0 there."""
    cost = usage.cost
    return {
        "input": usage.input,
        "output": usage.output,
        "cacheRead": usage.cache_read,
        "cacheWrite": usage.cache_write,
        **({} if usage.reasoning is None else {"reasoning": usage.reasoning}),
        "totalTokens": usage.total_tokens,
        "cost": {
            "input": cost.input or 0,
            "output": cost.output or 0,
            "cacheRead": cost.cache_read or 0,
            "cacheWrite": cost.cache_write or 0,
            "total": cost.total or 0,
        },
    }
