"""What the ports of pi have in common: the names of events, and what a stream must look like.

Used by their files in `peers/`. The stream is kinder to them than their own wires: it neither
copies nor grows the `partial` of its events, which for most of them is the larger part of a delta.
"""

from __future__ import annotations

import asyncio
import json
import typing
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from .subject import Counter, Listening, Say, Tool

__all__ = ["ScriptedStreams", "listener", "parameters_of"]

_HEAD = {"api": "scripted", "provider": "scripted", "model": "scripted"}


class ScriptedStreams:
    """A stream function that plays a script with the event classes found in *types*."""

    def __init__(self, types: Any, script: Sequence[Say]) -> None:
        self._types = types
        self._left = list(reversed(script))
        self._calls = 0

    def __call__(self, *request: Any, **options: Any) -> _Stream:
        """Give the next reply, whatever the request."""
        say = self._left.pop()
        first_call = self._calls
        self._calls += len(say.calls)
        return _Stream(self._types, say, first_call)


class _Stream:
    """One reply: iterated once, then asked for its result."""

    def __init__(self, types: Any, say: Say, first_call: int) -> None:
        self._types = types
        self._say = say
        self._first_call = first_call
        self._message = types.AssistantMessage(content=[], stop_reason="stop", **_HEAD)

    async def result(self) -> Any:
        return self._message

    def cancel(self) -> None:
        """Nothing waits here."""

    async def __aiter__(self) -> AsyncIterator[Any]:
        types, say, message = self._types, self._say, self._message
        yield types.StartEvent(partial=message)
        if say.text:
            yield types.TextStartEvent(content_index=0, partial=message)
            for position, piece in enumerate(say.pieces, 1):
                yield types.TextDeltaEvent(content_index=0, delta=piece, partial=message)
                if say.per_read and position % say.per_read == 0:
                    await asyncio.sleep(0)
            message.content.append(types.TextContent(text=say.text))
            yield types.TextEndEvent(content_index=0, content=say.text, partial=message)
        for number, ask in enumerate(say.calls):
            index = len(message.content)
            call = types.ToolCall(
                id=f"call_{self._first_call + number}",
                name=ask.name,
                arguments=json.loads(ask.arguments),
            )
            message.content.append(call)
            yield types.ToolCallStartEvent(content_index=index, partial=message)
            size = ask.piece or len(ask.arguments)
            for at in range(0, len(ask.arguments), size):
                yield types.ToolCallDeltaEvent(
                    content_index=index, delta=ask.arguments[at : at + size], partial=message
                )
            yield types.ToolCallEndEvent(content_index=index, tool_call=call, partial=message)
        reason = "toolUse" if say.calls else "stop"
        message.stop_reason = reason
        yield types.DoneEvent(reason=reason, message=message)


def listener(counter: Counter, listening: Listening) -> Callable[..., Any]:
    """Reads each delta and counts, for events known by `type`."""

    def listen(event: Any, signal: object = None) -> None:
        if event.type == "message_update":
            change = event.assistant_message_event
            if change.type in ("text_delta", "toolcall_delta"):
                counter.deltas += 1
                counter.characters += len(change.delta)
        elif event.type == "tool_execution_end" and not event.is_error:
            counter.results += 1

    async def listen_async(event: Any, signal: object = None) -> None:
        listen(event)

    return listen_async if listening == "async" else listen


def parameters_of(function: Tool) -> dict[str, Any]:
    """The types of the parameters of *function* by name."""
    hints = typing.get_type_hints(function)
    hints.pop("return", None)
    return hints
