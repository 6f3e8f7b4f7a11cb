"""`python -m loopwright` in a folder that is anybody's."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .conftest import Program


def start(program: Program, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *options, "-m", "loopwright", "--version"],
        cwd=program.folder, env=program.env, capture_output=True, text=True, timeout=60,
    )  # fmt: skip


def plant(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("import os; os.close(os.open('ran', os.O_CREAT))")


@pytest.mark.parametrize(
    "name",
    [
        "msgspec.py", "asyncio.py", "typing.py", "__future__.py", "enum.py", "httpx2/__init__.py",
        "cyclopts/__init__.py",
    ],
)  # fmt: skip
def test_case_161_a_folder_whose_files_hide_modules_is_refused_before_they_run(
    program: Program, name: str
) -> None:
    plant(program.folder / name)

    refused = start(program)

    assert not (program.folder / "ran").exists()
    assert refused.returncode == 2
    assert name.split("/")[0].removesuffix(".py") in refused.stderr
    assert "Traceback" not in refused.stderr

    allowed = start(program, "-P")
    assert (allowed.returncode, allowed.stderr) == (0, "")
    assert not (program.folder / "ran").exists()


@pytest.mark.parametrize("name", ["tool.py", "src/asyncio.py", "asyncio/data.txt", "uvloop.py"])
def test_case_161_an_ordinary_folder_is_no_obstacle_and_gives_no_modules(
    program: Program, name: str
) -> None:
    plant(program.folder / name)

    finished = start(program)

    assert (finished.returncode, finished.stderr) == (0, "")
    assert not (program.folder / "ran").exists()
