"""What is said without a lease is heard exactly once."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from ...errors import (
    InboxNotEmpty,
)
from ...session.rows import (
    InboxItem,
    Operation,
)
from ...session.store import Commit
from .ground import (
    StoreUnderTest,
    an_item,
    new_lease,
    refused,
    said,
)

__all__ = ["InboxChecks"]


class InboxChecks(StoreUnderTest):
    """What is said without a lease is heard exactly once."""

    async def test_what_is_enqueued_waits_in_order_and_is_found_by_lane_and_queue(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            session_id = lease.session_id
            other = await self.open_again(store)
            items = [
                an_item("1", queue="steer"),
                an_item("2", queue="followUp", lane="side"),
                an_item("3", queue="nextRun"),
                InboxItem(id="4", lane="main", queue="cancel", reason="enough"),
                an_item("5", queue="prompt", request_id="r"),
            ]
            for item in items:
                assert await other.enqueue(session_id, item) == item

            async def ids(**how: Any) -> list[str]:
                return [item.id for item in await store.inbox(session_id, **how)]

            assert await store.inbox(session_id) == items
            assert (await store.state(session_id)).inbox == items
            assert await ids(lane="main") == ["1", "3", "4", "5"]
            assert await ids(queues=["followUp", "prompt"]) == ["2", "5"]
            assert await ids(lane="side", queues=["steer"]) == []
            await self.close_again(store, other)

    async def test_of_what_waits_the_later_or_the_named_can_be_asked_for_alone(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            session_id = lease.session_id
            for name in "abcdef":
                lane = "side" if name == "d" else "main"
                await store.enqueue(session_id, an_item(name, lane=lane))
            await store.withdraw(session_id, "b")
            await store.commit(lease, Commit(inbox=[an_item("e", status="placed")]))

            async def ids(**how: Any) -> list[str]:
                return [item.id for item in await store.inbox(session_id, **how)]

            assert await ids(after="a") == ["c", "d", "f"]
            assert await ids(after="b") == ["c", "d", "f"]
            assert await ids(after="e", lane="main") == ["f"]
            assert await ids(after="f") == []
            assert await ids(after="never") == ["a", "c", "d", "f"]
            assert await ids(ids=["f", "b", "a", "never"]) == ["a", "f"]
            assert await ids(ids=["a", "d"], lane="main") == ["a"]
            assert await ids(ids=["a", "d", "f"], after="a") == ["d", "f"]
            assert await ids(ids=[]) == []
            await store.enqueue(session_id, an_item("g"))
            assert await ids(after="f") == ["g"]

    async def test_a_request_that_is_known_is_not_added_again(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            session_id = lease.session_id
            first = an_item("1", text="said once", request_id="r")
            again = an_item("2", text="said twice", request_id="r")
            await store.enqueue(session_id, first)

            answer = await store.enqueue(session_id, again)
            placed = msgspec.structs.replace(first, status="placed", operation_id="o")
            await store.commit(lease, Commit(inbox=[placed]))
            later = await store.enqueue(session_id, again)

            assert answer == first
            assert later == placed
            assert await store.inbox(session_id) == []

    async def test_of_many_who_enqueue_one_request_one_does(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            answers = await asyncio.gather(
                *(
                    store.enqueue(lease.session_id, an_item(f"{n}", request_id="r"))
                    for n in range(20)
                )
            )

            waiting = await store.inbox(lease.session_id)
            assert len(waiting) == 1
            assert {answer.id for answer in answers} == {waiting[0].id}

    async def test_an_item_is_withdrawn_unless_it_was_placed(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            session_id = lease.session_id
            for name in ("early", "late"):
                await store.enqueue(session_id, an_item(name))
            await store.commit(lease, Commit(inbox=[an_item("late", status="placed")]))

            told = [await store.withdraw(session_id, name) for name in ("early", "late", "never")]
            again = await store.withdraw(session_id, "early")

            assert told == ["withdrawn", "placed", None]
            assert again == "withdrawn"
            assert await store.inbox(session_id) == []

    async def test_an_item_that_was_withdrawn_is_not_placed(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            session_id = lease.session_id
            await store.enqueue(session_id, an_item("q"))
            await store.withdraw(session_id, "q")

            with refused(InboxNotEmpty):
                await store.commit(
                    lease,
                    Commit(
                        entries=[said("x", entry_id="q")], inbox=[an_item("q", status="placed")]
                    ),
                )

            assert await store.entries(session_id) == []
            assert await store.withdraw(session_id, "q") == "withdrawn"

    async def test_of_withdrawing_and_placing_exactly_one_happens(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            session_id = lease.session_id
            other = await self.open_again(store)
            for n in range(self.tries):
                item = an_item(f"q{n}")
                await store.enqueue(session_id, item)
                placing = Commit(
                    entries=[said("x", entry_id=item.id)],
                    inbox=[msgspec.structs.replace(item, status="placed")],
                )

                both = [store.commit(lease, placing), other.withdraw(session_id, item.id)]
                order = slice(None, None, -1) if n % 2 else slice(None)
                results = await asyncio.gather(*both[order], return_exceptions=True)
                committed, told = results[order]

                there = bool(await store.find(session_id, [item.id]))
                if there:
                    assert (told, isinstance(committed, int)) == ("placed", True)
                else:
                    assert told == "withdrawn"
                    assert isinstance(committed, InboxNotEmpty), committed
            await self.close_again(store, other)

    async def test_nothing_ends_while_a_message_for_its_lane_waits(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            session_id = lease.session_id
            await store.enqueue(session_id, an_item("side", lane="side"))
            await store.enqueue(session_id, an_item("next", queue="nextRun"))
            await store.commit(lease, Commit(unless_waiting="main"))  # neither is for now

            for queue in ("steer", "followUp"):
                item = an_item(queue, queue=queue)
                await store.enqueue(session_id, item)
                with refused(InboxNotEmpty):
                    await store.commit(lease, Commit(unless_waiting="main"))
                placed = msgspec.structs.replace(item, status="placed")
                await store.commit(lease, Commit(inbox=[placed], unless_waiting="main"))

    async def test_a_message_said_as_a_run_ends_is_heard_or_waits_for_the_next(self) -> None:
        async with self.store() as store, new_lease(store) as lease:
            session_id = lease.session_id
            other = await self.open_again(store)
            for n in range(self.tries):
                running = Operation(id=f"o{n}", lane="main")
                await store.commit(lease, Commit(operations=[running]))
                ended = msgspec.structs.replace(running, status="completed")
                ending = Commit(operations=[ended], unless_waiting="main")
                item = an_item(f"q{n}")

                both: list[Any] = [store.commit(lease, ending), other.enqueue(session_id, item)]
                order = slice(None, None, -1) if n % 2 else slice(None)
                results = await asyncio.gather(*both[order], return_exceptions=True)
                committed, said = results[order]

                assert said == item
                (operation,) = [o for o in await store.operations(session_id) if o.id == f"o{n}"]
                if isinstance(committed, int):
                    assert operation.status == "completed"
                else:
                    assert isinstance(committed, InboxNotEmpty), committed
                    assert operation.status == "open"
                assert [i.id for i in await store.inbox(session_id)] == [f"q{n}"]
                placed = msgspec.structs.replace(item, status="placed")
                await store.commit(lease, Commit(inbox=[placed], operations=[ended]))
            await self.close_again(store, other)
