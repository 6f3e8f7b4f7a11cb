"""Mistral: Chat Completions with words of its own.

Everything but these is `openai_chat`'s: ids of calls are nine letters or digits; thinking is a part
of a message's content, in requests as in answers; models that came before `reasoning_effort` are
told to think by `prompt_mode`; a seed is a `random_seed`; a request that ends with the model's own
words says so.

Flags read here besides: `prompt_mode` (True: thinking is switched on by it, not by an effort).
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from ...records import to_jsonable
from ...stream import ReplyBuilder
from . import Decoder, WireCall
from .openai_chat import OpenAIResponse, post
from .openai_chat_decode import ChatDecoder
from .openai_chat_encode import payload

__all__ = ["Mistral", "wire"]

DIALECT: Mapping[str, Any] = {
    "max_tokens_field": "max_tokens",
    "stream_usage": "always",
    "developer_role": False,
    "store": False,
    "metadata": True,
    "reasoning_replay": "thinking-chunk",
}
"""What holds for the dialect unless a row says otherwise."""

CALL_ID = {"pattern": "[a-zA-Z0-9]{9}", "max": 9}

_PROMPT_MODE_MODELS = re.compile(r"magistral-(?:small|medium)-(?:2506|2507)\b")
"""Of those before `reasoning_effort`, https://docs.mistral.ai/capabilities/reasoning"""


class Mistral:
    """See `wires.Wire`."""

    api = "mistral"
    options = frozenset({"response_format", "output_schema", "parallel_tool_calls", "extra_body"})

    def encode(self, call: WireCall) -> bytes:
        flags = {**DIALECT, **call.flags, "tool_call_id": CALL_ID}
        body = payload(dataclasses.replace(call, flags=flags))
        if "seed" in body:
            body["random_seed"] = body.pop("seed")
        by_mode = flags.get("prompt_mode", bool(_PROMPT_MODE_MODELS.search(call.model.id)))
        if by_mode is True and body.pop("reasoning_effort", "none") != "none":
            body["prompt_mode"] = "reasoning"
        messages = cast("list[msgspec.Raw]", body["messages"])
        if messages and bytes(messages[-1]).startswith(b'{"role":"assistant"'):
            said: dict[str, Any] = msgspec.json.decode(messages[-1])
            messages[-1] = msgspec.Raw(msgspec.json.encode({**said, "prefix": True}))
        try:
            return msgspec.json.encode(body)
        except UnicodeEncodeError:  # half a surrogate pair in a tool or an option
            return msgspec.json.encode(
                {**to_jsonable({**body, "messages": []}), "messages": messages}
            )

    def decoder(self, builder: ReplyBuilder, flags: Mapping[str, Any]) -> Decoder:
        return ChatDecoder(builder, flags)

    async def send(self, call: WireCall, body: bytes) -> OpenAIResponse:
        return await post(call, "/chat/completions", body)


wire = Mistral()
