"""Into the interactive mode and out of it again, whatever happens.

The input is on the screen before anything else is set up; what is typed meanwhile is kept. However
it ends, the run is stopped, the session is closed, and the terminal is as it was.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shlex
import shutil
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prompt_toolkit.enums import EditingMode
from prompt_toolkit.input import Input, create_input

from ...errors import LoopwrightError
from ..exit_codes import ExitCode
from ..options import RunOptions
from ..places import sessions_file, working_folder
from ..streams import print_error, print_note, visible
from .app import InteractiveScreen
from .history import PromptHistory
from .inline import terminal_output
from .paste_input import read_pastes_at_once
from .pastes import Pastes
from .stray_output import caught_output
from .terminal_signals import TerminalSignals
from .theme import theme_named

if TYPE_CHECKING:
    from prompt_toolkit.output import Output

    from ...models import Model
    from ...session.rows import SessionInfo
    from ..live.session import LiveSession

__all__ = ["Conversation", "OpenSession", "history_file", "run_interactive"]

OpenSession = Callable[[Callable[[str], object]], Awaitable["LiveSession"]]
"""Opens the session that the options ask for; is given what to tell the user by."""

STOPPING_SECONDS = 5.0
"""So long a run that was told to stop is waited for."""


def run_interactive(options: RunOptions, open_session: OpenSession) -> ExitCode:
    """Converse on the terminal that standard input and output are.

    Raises what *open_session* raises, when the terminal is as it was.
    """
    folder = working_folder()
    again = [] if options.agent is None else ["--agent", options.agent]
    history = history_file() if options.sessions.keep else None

    async def hold() -> ExitCode:
        conversation = Conversation(
            folder,
            open_session,
            history=history,
            input=create_input(sys.stdin),
            output=terminal_output(sys.stdout),
            first_prompt=options.prompt,
            again=again,
            model=options.model,
        )
        return await conversation.hold()

    return asyncio.run(hold())


def history_file() -> Path:
    """`history.jsonl`, beside the sessions."""
    return sessions_file().parent / "history.jsonl"


class Conversation:
    """One use of the interactive mode, from the first drawing to the exit code."""

    def __init__(
        self,
        folder: Path,
        open_session: OpenSession,
        *,
        history: Path | None,
        input: Input,
        output: Output,
        first_prompt: str = "",
        again: Sequence[str] = (),
        model: str | None = None,
    ) -> None:
        """*history* None keeps none. *again* are options without which the session cannot be gone
        on with, *model* is the one that was asked for. To be made in the event loop it is held
        in."""
        self._open_session = open_session
        self._first_prompt = first_prompt
        self._again = again
        self._model = model
        self._first_model: Model | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._fault: BaseException | None = None
        self._gone = False
        """The terminal is not there any more."""
        self._leaving: asyncio.Task[None] | None = None
        self._live: LiveSession | None = None
        self._kept: SessionInfo | None = None
        self._signals = TerminalSignals(
            end=self._end, interrupt=self._interrupt, suspend=self._suspend
        )
        read_pastes_at_once(input)
        pastes = Pastes()
        self.screen = InteractiveScreen(
            theme=theme_named("auto"),
            folder=folder,
            history=PromptHistory(history, whole=pastes.whole),
            pastes=pastes,
            input=input,
            output=output,
            on_leave=self._leave,
            spawn=self._spawn,
            stop_process=self._signals.stop_process,
        )

    async def hold(self) -> ExitCode:
        """Converse until the user leaves. Raises what opening the session raises."""
        loop = asyncio.get_running_loop()
        before = loop.get_exception_handler()
        loop.set_exception_handler(self._loop_fault)
        code = ExitCode.FAILED
        try:
            with self._signals:
                try:
                    with caught_output(self.screen.note):
                        code = await self._run_screen()
                finally:
                    await self._close()
        finally:
            loop.set_exception_handler(before)
        return self._told(code)

    async def _run_screen(self) -> ExitCode:
        app = self.screen.app
        self._spawn(self.screen.animate())

        def begin() -> None:
            # Behind the first drawing, so that the input is there before anything is imported.
            app.after_render += self._set_up_once

        try:
            return await app.run_async(
                pre_run=begin, set_exception_handler=False, handle_sigint=False
            )
        except EOFError:  # standard input has ended
            self._gone = True
        except Exception as error:  # noqa: BLE001 - told when the terminal is as it was
            if not self._gone and not _is_loss(error):
                self._fault = self._fault or error
                return ExitCode.FAILED
            self._gone = True
        return ExitCode.TERMINATED

    def _set_up_once(self, _app: object) -> None:
        self.screen.app.after_render -= self._set_up_once
        self._spawn(self._set_up())

    async def _set_up(self) -> None:
        live = await self._open_session(self.screen.note)
        self._live = live
        self._first_model = live.agent.model
        screen = self.screen
        settings = live.bench.settings.settings
        if settings.theme != "auto":
            screen.set_theme(settings.theme)
        if settings.editing == "vi":
            screen.app.editing_mode = EditingMode.VI
        screen.transcript.show_thinking = settings.show_thinking
        live.on_question = screen.ask
        live.subscribe(self._hear)
        await screen.begin(live, self._first_prompt)

    def _hear(self, event: Any) -> None:
        try:
            self.screen.hear(event)
        except Exception as error:  # noqa: BLE001 - the agent would keep it to itself
            self._fail(error)

    # -- work beside the screen ----------------------------------------------------------------

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """A task that is awaited at the end; what it raises ends the program."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._done)
        return task

    def _done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fail(error)

    def _loop_fault(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Something raised where nobody awaits it: a key's function, or a drawing."""
        error: BaseException | None = context.get("exception")
        if error is not None and "handle" in context:
            self._fail(error)
        else:
            loop.default_exception_handler(context)  # somebody else's; it is logged, so shown

    def _fail(self, error: BaseException) -> None:
        if _is_loss(error):
            self._gone = True  # it is not written to any more
            self._leave(ExitCode.TERMINATED)
            return
        self._fault = self._fault or error
        self._exit(ExitCode.FAILED)

    def _exit(self, code: ExitCode) -> None:
        app = self.screen.app
        if app.future is not None and not app.future.done():
            app.exit(result=code)

    # -- leaving -------------------------------------------------------------------------------

    def _end(self, received: signal.Signals) -> None:
        if received != signal.SIGTERM:
            self._gone = True
        self._leave(ExitCode.TERMINATED)

    def _interrupt(self) -> None:
        self.screen.app.key_processor.send_sigint()

    def _suspend(self) -> None:
        self.screen.suspend()

    def _leave(self, code: ExitCode) -> None:
        """Stop the run, then leave. The second time leaves at once."""
        if self._leaving is not None:
            self._exit(code)
            return
        self._leaving = self._spawn(self._stop_and_exit(code))

    async def _stop_and_exit(self, code: ExitCode) -> None:
        try:
            if self.screen.working:
                async with asyncio.timeout(STOPPING_SECONDS):
                    await self.screen.delivery.stop()
                    await self.screen.delivery.idle()
        except TimeoutError:
            pass  # closing the session ends it the hard way
        finally:
            self.screen.stop_editing()
            self._exit(code)

    async def _close(self) -> None:
        """Nothing of ours runs on, and the session is closed."""
        live = self._live
        try:
            if live is not None:
                live.on_question = None
                if live.working:
                    await self._abort(live)
        finally:
            tasks = [task for task in self._tasks if task is not asyncio.current_task()]
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            if live is not None:
                self._kept = live.info if live.keeps else None
                await live.aclose()

    async def _abort(self, live: LiveSession) -> None:
        try:
            async with asyncio.timeout(STOPPING_SECONDS):
                await self.screen.delivery.stop("the program ended")
                await self.screen.delivery.idle()
        except TimeoutError:
            return

    def _told(self, code: ExitCode) -> ExitCode:
        """Say what is left to say on the terminal, which is as it was."""
        fault = self._fault
        if fault is not None and _is_refusal(fault):
            raise fault
        if self._gone:
            return code
        rest = self.screen.rest() if fault is None else ""
        if rest:
            sys.stdout.write(rest)
            sys.stdout.flush()
        if fault is not None:
            lines = "".join(traceback.format_exception(fault))
            print_note(visible(lines))
            print_error(
                f"the screen failed: {type(fault).__name__}: {fault}",
                hint=None
                if self._kept is None
                else f"what was said is kept; `{self._go_on(self._kept)}` goes on",
            )
            return ExitCode.FAILED
        if self._kept is not None:
            print_note(f"to go on with this session: {self._go_on(self._kept)}")
        return code

    def _go_on(self, session: SessionInfo) -> str:
        """The command line that does. A model that was chosen since then is the session's own."""
        words = [_this_command(), *self._again]
        live = self._live
        if self._model is not None and live is not None and live.agent.model == self._first_model:
            words += ["--model", self._model]
        return shlex.join([*words, "--session", session.id])


def _this_command() -> str:
    """How this program was started, as short as it works from a shell."""
    started = sys.argv[0]
    found = shutil.which("loopwright")
    if Path(started).name != "loopwright" or (
        found is not None and os.path.realpath(found) == os.path.realpath(started)
    ):
        return "loopwright"
    return started


def _is_loss(error: BaseException) -> bool:
    """Whether *error* says that the terminal is not there any more."""
    return isinstance(error, OSError) and error.errno in (
        errno.EIO,
        errno.EBADF,
        errno.ENXIO,
        errno.EPIPE,
    )


def _is_refusal(error: BaseException) -> bool:
    """Whether *error* is told by whoever started us."""
    if isinstance(error, LoopwrightError):
        return True
    from ..sessions.choice import NothingPicked

    return isinstance(error, NothingPicked)
