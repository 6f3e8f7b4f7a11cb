"""What a model reports while it speaks: small changes to one growing reply.

Every event but the last two holds its own piece and, through `partial`, the whole message as it
stood right after it. `partial` is built when read and belongs to the reader. `Done` or `Error`
comes last and once. `Retry` comes before `Start`, when a request failed and will be sent again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Literal, cast, dataclass_transform

import msgspec

from ..messages import AssistantMessage, ToolCall, Usage
from ..records import Record, RecordMeta, decode_tagged
from .draft import Draft

__all__ = [
    "AssistantMessageEvent",
    "Done",
    "Error",
    "Retry",
    "Start",
    "StreamEvent",
    "TextDelta",
    "TextEnd",
    "TextStart",
    "ThinkingDelta",
    "ThinkingEnd",
    "ThinkingStart",
    "ToolCallDelta",
    "ToolCallEnd",
    "ToolCallStart",
    "stream_event_from_dict",
    "cut_off",
]


@dataclass_transform(frozen_default=True, eq_default=False, field_specifiers=(msgspec.field,))
class _EventMeta(RecordMeta):
    """Lets `partial` be given like any field and built when read.

    The field keeps what was given: a finished message, or the draft it can be built from. Reading
    goes through a property put in front of the field's slot; msgspec itself reads the slot.
    """

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> _EventMeta:
        made = cast("_EventMeta", super().__new__(cls, name, bases, namespace, **options))
        if "partial" in made.__dict__:
            if "_at" not in made.__dict__:
                raise TypeError(f"{name} has a partial, so it needs the field `_at: int = 0` too")
            slot = made.__dict__["partial"]
            read_slot = slot.__get__

            def partial(event: Any) -> AssistantMessage:
                source = read_slot(event)
                if type(source) is Draft:
                    return source.at(event._at)
                return AssistantMessage([]) if source is None else source

            type.__setattr__(made, "partial", property(partial))
            type.__setattr__(made, "_source", property(read_slot))
        return made


class StreamEvent(Record, metaclass=_EventMeta, tag_field="type", eq=False, gc=False):
    """A change to the reply. Two events are equal when they say the same.

    Write them with `to_dict` or `to_json`: an event holds the draft its partial is built from,
    which msgspec's own encoders do not know.
    """

    type: ClassVar[str] = ""
    _unwritten_: ClassVar[frozenset[str]] = frozenset({"partial"})

    if TYPE_CHECKING:
        _source: ClassVar[object]

    def to_dict(self, camel: bool = False, *, partials: bool = False) -> dict[str, Any]:
        """As plain data. `partial` is left out unless asked for: with it in every event, the
        size of a written stream would be quadratic."""
        data = super().to_dict(camel)
        if partials and hasattr(self, "partial"):
            data["partial"] = cast("Any", self).partial.to_dict(camel)
        return data

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return self.to_dict() == cast("StreamEvent", other).to_dict()

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        shown = [f"{key}={value!r}" for key, value in self.to_dict().items() if key != "type"]
        return f"{type(self).__name__}({', '.join(shown)})"


_NO_PARTIAL = cast("AssistantMessage", None)


class Start(StreamEvent, tag="start"):
    """The vendor has begun to answer."""

    type: ClassVar[str] = "start"
    partial: AssistantMessage = _NO_PARTIAL
    _at: int = 0


class TextStart(StreamEvent, tag="text_start"):
    """A text block begins."""

    type: ClassVar[str] = "text_start"
    content_index: int
    partial: AssistantMessage = _NO_PARTIAL
    _at: int = 0


class TextDelta(StreamEvent, tag="text_delta"):
    """More text."""

    type: ClassVar[str] = "text_delta"
    content_index: int
    delta: str
    partial: AssistantMessage = _NO_PARTIAL
    _at: int = 0


class TextEnd(StreamEvent, tag="text_end"):
    """A text block is complete."""

    type: ClassVar[str] = "text_end"
    content_index: int
    content: str
    partial: AssistantMessage = _NO_PARTIAL
    _at: int = 0


class ThinkingStart(StreamEvent, tag="thinking_start"):
    """A thinking block begins."""

    type: ClassVar[str] = "thinking_start"
    content_index: int
    partial: AssistantMessage = _NO_PARTIAL
    _at: int = 0


class ThinkingDelta(StreamEvent, tag="thinking_delta"):
    """More reasoning."""

    type: ClassVar[str] = "thinking_delta"
    content_index: int
    delta: str
    partial: AssistantMessage = _NO_PARTIAL
    _at: int = 0


class ThinkingEnd(StreamEvent, tag="thinking_end"):
    """A thinking block is complete."""

    type: ClassVar[str] = "thinking_end"
    content_index: int
    content: str
    partial: AssistantMessage = _NO_PARTIAL
    _at: int = 0


class ToolCallStart(StreamEvent, tag="toolcall_start"):
    """The model begins to ask for a tool; what is known of the call is in `partial`."""

    type: ClassVar[str] = "toolcall_start"
    content_index: int
    partial: AssistantMessage = _NO_PARTIAL
    _at: int = 0
    tool_call_id: str = ""
    tool_name: str = ""


class ToolCallDelta(StreamEvent, tag="toolcall_delta"):
    """More of a call's arguments, as JSON text."""

    type: ClassVar[str] = "toolcall_delta"
    content_index: int
    delta: str
    partial: AssistantMessage = _NO_PARTIAL
    _at: int = 0


class ToolCallEnd(StreamEvent, tag="toolcall_end"):
    """A call is complete, its arguments parsed."""

    type: ClassVar[str] = "toolcall_end"
    content_index: int
    tool_call: ToolCall
    partial: AssistantMessage = _NO_PARTIAL
    _at: int = 0


class Done(StreamEvent, tag="done", gc=True):
    """The reply is complete."""

    type: ClassVar[str] = "done"
    reason: Literal["stop", "length", "toolUse"]
    message: AssistantMessage


class Error(StreamEvent, tag="error", gc=True):
    """The reply failed or was aborted; `error` is the message as far as it came."""

    type: ClassVar[str] = "error"
    reason: Literal["error", "aborted"]
    error: AssistantMessage
    retryable: bool = False
    """The same request may succeed later."""
    retry_after_seconds: float | None = None
    """What the vendor asked for."""
    kind: str | None = None
    """A short name for programs, such as `rate_limit`; see `loopwright.errors`."""


class Retry(StreamEvent, tag="retry", gc=True):
    """A request failed and will be sent again after `delay_seconds`."""

    type: ClassVar[str] = "retry"
    attempt: int
    """Which attempt comes next; the first request was attempt 1."""
    max_attempts: int
    delay_seconds: float
    error: str
    usage: Usage | None = None
    """What the failed attempt spent, where the vendor told."""


AssistantMessageEvent = (
    Start
    | TextStart
    | TextDelta
    | TextEnd
    | ThinkingStart
    | ThinkingDelta
    | ThinkingEnd
    | ToolCallStart
    | ToolCallDelta
    | ToolCallEnd
    | Done
    | Error
    | Retry
)


def stream_event_from_dict(data: dict[str, Any]) -> AssistantMessageEvent:
    """A stream event from plain data in either case. Raises `DecodeError` for an unknown type."""
    return decode_tagged(AssistantMessageEvent, data, "stream event")


text_delta_source = TextDelta.__dict__["_source"].fget
"""What a `TextDelta` was given as its partial, without a lookup: there are very many of them."""


def cut_off(event: StreamEvent | None) -> AssistantMessage | None:
    """The reply as it stood after *event*, for one that ends there. Its usage is the last that the
    vendor sent, which may have come after *event*: usage is no event of its own."""
    partial: AssistantMessage | None = getattr(event, "partial", None)
    source = getattr(event, "_source", None)
    if partial is not None and type(source) is Draft:
        return msgspec.structs.replace(partial, usage=source.head.usage)
    return partial


def attach(event: StreamEvent, draft: Draft, at: int) -> StreamEvent:
    """An event that was made without a partial, with its place in *draft*; a new one, since the
    same event may be given again by the next reply."""
    if getattr(event, "_source", event) is None:  # the property is missing on closing events
        return msgspec.structs.replace(event, partial=draft, _at=at)
    return event
