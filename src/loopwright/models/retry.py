"""One retry loop for all wires: whether to try again, after how long, and until when.

A request is sent again only if the failure says that the same request may succeed later, and only
while nothing of the reply has been handed on, unless the caller allows it (`retry_after_content`). Each attempt to come is reported as a `Retry`. The
wait is an ordinary await, so that an abort ends it at once. A vendor that asks for a longer wait
than allowed ends the request right away, with the time it asked for.

Not here: what counts as such a failure (failures.py).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from typing import Any, cast

import msgspec

from ..stream import AssistantMessageEvent, Error, Retry, Start
from .abort import AbortWatch

__all__ = ["RetryPolicy", "retrying"]

BatchSource = AsyncGenerator[list[AssistantMessageEvent], None]

DEFAULT_MAX_RETRIES = 3
DEFAULT_MAX_DELAY_SECONDS = 60.0
FIRST_BACKOFF_SECONDS = 0.5
MOST_BACKOFF_SECONDS = 8.0
JITTER = 0.25
"""Up to this part of a backoff is taken off, so that many clients do not come back together."""


class RetryPolicy(msgspec.Struct, frozen=True):
    """How often, and how long at most between two attempts."""

    max_retries: int = DEFAULT_MAX_RETRIES
    max_delay_seconds: float | None = DEFAULT_MAX_DELAY_SECONDS
    """None: whatever the vendor asks for."""
    after_content: bool = False
    """Also try again when part of the reply was handed on: the reader then sees `Retry`, and after
    it a `Start` with which the reply begins anew."""

    @classmethod
    def from_options(cls, options: Mapping[str, Any]) -> RetryPolicy:
        """From `max_retries` and `max_retry_delay_ms`, where 0 means without limit."""
        retries = options.get("max_retries")
        delay_ms = options.get("max_retry_delay_ms")
        return cls(
            DEFAULT_MAX_RETRIES if retries is None else max(0, int(retries)),
            DEFAULT_MAX_DELAY_SECONDS if delay_ms is None else (delay_ms / 1000 or None),
            bool(options.get("retry_after_content")),
        )

    def delay_seconds(self, failed_attempts: int, asked: float | None, chance: float) -> float:
        """How long to wait after *failed_attempts*: what the vendor *asked*, else a backoff that
        doubles, shortened by *chance*, a number from 0 to 1."""
        if asked is not None:
            return asked
        backoff = min(MOST_BACKOFF_SECONDS, FIRST_BACKOFF_SECONDS * 2 ** (failed_attempts - 1))
        return backoff * (1 - JITTER * chance)


async def retrying(
    attempt: Callable[[], BatchSource],
    policy: RetryPolicy,
    watch: AbortWatch,
    *,
    sleep: Callable[[float], Awaitable[object]],
    random: Callable[[], float],
) -> BatchSource:
    """The batches of the first attempt that begins to speak, or of the last one."""
    with watch:
        failed = 0
        while True:
            source = attempt()
            failure: Error | None = None
            try:
                begun = False
                held: list[AssistantMessageEvent] = []
                async for batch in source:
                    if begun and not policy.after_content:
                        yield batch
                        continue
                    # Nothing was handed on yet. A bare start may still be followed by a failure.
                    held += batch
                    if not begun and (not held or (len(held) == 1 and type(held[0]) is Start)):
                        yield []
                        continue
                    silent = not begun and all(type(e) is Start or e is held[-1] for e in held)
                    if _may_retry(held, failed, policy) and (silent or policy.after_content):
                        failure = cast("Error", held.pop())
                        if not silent:
                            yield held
                        break
                    begun = True
                    yield held
                    held = []
            finally:
                await source.aclose()
            if failure is None:
                return
            failed += 1
            delay = policy.delay_seconds(failed, failure.retry_after_seconds, random())
            if policy.max_delay_seconds is not None and delay > policy.max_delay_seconds:
                yield [_too_long(failure, delay, policy.max_delay_seconds)]
                return
            usage = failure.error.usage
            yield [
                Retry(
                    failed + 1,
                    policy.max_retries + 1,
                    delay,
                    failure.error.error_message or failure.kind or "the request failed",
                    None if usage.is_empty else usage,
                )
            ]
            await sleep(delay)


def _may_retry(batch: list[AssistantMessageEvent], failed: int, policy: RetryPolicy) -> bool:
    """Whether *batch* ends with a failure after which the request may be sent again."""
    last = batch[-1] if batch else None
    return isinstance(last, Error) and last.retryable and failed < policy.max_retries


def _too_long(failure: Error, delay: float, limit: float) -> Error:
    text = (
        f"{failure.error.error_message}\nThe vendor asks to wait {delay:g} s before the next "
        f"request, which is more than the {limit:g} s allowed (max_retry_delay_ms)."
    )
    return msgspec.structs.replace(
        failure, error=msgspec.structs.replace(failure.error, error_message=text)
    )
