"""A run whose process is killed with -9, and another process that goes on with it.

The payment is made once: an effect that may not be repeated is announced in the session before it
happens, so whoever goes on knows that it may have happened.

Prints:
    first process: paid for tea
    first process: ended by signal 9
    second process: the run is open
    second process: told the model: The tool 'pay' was interrupted
    second process: I had better look. It was paid.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from loopwright import Agent, Harness, tool
from loopwright.messages import AssistantMessage, ToolResultMessage
from loopwright.session import SqliteStore
from loopwright.testing import Call, Reply, ScriptedModel


@tool
async def pay(what: str) -> str:
    """Pay for something. Not to be repeated."""
    print(f"first process: paid for {what}", flush=True)
    os.kill(os.getpid(), signal.SIGKILL)  # the power goes off before the result is written
    return "paid"


@tool(replay="safe")
async def balance() -> str:
    """Look at the account; looking twice does no harm."""
    return "It was paid."


def agent(*replies: Reply) -> Agent:
    model = ScriptedModel(list(replies))
    return Agent(model.model, stream_fn=model.stream_fn, tools=[pay, balance])


async def first(file: Path) -> None:
    buyer = agent(Reply(calls=[Call("pay", {"what": "tea"})]))
    async with (
        await SqliteStore.open(file) as store,
        Harness.open(store, "tea", agent=buyer) as harness,
    ):
        await harness.prompt("Buy tea.")


async def second(file: Path) -> None:
    buyer = agent(Reply("I had better look.", calls=[Call("balance", {})]), Reply("It was paid."))
    async with (
        await SqliteStore.open(file) as store,
        Harness.open(store, "tea", agent=buyer) as harness,
    ):
        operation = harness.open_operation
        assert operation is not None
        print(f"second process: the {operation.kind} is {operation.status}")
        result = await harness.resume()
        assert result is not None
        told = next(m for m in result.messages if isinstance(m, ToolResultMessage))
        print(f"second process: told the model: {told.text.partition(':')[0]}")
        looked = next(m for m in result.messages[2:] if isinstance(m, AssistantMessage))
        print(f"second process: {looked.text} {result.text}")


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "sessions.db"
        child = subprocess.run([sys.executable, __file__, str(file)], check=False)
        print(f"first process: ended by signal {-child.returncode}")
        asyncio.run(second(file))


if __name__ == "__main__":
    if len(sys.argv) > 1:
        asyncio.run(first(Path(sys.argv[1])))
    else:
        main()
