"""An extension: a list of what is left to do, in TODO.md. A tool, a command and a hook.

Installed, it is found by itself (see README.md beside this file). Run as a program it shows what it
does, with a scripted model. Prints:
    the model was told: added: 1. [ ] write the tests
    the model was told: TODO.md was not changed: use the tool `todo`
    the user types /todo done 1
    ticked off: 1. [x] write the tests
"""

from pathlib import Path
from typing import Literal

from loopwright import BeforeToolCall, BeforeToolCallResult, tool
from loopwright.errors import ToolError
from loopwright.extensions import Command, CommandContext, Extension, Hooks

FILE = "TODO.md"
OPEN, DONE = "- [ ] ", "- [x] "


def read(file: Path) -> list[str]:
    """The lines of the list; what else people wrote into the file is kept, but is none."""
    if not file.exists():
        return []
    return [line for line in file.read_text("utf-8").splitlines() if line.startswith((OPEN, DONE))]


def shown(lines: list[str], number: int) -> str:
    return f"{number}. {lines[number - 1].removeprefix('- ')}"


def add(file: Path, text: str) -> str:
    before = file.read_text("utf-8") if file.exists() else ""
    break_ = "" if before.endswith("\n") or not before else "\n"
    file.write_text(f"{before}{break_}{OPEN}{' '.join(text.split())}\n", "utf-8")
    lines = read(file)
    return f"added: {shown(lines, len(lines))}"


def tick_off(file: Path, number: int) -> str:
    lines = read(file)
    if not 1 <= number <= len(lines):
        # Raised in a tool this goes to the model, raised in a command it is shown to the user.
        raise ToolError(f"there is no line {number}: the list has {len(lines)}")
    line = lines[number - 1]
    ticked = DONE + line[len(OPEN) :]
    everything = file.read_text("utf-8").splitlines()
    places = [place for place, each in enumerate(everything) if each.startswith((OPEN, DONE))]
    everything[places[number - 1]] = ticked
    file.write_text("\n".join(everything) + "\n", "utf-8")
    return f"ticked off: {shown(read(file), number)}"


def listed(file: Path) -> str:
    lines = read(file)
    return "\n".join(shown(lines, number) for number in range(1, len(lines) + 1)) or "nothing to do"


# -- for the model ---------------------------------------------------------------------------


@tool(execution_mode="sequential")  # two calls side by side would read the same file
def todo(action: Literal["list", "add", "done"], text: str = "", number: int = 0) -> str:
    """The list of what is left to do. Keep the steps of larger work here.

    Args:
        action: What to do with it.
        text: With `add`: one step, in a few words.
        number: With `done`: the number of the line that is finished.
    """
    file = Path(FILE)
    if action == "add":
        if not text.strip():
            raise ToolError("say what is to be done: text is empty")
        return add(file, text)
    return tick_off(file, number) if action == "done" else listed(file)


def keep_other_tools_out(call: BeforeToolCall) -> BeforeToolCallResult | None:
    """A model that writes the whole file anew loses lines. It is told so before it does."""
    path = call.args.get("path")
    changes = call.tool_call.name in ("write", "edit")
    if changes and isinstance(path, str) and Path(path).name == FILE:
        reason = f"{FILE} was not changed: use the tool `todo`"
        return BeforeToolCallResult(block=True, reason=reason)
    return None


# -- for the user ----------------------------------------------------------------------------


def command(context: CommandContext, argument: str) -> str:
    """`/todo`, `/todo some text`, `/todo done 2`. What is returned is shown."""
    file = context.folder / FILE
    match argument.split():
        case []:
            return listed(file)
        case ["done", number] if number.isdecimal():
            return tick_off(file, int(number))
        case _:
            return add(file, argument)


def complete(argument: str) -> list[str]:
    return ["done"] if "done".startswith(argument) else []


extension = Extension(
    "todo",
    version="0.1.0",
    description="a list of what is left to do, in TODO.md",
    tools=[todo],
    commands=[
        Command("todo", "show the list, add to it, or tick off: /todo done 2", command, complete)
    ],
    hooks=Hooks(before_tool_call=keep_other_tools_out),
)


# -- what it does, shown ---------------------------------------------------------------------


def show_yourself() -> None:
    """An agent with this extension, without the product around it."""
    import contextlib
    import tempfile
    from types import SimpleNamespace
    from typing import cast

    from loopwright import Agent
    from loopwright.events import AgentEvent, ToolExecutionEnd
    from loopwright.extensions import combine
    from loopwright.testing import Call, Reply, ScriptedModel

    def write(path: str, content: str) -> str:
        """Stands for the tool of the product."""
        return f"wrote {len(content)} characters to {path}"

    def tell(event: AgentEvent) -> None:
        if isinstance(event, ToolExecutionEnd):
            print("the model was told:", event.result.text)

    model = ScriptedModel(
        [
            Reply(calls=[Call("todo", {"action": "add", "text": "write the tests"})]),
            Reply(calls=[Call("write", {"path": "TODO.md", "content": "# All done"})]),
            Reply("The tests are still to be written."),
        ]
    )
    agent = Agent(
        model.model,
        stream_fn=model.stream_fn,
        tools=[write, *extension.tools],
        before_tool_call=combine([extension]).before_tool_call,
    )
    agent.subscribe(tell)
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        agent.prompt_sync("What is left to do?")
        print("the user types /todo done 1")
        print(command(cast("CommandContext", SimpleNamespace(folder=Path(folder))), "done 1"))


if __name__ == "__main__":
    show_yourself()
