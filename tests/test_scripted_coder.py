"""The scripted coder of examples/ says what is so, also after it was refused something."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from loopwright import BeforeToolCall, BeforeToolCallResult

FILE = Path(__file__).parent.parent / "examples" / "scripted_coder.py"


@pytest.fixture(scope="module")
def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("scripted_coder_under_test", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("refused", "said"),
    [
        ("practice/basket.py", "It is not, so I make one that has a fault."),
        (
            "practice/test_basket.py",
            "It is, but `practice/test_basket.py` is not, so I write that.",
        ),
    ],
)
async def test_after_a_refused_write_it_writes_what_is_missing(
    example: ModuleType, tmp_path: Path, refused: str, said: str
) -> None:
    agent = example.coder(str(tmp_path))
    allowed = False

    async def refuse_one(call: BeforeToolCall) -> BeforeToolCallResult | None:
        path = call.args.get("path") if isinstance(call.args, dict) else None
        return BeforeToolCallResult(block=path == refused and not allowed, reason="No.")

    agent.before_tool_call = refuse_one
    first = await agent.prompt("Fix the failing test")
    allowed = True
    second = await agent.prompt("again")

    replies = [message for message in second.messages if message.role == "assistant"]
    written = [call.arguments["path"] for call in replies[1].tool_calls]
    assert first.text.startswith("I stop here")
    assert replies[1].text.strip() == said
    assert written == [refused]
    assert second.text.startswith("Repaired: ")
