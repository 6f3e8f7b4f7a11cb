"""What is found wrong with a tree."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from loopwright.session.entries import CompactionEntry, Entry, EntryRow
from loopwright.session.tree_check import Problem, check_tree

from .trees import reply, result, rows_of, trees, user


def told(problems: list[Problem]) -> list[tuple[str, str]]:
    return [(problem.kind, problem.where) for problem in problems]


@given(trees())
def test_a_tree_that_a_store_accepted_has_no_errors(entries: list[Entry]) -> None:
    problems = check_tree(rows_of(entries), {"main": entries[-1].id if entries else None})

    assert {problem.kind for problem in problems} <= {"dangling_call"}


def test_an_id_that_is_there_twice_is_reported_once_for_each_copy() -> None:
    rows = rows_of([user("a", None), user("b", "a")])

    problems = check_tree([*rows, rows[0], rows[0]])

    assert told(problems) == [("duplicate_id", "entry a")] * 2


def test_a_missing_parent_is_reported() -> None:
    problems = check_tree(rows_of([user("a", None), user("b", "gone")]))

    assert told(problems) == [("missing_parent", "entry b")]
    assert "gone" in problems[0].message
    assert problems[0].severity == "error"


def test_a_parent_after_its_child_is_reported_whatever_the_order_of_the_rows() -> None:
    rows = rows_of([user("b", "a"), user("a", None)])

    assert told(check_tree(rows)) == [("parent_after_child", "entry b")]
    assert told(check_tree(rows[::-1])) == [("parent_after_child", "entry b")]


def test_rows_without_numbers_are_taken_as_they_come() -> None:
    rows = [EntryRow(*row) for row in _unnumbered([user("b", "a"), user("a", None)])]

    assert told(check_tree(rows)) == [("parent_after_child", "entry b")]
    assert told(check_tree(rows[::-1])) == []


def _unnumbered(entries: list[Entry]) -> list[tuple[Any, ...]]:
    return [
        (row.id, row.parent_id, row.type, row.payload, row.timestamp) for row in rows_of(entries)
    ]


@pytest.mark.parametrize("length", [1, 2, 4])
def test_a_circle_is_reported_for_its_entries_and_not_for_those_that_hang_on_it(
    length: int,
) -> None:
    circle: list[Entry] = [
        user(f"c{i}", f"c{i - 1}" if i else f"c{length - 1}") for i in range(length)
    ]
    rows = rows_of([user("r", None), *circle, user("tail", "c0"), user("end", "tail")])

    problems = check_tree(rows, {"main": "end"})

    assert told(problems) == [("cycle", f"entry c{i}") for i in range(length)]


def test_an_entry_that_cannot_be_read_is_reported() -> None:
    rows = rows_of([user("a", None)])
    rows.append(EntryRow("b", "a", "message", b'{"message": 5}', 1, seq=2))

    problems = check_tree(rows, {"main": "b"})

    assert told(problems) == [("unreadable", "entry b")]
    assert not problems[0].message.startswith("entry b")


def test_a_lane_that_stands_nowhere_is_reported() -> None:
    problems = check_tree(rows_of([user("a", None)]), {"main": "a", "b": "gone", "c": None})

    assert told(problems) == [("missing_leaf", "lane b")]


def test_a_compaction_that_keeps_what_is_not_before_it_is_reported() -> None:
    rows = rows_of(
        [
            user("a", None),
            user("x", "a"),
            CompactionEntry(id="good", parent_id="a", summary="s", first_kept_id="a"),
            CompactionEntry(id="side", parent_id="a", summary="s", first_kept_id="x"),
            CompactionEntry(id="self", parent_id="a", summary="s", first_kept_id="self"),
            CompactionEntry(
                id="tail", parent_id="a", summary="s", first_kept_id="x", retained_tail=[]
            ),
        ]
    )

    problems = check_tree(rows)

    assert told(problems) == [("kept_missing", "entry side"), ("kept_missing", "entry self")]


def test_calls_without_a_result_are_warned_of_on_the_branches_of_lanes() -> None:
    rows = rows_of(
        [
            user("a", None),
            reply("b", "a", calls=("c1", "c2", "c1")),
            result("r1", "b", "c1"),
            reply("d", "r1", calls=("c9",)),
            reply("x", "a", calls=("c5",)),
        ]
    )

    problems = check_tree(rows, {"main": "d", "other": "r1"})

    assert told(problems) == [("dangling_call", "entry b")] * 2 + [("dangling_call", "entry d")]
    assert [problem.severity for problem in problems] == ["warning"] * 3
    assert "'c2'" in problems[0].message


@pytest.mark.parametrize("stop_reason", ["error", "aborted"])
def test_calls_of_a_reply_that_failed_owe_nothing(stop_reason: Any) -> None:
    rows = rows_of([user("a", None), reply("b", "a", calls=("c",), stop_reason=stop_reason)])

    assert check_tree(rows, {"main": "b"}) == []
