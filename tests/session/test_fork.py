"""A new session from what another one holds."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.errors import LeaseLost, Misuse, SessionDamaged, SessionNotFound, StoreUnavailable
from loopwright.messages import Usage, UserMessage
from loopwright.session.entries import CompactionEntry, CustomEntry, Entry, EntryRow, to_row
from loopwright.session.fork import fork_session
from loopwright.session.leases import new_owner
from loopwright.session.memory import MemoryStore
from loopwright.session.rows import (
    Approval,
    Fact,
    InboxItem,
    Intent,
    Lane,
    LaneConfig,
    Operation,
    SessionInfo,
    UsageRow,
)
from loopwright.session.sqlite import SqliteStore
from loopwright.session.store import Commit, Lease, SessionState, SessionStore
from loopwright.session.tree import branch_rows, parents_index, path_to_root

from .trees import keep, reply, result, trees, user

CONFIG = LaneConfig(provider="acme", model_id="large", active_tools=["look"])


def a_tree() -> list[Entry]:
    """a, b, c, d in a row, and x beside c."""
    return [
        user("a", None, "hello   there"),
        reply("b", "a"),
        user("c", "b"),
        user("x", "b", "another way"),
        reply("d", "c"),
    ]


async def path_of(store: SessionStore, session_id: str, lane: str = "main") -> list[str]:
    """The ids of a lane's branch, oldest first."""
    state = await store.state(session_id)
    leaf = next(each.leaf_id for each in state.lanes if each.name == lane)
    rows = await store.entries(session_id, newest_first=True)
    return [row.id for row in branch_rows(rows, leaf)]


async def contents_of(store: SessionStore, session_id: str) -> Any:
    """All there is of a session but who holds it."""
    state = await store.state(session_id)
    return (
        *(state.info.entries, state.info.name, state.info.usage, state.info.modified_at),
        *(state.head, state.lanes, state.operations, state.intents, state.inbox),
        *(state.approvals, state.facts),
        *(await store.entries(session_id), await store.usage(session_id)),
    )


# -- one branch -------------------------------------------------------------------------------


async def test_without_a_target_the_branch_of_main_is_copied_whole() -> None:
    store = MemoryStore()
    source = await keep(store, a_tree(), lanes={"main": "d"}, cwd="/work", name=None)

    fork = await fork_session(store, source)

    assert fork.id != source
    assert fork.parent_id == source
    assert fork.cwd == "/work"
    assert fork.entries == 4
    assert fork.preview == "hello there"
    assert await path_of(store, fork.id) == ["a", "b", "c", "d"]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"entry_id": "c"}, ["a", "b"]),
        ({"entry_id": "c", "position": "before"}, ["a", "b"]),
        ({"entry_id": "c", "position": "at"}, ["a", "b", "c"]),
        ({"entry_id": "x", "position": "at"}, ["a", "b", "x"]),
        ({"entry_id": "a"}, []),
        ({"position": "before"}, ["a", "b", "c"]),
        ({"position": "at"}, ["a", "b", "c", "d"]),
        ({"lane": "other"}, ["a", "b", "x"]),
        ({"lane": "empty"}, []),
        ({"lane": "empty", "position": "before"}, []),
    ],
)
async def test_a_target_is_left_out_unless_asked_for_and_a_leaf_is_taken_along(
    options: dict[str, Any], expected: list[str]
) -> None:
    store = MemoryStore()
    source = await keep(store, a_tree(), lanes={"main": "d", "other": "x", "empty": None})

    fork = await fork_session(store, source, **options)

    assert await path_of(store, fork.id) == expected
    assert fork.entries == len(expected)
    assert [lane.name for lane in (await store.state(fork.id)).lanes] == ["main"]


async def test_numbers_begin_at_one_and_what_an_entry_says_stays() -> None:
    store = MemoryStore()
    entries: list[Entry] = [user("x", None), *a_tree()[:3]]
    source = await keep(store, entries, lanes={"main": "c"})

    fork = await fork_session(store, source)

    rows = await store.entries(fork.id)
    assert [row.seq for row in rows] == [1, 2, 3]
    copied = {row.id: row for row in await store.entries(source)}
    for row in rows:
        before = copied[row.id]
        assert (row.parent_id, row.type, row.payload, row.timestamp) == (
            *(before.parent_id, before.type, before.payload),
            before.timestamp,
        )


async def test_the_name_goes_along_and_labels_only_with_their_entries() -> None:
    store = MemoryStore()
    facts = [
        Fact(namespace="name", value="Tidy up"),
        Fact(namespace="label", key="b", value="here"),
        Fact(namespace="label", key="d", value="there"),
        Fact(namespace="custom", key="mine", value=None),
    ]
    source = await keep(store, a_tree(), lanes={"main": "d"}, facts=facts)

    branch = await fork_session(store, source, entry_id="c")
    tree = await fork_session(store, source, scope="tree")

    assert branch.name == tree.name == "Tidy up"
    assert [(f.namespace, f.key, f.value) for f in (await store.state(branch.id)).facts] == [
        ("name", "", "Tidy up"),
        ("label", "b", "here"),
    ]
    assert [(f.namespace, f.key, f.value) for f in (await store.state(tree.id)).facts] == [
        (fact.namespace, fact.key, fact.value) for fact in facts
    ]


async def test_a_name_and_folder_that_are_given_take_the_place_of_the_old_ones() -> None:
    store = MemoryStore()
    source = await keep(store, a_tree(), cwd="/old", facts=[Fact(namespace="name", value="Old")])

    fork = await fork_session(store, source, name="New", cwd="/new")

    assert (fork.name, fork.cwd) == ("New", "/new")
    facts = (await store.state(fork.id)).facts
    assert [(fact.namespace, fact.value) for fact in facts] == [("name", "New")]


# -- the whole tree ---------------------------------------------------------------------------


async def test_a_tree_is_copied_with_all_its_lanes() -> None:
    store = MemoryStore()
    source = await keep(store, a_tree(), lanes={"main": "d", "other": "x", "empty": None})

    fork = await fork_session(store, source, scope="tree")

    lanes = {lane.name: lane.leaf_id for lane in (await store.state(fork.id)).lanes}
    assert lanes == {"main": "d", "other": "x", "empty": None}
    assert [row.id for row in await store.entries(fork.id)] == ["a", "b", "c", "x", "d"]
    assert fork.preview == "hello there"


@pytest.mark.parametrize("options", [{"entry_id": "a"}, {"position": "at"}])
async def test_a_tree_has_no_target(options: dict[str, Any]) -> None:
    store = MemoryStore()
    source = await keep(store, a_tree())

    with pytest.raises(Misuse, match="whole tree"):
        await fork_session(store, source, scope="tree", **options)


# -- what is left behind ----------------------------------------------------------------------


async def a_busy_session(store: SessionStore) -> str:
    """In the middle of a run, with something of everything."""
    info = SessionInfo()
    await store.create(info)
    lease = await store.claim(info.id, new_owner(), 30)
    usage = Usage(10, 20)
    await store.commit(
        lease,
        Commit(
            entries=[
                to_row(user("a", None, operation_id="op")),
                to_row(reply("b", "a", calls=("c1", "c2"), operation_id="op")),
                to_row(result("r1", "b", "c1", operation_id="op")),
            ],
            lanes=[Lane(name="main", leaf_id="r1", operation_id="op", config=CONFIG)],
            operations=[Operation(id="op", lane="main", request_id="once")],
            intents=[
                Intent(
                    id="r2",
                    lane="main",
                    assistant_id="b",
                    index=1,
                    tool_call_id="c2",
                    tool_name="look",
                )
            ],
            inbox=[InboxItem(lane="main", queue="steer", message=UserMessage("wait"))],
            approvals=[
                Approval(id="r3", lane="main", tool_call_id="c3", tool_name="x", digest="0")
            ],
            usage=[UsageRow(cause="assistant", usage=usage)],
            usage_total=usage,
        ),
    )
    return info.id


@pytest.mark.parametrize("scope", ["branch", "tree"])
async def test_unfinished_work_and_what_was_paid_stay_behind(scope: Any) -> None:
    store = MemoryStore()
    source = await a_busy_session(store)

    fork = await fork_session(store, source, scope=scope)

    state = await store.state(fork.id)
    assert state.lanes == [Lane(name="main", leaf_id="r1", config=CONFIG)]
    assert [*state.operations, *state.intents, *state.inbox, *state.approvals] == []
    assert await store.usage(fork.id) == []
    assert fork.usage.is_empty
    assert await store.operations(fork.id) == []
    assert {row.operation_id for row in await store.entries(fork.id)} == {None}


@pytest.mark.parametrize("scope", ["branch", "tree"])
async def test_a_session_is_forked_while_another_process_writes_it_and_is_left_as_it_was(
    scope: Any,
) -> None:
    store = MemoryStore()
    source = await a_busy_session(store)  # and its lease is still held
    before = await contents_of(store, source)

    await fork_session(store, source, scope=scope)

    assert await contents_of(store, source) == before


async def test_a_fork_can_be_written_at_once() -> None:
    store = MemoryStore()
    fork = await fork_session(store, await keep(store, a_tree(), lanes={"main": "d"}))

    lease = await store.claim(fork.id, new_owner(), 30)
    head = await store.commit(lease, Commit(entries=[to_row(user("e", "d"))]))

    assert head == 5


async def test_a_session_is_copied_into_another_store() -> None:
    old, new = MemoryStore(), MemoryStore()
    source = await keep(old, a_tree(), lanes={"main": "d"})

    fork = await fork_session(old, source, to=new)

    assert await path_of(new, fork.id) == ["a", "b", "c", "d"]
    assert [info.id for info in await old.list()] == [source]


# -- what is refused, and what fails ----------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"lane": "side"}, "no lane named 'side'"),
        ({"entry_id": "nowhere"}, "no entry 'nowhere'"),
        ({"entry_id": "k"}, "is a compaction"),
        ({"entry_id": "o", "position": "at"}, "is a custom"),
    ],
)
async def test_a_target_that_is_no_message_is_refused_and_nothing_is_made(
    options: dict[str, Any], said: str
) -> None:
    store = MemoryStore()
    entries: list[Entry] = [
        user("a", None),
        CompactionEntry(id="k", parent_id="a", summary="s"),
        CustomEntry(id="o", parent_id="k", custom_type="x"),
    ]
    source = await keep(store, entries, lanes={"main": "o"})

    with pytest.raises(Misuse, match=said):
        await fork_session(store, source, **options)

    assert len(await store.list()) == 1


async def test_a_session_that_is_not_there_cannot_be_forked() -> None:
    with pytest.raises(SessionNotFound):
        await fork_session(MemoryStore(), "nobody")


class Failing(MemoryStore):
    """Fails where it is told to, once."""

    def __init__(self, where: str, error: BaseException) -> None:
        super().__init__()
        self.where: str | None = where
        self.error = error

    def _reach(self, where: str) -> None:
        if where == self.where:
            self.where = None
            raise self.error

    async def claim(self, session_id: str, owner: str, seconds: float) -> Lease:
        self._reach("claim")
        return await super().claim(session_id, owner, seconds)

    async def commit(self, lease: Lease, commit: Commit) -> int:
        self._reach("commit")
        return await super().commit(lease, commit)

    async def release(self, lease: Lease) -> None:
        self._reach("release")
        await super().release(lease)

    async def info(self, session_id: str) -> SessionInfo:
        self._reach("info")
        return await super().info(session_id)


@pytest.mark.parametrize("where", ["claim", "commit", "release", "info"])
@pytest.mark.parametrize(
    "error", [StoreUnavailable("the disk is full"), LeaseLost("gone"), asyncio.CancelledError()]
)
async def test_a_fork_that_fails_anywhere_leaves_nothing(where: str, error: BaseException) -> None:
    store = MemoryStore()
    source = await keep(store, a_tree(), lanes={"main": "d"})
    target = Failing(where, error)

    with pytest.raises(type(error)):
        await fork_session(store, source, to=target)

    assert target.where is None
    assert await target.list() == []


class Holed(MemoryStore):
    """Lost the entry b."""

    async def entries(self, *args: Any, **options: Any) -> list[EntryRow]:
        return [row for row in await super().entries(*args, **options) if row.id != "b"]


@pytest.mark.parametrize("scope", ["branch", "tree"])
async def test_a_damaged_tree_is_not_copied(scope: Any) -> None:
    store = Holed()
    source = await keep(store, a_tree(), lanes={"main": "d"})

    with pytest.raises(SessionDamaged, match="b"):
        await fork_session(store, source, scope=scope)

    assert [info.id for info in await store.list()] == [source]


class Growing(MemoryStore):
    """Another process writes to a session just after its state was looked at."""

    async def state(self, session_id: str) -> SessionState:
        state = await super().state(session_id)
        lease = await self.claim(session_id, new_owner(), 30)
        lanes = [Lane(name="main", leaf_id="later")]
        await self.commit(lease, Commit(entries=[to_row(user("later", "d"))], lanes=lanes))
        await self.release(lease)
        return state


@pytest.mark.parametrize("scope", ["branch", "tree"])
async def test_what_is_written_while_a_fork_is_made_is_not_in_it(scope: Any) -> None:
    store = Growing()
    source = await keep(store, a_tree(), lanes={"main": "d"})

    fork = await fork_session(store, source, scope=scope)

    assert "later" not in [row.id for row in await store.entries(fork.id)]


async def test_an_entry_that_came_later_is_no_target_yet() -> None:
    store = Growing()
    source = await keep(store, a_tree(), lanes={"main": "d"})

    with pytest.raises(Misuse, match="no entry 'later'"):
        await fork_session(store, source, entry_id="later", position="at")


async def test_a_fork_that_is_cancelled_at_any_moment_is_there_whole_or_not_at_all(
    tmp_path: Path,
) -> None:
    async with await SqliteStore.open(tmp_path / "sessions.db") as store:
        source = await keep(store, a_tree(), lanes={"main": "d"})
        made = 0
        for steps in range(24):
            forking = asyncio.create_task(fork_session(store, source))
            for _ in range(steps):
                await asyncio.wait([forking], timeout=0.0002)

            forking.cancel()
            await asyncio.wait([forking])

            made += not forking.cancelled()
            there = [info.id for info in await store.list() if info.id != source]
            assert len(there) == made
            for fork in there:
                assert await path_of(store, fork) == ["a", "b", "c", "d"]


# -- in general -------------------------------------------------------------------------------


@given(trees(), st.data())
async def test_every_path_survives_every_fork(entries: list[Entry], data: st.DataObject) -> None:
    store = MemoryStore()
    anywhere = st.sampled_from([None, *(entry.id for entry in entries)])
    lanes = cast("dict[str, str | None]", {"main": data.draw(anywhere), "b": data.draw(anywhere)})
    source = await keep(store, entries, lanes=lanes)
    parents = parents_index(entries)

    branch = await fork_session(store, source, lane="b")
    tree = await fork_session(store, source, scope="tree")
    again = await fork_session(store, tree.id, lane="b")

    expected = path_to_root(parents, lanes["b"])
    assert await path_of(store, branch.id) == await path_of(store, again.id) == expected
    assert await path_of(store, tree.id, "b") == expected
    assert parents_index(await store.entries(tree.id)) == parents


async def test_a_branch_longer_than_a_page_is_copied_whole() -> None:
    store = MemoryStore()
    size = 5_000
    entries: list[Entry] = []
    for i in range(size):
        entries.append(user(f"e{i}", f"e{i - 1}" if i else None))
        entries.append(user(f"side{i}", f"e{i}"))
    source = await keep(store, entries, lanes={"main": f"e{size - 1}"})

    branch = await fork_session(store, source)
    tree = await fork_session(store, source, scope="tree")

    assert await path_of(store, branch.id) == [f"e{i}" for i in range(size)]
    assert tree.entries == 2 * size
