"""Whether a call may run: asked when the user can hear it, and settled by their word or by the
permission mode they change to meanwhile.

Not here: how the question looks (question.py), what the modes mean (permissions/policy.py).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from ...loop.threads import run_in_thread
from ...permissions.gate import Answer, Question
from ...permissions.policy import MODES
from .asking import Asking
from .proposed_change import CHANGES_FILES, lines_of
from .question import QuestionPanel

if TYPE_CHECKING:
    from ...permissions.policy import Mode
    from ..live.session import LiveSession
    from .transcript import Transcript

__all__ = ["PermissionQuestions"]

MODE_STANDS_SECONDS = 0.6
"""Only a mode that stands so long settles a question: Shift+Tab passes `yolo` on its way."""


class PermissionQuestions:
    """Those of one session."""

    def __init__(
        self,
        live: LiveSession,
        asking: Asking,
        transcript: Transcript,
        *,
        note: Callable[[str], None],
        typed: Callable[[str], None],
        mode_changed: Callable[[], None],
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._live = live
        self._asking = asking
        self._transcript = transcript
        self._note = note
        self._typed = typed
        self._mode_changed = mode_changed
        self._spawn = spawn
        self._changes = 0
        """How often the mode was changed."""

    async def decide(self, question: Question) -> Answer | None:
        """The user's word. None: no, and stop the run. Being cancelled closes the question."""

        async def panel() -> QuestionPanel:
            edits = question.tool_name in CHANGES_FILES and self._live.permission_mode == "ask"
            return QuestionPanel(
                question,
                show_all=self._note,
                typed=self._typed,
                lines=await lines_of(self._live.bench, question),
                allow_edits=(lambda: self._set_mode("auto-edit")) if edits else None,
            )

        self._transcript.waits_for_word(question.tool_call_id)
        try:
            return await self._asking.decide(panel)
        finally:
            self._transcript.waits_for_word(None)

    def next_mode(self) -> None:
        """Change to the next permission mode. If it allows the call that is asked about and is not
        left again at once, that call runs."""
        self._set_mode(MODES[(MODES.index(self._live.permission_mode) + 1) % len(MODES)])
        panel = self._asking.shown
        if isinstance(panel, QuestionPanel):
            self._spawn(self._settle_by_mode(panel))

    def _set_mode(self, mode: Mode) -> None:
        self._changes += 1
        self._live.permission_mode = mode
        self._mode_changed()

    async def _settle_by_mode(self, panel: QuestionPanel) -> None:
        changes = self._changes
        await asyncio.sleep(MODE_STANDS_SECONDS)
        if changes != self._changes or panel.done.done():
            return
        asked = panel.question
        decide = self._live.bench.policy.decide
        decision = await run_in_thread(decide, asked.tool_name, asked.args)
        if changes != self._changes:
            return
        if decision.effect == "allow":
            panel.allow()
        elif decision.effect == "deny":
            panel.refuse(f"the mode is {self._live.permission_mode} now")
