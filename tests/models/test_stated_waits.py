"""What a vendor says about waiting and about quotas decides when, and whether, it is asked again."""

from __future__ import annotations

from typing import Any

import pytest

from loopwright.errors import InvalidRequest, ModelError, QuotaExceeded, RateLimited
from loopwright.models.failures import failure_from_event, failure_from_response

LIMIT = "Rate limit reached for m on tokens per min (TPM): Limit 30000, Used 29000."


def answer(message: str, headers: dict[str, str] | None = None, **fields: Any) -> ModelError:
    error = {"message": message, "type": "tokens", "code": "rate_limit_exceeded", **fields}
    return failure_from_response(429, headers or {}, {"error": error}, now=1000.0)


@pytest.mark.parametrize(
    ("words", "seconds"),
    [
        ("Please try again in 12.5s.", 12.5),
        ("Please try again in 850ms.", 0.85),
        ("Please try again in 1m30s.", 90),
        ("Please try again in 6m0s", 360),
        ("Please retry after 20 seconds.", 20),
        ("Please retry in 2 minutes.", 120),
        ("Retry after: 7 sec", 7),
        ("Please wait for 3 seconds before the next request", 3),
        ("Try again in about 1 hour and 5 minutes", 3900),
        ("Please try again in 5s. Try again in 9s.", 9),
        ("Please try again later.", None),
        ("Please try again in a new conversation.", None),
    ],
)
def test_case_081_a_wait_said_in_words_counts(words: str, seconds: float | None) -> None:
    failure = answer(f"{LIMIT} {words}")
    told_in_stream = failure_from_event(
        {"message": f"{LIMIT} {words}", "code": "rate_limit_exceeded"}
    )

    assert isinstance(failure, RateLimited)
    assert failure.retry_after_seconds == (None if seconds is None else pytest.approx(seconds))
    assert told_in_stream.retry_after_seconds == failure.retry_after_seconds


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "20s"}, 20),
        ({"retry-after": "1m"}, 60),
        ({"retry-after": "3"}, 12.5),
        ({"retry-after": "40"}, 40),
        ({"retry-after": "soon"}, 12.5),
    ],
)
def test_case_081_the_longest_wait_that_is_said_counts(
    headers: dict[str, str], seconds: float
) -> None:
    failure = answer(f"{LIMIT} Please try again in 12.5s.", headers)

    assert failure.retry_after_seconds == seconds


@pytest.mark.parametrize("value", ["0", "-5", "0s", "Thu, 01 Jan 1970 00:00:01 GMT"])
def test_case_081_a_wait_of_nothing_leaves_the_usual_backoff(value: str) -> None:
    assert answer(LIMIT, {"retry-after": value}).retry_after_seconds is None


USED_UP = "You exceeded your current quota, please check your plan and billing details."


@pytest.mark.parametrize(
    "error",
    [
        {
            "code": 429,
            "status": "RESOURCE_EXHAUSTED",
            "message": f"{USED_UP} Please retry in 37.2s.",
        },
        {"message": f"{USED_UP} Quota exceeded for requests per minute"},
        {
            "message": USED_UP,
            "details": [{"violations": [{"quotaId": "GenerateRequestsPerMinutePerProject"}]}],
        },
    ],
)
def test_case_082_a_quota_that_comes_back_is_a_rate_limit(error: dict[str, Any]) -> None:
    failure = failure_from_response(429, {}, [{"error": error}], now=0)

    assert type(failure) is RateLimited
    assert failure.retryable


@pytest.mark.parametrize(
    "message",
    [
        "Invalid schema for function 'billing-lookup': array schema missing items",
        "Invalid schema for function billing-lookup: array schema missing items",
        'tool "insufficient_quota" has no description',
        "messages.1308: text is required",
        "file billing/quota.py: unknown type",
    ],
)
def test_case_082_words_in_names_and_paths_do_not_decide(message: str) -> None:
    error = {"message": message, "type": "invalid_request_error"}

    failure = failure_from_response(400, {}, {"error": error}, now=0)

    assert isinstance(failure, InvalidRequest)


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (429, {"message": USED_UP, "type": "insufficient_quota", "code": "insufficient_quota"}),
        (400, {"message": "Your credit balance is too low to access the API."}),
        (402, {"message": "Payment required"}),
        (429, {"message": "Usage limit reached", "code": "1308"}),
        (429, {"message": USED_UP}),
    ],
)
def test_case_082_an_account_that_is_used_up_is_not_asked_again(
    status: int, error: dict[str, Any]
) -> None:
    failure = failure_from_response(status, {}, {"error": error}, now=0)

    assert isinstance(failure, QuotaExceeded)
    assert not failure.retryable
