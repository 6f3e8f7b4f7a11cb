"""The interactive mode on a terminal made of a pipe and a string, with a scripted model behind it."""

from __future__ import annotations

import asyncio
import io
import re
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from prompt_toolkit.data_structures import Size
from prompt_toolkit.input import PipeInput, create_pipe_input

from loopwright.cli.bench.setting_up import set_up
from loopwright.cli.exit_codes import ExitCode
from loopwright.cli.interactive.inline import OneWriteOutput
from loopwright.cli.interactive.run import Conversation
from loopwright.cli.live.session import LiveSession
from loopwright.cli.options import RunOptions
from loopwright.messages import UserMessage
from loopwright.models import default_models
from loopwright.testing import ScriptedModel
from loopwright.tools.terminal_text import plain_text

TIMEOUT_SECONDS = 20.0
"""Far beyond what anything here takes."""

ENTER, ESCAPE, ALT_ENTER, ALT_UP = "\r", "\x1b", "\x1b\r", "\x1b\x1b[A"
CTRL_C, CTRL_D, CTRL_J, CTRL_O, CTRL_R, CTRL_T = "\x03", "\x04", "\n", "\x0f", "\x12", "\x14"
DOWN, SHIFT_TAB, TAB, UP = "\x1b[B", "\x1b[Z", "\t", "\x1b[A"


def paste(text: str) -> str:
    """What a terminal sends for a paste."""
    return f"\x1b[200~{text}\x1b[201~"


@dataclass
class Desk:
    """A user before the terminal."""

    conversation: Conversation
    model: ScriptedModel
    written: io.StringIO
    size: list[int]
    _pipe: PipeInput
    _holding: asyncio.Task[ExitCode]
    lives: list[LiveSession] = field(default_factory=list[LiveSession])

    @property
    def live(self) -> LiveSession:
        return self.lives[-1]

    def type(self, keys: str) -> None:
        self._pipe.send_text(keys)

    def hang_up(self) -> None:
        self._pipe.close()

    def rows(self) -> list[str]:
        """The live area as it was drawn last."""
        shown = self.conversation.screen.app.renderer.last_rendered_screen
        if shown is None:
            return []
        return [
            "".join(shown.data_buffer[y][x].char for x in range(self.size[0])).rstrip()
            for y in range(shown.height)
        ]

    def drawn(self) -> str:
        return "\n".join(self.rows())

    def printed(self) -> str:
        """All that was ever written, as plain text."""
        return plain_text(re.sub(r"\x1b[78]", "", self.written.getvalue()).replace("\r\n", "\n"))

    def input(self) -> str:
        return self.conversation.screen.editor.text

    def asked(self) -> list[str]:
        """What the user said in the model's last request."""
        messages = self.model.requests[-1].context.messages
        return [message.text for message in messages if isinstance(message, UserMessage)]

    async def until(self, what: Callable[[], Any]) -> None:
        """Return when *what* holds."""
        end = time.monotonic() + TIMEOUT_SECONDS
        while not what():
            if self._holding.done() and not what():
                self._holding.result()
                raise AssertionError(f"it ended before that, having printed:\n{self.printed()}")
            assert time.monotonic() < end, (
                f"in vain; drawn:\n{self.drawn()}\nprinted:\n{self.printed()}"
            )
            await asyncio.sleep(0.005)

    async def sees(self, text: str) -> None:
        """Return when *text* stands in the live area."""
        await self.until(lambda: text in self.drawn())

    async def reads(self, text: str) -> None:
        """Return when *text* was printed above it."""
        await self.until(lambda: text in self.printed())

    async def idle(self) -> None:
        """Return when nothing goes on and the input is shown."""
        await self.until(
            lambda: self.lives and not self.live.working and "ask something" in self.drawn()
        )

    async def ends(self) -> ExitCode:
        """Return when the program has ended, with its exit code."""
        async with asyncio.timeout(TIMEOUT_SECONDS):
            return await self._holding


@asynccontextmanager
async def desk_with(
    model: ScriptedModel,
    folder: Path,
    *,
    columns: int = 80,
    rows: int = 24,
    history: Path | None = None,
    session: str | None = None,
    first_prompt: str = "",
    tools: Iterable[str] | None = None,
    keep: bool = True,
    setting_up: Callable[[], Any] | None = None,
    again: Sequence[str] = (),
    named_model: str | None = None,
) -> AsyncIterator[Desk]:
    """*setting_up* is awaited before the session is opened."""
    lives: list[LiveSession] = []

    async def open_session(note: Callable[[str], object]) -> LiveSession:
        if setting_up is not None:
            await setting_up()
        models = default_models()
        models.add(model.provider)
        options = RunOptions(
            model="scripted/scripted",
            tools=None if tools is None else tuple(tools),
            find_context_files=False,
        )
        bench = await set_up(options, folder, note=note, models=models)
        lives.append(await LiveSession.start(bench, session_id=session, keep=keep))
        return lives[-1]

    size = [columns, rows]
    written = io.StringIO()
    output = OneWriteOutput(
        written, lambda: Size(rows=size[1], columns=size[0]), term="xterm", enable_cpr=False
    )
    with create_pipe_input() as pipe:
        conversation = Conversation(
            folder,
            open_session,
            history=history,
            input=pipe,
            output=output,
            first_prompt=first_prompt,
            again=again,
            model=named_model,
        )
        holding = asyncio.create_task(conversation.hold())
        desk = Desk(conversation, model, written, size, pipe, holding, lives)
        try:
            yield desk
        finally:
            if not holding.done():
                conversation.screen.leave()
                async with asyncio.timeout(TIMEOUT_SECONDS):
                    await asyncio.wait({holding})
    if not holding.cancelled() and holding.exception() is None:
        holding.result()


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The project of a user who has set up nothing."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("LOOPWRIGHT_SESSION_DIR", str(tmp_path / "sessions"))
    monkeypatch.delenv("LOOPWRIGHT_HOME", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    made = tmp_path / "project"
    made.mkdir()
    monkeypatch.chdir(made)
    return made
