"""Calls that wait for the client's word while their run goes on.

Calls that an earlier run left waiting are in the session; answers.py shows both as one list.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from ...permissions.gate import AllowAlways, AllowOnce, Answer, Deny, Question
from ...session.entries import new_id
from .line_writer import LineWriter
from .output import ApprovalOutcome, ApprovalRequest, ApprovalSettled, to_line
from .response_data import Waiting

__all__ = ["OpenQuestion", "Questions"]


@dataclass(frozen=True, slots=True, eq=False)
class OpenQuestion:
    """A question that was put to the client."""

    id: str
    question: Question
    answer: asyncio.Future[Answer]

    @property
    def rule(self) -> str | None:
        """What `always` would allow."""
        return None if self.question.rule is None else str(self.question.rule)


class Questions:
    """`ask` is what a session's `on_question` is set to."""

    def __init__(self, writer: LineWriter) -> None:
        self._writer = writer
        self._open: dict[str, OpenQuestion] = {}
        self._closed: str | None = None

    async def ask(self, question: Question) -> Answer:
        """Put *question* to the client and wait for its word."""
        if self._closed is not None:
            return Deny(self._closed, by_user=False)
        asked = OpenQuestion(new_id(), question, asyncio.get_running_loop().create_future())
        self._open[asked.id] = asked
        outcome: ApprovalOutcome = "cancelled"
        try:
            await self._writer.write(to_line(_request(asked)))
            answer = await asked.answer
            outcome = _outcome(answer)
            return answer
        finally:
            del self._open[asked.id]
            self._writer.put(to_line(ApprovalSettled(asked.id, outcome)))

    def get(self, approval_id: str) -> OpenQuestion | None:
        """The open question with that id, or about the call with that id."""
        open_ones = [one for one in self._open.values() if not one.answer.done()]
        found = [one for one in open_ones if one.id == approval_id]
        if found:
            return found[0]
        calls = [one for one in open_ones if one.question.tool_call_id == approval_id]
        return calls[0] if len(calls) == 1 else None

    def waiting(self) -> list[Waiting]:
        """All that are open, oldest first."""
        return [
            Waiting(
                asked.id,
                asked.question.tool_call_id,
                asked.question.tool_name,
                asked.question.args,
                asked.question.decision.reason,
                asked.rule,
                parked=False,
            )
            for asked in self._open.values()
            if not asked.answer.done()
        ]

    def deny_all(self, reason: str, *, for_good: bool = False) -> None:
        """Settle what is open; *for_good*: and whatever is asked from now on."""
        if for_good:
            self._closed = reason
        for asked in self._open.values():
            if not asked.answer.done():
                asked.answer.set_result(Deny(reason, by_user=False))


def _request(asked: OpenQuestion) -> ApprovalRequest:
    question = asked.question
    return ApprovalRequest(
        asked.id,
        question.tool_call_id,
        question.tool_name,
        question.args,
        question.decision.reason,
        asked.rule,
    )


def _outcome(answer: Answer) -> ApprovalOutcome:
    match answer:
        case AllowOnce():
            return "approved"
        case AllowAlways():
            return "always"
        case Deny():
            return "denied"
