"""What is said while the inbox is being read, and by whom: heard once, in order of arrival."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from loopwright import Agent, Harness
from loopwright.messages import AgentMessage, UserMessage
from loopwright.session import InboxItem, MemoryStore
from loopwright.testing import Reply, ScriptedModel


class LateStore(MemoryStore):
    """Gives what was read of the inbox late, as another connection may."""

    def __init__(self) -> None:
        super().__init__()
        self.meanwhile: Callable[[], Awaitable[object]] | None = None
        """Happens between a run's next reading and its answer."""

    async def inbox(self, *arguments: Any, **options: Any) -> list[InboxItem]:
        found = await super().inbox(*arguments, **options)
        if self.meanwhile is not None and "steer" in options["queues"]:
            meanwhile, self.meanwhile = self.meanwhile, None
            await meanwhile()
        return found


class StoreOfOld:
    """One that was written before a run asked for a part of what waits."""

    def __init__(self) -> None:
        self._store = MemoryStore()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def inbox(self, session_id: str, *, lane: Any = None, queues: Any = ()) -> Any:
        return await self._store.inbox(session_id, lane=lane, queues=queues)


def chatty(replies: int, **options: Any) -> tuple[Agent[Any], ScriptedModel]:
    model = ScriptedModel([Reply("Yes.") for _ in range(replies)])
    return Agent(model.model, stream_fn=model.stream_fn, **options), model


def heard(messages: list[AgentMessage]) -> list[str]:
    return [message.text for message in messages if isinstance(message, UserMessage)]


async def test_what_is_said_while_the_inbox_is_read_is_heard_behind_what_was_there() -> None:
    store = LateStore()
    agent, _ = chatty(4)
    async with Harness.open(store, "s", agent=agent) as harness:
        for text in ("a", "b"):
            await harness.steer(text)
        store.meanwhile = lambda: harness.steer("c")

        await harness.prompt("Go")

        assert heard(harness.session.messages()) == ["Go", "a", "b", "c"]
        assert await store.inbox("s") == []


async def test_what_was_said_elsewhere_before_it_is_heard_before_it() -> None:
    store = LateStore()
    agent, _ = chatty(40)
    async with Harness.open(store, "s", agent=agent) as harness:
        for n in range(20):  # so many that only what is new is read
            await harness.steer(f"{n}")

        async def here() -> None:
            await harness.steer("mine")

        async def elsewhere(event: Any, signal: Any) -> None:
            if event.type == "message_end" and event.message.text == "2":
                item = InboxItem(lane="main", queue="steer", message=UserMessage("theirs"))
                await store.enqueue("s", item)
                store.meanwhile = here

        harness.subscribe(elsewhere)
        await harness.prompt("Go")

        every = heard(harness.session.messages())
        assert every == ["Go", *(f"{n}" for n in range(20)), "theirs", "mine"]


async def test_one_message_that_is_said_twice_is_heard_twice_and_no_more() -> None:
    store = LateStore()
    agent, _ = chatty(4, steering_mode="all")
    async with Harness.open(store, "s", agent=agent) as harness:
        same = UserMessage("again")

        async def say_it_twice() -> None:
            await harness.steer(same)
            await harness.steer(same)

        store.meanwhile = say_it_twice

        await harness.prompt("Go")

        assert heard(harness.session.messages()) == ["Go", "again", "again"]
        assert await store.inbox("s") == []


async def test_a_store_that_cannot_be_asked_for_a_part_of_what_waits_fails_at_its_first_run() -> (
    None
):
    agent, _ = chatty(1)
    async with Harness.open(StoreOfOld(), "s", agent=agent) as harness:  # type: ignore[arg-type]
        result = await harness.prompt("Go")

    assert result.stop_reason == "error"
    assert result.error_message is not None
    assert "inbox() got an unexpected keyword argument 'after'" in result.error_message
