"""The crash test itself: it kills for real, passes what is sound, and notices what is not."""

from __future__ import annotations

import importlib
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from tests.harness import crash_programs as programs
from tests.test_docs import blocks

from loopwright.errors import Misuse
from loopwright.messages import AssistantMessage, ToolCall, ToolResultMessage, UserMessage
from loopwright.testing.crash import CrashReport, Death, crash_test
from loopwright.testing.crash.life import fault_of_request

DOCUMENT = Path(__file__).parents[2] / "docs" / "crash-kit.md"


@cache
def report_of(scenario: Any) -> CrashReport:
    """Several tests look at different sides of one report."""
    return crash_test(scenario)


def test_a_sound_program_is_found_sound_and_every_one_of_its_points_was_a_death() -> None:
    report = report_of(programs.shop)

    report.assert_sound()
    assert report.points == [
        "commit: user, operation open",
        "commit: assistant",
        "commit: intent of pay",
        "effect 'pay tea'",
        "commit: toolResult",
        "commit: assistant",
        "commit: operation completed",
    ]
    assert [(d.when, d.point, d.killed) for d in report.deaths] == [
        (when, point, True) for when in ("after", "before") for point in range(1, 8)
    ]
    assert "7 points, 14 kills" in str(report)


def test_only_a_call_that_was_begun_and_not_settled_reads_as_interrupted() -> None:
    report = report_of(programs.shop)

    interrupted = {(d.when, d.point) for d in report.deaths if d.interrupted}
    assert interrupted == {("after", 3), ("before", 4), ("after", 4), ("before", 5)}


def test_points_and_kinds_can_be_chosen() -> None:
    report = crash_test(
        programs.shop, kinds=["create", "claim", "effect"], when=["before"], points=[1, 3, 99]
    )

    assert report.points == ["create session s", "claim session s", "effect 'pay tea'"]
    assert [(d.point, d.killed) for d in report.deaths] == [(1, True), (3, True), (99, False)]
    report.assert_sound()


def test_a_second_life_can_be_killed_as_well() -> None:
    report = crash_test(programs.shop, when=["after"], points=[], twice=[(2, 2), (3, 1), (7, 40)])

    report.assert_sound()
    assert [d.killed_again for d in report.deaths] == [True, True, False]
    assert report.kills == 5


def test_any_store_can_be_put_to_the_test() -> None:
    report = crash_test(programs.shop, programs.open_in_a_folder, when=["after"])

    report.assert_sound()


@pytest.mark.parametrize(
    ("scenario", "told"),
    [
        (programs.shop_with_a_tool_that_is_said_to_be_safe, "'pay tea' happened 2 times"),
        (programs.shop_that_says_it_again, "too much"),
        (programs.shop_that_does_not_go_on, "lost"),
        (programs.shop_that_does_not_go_on, "operations left open"),
        (programs.shop_that_does_not_go_on, "effects that never happened"),
        (programs.shop_that_cannot_go_on, "OperationOpen"),
        (programs.shop_without_a_name, "give them names of your own"),
        (programs.shop_with_a_store_that_lies, "announced in life 1 and lost"),
        (programs.shop_whose_model_heeds_interruptions, "expected"),
    ],
)
def test_what_is_unsound_is_noticed(scenario: Any, told: str) -> None:
    report = report_of(scenario)

    assert any(told in fault for fault in report.faults), report.faults
    with pytest.raises(AssertionError, match="faults after"):
        report.assert_sound()


def test_a_model_that_heeds_an_interruption_is_sound_if_one_says_so() -> None:
    report = crash_test(programs.shop_whose_model_heeds_interruptions, strict=False)

    report.assert_sound()
    assert report.interrupted > 0


def test_a_life_that_does_not_end_is_a_fault_and_shows_where_it_was() -> None:
    # The first life has to come to its end in this time, and imports pydantic meanwhile.
    report = crash_test(programs.shop_that_hangs, when=["after"], points=[2], life_seconds=6)

    [fault] = report.faults
    assert "life 2 ended with exit code 1" in fault
    assert "Timeout" in fault
    assert "worker.py" in fault


@pytest.mark.parametrize(
    ("scenario", "told"),
    [
        (programs.shop_that_fails, "closed on Sundays"),
        (programs.shop_that_miscounts, "the ledger's total"),
        ("tests.harness.crash_programs:nobody", "nobody"),
        ("no_such_module_anywhere:shop", "No module named"),
        ("shop", "module:function"),
        (lambda life: None, "top level"),
    ],
)
def test_a_scenario_that_is_no_good_undisturbed_is_refused(scenario: Any, told: str) -> None:
    with pytest.raises(Misuse, match=told):
        crash_test(scenario)


def test_a_kind_of_point_that_does_not_exist_is_refused() -> None:
    with pytest.raises(Misuse, match="'comit'"):
        crash_test(programs.shop, kinds=["comit"])  # type: ignore[list-item]


def test_where_nothing_died_nothing_was_shown() -> None:
    report = CrashReport([], [Death(1, "after", "no such point")], 0.0)

    with pytest.raises(AssertionError, match="nothing was killed"):
        report.assert_sound()


def test_a_program_that_cannot_be_forked_is_started_for_each_life(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "threaded_shop.py").write_text(
        "import threading\n"
        "from tests.harness.crash_programs import shop\n"
        "threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)

    report = crash_test("threaded_shop:shop", when=["after"], points=[2, 4])

    report.assert_sound()
    assert report.kills == 2


async def test_it_leaves_nothing_behind_in_a_database_and_may_be_called_from_a_coroutine(
    postgres_url: str,
) -> None:
    report = crash_test(programs.shop, postgres_url, when=["after"], points=[3])

    report.assert_sound()
    driver: Any = importlib.import_module("asyncpg")
    connection = await driver.connect(postgres_url)
    left = await connection.fetch("SELECT 1 FROM pg_namespace WHERE nspname LIKE 'loopwright%'")
    await connection.close()
    assert left == []


def test_a_database_that_cannot_be_reached_is_named() -> None:
    with pytest.raises(Misuse, match="StoreUnavailable"):
        crash_test(programs.shop, "postgresql://nobody@127.0.0.1:1/nothing")


def test_a_request_that_vendors_refuse_is_recognised() -> None:
    calls = AssistantMessage(
        [ToolCall("a", "t", {}), ToolCall("b", "t", {})], stop_reason="toolUse"
    )
    a, b = (ToolResultMessage(name, "t", []) for name in "ab")
    said = UserMessage("Go")

    assert fault_of_request([said, calls, a, b, said]) is None
    assert "calls without results: b" in str(fault_of_request([said, calls, a]))
    assert "calls without results: a, b" in str(fault_of_request([said, calls, said]))
    assert "in its place" in str(fault_of_request([said, calls, b, a]))
    assert "without a call" in str(fault_of_request([said, calls, a, b, b]))
    assert "failed" in str(fault_of_request([said, AssistantMessage([], stop_reason="aborted")]))


def test_what_the_document_shows_is_what_happens(tmp_path: Path) -> None:
    program, test, printed = blocks(DOCUMENT)[:3]
    (tmp_path / "shop.py").write_text(program.body, encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", test.body],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.partition(",")[0] == printed.body.partition(",")[0]
