"""Who may import whom, as pyproject.toml writes it down, holds for the tree as it is.

The contracts are import-linter's; running them here means that the README's one test command
notices a broken layer, too.
"""

from __future__ import annotations

import ast
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src"


def pure_modules() -> list[str]:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    contracts = settings["tool"]["importlinter"]["contracts"]
    (pure,) = [contract for contract in contracts if contract["name"].startswith("Pure modules")]
    return pure["source_modules"]


def test_the_import_contracts_are_kept(tmp_path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, "-c", "from importlinter.cli import lint_imports_command as run; run()",
         "--no-logo", "--cache-dir", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )  # fmt: skip

    assert finished.returncode == 0, finished.stdout + finished.stderr


@pytest.mark.parametrize("module_name", pure_modules())
def test_a_pure_module_awaits_nothing(module_name: str) -> None:
    """import-linter sees imports only; a rule that needs no await can be tested without a loop."""
    file = SOURCE.joinpath(*module_name.split(".")).with_suffix(".py")

    tree = ast.parse(file.read_text("utf-8"))

    awaiting = [
        f"{file.name}:{node.lineno}"
        for node in ast.walk(tree)
        if isinstance(node, ast.AsyncFunctionDef | ast.Await | ast.AsyncFor | ast.AsyncWith)
    ]
    assert awaiting == []


# Who starts a task outside a TaskGroup, and who therefore keeps it, awaits it and cancels it.
KEEPERS_OF_TASKS = {
    "loop/agent_stream.py": "`agent.stream()` owns the run it shows",
    "loop/hook_calls.py": "a hook that only watches is kept by its set until it is through",
    "loop/event_stream.py": "`agent_loop()` owns the run it shows",
    "loop/dispatch.py": "an aborted tool that does not let go may not hold up the run, as a group would",
    "session/writer.py": "commits go on when whoever waits for them is cancelled",
    "tools/process_group.py": "the end of a process is awaited by whoever started it",
    "harness/driver.py": "a run is watched for what other processes say, and the watch ends with it",
    "harness/harness.py": "closing goes on when whoever asked for it is cancelled",
    "harness/compactor.py": "a hook is cancelled by an abort, which its caller is not",
    "cli/live/beginning.py": "what can be called off is a task; whoever asked for it awaits it",
    "cli/interactive/run.py": "runs go on while keys are read; the screen keeps and awaits them",
    "cli/rpc/dialogue.py": "commands are answered while a run goes on; the dialogue keeps its tasks",
    "loop/kernel.py": "the closing events are shielded from the cancellation that caused them",
}


def test_a_task_is_started_only_where_somebody_keeps_it() -> None:
    """A lost task is a lost error."""
    starting: set[str] = set()
    for file in sorted((SOURCE / "loopwright").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            match node:
                case ast.Call(func=ast.Attribute(value=ast.Name(id="group"), attr="create_task")):
                    pass
                case ast.Call(func=ast.Attribute(attr="create_task" | "ensure_future")):
                    starting.add(file.relative_to(SOURCE / "loopwright").as_posix())
                case _:
                    pass

    assert starting - KEEPERS_OF_TASKS.keys() == set()
