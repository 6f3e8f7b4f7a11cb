"""Sessions are made, listed and forgotten."""

from __future__ import annotations

import asyncio

from ...errors import (
    LeaseLost,
    SessionExists,
    SessionLocked,
    SessionNotFound,
)
from ...messages import Usage, UserMessage
from ...session.leases import new_owner
from ...session.rows import (
    Fact,
    InboxItem,
    SessionInfo,
    UsageRow,
)
from ...session.store import Commit, Lease
from .ground import (
    StoreUnderTest,
    new_lease,
    refused,
    rows_of,
    said,
)

__all__ = ["SessionChecks"]


class SessionChecks(StoreUnderTest):
    """Sessions are made, listed and forgotten."""

    async def test_a_new_session_is_empty_and_has_the_lane_main(self) -> None:
        async with self.store() as store:
            info = SessionInfo(cwd="/srv/project", metadata={"colour": ["red", None]})

            await store.create(info)
            state = await store.state(info.id)

            assert [lane.name for lane in state.lanes] == ["main"]
            assert state.lanes[0].leaf_id is None
            assert state.head == 0
            assert rows_of(state) == []
            assert state.info.entries == 0
            assert state.info.usage == Usage()
            assert await store.entries(info.id) == []
            assert await store.usage(info.id) == []

    async def test_what_create_is_given_is_what_info_tells(self) -> None:
        async with self.store() as store:
            info = SessionInfo(
                id="fork",
                created_at=1_700_000_000_123,
                cwd="/srv/é",
                parent_id="origin",
                metadata={"n": 1},
            )

            await store.create(info)
            told = await store.info("fork")

            assert (told.id, told.created_at, told.cwd) == ("fork", 1_700_000_000_123, "/srv/é")
            assert (told.parent_id, told.metadata) == ("origin", {"n": 1})
            assert told.locked_by is None

    async def test_ids_are_kept_as_given(self) -> None:
        async with self.store() as store:
            for session_id in self.session_ids:
                await store.create(SessionInfo(id=session_id))
                await self.one_entry(store, session_id, "m 1/ü:")

            assert {info.id for info in await store.list()} == set(self.session_ids)
            for session_id in self.session_ids:
                assert (await store.info(session_id)).id == session_id
                assert [row.id for row in await store.entries(session_id)] == ["m 1/ü:"]

    async def test_a_session_is_created_once(self) -> None:
        async with self.store() as store:
            await store.create(SessionInfo(id="s", metadata={"first": True}))

            with refused(SessionExists):
                await store.create(SessionInfo(id="s", metadata={"first": False}))

            assert (await store.info("s")).metadata == {"first": True}

    async def test_of_many_who_create_one_session_one_does(self) -> None:
        async with self.store() as store:
            made = await asyncio.gather(
                *(store.create(SessionInfo(id="s")) for _ in range(8)), return_exceptions=True
            )

            assert [error for error in made if not isinstance(error, SessionExists)] == [None]

    async def test_the_list_has_the_last_modified_first_and_no_more_than_asked_for(self) -> None:
        async with self.store() as store:
            for session_id in ("a", "b", "c"):
                await store.create(SessionInfo(id=session_id))
                await self.clock_moves()
            await self.one_entry(store, "a")

            found = [info.id for info in await store.list()]

            assert found == ["a", "c", "b"]
            assert [info.id for info in await store.list(limit=2)] == ["a", "c"]
            assert await store.list(limit=0) == []

    async def test_the_list_of_a_folder_has_only_its_sessions(self) -> None:
        async with self.store() as store:
            await store.create(SessionInfo(id="here", cwd="/srv/a"))
            await store.create(SessionInfo(id="below", cwd="/srv/a/b"))
            await store.create(SessionInfo(id="nowhere"))

            assert [info.id for info in await store.list(cwd="/srv/a")] == ["here"]
            assert await store.list(cwd="/work") == []

    async def test_the_list_shows_name_preview_entries_and_usage(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            spent = Usage(input=10, output=5, total_tokens=15)

            await store.commit(
                lease,
                Commit(
                    entries=[said("hello")],
                    facts=[Fact(namespace="name", value="Größe")],
                    usage=[UsageRow(cause="assistant", usage=spent)],
                    usage_total=spent,
                    preview="hello",
                ),
            )
            (told,) = await store.list()

            assert (told.name, told.preview, told.entries) == ("Größe", "hello", 1)
            assert told.usage == spent
            assert told.modified_at >= told.created_at
            assert told == await store.info(lease.session_id)

    async def test_what_a_commit_leaves_out_stays(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            spent = Usage(input=10, output=5, total_tokens=15)
            await store.commit(
                lease,
                Commit(
                    facts=[Fact(namespace="name", value="name")], usage_total=spent, preview="first"
                ),
            )

            await store.commit(lease, Commit(entries=[said("more")]))
            told = await store.info(lease.session_id)

            assert (told.name, told.preview, told.usage) == ("name", "first", spent)

    async def test_a_name_that_is_deleted_is_gone(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            await store.commit(lease, Commit(facts=[Fact(namespace="name", value="name")]))

            await store.commit(lease, Commit(facts=[Fact(namespace="name", deleted=True)]))

            assert (await store.info(lease.session_id)).name is None

    async def test_a_session_that_is_open_is_not_deleted(self) -> None:
        async with self.store() as store:
            await store.create(SessionInfo(id="s"))
            lease = await store.claim("s", new_owner(), 60)

            with refused(SessionLocked):
                await store.delete("s")
            await store.release(lease)
            await store.delete("s")

            with refused(SessionNotFound):
                await store.info("s")

    async def test_nothing_of_a_deleted_session_is_left_for_one_of_the_same_id(self) -> None:
        async with self.store() as store:
            await store.create(SessionInfo(id="s"))
            old = await self.filled(store, "s")
            await store.release(old)
            await store.delete("s")

            await store.create(SessionInfo(id="s"))
            state = await store.state("s")

            assert state.head == 0
            assert [(lane.name, lane.leaf_id) for lane in state.lanes] == [("main", None)]
            assert rows_of(state) == []
            for left in (store.entries, store.usage, store.operations, store.approvals):
                assert await left("s") == []

    async def test_a_writer_of_a_deleted_session_does_not_write_to_its_successor(self) -> None:
        async with self.store() as store:
            await store.create(SessionInfo(id="s"))
            old = await store.claim("s", new_owner(), 0)
            await store.delete("s")
            await store.create(SessionInfo(id="s"))
            await store.claim("s", new_owner(), 60)

            with refused(LeaseLost):
                await store.commit(old, Commit(entries=[said("ghost")]))

            assert await store.entries("s") == []

    async def test_a_session_that_is_not_there_is_reported_everywhere(self) -> None:
        async with self.store() as store:
            gone = "nothing-here"
            lease = Lease(gone, new_owner(), 1)
            item = InboxItem(lane="main", queue="steer", message=UserMessage(content="hi"))
            for asked in (
                lambda: store.info(gone),
                lambda: store.delete(gone),
                lambda: store.claim(gone, new_owner(), 60),
                lambda: store.renew(lease, 60),
                lambda: store.state(gone),
                lambda: store.commit(lease, Commit(entries=[said("hi")])),
                lambda: store.entries(gone),
                lambda: store.find(gone, ["x"]),
                lambda: store.find(gone, []),
                lambda: store.usage(gone),
                lambda: store.operations(gone),
                lambda: store.operations(gone, request_id="r"),
                lambda: store.enqueue(gone, item),
                lambda: store.inbox(gone),
                lambda: store.withdraw(gone, "x"),
                lambda: store.decide(gone, "x", "approved"),
                lambda: store.approvals(gone),
                lambda: store.info("\udcff"),  # as a command line gives what it cannot decode
            ):
                with refused(SessionNotFound):
                    await asked()

            await store.release(lease)  # somebody else may have deleted it
            assert await store.list() == []
