"""A line behind `!`: a command that the user runs, and what the model and the session know of it."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.cli.interactive.screen_scene import (
    ALT_UP,
    CTRL_C,
    ENTER,
    ESCAPE,
    Desk,
    desk_with,
    folder,
)
from tests.cli.interactive.test_screen_resume import left_waiting

from loopwright.cli.live.session import LiveSession
from loopwright.models import Context
from loopwright.session.entries import MessageEntry
from loopwright.session.formats.pi_messages import BashExecution
from loopwright.testing import Reply, ScriptedModel

__all__ = ["folder"]


async def kept(live: LiveSession) -> list[BashExecution]:
    """The commands in the session."""
    entries = [entry for entry in await live.entries() if isinstance(entry, MessageEntry)]
    return [entry.message for entry in entries if isinstance(entry.message, BashExecution)]


async def ran(desk: Desk, line: str, shows: str) -> None:
    """Return when the command *line* has ended and *shows* was printed."""
    desk.type(line + ENTER)
    await desk.reads(shows)
    await desk.idle()


async def test_what_it_printed_is_kept_in_the_session_and_told_with_the_next_prompt(
    folder: Path,
) -> None:
    async with desk_with(ScriptedModel([Reply("Read.")]), folder) as desk:
        await desk.idle()
        await ran(desk, "!echo one; echo two >&2; pwd", "two")
        desk.type("what was that" + ENTER)
        await desk.reads("Read.")

        one, said = desk.asked()
        [command] = await kept(desk.live)
        assert "The user ran `echo one; echo two >&2; pwd`" in one
        assert said == "what was that"
        assert command.output == f"one\ntwo\n{folder}\n"
        assert (command.exit_code, command.cancelled, command.truncated) == (0, False, False)


async def test_behind_two_marks_the_model_is_not_told_and_the_session_keeps_it(
    folder: Path,
) -> None:
    async with desk_with(ScriptedModel([Reply("Read.")]), folder) as desk:
        await desk.idle()
        await ran(desk, "!!echo $((6 * 7))", "42")
        desk.type("hello" + ENTER)
        await desk.reads("Read.")

        [command] = await kept(desk.live)
        assert desk.asked() == ["hello"]
        assert command.exclude_from_context


@pytest.mark.parametrize("mode", ["read-only", "ask"])
async def test_no_mode_and_no_rule_stands_in_the_way_of_the_user(folder: Path, mode: str) -> None:
    async with desk_with(ScriptedModel([]), folder) as desk:
        await desk.idle()
        desk.live.permission_mode = mode  # type: ignore[assignment]
        await ran(desk, "!touch made", "✓ ! touch made")

    assert (folder / "made").exists()


async def test_the_keys_of_vendors_are_cut_out(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "sk-ant-abcdefghijklmnopqrstuvwxyz"
    monkeypatch.setenv("ANTHROPIC_API_KEY", key)
    (folder / "notes.txt").write_text(f"it is {key}\n")

    async with desk_with(ScriptedModel([Reply("Read.")]), folder) as desk:
        await desk.idle()
        await ran(desk, "!cat notes.txt", "ANTHROPIC_API_KEY, not shown")
        desk.type("go" + ENTER)
        await desk.reads("Read.")

        assert key not in "".join(desk.asked())
        assert key not in desk.written.getvalue()
        assert key not in (await kept(desk.live))[0].output


async def test_of_long_output_the_end_is_kept_and_all_of_it_is_in_a_file(folder: Path) -> None:
    async with desk_with(ScriptedModel([]), folder, rows=40) as desk:
        await desk.idle()
        await ran(desk, "!seq 1 50000", "all of it is in")

        [command] = await kept(desk.live)
        path = Path(command.full_output_path or "")
        whole = path.read_text()
        path.unlink()
        assert command.truncated
        assert command.output.endswith("\n49999\n50000")
        assert command.output.count("\n") <= 2_000
        assert whole.count("\n") == 50_000
        assert "  50000\n" in desk.printed()
        assert "  49900\n" not in desk.printed()


async def test_control_characters_that_it_prints_reach_no_terminal(folder: Path) -> None:
    async with desk_with(ScriptedModel([]), folder) as desk:
        await desk.idle()
        await ran(desk, r"!printf 'a\033]0;title\007\342\200\256b\n'", "a\\u202eb")

        assert "\x1b]0;title" not in desk.written.getvalue()


@pytest.mark.parametrize("key", [ESCAPE, CTRL_C], ids=["Esc", "Ctrl-C"])
async def test_it_is_stopped_by_a_key_and_what_it_printed_is_kept(folder: Path, key: str) -> None:
    async with desk_with(ScriptedModel([]), folder) as desk:
        await desk.idle()
        desk.type("!echo begun; sleep 600" + ENTER)
        await desk.sees("\n  begun")
        desk.type(key)
        await desk.reads("· stopped")
        await desk.until(lambda: not desk.live.working)

        [command] = await kept(desk.live)
        assert command.cancelled
        assert command.output == "begun\n"


async def test_what_is_said_while_it_runs_is_sent_behind_it(folder: Path) -> None:
    async with desk_with(ScriptedModel([Reply("Read.")]), folder) as desk:
        await desk.idle()
        desk.type("!until test -e go; do sleep 0.02; done; echo done" + ENTER)
        await desk.sees("running your command")
        desk.type("and now" + ENTER)
        await desk.sees("queued: and now")
        (folder / "go").touch()
        await desk.reads("Read.")

        assert desk.asked()[-1] == "and now"
        assert "```\ndone\n" in desk.asked()[0]


async def test_while_it_runs_the_screen_says_what_keys_do_then(folder: Path) -> None:
    async with desk_with(ScriptedModel([]), folder, columns=100) as desk:
        await desk.idle()
        desk.type("!sleep 60" + ENTER)
        await desk.sees("said when your command has ended; Esc stops it")
        during = desk.drawn()
        desk.type(ESCAPE)
        await desk.idle()

        assert "Enter says it afterwards · Esc stops the command" in during
        assert "steer" not in during
        assert "Enter sends" in desk.drawn()


async def test_while_the_model_works_it_waits_in_the_input(folder: Path) -> None:
    hold = asyncio.Event()

    async def wait(context: Context) -> Reply:
        await hold.wait()
        return Reply("Late.")

    async with desk_with(ScriptedModel([wait]), folder) as desk:
        await desk.idle()
        desk.type("go" + ENTER)
        await desk.sees("waiting for the model")
        desk.type("!touch made" + ENTER)
        await desk.reads("has to wait")
        await desk.sees("> !touch made")
        hold.set()
        await desk.reads("Late.")
        await desk.until(lambda: not desk.conversation.screen.working)
        assert not (folder / "made").exists()
        desk.type(ENTER)
        await desk.reads("✓ ! touch made")

    assert (folder / "made").exists()


@pytest.mark.parametrize("line", [" !touch made", "why! touch made"])
async def test_with_anything_in_front_it_is_text(folder: Path, line: str) -> None:
    async with desk_with(ScriptedModel([Reply("Read.")]), folder) as desk:
        await desk.idle()
        desk.type(line + ENTER)
        await desk.reads("Read.")

        assert desk.asked() == [line]
    assert not (folder / "made").exists()


async def test_a_prompt_out_of_the_command_line_is_never_run(folder: Path) -> None:
    model = ScriptedModel([Reply("Read.")])

    async with desk_with(model, folder, first_prompt="!touch made") as desk:
        await desk.reads("Read.")

        assert desk.asked() == ["!touch made"]
    assert not (folder / "made").exists()


async def test_a_mark_alone_says_what_is_missing(folder: Path) -> None:
    async with desk_with(ScriptedModel([]), folder) as desk:
        await desk.idle()
        desk.type("!! " + ENTER)
        await desk.reads("error: nothing stands behind the !!")

        assert desk.live.info is None


async def test_what_goes_on_in_the_background_is_told(folder: Path) -> None:
    async with desk_with(ScriptedModel([]), folder) as desk:
        await desk.idle()
        await ran(desk, "!sleep 600 > file & echo $! > child", "still running in the background")
        group = desk.printed().partition("kill -- -")[2].partition(" ")[0]
        await ran(desk, f"!!kill -- -{group}", f"✓ !! kill -- -{group}")


async def test_leaving_ends_it_and_it_is_kept(folder: Path) -> None:
    async with desk_with(ScriptedModel([]), folder) as desk:
        await desk.idle()
        desk.type("!echo begun; sleep 600" + ENTER)
        await desk.sees("\n  begun")
        info = desk.live.info
        assert info is not None
        desk.conversation.screen.leave()
        await desk.ends()
    async with desk_with(ScriptedModel([]), folder, session=info.id) as later:
        await later.reads("✗ ! echo begun; sleep 600 · stopped")

        [command] = await kept(later.live)
        assert command.cancelled


async def test_a_session_with_one_is_exported_in_all_forms_and_goes_on(folder: Path) -> None:
    async with desk_with(ScriptedModel([Reply("Read.")]), folder) as desk:
        await desk.idle()
        await ran(desk, "!echo $((6 * 7))", "42")
        desk.type("hello" + ENTER)
        await desk.reads("Read.")
        live = desk.live
        forms = {
            ending: (await live.export(folder / f"it.{ending}")).read_text()
            for ending in ("md", "html", "json")
        }
        outline = await live.outline()

    assert all("echo $((6 * 7))" in text and "42" in text for text in forms.values())
    assert '"bashExecution"' in forms["json"]
    assert len(outline) == 3


async def test_behind_something_unfinished_it_is_not_run(folder: Path) -> None:
    session = await left_waiting(folder, "one")

    async with desk_with(ScriptedModel([]), folder) as desk:
        await desk.idle()
        desk.type(f"/resume {session}" + ENTER)
        await desk.sees("take it up")
        desk.type(ESCAPE)
        await desk.reads("it stays unfinished")
        await desk.idle()
        desk.type("!touch made" + ENTER)
        await desk.reads("has an unfinished run")
        await desk.reads("/resume asks what is to become of it")

    assert not (folder / "made").exists()


async def test_commands_taken_back_together_with_text_are_no_command(folder: Path) -> None:
    opened = asyncio.Event()

    async with desk_with(ScriptedModel([Reply("Read.")]), folder, setting_up=opened.wait) as desk:
        desk.type("!touch made" + ENTER)
        await desk.sees("queued: !touch made")
        desk.type("and then" + ENTER)
        await desk.sees("queued: and then")
        desk.type(ALT_UP)
        await desk.until(lambda: desk.input() == " !touch made\n\nand then")
        opened.set()
        await desk.reads("/help lists commands")
        desk.type(ENTER)
        await desk.reads("Read.")

        assert await kept(desk.live) == []
    assert not (folder / "made").exists()


async def test_a_command_taken_back_alone_is_still_one(folder: Path) -> None:
    opened = asyncio.Event()

    async with desk_with(ScriptedModel([]), folder, setting_up=opened.wait) as desk:
        desk.type("!touch made" + ENTER)
        await desk.sees("queued: !touch made")
        desk.type(ALT_UP)
        await desk.until(lambda: desk.input() == "!touch made")
        opened.set()
        await desk.reads("/help lists commands")
        await ran(desk, "", "✓ ! touch made")

    assert (folder / "made").exists()


async def test_a_prompt_out_of_the_command_line_is_text_also_when_it_comes_back(
    folder: Path,
) -> None:
    session = await left_waiting(folder, "one")

    async with desk_with(
        ScriptedModel([]), folder, session=session, first_prompt="!touch made"
    ) as desk:
        await desk.sees("no and stop")
        desk.type(ESCAPE)
        await desk.until(lambda: desk.input() == " !touch made")
