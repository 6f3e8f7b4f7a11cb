"""The faulty HTTP server of the model tests, under the name these tests use."""

from __future__ import annotations

from ..models.fault_server import (
    Connection,
    FaultServer,
    Step,
    answer,
    said,
    serving,
    stream,
    text_reply,
)

__all__ = [
    "Connection",
    "FaultServer",
    "Step",
    "answer",
    "said",
    "serving",
    "stream",
    "text_reply",
]
