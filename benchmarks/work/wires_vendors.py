"""The table of vendors, and the list of their models."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Sequence

from loopwright.models import Models
from loopwright.models.vendors import VendorTable

from ..measure import interleaved
from ..report import Row
from ..sizes import Sizes
from ..subject import Peer

__all__ = ["measure"]


def measure(peers: Sequence[Peer], sizes: Sizes) -> list[Row]:
    """The rows of this work; only ours is asked."""
    vendors = len(VendorTable().ids())

    async def build() -> int:
        models = Models().add_source(VendorTable())
        return sum(models.get_provider(name) is not None for name in models.provider_ids())

    async def one() -> int:
        models = Models().add_source(VendorTable())
        return int(models.get_provider("openai") is not None)

    best = interleaved({"every": (lambda: build, vendors), "one": (lambda: one, 1)}, sizes.rounds)
    listing = min(_seconds("-m", "loopwright", "models") for _ in range(sizes.processes))
    nothing = min(_seconds("-c", "pass") for _ in range(sizes.processes))
    return [
        Row(
            f"the table of all {vendors} vendors",
            "ms",
            {"loopwright": best["every"] * 1e3},
            at_most=10,
            note=f"one vendor {best['one'] * 1e3:.2f} ms",
        ),
        Row(
            "`loopwright models`, above an empty process",
            "ms",
            {"loopwright": (listing - nothing) * 1e3},
            note=f"empty process {nothing * 1e3:.0f} ms",
            digits=0,
        ),
    ]


def _seconds(*arguments: str) -> float:
    """By the clock on the wall. Raises if it fails."""
    began = time.perf_counter()
    subprocess.run([sys.executable, *arguments], capture_output=True, check=True)
    return time.perf_counter() - began
