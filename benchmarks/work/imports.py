"""How long `import` takes, each time in a fresh process with compiled files at hand."""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from collections.abc import Sequence

from ..measure import clock_name
from ..processes import ask_fresh_process
from ..report import Row
from ..sizes import Sizes
from ..subject import Peer

__all__ = ["NOT_ON_IMPORT", "loaded_by_import", "measure"]

NOT_ON_IMPORT = ("anthropic", "cyclopts", "httpx2", "jsonschema", "openai", "pydantic", "rich")
"""What `import loopwright` must not bring along."""

_TIME_IMPORT = """
import time, asyncio, msgspec, inspect
began = time.{clock}()
{statement}
print(time.{clock}() - began)
"""

_LOADED = """
import json, sys
import loopwright
print(json.dumps(sorted(sys.modules)))
"""


def measure(peers: Sequence[Peer], sizes: Sizes) -> list[Row]:
    """The rows of this work."""
    times: dict[str, list[float]] = {peer.name: [] for peer in peers}
    for name in times:  # the first import of a machine reads the disk and may compile
        _time_import(peers, name)
    version: list[float] = []
    nothing: list[float] = []
    for _ in range(sizes.processes):
        for name, taken in times.items():
            taken.append(_time_import(peers, name))
        nothing.append(_time_process("-c", "pass"))
        version.append(_time_process("-m", "loopwright", "--version"))
    extra = [name for name in NOT_ON_IMPORT if name in loaded_by_import()]
    return [
        Row(
            "import, above `import asyncio, msgspec, inspect`",
            "ms",
            {name: statistics.median(taken) * 1000 for name, taken in times.items()},
            at_most=40,
            note=f"least {min(times['loopwright']) * 1000:.1f} ms",
            digits=1,
        ),
        Row(
            "modules loaded that must wait",
            "count",
            {"loopwright": float(len(extra))},
            at_most=0,
            note=", ".join(extra),
            digits=0,
        ),
        Row(
            "`loopwright --version`, above an empty process",
            "ms",
            {"loopwright": (statistics.median(version) - statistics.median(nothing)) * 1000},
            note=f"empty process {statistics.median(nothing) * 1000:.1f} ms",
            digits=1,
        ),
    ]


def loaded_by_import() -> set[str]:
    """The modules that `import loopwright` brings into a fresh process."""
    return set(ask_fresh_process(_LOADED))


def _time_import(peers: Sequence[Peer], name: str) -> float:
    statement = next(peer.import_statement for peer in peers if peer.name == name)
    return float(ask_fresh_process(_TIME_IMPORT.format(statement=statement, clock=clock_name())))


def _time_process(*arguments: str) -> float:
    """NaN if it does not run, as where the command line is not there."""
    began = time.perf_counter()
    finished = subprocess.run([sys.executable, *arguments], capture_output=True, check=False)
    return time.perf_counter() - began if finished.returncode == 0 else float("nan")
