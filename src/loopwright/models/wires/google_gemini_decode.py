"""Gemini, answers: the bytes of a stream -> events.                                         (pure)

The stream is a row of small answers whose parts follow each other; neighbouring texts are one
block here, and so is neighbouring thinking. A thought signature belongs to the part it came with:
that of a call or of thinking is kept with it, those of a text are kept in its signature together
with where they stood: `{"signatures": [[start, end, "..."]]}`, or bare if there is one for the
whole text. Citations are kept there as well, under the names they come by.

Parts that only the vendor understands (its own tools' calls and results, code and its output,
images) are kept as the signature of an empty text, `{"part": ...}`, so that they go back to it and
to nobody else.

A reply is complete when a finish reason came; the body's end is waited for, since older models
send one with every piece. Ids are made up for calls that have none, out of the reply's own id.
"""

from __future__ import annotations

import re
from typing import Any, Literal, cast

import msgspec

from ...errors import ModelError, RequestRefused, WireError
from ...stream import AssistantMessageEvent, ReplyBuilder
from ..bare_errors import error_in
from ..failures import incomplete
from ..sse import SseSplitter
from ..usage_counts import UsageCounts
from .google_gemini_arguments import ArgumentWriter
from .google_gemini_chunks import (
    Candidate,
    Chunk,
    FunctionCall,
    Part,
    decode_call,
    decode_chunk,
    decode_leniently,
    raw_parts,
    usage_of,
)
from .google_gemini_failures import failure_of_event
from .stop_words import ending, word_of

__all__ = ["MADE_UP_ID", "GeminiDecoder"]

MADE_UP_ID = "call_"
"""How ids begin that the vendor did not give; its own never do."""

_LENGTH = frozenset({"MAX_TOKENS", "CONTINUATION"})
_REFUSED = frozenset({
    "SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "IMAGE_SAFETY",
    "IMAGE_PROHIBITED_CONTENT", "IMAGE_RECITATION", "MODEL_ARMOR", "ESCALATION",
    "PUP_LIMITED_DISABLED", "JAILBREAK",
})  # fmt: skip
_SLIPS = frozenset({"MALFORMED_FUNCTION_CALL", "MALFORMED_RESPONSE"})
"""The model wrote nonsense; asked again it mostly does not."""
_FAULTS = _SLIPS | {
    "OTHER", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS", "MISSING_THOUGHT_SIGNATURE",
    "IMAGE_OTHER", "NO_IMAGE",
}  # fmt: skip
_UNSAID = "FINISH_REASON_UNSPECIFIED"

_NONE_OPEN = -1
SHOWN_CHARACTERS = 300


class _OpenCall:
    """A call whose arguments are being streamed."""

    __slots__ = ("at", "has_text", "signature", "writer")

    def __init__(self, at: int, signature: str | None) -> None:
        self.at = at
        self.signature = signature
        self.has_text = False
        self.writer: ArgumentWriter | None = None


class GeminiDecoder:
    """Reads one answer. See `wires.Decoder`."""

    def __init__(self, builder: ReplyBuilder) -> None:
        self.ended = False
        self._builder = builder
        self._splitter = SseSplitter()
        self._started = False
        self._text_at = _NONE_OPEN
        self._text_length = 0
        self._signed: list[tuple[int, int, str]] = []  # of the text that is open
        self._thinking_at = _NONE_OPEN
        self._call: _OpenCall | None = None
        self._has_calls = False
        self._calls_made_up = 0
        self._response_id: str | None = None
        self._details: dict[str, msgspec.Raw] = {}
        self._finish: str | None = None
        self._finish_message: str | None = None
        self._usage = UsageCounts(usage_of)

    def feed(self, chunk: bytes) -> list[AssistantMessageEvent]:
        events: list[AssistantMessageEvent] = []
        texts: list[str] = []  # of the text that is open, still to be handed on
        decode = decode_chunk
        data = b""
        try:
            for data in self._splitter.feed(chunk):
                try:
                    event = decode(data)
                except (msgspec.MsgspecError, UnicodeError):
                    if data.strip() == b"[DONE]":  # from gateways that know another dialect better
                        continue
                    event, data = decode_leniently(data)
                # The road of nearly all events: more of the text that is open, and nothing else.
                candidates = event.candidates
                if candidates and self._text_at >= 0 and len(candidates) == 1:
                    candidate = candidates[0]
                    content = candidate.content
                    if (
                        content is not None
                        and candidate.finish_reason is None
                        and not candidate.grounding_metadata
                        and not candidate.citation_metadata
                        and not candidate.url_context_metadata
                        and not candidate.index
                    ):
                        parts = content.parts
                        if parts and len(parts) == 1:
                            part = parts[0]
                            text = part.text
                            if text and not part.thought and part.thought_signature is None:
                                texts.append(text)
                                self._count(event.usage_metadata)
                                continue
                if texts:
                    self._grow(texts, events)
                    texts = []
                if self._read(event, data, events):
                    break
            if texts:
                self._grow(texts, events)
            if not self.ended:
                self._builder.update(usage=self._usage.usage)
        except (WireError, msgspec.MsgspecError) as error:
            if texts:
                self._grow(texts, events)
            self._fail(events, _unreadable(error, data))
        return events

    def _grow(self, texts: list[str], events: list[AssistantMessageEvent]) -> None:
        if len(texts) == 1:
            self._text_length += len(texts[0])
            events.append(self._builder.text_delta(self._text_at, texts[0]))
        else:
            self._text_length += sum(map(len, texts))
            events += self._builder.text_deltas(self._text_at, texts)

    def finish(self) -> list[AssistantMessageEvent]:
        events: list[AssistantMessageEvent] = []
        for data in self._splitter.finish():
            if data.strip() == b"[DONE]":
                continue
            try:
                event, data = decode_leniently(data)
                if self._read(event, data, events):
                    return events
            except (WireError, msgspec.MsgspecError) as error:
                if self._finish is None:
                    cut = self._started or data.lstrip()[:1] == b"{"
                    self._fail(events, incomplete() if cut else _unreadable(error, data))
                    return events
        stray = self._splitter.stray.strip()
        if stray and self._finish is None and self._read_stray(stray, events):
            return events
        self._end(events)
        return events

    # -- one event ----------------------------------------------------------------------------

    def _read(self, chunk: Chunk, data: bytes, events: list[AssistantMessageEvent]) -> bool:
        """Add what *chunk* says to *events*. True if that was the end of the reply."""
        if _is_there(chunk.error):
            self._fail(events, failure_of_event(msgspec.json.decode(chunk.error)))
            return True
        if not chunk.candidates and not chunk.usage_metadata:
            error = error_in(msgspec.json.decode(data))
            if error is not None:
                self._fail(events, failure_of_event(error))
                return True
        self._count(chunk.usage_metadata)
        if not self._started:
            self._start(chunk, events)
        candidate = next((c for c in chunk.candidates or () if not c.index), None)
        if candidate is None:
            blocked = _blocked(chunk.prompt_feedback) if not chunk.candidates else None
            if blocked is not None:
                self._finish = blocked[0]
                self._fail(events, blocked[1])
                return True
            return False
        self._read_candidate(candidate, data, events)
        return False

    def _start(self, chunk: Chunk, events: list[AssistantMessageEvent]) -> None:
        self._started = True
        self._response_id = chunk.response_id
        asked = self._builder.draft.head.model
        # The model stays the one that was asked: signatures are worth something only to it.
        self._builder.update(
            usage=self._usage.usage,
            response_id=chunk.response_id,
            model=None if asked else chunk.model_version,
        )
        events.append(self._builder.start())

    def _read_candidate(
        self, candidate: Candidate, data: bytes, events: list[AssistantMessageEvent]
    ) -> None:
        raw: list[bytes] | None = None
        parts = candidate.content.parts if candidate.content is not None else None
        for place, part in enumerate(parts or ()):
            if _is_there(part.function_call):
                self._read_call(part, events)
                continue
            if part.text is None:
                raw = raw_parts(data) if raw is None else raw
                if not _is_bare(raw[place]):
                    self._keep(raw[place], events)
                    continue
            if part.thought:
                self._think(part.text or "", part.thought_signature, events)
            else:
                self._say(part.text or "", part.thought_signature, events)
        for name, detail in (
            ("groundingMetadata", candidate.grounding_metadata),
            ("citationMetadata", candidate.citation_metadata),
            ("urlContextMetadata", candidate.url_context_metadata),
        ):
            if _is_there(detail) and bytes(detail) != b"{}":
                self._details[name] = detail.copy()
        if candidate.finish_reason and candidate.finish_reason != _UNSAID:
            self._finish = candidate.finish_reason
            self._finish_message = candidate.finish_message

    def _count(self, usage: msgspec.Raw) -> None:
        if usage:
            self._usage.add(msgspec.json.decode(usage))

    # -- blocks -------------------------------------------------------------------------------

    def _say(self, text: str, signature: str | None, events: list[AssistantMessageEvent]) -> None:
        if not text and not signature:
            return
        if self._text_at < 0:
            self._close(events)
            start = self._builder.text_start()
            self._text_at, self._text_length = start.content_index, 0
            events.append(start)
        begin = self._text_length
        if text:
            self._text_length += len(text)
            events.append(self._builder.text_delta(self._text_at, text))
        if signature:
            self._signed.append((begin, self._text_length, signature))

    def _think(self, text: str, signature: str | None, events: list[AssistantMessageEvent]) -> None:
        if not text and not signature:
            return
        if self._thinking_at < 0:
            self._close(events)
            start = self._builder.thinking_start()
            self._thinking_at = start.content_index
            events.append(start)
        if text:
            events.append(self._builder.thinking_delta(self._thinking_at, text))
        if signature:  # it must not spread to what follows
            events.append(self._builder.thinking_end(self._thinking_at, signature=signature))
            self._thinking_at = _NONE_OPEN

    def _keep(self, part: bytes, events: list[AssistantMessageEvent]) -> None:
        """A part that only the vendor understands, as it came."""
        self._close(events)
        kept = f'{{"part":{part.decode()}}}'
        start = self._builder.text_start()
        events += [start, self._builder.text_end(start.content_index, signature=kept)]

    def _close(self, events: list[AssistantMessageEvent], *, last: bool = False) -> None:
        """End the block that is open; the *last* text carries the citations."""
        if self._text_at >= 0:
            kept = _kept(self._text_length, self._signed, self._details if last else {})
            events.append(self._builder.text_end(self._text_at, signature=kept))
            self._text_at = _NONE_OPEN
            self._signed = []
        elif self._thinking_at >= 0:
            events.append(self._builder.thinking_end(self._thinking_at))
            self._thinking_at = _NONE_OPEN
        elif self._call is not None:
            self._close_call(self._call, events, complete=True)

    # -- calls --------------------------------------------------------------------------------

    def _read_call(self, part: Part, events: list[AssistantMessageEvent]) -> None:
        said = decode_call(part.function_call)
        builder = self._builder
        if said.name or (self._call is None and _is_whole(said)):  # the model may forget the name
            self._close(events)
            start = builder.tool_call_start(said.id or self._made_up_id(), said.name or "")
            self._call = _OpenCall(start.content_index, part.thought_signature)
            self._has_calls = True
            events.append(start)
        call = self._call
        if call is None:
            if said.partial_args:
                raise WireError("a piece of a tool call came that belongs to no call")
            return  # the closing mark of a call that is closed
        if part.thought_signature and not said.name:
            call.signature = part.thought_signature
        if _is_there(said.args) and call.writer is None:
            call.has_text = True
            events.append(builder.tool_call_delta(call.at, _arguments_text(said.args)))
        elif said.partial_args:
            writer = call.writer = call.writer or ArgumentWriter()
            text = "".join([writer.add(piece) for piece in said.partial_args])
            if text:
                call.has_text = True
                events.append(builder.tool_call_delta(call.at, text))
        if not said.will_continue:
            self._close_call(call, events, complete=True)

    def _close_call(
        self, call: _OpenCall, events: list[AssistantMessageEvent], *, complete: bool
    ) -> None:
        """End *call*. One that was cut keeps the text it has, which is no JSON yet."""
        self._call = None
        builder, writer = self._builder, call.writer
        arguments: dict[str, Any] | None = None
        if complete and writer is not None:
            if writer.in_order:
                events.append(builder.tool_call_delta(call.at, writer.finish()))
            else:
                arguments = writer.arguments()
        elif not complete and not call.has_text:
            events.append(builder.tool_call_delta(call.at, "{"))
        end = builder.tool_call_end(call.at, arguments=arguments, thought_signature=call.signature)
        events.append(end)

    def _made_up_id(self) -> str:
        made_up = f"{MADE_UP_ID}{self._response_id}_{self._calls_made_up}"
        if self._response_id is None or not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", made_up):
            made_up = f"{MADE_UP_ID}{self._calls_made_up}"
        self._calls_made_up += 1
        return made_up

    # -- the end ------------------------------------------------------------------------------

    def _end(self, events: list[AssistantMessageEvent]) -> None:
        raw = self._finish
        if raw is None:
            self._fail(events, incomplete())
            return
        if raw in _REFUSED or raw in _FAULTS:
            self._fail(events, self._fault(raw))
            return
        # A gateway may pass on a word of the dialect behind it.
        known = "length" if raw in _LENGTH else ending(word_of(raw))
        reason: Literal["stop", "length"] = known or "stop"
        unfinished = self._call is not None
        if self._call is not None:
            self._close_call(self._call, events, complete=known == "stop")
        # Complete calls win over a word nobody knows.
        if known is None and (unfinished or not self._has_calls):
            said = f"the vendor ended the reply with the unknown reason {raw!r}"
            self._fail(events, ModelError(said, retryable=False))
            return
        if self._details and self._text_at < 0:  # nothing else could carry them
            self._close(events)
            start = self._builder.text_start()
            self._text_at, self._text_length = start.content_index, 0
            events.append(start)
        self._close(events, last=True)
        self.ended = True
        usage = self._usage.usage
        events.append(self._builder.done(reason, raw=raw, usage=usage))  # it looks for calls itself

    def _fault(self, raw: str) -> ModelError:
        why = f": {self._finish_message}" if self._finish_message else ""
        if raw in _REFUSED:
            return RequestRefused(f"the model refused to answer (finish reason {raw!r}){why}")
        said = f"the reply failed (finish reason {raw!r}){why}"
        return ModelError(said, retryable=raw in _SLIPS)

    def _fail(self, events: list[AssistantMessageEvent], failure: ModelError) -> None:
        self.ended = True
        events.append(
            self._builder.error(
                str(failure),
                raw=self._finish,
                usage=self._usage.usage,
                kind=failure.kind,
                retryable=failure.retryable,
                retry_after_seconds=failure.retry_after_seconds,
            )
        )

    def _read_stray(self, stray: bytes, events: list[AssistantMessageEvent]) -> bool:
        """What came outside any event: an error in the middle of the stream, or a host that did
        not stream after all and sent JSON, in an array or bare. True if that was the end."""
        if b"data:".startswith(stray) or b"event:".startswith(stray):
            return False  # a line that was cut
        try:
            document: Any = msgspec.json.decode(stray)
        except (msgspec.MsgspecError, UnicodeError):
            if self._started or stray[:1] in b"[{":
                return False  # broken off
            self._fail(events, _no_stream(stray))
            return True
        chunks = cast("list[Any]", document) if isinstance(document, list) else [document]
        try:
            for chunk in chunks:
                if not isinstance(chunk, dict):
                    self._fail(events, _no_stream(stray))
                    return True
                event, data = decode_leniently(msgspec.json.encode(chunk))
                if self._read(event, data, events):
                    return True
        except (WireError, msgspec.MsgspecError) as error:
            self._fail(events, _unreadable(error, stray))
            return True
        if self._finish is None and not any(chunk.get("candidates") for chunk in chunks):
            self._fail(events, _no_stream(stray))
            return True
        return False


def _kept(
    length: int, signed: list[tuple[int, int, str]], details: dict[str, msgspec.Raw]
) -> str | None:
    """The signature of a text: bare if it is one for all of it."""
    if not details and len(signed) == 1 and signed[0][:2] == (0, length):
        return signed[0][2]
    if not details and not signed:
        return None
    fields: dict[str, Any] = dict(details)
    if signed:
        fields["signatures"] = signed
    return msgspec.json.encode(fields).decode()


def _is_there(field: msgspec.Raw) -> bool:
    return bool(field) and bytes(field) != b"null"


def _arguments_text(args: msgspec.Raw) -> str:
    """*args* as JSON text; a gateway may send the object as such a text itself."""
    text = bytes(args).decode()
    if text[:1] == '"':
        said: str = msgspec.json.decode(args)
        return said if said.lstrip()[:1] == "{" else text
    return text


def _is_whole(call: FunctionCall) -> bool:
    return _is_there(call.args) and bytes(call.args) != b"{}"


def _is_bare(part: bytes) -> bool:
    """There is nothing in *part* but a signature, or nothing at all."""
    fields: Any = msgspec.json.decode(part)
    return not set(fields) - {"text", "thought", "thoughtSignature"}


def _blocked(feedback: msgspec.Raw) -> tuple[str, RequestRefused] | None:
    """Why the prompt was not answered at all, if it was blocked."""
    fields: Any = msgspec.json.decode(feedback) if feedback else None
    if not isinstance(fields, dict):
        return None
    said = cast("dict[str, Any]", fields)
    reason, why = said.get("blockReason"), said.get("blockReasonMessage")
    if not isinstance(reason, str):
        return None
    text = f"the vendor blocked the prompt (block reason {reason!r})"
    return reason, RequestRefused(f"{text}: {why}" if isinstance(why, str) and why else text)


def _shown(data: bytes) -> str:
    return data[:SHOWN_CHARACTERS].decode("utf-8", "replace")


def _no_stream(data: bytes) -> WireError:
    shown = _shown(data)
    return WireError(f"the answer is no event stream: {shown}", raw=shown)


def _unreadable(error: Exception, data: bytes) -> WireError:
    if isinstance(error, WireError):
        return error
    return WireError(f"the vendor sent what is not JSON of this dialect: {error}", raw=_shown(data))
