"""Cases 022, 023 and 034: what other programs have lost between a call and its result."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.harness.session_program import agent_of, open_store
from tests.loop.invariants import check_sendable

from loopwright import Agent, Harness, tool
from loopwright.events import AgentEvent, MessageEnd, ToolExecutionEnd
from loopwright.messages import AgentMessage, AssistantMessage, ToolResultMessage
from loopwright.session import MemoryStore, Session, SessionStore
from loopwright.session.export.markdown import to_markdown
from loopwright.testing import Call, Reply, ScriptedModel

ROOT = Path(__file__).parents[2]
PATIENCE_SECONDS = 30.0

ON_DISK = pytest.mark.parametrize("kind", ["sqlite", "jsonl"])


class Program:
    """A process of session_program."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process

    async def says(self) -> str:
        assert self._process.stdout is not None
        line = await asyncio.wait_for(self._process.stdout.readline(), PATIENCE_SECONDS)
        return line.decode().strip()

    async def goes_on(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(b"\n")
        await self._process.stdin.drain()

    async def ended(self) -> int:
        return await asyncio.wait_for(self._process.wait(), PATIENCE_SECONDS)

    async def killed(self) -> None:
        self._process.kill()
        assert await self.ended() == -signal.SIGKILL


@asynccontextmanager
async def program(kind: str, place: Path, script: str, marker: str = "") -> AsyncIterator[Program]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tests.harness.session_program", kind, str(place), script, marker,
        cwd=ROOT, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield Program(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        assert process.stdin is not None
        process.stdin.close()


def scripted(*replies: Any, tools: Any = ()) -> tuple[Agent[Any], ScriptedModel]:
    model = ScriptedModel(list(replies))
    agent: Agent[Any] = Agent(model.model, stream_fn=model.stream_fn, tools=tools)
    return agent, model


async def asked_to_go_on(store: SessionStore) -> Sequence[AgentMessage]:
    """The request for "go on", made by a process that has just opened the session."""
    agent, model = scripted(Reply("Going on."))
    async with Harness.open(store, "s", agent=agent) as harness:
        if harness.open_operation is not None:
            await harness.abort()  # what an earlier process left is not wanted any more
        result = await harness.prompt("go on")
    assert result.text == "Going on."
    request = list(model.requests[-1].context.messages)
    check_sendable(request)
    return request


def results(messages: Sequence[AgentMessage]) -> list[tuple[str, str, bool]]:
    return [
        (m.tool_call_id, m.text, m.is_error) for m in messages if isinstance(m, ToolResultMessage)
    ]


# -- 022 -------------------------------------------------------------------------------------


async def test_case_022_after_an_abort_during_a_call_the_next_request_is_valid() -> None:
    store = MemoryStore()
    started = asyncio.Event()

    @tool
    async def bash(command: str) -> str:
        started.set()
        await asyncio.Event().wait()
        return "never"

    agent, _ = scripted(Reply(calls=[Call("bash", {"command": "make"}, id="c1")]), tools=[bash])
    async with Harness.open(store, "s", agent=agent) as harness, asyncio.TaskGroup() as group:
        running = group.create_task(harness.prompt("Build it."))
        await started.wait()
        await harness.abort()
    before = await store.entries("s")

    request = await asked_to_go_on(store)

    assert running.result().stop_reason == "aborted"
    assert results(request) == [("c1", "Operation aborted", True)]
    assert (await store.entries("s"))[: len(before)] == before  # nothing is edited
    assert [m.role for m in request] == ["user", "assistant", "toolResult", "user"]


async def test_case_022_a_call_whose_arguments_were_half_streamed_is_left_out() -> None:
    store = MemoryStore()
    agent, _ = scripted(
        Reply(
            "Building.",
            calls=[Call("bash", {"command": "make all"}, id="c1")],
            chunk_size=3,
            delay=0.001,
        )
    )
    async with Harness.open(store, "s", agent=agent) as harness:

        async def abort_in_the_arguments(event: AgentEvent) -> None:
            message = getattr(event, "message", None)
            if isinstance(message, AssistantMessage) and message.tool_calls:
                aborted.append(message.tool_calls[0].name)
                await harness.abort()

        aborted: list[str] = []
        harness.subscribe(abort_in_the_arguments)
        result = await harness.prompt("Build it.")

    request = await asked_to_go_on(store)

    assert result.stop_reason == "aborted"
    assert aborted
    assert "Building." in str(await store.entries("s"))  # what was said is kept
    assert [m.role for m in request] == ["user", "user"]


@ON_DISK
async def test_case_022_after_a_kill_during_a_call_the_next_request_is_valid(
    kind: str, tmp_path: Path
) -> None:
    place = tmp_path / "sessions"
    async with program(kind, place, "killed_in_a_call") as dying:
        assert await dying.ended() == -signal.SIGKILL
    store = await open_store(kind, str(place))
    before = await store.entries("s")

    request = await asked_to_go_on(store)

    after = await store.entries("s")
    await store.aclose()
    assert [m.role for m in request] == ["user", "assistant", "toolResult", "user"]
    [(call_id, told, is_error)] = results(request)
    assert (call_id, is_error) == ("c1", True)
    assert "interrupted" in told or "aborted" in told
    assert after[: len(before)] == before


@ON_DISK
async def test_case_022_after_a_kill_resuming_tells_the_model_that_the_call_was_interrupted(
    kind: str, tmp_path: Path
) -> None:
    place = tmp_path / "sessions"
    async with program(kind, place, "killed_in_a_call") as dying:
        await dying.ended()
    store = await open_store(kind, str(place))
    agent, model = scripted(Reply("I shall look."))

    async with Harness.open(store, "s", agent=agent) as harness:
        await harness.resume()

    await store.aclose()
    request = list(model.requests[0].context.messages)
    check_sendable(request)
    [(call_id, told, is_error)] = results(request)
    assert (call_id, is_error) == ("c1", True)
    assert "interrupted" in told


async def test_case_022_a_result_that_comes_after_the_abort_is_not_added() -> None:
    store = MemoryStore()
    started, let_go, returned = asyncio.Event(), asyncio.Event(), asyncio.Event()

    @tool
    async def stubborn() -> str:
        started.set()
        while not let_go.is_set():
            try:
                await let_go.wait()
            except asyncio.CancelledError:
                continue
        returned.set()
        return "late"

    agent, _ = scripted(Reply(calls=[Call("stubborn", {}, id="c1")]), tools=[stubborn])
    async with Harness.open(store, "s", agent=agent) as harness:
        async with asyncio.TaskGroup() as group:
            group.create_task(harness.prompt("Go"))
            await started.wait()
            await harness.abort()
        let_go.set()
        await asyncio.wait_for(returned.wait(), PATIENCE_SECONDS)
        for _ in range(20):  # whatever a late result could set off has had its turn
            await asyncio.sleep(0)

    request = await asked_to_go_on(store)

    assert results(request) == [("c1", "Operation aborted", True)]
    assert "late" not in str(await store.entries("s"))
    assert (await store.state("s")).intents == []


# -- 023 -------------------------------------------------------------------------------------


@pytest.mark.parametrize("order", ["quick first", "slow first"])
async def test_case_023_a_finished_result_survives_the_abort_of_its_batch(order: str) -> None:
    store = MemoryStore()
    quick_ended = asyncio.Event()
    seen: list[str] = []

    @tool
    async def quick() -> str:
        return "42"

    @tool
    async def slow() -> str:
        await asyncio.Event().wait()
        return "never"

    calls = [Call("quick", {}, id="c1"), Call("slow", {}, id="c2")]
    if order == "slow first":
        calls.reverse()
    agent, _ = scripted(Reply(calls=calls), tools=[quick, slow])

    async def hear(event: AgentEvent) -> None:
        if isinstance(event, ToolExecutionEnd):
            seen.append(f"end {event.tool_call_id}")
            if event.tool_call_id == "c1":
                assert await is_durable(store, "42")  # while c2 still runs
                quick_ended.set()
        if isinstance(event, MessageEnd) and isinstance(event.message, ToolResultMessage):
            seen.append(f"result {event.message.tool_call_id}")

    async with Harness.open(store, "s", agent=agent) as harness:
        harness.subscribe(hear)
        async with asyncio.TaskGroup() as group:
            group.create_task(harness.prompt("Go"))
            await asyncio.wait_for(quick_ended.wait(), PATIENCE_SECONDS)
            assert "end c2" not in seen
            await harness.abort()
    request = await asked_to_go_on(store)

    asked = [call.id for call in calls]
    told = {"c1": ("c1", "42", False), "c2": ("c2", "Operation aborted", True)}
    assert results(request) == [told[str(call_id)] for call_id in asked]
    assert seen[0] == "end c1"
    assert [s for s in seen if s.startswith("result")] == [f"result {name}" for name in asked]


async def is_durable(store: SessionStore, text: str) -> bool:
    """*text* is the result of some call that a process which starts now would find."""
    kept = [row.entry() for row in await store.entries("s")]
    messages = [getattr(entry, "message", None) for entry in kept]
    messages += [intent.result for intent in (await store.state("s")).intents]
    return text in [m.text for m in messages if isinstance(m, ToolResultMessage)]


@ON_DISK
@pytest.mark.parametrize("order", ["quick first", "slow first"])
async def test_case_023_a_finished_result_survives_a_kill(
    kind: str, order: str, tmp_path: Path
) -> None:
    place = tmp_path / "sessions"
    async with program(kind, place, "half_a_batch", order) as dying:
        words = {await dying.says(), await dying.says()}
        assert words == {"running sleep", "ended c1"}
        reader = await open_store(kind, str(place))
        assert await is_durable(reader, "42")
        await reader.aclose()
        await dying.killed()
    store = await open_store(kind, str(place))
    agent, model = scripted(Reply("So it is."), tools=[])

    async with Harness.open(store, "s", agent=agent) as harness:
        await harness.resume()

    await store.aclose()
    request = list(model.requests[0].context.messages)
    check_sendable(request)
    found = {call_id: (text, is_error) for call_id, text, is_error in results(request)}
    assert found["c1"] == ("42", False)
    assert found["c2"][1] is True
    assert "interrupted" in found["c2"][0]
    assert list(found) == (["c2", "c1"] if order == "slow first" else ["c1", "c2"])


# -- 034 -------------------------------------------------------------------------------------


async def seeded(kind: str, place: Path) -> Any:
    store = await open_store(kind, str(place))
    async with Harness.open(store, "s", agent=agent_of(Reply("Hello."))) as harness:
        await harness.prompt("Hi")
    return store


async def branches(store: SessionStore) -> list[str]:
    """The text of every path from the root to an end."""
    rows = await store.entries("s")
    parents = {row.parent_id for row in rows}
    session = await Session.read(store, "s")
    ends = [row.id for row in rows if row.id not in parents]
    return [b"".join(row.payload for row in await session.path(end)).decode() for end in ends]


@ON_DISK
async def test_case_034_of_two_processes_one_gets_the_session_and_the_other_is_told(
    kind: str, tmp_path: Path
) -> None:
    place = tmp_path / "sessions"
    store = await seeded(kind, place)
    async with (
        program(kind, place, "continue_last", "alpha") as one,
        program(kind, place, "continue_last", "beta") as two,
    ):
        assert [await one.says(), await two.says()] == ["ready", "ready"]

        await asyncio.gather(one.goes_on(), two.goes_on())  # at the same moment
        words = await asyncio.gather(one.says(), two.says())

        [refusal] = [word for word in words if word != "has it"]
        assert refusal.startswith("refused: session 's' is open for writing in process")
        winner, marker = (one, "alpha") if words[0] == "has it" else (two, "beta")
        await check_reading(store, marker)
        await winner.goes_on()
        assert [await one.ended(), await two.ended()] == [0, 0]

    [branch] = await branches(store)
    await store.aclose()
    assert ("alpha" in branch) != ("beta" in branch)
    check_lines(kind, place)


async def check_reading(store: SessionStore, marker: str) -> None:
    """While the session is locked it can be listed, read and exported."""
    [info] = await store.list()
    assert info.locked_by is not None
    session = await Session.read(store, "s")
    assert marker in to_markdown(info, session.entries())


def check_lines(kind: str, place: Path) -> None:
    """Every line of the file is whole."""
    if kind == "jsonl":
        [file] = place.rglob("*.jsonl")
        data = file.read_bytes()
        assert data.endswith(b"\n")
        assert all(isinstance(json.loads(line), dict) for line in data.splitlines())


@ON_DISK
async def test_case_034_one_after_the_other_both_are_on_one_branch(
    kind: str, tmp_path: Path
) -> None:
    place = tmp_path / "sessions"
    store = await seeded(kind, place)
    for marker in ("alpha", "beta"):
        async with program(kind, place, "continue_last", marker) as process:
            assert await process.says() == "ready"
            await process.goes_on()
            assert await process.says() == "has it"
            await process.goes_on()
            assert await process.ended() == 0

    [branch] = await branches(store)
    await store.aclose()
    assert -1 < branch.index("alpha!") < branch.index("beta!")
    check_lines(kind, place)


@ON_DISK
async def test_case_034_the_lock_of_a_dead_process_blocks_nobody(kind: str, tmp_path: Path) -> None:
    place = tmp_path / "sessions"
    store = await seeded(kind, place)
    async with program(kind, place, "continue_last", "alpha") as dying:
        await dying.says()
        await dying.goes_on()
        assert await dying.says() == "has it"
        await dying.killed()

    agent, model = scripted(Reply("Still here."))
    began = asyncio.get_running_loop().time()
    async with Harness.open(store, "s", agent=agent) as harness:  # at once: its process is gone
        took = asyncio.get_running_loop().time() - began
        result = await harness.prompt("go on")

    [branch] = await branches(store)
    await store.aclose()
    assert took < 5  # a lease lasts 30
    assert result.text == "Still here."
    assert "alpha!" in branch
    assert "Still here." in branch
    check_sendable(list(model.requests[0].context.messages))
    check_lines(kind, place)
