"""Who is talked to: an agent, set up by the options and files, and the session that keeps it all.

The session is open only while something is being answered. So a conversation that waits for its
next line locks nobody out, and hears, when it goes on, what was said elsewhere meanwhile.

Not here: reading what the user says (run_command.py, conversation.py), or showing the answer.
"""

from __future__ import annotations

import datetime
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from .. import Agent, RunResult
from ..errors import (
    ConfigurationError,
    LoopwrightError,
    OperationOpen,
    OperationParked,
    SessionDamaged,
    SessionError,
    SessionLocked,
    SessionTooNew,
    StoreUnavailable,
)
from ..events import AgentEvent
from ..models import Model, Models, default_models
from ..session.entries import new_id
from ..session.rows import LaneConfig, SessionInfo
from .exit_codes import ExitCode
from .models_file import add_project_models, add_user_models
from .options import RunOptions
from .resources import prepare_resources
from .session_choice import KnownSession, choose_session, session_title
from .session_store import writing_sessions
from .settings import (
    model_from_environment,
    project_models_file,
    user_models_file,
    working_folder,
)
from .streams import Output, print_note
from .watch import Watched, watched_prompt, watched_run
from .which_model import Chosen, choose_model

if TYPE_CHECKING:
    from ..harness.harness import Harness
    from ..session.sqlite import SqliteStore

__all__ = ["SessionView", "Talk", "View", "begin"]

View = Callable[[AgentEvent], None]
SessionView = Callable[[SessionInfo], None]
"""Told of the session when it is open, before anything is run in it."""


class Talk:
    """An agent that can be asked again and again. Without a session nothing is kept."""

    def __init__(self, agent: Agent, expand: Callable[[str], str]) -> None:
        self.agent = agent
        self.expand = expand
        """Applied to what the user types: templates and skills called by name."""

    @property
    def greeting(self) -> str | None:
        """What is gone on with, for a person; None if that is nothing."""
        return None

    async def unfinished(self) -> bool:
        """An earlier process left something that `turn` will first bring to its end."""
        return False

    async def turn(
        self, prompt: str | None, show: View, opened: SessionView | None = None
    ) -> Watched | None:
        """Say *prompt*; None only brings to its end what is unfinished, and gives None if that is
        nothing. Raises `LoopwrightError`, and the OSError of a *show*."""
        return None if prompt is None else await watched_prompt(self.agent, prompt, show)


class SessionTalk(Talk):
    """A talk that a session keeps."""

    def __init__(
        self,
        agent: Agent,
        expand: Callable[[str], str],
        *,
        folder: str,
        known: KnownSession | None,
        fork: bool,
        name: str | None,
    ) -> None:
        super().__init__(agent, expand)
        self._folder = folder
        self._known = known
        self._fork_of = known.info.id if fork and known is not None else None
        self._name = name
        self._id: str | None = known.info.id if known is not None and not fork else None
        self._leaf_id: str | None = None
        self._turns = 0

    @property
    def greeting(self) -> str | None:
        if self._known is None:
            return None
        info = self._known.info
        verb = "a fork of" if self._fork_of is not None else "going on with"
        return f"{verb} {session_title(info, 60)} ({info.entries} entries, {info.id})"

    async def unfinished(self) -> bool:
        if self._id is None:
            return False
        async with writing_sessions() as store:
            state = await store.state(self._id)
        return any(lane.operation_id for lane in state.lanes if lane.name == "main")

    async def turn(
        self, prompt: str | None, show: View, opened: SessionView | None = None
    ) -> Watched | None:
        try:
            async with writing_sessions() as store:
                return await self._turn(store, prompt, show, opened)
        except SessionError as error:
            raise _advised(error, self._id or "ID") from error

    async def _turn(
        self,
        store: SqliteStore,
        prompt: str | None,
        show: View,
        opened: SessionView | None,
    ) -> Watched | None:
        from ..harness.harness import Harness

        await self._make_fork(store)
        is_new = self._id is None
        session_id = self._id or new_id()
        self.agent.reset()  # the session has the transcript
        self.agent.session_id = session_id
        async with Harness.open(
            store, session_id, agent=self.agent, cwd=self._folder, create=is_new
        ) as harness:
            self._id = session_id
            return await self._in_session(harness, prompt, show, opened)

    async def _make_fork(self, store: SqliteStore) -> None:
        if self._fork_of is None:
            return
        from ..session.fork import fork_session

        made = await fork_session(store, self._fork_of, cwd=self._folder)
        self._fork_of, self._id = None, made.id

    async def _in_session(
        self,
        harness: Harness[str],
        prompt: str | None,
        show: View,
        opened: SessionView | None,
    ) -> Watched | None:
        session = harness.session
        if self._name is not None:
            await session.set_name(self._name)
            self._name = None
        if self._turns and session.leaf_id != self._leaf_id:
            print_note("the session was gone on with elsewhere; what was said there is known here")
        if opened is not None:
            opened(session.info)
        try:
            done = await self._settle(harness, show)
            if prompt is None or (done is not None and _is_the_end(done)):
                return done
            return await _watched(harness, lambda: harness.prompt(prompt), show)
        finally:
            self._turns += 1
            self._leaf_id = session.leaf_id

    async def _settle(self, harness: Harness[str], show: View) -> Watched | None:
        """Drive what an earlier process left open; None if that was nothing."""
        operation = harness.open_operation
        if operation is None:
            return None
        session_id = harness.session.id
        here = {tool.name for tool in self.agent.state.tools}
        config = harness.session.lane.config
        if missing := [name for name in config.active_tools if name not in here] if config else []:
            raise OperationOpen(
                f"session {session_id} has an unfinished {operation.kind} with tools that this "
                f"command does not have: {', '.join(missing)}",
                hint="let the program that began it resume it, or leave it as it is and go on in "
                f"a copy with `loopwright --fork {session_id}`",
            )
        print_note(f"an earlier process left a {operation.kind} unfinished; taking it up")
        done = await _watched(harness, lambda: _resumed(harness), show)
        waiting = [approval.tool_name for approval in harness.pending_approvals]
        if harness.open_operation is not None:
            raise OperationOpen(
                f"session {session_id} waits for approval of {', '.join(waiting) or 'a call'}",
                hint="decide on it in the program that asked; or go on in a copy with "
                f"`loopwright --fork {session_id}`",
            )
        return done


def _is_the_end(done: Watched) -> bool:
    """The user stopped it, or the model fails: nothing more is asked now."""
    result, code = done
    if code in (ExitCode.ABORTED, ExitCode.TERMINATED):
        print_note("the prompt was not sent, since what came before it was stopped; say it again")
        return True
    if result.stop_reason == "error":
        print_note("the prompt was not sent, since what came before it failed")
        return True
    return False


async def _resumed(harness: Harness[str]) -> RunResult:
    result = await harness.resume()
    assert result is not None  # something was open
    return result


async def _watched(
    harness: Harness[str], run: Callable[[], Awaitable[RunResult]], show: View
) -> Watched:
    async def stop(reason: str) -> None:
        try:
            await harness.abort(reason)
        except LoopwrightError:
            harness.agent.abort(reason)  # the session cannot be told; the run is stopped anyhow

    return await watched_run(harness.subscribe, run, stop, show)


def _advised(error: SessionError, session_id: str) -> SessionError:
    """*error* with what can be done about it from a command line."""
    match error:
        case SessionLocked():
            error.hint = (
                "wait until the other is done, or go on in a copy with "
                f"`loopwright --fork {session_id}`"
            )
        case OperationParked():
            error.hint = (
                "whatever it does there ends its process; go on in a copy without it: "
                f"`loopwright --fork {session_id}`"
            )
        case StoreUnavailable() | SessionDamaged() | SessionTooNew():
            hint = "`--no-session` answers without keeping anything"
            error.hint = f"{error.hint}\n{hint}" if error.hint else hint
        case _:
            pass
    return error


# -- setting up ------------------------------------------------------------------------------


async def begin(options: RunOptions) -> Talk:
    """The talk that the options, the environment and the user's files ask for.

    Raises `ConfigurationError`, `SessionError`, and `NothingPicked`.
    """
    folder = working_folder()
    known = await choose_session(options.sessions, str(folder))
    models = default_models()
    chosen = _choose(models, options, known.config if known is not None else None)
    started = datetime.datetime.now().astimezone()
    if known is not None and options.sessions.fork is None:
        started = datetime.datetime.fromtimestamp(known.info.created_at / 1000).astimezone()
    prepared = prepare_resources(
        folder,
        today=started.date(),
        note=print_note,
        skill_paths=options.skills,
        find_skills=options.find_skills,
        find_context_files=options.find_context_files,
    )
    resources = prepared.resources
    base = options.system_prompt or (resources.system.text if resources.system else "")
    if resources.context_files:
        system_prompt = resources.system_prompt(
            date=started.date(), base=base, appended=options.append_system_prompt
        )
    else:  # without tools and files, a folder and a date would only confuse a small model
        found = [resources.append_system.text] if resources.append_system is not None else []
        parts = [base, *found, *options.append_system_prompt]
        system_prompt = "\n\n".join(part.strip() for part in parts if part.strip())
    agent = Agent(
        chosen.model,
        stream_fn=models.stream_simple,
        system_prompt=system_prompt,
        thinking_level=options.thinking or chosen.thinking_level,
        on_error=_tell_of_fault,
    )
    await _bring_up(models, agent.model)
    if not options.sessions.keep:
        return Talk(agent, prepared.expand)
    return SessionTalk(
        agent,
        prepared.expand,
        folder=str(folder),
        known=known,
        fork=options.sessions.fork is not None,
        name=options.sessions.name,
    )


def _tell_of_fault(error: BaseException, where: str) -> None:
    """In a line, where a program would find a traceback in its log."""
    if not isinstance(error, LoopwrightError):  # else the run ends with it, and tells it then
        print_note(f"{where} raised {type(error).__name__}: {error}")


def _choose(models: Models, options: RunOptions, last: LaneConfig | None) -> Chosen:
    user_file = user_models_file()
    default = add_user_models(models, user_file)
    add_project_models(models, project_models_file(), print_note)
    environment = model_from_environment()
    if options.model is None and last is not None:
        reference = f"{last.provider}/{last.model_id}"
        try:
            chosen = choose_model(
                models, option=reference, environment=None, default=None, user_file=user_file
            )
        except ConfigurationError as error:
            error.hint = f"{error.hint or ''}\nthe session's last model was {reference}; `--model` chooses another".strip()
            raise
        return Chosen(chosen.model, last.thinking_level)
    return choose_model(
        models,
        option=options.model,
        environment=environment,
        default=default,
        user_file=user_file,
    )


async def _bring_up(models: Models, model: Model) -> None:
    """Start what serves *model*, where something must be started; what is missing for that is
    then an error of the set-up and not of the run."""
    provider = models.get_provider(model.provider)
    if provider is not None and provider.prepare is not None:
        if Output(sys.stderr).is_terminal:
            print_note(f"starting {model.name or model.id} ...")
        await provider.prepare()
