"""Chat Completions, answers: the bytes of a stream -> events.

One decoder reads every host that speaks the dialect, since hosts differ in what they leave out
and add, not in what it means. In particular:

- Fragments of tool calls are put together by `call_assembly`, whatever index and id they have.
- Reasoning comes in one of several fields, sometimes in two at once: the first that has text wins.
- Usage may come in any chunk, before or after the last text.
- A call keeps what must go back with it, `extra_content`, as JSON in its `thought_signature`.
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
from ...stream import AssistantMessageEvent, ReplyBuilder
from ..bare_errors import error_in
from ..failures import failure_from_event, incomplete
from ..sse import SseSplitter
from ..usage_counts import UsageCounts
from .call_assembly import OpenCall, OpenCalls
from .openai_chat_chunks import (
    CallFragment,
    Chunk,
    Delta,
    Head,
    decode_chunk,
    decode_head,
    decode_leniently,
    detail_text,
    is_thought,
    only_text,
    part_text,
    usage_of,
)
from .stop_words import FAILED, REFUSED, ending, word_of

__all__ = ["REFUSAL_MARK", "ChatDecoder"]

REFUSAL_MARK = "refusal"
"""The text signature of a text block in which the model declined to answer."""


_GROWS = {"reasoning.text": "text", "reasoning.summary": "summary"}
"""Which field of a reasoning detail comes in pieces (OpenRouter)."""

_NO_JSON = (msgspec.MsgspecError, UnicodeError)


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
        self._usage = UsageCounts(usage_of)
        self._text = -1  # the open block of each kind
        self._thinking = -1
        self._refusal = -1
        self._details: list[dict[str, Any]] = []
        self._has_content = False
        self._has_text = self._has_thinking = False
        self._grows = False  # content came in deltas
        self._thought_by_mark = False
        self._calls = OpenCalls()
        self._all_readable = True  # the arguments of every call

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
                    text = only_text(read)  # nearly all chunks are more of the text that is open
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
        choices = chunk.choices
        if not choices and not chunk.usage and not chunk.error:
            error = error_in(msgspec.json.decode(data))
            if error is not None:
                self._fail(events, failure_from_event(error))
                return True
        if not self._started:
            if chunk.error:
                self._fail(events, failure_from_event(chunk.error))
                return True
            self._start(data, events)
        for choice in choices or ():
            if choice.index:  # only the first of several alternatives is the reply
                continue
            if choice.delta is not None:
                self._grow(choice.delta, events)
                self._grows = self._has_content
            if choice.message is not None:
                self._grow(self._not_said_yet(choice.message), events)
            if choice.finish_reason and choice.finish_reason != "null":
                self._finish = choice.finish_reason
            if choice.usage:
                self._count(choice.usage)
            if choice.error:
                self._fail(events, failure_from_event(choice.error))
                return True
        if chunk.usage:
            self._count(chunk.usage)
        elif chunk.x_groq:
            self._count(chunk.x_groq.get("usage"))
            if chunk.x_groq.get("error"):
                self._fail(events, _stopped_early(chunk.x_groq["error"]))
                return True
        if chunk.error:
            self._fail(events, failure_from_event(chunk.error))
            return True
        return False

    def _count(self, usage: object) -> None:
        self._usage.add(usage)
        self._builder.update(usage=self._usage.usage)

    def _start(self, data: bytes, events: list[AssistantMessageEvent]) -> None:
        self._started = True
        try:
            head = decode_head(data)
        except msgspec.MsgspecError:
            head = Head()
        asked = self._builder.draft.head.model
        # The model stays the one that was asked: signatures are worth something only to it.
        self._builder.update(
            usage=self._usage.usage,
            response_id=head.id,
            model=None if asked else head.model,
        )
        events.append(self._builder.start())

    def _grow(self, delta: Delta, events: list[AssistantMessageEvent]) -> None:
        reasoning = self._reasoning(delta)
        if reasoning:
            self._think(reasoning, events)
        if delta.reasoning_details:
            self._keep_details(delta.reasoning_details, events)
        content = delta.content
        if content:
            if delta.extra_content is not None and type(content) is str and is_thought(delta):
                if not self._thought_by_mark:  # some of these hosts write tags around it as well
                    content = content.removeprefix("<thought>")
                    self._thought_by_mark = True
                if content:
                    self._think(content, events)
            elif type(content) is str:
                if self._thought_by_mark:
                    content = content.removeprefix("</thought>")
                    self._thought_by_mark = False
                    if not content:
                        return
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

    def _not_said_yet(self, message: Delta) -> Delta:
        """What *message* says beyond the deltas before it: some hosts (MiniMax) repeat the whole
        reply at its end."""
        if not self._grows:
            return message
        return Delta(
            content=None if self._has_text else message.content,
            reasoning_content=None if self._has_thinking else self._reasoning(message),
            tool_calls=None if self._calls.every else message.tool_calls,
            refusal=None if self._has_text else message.refusal,
        )

    # -- text and thinking --------------------------------------------------------------------

    def _open_text(self, events: list[AssistantMessageEvent]) -> int:
        self._close_spoken(events)
        start = self._builder.text_start()
        events.append(start)
        self._text = start.content_index
        self._has_content = self._has_text = True
        return self._text

    def _think(self, text: str, events: list[AssistantMessageEvent]) -> None:
        if self._thinking < 0:
            self._close_spoken(events)
            start = self._builder.thinking_start()
            events.append(start)
            self._thinking = start.content_index
            self._has_content = self._has_thinking = True
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
        return "".join([detail_text(detail) for detail in delta.reasoning_details])

    def _keep_details(
        self, details: list[dict[str, Any]], events: list[AssistantMessageEvent]
    ) -> None:
        """Keep what must go back as it came: signatures and encrypted reasoning (OpenRouter)."""
        for detail in details:
            last = self._details[-1] if self._details else None
            grows = _GROWS.get(str(detail.get("type")))
            if (
                last is not None
                and grows is not None
                and last.get("type") == detail.get("type")
                and last.get("index") == detail.get("index")
                and isinstance(last.get(grows), str)
            ):
                text, piece = last[grows], detail.get(grows)
                known = {key: value for key, value in detail.items() if value is not None}
                last.update(known)
                last[grows] = text + piece if isinstance(piece, str) else text
            else:
                self._details.append(dict(detail))
        if self._thinking < 0 and any("data" in d or d.get("signature") for d in details):
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
                text = "".join([part_text(piece) for piece in pieces])
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
                if fragment.index is None:
                    raise WireError(
                        "a piece of a tool call came that belongs to no call", raw=arguments[:500]
                    )
            call = self._open_call(fragment, name, events)
        self._calls.take(call, fragment, name, arguments)
        if fragment.extra_content and call.extra is None:
            call.extra = fragment.extra_content
        if arguments:
            events.append(self._builder.tool_call_delta(call.block, arguments))

    def _open_call(
        self, fragment: CallFragment, name: str, events: list[AssistantMessageEvent]
    ) -> OpenCall:
        self._close_spoken(events)
        start = self._builder.tool_call_start(fragment.id or self._made_up_id(), name)
        events.append(start)
        self._has_content = True
        call = OpenCall(start.content_index, fragment.id or "", name, fragment.index)
        self._calls.open(call)
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
        word = word_of(raw)
        if raw is None and not self._may_end_without_reason(marked):
            self._fail(events, self._said_outside() or incomplete())
            return
        self._close_all(events)
        usage = self._usage.usage
        if word in REFUSED:
            said = f"the vendor's filter stopped the reply (finish reason {raw!r})"
            self._fail(events, RequestRefused(said))
            return
        reason = self._reason(word)
        if reason is None:
            unknown = "" if word in FAILED else "unknown "
            said = f"the vendor ended the reply with the {unknown}reason {raw!r}"
            self._fail(events, ModelError(said, retryable=word in FAILED))
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
            return self._has_content or self._usage.known
        return not self._needs_finish_reason and self._usage.known

    def _reason(self, word: str | None) -> Literal["stop", "length", "toolUse"] | None:
        reason = ending(word)
        if reason is not None:
            return reason  # the builder looks for calls itself
        # Complete calls win over a word nobody knows.
        return (
            "toolUse" if self._calls.every and self._all_readable and word not in FAILED else None
        )

    def _close_all(self, events: list[AssistantMessageEvent]) -> None:
        self._close_spoken(events)
        for call, said in self._calls.settle():
            self._all_readable = self._all_readable and said.arguments_error is None
            ended = self._builder.tool_call_end(
                call.block,
                id=call.late_id,
                name=call.name or None,
                parsed=said,
                thought_signature=_kept(call.extra),
            )
            events.append(ended)

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
            self._fail(events, failure_from_event(error_in(document) or document))
        return True


def _stopped_early(said: Any) -> ModelError:
    """Groq's word for a stream that it gave up."""
    failure = failure_from_event(said)
    if type(failure) is ModelError:
        failure.retryable = True
    return failure


def _kept(extra: dict[str, Any] | None) -> str | None:
    return msgspec.json.encode({"extra_content": extra}).decode() if extra else None


def _unreadable(error: Exception, data: bytes) -> WireError:
    if isinstance(error, WireError):
        return error
    shown = data[:300].decode("utf-8", "replace")
    return WireError(f"the vendor sent what is not JSON of this dialect: {error}", raw=shown)
