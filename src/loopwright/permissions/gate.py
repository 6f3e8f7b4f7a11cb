"""The hook between a policy and a run: lets a call pass, refuses it, or has somebody asked.

An answer is to what was asked: a file that the path has come to lead to meanwhile, or a mode that
was chosen in the meantime, is judged anew.

What the policy asks for goes to the front end's `ask`, one question at a time. Where there is none,
the call is parked in the session until somebody decides (harness/approvals.py); an agent without a
session refuses it.

Not here: what is allowed (policy.py), keeping rules for the next time (whoever owns the settings).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from ..loop.agent_tool import AgentTool
from ..loop.arguments import ArgumentsRejected
from ..loop.hook_calls import call_foreign, verdict_hook
from ..loop.hooks import BeforeToolCall, BeforeToolCallHook, BeforeToolCallResult
from ..loop.threads import run_in_thread
from .policy import Decision, Policy
from .rules import Rule

__all__ = [
    "AllowAlways",
    "AllowOnce",
    "Answer",
    "Ask",
    "Deny",
    "Judged",
    "PermissionGate",
    "Question",
    "declined",
    "permission_gate",
]


@dataclass(frozen=True, slots=True)
class Question:
    """A call that somebody is to decide about. The arguments are a model's: neutralize them."""

    tool_call_id: str
    tool_name: str
    args: dict[str, Any]
    decision: Decision
    """Why it is asked for."""
    rule: Rule | None
    """What `AllowAlways()` would add. None: such a call can only be allowed once."""


@dataclass(frozen=True, slots=True)
class AllowOnce:
    """This call may run."""


@dataclass(frozen=True, slots=True)
class AllowAlways:
    """This call may run, and from now on what *rule* allows; None takes the question's."""

    rule: Rule | None = None


@dataclass(frozen=True, slots=True)
class Deny:
    """This call may not run; the model is told *reason*."""

    reason: str = ""
    by_user: bool = True
    """False: nobody was there to ask, and *reason* says so."""


Answer = AllowOnce | AllowAlways | Deny
Ask = Callable[[Question], Answer | Awaitable[Answer]]


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of a call at the gate."""

    verdict: BeforeToolCallResult | None
    args: dict[str, Any]
    """What is run if it may."""
    real: tuple[str, ...] = ()
    """The real paths that it may come to, if it works on files: it was judged by these."""


class PermissionGate:
    """A `before_tool_call` hook. `granted` has the rules that answers added, to be kept."""

    time_limit_seconds = None
    """A person may take as long as they like to answer."""

    def __init__(
        self,
        policy: Policy,
        ask: Ask | None = None,
        *,
        then: BeforeToolCallHook | None = None,
        on_granted: Callable[[Rule], object] | None = None,
    ) -> None:
        """See `permission_gate`."""
        self.policy = policy
        self.ask = ask
        self.granted: list[Rule] = []
        self._other = None if then is None else verdict_hook(then)
        self._on_granted = on_granted
        self._asking = asyncio.Lock()

    async def __call__(self, call: BeforeToolCall, signal: Any) -> BeforeToolCallResult | None:
        """The verdict on *call*. An exception of the other hook, or of `ask`, blocks the call."""
        return (await self.judge(call, signal)).verdict

    async def judge(self, call: BeforeToolCall, signal: Any) -> Judged:
        """The verdict on *call*, with what it is about. Raises what the other hook or `ask` does."""
        other = None if self._other is None else await self._other(call, signal)
        if other is not None and not isinstance(other, BeforeToolCallResult):
            raise TypeError(
                f"before_tool_call returned {type(other).__name__}, not a BeforeToolCallResult"
            )
        if other is not None and other.block:
            return Judged(other, call.args)
        tool = next((one for one in call.context.tools if one.name == call.tool_call.name), None)
        if tool is None:
            # There is no such tool, and nobody needs to be asked about it.
            return Judged(other, call.args)
        # What would be run is judged, not what was asked for.
        made = None if other is None else other.args
        args = call.args if made is None else _as_run(tool, made)
        verdict, decision = await self._judge(call, args)
        if other is not None:
            verdict = _joined(other, verdict)
        return Judged(verdict, args, decision.real)

    async def _judge(
        self, call: BeforeToolCall, args: dict[str, Any]
    ) -> tuple[BeforeToolCallResult | None, Decision]:
        decision = await self._decide(call, args)
        if decision.effect == "ask" and call.approved:
            return None, decision  # it was asked for, and the answer was yes
        if decision.effect == "ask" and self.ask is not None:
            async with self._asking:
                # An answer to the question before this one may have settled it.
                decision = await self._decide(call, args)
                if decision.effect == "ask":
                    return await self._put(self.ask, call, args, decision), decision
        if decision.effect == "deny":
            return _blocked(call, decision.reason), decision
        if decision.effect == "ask":
            return BeforeToolCallResult(approval=True), decision
        # A tool that always wants approval is quieted by a rule, or by yolo, not by a default.
        stated = decision.rule is not None or self.policy.mode == "yolo"
        return BeforeToolCallResult(approval=False) if stated else None, decision

    async def _decide(self, call: BeforeToolCall, args: dict[str, Any]) -> Decision:
        return await run_in_thread(self.policy.decide, call.tool_call.name, args)

    async def _put(
        self, ask: Ask, call: BeforeToolCall, args: dict[str, Any], decision: Decision
    ) -> BeforeToolCallResult:
        name = call.tool_call.name
        # Where a rule asks, or may deny, an allowance beside it would change nothing.
        rule = self.policy.rule_for(name, args) if decision.rule is None else None
        answer = await call_foreign(
            ask, ask, Question(call.tool_call.id, name, args, decision, rule)
        )
        if isinstance(answer, Deny):
            if not answer.by_user:
                return _blocked(call, f"{decision.reason}, and {answer.reason}")
            return _blocked(call, declined(answer.reason))
        if not isinstance(answer, AllowOnce | AllowAlways):
            asker = getattr(ask, "__qualname__", type(ask).__name__)
            raise TypeError(
                f"the asker {asker} returned {answer!r}, which is no answer; "
                "it returns AllowOnce(), AllowAlways() or Deny()"
            )
        # While the question was open, the mode, a rule, or a link on the way may have changed.
        now = await self._decide(call, args)
        if now.effect == "deny":
            return _blocked(call, now.reason)
        if now.real != decision.real:
            return _blocked(call, "its path leads to another file now than when it was asked for")
        granted = (answer.rule or rule) if isinstance(answer, AllowAlways) else None
        if granted is not None and granted not in self.policy.rules:
            self.policy.rules.append(granted)
            self.granted.append(granted)
            if self._on_granted is not None:
                await call_foreign(self._on_granted, self._on_granted, granted)
        return BeforeToolCallResult(approval=False)


def permission_gate(
    policy: Policy,
    ask: Ask | None = None,
    *,
    then: BeforeToolCallHook | None = None,
    on_granted: Callable[[Rule], object] | None = None,
) -> PermissionGate:
    """A `before_tool_call` hook that does as *policy* says.

    *ask* answers what the policy asks for, one question at a time. It may be sync, and runs in a
    thread then, or async; an answer that is none of the three blocks the call. None leaves it to whoever
    approves parked calls. *then* is a hook of yours: it is called first, may block or change the
    arguments, and what comes of it is judged. Its `approval=True` is kept, its `approval=False`
    overrules nothing. *on_granted* is called with each rule that "always" added, to be written
    down; `gate.granted` has them too.
    """
    return PermissionGate(policy, ask, then=then, on_granted=on_granted)


def declined(reason: str) -> str:
    """What the model is told of a `Deny` of the user: their words are advice, not the cause."""
    return f'the user declined and said: "{reason}"' if reason else "the user said no"


def _blocked(call: BeforeToolCall, reason: str) -> BeforeToolCallResult:
    return BeforeToolCallResult(
        block=True,
        reason=f"{call.tool_call.name} was not run: {reason}. Do not try to get round this; "
        "do it another way that is allowed, or ask the user.",
    )


def _as_run(tool: Any, args: dict[str, Any]) -> dict[str, Any]:
    """What *tool* makes of *args*: it may know other names for them, and clean a path."""
    try:
        return tool.bind(args).args if isinstance(tool, AgentTool) else args
    except ArgumentsRejected:  # as the call will be, too
        return args


def _joined(
    other: BeforeToolCallResult, verdict: BeforeToolCallResult | None
) -> BeforeToolCallResult:
    """The stricter of both."""
    if verdict is not None and verdict.block:
        return verdict
    approval = None if verdict is None else verdict.approval
    if other.approval:
        approval = True
    return BeforeToolCallResult(
        reason=other.reason, terminate=other.terminate, args=other.args, approval=approval
    )
