"""Mistral: what is said otherwise than in Chat Completions, both ways."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopwright.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from loopwright.models import Context, Model, Models, Provider, ToolSpec
from loopwright.models.clients import Clients
from loopwright.models.handoff import MessageView, SendableTranscript, sendable
from loopwright.models.provider import Endpoint
from loopwright.models.wires import WireCall
from loopwright.models.wires.mistral import wire
from loopwright.testing import decode

from ..fault_server import DONE, answer, event, serving, stream
from ..recordings import bodies, needs_recordings, one_by_one, sidecar, without_time
from ..transcripts import transcripts

LEVELS: dict[str, str | None] = {"off": "none", "high": "high"}
MODEL = Model(
    "mistral", "mistral-small-latest", "mistral", input=("text", "image"), thinking_levels=LEVELS
)
OLD = Model("mistral", "magistral-medium-2507", "mistral")
ADD = ToolSpec("add", "Adds.", {"type": "object", "properties": {}})


def assistant(*content: Any, model: Model = MODEL) -> AssistantMessage:
    return AssistantMessage(list(content), model.api, model.provider, model.id, timestamp=1)


def user(content: Any = "Hi") -> UserMessage:
    return UserMessage(content, 1)


def wire_call(
    *messages: Message,
    view: MessageView | None = None,
    model: Model = MODEL,
    flags: dict[str, Any] | None = None,
    tools: tuple[ToolSpec, ...] = (),
    **options: Any,
) -> WireCall:
    context = Context("", list(messages) or [user()], tools)
    return WireCall(
        model=model,
        context=context,
        messages=sendable(context.messages, model) if view is None else view,
        options=options,
        flags=flags or {},
        endpoint=Endpoint("https://api.mistral.ai/v1"),
        clients=Clients(),
    )


def body(*messages: Message, **rest: Any) -> dict[str, Any]:
    return json.loads(wire.encode(wire_call(*messages, **rest)))


# -- requests ----------------------------------------------------------------------------------


def test_behaviour_053_nothing_is_sent_that_was_not_asked_for() -> None:
    assert body() == {
        "model": "mistral-small-latest",
        "messages": [{"role": "user", "content": "Hi"}],
        "stream": True,
    }


def test_options_go_into_the_fields_of_the_dialect() -> None:
    got = body(
        max_tokens=5, temperature=0.5, sampling_params={"seed": 7, "top_p": 0.9}, tools=(ADD,),
        tool_choice="required", parallel_tool_calls=False, metadata={"a": 1},
        session_id="s", flags={"prompt_cache_key": True}, extra_body={"safe_prompt": True},
    )  # fmt: skip

    assert (got["max_tokens"], got["random_seed"], got["top_p"]) == (5, 7, 0.9)
    assert (got["tool_choice"], got["parallel_tool_calls"]) == ("required", False)
    assert (got["metadata"], got["prompt_cache_key"], got["safe_prompt"]) == ({"a": 1}, "s", True)
    assert not got.keys() & {"seed", "stream_options", "max_completion_tokens", "store"}


def test_thinking_is_switched_by_effort_or_by_an_older_mode() -> None:
    assert body(reasoning="high")["reasoning_effort"] == "high"
    assert body(reasoning="low")["reasoning_effort"] == "high"
    assert body(reasoning="off")["reasoning_effort"] == "none"
    old = body(model=OLD, reasoning="medium")
    assert (old["prompt_mode"], "reasoning_effort" in old) == ("reasoning", False)
    told = body(reasoning="high", flags={"prompt_mode": True})
    assert (told["prompt_mode"], "reasoning_effort" in told) == ("reasoning", False)
    off = body(reasoning="off", flags={"prompt_mode": True})
    assert not off.keys() & {"prompt_mode", "reasoning_effort"}
    assert not body().keys() & {"prompt_mode", "reasoning_effort"}


def test_a_schema_for_the_output_is_the_response_format() -> None:
    schema = {"name": "x", "schema": {"type": "object"}, "strict": False}

    assert body(output_schema=schema)["response_format"] == {
        "type": "json_schema", "json_schema": schema,
    }  # fmt: skip


def test_ids_of_calls_are_nine_letters_or_digits_the_same_each_time() -> None:
    calls = [ToolCall(id, "add", {}) for id in ("call_1", "D681PevKs", "ä", "call_1|fc")]
    results = [ToolResultMessage(c.id, "add", [TextContent("1")], timestamp=1) for c in calls]

    turns = body(user(), assistant(*calls), *results)["messages"]

    ids = [c["id"] for c in turns[1]["tool_calls"]]
    assert all(re.fullmatch("[a-zA-Z0-9]{9}", id) for id in ids)
    assert ids[1] == "D681PevKs"
    assert len(set(ids)) == 4
    assert [turn["tool_call_id"] for turn in turns[2:]] == ids
    assert turns == body(user(), assistant(*calls), *results)["messages"]


def test_thinking_goes_back_as_a_part_of_the_content_to_its_model_only() -> None:
    signed = ThinkingContent("hm", '[{"type":"thinking","signature":"S"}]')
    turns = [user(), assistant(signed, ThinkingContent("so"), TextContent("x")), user()]

    def part(text: str, **more: Any) -> dict[str, Any]:
        return {"type": "thinking", "thinking": [{"type": "text", "text": text}], **more}

    assert body(*turns)["messages"][1]["content"] == [
        part("hm", signature="S"), part("so"), {"type": "text", "text": "x"},
    ]  # fmt: skip
    assert body(*turns, model=OLD)["messages"][1]["content"] == "x"
    assert body(*turns, flags={"reasoning_replay": "none"})["messages"][1]["content"] == "x"
    with_call = [user(), assistant(ThinkingContent("hm"), ToolCall("a", "add", {}))]
    assert body(*with_call)["messages"][1]["content"] == [part("hm")]


def test_words_put_into_the_models_mouth_are_marked() -> None:
    turns = [user(), assistant(TextContent("Once"))]

    assert body(*turns)["messages"][1] == {"role": "assistant", "content": "Once", "prefix": True}
    assert "prefix" not in body(*turns, user())["messages"][1]


def test_case_021_half_a_surrogate_pair_anywhere_still_gives_utf_8() -> None:
    tool = ToolSpec("add", "half \ud83d", {"type": "object"})

    assert b"\xef\xbf\xbd" in wire.encode(wire_call(user("\ud83d"), tools=(tool,)))


def check_rules(got: dict[str, Any]) -> None:
    """What Mistral's API demands of messages."""
    turns = got["messages"]
    asked: list[str] = []
    ids: set[str] = set()
    for turn in turns:
        if turn["role"] == "tool":
            assert turn["tool_call_id"] == asked.pop(0)
            continue
        assert not asked
        if turn["role"] == "assistant":
            assert turn["content"] or turn["tool_calls"]
            for call in turn.get("tool_calls", ()):
                assert re.fullmatch("[a-zA-Z0-9]{9}", call["id"])
                assert call["id"] not in ids
                ids.add(call["id"])
                asked.append(call["id"])
            for part in turn["content"] if isinstance(turn["content"], list) else ():
                assert part["type"] in ("text", "thinking")
        elif isinstance(turn["content"], str):
            assert turn["content"].strip()
    if turns and turns[-1]["role"] == "assistant":
        assert turns[-1]["prefix"] is True


@settings(max_examples=100, deadline=None)
@given(transcripts(MODEL), st.sampled_from(["off", "high", None]))
def test_any_transcript_becomes_a_request_the_vendor_allows(
    history: list[Message], level: str | None
) -> None:
    check_rules(body(view=sendable(history, MODEL), reasoning=level, tools=(ADD,)))


@settings(max_examples=100, deadline=None)
@given(transcripts(MODEL))
def test_behaviour_051_every_request_begins_with_the_one_before(history: list[Message]) -> None:
    transcript = SendableTranscript(MODEL)
    before: list[Any] = []
    for message in history:
        transcript.extend([message])
        got = body(view=transcript.view())["messages"]
        if got and got[-1]["role"] == "assistant":
            got.pop()  # its mark is for that request alone
        if got and "Images from" in str(got[-1]):
            got.pop()  # further results may still come before it
        assert got[: len(before)] == before
        before = got


# -- answers -----------------------------------------------------------------------------------


def thought(text: str, **more: Any) -> list[dict[str, Any]]:
    return [{"type": "thinking", "thinking": [{"type": "text", "text": text}], **more}]


def test_thinking_comes_as_parts_of_the_content() -> None:
    message = decode(
        "mistral",
        [
            event({"role": "assistant", "content": ""}),
            event({"content": thought("h")}),
            event({"content": thought("m", signature="S")}),
            event({"content": [{"type": "text", "text": "Hel"}, {"type": "reference"}]}),
            event({"content": "lo"}, "stop"),
            DONE,
        ],
    )

    assert message.content == [
        ThinkingContent("hm", '[{"type":"thinking","signature":"S"}]'),
        TextContent("Hello"),
    ]


@pytest.mark.parametrize(
    ("raw", "ours"), [("stop", "stop"), ("length", "length"), ("model_length", "length")]
)
def test_each_stop_reason_has_its_meaning(raw: str, ours: str) -> None:
    message = decode("mistral", [event({"content": "x"}, raw), DONE])

    assert (message.stop_reason, message.raw_stop_reason) == (ours, raw)


@pytest.mark.parametrize("raw", ["error", "brand_new"])
def test_other_reasons_are_errors(raw: str) -> None:
    message = decode("mistral", [event({"content": "x"}, raw), DONE])

    assert (message.stop_reason, message.raw_stop_reason) == ("error", raw)


@needs_recordings
@pytest.mark.parametrize(
    "file",
    [file for file in bodies("openai-chat") if file.name.startswith("mistral_")],
    ids=lambda file: file.stem,
)
def test_a_recording_says_what_the_vendors_sdk_says(file: Path) -> None:
    expected = sidecar(file)["expected"]

    message = decode("mistral", [file.read_bytes()])

    assert (message.text, message.thinking) == (expected["text"], expected["thinking"])
    assert [(c.id, c.name, c.arguments) for c in message.tool_calls] == [
        (c["id"], c["name"], c["arguments"] or {}) for c in expected["tool_calls"]
    ]
    assert message.raw_stop_reason == expected["stop"]
    assert message.usage.output == expected["usage"]["output"]
    again = decode("mistral", one_by_one(file.read_bytes()))
    assert without_time(again) == without_time(message)


# -- over HTTP ---------------------------------------------------------------------------------


async def test_a_reply_travels_and_a_full_window_is_known() -> None:
    long = {"object": "error", "type": "invalid_request_error", "code": "3051",
            "message": "Prompt contains 9 tokens, too large for model with 8 maximum context length"}  # fmt: skip
    replies = stream(event({"content": "Hello"}, "stop"), DONE)
    async with serving(replies, answer(400, long)) as server:
        provider = Provider(
            id="mistral", api="mistral", base_url=server.base_url, api_key="key-0123456789",
            any_model=True,
        )  # fmt: skip
        async with Models([provider]) as models:
            message = await models.complete("mistral/large", Context("", [user()]), max_tokens=3)
            overflow = [e async for e in models.stream("mistral/large", Context("", [user()]))]

    assert (message.text, message.api) == ("Hello", "mistral")
    assert server.requests[0].path == "/v1/chat/completions"
    assert server.requests[0].headers["authorization"] == "Bearer key-0123456789"
    assert server.requests[0].json["max_tokens"] == 3
    assert overflow[-1].kind == "overflow"  # type: ignore[union-attr]


def test_images_are_sent_and_a_text_only_model_is_told() -> None:
    image = ImageContent("aGk=", "image/png")
    blind = msgspec.structs.replace(MODEL, input=("text",))

    assert body(user([image]))["messages"][0]["content"][0]["type"] == "image_url"
    assert body(user([image]), model=blind)["messages"][0]["content"][0]["type"] == "text"
