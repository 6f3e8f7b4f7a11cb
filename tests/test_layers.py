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


def test_only_the_two_handles_start_a_task_outside_a_group() -> None:
    """A lost task is a lost error. `loop/` names the places that own, await and cancel their task."""
    owners = {"event_stream.py", "agent.py"}
    strays: list[str] = []
    for file in sorted((SOURCE / "loopwright" / "loop").rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            match node:
                case ast.Call(
                    func=ast.Attribute(
                        value=ast.Name(id="asyncio"), attr="create_task" | "ensure_future"
                    )
                ) if file.name not in owners:
                    strays.append(f"{file.name}:{node.lineno}")
                case _:
                    pass

    assert strays == []
