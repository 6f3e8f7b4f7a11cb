"""Chat Completions, requests: messages -> their bytes, each encoded once.                  (pure)

A message's bytes are kept beside the growing list it comes from, so that the next request of a run
costs its new messages only and begins with the very bytes of the last.

Flags read here: `reasoning_replay`, `reasoning_content_required`, `tool_result_name`,
`assistant_after_tool_result`, `non_null_assistant_content`, `tool_call_id`.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from ...messages import (
    AssistantMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from ..handoff import MessageView
from ..model import Model

__all__ = ["MessageRules", "encoded_messages", "raw"]

NO_OUTPUT = "(no output)"
IMAGE_BELOW = "(the image follows below)"
IMAGE_INTRODUCTION = "Images from the tool results above:"
IMAGE_LEFT_OUT = "(an image was left out: this model reads text only)"

SAFE_CALL_ID_LENGTH = 40
"""What OpenAI itself demands; proxies in front of other models pass on more, but no host less."""


class MessageRules(msgspec.Struct, frozen=True):
    """What decides how a message is written; encoded messages are kept under it."""

    images: bool
    replay: str | None
    """Where reasoning goes back: a field of the message, `think-tags`, or None for nowhere."""
    reasoning_required: bool
    result_name: bool
    assistant_after_result: bool
    content_never_null: bool
    id_pattern: str | None
    id_length: int

    @classmethod
    def of(cls, model: Model, flags: Mapping[str, Any], *, thinks: bool) -> MessageRules:
        """The rules of *model* at a host with *flags*; *thinks*: thinking is on."""
        replay = flags.get("reasoning_replay")
        id_rule: Any = flags.get("tool_call_id") or {}
        if not isinstance(id_rule, dict):
            id_rule = {}
        limits = cast("dict[str, Any]", id_rule)
        return cls(
            images="image" in model.input,
            replay=None if replay in (None, "none", "encrypted", "signature") else str(replay),
            reasoning_required=thinks and flags.get("reasoning_content_required") is True,
            result_name=flags.get("tool_result_name") is True,
            assistant_after_result=flags.get("assistant_after_tool_result") is True,
            content_never_null=flags.get("non_null_assistant_content") is True,
            id_pattern=limits.get("pattern"),
            id_length=int(limits.get("max") or SAFE_CALL_ID_LENGTH),
        )


class _Written:
    """The messages of one growing list as far as they are encoded."""

    __slots__ = ("call_ids", "done", "has_calls", "images", "last_role", "out", "taken")

    def __init__(self) -> None:
        self.done = 0
        self.out: list[msgspec.Raw] = []
        self.images: list[dict[str, Any]] = []
        """Of the tool results at the end, which only text can be in; a user message brings them."""
        self.last_role = ""
        self.call_ids: dict[str, str] = {}
        self.taken: set[str] = set()
        self.has_calls = False


def encoded_messages(view: MessageView, rules: MessageRules) -> list[msgspec.Raw]:
    """*view*'s messages; encoded are only those that were not before."""
    key = ("openai-chat", rules)
    written: _Written | None = view.memo.get(key)
    if written is None or written.done > len(view):  # an earlier state is asked for again
        fresh = _Written()
        if written is None:
            view.memo[key] = fresh
        written = fresh
    if written.done < len(view):
        for message in view[written.done :]:
            _write(message, written, rules)
        written.done = len(view)
    if written.images:
        return [*written.out, raw(_image_message(written.images))]
    return written.out.copy()


def raw(value: dict[str, Any]) -> msgspec.Raw:
    """*value*, encoded now and copied as it is later."""
    return msgspec.Raw(msgspec.json.encode(value))


def _write(message: Message, written: _Written, rules: MessageRules) -> None:
    if type(message) is ToolResultMessage:
        written.out.append(raw(_result(message, written, rules)))
        written.last_role = "tool"
        return
    if written.images:
        written.out.append(raw(_image_message(written.images)))
        written.images = []
        written.last_role = "user"
    if type(message) is UserMessage:
        if rules.assistant_after_result and written.last_role == "tool":
            written.out.append(raw({"role": "assistant", "content": "Understood."}))
        written.out.append(raw({"role": "user", "content": _user_content(message, rules)}))
        written.last_role = "user"
    else:
        fields = _assistant(cast("AssistantMessage", message), written, rules)
        if fields is not None:
            written.out.append(raw(fields))
            written.last_role = "assistant"


def _user_content(message: UserMessage, rules: MessageRules) -> str | list[dict[str, Any]]:
    if isinstance(message.content, str):
        return message.content
    if all(type(block) is TextContent for block in message.content):
        return "\n".join([cast("TextContent", block).text for block in message.content])
    parts: list[dict[str, Any]] = []
    for block in message.content:
        if type(block) is TextContent:
            parts.append({"type": "text", "text": block.text})
        elif rules.images:
            parts.append(_image_part(cast("ImageContent", block)))
        elif not parts or parts[-1].get("text") != IMAGE_LEFT_OUT:
            parts.append({"type": "text", "text": IMAGE_LEFT_OUT})
    return parts


def _image_part(image: ImageContent) -> dict[str, Any]:
    return {
        "type": "image_url",
        "image_url": {"url": f"data:{image.mime_type};base64,{image.data}"},
    }


def _image_message(images: list[dict[str, Any]]) -> dict[str, Any]:
    return {
        "role": "user",
        "content": [{"type": "text", "text": IMAGE_INTRODUCTION}, *images],
    }


def _result(result: ToolResultMessage, written: _Written, rules: MessageRules) -> dict[str, Any]:
    call_id = written.call_ids.get(result.tool_call_id, result.tool_call_id)
    texts: list[str] = []
    for block in result.content:
        if type(block) is TextContent:
            texts.append(block.text)
        elif rules.images:
            label = f"From {result.tool_name or 'unnamed'} (call {call_id}):"
            written.images.append({"type": "text", "text": label})
            written.images.append(_image_part(cast("ImageContent", block)))
        elif not texts or texts[-1] != IMAGE_LEFT_OUT:
            texts.append(IMAGE_LEFT_OUT)
    if not texts:
        texts = [IMAGE_BELOW if result.content else NO_OUTPUT]
    fields: dict[str, Any] = {
        "role": "tool",
        "tool_call_id": call_id,
        "content": "\n".join(texts),
    }
    if rules.result_name:
        fields["name"] = result.tool_name or "unnamed"
    return fields


def _assistant(
    message: AssistantMessage, written: _Written, rules: MessageRules
) -> dict[str, Any] | None:
    """None for a reply of which nothing can be said on this wire."""
    texts: list[str] = []
    thinking: list[ThinkingContent] = []
    calls: list[dict[str, Any]] = []
    for block in message.content:
        if type(block) is TextContent:
            if block.text.strip():
                texts.append(block.text)
        elif type(block) is ThinkingContent:
            thinking.append(block)
        else:
            calls.append(_tool_call(cast("ToolCall", block), written, rules))
    text = "".join(texts)
    fields: dict[str, Any] = {"role": "assistant"}
    if thinking:
        text = _replay(fields, text, thinking, rules)
    if rules.reasoning_required and "reasoning_content" not in fields:
        fields["reasoning_content"] = ""
    if not text and not calls:
        return None
    if fields.get("content"):  # thinking is a part of it
        fields["content"] += [{"type": "text", "text": text}] if text else []
    else:
        fields["content"] = text or ("" if rules.content_never_null else None)
    if calls:
        written.has_calls = True
        fields["tool_calls"] = calls
    return fields


def _replay(
    fields: dict[str, Any], text: str, thinking: list[ThinkingContent], rules: MessageRules
) -> str:
    """Add the model's own reasoning where its host wants it back. Returns the text to send."""
    said = "".join([block.thinking for block in thinking])
    if rules.replay in ("reasoning_content", "reasoning"):
        fields[rules.replay] = said
    elif rules.replay == "think-tags" and said:
        return f"<think>{said}</think>{text}"
    elif rules.replay == "thinking-chunk":
        fields["content"] = [_thinking_part(block) for block in thinking if block.thinking]
    elif rules.replay == "reasoning_details":
        details: list[Any] = []
        for block in thinking:
            if (block.thinking_signature or "").startswith("["):
                details += msgspec.json.decode(block.thinking_signature or "[]")
            elif block.thinking:
                details.append({"type": "reasoning.text", "text": block.thinking})
        fields["reasoning_details"] = details
    return text


def _thinking_part(block: ThinkingContent) -> dict[str, Any]:
    part: dict[str, Any] = {
        "type": "thinking",
        "thinking": [{"type": "text", "text": block.thinking}],
    }
    if (block.thinking_signature or "").startswith('[{"type":"thinking"'):
        part["signature"] = msgspec.json.decode(block.thinking_signature or "")[-1]["signature"]
    return part


def _tool_call(call: ToolCall, written: _Written, rules: MessageRules) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "id": _call_id(call.id, written, rules),
        "type": "function",
        "function": {
            "name": call.name or "unnamed",  # a model may forget it; hosts refuse an empty one
            "arguments": msgspec.json.encode(call.arguments).decode(),
        },
    }
    if (call.thought_signature or "").startswith('{"extra_content":'):
        fields |= msgspec.json.decode(call.thought_signature or "")
    return fields


def _call_id(own_id: str, written: _Written, rules: MessageRules) -> str:
    """The id to send for *own_id*; the same each time, and no other call's."""
    sent = own_id.partition("|")[0] or own_id  # Responses ids carry the item's id behind a bar
    allowed = rules.id_pattern
    if len(sent) > rules.id_length or (allowed and not re.fullmatch(allowed, sent)):
        sent = _hashed(own_id, rules.id_length)
    n = 2
    while sent in written.taken:
        sent, n = _hashed(f"{own_id}#{n}", rules.id_length), n + 1
    written.taken.add(sent)
    written.call_ids[own_id] = sent
    return sent


def _hashed(text: str, length: int) -> str:
    """Letters and digits only, which every host takes."""
    return hashlib.blake2s(text.encode("utf-8", "replace")).hexdigest()[: min(length, 32)]
