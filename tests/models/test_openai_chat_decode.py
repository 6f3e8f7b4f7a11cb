"""What hosts of Chat Completions send, well-formed or not, becomes one clean reply."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopwright.messages import TextContent, ThinkingContent
from loopwright.stream import (
    AssistantMessageEvent,
    Done,
    Error,
    TextDelta,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
)
from loopwright.testing import decode
from loopwright.testing.decode import decode_events

from .fault_server import DONE, USAGE, event

WIRE = "openai-chat"


def call(
    index: int | None = 0,
    id: str | None = None,
    name: str | None = None,
    arguments: Any = None,
    **more: Any,
) -> dict[str, Any]:
    """The delta of one fragment of a tool call; what is None is left out."""
    function = {"name": name, "arguments": arguments}
    fragment = {
        "index": index,
        "id": id,
        "function": {key: value for key, value in function.items() if value is not None},
        **more,
    }
    return {"tool_calls": [{k: v for k, v in fragment.items() if v is not None}]}


def calls_of(*chunks: bytes) -> list[tuple[str, str, dict[str, Any]]]:
    message = decode(WIRE, chunks)
    assert message.stop_reason == "toolUse", message.error_message
    return [(c.id, c.name, c.arguments) for c in message.tool_calls]


def types(events: Sequence[AssistantMessageEvent]) -> list[str]:
    return [event.type for event in events]


def comparable(events: Sequence[AssistantMessageEvent]) -> list[dict[str, Any]]:
    """Events without the one thing that differs from run to run: the time."""
    plain = [event.to_dict() for event in events]
    for data in plain:
        for message in (data.get("message"), data.get("error")):
            if isinstance(message, dict):
                message.pop("timestamp")
    return plain


# -- tool calls --------------------------------------------------------------------------------


def test_case_006_two_calls_under_one_index_stay_two() -> None:
    chunks = [
        event(call(0, "c1", "find", '{"q":"ada"}')),
        event(call(0, "c2", "find", '{"q":')),
        event(call(0, None, None, '"al')),
        event(call(0, "c2", None, 'an"}')),
        event({}, "tool_calls"),
        DONE,
    ]

    events = decode_events(WIRE, chunks)

    assert calls_of(*chunks) == [("c1", "find", {"q": "ada"}), ("c2", "find", {"q": "alan"})]
    starts = [e.content_index for e in events if isinstance(e, ToolCallStart)]
    ends = [e.content_index for e in events if isinstance(e, ToolCallEnd)]
    assert starts == ends == [0, 1]


def test_case_007_fragments_without_an_index_are_attributed() -> None:
    nulled = {
        "tool_calls": [{"index": None, "id": "c2", "function": {"name": "time", "arguments": "{}"}}]
    }
    chunks = [
        event(call(None, "c1", "weather", '{"city":')),
        event(call(None, None, None, '"Oslo"}')),
        event(nulled),
        event({}, "tool_calls"),
        DONE,
    ]

    assert calls_of(*chunks) == [("c1", "weather", {"city": "Oslo"}), ("c2", "time", {})]


def test_case_007_a_mix_of_indexed_and_bare_fragments_does_not_raise() -> None:
    chunks = [
        event(call(0, "c1", "a", '{"x":')),
        event(call(None, None, None, "1}")),
        event(call(1, "c2", "b", "{}")),
        event({}, "tool_calls"),
        DONE,
    ]

    assert calls_of(*chunks) == [("c1", "a", {"x": 1}), ("c2", "b", {})]


def test_case_007_a_fragment_that_belongs_nowhere_is_an_error_not_silence() -> None:
    message = decode(WIRE, [event(call(None, None, None, '"Oslo"}')), event({}, "stop"), DONE])

    assert message.stop_reason == "error"
    assert "belongs to no call" in (message.error_message or "")


def test_case_008_interleaved_fragments_reach_their_own_call() -> None:
    chunks = [
        event(call(0, "c1", "add", '{"a":')),
        event(call(1, "c2", "mul", '{"a":')),
        event(call(0, None, None, "1}")),
        event(call(1, None, None, "2}")),
        event(call(0, None, None, "")),
        event({}, "tool_calls"),
        DONE,
    ]

    events = decode_events(WIRE, chunks)

    assert calls_of(*chunks) == [("c1", "add", {"a": 1}), ("c2", "mul", {"a": 2})]
    deltas = [(e.content_index, e.delta) for e in events if isinstance(e, ToolCallDelta)]
    assert deltas == [(0, '{"a":'), (1, '{"a":'), (0, "1}"), (1, "2}")]


def test_case_008_an_id_that_comes_late_is_taken_over() -> None:
    chunks = [
        event(call(0, None, "add", '{"a":')),
        event(call(0, "late", None, "1}")),
        event({}, "tool_calls"),
        DONE,
    ]

    assert calls_of(*chunks) == [("late", "add", {"a": 1})]


def test_a_name_that_is_repeated_is_not_doubled() -> None:
    chunks = [
        event(call(0, "0", "version", "")),
        event(call(0, "0", "version", "{}")),
        event({}, "tool_calls"),
        DONE,
    ]

    assert calls_of(*chunks) == [("0", "version", {})]


def test_calls_without_any_id_get_one_of_their_own() -> None:
    chunks = [
        event(call(0, None, "a", "{}")),
        event(call(1, None, "b", "{}")),
        event({}, "tool_calls"),
        DONE,
    ]

    ids = [id for id, _, _ in calls_of(*chunks)]

    assert len(set(ids)) == 2
    assert all(ids)


def test_arguments_as_an_object_and_the_old_function_call_are_read() -> None:
    whole = calls_of(event(call(0, "c", "add", {"a": 1})), event({}, "tool_calls"), DONE)
    old = calls_of(
        event({"function_call": {"name": "add", "arguments": '{"a":'}}),
        event({"function_call": {"arguments": "1}"}}),
        event({}, "function_call"),
        DONE,
    )

    assert whole == [("c", "add", {"a": 1})]
    assert [(name, arguments) for _, name, arguments in old] == [("add", {"a": 1})]


# -- the end -----------------------------------------------------------------------------------


@pytest.mark.parametrize("reason", ["stop", "other", "unknown", None])
def test_case_009_complete_calls_win_over_an_odd_finish_reason(reason: str | None) -> None:
    chunks = [
        event({"content": "Let me look that up."}),
        *[event(call(i, f"c{i}", "look", "{}")) for i in range(3)],
        event({}, reason),
        DONE,
    ]

    message = decode(WIRE, chunks)

    assert message.stop_reason == "toolUse"
    assert message.raw_stop_reason == reason
    assert len(message.tool_calls) == 3


def test_case_009_but_not_over_a_cut_or_a_filter() -> None:
    call_chunk = event(call(0, "c", "look", '{"a":'))

    cut = decode(WIRE, [call_chunk, event({}, "length"), DONE])
    filtered = decode(WIRE, [call_chunk, event({}, "content_filter"), DONE])

    assert cut.stop_reason == "length"
    assert (filtered.stop_reason, filtered.raw_stop_reason) == ("error", "content_filter")


def test_case_010_tool_calls_announced_but_not_there_is_a_plain_stop() -> None:
    message = decode(WIRE, [event({}, "tool_calls"), USAGE, DONE])

    assert (message.stop_reason, message.raw_stop_reason) == ("stop", "tool_calls")
    assert message.content == []


@pytest.mark.parametrize(
    "trailer", [USAGE, USAGE.replace(b'"choices":[],', b"")], ids=["empty", "no choices"]
)
def test_case_011_chunks_without_choices_are_harmless(trailer: bytes) -> None:
    chunks = [
        b'data: {"choices":[],"prompt_filter_results":[{}]}\n\n',
        event({"content": "Hi"}, usage=None),
        event({}, "stop"),
        trailer,
        DONE,
    ]

    events = decode_events(WIRE, chunks)

    closing = events[-1]
    assert isinstance(closing, Done)
    assert closing.message.text == "Hi"
    assert (closing.message.usage.input, closing.message.usage.output) == (10, 2)
    assert types(events).count("done") == 1


def test_case_011_usage_that_never_came_is_unknown_not_zero() -> None:
    message = decode(WIRE, [event({"content": "Hi"}), event({}, "stop"), DONE])

    assert message.usage.known is False


def test_case_012_a_body_that_ends_too_early_is_a_retryable_error_with_what_came() -> None:
    chunks = [event({"content": "The result"}), event({"content": " is"})]

    closing = decode_events(WIRE, chunks)[-1]

    assert isinstance(closing, Error)
    assert (closing.kind, closing.retryable) == ("incomplete_stream", True)
    assert closing.error.text == "The result is"


def test_case_012_every_truncation_of_a_reply_is_a_clean_error() -> None:
    body = b"".join([
        event({"reasoning": "hm"}),
        event({"content": "Let me see."}),
        event(call(0, "c", "look", '{"path": "a.txt"}')),
    ])  # fmt: skip

    for end in range(len(body)):
        message = decode(WIRE, [body[:end]])

        assert message.stop_reason == "error"


def test_case_012_the_mark_of_the_end_alone_is_enough_once_something_was_said() -> None:
    said = decode(WIRE, [event({"content": "Hi"}), DONE])
    nothing = decode(WIRE, [event({}), DONE])

    assert said.stop_reason == "stop"
    assert nothing.stop_reason == "error"


def test_case_012_a_host_that_never_gives_a_reason_is_known_by_its_row() -> None:
    chunks = [event({"content": "Hi"}), USAGE]

    assert decode(WIRE, chunks).stop_reason == "error"
    assert decode(WIRE, chunks, flags={"finish_reason": False}).stop_reason == "stop"


def test_the_finish_reason_is_enough_without_the_mark() -> None:
    message = decode(WIRE, [event({"content": "Hi"}), event({}, "stop"), USAGE])

    assert (message.stop_reason, message.usage.input) == ("stop", 10)


def test_an_empty_reply_with_a_reason_is_no_error() -> None:
    assert decode(WIRE, [event({}, "stop"), DONE]).stop_reason == "stop"


def test_an_unknown_reason_is_an_error_that_names_it() -> None:
    message = decode(WIRE, [event({"content": "Hi"}), event({}, "moon_phase"), DONE])

    assert (message.stop_reason, message.raw_stop_reason) == ("error", "moon_phase")
    assert "'moon_phase'" in (message.error_message or "")
    assert message.text == "Hi"


def test_what_follows_a_complete_reply_is_not_read() -> None:
    message = decode(WIRE, [event({"content": "Hi"}), event({}, "stop"), b"data: junk\n\n", DONE])

    assert message.stop_reason == "stop"


# -- errors in band ----------------------------------------------------------------------------


def failing(error: Any) -> Error:
    body = [event({"content": "Par"}), b"data: " + json.dumps({"error": error}).encode() + b"\n\n"]
    closing = decode_events(WIRE, [*body, event({"content": "more"})])[-1]
    assert isinstance(closing, Error)
    assert closing.error.text == "Par"
    return closing


def test_case_013_an_error_in_the_middle_ends_the_reply_and_says_what_it_is() -> None:
    overloaded = failing({"type": "overloaded_error", "message": "Overloaded"})
    invalid = failing({"type": "invalid_request_error", "message": "no such tool"})
    upstream = failing({"code": 502, "message": "Provider returned error"})

    assert (overloaded.kind, overloaded.retryable) == ("overloaded", True)
    assert (invalid.kind, invalid.retryable) == ("invalid_request", False)
    assert (upstream.kind, upstream.retryable) == ("overloaded", True)
    assert "Overloaded" in (overloaded.error.error_message or "")


def test_case_013_an_error_as_the_first_chunk_gives_no_start() -> None:
    events = decode_events(WIRE, [b'data: {"error":{"message":"busy","code":429}}\n\n'])

    assert types(events) == ["error"]


def test_garbage_is_an_error_that_shows_it() -> None:
    closing = decode_events(WIRE, [event({"content": "Hi"}), b"data: {oops\n\n"])[-1]

    assert isinstance(closing, Error)
    assert closing.kind == "wire"
    assert closing.error.text == "Hi"


def test_a_page_instead_of_a_stream_is_an_error() -> None:
    closing = decode_events(WIRE, [b"<html><body>Bad gateway</body></html>"])[-1]

    assert isinstance(closing, Error)
    assert "no event stream" in (closing.error.error_message or "")


def test_a_host_that_does_not_stream_is_understood() -> None:
    body = {
        "id": "r",
        "choices": [{"index": 0, "message": {"content": "Hi"}, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 1},
    }
    failure = {"error": {"message": "no money", "code": "insufficient_quota"}}

    message = decode(WIRE, [json.dumps(body).encode()])
    refused = decode_events(WIRE, [json.dumps(failure).encode()])[-1]

    assert (message.text, message.stop_reason, message.usage.input) == ("Hi", "stop", 3)
    assert isinstance(refused, Error)
    assert refused.kind == "quota"


def test_a_field_of_an_unexpected_type_does_not_cost_the_reply() -> None:
    odd = event({"content": "Hi", "reasoning": {"text": "?"}, "tool_calls": "none"})

    message = decode(WIRE, [odd, event({}, "stop"), DONE])

    assert (message.text, message.stop_reason) == ("Hi", "stop")


# -- bytes -------------------------------------------------------------------------------------


def test_case_014_a_character_cut_at_any_border_is_whole_again() -> None:
    body = event({"content": "汉🙂"}).replace(b"\\u6c49\\ud83d\\ude42", "汉🙂".encode())
    body += event({}, "stop") + DONE
    assert "汉🙂".encode() in body
    whole = comparable(decode_events(WIRE, [body]))

    for cut in range(1, len(body)):
        assert comparable(decode_events(WIRE, [body[:cut], body[cut:]])) == whole
    one_by_one = decode_events(WIRE, [body[i : i + 1] for i in range(len(body))])

    assert comparable(one_by_one) == whole
    assert [e.delta for e in one_by_one if isinstance(e, TextDelta)] == ["汉🙂"]


def test_case_014_bytes_that_are_no_text_give_one_error() -> None:
    message = decode(WIRE, [b'data: {"choices":[{"delta":{"content":"\xff\xfe"}}]}\n\n', DONE])

    assert message.stop_reason == "error"


@pytest.mark.parametrize("newline", [b"\n", b"\r\n"])
def test_case_015_keepalives_are_neither_text_nor_errors(newline: bytes) -> None:
    body = (
        b'id: 7\ndata: {"choices":[{"delta":{"content":"a"}}]}\n\n: still working\n\nretry: 10\n\n'
        b"data:\n\ndata: [DONE]\n\n"
    ).replace(b"\n", newline)

    events = decode_events(WIRE, [body])

    assert types(events) == ["start", "text_start", "text_delta", "text_end", "done"]


# -- content -----------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "reasoning_text"])
def test_reasoning_is_found_in_whichever_field_it_comes(field: str) -> None:
    message = decode(WIRE, [event({field: "need "}), event({field: "the date"}),
                            event({"content": "It is"}), event({}, "stop"), DONE])  # fmt: skip

    assert [type(block) for block in message.content] == [ThinkingContent, TextContent]
    assert message.thinking == "need the date"


def test_reasoning_sent_twice_is_taken_once() -> None:
    delta = {"reasoning": "hm", "reasoning_details": [{"type": "reasoning.text", "text": "hm"}]}

    message = decode(WIRE, [event(delta), event({"content": "x"}), event({}, "stop"), DONE])

    assert message.thinking == "hm"


def test_signed_reasoning_details_are_kept_whole() -> None:
    details = [
        {"type": "reasoning.text", "text": "The ", "index": 0, "format": "f"},
        {"type": "reasoning.text", "text": "date", "index": 0},
        {"type": "reasoning.text", "signature": "S==", "index": 0},
    ]
    chunks = [event({"reasoning_details": [detail]}) for detail in details]

    message = decode(WIRE, [*chunks, event({"content": "x"}), event({}, "stop"), DONE])

    (thinking, _) = message.content
    assert isinstance(thinking, ThinkingContent)
    assert thinking.thinking == "The date"
    assert json.loads(thinking.thinking_signature or "") == [
        {
            "type": "reasoning.text",
            "text": "The date",
            "index": 0,
            "format": "f",
            "signature": "S==",
        }
    ]


def test_reasoning_details_of_odd_types_do_not_cost_the_reply() -> None:
    details = [{"type": "reasoning.text", "text": text} for text in ("a", 5, None, "b")]

    message = decode(WIRE, [event({"reasoning_details": details}), event({}, "stop"), DONE])

    assert (message.thinking, message.stop_reason) == ("ab", "stop")


def test_encrypted_reasoning_is_a_redacted_block() -> None:
    detail = {"type": "reasoning.encrypted", "id": "rs_1", "data": "abc"}

    message = decode(WIRE, [event({"reasoning_details": [detail]}), event({}, "stop"), DONE])

    (thinking,) = message.content
    assert isinstance(thinking, ThinkingContent)
    assert (thinking.thinking, thinking.redacted) == ("", True)
    assert json.loads(thinking.thinking_signature or "") == [detail]


def test_content_may_come_as_a_list_of_parts() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    chunks = [
        event({"content": [thinking]}),
        event({"content": [{"type": "text", "text": "Hi"}]}),
        event({"content": " there"}),
        event({}, "stop"),
        DONE,
    ]

    message = decode(WIRE, chunks)

    assert (message.thinking, message.text) == ("hm", "Hi there")


def test_a_refusal_is_text_with_a_mark() -> None:
    chunks = [
        event({"refusal": "I can't"}),
        event({"refusal": " do that"}),
        event({}, "stop"),
        DONE,
    ]

    message = decode(WIRE, chunks)

    assert message.content == [TextContent("I can't do that", "refusal")]


def test_only_the_first_of_several_choices_is_the_reply() -> None:
    both = {"choices": [{"index": 1, "delta": {"content": "no"}},
                        {"index": 0, "delta": {"content": "yes"}}]}  # fmt: skip
    other = {"choices": [{"index": 1, "delta": {"content": "no"}, "finish_reason": "length"}]}
    chunks = [b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in (both, other)]

    message = decode(WIRE, [*chunks, event({}, "stop"), DONE])

    assert (message.text, message.stop_reason) == ("yes", "stop")


def test_the_answer_says_who_spoke_only_if_nobody_was_asked() -> None:
    message = decode(WIRE, [event({"content": "x"}, model="gpt-9"), event({}, "stop"), DONE])

    assert (message.model, message.response_id) == ("gpt-9", "r1")


# -- usage -------------------------------------------------------------------------------------


def usage_of(**fields: Any) -> Any:
    body = [event({"content": "x"}), event({}, "stop", usage=fields), DONE]
    return decode(WIRE, body).usage


def test_case_042_cached_tokens_are_not_counted_twice() -> None:
    usage = usage_of(
        prompt_tokens=10_000, completion_tokens=5, prompt_tokens_details={"cached_tokens": 9_800}
    )

    assert (usage.input, usage.cache_read, usage.output) == (200, 9_800, 5)


@pytest.mark.parametrize(
    "field", ["cached_tokens", "prompt_cache_hit_tokens", "cache_read_input_tokens"]
)
def test_case_042_wherever_the_host_puts_them(field: str) -> None:
    usage = usage_of(prompt_tokens=100, completion_tokens=5, **{field: 90})

    assert (usage.input, usage.cache_read) == (10, 90)


def test_case_042_more_cached_than_asked_is_never_negative() -> None:
    usage = usage_of(
        prompt_tokens=347, completion_tokens=1, prompt_tokens_details={"cached_tokens": 403}
    )

    assert (usage.input, usage.cache_read) == (0, 403)


def test_reasoning_tokens_are_part_of_the_output() -> None:
    inside = usage_of(
        prompt_tokens=10,
        completion_tokens=50,
        total_tokens=60,
        completion_tokens_details={"reasoning_tokens": 40},
    )
    beside = usage_of(
        prompt_tokens=10,
        completion_tokens=10,
        total_tokens=60,
        completion_tokens_details={"reasoning_tokens": 40},
    )

    assert (inside.output, inside.reasoning) == (50, 40)
    assert (beside.output, beside.reasoning) == (50, 40)


def test_the_price_a_host_reports_is_kept() -> None:
    usage = usage_of(prompt_tokens=1, completion_tokens=1, cost=0.00123)

    assert usage.cost.total == 0.00123


def test_groq_usage_is_found_where_it_is() -> None:
    body = event({"content": "x"}, "stop", x_groq={"usage": {"prompt_tokens": 7}})

    assert decode(WIRE, [body, DONE]).usage.input == 7


# -- whatever comes ----------------------------------------------------------------------------

words = st.sampled_from(["", "a", "{", "}", '{"k":1}', "c1", "stop", "tool_calls", "error"])
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 2) | st.floats(allow_nan=False) | words,
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from([
            "choices", "delta", "content", "tool_calls", "function", "name", "arguments", "index", "id",
            "finish_reason", "usage", "error", "message", "reasoning", "reasoning_details", "type",
            "text", "thinking", "prompt_tokens", "completion_tokens_details", "x_groq", "refusal",
        ]),
        inner,
        max_size=4,
    ),
    max_leaves=12,
)  # fmt: skip
deltas = st.fixed_dictionaries(
    {},
    optional={
        "content": values,
        "reasoning": values,
        "reasoning_details": st.lists(values, max_size=2),
        "tool_calls": st.lists(values, max_size=2),
        "refusal": values,
    },
)
chunks = st.one_of(
    values,
    st.builds(lambda d, f: {"choices": [{"delta": d, "finish_reason": f}]}, deltas, values),
)


@settings(max_examples=300)
@given(st.lists(chunks, max_size=6), st.booleans())
def test_whatever_json_comes_the_stream_ends_once_and_nothing_is_raised(
    documents: list[Any], marked: bool
) -> None:
    body = b"".join([b"data: " + json.dumps(document).encode() + b"\n\n" for document in documents])

    events = decode_events(WIRE, [body + (DONE if marked else b"")])

    assert [type(event) in (Done, Error) for event in events].count(True) == 1
    assert isinstance(events[-1], Done | Error)
    starts = [e.type for e in events].count("start")
    assert starts <= 1
    for one in events[:-1]:
        assert one.to_dict(partials=True)


@settings(max_examples=100)
@given(st.binary(max_size=60))
def test_whatever_bytes_come_the_stream_ends_once_and_nothing_is_raised(body: bytes) -> None:
    assert isinstance(decode_events(WIRE, [body])[-1], Error)
