"""Chat Completions, answers: the bytes of a stream -> events.

One decoder reads every host that speaks the dialect, since hosts differ in what they leave out
and add, not in what it means. In particular:

- Fragments of tool calls are put together by `openai_chat_calls`, whatever index and id they have.
- Reasoning comes in one of several fields, sometimes in two at once: the first that has text wins.
- Usage may come in any chunk, before or after the last text. The last one counts.
- The reply is complete with a finish reason, or with `[DONE]` behind some content. A body that
  ends without either was cut.

Flags read here: `reasoning_in` (fields to look at, in order), `finish_reason` (False: the host
never sends one).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, cast

import msgspec

from ...errors import ModelError, RequestRefused, WireError
from ...messages import Usage
from ...stream import AssistantMessageEvent, ReplyBuilder
from ..failures import failure_from_event, incomplete
from ..sse import SseSplitter
from .openai_chat_calls import OpenCall, OpenCalls, is_object
from .openai_chat_chunks import (
    CallFragment,
    Chunk,
    Delta,
    Head,
    decode_chunk,
    decode_head,
    decode_leniently,
    usage_of,
)

__all__ = ["REFUSAL_MARK", "ChatDecoder"]

REFUSAL_MARK = "refusal"
"""The text signature of a text block in which the model declined to answer."""


_NO_JSON = (msgspec.MsgspecError, UnicodeError)

_STOP = frozenset({"stop", "end", "eos", "end_turn", "stop_sequence", "completed"})
_LENGTH = frozenset({"length", "max_tokens", "model_length"})
_TOOLS = frozenset({"tool_calls", "function_call", "tool_use"})
_REFUSED = frozenset({"content_filter", "refusal", "safety", "sensitive"})


class ChatDecoder:
    """Reads one answer. See `wires.Decoder`."""

    def __init__(self, builder: ReplyBuilder, flags: Mapping[str, Any]) -> None:
        self.ended = False
        self._builder = builder
        self._splitter = SseSplitter()
        self._reasoning_in: tuple[str, ...] | None = (
            tuple(flags["reasoning_in"]) if flags.get("reasoning_in") else None
        )
        self._needs_finish_reason = flags.get("finish_reason") is not False
        self._started = False
        self._finish: str | None = None
        self._usage: Usage | None = None
        self._text = -1  # the open block of each kind
        self._thinking = -1
        self._refusal = -1
        self._details: list[dict[str, Any]] = []
        self._has_content = False
        self._calls = OpenCalls()

    def feed(self, chunk: bytes) -> list[AssistantMessageEvent]:
        events: list[AssistantMessageEvent] = []
        texts: list[str] = []  # of the text that is open, still to be handed on
        data = b""
        try:
            for data in self._splitter.feed(chunk):
                try:
                    read = decode_chunk(data)
                except msgspec.MsgspecError:
                    read = self._decode_again(data)
                if read is not None and self._text >= 0:
                    text = _only_text(read)  # nearly all chunks are more of the text that is open
                    if text:
                        texts.append(text)
                        continue
                if texts:
                    events += self._builder.text_deltas(self._text, texts)
                    texts = []
                if self._read(read, data, events):
                    self.ended = True
                    return events
        except (WireError, *_NO_JSON) as error:
            if texts:
                events += self._builder.text_deltas(self._text, texts)
            self._fail(events, _unreadable(error, data))
            return events
        if texts:
            events += self._builder.text_deltas(self._text, texts)
        return events

    def finish(self) -> list[AssistantMessageEvent]:
        events: list[AssistantMessageEvent] = []
        data = b""
        try:
            for data in self._splitter.finish():
                if self._read(self._decode_again(data), data, events):
                    self.ended = True
                    return events
        except WireError as error:
            self._fail(events, error)
            return events
        except _NO_JSON as error:
            if self._finish is None:
                failure = incomplete() if self._started else _unreadable(error, data)
                self._fail(events, failure)
                return events
        if not self._started and self._splitter.stray and self._read_whole(events):
            return events
        self._end(events, marked=False)
        return events

    # -- one event ----------------------------------------------------------------------------

    def _decode_again(self, data: bytes) -> Chunk | None:
        """*data* as a chunk, if need be as far as it can be read. None for the mark of the end, and
        for what a host adds behind a complete reply, which does not matter."""
        try:
            return decode_chunk(data)
        except msgspec.MsgspecError:
            if self._finish is not None or data.strip() == b"[DONE]":
                return None
            return decode_leniently(data)

    def _read(self, chunk: Chunk | None, data: bytes, events: list[AssistantMessageEvent]) -> bool:
        """Add what *chunk* says to *events*. True if that was the end of the reply."""
        if chunk is None:
            if data.strip() != b"[DONE]":
                return False
            self._end(events, marked=True)
            return True
        if not self._started:
            if chunk.error:
                self._fail(events, failure_from_event(chunk.error))
                return True
            self._start(data, events)
        choices = chunk.choices
        if choices:
            choice = choices[0]
            if choice.index:  # only the first of several alternatives is the reply
                choice = next((other for other in choices if not other.index), None)
            if choice is not None:
                delta = choice.delta or choice.message
                if delta is not None:
                    self._grow(delta, events)
                if choice.finish_reason is not None:
                    self._finish = choice.finish_reason or self._finish
                if choice.usage:
                    self._usage = usage_of(choice.usage)
        if chunk.usage:
            self._usage = usage_of(chunk.usage)
        elif chunk.x_groq and self._usage is None and isinstance(chunk.x_groq.get("usage"), dict):
            self._usage = usage_of(chunk.x_groq["usage"])
        if chunk.error:
            self._fail(events, failure_from_event(chunk.error))
            return True
        return False

    def _start(self, data: bytes, events: list[AssistantMessageEvent]) -> None:
        self._started = True
        try:
            head = decode_head(data)
        except msgspec.MsgspecError:
            head = Head()
        asked = self._builder.draft.head.model
        # The model stays the one that was asked: signatures are worth something only to it.
        self._builder.update(response_id=head.id, model=None if asked else head.model)
        events.append(self._builder.start())

    def _grow(self, delta: Delta, events: list[AssistantMessageEvent]) -> None:
        reasoning = self._reasoning(delta)
        if reasoning:
            self._think(reasoning, events)
        if delta.reasoning_details:
            self._keep_details(delta.reasoning_details, events)
        content = delta.content
        if content:
            if type(content) is str:
                index = self._text
                if index < 0:
                    index = self._open_text(events)
                events.append(self._builder.text_delta(index, content))
            else:
                self._parts(cast("list[dict[str, Any]]", content), events)
        if delta.refusal:
            if self._refusal < 0:
                self._close_spoken(events)
                start = self._builder.text_start()
                events.append(start)
                self._refusal = start.content_index
                self._has_content = True
            events.append(self._builder.text_delta(self._refusal, delta.refusal))
        if delta.tool_calls:
            for fragment in delta.tool_calls:
                self._call(fragment, events)
        elif delta.function_call is not None:
            self._call(CallFragment(0, None, delta.function_call), events)

    # -- text and thinking --------------------------------------------------------------------

    def _open_text(self, events: list[AssistantMessageEvent]) -> int:
        self._close_spoken(events)
        start = self._builder.text_start()
        events.append(start)
        self._text = start.content_index
        self._has_content = True
        return self._text

    def _think(self, text: str, events: list[AssistantMessageEvent]) -> None:
        if self._thinking < 0:
            self._close_spoken(events)
            start = self._builder.thinking_start()
            events.append(start)
            self._thinking = start.content_index
            self._has_content = True
        events.append(self._builder.thinking_delta(self._thinking, text))

    def _reasoning(self, delta: Delta) -> str | None:
        """The first of the fields that has text; some hosts send the same in two."""
        fields = self._reasoning_in
        if fields:
            for name in fields:
                value = getattr(delta, name, None)
                if value and type(value) is str:
                    return value
        text = delta.reasoning_content or delta.reasoning or delta.reasoning_text
        if text or not delta.reasoning_details:
            return text
        return "".join([_detail_text(detail) for detail in delta.reasoning_details])

    def _keep_details(
        self, details: list[dict[str, Any]], events: list[AssistantMessageEvent]
    ) -> None:
        """Keep what must go back as it came: signatures and encrypted reasoning (OpenRouter)."""
        for detail in details:
            last = self._details[-1] if self._details else None
            if (
                last is not None
                and last.get("type") == detail.get("type")
                and last.get("index") == detail.get("index")
                and isinstance(last.get("text"), str)
                and detail.get("type") == "reasoning.text"
            ):
                text, piece = last["text"], detail.get("text")
                known = {key: value for key, value in detail.items() if value is not None}
                last.update(known)
                last["text"] = text + piece if isinstance(piece, str) else text
            else:
                self._details.append(dict(detail))
        if self._thinking < 0 and any("data" in detail for detail in details):
            self._close_spoken(events)
            start = self._builder.thinking_start(redacted=True)
            events.append(start)
            self._thinking = start.content_index
            self._has_content = True

    def _close_spoken(self, events: list[AssistantMessageEvent]) -> None:
        """End the block of text or thinking that was open; calls may go on side by side."""
        builder = self._builder
        if self._thinking >= 0:
            signature = None
            if any("signature" in detail or "data" in detail for detail in self._details):
                signature = msgspec.json.encode(self._details).decode()
            self._details = []
            events.append(builder.thinking_end(self._thinking, signature=signature))
        if self._text >= 0:
            events.append(builder.text_end(self._text))
        if self._refusal >= 0:
            events.append(builder.text_end(self._refusal, signature=REFUSAL_MARK))
        self._thinking = self._text = self._refusal = -1

    def _parts(self, parts: list[dict[str, Any]], events: list[AssistantMessageEvent]) -> None:
        """Content that comes as a list: text, and thinking made of text (Mistral)."""
        for part in parts:
            kind = part.get("type")
            if kind == "thinking":
                inner: Any = part.get("thinking")
                pieces: list[Any] = cast("list[Any]", inner) if isinstance(inner, list) else [inner]
                text = "".join([_part_text(piece) for piece in pieces])
                if text:
                    self._think(text, events)
                if isinstance(part.get("signature"), str):
                    self._details.append({"type": "thinking", "signature": part["signature"]})
            elif kind == "text" and isinstance(part.get("text"), str) and part["text"]:
                index = self._text if self._text >= 0 else self._open_text(events)
                events.append(self._builder.text_delta(index, part["text"]))

    # -- tool calls ---------------------------------------------------------------------------

    def _call(self, fragment: CallFragment, events: list[AssistantMessageEvent]) -> None:
        function = fragment.function
        name = (function.name if function else None) or ""
        arguments = (function.arguments if function else None) or ""
        if not isinstance(arguments, str):  # the whole call at once, as an object
            arguments = msgspec.json.encode(arguments).decode()
        call = self._calls.find(fragment, name, arguments)
        if call is None:
            if not (name or fragment.id):
                if not arguments.strip():
                    return
                raise WireError(
                    "a piece of a tool call came that belongs to no call", raw=arguments[:500]
                )
            call = self._open_call(fragment, name, events)
        elif fragment.id and not call.id:
            self._calls.take_id(call, fragment.id)
        if name and not call.name:
            call.name = name
        if arguments:
            call.pieces.append(arguments)
            events.append(self._builder.tool_call_delta(call.block, arguments))

    def _open_call(
        self, fragment: CallFragment, name: str, events: list[AssistantMessageEvent]
    ) -> OpenCall:
        self._close_spoken(events)
        start = self._builder.tool_call_start(fragment.id or self._made_up_id(), name)
        events.append(start)
        self._has_content = True
        call = OpenCall(start.content_index, fragment.id or "", name)
        self._calls.add(call, fragment)
        return call

    def _made_up_id(self) -> str:
        """An id for a host that gives none: the response's own makes it unique in a run."""
        response = self._builder.draft.head.response_id or ""
        kept = "".join([c for c in response if c.isalnum()])[-20:]
        return f"call_{kept}_{len(self._calls.every)}" if kept else f"call_{len(self._calls.every)}"

    # -- the end ------------------------------------------------------------------------------

    def _end(self, events: list[AssistantMessageEvent], *, marked: bool) -> None:
        """The body is over, or the marker of its end came."""
        raw = self._finish
        if raw is None and not self._may_end_without_reason(marked):
            self._fail(events, self._said_outside() or incomplete())
            return
        nameless = next((call for call in self._calls.every if not call.name), None)
        if nameless is not None:
            text = "a tool call came without a name"
            self._fail(events, WireError(text, raw=nameless.text[:500] or None))
            return
        self._close_all(events)
        usage = self._usage or Usage(known=False)
        if raw in _REFUSED:
            said = f"the vendor's filter stopped the reply (finish reason {raw!r})"
            self._fail(events, RequestRefused(said))
            return
        reason = self._reason(raw)
        if reason is None:
            said = f"the vendor ended the reply with the unknown reason {raw!r}"
            retryable = raw in ("error", "network_error")
            self._fail(events, ModelError(said, retryable=retryable))
            return
        self.ended = True
        events.append(self._builder.done(reason, raw=raw, usage=usage))

    def _said_outside(self) -> ModelError | None:
        """An error that a host wrote as a line of its own, which is no field of an event stream."""
        name, colon, rest = self._splitter.stray.partition(b":")
        if not colon or name.strip() != b"error":
            return None
        try:
            return failure_from_event(msgspec.json.decode(rest))
        except msgspec.MsgspecError:
            return None

    def _may_end_without_reason(self, marked: bool) -> bool:
        if not self._started:
            return False
        if marked:
            return self._has_content or self._usage is not None
        return not self._needs_finish_reason and self._usage is not None

    def _reason(self, raw: str | None) -> Literal["stop", "length", "toolUse"] | None:
        if raw in _LENGTH:
            return "length"
        if raw is None or raw in _STOP or raw in _TOOLS:
            return "stop"  # the builder looks for calls itself
        # Complete calls win over a word nobody knows.
        complete = all(is_object(call.text or "{}") for call in self._calls.every)
        return (
            "toolUse"
            if self._calls.every and complete and raw not in ("error", "network_error")
            else None
        )

    def _close_all(self, events: list[AssistantMessageEvent]) -> None:
        self._close_spoken(events)
        events += [
            self._builder.tool_call_end(call.block, id=call.late_id, name=call.name or None)
            for call in self._calls.every
        ]

    def _fail(self, events: list[AssistantMessageEvent], failure: ModelError) -> None:
        self.ended = True
        events.append(
            self._builder.error(
                str(failure),
                raw=self._finish,
                usage=self._usage,
                kind=failure.kind,
                retryable=failure.retryable,
                retry_after_seconds=failure.retry_after_seconds,
            )
        )

    def _read_whole(self, events: list[AssistantMessageEvent]) -> bool:
        """A host that did not stream after all: one JSON document, or an error page."""
        body = self._splitter.stray.strip()
        try:
            document = msgspec.json.decode(body)
        except msgspec.MsgspecError:
            shown = body[:300].decode("utf-8", "replace")
            self._fail(events, WireError(f"the answer is no event stream: {shown}", raw=shown))
            return True
        fields = cast("dict[str, Any]", document) if isinstance(document, dict) else {}
        if fields.get("choices"):
            try:
                if not self._read(self._decode_again(body), body, events):
                    self._end(events, marked=False)
            except msgspec.MsgspecError as error:
                self._fail(events, _unreadable(error, body))
        else:
            self._fail(events, failure_from_event(document))
        return True


def _only_text(chunk: Chunk) -> str | None:
    """The text of a chunk that says nothing else."""
    choices = chunk.choices
    if not choices or len(choices) > 1 or chunk.usage is not None or chunk.error is not None:
        return None
    choice = choices[0]
    delta = choice.delta
    if delta is None or choice.finish_reason is not None or choice.index or choice.usage:
        return None
    if (
        type(delta.content) is not str
        or delta.tool_calls is not None
        or delta.reasoning_content is not None
        or delta.reasoning is not None
        or delta.reasoning_details is not None
        or delta.refusal
    ):
        return None
    return delta.content


def _unreadable(error: Exception, data: bytes) -> WireError:
    if isinstance(error, WireError):
        return error
    shown = data[:300].decode("utf-8", "replace")
    return WireError(f"the vendor sent what is not JSON of this dialect: {error}", raw=shown)


def _detail_text(detail: dict[str, Any]) -> str:
    for key in ("text", "summary"):
        value = detail.get(key)
        if isinstance(value, str):
            return value
    return ""


def _part_text(part: Any) -> str:
    if isinstance(part, str):
        return part
    text = cast("dict[str, Any]", part).get("text") if isinstance(part, dict) else None
    return text if isinstance(text, str) else ""
