"""A call whose name the model forgot: the rest of the reply is kept, and the model is told."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopwright import Agent, tool
from loopwright.messages import ToolCall, ToolResultMessage
from loopwright.models import Models, Provider
from loopwright.testing import decode

from . import fault_server as chat
from .fault_server import said, serving, stream
from .wires import bedrock_frames as bedrock
from .wires import responses_bodies as responses


def data(**fields: Any) -> bytes:
    return f"data: {json.dumps(fields)}\n\n".encode()


def anthropic_block(index: int, block: dict[str, Any], delta: dict[str, Any]) -> list[bytes]:
    return [
        data(type="content_block_start", index=index, content_block=block),
        data(type="content_block_delta", index=index, delta=delta),
        data(type="content_block_stop", index=index),
    ]


def anthropic_call(index: int, id: str, **name: str) -> list[bytes]:
    block = {"type": "tool_use", "id": id, "input": {}, **name}
    delta = {"type": "input_json_delta", "partial_json": '{"n":1}'}
    return anthropic_block(index, block, delta)


def fragment(index: int, id: str, **name: str) -> bytes:
    function = {"arguments": '{"n":1}', **name}
    return chat.event({"tool_calls": [{"index": index, "id": id, "function": function}]})


CHAT = [
    chat.event({"content": "Let me see."}), fragment(0, "a", name=""), fragment(1, "b", name="add"),
    chat.event({}, "tool_calls"), chat.USAGE, chat.DONE,
]  # fmt: skip

BODIES: dict[str, list[bytes]] = {
    "openai-chat": CHAT,
    "mistral": CHAT,
    "anthropic-messages": [
        data(type="message_start", message={"usage": {"input_tokens": 1}}),
        *anthropic_block(
            0, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Let me see."}
        ),
        *anthropic_call(1, "a"),
        *anthropic_call(2, "b", name="add"),
        data(type="message_delta", delta={"stop_reason": "tool_use"}),
        data(type="message_stop"),
    ],
    "openai-responses": [
        responses.CREATED,
        *responses.said(0, "Let me see."),
        responses.closed(1, type="function_call", call_id="a", arguments='{"n":1}'),
        responses.closed(2, type="function_call", call_id="b", name="add", arguments='{"n":1}'),
        responses.completed(),
    ],
    "google-gemini": [
        data(candidates=[{
            "content": {"parts": [
                {"text": "Let me see."},
                {"functionCall": {"id": "a", "args": {"n": 1}}},
                {"functionCall": {"id": "b", "name": "add", "args": {"n": 1}}},
            ]},
            "finishReason": "STOP",
        }]),
    ],
    "bedrock-converse": [
        bedrock.START,
        *bedrock.text(0, "Let me see."),
        *bedrock.call(1, "a", "", '{"n":1}'),
        *bedrock.call(2, "b", "add", '{"n":1}'),
        *bedrock.stopped("tool_use"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("wire", BODIES)
def test_case_029_the_text_and_the_other_calls_of_the_reply_are_kept(wire: str) -> None:
    message = decode(wire, BODIES[wire])

    assert (message.text, message.stop_reason) == ("Let me see.", "toolUse"), message.error_message
    assert message.tool_calls == [ToolCall("a", "", {"n": 1}), ToolCall("b", "add", {"n": 1})]


async def test_case_029_the_model_is_told_and_may_be_asked_again() -> None:
    asked: list[int] = []

    @tool
    def add(n: int) -> str:
        asked.append(n)
        return "done"

    async with (
        serving(stream(*CHAT), stream(*said("Sorry."))) as server,
        Models().add(Provider.openai_compatible("acme", base_url=server.base_url)) as models,
    ):
        agent = Agent("acme/large", stream_fn=models.stream, tools=[add])
        result = await agent.prompt("Add!")

    told = [m for m in result.messages if isinstance(m, ToolResultMessage)]
    assert asked == [1]
    assert [(m.tool_call_id, m.is_error) for m in told] == [("a", True), ("b", False)]
    assert told[0].text == "The call named no tool. On offer: add."
    assert (result.text, result.stop_reason) == ("Sorry.", "stop")
    again = server.requests[1].json["messages"][1]["tool_calls"]
    assert [call["function"]["name"] for call in again] == ["unnamed", "add"]
