"""The benchmarks run and count right. How quick anything was is never asked here."""

from __future__ import annotations

import importlib
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
NAMES = [
    "deltas", "arguments", "turns", "parallel", "agents", "imports", "idle", "wires",
    "wire-arguments", "requests", "vendors", "telemetry", "sessions", "long-sessions",
    "start-up", "tool-output", "rendering", "drawing",
]  # fmt: skip


@pytest.fixture
def benchmarks(monkeypatch: pytest.MonkeyPatch) -> Any:
    """The package beside `src`; it is not installed."""
    monkeypatch.syspath_prepend(str(ROOT))
    package = importlib.import_module("benchmarks")
    for part in ("measure", "peers", "report", "sizes", "subject", "work"):
        importlib.import_module(f"benchmarks.{part}")
    return package


def test_every_benchmark_is_tried_here(benchmarks: Any) -> None:
    assert list(benchmarks.work.WORKS) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_a_tiny_run_of_every_benchmark_does_all_it_counts(benchmarks: Any, name: str) -> None:
    """Each work reports how many deltas, results or characters it saw, and a wrong number raises."""
    peer, _ = benchmarks.peers.load_peer("loopwright")

    rows = benchmarks.work.WORKS[name]([peer], benchmarks.sizes.SIZES["tiny"])

    assert rows
    assert all(math.isfinite(row.ours) for row in rows)
    assert any(row.target for row in rows)


def test_import_loads_nothing_that_must_wait(benchmarks: Any) -> None:
    imports = benchmarks.work.imports

    loaded = imports.loaded_by_import()

    assert "loopwright" in loaded
    assert [name for name in imports.NOT_ON_IMPORT if name in loaded] == []


def test_a_contestant_that_leaves_something_out_is_refused(benchmarks: Any) -> None:
    async def lazy() -> int:
        return 99

    with pytest.raises(benchmarks.measure.WrongCount, match="lazy reported 99 instead of 100"):
        benchmarks.measure.interleaved({"lazy": (lambda: lazy, 100)}, rounds=1)


def test_contestants_take_turns_and_the_best_round_of_each_stands(benchmarks: Any) -> None:
    turns: list[str] = []

    def contestant(name: str) -> Any:
        async def work() -> int:
            turns.append(name)
            return 1

        return (lambda: work, 1)

    best = benchmarks.measure.interleaved({"a": contestant("a"), "b": contestant("b")}, rounds=3)

    assert turns == ["a", "b"] * 3
    assert set(best) == {"a", "b"}


@pytest.mark.parametrize(
    ("measured", "limits", "verdict"),
    [
        (0.6, {"at_least": 0.5}, True),
        (0.4, {"at_least": 0.5}, False),
        (1.1, {"at_most": 1.2}, True),
        (1.3, {"at_most": 1.2}, False),
        (1.3, {}, None),
    ],
)
def test_a_row_knows_whether_its_target_is_met(
    benchmarks: Any, measured: float, limits: dict[str, float], verdict: bool | None
) -> None:
    row = benchmarks.report.Row("work", "times", {"loopwright": measured}, **limits)

    assert row.met is verdict


def test_the_table_has_a_column_for_each_library_and_a_dash_where_it_has_no_such_thing(
    benchmarks: Any,
) -> None:
    row = benchmarks.report.Row("some work", "of bare", {"loopwright": 0.625}, at_least=0.5)

    lines = benchmarks.report.table([row], ["loopwright", "other"]).splitlines()

    assert [cell.strip() for cell in lines[2].strip("| ").split("|")][:6] == [
        "some work",
        "of bare",
        "0.62",
        "–",
        ">= 0.5",
        "met",
    ]
    assert len({len(line) for line in lines}) == 1


def test_a_library_that_is_not_installed_is_left_out_with_a_plain_word(benchmarks: Any) -> None:
    assert benchmarks.peers.load_peer("no_such_library") == "no-such-library is not installed here"


def test_the_command_prints_the_table() -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--size", "tiny", "arguments"],
        capture_output=True,
        text=True,
        check=True,
        cwd=ROOT,
    )

    assert "| loopwright |" in finished.stdout
    assert "2 KB of tool arguments" in finished.stdout


def test_the_command_names_the_works_when_it_is_asked_for_an_unknown_one() -> None:
    finished = subprocess.run(
        [sys.executable, "-m", "benchmarks", "nonsense"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )

    assert finished.returncode == 2
    assert "no work is named 'nonsense'; known: deltas," in finished.stderr
