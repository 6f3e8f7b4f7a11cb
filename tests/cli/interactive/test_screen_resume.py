"""A session in which an earlier process left something."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.cli.interactive.screen_scene import DOWN, ENTER, ESCAPE, desk_with, folder

from loopwright import Agent
from loopwright.cli.sessions.store import writing_sessions
from loopwright.harness.harness import Harness
from loopwright.permissions import Policy, permission_gate
from loopwright.testing import Call, Reply, ScriptedModel
from loopwright.tools import LocalWorkspace, coding_tools

__all__ = ["folder"]


async def left_waiting(folder: Path, *names: str) -> str:
    """The id of a session whose run waits for a word on touching each of *names*."""
    calls = [Call("bash", {"command": f"touch {name}"}) for name in names]
    model = ScriptedModel([Reply("", calls=calls)])
    agent = Agent(
        model.model,
        stream_fn=model.stream_fn,
        tools=coding_tools(LocalWorkspace(folder)),
        before_tool_call=permission_gate(Policy("ask", (), folder)),
    )
    async with writing_sessions() as store, Harness.open(store, agent=agent) as harness:
        await harness.prompt("Touch them.")
        assert harness.pending_approvals
        return harness.session.id


async def test_a_call_that_waits_is_asked_about_and_then_run(folder: Path) -> None:
    session = await left_waiting(folder, "one", "two")
    model = ScriptedModel([Reply("All touched.")])

    async with desk_with(model, folder, session=session) as desk:
        await desk.sees("  touch one")
        desk.type("y")
        await desk.sees("  touch two")
        desk.type("n")
        await desk.reads("All touched.")
        await desk.idle()

        assert (folder / "one").exists()
        assert not (folder / "two").exists()
        assert desk.live.unfinished is None


async def test_escape_gives_the_waiting_run_up(folder: Path) -> None:
    session = await left_waiting(folder, "one")
    model = ScriptedModel([Reply("Something else.")])

    async with desk_with(model, folder, session=session, first_prompt="Do this then.") as desk:
        await desk.sees("  touch one")
        desk.type(ESCAPE)
        await desk.until(lambda: desk.input() == "Do this then.")
        unfinished = desk.live.unfinished
        desk.type(ENTER)
        await desk.reads("Something else.")

        assert unfinished is None
        assert not (folder / "one").exists()


@pytest.mark.parametrize("answer", ["y", "eNot that one." + ENTER])
async def test_resume_takes_up_what_waits_and_asks_about_it(folder: Path, answer: str) -> None:
    session = await left_waiting(folder, "one")
    model = ScriptedModel([Reply("Gone on.")])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type(f"/resume {session}" + ENTER)
        await desk.sees("take it up")
        desk.type(ENTER)
        await desk.sees("  touch one")
        desk.type(answer)
        await desk.reads("Gone on.")
        await desk.idle()

        assert (folder / "one").exists() is (answer == "y")
        assert desk.live.unfinished is None
    if answer != "y":
        assert "bash touch one · not allowed" in desk.printed()
        assert 'bash was not run: the user declined and said: "Not that one."' in desk.printed()


async def test_escape_at_the_question_after_resume_gives_the_run_up(folder: Path) -> None:
    session = await left_waiting(folder, "one")
    model = ScriptedModel([Reply("Something else.")])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type(f"/resume {session}" + ENTER)
        await desk.sees("take it up")
        desk.type(ENTER)
        await desk.sees("  touch one")
        desk.type(ESCAPE)
        await desk.until(lambda: desk.live.unfinished is None)
        await desk.idle()
        desk.type("Do this then." + ENTER)
        await desk.reads("Something else.")

    assert "error" not in desk.printed()
    assert not (folder / "one").exists()


@pytest.mark.parametrize(
    ("moves", "told", "stays"),
    [
        (DOWN, "the run was given up", False),
        (DOWN + DOWN, "it stays unfinished", True),
    ],
    ids=["given up", "left"],
)
async def test_resume_gives_it_up_or_leaves_it_if_the_user_says_so(
    folder: Path, moves: str, told: str, stays: bool
) -> None:
    session = await left_waiting(folder, "one")

    async with desk_with(ScriptedModel([]), folder) as desk:
        await desk.idle()
        desk.type(f"/resume {session}" + ENTER)
        await desk.sees("take it up")
        desk.type(moves + ENTER)
        await desk.reads(told)

        assert (desk.live.unfinished is not None) is stays
        assert not (folder / "one").exists()


async def test_what_was_typed_meanwhile_is_said_to_the_resumed_run(folder: Path) -> None:
    session = await left_waiting(folder, "one")
    model = ScriptedModel([Reply("Touched, and I heard you.")])

    async with desk_with(model, folder, session=session, first_prompt="And be quick.") as desk:
        await desk.sees("  touch one")
        desk.type("y")
        await desk.reads("heard you")
        await desk.idle()

        assert "And be quick." in desk.asked()
        assert (folder / "one").exists()
