"""The loop of the rpc mode: commands come in, one session is driven, everything is told.

Commands are taken in order. Those that take long (a run, a summary) are worked on beside the others,
one at a time; a second one is refused as `busy`. What stands behind a change of session waits for it,
so that it is done in the session it was meant for. When the input ends, or a signal comes, what is
going on is aborted and the session closed.

Not here: what a command does (answers.py), where the lines come from and go to (server.py).
"""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Awaitable, Coroutine
from typing import TYPE_CHECKING, Any

from ... import __version__
from ...errors import LoopwrightError
from ...events import AgentEvent
from ...loop.run_result import RunResult
from ...messages import Usage
from ..exit_codes import ExitCode
from ..interrupts import Interrupts
from ..json_mode import json_line, session_line
from .answers import Answerable, answer, model_name, place_of, unfinished_work
from .commands import (
    Abort,
    Command,
    Compact,
    Fork,
    Navigate,
    New,
    Open,
    Prompt,
    Resume,
    RunCommand,
    Shutdown,
    name_of,
)
from .extension_commands import run_command
from .faults import fault_of
from .line_reader import LineReader, LongLine
from .line_writer import LineWriter
from .output import PROTOCOL_VERSION, Fault, Note, Ready, RunEnd, failure, success, to_line
from .questions import Questions
from .requests import LineRefused, images_of, read_command, too_long
from .response_data import Aborting, Data, Nothing, Started

if TYPE_CHECKING:
    from ..live.session import LiveSession

__all__ = ["PATIENCE_SECONDS", "PROGRAM", "Dialogue"]

PATIENCE_SECONDS = 2.0
"""How long, at the end, a client may read nothing before it is given up."""
PATIENT_ROUNDS = 2
"""So many times an abort is given that time to work before what is left is cancelled."""

ENDED = "the input ended"
ASKED = "the client asked for the end"
SIGNALLED = "the program was told to end"
UNREAD = "the output is not read any more"

PROGRAM = f"loopwright {__version__}"

_log = logging.getLogger("loopwright")
_Run = Prompt | Resume
_Alone = _Run | Compact | Navigate | Fork | Open | New
"""Commands of which only one is worked on at a time."""


class Dialogue:
    """One client and one session."""

    def __init__(self, live: LiveSession, reader: LineReader, writer: LineWriter) -> None:
        self._live = live
        self._reader = reader
        self._writer = writer
        self._questions = Questions(writer)
        self._told_session: str | None = None
        self._alone: _Alone | None = None
        self._unanswered: _Run | None = None
        """A run that was asked for and has shown no sign of life yet."""
        self._kept = False
        """Nothing can take what it says out of the session any more."""
        self._in_the_way = False
        """An earlier process left something unfinished, for which it will be refused."""
        self._abort_at_start: tuple[str | None] | None = None
        """The reason for which it is to be aborted as soon as that is possible."""
        self._work: set[asyncio.Task[None]] = set()
        self._stop = asyncio.Event()
        self._code = ExitCode.DONE
        self._reason = ENDED
        self._goodbye: Shutdown | None = None

    async def run(self) -> ExitCode:
        """Until the client or a signal wants an end; nothing is going on in the session then."""
        live, writer = self._live, self._writer
        writer.on_broken = self._lose_client
        live.on_question = self._questions.ask

        def note(text: str) -> None:
            writer.put(to_line(Note(text, into_input=False)))

        live.bench.note.to = note
        unsubscribe = live.subscribe(self._hear)
        try:
            async with asyncio.TaskGroup() as group:
                self._group = group
                with Interrupts(lambda: self._end(SIGNALLED)) as interrupts:
                    writer.put(to_line(self._ready()))
                    self._tell_session()
                    reading = group.create_task(self._read())
                    await self._stop.wait()
                    reading.cancel()
                    await self._wind_down()
        finally:
            unsubscribe()
            live.on_question = None
        if interrupts.received is not None:
            by_ctrl_c = interrupts.received == signal.SIGINT
            return ExitCode.ABORTED if by_ctrl_c else ExitCode.TERMINATED
        return self._code

    def say_goodbye(self) -> None:
        """Answer the command that asked for the end: all is done."""
        if self._goodbye is not None:
            self._writer.put(success(self._goodbye, Nothing()))

    def _ready(self) -> Ready:
        live = self._live
        return Ready(
            PROTOCOL_VERSION,
            PROGRAM,
            str(live.folder),
            place_of(live).session_id,
            model_name(live.agent.model),
            live.permission_mode,
            unfinished_work(live),
            list(live.bench.note.told),
        )

    # -- commands ------------------------------------------------------------------------------

    async def _read(self) -> None:
        while not self._stop.is_set():
            line = await self._reader.next()
            if line is None:
                self._end(ENDED)
                return
            try:
                if isinstance(line, LongLine):
                    raise too_long(line)
                command = read_command(line)
            except LineRefused as refused:
                await self._writer.write(failure(refused.id, refused.command, fault_of(refused)))
            else:
                await self._take(command)

    async def _take(self, command: Command) -> None:
        match command:
            case Fork() | Open() | New() | Navigate(summarize=False):
                changing = await self._begin(command)
                if changing is not None:
                    await asyncio.wait([changing])  # whoever stops reading does not stop it
            case Prompt() | Resume() | Compact() | Navigate():
                await self._begin(command)
            case RunCommand():
                self._start(self._respond(command, run_command(command, self._live, self._writer)))
            case Abort():
                await self._respond(command, self._answer_abort(command))
            case Shutdown():
                self._goodbye = command
                self._end(ASKED)
            case _:
                await self._respond(command, self._answer(command))

    async def _respond(self, command: Command, doing: Awaitable[Data]) -> None:
        try:
            data = await doing
        except asyncio.CancelledError:
            self._writer.put(self._given_up(command))
            raise
        except Exception as error:  # noqa: BLE001 - told to the client, whatever it is
            line = failure(command.id, name_of(command), self._fault(error))
        else:
            self._tell_session()
            line = success(command, data)
        await self._writer.write(line)

    async def _answer(self, command: Answerable) -> Data:
        activity = self._alone and name_of(self._alone)
        return await answer(command, self._live, self._questions, activity)

    async def _answer_abort(self, command: Abort) -> Data:
        live = self._live
        if self._alone is None and not live.working and live.unfinished is None:
            return Aborting(False)
        if self._unanswered is not None:
            self._abort_at_start = (command.reason,)
        await live.abort(command.reason)
        return Aborting(True)

    # -- work ----------------------------------------------------------------------------------

    async def _begin(self, command: _Alone) -> asyncio.Task[None] | None:
        """The work on *command*; None if it was refused."""
        going_on = self._alone
        if going_on is not None or self._live.working:
            what = "a run" if going_on is None else name_of(going_on)
            refused = LineRefused(
                "busy",
                f"{name_of(command)} cannot begin: {what} is going on",
                "wait for its end, or abort it; steer and follow_up say something during a run",
            )
            await self._writer.write(failure(command.id, name_of(command), fault_of(refused)))
            return None
        self._alone = command
        self._in_the_way = self._live.unfinished is not None and not isinstance(command, Resume)
        if isinstance(command, Prompt | Resume):
            self._unanswered = command
            self._kept = False
            return self._start(self._run(command))
        return self._start(self._do_alone(command))

    def _start(self, doing: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = self._group.create_task(doing)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return task

    async def _do_alone(self, command: Compact | Navigate | Fork | Open | New) -> None:
        async def done() -> Data:
            try:
                return await self._answer(command)
            finally:
                self._alone = None

        await self._respond(command, done())

    async def _run(self, command: _Run) -> None:
        result: RunResult[str] | None = None
        fault: Fault | None = None
        try:
            if isinstance(command, Resume):
                result = await self._live.resume()
            else:
                images = images_of(command.images)
                result = await self._live.prompt(
                    command.text, images, request_id=command.request_id, accepted=self._keep
                )
        except asyncio.CancelledError:
            self._writer.put(self._given_up(command))
            raise
        except Exception as error:  # noqa: BLE001 - told to the client, whatever it is
            fault = self._fault(error)
        refused = self._unanswered is not None and (fault is not None or result is None)
        if self._unanswered is not None and not refused:
            # It ended without any event: nothing had to be done any more, or it never began.
            self._accept(command, started=self._kept or isinstance(command, Resume))
        self._alone = self._unanswered = self._abort_at_start = None
        session_id = place_of(self._live).session_id
        self._tell_session()
        if not refused:
            line = to_line(_run_end(command, session_id, result, fault))
        elif fault is not None:
            line = failure(command.id, name_of(command), fault)
        else:
            line = success(command, Started(False, session_id))
        await self._writer.write(line)

    def _hear(self, event: AgentEvent) -> Awaitable[object] | None:
        """Not async: as long as there is room, an event costs the run no await."""
        if self._unanswered is not None:
            self._accept(self._unanswered)
        return self._writer.put(json_line(event))

    def _keep(self) -> None:
        self._kept = True

    def _accept(self, command: _Run, *, started: bool = True) -> None:
        self._unanswered = None
        self._tell_session()
        self._writer.put(success(command, Started(started, place_of(self._live).session_id)))
        if self._abort_at_start is not None:
            self._start(self._abort_late(*self._abort_at_start))

    async def _abort_late(self, reason: str | None) -> None:
        try:
            await self._live.abort(reason)
        except (LoopwrightError, OSError) as error:
            _log.warning("the abort was not written down: %s", error)

    # -- the end -------------------------------------------------------------------------------

    def _end(self, reason: str, code: ExitCode = ExitCode.DONE) -> None:
        if not self._stop.is_set():
            self._reason, self._code = reason, code
            self._stop.set()

    def _lose_client(self) -> None:
        failure = self._writer.failure
        if failure is None or isinstance(failure, BrokenPipeError | ConnectionError):
            self._end(UNREAD, ExitCode.BROKEN_PIPE)
            return
        _log.error("the output cannot be written: %s", failure.strerror)
        self._end(UNREAD, ExitCode.FAILED)

    async def _wind_down(self) -> None:
        """Abort what is going on and wait for it. A client that reads nothing is given up, and so
        is foreign code that does not end."""
        self._questions.deny_all(self._reason, for_good=True)
        await asyncio.sleep(0)  # what was taken last begins, or it could not be told to stop
        rounds = 0
        while work := set(self._work):
            if rounds >= PATIENT_ROUNDS:
                for task in work:
                    task.cancel()
            if self._must_be_stopped():
                if self._unanswered is not None:
                    self._abort_at_start = (self._reason,)
                await self._abort_late(self._reason)
            written = self._writer.written
            _, pending = await asyncio.wait(work, timeout=PATIENCE_SECONDS)
            if pending:
                rounds += 1
                if self._writer.written == written and not self._writer.idle:
                    self._writer.give_up()

    def _must_be_stopped(self) -> bool:
        """Something is going on that would not end soon by itself. An abort of anything else would
        be one of what an earlier process left unfinished, and nobody has asked for that."""
        alone = self._alone
        in_vain = alone is not None and self._in_the_way
        return self._live.working and not in_vain and not isinstance(alone, Fork | Open | New)

    def _given_up(self, command: Command) -> bytes:
        """The last line about a command that did not end when it was told to."""
        if isinstance(command, Prompt | Resume) and self._unanswered is None:
            stopped = RunResult[str]([], "aborted", "abort")
            return to_line(_run_end(command, place_of(self._live).session_id, stopped, None))
        error = LineRefused("refused", f"{name_of(command)} was given up: {self._reason}")
        return failure(command.id, name_of(command), fault_of(error))

    # -- telling -------------------------------------------------------------------------------

    def _tell_session(self) -> None:
        """The line `session` of the json mode, whenever it has become another one."""
        info = self._live.info
        if info is not None and info.id != self._told_session:
            self._writer.put(session_line(info))
        self._told_session = None if info is None else info.id

    def _fault(self, error: Exception) -> Fault:
        fault = fault_of(error)
        if fault.kind == "internal":
            _log.error("a command of the client failed", exc_info=error)
        return fault


def _run_end(
    command: _Run, session_id: str | None, result: RunResult[str] | None, fault: Fault | None
) -> RunEnd:
    kind = "resume" if isinstance(command, Resume) else "prompt"
    if result is None:  # it was accepted, and then the session was lost
        said = None if fault is None else fault.message
        return RunEnd(command.id, kind, session_id, "error", "error", said, Usage(), 1)
    failed = result.stop_reason in ("error", "aborted")
    return RunEnd(
        command.id,
        kind,
        session_id,
        result.stop_reason,
        result.stopped_by,
        result.error_message,
        result.usage,
        1 if failed else 0,
    )
