"""A vendor that bills: it heeds `max_tokens`, and keeps its own books of what it gave."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from loopwright.loop.request_bounds import exact, input_tokens
from loopwright.messages import Cost, Usage
from loopwright.models import Context, Model
from loopwright.models.abort import AbortWatch
from loopwright.models.costs import priced
from loopwright.stream import AssistantMessageEvent, AssistantStream, ReplyBuilder, Retry

RATES = Cost(input=3.0, output=15.0, cache_read=0.3, cache_write=3.75)


def model_of(
    name: str = "large", *, cost: Cost | None = RATES, max_tokens: int | None = 8_000
) -> Model:
    return Model(
        "acme", name, "acme-wire", cost=cost, max_tokens=max_tokens, context_window=200_000
    )


@dataclass
class Answer:
    """One reply: how many turns of the loop it takes, and how many tokens it would like to have."""

    words: int = 10
    breaths: int = 1
    filled: float = 1.0
    """How much of the input's bound it really takes."""
    failing_attempts: int = 0
    """Attempts before it that fail after having used tokens."""
    call: tuple[str, dict[str, Any]] | None = None


class Vendor:
    """`answers` are given in turn, the last one for ever."""

    def __init__(self, *answers: Answer, watch: Callable[[], object] | None = None) -> None:
        self.answers = list(answers) or [Answer()]
        self.asked: list[dict[str, Any]] = []
        self.tokens = 0
        self.dollars = Fraction(0)
        self.at_once = 0
        self.most_at_once = 0
        self._watch = watch or (lambda: None)

    def stream_fn(self, model: Model, context: Context, /, **options: Any) -> AssistantStream:
        answer = self.answers[min(len(self.asked), len(self.answers) - 1)]
        self.asked.append(options)
        watch = AbortWatch(options)
        stream = AssistantStream(self._give(answer, model, context, options, watch))
        watch.stream = stream
        return stream

    def _bill(self, usage: Usage) -> None:
        self.tokens += usage.total_tokens
        if usage.cost.total is not None:
            self.dollars += exact(usage.cost.total)
        self._watch()

    async def _give(
        self,
        answer: Answer,
        model: Model,
        context: Context,
        options: dict[str, Any],
        watch: AbortWatch,
    ) -> AsyncGenerator[list[AssistantMessageEvent], None]:
        most = min(
            options.get("max_tokens") or model.max_tokens or 10**9, model.max_tokens or 10**9
        )
        words = min(answer.words, most)
        taken = max(int(input_tokens(context, model) * answer.filled), 1)
        usage = Usage(input=taken, output=words, total_tokens=taken + words)
        usage = priced(usage, model.cost)
        with watch:
            self.at_once += 1
            self.most_at_once = max(self.most_at_once, self.at_once)
            try:
                for attempt in range(answer.failing_attempts):
                    await asyncio.sleep(0)
                    self._bill(usage)
                    yield [Retry(attempt + 2, answer.failing_attempts + 1, 0, "overloaded", usage)]
                builder = ReplyBuilder(api=model.api, provider=model.provider, model=model.id)
                yield [builder.start()]
                for _ in range(answer.breaths):
                    await asyncio.sleep(0)
                batch: list[AssistantMessageEvent] = []
                if answer.call is not None and words == answer.words:
                    start = builder.tool_call_start(f"c{len(self.asked)}", answer.call[0])
                    end = builder.tool_call_end(start.content_index, arguments=answer.call[1])
                    batch += [start, end]
                else:
                    begun = builder.text_start()
                    index = begun.content_index
                    batch += [begun, builder.text_delta(index, "ab" * words)]
                    batch.append(builder.text_end(index))
                self._bill(usage)
                cut = words < answer.words
                yield [*batch, builder.done("length" if cut else "stop", usage=usage)]
            finally:
                self.at_once -= 1
