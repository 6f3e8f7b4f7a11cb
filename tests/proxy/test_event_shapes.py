"""The bytes between a proxy and its clients, as pi's own proxy and clients have them."""

from __future__ import annotations

import itertools
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.messages import (
    AssistantMessage,
    Cost,
    TextContent,
    ThinkingContent,
    ToolCall,
    Usage,
)
from loopwright.models import Context, Model
from loopwright.proxy.event_reader import EventReader
from loopwright.proxy.event_writer import ALIVE, KEEP_ALIVE, EventWriter
from loopwright.stream import (
    AssistantMessageEvent,
    Done,
    Error,
    ReplyBuilder,
    Retry,
    TextDelta,
)
from loopwright.testing import Call, Reply, ScriptedModel

MODEL = Model("acme", "large", "openai-chat")
USAGE = Usage(10, 5, total_tokens=15, cost=Cost(0.5, 0.25, 0.0, 0.0, 0.75))

PIS_BYTES = b"""\
data: {"type":"start"}

data: {"type":"thinking_start","contentIndex":0}

data: {"type":"thinking_delta","contentIndex":0,"delta":"Hm"}

data: {"type":"thinking_end","contentIndex":0,"contentSignature":"sig=="}

data: {"type":"text_start","contentIndex":1}

data: {"type":"text_delta","contentIndex":1,"delta":"Hel"}

data: {"type":"text_delta","contentIndex":1,"delta":"lo \xe6\xb1\x89\xf0\x9f\x99\x82"}

data: {"type":"text_end","contentIndex":1}

data: {"type":"toolcall_start","contentIndex":2,"id":"call_1","toolName":"read"}

data: {"type":"toolcall_delta","contentIndex":2,"delta":"{\\"path\\": "}

data: {"type":"toolcall_delta","contentIndex":2,"delta":"\\"a.txt\\"}"}

data: {"type":"toolcall_end","contentIndex":2}

data: {"type":"done","reason":"toolUse","usage":{"input":10,"output":5,"cacheRead":0,"cacheWrite":0,\
"totalTokens":15,"cost":{"input":0.5,"output":0.25,"cacheRead":0,"cacheWrite":0,"total":0.75}}}

"""
"""A whole reply as pi's server writes it and pi's client reads it."""


def a_reply() -> list[AssistantMessageEvent]:
    builder = ReplyBuilder(api="openai-chat", provider="acme", model="large")
    builder.update(response_id="resp_1")
    return [
        builder.start(),
        builder.thinking_start(),
        builder.thinking_delta(0, "Hm"),
        builder.thinking_end(0, signature="sig=="),
        builder.text_start(),
        builder.text_delta(1, "Hel"),
        builder.text_delta(1, "lo 汉🙂"),
        builder.text_end(1),
        builder.tool_call_start("call_1", "read"),
        builder.tool_call_delta(2, '{"path": '),
        builder.tool_call_delta(2, '"a.txt"}'),
        builder.tool_call_end(2),
        builder.done("toolUse", raw="tool_calls", usage=USAGE),
    ]


def read(*chunks: bytes, full: bool = False, model: Model = MODEL) -> list[AssistantMessageEvent]:
    builder = ReplyBuilder(api=model.api, provider=model.provider, model=model.id)
    reader = EventReader(model, builder, full=full)
    events: list[AssistantMessageEvent] = []
    for chunk in chunks:
        events += reader.feed(chunk)
        if reader.ended:
            return events
    return events + reader.finish()


def lines(*events: dict[str, Any], end: str = "\n\n") -> bytes:
    return "".join(f"data: {json.dumps(event)}{end}" for event in events).encode()


def plain(message: AssistantMessage) -> dict[str, Any]:
    return {name: value for name, value in message.to_dict().items() if name != "timestamp"}


def final(events: list[AssistantMessageEvent]) -> AssistantMessage:
    closing = events[-1]
    assert isinstance(closing, Done | Error)
    return closing.message if isinstance(closing, Done) else closing.error


def failed(events: list[AssistantMessageEvent]) -> Error:
    closing = events[-1]
    assert isinstance(closing, Error)
    return closing


START = {"type": "start"}
DONE = {"type": "done", "reason": "stop", "usage": {"input": 1, "output": 1, "totalTokens": 2}}
TEXT = {"type": "text_start", "contentIndex": 0}


def delta(text: str, index: int = 0, kind: str = "text") -> dict[str, Any]:
    return {"type": f"{kind}_delta", "contentIndex": index, "delta": text}


# -- pi's shapes -------------------------------------------------------------------------------


def test_a_reply_is_written_byte_for_byte_as_pi_has_it() -> None:
    assert EventWriter(MODEL).write(a_reply()) == PIS_BYTES


def test_what_pi_writes_is_read_back_as_the_same_events() -> None:
    events = read(PIS_BYTES)

    assert [event.type for event in events] == [event.type for event in a_reply()]
    message = final(events)
    assert message.content == final(a_reply()).content
    assert (message.stop_reason, message.usage) == ("toolUse", USAGE)
    assert (message.provider, message.model, message.api) == ("acme", "large", "openai-chat")


def test_partials_are_rebuilt_exact_for_each_event() -> None:
    partials = [
        event.partial.text for event in read(PIS_BYTES) if isinstance(event, TextDelta)
    ]  # looked at after everything was read

    assert partials == ["Hel", "Hello 汉🙂"]


@given(st.lists(st.integers(0, len(PIS_BYTES)), max_size=12))
def test_case_014_bytes_in_any_chunks_give_the_same_events(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(PIS_BYTES)]
    chunks = [PIS_BYTES[a:b] for a, b in itertools.pairwise(edges)]

    assert [e.to_dict() for e in read(*chunks)[:-1]] == [e.to_dict() for e in read(PIS_BYTES)[:-1]]


def test_bytes_one_by_one_give_the_same_message() -> None:
    assert plain(final(read(*(b"%c" % byte for byte in PIS_BYTES)))) == plain(
        final(read(PIS_BYTES))
    )


@pytest.mark.parametrize(
    "body",
    [
        lines(START, TEXT, delta("Hi"), DONE, end="\n"),
        lines(START, TEXT, delta("Hi"), DONE, end="\r\n\r\n"),
        lines(START, TEXT, delta("Hi"), DONE).replace(b"data: ", b"data:"),
        lines(START, TEXT, delta("Hi"), DONE).rstrip(b"\n"),
        b": hello\n\n" + KEEP_ALIVE + lines(START, TEXT, delta("Hi"), DONE),
        lines(START, TEXT, delta("Hi"), DONE) + b"data: {bad\n\n",
        lines(TEXT, delta("Hi"), DONE),
    ],
    ids=["one line break", "CRLF", "no space", "no last line break", "comments", "after the end",
         "no start"],
)  # fmt: skip
def test_the_lines_may_be_written_in_other_ways(body: bytes) -> None:
    events = read(body)

    assert [event.type for event in events] == [
        "start", "text_start", "text_delta", "text_end", "done",
    ]  # fmt: skip
    assert final(events).text == "Hi"


@pytest.mark.parametrize("cut", range(0, len(PIS_BYTES) - 3, 7))
def test_case_012_any_truncation_is_a_clean_retryable_error(cut: int) -> None:
    closing = failed(read(PIS_BYTES[:cut]))

    assert (closing.reason, closing.error.stop_reason) == ("error", "error")


def test_an_end_without_done_or_error_is_an_error_with_what_came() -> None:
    closing = failed(read(lines(START, TEXT, delta("Par"))))

    assert (closing.kind, closing.retryable) == ("incomplete_stream", True)
    assert closing.error.text == "Par"


@pytest.mark.parametrize(
    "events",
    [
        [START, delta("x")],
        [START, TEXT, delta("x", kind="thinking")],
        [START, TEXT, delta("x", kind="toolcall")],
        [START, TEXT, {"type": "thinking_end", "contentIndex": 0}],
        [START, {"type": "text_end", "contentIndex": 3}],
        [START, TEXT, TEXT],
        [START, {**DONE, "reason": "boredom"}],
        [START, {"no": "type"}],
        [START, {"type": "text_delta", "contentIndex": "zero"}],
        [START, {"type": "toolcall_start", "contentIndex": 0, "id": "1", "toolName": "a"},
         {"type": "toolcall_end", "contentIndex": 0, "toolCall": {"id": 7}}],
        [START, {**DONE, "usage": {"input": "many"}}],
    ],
)  # fmt: skip
def test_what_does_not_fit_is_one_error(events: list[dict[str, Any]]) -> None:
    read_events = read(lines(*events, DONE))

    assert failed(read_events).kind == "wire"
    assert [event.type for event in read_events].count("error") == 1


@pytest.mark.parametrize("data", [b"{bad", b"\xff\xfe", b"[" * 100_000, b'{"type": "\xff"}', b"7"])
def test_bytes_that_are_no_event_are_one_error(data: bytes) -> None:
    closing = failed(read(lines(START, TEXT, delta("Par")) + b"data: " + data + b"\n\n"))

    assert (closing.kind, closing.error.text) == ("wire", "Par")


def test_unknown_kinds_and_the_end_of_no_call_are_passed_over() -> None:
    events = read(
        lines(
            START,
            {"type": "weather", "contentIndex": 9, "further": [1]},
            {"type": "toolcall_end", "contentIndex": 5},
            TEXT,
            {"type": "toolcall_end", "contentIndex": 0},
            delta("Hi"),
            DONE,
        )
    )

    assert final(events).text == "Hi"


def test_sparse_indexes_are_given_anew_so_that_partials_can_be_looked_at() -> None:
    events = read(lines(START, {"type": "text_start", "contentIndex": 4}, delta("Hi", 4), DONE))

    (said,) = [event for event in events if isinstance(event, TextDelta)]
    assert said.partial.content[said.content_index] == TextContent("Hi")


def test_what_only_the_end_of_a_call_says_is_kept() -> None:
    call = {"type": "toolCall", "id": "call_2", "name": "look", "arguments": {"a": 1},
            "thoughtSignature": "ts", "namespace": "of a later version"}  # fmt: skip
    events = read(
        lines(
            START,
            {"type": "toolcall_start", "contentIndex": 0, "id": "call_1", "toolName": "read"},
            delta('{"a":1}', kind="toolcall"),
            {"type": "toolcall_end", "contentIndex": 0, "toolCall": call},
            {**DONE, "reason": "toolUse"},
        )
    )

    assert final(events).content == [ToolCall("call_2", "look", {"a": 1}, "ts")]


def test_an_error_is_told_with_its_reason() -> None:
    body = lines(START, TEXT, delta("Par"), {"type": "error", "reason": "aborted", "usage": {}})

    closing = failed(read(body))

    assert (closing.reason, closing.error.stop_reason) == ("aborted", "aborted")
    assert closing.error.text == "Par"


def test_an_error_is_written_as_pi_has_it() -> None:
    builder = ReplyBuilder()
    error = builder.error("No.", kind="overloaded", retryable=True)

    (written,) = EventWriter(MODEL).write([error]).decode().split("\n\n")[:-1]

    assert json.loads(written.removeprefix("data: ")) == {
        "type": "error",
        "reason": "error",
        "errorMessage": "No.",
        "usage": {
            "input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 0,
            "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0},
        },
    }  # fmt: skip


def test_a_price_that_a_server_of_pis_does_not_know_is_unknown_and_not_0() -> None:
    usage = {"input": 1, "output": 1, "totalTokens": 2,
             "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}}  # fmt: skip
    body = lines(START, {**DONE, "usage": usage})
    free = Model("acme", "large", "openai-chat", cost=Cost(0, 0, 0, 0))

    assert final(read(body)).usage.cost.total is None
    assert final(read(body, model=free)).usage.cost.total == 0


# -- what pi's shapes have no place for --------------------------------------------------------


def test_between_two_of_ours_nothing_of_the_message_is_lost() -> None:
    events = a_reply()

    back = read(EventWriter(MODEL, full=True).write(events), full=True)

    assert plain(final(back)) == plain(final(events))
    assert back[:-1] == events[:-1]


def test_between_two_of_ours_it_is_known_that_thinking_was_hidden() -> None:
    builder = ReplyBuilder(api="openai-chat", provider="acme", model="large")
    events: list[AssistantMessageEvent] = [
        builder.start(),
        builder.thinking_start(redacted=True),
        builder.thinking_end(0, signature="encrypted"),
        builder.done("stop"),
    ]

    back = read(EventWriter(MODEL, full=True).write(events), full=True)

    assert final(back).content == [ThinkingContent("", "encrypted", redacted=True)]


def test_between_two_of_ours_failures_say_whether_to_try_again_and_prices_may_be_unknown() -> None:
    builder = ReplyBuilder(api="openai-chat", provider="other", model="small")
    usage = Usage(3, 0, total_tokens=3)
    error = builder.error(
        "Busy.", usage=usage, kind="rate_limit", retryable=True, retry_after_seconds=3.0
    )
    retry = Retry(2, 4, 0.5, "Busy.", usage)

    back = read(EventWriter(MODEL, full=True).write([retry, error]), full=True)

    assert back[0] == retry
    closing = failed(back)
    assert (closing.kind, closing.retryable, closing.retry_after_seconds) == (
        "rate_limit", True, 3.0,
    )  # fmt: skip
    assert closing.error.usage == usage
    assert (closing.error.provider, closing.error.model) == ("other", "small")


def test_others_see_a_retry_as_a_sign_of_life() -> None:
    assert EventWriter(MODEL).write([Retry(2, 4, 0.5, "Busy.")]) == ALIVE


def test_a_last_word_that_is_longer_than_its_pieces_is_sent_as_a_piece() -> None:
    builder = ReplyBuilder()
    events: list[AssistantMessageEvent] = [
        builder.start(),
        builder.text_start(),
        builder.text_delta(0, "Hel"),
        builder.text_end(0, text="Hello"),
        builder.done("stop"),
    ]

    assert final(read(EventWriter(MODEL).write(events))).text == "Hello"


def test_a_call_given_as_a_whole_is_sent_in_pieces_too() -> None:
    """Pi's older clients read the arguments from the pieces only."""
    builder = ReplyBuilder()
    start = builder.tool_call_start("c", "add")
    end = builder.tool_call_end(0, arguments={"a": 1})

    written = EventWriter(MODEL).write([start, end])

    assert b'"toolcall_delta","contentIndex":0,"delta":"{\\"a\\":1}"' in written
    assert b"toolCall" not in written


@pytest.mark.parametrize("raw", ['{"a": 1', "[1]", '{"a": "x\ny"}', "", "null", "plain words"])
@pytest.mark.parametrize("full", [True, False])
async def test_case_002_arguments_that_are_none_stay_what_they_were(raw: str, full: bool) -> None:
    model = ScriptedModel([Reply(calls=[Call("add", raw=raw)])])
    events = [event async for event in model.stream_fn(model.model, Context())]

    back = read(EventWriter(model.model, full=full).write(events), full=full)

    assert final(back).content == final(events).content


scripted = st.builds(
    Reply,
    st.text(max_size=20),
    calls=st.lists(
        st.builds(
            Call,
            st.sampled_from(["a", "b"]),
            st.dictionaries(st.text(max_size=4), st.integers() | st.text(max_size=4), max_size=3),
            st.sampled_from(["1", "2", "3"]),
        ),
        max_size=3,
    ),
    thinking=st.text(max_size=20),
    thinking_signature=st.none() | st.text(max_size=8),
    chunk_size=st.none() | st.integers(1, 5),
)


@given(scripted)
async def test_any_reply_comes_through_as_it_was(reply: Reply) -> None:
    model = ScriptedModel([reply])
    events = [event async for event in model.stream_fn(model.model, Context())]

    back = read(EventWriter(model.model, full=True).write(events), full=True, model=model.model)

    assert plain(final(back)) == plain(final(events))
