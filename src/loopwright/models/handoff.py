"""Makes any transcript sendable to any model, on a copy; the transcript keeps what happened.

Vendors refuse a request for things that are quite normal in a real transcript: a call nobody
answered, a reply that broke off, an id used twice, thinking that another model signed. The rules
that hold for every vendor are here:

- Replies that failed or were aborted are left out, and so are results answering them.
- Every call is answered by exactly one result, directly behind its reply and in the order asked.
  A missing one is made up and says so, what was said in between moves behind the results, and a
  result without a call is left out.
- Call ids are unique in the whole request; a repeated one is renamed, together with its result.
- Thinking and signatures stay with the model they came from, byte for byte, and go to no other.
- Blank text is left out, a reply with nothing left as well; a user's empty turn says that it is.
- Halves of surrogate pairs become U+FFFD.

A message that needs no change is passed on as the same object. Work is done once per message:
`SendableTranscript` is extended by what is new, and a view of it costs nothing.

Not here: what one vendor alone demands (which characters an id may have, where images may stand,
which roles must alternate); that is the business of its wire.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, cast, overload

import msgspec

from ..errors import Misuse
from ..messages import (
    AssistantMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from ..records import clean_text
from .media import sendable_image
from .model import Model

__all__ = ["MessageView", "ModelIdentity", "SendableTranscript", "sendable"]

ModelIdentity = tuple[str, str, str]
"""Provider, wire and model id: what must be equal for a signature to be worth anything."""

NO_RESULT = "No result provided: the call was interrupted before it gave one."
EMPTY_TURN = "(empty message)"


class MessageView(Sequence[Message]):
    """The first messages of a list that only ever grows: immutable, and made in no time.

    `prepared_for` names the model these messages were made sendable to, or is None. `memo` is
    shared by all views of one growing list; a wire keeps encoded messages in it.
    """

    __slots__ = ("_items", "_length", "memo", "prepared_for")

    def __init__(
        self,
        items: list[Message],
        length: int | None = None,
        *,
        prepared_for: ModelIdentity | None = None,
        memo: dict[Any, Any] | None = None,
    ) -> None:
        self._items = items
        self._length = len(items) if length is None else length
        self.prepared_for = prepared_for
        self.memo: dict[Any, Any] = {} if memo is None else memo

    def __len__(self) -> int:
        return self._length

    @overload
    def __getitem__(self, index: int) -> Message: ...
    @overload
    def __getitem__(self, index: slice) -> list[Message]: ...
    def __getitem__(self, index: int | slice) -> Message | list[Message]:
        if isinstance(index, slice):
            start, stop, step = index.indices(self._length)
            return [self._items[i] for i in range(start, stop, step)]
        if index < 0:
            index += self._length
        if not 0 <= index < self._length:
            raise IndexError("message index out of range")
        return self._items[index]

    def __iter__(self) -> Iterator[Message]:
        items = self._items
        if len(items) == self._length:
            return iter(items.copy())
        return iter(items[: self._length])

    def __eq__(self, other: object) -> bool:
        if isinstance(other, MessageView):
            if other._items is self._items:
                return other._length == self._length
            return list(self) == list(other)
        if isinstance(other, list | tuple):
            return list(self) == list(cast("list[object]", other))
        return NotImplemented

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __add__(self, other: Iterable[Message]) -> list[Message]:
        return [*self, *other]

    def __radd__(self, other: Iterable[Message]) -> list[Message]:
        return [*other, *self]

    def copy(self) -> list[Message]:
        """A list of the messages, to be changed at will."""
        return list(self)

    def __repr__(self) -> str:
        return repr(list(self))


class SendableTranscript:
    """The sendable copy of one transcript for one model, grown as the transcript grows.

    Give `extend` every message once, in order. A view shows what may be sent now. What a view has
    shown is history and never changes, so that every request begins with the one before it and
    vendors' prefix caches hit: a call still unanswered when a view is made gets its made-up result
    for good, and a real one that comes later is left out.
    """

    __slots__ = ("_answers", "_calls", "_held", "_identity", "_items", "_memo", "_open", "_taken")

    def __init__(self, model: Model) -> None:
        self._identity: ModelIdentity = (model.provider, model.api, model.id)
        self._items: list[Message] = []
        self._memo: dict[Any, Any] = {}
        self._taken: dict[str, int] = {}
        # The reply whose calls wait for results: the calls as sent, in order, and for each id in
        # the transcript the places among them that have no result yet.
        self._calls: list[ToolCall] = []
        self._open: dict[str, deque[int]] = {}
        self._answers: dict[int, ToolResultMessage] = {}
        self._held: list[UserMessage] = []

    @property
    def prepared_for(self) -> ModelIdentity:
        """The model this transcript is made sendable to."""
        return self._identity

    def extend(self, messages: Iterable[Message]) -> None:
        """Add what came since. Raises `Misuse` for a role no vendor knows."""
        for message in messages:
            kind = type(message)
            if kind is ToolResultMessage:
                self._answer(cast("ToolResultMessage", message))
            elif kind is UserMessage:
                user = _sendable_user(cast("UserMessage", message), self._identity[1])
                if self._calls:
                    self._held.append(user)
                else:
                    self._items.append(user)
            elif kind is AssistantMessage:
                self._settle()
                self._reply(cast("AssistantMessage", message))
            else:
                role = getattr(message, "role", None) or type(message).__name__
                raise Misuse(
                    f"a message with the role {role!r} cannot be sent to a model",
                    hint="let convert_to_llm turn it into a user message, or leave it out",
                )

    def view(self) -> MessageView:
        """What may be sent now; costs nothing, however long the transcript is."""
        self._settle()
        return MessageView(self._items, prepared_for=self._identity, memo=self._memo)

    def _reply(self, message: AssistantMessage) -> None:
        if message.stop_reason == "error" or message.stop_reason == "aborted":
            return
        same = (message.provider, message.api, message.model) == self._identity
        content: list[TextContent | ThinkingContent | ToolCall] = []
        changed = False
        for block in message.content:
            kept: TextContent | ThinkingContent | ToolCall | None
            if type(block) is ToolCall:
                kept = self._call(block, same)
            elif type(block) is TextContent:
                kept = _sendable_text(block, same)
            else:
                kept = _sendable_thinking(cast("ThinkingContent", block)) if same else None
            if kept is not block:
                changed = True
            if kept is not None:
                content.append(kept)
        if content:
            self._items.append(
                msgspec.structs.replace(message, content=content) if changed else message
            )

    def _call(self, call: ToolCall, same: bool) -> ToolCall:
        base = clean_text(call.id) or "call"
        sent_id, n = base, self._taken.get(base, 1)
        while sent_id in self._taken:
            n += 1
            sent_id = f"{base}_{n}"
        self._taken[base] = n  # where to go on, should this id come again
        self._taken.setdefault(sent_id, 1)
        signature = call.thought_signature if same else None
        name, arguments = clean_text(call.name), _clean_json(call.arguments)
        raw = None if call.raw_arguments is None else clean_text(call.raw_arguments)
        sent = call
        if (
            sent_id != call.id
            or name is not call.name
            or arguments is not call.arguments
            or signature is not call.thought_signature
            or raw is not call.raw_arguments
        ):
            sent = msgspec.structs.replace(
                call,
                id=sent_id,
                name=name,
                arguments=arguments,
                thought_signature=signature,
                raw_arguments=raw,
            )
        self._open.setdefault(call.id, deque()).append(len(self._calls))
        self._calls.append(sent)
        return sent

    def _answer(self, result: ToolResultMessage) -> None:
        """Keep *result* for the first open call with its id; repeated ids answer in turn."""
        open_positions = self._open.get(result.tool_call_id)
        if not open_positions:
            return  # it answers nothing that is sent
        position = open_positions.popleft()
        self._answers[position] = _sendable_result(result, self._calls[position], self._identity[1])
        if len(self._answers) == len(self._calls) and not self._held:
            self._settle()

    def _settle(self) -> None:
        """Place the results of the last reply in the order asked, then what waited for them."""
        if not self._calls:
            return
        for position, call in enumerate(self._calls):
            self._items.append(self._answers.get(position) or _made_up_result(call))
        self._items.extend(self._held)
        self._calls.clear()
        self._open.clear()
        self._answers.clear()
        self._held.clear()


def sendable(messages: Sequence[Message], model: Model) -> MessageView:
    """*messages* as they may be sent to *model*. A view already made for it comes back itself."""
    identity = (model.provider, model.api, model.id)
    if isinstance(messages, MessageView) and messages.prepared_for == identity:
        return messages
    transcript = SendableTranscript(model)
    transcript.extend(messages)
    return transcript.view()


def _made_up_result(call: ToolCall) -> ToolResultMessage:
    # The time is fixed, as the same history must give the same request each time.
    return ToolResultMessage(call.id, call.name, [TextContent(NO_RESULT)], None, True, None, 0)


def _sendable_text(block: TextContent, same: bool) -> TextContent | None:
    signature = block.text_signature if same else None
    text = clean_text(block.text)
    if signature is None and not text.strip():
        return None  # with a signature it may be the signature's only carrier
    if text is block.text and signature is block.text_signature:
        return block
    return TextContent(text, signature)


def _sendable_thinking(block: ThinkingContent) -> ThinkingContent | None:
    text = clean_text(block.thinking)
    if not block.thinking_signature and not text:
        return None
    return block if text is block.thinking else msgspec.structs.replace(block, thinking=text)


def _sendable_user(message: UserMessage, api: str) -> UserMessage:
    content = message.content
    if isinstance(content, str):
        text = clean_text(content)
        if not text.strip():
            text = EMPTY_TURN
        return message if text is content else msgspec.structs.replace(message, content=text)
    kept = _sendable_blocks(content, api)
    if not kept:
        kept = [TextContent(EMPTY_TURN)]
    return message if kept is content else msgspec.structs.replace(message, content=kept)


def _sendable_result(result: ToolResultMessage, call: ToolCall, api: str) -> ToolResultMessage:
    content = _sendable_blocks(result.content, api)
    if (
        content is result.content
        and call.id == result.tool_call_id
        and call.name == result.tool_name
    ):
        return result
    return msgspec.structs.replace(
        result, content=content, tool_call_id=call.id, tool_name=call.name
    )


def _sendable_blocks(
    blocks: list[TextContent | ImageContent], api: str
) -> list[TextContent | ImageContent]:
    """*blocks* without blank text and images that the wire *api* cannot send; the same list if
    there is nothing to change."""
    kept: list[TextContent | ImageContent] = []
    changed = False
    for block in blocks:
        if type(block) is TextContent:
            text = clean_text(block.text)
            if not text.strip():
                changed = True
                continue
            if text is not block.text or block.text_signature is not None:
                block = TextContent(text)
                changed = True
        else:
            image = sendable_image(cast("ImageContent", block), api)
            changed = changed or image is not block
            block = image
        kept.append(block)
    return kept if changed else blocks


def _clean_json(value: Any) -> Any:
    """*value* with clean text in every key and value; the same object if it was clean."""
    if type(value) is str:
        return clean_text(value)
    if type(value) is dict:
        members = cast("dict[Any, Any]", value)
        cleaned: dict[Any, Any] = {}
        changed = False
        for key, item in members.items():
            clean_key = clean_text(key) if type(key) is str else key
            clean_item = _clean_json(item)
            changed = changed or clean_key is not key or clean_item is not item
            cleaned[clean_key] = clean_item
        return cleaned if changed else members
    if type(value) is list:
        items = cast("list[Any]", value)
        clean_items = [_clean_json(item) for item in items]
        if any(new is not old for new, old in zip(clean_items, items, strict=True)):
            return clean_items
        return items
    return value
