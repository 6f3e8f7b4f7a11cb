"""How much one request may use at most, as far as that can be known before it is made.

The input is thought too large rather than too small: what a vendor counted is taken as it is, and
what came since at more tokens a byte than nearly any text takes. The reply is bounded by the limit
that is sent. Money is counted in fractions, so that ten times ten cents are one dollar.

Not here: who may make a request (budget), or what a request did cost (models.costs).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import msgspec

from ..messages import (
    AssistantMessage,
    Cost,
    ImageContent,
    Message,
    TextContent,
    ThinkingContent,
    ToolCall,
    Usage,
)
from ..models.costs import rates_for
from ..models.handoff import MessageView
from ..models.model import Context, Model
from ..records import to_jsonable

__all__ = [
    "LEAST_REPLY_TOKENS",
    "Bound",
    "Prices",
    "bound_of",
    "content_tokens",
    "cost_of",
    "exact",
    "shortened",
    "tokens_of",
    "unpriced",
]

BYTES_PER_TOKEN = 2
"""English and code have about four, and hardly any text has fewer than two."""

IMAGE_TOKENS = 2_000
"""More than most vendors count for the largest image they take."""

FRAME_TOKENS = 16
"""What a vendor puts around one message or tool."""

UNKNOWN_REPLY_TOKENS = 32_000
"""The longest reply of a model whose limit nobody tells."""

LEAST_REPLY_TOKENS = 256
"""With room for less, a request is not worth making."""

THINKS_BESIDE = frozenset({"anthropic-messages", "bedrock-converse"})
"""Wires that add a budget for thinking to the `max_tokens` they are told."""

MOST_THINKING_TOKENS = 32_768
LEAST_THINKING_TOKENS = 1_024

CACHE_WRITE_FACTOR = 2
"""No vendor takes more for a token put into its cache than this times the input's rate."""


class Prices(msgspec.Struct, frozen=True):
    """US dollars for one token, at most."""

    input: Fraction
    output: Fraction


class Bound(msgspec.Struct, frozen=True):
    """What one request may use."""

    input_tokens: int
    reply_tokens: int
    prices: Prices | None
    """None where a price is not known."""

    def cost(self, reply_tokens: int) -> Fraction:
        """US dollars at most; 0 where no price is known."""
        prices = self.prices
        if prices is None:
            return Fraction(0)
        return self.input_tokens * prices.input + reply_tokens * prices.output


def bound_of(models: Sequence[Model], context: Context, options: Mapping[str, Any]) -> Bound:
    """The bound of a request that any of *models* may answer, the first of them most likely."""
    tokens = input_tokens(context, models[0])
    reply = max(_longest_reply(model, options) for model in models)
    return Bound(tokens, reply, None if unpriced(models) else _prices(models, tokens, options))


def unpriced(models: Sequence[Model]) -> Model | None:
    """The first of *models* whose rate for input or output is not known."""
    for model in models:
        rates = model.cost
        if rates is None or _rate(rates.input) is None or _rate(rates.output) is None:
            return model
    return None


def _longest_reply(model: Model, options: Mapping[str, Any]) -> int:
    most, wanted = model.max_tokens, options.get("max_tokens")
    if not isinstance(wanted, int):
        return most or UNKNOWN_REPLY_TOKENS
    if options.get("reasoning") and model.api in THINKS_BESIDE:
        budgets: Mapping[str, int] = options.get("thinking_budgets") or {}
        wanted += max([MOST_THINKING_TOKENS, *budgets.values()])
    return min(wanted, most) if most else wanted


def shortened(model: Model, options: Mapping[str, Any], reply_tokens: int) -> dict[str, Any]:
    """*options* for a request whose reply, thinking included, takes at most *reply_tokens*."""
    changed = {**options, "max_tokens": reply_tokens}
    level = options.get("reasoning")
    if not level or model.api not in THINKS_BESIDE:
        return changed
    thinking = reply_tokens // 2
    if thinking < LEAST_THINKING_TOKENS:  # not even the least budget has room
        del changed["reasoning"]
        return changed
    budgets: Mapping[str, int] = options.get("thinking_budgets") or {}
    thinking = min(thinking, budgets.get(level, thinking))
    changed["thinking_budgets"] = {**budgets, level: thinking}
    changed["max_tokens"] = reply_tokens - max(thinking, LEAST_THINKING_TOKENS)
    return changed


# -- money -----------------------------------------------------------------------------------


def exact(dollars: float) -> Fraction:
    """The number as it is written: 0.1 is a tenth, not its neighbour among binary numbers."""
    return Fraction(repr(float(dollars)))


def _rate(rate: float | None) -> Fraction | None:
    """None for what is no price."""
    return exact(rate) if rate is not None and math.isfinite(rate) and rate >= 0 else None


def _prices(models: Sequence[Model], tokens: int, options: Mapping[str, Any]) -> Prices:
    """The highest rates that may hold: of any model, of any tier up to *tokens*, cached or not."""
    into: list[Fraction] = []
    out: list[Fraction] = []
    cache = options.get("cache")
    for model in models:
        tiers = [tier.cost for tier in model.cost_tiers if tokens > tier.above]
        for rates in [model.cost, *tiers]:
            if rates is None:
                continue
            into += _known(rates.input, rates.cache_read)
            out += _known(rates.output)
            if cache != "none":
                into += _known(rates.cache_write)
            if cache == "long":
                into += [CACHE_WRITE_FACTOR * rate for rate in _known(rates.input)]
                into += _known(model.long_cache_write)
    return Prices(max(into) / 1_000_000, max(out) / 1_000_000)


def _known(*rates: float | None) -> list[Fraction]:
    return [known for rate in rates if (known := _rate(rate)) is not None]


def cost_of(usage: Usage, models: Sequence[Model]) -> Fraction | None:
    """What *usage* cost: as it was told, else at most, by the rates of *models*. None if unknown."""
    total = usage.cost.total
    if total is not None and math.isfinite(total) and total >= 0:
        return exact(total)
    if not models or unpriced(models) is not None:
        return None
    return max(_at_most(usage, rates_for(model, usage)) for model in models)


def _at_most(usage: Usage, rates: Cost | None) -> Fraction:
    """A rate that is missing beside those of input and output is thought as high as it can be."""
    assert rates is not None
    into, out = _rate(rates.input) or Fraction(0), _rate(rates.output) or Fraction(0)
    read, write = _rate(rates.cache_read), _rate(rates.cache_write)
    total = (
        (usage.input + (usage.tool_input or 0)) * into
        + usage.output * out
        + usage.cache_read * (into if read is None else read)
        + usage.cache_write * (CACHE_WRITE_FACTOR * into if write is None else write)
    )
    return total / 1_000_000


# -- tokens ----------------------------------------------------------------------------------


def tokens_of(usage: Usage) -> int:
    """All tokens of a request, cached ones included; what the vendor calls the total if more."""
    parts = usage.input + usage.output + usage.cache_read + usage.cache_write
    return max(usage.total_tokens, parts + (usage.tool_input or 0))


def input_tokens(context: Context, model: Model) -> int:
    """At most so many tokens are sent with *context*."""
    fixed = _bytes(context.system_prompt)
    for tool in context.tools:
        fixed += FRAME_TOKENS * BYTES_PER_TOKEN + len(tool.name) + _bytes(tool.description)
        fixed += _json_bytes(tool.parameters)
    messages = context.messages
    sizes = _running_sizes(messages)
    whole = _tokens(fixed) + FRAME_TOKENS + sizes[-1]
    for place in range(len(messages) - 1, -1, -1):
        counted = _counted(messages[place], model)
        if counted is not None:
            # Counts from before a compaction are larger than the whole, and lose.
            return min(whole, counted + sizes[-1] - sizes[place + 1])
    return whole


def _running_sizes(messages: Sequence[Message]) -> list[int]:
    """The tokens of the first n messages, for every n; measured once for a transcript that grows."""
    known: list[int] | None = None
    if isinstance(messages, MessageView):
        known = messages.memo.setdefault("loopwright.budget", [0])
    sizes: list[int] = [0] if known is None else known
    for place in range(len(sizes) - 1, len(messages)):
        sizes.append(sizes[-1] + FRAME_TOKENS + content_tokens(messages[place]))
    return sizes if len(sizes) == len(messages) + 1 else sizes[: len(messages) + 1]


def content_tokens(message: Message) -> int:
    """At most so many tokens are in *message*."""
    content = message.content
    if isinstance(content, str):
        return _tokens(_bytes(content))
    images = sum(isinstance(block, ImageContent) for block in content)
    return images * IMAGE_TOKENS + _tokens(sum(map(_block_bytes, content)))


def _block_bytes(block: TextContent | ThinkingContent | ImageContent | ToolCall) -> int:
    if isinstance(block, TextContent):
        return _bytes(block.text)
    if isinstance(block, ThinkingContent):
        return _bytes(block.thinking) + len(block.thinking_signature or "")
    if isinstance(block, ToolCall):
        return len(block.id) + len(block.name) + _json_bytes(block.arguments)
    return 0


def _counted(message: Message, model: Model) -> int | None:
    """What the vendor counted up to *message*, if it is a reply of *model* that tells."""
    if not isinstance(message, AssistantMessage):
        return None
    usage = message.usage
    if (message.provider, message.model) != (model.provider, model.id):
        return None
    return None if not usage.known or usage.doubtful or usage.is_empty else tokens_of(usage)


def _tokens(size: int) -> int:
    return -(-size // BYTES_PER_TOKEN)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _json_bytes(value: Any) -> int:
    try:
        return len(msgspec.json.encode(value))
    except (TypeError, UnicodeEncodeError, msgspec.EncodeError, RecursionError):
        return _bytes(str(to_jsonable(value)))
