"""The bytes a proxy answers with -> stream events, their partials rebuilt.                   (pure)

The body is read by lines, not by SSE blocks: pi's servers may end each event with one line break
only. Content indexes are given anew in the order blocks begin, so that `partial.content[index]` is
there even if a server leaves some out.

Not here: the network (client), or what is written (event_writer).
"""

from __future__ import annotations

from typing import Any, cast

import msgspec

from ..errors import DecodeError, ModelError, WireError
from ..messages import Cost, TextContent, ThinkingContent, ToolCall, Usage
from ..models.failures import incomplete
from ..models.model import Model
from ..stream import AssistantMessageEvent, ReplyBuilder, Retry
from ..stream.tool_arguments import ParsedArguments
from .event_writer import KEEP_ALIVE

__all__ = ["EventReader"]

_KEEP_ALIVE_LINE = KEEP_ALIVE.strip()
_UNSAID = "The proxy reported an error without saying which."


_NOTHING = msgspec.Raw()  # it cannot be None: a union with Raw reads only the rest of it


class _Event(msgspec.Struct, rename="camel", gc=False):
    """Every field of every kind of event."""

    type: str
    content_index: int = -1
    delta: str = ""
    id: str = ""
    tool_name: str = ""
    content_signature: str | None = None
    content: str | None = None
    redacted: bool = False
    tool_call: msgspec.Raw = _NOTHING
    reason: str = ""
    error_message: str | None = None
    usage: msgspec.Raw = _NOTHING
    kind: str | None = None
    retryable: bool = False
    retry_after_seconds: float | None = None
    response_id: str | None = None
    raw_stop_reason: str | None = None
    provider: str | None = None
    model: str | None = None
    api: str | None = None
    attempt: int = 0
    max_attempts: int = 0
    delay_seconds: float = 0.0
    error: str = ""


_decode = msgspec.json.Decoder(_Event).decode


class EventReader:
    """Reads one answer of *model* into *builder*. Cut anywhere, the same bytes give the same events."""

    __slots__ = ("_builder", "_full", "_indexes", "_model", "_rest", "_started", "alive", "ended")

    def __init__(self, model: Model, builder: ReplyBuilder, *, full: bool = False) -> None:
        self._model = model
        self._full = full
        self._builder = builder
        self._rest: list[bytes] = []  # of a line that is not complete yet
        self._indexes: dict[int, int] = {}  # the server's index -> ours, of the blocks still open
        self._started = False
        self.ended = False
        """The closing event was given; what the body still holds is not read."""
        self.alive = False
        """The last chunk said something of the model, if only that it lives."""

    def feed(self, chunk: bytes) -> list[AssistantMessageEvent]:
        """The events that are complete with *chunk*."""
        self.alive = False
        if b"\n" not in chunk:
            self._rest.append(chunk)
            return []
        *lines, rest = b"".join([*self._rest, chunk]).split(b"\n")
        self._rest = [rest] if rest else []
        return self._read(lines)

    def finish(self) -> list[AssistantMessageEvent]:
        """The body is over: what a last line without an end still says, and `Done` or `Error`."""
        lines, self._rest = [b"".join(self._rest)], []
        events = self._read(lines)
        if not self.ended:
            events.append(self._failure(incomplete()))
        return events

    def _read(self, lines: list[bytes]) -> list[AssistantMessageEvent]:
        events: list[AssistantMessageEvent] = []
        for line in lines:
            data = line[5:].strip() if line[:5] == b"data:" else b""
            if data:
                self.alive = True
                try:
                    events += self._events(_decode(data))
                except (
                    msgspec.MsgspecError,
                    UnicodeError,
                    RecursionError,
                    DecodeError,
                    WireError,
                ) as error:
                    events.append(self._failure(error))
                if self.ended:
                    break
            elif line[:1] == b":" and line.strip() != _KEEP_ALIVE_LINE:
                self.alive = True
        return events

    def _failure(self, error: Exception) -> AssistantMessageEvent:
        if not isinstance(error, ModelError):
            error = WireError(f"what the proxy sent cannot be read: {error}")
        self.ended = True
        return self._builder.error(str(error), kind=error.kind, retryable=error.retryable)

    def _events(self, event: _Event) -> list[AssistantMessageEvent]:
        if event.type == "text_delta":  # nearly always
            index = self._indexes.get(event.content_index, -1)
            self._must_be(TextContent, index, event)
            return [self._builder.text_delta(index, event.delta)]
        if event.type == "retry":
            return [
                Retry(
                    event.attempt,
                    event.max_attempts,
                    event.delay_seconds,
                    event.error,
                    self._usage(event) if event.usage else None,
                )
            ]
        if event.type == "error":
            return [self._error(event)]
        opening: list[AssistantMessageEvent] = []
        if not self._started and event.type in _KNOWN:
            self._started = True
            opening.append(self._builder.start())
        return opening + self._others(event)

    def _others(self, event: _Event) -> list[AssistantMessageEvent]:
        builder, at = self._builder, event.content_index
        index = self._indexes.get(at, -1)
        match event.type:
            case "text_start":
                started = builder.text_start()
            case "thinking_start":
                started = builder.thinking_start(redacted=event.redacted)
            case "toolcall_start":
                started = builder.tool_call_start(event.id, event.tool_name)
            case "thinking_delta":
                self._must_be(ThinkingContent, index, event)
                return [builder.thinking_delta(index, event.delta)]
            case "toolcall_delta":
                self._must_be(ToolCall, index, event)
                return [builder.tool_call_delta(index, event.delta)]
            case "text_end":
                self._must_be(TextContent, index, event)
                del self._indexes[at]
                return [
                    builder.text_end(index, text=event.content, signature=event.content_signature)
                ]
            case "thinking_end":
                self._must_be(ThinkingContent, index, event)
                del self._indexes[at]
                return [
                    builder.thinking_end(
                        index, text=event.content, signature=event.content_signature
                    )
                ]
            case "toolcall_end":
                if not self._is(ToolCall, index):
                    return []
                del self._indexes[at]
                return [self._call_end(index, event.tool_call)]
            case "done":
                return self._done(event)
            case _:
                return []  # a kind that came later than this was written
        if at in self._indexes:
            raise WireError(f"{event.type} for the content {at}, which has not ended")
        self._indexes[at] = started.content_index
        return [started]

    def _call_end(self, index: int, told: msgspec.Raw) -> AssistantMessageEvent:
        if not told or bytes(told) == b"null":
            return self._builder.tool_call_end(index)
        call = ToolCall.from_json(bytes(told))
        return self._builder.tool_call_end(
            index,
            id=call.id,
            name=call.name,
            # Where a text is kept, the arguments are what its pieces say, and are read from them.
            arguments=call.arguments if call.raw_arguments is None else None,
            parsed=_refused(call),
            thought_signature=call.thought_signature,
        )

    def _is(self, kind: type, index: int) -> bool:
        draft = self._builder.draft
        return draft.is_open(index) and isinstance(draft.opened_as(index), kind)

    def _must_be(self, kind: type, index: int, event: _Event) -> None:
        if not self._is(kind, index):
            raise WireError(
                f"{event.type} for the content {event.content_index}, which is no such block"
            )

    def _done(self, event: _Event) -> list[AssistantMessageEvent]:
        reason = event.reason
        if reason not in ("stop", "length", "toolUse"):
            raise WireError(f"the proxy ended the reply for an unknown reason: {reason!r}")
        events = self._builder.close_open_blocks()
        self._say_who(event)
        done = self._builder.done(
            reason,
            raw=event.raw_stop_reason,
            usage=self._usage(event),
        )
        self.ended = True
        return [*events, done]

    def _error(self, event: _Event) -> AssistantMessageEvent:
        self._say_who(event)
        self.ended = True
        return self._builder.error(
            event.error_message or _UNSAID,
            reason="aborted" if event.reason == "aborted" else "error",
            raw=event.raw_stop_reason,
            usage=self._usage(event),
            kind=event.kind,
            retryable=event.retryable,
            retry_after_seconds=event.retry_after_seconds,
        )

    def _say_who(self, event: _Event) -> None:
        """Another model than the one asked may have answered."""
        self._builder.update(response_id=event.response_id)
        draft = self._builder.draft
        given = {"provider": event.provider, "model": event.model, "api": event.api}
        changes: dict[str, Any] = {name: value for name, value in given.items() if value}
        if changes:
            draft.set_head(msgspec.structs.replace(draft.head, **changes))

    def _usage(self, event: _Event) -> Usage:
        """The usage as told; a server of pi's says 0 where it does not know the price."""
        if not event.usage:
            return Usage(known=False)
        fields: Any = msgspec.json.decode(event.usage)
        if not isinstance(fields, dict):
            return Usage(known=False)
        usage = Usage.from_dict(cast("dict[str, Any]", fields))
        if not self._full and not usage.cost.total and self._model.cost is None:
            usage = msgspec.structs.replace(usage, cost=Cost())
        return usage


_KNOWN = frozenset({
    "start", "text_start", "text_delta", "text_end", "thinking_start", "thinking_delta",
    "thinking_end", "toolcall_start", "toolcall_delta", "toolcall_end", "done",
})  # fmt: skip


def _refused(call: ToolCall) -> ParsedArguments | None:
    """Arguments that the proxy could not read; some faults cannot be seen from the text alone."""
    if call.arguments_error is None:
        return None
    return ParsedArguments({}, call.raw_arguments or "", call.arguments_error)
