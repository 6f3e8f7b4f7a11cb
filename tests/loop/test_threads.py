"""Blocking functions run beside the event loop and are left behind when nobody waits for them."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Iterator

import pytest

from loopwright.loop import threads
from loopwright.loop.threads import run_in_thread

variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """Opened at the end, so that no thread of a test outlives it for long."""
    event = threading.Event()
    yield event
    event.set()


async def test_behaviour_102_a_function_runs_in_a_daemon_thread_and_its_result_comes_back() -> None:
    def where(a: int, *, b: int) -> tuple[int, threading.Thread]:
        return a + b, threading.current_thread()

    total, thread = await run_in_thread(where, 1, b=2)

    assert total == 3
    assert thread is not threading.current_thread()
    assert thread.daemon


async def test_the_event_loop_goes_on_meanwhile(gate: threading.Event) -> None:
    async with asyncio.TaskGroup() as group:
        call = group.create_task(run_in_thread(gate.wait, 10))
        await asyncio.sleep(0)
        gate.set()

    assert call.result() is True


async def test_context_variables_are_copied() -> None:
    variable.set("mine")

    def read_and_set() -> str:
        seen = variable.get()
        variable.set("theirs")
        return seen

    assert await run_in_thread(read_and_set) == "mine"
    assert variable.get() == "mine"


async def test_exceptions_come_as_they_are() -> None:
    class Special(Exception):
        pass

    def fail() -> None:
        raise Special("why")

    with pytest.raises(Special, match="why"):
        await run_in_thread(fail)


async def test_stop_iteration_does_not_break_the_future() -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        await run_in_thread(next, iter(()))


async def test_behaviour_103_a_cancelled_error_of_the_function_comes_out_too() -> None:
    def cancel() -> None:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        await run_in_thread(cancel)


async def test_threads_are_used_again() -> None:
    seen = {await run_in_thread(threading.get_ident) for _ in range(50)}

    assert len(seen) <= 3


async def test_behaviour_102_cancelling_leaves_the_thread_behind_at_once(
    gate: threading.Event,
) -> None:
    finished = threading.Event()

    def work() -> str:
        gate.wait(10)
        finished.set()
        raise ValueError("nobody hears this")

    task = asyncio.create_task(run_in_thread(work))
    await asyncio.sleep(0.01)

    started = time.perf_counter()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert time.perf_counter() - started < 1

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        gate.set()
        assert await run_in_thread(finished.wait, 10)
        await asyncio.sleep(0.01)
        gc.collect()


async def test_no_more_threads_than_the_limit_and_those_that_wait_come_in_order(
    monkeypatch: pytest.MonkeyPatch, gate: threading.Event
) -> None:
    monkeypatch.setattr(threads, "MAX_THREADS", 2)
    monkeypatch.setattr(threads, "_pool", threads._Pool())
    order: list[int] = []
    running = 0
    peak = 0
    lock = threading.Lock()

    def work(number: int) -> None:
        nonlocal running, peak
        with lock:
            running += 1
            peak = max(peak, running)
            order.append(number)
        gate.wait(10)
        with lock:
            running -= 1

    async with asyncio.TaskGroup() as group:
        for number in range(6):
            group.create_task(run_in_thread(work, number))
        await asyncio.sleep(0.05)
        assert sorted(order) == [0, 1]
        gate.set()

    assert peak == 2
    assert sorted(order) == list(range(6))


async def test_abandoned_threads_and_cancelled_waiters_do_not_count(
    monkeypatch: pytest.MonkeyPatch, gate: threading.Event
) -> None:
    monkeypatch.setattr(threads, "MAX_THREADS", 1)
    monkeypatch.setattr(threads, "_pool", threads._Pool())

    stuck = [asyncio.create_task(run_in_thread(gate.wait, 10)) for _ in range(3)]
    await asyncio.sleep(0.01)
    for task in stuck:  # the first runs, the others wait for its place
        task.cancel()
    await asyncio.wait(stuck)

    assert await asyncio.wait_for(run_in_thread(lambda: "free"), 5) == "free"
    gate.set()
    assert await asyncio.wait_for(run_in_thread(lambda: "still free"), 5) == "still free"


async def test_idle_threads_end_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "IDLE_SECONDS", 0.01)
    monkeypatch.setattr(threads, "_pool", threads._Pool())

    thread = await run_in_thread(threading.current_thread)
    thread.join(5)

    assert not thread.is_alive()
    assert await run_in_thread(lambda: 1) == 1


def test_case_046_several_event_loops_in_several_threads_at_once() -> None:
    results: list[int] = []

    async def turn(base: int) -> int:
        return sum(await asyncio.gather(*(run_in_thread(lambda n=n: n + base) for n in range(100))))

    def loop(base: int) -> None:
        for _ in range(3):
            results.append(asyncio.run(turn(base)))  # noqa: PERF401 - threads share the list

    runners = [threading.Thread(target=loop, args=(base,)) for base in (0, 1000)]
    for runner in runners:
        runner.start()
    for runner in runners:
        runner.join()

    assert sorted(results) == [4950] * 3 + [104950] * 3


def test_case_046_a_loop_may_end_while_a_thread_of_it_still_works() -> None:
    opened = threading.Event()

    async def leave() -> None:
        task = asyncio.create_task(run_in_thread(opened.wait, 10))
        await asyncio.sleep(0.01)
        task.cancel()

    asyncio.run(leave())
    opened.set()

    assert asyncio.run(run_in_thread(lambda: 1)) == 1


def test_behaviour_102_the_program_exits_while_a_thread_still_blocks() -> None:
    source = """
import asyncio, time
from loopwright.loop.threads import run_in_thread
async def main():
    task = asyncio.create_task(run_in_thread(time.sleep, 60))
    await asyncio.sleep(0.05)
    task.cancel()
    await asyncio.wait([task])
asyncio.run(main(), debug=True)
print("done")
"""
    started = time.perf_counter()
    finished = subprocess.run(
        [sys.executable, "-W", "error", "-c", source],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        timeout=30,
    )

    assert finished.stdout == "done\n"
    assert finished.stderr == ""
    assert time.perf_counter() - started < 20


NESTED = """
from loopwright import Agent
from loopwright.testing import Call, Reply, ScriptedModel

def agent(calls, *tools):
    asked = Reply(calls=[Call(tools[0].__name__, {}) for _ in range(calls)])
    scripted = ScriptedModel([asked, Reply("done")])
    return Agent(scripted.model, stream_fn=scripted.stream_fn, tools=list(tools))

def leaf() -> str:
    return "leaf"

def ask_another() -> str:
    return agent(2, leaf).prompt_sync("Go.").text
"""


def run_program(program: str) -> str:
    """What *program* prints; a program that stands still fails the test."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", program],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_case_098_many_sync_tools_may_each_ask_another_agent() -> None:
    """All places are taken before the first of them asks for one more."""
    program = """
import threading
from loopwright.loop.threads import MAX_THREADS

all_here = threading.Barrier(MAX_THREADS)

def ask_together() -> str:
    all_here.wait(20)
    return ask_another()

print(agent(MAX_THREADS, ask_together).prompt_sync("Go.").text)
"""

    printed = run_program(NESTED + program)

    assert printed == "done"


FORK = """
import multiprocessing

def child(sender):
    sender.send(agent(3, leaf).prompt_sync("Go.").text)

def fork() -> str:
    context = multiprocessing.get_context("fork")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=child, args=(sender,))
    process.start()
    said = receiver.recv() if receiver.poll(20) else "nothing"
    process.join(5)
    if process.is_alive():
        process.kill()
    return said
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system cannot fork")
@pytest.mark.parametrize(
    "program",
    [
        pytest.param("agent(1, leaf).prompt_sync('Go.'); print(fork())", id="threads at rest"),
        pytest.param("print(fork())", id="nothing ran yet"),
        pytest.param("agent(70, ask_another).prompt_sync('Go.'); print(fork())", id="after many"),
        pytest.param(
            "said = []\n"
            "def forking() -> str:\n    said.append(fork()); return said[0]\n"
            "agent(1, forking).prompt_sync('Go.'); print(said[0])",
            id="out of a running tool",
        ),
    ],
)
def test_case_097_sync_tools_run_in_a_forked_child(program: str) -> None:
    printed = run_program(NESTED + FORK + program)

    assert printed == "done"
