"""A run with everything in it, killed with -9 at each point where it writes, and gone on with.

See crash_programs.long_run: parallel calls of both kinds, two with one id, an unknown tool, bad
arguments, an approval, steering, a follow-up, a message for the next run, a compaction.
"""

from __future__ import annotations

import random

import pytest
from tests.harness.crash_programs import long_run

from loopwright.testing.crash import When, crash_test

pytestmark = pytest.mark.slow

EVERY_STORE = pytest.mark.parametrize("store", ["sqlite", "jsonl", "postgres"])


@pytest.fixture
def place(store: str, request: pytest.FixtureRequest) -> str:
    """What `crash_test` is told of *store*."""
    return request.getfixturevalue("postgres_url") if store == "postgres" else store


@EVERY_STORE
@pytest.mark.parametrize("when", ["after", "before"])
def test_killed_at_any_point_nothing_is_lost_and_nothing_is_done_twice(
    place: str, when: When
) -> None:
    report = crash_test(long_run, place, when=[when])

    report.assert_sound()
    assert 40 <= len(report.points) <= 60
    assert all(death.killed for death in report.deaths)
    assert report.interrupted >= 8  # else the dangerous moments were missed
    seen = ", ".join(report.points)
    for moment in (
        "outcome of pay",
        "enqueue steer",
        "decide approved",
        "approval used",
        "compaction",
    ):
        assert moment in seen


@EVERY_STORE
def test_killed_and_killed_again_by_whoever_goes_on_nothing_is_lost(place: str) -> None:
    chosen = random.Random(7)  # the same pairs each time: what fails here fails again
    pairs = [(chosen.randint(1, 48), chosen.randint(1, 20)) for _ in range(16)]

    report = crash_test(long_run, place, points=[], twice=pairs)

    report.assert_sound()
    assert sum(death.killed_again for death in report.deaths) >= 20
