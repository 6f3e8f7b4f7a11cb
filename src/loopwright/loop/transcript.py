"""What a transcript asks for now. Pure: the rules of the loop, testable without one.

`next_step` reads where the run stands and names the one thing to do next; the kernel does it and
asks again. After an abort or a cancellation the same question has the same answer, so that ending
a run properly is nothing but going on with it.

    closed ── a poll found messages, or an answer is owed ──▶ open ── the model replied ──▶ answered
      ▲  │ nothing is left to do                                                               │
      │  └──▶ Finish                                                 its calls have results    │
      └────────────────────────────────── EndTurn ─────────────────────────────────────────────┘
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from ..messages import AgentMessage, AssistantMessage, ToolCall, ToolResultMessage

__all__ = [
    "AskModel",
    "BeginTurn",
    "Deliver",
    "EndTurn",
    "Finish",
    "Poll",
    "Progress",
    "RunTools",
    "Step",
    "StoppedBy",
    "next_step",
    "unanswered_calls",
]

StoppedBy = Literal["terminate", "hook", "max_turns", "abort", "timeout", "error", "approval"]


class Progress(msgspec.Struct):
    """What the transcript alone does not tell: where in a turn the run is, and what it was told."""

    turn: Literal["closed", "open", "answered"] = "closed"
    prompts: list[AgentMessage] = msgspec.field(default_factory=list[AgentMessage])
    """What the run was started with and has not said yet; said even if the run is stopped."""
    steering: list[AgentMessage] | None = None
    """Messages to say before the next request; None: not asked for since the last turn ended."""
    follow_up: list[AgentMessage] | None = None
    """Messages to say instead of ending; None: not asked for since the last turn ended."""
    stopped_by: StoppedBy | None = None
    """Somebody decided that the run ends, and nothing may be started any more."""
    terminated: bool = False
    """The tools of the last turn agreed that no answer to them is needed."""
    extra_turn: bool = False
    """A hook asked for one more request."""
    retry: bool = False
    """The last reply failed in a way that can be mended; the model is asked once more."""
    parked: bool = False
    """Calls of the last reply wait for somebody's approval; the run ends without their results."""


class Poll(msgspec.Struct):
    """Ask whether messages wait."""

    queue: Literal["steering", "follow_up"]


class BeginTurn(msgspec.Struct):
    """A turn begins."""


class Deliver(msgspec.Struct):
    """Say these messages."""

    messages: list[AgentMessage]


class AskModel(msgspec.Struct):
    """Send the transcript and stream the reply. After a stop: close the turn without asking."""


class RunTools(msgspec.Struct):
    """Run these calls of *reply*, or answer them unrun if it was cut or the run is stopped."""

    reply: AssistantMessage
    calls: list[ToolCall]


class EndTurn(msgspec.Struct):
    """The reply and the results of its calls are there."""


class Finish(msgspec.Struct):
    """The run is over."""


Step = Poll | BeginTurn | Deliver | AskModel | RunTools | EndTurn | Finish


def next_step(transcript: Sequence[AgentMessage], progress: Progress) -> Step:
    """The one thing to do now."""
    if progress.turn == "answered":
        reply, calls = unanswered_calls(transcript)
        missing = reply is not None and bool(calls) and not progress.parked
        return RunTools(reply, calls) if reply is not None and missing else EndTurn()
    if progress.prompts:
        return BeginTurn() if progress.turn == "closed" else Deliver(progress.prompts)
    if progress.turn == "open":
        if progress.stopped_by is not None:
            return AskModel()
        if progress.steering is None:
            return Poll("steering")
        waiting = progress.steering or progress.follow_up
        return Deliver(waiting) if waiting else AskModel()
    if progress.stopped_by is not None:
        return Finish()
    if progress.steering is None:
        return Poll("steering")
    goes_on = progress.extra_turn or progress.retry or _owes_answer(transcript, progress)
    if progress.steering or goes_on:
        return BeginTurn()
    if progress.follow_up is None:
        return Poll("follow_up")
    return BeginTurn() if progress.follow_up else Finish()


def _owes_answer(transcript: Sequence[AgentMessage], progress: Progress) -> bool:
    """Whether the model has yet to see the results of its calls."""
    return (
        not progress.terminated
        and bool(transcript)
        and isinstance(transcript[-1], ToolResultMessage)
    )


def unanswered_calls(
    transcript: Sequence[AgentMessage],
) -> tuple[AssistantMessage | None, list[ToolCall]]:
    """The last reply, and those of its calls that no result after it answers, in source order.

    Calls are matched by position, since ids may repeat: the second call with an id is answered by
    the second result with it. The calls of a failed or aborted reply were never complete and are
    owed nothing.
    """
    answered: dict[str, int] = {}
    for message in reversed(transcript):
        if isinstance(message, ToolResultMessage):
            answered[message.tool_call_id] = answered.get(message.tool_call_id, 0) + 1
        elif isinstance(message, AssistantMessage):
            if message.stop_reason in ("error", "aborted"):
                return message, []
            missing: list[ToolCall] = []
            for call in message.tool_calls:
                if answered.get(call.id, 0) > 0:
                    answered[call.id] -= 1
                else:
                    missing.append(call)
            return message, missing
    return None, []
