"""Responses, requests: messages -> input items, each encoded once.                         (pure)

A message's items are kept beside the growing list it comes from, so that the next request of a run
costs its new messages only and begins with the very bytes of the last.

What a model did in hiding goes back to it as it came: reasoning with its encrypted content, and the
calls of the vendor's own tools. The vendor checks that these stand before the items they belong to,
and that items with an id have theirs with them. So a reply's hidden items go back all or none, and
with none of them the rest goes without ids. https://developers.openai.com/api/docs/guides/reasoning

Flags read here: `reasoning_replay`, `responses_interleaved_calls`.
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
from ..handoff import MessageView, ModelIdentity
from ..media import PDF
from ..model import Model
from .openai_responses_items import REFUSAL_MARK

__all__ = ["InputRules", "encoded_input", "raw"]

NO_OUTPUT = "(no output)"
IMAGE_LEFT_OUT = "(an image was left out: this model reads text only)"

_LONGEST_ID = 64
_CALL_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_-]")
_ITEM_IDS = {
    kind: re.compile(rf"{prefix}_[A-Za-z0-9_-]+")
    for kind, prefix in {
        "message": "msg",
        "reasoning": "rs",
        "function_call": "fc",
        "custom_tool_call": "ctc",
    }.items()
}
"""What an item's id must look like; the vendor refuses a request with another."""

_ANSWERED_BY_US = {
    "computer_call": "computer_call_output",
    "local_shell_call": "local_shell_call_output",
    "shell_call": "shell_call_output",
    "apply_patch_call": "apply_patch_call_output",
    "mcp_approval_request": "mcp_approval_response",
}
"""Items that wait for an answer of the program's, and the item that is one."""


class InputRules(msgspec.Struct, frozen=True):
    """What decides how a message is written; encoded messages are kept under it."""

    identity: ModelIdentity
    images: bool
    replay: bool
    """Hidden items go back to the model they came from."""
    calls_last: bool
    """No text may stand behind a call in one turn."""
    hidden_from: int
    """The number of messages at the start whose hidden items the vendor refuses."""

    @classmethod
    def of(cls, model: Model, flags: Mapping[str, Any], *, hidden_from: int = 0) -> InputRules:
        """The rules of *model* at a host with *flags*."""
        return cls(
            identity=(model.provider, model.api, model.id),
            images="image" in model.input,
            replay=flags.get("reasoning_replay") != "none",
            calls_last=flags.get("responses_interleaved_calls") is False,
            hidden_from=hidden_from,
        )


class _Written:
    """The messages of one growing list as far as they are encoded."""

    __slots__ = ("calls", "done", "out", "taken")

    def __init__(self) -> None:
        self.done = 0
        self.out: list[msgspec.Raw] = []
        self.calls: dict[str, dict[str, Any]] = {}
        """For each call, by its id in the transcript, the fields its result begins with."""
        self.taken: set[str] = set()


def encoded_input(view: MessageView, rules: InputRules) -> list[msgspec.Raw]:
    """*view*'s messages as items; encoded are only those that were not before."""
    key = ("openai-responses", rules)
    written: _Written | None = view.memo.get(key)
    if written is None or written.done > len(view):  # an earlier state is asked for again
        fresh = _Written()
        if written is None:
            view.memo[key] = fresh
        written = fresh
    if written.done < len(view):
        for message in view[written.done :]:
            _write(message, written, rules)
            written.done += 1
    return written.out.copy()


def raw(value: Any) -> msgspec.Raw:
    """*value*, encoded now and copied as it is later."""
    return msgspec.Raw(msgspec.json.encode(value))


def _write(message: Message, written: _Written, rules: InputRules) -> None:
    if type(message) is UserMessage:
        content = message.content
        said = content if isinstance(content, str) else _parts(content, rules)
        written.out.append(raw({"role": "user", "content": said}))
    elif type(message) is ToolResultMessage:
        written.out.append(raw(_result(message, written, rules)))
    else:
        written.out += _reply(cast("AssistantMessage", message), written, rules)


def _parts(
    blocks: list[TextContent | ImageContent], rules: InputRules
) -> str | list[dict[str, Any]]:
    """Text alone is a string, which every host takes."""
    parts: list[dict[str, Any]] = []
    for block in blocks:
        if type(block) is TextContent:
            parts.append({"type": "input_text", "text": block.text})
        elif rules.images:
            image = cast("ImageContent", block)
            url = f"data:{image.mime_type};base64,{image.data}"
            if image.mime_type == PDF:
                parts.append({"type": "input_file", "filename": "file.pdf", "file_data": url})
            else:
                parts.append({"type": "input_image", "detail": "auto", "image_url": url})
        elif not parts or parts[-1]["text"] != IMAGE_LEFT_OUT:
            parts.append({"type": "input_text", "text": IMAGE_LEFT_OUT})
    if any(part["type"] == "input_image" for part in parts):
        return parts
    return "\n".join([part["text"] for part in parts])


def _result(result: ToolResultMessage, written: _Written, rules: InputRules) -> dict[str, Any]:
    known = written.calls.get(result.tool_call_id)
    if known is None:  # a transcript that was not made sendable
        known = {"type": "function_call_output", "call_id": _call_id(result.tool_call_id, written)}
    return {**known, "output": _parts(result.content, rules) or NO_OUTPUT}


# -- replies -----------------------------------------------------------------------------------


def _reply(message: AssistantMessage, written: _Written, rules: InputRules) -> list[msgspec.Raw]:
    """The items of one reply, none if nothing of it can be said on this wire."""
    same = (message.provider, message.api, message.model) == rules.identity
    replay = same and rules.replay and written.done >= rules.hidden_from
    hidden, whole = _hidden_items(message) if replay else ({}, False)
    with_ids = same and whole
    items: list[tuple[str, msgspec.Raw]] = []
    texts: list[TextContent] = []

    def say() -> None:
        items.extend(("message", raw(fields)) for fields in _messages(texts, with_ids=with_ids))
        texts.clear()

    for place, block in enumerate(message.content):
        if type(block) is TextContent:
            if block.text.strip():
                texts.append(block)
        elif type(block) is ThinkingContent:
            if place in hidden:
                say()
                items.append(hidden[place])
        else:
            say()
            call = cast("ToolCall", block)
            items.append(("call", raw(_tool_call(call, written, same=same, with_id=with_ids))))
    say()
    while items and items[-1][0] == "reasoning":
        items.pop()  # the vendor refuses reasoning that leads to nothing
    if rules.calls_last:
        items.sort(key=lambda item: item[0] == "call")
    return [item for _, item in items]


def _hidden_items(
    message: AssistantMessage,
) -> tuple[dict[int, tuple[str, msgspec.Raw]], bool]:
    """The items kept in signatures, by the place of their block, and whether all of them can go
    back; else there are none."""
    found: dict[int, tuple[str, msgspec.Raw]] = {}
    answers: set[Any] = set()
    waiting: list[tuple[str, Any]] = []
    for place, block in enumerate(message.content):
        if type(block) is not ThinkingContent or not block.thinking_signature:
            continue
        item = _item_of(block.thinking_signature)
        kind = item.get("type")
        if not isinstance(kind, str):
            return {}, False
        if kind == "reasoning" and not _may_go_back(item):
            return {}, False
        if kind in _ANSWERED_BY_US:
            waiting.append((_ANSWERED_BY_US[kind], item.get("call_id") or item.get("id")))
        answers.add((kind, item.get("call_id") or item.get("approval_request_id")))
        found[place] = (kind, _as_it_came(kind, item, block.thinking_signature))
    if any(call not in answers for call in waiting):
        return {}, False
    return found, True


def _item_of(signature: str) -> dict[str, Any]:
    try:
        item: Any = msgspec.json.decode(signature)
    except (msgspec.MsgspecError, UnicodeError):
        return {}
    return cast("dict[str, Any]", item) if isinstance(item, dict) else {}


def _may_go_back(reasoning: dict[str, Any]) -> bool:
    """Nothing is stored at the vendor, so the item must hold all that it stands for."""
    if reasoning.get("status") == "incomplete":
        return False
    return bool(reasoning.get("encrypted_content") or reasoning.get("content"))


def _as_it_came(kind: str, item: dict[str, Any], signature: str) -> msgspec.Raw:
    """The item's own bytes, unless the vendor would refuse them."""
    pattern = _ITEM_IDS.get(kind)
    unfit = pattern is not None and "id" in item and not _fits(item["id"], pattern)
    if not unfit and (kind != "reasoning" or "summary" in item):
        return msgspec.Raw(signature.encode())
    kept = {name: value for name, value in item.items() if name != "id" or not unfit}
    return raw({**kept, "summary": item.get("summary") or []} if kind == "reasoning" else kept)


def _fits(id: Any, pattern: re.Pattern[str]) -> bool:
    return isinstance(id, str) and len(id) <= _LONGEST_ID and pattern.fullmatch(id) is not None


def _messages(blocks: list[TextContent], *, with_ids: bool) -> list[dict[str, Any]]:
    """Text blocks that follow each other as messages, those of one item in one. A refusal is text
    like any other."""
    messages: list[dict[str, Any]] = []
    last: tuple[Any, Any] | None = None
    for block in blocks:
        signed = block.text_signature not in (None, REFUSAL_MARK)
        kept = _item_of(block.text_signature or "") if signed else {}
        part: dict[str, Any] = {
            "type": "output_text",
            "text": block.text,
            "annotations": kept.get("annotations") or [],
        }
        key = (kept.get("id"), kept.get("phase"))
        if messages and key == last:
            messages[-1]["content"].append(part)
            continue
        last = key
        # llama.cpp takes a reply without the type for nothing it knows.
        fields: dict[str, Any] = {"type": "message", "role": "assistant", "content": [part]}
        if isinstance(kept.get("phase"), str):
            fields["phase"] = kept["phase"]
        if with_ids and _fits(kept.get("id"), _ITEM_IDS["message"]):
            fields.update(id=kept["id"], status="completed")
        messages.append(fields)
    for fields in messages:
        if "id" not in fields:  # then the form that every host takes
            fields["content"] = "".join([part["text"] for part in fields["content"]])
    return messages


# -- calls -------------------------------------------------------------------------------------


def _tool_call(call: ToolCall, written: _Written, *, same: bool, with_id: bool) -> dict[str, Any]:
    own_id, _, item_id = call.id.partition("|")
    kept = _item_of(call.thought_signature) if same and call.thought_signature else {}
    custom = kept.get("type") == "custom_tool_call"
    kind = "custom_tool_call" if custom else "function_call"
    fields: dict[str, Any] = {"type": kind, "call_id": _call_id(own_id or call.id, written)}
    answer: dict[str, Any] = {"type": f"{kind}_output", "call_id": fields["call_id"]}
    if with_id and _fits(item_id, _ITEM_IDS[kind]):
        fields["id"] = item_id
    fields["name"] = _NOT_IN_NAMES.sub("_", call.name)[:_LONGEST_ID] or "unnamed"
    if custom:
        fields["input"] = str(call.arguments.get("input") or "")
    else:
        fields["arguments"] = msgspec.json.encode(call.arguments).decode()
    for name in ("caller", "namespace"):
        if kept.get(name):
            fields[name] = kept[name]
    if kept.get("caller"):
        answer["caller"] = kept["caller"]
    written.calls[call.id] = answer
    return fields


def _call_id(own_id: str, written: _Written) -> str:
    """The id to send for *own_id*: one the vendor takes, and no other call's. Some hosts count
    their calls from 0 in every reply."""
    sent = own_id if _CALL_ID.fullmatch(own_id) else _hashed(own_id)
    n = 2
    while sent in written.taken:
        sent, n = _hashed(f"{own_id}#{n}"), n + 1
    written.taken.add(sent)
    return sent


def _hashed(text: str) -> str:
    return f"call_{hashlib.blake2s(text.encode('utf-8', 'replace')).hexdigest()[:32]}"
