"""Bedrock Converse, requests: messages -> the bytes of alternating turns.                   (pure)

Two roles take turns, so what follows each other in one role becomes one turn: all results of a
reply, and what the user said next. A turn is encoded once and kept beside the growing list its
messages come from; the next request of a run costs its new messages only and begins with the very
bytes of the last, cache breakpoints apart.

What the vendor refuses and is mended here: images where a result may have none (put behind the
results of that turn), ids and names with other characters than it allows, empty names in arguments,
blank text, a document without a word beside it, a turn that ends in thinking, a call that the
vendor ran itself without its result.

Not here: the rest of the body (`bedrock_converse_encode`).
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
from .bedrock_converse_blocks import (
    Block,
    Part,
    content_parts,
    hashed,
    kept_block,
    raw,
    sendable_arguments,
    sendable_name,
    without_final_space,
)
from .bedrock_converse_models import Family

__all__ = ["ALL_MESSAGES", "TurnRules", "Turns", "turns_of"]

NO_OUTPUT = "(no output)"
NOTHING_BEFORE = "(nothing was said before)"
IMAGE_INTRODUCTION = "Images from the tool results above:"
DOCUMENT_INTRODUCTION = "(see the attached documents)"

_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
ID_LENGTH = 64

ALL_MESSAGES = 1 << 62
"""As `unsigned_before`: no past thinking at all is sent."""

Role = Literal["user", "assistant"]


class TurnRules(msgspec.Struct, frozen=True):
    """What decides how a message is written; encoded turns are kept under it."""

    images: bool
    documents: bool
    images_in_results: bool
    text_only_errors: bool
    json_results: bool
    tools: bool
    """The model knows tools; for one that does not, past calls and results become text."""
    unsigned_before: int
    """Thinking in the messages before this one is left out: its signature was refused."""

    @classmethod
    def of(
        cls, model: Model, flags: Mapping[str, Any], family: Family, *, unsigned_before: int
    ) -> TurnRules:
        """The rules of *model* at a host with *flags*."""
        reads_more = any(kind != "text" for kind in model.input)
        return cls(
            images="image" in model.input,
            documents=reads_more and flags.get("document_input") is not False,
            images_in_results=family.images_in_results,
            text_only_errors=flags.get("text_only_error_results") is not False,
            json_results=family.json_results,
            tools=flags.get("tools") is not False,
            unsigned_before=ALL_MESSAGES
            if flags.get("reasoning_replay") == "none"
            else unsigned_before,
        )


class _Turn:
    """A turn that may still grow."""

    __slots__ = (
        "blocks",
        "has_documents",
        "has_results",
        "has_text",
        "has_words",
        "role",
        "thinks",
    )

    def __init__(self, role: Role) -> None:
        self.role: Role = role
        self.blocks: list[Block] = []
        self.has_results = False
        self.has_words = False
        """Something beside tool results."""
        self.has_text = False
        self.has_documents = False
        self.thinks: list[Block] = []
        """Those of the blocks that are thinking."""

    def add(self, parts: list[Part]) -> None:
        for part in parts:
            self.blocks.append(raw(part))
            self.has_text = self.has_text or "text" in part
            self.has_documents = self.has_documents or "document" in part


class Turns:
    """The turns of one growing list of messages, as far as they are written."""

    __slots__ = (
        "_call_ids", "_closed", "_documents", "_loop_thinks", "_moved", "_open", "_rules",
        "_taken", "done", "has_thinking", "tool_names",
    )  # fmt: skip

    def __init__(self, rules: TurnRules) -> None:
        self._rules = rules
        self.done = 0
        """How many messages are written."""
        self.has_thinking = False
        """Past thinking is among them."""
        self.tool_names: dict[str, None] = {}
        """Of the calls among them, in the order of their first."""
        self._closed: list[msgspec.Raw] = []
        self._open: list[_Turn] = []  # the last two: breakpoints move, and clean-up looks back
        self._moved: list[Part] = []  # images that wait for the end of their results
        self._call_ids: dict[str, str] = {}
        self._taken: set[str] = set()
        self._documents = 0
        self._loop_thinks = True

    # -- reading ------------------------------------------------------------------------------

    def encoded(self, cache_point: bytes | None) -> list[msgspec.Raw]:
        """All turns; *cache_point* goes behind the last block that the user's side has said."""
        turns: list[tuple[Role, list[Block]]]
        turns = [(turn.role, _complete(turn)) for turn in self._open]
        if self._moved:
            role, blocks = turns[-1]
            turns[-1] = (role, [*blocks, *(raw(part) for part in _introduced(self._moved))])
        if turns and turns[-1][0] == "assistant":
            last = _without_final_thinking(self._open[-1])
            if last:
                turns[-1] = ("assistant", [*last[:-1], without_final_space(last[-1])])
            else:
                turns.pop()
        if not turns and not self._closed:
            turns = [("user", [raw({"text": NOTHING_BEFORE})])]
        if cache_point is not None:
            for place in range(len(turns) - 1, -1, -1):
                role, blocks = turns[place]
                if role == "user":
                    turns[place] = (role, [*blocks, msgspec.Raw(cache_point)])
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
        if self._open and self._open[-1].role != role and role == "user":
            last = self._open[-1]
            last.blocks = _without_final_thinking(last)
            if not last.blocks:
                self._open.pop()
        if self._open and self._open[-1].role == role:
            return self._open[-1]
        if not self._open and not self._closed and role == "assistant":
            first = _Turn("user")  # a conversation begins with the user's side
            first.add([{"text": NOTHING_BEFORE}])
            first.has_words = True
            self._open.append(first)
        if len(self._open) == 2:
            closed = self._open.pop(0)
            self._closed.append(_turn(closed.role, _complete(closed)))
        turn = _Turn(role)
        self._open.append(turn)
        return turn

    # -- the user's side ----------------------------------------------------------------------

    def _parts(self, message: UserMessage | ToolResultMessage) -> list[Part]:
        content = message.content
        if isinstance(content, str):
            return [{"text": content}]
        rules = self._rules
        parts = content_parts(
            content,
            images=rules.images,
            documents=rules.documents,
            documents_before=self._documents,
        )
        self._documents += sum("document" in part for part in parts)
        return parts

    def _user(self, message: UserMessage) -> None:
        turn = self._turn_of("user")
        self._place_moved(turn)
        turn.add(self._parts(message))
        turn.has_words = True

    def _result(self, result: ToolResultMessage) -> None:
        parts = self._parts(result)
        turn = self._turn_of("user")
        rules = self._rules
        if not rules.tools:
            turn.add([{"text": f"The tool {result.tool_name} answered:"}])
            turn.add(parts or [{"text": NO_OUTPUT}])
            turn.has_words = True
            return
        if not rules.images_in_results or (result.is_error and rules.text_only_errors):
            self._moved += [part for part in parts if "text" not in part]
            parts = [part for part in parts if "text" in part]
        if rules.json_results:
            said = "\n".join([part["text"] for part in parts if "text" in part])
            parts = [part for part in parts if "text" not in part]
            if said or not parts:
                parts.insert(0, {"json": {"result": said or NO_OUTPUT}})
        fields: dict[str, Any] = {
            "toolUseId": self._call_ids.get(result.tool_call_id, result.tool_call_id),
            "content": parts or [{"text": NO_OUTPUT}],
        }
        if result.is_error:
            fields["status"] = "error"
        turn.blocks.append(raw({"toolResult": fields}))
        turn.has_results = True

    def _place_moved(self, turn: _Turn) -> None:
        if self._moved:
            turn.add(_introduced(self._moved))
            turn.has_words = True
            self._moved = []

    # -- the model's side ---------------------------------------------------------------------

    def _assistant(self, message: AssistantMessage) -> None:
        keeps_thinking = self.done >= self._rules.unsigned_before
        last = self._open[-1] if self._open else None
        begins_loop = last is None or last.role != "user" or last.has_words or bool(self._moved)
        paired = _paired(message)
        blocks: list[Block] = []
        thinks: list[Block] = []
        for content in message.content:
            block: Block | None
            if type(content) is TextContent:
                block = self._said(content, paired)
            elif type(content) is ThinkingContent:
                block = _thought(content) if keeps_thinking else None
                if block is not None:
                    thinks.append(block)
            else:
                block = self._call(cast("ToolCall", content))
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
        self.has_thinking = self.has_thinking or bool(thinks)

    def _said(self, content: TextContent, paired: set[str]) -> Block | None:
        """Text; or a call that the vendor ran, or its result, which the decoder keeps as the
        signature of an empty text."""
        kept = kept_block(content.text_signature)
        if kept is not None:
            (inner,) = kept.values()
            known = self._rules.tools and inner.get("toolUseId") in paired
            return msgspec.Raw(cast("str", content.text_signature).encode()) if known else None
        return raw({"text": content.text}) if content.text.strip() else None

    def _call(self, call: ToolCall) -> Block:
        name = sendable_name(call.name)
        arguments = sendable_arguments(call.arguments)
        if not self._rules.tools:
            said = msgspec.json.encode(arguments).decode()
            return raw({"text": f"(called the tool {name} with {said})"})
        self.tool_names[name] = None
        fields = {"toolUseId": self._call_id(call.id), "name": name, "input": arguments}
        return raw({"toolUse": fields})

    def _call_id(self, own_id: str) -> str:
        """The id to send for *own_id*; the same each time, and no other call's."""
        sent = own_id.partition("|")[0] or own_id  # Responses ids carry the item's id behind a bar
        if not _ID.fullmatch(sent):
            sent = hashed(own_id, ID_LENGTH)
        n = 2
        while sent in self._taken:
            sent, n = hashed(f"{own_id}#{n}", ID_LENGTH), n + 1
        self._taken.add(sent)
        self._call_ids[own_id] = sent
        return sent


def turns_of(view: MessageView, rules: TurnRules) -> Turns:
    """*view*'s messages as turns; encoded are only those that were not before."""
    key = ("bedrock-converse", rules)
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


def _thought(content: ThinkingContent) -> Block | None:
    signature = content.thinking_signature
    if not signature:
        return None  # only Claude's goes back, and that is signed
    if content.redacted:
        return raw({"reasoningContent": {"redactedContent": signature}})
    fields = {"text": content.thinking, "signature": signature}
    return raw({"reasoningContent": {"reasoningText": fields}})


def _paired(message: AssistantMessage) -> set[str]:
    """The ids of calls that the vendor ran and whose result is in the same reply, behind them."""
    called: set[str] = set()
    paired: set[str] = set()
    for content in message.content:
        if type(content) is not TextContent:
            continue
        kept = kept_block(content.text_signature)
        if kept is None:
            continue
        id = str(next(iter(kept.values())).get("toolUseId"))
        if "toolUse" in kept:
            called.add(id)
        elif id in called:
            paired.add(id)
    return paired


def _complete(turn: _Turn) -> list[Block]:
    """The turn's blocks; documents need a word beside them."""
    if turn.has_documents and not turn.has_text:
        return [*turn.blocks, raw({"text": DOCUMENT_INTRODUCTION})]
    return turn.blocks


def _turn(role: Role, blocks: list[Block]) -> msgspec.Raw:
    return raw({"role": role, "content": blocks})


def _introduced(images: list[Part]) -> list[Part]:
    return [{"text": IMAGE_INTRODUCTION}, *images]


def _without_final_thinking(turn: _Turn) -> list[Block]:
    """A reply may not end in thinking."""
    blocks = turn.blocks
    end = len(blocks)
    while end and any(blocks[end - 1] is block for block in turn.thinks):
        end -= 1
    return blocks if end == len(blocks) else blocks[:end]
