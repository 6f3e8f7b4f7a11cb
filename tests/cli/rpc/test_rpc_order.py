"""The end of the input at every moment of what is going on, and commands behind a change of session.

The dialogue itself runs here, in a real session, so that a moment can be as short as one step of the
event loop.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.cli.rpc.client import COMMAND, OUTPUT
from tests.cli.rpc.test_rpc_hard_times import leave_a_call_waiting

from loopwright.cli.bench.setting_up import set_up
from loopwright.cli.live.session import LiveSession
from loopwright.cli.options import RunOptions
from loopwright.cli.rpc.dialogue import Dialogue
from loopwright.cli.rpc.line_reader import LineReader
from loopwright.cli.rpc.line_writer import LineWriter
from loopwright.messages import UserMessage
from loopwright.models import Models
from loopwright.session.session import Session
from loopwright.session.sqlite import SqliteStore
from loopwright.testing import Reply, ScriptedModel

if TYPE_CHECKING:
    from tests.cli.conftest import Program
    from tests.cli.rpc.conftest import Start

Line = dict[str, Any]
MOMENTS = [*range(8), 10, 13, 18, 27, 45, 90, 300]
"""Steps of the event loop. The last ones are behind the end of a run, but on a loaded machine."""


class Told(LineWriter):
    """Keeps what is told."""

    def __init__(self, fd: int) -> None:
        super().__init__(fd)
        self.lines: list[Line] = []
        self.more = asyncio.Condition()

    def put(self, line: bytes) -> Awaitable[object] | None:
        said = json.loads(line)
        OUTPUT.validate(said)
        self.lines.append(said)
        return super().put(line)

    def all(self, type: str, id: str | None = None) -> list[Line]:
        found = [line for line in self.lines if line["type"] == type]
        return [line for line in found if id is None or line["id"] == id]


Step = Line | int | str


class Script:
    """A client: commands, steps to let pass, and lines to wait for as `type` or `type:id`."""

    def __init__(self, told: Told, steps: list[Step]) -> None:
        self._told = told
        self._steps = list(steps)

    async def next(self) -> bytes | None:
        while self._steps:
            step = self._steps.pop(0)
            if isinstance(step, dict):
                COMMAND.validate(step)
                return json.dumps(step).encode()
            if isinstance(step, int):
                for _ in range(step):
                    await asyncio.sleep(0)
                continue
            type, _, id = step.partition(":")
            async with asyncio.timeout(60):
                while not self._told.all(type, id or None):
                    await asyncio.sleep(0.001)
        return None


class Talk:
    """Dialogues in the sessions of one folder."""

    def __init__(self, folder: Path, file: Path) -> None:
        self.folder = folder
        self.file = file

    async def __call__(self, *steps: Step, session: str | None = None) -> tuple[int, Told]:
        model = ScriptedModel([Reply("Yes.")] * 3)
        models = Models()
        models.add(model.provider)
        options = RunOptions(model=f"{model.model.provider}/{model.model.id}")
        bench = await set_up(options, self.folder, models=models)
        live = await LiveSession.start(bench, session_id=session)
        with open(os.devnull, "wb") as nowhere:
            told = Told(nowhere.fileno())
            dialogue = Dialogue(live, cast("LineReader", Script(told, list(steps))), told)
            try:
                code = await dialogue.run()
            finally:
                await live.aclose()
            dialogue.say_goodbye()
            await told.close(60)
        return int(code), told

    async def session(self, text: str = "first") -> str:
        """A new one, in which *text* was said."""
        _, told = await self(says("p", text), "run_end")
        return told.all("session")[-1]["id"]

    async def read(self, session: str) -> Session:
        async with await SqliteStore.open(self.file) as store:
            return await Session.read(store, session)


def says(id: str, text: str) -> Line:
    return {"id": id, "type": "prompt", "text": text}


def users(session: Session) -> list[str]:
    return [m.text for m in session.transcript() if isinstance(m, UserMessage)]


@pytest.fixture
def talk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Talk:
    for name in ("XDG_CONFIG_HOME", "XDG_DATA_HOME", "HOME"):
        monkeypatch.setenv(name, str(tmp_path / name.lower()))
    monkeypatch.setenv("LOOPWRIGHT_SESSION_DIR", str(tmp_path / "sessions"))
    folder = tmp_path / "project"
    folder.mkdir()
    (tmp_path / "sessions").mkdir()
    monkeypatch.chdir(folder)
    return Talk(folder, tmp_path / "sessions" / "sessions.db")


# -- ends ------------------------------------------------------------------------------------


@pytest.mark.parametrize("last", ["", '{"id":"2","type":"shutdown"}\n'])
@pytest.mark.parametrize("before", ["", '{"id":"0","type":"fork"}\n'])
def test_all_input_may_be_there_before_the_program_is(
    start: Start, program: Program, before: str, last: str
) -> None:
    start().run("first")
    said = before + '{"id":"1","type":"prompt","text":"x"}\n' + last

    finished = program.run("--mode", "rpc", "--continue", stdin=said.encode())

    lines = [json.loads(line) for line in finished.stdout.splitlines()]
    answered = [line["id"] for line in lines if line["type"] == "response"]
    assert (finished.returncode, finished.stderr) == (0, "")
    assert answered == [json.loads(line)["id"] for line in said.splitlines()]
    assert [line["stopReason"] for line in lines if line["type"] == "run_end"] == ["aborted"]


@pytest.mark.parametrize(("kept", "ends"), [(True, "input"), (False, "shutdown")])
async def test_the_end_may_come_at_every_moment_of_a_run(talk: Talk, kept: bool, ends: str) -> None:
    session = await talk.session() if kept else None
    last: list[Step] = [{"id": "end", "type": "shutdown"}] if ends == "shutdown" else []
    outcomes: set[tuple[bool, str]] = set()

    for moment in MOMENTS:
        text = f"at {moment}"
        code, told = await talk(says("p", text), moment, *last, session=session)

        (answer,), (end,) = told.all("response", "p"), told.all("run_end", "p")
        assert (code, answer["success"]) == (0, True), moment
        assert len(told.all("response", "end")) == len(last), moment
        there = answer["data"]["sessionId"]
        state = await talk.read(there) if there else None
        said = users(state) if state else []
        assert (text in said) is answer["data"]["started"], moment
        assert state is None or state.operation is None, moment
        outcomes.add((answer["data"]["started"], end["stopReason"]))

    assert (False, "aborted") in outcomes
    assert outcomes <= {(False, "aborted"), (True, "aborted"), (True, "stop")}


@pytest.mark.parametrize("kind", ["compact", "fork", "new", "resume", "navigate", "open"])
async def test_the_end_may_come_at_every_moment_of_other_work(talk: Talk, kind: str) -> None:
    session = await talk.session()
    fields = {"navigate": {"entryId": None, "summarize": True}, "open": {"session": session}}

    for moment in MOMENTS:
        command = {"id": "c", "type": kind, **fields.get(kind, {})}
        code, told = await talk(command, moment, session=session)

        assert (code, len(told.all("response", "c"))) == (0, 1), moment


@pytest.mark.parametrize("kind", ["prompt", "compact", "fork", "navigate"])
async def test_the_end_does_not_touch_what_an_earlier_process_left(talk: Talk, kind: str) -> None:
    session = await leave_a_call_waiting(talk.file, talk.folder)
    fields = {"prompt": {"text": "x"}, "navigate": {"entryId": None, "summarize": True}}

    for moment in MOMENTS:
        command = {"id": "c", "type": kind, **fields.get(kind, {})}
        code, told = await talk(command, moment, session=session)

        assert (code, len(told.all("response", "c"))) == (0, 1), moment
        assert (await talk.read(session)).operation is not None, moment


async def test_an_abort_at_any_moment_leaves_a_session_that_can_be_gone_on_with(talk: Talk) -> None:
    session = await talk.session()

    for moment in MOMENTS:
        abort = {"id": "a", "type": "abort"}
        code, told = await talk(
            says("p", "one"), moment, abort, "run_end:p", says("q", "two"), "run_end:q",
            session=session,
        )  # fmt: skip

        assert (code, len(told.all("response", "a"))) == (0, 1), moment
        assert [end["stopReason"] for end in told.all("run_end", "q")] == ["stop"], moment


# -- behind a change of session --------------------------------------------------------------


@pytest.mark.parametrize("kind", ["fork", "new", "open"])
async def test_what_stands_behind_a_change_of_session_is_done_in_that_session(
    talk: Talk, kind: str
) -> None:
    first, other = await talk.session(), await talk.session("second")
    change = {"id": "c", "type": kind, **({"session": other} if kind == "open" else {})}

    code, told = await talk(
        change,
        {"id": "n", "type": "name", "name": "changed"},
        {"id": "s", "type": "state"},
        says("p", "more"),
        "run_end",
        session=first,
    )

    answers = {line["id"]: line for line in told.all("response")}
    assert (code, list(answers)) == (0, ["c", "n", "s", "p"])
    assert all(line["success"] for line in answers.values())
    there = answers["p"]["data"]["sessionId"]
    assert answers["s"]["data"]["name"] == "changed"
    before, after = await talk.read(first), await talk.read(there)
    assert (before.name, users(before)) == (None, ["first"])
    said = {"fork": ["first", "more"], "new": ["more"], "open": ["second", "more"]}
    assert (after.name, users(after)) == ("changed", said[kind])


async def test_what_stands_behind_a_move_is_said_there(talk: Talk) -> None:
    session = await talk.session()
    move = {"id": "m", "type": "navigate", "entryId": None}

    _, told = await talk(move, says("p", "instead"), "run_end", session=session)

    assert [line["success"] for line in told.all("response")] == [True, True]
    assert users(await talk.read(session)) == ["instead"]


async def test_a_change_that_fails_leaves_the_session_to_what_stands_behind_it(talk: Talk) -> None:
    session = await talk.session()

    _, told = await talk(
        {"id": "o", "type": "open", "session": "nonsense"},
        says("p", "x"),
        "run_end",
        session=session,
    )

    assert [line["success"] for line in told.all("response")] == [False, True]
    assert users(await talk.read(session)) == ["first", "x"]


async def test_an_abort_behind_a_change_is_one_of_what_is_left_there(talk: Talk) -> None:
    first = await leave_a_call_waiting(talk.file, talk.folder)
    other = await talk.session()

    _, told = await talk(
        {"id": "o", "type": "open", "session": other}, {"id": "a", "type": "abort"}, session=first
    )

    assert told.all("response", "a")[0]["data"] == {"stopping": False}
    assert (await talk.read(first)).operation is not None


async def test_a_name_given_while_a_session_is_made_is_kept(talk: Talk) -> None:
    for moment in MOMENTS:
        before = {"id": "b", "type": "name", "name": f"before {moment}"}
        after = {"id": "a", "type": "name", "name": f"after {moment}"}
        _, told = await talk(before, says("p", "x"), moment, after, "run_end")

        there = told.all("run_end")[0]["sessionId"]
        assert (await talk.read(there)).name == f"after {moment}", moment
