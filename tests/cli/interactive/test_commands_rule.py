"""Which lines are commands, which are text, and which are neither."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest
from tests.cli.interactive.command_scene import Front, Start, scene

from loopwright.cli.interactive.commands import (
    BUILT_IN,
    argument_words,
    command_words,
    run_command,
)
from loopwright.events import MessageUpdate
from loopwright.extensions import Command, CommandContext, Extension
from loopwright.testing import Reply


@pytest.fixture
async def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Start]:
    async with scene(tmp_path, monkeypatch) as begin:
        yield begin


def extend(front: Front, *commands: Command) -> None:
    loaded = front.live.bench.extensions
    front.live.bench.extensions = replace(
        loaded, extensions=[Extension("toy-extension", commands=commands)]
    )


@pytest.mark.parametrize(
    "line",
    [
        "hello",
        "",
        "/etc/hosts is odd",
        "/no/such/path",
        "/tmp is full",
        "/readme.md is wrong",
        "// a comment",
        "/* a comment */",
        "/",
        "/ help",
        "/2 is a half",
        " /help",
        "please /help",
        "/was, as they said,",
        "/http://example.org",
        "\n/help",
    ],
)
async def test_what_names_no_command_and_could_not_be_one_is_text(start: Start, line: str) -> None:
    front = await start()

    assert not await front.type(line)

    assert front.screen.errors == []


@pytest.mark.parametrize(
    ("line", "near"),
    [
        ("/modle gpt", "/model"),
        ("/sesion", "/session"),
        ("/Help", "/help"),
        ("/exp", "/export"),
        ("/qu", "/quit"),
        ("/skill:nothing", "no skills"),
        ("/entirely-unlike-anything", "/help lists all"),
    ],
)
async def test_a_mistyped_command_is_an_error_with_what_is_near_and_is_not_sent(
    start: Start, line: str, near: str
) -> None:
    front = await start("Never asked.")

    assert await front.type(line)

    message, hint = front.screen.errors[0]
    assert message == f"there is no command {line.split()[0]}"
    assert near in (hint or "")
    assert front.model.requests == []


async def test_templates_and_skills_are_text_which_the_session_expands(
    start: Start, tmp_path: Path
) -> None:
    templates = tmp_path / "xdg_config_home" / "loopwright" / "templates"
    skill = tmp_path / "xdg_config_home" / "loopwright" / "skills" / "tidy"
    templates.mkdir(parents=True)
    skill.mkdir(parents=True)
    (templates / "review.md").write_text("Review $1 closely.")
    (templates / "model.md").write_text("Ours comes first.")
    (skill / "SKILL.md").write_text("---\nname: tidy\ndescription: tidies\n---\nTidy it.")
    front = await start("Yes.")

    assert not await front.type("/review a.py")
    assert not await front.type("/skill:tidy the desk")
    assert await front.type("/model", None)
    assert await front.type("/skill:tdy")

    await front.live.prompt("/review a.py")
    assert getattr(front.live.messages()[0], "text", "") == "Review a.py closely."
    assert "/skill:tidy" in (front.screen.errors[0][1] or "")
    assert await front.type("/templates")
    assert "Review $1 closely." in front.screen.notes[-1]
    assert await front.type("/skills")
    assert "tidies" in front.screen.notes[-1]
    assert ("/skill:tidy", "tidies") in command_words(front.live)
    assert [name for name, _ in command_words(front.live)].count("/model") == 1


async def test_words_behind_a_command_that_takes_none_are_not_swallowed(start: Start) -> None:
    front = await start()

    assert await front.type("/quit smoking, how?")

    assert not front.screen.left
    assert "sent as text" in (front.screen.errors[0][1] or "")


async def test_every_command_is_in_the_help_and_the_words_to_complete(start: Start) -> None:
    front = await start()
    extend(front, Command("deploy", "ships it", lambda context, argument: None))

    assert await front.type("/help")

    words = dict(command_words(front.live))
    for name in [*BUILT_IN, "deploy"]:
        assert f"/{name}" in front.screen.notes[0]
        assert words[f"/{name}"]
    assert "alt+enter" in front.screen.notes[0]


async def test_quit_and_exit_leave(start: Start) -> None:
    front = await start()

    for line in ("/quit", "/exit"):
        front.screen.left = False
        assert await front.type(line)
        assert front.screen.left


async def test_during_a_run_some_commands_work_and_the_others_say_how_to_interrupt(
    start: Start,
) -> None:
    front = await start(Reply("one two three", chunk_size=1, delay=0.01), "More.")
    talking = asyncio.Event()
    front.live.subscribe(lambda event: talking.set() if isinstance(event, MessageUpdate) else None)
    run = asyncio.create_task(front.live.prompt("Count."))
    await talking.wait()

    for line in ("/tree", "/fork", "/resume", "/new", "/compact"):
        assert await front.type(line)
    refused = list(front.screen.notes)
    assert front.live.working
    for line in ("/help", "/session", "/model toy/second", "/thinking max"):
        assert await front.type(line)
    await front.live.abort()
    result = await run

    assert len(refused) == 5
    assert all("esc interrupts" in note for note in refused)
    assert front.screen.errors == []
    assert front.live.agent.model.id == "second"
    assert "from its next request on" in front.screen.notes[-2]
    assert result.stop_reason == "aborted"
    assert front.screen.redraws == 0


# -- extensions --------------------------------------------------------------------------------


async def test_a_command_of_an_extension_gets_its_argument_and_the_session(start: Start) -> None:
    front = await start("Shipped.")

    async def deploy(context: CommandContext, argument: str) -> str:
        before = context.session_id
        context.note(f"deploying {argument} from {context.folder.name}")
        result = await context.prompt(f"Ship {argument}.")
        context.set_input("and now?")
        return f"{before} {result.text} {context.session_id is not None}"

    extend(front, Command("deploy", "ships it", deploy, lambda typed: [f"{typed}-east"]))

    assert await front.type("/deploy   us two ")

    assert front.screen.notes == ["deploying us two from project", "None Shipped. True"]
    assert front.screen.input == "and now?"
    assert argument_words(front.live, "deploy", "us") == [("us-east", "")]


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (ZeroDivisionError("by nothing"), "ZeroDivisionError: by nothing"),
        (SystemExit(3), "RuntimeError: it called sys.exit(3)"),
    ],
    ids=repr,
)
async def test_a_command_that_raises_costs_only_itself(
    start: Start, fault: BaseException, told: str
) -> None:
    front = await start()

    def broken(context: CommandContext, argument: str) -> str:
        raise fault

    def no_words(typed: str) -> list[str]:
        raise fault

    extend(front, Command("broken", "raises", broken, no_words))

    assert await front.type("/broken")

    assert front.screen.errors == [(f"/broken failed: {told}", None)]
    assert list(argument_words(front.live, "broken", "")) == []


async def test_an_extension_cannot_take_the_name_of_a_command_of_ours(start: Start) -> None:
    front = await start()
    extend(front, Command("quit", "never lets go", lambda context, argument: "stay"))

    assert await run_command("/quit", front.live, front.screen)

    assert front.screen.left
    assert front.screen.notes == []
