"""What a process of its own does with a session in the tests of cases, one word at a time.

    python -m tests.harness.session_program STORE PLACE SCRIPT [MARKER]

STORE is `sqlite` or `jsonl`. It prints what it has come to and waits for a line. Not here: who
looks at what it left (test_cases_sessions).
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import Any

from loopwright import Agent, Harness, tool
from loopwright.errors import SessionLocked
from loopwright.events import ToolExecutionEnd
from loopwright.session import JsonlStore, SqliteStore
from loopwright.testing import Call, Reply, ScriptedModel


async def open_store(kind: str, place: str) -> Any:
    return await (SqliteStore if kind == "sqlite" else JsonlStore).open(place)


def say(word: str) -> None:
    print(word, flush=True)


async def told_to_go_on() -> None:
    await asyncio.to_thread(sys.stdin.readline)


@tool
async def bash(command: str) -> str:
    """Never ends, and gives its process away."""
    say(f"running {command}")
    await asyncio.Event().wait()
    return "never"


@tool
async def answer() -> str:
    return "42"


def agent_of(*replies: Reply, tools: Any = ()) -> Agent[Any]:
    model = ScriptedModel(list(replies))
    return Agent(model.model, stream_fn=model.stream_fn, tools=tools)


async def killed_in_a_call(store: Any, marker: str) -> None:
    """Case 022: nothing is written behind the call."""

    @tool
    async def bash(command: str) -> str:
        os.kill(os.getpid(), signal.SIGKILL)
        return "never"

    agent = agent_of(Reply(calls=[Call("bash", {"command": "make"}, id="c1")]), tools=[bash])
    async with Harness.open(store, "s", agent=agent) as harness:
        await harness.prompt("Build it.")


async def half_a_batch(store: Any, marker: str) -> None:
    """Case 023: one call has ended and one never does. *marker* says which is asked for first."""
    calls = [Call("answer", {}, id="c1"), Call("bash", {"command": "sleep"}, id="c2")]
    if marker == "slow first":
        calls.reverse()
    agent = agent_of(Reply(calls=calls), tools=[bash, answer])

    def hear(event: Any) -> None:
        if isinstance(event, ToolExecutionEnd):
            say(f"ended {event.tool_call_id}")

    async with Harness.open(store, "s", agent=agent) as harness:
        harness.subscribe(hear)
        await harness.prompt("Find out.")


async def continue_last(store: Any, marker: str) -> None:
    """Case 034: the newest session, as a second one would at the same moment."""
    say("ready")
    await told_to_go_on()
    [last] = await store.list(limit=1)
    try:
        async with Harness.open(store, last.id, agent=agent_of(Reply(f"{marker}!"))) as harness:
            await harness.prompt(marker)
            say("has it")
            await told_to_go_on()
    except SessionLocked as error:
        say(f"refused: {error.message}")


SCRIPTS = {f.__name__: f for f in (killed_in_a_call, half_a_batch, continue_last)}


async def main(kind: str, place: str, script: str, marker: str = "") -> None:
    store = await open_store(kind, place)
    await SCRIPTS[script](store, marker)
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
