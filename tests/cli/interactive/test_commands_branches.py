"""/tree and /fork: going on from somewhere else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.cli.interactive.command_scene import Front, Start, scene

from loopwright.messages import UserMessage
from loopwright.testing import Call, Reply


@pytest.fixture
async def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Start]:
    async with scene(tmp_path, monkeypatch) as begin:
        yield begin


def said(front: Front) -> list[str]:
    """By whomever, oldest first."""
    return [str(getattr(message, "text", "")) for message in front.live.messages()]


async def two_turns(start: Start, *more: Reply | str) -> Front:
    front = await start("One.", "Two.", *more)
    await front.live.prompt("First?")
    await front.live.prompt("Second?")
    return front


# -- /tree -------------------------------------------------------------------------------------


async def test_going_back_to_what_the_user_said_goes_on_before_it_with_its_text_in_the_input(
    start: Start,
) -> None:
    front = await two_turns(start, "Three.")

    await front.type("/tree", "you: Second?", "is left as it is")
    assert said(front) == ["First?", "One."]
    assert front.screen.input == "Second?"
    await front.live.prompt("Another?")

    assert said(front) == ["First?", "One.", "Another?", "Three."]
    assert front.screen.redraws == 1
    await front.type("/tree", None)
    drawn = [f"{item.lead}{item.label}" for item in front.screen.picks[-1][1] if not item.pinned]
    assert drawn == [
        "● you: First?",
        "● model: One.",
        "│ ○ you: Second?",
        "│ ○ model: Two.",
        "● you: Another?",
        "● model: Three.",
    ]
    _, items, selected = front.screen.picks[-1]
    assert (items[selected].label, items[selected].hint) == ("model: Three.", "you are here")


async def test_going_back_to_the_very_first_prompt_begins_anew(start: Start) -> None:
    front = await two_turns(start)

    await front.type("/tree", "you: First?", "is left")

    assert said(front) == []
    assert front.screen.input == "First?"


async def test_going_back_to_what_the_model_said_goes_on_behind_it(start: Start) -> None:
    front = await two_turns(start)

    await front.type("/tree", "model: One.", "is left")

    assert said(front) == ["First?", "One."]
    assert front.screen.input == ""


async def test_the_branch_that_is_left_can_be_summarized_for_the_model(start: Start) -> None:
    front = await two_turns(start, "It was about two.", "Three.")

    await front.type("/tree", "model: One.", "is summarized")
    await front.live.prompt("Third?")

    assert front.screen.errors == []
    shown = str(front.model.requests[-1].context.messages)
    assert "It was about two." in shown
    assert "Second?" not in shown


async def test_a_summary_that_fails_leaves_everything_where_it_was(start: Start) -> None:
    front = await two_turns(start, Reply(error="no such luck"))

    await front.type("/tree", "you: Second?", "is summarized")

    assert "no such luck" in str(front.screen.errors)
    assert said(front) == ["First?", "One.", "Second?", "Two."]
    assert front.screen.redraws == 0
    assert front.screen.input == ""


async def test_leaving_either_list_moves_nothing(start: Start) -> None:
    front = await two_turns(start)

    await front.type("/tree", None)
    await front.type("/tree", "you: First?", None)

    assert len(said(front)) == 4
    assert front.screen.redraws == 0


async def test_nothing_is_asked_where_nothing_is_left_behind(start: Start) -> None:
    front = await two_turns(start)
    await front.type("/tree", "model: One.", "is left")

    await front.type("/tree", "model: Two.")
    await front.type("/tree", "")

    assert said(front) == ["First?", "One.", "Second?", "Two."]
    assert front.screen.notes == ["you are there already"]


async def test_a_prompt_right_behind_where_one_is_only_comes_back_into_the_input(
    start: Start,
) -> None:
    front = await two_turns(start)
    await front.type("/tree", "model: One.", "is left")
    front.screen.redraws = 0

    await front.type("/tree", "you: Second?")

    assert front.screen.input == "Second?"
    assert front.screen.redraws == 0


async def test_what_tools_answered_is_shown_only_when_everything_is_wanted(
    start: Start, tmp_path: Path
) -> None:
    front = await start(Reply(calls=[Call("ls")]), "Nothing there.")
    await front.live.prompt("What is there?")

    await front.type("/tree", "… everything", "… only what you said", "… what was said", None)

    shown = [[item.label for item in items] for _, items, _ in front.screen.picks]
    assert shown[0][:3] == ["you: What is there?", "model: → ls", "model: Nothing there."]
    assert any(label.startswith("tool: ") for label in shown[1])
    assert [label for label in shown[2] if not label.startswith("…")] == [
        "you: What is there?",
        "model: Nothing there.",  # where one is, whatever it is
    ]
    assert shown[3] == shown[0]


async def test_going_back_to_a_reply_that_called_tools_goes_on_behind_their_answers(
    start: Start,
) -> None:
    front = await start(Reply(calls=[Call("ls"), Call("ls")]), "Nothing there.", "Truly.")
    await front.live.prompt("What is there?")

    await front.type("/tree", "model: → ls", "is left")
    await front.live.prompt("Sure?")

    roles = [message.role for message in front.live.messages()]
    assert roles == ["user", "assistant", "toolResult", "toolResult", "user", "assistant"]
    assert "No result" not in str(front.model.requests[-1].context.messages)


async def test_files_that_were_attached_do_not_come_back_into_the_input(
    start: Start, tmp_path: Path
) -> None:
    (tmp_path / "project" / "a.txt").write_text("what is in it")
    front = await start("I see.")
    await front.live.prompt("Look at @a.txt please.")
    first = front.live.messages()[0]
    assert isinstance(first, UserMessage)
    assert "what is in it" in first.text

    await front.type("/tree", "you: Look", "is left")

    assert front.screen.input == "Look at @a.txt please."


async def test_there_is_no_tree_before_anything_was_said(start: Start) -> None:
    front = await start()

    await front.type("/tree")
    await front.type("/fork")

    assert front.screen.notes == ["nothing was said yet"] * 2


# -- /fork -------------------------------------------------------------------------------------


async def test_a_fork_ends_before_the_prompt_that_is_picked_and_the_original_stays(
    start: Start,
) -> None:
    front = await two_turns(start, "Three.")
    assert front.live.info is not None
    original = front.live.info.id

    await front.type("/fork", "Second?")

    assert front.live.info.id != original
    assert said(front) == ["First?", "One."]
    assert front.screen.input == "Second?"
    assert front.screen.labels == ["First?", "Second?", "… a copy of all of it"]
    assert front.screen.picks[0][2] == 1
    assert original in front.screen.notes[-1]
    await front.live.prompt("Another?")
    await front.type(f"/resume {original}")
    assert said(front) == ["First?", "One.", "Second?", "Two."]


async def test_a_fork_before_the_first_prompt_is_an_empty_copy(start: Start) -> None:
    front = await two_turns(start, "Anew.")

    await front.type("/fork", "First?")
    await front.live.prompt("Again?")

    assert front.screen.errors == []
    assert said(front) == ["Again?", "Anew."]


async def test_a_fork_can_be_of_all_of_it(start: Start) -> None:
    front = await two_turns(start)
    assert front.live.info is not None
    original = front.live.info.id

    await front.type("/fork", "… a copy")

    assert front.live.info.id != original
    assert len(said(front)) == 4
    assert front.screen.input == ""
