"""Finding where something was said."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from loopwright.errors import Misuse, SessionDamaged, SessionNotFound
from loopwright.messages import (
    AssistantMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from loopwright.session.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    Entry,
    EntryRow,
    MessageEntry,
    to_row,
)
from loopwright.session.leases import new_owner
from loopwright.session.memory import MemoryStore
from loopwright.session.rows import Fact
from loopwright.session.search import SearchHit, search_sessions
from loopwright.session.store import Commit

from .trees import keep, user


def everything() -> list[Entry]:
    """An entry of every kind."""
    return [
        MessageEntry(
            id="u",
            parent_id=None,
            message=UserMessage(
                [TextContent("where is the apple"), ImageContent("YXBwbGU0MjQy", "image/png")]
            ),
        ),
        MessageEntry(
            id="a",
            parent_id="u",
            message=AssistantMessage(
                [
                    ThinkingContent("a secret plum"),
                    TextContent("I look for the pear"),
                    ToolCall("1", "find_fruit", {"where": {"deep": ["a grape", 8080]}, "c:\\d": 1}),
                    ToolCall("2", "peel", {}, raw_arguments='{"a lime', arguments_error="no"),
                ]
            ),
        ),
        MessageEntry(
            id="r",
            parent_id="a",
            message=ToolResultMessage(
                "1", "find_fruit", [TextContent('a "cherry"\nis here')], details={"hidden": "fig"}
            ),
        ),
        CompactionEntry(id="k", parent_id="r", summary="talked of a quince"),
        BranchSummaryEntry(id="b", parent_id="k", from_id="x", summary="tried a mango"),
        CustomEntry(id="o", parent_id="b", custom_type="note", data="a papaya"),
    ]


def marked(hit: SearchHit) -> str:
    return hit.excerpt[hit.start : hit.end]


@pytest.mark.parametrize(
    ("text", "entry_id", "kind"),
    [
        ("apple", "u", "user"),
        ("pear", "a", "assistant"),
        ("peel", "a", "assistant"),
        ("grape", "a", "assistant"),
        ("deep", "a", "assistant"),
        ("8080", "a", "assistant"),
        ("c:\\d", "a", "assistant"),
        ('{"a lime', "a", "assistant"),
        ('"cherry"\nis', "r", "toolResult"),
        ("quince", "k", "compaction"),
        ("mango", "b", "branch_summary"),
    ],
)
async def test_all_that_was_said_is_found(text: str, entry_id: str, kind: str) -> None:
    store = MemoryStore()
    session = await keep(store, everything())

    hits = await search_sessions(store, text.upper())

    assert [(hit.session.id, hit.entry_id, hit.kind) for hit in hits] == [(session, entry_id, kind)]
    assert marked(hits[0]) == text.replace("\n", " ")


@pytest.mark.parametrize("text", ["plum", "YXBw", "4242", "fig", "papaya", "note", "toolResult"])
async def test_thoughts_pictures_details_and_what_programs_keep_are_not_found(text: str) -> None:
    store = MemoryStore()
    await keep(store, everything())

    assert await search_sessions(store, text) == []


async def test_names_of_sessions_are_found() -> None:
    store = MemoryStore()
    session = await keep(store, [], facts=[Fact(namespace="name", value="Tidy the Attic")])

    (hit,) = await search_sessions(store, "attic")

    assert (hit.session.id, hit.entry_id, hit.kind) == (session, None, "name")
    assert hit.timestamp == hit.session.modified_at
    assert marked(hit) == "Attic"


async def test_the_newest_sessions_and_their_newest_entries_come_first_up_to_the_limit() -> None:
    store = MemoryStore()
    old = await keep(store, [user("a", None, "pear"), user("b", "a", "pear")])
    new = await keep(store, [user("c", None, "pear"), user("d", None, "pear")])
    lease = await store.claim(old, new_owner(), 30)
    modified = (await store.info(new)).modified_at
    while (await store.info(old)).modified_at <= modified:  # a clock of milliseconds
        await store.commit(lease, Commit(preview="touched"))

    every = await search_sessions(store, "pear")
    some = await search_sessions(store, "pear", limit=3)

    assert [hit.entry_id for hit in every] == ["b", "a", "d", "c"]
    assert some == every[:3]


async def test_a_folder_narrows_the_search() -> None:
    store = MemoryStore()
    here = await keep(store, [user("a", None, "pear")], cwd="/here")
    await keep(store, [user("a", None, "pear")], cwd="/there")

    hits = await search_sessions(store, "pear", cwd="/here")

    assert [hit.session.id for hit in hits] == [here]


async def test_case_counts_if_asked() -> None:
    store = MemoryStore()
    await keep(store, [user("a", None, "Pear"), user("b", None, "pear")])

    hits = await search_sessions(store, "Pear", ignore_case=False)

    assert [hit.entry_id for hit in hits] == ["a"]


async def test_a_session_longer_than_a_page_is_read_to_its_beginning() -> None:
    store = MemoryStore()
    entries: list[Entry] = [
        user(f"e{i}", None, "apple" if i % 500 else "pear") for i in range(1001)
    ]
    await keep(store, entries)

    hits = await search_sessions(store, "pear")

    assert [hit.entry_id for hit in hits] == ["e1000", "e500", "e0"]


async def test_an_excerpt_is_one_line_around_the_match() -> None:
    store = MemoryStore()
    await keep(store, [user("a", None, "x\n" * 300 + "the\tpear\x1b[0m" + "\r\ny" * 300)])

    (hit,) = await search_sessions(store, "PEAR")

    assert marked(hit) == "pear"
    assert hit.excerpt.isprintable()
    assert hit.excerpt.startswith("…x ")
    assert hit.excerpt.endswith("  y  y …")
    assert len(hit.excerpt) < 150


async def test_a_long_text_is_shown_whole_where_it_matches() -> None:
    store = MemoryStore()
    await keep(store, [user("a", None, "abc" * 200)])

    (hit,) = await search_sessions(store, "abc" * 199)

    assert marked(hit) == "abc" * 199


@pytest.mark.parametrize(("text", "limit"), [("", 5), ("x", 0), ("x", -1)])
async def test_a_search_for_nothing_is_refused(text: str, limit: int) -> None:
    with pytest.raises(Misuse):
        await search_sessions(MemoryStore(), text, limit=limit)


async def test_what_cannot_be_read_is_passed_over() -> None:
    store = MemoryStore()
    session = await keep(store, [user("a", None, "pear")])
    lease = await store.claim(session, new_owner(), 30)
    broken = [
        EntryRow("b", "a", "message", b'{"message": {"role": "pear"}}', 1),
        EntryRow("c", "b", "compaction", b'{"pear": 1', 1),
    ]
    await store.commit(lease, Commit(entries=broken))

    hits = await search_sessions(store, "pear")

    assert [hit.entry_id for hit in hits] == ["a"]


class Vanishing(MemoryStore):
    """Some sessions are gone, or damaged, when they are looked into."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self.error = error

    async def entries(self, session_id: str, **options: Any) -> list[EntryRow]:
        if session_id.startswith("bad"):
            raise self.error
        return await super().entries(session_id, **options)


@pytest.mark.parametrize("error", [SessionNotFound("gone"), SessionDamaged("torn", where="x")])
async def test_a_session_that_is_gone_or_damaged_hides_no_other(error: Exception) -> None:
    store = Vanishing(error)
    for name in ("bad1", "good", "bad2"):
        await keep(store, [user("a", None, "pear")], id=name)

    hits = await search_sessions(store, "pear")

    assert [hit.session.id for hit in hits] == ["good"]


# -- what is ruled out by its bytes really does not match -------------------------------------

_letters = st.sampled_from('aIikKsSßſıİ\u212aÅåµμΣςéÉЖж日本 "\\/\n\x1b\x7f<1')
_words = st.text(_letters, min_size=1, max_size=4) | st.text(min_size=1, max_size=3)


@given(_words, st.text(_letters, max_size=8) | st.text(max_size=8), st.booleans(), st.booleans())
@example("ss", "ß", True, False)
@example("k", "\u212a", True, True)
@example("\u212a", "K", True, False)
@example("i/", "İ/", True, True)
@example("日K", "日k", True, False)
async def test_a_text_is_found_exactly_where_a_plain_search_would_find_it(
    needle: str, said: str, ignore_case: bool, foreign: bool
) -> None:
    store = MemoryStore()
    session = await keep(store, [])
    row = to_row(user("a", None, said))
    data = msgspec.json.decode(row.payload)
    if foreign:  # another writer escapes all it can
        escaped = json.dumps(data, ensure_ascii=True).replace("/", "\\/").replace("<", "\\u003C")
        row = msgspec.structs.replace(row, payload=escaped.encode())
    lease = await store.claim(session, new_owner(), 30)
    await store.commit(lease, Commit(entries=[row]))

    hits = await search_sessions(store, needle, ignore_case=ignore_case)

    kept, wanted = data["message"]["content"], user("b", None, needle).to_dict()["message"]
    flags = re.IGNORECASE if ignore_case else 0
    assert bool(hits) == bool(re.search(re.escape(wanted["content"]), kept, flags))
