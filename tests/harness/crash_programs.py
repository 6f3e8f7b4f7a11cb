"""Programs that crash tests kill: what they do, they do by where the transcript stands.

The scripts look at the last message and at nothing else, so any process can go on with them, also
behind a compaction. Not here: killing them (test_crash_kit, test_crash_everywhere).
"""

from __future__ import annotations

import asyncio
from typing import Any

from loopwright import Agent, Harness, ToolContext, tool
from loopwright.harness.approvals import approve, pending_approvals
from loopwright.harness.compaction import CompactionSettings
from loopwright.messages import ToolResultMessage, Usage, UserMessage
from loopwright.models import Context, Model
from loopwright.session import InboxItem
from loopwright.session.rows import InboxQueue
from loopwright.testing import Call, Reply, ScriptedModel
from loopwright.testing.crash import Life

SMALL_WINDOW = 8_000
COMPACTION = CompactionSettings(reserve_tokens=500, keep_recent_tokens=200)
NEARLY_FULL = Usage(input=7_900, output=10, total_tokens=7_910)

PROMPT = "You are a test."


def by_last_message(script: dict[str, Reply], summary: str = "A summary.") -> list[Any]:
    """The reply to the last message: its text, or the id of the call that it answers."""

    def reply(context: Context) -> Reply:
        if PROMPT not in context.system_prompt:
            return Reply(summary)
        last = context.messages[-1]
        return script[last.tool_call_id if isinstance(last, ToolResultMessage) else last.text]

    return [reply] * 100


def agent_of(
    life: Life | None, script: dict[str, Reply], tools: list[Any], **options: Any
) -> Agent[Any]:
    model = ScriptedModel(
        by_last_message(script),
        model=Model("scripted", "small", "scripted", context_window=SMALL_WINDOW),
    )
    agent: Agent[Any] = Agent(
        model.model, stream_fn=model.stream_fn, tools=tools, system_prompt=PROMPT, **options
    )
    return agent if life is None else life.watch(agent)


async def later(turns: int) -> None:
    """Be overtaken by tools that take fewer turns of the event loop."""
    for _ in range(turns):
        await asyncio.sleep(0)


def tools_of(life: Life) -> list[Any]:
    """Things to do, some of which may not be repeated."""

    @tool(replay="safe")
    async def look(where: str) -> str:
        await later(20)  # so that what was asked for behind it is done before it
        life.effects.happened(f"look {where}", safe=True)
        return f"seen {where}"

    @tool
    async def pay(what: str) -> str:
        life.effects.happened(f"pay {what}")
        return f"paid {what}"

    @tool(approval=True)
    async def order(what: str) -> str:
        life.effects.happened(f"order {what}")
        return f"ordered {what}"

    @tool(replay="safe")
    async def nudge(ctx: ToolContext) -> str:
        """Somebody says something meanwhile."""
        await life.store.enqueue("s", an_item("steer", "Faster!"))
        await life.store.enqueue("s", an_item("followUp", "And the bill?"))
        return "nudged"

    return [look, pay, order, nudge]


def an_item(queue: InboxQueue, text: str) -> InboxItem:
    return InboxItem(lane="main", queue=queue, message=UserMessage(text), request_id=text)


LONG_SCRIPT = {
    "One": Reply(
        "Looking. " + "words " * 300,
        calls=[Call("look", {"where": "a"}, id="a1"), Call("pay", {"what": "1"}, id="a2")],
    ),
    "a2": Reply(
        calls=[
            Call("pay", {"what": "2"}, id="b1"),
            Call("look", {"where": "b"}, id="b2"),
            Call("pay", {"what": "3"}, id="b1"),
            Call("look", {"where": "c"}, id="b3"),
        ]
    ),
    "b3": Reply(
        calls=[
            Call("nothing", {}, id="c1"),
            Call("pay", {"wrong": 1}, id="c2"),
            Call("nudge", {}, id="c3"),
        ]
    ),
    "Faster!": Reply(
        calls=[
            Call("look", {"where": "d"}, id="d1"),
            Call("order", {"what": "tea"}, id="d2"),
            Call("pay", {"what": "4"}, id="d3"),
        ]
    ),
    "d3": Reply("That was that."),
    "And the bill?": Reply("It is paid.", usage=NEARLY_FULL),
    "Two": Reply(calls=[Call("pay", {"what": "5"}, id="e1")]),
    "e1": Reply("Done."),
}


async def long_run(life: Life) -> None:
    """Two prompts with everything in them that a session can hold."""
    agent = agent_of(life, LONG_SCRIPT, tools_of(life))
    async with Harness.open(life.store, "s", agent=agent, compaction=COMPACTION) as harness:
        await harness.resume()
        await said(harness, life, "One", "1")
        await harness.next_run("By the way.", request_id="n")
        await said(harness, life, "Two", "2")


async def said(harness: Harness[Any], life: Life, text: str, request_id: str) -> None:
    """Prompt once, in whichever life, and say yes to whatever is asked."""
    result = await harness.prompt(text, request_id=request_id)
    while waiting := await pending_approvals(life.store, harness.session.id):
        for approval in waiting:
            await approve(life.store, harness.session.id, approval.id, by="ada")
        again = await harness.resume()
        assert again is not None
        result = again
    if result.stopped_by == "approval":  # decided in an earlier life
        await harness.resume()


# -- a small one, and ways to get it wrong -----------------------------------------------------

SHORT_SCRIPT = {
    "Buy tea.": Reply(calls=[Call("pay", {"what": "tea"}, id="t")]),
    "t": Reply("Bought."),
}


async def shop(life: Life) -> None:
    """One effect that may not be repeated."""
    async with Harness.open(life.store, "s", agent=shopper(life)) as harness:
        await harness.resume()
        await harness.prompt("Buy tea.", request_id="1")


def shopper(life: Life, *tools: Any) -> Agent[Any]:
    return agent_of(life, SHORT_SCRIPT, [*tools] or tools_of(life))


async def shop_with_a_tool_that_is_said_to_be_safe(life: Life) -> None:
    @tool(replay="safe")
    async def pay(what: str) -> str:
        life.effects.happened(f"pay {what}")
        return f"paid {what}"

    async with Harness.open(life.store, "s", agent=shopper(life, pay)) as harness:
        await harness.resume()
        await harness.prompt("Buy tea.", request_id="1")


async def shop_that_says_it_again(life: Life) -> None:
    async with Harness.open(life.store, "s", agent=shopper(life)) as harness:
        await harness.resume()
        await harness.prompt("Buy tea.")


async def shop_that_does_not_go_on(life: Life) -> None:
    if life.number == 1:
        await shop(life)


async def shop_that_cannot_go_on(life: Life) -> None:
    async with Harness.open(life.store, "s", agent=shopper(life)) as harness:
        await harness.prompt("Buy tea.")


async def shop_that_hangs(life: Life) -> None:
    if life.number > 1:
        await asyncio.Event().wait()
    await shop(life)


async def shop_without_a_name(life: Life) -> None:
    async with Harness.open(life.store, agent=shopper(life)) as harness:
        await harness.prompt("Buy tea.")


async def shop_that_fails(life: Life) -> None:
    raise RuntimeError("closed on Sundays")


class LyingStore:
    """Says that it has written a commit, and writes it with the next one."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self._kept: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, lease: Any, commit: Any) -> int:
        kept, self._kept = self._kept, (lease, commit)
        return 0 if kept is None else await self._store.commit(*kept)

    async def release(self, lease: Any) -> None:
        if self._kept is not None:
            await self._store.commit(*self._kept)
        await self._store.release(lease)


async def shop_with_a_store_that_lies(life: Life) -> None:
    store: Any = LyingStore(life.store)
    async with Harness.open(store, "s", agent=shopper(life)) as harness:
        await harness.resume()
        await harness.prompt("Buy tea.", request_id="1")


class MiscountingStore:
    """Takes the last request for all that was ever paid."""

    def __init__(self, store: Any) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def commit(self, lease: Any, commit: Any) -> int:
        if commit.usage:
            commit.usage_total = commit.usage[-1].usage
        return await self._store.commit(lease, commit)


async def shop_that_miscounts(life: Life) -> None:
    store: Any = MiscountingStore(life.store)
    async with Harness.open(store, "s", agent=shopper(life)) as harness:
        await harness.resume()
        await harness.prompt("Buy tea.", request_id="1")


async def shop_whose_model_heeds_interruptions(life: Life) -> None:
    """As models do: told that nobody knows whether it was paid, it looks before it says so."""

    def reply(context: Context) -> Reply:
        last = context.messages[-1]
        if not isinstance(last, ToolResultMessage):
            return SHORT_SCRIPT["Buy tea."]
        if "interrupted" in last.text:
            return Reply("Let me look.", calls=[Call("look", {"where": "bank"}, id="l")])
        return Reply("Bought.")

    model = ScriptedModel([reply] * 10)
    agent: Agent[Any] = Agent(model.model, stream_fn=model.stream_fn, tools=tools_of(life))
    async with Harness.open(life.store, "s", agent=life.watch(agent)) as harness:
        await harness.resume()
        await harness.prompt("Buy tea.", request_id="1")


async def open_in_a_folder(folder: Any) -> Any:
    """A store of one's own."""
    from loopwright.session import SqliteStore

    return await SqliteStore.open(folder / "of my own.db")
