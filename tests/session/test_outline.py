"""The tree of a session, line by line."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.session.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    Entry,
    EntryRow,
    MessageEntry,
)
from loopwright.session.formats.pi_messages import BashExecution
from loopwright.session.outline import OutlineNode, one_line, outline

from .trees import reply, result, rows_of, trees, user


def drawn(nodes: list[OutlineNode]) -> list[str]:
    return ["  " * node.depth + node.id for node in nodes]


def forked() -> list[Entry]:
    """a, b; then c, d and beside them x, y and z."""
    return [
        user("a", None),
        reply("b", "a"),
        user("c", "b"),
        user("x", "b"),
        reply("y", "x"),
        user("z", "b"),
        reply("d", "c"),
    ]


def test_the_branch_one_is_on_runs_straight_down() -> None:
    nodes = outline(rows_of(forked()), "y")

    assert drawn(nodes) == ["a", "b", "  c", "  d", "  z", "x", "y"]
    assert [node.id for node in nodes if node.on_branch] == ["a", "b", "x", "y"]
    assert [node.id for node in nodes if node.is_leaf] == ["d", "z", "y"]


def test_without_a_branch_the_newest_runs_straight_down() -> None:
    nodes = outline(rows_of(forked()))

    assert drawn(nodes) == ["a", "b", "  x", "  y", "  z", "c", "d"]
    assert not any(node.on_branch for node in nodes)


def test_a_leaf_in_the_middle_goes_on_along_its_newest_descendants() -> None:
    nodes = outline(rows_of(forked()), "b")

    assert drawn(nodes) == ["a", "b", "  x", "  y", "  z", "c", "d"]
    assert [node.id for node in nodes if node.on_branch] == ["a", "b"]


def test_several_beginnings_are_drawn_with_the_present_one_last() -> None:
    rows = rows_of([user("a", None), user("b", None), user("a1", "a")])

    assert drawn(outline(rows, "b")) == ["  a", "  a1", "b"]
    assert drawn(outline(rows, "a1")) == ["  b", "a", "a1"]


def test_each_kind_says_in_one_line_what_it_is() -> None:
    rows = rows_of(
        [
            user("u", None, "hello\n\n  there"),
            reply("a", "u", "let me see", calls=("1", "2")),
            result("r", "a", "1", "a file"),
            CompactionEntry(id="k", parent_id="r", summary="the gist"),
            BranchSummaryEntry(id="b", parent_id="k", from_id="x", summary="tried"),
            CustomEntry(id="o", parent_id="b", custom_type="note"),
            MessageEntry(id="s", parent_id="o", message=BashExecution("ls  -l", "a\nb")),
        ]
    )

    nodes = outline(rows, "s", {"k": "here"})

    assert [(node.type, node.role, node.preview) for node in nodes] == [
        ("message", "user", "hello there"),
        ("message", "assistant", "let me see → look, look"),
        ("message", "toolResult", "look: a file"),
        ("compaction", None, "the gist"),
        ("branch_summary", None, "tried"),
        ("custom", None, "note"),
        ("message", "bashExecution", "ls -l"),
    ]
    assert [node.label for node in nodes] == [None, None, None, "here", None, None, None]


def test_an_entry_that_cannot_be_read_says_so() -> None:
    (node,) = outline([EntryRow("a", None, "message", b"{", 1)])

    assert node.preview == "(cannot be read)"


@given(trees(), st.data())
def test_every_entry_is_drawn_once_and_below_its_parent(
    entries: list[Entry], data: st.DataObject
) -> None:
    leaf = data.draw(st.sampled_from([None, *(entry.id for entry in entries)]))

    nodes = outline(rows_of(entries), leaf)

    assert sorted(node.id for node in nodes) == sorted(entry.id for entry in entries)
    place = {node.id: i for i, node in enumerate(nodes)}
    depth = {node.id: node.depth for node in nodes}
    for node in nodes:
        if node.parent_id is not None:
            assert place[node.parent_id] < place[node.id]
            assert depth[node.id] - depth[node.parent_id] in (0, 1)
    assert all(node.depth == 0 for node in nodes if node.on_branch)
    straight = [node.parent_id for node in nodes if node.parent_id and not _steps_in(node, depth)]
    assert len(straight) == len(set(straight))  # of each entry one child at most goes straight on


def _steps_in(node: OutlineNode, depth: dict[str, int]) -> bool:
    return node.depth > depth[str(node.parent_id)]


@pytest.mark.parametrize(
    "parents", [{"a": "gone", "b": "a"}, {"a": "b", "b": "a"}, {"a": "a", "b": None}]
)
def test_a_damaged_tree_is_drawn_all_the_same(parents: dict[str, str | None]) -> None:
    rows = rows_of([user(entry_id, parent) for entry_id, parent in parents.items()])

    nodes = outline([*rows, rows[0]], "b")

    assert sorted(node.id for node in nodes) == ["a", "b"]


def test_a_long_conversation_is_no_deeper_than_a_short_one() -> None:
    rows = rows_of([user(f"e{i}", f"e{i - 1}" if i else None) for i in range(5000)])

    nodes = outline(rows, "e4999")

    assert [node.id for node in nodes] == [row.id for row in rows]
    assert {node.depth for node in nodes} == {0}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ""),
        (" a\n b\t", "a b"),
        ("0123456789", "0123456789"),
        ("0123456789a", "012345678…"),
        ("012345 \n " + " " * 100 + "z", "012345…"),
    ],
)
def test_a_line_is_cut_with_an_ellipsis(text: str, expected: str) -> None:
    assert one_line(text, 10) == expected
