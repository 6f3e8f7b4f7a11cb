"""Walking a branch, and what a model is shown of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.errors import Misuse, SessionDamaged
from loopwright.messages import AgentMessage, UserMessage
from loopwright.session.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    Entry,
    EntryRow,
    MessageEntry,
    to_row,
)
from loopwright.session.tree import (
    BranchWalk,
    adds_to_context,
    branch_rows,
    branch_summary_text,
    children_index,
    common_ancestor,
    compaction_text,
    context_of,
    parents_index,
    path_to_root,
    query_branch,
    transcript_of,
)

from .trees import reply, result, rows_of, trees, user

# -- the references, written as plainly as can be ---------------------------------------------


def naive_branch(entries: list[Entry], leaf: str | None) -> list[Entry]:
    """By looking each parent up."""
    by_id = {entry.id: entry for entry in entries}
    if leaf is None:
        return []
    entry = by_id[leaf]
    return [*naive_branch(entries, entry.parent_id), entry]


def naive_context(branch: list[Entry], *, failed: bool = False) -> list[AgentMessage]:
    """By going through the branch once from the root, starting over at every compaction."""
    said: dict[str, AgentMessage | None] = {}  # by every entry so far
    shown: list[AgentMessage | None] = []
    for entry in branch:
        said[entry.id] = None
        if isinstance(entry, MessageEntry):
            said[entry.id] = entry.message
        elif isinstance(entry, BranchSummaryEntry) and entry.summary.strip():
            text = branch_summary_text(entry.summary)
            said[entry.id] = UserMessage(text, entry.timestamp)
        elif isinstance(entry, CompactionEntry):
            shown = [UserMessage(compaction_text(entry.summary), entry.timestamp)]
            ids = list(said)
            if entry.retained_tail is not None:
                shown += entry.retained_tail
            elif entry.first_kept_id is not None:
                shown += [said[kept] for kept in ids[ids.index(entry.first_kept_id) :]]
        shown.append(said[entry.id])
    return [
        message
        for message in shown
        if message is not None
        and (failed or getattr(message, "stop_reason", None) not in ("error", "aborted"))
    ]


def leaves(entries: list[Entry]) -> list[str | None]:
    return [None, *(entry.id for entry in entries)]


def pages(rows: list[EntryRow], sizes: list[int]) -> list[list[EntryRow]]:
    """*rows*, newest first, cut into pieces of these sizes, over and over."""
    rows, found = rows[::-1], list[list[EntryRow]]()
    while rows:
        size = sizes[len(found) % len(sizes)]
        found.append(rows[:size])
        rows = rows[size:]
    return found


# -- the walk ---------------------------------------------------------------------------------


@given(trees(), st.data())
def test_a_branch_is_what_one_finds_by_looking_up_each_parent(
    entries: list[Entry], data: st.DataObject
) -> None:
    leaf = data.draw(st.sampled_from(leaves(entries)))

    found = branch_rows(rows_of(entries)[::-1], leaf)

    assert [row.entry() for row in found] == naive_branch(entries, leaf)


@given(trees(), st.lists(st.integers(1, 5), min_size=1, max_size=3), st.data())
def test_pages_of_any_size_give_the_same_branch(
    entries: list[Entry], sizes: list[int], data: st.DataObject
) -> None:
    leaf = data.draw(st.sampled_from(leaves(entries)))
    walk = BranchWalk(leaf)

    for page in pages(rows_of(entries), sizes):
        walk.feed(page)
    walk.end()

    assert walk.done
    assert walk.enough_for_context
    assert [row.id for row in walk.rows] == [entry.id for entry in naive_branch(entries, leaf)]


@given(trees(), st.lists(st.integers(1, 5), min_size=1, max_size=3), st.data())
def test_stopping_early_shows_the_model_what_the_whole_branch_would(
    entries: list[Entry], sizes: list[int], data: st.DataObject
) -> None:
    leaf = data.draw(st.sampled_from(leaves(entries)))
    walk = BranchWalk(leaf)

    for page in pages(rows_of(entries), sizes):
        if walk.enough_for_context:
            break
        walk.feed(page)

    assert walk.enough_for_context
    expected = naive_context(naive_branch(entries, leaf))
    assert context_of([row.entry() for row in walk.rows]) == expected
    assert context_of([row.entry() for row in walk.context_rows]) == expected


def test_a_walk_stops_at_the_first_message_that_the_newest_compaction_keeps() -> None:
    entries: list[Entry] = [
        user("a", None),
        user("b", "a"),
        user("c", "b"),
        CompactionEntry(id="k", parent_id="c", summary="s", first_kept_id="b"),
        user("d", "k"),
    ]
    rows = rows_of(entries)[::-1]
    walk = BranchWalk("d")

    enough: list[bool] = []
    for row in rows:
        enough.append(walk.enough_for_context)
        walk.feed([row])

    assert enough == [False, False, False, False, True]
    assert [row.id for row in walk.context_rows] == ["b", "c", "k", "d"]
    assert [row.id for row in walk.rows] == ["a", "b", "c", "k", "d"]


@pytest.mark.parametrize(
    ("tail", "kept"), [(None, None), ([UserMessage("copy", 1)], None), ([], "a")]
)
def test_a_walk_needs_nothing_older_than_a_compaction_that_keeps_nothing_or_copies(
    tail: list[AgentMessage] | None, kept: str | None
) -> None:
    compaction = CompactionEntry(
        id="k", parent_id="a", summary="s", retained_tail=tail, first_kept_id=kept
    )
    walk = BranchWalk("b")

    walk.feed(rows_of([user("a", None), compaction, user("b", "k")])[:0:-1])

    assert walk.enough_for_context
    assert not walk.done
    assert walk.wanted == "a"


def test_only_the_newest_compaction_says_how_far_a_walk_must_go() -> None:
    entries: list[Entry] = [
        user("a", None),
        CompactionEntry(id="k1", parent_id="a", summary="one"),
        user("b", "k1"),
        CompactionEntry(id="k2", parent_id="b", summary="two", first_kept_id="a"),
    ]
    walk = BranchWalk("k2")

    walk.feed(rows_of(entries)[:0:-1])

    assert [row.id for row in walk.rows] == ["k1", "b", "k2"]
    assert not walk.enough_for_context


def test_a_missing_parent_is_reported_with_the_entry_that_names_it() -> None:
    rows = rows_of([user("a", None), user("b", "a"), user("c", "b")])
    del rows[1]

    with pytest.raises(SessionDamaged) as caught:
        branch_rows(rows[::-1], "c")

    assert caught.value.where == "entry c"
    assert "b is missing" in caught.value.message


def test_a_missing_leaf_is_reported() -> None:
    with pytest.raises(SessionDamaged, match="entry nowhere: the entry is missing"):
        branch_rows(rows_of([user("a", None)]), "nowhere")


def test_a_parent_that_was_written_later_is_reported() -> None:
    rows = rows_of([user("a", "b"), user("b", None)])

    with pytest.raises(SessionDamaged) as caught:
        branch_rows(rows[::-1], "a")

    assert caught.value.where == "entry a"


@pytest.mark.parametrize("length", [1, 2, 5])
def test_a_branch_that_runs_in_a_circle_is_reported_and_ends(length: int) -> None:
    last = f"e{length - 1}"
    rows = rows_of([user(f"e{i}", f"e{i - 1}" if i else last) for i in range(length)])

    with pytest.raises(SessionDamaged, match="descends from it|its own parent") as caught:
        branch_rows(rows[::-1], last)

    assert caught.value.where == "entry e0"


def test_rows_of_a_finished_walk_change_nothing() -> None:
    rows = rows_of([user("a", None), user("b", "a")])
    walk = BranchWalk("b")
    walk.feed(rows[::-1])

    walk.feed(rows[::-1])
    walk.end()

    assert [row.id for row in walk.rows] == ["a", "b"]


def test_an_unreadable_compaction_is_reported_before_anything_is_shown() -> None:
    rows = rows_of([user("a", None)])
    rows.append(EntryRow("k", "a", "compaction", b'{"summary": 5}', 1, seq=2))

    with pytest.raises(SessionDamaged, match="entry k"):
        BranchWalk("k").feed(rows[::-1])


# -- the context ------------------------------------------------------------------------------


@given(trees(), st.data())
def test_the_model_is_shown_what_a_plain_reading_from_the_root_would_show(
    entries: list[Entry], data: st.DataObject
) -> None:
    branch = naive_branch(entries, data.draw(st.sampled_from(leaves(entries))))

    context, transcript = context_of(branch), transcript_of(branch)

    assert context == naive_context(branch)
    assert transcript == naive_context(branch, failed=True)


@given(trees(), st.data())
def test_one_entry_at_a_time_gives_the_same_context_as_all_at_once(
    entries: list[Entry], data: st.DataObject
) -> None:
    branch = naive_branch(entries, data.draw(st.sampled_from(leaves(entries))))
    grown: list[AgentMessage] = []

    for i, entry in enumerate(branch):
        if isinstance(entry, CompactionEntry):
            grown = context_of(branch[: i + 1])
        elif (shown := adds_to_context(entry)) is not None:
            grown.append(shown)

    assert grown == context_of(branch)


def test_after_a_compaction_the_model_reads_the_summary_what_was_kept_and_what_is_new() -> None:
    branch: list[Entry] = [
        user("a", None, "old"),
        user("b", "a", "kept"),
        reply("c", "b", "kept too"),
        CompactionEntry(
            id="k", parent_id="c", summary=" the gist ", first_kept_id="b", timestamp=7
        ),
        user("d", "k", "new"),
    ]

    shown = context_of(branch)

    assert [getattr(message, "text", "") for message in shown] == [
        compaction_text("the gist"),
        "kept",
        "kept too",
        "new",
    ]
    assert isinstance(shown[0], UserMessage)
    assert shown[0].timestamp == 7  # the same bytes with every request: a prefix is cached


def test_a_result_follows_its_call_also_where_the_kept_part_begins() -> None:
    branch: list[Entry] = [
        user("a", None),
        reply("b", "a", calls=("c1", "c2")),
        result("r1", "b", "c1"),
        result("r2", "r1", "c2"),
        CompactionEntry(id="k", parent_id="r2", summary="s", first_kept_id="b"),
    ]

    shown = context_of(branch)

    assert [message.role for message in shown] == ["user", "assistant", "toolResult", "toolResult"]


def test_an_older_compaction_inside_what_is_kept_is_not_shown_again() -> None:
    branch: list[Entry] = [
        user("a", None, "first"),
        CompactionEntry(id="k1", parent_id="a", summary="one"),
        user("b", "k1", "second"),
        CompactionEntry(id="k2", parent_id="b", summary="two", first_kept_id="a"),
    ]

    shown = context_of(branch)

    texts = [getattr(message, "text", "") for message in shown]
    assert texts == [compaction_text("two"), "first", "second"]


def test_a_compaction_that_keeps_from_an_entry_of_another_branch_is_reported() -> None:
    branch: list[Entry] = [
        user("a", None),
        CompactionEntry(id="k", parent_id="a", summary="s", first_kept_id="elsewhere"),
    ]

    with pytest.raises(SessionDamaged, match="elsewhere") as caught:
        context_of(branch)

    assert caught.value.where == "entry k"


@pytest.mark.parametrize("stop_reason", ["error", "aborted"])
def test_a_failed_reply_happened_but_is_not_shown(stop_reason: Any) -> None:
    branch: list[Entry] = [
        user("a", None),
        reply("b", "a", stop_reason=stop_reason),
        reply("c", "b", "better"),
    ]

    shown, happened = context_of(branch), transcript_of(branch)

    assert [message.role for message in happened] == ["user", "assistant", "assistant"]
    assert shown == [happened[0], happened[2]]
    assert adds_to_context(branch[1]) is None


def test_a_summary_of_another_branch_is_told_and_an_empty_one_is_not() -> None:
    told = BranchSummaryEntry(id="b", parent_id=None, from_id="x", summary="tried", timestamp=3)
    empty = BranchSummaryEntry(id="c", parent_id="b", from_id="x", summary=" \n")

    shown = context_of([told, empty])

    assert shown == [UserMessage(branch_summary_text("tried"), 3)]
    assert "<branch-summary>\ntried\n</branch-summary>" in branch_summary_text("tried")


def test_no_entries_show_nothing() -> None:
    assert context_of([]) == transcript_of([]) == []


def test_a_branch_of_many_thousands_is_walked_without_recursion() -> None:
    size = 20_000
    payload = to_row(user("x", None)).payload
    rows = [
        EntryRow(f"e{i}", f"e{i - 1}" if i else None, "message", payload, 1, seq=i + 1)
        for i in range(size)
    ]

    found = branch_rows(reversed(rows), f"e{size - 1}")
    path = path_to_root(parents_index(rows), f"e{size - 1}")

    assert len(found) == len(path) == size


# -- questions --------------------------------------------------------------------------------


def a_branch() -> list[EntryRow]:
    """a, b, own x, k, c, own y; newest first."""
    return rows_of(
        [
            user("a", None),
            user("b", "a"),
            CustomEntry(id="x", parent_id="b", custom_type="x"),
            CompactionEntry(id="k", parent_id="x", summary="s", first_kept_id="b"),
            user("c", "k"),
            CustomEntry(id="y", parent_id="c", custom_type="y"),
        ]
    )[::-1]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ({}, "y c k x b a"),
        ({"oldest_first": True}, "a b x k c y"),
        ({"stop_at_id": "x"}, "y c k x"),
        ({"stop_at_type": "compaction"}, "y c k"),
        ({"stop_at_type": "compaction", "oldest_first": True}, "a b x k"),
        ({"stop_at_type": "compaction", "types": ["message"]}, "c"),
        ({"stop_at_id": "x", "types": ["custom"], "custom_type": "x"}, "x"),
        ({"types": ["message", "compaction"]}, "c k b a"),
        ({"custom_type": "y"}, "y"),
        ({"types": ["message"], "custom_type": "y"}, ""),
        ({"cursor": 4}, "x b a"),
        ({"cursor": 4, "oldest_first": True}, "c y"),
        ({"limit": 2}, "y c"),
        ({"limit": 2, "oldest_first": True}, "a b"),
        ({"cursor": 5, "types": ["message"], "limit": 1}, "b"),
        ({"stop_at_id": "k", "limit": 9}, "y c k"),
        ({"stop_at_id": "nowhere"}, "y c k x b a"),
    ],
)
def test_a_branch_is_asked_by_bound_then_kind_then_cursor_then_limit(
    query: dict[str, Any], expected: str
) -> None:
    rows = a_branch()

    of_rows = query_branch(rows, **query)
    of_entries = query_branch([row.entry() for row in rows], **query)

    assert [row.id for row in of_rows] == expected.split()
    assert [entry.id for entry in of_entries] == expected.split()


@given(trees(), st.integers(1, 4), st.booleans(), st.data())
def test_going_on_from_the_last_entry_of_each_answer_reads_a_branch_whole(
    entries: list[Entry], limit: int, oldest_first: bool, data: st.DataObject
) -> None:
    branch = naive_branch(entries, data.draw(st.sampled_from(leaves(entries))))
    found: list[Entry] = []
    cursor = None

    while page := query_branch(branch[::-1], limit=limit, cursor=cursor, oldest_first=oldest_first):
        found += page
        cursor = page[-1].seq

    assert found == (branch if oldest_first else branch[::-1])


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": -1}, "limit"),
        ({"limit": True}, "limit"),
        ({"limit": 1.5}, "limit"),
        ({"cursor": -1}, "cursor"),
        ({"cursor": "3"}, "cursor"),
        ({"types": "message"}, "collection"),
        ({"types": ["mesage"]}, "'mesage'"),
        ({"stop_at_type": "turn"}, "'turn'"),
    ],
)
def test_a_query_that_makes_no_sense_is_refused_also_on_an_empty_branch(
    query: dict[str, Any], said: str
) -> None:
    nothing: list[Entry] = []

    with pytest.raises(Misuse, match=said):
        query_branch(nothing, **query)


# -- paths ------------------------------------------------------------------------------------


@given(trees(), st.data())
def test_two_branches_part_at_their_newest_common_entry(
    entries: list[Entry], data: st.DataObject
) -> None:
    a = data.draw(st.sampled_from(leaves(entries)))
    b = data.draw(st.sampled_from(leaves(entries)))
    parents = parents_index(entries)

    found = common_ancestor(path_to_root(parents, a), path_to_root(parents, b))

    assert path_to_root(parents, a) == [entry.id for entry in naive_branch(entries, a)]
    on_a = {entry.id for entry in naive_branch(entries, a)}
    common = [entry.id for entry in naive_branch(entries, b) if entry.id in on_a]
    assert found == (common[-1] if common else None)


@given(trees())
def test_children_are_told_in_order_and_nobody_is_forgotten(entries: list[Entry]) -> None:
    children = children_index(entries)

    assert {(parent, child) for parent, follow in children.items() for child in follow} == {
        (entry.parent_id, entry.id) for entry in entries
    }
    order = [entry.id for entry in entries]
    assert all(follow == sorted(follow, key=order.index) for follow in children.values())


@pytest.mark.parametrize("parents", [{"a": "gone"}, {"a": "b", "b": "a"}, {"a": "a"}, {}])
def test_a_path_that_cannot_be_followed_is_reported(parents: dict[str, str | None]) -> None:
    with pytest.raises(SessionDamaged):
        path_to_root(parents, "a")
