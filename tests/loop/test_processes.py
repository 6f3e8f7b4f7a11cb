"""Tools in processes of their own: real processes, really killed."""

from __future__ import annotations

import asyncio
import dataclasses
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from loopwright.loop import processes
from loopwright.loop.processes import ProcessFailed, run_in_process
from loopwright.loop.tool import AgentTool, InvalidTool, ToolContext, as_tool, tool
from loopwright.messages import AgentToolResult
from loopwright.signals import AbortSignal

pytestmark = pytest.mark.skipif(os.name != "posix", reason="worker processes need POSIX")

PATIENCE_SECONDS = 30.0


@dataclasses.dataclass
class Point:
    x: int


class TwoArguments(Exception):
    """Cannot be unpickled: its constructor wants more than it keeps."""

    def __init__(self, text: str, more: str) -> None:
        super().__init__(text)
        self.more = more


# -- functions that run over there -----------------------------------------------------------


@tool(isolation="process")
def double(x: int, point: Point | None = None) -> dict[str, Any]:
    """Double a number."""
    print("this is not the result")
    os.write(1, b"nor is this\n")
    return {"doubled": x * 2, "point": point, "elsewhere": os.getpid()}


@tool(isolation="process")
async def report(steps: int, *, ctx: ToolContext) -> str:
    for step in range(steps):
        ctx.update(f"step {step}")
        await asyncio.sleep(0)
    return f"{ctx.tool_call_id} {ctx.deps['name']}"


@tool(isolation="process")
def report_from_a_thread(ctx: ToolContext) -> str:
    thread = threading.Thread(target=ctx.update, args=({"from": "thread"},))
    thread.start()
    thread.join()
    return "ok"


def end(how: str) -> Any:
    match how:
        case "exit code":
            os._exit(3)
        case "exit 0":
            os._exit(0)
        case "sys.exit":
            sys.exit("enough")
        case "segmentation fault":
            import ctypes
            import resource

            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            ctypes.string_at(0)
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
        case "raise":
            raise ValueError("the reason")
        case "raise odd":
            raise TwoArguments("the reason", "more")
        case "unpicklable":
            return threading.Lock()
        case _:
            pass
    return how


def read_input() -> str:
    return sys.stdin.read()


def family(pids: str, heed: bool) -> None:
    """Write down who we are and whom we started, then block."""
    if not heed:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(["sleep", "600"])
    daemon = subprocess.Popen(["sleep", "600"], start_new_session=True)
    note_down(pids, os.getpid(), os.getppid(), child.pid, daemon.pid)
    time.sleep(600)


def hold_the_interpreter(pids: str) -> None:
    """Block in C code without ever giving up the interpreter lock: no signal handler runs."""
    import ctypes

    note_down(pids, os.getpid(), os.getppid())
    ctypes.PyDLL(None).sleep(600)


def clean_up(log: str) -> None:
    try:
        Path(log).write_text("started", encoding="utf-8")
        time.sleep(600)
    finally:
        Path(log).write_text("cleaned up", encoding="utf-8")


def wait_for_the_signal(log: str, signal: AbortSignal) -> None:
    Path(log).write_text("started", encoding="utf-8")
    while not signal.aborted:
        time.sleep(0.01)
    Path(log).write_text("heard it", encoding="utf-8")


async def sleep_async(log: str, ctx: ToolContext) -> None:
    Path(log).write_text("started", encoding="utf-8")
    try:
        await asyncio.sleep(600)
    finally:
        Path(log).write_text(f"cancelled, {ctx.signal.aborted}", encoding="utf-8")


class Late:
    """Read back, it keeps the loop from seeing the end of the pipe, as a busy machine may."""

    def __reduce__(self) -> Any:
        return read_no_further, ()


def late() -> Late:
    return Late()


pipes: list[asyncio.ReadTransport] = []


def read_no_further() -> str:
    pipes[-1].pause_reading()
    return "done"


def leave_a_child(pids: str) -> str:
    child = subprocess.Popen(["sleep", "600"])
    note_down(pids, child.pid)
    return "done"


def note_down(file: str, *pids: int) -> None:
    Path(file + ".new").write_text(" ".join(map(str, pids)), encoding="utf-8")
    Path(file + ".new").rename(file)


# -- watching from here ----------------------------------------------------------------------


async def appears(file: Path) -> str:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not file.exists() or not file.read_text(encoding="utf-8"):
        assert time.monotonic() < deadline, f"{file} did not appear"
        await asyncio.sleep(0.005)
    return file.read_text(encoding="utf-8")


def is_gone(pid: int) -> bool:
    """Ended and reaped."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    return False


async def are_gone(pids: list[int]) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not all(map(is_gone, pids)):
        assert time.monotonic() < deadline, "a process outlived its call"
        await asyncio.sleep(0.005)


async def cancel_after(file: Path, call: Any) -> tuple[str, float]:
    """Start *call*, cancel it when *file* appears: what the file said, seconds it then took."""
    task = asyncio.create_task(call)
    said = await appears(file)
    started = time.perf_counter()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return said, time.perf_counter() - started


# -- running ---------------------------------------------------------------------------------


async def test_a_tool_runs_in_another_process_and_its_output_does_not_disturb(
    capfd: pytest.CaptureFixture[str],
) -> None:
    bound = double.bind({"x": "4", "point": {"x": 1}})

    result = await double.invoke(bound, ToolContext("id"))

    assert result.text.startswith('{"doubled":8,"point":{"x":1},"elsewhere":')
    assert str(os.getpid()) not in result.text
    assert "this is not the result" in capfd.readouterr().out
    assert double(1)["elsewhere"] == os.getpid()


async def test_updates_come_back_in_order_while_it_runs_and_deps_go_there() -> None:
    updates: list[str] = []
    context = ToolContext(
        "call-1", deps={"name": "deps"}, deliver=lambda partial: updates.append(partial.text)
    )

    result = await report.invoke(report.bind({"steps": 3}), context)

    assert result.text == "call-1 deps"
    assert updates == ["step 0", "step 1", "step 2"]


async def test_updates_may_come_from_a_thread_over_there() -> None:
    updates: list[AgentToolResult] = []
    context = ToolContext("id", deliver=updates.append)

    await report_from_a_thread.invoke(report_from_a_thread.bind({}), context)

    assert [update.text for update in updates] == ['{"from":"thread"}']


async def test_its_standard_input_is_empty() -> None:
    assert await run_in_process(read_input) == ""


async def test_large_values_go_both_ways() -> None:
    text = "x" * 5_000_000

    assert await run_in_process(end, (text,)) == text


async def test_several_run_side_by_side() -> None:
    assert await asyncio.gather(*(run_in_process(end, (f"n{i}",)) for i in range(4))) == [
        "n0",
        "n1",
        "n2",
        "n3",
    ]


def test_it_works_in_an_event_loop_of_another_thread() -> None:
    results: list[Any] = []
    thread = threading.Thread(
        target=lambda: results.append(asyncio.run(run_in_process(end, ("there",))))
    )
    thread.start()
    thread.join(PATIENCE_SECONDS)

    assert results == ["there"]


# -- failing ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("exit code", "exit code 3"),
        ("exit 0", "exit code 0"),
        ("sys.exit", "SystemExit"),
        ("segmentation fault", "SIGSEGV"),
        ("killed", "SIGKILL"),
        ("raise odd", "TwoArguments: the reason"),
        ("unpicklable", "lock"),
    ],
)
async def test_a_worker_that_dies_or_cannot_answer_is_a_clear_error(how: str, message: str) -> None:
    with pytest.raises(ProcessFailed, match=message) as caught:
        await run_in_process(end, (how,), name="my_tool")

    assert "my_tool" in str(caught.value) or how == "raise odd"


async def test_an_exception_comes_back_as_itself_with_the_traceback_over_there() -> None:
    with pytest.raises(ValueError, match="the reason") as caught:
        await run_in_process(end, ("raise",))

    assert "in end" in "\n".join(caught.value.__notes__)


async def test_deps_that_cannot_be_pickled_are_refused_clearly() -> None:
    context = ToolContext("id", deps=threading.Lock())

    with pytest.raises(ProcessFailed, match=r"deps.*'report'"):
        await report.invoke(report.bind({"steps": 1}), context)


# -- stopping --------------------------------------------------------------------------------


async def test_after_its_deadline_the_worker_is_killed_with_all_it_started(tmp_path: Path) -> None:
    file = tmp_path / "pids"

    with pytest.raises(TimeoutError, match=r"family took longer than 1\.5 seconds"):
        await run_in_process(family, (str(file), False), timeout=1.5)

    assert all(is_gone(int(pid)) for pid in (await appears(file)).split())


@pytest.mark.parametrize("heed", [True, False])
async def test_cancelling_kills_the_whole_family_within_the_grace(
    tmp_path: Path, heed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "pids"
    if heed:
        monkeypatch.setattr(processes, "GRACE_SECONDS", 60.0)  # it is not waited for

    pids, took = await cancel_after(file, run_in_process(family, (str(file), heed)))

    assert len(pids.split()) == 4
    assert all(is_gone(int(pid)) for pid in pids.split())
    assert took < 20


async def test_a_worker_that_never_gives_up_the_interpreter_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "pids"

    pids, took = await cancel_after(file, run_in_process(hold_the_interpreter, (str(file),)))

    assert all(is_gone(int(pid)) for pid in pids.split())
    assert took < 5


async def test_cancelling_twice_kills_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(processes, "GRACE_SECONDS", 60.0)  # it is not waited for
    file = tmp_path / "pids"
    task = asyncio.create_task(run_in_process(family, (str(file), False)))
    pids = (await appears(file)).split()

    started = time.perf_counter()
    task.cancel()
    await asyncio.sleep(0.02)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert time.perf_counter() - started < 20
    assert all(is_gone(int(pid)) for pid in pids)


def children() -> set[int]:
    """The processes that this one has started and not collected, from proc_pid_stat(5)."""
    found: set[int] = set()
    for status in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = status.read_text().rpartition(")")[2].split()
        except OSError:  # it has just ended
            continue
        if int(fields[1]) == os.getpid():
            found.add(int(status.parent.name))
    return found


async def test_the_loop_stops_reading_a_pipe_before_it_is_closed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else it would read from whatever has the number of the pipe next, and wait there for ever."""
    loop = asyncio.get_running_loop()
    connect = loop.connect_read_pipe

    async def connect_and_keep(*arguments: Any) -> Any:
        pipe, protocol = await connect(*arguments)
        pipes.append(pipe)
        return pipe, protocol

    monkeypatch.setattr(loop, "connect_read_pipe", connect_and_keep)
    pipes.clear()

    assert await run_in_process(late) == "done"

    assert [pipe.is_closing() for pipe in pipes] == [True]


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs a /proc to look at")
async def test_a_call_cancelled_at_any_moment_of_its_start_leaves_no_process() -> None:
    before = children()
    for moments in range(12):
        task = asyncio.create_task(run_in_process(end, ("x",)))
        for _ in range(moments):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    assert children() - before == set()  # those of other tests are none of ours


async def test_a_function_that_takes_no_signal_is_unwound_by_the_soft_signal(
    tmp_path: Path,
) -> None:
    file = tmp_path / "log"

    await cancel_after(file, run_in_process(clean_up, (str(file),)))

    assert file.read_text(encoding="utf-8") == "cleaned up"


async def test_a_function_that_takes_the_signal_sees_it_fire(tmp_path: Path) -> None:
    file = tmp_path / "log"
    wait = as_tool(tool(isolation="process")(wait_for_the_signal))

    await cancel_after(file, wait.invoke(wait.bind({"log": str(file)}), ToolContext("id")))

    assert file.read_text(encoding="utf-8") == "heard it"


async def test_an_async_function_is_cancelled(tmp_path: Path) -> None:
    file = tmp_path / "log"
    sleep = as_tool(tool(isolation="process")(sleep_async))

    await cancel_after(file, sleep.invoke(sleep.bind({"log": str(file)}), ToolContext("id")))

    assert file.read_text(encoding="utf-8") == "cancelled, True"


async def test_what_a_function_started_and_left_behind_ends_with_it(tmp_path: Path) -> None:
    file = tmp_path / "pids"

    assert await run_in_process(leave_a_child, (str(file),)) == "done"

    assert is_gone(int(file.read_text(encoding="utf-8")))


async def test_nothing_outlives_a_parent_that_is_killed(tmp_path: Path) -> None:
    file = tmp_path / "pids"
    script = tmp_path / "program.py"
    script.write_text(
        """
import asyncio, os, signal, subprocess, sys, time
from pathlib import Path
from loopwright.loop.processes import run_in_process

def family(file):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    child = subprocess.Popen(["sleep", "600"])
    Path(file + ".new").write_text(f"{os.getpid()} {os.getppid()} {child.pid}")
    Path(file + ".new").rename(file)
    time.sleep(600)

asyncio.run(run_in_process(family, (sys.argv[1],)))
""",
        encoding="utf-8",
    )
    program = subprocess.Popen(
        [sys.executable, str(script), str(file)], env={"PYTHONPATH": ":".join(sys.path)}
    )
    pids = [int(pid) for pid in (await appears(file)).split()]

    program.kill()
    program.wait()

    await are_gone(pids)


# -- which functions -------------------------------------------------------------------------


def test_what_no_other_process_can_import_is_refused_when_decorated() -> None:
    def local(x: int) -> int:
        return x

    class Holder:
        def method(self) -> int:
            return 1

    refused: list[tuple[Any, str]] = [
        (local, "inside another function"),
        (Holder().method, "a method"),
        (lambda: 1, "a lambda"),
    ]
    for function, word in refused:
        with pytest.raises(InvalidTool, match=word) as caught:
            tool(isolation="process", name="my_tool")(function)
        assert "'my_tool'" in str(caught.value)


def renamed(x: int) -> int:
    return x


original = renamed
globals()["renamed"] = end


def test_a_function_whose_name_now_means_another_is_refused_when_registered() -> None:
    hidden = tool(isolation="process")(original)

    with pytest.raises(InvalidTool, match=r"'renamed'.*not this function"):
        hidden.check()


def test_the_class_form_cannot_be_isolated() -> None:
    class Own(AgentTool[None, None]):
        name = "own"
        isolation = "process"

        async def execute(self, *rest: Any) -> AgentToolResult:  # pyright: ignore[reportIncompatibleMethodOverride]
            raise NotImplementedError

    with pytest.raises(InvalidTool, match="only functions"):
        Own().check()


@pytest.mark.parametrize("guarded", [True, False])
def test_of_a_script_only_what_the_function_needs_is_run(tmp_path: Path, guarded: bool) -> None:
    script = tmp_path / "program.py"
    start = (
        'if __name__ == "__main__":\n    asyncio.run(main())' if guarded else "asyncio.run(main())"
    )
    script.write_text(
        f"""
from __future__ import annotations
import asyncio, dataclasses, enum
from loopwright.loop.tool import tool, ToolContext
print("the script runs")
LIMITS = {{}}
LIMITS["times"] = 10
class Colour(enum.Enum):
    RED = "red"
@dataclasses.dataclass
class Job:
    n: int
    colour: Colour
def helper(job):
    return job.n * LIMITS["times"]
@tool(isolation="process")
def work(job: Job) -> Job:
    return Job(helper(job), job.colour)
async def main():
    result = await work.invoke(work.bind({{"job": {{"n": 3, "colour": "red"}}}}), ToolContext("x"))
    print(result.text)
{start}
""",
        encoding="utf-8",
    )

    finished = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )

    assert finished.stderr == ""
    assert finished.stdout == 'the script runs\n{"n":30,"colour":"red"}\n'


def test_a_function_typed_into_an_interpreter_is_refused() -> None:
    source = """
from loopwright.loop.tool import tool
@tool(isolation="process")
def f(x: int) -> int:
    return x
f.check()
"""
    finished = subprocess.run(
        [sys.executable, "-c", source],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
    )

    assert "InvalidTool" in finished.stderr
    assert "interactive session" in finished.stderr


SELF_NAMED = """
from loopwright import Agent, tool
from loopwright.testing import Call, Reply, ScriptedModel

@tool(isolation="process")
def add(a: int, b: int) -> dict[str, int]:
    result = a + b
    return {"result": result}

model = ScriptedModel([Reply(calls=[Call("add", {"a": 17, "b": 25})]), Reply("done")])
result = Agent(model.model, stream_fn=model.stream_fn, tools=[add]).prompt_sync("17 + 25?")
print(result.messages[2].text)
"""


def test_a_local_name_does_not_drag_the_run_itself_into_the_worker(tmp_path: Path) -> None:
    """A local `result` and a `result` at the top level have nothing in common; taking them for one
    made every worker start the agent again, without end."""
    script = tmp_path / "program.py"
    script.write_text(SELF_NAMED)

    finished = subprocess.run(
        [sys.executable, "-W", "error", str(script)],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (finished.stdout, finished.stderr) == ('{"result":42}\n', "")


def test_a_worker_starts_no_further_workers(tmp_path: Path) -> None:
    """Whatever else drags the run into the worker, it ends there, with what to do."""
    script = tmp_path / "program.py"
    script.write_text(
        SELF_NAMED.replace("    result = a + b\n", "    global result\n    result = a + b\n")
    )

    finished = subprocess.run(
        [sys.executable, str(script)],
        env={"PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert finished.returncode == 0, finished.stderr
