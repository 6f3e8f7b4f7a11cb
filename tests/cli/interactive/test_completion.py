"""What is offered while one types."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from prompt_toolkit.completion import CompleteEvent, Completion
from prompt_toolkit.document import Document

from loopwright.cli.interactive.completion import PromptCompleter
from loopwright.cli.interactive.workspace_files import find_files

COMMANDS = [("/model", "choose the model"), ("/help", "list\x1b[2J"), ("/compact", "shorten")]


def arguments(name: str, typed: str) -> list[tuple[str, str]]:
    return [("toy/one", "8k"), ("other/two", "")] if name == "model" else []


async def offered(
    text: str, folder: Path = Path("/nowhere"), completer: PromptCompleter | None = None
) -> list[Completion]:
    """With the cursor at the end of *text*, or at the first `|` in it."""
    before, _, after = text.partition("|")
    document = Document(before + after, len(before))
    completer = completer or PromptCompleter(folder, lambda: COMMANDS, arguments)
    return [
        completion
        async for completion in completer.get_completions_async(document, CompleteEvent())
    ]


def texts(completions: list[Completion]) -> list[str]:
    return [completion.text for completion in completions]


def completed(text: str, completion: Completion) -> str:
    before = text.partition("|")[0]
    return before[: len(before) + completion.start_position] + completion.text


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with ignored, hidden and oddly named files."""
    for path in (
        "README.md",
        "src/app/main.py",
        "src/app/main_test.py",
        "src/manual.txt",
        "docs/a b.txt",
        'docs/qu"ote.txt',
        ".github/ci.yml",
        "build/out.o",
        "node_modules/left/pad.js",
        "secret.log",
        "keep.log",
    ):
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x")
    (tmp_path / ".gitignore").write_text("build/\nnode_modules\n*.log\n!keep.log\n")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "config").write_text("x")
    return tmp_path


# -- commands ----------------------------------------------------------------------------------


async def test_a_slash_at_the_beginning_offers_the_commands_with_what_they_do() -> None:
    found = await offered("/")

    assert texts(found) == ["model", "help", "compact"]
    assert found[0].display_meta_text == "choose the model"
    assert "\x1b" not in found[1].display_meta_text
    assert completed("/mo", (await offered("/mo"))[0]) == "/model"


@pytest.mark.parametrize("text", ["a /mo", " /mo", "first\n/mo", "/etc/ho", "/help me", "/model "])
async def test_a_slash_elsewhere_offers_no_command(text: str) -> None:
    assert not set(texts(await offered(text))) & {"model", "help", "compact"}


async def test_letters_of_a_command_find_it_the_likeliest_first() -> None:
    assert texts(await offered("/mp")) == ["compact"]
    assert texts(await offered("/o")) == ["model", "compact"]


async def test_arguments_are_offered_behind_their_command() -> None:
    found = await offered("/model o")

    assert texts(found) == ["toy/one", "other/two"] or texts(found) == ["other/two", "toy/one"]
    assert completed("/model two", (await offered("/model two"))[0]) == "/model other/two"
    assert await offered("/help x") == []
    assert await offered("/model toy/one x") == []


async def test_without_a_source_of_arguments_none_are_offered() -> None:
    completer = PromptCompleter(Path("/nowhere"), lambda: COMMANDS)

    assert await offered("/model o", completer=completer) == []


# -- files -------------------------------------------------------------------------------------


async def test_an_at_sign_offers_files_and_folders_that_are_not_ignored(folder: Path) -> None:
    found = texts(await offered("look at @", folder))

    assert "@README.md" in found
    assert "@src/" in found
    assert "@src/app/main.py" in found
    assert "@keep.log" in found
    assert "@.github/ci.yml" in found
    assert not [name for name in found if "build" in name or "node_modules" in name]
    assert not [name for name in found if "secret" in name or ".git/" in name]


async def test_files_are_found_by_their_letters_names_before_paths(folder: Path) -> None:
    found = await offered("see @main", folder)

    assert texts(found)[:2] == ["@src/app/main.py", "@src/app/main_test.py"]
    assert texts(await offered("@smpy", folder)) == ["@src/app/main.py", "@src/app/main_test.py"]
    assert completed("see @main| and more", found[0]) == "see @src/app/main.py"
    assert found[0].display_text == "main.py"
    assert found[0].display_meta_text == "src/app/main.py"


async def test_a_path_can_be_gone_on_with_folder_by_folder(folder: Path) -> None:
    assert texts(await offered("@src/a", folder))[0] == "@src/app/"
    assert set(texts(await offered("@src/app/", folder))) == {
        "@src/app/",
        "@src/app/main.py",
        "@src/app/main_test.py",
    }
    assert "@README.md" in texts(await offered("@./READ", folder))


async def test_a_path_with_blanks_or_quotes_is_quoted(folder: Path) -> None:
    assert texts(await offered("@a b", folder)) == []
    found = (await offered("@ab", folder))[0]

    assert found.text == '@"docs/a b.txt"'
    assert texts(await offered('see @"a b', folder)) == ['@"docs/a b.txt"']
    assert completed('see @"a b', (await offered('see @"a b', folder))[0]) == 'see @"docs/a b.txt"'
    assert texts(await offered("@quote", folder)) == ['@"docs/qu\\"ote.txt"']


@pytest.mark.parametrize("text", ["me@exam", "@~/", "@/etc/pass", "@../", "a@", "@README.md "])
async def test_addresses_and_what_is_outside_offer_nothing(folder: Path, text: str) -> None:
    assert await offered(text, folder) == []


async def test_files_are_offered_on_every_line_and_after_a_command(folder: Path) -> None:
    assert texts(await offered("first\nsecond @READ", folder)) == ["@README.md"]
    assert texts(await offered("/compact mind @READ", folder)) == ["@README.md"]


async def test_a_new_file_is_offered_after_a_few_seconds_and_not_looked_for_with_each_key(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    completer = PromptCompleter(folder, lambda: COMMANDS)
    await offered("@new", completer=completer)
    (folder / "new.txt").write_text("x")

    at_once = texts(await offered("@new", completer=completer))
    monkeypatch.setattr("loopwright.cli.interactive.workspace_files.FRESH_SECONDS", 0)
    later = texts(await offered("@new", completer=completer))

    assert at_once == []
    assert later == ["@new.txt"]


async def test_names_that_a_terminal_would_obey_are_not_offered(tmp_path: Path) -> None:
    (tmp_path / "a\x1b[2Jb").write_text("x")
    (tmp_path / "a\nb").write_text("x")
    (tmp_path / os.fsdecode(b"a\xffb")).write_text("x")
    (tmp_path / "ab").write_text("x")

    assert texts(await offered("@", tmp_path)) == ["@ab"]


async def test_links_are_not_followed_into_folders(tmp_path: Path) -> None:
    (tmp_path / "loop").symlink_to(tmp_path)
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "file")
    (tmp_path / "dangling").symlink_to(tmp_path / "nothing")

    assert find_files(tmp_path) == ["file", "link"]


def test_what_is_near_is_found_first_and_hidden_folders_last(folder: Path) -> None:
    found = find_files(folder, most=7)

    assert len(found) == 7
    assert found[:4] == ["docs/", "keep.log", "README.md", "src/"]
    assert ".github/ci.yml" not in found


def test_a_search_ends_when_its_time_is_over(folder: Path) -> None:
    assert find_files(folder, most_seconds=-1) == []
    assert find_files(Path("/nowhere")) == []


async def test_the_event_loop_goes_on_while_a_large_folder_is_looked_through(
    tmp_path: Path,
) -> None:
    for number in range(60):
        (tmp_path / f"folder{number}").mkdir()
        for file in range(60):
            (tmp_path / f"folder{number}" / f"file{file}").touch()
    turns = 0

    async def count() -> None:
        nonlocal turns
        while True:
            await asyncio.sleep(0)
            turns += 1

    counting = asyncio.create_task(count())
    found = await offered("@file5", tmp_path)
    counting.cancel()

    assert len(found) == 50
    assert turns > 20  # one that waits for the disk itself turns twice
