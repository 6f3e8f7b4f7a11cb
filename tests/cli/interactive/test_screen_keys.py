"""Keys and what becomes of what is typed with them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from tests.cli.interactive.screen_scene import (
    ALT_ENTER,
    ALT_UP,
    CTRL_C,
    CTRL_D,
    CTRL_J,
    CTRL_R,
    CTRL_T,
    DOWN,
    ENTER,
    ESCAPE,
    SHIFT_TAB,
    TAB,
    UP,
    desk_with,
    folder,
    paste,
)

from loopwright.cli.exit_codes import ExitCode
from loopwright.cli.interactive.inline import ESCAPE_SECONDS, ESCAPE_SECONDS_OVER_SSH
from loopwright.models import Context
from loopwright.testing import Call, Reply, ScriptedModel

__all__ = ["folder"]

NAP = Reply("I wait.", calls=[Call("bash", {"command": "sleep 60"})])


async def test_enter_sends_and_the_answer_is_printed_above(folder: Path) -> None:
    model = ScriptedModel([Reply("It is blue.")])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type("Which colour is it?" + ENTER)
        await desk.reads("It is blue.")
        await desk.idle()

        assert desk.asked() == ["Which colour is it?"]
        assert "It is blue." not in desk.drawn()
        assert desk.input() == ""


@pytest.mark.parametrize(
    "keys", [CTRL_J, ALT_ENTER, "\\" + ENTER], ids=["Ctrl-J", "Alt-Enter", "backslash"]
)
async def test_a_new_line_is_typed_and_nothing_sent(folder: Path, keys: str) -> None:
    model = ScriptedModel([Reply("Yes.")])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type("one" + keys + "two")
        await desk.sees("  two")
        desk.type(ENTER)
        await desk.reads("Yes.")

        assert desk.asked() == ["one\ntwo"]


async def test_a_paste_of_many_lines_waits_for_enter(folder: Path) -> None:
    model = ScriptedModel([Reply("Yes.")])
    pasted = "\r\n".join(f"line {number}" for number in range(200))

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type(paste(pasted))
        await desk.sees("> [pasted 1: 200 lines]")
        before = len(model.requests)
        shown = len(desk.rows())
        desk.type(ENTER)
        await desk.reads("Yes.")

        assert before == 0
        assert shown < 16
        assert desk.asked() == [pasted.replace("\r\n", "\n")]


async def test_what_is_typed_before_the_session_is_open_is_kept_and_sent(folder: Path) -> None:
    model = ScriptedModel([Reply("First."), Reply("Second.")])
    ready = asyncio.Event()

    async with desk_with(model, folder, setting_up=ready.wait) as desk:
        await desk.sees("starting")
        desk.type("early" + ENTER)
        await desk.sees("queued: early")
        desk.type("half")
        await desk.sees("> half")
        ready.set()
        await desk.reads("First.")

        assert desk.asked() == ["early"]
        assert desk.input() == "half"


async def test_enter_steers_a_run_and_is_shown_as_queued_until_heard(folder: Path) -> None:
    go_on = asyncio.Event()

    async def second(context: Context) -> Reply:
        return Reply("I heard.")

    async def first(context: Context) -> Reply:
        await go_on.wait()
        return Reply("", calls=[Call("ls", {"path": "."})])

    model = ScriptedModel([first, second])
    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type("begin" + ENTER)
        await desk.until(lambda: model.requests)
        desk.type("be brief" + ENTER)
        await desk.sees("queued: be brief")
        go_on.set()
        await desk.reads("I heard.")
        await desk.idle()

        assert desk.asked() == ["begin", "be brief"]
        assert "queued" not in desk.drawn()


async def test_alt_enter_is_said_when_the_run_would_end(folder: Path) -> None:
    go_on = asyncio.Event()

    async def first(context: Context) -> Reply:
        await go_on.wait()
        return Reply("Done.")

    model = ScriptedModel([first, Reply("And that.")])
    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type("begin" + ENTER)
        await desk.until(lambda: model.requests)
        desk.type("then that" + ALT_ENTER)
        await desk.sees("after: then that")
        go_on.set()
        await desk.reads("And that.")

        assert len(model.requests) == 2
        assert desk.asked() == ["begin", "then that"]


async def test_alt_up_takes_queued_messages_back_into_the_input(folder: Path) -> None:
    model = ScriptedModel([NAP, Reply("Never asked.")])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.live.permission_mode = "yolo"
        desk.type("begin" + ENTER)
        await desk.sees("running bash")
        desk.type("one" + ENTER + "two" + ALT_ENTER)
        await desk.sees("after: two")
        desk.type("three" + ALT_UP)
        await desk.until(lambda: desk.input() == "one\n\ntwo\n\nthree")
        await desk.until(lambda: "after:" not in desk.drawn())

        assert desk.live.queued() == []
        assert desk.live.working


async def test_escape_interrupts_and_gives_back_what_was_queued(folder: Path) -> None:
    model = ScriptedModel([NAP])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.live.permission_mode = "yolo"
        desk.type("begin" + ENTER)
        await desk.sees("running bash")
        desk.type("do not forget" + ENTER)
        await desk.sees("queued: do not forget")
        desk.type(ESCAPE)
        await desk.until(lambda: not desk.live.working)
        await desk.until(lambda: desk.input() == "do not forget")

        assert len(model.requests) == 1
        assert desk.live.unfinished is None


async def test_ctrl_c_clears_the_input_and_a_second_one_leaves(folder: Path) -> None:
    model = ScriptedModel([])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type("never mind")
        await desk.sees("never mind")
        desk.type(CTRL_C)
        await desk.sees("Ctrl-C again leaves")
        cleared = desk.input()
        desk.type(CTRL_C)
        code = await desk.ends()

        assert cleared == ""
        assert code == ExitCode.DONE


async def test_typing_between_two_ctrl_c_keeps_the_program(folder: Path) -> None:
    model = ScriptedModel([])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type(CTRL_C)
        await desk.sees("Ctrl-C again leaves")
        desk.type("x" + CTRL_C)
        await desk.until(lambda: desk.input() == "")
        desk.type("still here")
        await desk.sees("still here")


async def test_ctrl_c_interrupts_a_run_before_it_leaves(folder: Path) -> None:
    model = ScriptedModel([NAP])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.live.permission_mode = "yolo"
        desk.type("begin" + ENTER)
        await desk.sees("running bash")
        desk.type(CTRL_C)
        await desk.until(lambda: not desk.live.working)
        await desk.idle()


async def test_ctrl_d_leaves_only_with_an_empty_input(folder: Path) -> None:
    model = ScriptedModel([])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type("ab" + "\x01" + CTRL_D)
        await desk.until(lambda: desk.input() == "b")
        desk.type(CTRL_D)
        await desk.until(lambda: desk.input() == "")
        desk.type(CTRL_D)

        assert await desk.ends() == ExitCode.DONE


async def test_leaving_in_the_middle_of_a_run_stops_it_first(folder: Path) -> None:
    model = ScriptedModel([NAP])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.live.permission_mode = "yolo"
        desk.type("begin" + ENTER)
        await desk.sees("running bash")
        info = desk.live.info
        desk.type(CTRL_D)
        await desk.ends()

    assert info is not None
    async with desk_with(model, folder, session=info.id) as again:
        await again.idle()

        assert again.live.unfinished is None
        assert "interrupted" in again.printed() or "aborted" in again.printed().lower()


async def test_history_is_searched_and_walked_and_outlives_the_program(folder: Path) -> None:
    file = folder / "kept" / "history.jsonl"
    async with desk_with(ScriptedModel([Reply("."), Reply(".")]), folder, history=file) as desk:
        await desk.idle()
        for prompt in ("the first one", "a second"):
            desk.type(prompt + ENTER)
            await desk.until(lambda said=prompt: desk.model.requests and said in desk.asked())
            await desk.idle()

    async with desk_with(ScriptedModel([]), folder, history=file) as desk:
        await desk.idle()
        desk.type(UP)
        await desk.until(lambda: desk.input() == "a second")
        desk.type(CTRL_C)
        await desk.until(lambda: desk.input() == "")
        desk.type(CTRL_R + "first")
        await desk.sees("history: first")
        desk.type(ENTER)
        await desk.until(lambda: desk.input() == "the first one")

        assert file.stat().st_mode & 0o777 == 0o600


async def test_shift_tab_goes_through_the_permission_modes(folder: Path) -> None:
    async with desk_with(ScriptedModel([]), folder) as desk:
        await desk.idle()
        seen = [desk.live.permission_mode]
        for _ in range(4):
            desk.type(SHIFT_TAB)
            await desk.until(lambda: desk.live.permission_mode != seen[-1])
            seen.append(desk.live.permission_mode)
            await desk.sees(f"  {seen[-1]}")

    assert seen == ["ask", "auto-edit", "yolo", "read-only", "ask"]


async def test_ctrl_t_shows_thinking_and_folds_it_again(folder: Path) -> None:
    async with desk_with(ScriptedModel([]), folder) as desk:
        await desk.idle()
        desk.type(CTRL_T)
        await desk.sees("thinking is shown")
        shown = desk.conversation.screen.transcript.show_thinking
        desk.type(CTRL_T)
        await desk.sees("thinking is folded")

        assert shown
        assert not desk.conversation.screen.transcript.show_thinking


async def test_escape_closes_a_list_and_lets_the_run_go_on(folder: Path) -> None:
    model = ScriptedModel([NAP])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.live.permission_mode = "yolo"
        desk.type("begin" + ENTER)
        await desk.sees("running bash")
        desk.type("/permissions" + ENTER)
        await desk.sees("auto-edit")
        desk.type(ESCAPE)
        await desk.sees("steer it")

        assert desk.live.working


async def test_enter_sends_a_command_that_is_written_out_or_the_only_one_meant(
    folder: Path,
) -> None:
    async with desk_with(ScriptedModel([]), folder) as desk:
        await desk.idle()
        desk.type("/help")
        await desk.sees("> /help")
        desk.type(ENTER)
        await desk.reads("› /help\n")
        desk.type("/thinking")
        await desk.sees("thinking-display")
        desk.type(TAB + ENTER)  # chosen is what stands there
        await desk.reads("› /thinking\n")
        desk.type(ESCAPE)
        await desk.sees("> ask something")
        desk.type("/sess")
        await desk.sees("tell what is known")
        desk.type(TAB)
        await desk.until(lambda: desk.input() == "/session")
        desk.type(ENTER)
        await desk.reads("› /session\n")

        assert desk.input() == ""


async def test_enter_takes_a_file_that_is_chosen_and_sends_nothing(folder: Path) -> None:
    (folder / "notes.txt").write_text("x")

    model = ScriptedModel([])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type("see @not")
        await desk.sees("notes.txt")
        desk.type(DOWN + ENTER)
        await desk.until(lambda: desk.input() == "see @notes.txt")
        desk.type(" and")
        await desk.sees("> see @notes.txt and")

    assert model.requests == []


@pytest.mark.parametrize("wait_for_menu", [True, False])
async def test_tab_takes_the_only_file_there_is_and_nothing_is_left_to_choose(
    folder: Path, wait_for_menu: bool
) -> None:
    (folder / "note.txt").write_text("x")
    (folder / "other.txt").write_text("x")
    model = ScriptedModel([Reply("Yes.")])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        state = desk.conversation.screen.editor.buffer
        desk.type("see @no")
        if wait_for_menu:
            await desk.until(lambda: state.complete_state and state.complete_state.completions)
        desk.type(TAB)
        await desk.until(lambda: desk.input() == "see @note.txt")
        await desk.until(lambda: state.complete_state is None)
        desk.type(TAB + ENTER)
        await desk.reads("Yes.")

        assert desk.asked()[0].startswith("see @note.txt\n")


async def test_tab_in_the_menu_stays_with_the_only_one_that_an_arrow_chose(folder: Path) -> None:
    (folder / "note.txt").write_text("x")

    async with desk_with(ScriptedModel([]), folder) as desk:
        await desk.idle()
        state = desk.conversation.screen.editor.buffer
        desk.type("see @no")
        await desk.until(lambda: state.complete_state and state.complete_state.completions)
        desk.type(DOWN + TAB)

        await desk.until(lambda: state.complete_state is None)
        assert desk.input() == "see @note.txt"


async def test_a_file_that_is_not_there_is_told(folder: Path) -> None:
    async with desk_with(ScriptedModel([Reply("Yes.")]), folder) as desk:
        await desk.idle()
        desk.type("@missing.py look, @someone" + ENTER)
        await desk.reads("there is no file missing.py")
        await desk.reads("Yes.")

        assert "no file someone" not in desk.printed()


async def test_a_command_is_shown_before_what_it_says_and_text_only_once(folder: Path) -> None:
    async with desk_with(ScriptedModel([Reply("Hm.")]), folder) as desk:
        await desk.idle()
        desk.type("/permissions read-only" + ENTER)
        await desk.until(lambda: desk.live.permission_mode == "read-only")
        desk.type("/nonsense" + ENTER)
        await desk.reads("there is no command")
        desk.type("// a comment" + ENTER)
        await desk.reads("Hm.")

    printed = desk.printed()
    assert printed.index("› /permissions read-only") < printed.index("read-only", 200)
    assert printed.index("› /nonsense") < printed.index("there is no command /nonsense")
    assert printed.count("› // a comment") == 1


@pytest.mark.parametrize("times", [1, 2, 3])
async def test_escape_before_the_session_has_the_prompt_gives_it_back(
    folder: Path, times: int
) -> None:
    beginning = asyncio.Event()

    async def wait_forever() -> None:
        beginning.set()
        await asyncio.Event().wait()

    async with desk_with(ScriptedModel([Reply("Heard.")]), folder) as desk:
        await desk.idle()
        bring_up = desk.live.bench.bring_up
        desk.live.bench.bring_up = wait_forever
        desk.type("precious words" + ENTER)
        await beginning.wait()
        for _ in range(times):
            desk.conversation.screen.escape()
        await desk.until(lambda: desk.input() == "precious words")
        requests = len(desk.model.requests)
        desk.live.bench.bring_up = bring_up
        desk.type(ENTER)
        await desk.reads("Heard.")

    assert requests == 0
    assert desk.printed().count("stopped before it was sent") == 1


async def test_enter_and_ctrl_c_in_one_go_send_nothing(folder: Path) -> None:
    async with desk_with(ScriptedModel([]), folder) as desk:
        await desk.idle()
        desk.type("precious words" + ENTER + CTRL_C)
        await desk.until(lambda: desk.input() == "precious words")

        assert not desk.model.requests


async def test_waiting_for_a_run_that_was_cancelled_before_it_began_ends(folder: Path) -> None:
    async with desk_with(ScriptedModel([]), folder) as desk:
        await desk.idle()
        delivery = desk.conversation.screen.delivery
        delivery.say("never")
        run = delivery._run
        assert run is not None
        run.cancel()

        async with asyncio.timeout(5):
            await delivery.idle()

        assert not delivery.working


async def test_a_refused_prompt_comes_back_into_the_input(folder: Path) -> None:
    model = ScriptedModel([Reply("Hm.")])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.live.bench.agent.model = "scripted/scripted"

        async def refuse(*_: object, **__: object) -> None:
            from loopwright.errors import ConfigurationError

            raise ConfigurationError("no key for it", hint="set one")

        desk.live.bench.bring_up = refuse
        desk.type("precious words" + ENTER)
        await desk.reads("no key for it")
        await desk.until(lambda: desk.input() == "precious words")

        assert not model.requests


async def test_vi_editing_edits_asks_and_interrupts(folder: Path) -> None:
    settings = Path(folder.parent / "config" / "loopwright" / "settings.toml")
    settings.parent.mkdir(parents=True)
    settings.write_text('editing = "vi"\n')
    model = ScriptedModel([NAP])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type("one word")
        desk.type(ESCAPE)
        await desk.until(
            lambda: desk.conversation.screen.app.vi_state.input_mode == "vi-navigation"
        )
        desk.type("0dwAx" + ENTER)
        await desk.sees("bash needs your word")
        asked = desk.asked()
        desk.type("y")
        await desk.sees("running bash")
        desk.type(ESCAPE)
        await desk.until(lambda: not desk.live.working)

        assert asked == ["wordx"]


async def test_prompts_typed_in_a_rush_are_all_heard_in_their_order(folder: Path) -> None:
    model = ScriptedModel([Reply(f"Reply {number}.") for number in range(4)])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type("one" + ENTER + "two" + ENTER + "three" + ENTER)
        await desk.until(lambda: model.requests and desk.asked() == ["one", "two", "three"])
        await desk.idle()

        assert desk.input() == ""
        assert not desk.live.working


async def test_a_steering_message_that_comes_too_late_is_said_next(folder: Path) -> None:
    go_on = asyncio.Event()

    async def first(_context: Context) -> Reply:
        await go_on.wait()
        return Reply("First.")

    model = ScriptedModel([first, Reply("Second.")])
    async with desk_with(model, folder) as desk:
        await desk.idle()
        delivery = desk.conversation.screen.delivery
        steer = desk.live.steer

        async def late(text: str) -> object:
            while delivery._begun:
                await asyncio.sleep(0.001)
            return await steer(text)

        desk.live.steer = late  # type: ignore[method-assign, assignment]
        desk.type("begin" + ENTER)
        await desk.until(lambda: model.requests)
        delivery.say("and this")
        go_on.set()
        await desk.reads("Second.")

        assert desk.asked() == ["begin", "and this"]


async def test_case_114_reports_and_newer_keys_leave_a_run_alone(folder: Path) -> None:
    model = ScriptedModel([NAP])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.live.permission_mode = "yolo"
        desk.type("begin" + ENTER)
        await desk.sees("running bash")
        desk.type("one\x1b[O\x1b[I\x1b[13;2utwo\x1b]11;rgb:1e1e/1e1e/2e2e\x07\x1b[27;2;13~three")
        await desk.until(lambda: desk.input() == "one\ntwo\nthree")

        assert desk.live.working
        assert desk.live.queued() == []


@pytest.mark.parametrize(
    ("variable", "seconds"),
    [
        (None, ESCAPE_SECONDS),
        ("SSH_CONNECTION", ESCAPE_SECONDS_OVER_SSH),
        ("SSH_TTY", ESCAPE_SECONDS_OVER_SSH),
    ],
)
async def test_case_115_over_ssh_the_rest_of_a_key_is_waited_for_longer(
    folder: Path, monkeypatch: pytest.MonkeyPatch, variable: str | None, seconds: float
) -> None:
    for name in ("SSH_CONNECTION", "SSH_TTY"):
        monkeypatch.delenv(name, raising=False)
    if variable is not None:
        monkeypatch.setenv(variable, "somewhere")

    async with desk_with(ScriptedModel([]), folder) as desk:
        await desk.idle()

        assert desk.conversation.screen.app.ttimeoutlen == seconds


async def test_case_115_the_parts_of_a_key_may_come_apart(folder: Path) -> None:
    model = ScriptedModel([NAP])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.live.permission_mode = "yolo"
        desk.type("begin" + ENTER)
        await desk.sees("running bash")
        desk.conversation.screen.app.ttimeoutlen = 60  # the second part comes within the time
        desk.type("later\x1b")
        await desk.until(lambda: desk.input() == "later")
        desk.type("\r")
        await desk.sees("after: later")

        assert desk.live.working
        desk.conversation.screen.app.ttimeoutlen = ESCAPE_SECONDS
        desk.type(ESCAPE)
        await desk.until(lambda: not desk.live.working)
