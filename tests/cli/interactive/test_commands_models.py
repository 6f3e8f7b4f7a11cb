"""/model, /thinking, /permissions, /theme: what is chosen, and from what."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.cli.interactive.command_scene import Start, scene

from loopwright.cli.interactive.commands import argument_words
from loopwright.cli.interactive.model_commands import levels_of
from loopwright.models import Model


@pytest.fixture
async def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Start]:
    async with scene(tmp_path, monkeypatch) as begin:
        yield begin


async def test_a_model_is_picked_from_those_that_can_be_asked_beginning_at_the_present_one(
    start: Start,
) -> None:
    front = await start()

    await front.type("/model", "toy/second")

    _, items, selected = front.screen.picks[0]
    assert items[selected].label == "scripted/scripted"
    assert next(i for i in items if i.label == "toy/second").hint == "8k context, thinking"
    assert front.live.agent.model.id == "second"
    assert front.screen.notes == ["asking toy/second, thinking default"]


async def test_how_other_vendors_are_asked_is_said(start: Start) -> None:
    front = await start()

    await front.type("/model", "… of other vendors")

    assert "loopwright keys set VENDOR" in front.screen.notes[0]
    assert front.live.agent.model.id == "scripted"


async def test_a_model_can_be_named_with_a_thinking_level(start: Start) -> None:
    front = await start()

    await front.type("/model toy/second:max")

    assert front.screen.notes == ["asking toy/second, thinking max"]
    assert front.screen.picks == []


async def test_an_unknown_model_is_an_error_and_the_present_one_stays(start: Start) -> None:
    front = await start()

    await front.type("/model toy/secnd")

    assert "secnd" in front.screen.errors[0][0]
    assert "toy/second" in (front.screen.errors[0][1] or "")
    assert front.live.agent.model.id == "scripted"


async def test_leaving_a_list_changes_nothing(start: Start) -> None:
    front = await start()

    for line in ("/model", "/thinking", "/permissions", "/theme"):
        await front.type(line, None)

    assert front.screen.notes == []
    assert front.screen.theme == ""
    assert front.live.permission_mode == "ask"


async def test_thinking_offers_what_the_model_has(start: Start) -> None:
    front = await start()

    await front.type("/thinking MAX")
    await front.type("/model toy/second")
    await front.type("/thinking", "low")
    await front.type("/thinking hihg")

    assert "there are: off, low, medium, high" in (front.screen.errors[0][1] or "")
    assert front.screen.labels == ["off", "low", "max"]
    assert front.live.thinking_level == "low"
    assert front.screen.errors[1][0] == "there is no thinking level of second 'hihg'"
    assert [word for word, _ in argument_words(front.live, "thinking", "")] == ["off", "low", "max"]


def test_a_model_that_cannot_be_switched_off_offers_no_off() -> None:
    always = Model("a", "b", "c", thinking_levels={"off": None, "low": "low", "high": None})

    assert levels_of(always) == ["low"]


async def test_the_permission_mode_is_chosen_by_name_or_from_a_list(start: Start) -> None:
    front = await start()

    await front.type("/permissions yolo")
    assert front.live.permission_mode == "yolo"
    await front.type("/permissions", "read-only")
    assert front.live.permission_mode == "read-only"
    await front.type("/permissions yollo")

    assert front.live.permission_mode == "read-only"
    assert front.screen.errors == [("there is no permission mode 'yollo'", "did you mean yolo?")]
    assert front.screen.picks[0][2] == 2


async def test_the_theme_and_the_folding_of_thinking_are_the_screens(start: Start) -> None:
    front = await start()

    await front.type("/theme light")
    await front.type("/thinking-display")
    await front.type("/theme purple")

    assert front.screen.theme == "light"
    assert front.screen.thinking_toggles == 1
    assert front.screen.errors[0][0] == "there is no theme 'purple'"
