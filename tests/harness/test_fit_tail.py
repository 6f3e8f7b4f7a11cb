"""Shortening results that are too large for any window."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from tests.harness.branches import histories, result, says, user

from loopwright.harness.fit_tail import fit_tail, head_and_tail
from loopwright.harness.token_estimate import estimate_message
from loopwright.messages import (
    AgentMessage,
    ImageContent,
    TextContent,
    ToolResultMessage,
)


def tokens(messages: list[AgentMessage]) -> int:
    return sum(map(estimate_message, messages))


def test_what_fits_is_left_alone() -> None:
    messages = [says("a", "c"), result("c", "x" * 100)]

    assert fit_tail(messages, 1_000) == messages


def test_the_large_result_is_cut_and_the_small_ones_stay_the_same_objects() -> None:
    messages = [says("a", "c", "d"), result("c", "x" * 100), result("d", f"HEAD{'y' * 90_000}TAIL")]

    fitted = fit_tail(messages, 2_000)

    assert fitted is not None
    assert fitted[:2] == messages[:2]
    assert fitted[0] is messages[0]
    assert 1_900 < tokens(fitted) <= 2_000
    shown = fitted[2].text  # type: ignore[union-attr]
    assert shown.startswith("HEAD")
    assert shown.endswith("TAIL")
    assert "of 90,008 characters are left out" in shown
    assert messages[2].text.startswith("HEADyyy")


def test_several_large_results_are_cut_alike() -> None:
    messages = [says("a", "c", "d"), result("c", "x" * 50_000), result("d", "y" * 90_000)]

    fitted = fit_tail(messages, 5_000)

    assert fitted is not None
    lengths = [len(message.text) for message in fitted[1:]]  # type: ignore[union-attr]
    assert abs(lengths[0] - lengths[1]) <= 4


def test_images_go_only_if_text_is_not_enough_and_the_oldest_first() -> None:
    image = ImageContent("AAAA", "image/png")
    many = [ToolResultMessage(f"c{n}", "read", [image]) for n in range(4)]
    messages = [says("a", *[f"c{n}" for n in range(4)]), *many]

    fitted = fit_tail(messages, 2_600)

    assert fitted is not None
    kinds = [type(message.content[0]) for message in fitted[1:]]  # type: ignore[union-attr]
    assert kinds == [TextContent, TextContent, ImageContent, ImageContent]


def test_what_a_user_said_is_never_cut() -> None:
    assert fit_tail([user("x" * 90_000), says("a", "c"), result("c")], 2_000) is None


@given(histories(), st.integers(0, 20_000))
def test_whatever_comes_back_fits_and_has_the_same_messages_in_the_same_order(
    messages: list[AgentMessage], budget: int
) -> None:
    fitted = fit_tail(messages, budget)

    if fitted is None:
        return
    assert tokens(fitted) <= budget
    assert len(fitted) == len(messages)
    for old, new in zip(messages, fitted, strict=True):
        if isinstance(old, ToolResultMessage):
            assert (new.tool_call_id, new.tool_name) == (old.tool_call_id, old.tool_name)  # type: ignore[union-attr]
        else:
            assert new is old


@given(st.text(), st.integers(0, 300))
def test_a_shortened_text_is_no_longer_than_asked_or_is_only_the_note(
    text: str, characters: int
) -> None:
    short = head_and_tail(text, characters, "<{left_out}/{whole}>")

    assert len(short) <= max(characters, len(f"<{len(text)}/{len(text)}>"))
    if len(text) <= characters:
        assert short == text
