"""A stream function that asks only what its budget allows, and counts what was used.

What does not fit ends as any failed request does, in band: an error of the kind `budget`, whose
text says which cap it was. Attempts that are tried again within a request are counted one by one,
and the next is made only if it fits, too.

Not here: the arithmetic (budget, request_bounds).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterable, Callable, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec

from ..events import AgentEnd, AgentEvent, AgentStart
from ..messages import AssistantMessage, Usage
from ..models.abort import AbortWatch
from ..models.fallback import FallbackModels
from ..models.model import Context, Model
from ..stream import (
    AssistantMessageEvent,
    AssistantStream,
    Done,
    Error,
    ReplyBuilder,
    Retry,
    Start,
    StreamWriter,
)
from ..stream.events import cut_off
from .budget import Budget, BudgetUsedUp, Hold
from .request_bounds import Bound, bound_of, content_tokens, cost_of, shortened, tokens_of, unpriced
from .run import StreamFn

if TYPE_CHECKING:
    from .agent import Agent

__all__ = ["KIND", "BudgetedStreamFn", "limit"]

KIND = "budget"
"""The `kind` of the error that stands in place of a reply."""


def limit(
    agent: Agent[Any], *, run: Budget | None = None, session: Budget | None = None
) -> Callable[[], None]:
    """Keep what *agent* asks within budgets: *run* begins anew with each of its runs, *session*
    does not. Returns what takes them away again.

    Summaries are asked for through the agent's stream function and count, and so do children whose
    requests go through it. What is asked between two runs belongs to the coming one.
    """
    before = agent.stream_fn
    inside = before
    for budget in (session, run):
        if budget is not None:
            inside = budget.stream_fn(inside)
    agent.stream_fn = inside
    unsubscribe: Callable[[], None] = lambda: None  # noqa: E731
    if run is not None:
        unsubscribe = agent.subscribe(_follow(run))

    def remove() -> None:
        unsubscribe()
        if agent.stream_fn is inside:  # else somebody else stands in front of us
            agent.stream_fn = before

    return remove


def _follow(run: Budget) -> Callable[[AgentEvent], None]:
    def listen(event: AgentEvent) -> None:
        if isinstance(event, AgentStart):
            run.renew()
        elif isinstance(event, AgentEnd):
            run.close_run()

    return listen


class BudgetedStreamFn:
    """Made by `Budget.stream_fn`; stands where the stream function was."""

    def __init__(self, budget: Budget, inner: StreamFn) -> None:
        self.budget = budget
        self.inner = inner

    @property
    def __self__(self) -> Any:
        """Whose method it is: models are looked up there by name."""
        return getattr(self.inner, "__self__", self.inner)

    def __call__(self, model: Model, context: Context, /, **options: Any) -> AssistantStream:
        """Ask *model* if it fits, after waiting for others if it must."""
        watch = AbortWatch(options)
        head = AssistantMessage([], model.api, model.provider, model.id)
        stream = AssistantStream(self._ask(model, context, options, watch), head=head)
        watch.stream = stream
        return stream

    async def _ask(
        self, model: Model, context: Context, options: dict[str, Any], watch: AbortWatch
    ) -> AsyncGenerator[list[AssistantMessageEvent], None]:
        builder = ReplyBuilder(api=model.api, provider=model.provider, model=model.id)
        if watch.aborted:
            yield [builder.error("Operation aborted", reason="aborted")]
            return
        models = self._who_may_answer(model)
        bound = bound_of(models, context, options)
        with watch:
            try:
                self._refuse_unpriced(models)
                hold = await self.budget.reserve(bound)
            except BudgetUsedUp as error:
                yield [builder.error(str(error), kind=KIND)]
                return
            meter = _Meter(hold, bound, models)
            inner: AssistantStream | None = None
            if hold.reply_tokens < bound.reply_tokens:
                options = shortened(model, options, hold.reply_tokens)
            try:
                inner = await _opened(self.inner(model, context, **options), model)
                meter.asked = True
                while (batch := await inner.next_batch()) is not None:
                    tried_again = meter.note(batch)
                    yield batch
                    if not tried_again:
                        continue
                    try:
                        fixed = msgspec.structs.replace(bound, reply_tokens=hold.reply_tokens)
                        meter.hold = await self.budget.reserve(fixed, again=True)
                    except BudgetUsedUp as error:
                        yield [builder.error(str(error), kind=KIND)]
                        return
            finally:
                try:
                    if inner is not None and not inner.ended:
                        await inner.aclose()
                finally:
                    meter.leave()

    def _who_may_answer(self, model: Model) -> Sequence[Model]:
        owner = self.__self__
        return (model, *owner.models) if isinstance(owner, FallbackModels) else (model,)

    def _refuse_unpriced(self, models: Sequence[Model]) -> None:
        budget = self.budget
        if budget.max_cost_usd is None or budget.allow_unknown_prices:
            return
        model = unpriced(models)
        if model is not None:
            raise BudgetUsedUp(
                f"The model {model.provider}/{model.id} was not asked: its price is not known, and "
                f"the budget of this {budget.name} has a cap in US dollars "
                f"(max_cost_usd={budget.max_cost_usd}).",
                hint="give the model its price (cost, in US dollars per million tokens), take the "
                "cap away, or set allow_unknown_prices=True, which leaves its cost out",
            )


class _Meter:
    """Counts one request, attempt by attempt."""

    __slots__ = ("_bound", "_last", "_models", "asked", "hold")

    def __init__(self, hold: Hold, bound: Bound, models: Sequence[Model]) -> None:
        self.hold = hold
        self.asked = False
        """The model was asked, so that its vendor may want something for it."""
        self._bound = bound
        self._models = models
        self._last: AssistantMessageEvent | None = None
        """The newest that this attempt has said."""

    def note(self, batch: list[AssistantMessageEvent]) -> bool:
        """True if the attempt failed and another one is about to be made."""
        said = [event for event in batch[-2:] if not isinstance(event, _SAYS_NOTHING)]
        self._last = said[-1] if said else self._last
        last = batch[-1] if batch else None
        if isinstance(last, Done):
            self._settle(last.message, "done")
        elif isinstance(last, Error):
            self._settle(last.error, "failed" if last.reason == "error" else "cut")
        elif isinstance(last, Retry):
            self._settle(AssistantMessage([], usage=last.usage or Usage()), "failed")
            self._last = None
            return True
        return False

    def leave(self) -> None:
        """Nobody reads any further."""
        if self.hold.open:
            self._settle(cut_off(self._last) or AssistantMessage([]), "cut")

    def _settle(self, message: AssistantMessage, ended: Literal["done", "failed", "cut"]) -> None:
        told = message.usage
        said = self._said(message)
        if told.is_empty and not said and (ended == "failed" or not self.asked):
            told = Usage()  # a vendor takes nothing for saying that it will not answer
            self.hold.settle(told, told, Fraction(0))
            return
        # Numbers from before the end may leave out what was said since.
        whole = ended == "done" or told.output >= said // 4
        if whole and told.known and not told.doubtful and not told.is_empty:
            self.hold.settle(told, told, cost_of(told, self._models))
            return
        into = max(self._bound.input_tokens, tokens_of(told) - told.output)
        said = max(said, told.output)
        cost = cost_of(told, self._models)
        prices = self._bound.prices
        if prices is not None:
            cost = max(into * prices.input + said * prices.output, cost or Fraction(0))
        self.hold.settle(Usage(input=into, output=said, total_tokens=into + said), told, cost)

    def _said(self, message: AssistantMessage) -> int:
        """How many tokens the reply can have taken as far as it was seen."""
        seen = content_tokens(message)
        partial: AssistantMessage | None = getattr(self._last, "partial", None)
        if partial is not None and partial is not message:
            seen = max(seen, content_tokens(partial))
        return min(seen, self.hold.reply_tokens)


_SAYS_NOTHING = (Start, Retry, Done, Error)


async def _opened(stream: Any, model: Model) -> AssistantStream:
    """The stream, whichever of the kinds that the loop takes it is."""
    if hasattr(stream, "__await__"):
        stream = await stream
    if isinstance(stream, StreamWriter):
        stream = stream.stream
    if isinstance(stream, AssistantStream):
        return stream
    if isinstance(stream, AsyncIterable):
        head = AssistantMessage([], model.api, model.provider, model.id)
        return AssistantStream.from_events(cast("AsyncIterable[Any]", stream), head=head)
    raise TypeError(
        f"the stream function returned {type(stream).__name__}; it must return an AssistantStream"
    )
