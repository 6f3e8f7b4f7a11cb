"""The hooks of several extensions as one hook of each kind.

They are called in order, each on what the one before made of it. What a hook raises is told with
the name of whose hook it is; where the loop would carry on after a fault, so do the others here.

Not here: when a hook is called (loop/kernel.py, loop/preflight.py, loop/body.py).
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar, cast

import msgspec

from ..errors import LoopwrightError
from ..loop.context import AgentContext
from ..loop.faults import in_words, report
from ..loop.hook_calls import time_limit, verdict_hook
from ..loop.hooks import (
    AfterToolCall,
    AfterToolCallResult,
    BeforeToolCall,
    BeforeToolCallResult,
    FinishTurn,
    OnError,
    TurnContext,
    with_signal,
)
from ..loop.listeners import Listener, hear_last, tell_rest
from ..messages import AgentMessage, AgentToolResult, ImageContent, TextContent
from ..signals import AbortSignal
from .extension import Extension, Hooks

__all__ = ["ExtensionFailed", "combine", "combine_hooks"]

T = TypeVar("T")


class ExtensionFailed(LoopwrightError):
    """A hook raised, or returned what it may not. Says whose hook it is, and which."""

    def __init__(self, owner: str, hook: str, error: BaseException) -> None:
        self.owner = owner
        self.hook = hook
        super().__init__(f"{owner}: {hook} raised {type(error).__name__}: {in_words(error)}")


def combine(extensions: Iterable[Extension], *, on_error: OnError | None = None) -> Hooks:
    """The hooks of *extensions* as one of each kind, None where nobody has one.

    `before_tool_call`: the first that blocks wins, and those behind it are not asked; replaced
    arguments go on to the next; an approval that one wants stays wanted. `after_tool_call`: each
    sees the result as the one before left it. `prepare_request`, `transform_context`: in a row.
    `finish_turn`: all are asked; END wins over CONTINUE. `on_event`: all hear.

    *on_error* is told `(exception, where)` of faults that stop nothing: those of `after_tool_call`
    and `on_event`; of the latter once for each type of exception. Without it the logger
    "loopwright" is. Other faults are raised as
    `ExtensionFailed`, to be dealt with by the loop.
    """
    named = [(f"extension {extension.name!r}", extension.hooks) for extension in extensions]
    return combine_hooks(named, on_error=on_error)


def combine_hooks(parts: Iterable[tuple[str, Hooks]], *, on_error: OnError | None = None) -> Hooks:
    """As `combine`, for hooks of any owner. Each comes with what to call its owner in faults."""
    parts = list(parts)

    def chain(kind: str) -> list[_Link]:
        return [
            _Link(owner, kind, hook)
            for owner, hooks in parts
            if (hook := getattr(hooks, kind)) is not None
        ]

    before, after = chain("before_tool_call"), chain("after_tool_call")
    prepare, finish = chain("prepare_request"), chain("finish_turn")
    transform, listeners = chain("transform_context"), chain("on_event")
    return Hooks(
        before_tool_call=_before_tool_call(before) if before else None,
        after_tool_call=_after_tool_call(after, on_error) if after else None,
        prepare_request=_prepare_request(prepare) if prepare else None,
        finish_turn=_finish_turn(finish) if finish else None,
        transform_context=_transform_context(transform) if transform else None,
        on_event=_on_event(listeners, on_error) if listeners else None,
    )


class _Link:
    """One hook, and whose it is."""

    __slots__ = ("hook", "kind", "owner")

    def __init__(self, owner: str, kind: str, hook: Callable[..., Any]) -> None:
        self.owner = owner
        self.kind = kind
        self.hook = verdict_hook(hook) if kind == "before_tool_call" else with_signal(hook)

    @property
    def where(self) -> str:
        return f"{self.owner}, {self.kind}"

    async def ask(self, value: Any, signal: AbortSignal, kind: type[T]) -> T | None:
        """What the hook says to *value*. Raises `ExtensionFailed`."""
        try:
            said = self.hook(value, signal)
            if hasattr(said, "__await__"):
                said = await said
            if said is not None and not isinstance(said, kind):
                raise TypeError(f"it returned {type(said).__name__}, not {kind.__name__} or None")
        except asyncio.CancelledError as error:
            task = asyncio.current_task()
            if task is None or task.cancelling():  # the run is stopped, and does not wait for it
                raise
            raise ExtensionFailed(self.owner, self.kind, error) from error
        except ExtensionFailed:  # of hooks that were combined before
            raise
        except (Exception, SystemExit) as error:  # nobody else's program is ended by a hook
            raise ExtensionFailed(self.owner, self.kind, error) from error
        return said


def _before_tool_call(links: list[_Link]) -> Callable[..., Any]:
    async def before_tool_call(
        call: BeforeToolCall, signal: AbortSignal
    ) -> BeforeToolCallResult | None:
        verdict: BeforeToolCallResult | None = None
        args = call.args
        for link in links:
            # A copy for each: what is run are the arguments that somebody returned, and no others.
            shown = msgspec.structs.replace(call, args=copy.deepcopy(args))
            said = await link.ask(shown, signal, BeforeToolCallResult)
            if said is None:
                continue
            if verdict is None:
                verdict = BeforeToolCallResult()
            verdict.terminate = verdict.terminate or said.terminate
            if said.block:
                verdict.block = True
                verdict.reason = said.reason or f"{link.owner} blocked the call; it was not run"
                return verdict
            if said.args is not None:
                args = verdict.args = said.args
            if said.approval is not None:
                verdict.approval = said.approval or bool(verdict.approval)
        return verdict

    return time_limit(None)(before_tool_call)  # each hook has its own


def _after_tool_call(links: list[_Link], on_error: OnError | None) -> Callable[..., Any]:
    async def after_tool_call(
        call: AfterToolCall, signal: AbortSignal
    ) -> AfterToolCallResult | None:
        total: AfterToolCallResult | None = None
        for link in links:
            try:
                said = await link.ask(call, signal, AfterToolCallResult)
                if said is None:
                    continue
                result = _changed(call.result, said)
            except Exception as error:  # noqa: BLE001 - a hook is foreign code
                report(on_error, _cause(error), link.where)
                continue
            call = msgspec.structs.replace(call, result=result, is_error=result.is_error)
            total = said if total is None else _joined(total, said)
        return total

    return after_tool_call


def _cause(error: Exception) -> BaseException:
    """What was raised, where the owner is told beside it."""
    if isinstance(error, ExtensionFailed) and error.__cause__ is not None:
        return error.__cause__
    return error


def _said(change: AfterToolCallResult) -> dict[str, Any]:
    names = change.__struct_fields__
    return {name: value for name in names if (value := getattr(change, name)) is not None}


def _changed(result: AgentToolResult, change: AfterToolCallResult) -> AgentToolResult:
    """*result* as the loop will make it. Raises TypeError for content that is none."""
    content: Any = change.content
    blocks = cast("list[Any]", content) if isinstance(content, list) else [None]
    if content is not None and not all(isinstance(b, TextContent | ImageContent) for b in blocks):
        raise TypeError("content is a list of TextContent and ImageContent")
    return msgspec.structs.replace(result, **_said(change))


def _joined(first: AfterToolCallResult, then: AfterToolCallResult) -> AfterToolCallResult:
    return msgspec.structs.replace(first, **_said(then))


def _prepare_request(links: list[_Link]) -> Callable[..., Any]:
    async def prepare_request(context: AgentContext, signal: AbortSignal) -> AgentContext | None:
        made: AgentContext | None = None
        for link in links:
            made = await link.ask(made or context, signal, AgentContext) or made
        return made

    return prepare_request


def _transform_context(links: list[_Link]) -> Callable[..., Any]:
    async def transform_context(
        messages: list[AgentMessage], signal: AbortSignal
    ) -> list[AgentMessage]:
        for link in links:
            said: Any = await link.ask(messages, signal, list)
            if said is None:  # it may have changed the list and forgotten to return it
                missing = TypeError("it returned None, not the list of messages to send")
                raise ExtensionFailed(link.owner, link.kind, missing)
            messages = cast("list[AgentMessage]", said)
        return messages

    return transform_context


def _finish_turn(links: list[_Link]) -> Callable[..., Any]:
    async def finish_turn(turn: TurnContext, signal: AbortSignal) -> FinishTurn | None:
        said = [await link.ask(turn, signal, FinishTurn) for link in links]
        # Whoever ends a run may guard a limit; whoever goes on only has something more to say.
        for verdict in (FinishTurn.END, FinishTurn.CONTINUE):
            if verdict in said:
                return verdict
        return None

    return finish_turn


def _on_event(links: list[_Link], on_error: OnError | None) -> Listener:
    tellers = [_teller(link, on_error) for link in links]
    if len(tellers) == 1:
        return tellers[0]

    def on_event(event: Any, signal: AbortSignal) -> Awaitable[None] | None:
        # Called for every delta: no await while listeners are sync.
        for position, tell in enumerate(tellers, start=1):
            waiting = tell(event, signal)
            if waiting is not None:
                # What each raises it has reported itself; the rest is the caller's cancellation.
                return tell_rest(waiting, tuple(tellers[position:]), event, signal, _nothing)
        return None

    return on_event


def _teller(
    link: _Link, on_error: OnError | None
) -> Callable[[Any, AbortSignal], Awaitable[None] | None]:
    listener, where = link.hook, link.where
    reported: set[type] = set()

    def fault(error: BaseException) -> None:
        if type(error) not in reported:  # thousands of times a second, perhaps
            reported.add(type(error))
            report(on_error, error, where)

    def tell(event: Any, signal: AbortSignal) -> Awaitable[None] | None:
        try:
            waiting = listener(event, signal)
        except (Exception, SystemExit, asyncio.CancelledError) as error:  # noqa: BLE001 - foreign code
            fault(error)
            return None
        if waiting is not None and hasattr(waiting, "__await__"):
            return hear_last(waiting, fault)
        return None

    return tell


def _nothing(error: BaseException) -> None:
    return None
