"""The screen: finished output above, and below it what is unfinished, the queue, the input, the
footer. It answers the keys, and is what commands see of the terminal (screen.py).

Not here: what stands where (screen_layout.py), starting and leaving (run.py), how what is said
reaches the model (delivery.py).
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from prompt_toolkit.application.run_in_terminal import in_terminal, run_in_terminal
from prompt_toolkit.key_binding.vi_state import InputMode
from prompt_toolkit.layout import Layout

from ... import RunResult, __version__
from ...errors import LoopwrightError
from ...events import AgentEvent
from ..exit_codes import ExitCode
from ..places import shown_path
from .asking import Asking
from .delivery import Delivery, When
from .footer import Footer, measure
from .inline import InlineApplication
from .keys import keys_of
from .one_line import one_line
from .screen import PickItem
from .screen_layout import ScreenLayout
from .theme import Theme, theme_named
from .transcript import Transcript

if TYPE_CHECKING:
    from prompt_toolkit.data_structures import Size
    from prompt_toolkit.history import History
    from prompt_toolkit.input import Input
    from prompt_toolkit.output import Output

    from ...permissions.gate import Answer, Question
    from ...session.formats.pi_messages import BashExecution
    from ..live.session import LiveSession
    from ..live.user_command import UserCommand
    from .pastes import Pastes
    from .permission_questions import PermissionQuestions

__all__ = ["InteractiveScreen"]

LEAVE_SECONDS = 2.0
"""Ctrl-C twice in so many seconds leaves."""

TYPING_SECONDS = 0.6
"""A question takes no key before the user, who was just typing something else, has paused so long."""

ANIMATION_SECONDS = 0.2
REPLAYED_MESSAGES = 100


class InteractiveScreen:
    """Draws, hears keys, and asks. Everything is called on the event loop's thread."""

    def __init__(
        self,
        *,
        theme: Theme,
        folder: Path,
        history: History,
        pastes: Pastes,
        input: Input,
        output: Output,
        on_leave: Callable[[ExitCode], None],
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        stop_process: Callable[[], None] = lambda: None,
    ) -> None:
        """*on_leave* is told that the user wants to go; *spawn* runs work beside the screen;
        *stop_process* is what Ctrl-Z does."""
        self.transcript = Transcript(theme, color=not theme.plain)
        self.delivery = Delivery(self)
        self.footer = Footer(folder=shown_path(folder))
        self._folder = folder
        self._spawn = spawn
        self._on_leave = on_leave
        self._stop_process = stop_process
        self._above: list[str] = []
        """Printed before what the transcript has finished."""
        self.asking = Asking(
            changed=self.changed, focus=self._focus, typing_seconds=self._typing_seconds
        )
        self._questions: PermissionQuestions | None = None
        self._runs_command = False
        """A command of the user's is what goes on."""
        self._editing: asyncio.Task[None] | None = None
        """Another program has the terminal, to edit the input."""
        self._last_key = 0.0
        self._ctrl_c_at = 0.0
        self._busy = asyncio.Event()
        self._layout = ScreenLayout(
            history,
            pastes,
            footer=self.footer,
            activity=self.delivery.activity,
            asking=self.asking,
            working=lambda: self.delivery.working,
            runs_command=lambda: self._runs_command,
            placeholder=self._placeholder,
            changed=self.changed,
        )
        self.editor = self._layout.editor
        self.app = InlineApplication(
            Layout(self._layout.root, focused_element=self.editor.window),
            style=theme.prompt_toolkit(),
            input=input,
            output=output,
            vi=False,
            finished=self._take,
            before=self._arrange,
        )
        self.app.key_bindings = keys_of(self)
        self.editor.buffer.on_text_changed += self._note_typing

    # -- drawing -------------------------------------------------------------------------------

    def _placeholder(self) -> str:
        if self.delivery.live is None:
            return "starting; what you type is kept"
        if self._runs_command:
            return "said when your command has ended; Esc stops it"
        return "steer it, or Esc to stop" if self.delivery.working else "ask something"

    def _arrange(self, size: Size) -> None:
        queued = [(said.when == "after", said.text) for said in self.delivery.queued()]
        self._layout.arrange(size, queued, self.transcript.live)

    def _take(self, columns: int) -> str:
        above, self._above = self._above, []
        return "".join(above) + self.transcript.take(columns)

    def _print(self, make: Callable[[int], str]) -> None:
        """Print what *make* gives for so many columns, behind what was finished before."""
        columns = self.app.output.get_size().columns
        self._above += [self.transcript.take(columns), make(columns)]
        self.changed()

    def changed(self) -> None:
        """Draw again, at the next frame."""
        if self.delivery.busy:
            self._busy.set()
        self.app.invalidate()

    async def animate(self) -> None:
        """Let the seconds pass on the screen while something goes on; nothing is drawn otherwise."""
        while True:
            await self._busy.wait()
            await asyncio.sleep(ANIMATION_SECONDS)
            if self.delivery.working:
                self.app.invalidate()
            elif not self.delivery.busy:
                self._busy.clear()
                self.app.invalidate()

    def hear(self, event: AgentEvent) -> None:
        """An event of the run. Called for every delta, so it only takes note."""
        self.delivery.hear(event)
        self.transcript.feed(event)
        self.app.invalidate()

    def meter_changed(self) -> None:
        live = self.delivery.live
        if live is None:
            return
        measure(self.footer, live)
        self.changed()

    # -- what commands and the delivery ask for (screen.Screen, delivery.View) -------------------

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        return self._spawn(work)

    def said(self, text: str) -> None:
        self.transcript.said(text)
        self.changed()

    async def settle_unfinished(self) -> None:
        await self.delivery.settle()

    def note(self, text: str) -> None:
        self.transcript.note(text)
        self.changed()

    def error(self, message: str, hint: str | None = None) -> None:
        self.transcript.error(message, hint)
        self.changed()

    def command_begins(self, command: UserCommand) -> None:
        self._runs_command = True
        self.transcript.command_begins(command)
        self.changed()

    def command_ends(self, ran: BashExecution | None) -> None:
        self._runs_command = False
        self.transcript.command_ends(ran)
        self.changed()

    def ended(self, result: RunResult[Any]) -> None:
        self.transcript.ended(result)
        self.changed()

    def give_back(self, text: str) -> None:
        self.editor.put_before(text)
        self.changed()

    def set_input(self, text: str) -> None:
        self.editor.text = text
        self.changed()

    async def command(self, line: str, live: LiveSession) -> bool:
        from .commands import run_command

        return await run_command(line, live, self)

    async def pick(
        self, title: str, items: Sequence[PickItem], *, selected: int = 0
    ) -> PickItem | None:
        return await self.asking.pick(title, items, selected=selected)

    async def ask_text(self, title: str, initial: str = "") -> str | None:
        return await self.asking.ask_text(title, initial)

    async def confirm(self, question: str) -> bool:
        return await self.asking.confirm(question)

    async def decide(self, question: Question) -> Answer | None:
        if self._questions is None:
            return None
        activity = self.delivery.activity
        activity.waits_for_word(question.tool_call_id, time.monotonic())
        try:
            return await self._questions.decide(question)
        finally:
            activity.has_word(question.tool_call_id, time.monotonic())

    async def ask(self, question: Question) -> Answer:
        """What the permission gate asks; it is closed when the run is stopped."""
        from ...permissions.gate import Deny

        answer = await self.decide(question)
        if answer is None:
            # First stopped, or the model would be asked what it says to the refusal.
            await asyncio.wait({self.spawn(self.delivery.stop())})
            return Deny()
        return answer

    def _focus(self, window: Any) -> None:
        if window is not None:
            self.editor.close_menu()
            self.editor.stop_search()
        self.app.layout.focus(window or self.editor.window)
        self.app.vi_state.input_mode = InputMode.INSERT

    def _typing_seconds(self) -> float:
        if self.editor.is_empty:
            return 0.0
        return max(0.0, self._last_key + TYPING_SECONDS - time.monotonic())

    def redraw(self) -> None:
        live = self.delivery.live
        if live is None:
            return
        messages = live.happened()
        left_out = max(0, len(messages) - REPLAYED_MESSAGES)
        info = live.info
        title = one_line(info.name or info.id) if info is not None else "a new session"
        self.transcript.note(f"— {title} —")
        if left_out:
            self.transcript.note(f"{left_out} earlier messages are not shown; /export writes all")
        self._print(lambda columns: self.transcript.replay(messages[left_out:], columns))
        self.meter_changed()

    async def begin(self, live: LiveSession, first_prompt: str) -> None:
        """The session is open: show what was said in it, and go on."""
        from .commands import argument_words, command_words
        from .completion import PromptCompleter
        from .permission_questions import PermissionQuestions

        self.delivery.live = live
        self._questions = PermissionQuestions(
            live,
            self.asking,
            self.transcript,
            note=self.note,
            typed=self.editor.type_ahead,
            mode_changed=self.meter_changed,
            spawn=self._spawn,
        )
        self.editor.completer = PromptCompleter(
            live.folder,
            lambda: command_words(live),
            lambda name, typed: argument_words(live, name, typed),
        )
        if live.info is not None:
            self.redraw()
        else:
            self.note(f"loopwright {__version__}; /help lists commands and keys")
        self.meter_changed()
        await self.delivery.begin(live, first_prompt)

    def rest(self) -> str:
        """What was never drawn above, and what is unfinished, for whoever leaves."""
        size = self.app.output.get_size()
        live = self.transcript.live(size.columns, size.rows)
        return self._take(size.columns) + (f"{live}\n" if live else "")

    def copy(self, text: str) -> None:
        from .clipboard import copy_sequence

        self.app.output.write_raw(copy_sequence(text))
        self.app.output.flush()

    def set_theme(self, name: str) -> None:
        theme = theme_named(name)
        self.transcript.theme = theme
        self.app.style = theme.prompt_toolkit()
        self.changed()

    def toggle_thinking(self) -> None:
        self.transcript.show_thinking = not self.transcript.show_thinking
        self._layout.say_hint(
            f"thinking is {'shown' if self.transcript.show_thinking else 'folded'}"
        )

    def leave(self) -> None:
        self._on_leave(ExitCode.DONE)

    def _note_typing(self, _buffer: object) -> None:
        self._last_key = time.monotonic()
        self._ctrl_c_at = 0.0  # twice is without anything in between
        if self.editor.is_empty:
            self.asking.look_again()

    # -- keys (keys.Actions) -------------------------------------------------------------------

    @property
    def at_input(self) -> bool:
        return self.asking.shown is None and not self.editor.searching

    @property
    def at_question(self) -> bool:
        if self._questions is None:
            return False
        from .question import QuestionPanel

        panel = self.asking.shown
        return isinstance(panel, QuestionPanel) and not panel.saying_why

    @property
    def working(self) -> bool:
        return self.delivery.working

    @property
    def input_is_empty(self) -> bool:
        return self.editor.is_empty

    def enter(self) -> None:
        if not self.editor.accept_completion() and not self.editor.backslash_line():
            self._say("now")

    def alt_enter(self) -> None:
        if self.delivery.working:
            self._say("after")
        else:
            self.editor.new_line()

    def _say(self, when: When) -> None:
        is_text = self.editor.begins_with_paste  # what was copied is no command
        self.delivery.say(self.editor.take(), when, is_text=is_text)

    def new_line(self) -> None:
        self.editor.new_line()

    def paste(self, text: str) -> None:
        self.editor.paste(text, self._folder)

    def take_back(self) -> None:
        self._spawn(self.delivery.take_back())

    def escape(self) -> None:
        if not self.editor.close_menu():
            self.delivery.interrupt()

    def ctrl_c(self) -> None:
        if self._editing is not None:  # a signal, which was meant for the editor
            return
        again = time.monotonic() - self._ctrl_c_at < LEAVE_SECONDS
        if self.asking.shown is not None:
            self.asking.shown.cancel()
        elif again:
            self.leave()
        else:
            if self.editor.stop_search() or not self.editor.is_empty:
                self.editor.take()
            else:
                self.delivery.interrupt()
            self._ctrl_c_at = time.monotonic()
            self._layout.say_hint("Ctrl-C again leaves")

    def suspend(self) -> None:
        if self._editing is not None:  # the editor was told to stop, and has the terminal
            self._stop_process()
            return
        self.app.wipe()
        run_in_terminal(self._stop_process)

    def edit_elsewhere(self) -> None:
        if self._editing is None:
            self._editing = self._spawn(self._edit_elsewhere())

    async def _edit_elsewhere(self) -> None:
        from .external_editor import edited, editor_command

        try:
            command = editor_command()
            self.editor.close_menu()
            self.app.wipe()
            async with in_terminal():
                text = await edited(self.editor.text, command)
            self.editor.text = text
        except LoopwrightError as error:
            self.error(error.message, error.hint)
        finally:
            self._editing = None
            self.changed()

    def stop_editing(self) -> None:
        """Take the terminal back from an editor; what was written in it is lost."""
        if self._editing is not None:
            self._editing.cancel()

    def search_history(self) -> None:
        self.editor.search_history()

    def show_last_output(self) -> None:
        # What is in the scrollback cannot be unfolded there, so all of it is printed once more.
        columns = self.app.output.get_size().columns
        text = self.transcript.expand_last(columns)
        if text:
            self._print(lambda _columns: f"\n{text}")
        else:
            self._layout.say_hint("no tool has said anything yet")

    def next_permission_mode(self) -> None:
        if self._questions is not None:
            self._questions.next_mode()

    def clear_screen(self) -> None:
        self.app.renderer.clear()
        self.changed()
