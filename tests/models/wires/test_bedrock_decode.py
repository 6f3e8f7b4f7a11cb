"""What Bedrock sends for its many models, well-formed or not, becomes one clean reply."""

from __future__ import annotations

import base64
import json
import random
from pathlib import Path

import pytest

from loopwright.messages import TextContent, ThinkingContent
from loopwright.stream import AssistantMessageEvent, Error, TextDelta, ToolCallDelta
from loopwright.testing import decode
from loopwright.testing.decode import decode_events

from ..recordings import (
    bodies,
    comparable,
    cut_at_random,
    needs_recordings,
    one_by_one,
    sidecar,
    without_time,
)
from .bedrock_frames import (
    START,
    call,
    call_start,
    closed,
    delta,
    error,
    event,
    exception,
    frame_ends,
    said,
    stopped,
    text,
    thinking,
)

WIRE = "bedrock-converse"


def types(events: list[AssistantMessageEvent]) -> list[str]:
    return [event.type for event in events]


def failed(*chunks: bytes) -> Error:
    closing = decode_events(WIRE, chunks)[-1]
    assert isinstance(closing, Error)
    return closing


# -- a good day --------------------------------------------------------------------------------


def test_text_arrives_in_pieces_and_ends_whole() -> None:
    events = decode_events(WIRE, said("Hel", "lo"))

    assert types(events) == ["start", "text_start", "text_delta", "text_delta", "text_end", "done"]
    message = decode(WIRE, said("Hel", "lo"))
    assert (message.text, message.stop_reason, message.raw_stop_reason) == (
        "Hello", "stop", "end_turn",
    )  # fmt: skip


def test_events_nobody_knows_and_blocks_of_unknown_kinds_are_signs_of_life() -> None:
    odd = event("weatherReport", sky="blue")
    image = event("contentBlockStart", contentBlockIndex=0, start={"image": {"format": "png"}})

    events = decode_events(
        WIRE, [odd, START, image, delta(0, image={"x": 1}), closed(0), *text(1, "Hi"), *stopped()]
    )

    assert types(events) == ["start", "text_start", "text_delta", "text_end", "done"]


def test_pieces_without_text_open_no_block() -> None:
    chunks = [START, delta(0, text=""), delta(0, reasoningContent={"text": ""}), closed(0),
              delta(1, text=""), delta(1, text="x"), delta(1, text=""), closed(1), *stopped()]  # fmt: skip

    events = decode_events(WIRE, chunks)

    assert types(events) == ["start", "text_start", "text_delta", "text_end", "done"]


def test_thinking_keeps_its_signature_and_redacted_thinking_its_bytes() -> None:
    message = decode(
        WIRE,
        [
            START,
            *thinking(0, "hm ", "\r\n", signature="S1=="),
            delta(1, reasoningContent={"redactedContent": "UjE="}),
            closed(1),
            *thinking(2, signature="S2"),
            *thinking(3, "unsigned"),
            *text(4, "x"),
            *stopped(),
        ],
    )

    assert message.content == [
        ThinkingContent("hm \r\n", "S1=="),
        ThinkingContent("", "UjE=", redacted=True),
        ThinkingContent("", "S2"),
        ThinkingContent("unsigned"),
        TextContent("x"),
    ]


def test_redacted_bytes_that_come_in_pieces_are_joined_as_bytes() -> None:
    pieces = [base64.b64encode(piece).decode() for piece in (b"a", b"bcd", b"ef")]
    deltas = [delta(0, reasoningContent={"redactedContent": piece}) for piece in pieces]

    (block, *_) = decode(WIRE, [START, *deltas, closed(0), *stopped()]).content

    assert block == ThinkingContent("", base64.b64encode(b"abcdef").decode(), redacted=True)


def test_a_block_that_changes_its_kind_is_two() -> None:
    chunks = [START, delta(0, reasoningContent={"text": "hm"}), delta(0, text="x"), *stopped()]

    assert decode(WIRE, chunks).content == [ThinkingContent("hm"), TextContent("x")]


# -- tool calls --------------------------------------------------------------------------------


@pytest.mark.parametrize("pieces", [(), ("",), ("   ",), ("{}",)])
def test_case_001_a_call_without_arguments_has_none(pieces: tuple[str, ...]) -> None:
    (got,) = decode(WIRE, [START, *call(0, "t", "now", *pieces), *stopped("tool_use")]).tool_calls

    assert (got.arguments, got.arguments_error) == ({}, None)


@pytest.mark.parametrize("given", ['["a"]', '"a"', "17"])
def test_case_002_arguments_that_are_no_object_are_told(given: str) -> None:
    message = decode(WIRE, [START, *call(0, "t", "open", given), *stopped("tool_use")])

    (got,) = message.tool_calls
    assert (message.stop_reason, got.arguments, got.raw_arguments) == ("toolUse", {}, given)
    assert "object" in (got.arguments_error or "")


def test_case_004_a_call_cut_by_the_limit_stays_length_and_is_marked() -> None:
    cut = [call_start(0, "t", "bash"), delta(0, toolUse={"input": '{"cmd":"rm -r build'})]

    for chunks in ([*cut, closed(0)], cut):
        message = decode(WIRE, [START, *chunks, *stopped("max_tokens")])

        assert (message.stop_reason, message.raw_stop_reason) == ("length", "max_tokens")
        assert message.tool_calls[0].arguments_error


def test_case_008_calls_side_by_side_keep_their_own_arguments() -> None:
    chunks = [
        START,
        call_start(0, "a", "add"),
        call_start(1, "b", "mul", type="tool_use"),
        delta(0, toolUse={"input": '{"x":'}),
        delta(1, toolUse={"input": '{"x":'}),
        delta(0, toolUse={"input": "1}"}),
        delta(1, toolUse={"input": "2}"}),
        delta(0, toolUse={"input": ""}),
        closed(1),
        closed(0),
        *stopped("tool_use"),
    ]

    events = decode_events(WIRE, chunks)

    calls = decode(WIRE, chunks).tool_calls
    assert [(c.id, c.name, c.arguments) for c in calls] == [
        ("a", "add", {"x": 1}), ("b", "mul", {"x": 2}),
    ]  # fmt: skip
    grown = [e for e in events if isinstance(e, ToolCallDelta)]
    assert [(e.content_index, e.delta) for e in grown] == [
        (0, '{"x":'), (1, '{"x":'), (0, "1}"), (1, "2}"),
    ]  # fmt: skip


def test_case_016_the_same_id_twice_in_a_reply_is_told_apart() -> None:
    chunks = [START, *call(0, "x", "a", "{}"), *call(1, "x", "b", "{}"), *stopped("tool_use")]

    assert [c.id for c in decode(WIRE, chunks).tool_calls] == ["x", "x_2"]


def test_arguments_that_belong_nowhere_are_an_error_not_silence() -> None:
    closing = failed(START, delta(3, toolUse={"input": '{"a"'}))

    assert "belongs to no call" in (closing.error.error_message or "")


# -- stop reasons ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "ours"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        (None, "stop"),
    ],
)
def test_each_stop_reason_has_its_meaning_and_the_raw_one_is_kept(
    raw: str | None, ours: str
) -> None:
    message = decode(WIRE, [START, *text(0, "x"), *stopped(raw)])

    assert (message.stop_reason, message.raw_stop_reason) == (ours, raw)


@pytest.mark.parametrize("raw", ["end_turn", "tool_use", "brand_new", None])
def test_case_009_complete_calls_win_over_the_reason(raw: str | None) -> None:
    message = decode(WIRE, [START, *call(0, "t", "f", "{}"), *stopped(raw)])

    assert (message.stop_reason, message.raw_stop_reason) == ("toolUse", raw)


def test_case_010_tool_use_without_calls_is_a_stop() -> None:
    message = decode(WIRE, [START, *stopped("tool_use")])

    assert (message.stop_reason, message.raw_stop_reason, message.content) == (
        "stop", "tool_use", [],
    )  # fmt: skip


def test_an_unknown_reason_is_an_error_with_the_vendors_word() -> None:
    closing = failed(START, *text(0, "x"), *stopped("brand_new"))

    assert "'brand_new'" in (closing.error.error_message or "")
    assert (closing.error.raw_stop_reason, closing.retryable) == ("brand_new", False)


@pytest.mark.parametrize("raw", ["guardrail_intervened", "content_filtered"])
def test_what_a_filter_stopped_is_refused_whatever_it_holds(raw: str) -> None:
    closing = failed(START, *call(0, "t", "f", "{}"), *stopped(raw))

    assert (closing.kind, closing.retryable, closing.error.raw_stop_reason) == (
        "refused", False, raw,
    )  # fmt: skip


def test_a_guardrail_says_why() -> None:
    trace = {"guardrail": {"actionReason": "Guardrail blocked."}}
    stop, _ = stopped("guardrail_intervened")

    closing = failed(START, *text(0, "Sorry"), stop, event("metadata", trace=trace))

    assert "Guardrail blocked." in (closing.error.error_message or "")
    assert closing.error.text == "Sorry"


@pytest.mark.parametrize("raw", ["malformed_model_output", "malformed_tool_use"])
def test_what_the_host_could_not_read_may_be_tried_again(raw: str) -> None:
    closing = failed(START, *call(0, "t", "f", "{}"), *stopped(raw))

    assert (closing.retryable, closing.error.stop_reason) == (True, "error")
    assert raw in (closing.error.error_message or "")


# -- usage -------------------------------------------------------------------------------------


def test_case_042_cached_tokens_are_counted_once() -> None:
    counts = {"inputTokens": 200, "cacheReadInputTokens": 9800, "cacheWriteInputTokens": 7,
              "outputTokens": 3, "totalTokens": 10010}  # fmt: skip

    usage = decode(WIRE, [START, *text(0, "x"), *stopped("end_turn", **counts)]).usage

    assert (usage.input, usage.cache_read, usage.cache_write, usage.output) == (200, 9800, 7, 3)
    assert (usage.total_tokens, usage.reasoning) == (10010, None)


def test_usage_that_never_came_is_unknown_not_zero() -> None:
    stop, _ = stopped()

    for ending in ([stop], [stop, event("metadata", metrics={})]):
        message = decode(WIRE, [START, *text(0, "x"), *ending])

        assert (message.stop_reason, message.usage.known) == ("stop", False)


# -- blocks of the vendor's own ----------------------------------------------------------------


def server_tool() -> list[bytes]:
    result = {"toolUseId": "s", "type": "nova_code_interpreter_result", "status": "success"}
    return [
        *call(0, "s", "nova_code_interpreter", '{"snippet":"1', '+1"}', type="server_tool_use"),
        event("contentBlockStart", contentBlockIndex=1, start={"toolResult": result}),
        delta(1, toolResult=[{"json": {"stdOut": "2"}}]),
        closed(1),
    ]


def test_server_side_tools_pass_and_are_kept_to_go_back() -> None:
    message = decode(WIRE, [START, *server_tool(), *text(2, "Two."), *stopped()])

    assert (message.text, message.tool_calls, message.stop_reason) == ("Two.", [], "stop")
    kept = [json.loads(b.text_signature or "") for b in message.content[:2]]  # type: ignore[union-attr]
    assert kept == [
        {"toolUse": {"toolUseId": "s", "name": "nova_code_interpreter", "type": "server_tool_use",
                     "input": {"snippet": "1+1"}}},
        {"toolResult": {"toolUseId": "s", "type": "nova_code_interpreter_result",
                        "status": "success", "content": [{"json": {"stdOut": "2"}}]}},
    ]  # fmt: skip


def test_a_server_side_call_that_was_cut_is_not_kept() -> None:
    cut = call(0, "s", "search", '{"q', type="server_tool_use")

    assert decode(WIRE, [START, *cut, *stopped("max_tokens")]).content == []


def test_citations_are_kept_with_their_text() -> None:
    citation = {"title": "Page", "location": {"web": {"url": "https://example.org"}}}
    chunks = [START, delta(0, text="As said"), delta(0, citation=citation), closed(0), *stopped()]

    (block,) = decode(WIRE, chunks).content

    assert isinstance(block, TextContent)
    assert (block.text, json.loads(block.text_signature or "")) == (
        "As said", {"citations": [citation]},
    )  # fmt: skip


# -- ends that are none ------------------------------------------------------------------------

REPLY = [
    START,
    *thinking(0, "hm", signature="S"),
    *text(1, "汉🙂", " ok"),
    *call(2, "t1", "add", '{"a":', "1}"),
    *stopped("tool_use"),
]


def test_case_012_a_body_that_just_ends_is_an_error_with_what_came() -> None:
    closing = failed(START, *text(0, "The result", " is")[:-1])

    assert (closing.kind, closing.retryable) == ("incomplete_stream", True)
    assert closing.error.text == "The result is"


def test_case_012_any_truncation_is_a_clean_error_that_may_be_tried_again() -> None:
    body = b"".join(REPLY)
    stop = len(body) - len(REPLY[-1])  # the reply is complete there, though not counted

    for end in range(len(body)):
        closing = decode_events(WIRE, [body[:end]])[-1]
        if end == stop:
            assert closing.type == "done"
            continue
        assert isinstance(closing, Error), end
        assert (closing.kind, closing.retryable) == ("incomplete_stream", True), end


def test_case_014_any_chunking_gives_the_same_events() -> None:
    body = b"".join(REPLY)
    whole = comparable(decode_events(WIRE, [body]))
    chance = random.Random(1)

    assert comparable(decode_events(WIRE, one_by_one(body))) == whole
    for _ in range(50):
        assert comparable(decode_events(WIRE, cut_at_random(body, chance, 9))) == whole
    assert "�" not in str(whole)


def test_case_014_bytes_that_are_no_text_become_one_mark_each() -> None:
    bad = b'{"contentBlockIndex":0,"delta":{"text":"a\xff\\ud83d"}}'

    message = decode(WIRE, [START, delta(0, text="x"), event("contentBlockDelta", bad), *stopped()])

    assert message.text == "xa��"


@pytest.mark.parametrize("payload", [b"{", b"[1]", b'{"delta":{"text":7}}', b"\xff"])
def test_an_event_that_cannot_be_read_is_an_error(payload: bytes) -> None:
    for before in ([START], [START, delta(0, text="Par")]):
        closing = failed(*before, event("contentBlockDelta", payload))

        assert closing.kind == "wire"


def test_a_damaged_frame_is_an_error_with_what_came_before_it() -> None:
    body = b"".join([START, delta(0, text="Par"), delta(0, text="is")])
    damaged = body[:-9] + bytes([body[-9] ^ 1]) + body[-8:]

    for chunks in ([damaged], one_by_one(damaged)):
        closing = failed(*chunks)

        assert (closing.kind, closing.error.text) == ("wire", "Par")
        assert "checksum" in (closing.error.error_message or "")


@pytest.mark.parametrize(
    ("body", "kind", "said"),
    [
        (b'{"message": "Too many requests", "__type": "ThrottlingException"}', "rate_limit", "Too"),
        (b"<html>A page</html>", "wire", "<html>"),
    ],
)
def test_an_answer_that_is_no_event_stream_is_shown(body: bytes, kind: str, said: str) -> None:
    for chunks in ([body], one_by_one(body)):
        closing = failed(*chunks)

        assert closing.kind == kind
        assert said in (closing.error.error_message or "")


# -- faults in mid-stream ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("frame", "kind", "retryable"),
    [
        (exception("throttlingException", "Too many tokens, please wait"), "rate_limit", True),
        (exception("serviceUnavailableException", "Too many connections"), "overloaded", True),
        (exception("internalServerException", "Oops"), "overloaded", True),
        (exception("modelStreamErrorException", "Oops", originalStatusCode=500), "overloaded",
         True),
        (exception("validationException", "The input is wrong"), "invalid_request", False),
        (exception("validationException", "Input is too long for requested model."), "overflow",
         False),
        (error("InternalFailure", "An internal server error occurred"), "overloaded", True),
    ],
)  # fmt: skip
def test_case_013_an_exception_ends_the_reply_with_what_came(
    frame: bytes, kind: str, retryable: bool
) -> None:
    closing = failed(START, delta(0, text="Par"), frame, *stopped())

    assert (closing.kind, closing.retryable, closing.error.text) == (kind, retryable, "Par")


def test_case_013_an_exception_after_the_stop_still_counts() -> None:
    stop, _ = stopped()

    assert failed(START, *text(0, "x"), stop, exception("internalServerException", "x"))


# -- recordings --------------------------------------------------------------------------------

RECORDED = bodies(WIRE, ".bin")
BY_FILTER = ("guardrail_intervened", "content_filtered")


@needs_recordings
@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_a_recording_says_what_the_vendors_sdk_says(file: Path) -> None:
    known = sidecar(file)
    expected, extra = known["expected"], known["extra"]

    message = decode(WIRE, [file.read_bytes()])

    assert (message.text, message.thinking) == (expected["text"], expected["thinking"])
    assert [(c.id, c.name, c.arguments) for c in message.tool_calls] == [
        (c["id"], c["name"], c["arguments"] or {}) for c in expected["tool_calls"]
    ]
    assert message.raw_stop_reason == expected["stop"]
    failed = bool(expected["error"]) or expected["stop"] in BY_FILTER
    assert (message.stop_reason == "error") == failed
    thoughts = [b for b in message.content if isinstance(b, ThinkingContent)]
    signed = [b.thinking_signature for b in thoughts if b.thinking_signature and not b.redacted]
    assert signed == extra["signatures"]
    assert sum(b.redacted for b in thoughts) == extra["redacted"]
    usage, raw = message.usage, expected["usage"]
    assert (usage.input, usage.output, usage.total_tokens) == (
        raw["input"], raw["output"], raw["total"],
    )  # fmt: skip
    assert (usage.cache_read, usage.cache_write) == (
        raw["cache_read"] or 0, raw["cache_write"] or 0,
    )  # fmt: skip


@needs_recordings
@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_any_chunking_of_a_recording_gives_the_same_message(file: Path) -> None:
    body = file.read_bytes()
    whole = without_time(decode(WIRE, [body]))
    chance = random.Random(file.stem)

    assert without_time(decode(WIRE, one_by_one(body))) == whole
    for _ in range(5):
        assert without_time(decode(WIRE, cut_at_random(body, chance))) == whole


@needs_recordings
@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_any_truncation_of_a_recording_ends_in_a_clean_error(file: Path) -> None:
    body = file.read_bytes()
    chance = random.Random(file.stem)

    stop = frame_ends(body)[-2]  # the reply is complete there, though not counted

    for end in {*chance.choices(range(len(body)), k=40), *frame_ends(body)[:-1]} - {stop}:
        assert decode(WIRE, [body[:end]]).stop_reason == "error"


def test_deltas_of_one_chunk_stay_apart() -> None:
    events = decode_events(WIRE, [b"".join(said("a", "b", "c"))])

    assert [e.delta for e in events if isinstance(e, TextDelta)] == ["a", "b", "c"]
