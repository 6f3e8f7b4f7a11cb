"""What gateways and younger hosts of a dialect slip on, wire by wire; nothing said gets lost."""

from __future__ import annotations

import json
from typing import Any

import pytest

from loopwright.messages import AssistantMessage, TextContent
from loopwright.stream import Error
from loopwright.testing import decode
from loopwright.testing.decode import decode_events

from . import bedrock_frames as bedrock
from .responses_bodies import CREATED, added, closed, completed, event, grown


def data(**fields: Any) -> bytes:
    return f"data: {json.dumps(fields)}\n\n".encode()


def calls_of(message: AssistantMessage) -> list[tuple[str, Any]]:
    assert message.stop_reason == "toolUse", message.error_message
    return [(call.name, call.arguments) for call in message.tool_calls]


BARE: dict[str, tuple[dict[str, Any], bool]] = {
    "vLLM": ({"object": "error", "message": "The model is overloaded", "code": 503}, True),
    "FastAPI": ({"detail": "no such model"}, False),
}


@pytest.mark.parametrize("bare", BARE)
@pytest.mark.parametrize("wire", ["anthropic-messages", "openai-responses", "google-gemini"])
def test_an_error_without_that_name_is_the_end(wire: str, bare: str) -> None:
    document, retryable = BARE[bare]

    last = decode_events(wire, [data(**document)])[-1]

    assert isinstance(last, Error)
    said = document.get("message") or document["detail"]
    assert said in (last.error.error_message or "")
    assert last.retryable is retryable


WORDS = {
    "anthropic-messages": lambda word: [
        data(type="message_start", message={}),
        data(type="content_block_start", index=0, content_block={"type": "text", "text": "Hi"}),
        data(type="message_delta", delta={"stop_reason": word}),
        data(type="message_stop"),
    ],
    "google-gemini": lambda word: [
        data(candidates=[{"content": {"parts": [{"text": "Hi"}]}, "finishReason": word}])
    ],
    "bedrock-converse": lambda word: [
        bedrock.START, *bedrock.text(0, "Hi"), *bedrock.stopped(word),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("word", "reason"), [("stop", "stop"), ("length", "length")])
@pytest.mark.parametrize("wire", WORDS)
def test_a_word_of_another_dialect_is_understood(wire: str, word: str, reason: str) -> None:
    message = decode(wire, WORDS[wire](word))

    assert (message.text, message.stop_reason, message.raw_stop_reason) == ("Hi", reason, word)


@pytest.mark.parametrize("wire", WORDS)
def test_a_word_nobody_knows_is_still_an_error(wire: str) -> None:
    assert decode(wire, WORDS[wire]("whatever")).stop_reason == "error"


# -- anthropic-messages ------------------------------------------------------------------------

MESSAGES = "anthropic-messages"
START = data(type="message_start", message={"id": "m", "usage": {"input_tokens": 5}})


def opened(index: int, **block: Any) -> bytes:
    return data(type="content_block_start", index=index, content_block=block)


def delta(index: int, type: str, **fields: Any) -> bytes:
    return data(type="content_block_delta", index=index, delta={"type": type, **fields})


def stopped(reason: str) -> list[bytes]:
    return [
        data(type="message_delta", delta={"stop_reason": reason}, usage={"output_tokens": 2}),
        data(type="message_stop"),
    ]


def test_the_text_of_an_error_that_has_no_object_is_shown() -> None:
    last = decode_events(MESSAGES, [START, data(type="error", message="Overloaded")])[-1]

    assert isinstance(last, Error)
    assert "Overloaded" in (last.error.error_message or "")
    assert last.retryable


def test_text_in_a_block_that_was_announced_as_thinking_is_text() -> None:
    chunks = [
        START, opened(0, type="thinking", thinking=""),
        delta(0, "thinking_delta", thinking="Hm."), delta(0, "text_delta", text="Hel"),
        delta(0, "text_delta", text="lo"), *stopped("end_turn"),
    ]  # fmt: skip

    message = decode(MESSAGES, chunks)

    assert (message.thinking, message.text) == ("Hm.", "Hello")


def test_blocks_that_are_never_closed_are_whole() -> None:
    chunks = [
        START, opened(0, type="text", text=""), delta(0, "text_delta", text="Hi"),
        opened(1, type="tool_use", id="t", name="look", input={}),
        delta(1, "input_json_delta", partial_json='{"n":1}'), *stopped("tool_use"),
    ]  # fmt: skip

    message = decode(MESSAGES, chunks)

    assert message.text == "Hi"
    assert calls_of(message) == [("look", {"n": 1})]


def test_case_012_without_message_stop_a_reply_is_complete_only_if_the_row_says_so() -> None:
    chunks = [START, opened(0, type="text", text="Hi"), stopped("end_turn")[0]]

    plain = decode(MESSAGES, chunks)
    told = decode(MESSAGES, chunks, flags={"message_stop": False})
    cut = decode(MESSAGES, chunks[:-1], flags={"message_stop": False})

    assert plain.stop_reason == "error"
    assert (told.text, told.stop_reason, told.usage.output) == ("Hi", "stop", 2)
    assert cut.stop_reason == "error"


# -- openai-responses --------------------------------------------------------------------------

RESPONSES = "openai-responses"
PLACE = {"item_id": "m", "output_index": 0, "content_index": 0}


@pytest.mark.parametrize("so_far", [[], ["Hel"], ["Hel", "lo"]])
def test_a_text_that_is_whole_only_in_its_own_end_is_taken(so_far: list[str]) -> None:
    """No closed item, and no output in the response: a gateway left both out."""
    chunks = [
        CREATED, added(0, type="message", id="m"),
        *(grown("output_text", piece, **PLACE) for piece in so_far),
        event("response.output_text.done", text="Hello", **PLACE), completed(),
    ]  # fmt: skip

    message = decode(RESPONSES, chunks)

    assert (message.text, message.stop_reason) == ("Hello", "stop"), message.error_message
    assert len(message.content) == 1


def test_so_are_a_refusal_and_the_parts_of_thinking() -> None:
    thought = {"item_id": "rs", "output_index": 0}
    chunks = [
        CREATED, added(0, type="reasoning", id="rs"),
        event("response.reasoning_summary_text.done", text="A", summary_index=0, **thought),
        added(1, type="message", id="m"),
        event("response.refusal.done", refusal="No.", item_id="m", output_index=1, content_index=0),
        completed(),
    ]  # fmt: skip

    message = decode(RESPONSES, chunks)

    assert (message.thinking, message.text) == ("A", "No.")
    assert message.content[1] == TextContent("No.", "refusal")


def test_the_ends_of_parts_repeat_nothing() -> None:
    def summary(number: int) -> dict[str, Any]:
        return {"item_id": "rs", "output_index": 0, "summary_index": number}

    said = [{"type": "summary_text", "text": "A"}, {"type": "summary_text", "text": "B"}]
    chunks = [
        CREATED, added(0, type="reasoning", id="rs"),
        grown("reasoning_summary_text", "A", **summary(0)),
        grown("reasoning_summary_text", "B", **summary(1)),
        event("response.reasoning_summary_text.done", text="A", **summary(0)),
        event("response.reasoning_summary_text.done", text="B", **summary(1)),
        closed(0, type="reasoning", id="rs", summary=said),
        event("response.reasoning_summary_text.done", text="B", **summary(1)), completed(),
    ]  # fmt: skip

    assert decode(RESPONSES, chunks).thinking == "AB"


def test_items_of_odd_shape_say_what_they_say() -> None:
    chunks = [
        CREATED, event("response.output_item.added", output_index=0, item=None),
        closed(0, type="reasoning", id="rs", summary="Hm."),
        event("response.output_item.done", output_index="1",
              item={"type": "message", "id": "m", "content": "Hello"}),
        closed(2, type="function_call", id="f", call_id="c", name="look", arguments={"n": 1},
               namespace=7),
        completed(),
    ]  # fmt: skip

    message = decode(RESPONSES, chunks)

    assert (message.thinking, message.text) == ("Hm.", "Hello")
    assert calls_of(message) == [("look", {"n": 1})]


def test_the_last_event_says_more_than_a_status_copied_from_the_first() -> None:
    last = event("response.completed", response={"id": "r", "status": "in_progress"})

    message = decode(RESPONSES, [CREATED, grown("output_text", "Hi", **PLACE), last])

    assert (message.stop_reason, message.raw_stop_reason) == ("stop", "completed")


def test_an_error_event_by_another_name_is_the_end() -> None:
    error = {"code": "server_error", "message": "out of luck"}

    last = decode_events(RESPONSES, [CREATED, event("response.error", error=error)])[-1]

    assert isinstance(last, Error)
    assert "out of luck" in (last.error.error_message or "")
    assert last.retryable


# -- google-gemini and bedrock-converse --------------------------------------------------------


def test_arguments_that_are_an_object_in_a_text_are_that_object() -> None:
    part = {"functionCall": {"name": "look", "args": '{"n": 1}'}}
    chunks = [data(candidates=[{"content": {"parts": [part]}, "finishReason": "STOP"}])]

    assert calls_of(decode("google-gemini", chunks)) == [("look", {"n": 1})]


def test_case_002_arguments_that_are_another_text_are_refused() -> None:
    part = {"functionCall": {"name": "look", "args": "notes.md"}}
    chunks = [data(candidates=[{"content": {"parts": [part]}, "finishReason": "STOP"}])]

    (call,) = decode("google-gemini", chunks).tool_calls

    assert "a string came" in (call.arguments_error or "")


def test_input_that_comes_as_an_object_is_taken_whole() -> None:
    chunks = [
        bedrock.START, bedrock.call_start(0, "t", "look"),
        bedrock.delta(0, toolUse={"input": {"n": 1}}), bedrock.closed(0),
        *bedrock.stopped("tool_use"),
    ]  # fmt: skip

    assert calls_of(decode("bedrock-converse", chunks)) == [("look", {"n": 1})]


def test_frames_that_leave_out_what_they_are_about_are_signs_of_life() -> None:
    chunks = [
        bedrock.START, bedrock.event("contentBlockStart", contentBlockIndex=0),
        bedrock.event("contentBlockDelta", contentBlockIndex=0), *bedrock.text(0, "Hi"),
        *bedrock.stopped(),
    ]  # fmt: skip

    assert decode("bedrock-converse", chunks).text == "Hi"
