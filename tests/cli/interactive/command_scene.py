"""A real session of a scripted model, and a screen that is a list of what was said on it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from loopwright.cli.bench.setting_up import set_up
from loopwright.cli.interactive.commands import run_command
from loopwright.cli.interactive.screen import PickItem
from loopwright.cli.live.session import LiveSession
from loopwright.cli.options import RunOptions
from loopwright.models import Model, default_models
from loopwright.testing import Reply, ScriptedModel

Start = Callable[..., Awaitable["Front"]]


class ListScreen:
    """A `Screen` whose user answers as the test says: the beginning of a label, or None for Esc."""

    def __init__(self) -> None:
        self.typed: list[str] = []
        self.settled = 0
        self.notes: list[str] = []
        self.errors: list[tuple[str, str | None]] = []
        self.answers: list[str | None] = []
        """Taken in order by `pick`, `ask_text` and `confirm` ("yes" is a yes)."""
        self.picks: list[tuple[str, list[PickItem], int]] = []
        self.asked: list[str] = []
        self.input = ""
        self.redraws = 0
        self.theme = ""
        self.thinking_toggles = 0
        self.left = False
        self.copied: list[str] = []

    def said(self, text: str) -> None:
        self.typed.append(text)

    async def settle_unfinished(self) -> None:
        self.settled += 1

    def note(self, text: str) -> None:
        self.notes.append(text)

    def error(self, message: str, hint: str | None = None) -> None:
        self.errors.append((message, hint))

    async def pick(
        self, title: str, items: Sequence[PickItem], *, selected: int = 0
    ) -> PickItem | None:
        self.picks.append((title, list(items), selected))
        answer = self.answers.pop(0)
        if answer is None:
            return None
        if not answer:
            return items[selected]
        return next(item for item in items if item.label.startswith(answer))

    async def ask_text(self, title: str, initial: str = "") -> str | None:
        self.asked.append(f"{title}: {initial}")
        return self.answers.pop(0)

    async def confirm(self, question: str) -> bool:
        self.asked.append(question)
        return self.answers.pop(0) == "yes"

    def set_input(self, text: str) -> None:
        self.input = text

    def copy(self, text: str) -> None:
        self.copied.append(text)

    def redraw(self) -> None:
        self.redraws += 1

    def set_theme(self, name: str) -> None:
        self.theme = name

    def toggle_thinking(self) -> None:
        self.thinking_toggles += 1

    def leave(self) -> None:
        self.left = True

    @property
    def labels(self) -> list[str]:
        """Of the last list."""
        return [item.label for item in self.picks[-1][1]]


class Front:
    """What stands between a user and a session."""

    def __init__(self, live: LiveSession, model: ScriptedModel) -> None:
        self.live = live
        self.model = model
        self.screen = ListScreen()

    async def type(self, line: str, *answers: str | None) -> bool:
        """Give *line* to the commands; *answers* are to what they ask. False: it is text."""
        self.screen.answers = list(answers)
        was_command = await run_command(line, self.live, self.screen)
        assert not self.screen.answers, f"nobody asked for {self.screen.answers}"
        return was_command


SECOND = Model(
    "toy", "second", "scripted", context_window=8_000, thinking_levels={"low": "l", "max": "m"}
)


@asynccontextmanager
async def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Start]:
    """Starts sessions in one project of a user who has set up nothing.

    `await start("Yes.", "No.")` is one whose model says that. Beside `scripted/scripted` it knows
    `toy/second`.
    """
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "HOME"):
        folder = tmp_path / name.lower()
        folder.mkdir()
        monkeypatch.setenv(name, str(folder))
    monkeypatch.setenv("LOOPWRIGHT_SESSION_DIR", str(tmp_path / "sessions"))
    monkeypatch.delenv("LOOPWRIGHT_MODEL", raising=False)
    project = tmp_path / "project"
    project.mkdir(exist_ok=True)
    monkeypatch.chdir(project)
    opened: list[LiveSession] = []

    async def start(
        *replies: Reply | str, folder: Path | None = None, session_id: str | None = None
    ) -> Front:
        script = [Reply(one) if isinstance(one, str) else one for one in replies]
        model = ScriptedModel(script)
        models = default_models()
        models.add(model.provider)
        models.add(ScriptedModel([], model=SECOND).provider)
        bench = await set_up(
            RunOptions(model="scripted/scripted"), folder or project, models=models
        )
        live = await LiveSession.start(bench, session_id=session_id)
        opened.append(live)
        return Front(live, model)

    yield start
    for live in opened:
        await live.aclose()
