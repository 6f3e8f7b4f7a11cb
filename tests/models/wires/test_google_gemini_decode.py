"""What Gemini and hosts of its dialect send, well-formed or not, becomes one clean reply."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopwright.errors import WireError
from loopwright.messages import TextContent, ThinkingContent, ToolCall
from loopwright.models.sse import SseSplitter
from loopwright.models.wires.google_gemini_arguments import parse_path
from loopwright.stream import (
    AssistantMessageEvent,
    Error,
    ReplyBuilder,
    TextDelta,
    ToolCallDelta,
)
from loopwright.testing import decode
from loopwright.testing.decode import decode_events

from ..recordings import (
    bodies,
    comparable,
    cut_at_random,
    needs_recordings,
    one_by_one,
    sidecar,
    with_deltas_joined,
    without_time,
)

WIRE = "google-gemini"
USAGE = {"promptTokenCount": 10, "candidatesTokenCount": 2, "totalTokenCount": 12}


def chunk(*parts: Any, finish: str | None = None, usage: Any = None, **candidate: Any) -> bytes:
    first: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}, **candidate}
    if finish is not None:
        first["finishReason"] = finish
    return data(
        candidates=[first], usageMetadata=USAGE if usage is None else usage,
        modelVersion="gemini-x", responseId="r1",
    )  # fmt: skip


def data(**fields: Any) -> bytes:
    return f"data: {json.dumps(fields, ensure_ascii=False)}\r\n\r\n".encode()


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"text": said, **more}


def thought(said: str, **more: Any) -> dict[str, Any]:
    return {"text": said, "thought": True, **more}


def call(name: str | None = None, *, signature: str | None = None, **fields: Any) -> dict[str, Any]:
    body = {"functionCall": fields if name is None else {"name": name, **fields}}
    return body if signature is None else {**body, "thoughtSignature": signature}


def end(finish: str | None = "STOP", **more: Any) -> bytes:
    return chunk(text(""), finish=finish, **more)


def types(events: list[AssistantMessageEvent]) -> list[str]:
    return [event.type for event in events]


def failed(*chunks: bytes) -> Error:
    closing = decode_events(WIRE, chunks)[-1]
    assert isinstance(closing, Error)
    return closing


def kept(block: Any) -> dict[str, Any]:
    assert isinstance(block, TextContent)
    return json.loads(block.text_signature or "null")


# -- a good day --------------------------------------------------------------------------------


def test_text_arrives_in_pieces_and_ends_whole() -> None:
    chunks = [chunk(text("Hel")), chunk(text("lo")), end()]

    assert types(decode_events(WIRE, chunks)) == [
        "start", "text_start", "text_delta", "text_delta", "text_end", "done",
    ]  # fmt: skip
    message = decode(WIRE, chunks)
    assert (message.text, message.stop_reason, message.raw_stop_reason) == ("Hello", "stop", "STOP")
    assert (message.response_id, message.model) == ("r1", "gemini-x")
    assert message.content == [TextContent("Hello")]


def test_the_model_stays_the_one_that_was_asked() -> None:
    from loopwright.models.wires import load_wire

    decoder = load_wire(WIRE).decoder(ReplyBuilder(api=WIRE, model="gemini-flash-latest"), {})
    events = decoder.feed(end()) + decoder.finish()

    assert events[-1].message.model == "gemini-flash-latest"  # type: ignore[union-attr]


def test_thinking_comes_before_what_it_led_to() -> None:
    message = decode(WIRE, [chunk(thought("a")), chunk(thought("b ")), chunk(text("x")), end()])

    assert message.content == [ThinkingContent("a" + "b "), TextContent("x")]


def test_older_models_send_a_finish_reason_with_every_piece() -> None:
    message = decode(WIRE, [chunk(text("a"), finish="STOP"), chunk(text("b"), finish="STOP")])

    assert (message.text, message.stop_reason) == ("ab", "stop")


def test_only_the_first_of_several_candidates_is_read() -> None:
    two = [
        {"index": 1, "content": {"parts": [text("no")]}, "finishReason": "STOP"},
        {"index": 0, "content": {"parts": [text("yes")]}, "finishReason": "STOP"},
    ]

    assert decode(WIRE, [data(candidates=two)]).text == "yes"


def test_a_marker_of_another_dialect_and_empty_chunks_are_passed_over() -> None:
    chunks = [
        data(usageMetadata={}), chunk(text("Hi")), data(candidates=[]), data(candidates=[{}]),
        end(), b"data: [DONE]\n\n",
    ]  # fmt: skip

    assert decode(WIRE, chunks).text == "Hi"


# -- signatures --------------------------------------------------------------------------------


def test_the_signature_of_a_whole_text_is_kept_as_it_is() -> None:
    assert decode(WIRE, [chunk(text("Hi", thoughtSignature="S=="), finish="STOP")]).content == [
        TextContent("Hi", "S==")
    ]


def test_signatures_within_a_text_keep_their_places_and_do_not_cut_it() -> None:
    chunks = [
        chunk(text("a🙂", thoughtSignature="S1")), chunk(text("bc")), chunk(text("d")),
        chunk(text("", thoughtSignature="S2"), finish="STOP"),
    ]  # fmt: skip

    (block,) = decode(WIRE, chunks).content

    assert block.text == "a🙂bcd"  # type: ignore[union-attr]
    assert kept(block) == {"signatures": [[0, 2, "S1"], [5, 5, "S2"]]}


def test_a_signature_without_any_text_has_a_block_of_its_own() -> None:
    for part in (text("", thoughtSignature="S"), {"thoughtSignature": "S"}):
        message = decode(WIRE, [chunk(thought("hm")), chunk(part, finish="STOP")])

        assert message.content == [ThinkingContent("hm"), TextContent("", "S")]


def test_the_signature_of_thinking_does_not_spread() -> None:
    chunks = [chunk(thought("a", thoughtSignature="S1")), chunk(thought("b")), end()]

    assert decode(WIRE, chunks).content == [ThinkingContent("a", "S1"), ThinkingContent("b")]


def test_case_018_the_signature_of_parallel_calls_stays_with_its_call() -> None:
    chunks = [chunk(call("a", signature="s1", args={}), call("b", args={"x": 1})), end()]

    assert decode(WIRE, chunks).tool_calls == [
        ToolCall("call_r1_0", "a", {}, "s1"), ToolCall("call_r1_1", "b", {"x": 1}),
    ]  # fmt: skip


# -- calls -------------------------------------------------------------------------------------


def test_ids_are_the_vendors_or_made_up_from_the_reply() -> None:
    with_ids = decode(WIRE, [chunk(call("f", id="k1"), call("f", id="k1"), call("f")), end()])
    nameless = decode(
        WIRE, [data(candidates=[{"content": {"parts": [call("f"), call("g")]},
                                 "finishReason": "STOP"}])],
    )  # fmt: skip

    assert [c.id for c in with_ids.tool_calls] == ["k1", "k1_2", "call_r1_0"]
    assert [c.id for c in nameless.tool_calls] == ["call_0", "call_1"]
    assert with_ids.stop_reason == "toolUse"


@pytest.mark.parametrize("fields", [{}, {"args": {}}, {"args": None}])
def test_case_001_a_call_without_arguments_has_none(fields: dict[str, Any]) -> None:
    (got,) = decode(WIRE, [chunk(call("now", **fields)), end()]).tool_calls

    assert (got.arguments, got.arguments_error) == ({}, None)


@pytest.mark.parametrize("args", [["a"], "a", 17])
def test_case_002_arguments_that_are_no_object_are_told(args: Any) -> None:
    message = decode(WIRE, [chunk(call("open", args=args)), end()])

    (got,) = message.tool_calls
    assert (message.stop_reason, got.arguments) == ("toolUse", {})
    assert "object" in (got.arguments_error or "")


def piece(path: str, value: Any, more: bool = False) -> dict[str, Any]:
    kinds = {str: "stringValue", bool: "boolValue", int: "numberValue", float: "numberValue"}
    if value is None:
        return {"jsonPath": path, "nullValue": "NULL_VALUE"}
    return {"jsonPath": path, kinds[type(value)]: value, **({"willContinue": True} if more else {})}


def growing(*pieces: dict[str, Any]) -> bytes:
    return chunk(call(partialArgs=list(pieces), willContinue=True))


OPENED = chunk(call("cook", signature="s1", willContinue=True))
CLOSED = chunk(call())


def test_arguments_that_come_by_their_paths_are_shown_as_json_text_and_put_together() -> None:
    chunks = [
        OPENED,
        growing(piece("$.a", 'x"', more=True)),
        growing(piece("$.a", "y\n", more=True)),
        growing(piece("$.a", "")),
        growing(piece("$.list[0].n", 1), piece("$.list[0].ok", True)),
        growing(piece("$.list[1].n", 2.5), piece("$['odd key'].b", None)),
        CLOSED,
        end(),
    ]
    expected = {
        "a": 'x"y\n', "list": [{"n": 1, "ok": True}, {"n": 2.5}], "odd key": {"b": None},
    }  # fmt: skip

    events = decode_events(WIRE, chunks)
    (got,) = decode(WIRE, chunks).tool_calls

    assert (got.arguments, got.arguments_error, got.thought_signature) == (expected, None, "s1")
    assert json.loads("".join(e.delta for e in events if isinstance(e, ToolCallDelta))) == expected


def test_pieces_that_reach_back_are_put_together_as_well() -> None:
    chunks = [
        OPENED,
        growing(piece("$.a.x", "1", more=True), piece("$.b", "2"), piece("$.a.y", 3)),
        growing(piece("$.a.x", "1")),
        CLOSED,
        end(),
    ]

    assert decode(WIRE, chunks).tool_calls[0].arguments == {"a": {"x": "11", "y": 3}, "b": "2"}


def test_a_call_in_pieces_without_any_is_complete() -> None:
    (got,) = decode(WIRE, [OPENED, CLOSED, end()]).tool_calls

    assert (got.arguments, got.arguments_error) == ({}, None)


def test_a_new_call_ends_the_one_that_is_open() -> None:
    chunks = [OPENED, growing(piece("$.a", "x")), chunk(call("b", args={})), end()]

    calls = decode(WIRE, chunks).tool_calls

    assert [(c.name, c.arguments) for c in calls] == [("cook", {"a": "x"}), ("b", {})]


@pytest.mark.parametrize(
    "grown", [[], [growing(piece("$.cmd", "rm -r build", more=True))],
              [growing(piece("$.cmd", "rm -r build"))]],
)  # fmt: skip
def test_case_004_a_call_cut_by_the_limit_stays_length_and_is_marked(grown: list[bytes]) -> None:
    message = decode(WIRE, [OPENED, *grown, end("MAX_TOKENS")])

    assert (message.stop_reason, message.raw_stop_reason) == ("length", "MAX_TOKENS")
    assert message.tool_calls[0].arguments_error


@pytest.mark.parametrize(
    "chunks",
    [
        [growing(piece("$.a", 1))],
        [OPENED, growing(piece("$..a", 1))],
        [OPENED, growing(piece("a", 1))],
        [OPENED, growing(piece("$.a", 1), piece("$.a.b", 1)), CLOSED],
        [OPENED, growing(piece("$.a[7]", 1)), CLOSED],
        [OPENED, growing(piece("$[0]", 1)), CLOSED],
    ],
)
def test_pieces_nobody_can_place_are_an_error_not_silence(chunks: list[bytes]) -> None:
    assert failed(*chunks, end()).kind == "wire"


def test_paths_in_their_forms() -> None:
    assert parse_path("$.a['b.c'][12]['it\\'s'].ä") == ["a", "b.c", 12, "it's", "ä"]
    for path in ("", "$", "$[*]", "$.a[-1]", "$" + ".a" * 101):
        with pytest.raises(WireError):
            parse_path(path)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, min_size=1, max_size=3)
        | st.dictionaries(st.text("ab '\\", min_size=1, max_size=3), inner, min_size=1, max_size=3)
    ),
    max_leaves=8,
)


def pieces_of(value: Any, path: str) -> list[dict[str, Any]]:
    if isinstance(value, dict):
        quoted = {k: k.replace("\\", "\\\\").replace("'", "\\'") for k in value}
        return [p for k, v in value.items() for p in pieces_of(v, f"{path}['{quoted[k]}']")]
    if isinstance(value, list):
        return [p for i, v in enumerate(value) for p in pieces_of(v, f"{path}[{i}]")]
    if isinstance(value, str) and len(value) > 1:
        return [piece(path, value[:1], more=True), piece(path, value[1:])]
    return [piece(path, value)]


@settings(max_examples=150)
@given(st.dictionaries(st.text("xyz", min_size=1, max_size=2), JSON, min_size=1, max_size=3))
def test_any_arguments_survive_being_cut_into_paths(arguments: dict[str, Any]) -> None:
    cut = [growing(one) for one in pieces_of(arguments, "$")]

    events = decode_events(WIRE, [OPENED, *cut, CLOSED, end()])

    assert events[-1].message.tool_calls[0].arguments == arguments  # type: ignore[union-attr]
    assert json.loads("".join(e.delta for e in events if isinstance(e, ToolCallDelta))) == arguments


# -- what only the vendor understands ----------------------------------------------------------

CODE = {"executableCode": {"language": "PYTHON", "code": "1"}, "thoughtSignature": "S1"}
RESULT = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1\n"}}


def test_parts_of_the_vendors_own_tools_pass_as_they_came() -> None:
    image = {"inlineData": {"mimeType": "image/png", "data": "aGk="}}
    odd = {"somethingNew": {"x": [1]}}

    message = decode(
        WIRE, [chunk(CODE, text("")), chunk(RESULT), chunk(text("It is 1.")), chunk(image, odd), end()]
    )  # fmt: skip

    assert message.text == "It is 1."
    parts = [kept(b)["part"] for b in message.content if b.text_signature]  # type: ignore[union-attr]
    assert parts == [CODE, RESULT, image, odd]


def test_citations_are_kept_with_the_last_text() -> None:
    grounding = {"groundingChunks": [{"web": {"uri": "https://x"}}]}
    visited = {"urlMetadata": [{"retrievedUrl": "https://x"}]}
    last = chunk(
        text("", thoughtSignature="S"), finish="STOP",
        groundingMetadata=grounding, urlContextMetadata=visited,
    )  # fmt: skip

    (block,) = decode(WIRE, [chunk(text("a"), groundingMetadata={}), last]).content
    alone = decode(WIRE, [chunk(call("f"), finish="STOP", citationMetadata={"a": 1})]).content

    assert kept(block) == {
        "groundingMetadata": grounding, "urlContextMetadata": visited, "signatures": [[1, 1, "S"]],
    }  # fmt: skip
    assert kept(alone[1]) == {"citationMetadata": {"a": 1}}


# -- finish reasons ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raw", "ours"), [("STOP", "stop"), ("MAX_TOKENS", "length"), ("CONTINUATION", "length")]
)
def test_each_finish_reason_has_its_meaning_and_the_raw_one_is_kept(raw: str, ours: str) -> None:
    message = decode(WIRE, [chunk(text("x")), end(raw)])

    assert (message.stop_reason, message.raw_stop_reason) == (ours, raw)


@pytest.mark.parametrize(
    ("raw", "kind", "retryable"),
    [
        ("SAFETY", "refused", False),
        ("RECITATION", "refused", False),
        ("PROHIBITED_CONTENT", "refused", False),
        ("IMAGE_SAFETY", "refused", False),
        ("MODEL_ARMOR", "refused", False),
        ("ESCALATION", "refused", False),
        ("MALFORMED_FUNCTION_CALL", "model_error", True),
        ("MALFORMED_RESPONSE", "model_error", True),
        ("UNEXPECTED_TOOL_CALL", "model_error", False),
        ("TOO_MANY_TOOL_CALLS", "model_error", False),
        ("MISSING_THOUGHT_SIGNATURE", "model_error", False),
        ("OTHER", "model_error", False),
        ("NO_IMAGE", "model_error", False),
        ("BRAND_NEW", "model_error", False),
    ],
)
def test_other_finish_reasons_are_errors_with_the_vendors_word(
    raw: str, kind: str, retryable: bool
) -> None:
    closing = failed(chunk(text("x")), end(raw, finishMessage="Because."))

    assert (closing.kind, closing.retryable, closing.error.text) == (kind, retryable, "x")
    assert repr(raw) in (closing.error.error_message or "")
    assert closing.error.raw_stop_reason == raw
    if raw != "BRAND_NEW":
        assert "Because." in (closing.error.error_message or "")


def test_case_009_complete_calls_win_over_a_word_nobody_knows() -> None:
    message = decode(WIRE, [chunk(call("f")), end("BRAND_NEW")])

    assert (message.stop_reason, message.raw_stop_reason) == ("toolUse", "BRAND_NEW")
    assert failed(OPENED, end("BRAND_NEW")).kind == "model_error"
    assert failed(chunk(call("f")), end("MALFORMED_FUNCTION_CALL")).retryable


def test_a_blocked_prompt_is_a_refusal_that_says_why() -> None:
    feedback = {"blockReason": "PROHIBITED_CONTENT", "blockReasonMessage": "No."}

    closing = failed(data(promptFeedback=feedback, usageMetadata={"promptTokenCount": 4}))

    assert (closing.kind, closing.retryable) == ("refused", False)
    assert "'PROHIBITED_CONTENT'): No." in (closing.error.error_message or "")
    assert (closing.error.raw_stop_reason, closing.error.usage.input) == ("PROHIBITED_CONTENT", 4)


def test_an_empty_reply_with_a_finish_reason_is_no_error() -> None:
    message = decode(WIRE, [end()])

    assert (message.stop_reason, message.content) == ("stop", [])


# -- usage -------------------------------------------------------------------------------------


def test_case_042_cached_tokens_are_counted_once_and_thinking_is_output() -> None:
    usage = decode(
        WIRE,
        [chunk(text("x"), finish="STOP", usage={
            "promptTokenCount": 10_000, "cachedContentTokenCount": 9800,
            "candidatesTokenCount": 7, "thoughtsTokenCount": 3, "totalTokenCount": 10_010,
        })],
    ).usage  # fmt: skip

    assert (usage.input, usage.cache_read, usage.cache_write) == (200, 9800, 0)
    assert (usage.output, usage.reasoning, usage.total_tokens) == (10, 3, 10_010)


def test_what_the_vendors_tools_brought_in_is_counted_beside_the_input() -> None:
    numbers = {**USAGE, "toolUsePromptTokenCount": 100, "totalTokenCount": 112}

    usage = decode(WIRE, [chunk(text("x"), finish="STOP", usage=numbers)]).usage

    assert (usage.input, usage.tool_input, usage.output, usage.total_tokens) == (10, 100, 2, 112)


def test_the_last_numbers_count_and_a_chunk_without_any_changes_nothing() -> None:
    no_numbers = {"trafficType": "ON_DEMAND"}
    more = {**USAGE, "candidatesTokenCount": 9}

    last = decode(WIRE, [chunk(text("x")), chunk(text("y")), end(usage=more)]).usage
    first = decode(WIRE, [chunk(text("x")), chunk(text("y")), end(usage=no_numbers)]).usage

    assert (last.output, first.output) == (9, 2)


def test_more_cached_than_sent_gives_no_negative_input() -> None:
    numbers = {"promptTokenCount": 5, "cachedContentTokenCount": 9}

    assert decode(WIRE, [end(usage=numbers)]).usage.input == 0


def test_usage_that_was_never_told_is_unknown() -> None:
    assert not decode(WIRE, [end(usage={})]).usage.known


# -- faults ------------------------------------------------------------------------------------


def test_case_012_a_stream_that_just_ends_is_an_error_worth_trying_again() -> None:
    for chunks in ([], [chunk(text("Par"))], [chunk(text("Par")), b'data: {"candi']):
        closing = failed(*chunks)

        assert (closing.kind, closing.retryable) == ("incomplete_stream", True)
        assert closing.error.text == ("Par" if chunks else "")


BUSY = {"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}}
LIMIT = {
    "error": {
        "code": 429,
        "message": "You exceeded your current quota, please check your plan and billing details.",
        "status": "RESOURCE_EXHAUSTED",
        "details": [
            {"@type": "type.googleapis.com/google.rpc.QuotaFailure",
             "violations": [{"quotaId": "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"}]},
            {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "22.5s"},
        ],
    }
}  # fmt: skip


@pytest.mark.parametrize(
    "fault",
    [
        data(**BUSY),
        json.dumps(BUSY).encode(),
        json.dumps([BUSY], indent=2).encode(),
        json.dumps(BUSY, indent=2).encode().replace(b"\n", b"\r\n") + b"\r\n\r\n",
    ],
    ids=["event", "bare", "array", "many lines"],
)
def test_case_013_an_error_in_the_middle_is_sorted_in_each_of_its_forms(fault: bytes) -> None:
    closing = failed(chunk(text("Par")), fault)

    assert (closing.kind, closing.retryable, closing.error.text) == ("overloaded", True, "Par")
    assert "The model is overloaded." in (closing.error.error_message or "")
    assert closing.error.usage.input == 10


def test_an_error_in_the_middle_says_how_long_to_wait() -> None:
    closing = failed(data(**LIMIT))

    assert (closing.kind, closing.retryable) == ("rate_limit", True)
    assert closing.retry_after_seconds == 22.5


def test_a_host_that_did_not_stream_is_read_all_the_same() -> None:
    answers = [chunk(text("a")), end()]
    plain = [json.loads(one.removeprefix(b"data: ")) for one in answers]

    for document in (plain, [plain[0]] * 2 + [plain[1]]):
        message = decode(WIRE, [json.dumps(document, indent=2).encode()])

        assert (message.text[:1], message.stop_reason) == ("a", "stop")
    assert decode(WIRE, [json.dumps(plain[1]).encode()]).stop_reason == "stop"
    assert failed(json.dumps(plain)[:-20].encode()).kind == "incomplete_stream"


@pytest.mark.parametrize("body", [b"<html>Bad gateway</html>", b'"x"', b"[1]", b"[]", b"{}"])
def test_what_is_no_stream_at_all_is_shown(body: bytes) -> None:
    closing = failed(body)

    assert closing.kind == "wire"
    assert body.decode() in (closing.error.error_message or "")


def test_what_is_no_json_is_an_error() -> None:
    closing = failed(chunk(text("a")), b"data: {not json\n\n", end())

    assert (closing.kind, closing.error.text) == ("wire", "a")


def test_fields_of_another_type_than_expected_do_not_end_the_reply() -> None:
    odd = data(
        candidates=[{"content": {"parts": [{"text": "b", "thought": "yes"}, 7], "role": 1},
                     "index": "0", "finishMessage": 3}, None],
        usageMetadata=None, responseId=5, error=None, promptFeedback=None,
    )  # fmt: skip

    assert decode(WIRE, [chunk(text("a")), odd, chunk(text("c")), end()]).text == "abc"


def test_nulls_are_as_good_as_nothing() -> None:
    part = {"text": "a", "thoughtSignature": None, "functionCall": None, "inlineData": None}
    one = {"content": {"parts": [part]}, "finishReason": None, "groundingMetadata": None}

    message = decode(WIRE, [data(candidates=[one], error=None, usageMetadata=None), end()])

    assert message.content == [TextContent("a")]


def test_case_021_broken_text_is_mended() -> None:
    half = b'data: {"candidates":[{"content":{"parts":[{"text":"x\\ud83d"}]}}]}\n\n'
    bytes_cut = b'data: {"candidates":[{"content":{"parts":[{"text":"y\xf0\x9f"}]}}]}\n\n'

    assert decode(WIRE, [half, bytes_cut, end()]).text == "x\ufffdy\ufffd"


# -- bytes -------------------------------------------------------------------------------------

REPLY = [
    chunk(thought("hm 🙂")), chunk(text("汉🙂", thoughtSignature="S1")), chunk(text(" ok")),
    chunk(CODE), OPENED, growing(piece("$.a", "é", more=True)), growing(piece("$.a", "")), CLOSED,
    end(),
]  # fmt: skip


def test_case_014_any_chunking_gives_the_same_events() -> None:
    body = b"".join(REPLY)
    whole = with_deltas_joined(comparable(decode_events(WIRE, [body])))
    chance = random.Random(7)

    for chunks in (REPLY, one_by_one(body), *(cut_at_random(body, chance) for _ in range(20))):
        assert with_deltas_joined(comparable(decode_events(WIRE, chunks))) == whole


@pytest.mark.parametrize("newline", [b"\n", b"\r"])
def test_line_ends_of_every_kind_are_read(newline: bytes) -> None:
    body = b"".join(REPLY)

    assert without_time(decode(WIRE, [body.replace(b"\r\n", newline)])) == without_time(
        decode(WIRE, [body])
    )


PIECES = st.sampled_from([
    b'data: {"a":1}', b'data: {"b":2}\r\n\r\n', b"data:x", b": c", b"\r\n", b"\r\n\r\n", b"\n", b"\r",
])  # fmt: skip


@settings(max_examples=200)
@given(st.lists(PIECES, max_size=14).map(b"".join), st.randoms(use_true_random=False))
def test_line_ends_mixed_and_cut_anywhere_are_read_alike(body: bytes, chance: Any) -> None:
    """Google's bodies have CRLF throughout and a road of their own; nothing else may take it."""
    whole, cut = SseSplitter(), SseSplitter()
    plain = whole.feed(body.replace(b"\r\n", b"\n").replace(b"\r", b"\n")) + whole.finish()

    found: list[bytes] = []
    while body:
        length = chance.randint(1, 20)
        found += cut.feed(body[:length])
        body = body[length:]

    assert (found + cut.finish(), cut.stray) == (plain, whole.stray)


def test_case_012_any_truncation_ends_in_a_clean_error() -> None:
    body = b"".join(REPLY).rstrip()

    for length in range(len(body)):
        closing = failed(body[:length])

        assert closing.kind == "incomplete_stream", body[:length]


def test_a_partial_shows_the_reply_as_it_stood() -> None:
    events = decode_events(WIRE, [chunk(text("汉🙂")), chunk(text(" ok")), end()])

    assert [e.partial.text for e in events if isinstance(e, TextDelta)] == ["汉🙂", "汉🙂 ok"]


# -- recordings --------------------------------------------------------------------------------

RECORDED = bodies(WIRE)


@needs_recordings
@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_a_recording_says_what_the_sdk_says(file: Path) -> None:
    known = sidecar(file)
    expected, extra = known["expected"], known["extra"]

    message = decode(WIRE, [file.read_bytes()])

    assert (message.text, message.thinking) == (expected["text"], expected["thinking"])
    assert [(c.name, c.arguments) for c in message.tool_calls] == [
        (c["name"], c["arguments"] or {}) for c in expected["tool_calls"]
    ]
    for got, told in zip(message.tool_calls, expected["tool_calls"], strict=True):
        assert got.id == told["id"] or (told["id"] is None and got.id.startswith("call_"))
    assert message.raw_stop_reason == expected["stop"]
    assert (message.stop_reason == "error") == bool(expected["error"])
    assert message.tool_calls == [] or message.stop_reason == "toolUse"
    assert _signatures(message.content) == extra["signatures"]
    assert sum("part" in _details(b) for b in message.content) == len(extra["server_tool_calls"])
    grounded = [g for b in message.content if (g := _details(b).get("groundingMetadata"))]
    assert bool(grounded) == (b"groundingChunks" in file.read_bytes())


@needs_recordings
@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_usage_of_a_recording_follows_our_way_of_counting(file: Path) -> None:
    known = sidecar(file)
    raw, brought_in = known["expected"]["usage"], known["extra"]["tool_use_prompt_tokens"]

    usage = decode(WIRE, [file.read_bytes()]).usage

    cached = raw["cache_read"] or 0
    assert (usage.input, usage.cache_read) == ((raw["input"] or 0) - cached, cached)
    assert usage.tool_input == brought_in
    assert usage.reasoning == raw["reasoning"]
    if file.stem.endswith("3-flash-preview_native-output-with-builtin-tools-stream"):
        assert usage.output == 21 + raw["reasoning"]  # the last chunk leaves out the answer's 21
        return
    assert usage.output == (raw["output"] or 0) + (raw["reasoning"] or 0)
    if raw["total"] is not None:
        counted = usage.input + usage.output + cached + (brought_in or 0)
        assert counted == usage.total_tokens == raw["total"]


def _details(block: Any) -> dict[str, Any]:
    signature = block.text_signature if isinstance(block, TextContent) else None
    return json.loads(signature) if signature and signature[0] == "{" else {}


def _signatures(content: list[Any]) -> int:
    """How many came, wherever they are kept."""
    count = 0
    for block in content:
        details = _details(block)
        if isinstance(block, TextContent):
            bare = block.text_signature is not None and not details
            count += bare + len(details.get("signatures", ()))
            count += "thoughtSignature" in details.get("part", {})
        elif isinstance(block, ThinkingContent):
            count += block.thinking_signature is not None
        else:
            count += block.thought_signature is not None
    return count


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

    for length in chance.choices(range(len(body.rstrip())), k=40):
        assert decode(WIRE, [body[:length]]).stop_reason == "error"
