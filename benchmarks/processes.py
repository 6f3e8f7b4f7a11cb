"""Fresh interpreters that see the same modules as this one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

__all__ = ["ask_fresh_process"]

_ROOT = str(Path(__file__).parents[1])


def ask_fresh_process(script: str, *arguments: str) -> Any:
    """What *script* printed as JSON in an interpreter of its own. Raises if it fails."""
    path = os.pathsep.join([_ROOT, *[entry for entry in sys.path if entry]])
    finished = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    if finished.returncode != 0:
        raise RuntimeError(f"a process of the benchmark failed: {finished.stderr[-2000:]}")
    return json.loads(finished.stdout)
