"""A conversation written down for a model that is to summarize it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.harness.branches import Remark, histories, result, says, user

from loopwright.harness.serialize import as_text, cut_to_size
from loopwright.harness.token_estimate import size_of
from loopwright.messages import (
    AssistantMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)


def test_every_part_says_who_said_it() -> None:
    image = ImageContent("AAAA", "image/png")
    reply = AssistantMessage([
        ThinkingContent("hm"), TextContent("I look."), ToolCall("c", "read", {"path": "a.py"}),
    ])  # fmt: skip

    text = as_text([
        UserMessage([TextContent("See:"), image]),
        reply,
        ToolResultMessage("c", "read", [TextContent("no such file")], is_error=True),
        Remark(text="by the way"),
    ])  # fmt: skip

    assert text.split("\n\n")[:3] == [
        "[User]: See:\n[an image, image/png]",
        '[Assistant, thinking]: hm\n[Assistant]: I look.\n[Assistant calls read]: {"path":"a.py"}',
        "[Result of read, failed]: no such file",
    ]
    assert text.split("\n\n")[3].startswith("[branches-remark]: {")
    assert "by the way" in text


def test_long_results_arguments_and_thoughts_are_cut_and_what_users_say_is_not() -> None:
    long = "x" * 50_000
    reply = AssistantMessage([ThinkingContent(long), ToolCall("c", "write", {"content": long})])

    text = as_text([user(long), reply, result("c", long)])

    assert 50_000 < len(text) < 57_000
    assert text.count("more characters …]") == 3


def test_a_reply_that_failed_says_so_and_its_calls_never_ran() -> None:
    text = as_text([says("half", "c", stop="error", error="overloaded"), says("", stop="aborted")])

    assert "[A reply that failed: overloaded]\n[Assistant]: half" in text
    assert "[Assistant calls bash, never run]" in text
    assert text.endswith("[A reply that was aborted]")


def test_arguments_that_were_not_json_and_foreign_objects_are_shown_as_they_are() -> None:
    broken = AssistantMessage([ToolCall("c", "t", {}, None, "{bro", "not JSON")])
    foreign = AssistantMessage([ToolCall("c", "t", {"x": object(), "y": "\ud800"})])

    assert "{bro" in as_text([broken])
    assert "object object" in as_text([foreign])


def test_if_all_is_too_long_the_oldest_results_are_cut_first() -> None:
    messages = [says("a", "1"), result("1", "x" * 1_900), says("b", "2"), result("2", "y" * 1_900)]

    text = as_text(messages, limit=2_600)

    assert len(text) <= 2_600
    assert text.count("x") < 200
    assert text.count("y") >= 1_900


def test_then_the_middle_is_left_out_with_a_note() -> None:
    text = as_text([user("FIRST"), user("x" * 50_000), user("LAST")], limit=1_000)

    assert len(text) <= 1_000
    assert text.startswith("[User]: FIRST")
    assert text.endswith("LAST")
    assert "in the middle are left out" in text


@given(histories(), st.integers(0, 30_000))
def test_no_limit_is_ever_exceeded(messages: list[AssistantMessage], limit: int) -> None:
    assert size_of(as_text(messages, limit=limit)) <= limit


@given(st.text(st.sampled_from("a好\n😀"), max_size=3_000), st.integers(0, 4_000))
def test_cutting_counts_what_other_scripts_take(text: str, limit: int) -> None:
    cut = cut_to_size(text, limit)

    assert size_of(cut) <= limit
    if size_of(text) <= limit:
        assert cut == text
