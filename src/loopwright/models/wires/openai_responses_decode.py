"""Responses, answers: the bytes of a stream -> events.

A reply is a list of output items, each announced, grown by deltas, and closed with its final form.
How items become content:

- A message: one text block for each part. `text_signature` holds the item's id, phase and citations
  as JSON, or is `refusal` for a part in which the model declined.
- Reasoning: one thinking block for each part of the summary or of the raw text. The signature of
  the last one is the item's own JSON, which goes back to the same model as it is. An item without
  any text gives a redacted block.
- A call of one of our tools: a `ToolCall` with the id `call_id|item_id`. What else the item says
  (that it is a custom tool's, who called) is kept as JSON in its `thought_signature`.
- Anything else is the vendor's own business (web search, compaction): a redacted thinking block
  whose signature is the item's JSON, so that it can go back in its place.

Hosts leave out indexes (llama.cpp), change item ids from event to event (GitHub Copilot), send no
deltas at all, or close items late. So an item is found by its id, else by its index, else by its
kind, and its final form has the last word on its text.

Flags read here: `length_says_completed` (the host calls a reply that was cut by the output limit
completed; it was cut if it is as long as `max_tokens`, the limit that was asked for).
"""

from __future__ import annotations

from collections import Counter
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
from .openai_responses_events import (
    Delta,
    Item,
    Part,
    ResponseState,
    arguments_text,
    decode_delta,
    decode_event,
    decode_head,
    decode_item,
    decode_items,
    decode_leniently,
    decode_state,
    usage_of,
)
from .openai_responses_items import (
    CALLS,
    OpenItem,
    OpenItems,
    call_signature,
    piece_of,
    text_signature,
)

__all__ = ["ResponsesDecoder"]

_TEXT_DELTA = "response.output_text.delta"
_PIECES = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "refusal",
    "response.reasoning_summary_text.delta": "summary",
    "response.reasoning_text.delta": "reasoning",
    "response.function_call_arguments.delta": "function_call",
    "response.custom_tool_call_input.delta": "custom_tool_call",
}
_WHOLES = {
    "response.output_text.done": "text",
    "response.refusal.done": "refusal",
    "response.reasoning_summary_text.done": "summary",
    "response.reasoning_text.done": "reasoning",
}
_ENDINGS = frozenset({
    "response.completed", "response.incomplete", "response.failed", "response.cancelled",
    "response.done",
})  # fmt: skip
_HEADS = frozenset({"response.created", "response.in_progress", "response.queued"})

_NO_JSON = (msgspec.MsgspecError, UnicodeError)


class ResponsesDecoder:
    """Reads one answer. See `wires.Decoder`."""

    def __init__(self, builder: ReplyBuilder, flags: Mapping[str, Any]) -> None:
        self.ended = False
        self._builder = builder
        self._splitter = SseSplitter()
        limit: Any = flags.get("max_tokens") if flags.get("length_says_completed") else None
        self._limit: int | None = limit
        self._started = False
        self._usage = UsageCounts(usage_of)
        self._items = OpenItems()
        # The block of text that the last delta grew, for the next one: nearly all belong together.
        self._text = -1
        self._text_id: str | None = None
        self._text_part: int | None = None

    def feed(self, chunk: bytes) -> list[AssistantMessageEvent]:
        events: list[AssistantMessageEvent] = []
        texts: list[str] = []  # of the text that is open, still to be handed on
        data = b""
        try:
            for data in self._splitter.feed(chunk):
                try:
                    delta: Delta | None = decode_delta(data)
                except msgspec.DecodeError:
                    delta = self._decode_again(data)
                # The road of nearly all events: more of the text that is open.
                if (
                    delta is not None
                    and delta.type == _TEXT_DELTA
                    and self._text >= 0
                    and delta.item_id == self._text_id
                    and delta.content_index == self._text_part
                    and delta.delta
                ):
                    texts.append(delta.delta)
                    continue
                if texts:
                    events += self._builder.text_deltas(self._text, texts)
                    texts = []
                if self._read(delta, data, events):
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
                    return events
            if not self._started and self._splitter.stray:
                self._read_whole(self._splitter.stray.strip(), events)
                return events
            self._fail(events, incomplete())
        except WireError as error:
            self._fail(events, error)
        except _NO_JSON as error:
            self._fail(events, incomplete() if self._started else _unreadable(error, data))
        return events

    # -- one event ----------------------------------------------------------------------------

    @staticmethod
    def _decode_again(data: bytes) -> Delta | None:
        """*data*, if need be as far as it can be read; None for the mark of the end."""
        try:
            return decode_delta(data)
        except msgspec.DecodeError:
            return None if data.strip() == b"[DONE]" else decode_leniently(data)

    def _read(self, delta: Delta | None, data: bytes, events: list[AssistantMessageEvent]) -> bool:
        """Add what *data* says to *events*. True if that was the end of the reply."""
        if delta is None:
            self._fail(events, incomplete())  # the response's own end is what counts
            return True
        kind = delta.type
        piece = _PIECES.get(kind)
        if piece is not None:
            if delta.delta:
                self._start(None, events)
                self._grow(piece, delta, events)
        elif kind in _HEADS:
            self._start(decode_event(data).response, events)
        elif kind == "response.output_item.added":
            self._start(None, events)
            self._announced(decode_event(data).item, delta, events)
        elif kind == "response.output_item.done":
            self._start(None, events)
            self._finished(decode_event(data).item, delta.output_index, events)
        elif kind == "response.function_call_arguments.done":
            self._start(None, events)
            self._complete_call(delta, arguments_text(decode_event(data).arguments), events)
        elif kind in _WHOLES:
            event = decode_event(data)
            self._take_rest(_WHOLES[kind], delta, event.text or event.refusal or "", events)
        elif kind == "response.content_part.done":
            self._part_done(delta, decode_event(data).part)
        elif kind in _ENDINGS:
            self._end(kind.removeprefix("response."), decode_event(data).response, events)
            return True
        elif kind in ("error", "response.error") or not kind:
            return self._refused(data, kind, events)
        return False  # the rest repeats what items say, or tells how the vendor's tools get on

    def _start(self, response: msgspec.Raw | None, events: list[AssistantMessageEvent]) -> None:
        if response:
            self._take_head(decode_state(response))
        if not self._started:
            self._started = True
            self._builder.update(usage=self._usage.usage)
            events.append(self._builder.start())

    def _take_head(self, state: ResponseState) -> None:
        asked = self._builder.draft.head.model
        # The model stays the one that was asked: signatures are worth something only to it.
        self._usage.add(state.usage)
        self._builder.update(
            usage=self._usage.usage,
            response_id=state.id,
            model=None if asked else state.model,
        )

    def _refused(self, data: bytes, kind: str, events: list[AssistantMessageEvent]) -> bool:
        event = decode_event(data)
        error: Any = event.error
        if not error and kind:
            error = {"code": event.code, "message": event.message}
        if not error:
            error = error_in(msgspec.json.decode(data))
        if not error:
            return False
        self._fail(events, failure_from_event(error))
        return True

    # -- items --------------------------------------------------------------------------------

    def _announced(
        self, raw: msgspec.Raw, delta: Delta, events: list[AssistantMessageEvent]
    ) -> None:
        if _is_nothing(raw):
            return
        head = decode_head(raw)
        item = self._items.add(head.type, head.id, delta.output_index)
        if head.type in CALLS:
            self._open_call(item, decode_item(raw), events)
        elif head.type == "message":
            item.phase = decode_item(raw).phase

    def _finished(
        self, raw: msgspec.Raw, output_index: int | None, events: list[AssistantMessageEvent]
    ) -> None:
        """Close an item with its final form."""
        if _is_nothing(raw):
            return
        head = decode_head(raw)
        place = Delta("", None, head.id, output_index)
        item = self._items.find(place, (head.type,))
        if item is None:
            item = self._items.add(head.type, head.id, output_index)
        if not item.done:
            self._close_item(item, raw, events)

    def _close_item(
        self, item: OpenItem, raw: msgspec.Raw, events: list[AssistantMessageEvent]
    ) -> None:
        item.done = True
        if item.kind == "message":
            final = decode_item(raw)
            item.phase = final.phase or item.phase
            parts = [p for p in final.content or () if p.text or p.refusal]
            self._settle(item, parts, events)
        elif item.kind == "reasoning":
            final = decode_item(raw)
            parts = [p for p in (*(final.summary or ()), *(final.content or ())) if p.text]
            self._settle(item, parts, events, signature=bytes(raw).decode())
        elif item.kind in CALLS:
            self._close_call(item, decode_item(raw), events)
        else:
            self._keep(raw, events)

    def _keep(self, raw: msgspec.Raw, events: list[AssistantMessageEvent]) -> None:
        """Keep an item of the vendor's own tools, unread."""
        start = self._builder.thinking_start(redacted=True)
        signature = bytes(raw).decode()
        events += [start, self._builder.thinking_end(start.content_index, signature=signature)]

    # -- text and thinking --------------------------------------------------------------------

    def _grow(self, piece: str, delta: Delta, events: list[AssistantMessageEvent]) -> None:
        text = delta.delta or ""
        if piece in CALLS:
            self._grow_call(piece, delta, text, events)
            return
        spoken = piece in ("text", "refusal")
        kind = "message" if spoken else "reasoning"
        number = (delta.summary_index if piece == "summary" else delta.content_index) or 0
        item = self._items.find(delta, (kind,))
        if item is None or item.done:
            item = self._items.add(kind, delta.item_id, delta.output_index)
        if item.block < 0 or item.part != (piece, number):
            self._close_part(item, events)
            self._open_part(item, piece, number, events)
        if spoken:
            events.append(self._builder.text_delta(item.block, text))
        else:
            events.append(self._builder.thinking_delta(item.block, text))
        if piece == "text":
            self._text, self._text_id, self._text_part = (
                item.block,
                delta.item_id,
                delta.content_index,
            )

    def _take_rest(
        self, piece: str, delta: Delta, whole: str, events: list[AssistantMessageEvent]
    ) -> None:
        """Add what is still missing of a part, now that all of it is known: some hosts send no
        deltas, and say it nowhere else."""
        kind = "message" if piece in ("text", "refusal") else "reasoning"
        number = (delta.summary_index if piece == "summary" else delta.content_index) or 0
        item = self._items.find(delta, (kind,))
        said = ""
        if item is not None:
            if item.done:
                return
            if item.block >= 0 and item.part == (piece, number):
                said = self._builder.draft.text(item.block)
            elif any(known == piece for known, _ in item.blocks):
                return  # the part is closed already
        if len(whole) > len(said) and whole.startswith(said):
            self._start(None, events)
            delta.delta = whole[len(said) :]
            self._grow(piece, delta, events)

    def _open_part(
        self,
        item: OpenItem,
        piece: str,
        number: int,
        events: list[AssistantMessageEvent],
        *,
        redacted: bool = False,
    ) -> None:
        if item.kind == "message":
            start = self._builder.text_start()
        else:
            start = self._builder.thinking_start(redacted=redacted)
        events.append(start)
        item.block, item.part = start.content_index, (piece, number)
        item.blocks.append((piece, start.content_index))

    def _close_part(
        self,
        item: OpenItem,
        events: list[AssistantMessageEvent],
        *,
        final: Part | None = None,
        signature: str | None = None,
    ) -> None:
        """End the block that is open, if one is; its *final* form has the last word."""
        index = item.block
        if index < 0:
            return
        builder = self._builder
        text: str | None = None
        if final is not None:
            said, whole = builder.draft.text(index), final.text or final.refusal or ""
            if said != whole and whole.startswith(said):
                events.append(self._delta(item, index, whole[len(said) :]))
            elif said != whole:
                text = whole
        if item.kind == "message":
            annotations = final.annotations if final is not None else item.annotations
            signature = text_signature(item, annotations)
            events.append(builder.text_end(index, text=text, signature=signature))
        else:
            events.append(builder.thinking_end(index, text=text, signature=signature))
        item.block, item.annotations = -1, None
        if self._text == index:
            self._text = -1

    def _delta(self, item: OpenItem, index: int, text: str) -> AssistantMessageEvent:
        if item.kind == "message":
            return self._builder.text_delta(index, text)
        return self._builder.thinking_delta(index, text)

    def _settle(
        self,
        item: OpenItem,
        parts: list[Part],
        events: list[AssistantMessageEvent],
        *,
        signature: str | None = None,
    ) -> None:
        """End an item of text or thinking: its blocks correspond to *parts* in their order, and
        those that never came as deltas are said now. The last one carries the *signature*."""
        known = len(item.blocks)
        if known:
            # The parts of one kind follow each other in the final form, whatever came first.
            piece, _ = item.blocks[-1]
            nth = sum(1 for kind, _ in item.blocks if kind == piece) - 1
            alike = [part for part in parts if piece_of(part) == piece]
            final = alike[nth] if nth < len(alike) else None
            rest = parts[known:] if len(parts) > known else []
            self._close_part(item, events, final=final, signature=None if rest else signature)
        else:
            rest = parts
        for part in rest:
            self._open_part(item, piece_of(part), len(item.blocks), events)
            self._close_part(
                item, events, final=part, signature=signature if part is rest[-1] else None
            )
        if not item.blocks and signature is not None:
            self._open_part(item, "summary", 0, events, redacted=True)
            self._close_part(item, events, signature=signature)

    def _part_done(self, delta: Delta, raw: msgspec.Raw) -> None:
        item = self._items.find(delta, ("message",))
        if item is not None and raw:
            item.annotations = msgspec.json.decode(raw, type=Part).annotations

    # -- tool calls ---------------------------------------------------------------------------

    def _open_call(self, item: OpenItem, call: Item, events: list[AssistantMessageEvent]) -> None:
        item.name = call.name
        call_id = call.call_id or call.id or f"call_{len(self._items.every)}"
        own_id = f"{call_id}|{call.id}" if call.id and call.id != call_id else call_id
        start = self._builder.tool_call_start(own_id, call.name or "")
        events.append(start)
        item.block = start.content_index
        if item.kind == "custom_tool_call":
            # Its text becomes the one member of an object, so that it can be read while it grows.
            events.append(self._builder.tool_call_delta(item.block, '{"input":"'))

    def _grow_call(
        self, kind: str, delta: Delta, text: str, events: list[AssistantMessageEvent]
    ) -> None:
        item = self._items.find(delta, (kind,))
        if item is None or item.block < 0:
            raise WireError("a piece of a tool call came that belongs to no call", raw=text[:500])
        if kind == "custom_tool_call":
            text = msgspec.json.encode(text).decode()[1:-1]
        events.append(self._builder.tool_call_delta(item.block, text))

    def _complete_call(self, delta: Delta, text: str, events: list[AssistantMessageEvent]) -> None:
        """Add what is still missing of the arguments, now that all of them are known."""
        item = self._items.find(delta, ("function_call",))
        if item is None or item.block < 0:
            return
        said = self._builder.draft.text(item.block)
        if len(text) > len(said) and text.startswith(said):
            events.append(self._builder.tool_call_delta(item.block, text[len(said) :]))

    def _close_call(self, item: OpenItem, call: Item, events: list[AssistantMessageEvent]) -> None:
        if item.block < 0:
            self._open_call(item, call, events)
        builder = self._builder
        index, item.block = item.block, -1
        said = builder.draft.text(index)
        if item.kind == "custom_tool_call":
            whole = msgspec.json.encode({"input": call.input or ""}).decode()
            if call.input is None:
                whole = f'{said}"}}'
        else:
            whole = arguments_text(call.arguments) or said
        arguments: dict[str, Any] | None = None
        if whole != said and whole.startswith(said):
            events.append(builder.tool_call_delta(index, whole[len(said) :]))
        elif whole != said:
            parsed = parse_arguments(whole)
            arguments = parsed.arguments if parsed.arguments_error is None else None
        name = item.name = call.name or item.name
        events.append(
            builder.tool_call_end(
                index, name=name, arguments=arguments, thought_signature=call_signature(item, call)
            )
        )

    # -- the end ------------------------------------------------------------------------------

    def _end(self, word: str, raw: msgspec.Raw, events: list[AssistantMessageEvent]) -> None:
        """The response's last event came; *word* is how its name calls the end."""
        state = decode_state(raw) if raw else ResponseState()
        if state.id and not self._started:
            self._start(raw, events)
        status = state.status
        if status in (None, "in_progress", "queued"):  # a copy of what it began with
            status = "completed" if word == "done" else word
        self._usage.add(state.usage)
        if status == "failed" or (state.error and status != "completed"):
            said: Any = state.error or {"message": "the vendor says no more than that it failed"}
            self._fail(events, failure_from_event(said), raw=status)
            return
        if status in ("completed", "incomplete"):
            self._start(None, events)
            self._take_missing(state, events)
        self._close_all(events)
        reason = self._reason(status, state)
        if isinstance(reason, ModelError):
            self._fail(events, reason, raw=status)
            return
        self.ended = True
        done = self._builder.done(reason, raw=status, usage=self._usage.usage)
        events.append(done)

    def _reason(self, status: str, state: ResponseState) -> Literal["stop", "length"] | ModelError:
        if status == "completed":
            limit = self._limit
            cut = limit is not None and self._usage.usage.output >= limit
            return "length" if cut else "stop"  # the builder looks for calls itself
        if status == "incomplete":
            details: Any = state.incomplete_details
            why: Any = cast("dict[str, Any]", details).get("reason") if details else None
            if why in ("max_output_tokens", "max_tokens", "length"):
                return "length"
            if why == "content_filter":
                return RequestRefused(
                    "the vendor's filter stopped the reply (incomplete: 'content_filter')"
                )
            return ModelError(f"the vendor left the reply incomplete (reason {why!r})")
        calls = [item for item in self._items.every if item.kind in CALLS]
        if calls and all(item.done for item in calls) and status != "cancelled":
            return "stop"  # complete calls win over a word nobody knows
        return ModelError(f"the vendor ended the reply with the status {status!r}")

    def _take_missing(self, state: ResponseState, events: list[AssistantMessageEvent]) -> None:
        """Read from the whole response the items that were never closed, or never came. Others are
        known by their id or, where that has changed, by being the first of their kind, and so on."""
        came = self._items.every.copy()
        count: Counter[str] = Counter()
        for raw in decode_items(state.output) if state.output else ():
            head = decode_head(raw)
            alike = [item for item in came if item.kind == head.type]
            known = next((item for item in alike if head.id and item.id == head.id), None)
            if known is None and count[head.type] < len(alike):
                known = alike[count[head.type]]
            count[head.type] += 1
            if known is None or not known.done:
                self._close_item(known or self._items.add(head.type, head.id), raw, events)

    def _close_all(self, events: list[AssistantMessageEvent]) -> None:
        for item in self._items.every:
            if item.done:
                continue
            item.done = True
            if item.kind in CALLS:
                self._close_call(item, Item(type=item.kind), events)
            else:
                self._close_part(item, events)

    def _fail(
        self,
        events: list[AssistantMessageEvent],
        failure: ModelError,
        *,
        raw: str | None = None,
    ) -> None:
        self.ended = True
        events.append(
            self._builder.error(
                str(failure),
                raw=raw,
                usage=self._usage.usage,
                kind=failure.kind,
                retryable=failure.retryable,
                retry_after_seconds=failure.retry_after_seconds,
            )
        )

    def _read_whole(self, body: bytes, events: list[AssistantMessageEvent]) -> None:
        """A host that did not stream after all: one JSON document, or an error page."""
        try:
            state = decode_state(body)
            document: Any = msgspec.json.decode(body)
        except _NO_JSON:
            shown = body[:300].decode("utf-8", "replace")
            self._fail(events, WireError(f"the answer is no event stream: {shown}", raw=shown))
            return
        if state.status and state.output:
            self._end(state.status, msgspec.Raw(body), events)
        else:
            self._fail(events, failure_from_event(document))


def _is_nothing(raw: msgspec.Raw) -> bool:
    return not raw or bytes(raw) == b"null"


def _unreadable(error: Exception, data: bytes) -> WireError:
    if isinstance(error, WireError):
        return error
    shown = data[:300].decode("utf-8", "replace")
    return WireError(f"the vendor sent what is not JSON of this dialect: {error}", raw=shown)
