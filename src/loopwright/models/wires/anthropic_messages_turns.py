"""Anthropic Messages, requests: messages -> the bytes of alternating turns.               (pure)

The dialect knows two roles that take turns, so what follows each other in one role becomes one
turn: all results of a reply, what the user said next, a reply that went on after a pause. A turn
is encoded once and kept beside the growing list its messages come from; the next request of a run
costs its new messages only and begins with the very bytes of the last, cache breakpoints apart.

What the vendor refuses and is mended here: images in failed results (put behind the results of
that turn), ids and names with other characters than it allows, blank text, a turn that ends in
thinking or a request that ends in white space, a server-side call that never got its result.

Not here: the rest of the body (`anthropic_messages_encode`).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, cast

import msgspec

from ...messages import (
    AssistantMessage,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from ..handoff import MessageView
from ..model import Model
from .anthropic_messages_blocks import (
    Block,
    content_blocks,
    hashed,
    kept_block,
    marked,
    raw,
    sendable_name,
    text_block,
    type_of,
    without_final_space,
)

__all__ = ["TurnRules", "Turns", "turns_of"]

NO_OUTPUT = "(no output)"
NOTHING_BEFORE = "(nothing was said before)"
IMAGE_INTRODUCTION = "Images from the failed tool results above:"

ID_PATTERN = "^[a-zA-Z0-9_-]+$"
ID_LENGTH = 64

ALL_MESSAGES = 1 << 62
"""As `unsigned_before`: no past thinking at all is sent."""

Role = Literal["user", "assistant"]


class TurnRules(msgspec.Struct, frozen=True):
    """What decides how a message is written; encoded turns are kept under it."""

    images: bool
    unsigned_before: int
    """Thinking in the messages before this one is left out: its signature was refused."""
    empty_signature: bool
    text_only_errors: bool
    id_pattern: str
    id_length: int

    @classmethod
    def of(cls, model: Model, flags: Mapping[str, Any], *, unsigned_before: int) -> TurnRules:
        """The rules of *model* at a host with *flags*."""
        given: Any = flags.get("tool_call_id")
        limits = cast("dict[str, Any]", given) if isinstance(given, dict) else {}
        if flags.get("reasoning_replay") == "none":
            unsigned_before = ALL_MESSAGES
        return cls(
            images="image" in model.input,
            unsigned_before=unsigned_before,
            empty_signature=flags.get("empty_signature") is True,
            text_only_errors=flags.get("text_only_error_results") is not False,
            id_pattern=limits.get("pattern") or ID_PATTERN,
            id_length=int(limits.get("max") or ID_LENGTH),
        )


class _Turn:
    """A turn that may still grow."""

    __slots__ = ("blocks", "has_calls", "has_results", "has_words", "role", "thinks")

    def __init__(self, role: Role) -> None:
        self.role: Role = role
        self.blocks: list[Block] = []
        self.has_calls = False
        """Calls that the user's side answers."""
        self.has_results = False
        self.has_words = False
        """Something beside tool results."""
        self.thinks: list[Block] = []
        """Those of the blocks that are thinking."""


class Turns:
    """The turns of one growing list of messages, as far as they are written."""

    __slots__ = (
        "_call_ids", "_closed", "_loop_thinks", "_moved", "_open", "_rules", "_server_ids",
        "_taken", "_unpaired", "done", "has_thinking",
    )  # fmt: skip

    def __init__(self, rules: TurnRules) -> None:
        self._rules = rules
        self.done = 0
        """How many messages are written."""
        self.has_thinking = False
        """Past thinking is among them."""
        self._closed: list[msgspec.Raw] = []
        self._open: list[_Turn] = []  # the last two: breakpoints move, and clean-up looks back
        self._moved: list[Block] = []  # images that wait for the end of their results
        self._call_ids: dict[str, str] = {}
        self._taken: set[str] = set()
        self._server_ids: set[str] = set()
        self._unpaired: dict[str, tuple[_Turn, Block]] = {}
        self._loop_thinks = True

    # -- reading ------------------------------------------------------------------------------

    def encoded(self, cache_mark: bytes | None) -> list[msgspec.Raw]:
        """All turns; *cache_mark* goes on the last block that the user's side has said."""
        turns: list[tuple[Role, list[Block]]]
        turns = [(turn.role, turn.blocks) for turn in self._open]
        if self._moved:
            role, blocks = turns[-1]
            turns[-1] = (role, [*blocks, *_introduced(self._moved)])
        if turns and turns[-1][0] == "assistant":
            last = _without_final_thinking(self._open[-1])
            if last:
                turns[-1] = ("assistant", [*last[:-1], without_final_space(last[-1])])
            else:
                turns.pop()
        if not turns and not self._closed:
            turns = [("user", [text_block(NOTHING_BEFORE)])]
        if cache_mark is not None:
            for place in range(len(turns) - 1, -1, -1):
                role, blocks = turns[place]
                if role == "user":
                    turns[place] = (role, [*blocks[:-1], marked(blocks[-1], cache_mark)])
                    break
        return [*self._closed, *(_turn(role, blocks) for role, blocks in turns)]

    @property
    def thinking_may_start(self) -> bool:
        """Whether thinking with a budget may be on: in the middle of a tool loop it must have
        been from the loop's first reply on, or the vendor refuses the request."""
        last = self._open[-1] if self._open else None
        in_loop = last is not None and last.has_results and not last.has_words and not self._moved
        return self._loop_thinks or not in_loop

    # -- writing ------------------------------------------------------------------------------

    def write(self, message: Message) -> None:
        """Add the next message."""
        if type(message) is ToolResultMessage:
            self._result(message)
        elif type(message) is UserMessage:
            self._user(message)
        else:
            self._assistant(cast("AssistantMessage", message))
        self.done += 1

    def _turn_of(self, role: Role) -> _Turn:
        """The turn to write into: the open one, or a new one behind it."""
        if self._open and self._open[-1].role != role:
            last = self._open[-1]
            if role == "user":
                last.blocks = _without_final_thinking(last)
                if not last.blocks:
                    self._open.pop()
        if self._open and self._open[-1].role == role:
            return self._open[-1]
        if not self._open and not self._closed and role == "assistant":
            first = _Turn("user")  # a conversation begins with the user's side
            first.blocks.append(text_block(NOTHING_BEFORE))
            first.has_words = True
            self._open.append(first)
        if len(self._open) == 2:
            closed = self._open.pop(0)
            self._closed.append(_turn(closed.role, closed.blocks))
        turn = _Turn(role)
        self._open.append(turn)
        return turn

    # -- the user's side ----------------------------------------------------------------------

    def _user(self, message: UserMessage) -> None:
        self._drop_unpaired()
        turn = self._turn_of("user")
        self._place_moved(turn)
        if isinstance(message.content, str):
            turn.blocks.append(text_block(message.content))
        else:
            turn.blocks += content_blocks(message.content, images=self._rules.images)
        turn.has_words = True

    def _result(self, result: ToolResultMessage) -> None:
        content = content_blocks(result.content, images=self._rules.images)
        if result.is_error and self._rules.text_only_errors:
            images = [block for block in content if type_of(block) == "image"]
            if images:
                self._moved += images
                content = [block for block in content if block not in images]
        fields: dict[str, Any] = {
            "type": "tool_result",
            "tool_use_id": self._call_ids.get(result.tool_call_id, result.tool_call_id),
            "content": content or [text_block(NO_OUTPUT)],
        }
        if result.is_error:
            fields["is_error"] = True
        turn = self._turn_of("user")
        turn.blocks.append(raw(fields))
        turn.has_results = True

    def _place_moved(self, turn: _Turn) -> None:
        if self._moved:
            turn.blocks += _introduced(self._moved)
            turn.has_words = True
            self._moved = []

    # -- the model's side ---------------------------------------------------------------------

    def _assistant(self, message: AssistantMessage) -> None:
        keeps_thinking = self.done >= self._rules.unsigned_before
        last = self._open[-1] if self._open else None
        begins_loop = last is None or last.role != "user" or last.has_words or bool(self._moved)
        blocks: list[Block] = []
        thinks: list[Block] = []
        unpaired: list[tuple[str, Block]] = []
        calls = 0
        for content in message.content:
            if type(content) is TextContent:
                block = self._said(content, unpaired)
            elif type(content) is ThinkingContent:
                block = self._thought(content) if keeps_thinking else None
                if block is not None:
                    thinks.append(block)
            else:
                block = self._call(cast("ToolCall", content))
                calls += 1
            if block is not None:
                blocks.append(block)
        if not blocks:
            return
        if last is not None and last.role == "user":
            self._place_moved(last)
        turn = self._turn_of("assistant")
        if begins_loop and not turn.blocks:
            self._loop_thinks = bool(thinks) and thinks[0] is blocks[0]
        turn.blocks += blocks
        turn.thinks += thinks
        turn.has_calls = turn.has_calls or calls > 0
        self.has_thinking = self.has_thinking or bool(thinks)
        for id, block in unpaired:
            self._unpaired[id] = (turn, block)

    def _said(self, content: TextContent, unpaired: list[tuple[str, Block]]) -> Block | None:
        """Text, with its citations; or a block that only the vendor understands, which the
        decoder keeps as the signature of an empty text."""
        kept = kept_block(content.text_signature)
        if kept is not None and "type" in kept:
            return self._opaque(cast("str", content.text_signature), kept, unpaired)
        if not content.text.strip():
            return None
        if kept is not None and kept.get("citations"):
            return raw({"type": "text", "text": content.text, "citations": kept["citations"]})
        return text_block(content.text)

    def _opaque(
        self, text: str, fields: dict[str, Any], unpaired: list[tuple[str, Block]]
    ) -> Block | None:
        raw = msgspec.Raw(text.encode())
        answers = fields.get("tool_use_id")
        if isinstance(answers, str):
            if answers not in self._server_ids:
                return None  # its call is not in the request
            self._unpaired.pop(answers, None)
            unpaired[:] = [pair for pair in unpaired if pair[0] != answers]
            return raw
        id = fields.get("id")
        if isinstance(id, str) and str(fields["type"]).endswith("tool_use"):
            self._server_ids.add(id)
            unpaired.append((id, raw))
        return raw

    def _drop_unpaired(self) -> None:
        """The user goes on instead of letting the vendor finish its own calls: without a result
        they would be refused. Beside calls of ours, their results may still come."""
        if not self._unpaired or not self._open or self._open[-1].role != "assistant":
            return
        turn = self._open[-1]
        if turn.has_calls:
            return
        for id, (owner, block) in list(self._unpaired.items()):
            if owner is turn:
                del self._unpaired[id]
                self._server_ids.discard(id)
                turn.blocks = [other for other in turn.blocks if other is not block]
        if not turn.blocks:
            self._open.pop()

    def _thought(self, content: ThinkingContent) -> Block | None:
        signature = content.thinking_signature
        if content.redacted:
            return raw({"type": "redacted_thinking", "data": signature}) if signature else None
        if not signature and not (self._rules.empty_signature and content.thinking.strip()):
            return None
        return raw({"type": "thinking", "thinking": content.thinking, "signature": signature or ""})

    def _call(self, call: ToolCall) -> Block:
        fields: dict[str, Any] = {
            "type": "tool_use",
            "id": self._call_id(call.id),
            "name": sendable_name(call.name),
            "input": call.arguments,
        }
        kept = kept_block(call.thought_signature)
        caller: Any = kept.get("caller") if kept is not None else None
        if isinstance(caller, dict):
            by = cast("dict[str, Any]", caller)
            if by.get("tool_id") in self._server_ids:
                fields["caller"] = by
        return raw(fields)

    def _call_id(self, own_id: str) -> str:
        """The id to send for *own_id*; the same each time, and no other call's."""
        sent = own_id.partition("|")[0] or own_id  # Responses ids carry the item's id behind a bar
        length = self._rules.id_length
        if len(sent) > length or not re.fullmatch(self._rules.id_pattern, sent):
            sent = hashed(own_id, length)
        n = 2
        while sent in self._taken:
            sent, n = hashed(f"{own_id}#{n}", length), n + 1
        self._taken.add(sent)
        self._call_ids[own_id] = sent
        return sent


def turns_of(view: MessageView, rules: TurnRules) -> Turns:
    """*view*'s messages as turns; encoded are only those that were not before."""
    key = ("anthropic-messages", rules)
    turns: Turns | None = view.memo.get(key)
    if turns is None or turns.done > len(view):  # an earlier state is asked for again
        fresh = Turns(rules)
        if turns is None:
            view.memo[key] = fresh
        turns = fresh
    if turns.done < len(view):
        for message in view[turns.done :]:
            turns.write(message)
    return turns


def _turn(role: Role, blocks: list[Block]) -> msgspec.Raw:
    return raw({"role": role, "content": blocks})


def _introduced(images: list[Block]) -> list[Block]:
    return [text_block(IMAGE_INTRODUCTION), *images]


def _without_final_thinking(turn: _Turn) -> list[Block]:
    """A reply may not end in thinking."""
    blocks = turn.blocks
    end = len(blocks)
    while end and any(blocks[end - 1] is block for block in turn.thinks):
        end -= 1
    return blocks if end == len(blocks) else blocks[:end]
