"""Gemini: what its errors mean beyond their status, which says too little.                  (pure)

A key that is not valid is a 400 like any other mistake, and one text, "You exceeded your current
quota", stands both for a limit that is over in a minute and for an allowance that is used up. What
helps is in `error.details` (https://cloud.google.com/apis/design/errors#error_details).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from ...errors import AuthenticationFailed, ModelError, QuotaExceeded, RateLimited
from ..failures import HINTS, failure_from_event, failure_from_response

__all__ = ["failure_of_answer", "failure_of_event"]

_BAD_KEYS = frozenset({"API_KEY_INVALID", "API_KEY_EXPIRED", "ACCESS_TOKEN_EXPIRED"})
_LONG = re.compile(r"per\s*(?:day|month)|limit: 0\b", re.I)
"""A quota that waiting a moment does not bring back."""
_DELAY = re.compile(r"(\d+(?:\.\d+)?)s")


def failure_of_answer(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    now: float,
    provider: str | None = None,
    model: str | None = None,
) -> ModelError:
    """What an HTTP answer that is no success means."""
    text = body.decode("utf-8", "replace")
    failure = failure_from_response(status, headers, text, now=now, provider=provider, model=model)
    try:
        document: Any = msgspec.json.decode(body)
    except (msgspec.MsgspecError, UnicodeError):
        return failure
    return _refined(failure, _error_in(document))


def failure_of_event(error: Any) -> ModelError:
    """What an error object in the middle of a stream means."""
    return _refined(failure_from_event(error), error)


def _error_in(document: Any) -> Any:
    if isinstance(document, list):
        items = cast("list[Any]", document)
        document = items[0] if items else None
    return cast("dict[str, Any]", document).get("error") if isinstance(document, dict) else None


def _refined(failure: ModelError, error: Any) -> ModelError:
    details = list(_details(error))
    if any(detail.get("reason") in _BAD_KEYS for detail in details):
        return _as(AuthenticationFailed, failure, hint="check the key")
    delay = next((found for found in map(_delay, details) if found is not None), None)
    if failure.retry_after_seconds is None:
        failure.retry_after_seconds = delay
    quotas = [str(violation) for d in details for violation in _list(d, "violations")]
    if type(failure) in (QuotaExceeded, RateLimited) and delay is not None:
        about_quota = type(failure) is QuotaExceeded or bool(quotas) or "quota" in str(failure)
        if _LONG.search(f"{failure} {' '.join(quotas)}"):
            return _as(QuotaExceeded, failure, HINTS[QuotaExceeded]) if about_quota else failure
        return _as(RateLimited, failure)
    return failure


def _as(kind: type[ModelError], failure: ModelError, hint: str | None = None) -> ModelError:
    return kind(
        str(failure),
        hint=hint,
        provider=failure.provider,
        model=failure.model,
        status=failure.status,
        request_id=failure.request_id,
        retry_after_seconds=failure.retry_after_seconds,
    )


def _details(error: Any) -> Iterator[dict[str, Any]]:
    if isinstance(error, dict):
        for detail in _list(cast("dict[str, Any]", error), "details"):
            if isinstance(detail, dict):
                yield cast("dict[str, Any]", detail)


def _delay(detail: dict[str, Any]) -> float | None:
    """`RetryInfo.retryDelay`, a protobuf duration such as `42.5s`, in seconds."""
    found = _DELAY.fullmatch(str(detail.get("retryDelay", "")))
    return float(found[1]) if found else None


def _list(fields: dict[str, Any], name: str) -> list[Any]:
    value = fields.get(name)
    return cast("list[Any]", value) if isinstance(value, list) else []
