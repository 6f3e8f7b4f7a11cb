"""What was said: the messages of a transcript and the pieces they are made of.

All are finished once announced; nothing here is changed in place. Their JSON is camelCase and is
what sessions store and front ends read. A program adds roles of its own with `CustomMessage`;
they live in the transcript and reach a model only if `convert_to_llm` says how.
"""

from __future__ import annotations

import logging
import time
from typing import Any, ClassVar, Literal, cast, dataclass_transform

from msgspec import field
from msgspec.structs import force_setattr

from .records import Record, RecordMeta, decode_tagged

__all__ = [
    "AgentMessage",
    "AgentToolResult",
    "AssistantMessage",
    "Content",
    "Cost",
    "CustomMessage",
    "ImageContent",
    "Message",
    "StopReason",
    "TextContent",
    "ThinkingContent",
    "ToolCall",
    "ToolResultMessage",
    "Usage",
    "UserMessage",
    "message_from_dict",
    "message_from_json",
    "text_of",
]

_log = logging.getLogger("loopwright")

StopReason = Literal["stop", "length", "toolUse", "error", "aborted"]
"""Why a reply ended: done, cut by the output limit, wants tools, failed, or aborted by us."""


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _stop() -> StopReason:
    return "stop"


class TextContent(Record, tag_field="type", tag="text", gc=False):
    """Visible text. A signature goes back to the model it came from, and to no other."""

    type: ClassVar[str] = "text"
    text: str
    text_signature: str | None = None


class ThinkingContent(Record, tag_field="type", tag="thinking", gc=False):
    """Reasoning. With a signature it must be sent back to its own model byte for byte."""

    type: ClassVar[str] = "thinking"
    thinking: str
    thinking_signature: str | None = None
    redacted: bool = False
    """The vendor hid the text; the signature holds its encrypted form."""


class ImageContent(Record, tag_field="type", tag="image", gc=False):
    """An image: base64 data and its MIME type, such as `image/png`."""

    type: ClassVar[str] = "image"
    data: str
    mime_type: str


class ToolCall(Record, tag_field="type", tag="toolCall"):
    """The model asks for a tool.

    When its text was not a JSON object, `arguments` is empty, `raw_arguments` keeps the text and
    `arguments_error` says what was wrong; such a call is never run. A repaired text is kept in
    `raw_arguments` without an error.
    """

    type: ClassVar[str] = "toolCall"
    id: str
    name: str
    arguments: dict[str, Any]
    thought_signature: str | None = None
    raw_arguments: str | None = None
    arguments_error: str | None = None


Content = TextContent | ThinkingContent | ImageContent | ToolCall


MOST_TOKENS = 10**15
MOST_DOLLARS = 1e9
"""What is more than this, or sums up to it, was never counted by anybody, and is kept as this."""


class Cost(Record, gc=False):
    """US dollars; None where the price is not known, which is never the same as 0.

    What is no price, such as one below 0 or NaN, is not known; see `MOST_DOLLARS` for the most.
    """

    input: float | None = None
    output: float | None = None
    cache_read: float | None = None
    cache_write: float | None = None
    total: float | None = None

    def __post_init__(self) -> None:
        # Here, where all that files, vendors and peers tell must pass, so that nobody who adds it up
        # or holds a budget against it needs to care.
        for name in _PRICES:
            price: float | None = getattr(self, name)
            if price is not None and not 0 <= price <= MOST_DOLLARS:
                told = MOST_DOLLARS if price > MOST_DOLLARS else None
                force_setattr(self, name, told)

    def __add__(self, other: Cost) -> Cost:
        """The sum; unknown as soon as one side is."""
        return Cost(
            _sum(self.input, other.input),
            _sum(self.output, other.output),
            _sum(self.cache_read, other.cache_read),
            _sum(self.cache_write, other.cache_write),
            _sum(self.total, other.total),
        )


_PRICES = ("input", "output", "cache_read", "cache_write", "total")
_COUNTS = (
    "input",
    "output",
    "cache_read",
    "cache_write",
    "total_tokens",
    "reasoning",
    "tool_input",
)


def _sum(left: float | None, right: float | None) -> float | None:
    return None if left is None or right is None else left + right


def _total(left: int | None, right: int | None) -> int | None:
    return None if left is None and right is None else (left or 0) + (right or 0)


def _zero() -> int:
    return 0


class Usage(Record):
    """Tokens of one request. `input` leaves cached tokens out; `output` includes `reasoning`.

    `known` is False where the vendor gave no numbers at all: the zeros then mean nothing. A count
    below 0 is read as 0 and makes the rest `doubtful`; see `MOST_TOKENS` for the most.
    """

    input: int = field(default_factory=_zero)
    output: int = field(default_factory=_zero)
    cache_read: int = field(default_factory=_zero)
    cache_write: int = field(default_factory=_zero)
    reasoning: int | None = None
    """Part of `output`; None where the vendor does not say."""
    total_tokens: int = field(default_factory=_zero)
    cost: Cost = field(default_factory=Cost)
    known: bool = True
    doubtful: bool = False
    """The vendor's numbers contradict each other, such as more cached tokens than were sent at all;
    `input` is then 0, and the cost may be wrong."""
    tool_input: int | None = None
    """What tools of the vendor's own brought into the prompt, beside `input` and paid like it."""

    def __post_init__(self) -> None:
        counts = (
            self.input,
            self.output,
            self.cache_read,
            self.cache_write,
            self.total_tokens,
            self.reasoning or 0,
            self.tool_input or 0,
        )
        if min(counts) >= 0 and max(counts) <= MOST_TOKENS:  # nearly always
            return
        for name in _COUNTS:
            count: int | None = getattr(self, name)
            if count is not None:
                force_setattr(self, name, min(max(count, 0), MOST_TOKENS))
        if min(counts) < 0:
            force_setattr(self, "doubtful", True)
            force_setattr(self, "known", self.known and not self.is_empty)

    @property
    def is_empty(self) -> bool:
        """Nothing was counted: no request reached a model, or it told no numbers."""
        return not (
            self.input or self.output or self.cache_read or self.cache_write or self.total_tokens
        )

    def __add__(self, other: Usage) -> Usage:
        """The sum of two requests; an empty side adds nothing and makes no cost unknown."""
        if other.is_empty and other.known:
            return self
        if self.is_empty and self.known:
            return other
        return Usage(
            self.input + other.input,
            self.output + other.output,
            self.cache_read + other.cache_read,
            self.cache_write + other.cache_write,
            _total(self.reasoning, other.reasoning),
            self.total_tokens + other.total_tokens,
            self.cost + other.cost,
            self.known and other.known,
            self.doubtful or other.doubtful,
            _total(self.tool_input, other.tool_input),
        )


class UserMessage(Record, tag_field="role", tag="user"):
    """What the user said: text, or blocks of text and images. Times are in milliseconds."""

    role: ClassVar[str] = "user"
    content: str | list[TextContent | ImageContent]
    timestamp: int = field(default_factory=_now_ms)

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return text_of(self.content)


class AssistantMessage(Record, tag_field="role", tag="assistant"):
    """One reply of a model, complete, cut, failed or aborted; the stop reason says which."""

    role: ClassVar[str] = "assistant"
    content: list[TextContent | ThinkingContent | ToolCall]
    api: str = field(default_factory=str)
    """The wire it came over, such as `anthropic-messages`."""
    provider: str = field(default_factory=str)
    model: str = field(default_factory=str)
    usage: Usage = field(default_factory=Usage)
    stop_reason: StopReason = field(default_factory=_stop)
    error_message: str | None = None
    response_id: str | None = None
    raw_stop_reason: str | None = None
    """The vendor's own word for why it stopped."""
    timestamp: int = field(default_factory=_now_ms)

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return "".join([block.text for block in self.content if type(block) is TextContent])

    @property
    def thinking(self) -> str:
        """The thinking blocks, joined."""
        blocks = self.content
        return "".join([b.thinking for b in blocks if type(b) is ThinkingContent])

    @property
    def tool_calls(self) -> list[ToolCall]:
        """The calls, in the order the model asked."""
        return [block for block in self.content if type(block) is ToolCall]


class ToolResultMessage(Record, tag_field="role", tag="toolResult"):
    """What a tool answered. Exactly one follows every ToolCall of a completed reply."""

    role: ClassVar[str] = "toolResult"
    tool_call_id: str
    tool_name: str
    content: list[TextContent | ImageContent]
    details: Any = None
    """For people and logs; never sent to a model."""
    is_error: bool = field(default_factory=bool)
    """The tool failed; the content says how, in words meant for the model."""
    usage: Usage | None = None
    """What the tool itself spent on models; not part of this conversation's context."""
    timestamp: int = field(default_factory=_now_ms)

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return text_of(self.content)


class AgentToolResult(Record):
    """What a tool hands back: content for the model, details for people."""

    content: list[TextContent | ImageContent]
    details: Any = None
    is_error: bool = field(default_factory=bool)
    terminate: bool = False
    """End the run after this batch, if every result of the batch says so."""
    usage: Usage | None = None

    @property
    def text(self) -> str:
        """The text blocks, joined."""
        return text_of(self.content)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class _CustomMeta(RecordMeta):
    """Registers each subclass under its tag, which `__init_subclass__` cannot see yet."""

    def __new__(
        cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any], **options: Any
    ) -> _CustomMeta:
        tag = options.pop("tag", None)
        if "tag_field" in options:  # the root itself
            return cast("_CustomMeta", super().__new__(cls, name, bases, namespace, **options))
        if not isinstance(tag, str) or not tag:
            raise TypeError(
                f'{name} needs a role: class {name}(CustomMessage, tag="{name.lower()}")'
            )
        if tag in ("user", "assistant", "toolResult"):
            raise TypeError(f"{name}: the role {tag!r} belongs to the runtime; choose another")
        known = _custom_roles.get(tag)
        place = (namespace.get("__module__"), namespace.get("__qualname__"))
        if known is not None and (known.__module__, known.__qualname__) != place:
            # Not an error: a class may be declared again, in a function or in another test.
            _log.warning(
                "the role %r was that of %s.%s and is now that of %s.%s",
                *(tag, known.__module__, known.__qualname__, *place),
            )
        namespace["role"] = tag
        made = super().__new__(cls, name, bases, namespace, tag=tag, **options)
        _custom_roles[tag] = cast("type[CustomMessage]", made)
        return cast("_CustomMeta", made)


_custom_roles: dict[str, type[CustomMessage]] = {}


class CustomMessage(Record, metaclass=_CustomMeta, tag_field="role", kw_only=True):
    """A message with a role of the program's own.

    `class Note(CustomMessage, tag="note"): text: str` is enough: the role is registered, so that
    a stored `Note` is read back as one. It reaches a model only through `convert_to_llm`.
    """

    role: ClassVar[str] = "custom"
    timestamp: int = field(default_factory=_now_ms)

    @classmethod
    def _by_tag_(cls) -> dict[str, type[CustomMessage]]:
        """Every role this class stands for when data is read: all of them, or its own."""
        return _custom_roles if cls is CustomMessage else {cls.role: cls}


Message = UserMessage | AssistantMessage | ToolResultMessage
"""What a model is shown."""

AgentMessage = UserMessage | AssistantMessage | ToolResultMessage | CustomMessage
"""What may stand in a transcript. Any object with a `role` passes through at run time, but only
these can be stored."""


def message_from_dict(data: dict[str, Any]) -> AgentMessage:
    """A message from plain data in either case. Raises `DecodeError` for a role nobody knows."""
    return decode_tagged(AgentMessage, data, "message")


def message_from_json(data: bytes | str) -> AgentMessage:
    """A message from JSON in either case. Raises `DecodeError` for a role nobody knows."""
    return decode_tagged(AgentMessage, data, "message")


def text_of(content: str | list[TextContent | ImageContent] | list[Any]) -> str:
    """The text of *content*, its blocks joined; images count for nothing."""
    if isinstance(content, str):
        return content
    return "".join([block.text for block in content if type(block) is TextContent])
