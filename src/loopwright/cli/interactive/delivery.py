"""How what the user says reaches the model: at once, in the middle of a run, or after it.

Before the session is open, and in the moment before a run really begins, what is said is held here
and handed over in its order. What a run leaves unheard is said next, or given back to the user.

Not here: the keys (keys.py) and drawing (app.py).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from ... import RunResult
from ...errors import LoopwrightError
from ...events import AgentEnd, AgentEvent, AgentStart, MessageEnd
from ...messages import AgentMessage, ImageContent, UserMessage
from .activity import Activity
from .shell_line import ShellLine, as_text, shell_line

if TYPE_CHECKING:  # not needed for the first drawing, which comes before all else
    from ...permissions.gate import Answer, Question
    from ...session.formats.pi_messages import BashExecution
    from ...session.rows import InboxItem
    from ..live.session import LiveSession
    from ..live.user_command import UserCommand
    from .screen import PickItem

__all__ = ["Delivery", "Queued", "View", "When"]

When = Literal["now", "after"]
"""`now`: as soon as the model can hear it. `after`: when the run would end."""

STOPPED_BY_USER = "stopped by the user"


class View(Protocol):
    """What shows it."""

    def note(self, text: str) -> None: ...
    def error(self, message: str, hint: str | None = None) -> None: ...
    def ended(self, result: RunResult[Any]) -> None: ...
    def command_begins(self, command: UserCommand) -> None:
        """The user runs *command*."""
        ...

    def command_ends(self, ran: BashExecution | None) -> None:
        """It has ended. None: it could not be run, or not be kept."""
        ...

    def give_back(self, text: str) -> None:
        """Put *text* into the input, before what is there."""
        ...

    def changed(self) -> None:
        """Something that is shown may be different now."""
        ...

    def meter_changed(self) -> None:
        """Tokens were used, or the session is another."""
        ...

    async def decide(self, question: Question) -> Answer | None:
        """Ask the user. None: no, and stop the run."""
        ...

    async def pick(
        self, title: str, items: Sequence[PickItem], *, selected: int = 0
    ) -> PickItem | None:
        """Let the user choose. None: they left without choosing."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        """Run *work* beside the screen; what it raises ends the program."""
        ...

    async def command(self, line: str, live: LiveSession) -> bool:
        """Do what the slash command *line* says. False: it is none of ours."""
        ...


@dataclass(frozen=True, slots=True)
class Queued:
    """Something that waits to be heard, for the screen."""

    text: str
    when: When
    is_text: bool = False
    """It is no command, whatever it begins with."""

    @property
    def again(self) -> str:
        """What goes back into the input."""
        return as_text(self.text) if self.is_text else self.text


class Delivery:
    """Between the input and a session."""

    def __init__(self, view: View) -> None:
        self.activity = Activity()
        self.live: LiveSession | None = None
        self._view = view
        self._early: list[Queued] = []
        """Said before the session was open."""
        self._held: list[Queued] = []
        """Said before the run that was asked for had begun."""
        self._typed: dict[str, str] = {}
        """What the user typed, by the id of the message in the session that was made of it."""
        self._unheard: list[InboxItem] = []
        """What the session still had when nothing went on any more that would hear it."""
        self._sending = asyncio.Lock()
        """Keeps steering in the order it was typed."""
        self._run: asyncio.Task[None] | None = None
        self._accepted = False
        """The session has the prompt."""
        self._begun = False
        self._commands = 0
        self._runs = 0
        """How many have begun."""

    # -- what goes on --------------------------------------------------------------------------

    @property
    def working(self) -> bool:
        """Something goes on that Esc would stop."""
        return self._is_running or (self.live is not None and self.live.working)

    @property
    def _is_running(self) -> bool:
        return self._run is not None and not self._run.done()

    @property
    def busy(self) -> bool:
        """Something goes on that may change what is shown without an event."""
        return self.working or self._commands > 0

    def queued(self) -> list[Queued]:
        """What waits to be heard, in the order in which it will be, as far as that is known."""
        waiting = self._unheard if self.live is None else [*self._unheard, *self.live.queued()]
        items = {item.id: item for item in waiting}
        there = [
            Queued(self._text_of(item), "after" if item.queue == "followUp" else "now")
            for item in items.values()
        ]
        return [*self._early, *there, *self._held]

    def hear(self, event: AgentEvent) -> None:
        """An event of the run. Called for every delta."""
        self.activity.feed(event, time.monotonic())
        if isinstance(event, AgentStart):
            self._begun = True
            self._runs += 1
            if self._held:
                self._view.spawn(self._send_held())
        elif isinstance(event, MessageEnd):
            self._view.meter_changed()
        elif isinstance(event, AgentEnd):
            self._begun = False
            if self.live is not None:
                self._unheard = self.live.queued()
            self._view.meter_changed()

    # -- saying --------------------------------------------------------------------------------

    def say(self, text: str, when: When = "now", *, is_text: bool = False) -> None:
        """Say *text*, or do what it says if it is a command and not *is_text*. Returns at once."""
        if not text.strip():
            return
        if self.live is None:
            self._early.append(Queued(text, when, is_text))
        elif not is_text and (asked := shell_line(text)) is not None:
            self._shell(asked, text, self.live)
        elif not is_text and text.startswith("/"):
            self._view.spawn(self._command(text, when, self.live))
        else:
            self._tell(text, when, self.live)
        self._view.changed()

    def _tell(self, text: str, when: When, live: LiveSession) -> None:
        if not self.working:
            self._start(lambda: live.prompt(text, accepted=self._accept), text)
        elif self._is_running and not self._begun:
            self._held.append(Queued(text, when))
        else:
            self._view.spawn(self._queue(Queued(text, when), live))

    async def _command(self, line: str, when: When, live: LiveSession) -> None:
        self._commands += 1
        runs = self._runs
        if not self.working:
            self.activity.begin(time.monotonic(), f"at work on {line.split()[0]}")
        try:
            ours = await self._view.command(line, live)
        except LoopwrightError as error:
            self._view.error(error.message, error.hint)
            ours = True
        finally:
            self._commands -= 1
            if not self.working:
                self.activity.end()
        self._view.meter_changed()
        if not ours:
            self._tell(line, when, live)
        elif not self.working:
            if self._runs != runs and live.pending_approvals():  # it was taken up, and waits
                await self._take_up(live)
            else:
                await self._say_unheard(live, stopped=False)

    def _shell(self, asked: ShellLine, line: str, live: LiveSession) -> None:
        if not asked.command:
            self._view.error(f"nothing stands behind the {line.strip()}", "!ls, for example")
        elif self.working:
            self._view.note(
                f"{line.split()[0]} has to wait: something is at work; Enter runs it when that is "
                "done, esc interrupts"
            )
            self._view.give_back(line)
        else:
            self.activity.begin(time.monotonic(), "running your command")
            self._begun = False  # what is said meanwhile is held here
            command = live.user_command(asked.command, told=asked.told)
            self._run = self._view.spawn(self._run_command(command, live))

    async def _run_command(self, command: UserCommand, live: LiveSession) -> None:
        ran: BashExecution | None = None
        self._view.command_begins(command)
        try:
            ran = await live.run_command(command)
        except LoopwrightError as error:
            self._view.error(error.message, error.hint)
        finally:
            self._run = None
            self.activity.end()
            self._view.command_ends(ran)
        if command.left_running:
            groups = " ".join([f"-{group}" for group in command.left_running])
            self._view.note(f"still running in the background; !!kill -- {groups} ends it")
        self._view.meter_changed()
        await self._say_unheard(live, stopped=ran is None or ran.cancelled)

    async def _queue(self, said: Queued, live: LiveSession) -> None:
        async with self._sending:
            try:
                if said.when == "after":
                    item = await live.follow_up(said.text)
                else:
                    item = await live.steer(said.text)
            except LoopwrightError as error:
                self._view.error(error.message, error.hint)
                self._view.give_back(as_text(said.text))
                return
            self._typed[item.id] = said.text
            if not self._begun and item.id not in {known.id for known in self._unheard}:
                self._unheard.append(item)  # the run ended while it was on its way
        self._view.changed()
        if not self.working:
            await self._say_unheard(live, stopped=False)

    async def _send_held(self) -> None:
        held, self._held = self._held, []
        for said in held:
            assert self.live is not None
            await self._queue(said, self.live)

    # -- running -------------------------------------------------------------------------------

    def _accept(self) -> None:
        self._accepted = True

    def _start(
        self, work: Callable[[], Awaitable[RunResult[str] | None]], text: str | None
    ) -> None:
        self.activity.begin(time.monotonic())
        self._accepted, self._begun = False, False
        self._run = self._view.spawn(self._drive(work, text))

    async def _drive(
        self, work: Callable[[], Awaitable[RunResult[str] | None]], text: str | None
    ) -> None:
        result: RunResult[str] | None = None
        refused = False
        try:
            result = await work()
        except LoopwrightError as error:
            refused = True
            self._view.error(error.message, error.hint)
        finally:
            self._run = None
            self.activity.end()
        assert self.live is not None
        if not self._accepted:
            if not refused:
                self._view.note("stopped before it was sent")
            if text is not None:
                self._held.insert(0, Queued(text, "now"))
        elif result is not None:
            self._view.ended(result)
        elif not refused and self.live.unfinished is not None:
            await self.stop()  # it was stopped before it went on, and the session is to know
        self._view.meter_changed()
        stopped = refused or result is None or result.stop_reason in ("aborted", "error")
        if not stopped and self.live.pending_approvals() and self.live.unfinished is not None:
            await self._take_up(self.live)
        else:
            await self._say_unheard(self.live, stopped=stopped)

    async def _say_unheard(self, live: LiveSession, *, stopped: bool) -> None:
        """What still waits when nothing goes on: said now, or given back after a stop."""
        if stopped:
            await self.take_back()
            return
        if live.unfinished is not None:
            return  # a later run of it will hear them
        text = "\n\n".join(await self._withdrawn(live))
        held, self._held = self._held, []
        if text:
            self._tell(text, "now", live)
        for said in held:
            self._tell(said.text, said.when, live)
        self._view.changed()

    async def _withdrawn(self, live: LiveSession) -> list[str]:
        """The texts of what the model has not heard, which it then never will."""
        items = {item.id: item for item in [*self._unheard, *live.queued()]}
        self._unheard = []
        texts: list[str] = []
        for item in items.values():
            try:
                if await live.withdraw(item.id) == "withdrawn":
                    texts.append(self._text_of(item))
                self._typed.pop(item.id, None)
            except LoopwrightError as error:
                self._view.error(error.message, error.hint)
        return texts

    async def take_back(self) -> None:
        """Give the user back all that was said and not heard yet.

        Text stays text, and so does a command with something else behind it, or Enter would give
        all of it to a shell.
        """
        texts = [said.again for said in self._early]
        self._early = []
        held, self._held = self._held, []
        if self.live is not None:
            texts += map(as_text, await self._withdrawn(self.live))
        texts += [as_text(said.text) for said in held]
        if len(texts) > 1:
            texts[0] = as_text(texts[0])
        if texts:
            self._view.give_back("\n\n".join(texts))

    def interrupt(self) -> None:
        """Stop what goes on. Returns at once."""
        if self.working and self.live is not None:
            self._view.spawn(self.stop())

    async def stop(self, reason: str = STOPPED_BY_USER) -> None:
        """Stop what goes on; returns when the session knows of it. What the session has not begun
        with never begins."""
        if self.live is None:
            return
        try:
            await self.live.abort(reason)
        except LoopwrightError as error:
            self._view.error(error.message, error.hint)

    async def idle(self) -> None:
        """Return when no run that was started here goes on."""
        while (run := self._run) is not None and not run.done():
            await asyncio.wait({run})  # what it left unheard may have begun another

    # -- beginning -----------------------------------------------------------------------------

    async def begin(self, live: LiveSession, first_prompt: str = "") -> None:
        """Take *live* as the session: settle what an earlier process left in it, then say
        *first_prompt* and what was typed meanwhile."""
        self.live = live
        early, self._early = self._early, []
        if first_prompt.strip():
            # Whoever wrote it may not have sat at this terminal: a shell gets it only by a key.
            is_text = shell_line(first_prompt) is not None
            early.insert(0, Queued(first_prompt, "now", is_text))
        self._view.meter_changed()
        if (operation := live.unfinished) is not None:
            self._view.note(f"an earlier process left a {operation.kind} unfinished; taking it up")
            if not await self._take_up(live):  # what was said is not sent by itself then
                for said in reversed(early):
                    self._view.give_back(said.again)
                return
        for said in early:
            self.say(said.text, said.when, is_text=said.is_text)

    async def settle(self) -> None:
        """Ask what is to become of what is unfinished in the session, if anything is."""
        from .unfinished_work import ask_fate

        live = self.live
        if live is None or (operation := live.unfinished) is None:
            return
        match await ask_fate(operation.kind, self._view.pick):
            case "taken up":
                await self._take_up(live)
            case "given up":
                await self.stop("given up by the user")
                self._view.note(f"the {operation.kind} was given up")
            case "left":
                self._view.note("it stays unfinished; /resume asks about it again")

    async def _take_up(self, live: LiveSession) -> bool:
        """Ask about what the unfinished run waits for, then drive it. False if it was given up."""
        from .unfinished_work import decide_waiting

        try:
            if not await decide_waiting(live, self._view.decide):
                await self.stop()
                return False
        except LoopwrightError as error:
            self._view.error(error.message, error.hint)
            return False
        self._start(live.resume, None)
        self._accepted = True  # the session has it already
        return True

    def _text_of(self, item: InboxItem) -> str:
        return self._typed.get(item.id) or _text(item.message)


def _text(message: AgentMessage | None) -> str:
    if not isinstance(message, UserMessage):
        return ""
    if isinstance(message.content, str):
        return message.content
    return "\n".join(
        "(an image)" if isinstance(block, ImageContent) else block.text for block in message.content
    )
