"""A command that prints very much, run by an agent through the tool `bash`.

In a process of its own, whose memory is looked at a thousand times a second from the same event
loop; how late these looks come is how long the loop had no time for anybody else.
"""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from ..measure import WrongCount
from ..processes import ask_fresh_process
from ..report import Row
from ..sizes import Sizes
from ..subject import Peer

__all__ = ["measure"]

_SCRIPT = """
import asyncio, json, os, resource, sys, time
from loopwright import Agent
from loopwright.events import ToolExecutionEnd
from loopwright.testing import Call, Reply, ScriptedModel
from loopwright.tools import LocalWorkspace, coding_tools

folder, command = sys.argv[1:]

def resident():
    try:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024

async def run(command):
    script = [Reply(calls=[Call("bash", {"command": command})]), Reply("Done.")]
    model = ScriptedModel(script)
    tools = coding_tools(LocalWorkspace(folder))
    agent = Agent(model.model, stream_fn=model.stream_fn, tools=tools)
    seen = {}
    def note(event, signal):
        if isinstance(event, ToolExecutionEnd):
            seen.update(event.result.details)
    agent.subscribe(note)
    began = time.perf_counter()
    await agent.prompt("Run it.")
    return time.perf_counter() - began, seen

async def main():
    await run("seq 20000")  # everything is imported, the file for long output is known
    base = most = resident()
    latest = 0.0
    async def look():
        nonlocal most, latest
        while True:
            due = time.perf_counter() + 0.001
            await asyncio.sleep(0.001)
            latest = max(latest, time.perf_counter() - due)
            most = max(most, resident())
    looking = asyncio.create_task(look())
    seconds, details = await run(command)
    looking.cancel()
    os.unlink(details["fullOutputPath"])
    print(json.dumps([seconds, most - base, latest, details["totalBytes"]]))

asyncio.run(main())
"""

_LINE = b"x" * 59 + " – \x1b[32mgreen\x1b[0m\n".encode()
_PLAIN = b"x" * 79 + b"\n"


def measure(peers: Sequence[Peer], sizes: Sizes) -> list[Row]:
    """The rows of this work."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        plain = _numbers(folder, _PLAIN, len(_PLAIN), sizes)
        styled = _numbers(folder, _LINE, len(_LINE) - len("\x1b[32m\x1b[0m"), sizes)
    megabytes = sizes.output_bytes / 1e6
    what = f"{megabytes:,.0f} MB of output" if megabytes >= 1 else "a little output"
    return [
        Row(
            f"{what} through `bash`, peak memory",
            "MB more",
            {"loopwright": max(plain.memory, styled.memory) / 1e6},
            at_most=10,
            digits=1,
        ),
        Row(
            f"{what}, longest time without a turn of the event loop",
            "ms",
            {"loopwright": max(plain.latest, styled.latest) * 1000},
            at_most=50,
            digits=1,
        ),
        plain.row(f"{what}, plain"),
        styled.row(f"{what} with colours and beyond ASCII"),
    ]


class _Numbers:
    def __init__(self, seconds: float, memory: float, latest: float, base: float, null: float):
        self.seconds = seconds
        self.memory = memory
        self.latest = latest
        self.base = base
        self.null = null

    def row(self, work: str) -> Row:
        return Row(
            work,
            "of cat into a file",
            {"loopwright": self.seconds / self.base},
            note=f"{self.seconds:.2f} s; `cat | cat > file` {self.base * 1000:.0f} ms, "
            f"`cat > /dev/null` {self.null * 1000:.0f} ms",
            digits=1,
        )


def _numbers(folder: Path, line: bytes, kept: int, sizes: Sizes) -> _Numbers:
    """Of the best of some rounds: what others did to this machine only ever adds."""
    file = folder / "output.txt"
    count = sizes.output_bytes // len(line)
    file.write_bytes(line * count)
    rounds = max(1, sizes.rounds // 3)
    found = [ask_fresh_process(_SCRIPT, str(folder), f"cat {file}") for _ in range(rounds)]
    for *_, shown in found:
        if shown != count * kept:
            raise WrongCount(f"the tool saw {shown} bytes instead of {count * kept}")
    seconds, memory, latest, _ = (min(values) for values in zip(*found, strict=True))
    copy = folder / "copy.txt"
    base = _shell(f"cat {file} | cat > {copy}", rounds)
    return _Numbers(seconds, memory, latest, base, _shell(f"cat {file} > {os.devnull}", rounds))


def _shell(command: str, rounds: int) -> float:
    taken: list[float] = []
    for _ in range(rounds):
        began = time.perf_counter()
        subprocess.run(command, shell=True, check=True)
        taken.append(time.perf_counter() - began)
    return min(taken)
