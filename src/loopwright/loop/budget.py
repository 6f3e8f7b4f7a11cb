"""Caps on turns, tokens and US dollars, kept before a request is made, not noticed after.

A request reserves what it may use at most, and gives back what it did not use. So any number of
agents may share one budget at the same time and never spend more than it holds. What would not fit
only because others have reserved waits until they are through; what would not fit anyway is asked
for with a shorter reply, and if that is not worth asking for, not made at all.

Not here: how large a request may be (request_bounds), or making one (budget_stream).
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections import deque
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Literal, cast

import msgspec

from ..errors import LoopwrightError, Misuse
from ..messages import Usage
from .request_bounds import LEAST_REPLY_TOKENS, Bound, cost_of, exact, tokens_of

if TYPE_CHECKING:
    from .budget_stream import BudgetedStreamFn
    from .run import StreamFn

__all__ = ["Budget", "BudgetUsedUp", "Hold", "Spent"]

_Cap = Literal["max_turns", "max_tokens", "max_cost_usd"]
_CAPS = ("max_turns", "max_tokens", "max_cost_usd")

ENOUGH_TURNS = 10
"""Advised at least, where turns are used up: a task with tools seldom takes fewer. A cap above the
half of it is advised to be doubled, since nobody knows how much is left to do."""


class BudgetUsedUp(LoopwrightError):
    """A request was not made, since it would not have fitted into the budget. A run never raises
    it; it ends with the text as the reply's `error_message`."""


class Spent(msgspec.Struct, frozen=True):
    """What was used of a budget."""

    turns: int
    tokens: int
    cost_usd: float | None
    """None if something was spent whose price is not known."""
    usage: Usage
    """The sum of what the vendors told."""
    estimated: bool
    """Something is in `turns`, `tokens` or `cost_usd` of which the vendor told no numbers, such as
    a reply that was aborted; it counts as the most it can have been."""


class Hold:
    """What one request has reserved. Settled once, with what it really used."""

    __slots__ = ("_budget", "cost", "open", "reply_tokens", "tokens")

    def __init__(self, budget: Budget, tokens: int, cost: Fraction, reply_tokens: int) -> None:
        self._budget = budget
        self.tokens = tokens
        self.cost = cost
        self.reply_tokens = reply_tokens
        """How long the reply may be, thinking included."""
        self.open = True

    def settle(self, usage: Usage, told: Usage, cost: Fraction | None) -> None:
        """Give back what was not used of it; once. *usage* is what counts, *told* what the vendor
        said of it, *cost* in US dollars, None if unknown."""
        self._budget._settle(self, usage, told, cost)  # pyright: ignore[reportPrivateUsage]


class _Waiter:
    """A request that waits for others to give back what they do not use."""

    __slots__ = ("_loop", "woken")

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.woken = self._loop.create_future()

    def wake(self) -> None:
        """From any thread."""
        try:
            self._loop.call_soon_threadsafe(self._resolve)
        except RuntimeError:  # that loop has ended
            return

    def _resolve(self) -> None:
        if not self.woken.done():
            self.woken.set_result(None)

    async def wait(self) -> None:
        await self.woken
        self.woken = self._loop.create_future()


class Budget:
    """What a run, a session or a child may use; None is no limit.

    *max_turns* counts requests to models, those for summaries too. *max_tokens* counts all tokens
    of all requests, cached ones included. *max_cost_usd* is in US dollars. Each can be changed at
    any time. With a cap in dollars a model whose price is not known is not asked, unless
    *allow_unknown_prices*; what it spends is then not counted. With *shorten* a request whose
    longest reply would not fit is made with a shorter one (`max_tokens`); else it is not made.

    It counts what is asked through `stream_fn`; `limit` puts it in front of an agent. Safe to
    share between agents, event loops and threads. Raises `Misuse` for a cap that is no number.
    """

    max_turns: int | None
    max_tokens: int | None
    max_cost_usd: float | None

    def __init__(
        self,
        *,
        max_turns: int | None = None,
        max_tokens: int | None = None,
        max_cost_usd: float | None = None,
        allow_unknown_prices: bool = False,
        shorten: bool = True,
        name: str = "run",
    ) -> None:
        """*name* is whose budget it is, in the words of its errors."""
        self.allow_unknown_prices = allow_unknown_prices
        self.shorten = shorten
        self.name = name
        self._lock = threading.Lock()
        self._queue: deque[_Waiter] = deque()
        self._held: set[Hold] = set()
        self._turns = self._tokens = 0
        self._cost = Fraction(0)
        self._usage = Usage()
        self._unpriced = self._estimated = self._over = False
        self.max_turns = max_turns
        self.max_tokens = max_tokens
        self.max_cost_usd = max_cost_usd

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _CAPS:
            _check(name, value)
        object.__setattr__(self, name, value)
        if name in _CAPS:
            self._wake_first()

    def __repr__(self) -> str:
        caps = [f"{cap}={value}" for cap in _CAPS if (value := getattr(self, cap)) is not None]
        return f"<Budget of the {self.name}: {', '.join(caps) or 'no limit'}>"

    # -- looking ------------------------------------------------------------------------------

    @property
    def spent(self) -> Spent:
        """What was used so far, without what requests that are going on have reserved."""
        with self._lock:
            cost = None if self._unpriced else float(self._cost)
            return Spent(self._turns, self._tokens, cost, self._usage, self._estimated)

    @property
    def reserved(self) -> bool:
        """Whether a request is going on."""
        return bool(self._held)

    # -- putting it in front ------------------------------------------------------------------

    def stream_fn(self, inner: StreamFn) -> BudgetedStreamFn:
        """*inner* within this budget. Wrapped once more, a request must fit into both."""
        from .budget_stream import BudgetedStreamFn

        return BudgetedStreamFn(self, inner)

    # -- counting -----------------------------------------------------------------------------

    def count(self, usage: Usage, *, turns: int = 0) -> None:
        """Count what was used elsewhere, such as by an earlier process.

        With a cap in dollars and *usage* whose cost is not known, nothing more is asked.
        """
        cost = None if usage.cost.total is None else cost_of(usage, ())
        if usage.is_empty and usage.known:
            cost = Fraction(0)
        with self._lock:
            self._turns += turns
            self._add(usage, usage, cost)

    def renew(self) -> None:
        """Begin anew: nothing has been used. What requests that are going on have reserved stays."""
        with self._lock:
            self._renew()
        self._wake_first()

    def close_run(self) -> None:
        """A run is over: what was spent can still be read, and the next request begins anew."""
        self._over = True

    def _renew(self) -> None:
        self._turns = self._tokens = 0
        self._cost = Fraction(0)
        self._usage = Usage()
        self._unpriced = self._estimated = self._over = False

    async def reserve(self, bound: Bound, *, again: bool = False) -> Hold:
        """Reserve what a request may use at most, its reply shortened if it must be. *again* is
        for another attempt at it: no new turn, and the length of its reply is settled.

        Waits while others hold what it needs. Raises `BudgetUsedUp` if it does not fit.
        """
        me: _Waiter | None = None
        try:
            while True:
                with self._lock:
                    if me is None and self._queue:
                        hold = None  # whoever came before is served before
                    else:
                        hold = self._try(bound, again)
                    if hold is not None:
                        return hold
                    if me is None:
                        me = _Waiter()
                        self._queue.append(me)
                await me.wait()
        finally:
            if me is not None:
                with self._lock:
                    self._queue.remove(me)
                self._wake_first()

    def _try(self, bound: Bound, again: bool) -> Hold | None:
        """None if it must wait for others."""
        if self._over and not self._held:
            self._renew()
        if not again and self.max_turns is not None and self._turns >= self.max_turns:
            raise self._used_up("max_turns", bound)
        cap, room = self._room(bound)
        reply = bound.reply_tokens
        if room is not None and room < reply:
            if self._held:
                return None
            if again or not self.shorten or room < min(LEAST_REPLY_TOKENS, reply):
                raise self._used_up(cap, bound)
            reply = room
        hold = Hold(self, bound.input_tokens + reply, bound.cost(reply), reply)
        self._held.add(hold)
        if not again:
            self._turns += 1
        return hold

    def _room(self, bound: Bound) -> tuple[_Cap, int | None]:
        """How long the reply may be now, and by which cap; None without a limit."""
        cap: _Cap = "max_tokens"
        room: int | None = None
        if self.max_tokens is not None:
            held = sum(hold.tokens for hold in self._held)
            room = self.max_tokens - self._tokens - held - bound.input_tokens
        if self.max_cost_usd is None:
            return cap, room
        if self._unpriced and not self.allow_unknown_prices:
            raise BudgetUsedUp(
                f"The budget of this {self.name} has a cap of {_usd(self.max_cost_usd)} US dollars "
                "(max_cost_usd), and what was spent before has no known price.",
                hint=f"set max_cost_usd=None, or allow_unknown_prices=True, which leaves it out; "
                f"known are {_usd(self._cost)}",
            )
        held_cost = sum((hold.cost for hold in self._held), Fraction(0))
        left = exact(self.max_cost_usd) - self._cost - held_cost - bound.cost(0)
        output = Fraction(0) if bound.prices is None else bound.prices.output
        if left >= 0 and output == 0:
            return cap, room
        affordable = -1 if left < 0 else math.floor(left / output)
        if room is None or affordable < room:
            return "max_cost_usd", affordable
        return cap, room

    def _used_up(self, cap: _Cap, bound: Bound) -> BudgetUsedUp:
        limit = cast("float", getattr(self, cap))
        if cap == "max_turns":
            used, whole, next_one = f"{self._turns}", f"{limit} turns", ""
            more = max(2 * limit, ENOUGH_TURNS)
        elif cap == "max_tokens":
            least = bound.input_tokens + LEAST_REPLY_TOKENS
            used, whole = f"{self._tokens:,}", f"{limit:,} tokens"
            next_one = f", and the next request may take {least:,}"
            more = self._tokens + bound.input_tokens + bound.reply_tokens
        else:
            used, whole = _usd(self._cost), f"{_usd(limit)} US dollars"
            least = bound.cost(min(LEAST_REPLY_TOKENS, bound.reply_tokens))
            next_one = f", and the next request may cost {_usd(least)}"
            needed = float(self._cost + bound.cost(bound.reply_tokens))
            more = max(math.ceil(needed * 100) / 100, 0.01)
        return BudgetUsedUp(
            f"The budget of this {self.name} is used up: {used} of {whole} ({cap}) are spent"
            f"{next_one}. The request was not made.",
            hint=f"raise {cap}, for example to {more}, and go on with what is there",
        )

    def _settle(self, hold: Hold, usage: Usage, told: Usage, cost: Fraction | None) -> None:
        with self._lock:
            if not hold.open:
                return
            hold.open = False
            self._held.discard(hold)
            self._add(usage, told, cost)
        self._wake_first()

    def _add(self, usage: Usage, told: Usage, cost: Fraction | None) -> None:
        self._tokens += tokens_of(usage)
        self._usage += told
        if cost is None:
            self._unpriced = True
        else:
            self._cost += cost
        if usage is not told:
            self._estimated = True

    def _wake_first(self) -> None:
        """Only the first in the queue looks; when it leaves, the next one does."""
        with self._lock:
            first = self._queue[0] if self._queue else None
        if first is not None:
            first.wake()


def _usd(amount: Fraction | float) -> str:
    """To the hundredth of a cent, so that little is not shown as nothing."""
    text = f"{float(amount):.4f}"
    return text.removesuffix("00")


def _check(name: str, value: Any) -> None:
    if value is None:
        return
    whole = name != "max_cost_usd"
    fits = isinstance(value, int if whole else (int, float)) and not isinstance(value, bool)
    if not fits or not math.isfinite(value) or value < 0:
        kind = "a whole number" if whole else "a number of US dollars"
        raise Misuse(f"{name} is {kind}, at least 0, or None for no limit; got {value!r}")
