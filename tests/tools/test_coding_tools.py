"""The set of coding tools as an agent is given it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from loopwright import Agent
from loopwright.testing import Call, Reply, ScriptedModel
from loopwright.tools import LocalWorkspace, MemoryWorkspace, coding_tools


def test_the_tools_have_the_names_models_know(tmp_path: Path) -> None:
    tools = coding_tools(LocalWorkspace(tmp_path))

    assert [tool.name for tool in tools] == ["read", "bash", "edit", "write", "grep", "find", "ls"]
    assert {tool.name for tool in tools if tool.replay == "safe"} == {"read", "grep", "find", "ls"}
    assert {tool.name: list(tool.parameters["properties"]) for tool in tools} == {
        "read": ["path", "offset", "limit"],
        "bash": ["command", "timeout"],
        "edit": ["path", "edits"],
        "write": ["path", "content"],
        "grep": ["pattern", "path", "glob", "ignoreCase", "literal", "context", "limit"],
        "find": ["pattern", "path", "limit"],
        "ls": ["path", "limit"],
    }
    assert all(tool.description for tool in tools)


def test_without_a_disk_there_is_no_bash() -> None:
    assert "bash" not in [tool.name for tool in coding_tools(MemoryWorkspace())]


async def test_what_bash_keeps_may_be_read(tmp_path: Path) -> None:
    workspace = LocalWorkspace(tmp_path)
    tools = {tool.name: tool for tool in coding_tools(workspace)}
    coding_tools(workspace)

    assert len(workspace.readable) == 1
    assert await workspace.resolve(f"{workspace.readable[0]}/output-x.txt")
    assert tools["bash"].name == "bash"


async def test_an_agent_works_on_files_with_them() -> None:
    workspace = MemoryWorkspace({"todo.txt": "buy milk\n"})
    model = ScriptedModel(
        [
            Reply(calls=[Call("ls", {}), Call("read", {"path": "todo.txt"})]),
            Reply(calls=[Call("edit", {"path": "todo.txt", "oldText": "milk", "newText": "oats"})]),
            Reply(calls=[Call("write", {"path": "notes/done.md", "content": "Bought.\n"})]),
            Reply("Done."),
        ]
    )
    agent = Agent(model.model, stream_fn=model.stream_fn, tools=coding_tools(workspace))

    result = await agent.prompt("Go.")

    assert result.text == "Done."
    assert workspace.files == {"todo.txt": b"buy oats\n", "notes/done.md": b"Bought.\n"}


def test_importing_the_tools_imports_nothing_heavy() -> None:
    program = (
        "import sys, loopwright.tools; "
        "print([name for name in ('pydantic', 'PIL', 'pathspec', 'jsonschema', 'rich') "
        "if name in sys.modules])"
    )

    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)

    assert finished.stdout.strip() == "[]", finished.stderr


def test_what_changes_files_or_may_look_at_a_change_keeps_the_order_of_the_reply(
    tmp_path: Path,
) -> None:
    modes = {tool.name: tool.execution_mode for tool in coding_tools(LocalWorkspace(tmp_path))}

    assert {name for name, mode in modes.items() if mode == "sequential"} == {
        "bash",
        "edit",
        "write",
    }
