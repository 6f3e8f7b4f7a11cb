"""When a context is made smaller, and where it is cut."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.harness.branches import ASKED, Branch, histories, result, says, user

from loopwright.errors import SessionDamaged
from loopwright.harness.compaction import (
    CompactionPlan,
    CompactionSettings,
    overhead_error,
    plan_by_count,
    plan_compaction,
    should_compact,
)
from loopwright.harness.token_estimate import estimate_message, is_failed
from loopwright.loop.hooks import default_convert_to_llm
from loopwright.messages import AgentMessage, AssistantMessage, ToolResultMessage, UserMessage
from loopwright.models.handoff import NO_RESULT, sendable
from loopwright.session.entries import CompactionEntry, MessageEntry
from loopwright.session.tree import context_of, transcript_of

SMALL = CompactionSettings(keep_recent_tokens=100)


def texts(messages: list[AgentMessage]) -> list[str]:
    return [getattr(message, "text", "") for message in messages]


def planned(branch: Branch, settings: CompactionSettings = SMALL, **more: Any) -> CompactionPlan:
    plan = plan_compaction(branch.entries, settings, **more)
    assert plan is not None
    return plan


# -- when ----------------------------------------------------------------------------------------


def test_it_is_due_when_less_than_the_reserve_is_left() -> None:
    settings = CompactionSettings()

    assert not should_compact(200_000 - 16_384, 200_000, settings)
    assert should_compact(200_000 - 16_383, 200_000, settings)


def test_it_is_never_due_if_switched_off_or_the_window_is_not_known() -> None:
    assert not should_compact(10**9, 200_000, CompactionSettings(enabled=False))
    assert not should_compact(10**9, None, CompactionSettings())
    assert not should_compact(10**9, 0, CompactionSettings())


def test_a_small_window_is_not_eaten_up_by_the_reserve() -> None:
    settings = CompactionSettings()

    assert settings.limit(8_000) == 6_000
    assert settings.keep(8_000) == 3_000
    assert settings.summary_limit(8_000) == 1_600


@given(st.integers(64, 2_000_000), st.integers(0, 2_000_000), st.integers(0, 100_000))
def test_what_is_kept_and_a_summary_never_make_it_due_again_at_once(
    window: int, fixed: int, keep: int
) -> None:
    settings = CompactionSettings(keep_recent_tokens=keep)

    after = fixed + settings.keep(window, fixed) + settings.summary_limit(window, fixed)

    if settings.room(window, fixed) >= 256:  # below that, a summary may be the larger part
        assert not should_compact(after, window, settings, fixed=fixed)


def test_a_large_fixed_part_does_not_make_it_due_before_every_request() -> None:
    settings = CompactionSettings()

    assert not should_compact(6_600, 8_000, settings, fixed=6_500)
    assert should_compact(7_500, 8_000, settings, fixed=6_500)
    assert not should_compact(9_500, 8_000, settings, fixed=9_000)


# -- what ----------------------------------------------------------------------------------------


def test_the_newest_turns_are_kept_and_the_older_ones_summarized() -> None:
    branch = Branch().add(user("a" * 400), says("b" * 400), user("c" * 160), says("d" * 160))

    plan = planned(branch)

    assert texts(plan.to_summarize) == ["a" * 400, "b" * 400]
    assert plan.first_kept_id == branch.entries[2].id
    assert plan.retained_tail is None
    assert plan.previous_summary is None
    assert (plan.removed_tokens, plan.kept_tokens, plan.tokens_before) == (200, 80, 280)
    assert not plan.split_turn


def test_a_cut_within_a_turn_is_told() -> None:
    branch = Branch().add(user("a" * 400), says("b" * 100, "c"), result("c", "d" * 100), says("e"))

    plan = planned(branch)

    assert texts(plan.to_summarize) == ["a" * 400]
    assert plan.split_turn


@pytest.mark.parametrize(
    "branch",
    [
        Branch(),
        Branch().note(),
        Branch().add(user("small"), says("talk")),
        Branch().add(user("x" * 100_000)),
        Branch().add(says("x" * 9_000, stop="error"), user("x" * 400)),
    ],
)
def test_there_may_be_nothing_to_compact(branch: Branch) -> None:
    assert plan_compaction(branch.entries, SMALL) is None


def test_right_after_a_compaction_there_is_nothing_to_compact() -> None:
    branch = Branch().add(*[user("a" * 400), says("b" * 300)] * 3)
    branch.compact(planned(branch, CompactionSettings(keep_recent_tokens=300)))
    branch.note().add(says("late", stop="error"))

    assert plan_compaction(branch.entries, CompactionSettings(keep_recent_tokens=0)) is None


def test_the_next_compaction_begins_with_what_the_last_one_kept_and_brings_its_summary() -> None:
    branch = Branch().add(user("a" * 400), says("b" * 400), user("c" * 160), says("d" * 160))
    branch.compact(planned(branch), "FIRST").add(user("e" * 160), says("f" * 160))

    plan = planned(branch)

    assert texts(plan.to_summarize) == ["c" * 160, "d" * 160]
    assert plan.previous_summary == "FIRST"
    assert plan.first_kept_id == branch.entries[-2].id


def test_a_third_compaction_may_keep_from_before_the_second_one() -> None:
    branch = Branch().add(user("a" * 400), says("b" * 160), user("c" * 40))
    branch.compact(planned(branch), "FIRST").add(says("d" * 40))
    plan = planned(branch, CompactionSettings(keep_recent_tokens=25))
    branch.compact(plan, "SECOND").add(user("e" * 40))

    third = planned(branch, CompactionSettings(keep_recent_tokens=20))

    assert texts(plan.to_summarize) == ["b" * 160]
    assert texts(third.to_summarize) == ["c" * 40]
    assert third.previous_summary == "SECOND"
    shown = branch.compact(third, "THIRD").entries
    assert texts(context_of(shown))[1:] == ["d" * 40, "e" * 40]


def test_copies_that_an_imported_compaction_holds_are_cut_like_entries() -> None:
    copies: list[AgentMessage] = [user("a" * 400), says("b" * 160), user("c" * 80)]
    compaction = CompactionEntry(parent_id=None, summary="OLD", retained_tail=copies)
    branch = Branch().put(compaction).add(says("d" * 160))

    plan = planned(branch)

    assert texts(plan.to_summarize) == ["a" * 400]
    assert plan.first_kept_id is None
    assert texts(plan.retained_tail or []) == ["b" * 160, "c" * 80, "d" * 160]
    assert texts(context_of(branch.compact(plan).entries))[1:] == texts(plan.retained_tail or [])


def test_a_branchs_summary_is_summarized_as_the_model_reads_it_with_its_files() -> None:
    branch = Branch().side_summary("went wrong", {"modifiedFiles": ["x.py"]})
    branch.add(user("a" * 400), user("b" * 400))

    plan = planned(branch)

    assert "went wrong" in texts(plan.to_summarize)[0]
    assert plan.modified_files == ["x.py"]


def test_files_add_up_over_several_compactions() -> None:
    branch = Branch().add(user("a"), says("", ("1", "read"), arguments={"path": "a.py"}))
    branch.add(result("1"), says("", ("2", "read"), arguments={"path": "b.py"}), result("2"))
    branch.add(user("k" * 400)).compact(planned(branch))
    branch.add(says("", ("3", "edit"), arguments={"path": "a.py"}), result("3"), user("k" * 400))

    plan = planned(branch)

    assert plan.details == {"readFiles": ["b.py"], "modifiedFiles": ["a.py"]}


def test_the_files_of_what_is_kept_are_not_told_by_the_summary() -> None:
    branch = Branch().add(user("a" * 800), says("", ("1", "read"), arguments={"path": "a.py"}))
    branch.add(result("1"))

    assert planned(branch).read_files == []


def test_the_summary_to_be_updated_comes_without_its_lists() -> None:
    listed = "NOTES\n\n<read-files>\na.py\n</read-files>"
    branch = Branch().put(CompactionEntry(parent_id=None, summary=listed)).add(user("a" * 400))
    branch.add(says("b" * 400))

    assert planned(branch).previous_summary == "NOTES"


def test_a_compaction_that_keeps_from_nowhere_is_damage() -> None:
    lost = CompactionEntry(parent_id=None, summary="s", first_kept_id="nowhere")

    with pytest.raises(SessionDamaged, match="nowhere"):
        plan_compaction(Branch().put(lost).add(user()).entries, SMALL)


# -- how much ------------------------------------------------------------------------------------


def test_a_last_result_larger_than_all_that_may_be_kept_gives_the_last_cut_not_the_first() -> None:
    branch = Branch().add(user("a"), says("b"), user("c"), says("d", "1"), result("1", "x" * 9_000))

    plan = planned(branch)

    assert texts(plan.to_summarize) == ["a", "b", "c"]
    assert plan.first_kept_id == branch.entries[3].id
    assert plan.retained_tail is None  # the window is not known, or has room for it


def test_a_last_result_larger_than_the_window_is_shown_shortened_and_kept_whole() -> None:
    giant = "HEAD" + "x" * 100_000 + "TAIL"
    branch = Branch().add(user("look"), says("d", "1"), result("1", giant))

    plan = planned(branch, CompactionSettings(), window=8_000, fixed=1_000)

    assert plan.first_kept_id is None
    assert plan.retained_tail is not None
    assert plan.kept_tokens <= 2_500
    shown = texts(context_of(branch.compact(plan).entries))[-1]
    assert shown.startswith("HEAD")
    assert shown.endswith("TAIL")
    entry = branch.entries[2]
    assert isinstance(entry, MessageEntry)
    assert texts([entry.message]) == [giant]


def test_a_shortened_tail_without_anything_older_keeps_the_summary_there_is() -> None:
    branch = Branch().put(CompactionEntry(parent_id=None, summary="BEFORE"))
    branch.add(says("d", "1"), result("1", "x" * 100_000))

    plan = planned(branch, CompactionSettings(), window=8_000)

    assert plan.to_summarize == []
    assert plan.previous_summary == "BEFORE"
    assert plan.retained_tail is not None


def test_a_reply_with_giant_arguments_is_summarized_as_it_cannot_be_shortened() -> None:
    writes = says("", ("1", "write"), arguments={"path": "a", "content": "x" * 100_000})
    branch = Branch().add(user("go"), writes, result("1", "ok"))

    plan = planned(branch, CompactionSettings(), window=8_000)

    assert plan.to_summarize == [entry.message for entry in branch.entries]  # type: ignore[union-attr]
    assert plan.first_kept_id is plan.retained_tail is None
    assert plan.modified_files == ["a"]


def test_a_giant_prompt_is_neither_summarized_nor_cut() -> None:
    branch = Branch().add(user("old"), says("done"), user("x" * 100_000))

    plan = planned(branch, CompactionSettings(), window=8_000)

    assert texts(plan.to_summarize) == ["old", "done"]
    assert plan.first_kept_id == branch.entries[2].id


def test_calls_that_still_wait_for_results_stay_however_large_they_are() -> None:
    writes = says("", ("1", "write"), "2", arguments={"content": "x" * 100_000})
    branch = Branch().add(user("go"), writes, result("1", "ok"))

    plan = planned(branch, CompactionSettings(), window=8_000)

    assert texts(plan.to_summarize) == ["go"]
    assert plan.first_kept_id == branch.entries[1].id


def test_a_failed_reply_at_the_end_is_not_what_is_kept() -> None:
    branch = Branch().add(user("a" * 400), says("b", "1"), result("1", "c" * 4_000))
    branch.add(says("", stop="error", error="too large"))

    plan = planned(branch, CompactionSettings(keep_recent_tokens=0), overflowed=True)

    assert plan.first_kept_id == branch.entries[1].id


def test_what_the_vendor_counted_corrects_the_estimate_of_what_may_be_kept() -> None:
    turns = [user("x" * 400), says("y" * 400)] * 20
    plain = Branch().add(*turns)
    counted = Branch().add(*turns[:-1], says("y" * 400, used=40_000))
    settings = CompactionSettings(keep_recent_tokens=2_000)

    kept = planned(plain, settings).kept_tokens
    kept_of_counted = planned(counted, settings, model=(ASKED.provider, ASKED.id)).kept_tokens

    assert kept == 2_000
    assert kept_of_counted == 200


def test_after_an_overflow_at_most_half_is_kept_even_if_all_seems_to_fit() -> None:
    branch = Branch().add(*[user("a" * 400), says("b" * 400)] * 4)

    assert plan_compaction(branch.entries, CompactionSettings()) is None
    assert planned(branch, CompactionSettings(), overflowed=True).kept_tokens <= 400


def test_after_an_overflow_what_was_just_kept_may_be_cut_again() -> None:
    branch = Branch().add(*[user("a" * 400), says("b" * 400)] * 4)
    branch.compact(planned(branch, CompactionSettings(keep_recent_tokens=500)))
    branch.add(says("", stop="error", error="too large"))

    plan = planned(branch, CompactionSettings(), overflowed=True)

    assert 0 < plan.kept_tokens <= 250


def test_nothing_is_planned_if_the_fixed_part_alone_fills_the_window() -> None:
    branch = Branch().add(*[user("a" * 400), says("b" * 400)] * 4)

    assert plan_compaction(branch.entries, SMALL, window=8_000, fixed=9_000) is None
    assert (
        plan_compaction(branch.entries, SMALL, window=8_000, fixed=9_000, overflowed=True) is None
    )


def test_the_error_says_what_takes_the_room() -> None:
    assert "tool definitions alone take about 9,000 of the 8,000 tokens" in overhead_error(
        9_000, 8_000
    )
    assert "newest message" in overhead_error(100, 8_000)
    assert "9,000" in overhead_error(9_000, None)


# -- properties ----------------------------------------------------------------------------------


def results_of(messages: list[AgentMessage]) -> Counter[str]:
    """The results a model would really be sent, by their text, and how many are made up."""
    sent = sendable(default_convert_to_llm(messages), ASKED)
    return Counter(m.text for m in sent if isinstance(m, ToolResultMessage))


def check_valid(before: list[AgentMessage], after: list[AgentMessage]) -> None:
    """No call lost its result by the cut, and no result its call."""
    real, sent = results_of(before), results_of(after)
    wanted = [m.text for m in after if isinstance(m, ToolResultMessage) and real[m.text]]
    assert {text for text in sent if text != NO_RESULT} == set(wanted)
    assert sent[NO_RESULT] <= real[NO_RESULT]
    answered: set[str] = set()
    for message in after:
        if isinstance(message, AssistantMessage):
            answered = {call.id for call in message.tool_calls}
        elif isinstance(message, ToolResultMessage) and real[message.text]:
            assert message.tool_call_id in answered


def without_summary(messages: list[AgentMessage]) -> list[AgentMessage]:
    return messages[1:]


@settings(max_examples=200)
@given(
    histories(),
    st.integers(0, 12_000),
    st.sampled_from([None, 1_000, 8_000, 200_000]),
    st.booleans(),
)
def test_for_any_history_and_budget_the_cut_is_valid_and_nothing_is_lost_or_told_twice(
    messages: list[AgentMessage], keep: int, window: int | None, overflowed: bool
) -> None:
    branch = Branch().add(*messages)
    before = transcript_of(branch.entries)

    plan = plan_compaction(
        branch.entries,
        CompactionSettings(keep_recent_tokens=keep),
        window=window,
        overflowed=overflowed,
    )

    if plan is None:
        return
    after = without_summary(context_of(branch.compact(plan).entries))
    cut = len(plan.to_summarize)
    assert plan.to_summarize == before[:cut]
    kept = [message for message in before[cut:] if not is_failed(message)]
    if plan.retained_tail is None:
        assert after == kept
        check_valid(before, after)
    else:
        assert len(after) == len(kept)
        for old, new in zip(kept, after, strict=True):
            assert old == new or isinstance(old, ToolResultMessage)
    assert plan.removed_tokens > 0
    assert plan.kept_tokens == sum(map(estimate_message, after))
    if before and isinstance(before[-1], UserMessage):
        assert after[-1] == before[-1]  # whoever waits for an answer is not summarized


@settings(max_examples=100)
@given(
    st.tuples(histories(), histories(1_000), histories(2_000)),
    st.integers(0, 3_000),
    st.sampled_from([None, 8_000]),
    st.booleans(),
)
def test_compacting_again_and_again_makes_progress_or_says_that_there_is_nothing(
    parts: tuple[list[AgentMessage], ...], keep: int, window: int | None, overflowed: bool
) -> None:
    branch = Branch()
    settings = CompactionSettings(keep_recent_tokens=keep)
    for part in parts:
        branch.add(*part)
        for _ in range(100):
            before = context_of(branch.entries)
            plan = plan_compaction(branch.entries, settings, window=window, overflowed=overflowed)
            if plan is None:
                break
            assert plan.to_summarize or plan.previous_summary
            after = context_of(branch.compact(plan, "S").entries)
            tokens = [sum(map(estimate_message, shown)) for shown in (before[:], after[1:])]
            assert tokens[1] < tokens[0]
            if plan.retained_tail is None:
                check_valid(before, without_summary(after))
        else:
            pytest.fail("it never ended")


@settings(max_examples=100)
@given(histories(), st.integers(0, 30))
def test_a_plan_is_the_same_when_made_again_from_what_the_context_needs(
    messages: list[AgentMessage], keep: int
) -> None:
    branch = Branch().add(*messages)
    plan = plan_by_count(branch.entries, keep)
    if plan is None:
        return
    branch.compact(plan).add(user("x" * 4_000), says("y" * 4_000))
    needed = branch.entries
    if plan.first_kept_id is not None:
        places = [entry.id for entry in needed]
        needed = needed[places.index(plan.first_kept_id) :]
    else:
        needed = needed[-3:]

    whole, part = (plan_compaction(entries, SMALL) for entries in (branch.entries, needed))

    assert whole == part
