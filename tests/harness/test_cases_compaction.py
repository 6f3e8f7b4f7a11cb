"""The numbered cases about compaction, as far as they can be told from plans alone."""

from __future__ import annotations

import pytest
from tests.harness.branches import ASKED, Branch, Remark, result, says, user

from loopwright.harness.compaction import (
    CompactionSettings,
    overhead_error,
    plan_by_count,
    plan_compaction,
    should_compact,
)
from loopwright.harness.token_estimate import context_tokens
from loopwright.loop.hooks import default_convert_to_llm
from loopwright.messages import AgentMessage, AssistantMessage, ToolResultMessage
from loopwright.models.handoff import NO_RESULT, sendable
from loopwright.session.tree import context_of

MODEL = (ASKED.provider, ASKED.id)


def history() -> Branch:
    branch = Branch().add(user("ask"), says("1", "c1"), result("c1", "r1"))
    branch.add(says("2", "c2"), result("c2", "r2"))
    return branch.add(says("3", "c3", "c4"), result("c3", "r3"), result("c4", "r4"), says("end"))


def check_request(messages: list[AgentMessage]) -> None:
    """Every call is answered directly behind its reply, and no result stands alone."""
    place = 0
    while place < len(messages):
        message = messages[place]
        place += 1
        assert not isinstance(message, ToolResultMessage), "a result without its call"
        if isinstance(message, AssistantMessage):
            for call in message.tool_calls:
                answer = messages[place]
                assert isinstance(answer, ToolResultMessage)
                assert answer.tool_call_id == call.id
                place += 1


@pytest.mark.parametrize(
    ("keep", "begins_with"),
    [(0, None), (1, 8), (2, 5), (3, 5), (4, 5), (5, 3), (6, 3), (7, 1), (8, 1), (9, 0)],
)
def test_case_030_each_of_the_ten_cuts_gives_a_valid_request(
    keep: int, begins_with: int | None
) -> None:
    branch = history()
    said = [entry.message for entry in branch.entries]  # type: ignore[union-attr]

    plan = plan_by_count(branch.entries, keep)

    if begins_with == 0:
        assert plan is None  # nothing would be summarized
        return
    assert plan is not None
    kept = [] if begins_with is None else said[begins_with:]
    assert plan.to_summarize == said[: len(said) - len(kept)]
    context = context_of(branch.compact(plan).entries)
    assert context[1:] == kept
    check_request(context)
    assert list(sendable(default_convert_to_llm(context), ASKED)) == context


@pytest.mark.parametrize("keep", range(7))
def test_case_030_results_made_up_after_an_abort_are_part_of_their_pair(keep: int) -> None:
    aborted = [result(call_id, "Operation aborted", failed=True) for call_id in ("c1", "c2")]
    branch = Branch().add(user("ask"), says("1", "c1", "c2"), *aborted, user("again"), says("ok"))

    plan = plan_by_count(branch.entries, keep)

    if plan is not None:
        check_request(context_of(branch.compact(plan).entries)[1:])
    assert (plan is None) == (keep >= 6)


@pytest.mark.parametrize("keep", range(6))
def test_case_030_what_a_user_said_between_calls_and_results_is_no_place_to_cut(keep: int) -> None:
    branch = Branch().add(user("ask"), says("1", "c1", "c2"), result("c1"), user("wait"))
    branch.add(result("c2"), says("ok"))

    plan = plan_by_count(branch.entries, keep)

    if plan is not None:
        assert len(plan.to_summarize) in (1, 5, 6)
        sent = sendable(default_convert_to_llm(context_of(branch.compact(plan).entries)), ASKED)
        check_request(list(sent))
        assert NO_RESULT not in [message.text for message in sent]


def test_case_030_by_size_too_every_cut_is_one_of_those() -> None:
    branch = history()

    for budget in range(12):
        plan = plan_compaction(branch.entries, CompactionSettings(keep_recent_tokens=budget))

        assert plan is not None
        assert len(plan.to_summarize) in (1, 3, 5, 8)
        check_request(context_of(Branch().add(*plan.to_summarize).entries))


def test_case_031_a_fixed_part_larger_than_the_window_is_named_and_nothing_is_compacted() -> None:
    branch, settings = history(), CompactionSettings()

    tokens = context_tokens(branch.entries, fixed=9_000, model=MODEL)

    assert not should_compact(tokens, 8_000, settings, fixed=9_000)
    assert plan_compaction(branch.entries, settings, window=8_000, fixed=9_000) is None
    assert "9,000 of the 8,000 tokens" in overhead_error(9_000, 8_000)


def test_case_032_no_second_compaction_because_of_a_size_from_before_the_first() -> None:
    settings = CompactionSettings(reserve_tokens=40_000)
    branch = Branch().add(user("a" * 400_000), says("b" * 200_000, used=150_000))
    branch.add(user("c" * 4_000), says("d" * 4_000, used=175_000))

    before = context_tokens(branch.entries, fixed=2_000, model=MODEL)
    plan = plan_compaction(branch.entries, settings, window=200_000, fixed=2_000, model=MODEL)
    assert plan is not None
    branch.compact(plan).add(Remark(text="a note"), user("go on"))
    after = context_tokens(branch.entries, fixed=2_000, model=MODEL)

    assert should_compact(before, 200_000, settings)
    assert not should_compact(after, 200_000, settings)
    assert not should_compact(after, 32_000, settings)  # a model with another window
    branch.add(says("e", used=165_000))
    assert should_compact(context_tokens(branch.entries, fixed=2_000), 200_000, settings)
