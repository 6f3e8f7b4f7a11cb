"""Real traffic that nobody here wrote: recorded streams decode to what the vendor's SDK made of them.

The recordings lie beside the repository; without them these tests are skipped, and the hand-made
bodies in the test of each wire hold its rules.
"""

from __future__ import annotations

import json
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from loopwright.messages import AssistantMessage
from loopwright.testing import decode

RECORDINGS = Path(__file__).parents[2].parent / "shared" / "wire"

pytestmark = pytest.mark.skipif(
    not RECORDINGS.is_dir(), reason="no recordings beside the repository"
)


def bodies(wire: str) -> list[Path]:
    return sorted((RECORDINGS / wire).glob("*.sse"))


CHAT = bodies("openai-chat")


def without_time(message: AssistantMessage) -> dict[str, Any]:
    data = message.to_dict()
    data.pop("timestamp")
    return data


@pytest.mark.parametrize("file", CHAT, ids=lambda file: file.stem)
def test_a_recording_of_chat_completions_says_what_the_sdk_says(file: Path) -> None:
    sidecar = json.loads(file.with_suffix(".json").read_text("utf-8"))
    expected, extra = sidecar["expected"], sidecar["extra"]

    message = decode("openai-chat", [file.read_bytes()])

    assert message.text == expected["text"] + (extra["refusal"] or "")
    assert message.thinking == expected["thinking"]
    # The SDK keeps an empty argument text as it is; for us it means no arguments.
    assert [(call.id, call.name, call.arguments) for call in message.tool_calls] == [
        (call["id"], call["name"], call["arguments"] or {}) for call in expected["tool_calls"]
    ]
    assert message.raw_stop_reason == expected["stop"]
    if not extra.get("error_optional"):
        assert (message.stop_reason == "error") == bool(expected["error"])
    if expected["error"]:
        assert expected["error"] in (message.error_message or "")


@pytest.mark.parametrize("file", CHAT, ids=lambda file: file.stem)
def test_usage_of_a_recording_follows_our_way_of_counting(file: Path) -> None:
    raw = json.loads(file.with_suffix(".json").read_text("utf-8"))["expected"]["usage"]

    usage = decode("openai-chat", [file.read_bytes()]).usage

    if raw["input"] is None:
        assert usage.is_empty
        return
    cached = (raw["cache_read"] or 0) + (raw["cache_write"] or 0)
    beside = raw["input"] + raw["output"] + (raw["reasoning"] or 0) == raw["total"]
    assert usage.input == max(0, raw["input"] - cached)
    assert usage.cache_read == (raw["cache_read"] or 0)
    assert usage.output == raw["output"] + ((raw["reasoning"] or 0) if beside else 0)
    assert usage.reasoning == raw["reasoning"]


@pytest.mark.parametrize("file", CHAT, ids=lambda file: file.stem)
def test_any_chunking_of_a_recording_gives_the_same_message(file: Path) -> None:
    body = file.read_bytes()
    whole = without_time(decode("openai-chat", [body]))
    chance = random.Random(file.stem)

    one_by_one = decode("openai-chat", [body[i : i + 1] for i in range(len(body))])
    for _ in range(5):
        edges = [0, *sorted(chance.choices(range(len(body)), k=30)), len(body)]
        chunks = [body[a:b] for a, b in pairwise(edges)]
        assert without_time(decode("openai-chat", chunks)) == whole

    assert without_time(one_by_one) == whole


@pytest.mark.parametrize("file", CHAT[::4], ids=lambda file: file.stem)
def test_any_truncation_of_a_recording_ends_cleanly(file: Path) -> None:
    body = file.read_bytes()
    chance = random.Random(file.stem)

    for end in chance.choices(range(len(body)), k=40):
        message = decode("openai-chat", [body[:end]])

        assert message.stop_reason in ("stop", "length", "toolUse", "error")
