"""Killing an agent with -9 at every point where it writes, and going on with it each time.

The till may be charged once. `crash_test` runs `checkout` undisturbed, then kills it right before and
right after each commit and each effect, lets another process go on, and compares what is left.

Prints:
    7 points, 14 kills, 4 calls interrupted
    the worst that was found: nothing
    charged twice if the tool is said to be safe: True
"""

from __future__ import annotations

from typing import Any

from loopwright import Agent, Harness, tool
from loopwright.messages import ToolResultMessage
from loopwright.testing import Call, Reply, ScriptedModel
from loopwright.testing.crash import Life, crash_test


def next_reply(context: Any) -> Reply:
    """By where the transcript stands, so that any process can go on with it."""
    if isinstance(context.messages[-1], ToolResultMessage):
        return Reply("Thank you.")
    return Reply(calls=[Call("charge", {"cents": 250})])


async def run(life: Life, charge: Any) -> None:
    model = ScriptedModel([next_reply] * 5)
    agent = life.watch(Agent(model.model, stream_fn=model.stream_fn, tools=[charge]))
    async with Harness.open(life.store, "till", agent=agent) as harness:
        await harness.resume()  # what an earlier life left
        await harness.prompt("One coffee.", request_id="1")


async def checkout(life: Life) -> None:
    @tool
    async def charge(cents: int) -> str:
        life.effects.happened(f"charge {cents}")
        return "charged"

    await run(life, charge)


async def careless_checkout(life: Life) -> None:
    @tool(replay="safe")  # which it is not
    async def charge(cents: int) -> str:
        life.effects.happened(f"charge {cents}")
        return "charged"

    await run(life, charge)


def main() -> None:
    report = crash_test(checkout)
    print(str(report).rpartition(",")[0])
    print("the worst that was found:", next(iter(report.faults), "nothing"))

    report = crash_test(careless_checkout)
    twice = any("happened 2 times" in fault for fault in report.faults)
    print("charged twice if the tool is said to be safe:", twice)


if __name__ == "__main__":
    main()
