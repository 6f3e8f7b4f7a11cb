"""The works, one module each. Each has `measure(peers, sizes)`, which gives rows of the table."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..report import Row
from ..sizes import Sizes
from ..subject import Peer
from . import (
    agents,
    arguments,
    deltas,
    drawing,
    idle,
    imports,
    long_sessions,
    parallel,
    rendering,
    sessions,
    startup,
    telemetry,
    tool_output,
    turns,
    wires,
    wires_arguments,
    wires_requests,
    wires_vendors,
)

__all__ = ["WORKS", "Measure"]

Measure = Callable[[Sequence[Peer], Sizes], list[Row]]

WORKS: dict[str, Measure] = {
    "deltas": deltas.measure,
    "arguments": arguments.measure,
    "turns": turns.measure,
    "parallel": parallel.measure,
    "agents": agents.measure,
    "imports": imports.measure,
    "idle": idle.measure,
    "wires": wires.measure,
    "wire-arguments": wires_arguments.measure,
    "requests": wires_requests.measure,
    "vendors": wires_vendors.measure,
    "telemetry": telemetry.measure,
    "sessions": sessions.measure,
    "long-sessions": long_sessions.measure,
    "start-up": startup.measure,
    "tool-output": tool_output.measure,
    "rendering": rendering.measure,
    "drawing": drawing.measure,
}
