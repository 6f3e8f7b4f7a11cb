"""The gate and the fence: what was judged is reached, and nothing that the path leads to later."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from loopwright import Agent, BeforeToolCall, BeforeToolCallResult
from loopwright.cli.bench.outside_paths import GateWithDoor
from loopwright.messages import TextContent, ToolResultMessage
from loopwright.permissions import (
    AllowOnce,
    Answer,
    Deny,
    Policy,
    Question,
    parse_rule,
    permission_gate,
)
from loopwright.testing import Call, Reply, ScriptedModel
from loopwright.tools import LocalWorkspace, PathRefused, coding_tools


class World:
    """A workspace with a folder `d`, which may become a link, and a person who says yes."""

    def __init__(self, base: Path) -> None:
        self.root = base / "work"
        self.outside = base / "outside"
        for folder in (self.root / "d", self.root / "other", self.outside):
            folder.mkdir(parents=True)
            (folder / "x").write_text(f"a needle in {folder.name}\n")
        self.workspace = LocalWorkspace(self.root)
        self.policy = Policy("ask", (), self.root)
        self.answers: list[Answer] = []
        self.asked: list[Question] = []
        self.door = GateWithDoor(permission_gate(self.policy, self.ask), self.workspace)

    async def ask(self, question: Question) -> Answer:
        self.asked.append(question)
        return self.answers.pop(0) if self.answers else AllowOnce()

    def turn(self, to: Path) -> None:
        """Let `d` lead elsewhere."""
        (self.root / "d").rename(self.root / "d-before")
        (self.root / "d").symlink_to(to)

    async def told(self, *calls: Call, hook: Any = None) -> list[str]:
        model = ScriptedModel([Reply(calls=list(calls)), Reply("Done.")])
        agent = Agent(
            model.model,
            stream_fn=model.stream_fn,
            tools=coding_tools(self.workspace),
            before_tool_call=hook or self.door,
        )
        result = await agent.prompt("Go.")
        return [
            "".join(block.text for block in message.content if isinstance(block, TextContent))
            for message in result.messages
            if isinstance(message, ToolResultMessage)
        ]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


CALLS = [
    Call("read", {"path": "d/x"}),
    Call("write", {"path": "d/x", "content": "new"}),
    Call("edit", {"path": "d/x", "edits": [{"oldText": "needle", "newText": "new"}]}),
    Call("ls", {"path": "d"}),
    Call("grep", {"pattern": "needle", "path": "d"}),
    Call("find", {"pattern": "*", "path": "d"}),
]


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
@pytest.mark.parametrize("to", ["outside", "other"])
async def test_a_path_that_leads_elsewhere_once_it_was_judged_is_refused(
    world: World, call: Call, to: str
) -> None:
    there = world.outside if to == "outside" else world.root / "other"

    async def hook(question: BeforeToolCall, signal: Any) -> BeforeToolCallResult | None:
        verdict = await world.door(question, signal)
        world.turn(there)
        return verdict

    # Another file was let through before; that opens no way to this one.
    (before,) = await world.told(Call("read", {"path": str(there / "x")}))
    (refused,) = await world.told(call, hook=hook)

    assert "a needle" in before
    assert "leads" in refused or "may be read but not changed" in refused
    assert "needle" not in refused
    assert (there / "x").read_text() == f"a needle in {there.name}\n"


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
async def test_what_was_allowed_is_reached_through_a_link(world: World, call: Call) -> None:
    world.turn(world.outside)

    (result,) = await world.told(call)

    assert str(world.outside) in world.asked[0].decision.reason
    assert "refused" not in result
    assert "leads" not in result
    if call.name in ("write", "edit"):
        assert "new" in (world.outside / "x").read_text()


async def test_what_was_allowed_to_one_run_is_closed_to_another_that_is_not_asked(
    world: World,
) -> None:
    inside, turned = asyncio.Event(), asyncio.Event()

    async def hook(question: BeforeToolCall, signal: Any) -> BeforeToolCallResult | None:
        verdict = await world.door(question, signal)
        inside.set()
        await turned.wait()
        return verdict

    async def other() -> list[str]:
        await inside.wait()
        world.turn(world.outside)
        try:
            return await world.told(Call("read", {"path": "d/x"}), Call("ls", {"path": "d"}))
        finally:
            turned.set()

    written = Call("write", {"path": "d/x", "content": "new"})
    (refused,), (read, _) = await asyncio.gather(world.told(written, hook=hook), other())

    assert "a needle in outside" in read
    assert "leads out of the workspace" in refused
    assert (world.outside / "x").read_text() == "a needle in outside\n"
    with pytest.raises(PathRefused):
        await world.workspace.resolve(str(world.outside / "x"))


async def test_to_read_is_not_to_write_and_a_no_opens_nothing(world: World) -> None:
    path = str(world.outside / "x")
    world.answers = [AllowOnce(), Deny()]

    read, denied = await world.told(
        Call("read", {"path": path}), Call("write", {"path": path, "content": "new"})
    )

    assert "needle" in read
    assert "the user said no" in denied


async def test_a_link_that_a_call_before_made_is_followed(world: World) -> None:
    world.policy.rules.append(parse_rule("allow", "bash(ln:*)"))

    _, read = await world.told(
        Call("bash", {"command": "ln -s other/x y"}), Call("read", {"path": "y"})
    )

    assert "a needle in other" in read
