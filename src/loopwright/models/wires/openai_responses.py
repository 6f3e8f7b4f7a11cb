"""Responses: the dialect of OpenAI's newer API, which some other hosts speak too.

This module only puts the parts together; `openai_responses_encode` writes the body,
`openai_responses_decode` reads the answer, and sending is that of `openai_chat`, since the SDK and
all that hosts differ in on the way (path, query, headers, where the key goes) are the same.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar

from ...errors import InvalidRequest
from ...stream import ReplyBuilder
from ..failures import classify
from . import Decoder, WireCall
from .openai_chat import OpenAIResponse, post
from .openai_responses_decode import ResponsesDecoder
from .openai_responses_encode import OPTIONS, encode, forget_reasoning

__all__ = ["OpenAIResponses", "ReasoningRefused", "wire"]

_REASONING_FAULT = re.compile(
    r"invalid_encrypted_content|encrypted.content|required following item|required 'reasoning' item",
    re.I,
)


class ReasoningRefused(InvalidRequest):
    """The vendor takes earlier reasoning no longer.

    The same transcript can be sent once more without it, which the next attempt does.
    """

    kind: ClassVar[str] = "signature"
    retryable = True


class OpenAIResponses:
    """See `wires.Wire`."""

    api = "openai-responses"
    options = OPTIONS

    def encode(self, call: WireCall) -> bytes:
        return encode(call)

    def decoder(self, builder: ReplyBuilder, flags: Mapping[str, Any]) -> Decoder:
        return ResponsesDecoder(builder, flags)

    async def send(self, call: WireCall, body: bytes) -> OpenAIResponse:
        try:
            return await post(call, "/responses", body)
        except Exception as error:
            said = f"{error} {getattr(error, 'body', None)}"
            again = call.options.get("replay_thinking") is not False
            if getattr(error, "status_code", None) != 400 or not again:
                raise
            if not _REASONING_FAULT.search(said):
                raise
            failure = classify(error, now=0.0, model=call.model.id)
            forget_reasoning(call)
            raise ReasoningRefused(
                f"{failure} (earlier reasoning is left out from now on)",
                provider=call.model.provider,
                model=call.model.id,
                status=400,
                request_id=getattr(failure, "request_id", None),
                retry_after_seconds=0.0,
                retryable=True,
            ) from error


wire = OpenAIResponses()
