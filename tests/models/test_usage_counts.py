"""Usage that arrives in several objects: no later object takes away what an earlier one counted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.messages import AssistantMessage, Usage
from loopwright.models.usage_counts import UsageCounts, output_tokens
from loopwright.models.wires import load_wire
from loopwright.stream import AssistantMessageEvent, AssistantStream, ReplyBuilder
from loopwright.testing import decode

from .wires import bedrock_frames as bedrock
from .wires import responses_bodies as responses

Fields = dict[str, Any]


def data(**fields: Any) -> bytes:
    return f"data: {json.dumps(fields)}\n\n".encode()


def anthropic(usages: list[Fields]) -> list[bytes]:
    return [
        data(type="message_start", message={"id": "m", "usage": usages[0]}),
        data(type="content_block_start", index=0, content_block={"type": "text", "text": "Hi"}),
        *(data(type="message_delta", delta={}, usage=usage) for usage in usages[1:]),
        data(type="message_delta", delta={"stop_reason": "end_turn"}),
        data(type="message_stop"),
    ]


def chat(usages: list[Fields]) -> list[bytes]:
    choice = {"index": 0, "delta": {"content": "Hi"}, "finish_reason": None}
    return [
        *(data(choices=[choice], usage=usage) for usage in usages),
        data(choices=[{**choice, "delta": {}, "finish_reason": "stop"}]),
        b"data: [DONE]\n\n",
    ]


def openai_responses(usages: list[Fields]) -> list[bytes]:
    return [
        *(
            data(type="response.in_progress", response={"id": "r", "usage": usage})
            for usage in usages[:-1]
        ),
        *responses.said(0, "Hi"),
        responses.completed(usage=usages[-1]),
    ]


def gemini(usages: list[Fields]) -> list[bytes]:
    said = {"content": {"parts": [{"text": "Hi"}]}}
    return [
        *(data(candidates=[said], usageMetadata=usage) for usage in usages),
        data(candidates=[{**said, "finishReason": "STOP"}]),
    ]


def converse(usages: list[Fields]) -> list[bytes]:
    return [
        bedrock.START,
        *(bedrock.event("metadata", usage=usage) for usage in usages),
        *bedrock.text(0, "Hi"),
        *bedrock.stopped("end_turn", outputTokens=0),
    ]


def anthropic_fields(read: Any, cached: Any, out: Any, total: Any) -> Fields:
    return {"input_tokens": read, "cache_read_input_tokens": cached, "output_tokens": out}


def chat_fields(read: Any, cached: Any, out: Any, total: Any) -> Fields:
    return {
        "prompt_tokens": read and read + (cached or 0),
        "prompt_tokens_details": {"cached_tokens": cached},
        "completion_tokens": out,
        "total_tokens": total,
    }


def responses_fields(read: Any, cached: Any, out: Any, total: Any) -> Fields:
    return {
        "input_tokens": read and read + (cached or 0),
        "input_tokens_details": {"cached_tokens": cached},
        "output_tokens": out,
        "total_tokens": total,
    }


def gemini_fields(read: Any, cached: Any, out: Any, total: Any) -> Fields:
    return {
        "promptTokenCount": read and read + (cached or 0),
        "cachedContentTokenCount": cached,
        "candidatesTokenCount": out,
        "totalTokenCount": total,
    }


def converse_fields(read: Any, cached: Any, out: Any, total: Any) -> Fields:
    return {
        "inputTokens": read,
        "cacheReadInputTokens": cached,
        "outputTokens": out,
        "totalTokens": total,
    }


WIRES: dict[str, tuple[Callable[[list[Fields]], list[bytes]], Callable[..., Fields]]] = {
    "anthropic-messages": (anthropic, anthropic_fields),
    "openai-chat": (chat, chat_fields),
    "mistral": (chat, chat_fields),
    "openai-responses": (openai_responses, responses_fields),
    "google-gemini": (gemini, gemini_fields),
    "bedrock-converse": (converse, converse_fields),
}
ROWS = {
    "zeros last": [(100, 5000, 1, 5101), (0, 0, 7, 0)],
    "zeros first": [(0, 0, 0, 0), (100, 5000, 7, 5107)],
    "nulls last": [(100, 5000, 7, 5107), (None, None, None, None)],
    "only the output last": [(100, 5000, 1, 5101), (None, None, 7, None)],
    "a lower output last": [(100, 5000, 9, 5107), (None, None, 7, None)],
    "a larger input last": [(10, 50, 7, 67), (100, 5000, 7, 5107)],
    "zeros between": [(100, 5000, 1, 5101), (0, 0, 0, 0), (0, None, 7, 5107)],
}


def usage_of(wire: str, usages: list[Fields]) -> Usage:
    message = decode(wire, WIRES[wire][0](usages))
    assert (message.stop_reason, message.error_message) == ("stop", None)
    return message.usage


@pytest.mark.parametrize("row", ROWS)
@pytest.mark.parametrize("wire", WIRES)
def test_case_083_a_later_zero_or_gap_leaves_what_was_counted(wire: str, row: str) -> None:
    fields = WIRES[wire][1]

    usage = usage_of(wire, [fields(*counts) for counts in ROWS[row]])

    assert (usage.input, usage.cache_read, usage.output) == (100, 5000, 7)
    assert usage.total_tokens == 5107
    assert usage.known


@pytest.mark.parametrize("wire", sorted(WIRES.keys() - {"anthropic-messages"}))
def test_case_083_tokens_that_only_the_total_counts_are_output(wire: str) -> None:
    fields = WIRES[wire][1]

    usage = usage_of(wire, [fields(100, 0, None, 155)] * 2)

    assert (usage.input, usage.output, usage.total_tokens) == (100, 55, 155)


def test_case_083_thoughts_stay_counted_when_the_last_chunk_leaves_them_out() -> None:
    whole = {"candidatesTokenCount": 5, "thoughtsTokenCount": 50}
    prompt = {"promptTokenCount": 100, "totalTokenCount": 155}

    usage = usage_of("google-gemini", [{**prompt, **whole}, prompt])

    assert (usage.input, usage.output, usage.reasoning) == (100, 55, 50)


@pytest.mark.parametrize(
    "wire", sorted(WIRES.keys() - {"bedrock-converse"})
)  # its frames end with a 0
def test_case_083_usage_without_numbers_is_unknown(wire: str) -> None:
    fields = WIRES[wire][1]

    assert not usage_of(wire, [fields(None, None, None, None), {"tier": "standard"}]).known


def test_case_083_usage_that_is_nested_too_deep_is_left_out() -> None:
    usage = json.loads('{"a":' * 900 + "1" + "}" * 900)
    counts = UsageCounts(lambda _: Usage())

    counts.add(usage)
    counts.add(usage)

    assert not counts.known


async def aborted(wire: str, chunks: list[bytes]) -> AssistantMessage:
    """The reply as it is when the reader leaves after *chunks*."""
    read = asyncio.Event()

    async def source() -> AsyncGenerator[list[AssistantMessageEvent], None]:
        decoder = load_wire(wire).decoder(ReplyBuilder(api=wire), {})
        for chunk in chunks:
            yield decoder.feed(chunk)
        read.set()
        await asyncio.Event().wait()

    async with asyncio.timeout(10):
        stream = AssistantStream(source())
        reading = asyncio.create_task(stream.result())
        await read.wait()
        await stream.aclose()
        return await reading


OPEN_ENDED: dict[str, Callable[[list[Fields]], list[bytes]]] = {
    "anthropic-messages": lambda usages: anthropic(usages)[:-2],
    "openai-chat": lambda usages: chat(usages)[:-2],
    "mistral": lambda usages: chat(usages)[:-2],
    "openai-responses": lambda usages: [
        *responses.said(0, "Hi"), *openai_responses([*usages, {}])[: len(usages)]
    ],
    "google-gemini": lambda usages: gemini(usages)[:-1],
    "bedrock-converse": lambda usages: [
        bedrock.START, *bedrock.text(0, "Hi"),
        *(bedrock.event("metadata", usage=usage) for usage in usages),
    ],
}  # fmt: skip


@pytest.mark.parametrize("wire", OPEN_ENDED)
async def test_case_084_a_reply_that_is_cut_off_has_the_last_totals(wire: str) -> None:
    fields = WIRES[wire][1]
    usages = [fields(40, 0, 2, 42), fields(None, None, 9, None), fields(40, 0, 21, 61)]

    message = await aborted(wire, OPEN_ENDED[wire](usages))

    assert message.stop_reason == "aborted"
    assert (message.usage.input, message.usage.output, message.usage.known) == (40, 21, True)


@pytest.mark.parametrize("wire", OPEN_ENDED)
async def test_case_084_a_cut_off_reply_without_usage_has_an_unknown_one(wire: str) -> None:
    message = await aborted(wire, OPEN_ENDED[wire]([{}]))

    assert message.text.startswith("Hi")
    assert (message.usage.known, message.usage.is_empty) == (False, True)


counts = st.none() | st.integers(-3, 9) | st.sampled_from([True, "7", 2.5])
objects = st.recursive(
    st.dictionaries(st.sampled_from("abc"), counts),
    lambda inner: st.dictionaries(st.sampled_from("abc"), counts | inner),
    max_leaves=5,
)


def leaves(fields: Fields, path: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in fields.items():
        if isinstance(value, dict):
            found.update(leaves(value, f"{path}{name}."))
        else:
            found[path + name] = value
    return found


def is_count(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


@given(st.lists(st.dictionaries(st.sampled_from(["a", "b", "c"]), counts), max_size=5))
def test_case_083_the_last_positive_count_of_each_name_holds(said: list[Fields]) -> None:
    read: list[Fields] = []
    gathered = UsageCounts(lambda fields: read.append(dict(fields)) or Usage())
    for one in said:
        gathered.add(one)

    assert gathered.known == any(is_count(value) for one in said for value in one.values())
    assert gathered.usage.known == gathered.known
    for name in ("a", "b", "c") if gathered.known else ():
        positive = [one[name] for one in said if is_count(one.get(name)) and one[name] > 0]
        if positive:
            assert read[-1][name] == positive[-1]
        else:
            assert not is_count(read[-1].get(name)) or read[-1][name] <= 0


@given(st.lists(objects | st.none() | st.integers() | st.lists(st.integers()), max_size=5))
def test_case_083_objects_of_any_shape_lose_no_positive_count(said: list[Any]) -> None:
    read: Fields = {}
    gathered = UsageCounts(lambda fields: read.update(leaves(fields)) or Usage())
    for one in said:
        before = {name: value for name, value in read.items() if is_count(value) and value > 0}
        gathered.add(one)
        read.clear()
        assert gathered.usage.known == gathered.known
        assert all(is_count(read.get(name)) and read[name] > 0 for name in before)


@given(st.none() | st.integers(0, 99), st.none() | st.integers(0, 99), st.integers(0, 99))
def test_case_083_output_that_was_said_is_taken(
    said: int | None, total: int | None, others: int
) -> None:
    output = output_tokens(said, total, others)

    assert output == said if said else output == max(0, (total or 0) - others)
