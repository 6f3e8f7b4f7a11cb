"""A workbench in a session that is gone on with: what the interactive mode and the rpc mode drive.

A new session is made with the first thing that is said in it, so that looking around leaves
nothing behind. The agent stays the same when the session is changed, and so do its listeners.

Not here: what the agent is made of (bench/workbench.py), who may write to the session at a time
(live/held.py), showing anything, reading what the user types.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ... import AbortSignal, Agent, RunResult
from ...errors import AgentBusy, LoopwrightError, SessionError
from ...events import AgentEvent
from ...loop.hooks import with_signal
from ...loop.listeners import Listener
from ...messages import AgentMessage, ImageContent, TextContent, UserMessage
from ...models import Model, ThinkingLevel
from ...permissions.gate import Answer, Deny, Question
from ...permissions.policy import Mode
from ...session.entries import CompactionEntry, Entry, MessageEntry
from ...session.rows import Approval, InboxItem, InboxStatus, Operation, SessionInfo
from ..bench.workbench import Workbench
from ..options import ExportFormat
from ..sessions.choice import find_session
from .beginning import Beginning
from .held import HeldSession
from .lane_state import check_tools, refuse_unfinished
from .meter import Meter, meter_of

if TYPE_CHECKING:
    from ...extensions import Command
    from ...session.formats.pi_messages import BashExecution
    from ...session.outline import OutlineNode
    from ...session.session import Session
    from .user_command import UserCommand

__all__ = ["LiveSession"]


class LiveSession:
    """Made by `LiveSession.start`; to be closed with `aclose`."""

    def __init__(self, bench: Workbench, *, keep: bool) -> None:
        self.bench = bench
        self.agent: Agent[str] = bench.agent
        self.folder: Path = bench.folder
        self.keeps: bool = keep
        """What is said stays when the program ends."""
        self.on_question: Callable[[Question], Awaitable[Answer]] | None = None
        """Decides about calls that the policy asks for. None: they are refused."""
        self._told_of_refusal = False
        self._held = HeldSession(bench, keep=keep)
        self._working = False
        self._beginning: Beginning | None = None
        """While something has been asked for and the harness has not begun with it."""
        self._command: UserCommand | None = None
        """What the user runs now."""
        bench.gate.ask = self._ask

    @classmethod
    async def start(
        cls,
        bench: Workbench,
        *,
        session_id: str | None = None,
        fork: bool = False,
        keep: bool = True,
        name: str | None = None,
    ) -> LiveSession:
        """Go on in the session *session_id*, or in a copy of it (*fork*); without one a new session
        is made when something is said. Without *keep* nothing is written to disk. Raises
        `SessionError`."""
        live = cls(bench, keep=keep)
        held = live._held
        try:
            if session_id is not None and fork:
                session_id = (await held.copy(session_id, name=name)).id
            else:
                await held.check_name(name, session_id)
            if session_id is not None:
                await held.change_to(session_id)
            if name is not None and not fork:
                await held.rename(name)
        except BaseException:
            await live.aclose()
            raise
        return live

    async def aclose(self) -> None:
        """Let go of the session. What is going on in it stays open there."""
        await self._held.aclose()

    # -- what is there -------------------------------------------------------------------------

    @property
    def session(self) -> Session | None:
        """For looking; None for a new session, in which nothing was said yet."""
        return self._held.session

    @property
    def info(self) -> SessionInfo | None:
        """What is known of the session; None as for `session`."""
        session = self._held.session
        return None if session is None else session.info

    @property
    def name(self) -> str | None:
        """The session's, or what a new one will be called."""
        return self._held.name

    @property
    def working(self) -> bool:
        """A run, a compaction or a move is going on."""
        return self._working

    @property
    def unfinished(self) -> Operation | None:
        """What an earlier process left, or what waits for an approval; `resume` drives it."""
        session = self._held.session
        return None if session is None or self.working else session.operation

    def messages(self) -> list[AgentMessage]:
        """The branch as the model knows it: a summary in place of what was compacted."""
        session = self._held.session
        return [] if session is None else session.transcript()

    def happened(self) -> list[AgentMessage]:
        """The same for people: commands of the user's are what they were."""
        from .as_happened import as_happened

        session = self._held.session
        return [] if session is None else as_happened(session.entries())

    async def entries(self) -> list[Entry]:
        """The whole branch as it is now, however often it was compacted, oldest first."""
        return [] if self._held.id is None else await (await self._held.reading()).history()

    async def history(self) -> list[AgentMessage]:
        """The messages among the `entries`."""
        return [entry.message for entry in await self.entries() if isinstance(entry, MessageEntry)]

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """`Agent.subscribe`. Stays valid when the session is changed. Keys of vendors that a tool
        prints are not heard."""
        tell, heard = with_signal(listener), self.bench.secrets.heard

        def listen(event: AgentEvent, signal: AbortSignal) -> Any:
            return tell(heard(event), signal)

        return self.agent.subscribe(listen)

    def meter(self) -> Meter:
        """To be asked at the end of a message, not for every frame: the context is counted."""
        return meter_of(self.agent, self._held.session)

    def commands(self) -> list[Command]:
        """What extensions add to the slash commands."""
        return [command for one in self.bench.extensions.extensions for command in one.commands]

    # -- running -------------------------------------------------------------------------------

    async def prompt(
        self,
        text: str,
        images: Sequence[ImageContent] = (),
        *,
        request_id: str | None = None,
        expand: bool = True,
        accepted: Callable[[], object] | None = None,
    ) -> RunResult[str]:
        """Say *text*: templates, `/skill:name` and `@files` in it are expanded, unless *expand* is
        False. Raises `LoopwrightError` if it is refused; what fails at run time is told by the
        result. *accepted* is called when the session is open and nothing was refused."""
        async with self._work(), AsyncExitStack() as stack:

            async def begin() -> tuple[str, list[ImageContent]]:
                said, more = await self.bench.expand(text) if expand else (text, [])
                await self.bench.bring_up()
                return said, [*images, *more]

            with self._begins() as beginning:
                begun = await beginning.unless_stopped(begin)
                if begun is None:
                    return RunResult([], "aborted", "abort")
                harness = await stack.enter_async_context(self._held.held())
                if beginning.stopped:
                    return RunResult([], "aborted", "abort")
                check_tools(harness, self.agent)
            said, pictures = begun
            if accepted is not None:
                accepted()
            return await harness.prompt(said, pictures, request_id=request_id)

    async def resume(self) -> RunResult[str] | None:
        """Drive what is unfinished; None if nothing is. Raises `OperationOpen` if it needs tools
        that are not here, or waits for an approval."""
        async with self._work(), AsyncExitStack() as stack:
            with self._begins() as beginning:
                held = self._held.held_if_there()
                harness = await stack.enter_async_context(held)
                if harness is None or beginning.stopped:
                    return None
                if harness.open_operation is not None:
                    check_tools(harness, self.agent)
                    if not await self._brought_up(beginning):
                        return None
            return await harness.resume()

    def user_command(self, command: str, *, told: bool = True) -> UserCommand:
        """A command line of the user's, for `run_command`. Not *told*, no model is shown it."""
        from .user_command import UserCommand

        return UserCommand(
            command,
            self.folder,
            told=told,
            clean=self.bench.secrets.filter,
            keep_env=self.bench.settings.settings.bash.keep_env,
        )

    async def run_command(self, command: UserCommand) -> BashExecution:
        """Run *command*, and keep it in the session with what it printed; `abort` stops it. Raises
        `OperationOpen` if something is unfinished there, and as `UserCommand.run`."""
        async with self._work():
            self._command = command
            try:
                async with self._held.held() as harness:
                    refuse_unfinished(harness)
                    ran = await command.run()
                    await harness.session.append(ran)
                    self.agent.state.messages = harness.session.transcript()
            finally:
                self._command = None
            return ran

    async def steer(
        self, text: str, images: Sequence[ImageContent] = (), *, interrupt: bool = False
    ) -> InboxItem:
        """Say *text* in the middle of the run."""
        message = await self._message(text, images)
        async with self._held.held() as harness:
            return await harness.steer(message, "interrupt" if interrupt else "after_batch")

    async def follow_up(self, text: str, images: Sequence[ImageContent] = ()) -> InboxItem:
        """Say *text* when the run is done."""
        message = await self._message(text, images)
        async with self._held.held() as harness:
            return await harness.follow_up(message)

    def queued(self) -> list[InboxItem]:
        """What was said and not heard yet, oldest first."""
        return self._held.queued

    async def withdraw(self, item_id: str) -> InboxStatus | None:
        """Take back what was queued."""
        async with self._held.held_if_there() as harness:
            return None if harness is None else await harness.withdraw(item_id)

    async def abort(self, reason: object = None) -> None:
        """Stop what is going on, or bring to its end as aborted what is unfinished. What was asked
        for and has not begun yet never begins."""
        if self._command is not None:
            self._command.stop(reason)
            return
        if self._beginning is not None:
            self._beginning.stop()
            return
        try:
            async with self._held.held_if_there() as harness:
                if harness is not None and self.unfinished is None:
                    await harness.abort(reason)
                elif harness is not None:  # bringing it to its end is work like any other
                    async with self._work():
                        await harness.abort(reason)
        except LoopwrightError:
            self.agent.abort(reason)  # the session cannot be told; the run is stopped anyhow
            raise

    # -- approvals -----------------------------------------------------------------------------

    @property
    def permission_mode(self) -> Mode:
        """What the policy's mode is; may be set at any time."""
        return self.bench.policy.mode

    @permission_mode.setter
    def permission_mode(self, mode: Mode) -> None:
        self.bench.policy.mode = mode

    def pending_approvals(self) -> list[Approval]:
        """Calls that an earlier run left waiting for somebody's word."""
        session = self._held.session
        if session is None:
            return []
        return [a for a in session.approvals.values() if a.status == "pending"]

    async def approve(self, approval: str, *, arguments: dict[str, Any] | None = None) -> Approval:
        """Let a waiting call run; then `resume`."""
        self._held.existing()
        async with self._held.held() as harness:
            return await harness.approve(approval, arguments=arguments, by="user")

    async def deny(self, approval: str, *, reason: str | None = None) -> Approval:
        """Do not let a waiting call run; then `resume`."""
        self._held.existing()
        async with self._held.held() as harness:
            return await harness.deny(approval, reason=reason, by="user")

    async def _ask(self, question: Question) -> Answer:
        if self.on_question is None:
            if not self._told_of_refusal:
                self._told_of_refusal = True
                self.bench.note(
                    f"{question.tool_name} was refused, since nobody can be asked here; a rule in "
                    "the settings or another --permission-mode lets it pass"
                )
            return Deny("nobody can be asked here", by_user=False)
        return await self.on_question(question)

    # -- the tree ------------------------------------------------------------------------------

    async def compact(self, instructions: str | None = None) -> CompactionEntry | None:
        """`Harness.compact`. None as well if it was aborted before it began."""
        async with self._work(), self._held.held_if_there() as harness:
            if harness is None:
                return None
            with self._begins() as beginning:
                if not await self._brought_up(beginning):
                    return None
            return await harness.compact(instructions)

    async def outline(self) -> list[OutlineNode]:
        """The tree in drawing order, as it is now."""
        if self._held.id is None:
            return []
        from ...session.outline import outline
        from ..sessions.export import labels_of

        session = await self._held.reading()
        return outline(await session.rows(), session.leaf_id, labels_of(session))

    async def navigate(self, entry_id: str | None, *, summarize: bool = False) -> None:
        """Go on from another entry of the session."""
        self._held.existing()
        async with self._work(), self._held.held() as harness:
            if summarize:
                with self._begins() as beginning:
                    if not await self._brought_up(beginning):
                        return
            await harness.navigate(entry_id, summarize=summarize)

    async def fork(self, entry_id: str | None = None, *, name: str | None = None) -> SessionInfo:
        """Go on in a copy: of the branch, or of what comes before *entry_id*."""
        async with self._work():
            made = await self._held.copy(self._held.existing(), entry_id, name=name)
            await self._held.change_to(made.id)
            return made

    # -- other sessions ------------------------------------------------------------------------

    async def sessions(self, *, everywhere: bool = False, limit: int = 50) -> list[SessionInfo]:
        """Those of this folder, or all; the last used first."""
        store = await self._held.stores.there()
        if store is None:
            return []
        return await store.list(cwd=None if everywhere else str(self.folder), limit=limit)

    async def open(self, reference: str) -> SessionInfo:
        """Go on in another session: an id, the beginning of one, or a name. If it cannot be
        opened, this one is gone on with."""
        async with self._work():
            if not self.keeps:
                raise SessionError(
                    "this run keeps nothing and knows no other sessions (--no-session)",
                    hint=f"loopwright --session {reference}",
                )
            info = await find_session(await self._held.stores.get(), reference, str(self.folder))
            if info.id != self._held.id:
                await self._held.change_to(info.id)
            return info

    async def new(self) -> None:
        """Go on in a new session, which is made when something is said."""
        async with self._work():
            await self._held.begin_new()

    async def rename(self, name: str | None) -> None:
        """Give the session a name, or take it away. Raises `SessionExists` if another session has
        it as its id."""
        await self._held.rename(name)

    async def export(
        self, path: Path, form: ExportFormat | None = None, *, force: bool = False
    ) -> Path:
        """Write the branch to *path*, absolute or relative to the folder; the format is that of its
        ending unless said. Raises FileExistsError if something is there and not *force*, OSError
        if it cannot be written."""
        from ..sessions.export import export_bytes, form_of, write_whole

        session = await self._held.reading()
        target = self.folder / path
        data = await export_bytes(await self._held.stores.get(), session, form or form_of(path))
        await asyncio.to_thread(write_whole, target, data, force=force)
        return target

    # -- the model -----------------------------------------------------------------------------

    def choose_model(self, reference: str) -> Model:
        """Ask another model from the next request on. Raises `ConfigurationError`."""
        return self.bench.choose_model(reference)

    def known_models(self) -> list[Model]:
        """Those of providers that could be asked: there is a key, or none is needed."""
        return self.bench.known_models()

    @property
    def thinking_level(self) -> ThinkingLevel | None:
        """How hard the model thinks; None leaves it to the vendor."""
        return self.agent.thinking_level

    def set_thinking(self, level: ThinkingLevel) -> None:
        """From the next request on."""
        self.agent.thinking_level = level

    # -- inside --------------------------------------------------------------------------------

    @asynccontextmanager
    async def _work(self) -> AsyncGenerator[None]:
        """A second piece of work is refused, not queued."""
        if self._working:
            raise AgentBusy(
                "something is going on in the session already",
                hint="wait for it, steer it, or abort it",
            )
        self._working = True
        try:
            yield
        finally:
            self._working = False

    @contextmanager
    def _begins(self) -> Generator[Beginning]:
        """Until the harness begins, the work can be aborted here. The session is never held in what
        is cancelled: a claim that is called off half-way would lock everybody out."""
        self._beginning = Beginning()
        try:
            yield self._beginning
        finally:
            self._beginning = None

    async def _brought_up(self, beginning: Beginning) -> bool:
        async def bring_up() -> bool:
            await self.bench.bring_up()
            return True

        return await beginning.unless_stopped(bring_up) or False

    async def _message(self, text: str, images: Sequence[ImageContent]) -> UserMessage:
        said, more = await self.bench.expand(text)
        return UserMessage([TextContent(said), *images, *more])
