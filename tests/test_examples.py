"""Every file of examples/ runs by itself, offline, and ends well.

An example takes no arguments and asks nothing. The ones that use the real small model carry
`--model local`, `"local/` or `local:` in their text and are marked `local_model`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"
USES_LOCAL_MODEL = re.compile(r"[\"' ]local[/:\"']")


def example_files() -> list[object]:
    return [
        pytest.param(
            file,
            id=file.relative_to(EXAMPLES).as_posix(),
            marks=[pytest.mark.local_model, pytest.mark.slow]
            if USES_LOCAL_MODEL.search(file.read_text("utf-8"))
            else [],
        )
        for file in sorted(EXAMPLES.rglob("*.py"))
    ]


def test_there_are_examples() -> None:
    assert example_files()


@pytest.mark.parametrize("example", example_files())
def test_an_example_runs_and_shows_something(example: Path, tmp_path: Path) -> None:
    without_keys = {
        name: value
        for name, value in os.environ.items()
        if not name.endswith(("_API_KEY", "_AUTH_TOKEN"))
    }

    finished = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        cwd=tmp_path,
        env={**without_keys, "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=600,  # seconds; the small model may have to be fetched first
    )

    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.strip(), "an example shows what happens"
    if not USES_LOCAL_MODEL.search(example.read_text("utf-8")):  # fetching tells of itself there
        assert finished.stderr == ""


@pytest.mark.parametrize("example", example_files())
def test_an_example_says_what_it_shows(example: Path) -> None:
    """The first line is a docstring; a reader picks an example by it."""
    assert example.read_text("utf-8").startswith('"""')
