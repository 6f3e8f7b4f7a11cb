"""What is told of a branch that was left."""

from __future__ import annotations

from typing import Any

import pytest
from tests.harness.branches import Branch, result, says, user

from loopwright.harness.branch_summary import BranchPlan, plan_branch_summary, summarize_branch
from loopwright.harness.compaction import CompactionSettings, plan_by_count
from loopwright.harness.summary import SummaryFailed
from loopwright.models.model import Model
from loopwright.session.entries import CompactionEntry
from loopwright.session.tree import branch_summary_text
from loopwright.testing import Reply, ScriptedModel

SETTINGS = CompactionSettings()


def planned(branch: Branch, window: int | None = 200_000) -> BranchPlan:
    plan = plan_branch_summary(branch.entries, window, SETTINGS)
    assert plan is not None
    return plan


def texts(plan: BranchPlan) -> list[Any]:
    return [getattr(message, "text", "") for message in plan.messages]


def test_all_that_was_said_is_told_oldest_first_without_results() -> None:
    branch = Branch().add(user("try"), says("so", "c"), result("c", "long"), says("no")).note()

    assert texts(planned(branch)) == ["try", "so", "no"]


@pytest.mark.parametrize("branch", [Branch(), Branch().note(), Branch().add(result("c"))])
def test_nothing_is_told_of_a_branch_on_which_nothing_was_said(branch: Branch) -> None:
    assert plan_branch_summary(branch.entries, 200_000, SETTINGS) is None


def test_the_files_are_those_of_the_whole_branch_results_and_summaries_included() -> None:
    branch = Branch().side_summary("s", {"readFiles": ["c.py"]})
    branch.add(says("", ("1", "edit"), arguments={"path": "a.py"}), result("1"))
    branch.add(says("", ("2", "edit"), arguments={"path": "b.py"}), result("2", failed=True))

    plan = planned(branch)

    assert (plan.read_files, plan.modified_files) == (["c.py"], ["a.py"])


def test_what_does_not_fit_is_left_out_the_oldest_first() -> None:
    branch = Branch().add(*[user(f"{n}" + "x" * 7_999) for n in range(10)])

    plan = planned(branch, window=8_000)  # room for 6,000 tokens

    assert [text[0] for text in texts(plan)] == ["7", "8", "9"]
    assert plan.left_out == 7


def test_a_summary_that_does_not_fit_is_taken_while_there_is_some_room() -> None:
    roomy = Branch().side_summary("s" * 8_000).add(*[user("x" * 8_000)] * 2, user("y" * 4_000))
    full = Branch().side_summary("s" * 8_000).add(*[user("x" * 8_000)] * 2, user("y" * 7_000))

    assert len(planned(roomy, window=8_000).messages) == 4
    assert len(planned(full, window=8_000).messages) == 3


def test_the_newest_is_told_even_if_it_alone_is_too_large() -> None:
    branch = Branch().add(user("a"), user("x" * 100_000))

    assert len(planned(branch, window=8_000).messages) == 1
    assert len(planned(branch, window=None).messages) == 2


def test_what_a_compaction_stands_for_is_told_by_its_summary_alone() -> None:
    branch = Branch().add(user("old"), says("older"), user("kept"))
    compaction = plan_by_count(branch.entries, 1)
    assert compaction is not None
    branch.compact(compaction, "THE SUMMARY").add(says("new"))

    told = texts(planned(branch))

    assert "THE SUMMARY" in told[0]
    assert told[1:] == ["kept", "new"]


def test_a_compaction_that_keeps_from_before_the_branch_comes_first() -> None:
    branch = Branch().put(CompactionEntry(parent_id="x", summary="S", first_kept_id="elsewhere"))
    branch.add(user("new"))
    between = Branch().add(user("kept"))
    between.put(CompactionEntry(parent_id=between.leaf, summary="S", first_kept_id="elsewhere"))

    assert texts(planned(branch))[1:] == ["new"]
    assert texts(planned(between))[1:] == ["kept"]


def test_copies_that_a_compaction_holds_are_told_in_place_of_what_came_before_it() -> None:
    branch = Branch().add(user("before"))
    tail: Any = [says("copy", "c"), result("c")]
    branch.put(CompactionEntry(parent_id=branch.leaf, summary="S", retained_tail=tail))

    assert texts(planned(branch))[1:] == ["copy"]


async def test_one_request_asks_for_it_and_its_answer_is_short() -> None:
    branch = Branch().add(user("try"), says("", ("1", "write"), arguments={"path": "a.py"}))
    branch.add(result("1", "RESULT"), says("no good"))
    scripted = ScriptedModel([Reply("It did not work.")])

    summary = await summarize_branch(
        planned(branch), model=scripted.model, stream_fn=scripted.stream_fn, settings=SETTINGS
    )

    (request,) = scripted.requests
    asked = request.context.messages[0].text
    assert request.options["max_tokens"] == 2_048
    assert "[User]: try" in asked
    assert "RESULT" not in asked
    assert summary.text == "It did not work.\n\n<modified-files>\na.py\n</modified-files>"
    assert summary.details["modifiedFiles"] == ["a.py"]
    assert "came back to this point" in branch_summary_text(summary.text)


async def test_a_single_giant_message_still_makes_one_request_that_fits() -> None:
    model = Model("acme", "m", "scripted", context_window=8_000)
    scripted = ScriptedModel([Reply("s")], model=model)

    await summarize_branch(
        planned(Branch().add(user("x" * 500_000)), window=8_000),
        model=model,
        stream_fn=scripted.stream_fn,
        settings=SETTINGS,
    )

    assert len(scripted.requests[0].context.messages[0].text) < 24_000


async def test_a_cut_answer_is_no_summary() -> None:
    scripted = ScriptedModel([Reply("hal", stop_reason="length")])

    with pytest.raises(SummaryFailed, match="cut at 2,048"):
        await summarize_branch(
            planned(Branch().add(user("x"))),
            model=scripted.model,
            stream_fn=scripted.stream_fn,
            settings=SETTINGS,
        )
