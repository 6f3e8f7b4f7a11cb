"""How large a request will be: what a vendor counted, and estimates for the rest."""

from __future__ import annotations

import pytest
from tests.harness.branches import Branch, Remark, result, says, user

from loopwright.harness.token_estimate import (
    context_tokens,
    estimate_fixed,
    estimate_message,
)
from loopwright.messages import (
    AssistantMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from loopwright.models.model import ToolSpec
from loopwright.session.entries import CompactionEntry
from loopwright.session.tree import compaction_text, context_of

MODEL = ("acme", "large")


@pytest.mark.parametrize(("characters", "tokens"), [(0, 0), (1, 1), (4, 1), (5, 2), (4_000, 1_000)])
def test_four_characters_are_a_token_and_a_part_counts_whole(characters: int, tokens: int) -> None:
    assert estimate_message(UserMessage("x" * characters)) == tokens


def test_everything_a_reply_holds_is_counted() -> None:
    reply = AssistantMessage([
        ThinkingContent("t" * 400),
        TextContent("s" * 40),
        ToolCall("an id that is not counted", "read", {"path": "a" * 400}),
    ])  # fmt: skip

    tokens = estimate_message(reply)

    assert 210 <= tokens <= 220


def test_an_image_counts_like_a_text_of_4800_characters_whatever_its_size() -> None:
    small = UserMessage([ImageContent("AAAA", "image/png")])
    large = ToolResultMessage("c", "read", [ImageContent("A" * 1_000_000, "image/png")])

    assert estimate_message(small) == estimate_message(large) == 1_200


def test_what_was_not_json_counts_as_it_was_written() -> None:
    call = ToolCall("c", "write", {}, None, "{broken" * 100, "not JSON")

    assert estimate_message(AssistantMessage([call])) >= 175


def test_scripts_that_take_more_tokens_count_for_more() -> None:
    latin, chinese = (
        estimate_message(UserMessage("a" * 400)),
        estimate_message(UserMessage("好" * 400)),
    )

    assert latin == 100
    assert chinese == 300


def test_halves_of_surrogate_pairs_and_foreign_objects_are_counted_not_refused() -> None:
    assert estimate_message(UserMessage("\ud800abc")) == 2
    assert estimate_message(AssistantMessage([ToolCall("c", "t", {"x": "\ud800"})])) > 0
    assert estimate_message(AssistantMessage([ToolCall("c", "t", {"x": object()})])) > 0


def test_a_message_of_the_programs_own_counts_as_its_json() -> None:
    assert 100 <= estimate_message(Remark(text="x" * 400)) <= 130


def test_what_every_request_takes_is_the_prompt_and_the_tools() -> None:
    tool = ToolSpec("read", "d" * 396, {"type": "object"})

    assert estimate_fixed("p" * 4_000, []) == 1_000
    assert 1_100 <= estimate_fixed("p" * 4_000, [tool]) <= 1_110


def test_without_any_reply_all_is_estimated() -> None:
    branch = Branch().add(user("x" * 400))

    assert context_tokens(branch.entries, fixed=50, model=MODEL) == 150
    assert context_tokens([], fixed=50) == 50


def test_the_newest_good_reply_tells_the_size_and_what_follows_is_estimated() -> None:
    branch = Branch().add(user("x" * 40_000), says("a", "c", used=5_000), result("c", "y" * 400))

    assert context_tokens(branch.entries, fixed=999, model=MODEL) == 5_100


def test_cached_tokens_are_part_of_the_size() -> None:
    usage = Usage(input=1, output=20, cache_read=300, cache_write=4_000)

    branch = Branch().add(user(), says("a", usage=usage))

    assert context_tokens(branch.entries, fixed=0) == 4_321


@pytest.mark.parametrize(
    "reply",
    [
        says("x" * 400, used=7_777, stop="error"),
        says("x" * 400, used=7_777, stop="aborted"),
    ],
)
def test_a_reply_that_failed_tells_nothing_and_is_not_shown(reply: AssistantMessage) -> None:
    branch = Branch().add(user("x" * 400), reply)

    assert context_tokens(branch.entries, fixed=0, model=MODEL) == 100


@pytest.mark.parametrize(
    "usage",
    [
        Usage(),
        Usage(known=False),
        Usage(input=0, output=5, cache_read=10**7, doubtful=True),
        Usage(total_tokens=9),
    ],
)
def test_numbers_that_say_nothing_are_not_believed(usage: Usage) -> None:
    branch = Branch().add(user("x" * 400), says("y" * 400, usage=usage))

    assert context_tokens(branch.entries, fixed=7, model=MODEL) == 207


def test_another_models_numbers_are_not_used_but_older_ones_of_this_model_are() -> None:
    branch = Branch().add(user("x" * 400), says("y" * 400, used=9_000, model="small"))

    estimated = context_tokens(branch.entries, fixed=7, model=MODEL)
    believed = context_tokens(branch.entries, fixed=7)
    branch = Branch().add(says("a", used=500), user("x" * 400), says("y" * 400, used=9, model="b"))
    older = context_tokens(branch.entries, fixed=7, model=MODEL)

    assert (estimated, believed, older) == (207, 9_000, 700)


def test_what_no_model_is_shown_takes_no_room_and_a_branchs_summary_does() -> None:
    branch = Branch().add(says("a", used=500)).note("x" * 4_000)
    without = context_tokens(branch.entries, fixed=0)

    branch.side_summary("s" * 400)

    assert without == 500
    assert 600 < context_tokens(branch.entries, fixed=0) < 700


def test_case_032_numbers_from_before_a_compaction_are_not_used_even_at_messages_it_kept() -> None:
    branch = Branch().add(user("old"), says("kept", used=175_000))
    compaction = CompactionEntry(
        parent_id=branch.leaf, summary="s", first_kept_id=branch.entries[1].id
    )
    branch.put(compaction).add(Remark(text="a short note"), user("go on"))

    tokens = context_tokens(branch.entries, fixed=1_000, model=MODEL)

    shown = sum(map(estimate_message, context_of(branch.entries)))
    assert tokens == 1_000 + shown < 1_200
    assert estimate_message(UserMessage(compaction_text("s"))) < shown


def test_case_032_numbers_from_after_the_compaction_are_used_as_ever() -> None:
    branch = Branch().add(user("old"), says("kept", used=175_000))
    branch.put(CompactionEntry(parent_id=branch.leaf, summary="s", first_kept_id=branch.leaf))
    branch.add(user("go on"), says("done", used=4_000), user("x" * 40))

    assert context_tokens(branch.entries, fixed=1_000, model=MODEL) == 4_010
