"""The input in an editor of the user's, and the clipboard."""

from __future__ import annotations

import base64
import os
import shlex
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.cli.interactive.screen_scene import ENTER, desk_with, folder, paste

from loopwright.cli.exit_codes import ExitCode
from loopwright.cli.interactive.clipboard import copy_sequence
from loopwright.testing import Reply, ScriptedModel

__all__ = ["folder"]

CTRL_X_CTRL_E, CTRL_G = "\x18\x05", "\x07"

Edits = Callable[[str], None]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="programs of Unix")


@pytest.fixture
def edits_with(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Edits:
    """Has `VISUAL` name a program that does what a script says with the text in the file `f`."""

    def name(script: str) -> None:
        file = tmp_path / "an editor.py"
        file.write_text(f"import os, pathlib, sys, time\nf = pathlib.Path(sys.argv[-1])\n{script}")
        monkeypatch.setenv("VISUAL", shlex.join([sys.executable, str(file), "--wait"]))

    return name


@pytest.mark.parametrize("keys", [CTRL_X_CTRL_E, CTRL_G], ids=["Ctrl-X Ctrl-E", "Ctrl-G"])
async def test_the_input_is_what_the_editor_made_of_it(
    folder: Path, edits_with: Edits, keys: str
) -> None:
    edits_with("f.write_text(f.read_text().upper() + '\\nand more\\n')")
    model = ScriptedModel([Reply("Yes.")])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type("one" + keys)
        await desk.until(lambda: desk.input() == "ONE\nand more")
        desk.type(ENTER)
        await desk.reads("Yes.")

        assert desk.asked() == ["ONE\nand more"]


async def test_what_was_pasted_is_unfolded_in_the_editor(folder: Path, edits_with: Edits) -> None:
    edits_with("f.write_text(f.read_text().replace('line 7', 'line seven'))")
    long = "\n".join([f"line {n}" for n in range(30)])
    model = ScriptedModel([Reply("Yes.")])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type(paste(long))
        await desk.sees("[pasted 1: 30 lines]")
        desk.type(CTRL_X_CTRL_E)

        await desk.until(lambda: desk.input() == long.replace("line 7", "line seven"))


async def test_an_editor_that_fails_changes_nothing(folder: Path, edits_with: Edits) -> None:
    edits_with("f.write_text('gone'); sys.exit(3)")

    async with desk_with(ScriptedModel([]), folder) as desk:
        await desk.idle()
        desk.type("one" + CTRL_G)
        await desk.reads("ended with code 3; the input is as it was")

        assert desk.input() == "one"


@pytest.mark.parametrize(
    ("visual", "said"),
    [
        ("", "no editor is known"),
        ("no-such-editor -x", "VISUAL names 'no-such-editor'"),
        ("'open", "VISUAL cannot be read"),
    ],
)
async def test_an_editor_that_is_not_there_is_an_error(
    folder: Path, monkeypatch: pytest.MonkeyPatch, visual: str, said: str
) -> None:
    monkeypatch.setenv("VISUAL", visual)
    monkeypatch.delenv("EDITOR", raising=False)

    async with desk_with(ScriptedModel([]), folder) as desk:
        await desk.idle()
        desk.type("one" + CTRL_G)
        await desk.reads(said)

        assert desk.input() == "one"


async def test_leaving_ends_the_editor_and_its_file_is_gone(
    folder: Path,
    edits_with: Edits,
    tmp_path: Path,
) -> None:
    told = tmp_path / "told"
    edits_with(
        f"t = pathlib.Path({str(told)!r})\n"
        "t.with_suffix('.new').write_text(f'{os.getpid()} {f}')\n"
        "t.with_suffix('.new').rename(t)\ntime.sleep(300)"
    )

    async with desk_with(ScriptedModel([]), folder) as desk:
        await desk.idle()
        desk.type("one" + CTRL_G)
        await desk.until(told.exists)
        desk.conversation.screen.leave()

        assert await desk.ends() == ExitCode.DONE
    pid, file = told.read_text().split(" ", 1)
    assert not os.path.exists(os.path.dirname(file))
    with pytest.raises(ProcessLookupError):
        os.kill(int(pid), 0)


async def test_the_last_reply_is_given_to_the_terminals_clipboard(folder: Path) -> None:
    model = ScriptedModel([Reply("One."), Reply("Two – ‹2›.")])

    async with desk_with(model, folder) as desk:
        await desk.idle()
        desk.type("/copy" + ENTER)
        await desk.reads("there is no reply to copy yet")
        for answer in ("One.", "Two"):
            desk.type("Go." + ENTER)
            await desk.reads(answer)
            await desk.idle()
        desk.type("/copy" + ENTER)
        await desk.reads("the last reply, 10 characters, is on the clipboard")

        encoded = base64.b64encode("Two – ‹2›.".encode()).decode()
        assert f"\x1b]52;c;{encoded}\x07" in desk.written.getvalue()


def test_what_would_act_where_it_is_pasted_is_not_copied() -> None:
    sequence = copy_sequence("a\x1b[201~\r\n\tb\x9b\x07")

    encoded = sequence.removeprefix("\x1b]52;c;").removesuffix("\x07")
    assert base64.b64decode(encoded).decode() == "a[201~\n\tb"
