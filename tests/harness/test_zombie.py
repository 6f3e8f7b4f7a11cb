"""A process that was paused, lost its session to another, and goes on: it is refused.

The pauses are forced, between the very two steps that matter, in a process of its own.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import signal
import sys
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.harness.zombie_program import agent_with_an_effect, open_store

from loopwright import Agent, Harness, tool
from loopwright.errors import LeaseLost, SessionLocked
from loopwright.messages import ToolResultMessage
from loopwright.session import MemoryStore, Session, SqliteStore
from loopwright.testing import Call, Reply, ScriptedModel

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 30.0


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return request.getfixturevalue("postgres_url")
    return str(tmp_path / "sessions.db")


class Zombie:
    """A process of zombie_program that stands still."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    async def goes_on(self) -> tuple[str, str]:
        """How its run ended: the stop reason and the error."""
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        await self._process.stdin.drain()
        line = await self.says()
        await asyncio.wait_for(self._process.wait(), PATIENCE_SECONDS)
        assert self._process.returncode == 0
        stop_reason, error = json.loads(line)
        return stop_reason, error or ""

    async def says(self) -> str:
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), PATIENCE_SECONDS)
        return line.decode().strip()


@asynccontextmanager
async def a_zombie(
    place: str, moment: str, file: Path, fenced: str = "fenced"
) -> AsyncIterator[Zombie]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.harness.zombie_program", place, moment, fenced, str(file),
        cwd=ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        zombie = Zombie(process)
        assert await zombie.says() == "paused"
        yield zombie
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        assert process.stdin is not None
        process.stdin.close()


@asynccontextmanager
async def taken_over(store: Any, file: Path) -> AsyncIterator[Harness[Any]]:
    """The session, once the zombie's lease has run out."""
    give_up = time.monotonic() + PATIENCE_SECONDS
    while True:
        harness = Harness.open(store, "s", agent=agent_with_an_effect(str(file)))
        try:
            await harness.__aenter__()
            break
        except SessionLocked:
            assert time.monotonic() < give_up
            await asyncio.sleep(0.02)
    try:
        yield harness
    finally:
        await harness.aclose()


async def rows_and_leaf(store: Any) -> Any:
    state = await store.state("s")
    return await store.entries("s"), state.lanes, state.operations, state.intents, state.info.usage


INTERRUPTED = "The tool 'pay' was interrupted"


@pytest.mark.parametrize(
    ("moment", "told"),
    [
        ("intent", "paid"),  # it had not begun, so whoever goes on pays
        ("outcome", INTERRUPTED),
        ("message", "paid"),
        ("finish", "paid"),
        ("renew", INTERRUPTED),
    ],
)
async def test_what_a_zombie_writes_is_refused_and_changes_nothing(
    place: str, moment: str, told: str, tmp_path: Path
) -> None:
    file = tmp_path / "effects"
    store = await open_store(place)
    async with a_zombie(place, moment, file) as zombie, taken_over(store, file) as harness:
        result = await harness.resume()
        before = await rows_and_leaf(store)

        stop_reason, error = await zombie.goes_on()

        after = await rows_and_leaf(store)
    await store.aclose()
    assert (stop_reason, "taken over" in error) == ("error", True)
    assert after == before
    assert file.read_text() == "paid\n"
    assert result is not None
    assert result.text == "Done."
    [answer] = [m.text for m in result.messages if isinstance(m, ToolResultMessage)]
    assert answer.startswith(told)


@pytest.mark.skipif(not hasattr(signal, "SIGSTOP"), reason="processes are stopped on POSIX only")
async def test_a_process_that_was_stopped_between_effect_and_result_is_refused(
    place: str, tmp_path: Path
) -> None:
    file = tmp_path / "effects"
    store = await open_store(place)
    async with a_zombie(place, "stopped", file) as zombie:
        os.kill(zombie.pid, signal.SIGSTOP)
        async with taken_over(store, file) as harness:
            result = await harness.resume()
            before = await rows_and_leaf(store)

            os.kill(zombie.pid, signal.SIGCONT)
            stop_reason, error = await zombie.goes_on()

            after = await rows_and_leaf(store)
    await store.aclose()
    assert (stop_reason, "taken over" in error) == ("error", True)
    assert after == before
    assert file.read_text() == "paid\n"
    assert result is not None
    assert INTERRUPTED in str(result.messages)


async def test_control_without_the_fence_a_zombies_message_tears_the_transcript(
    place: str, tmp_path: Path
) -> None:
    """What the tests above look at does change where the epoch is not checked."""
    file = tmp_path / "effects"
    store = await open_store(place)
    async with (
        a_zombie(place, "message", file, "unfenced") as zombie,
        taken_over(store, file) as harness,
    ):
        await harness.resume()
        before, *_ = await rows_and_leaf(store)

        stop_reason, _ = await zombie.goes_on()

        after, *_ = await rows_and_leaf(store)
        branch = [m.role for m in (await Session.read(store, "s")).messages()]
    await store.aclose()
    assert stop_reason == "stop"
    assert len(after) == len(before) + 1
    assert branch == ["user", "assistant", "toolResult", "assistant"]  # the zombie's, not ours


async def test_control_without_the_fence_a_zombies_intent_lets_it_pay_once_more(
    place: str, tmp_path: Path
) -> None:
    file = tmp_path / "effects"
    store = await open_store(place)
    async with (
        a_zombie(place, "intent", file, "unfenced") as zombie,
        taken_over(store, file) as harness,
    ):
        await harness.resume()
        await zombie.goes_on()
    await store.aclose()

    assert file.read_text() == "paid\npaid\n"


# -- a heartbeat that starves ----------------------------------------------------------------


def blocking(seconds: float, meanwhile: Any = None) -> tuple[Agent[Any], ScriptedModel]:
    """An agent whose tool holds up the event loop."""

    @tool
    async def block() -> str:
        time.sleep(seconds)
        if meanwhile is not None:
            meanwhile()
        return "done"

    model = ScriptedModel([Reply(calls=[Call("block", {})]), Reply("Done.")])
    return Agent(model.model, stream_fn=model.stream_fn, tools=[block]), model


async def test_a_tool_that_blocks_the_heartbeat_loses_the_lease_and_the_run_is_told(
    tmp_path: Path,
) -> None:
    file = tmp_path / "sessions.db"
    faults: list[Exception] = []

    async def take() -> None:
        async with await SqliteStore.open(file) as other, await Session.open(other, "s"):
            pass

    def take_over() -> None:  # from a loop of its own, since ours stands still
        thread = threading.Thread(target=lambda: asyncio.run(take()))
        thread.start()
        thread.join()

    agent, model = blocking(0.3, take_over)
    agent.on_error = lambda error, where: faults.append(error)  # type: ignore[assignment]
    async with (
        await SqliteStore.open(file) as store,
        Harness.open(store, "s", agent=agent, lease_seconds=0.2) as harness,
    ):
        result = await harness.prompt("Go")
        with pytest.raises(LeaseLost):
            await harness.session.set_name("still mine?")

    assert (result.stop_reason, result.stopped_by) == ("error", "error")
    assert "taken over" in (result.error_message or "")
    assert [type(fault) for fault in faults] == [LeaseLost]
    assert len(model.requests) == 1


async def test_a_lease_that_ran_out_and_that_nobody_took_is_still_good(
    caplog: pytest.LogCaptureFixture,
) -> None:
    agent, _ = blocking(0.3)
    with caplog.at_level(logging.WARNING, "loopwright"):
        async with Harness.open(MemoryStore(), "s", agent=agent, lease_seconds=0.2) as harness:
            result = await harness.prompt("Go")
            give_up = time.monotonic() + PATIENCE_SECONDS
            while not any("late" in record.message for record in caplog.records):
                assert time.monotonic() < give_up, "the heartbeat noticed nothing"
                await asyncio.sleep(0)

    assert result.text == "Done."
