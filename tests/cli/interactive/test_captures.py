"""The scenes whose captures stand in docs/ can be played, and their pictures need nothing else."""

from __future__ import annotations

import shutil
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "docs" / "make_captures.py"

SHOWN = {
    "answer": "Shall I put it right?",
    "answer-light": "Shall I put it right?",
    "approval": "bash needs your word",
    "diff": "4 +     return round(full * (1 - discount_percent / 100), 2)",
    "diff-light": "The test passes.",
    "steering": "queued: Leave out the appendix.",
    "tree": "○ you: And in German?",
    "model": "toy/two",
    "commands": "choose the model",
}


@pytest.mark.parametrize("scene", SHOWN)
def test_a_scene_is_played_and_captured(scene: str, tmp_path: Path) -> None:
    if shutil.which("tmux") is None:
        pytest.skip("tmux is not installed")

    done = subprocess.run(
        [sys.executable, str(SCRIPT), "--into", str(tmp_path), scene],
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )

    assert done.returncode == 0, done.stderr
    plain = (tmp_path / f"{scene}.txt").read_text("utf-8")
    svg = (tmp_path / f"{scene}.svg").read_text("utf-8")
    assert SHOWN[scene] in plain
    assert str(tmp_path.parent) not in plain + svg
    assert ElementTree.fromstring(svg).tag.endswith("svg")
    assert "@font-face" not in svg
    assert "url(http" not in svg


def test_there_is_a_picture_of_every_scene_in_the_docs() -> None:
    files = {file.name for file in (ROOT / "docs" / "captures").iterdir()}

    assert files == {f"{scene}.{kind}" for scene in SHOWN for kind in ("svg", "txt")}
