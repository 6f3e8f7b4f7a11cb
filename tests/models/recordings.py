"""The recorded streams beside the repository, and ways to cut any body for a decoder.

Without the recordings the tests that read them are skipped; the hand-made bodies in the tests of
each wire hold its rules.
"""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from loopwright.messages import AssistantMessage
from loopwright.stream import AssistantMessageEvent

RECORDINGS = Path(__file__).parents[2].parent / "shared" / "wire"

needs_recordings = pytest.mark.skipif(
    not RECORDINGS.is_dir(), reason="no recordings beside the repository"
)


def bodies(wire: str, suffix: str = ".sse") -> list[Path]:
    """The recorded bodies of *wire*, in a fixed order."""
    return sorted((RECORDINGS / wire).glob(f"*{suffix}"))


def sidecar(body: Path) -> dict[str, Any]:
    """What the vendor's own SDK made of *body*."""
    return json.loads(body.with_suffix(".json").read_text("utf-8"))


def one_by_one(body: bytes) -> list[bytes]:
    return [body[i : i + 1] for i in range(len(body))]


def cut_at_random(body: bytes, chance: random.Random, cuts: int = 30) -> list[bytes]:
    edges = [0, *sorted(chance.choices(range(len(body)), k=cuts)), len(body)]
    return [body[a:b] for a, b in pairwise(edges)]


def without_time(message: AssistantMessage) -> dict[str, Any]:
    """*message* as data, without the one thing that differs from run to run."""
    data = message.to_dict()
    data.pop("timestamp")
    return data


def comparable(events: list[AssistantMessageEvent]) -> list[dict[str, Any]]:
    """*events* as data, likewise."""
    plain = [event.to_dict() for event in events]
    for data in plain:
        for message in (data.get("message"), data.get("error")):
            if isinstance(message, dict):
                message.pop("timestamp")
    return plain


def with_deltas_joined(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Comparable *events* with neighbouring deltas of one block as one."""
    joined: list[dict[str, Any]] = []
    for event in events:
        last = joined[-1] if joined else {}
        if "delta" in event and (event["type"], event["content_index"]) == (
            last.get("type"),
            last.get("content_index"),
        ):
            joined[-1] = {**last, "delta": last["delta"] + event["delta"]}
        else:
            joined.append(event)
    return joined
