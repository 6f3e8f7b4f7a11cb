"""A commit is all or nothing, and what it says is what is there afterwards."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from ...errors import (
    ApprovalRefused,
    InboxNotEmpty,
    SessionDamaged,
)
from ...messages import TextContent, ToolResultMessage, Usage
from ...session.entries import CustomEntry, to_row
from ...session.rows import (
    Fact,
    Lane,
    LaneConfig,
    Operation,
    SessionInfo,
    UsageRow,
)
from ...session.store import Commit
from .ground import (
    StoreUnderTest,
    an_intent,
    an_item,
    new_lease,
    refused,
    said,
)

__all__ = ["CommitChecks"]


class CommitChecks(StoreUnderTest):
    """A commit is all or nothing, and what it says is what is there afterwards."""

    async def test_entries_facts_and_usage_are_numbered_in_this_order_without_gaps(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            spent = Usage(input=1)
            commits = [
                Commit(
                    usage=[UsageRow(id=f"u{n}", cause="assistant", usage=spent)],
                    usage_total=spent,
                    facts=[Fact(namespace="custom", key=f"k{n}", value=n)],
                    entries=[said("a", entry_id=f"a{n}"), said("b", entry_id=f"b{n}")],
                )
                for n in (1, 2)
            ]

            numbers = [await store.commit(lease, commit) for commit in commits]
            state = await store.state(lease.session_id)

            assert numbers == [4, 8]
            assert [row.seq for row in await store.entries(lease.session_id)] == [1, 2, 5, 6]
            assert [fact.seq for fact in state.facts] == [3, 7]
            assert [row.seq for row in await store.usage(lease.session_id)] == [4, 8]
            assert state.head == 8
            assert state.info.entries == 4

    async def test_a_commit_of_nothing_takes_no_number(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            await store.commit(lease, Commit(entries=[said("one")]))

            assert await store.commit(lease, Commit()) == 1

    async def test_entries_come_back_as_they_were_given(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            first = said("one", entry_id="m1")
            custom = to_row(
                CustomEntry(
                    id="c1", parent_id="m1", custom_type="note", data={"a": [1]}, operation_id="o"
                )
            )

            await store.commit(lease, Commit(entries=[first, custom]))
            got = await store.entries(lease.session_id)

            assert got == [
                msgspec.structs.replace(first, seq=1),
                msgspec.structs.replace(custom, seq=2),
            ]
            assert got[1].entry().id == "c1"

    async def test_a_commit_with_one_bad_part_changes_nothing(self) -> None:
        async with self.store() as store:
            await store.create(SessionInfo(id="s"))
            lease = await self.filled(store, "s")
            before = await self.everything(store, "s")
            fine: dict[str, Any] = {
                "lanes": [Lane(name="main", leaf_id="new")],
                "operations": [Operation(id="o-new", lane="main")],
                "intents": [an_intent("i-new")],
                "settled": ["i"],
                "inbox": [an_item("q", status="placed"), an_item("q-new")],
                "facts": [Fact(namespace="custom", key="k", value="changed")],
                "usage": [UsageRow(id="u-new", cause="tool", usage=Usage(input=1))],
                "usage_total": Usage(input=99),
                "preview": "changed",
            }
            good = said("new", "m2", entry_id="new")
            for bad, error in (
                (Commit(entries=[good, said("again", "m2", entry_id="m1")]), SessionDamaged),
                (Commit(entries=[good, said("again", entry_id="new")]), SessionDamaged),
                (Commit(entries=[good, said("hangs", "nobody")]), SessionDamaged),
                (Commit(entries=[good], consume=[("used", "d")]), ApprovalRefused),
                (Commit(entries=[good], consume=[("asked", "d")]), ApprovalRefused),
                (Commit(entries=[good], consume=[("granted", "other")]), ApprovalRefused),
                (Commit(entries=[good], consume=[("granted", "d"), ("no", "d")]), ApprovalRefused),
                (Commit(entries=[good], unless_waiting="main"), InboxNotEmpty),
            ):
                for name, value in fine.items():
                    if name != "inbox" or bad.unless_waiting is None:
                        setattr(bad, name, value)

                with refused(error):
                    await store.commit(lease, bad)

                assert await self.everything(store, "s") == before

            await store.commit(lease, Commit(entries=[good]))  # and nothing stands in the way
            assert [row.id for row in await store.find("s", ["new"])] == ["new"]

    async def test_a_parent_comes_before_its_child(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            parent, child = said("1", entry_id="p"), said("2", "p", entry_id="c")

            with refused(SessionDamaged):
                await store.commit(lease, Commit(entries=[child, parent]))
            with refused(SessionDamaged):
                await store.commit(lease, Commit(entries=[said("me", "x", entry_id="x")]))
            await store.commit(lease, Commit(entries=[parent, child]))

            assert [row.id for row in await store.entries(lease.session_id)] == ["p", "c"]

    async def test_rows_are_put_whole_by_their_key(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            config = LaneConfig(provider="p", model_id="m", active_tools=["read"])
            await store.commit(
                lease, Commit(lanes=[Lane(name="main", config=config, operation_id="o")])
            )

            await store.commit(
                lease, Commit(lanes=[Lane(name="main"), Lane(name="side", config=config)])
            )
            lanes = (await store.state(lease.session_id)).lanes

            assert lanes == [Lane(name="main"), Lane(name="side", config=config)]

    async def test_an_intent_is_there_until_it_is_settled(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            session_id = lease.session_id
            result = ToolResultMessage(
                tool_call_id="c", tool_name="t", content=[TextContent(text="done")], timestamp=5
            )
            await store.commit(lease, Commit(intents=[an_intent("a"), an_intent("b")]))
            done = msgspec.structs.replace(an_intent("a"), result=result, terminate=True)

            await store.commit(lease, Commit(intents=[done]))
            both = (await store.state(session_id)).intents
            await store.commit(lease, Commit(settled=["a", "unknown"]))

            assert both == [done, an_intent("b")]
            assert (await store.state(session_id)).intents == [an_intent("b")]

    async def test_of_operations_the_state_has_the_open_one_and_the_last_that_ended(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            session_id = lease.session_id
            for n in (1, 2):
                for lane in ("main", "side"):
                    operation = Operation(id=f"{lane}{n}", lane=lane, request_id=f"r-{lane}{n}")
                    row = Lane(name=lane, operation_id=operation.id)
                    await store.commit(lease, Commit(lanes=[row], operations=[operation]))
                    ended = msgspec.structs.replace(operation, status="completed", finished_at=1)
                    await store.commit(lease, Commit(lanes=[Lane(name=lane)], operations=[ended]))
            waiting = Operation(id="main3", lane="main", status="waiting", intent={"a": [1]})
            await store.commit(lease, Commit(operations=[waiting]))

            state = await store.state(session_id)
            every = await store.operations(session_id)
            by_request = await store.operations(session_id, request_id="r-side1")

            assert {operation.id for operation in state.operations} == {"main2", "side2", "main3"}
            assert waiting in state.operations
            assert [o.id for o in every] == ["main1", "side1", "main2", "side2", "main3"]
            assert [(o.id, o.status) for o in by_request] == [("side1", "completed")]
            assert await store.operations(session_id, request_id="nobody's") == []

    async def test_a_request_id_never_starts_a_second_operation(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            first = Operation(id="o1", lane="main", request_id="r")
            await store.commit(lease, Commit(operations=[first]))

            with refused(SessionDamaged):
                await store.commit(
                    lease, Commit(operations=[Operation(id="o2", lane="main", request_id="r")])
                )

            assert [o.id for o in await store.operations(lease.session_id)] == ["o1"]

    async def test_of_a_fact_the_last_counts_and_null_is_not_deleted(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            session_id = lease.session_id
            await store.commit(
                lease,
                Commit(
                    facts=[
                        Fact(namespace="custom", key="kept", value=1),
                        Fact(namespace="custom", key="kept", value={"deep": [1, None, "x"]}),
                        Fact(namespace="custom", key="null", value=None),
                        Fact(namespace="custom", key="gone", value="x"),
                        Fact(namespace="label", key="kept", value="another namespace"),
                    ]
                ),
            )

            await store.commit(
                lease,
                Commit(
                    facts=[Fact(namespace="custom", key=k, deleted=True) for k in ("gone", "?")]
                ),
            )
            facts = (await store.state(session_id)).facts

            assert [(f.namespace, f.key, f.value, f.deleted) for f in facts] == [
                ("custom", "kept", {"deep": [1, None, "x"]}, False),
                ("custom", "null", None, False),
                ("label", "kept", "another namespace", False),
            ]
            assert (await store.state(session_id)).head == 7

    async def test_the_ledger_only_grows(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            total = Usage()
            for n in range(1, 4):
                row = UsageRow(
                    id=f"u{n}",
                    cause="retry",
                    usage=Usage(input=n, total_tokens=n),
                    model="m",
                    details={"attempt": n},
                )
                total += row.usage
                await store.commit(lease, Commit(usage=[row], usage_total=total))

            ledger = await store.usage(lease.session_id)

            assert [(row.id, row.usage.input, row.details) for row in ledger] == [
                (f"u{n}", n, {"attempt": n}) for n in range(1, 4)
            ]
            assert (await store.info(lease.session_id)).usage == total

    async def test_commits_of_many_tasks_come_one_after_another(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            count = self.tries

            heads = await asyncio.gather(
                *(
                    store.commit(lease, Commit(entries=[said(str(n), entry_id=f"e{n}")]))
                    for n in range(count)
                )
            )
            rows = await store.entries(lease.session_id)

            assert sorted(heads) == list(range(1, count + 1))
            assert {row.id: row.seq for row in rows} == {f"e{n}": heads[n] for n in range(count)}

    async def test_a_caller_that_is_cancelled_leaves_a_whole_commit_or_none(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            for n in range(self.tries):
                entries = [said("a", entry_id=f"a{n}"), said("b", entry_id=f"b{n}")]
                lanes = [Lane(name="main", leaf_id=f"b{n}")]
                async with asyncio.TaskGroup() as group:
                    task = group.create_task(
                        store.commit(lease, Commit(entries=entries, lanes=lanes))
                    )
                    for _ in range(n % 4):
                        await asyncio.sleep(0)
                    task.cancel()
            await store.commit(lease, Commit(entries=[said("last", entry_id="last")]))

            ids = [row.id for row in await store.entries(lease.session_id)]
            state = await store.state(lease.session_id)

            assert ids[-1] == "last"
            assert [f"b{i[1:]}" for i in ids[:-1:2]] == ids[1:-1:2]
            assert state.lanes[0].leaf_id == (ids[-2] if len(ids) > 1 else None)
            assert state.head == len(ids)
