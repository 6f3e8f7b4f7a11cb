"""Anthropic Messages, answers: the bytes of a stream -> events.                             (pure)

An event is known by the `type` in its data, since some hosts leave the event lines out; `ping` and
types nobody knows are signs of life. Blocks are kept apart by their index.

Blocks that only the vendor understands (its own tools' calls and results, compactions, fallbacks)
are kept as the signature of an empty text, so that they go back to it and to nobody else; the
citations of a text are kept in its signature, too: `{"citations": [...]}`. `message_stop` alone
makes a reply complete, unless the flag `message_stop` is False: the host never sends one, and the
stop reason counts. A reply that paused (`raw_stop_reason` is `pause_turn`) goes on when the
transcript is sent as it is.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

import msgspec

from ...errors import ModelError, RequestRefused, WireError
from ...stream import AssistantMessageEvent, ReplyBuilder
from ...stream.tool_arguments import parse_arguments
from ..bare_errors import error_in
from ..failures import failure_from_event, incomplete
from ..sse import SseSplitter
from ..usage_counts import UsageCounts
from .anthropic_messages_events import (
    Delta,
    Event,
    Head,
    decode_event,
    decode_leniently,
    usage_of,
)
from .stop_words import ending, word_of

__all__ = ["MessagesDecoder"]

_STOP = frozenset({"end_turn", "stop_sequence", "pause_turn", "compaction"})
_LENGTH = frozenset({"max_tokens", "model_context_window_exceeded"})
_TOOLS = frozenset({"tool_use"})
_REFUSED = frozenset({"refusal", "sensitive"})

_Kind = Literal["text", "thinking", "redacted", "call", "opaque"]

_OTHER_KIND: dict[str, _Kind] = {"text_delta": "thinking", "thinking_delta": "text"}

_NO_BLOCK = -2
"""No wire index, not even a missing one."""


class _OpenBlock:
    """A block that is being streamed."""

    __slots__ = ("at", "citations", "fields", "kind", "pieces", "raw", "signature")

    def __init__(self, kind: _Kind, at: int) -> None:
        self.kind: _Kind = kind
        self.at = at
        """Its content index; -1 for one that is not shown while it grows."""
        self.signature: list[str] = []
        self.citations: list[Any] = []
        self.pieces: list[str] = []
        """The arguments of a call."""
        self.fields: dict[str, Any] = {}
        """As it began, where that is needed later."""
        self.raw = b""
        """Likewise, as it came."""


class MessagesDecoder:
    """Reads one answer. See `wires.Decoder`."""

    def __init__(self, builder: ReplyBuilder, flags: Mapping[str, Any]) -> None:
        self.ended = False
        self._needs_message_stop = flags.get("message_stop") is not False
        self._builder = builder
        self._splitter = SseSplitter()
        self._started = False
        self._blocks: dict[int, _OpenBlock] = {}
        self._text_index = _NO_BLOCK  # of the text that grew last, and its place
        self._text_at = -1
        self._has_content = False
        self._stop: str | None = None
        self._details: dict[str, Any] = {}
        self._usage = UsageCounts(usage_of)

    def feed(self, chunk: bytes) -> list[AssistantMessageEvent]:
        events: list[AssistantMessageEvent] = []
        texts: list[str] = []  # of the text that is open, still to be handed on
        decode = decode_event
        data = b""
        try:
            for data in self._splitter.feed(chunk):
                try:
                    event = decode(data)
                except (msgspec.MsgspecError, UnicodeError):
                    if data.strip() == b"[DONE]":  # from gateways that know another dialect better
                        continue
                    event = decode_leniently(data)
                # The road of nearly all events: more of the text that is open, and nothing else.
                delta = event.delta
                if (
                    delta is not None
                    and event.index == self._text_index
                    and delta.type == "text_delta"
                    and event.type == "content_block_delta"
                ):
                    if delta.text:
                        texts.append(delta.text)
                    continue
                if texts:
                    events += self._builder.text_deltas(self._text_at, texts)
                    texts = []
                if self._read(event, data, events):
                    return events
        except (WireError, msgspec.MsgspecError) as error:
            if texts:
                events += self._builder.text_deltas(self._text_at, texts)
            self._fail(events, _unreadable(error, data))
            return events
        if texts:
            events += self._builder.text_deltas(self._text_at, texts)
        return events

    def finish(self) -> list[AssistantMessageEvent]:
        events: list[AssistantMessageEvent] = []
        for data in self._splitter.finish():
            if data.strip() == b"[DONE]":
                continue
            try:
                if self._read(decode_leniently(data), data, events):
                    return events
            except (WireError, msgspec.MsgspecError) as error:
                cut = self._started or data.lstrip()[:1] == b"{"
                self._fail(events, incomplete() if cut else _unreadable(error, data))
                return events
        stray = self._splitter.stray
        cut = b"event:".startswith(stray) or b"data:".startswith(stray)
        if not self._started and not cut:
            self._read_whole(events)
        elif self._stop is not None and not self._needs_message_stop:
            self._end(events)
        else:
            self._fail(events, incomplete())
        return events

    # -- one event ----------------------------------------------------------------------------

    def _read(self, event: Event, data: bytes, events: list[AssistantMessageEvent]) -> bool:
        """Add what *event*, which *data* is, says to *events*. True if that was the reply's end."""
        match event.type:
            case "content_block_delta":
                if event.delta is not None:
                    self._grow(event.index or 0, event.delta, events)
            case "content_block_start":
                self._open(event.index or 0, bytes(event.content_block), events)
            case "content_block_stop":
                self._close(event.index or 0, events)
            case "message_start":
                self._start(event, events)
            case "message_delta":
                self._note(event)
            case "message_stop":
                self._end(events)
                return True
            case _:
                error = _error(event, data)
                if error is not None:
                    self._fail(events, failure_from_event(error))
                    return True
        return False

    def _start(self, event: Event, events: list[AssistantMessageEvent]) -> None:
        try:
            head = msgspec.json.decode(event.message, type=Head) if event.message else Head()
        except msgspec.ValidationError:
            head = Head()
        self._usage.add(head.usage)
        asked = self._builder.draft.head.model
        # The model stays the one that was asked: signatures are worth something only to it.
        self._builder.update(
            usage=self._usage.usage,
            response_id=head.id,
            model=None if asked else head.model,
        )
        self._begin(events)

    def _begin(self, events: list[AssistantMessageEvent]) -> None:
        if not self._started:
            self._started = True
            self._builder.update(usage=self._usage.usage)
            events.append(self._builder.start())

    def _note(self, event: Event) -> None:
        """The reply's closing words: why it stopped, and what it took."""
        if event.delta is not None:
            self._stop = event.delta.stop_reason or self._stop
            if event.delta.stop_details:
                details: Any = msgspec.json.decode(event.delta.stop_details)
                self._details = cast("dict[str, Any]", details) if isinstance(details, dict) else {}
        if event.usage:
            self._usage.add(msgspec.json.decode(event.usage))
            self._builder.update(usage=self._usage.usage)

    # -- blocks -------------------------------------------------------------------------------

    def _open(self, index: int, raw: bytes, events: list[AssistantMessageEvent]) -> None:
        self._begin(events)
        if index in self._blocks:  # a host that numbers every block 0
            self._close(index, events)
        document: Any = msgspec.json.decode(raw) if raw else {}
        fields = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
        builder = self._builder
        match fields.get("type"):
            case "text":
                self._open_text(index, events)
                self._grow(index, Delta("text_delta", text=_text(fields, "text")), events)
                citations = fields.get("citations")
                if isinstance(citations, list):
                    self._blocks[index].citations += cast("list[Any]", citations)
            case "thinking":
                self._open_thinking(index, events)
                said, signature = _text(fields, "thinking"), _text(fields, "signature")
                self._grow(index, Delta("thinking_delta", thinking=said), events)
                self._grow(index, Delta("signature_delta", signature=signature), events)
            case "redacted_thinking":
                start = builder.thinking_start(redacted=True)
                events.append(start)
                block = _OpenBlock("redacted", start.content_index)
                block.signature.append(_text(fields, "data"))
                self._blocks[index] = block
            case "tool_use":
                id = _text(fields, "id") or f"call_{index}"
                call = builder.tool_call_start(id, _text(fields, "name"))
                events.append(call)
                block = _OpenBlock("call", call.content_index)
                block.fields = fields
                self._blocks[index] = block
            case _:
                block = _OpenBlock("opaque", -1)
                block.fields, block.raw = fields, raw
                self._blocks[index] = block
        self._has_content = True

    def _open_text(self, index: int, events: list[AssistantMessageEvent]) -> _OpenBlock:
        start = self._builder.text_start()
        events.append(start)
        block = self._blocks[index] = _OpenBlock("text", start.content_index)
        self._text_index, self._text_at = index, start.content_index
        self._has_content = True
        return block

    def _open_thinking(self, index: int, events: list[AssistantMessageEvent]) -> _OpenBlock:
        start = self._builder.thinking_start()
        events.append(start)
        block = self._blocks[index] = _OpenBlock("thinking", start.content_index)
        self._has_content = True
        return block

    def _grow(self, index: int, delta: Delta, events: list[AssistantMessageEvent]) -> None:
        block = self._blocks.get(index)
        if block is not None and _OTHER_KIND.get(delta.type) == block.kind:
            self._close(index, events)  # a host that announces one thing and says another
            block = None
        if block is None:
            block = self._unannounced(index, delta, events)
            if block is None:
                return
        builder = self._builder
        match delta.type:
            case "text_delta":
                if delta.text and block.kind == "text":
                    self._text_index, self._text_at = index, block.at
                    events.append(builder.text_delta(block.at, delta.text))
            case "thinking_delta":
                if delta.thinking and block.kind == "thinking":
                    events.append(builder.thinking_delta(block.at, delta.thinking))
            case "signature_delta":
                if delta.signature:
                    block.signature.append(delta.signature)
            case "input_json_delta":
                if delta.partial_json:
                    block.pieces.append(delta.partial_json)
                    if block.kind == "call":
                        events.append(builder.tool_call_delta(block.at, delta.partial_json))
            case "citations_delta":
                if delta.citation:
                    block.citations.append(msgspec.json.decode(delta.citation))
            case "compaction_delta":
                if delta.content:
                    block.fields["content"] = msgspec.json.decode(delta.content)
                    block.raw = b""
            case _:
                pass

    def _unannounced(
        self, index: int, delta: Delta, events: list[AssistantMessageEvent]
    ) -> _OpenBlock | None:
        """The block of a host that does not say when one begins."""
        self._begin(events)
        if delta.type == "text_delta":
            return self._open_text(index, events)
        if delta.type == "thinking_delta":
            return self._open_thinking(index, events)
        if delta.type == "input_json_delta" and delta.partial_json.strip():
            raise WireError(
                "a piece of a tool call came that belongs to no call",
                raw=delta.partial_json[:SHOWN_CHARACTERS],
            )
        return None

    def _close(self, index: int, events: list[AssistantMessageEvent]) -> None:
        block = self._blocks.pop(index, None)
        if block is None:
            return
        if self._text_index == index:
            self._text_index = _NO_BLOCK
        builder = self._builder
        match block.kind:
            case "text":
                kept = None
                if block.citations:
                    kept = msgspec.json.encode({"citations": block.citations}).decode()
                events.append(builder.text_end(block.at, signature=kept))
            case "thinking" | "redacted":
                signature = "".join(block.signature) or None
                events.append(builder.thinking_end(block.at, signature=signature))
            case "call":
                self._close_call(block, events)
            case "opaque":
                kept = _opaque(block)
                if kept is not None:
                    start = builder.text_start()
                    events.append(start)
                    events.append(builder.text_end(start.content_index, signature=kept))

    def _close_call(self, block: _OpenBlock, events: list[AssistantMessageEvent]) -> None:
        given = block.fields.get("input")
        if given and not block.pieces:  # the whole call came at once
            text = given if isinstance(given, str) else msgspec.json.encode(given).decode()
            events.append(self._builder.tool_call_delta(block.at, text))
        caller: Any = block.fields.get("caller")
        kept = None
        if isinstance(caller, dict) and cast("dict[str, Any]", caller).get("type") != "direct":
            kept = msgspec.json.encode({"caller": caller}).decode()
        events.append(self._builder.tool_call_end(block.at, thought_signature=kept))

    # -- the end ------------------------------------------------------------------------------

    def _end(self, events: list[AssistantMessageEvent]) -> None:
        raw = self._stop
        unfinished = [block for block in self._blocks.values() if block.kind == "call"]
        for index in list(self._blocks):
            self._close(index, events)
        if raw is None and not self._has_content and not self._usage.known:
            self._fail(events, incomplete())
            return
        if raw in _REFUSED:
            self._fail(events, self._refusal(raw))
            return
        reason: Literal["stop", "length"] = "length" if raw in _LENGTH else "stop"
        known = raw is None or raw in _STOP | _LENGTH | _TOOLS
        if not known:  # a gateway may pass on a word of the dialect behind it
            elsewhere = ending(word_of(raw))
            known, reason = elsewhere is not None, elsewhere or reason
        # Complete calls win over a word nobody knows.
        if not known and (unfinished or not self._has_calls()):
            said = f"the vendor ended the reply with the unknown reason {raw!r}"
            self._fail(events, ModelError(said, retryable=False))
            return
        self._begin(events)
        self.ended = True
        usage = self._usage.usage
        events.append(self._builder.done(reason, raw=raw, usage=usage))  # it looks for calls itself

    def _has_calls(self) -> bool:
        message = self._builder.draft.at(self._builder.draft.position)
        calls = message.tool_calls
        return bool(calls) and all(call.arguments_error is None for call in calls)

    def _refusal(self, raw: str | None) -> RequestRefused:
        said = f"the model refused to answer (stop reason {raw!r}"
        category, explanation = (_text(self._details, key) for key in ("category", "explanation"))
        said += f", category {category!r})" if category else ")"
        return RequestRefused(f"{said}: {explanation}" if explanation else said)

    def _fail(self, events: list[AssistantMessageEvent], failure: ModelError) -> None:
        self.ended = True
        events.append(
            self._builder.error(
                str(failure),
                raw=self._stop,
                usage=self._usage.usage,
                kind=failure.kind,
                retryable=failure.retryable,
                retry_after_seconds=failure.retry_after_seconds,
            )
        )

    def _read_whole(self, events: list[AssistantMessageEvent]) -> None:
        """A host that did not stream after all: one JSON document, or an error page."""
        body = self._splitter.stray.strip()
        try:
            document: Any = msgspec.json.decode(body)
        except (msgspec.MsgspecError, UnicodeError):
            shown = _shown(body)
            self._fail(events, WireError(f"the answer is no event stream: {shown}", raw=shown))
            return
        fields = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
        if not isinstance(fields.get("content"), list):
            self._fail(events, failure_from_event(document))
            return
        self._start(Event(message=msgspec.Raw(body)), events)
        try:
            for index, block in enumerate(cast("list[Any]", fields["content"])):
                self._open(index, msgspec.json.encode(block), events)
                self._close(index, events)
        except WireError as error:
            self._fail(events, error)
            return
        reason, details = fields.get("stop_reason"), fields.get("stop_details")
        self._stop = reason if isinstance(reason, str) else None
        self._details = cast("dict[str, Any]", details) if isinstance(details, dict) else {}
        self._end(events)


SHOWN_CHARACTERS = 300


def _opaque(block: _OpenBlock) -> str | None:
    """The block as it must go back to the vendor; None for one that was cut, which is not sent."""
    fields = block.fields
    if not isinstance(fields.get("type"), str):
        return None
    if block.pieces:
        parsed = parse_arguments("".join(block.pieces))
        if parsed.arguments_error is not None:
            return None
        fields = {**fields, "input": parsed.arguments}
    elif block.raw:
        return block.raw.decode("utf-8", "replace")
    return msgspec.json.encode(fields).decode()


def _error(event: Event, data: bytes) -> Any:
    """The error that *event* is, wherever it says so; None for a sign of life."""
    if event.type == "error" or (event.error and not event.type):
        said: Any = msgspec.json.decode(event.error) if event.error else None
        return said or msgspec.json.decode(data)
    return None if event.type else error_in(msgspec.json.decode(data))


def _text(fields: dict[str, Any], name: str) -> str:
    value = fields.get(name)
    return value if isinstance(value, str) else ""


def _shown(data: bytes) -> str:
    return data[:SHOWN_CHARACTERS].decode("utf-8", "replace")


def _unreadable(error: Exception, data: bytes) -> WireError:
    if isinstance(error, WireError):
        return error
    return WireError(f"the vendor sent what is not JSON of this dialect: {error}", raw=_shown(data))
