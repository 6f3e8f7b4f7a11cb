"""Bedrock Converse, answers: the bytes of an AWS event stream -> events.                    (pure)

Blocks are kept apart by their index; only tool calls are announced, text and thinking begin with
their first piece. `messageStop` makes a reply complete, and the usage that follows in `metadata`
ends it; a body that breaks off in the middle of a frame was cut, whatever it had said before.

Calls that the vendor runs itself and their results are kept as the signature of an empty text, so
that they go back to that model and to nobody else; the citations of a text are kept in its
signature: `{"citations": [...]}`. Faults come as frames of their own.
"""

from __future__ import annotations

import base64
import binascii
from typing import Any, Literal, TypeVar, cast

import msgspec

from ...errors import ModelError, RequestRefused, WireError
from ...stream import AssistantMessageEvent, ReplyBuilder
from ...stream.tool_arguments import parse_arguments
from ..eventstream import EventStreamSplitter, FrameHead
from ..failures import incomplete
from ..usage_counts import UsageCounts
from .bedrock_converse_events import (
    Delta,
    DeltaEvent,
    ReasoningDelta,
    StartEvent,
    StopEvent,
    decode_delta,
    read_leniently,
    usage_of,
)
from .bedrock_converse_faults import fault_of_frame, not_a_stream
from .stop_words import ending, word_of

__all__ = ["ConverseDecoder"]

_STOP = frozenset({"end_turn", "stop_sequence"})
_LENGTH = frozenset({"max_tokens", "model_context_window_exceeded"})
_TOOLS = frozenset({"tool_use"})
_REFUSED = frozenset({"guardrail_intervened", "content_filtered"})
_MALFORMED = frozenset({"malformed_model_output", "malformed_tool_use"})

_Kind = Literal["text", "thinking", "redacted", "call", "opaque"]

_NO_BLOCK = -1
SHOWN_CHARACTERS = 300
SHOWN_BYTES = 65_536

_NO_JSON = (msgspec.MsgspecError, UnicodeError)


class _OpenBlock:
    """A block that is being streamed."""

    __slots__ = ("at", "citations", "fields", "kind", "pieces", "results", "signature")

    def __init__(self, kind: _Kind, at: int) -> None:
        self.kind: _Kind = kind
        self.at = at
        """Its content index; -1 for one that is not shown while it grows."""
        self.signature: list[str] = []
        self.citations: list[Any] = []
        self.pieces: list[str] = []
        """The arguments of a call that the vendor runs."""
        self.fields: dict[str, Any] = {}
        """Such a call, or its result, as it began."""
        self.results: list[Any] = []


class ConverseDecoder:
    """Reads one answer. See `wires.Decoder`."""

    def __init__(self, builder: ReplyBuilder) -> None:
        self.ended = False
        self._builder = builder
        self._splitter = EventStreamSplitter()
        self._stray: bytearray | None = None  # what came instead of an event stream
        self._started = False
        self._blocks: dict[int, _OpenBlock] = {}
        self._text_index = _NO_BLOCK  # of the text that grew last, and its place
        self._text_at = -1
        self._calls = 0
        self._stop: str | None = None
        self._stopped = False
        self._usage = UsageCounts(usage_of)
        self._guardrail = ""

    def feed(self, chunk: bytes) -> list[AssistantMessageEvent]:
        events: list[AssistantMessageEvent] = []
        if not self._started and chunk and self._is_stray(chunk):
            return events
        texts: list[str] = []  # of the text that is open, still to be handed on
        payload = b""
        try:
            for head, payload in self._splitter.feed(chunk):
                # The road of nearly all frames: more of the text that is open, and nothing else.
                if self._text_index >= 0 and head.name == "contentBlockDelta":
                    try:
                        event = decode_delta(payload)
                    except _NO_JSON:
                        event = _leniently(payload, DeltaEvent)
                    text = event.delta.text
                    if text and event.content_block_index == self._text_index:
                        texts.append(text)
                        continue
                    if texts:
                        events += self._builder.text_deltas(self._text_at, texts)
                        texts = []
                    self._grow(event.content_block_index, event.delta, events)
                    continue
                if texts:
                    events += self._builder.text_deltas(self._text_at, texts)
                    texts = []
                if self._read(head, payload, events):
                    return events
        except (WireError, *_NO_JSON) as error:
            if texts:
                events += self._builder.text_deltas(self._text_at, texts)
            self._fail(events, _unreadable(error, payload))
            return events
        if texts:
            events += self._builder.text_deltas(self._text_at, texts)
        if self._splitter.fault is not None:
            said = f"the answer is no sound event stream: {self._splitter.fault}"
            self._fail(events, WireError(said))
        return events

    def finish(self) -> list[AssistantMessageEvent]:
        events: list[AssistantMessageEvent] = []
        if self._stray is not None:
            self._fail(events, not_a_stream(bytes(self._stray)))
        elif self._stopped and not self._splitter.unfinished:
            self._end(events)
        else:
            self._fail(events, incomplete())
        return events

    def _is_stray(self, chunk: bytes) -> bool:
        """Keep what is text: no frame is so long that it could begin with a letter."""
        if self._stray is None:
            if self._splitter.unfinished or chunk[0] < _SPACE:
                return False
            self._stray = bytearray()
        self._stray += chunk[: SHOWN_BYTES - len(self._stray)]
        return True

    # -- one frame ----------------------------------------------------------------------------

    def _read(self, head: FrameHead, payload: bytes, events: list[AssistantMessageEvent]) -> bool:
        """Add what a frame says to *events*. True if that was the end of the reply."""
        if head.message_type != "event":
            self._fail(events, fault_of_frame(head, payload))
            return True
        match head.name:
            case "contentBlockDelta":
                event = _decoded(payload, DeltaEvent)
                self._grow(event.content_block_index, event.delta, events)
            case "contentBlockStart":
                self._open(_decoded(payload, StartEvent), events)
            case "contentBlockStop":
                self._close(_decoded(payload, StopEvent).content_block_index, events)
            case "messageStart":
                self._begin(events)
            case "messageStop":
                fields = _object(payload)
                reason = fields.get("stopReason")
                self._stop = reason if isinstance(reason, str) else None
                self._stopped = True
            case "metadata":
                self._note(_object(payload))
                if self._stopped:
                    self._end(events)
                    return True
            case _:
                pass  # a sign of life
        return False

    def _begin(self, events: list[AssistantMessageEvent]) -> None:
        if not self._started:
            self._started = True
            self._builder.update(usage=self._usage.usage)
            events.append(self._builder.start())

    def _note(self, fields: dict[str, Any]) -> None:
        self._usage.add(fields.get("usage"))
        self._builder.update(usage=self._usage.usage)
        trace = fields.get("trace")
        guardrail = _part(trace, "guardrail") if isinstance(trace, dict) else {}
        reason = guardrail.get("actionReason")
        if isinstance(reason, str):
            self._guardrail = reason.strip().replace("\n", " ")

    # -- blocks -------------------------------------------------------------------------------

    def _open(self, event: StartEvent, events: list[AssistantMessageEvent]) -> None:
        self._begin(events)
        index = event.content_block_index
        call, result = event.start.tool_use, event.start.tool_result
        if call is None and result is None:
            return  # of a kind nobody knows; what it brings is passed over likewise
        self._close(index, events)
        if call is not None and call.get("type") in (None, "tool_use"):
            name, id = call.get("name"), call.get("toolUseId")
            name = name if isinstance(name, str) else ""
            start = self._builder.tool_call_start(str(id or f"call_{index}"), name)
            events.append(start)
            self._blocks[index] = _OpenBlock("call", start.content_index)
            self._calls += 1
            return
        block = self._blocks[index] = _OpenBlock("opaque", -1)
        block.fields = {"toolUse": call} if call is not None else {"toolResult": result}

    def _grow(self, index: int, delta: Delta, events: list[AssistantMessageEvent]) -> None:
        self._begin(events)
        builder = self._builder
        if delta.text is not None:
            block = self._blocks.get(index)
            if not delta.text and (block is None or block.kind != "text"):
                return  # some models begin and end with nothing
            block = self._spoken(index, "text", events)
            self._text_index, self._text_at = index, block.at
            if delta.text:
                events.append(builder.text_delta(block.at, delta.text))
        elif delta.tool_use is not None:
            piece = delta.tool_use.input
            self._grow_call(index, piece if isinstance(piece, str) else _encoded(piece), events)
        elif delta.reasoning_content is not None:
            self._think(index, delta.reasoning_content, events)
        elif delta.citation:
            block = self._spoken(index, "text", events)
            block.citations.append(msgspec.json.decode(delta.citation))
        elif delta.tool_result:
            block = self._blocks.get(index)
            pieces: Any = msgspec.json.decode(delta.tool_result)
            if block is not None and block.kind == "opaque" and isinstance(pieces, list):
                block.results += cast("list[Any]", pieces)

    def _grow_call(self, index: int, piece: str, events: list[AssistantMessageEvent]) -> None:
        block = self._blocks.get(index)
        if block is None or block.kind not in ("call", "opaque"):
            if not piece.strip():
                return
            said = "a piece of a tool call came that belongs to no call"
            raise WireError(said, raw=piece[:SHOWN_CHARACTERS])
        if not piece:
            return
        if block.kind == "call":
            events.append(self._builder.tool_call_delta(block.at, piece))
        else:
            block.pieces.append(piece)

    def _think(
        self, index: int, delta: ReasoningDelta, events: list[AssistantMessageEvent]
    ) -> None:
        if delta.redacted_content is not None:
            block = self._spoken(index, "redacted", events)
            block.signature.append(delta.redacted_content)
            return
        if not delta.text and not delta.signature:
            return
        block = self._spoken(index, "thinking", events)
        if delta.text:
            events.append(self._builder.thinking_delta(block.at, delta.text))
        if delta.signature:
            block.signature.append(delta.signature)

    def _spoken(self, index: int, kind: _Kind, events: list[AssistantMessageEvent]) -> _OpenBlock:
        """The open block of that *kind* at *index*; a new one if there is none."""
        block = self._blocks.get(index)
        if block is not None:
            if block.kind == kind:
                return block
            self._close(index, events)
        builder = self._builder
        start = (
            builder.text_start()
            if kind == "text"
            else builder.thinking_start(redacted=kind == "redacted")
        )
        events.append(start)
        block = self._blocks[index] = _OpenBlock(kind, start.content_index)
        return block

    def _close(self, index: int, events: list[AssistantMessageEvent]) -> None:
        block = self._blocks.pop(index, None)
        if block is None:
            return
        if self._text_index == index:
            self._text_index = _NO_BLOCK
        builder = self._builder
        match block.kind:
            case "text":
                kept = _encoded({"citations": block.citations}) if block.citations else None
                events.append(builder.text_end(block.at, signature=kept))
            case "thinking":
                signature = "".join(block.signature) or None
                events.append(builder.thinking_end(block.at, signature=signature))
            case "redacted":
                events.append(builder.thinking_end(block.at, signature=_joined(block.signature)))
            case "call":
                events.append(builder.tool_call_end(block.at))
            case "opaque":
                kept = _opaque(block)
                if kept is not None:
                    start = builder.text_start()
                    events += [start, builder.text_end(start.content_index, signature=kept)]

    # -- the end ------------------------------------------------------------------------------

    def _end(self, events: list[AssistantMessageEvent]) -> None:
        raw = self._stop
        unfinished = any(block.kind == "call" for block in self._blocks.values())
        for index in list(self._blocks):
            self._close(index, events)
        if raw in _REFUSED:
            self._fail(events, self._refusal(raw))
            return
        known = raw is None or raw in _STOP | _LENGTH | _TOOLS
        reason: Literal["stop", "length"] = "length" if raw in _LENGTH else "stop"
        if not known:  # a model's host may pass on a word of another dialect
            elsewhere = ending(word_of(raw))
            known, reason = elsewhere is not None, elsewhere or reason
        # Complete calls win over a word nobody knows.
        if not known and (raw in _MALFORMED or unfinished or not self._has_complete_calls()):
            if raw in _MALFORMED:
                said = f"what the model wrote could not be read by its host (stop reason {raw!r})"
            else:
                said = f"the vendor ended the reply with the unknown reason {raw!r}"
            self._fail(events, ModelError(said, retryable=raw in _MALFORMED))
            return
        self._begin(events)
        self.ended = True
        usage = self._usage.usage
        events.append(self._builder.done(reason, raw=raw, usage=usage))  # it looks for calls itself

    def _has_complete_calls(self) -> bool:
        calls = self._builder.draft.at(self._builder.draft.position).tool_calls
        return bool(calls) and all(call.arguments_error is None for call in calls)

    def _refusal(self, raw: str | None) -> RequestRefused:
        said = f"the vendor's filter stopped the reply (stop reason {raw!r})"
        return RequestRefused(f"{said}: {self._guardrail}" if self._guardrail else said)

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


_SPACE = 32


def _opaque(block: _OpenBlock) -> str | None:
    """The block as it must go back to the vendor; None for one that was cut, which is not sent."""
    if "toolUse" in block.fields:
        parsed = parse_arguments("".join(block.pieces))
        if parsed.arguments_error is not None:
            return None
        return _encoded({"toolUse": {**block.fields["toolUse"], "input": parsed.arguments}})
    return _encoded({"toolResult": {**block.fields["toolResult"], "content": block.results}})


_Event = TypeVar("_Event", DeltaEvent, StartEvent, StopEvent)


def _decoded(payload: bytes, kind: type[_Event]) -> _Event:
    try:
        return msgspec.json.decode(payload, type=kind)
    except _NO_JSON:
        return _leniently(payload, kind)


def _leniently(payload: bytes, kind: type[_Event]) -> _Event:
    return msgspec.json.decode(read_leniently(payload), type=kind)


def _encoded(fields: dict[str, Any]) -> str:
    return msgspec.json.encode(fields).decode()


def _joined(pieces: list[str]) -> str | None:
    """The base64 text of bytes that came in pieces, each in base64 of its own."""
    if len(pieces) < 2:
        return pieces[0] if pieces else None
    try:
        data = b"".join(base64.b64decode(piece, validate=True) for piece in pieces)
    except (binascii.Error, ValueError):
        return "".join(pieces)
    return base64.b64encode(data).decode()


def _object(payload: bytes) -> dict[str, Any]:
    """Raises `WireError` for what is no JSON."""
    try:
        document: Any = msgspec.json.decode(payload)
    except _NO_JSON:
        try:
            document = msgspec.json.decode(read_leniently(payload))
        except _NO_JSON as error:
            raise _unreadable(error, payload) from None
    return cast("dict[str, Any]", document) if isinstance(document, dict) else {}


def _part(fields: Any, name: str) -> dict[str, Any]:
    value = cast("dict[str, Any]", fields).get(name)
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def _unreadable(error: Exception, data: bytes) -> WireError:
    if isinstance(error, WireError):
        return error
    shown = data[:SHOWN_CHARACTERS].decode("utf-8", "replace")
    return WireError(f"the vendor sent what is not JSON of this dialect: {error}", raw=shown)
