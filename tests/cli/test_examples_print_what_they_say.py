"""Each example tells at its top what it prints. It does."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def promises() -> list[object]:
    found: list[object] = []
    for file in sorted(EXAMPLES.glob("*.py")):
        docstring = ast.get_docstring(ast.parse(file.read_text("utf-8"))) or ""
        _, marked, promise = docstring.partition("Prints:\n")
        if marked:
            found.append(pytest.param(file, textwrap.dedent(promise), id=file.name))
    return found


@pytest.mark.parametrize(("example", "promise"), promises())
def test_an_example_prints_what_it_says(example: Path, promise: str, tmp_path: Path) -> None:
    finished = subprocess.run(
        [sys.executable, str(example)],
        cwd=tmp_path,
        env={**os.environ, "NO_COLOR": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert finished.stdout.strip() == promise.strip(), finished.stderr


def test_the_conversation_reads_lines_from_a_pipe() -> None:
    finished = subprocess.run(
        [sys.executable, str(EXAMPLES / "repl.py")],
        input="hello\nand bye\n",
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert finished.stdout.splitlines()[1:] == [
        "That was line 1; the first one was 'hello'.",
        "That was line 2; the first one was 'hello'.",
        "4 messages were said.",
    ]
