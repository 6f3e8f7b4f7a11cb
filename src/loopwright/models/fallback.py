"""Several models in a row: if one cannot answer right now, the next one is asked.

The next is asked only after a failure that may pass (`retryable`) and only while nothing of the
reply was handed on; a key that is refused or a request that is wrong ends it, as it would end a
single model's. Nobody waits for a model while another is at hand: all but the last are asked once,
and the last is tried again by the rules of retry.py. Each failed attempt is reported as a `Retry`
with what it spent, and the message says which model answered.

Not here: the retry loop (retry.py), or asking a single model (models.py).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import Any, Protocol

import msgspec

from ..errors import Misuse
from ..messages import AssistantMessage
from ..stream import AssistantMessageEvent, AssistantStream, Error, Retry
from .abort import AbortWatch
from .model import Context, Model, ThinkingLevel
from .retry import BatchSource, RetryPolicy, retrying

__all__ = ["FallbackModels"]

Attempt = Callable[[Model, Context, dict[str, Any], AbortWatch], BatchSource]

_Choice = tuple[Model, ThinkingLevel | None]
"""A model, and the thinking level that its name asks for."""


class _Directory(Protocol):
    """What of `Models` is needed."""

    def get_model(self, provider_id: str, model_id: str) -> Model | None: ...
    def resolve_with_level(self, reference: str) -> tuple[Model, ThinkingLevel | None]: ...
    def require(self, model: Model) -> None: ...
    def takes_output_schema(self, model: Model) -> bool: ...
    def can_tell(self, model: Model, schema: dict[str, Any]) -> bool: ...


class FallbackModels:
    """Made by `Models.with_fallback`. It is a stream function itself, and has those of `Models`.

    Asked for a model, it asks that one first and then its own, in their order, none twice.
    """

    def __init__(
        self,
        models: _Directory,
        fallbacks: Iterable[Model | str],
        *,
        attempt: Attempt,
        sleep: Callable[[float], Awaitable[object]],
        random: Callable[[], float],
    ) -> None:
        if isinstance(fallbacks, str):
            raise Misuse(
                f"with_fallback takes a list of models, not {fallbacks!r}",
                hint=f"with_fallback([{fallbacks!r}])",
            )
        self._models = models
        self._fallbacks = [_resolved(models, model) for model in fallbacks]
        if not self._fallbacks:
            raise Misuse("with_fallback needs at least one model")
        for model, _ in self._fallbacks:
            models.require(model)
        self._attempt = attempt
        self._sleep = sleep
        self._random = random

    @property
    def models(self) -> tuple[Model, ...]:
        """The models, in the order they are asked; the first may be an agent's."""
        return tuple(model for model, _ in self._fallbacks)

    def get_model(self, provider_id: str, model_id: str) -> Model | None:
        """The model of that name, None if there is none."""
        return self._models.get_model(provider_id, model_id)

    def resolve(self, reference: str) -> Model:
        """See `Models.resolve`."""
        return self._models.resolve_with_level(reference)[0]

    def resolve_with_level(self, reference: str) -> tuple[Model, ThinkingLevel | None]:
        """See `Models.resolve_with_level`."""
        return self._models.resolve_with_level(reference)

    def takes_output_schema(self, model: Model) -> bool:
        """Whether every model that may answer takes the option `output_schema`."""
        return all(map(self._models.takes_output_schema, (model, *self.models)))

    def can_tell(self, model: Model, schema: dict[str, Any]) -> bool:
        """Whether every model that may answer can be told *schema*; see `Models.can_tell`."""
        return all(self._models.can_tell(one, schema) for one in (model, *self.models))

    def stream(self, model: Model | str, context: Context, /, **options: Any) -> AssistantStream:
        """Ask *model*, and the others if it must be. The options are those of `Models.stream`;
        `max_retries` is for the last model.

        A thinking level in a fallback's name (`acme/large:low`) holds for that model, whatever is
        asked of the others. Raises `ModelNotFound` only for a *model* given as a text that names
        none.
        """
        if isinstance(model, str):
            model, level = self._models.resolve_with_level(model)
            if level is not None:
                options.setdefault("reasoning", level)
        chain: list[_Choice] = [(model, None)]
        for choice in self._fallbacks:
            if (choice[0].provider, choice[0].id) != (model.provider, model.id):
                chain.append(choice)
            elif chain[0][1] is None:
                chain[0] = (model, choice[1])
        watch = AbortWatch(options)
        head = AssistantMessage([], model.api, model.provider, model.id)
        stream = AssistantStream(self._ask(chain, context, options, watch), head=head)
        watch.stream = stream
        return stream

    stream_simple = stream

    def __call__(self, model: Model | str, context: Context, /, **options: Any) -> AssistantStream:
        """The same as `stream`."""
        return self.stream(model, context, **options)

    async def complete(
        self, model: Model | str, context: Context, /, **options: Any
    ) -> AssistantMessage:
        """Ask and wait for the whole reply; its stop reason says whether it is one."""
        return await self.stream(model, context, **options).result()

    async def _ask(
        self,
        chain: list[_Choice],
        context: Context,
        options: dict[str, Any],
        watch: AbortWatch,
    ) -> AsyncGenerator[list[AssistantMessageEvent], None]:
        turns = iter(chain)

        def attempt() -> BatchSource:
            model, level = next(turns, chain[-1])
            changed = options if level is None else {**options, "reasoning": level}
            return self._attempt(model, context, changed, watch)

        own = RetryPolicy.from_options(options)
        others = len(chain) - 1
        policy = _InTurn(
            own.max_retries + others,
            own.max_delay_seconds,
            own.after_content,
            others=others,
        )
        source = retrying(attempt, policy, watch, sleep=self._sleep, random=self._random)
        failures: list[str] = []  # of the models that are not asked again
        try:
            async for batch in source:
                for event in batch[-1:]:  # both come last in a batch
                    if isinstance(event, Retry) and len(failures) < others:
                        failures.append(event.error)
                    elif isinstance(event, Error) and failures and event.reason == "error":
                        batch[-1] = _with_history(event, failures)
                yield batch
        finally:
            await source.aclose()


class _InTurn(RetryPolicy, frozen=True):
    """Counts the models that are asked once, without a wait behind them, before the last one."""

    others: int = 0

    def delay_seconds(self, failed_attempts: int, asked: float | None, chance: float) -> float:
        """Nothing before another model; for the last one as ever."""
        if failed_attempts <= self.others:
            return 0.0
        return super().delay_seconds(failed_attempts - self.others, asked, chance)


def _resolved(models: _Directory, model: Model | str) -> _Choice:
    return models.resolve_with_level(model) if isinstance(model, str) else (model, None)


def _with_history(error: Error, failures: list[str]) -> Error:
    """*error* with what the models before it said, so that the cause is not lost."""
    text = "\nBefore that, ".join([error.error.error_message or "", *reversed(failures)])
    message = msgspec.structs.replace(error.error, error_message=text)
    return msgspec.structs.replace(error, error=message)
