"""The store in a file does what every store does."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopwright.errors import SessionError
from loopwright.messages import Usage, UserMessage
from loopwright.session import tables
from loopwright.session.entries import EntryRow, MessageEntry, to_row
from loopwright.session.memory import MemoryStore
from loopwright.session.rows import (
    Approval,
    Fact,
    InboxItem,
    Intent,
    Lane,
    Operation,
    SessionInfo,
    UsageRow,
)
from loopwright.session.sqlite import SqliteStore
from loopwright.session.store import Commit, Lease, SessionStore
from loopwright.testing.store_conformance import StoreConformance


class TestSqliteStore(StoreConformance):
    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "sessions.db"

    async def make_store(self) -> SessionStore:
        return await SqliteStore.open(self.path)

    async def open_again(self, store: SessionStore) -> SessionStore:
        return await SqliteStore.open(self.path)


IDS = st.sampled_from("abc")
LANES = st.sampled_from(["main", "side"])
VERDICTS: st.SearchStrategy[Literal["approved", "denied"]] = st.sampled_from(["approved", "denied"])


def entry(entry_id: str, parent_id: str | None) -> EntryRow:
    message = UserMessage(content="x", timestamp=1)
    return to_row(MessageEntry(id=entry_id, parent_id=parent_id, message=message, timestamp=1))


def approval(approval_id: str, digest: str) -> Approval:
    return Approval(
        id=approval_id, lane="main", tool_call_id="c", tool_name="t", digest=digest, requested_at=1
    )


ENTRIES = st.lists(st.builds(entry, IDS, st.none() | IDS), max_size=2)
OPERATIONS = st.lists(
    st.builds(
        Operation,
        id=IDS,
        lane=LANES,
        status=st.sampled_from(["open", "waiting", "completed", "failed"]),
        request_id=st.none() | IDS,
        started_at=st.just(1),
    ),
    max_size=2,
)
ITEMS = st.builds(
    InboxItem,
    id=IDS,
    lane=LANES,
    queue=st.sampled_from(["steer", "followUp", "nextRun"]),
    request_id=st.none() | IDS,
    status=st.sampled_from(["pending", "placed", "withdrawn"]),
    created_at=st.just(1),
)
FACTS = st.builds(
    Fact,
    namespace=st.sampled_from(["label", "custom"]),
    key=IDS,
    value=st.none() | st.integers(0, 3),
    deleted=st.booleans(),
)
NAMES = st.builds(Fact, namespace=st.just("name"), value=st.text(max_size=2), deleted=st.booleans())
USAGE = st.builds(
    UsageRow, id=IDS, cause=st.just("tool"), usage=st.just(Usage(input=1)), timestamp=st.just(1)
)
COMMITS = st.builds(
    Commit,
    entries=ENTRIES,
    lanes=st.lists(st.builds(Lane, name=LANES, leaf_id=st.none() | IDS), max_size=2),
    operations=OPERATIONS,
    intents=st.lists(
        st.builds(
            Intent,
            id=IDS,
            lane=LANES,
            assistant_id=IDS,
            index=st.integers(0, 2),
            tool_call_id=IDS,
            tool_name=IDS,
            started_at=st.just(1),
        ),
        max_size=2,
    ),
    settled=st.lists(IDS, max_size=1),
    inbox=st.lists(ITEMS, max_size=2),
    approvals=st.lists(st.builds(approval, IDS, IDS), max_size=2),
    consume=st.lists(st.tuples(IDS, IDS), max_size=1),
    facts=st.lists(FACTS | NAMES, max_size=3),
    usage=st.lists(USAGE, max_size=2),
    usage_total=st.builds(Usage, input=st.integers(0, 9)),
    preview=st.none() | st.text(max_size=3),
    unless_waiting=st.none() | LANES,
)
STEPS = st.lists(
    COMMITS
    | st.tuples(st.just("enqueue"), ITEMS)
    | st.tuples(st.just("withdraw"), IDS)
    | st.tuples(st.just("decide"), IDS, VERDICTS),
    max_size=12,
)


async def outcome(store: SessionStore, lease: Lease, step: Any) -> object:
    """What the store answers, or the name of what it raises."""
    try:
        match step:
            case Commit():
                return await store.commit(lease, step)
            case ("enqueue", item):
                return await store.enqueue("s", item)
            case ("withdraw", item_id):
                return await store.withdraw("s", item_id)
            case (_, approval_id, verdict):
                decided = await store.decide("s", approval_id, verdict)
                return msgspec.structs.replace(decided, decided_at=1)
    except SessionError as error:
        return type(error).__name__


async def everything(store: SessionStore) -> list[object]:
    state = await store.state("s")
    state.info = msgspec.structs.replace(state.info, created_at=1, modified_at=1)
    state.approvals = [msgspec.structs.replace(a, decided_at=1) for a in state.approvals]
    return [
        state,
        await store.entries("s"),
        await store.usage("s"),
        await store.operations("s"),
        [await store.inbox("s", after=item_id) for item_id in "abc"],
        await store.inbox("s", ids=["c", "a"]),
        [msgspec.structs.replace(a, decided_at=1) for a in await store.approvals("s")],
    ]


@pytest.mark.parametrize(
    ("which", "index"),
    [
        ({"after": "a"}, "inbox_pending (session_id=? AND ord>?)"),
        ({"ids": ("a", "b")}, "(session_id=? AND id=?)"),
        ({"ids": tuple(map(str, range(512)))}, "(session_id=? AND id=?)"),
    ],
)
def test_to_find_a_few_of_those_that_wait_the_others_are_not_walked_through(
    which: dict[str, Any], index: str
) -> None:
    with closing(sqlite3.connect(":memory:")) as connection:
        for statement in tables.DDL:
            connection.execute(tables.in_dialect(statement, tables.SQLITE))
        sql, values = tables.inbox_query("s", "main", ("steer", "followUp"), **which)

        plan = connection.execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall()

    assert index in plan[0][-1]


@given(STEPS)
@settings(max_examples=60)
async def test_a_file_and_memory_answer_alike_whatever_is_written(steps: list[Any]) -> None:
    with TemporaryDirectory() as folder:
        async with await SqliteStore.open(Path(folder) / "s.db") as file, MemoryStore() as memory:
            leases: list[Lease] = []
            for store in (file, memory):
                await store.create(SessionInfo(id="s"))
                leases.append(await store.claim("s", "owner", 60))
                await store.commit(leases[-1], Commit(lanes=[Lane(name="side")]))

            for step in steps:
                answers = [
                    await outcome(store, lease, step)
                    for store, lease in zip((file, memory), leases, strict=True)
                ]

                assert answers[0] == answers[1]
                assert await everything(file) == await everything(memory)
