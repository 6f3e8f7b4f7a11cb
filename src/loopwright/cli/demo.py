"""`loopwright demo`: an agent repairs a small program. The model is scripted, all else is real.

The files are real files in a temporary folder, the tools read, change and run them, and the agent
is the one every program gets. The model's words were written beforehand, except for the last ones:
those quote what the tool really answered. So nothing needs a key, a network or luck.

Not here: how the events are shown (demo_view.py).
"""

from __future__ import annotations

import asyncio
import sys
import tempfile
from pathlib import Path

from .. import Agent, ToolContext, tool
from ..errors import ToolError
from ..messages import ToolResultMessage
from ..models import Context
from ..testing import Call, Reply, ScriptedModel
from .demo_view import DemoView
from .exit_codes import ExitCode
from .options import Mode
from .run_command import json_view
from .streams import Output
from .watch import watched_prompt

__all__ = ["run_demo"]

TASK = "receipt.py crashes. Find out why and repair it."

FILES = {
    "prices.csv": "apples,3.20\nbread,4.50\ncoffee,7.30\n",
    "receipt.py": (
        'with open("prices.csv") as file:\n'
        '    prices = [line.split(",")[1] for line in file]\n'
        'print("total:", sum(int(price) for price in prices))\n'
    ),
}

TYPING_SECONDS = 0.02
"""Between two pieces of text, on a terminal: fast enough to read along."""


@tool
def read_file(path: str, *, ctx: ToolContext) -> str:
    """Read a text file."""
    return _file(ctx, path).read_text()


@tool(execution_mode="sequential")  # whoever runs the file next shall see the change
def replace_text(path: str, old: str, new: str, *, ctx: ToolContext) -> str:
    """Replace one piece of text in a file."""
    file = _file(ctx, path)
    text = file.read_text()
    if text.count(old) != 1:
        raise ToolError(f"{old!r} stands in {path} {text.count(old)} times, not once")
    file.write_text(text.replace(old, new))
    return f"replaced in line {text[: text.index(old)].count(chr(10)) + 1} of {path}"


@tool(timeout=30)
async def run_python(path: str, *, ctx: ToolContext) -> str:
    """Run a Python file and give back what it prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        _file(ctx, path).name,
        cwd=ctx.deps,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        output, errors = await process.communicate()
    finally:
        if process.returncode is None:  # aborted, or out of time
            process.kill()
            await process.wait()
    if process.returncode:
        raise ToolError(errors.decode().strip().splitlines()[-1])
    return output.decode().strip()


def _file(ctx: ToolContext, path: str) -> Path:
    folder: Path = ctx.deps
    if not (folder / path).is_file():
        names = ", ".join(sorted(file.name for file in folder.iterdir()))
        raise ToolError(f"there is no file {path!r}; there are: {names}")
    return folder / path


def _script(delay: float) -> ScriptedModel:
    def say(text: str, *calls: Call) -> Reply:
        return Reply(text, calls=calls, chunk_size=5, delay=delay)

    def conclude(context: Context) -> Reply:
        answer = context.messages[-1]
        assert isinstance(answer, ToolResultMessage)
        return say(f"Repaired. receipt.py now says {answer.text!r}.")

    return ScriptedModel(
        [
            say(
                "Let me run it, and read it meanwhile.",
                Call("run_python", {"path": "receipt.py"}),
                Call("read_file", {"path": "receipt.py"}),
            ),
            say(
                "Prices have cents, so int() cannot read them.",
                Call(
                    "replace_text",
                    {"path": "receipt.py", "old": "int(price)", "new": "float(price)"},
                ),
                Call("run_python", {"path": "receipt.py"}),
            ),
            conclude,
        ]
    )


async def run_demo(mode: Mode) -> ExitCode:
    """Show a whole run on standard output. Raises OSError if that cannot be written."""
    output = Output(sys.stdout)
    model = _script(TYPING_SECONDS if output.is_terminal and mode == "text" else 0)
    with tempfile.TemporaryDirectory(prefix="loopwright-demo-") as name:
        folder = Path(name)
        for path, text in FILES.items():
            (folder / path).write_text(text)
        agent = Agent(
            model.model,
            stream_fn=model.stream_fn,
            tools=[read_file, replace_text, run_python],
            deps=folder,
        )
        if mode == "json":
            _, code = await watched_prompt(agent, TASK, json_view(output))
            return code
        view = DemoView(output.width)
        output.write_pieces(view.opening())
        result, code = await watched_prompt(
            agent, TASK, lambda event: output.write_pieces(view.of(event))
        )
        output.write_pieces(view.closing(result))
        return code
