"""`partial` is the message as it stood right after its event, however late it is read."""

from __future__ import annotations

import gc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopwright.messages import (
    AssistantMessage,
    TextContent,
    ThinkingContent,
    ToolCall,
    Usage,
)
from loopwright.stream import Draft, ReplyBuilder, TextDelta, ToolCallStart
from loopwright.stream import draft as draft_module

HEAD = AssistantMessage([], "api", "acme", "large", timestamp=1)


class Model:
    """The naive way: the whole message is rebuilt at every step. What the draft must equal."""

    def __init__(self) -> None:
        self.usage = Usage()
        self.blocks: dict[int, dict[str, Any]] = {}

    def shown(self) -> list[tuple[str, str]]:
        return [(b["kind"], b["text"]) for _, b in sorted(self.blocks.items())]


def seen(message: AssistantMessage) -> list[tuple[str, str]]:
    shown: list[tuple[str, str]] = []
    for block in message.content:
        if isinstance(block, TextContent):
            shown.append(("text", block.text))
        elif isinstance(block, ThinkingContent):
            shown.append(("thinking", block.thinking))
        else:
            shown.append(("call", block.arguments.get("s", "")))
    return shown


steps = st.lists(
    st.one_of(
        st.tuples(st.just("open"), st.sampled_from(["text", "thinking", "call"])),
        st.tuples(st.just("grow"), st.integers(0, 5)),
        st.tuples(st.just("close"), st.integers(0, 5)),
        st.tuples(st.just("usage"), st.integers(1, 9)),
    ),
    max_size=40,
)


def write(script: list[Any]) -> tuple[ReplyBuilder, list[Any], list[Any]]:
    """Events of *script*, each with what its partial must show."""
    builder, model = ReplyBuilder(), Model()
    events: list[Any] = [builder.start()]
    expected: list[Any] = [(model.shown(), 0)]
    for n, (action, value) in enumerate(script):
        open_blocks = [i for i, b in model.blocks.items() if b["open"]]
        if action == "open":
            kind = str(value)
            event: Any
            if kind == "text":
                event = builder.text_start()
            elif kind == "thinking":
                event = builder.thinking_start()
            else:
                event = builder.tool_call_start(f"c{n}", "look")
            model.blocks[event.content_index] = {"kind": kind, "text": "", "open": True}
            events.append(event)
            if kind == "call":  # so that what is shown of its arguments is exact as well
                events.append(builder.tool_call_delta(event.content_index, '{"s":"'))
                expected.append((model.shown(), model.usage.input))
        elif action == "usage":
            model.usage = Usage(input=int(value))
            builder.update(usage=model.usage)
            continue
        elif not open_blocks:
            continue
        else:
            index = open_blocks[int(value) % len(open_blocks)]
            block = model.blocks[index]
            if action == "grow":
                block["text"] += f"{n}."
                grow = {"text": builder.text_delta, "thinking": builder.thinking_delta,
                        "call": builder.tool_call_delta}  # fmt: skip
                events.append(grow[block["kind"]](index, f"{n}."))
            else:
                block["open"] = False
                if block["kind"] == "call":
                    events.append(builder.tool_call_delta(index, '"}'))
                    expected.append((model.shown(), model.usage.input))
                end = {"text": builder.text_end, "thinking": builder.thinking_end,
                       "call": builder.tool_call_end}  # fmt: skip
                events.append(end[block["kind"]](index))
        expected.append((model.shown(), model.usage.input))
    return builder, events, expected


def told(event: Any) -> Any:
    partial = event.partial
    return seen(partial), partial.usage.input


@settings(max_examples=300)
@given(steps, st.randoms(use_true_random=False))
def test_every_partial_is_exact_in_whatever_order_and_however_late_it_is_read(
    script: list[Any], chance: Any
) -> None:
    """Blocks grow in turns; a usage counts from the next event on."""
    builder, events, expected = write(script)

    in_order = [told(event) for event in events]
    mixed = list(range(len(events)))
    chance.shuffle(mixed)

    assert in_order == expected
    assert all(told(events[i]) == expected[i] for i in mixed)
    assert told(events[-1]) == expected[-1]
    closing = [told(event) for event in builder.close_open_blocks()]
    assert [kind for kind, _ in (closing[-1] if closing else expected[-1])[0]] == [
        kind for kind, _ in expected[-1][0]
    ]


@settings(max_examples=100)
@given(steps)
def test_a_partial_read_at_once_stays_as_it_was(script: list[Any]) -> None:
    builder, events, _ = write(script)
    early = [event.partial for event in events]
    before = [repr(message) for message in early]

    if events:
        index = builder.text_start().content_index
        builder.text_delta(index, "more")
        builder.text_end(index)

    assert [repr(message) for message in early] == before


def test_two_readers_share_nothing_they_could_change() -> None:
    builder = ReplyBuilder()
    index = builder.tool_call_start("c", "look").content_index
    builder.tool_call_delta(index, '{"list": [1]}')
    event = builder.tool_call_end(index)

    first, second = event.partial, event.partial
    first.content.append(TextContent("mine"))
    first.tool_calls[0].arguments["list"].append(2)

    assert second.content == [ToolCall("c", "look", {"list": [1]})]
    assert event.partial == second
    done = builder.done("toolUse")
    assert done.message.content == second.content


def test_a_half_told_call_shows_what_is_there() -> None:
    builder = ReplyBuilder()
    index = builder.tool_call_start("c", "look").content_index

    shown = [
        builder.tool_call_delta(index, piece).partial.tool_calls[0].arguments
        for piece in ('{"pa', 'th": "a.', 'txt", "n": 1', "2}")
    ]

    assert shown == [{}, {"path": "a."}, {"path": "a.txt", "n": 1}, {"path": "a.txt", "n": 12}] or (
        shown[0] == {} and shown[1] == {"path": "a."} and shown[-1] == {"path": "a.txt", "n": 12}
    )


def test_behaviour_058_the_final_arguments_come_from_a_strict_reading_of_the_whole() -> None:
    builder = ReplyBuilder()
    index = builder.tool_call_start("c", "rm").content_index
    partial = builder.tool_call_delta(index, '{"path": "build/cache').partial

    call = builder.tool_call_end(index).tool_call

    assert partial.tool_calls[0].arguments == {"path": "build/cache"}
    assert call.arguments == {}
    assert call.raw_arguments == '{"path": "build/cache'
    assert call.arguments_error


@pytest.mark.parametrize("text", ["", "  \n", "null"])
def test_behaviour_140_case_001_no_text_means_no_arguments(text: str) -> None:
    builder = ReplyBuilder()
    index = builder.tool_call_start("c", "look").content_index
    if text:
        builder.tool_call_delta(index, text)

    call = builder.tool_call_end(index).tool_call

    assert (call.arguments, call.arguments_error) == ({}, None)


@pytest.mark.parametrize("text", ["[]", '"x"', "3", "true", "{oops"])
def test_behaviour_141_text_that_is_no_object_becomes_an_error_on_the_call(text: str) -> None:
    builder = ReplyBuilder()
    index = builder.tool_call_start("c", "look").content_index
    builder.tool_call_delta(index, text)

    call = builder.tool_call_end(index).tool_call

    assert (call.arguments, call.raw_arguments) == ({}, text)
    assert call.arguments_error


def test_behaviour_088_an_id_used_twice_in_a_reply_is_made_unique() -> None:
    builder = ReplyBuilder()

    starts = [builder.tool_call_start("x", "look") for _ in range(3)]

    assert [start.tool_call_id for start in starts] == ["x", "x_2", "x_3"]


def test_complete_calls_win_over_an_odd_reason() -> None:
    with_call = ReplyBuilder()
    with_call.tool_call_end(with_call.tool_call_start("c", "look").content_index)

    assert with_call.done("stop", raw="end").message.stop_reason == "toolUse"
    assert ReplyBuilder().done("toolUse", raw="tool_calls").message.stop_reason == "stop"
    assert ReplyBuilder().done("stop", raw="weird").message.raw_stop_reason == "weird"


def test_an_error_keeps_what_was_said() -> None:
    builder = ReplyBuilder()
    index = builder.text_start().content_index
    builder.text_delta(index, "Par")

    error = builder.error("broke", kind="connection", retryable=True)

    assert error.error.text == "Par"
    assert (error.error.stop_reason, error.error.error_message) == ("error", "broke")


# -- costs, counted instead of timed -----------------------------------------------------------


def test_an_event_stores_its_delta_and_a_place_and_copies_nothing() -> None:
    builder = ReplyBuilder()
    index = builder.text_start().content_index

    events = [builder.text_delta(index, "abcd") for _ in range(1_000)]

    assert len(builder.draft.log) == 1_001
    assert not any(gc.is_tracked(event) for event in events)
    assert all(event._source is builder.draft for event in events)


def test_reading_all_partials_in_order_looks_at_each_entry_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read: list[int] = []
    advance = draft_module._Cursor.advance

    def counted(self: Any, log: list[Any], position: int) -> None:
        read.append(max(0, position - self.position))
        advance(self, log, position)

    monkeypatch.setattr(draft_module._Cursor, "advance", counted)
    builder = ReplyBuilder()
    index = builder.text_start().content_index
    events = [builder.text_delta(index, "x") for _ in range(2_000)]

    for event in events:
        _ = event.partial

    assert sum(read) == len(builder.draft.log)


def test_a_draft_is_let_go_of_with_its_events() -> None:
    """Events are invisible to the collector, so there may be no way back from a draft to them."""
    builder = ReplyBuilder()
    index = builder.text_start().content_index
    event = builder.text_delta(index, "x")
    _ = event.partial

    referred = gc.get_referents(builder.draft)

    assert not any(isinstance(thing, TextDelta | ToolCallStart) for thing in referred)


def test_blocks_opened_out_of_order_are_shown_in_order() -> None:
    draft = Draft(HEAD)
    draft.open(1, TextContent(""))
    draft.append(1, "second")
    draft.open(0, TextContent(""))

    assert [b.text for b in draft.at(draft.append(0, "first")).content if isinstance(b, TextContent)] == [
        "first", "second"
    ]  # fmt: skip
