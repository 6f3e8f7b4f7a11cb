"""The whole product, offline: the scripted coder of examples/ repairs a program on the screen."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.tmux_screen import Tmux

EXAMPLE = Path(__file__).parents[3] / "examples" / "scripted_coder.py"


@pytest.mark.parametrize(("columns", "rows"), [(80, 24), (200, 60)])
def test_the_scripted_coder_finds_and_repairs_the_fault(
    tmux: Callable[..., Tmux], columns: int, rows: int
) -> None:
    screen = tmux("--agent", f"{EXAMPLE}:agent", "Fix the failing test", columns=columns, rows=rows)

    for tool, subject in (
        ("write", "practice/basket.py"),
        ("write", "practice/test_basket.py"),
        ("bash", "python3 -B practice/test_basket.py"),
        ("edit", "practice/basket.py"),
        ("bash", "python3 -B practice/test_basket.py"),
    ):
        screen.wait_for(re.compile(rf"{tool} needs your word\s+{re.escape(subject)}\s"))
        screen.keys("y")

    screen.wait_for(re.compile(r"Repaired:.*2\s+of\s+2\s+are\s+right", re.DOTALL))
    assert "full * (1 - discount_percent / 100)" in screen.history()
    repaired = (screen.folder / "practice" / "basket.py").read_text()
    assert "full * (1 - discount_percent / 100)" in repaired
