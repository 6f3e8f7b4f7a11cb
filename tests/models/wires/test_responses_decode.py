"""What hosts of Responses send, well-formed or not, becomes one clean reply."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from loopwright.messages import AssistantMessage, TextContent, ThinkingContent
from loopwright.stream import (
    AssistantMessageEvent,
    Done,
    Error,
    Start,
    TextDelta,
    ThinkingStart,
    ToolCallDelta,
)
from loopwright.testing import decode
from loopwright.testing.decode import decode_events

from ..recordings import (
    RECORDINGS,
    bodies,
    comparable,
    cut_at_random,
    needs_recordings,
    one_by_one,
    sidecar,
    without_time,
)
from .responses_bodies import (
    CREATED,
    USAGE,
    added,
    call,
    closed,
    completed,
    event,
    grown,
    part,
    said,
)

WIRE = "openai-responses"
LLAMA_CPP = RECORDINGS.parent / "vendors" / "llamacpp"


def reply(*pieces: bytes, **flags: Any) -> AssistantMessage:
    return decode(WIRE, [CREATED, *pieces], flags=flags)


def events(*pieces: bytes) -> list[AssistantMessageEvent]:
    return decode_events(WIRE, [CREATED, *pieces])


def error_of(*pieces: bytes) -> Error:
    closing = decode_events(WIRE, pieces)[-1]
    assert isinstance(closing, Error)
    return closing


# -- text --------------------------------------------------------------------------------------


def test_a_plain_reply() -> None:
    message = reply(*said(0, "Hel", "lo"), completed())

    assert (message.text, message.stop_reason, message.raw_stop_reason) == (
        "Hello",
        "stop",
        "completed",
    )
    assert message.response_id == "resp_1"
    assert message.content == [TextContent("Hello", '{"id":"msg_0"}')]


def test_events_come_in_order() -> None:
    got = events(*said(0, "a", "b"), *call(1, "look", "{", "}"), completed())

    assert [event.type for event in got] == [
        "start",
        "text_start", "text_delta", "text_delta", "text_end",
        "toolcall_start", "toolcall_delta", "toolcall_delta", "toolcall_end",
        "done",
    ]  # fmt: skip


def test_the_phase_and_the_citations_of_a_message_are_kept_in_its_signature() -> None:
    cited = {"type": "url_citation", "url": "https://example.org", "start_index": 0}
    item = {"type": "message", "id": "msg_0", "phase": "commentary"}

    message = reply(
        added(0, **item, content=[]),
        grown("output_text", "See there", item_id="msg_0", output_index=0, content_index=0),
        closed(0, **item, content=[part("See there", annotations=[cited])]),
        completed(),
    )

    (block,) = message.content
    assert isinstance(block, TextContent)
    assert block.text_signature is not None
    assert json.loads(block.text_signature) == {
        "id": "msg_0",
        "phase": "commentary",
        "annotations": [cited],
    }


def test_citations_of_a_part_that_is_followed_by_another_are_kept_too() -> None:
    cited = {"type": "file_citation", "file_id": "f"}
    place = {"item_id": "m", "output_index": 0}

    message = reply(
        added(0, type="message", id="m", content=[]),
        grown("output_text", "one", content_index=0, **place),
        event(
            "response.content_part.done",
            content_index=0, part=part("one", annotations=[cited]), **place,
        ),
        grown("output_text", "two", content_index=1, **place),
        closed(0, type="message", id="m", content=[part("one"), part("two")]),
        completed(),
    )  # fmt: skip

    assert [block.text for block in message.content if type(block) is TextContent] == ["one", "two"]
    assert "file_citation" in (getattr(message.content[0], "text_signature", "") or "")


def test_a_refusal_is_text_with_a_mark() -> None:
    place = {"item_id": "m", "output_index": 0, "content_index": 0}

    message = reply(
        added(0, type="message", id="m", content=[]),
        grown("refusal", "I can", **place),
        grown("refusal", "not.", **place),
        closed(0, type="message", id="m", content=[{"type": "refusal", "refusal": "I cannot."}]),
        completed(),
    )

    assert message.content == [TextContent("I cannot.", "refusal")]
    assert message.stop_reason == "stop"


def test_an_empty_message_gives_no_block() -> None:
    assert reply(*said(0), completed()).content == []


def test_the_final_form_of_an_item_has_the_last_word() -> None:
    item = {"type": "message", "id": "m"}

    shorter = events(
        added(0, **item, content=[]),
        grown("output_text", "Hel", item_id="m", output_index=0, content_index=0),
        closed(0, **item, content=[part("Hello")]),
        completed(),
    )
    other = reply(
        added(0, **item, content=[]),
        grown("output_text", "Hullo", item_id="m", output_index=0, content_index=0),
        closed(0, **item, content=[part("Hello")]),
        completed(),
    )

    assert "".join([e.delta for e in shorter if isinstance(e, TextDelta)]) == "Hello"
    assert other.text == "Hello"


def test_items_that_never_came_as_deltas_are_said_at_their_end() -> None:
    message = reply(
        closed(0, type="reasoning", id="rs_0", summary=[{"type": "summary_text", "text": "T"}]),
        closed(1, type="message", id="m", content=[part("one"), part("two")]),
        closed(2, type="function_call", id="fc_2", call_id="c", name="look", arguments='{"a":1}'),
        completed(),
    )

    assert (message.thinking, message.text) == ("T", "onetwo")
    assert message.tool_calls[0].arguments == {"a": 1}


def test_items_that_only_the_whole_response_has_are_read_from_there() -> None:
    output = [
        {"type": "message", "id": "m", "content": [part("Hello")]},
        {"type": "function_call", "id": "fc_1", "call_id": "c", "name": "look", "arguments": "{}"},
    ]

    nothing_before = reply(completed(output=output))
    call_never_closed = reply(
        *said(0, "Hello"),
        added(1, type="function_call", id="fc_1", call_id="c", name="look", arguments=""),
        completed(output=output),
    )

    assert nothing_before.text == call_never_closed.text == "Hello"
    assert nothing_before.tool_calls == call_never_closed.tool_calls
    assert nothing_before.stop_reason == "toolUse"


def test_a_host_that_does_not_stream_is_understood() -> None:
    body = {
        "object": "response",
        "id": "resp_9",
        "status": "completed",
        "output": [{"type": "message", "id": "m", "content": [part("Hello")]}],
        "usage": USAGE,
    }

    message = decode(WIRE, [json.dumps(body).encode()])

    assert (message.text, message.response_id, message.usage.output) == ("Hello", "resp_9", 4)


# -- where a delta belongs ---------------------------------------------------------------------


def test_items_are_found_without_any_index() -> None:
    """llama.cpp sends ids only."""
    message = reply(
        added(None, type="message", id="msg_a", content=[]),
        grown("output_text", "Hi", item_id="msg_a"),
        closed(None, type="message", id="msg_a", content=[part("Hi")]),
        added(None, type="function_call", id="fc_a", call_id="c", name="look", arguments=""),
        grown("function_call_arguments", '{"a"', item_id="fc_a"),
        grown("function_call_arguments", ":1}", item_id="fc_a"),
        closed(None, type="function_call", id="fc_a", call_id="c", name="look", arguments=""),
        completed(),
    )

    assert message.text == "Hi"
    assert message.tool_calls[0].arguments == {"a": 1}


def test_items_are_found_by_index_where_ids_change() -> None:
    """GitHub Copilot gives an item another id in every event."""
    message = reply(
        added(0, type="reasoning", id="a", summary=[]),
        grown("reasoning_summary_text", "T", item_id="b", output_index=0, summary_index=0),
        closed(0, type="reasoning", id="c", summary=[{"type": "summary_text", "text": "T"}]),
        added(1, type="message", id="d", content=[]),
        grown("output_text", "H", item_id="e", output_index=1, content_index=0),
        grown("output_text", "i", item_id="f", output_index=1, content_index=0),
        closed(1, type="message", id="g", content=[part("Hi")]),
        completed(output=[
            {"type": "reasoning", "id": "h", "summary": []},
            {"type": "message", "id": "i", "content": [part("Hi")]},
        ]),
    )  # fmt: skip

    assert (message.thinking, message.text) == ("T", "Hi")


def test_items_without_any_place_are_found_by_their_kind() -> None:
    message = reply(
        added(None, type="message", content=[]),
        grown("output_text", "Hi"),
        added(None, type="function_call", call_id="c", name="look", arguments=""),
        grown("function_call_arguments", "{}"),
        completed(),
    )

    assert (message.text, [c.id for c in message.tool_calls]) == ("Hi", ["c"])


def test_text_that_was_never_announced_is_text() -> None:
    message = reply(grown("output_text", "Hi", item_id="m", output_index=0), completed())

    assert message.text == "Hi"


def test_reasoning_that_is_closed_behind_the_text_keeps_its_place() -> None:
    """OpenRouter closes items late."""
    reasoning = {"type": "reasoning", "id": "rs_0"}
    message = reply(
        added(0, **reasoning, summary=[]),
        grown("reasoning_text", "T", item_id="rs_0", output_index=0, content_index=0),
        *said(1, "Hi"),
        closed(0, **reasoning, content=[{"type": "reasoning_text", "text": "T"}]),
        completed(),
    )

    assert [type(block) for block in message.content] == [ThinkingContent, TextContent]


def test_interleaved_calls_are_kept_apart() -> None:
    first, second = call(0, "add", '{"a":', "1}"), call(1, "mul", '{"a":', "2}")
    mixed = [piece for pair in zip(first, second, strict=True) for piece in pair]

    got = events(*mixed, completed())

    closing = got[-1]
    assert isinstance(closing, Done)
    assert [(c.name, c.arguments) for c in closing.message.tool_calls] == [
        ("add", {"a": 1}),
        ("mul", {"a": 2}),
    ]
    assert [e.content_index for e in got if isinstance(e, ToolCallDelta)] == [0, 1, 0, 1]


def test_fields_of_unexpected_types_do_no_harm() -> None:
    message = reply(
        grown("output_text", "Hi", item_id=7, output_index="0", content_index=None),
        event("response.output_text.delta", delta=["not", "text"]),
        completed(),
    )

    assert message.text == "Hi"


# -- thinking ----------------------------------------------------------------------------------


def test_parts_of_a_summary_are_blocks_and_the_last_one_holds_the_item() -> None:
    item = {
        "type": "reasoning",
        "id": "rs_0",
        "encrypted_content": "gAAA",
        "summary": [{"type": "summary_text", "text": t} for t in ("One", "Two")],
    }
    place = {"item_id": "rs_0", "output_index": 0}

    message = reply(
        added(0, type="reasoning", id="rs_0", summary=[]),
        grown("reasoning_summary_text", "One", summary_index=0, **place),
        grown("reasoning_summary_text", "Two", summary_index=1, **place),
        closed(0, **item),
        *said(1, "Hi"),
        completed(),
    )

    first, last, _ = message.content
    assert first == ThinkingContent("One")
    assert isinstance(last, ThinkingContent)
    assert (last.thinking, last.redacted) == ("Two", False)
    assert json.loads(last.thinking_signature or "") == item


def test_case_017_the_item_is_kept_byte_for_byte() -> None:
    text = '{"type":"reasoning", "id":"rs_0",  "summary":[], "encrypted_content":"g\\u00e4=\\/"}'
    body = f'data: {{"type":"response.output_item.done","output_index":0,"item":{text}}}\n\n'

    message = reply(body.encode(), *said(1, "Hi"), completed())

    assert message.content[0] == ThinkingContent("", text, redacted=True)


def test_hidden_reasoning_is_announced_only_when_it_is_complete() -> None:
    """A vendor that fails while it thinks may still be asked again."""
    got = events(added(0, type="reasoning", id="rs_0", summary=[]))

    assert not [event for event in got if isinstance(event, ThinkingStart)]


def test_raw_reasoning_is_thinking() -> None:
    content = [{"type": "reasoning_text", "text": "need the date"}]
    place = {"item_id": "x", "output_index": 0, "content_index": 0}

    message = reply(
        added(0, type="reasoning", id="x", summary=[], content=[]),
        grown("reasoning_text", "need the ", **place),
        grown("reasoning_text", "date", **place),
        closed(0, type="reasoning", id="x", summary=[], content=content),
        completed(),
    )

    assert message.thinking == "need the date"


@pytest.mark.parametrize(
    "item",
    [
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"q": "x"}},
        {"type": "compaction", "id": "cmp_1", "encrypted_content": "g"},
        {"type": "something_new", "id": "x_1", "arguments": {"deep": [1]}, "content": "odd"},
    ],
    ids=lambda item: item["type"],
)
def test_items_of_the_vendors_own_pass_through(item: dict[str, Any]) -> None:
    message = reply(
        added(0, type=item["type"], id=item["id"]),
        event(f"response.{item['type']}.in_progress", item_id=item["id"], output_index=0),
        closed(0, **item),
        *said(1, "Found."),
        completed(),
    )

    hidden, text = message.content
    assert isinstance(hidden, ThinkingContent)
    assert (hidden.thinking, hidden.redacted, text.type) == ("", True, "text")
    assert json.loads(hidden.thinking_signature or "") == item
    assert message.stop_reason == "stop", "case 009: calls the vendor runs do not count"


# -- calls -------------------------------------------------------------------------------------


def test_a_call_has_the_ids_of_the_call_and_of_the_item() -> None:
    message = reply(*call(0, "look", '{"a":1}'), completed())

    (made,) = message.tool_calls
    assert (made.id, made.name, made.arguments) == ("call_0|fc_0", "look", {"a": 1})
    assert (message.stop_reason, message.raw_stop_reason) == ("toolUse", "completed")


@pytest.mark.parametrize("text", ["", "   ", "null"])
def test_case_001_no_arguments_are_an_empty_object(text: str) -> None:
    (made,) = reply(*call(0, "clock", text), completed()).tool_calls

    assert (made.arguments, made.arguments_error) == ({}, None)


@pytest.mark.parametrize("text", ["[1]", '"notes.md"', "17"])
def test_case_002_arguments_that_are_no_object_are_kept_and_explained(text: str) -> None:
    (made,) = reply(*call(0, "open", text), completed()).tool_calls

    assert (made.arguments, made.raw_arguments) == ({}, text)
    assert made.arguments_error


def test_arguments_that_come_as_an_object_or_only_at_the_end_are_taken() -> None:
    item = {"type": "function_call", "id": "fc_0", "call_id": "c", "name": "look"}

    as_object = reply(closed(0, **item, arguments={"a": 1}), completed())
    at_the_end = reply(
        added(0, **item, arguments=""),
        event("response.function_call_arguments.done", item_id="fc_0", arguments='{"a":1}'),
        completed(),
    )

    assert as_object.tool_calls == at_the_end.tool_calls
    assert as_object.tool_calls[0].arguments == {"a": 1}


def test_a_custom_tool_call_is_a_call_with_its_text_as_input() -> None:
    item = {"type": "custom_tool_call", "id": "ctc_0", "call_id": "c", "name": "sql"}
    place = {"item_id": "ctc_0", "output_index": 0}

    got = events(
        added(0, **item, input=""),
        grown("custom_tool_call_input", 'SELECT "a', **place),
        grown("custom_tool_call_input", '"\n', **place),
        closed(0, **item, input='SELECT "a"\n'),
        completed(),
    )

    closing = got[-1]
    assert isinstance(closing, Done)
    (made,) = closing.message.tool_calls
    assert (made.id, made.name, made.arguments) == ("c|ctc_0", "sql", {"input": 'SELECT "a"\n'})
    assert made.thought_signature == '{"type":"custom_tool_call"}'
    assert closing.reason == "toolUse"


def test_who_called_is_kept_with_the_call() -> None:
    caller = {"type": "program", "caller_id": "call_p"}

    (made,) = reply(*call(0, "look", "{}", caller=caller), completed()).tool_calls

    assert json.loads(made.thought_signature or "") == {"caller": caller}


def test_case_016_a_repeated_id_is_told_apart() -> None:
    item = {"type": "function_call", "call_id": "x", "name": "look", "arguments": "{}"}

    message = reply(closed(0, **item), closed(1, **item), completed())

    assert [c.id for c in message.tool_calls] == ["x", "x_2"]


def test_case_007_a_piece_of_no_call_is_an_error() -> None:
    closing = error_of(CREATED, grown("function_call_arguments", "{}", item_id="fc_9"))

    assert "belongs to no call" in (closing.error.error_message or "")


# -- the end -----------------------------------------------------------------------------------


def test_case_004_a_reply_cut_by_the_limit_says_so_even_with_calls() -> None:
    message = reply(
        added(0, type="function_call", id="fc_0", call_id="c", name="write", arguments=""),
        grown("function_call_arguments", '{"path":"a.md","content":"# Ti', item_id="fc_0"),
        completed("incomplete", incomplete_details={"reason": "max_output_tokens"}),
    )

    assert (message.stop_reason, message.raw_stop_reason) == ("length", "incomplete")
    assert message.tool_calls[0].arguments_error


@pytest.mark.parametrize(
    ("details", "kind"),
    [({"reason": "content_filter"}, "refused"), ({"reason": "moon"}, None), (None, None)],
)
def test_other_reasons_for_an_incomplete_reply_are_errors(
    details: dict[str, str] | None, kind: str | None
) -> None:
    closing = error_of(
        CREATED, *said(0, "Par"), completed("incomplete", incomplete_details=details)
    )

    assert closing.error.text == "Par"
    assert closing.error.raw_stop_reason == "incomplete"
    assert closing.error.usage.output == 4
    assert not closing.retryable
    assert kind is None or closing.kind == kind
    assert str((details or {}).get("reason")) in (closing.error.error_message or "")


def test_a_host_that_calls_everything_completed_is_measured() -> None:
    pieces = [*said(0, "Once upon a"), completed()]

    assert reply(*pieces, length_says_completed=True, max_tokens=4).stop_reason == "length"
    assert reply(*pieces, length_says_completed=True, max_tokens=5).stop_reason == "stop"
    assert reply(*pieces, length_says_completed=True, max_tokens=None).stop_reason == "stop"
    assert reply(*pieces, max_tokens=4).stop_reason == "stop"


def test_case_013_a_response_that_failed_is_an_error_of_its_own_kind() -> None:
    overloaded = error_of(
        CREATED,
        *said(0, "Par"),
        completed("failed", error={"code": "server_error", "message": "Sorry"}),
    )
    invalid = error_of(
        CREATED, completed("failed", error={"code": "invalid_prompt", "message": "No"})
    )
    silent = error_of(CREATED, completed("failed", error=None))

    assert (overloaded.kind, overloaded.retryable) == ("overloaded", True)
    assert (overloaded.error.text, overloaded.error.raw_stop_reason) == ("Par", "failed")
    assert not invalid.retryable
    assert "failed" in (silent.error.error_message or "")


@pytest.mark.parametrize(
    "body",
    [
        event("error", code="rate_limit_exceeded", message="Slow down", param=None),
        event("error", error={"type": "rate_limit_error", "message": "Slow down"}),
        b'data: {"error":{"code":"rate_limit_exceeded","message":"Slow down"}}\n\n',
        b'{"error":{"code":"rate_limit_exceeded","message":"Slow down"}}',
    ],
)
def test_case_013_an_error_event_in_each_form(body: bytes) -> None:
    closing = error_of(body)

    assert (closing.kind, closing.retryable) == ("rate_limit", True)
    assert "Slow down" in (closing.error.error_message or "")


def test_what_follows_an_error_is_not_read() -> None:
    got = events(event("error", code="server_error", message="x"), *said(0, "late"), completed())

    assert [type(e) for e in got] == [Start, Error]


@pytest.mark.parametrize("status", ["cancelled", "exploded"])
def test_a_status_nobody_knows_is_an_error_with_the_word(status: str) -> None:
    closing = error_of(CREATED, *said(0, "Hi"), event("response.done", response={"status": status}))

    assert closing.error.stop_reason == "error"
    assert closing.error.raw_stop_reason == status
    assert repr(status) in (closing.error.error_message or "")


def test_case_009_complete_calls_win_over_an_odd_status() -> None:
    message = reply(*call(0, "look", "{}"), event("response.done", response={"status": "odd"}))

    assert (message.stop_reason, message.raw_stop_reason) == ("toolUse", "odd")


def test_an_end_without_a_status_is_the_one_its_name_says() -> None:
    assert reply(*said(0, "Hi"), event("response.completed", response={})).stop_reason == "stop"
    assert reply(*said(0, "Hi"), event("response.done", response={})).stop_reason == "stop"


@pytest.mark.parametrize("tail", [b"", b"data: [DONE]\n\n", b'data: {"type":"respon'])
def test_case_012_a_body_without_its_end_is_incomplete(tail: bytes) -> None:
    closing = error_of(CREATED, *said(0, "The result", " is"), tail)

    assert (closing.kind, closing.retryable) == ("incomplete_stream", True)
    assert closing.error.text == "The result is"


def test_an_empty_body_is_incomplete() -> None:
    assert error_of(b"").kind == "incomplete_stream"


def test_garbage_is_an_error_that_shows_it() -> None:
    assert error_of(b"data: oops\n\n").kind == "wire"
    assert "<html>" in (error_of(b"<html>Bad gateway</html>").error.error_message or "")


def test_done_behind_the_end_is_no_matter() -> None:
    assert reply(*said(0, "Hi"), completed(), b"data: [DONE]\n\n").stop_reason == "stop"


def test_any_truncation_is_an_error_or_the_whole() -> None:
    whole = b"".join([
        CREATED,
        closed(0, type="reasoning", id="rs_0", encrypted_content="g", summary=[]),
        *said(1, "汉🙂"),
        *call(2, "look", '{"a":', "1}"),
        completed(),
    ])  # fmt: skip

    for end in range(len(whole)):
        message = decode(WIRE, [whole[:end]])
        assert message.stop_reason in ("error", "toolUse")
        if message.stop_reason == "toolUse":
            assert end >= len(whole) - 2, "all but the blank line was there"


@pytest.mark.parametrize("line_end", [b"\n", b"\r\n", b"\r"])
def test_case_014_case_015_any_chunking_gives_the_same_events(line_end: bytes) -> None:
    body = b"".join([
        b": keep-alive\n\n",
        CREATED,
        event("keepalive", sequence_number=3),
        *said(0, "汉🙂", "e\u0301".encode().decode()),
        *call(1, "look", '{"q":"', '🙂"}'),
        completed(),
    ]).replace(b"\n", line_end)  # fmt: skip
    expected = comparable(decode_events(WIRE, [body]))
    chance = random.Random(1)

    assert comparable(decode_events(WIRE, one_by_one(body))) == expected
    for _ in range(20):
        assert comparable(decode_events(WIRE, cut_at_random(body, chance))) == expected


# -- usage -------------------------------------------------------------------------------------


def test_case_042_cached_tokens_are_not_counted_twice() -> None:
    usage = reply(*said(0, "Hi"), completed()).usage

    assert (usage.input, usage.cache_read, usage.output) == (7, 3, 4)
    assert (usage.reasoning, usage.total_tokens) == (1, 14)


def test_case_042_more_cached_than_sent_is_no_negative_number() -> None:
    odd = {"input_tokens": 2, "output_tokens": 1, "input_tokens_details": {"cached_tokens": 5}}

    assert reply(*said(0, "Hi"), completed(usage=odd)).usage.input == 0


def test_written_cache_is_counted_apart() -> None:
    details = {"cached_tokens": 0, "cache_write_tokens": 43}
    counts = {"input_tokens": 158, "output_tokens": 32, "input_tokens_details": details}

    usage = reply(*said(0, "Hi"), completed(usage=counts)).usage

    assert (usage.input, usage.cache_write, usage.total_tokens) == (115, 43, 190)


def test_no_usage_is_unknown() -> None:
    message = reply(*said(0, "Hi"), completed(usage=None))

    assert (message.stop_reason, message.usage.known) == ("stop", False)


def test_what_the_vendor_charges_is_taken_over() -> None:
    dollars = reply(*said(0, "Hi"), completed(usage={**USAGE, "cost": 0.25}))
    ticks = reply(*said(0, "Hi"), completed(usage={**USAGE, "cost_in_usd_ticks": 3_515_000}))

    assert dollars.usage.cost.total == 0.25
    assert ticks.usage.cost.total == pytest.approx(0.0003515)


# -- recordings --------------------------------------------------------------------------------

RECORDED = bodies(WIRE)


def without_custom(message: AssistantMessage) -> list[Any]:
    return [c for c in message.tool_calls if "custom_tool_call" not in (c.thought_signature or "")]


@needs_recordings
@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_a_recording_says_what_the_sdk_says(file: Path) -> None:
    expected, extra = sidecar(file)["expected"], sidecar(file)["extra"]

    message = decode(WIRE, [file.read_bytes()])

    assert message.text == expected["text"] + (extra.get("refusal") or "")
    assert message.thinking == expected["thinking"]
    assert [(c.id.partition("|")[0], c.name, c.arguments) for c in without_custom(message)] == [
        (c["id"], c["name"], c["arguments"] or {}) for c in expected["tool_calls"]
    ]
    custom = [c for c in message.tool_calls if c not in without_custom(message)]
    assert [(c.name, c.arguments["input"]) for c in custom] == [
        (c["name"], c["arguments"]) for c in extra.get("custom_tool_calls") or ()
    ]
    assert message.raw_stop_reason == expected["stop"]
    assert (message.stop_reason == "error") == bool(expected["error"])
    assert (expected["error"] or "") in (message.error_message or "")


@needs_recordings
@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_usage_of_a_recording_follows_our_way_of_counting(file: Path) -> None:
    raw = sidecar(file)["expected"]["usage"]

    usage = decode(WIRE, [file.read_bytes()]).usage

    if raw["input"] is None:
        assert usage.is_empty
        return
    assert usage.input == raw["input"] - (raw["cache_read"] or 0) - (raw["cache_write"] or 0)
    assert (usage.output, usage.reasoning) == (raw["output"], raw["reasoning"])
    assert (usage.cache_read, usage.total_tokens) == (raw["cache_read"] or 0, raw["total"])


@needs_recordings
@pytest.mark.parametrize("file", RECORDED, ids=lambda file: file.stem)
def test_any_chunking_of_a_recording_gives_the_same_message(file: Path) -> None:
    body = file.read_bytes()
    whole = without_time(decode(WIRE, [body]))
    chance = random.Random(file.stem)

    if len(body) < 400_000:  # one holds an image, which is long but not interesting
        assert without_time(decode(WIRE, one_by_one(body))) == whole
    for _ in range(5):
        assert without_time(decode(WIRE, cut_at_random(body, chance))) == whole


@needs_recordings
@pytest.mark.parametrize("file", RECORDED[::3], ids=lambda file: file.stem)
def test_any_truncation_of_a_recording_is_a_clean_error(file: Path) -> None:
    body = file.read_bytes().rstrip()
    end_of_reply = body.rfind(b'"type":"response.')
    chance = random.Random(file.stem)

    for end in chance.choices(range(min(end_of_reply, len(body))), k=40):
        message = decode(WIRE, [body[:end]])

        assert message.stop_reason == "error"
        assert message.error_message


@needs_recordings
@pytest.mark.parametrize(
    ("name", "stop_reason", "flags"),
    [
        ("responses_tool", "toolUse", {}),
        ("responses_length", "stop", {}),
        ("responses_length", "length", {"length_says_completed": True, "max_tokens": 4}),
    ],
)
def test_a_recording_of_llama_cpp(name: str, stop_reason: str, flags: dict[str, Any]) -> None:
    message = decode(WIRE, [(LLAMA_CPP / f"{name}.sse.txt").read_bytes()], flags=flags)

    assert message.stop_reason == stop_reason
    assert [c.arguments for c in message.tool_calls] in ([], [{"a": 17, "b": 25}])
    assert message.text in ("", "The Night Circus")
