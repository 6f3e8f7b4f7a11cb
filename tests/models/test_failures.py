"""What vendors say when something is wrong means the same thing everywhere."""

from __future__ import annotations

import asyncio
from email.utils import formatdate
from typing import Any

import msgspec
import pytest

from loopwright.errors import (
    AuthenticationFailed,
    ConnectionLost,
    ContextOverflow,
    InvalidRequest,
    MissingKey,
    ModelError,
    Overloaded,
    QuotaExceeded,
    RateLimited,
    RequestRefused,
    WireError,
)
from loopwright.models.failures import (
    classify,
    failure_from_event,
    failure_from_response,
    failure_from_text,
    redact,
    retry_after_seconds,
)

NOW = 1_800_000_000.0


def answered(status: int, body: Any = "", **headers: str) -> ModelError:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return failure_from_response(status, named, body, now=NOW, provider="acme", model="large")


OVERFLOWS = [
    "prompt is too long: 210000 tokens > 200000 maximum",
    "Your input exceeds the context window of this model",
    "This model's maximum context length is 8192 tokens",
    "The input token count (2000000) exceeds the maximum number of tokens allowed",
    "Input is too long for requested model",
    "This model's maximum prompt length is 131072",
    "Please reduce the length of the messages or completion",
    "Prompt contains 90000 tokens, too large for model with 32768 maximum context length",
    "`inputs` tokens: input (9000 tokens) is longer than the model's context length",
    "the request exceeds the maximum allowed input length of 1000 tokens",
    "Context Window exceeded",
    "request (6010 tokens) exceeds the available context size (4096 tokens), try increasing it",
    "trying to keep the first 9000 tokens when context is greater than the context length",
    "prompt too long; exceeded max context length by 5 tokens",
    "prompt token count of 130000 exceeds the limit of 128000",
    "context window exceeds limit",
    "Your request exceeded model token limit: 262144",
    "Prompt exceeds max length",
    "Range of input length should be [1, 30720]",
    "context_length_exceeded",
]


@pytest.mark.parametrize("text", OVERFLOWS)
def test_an_overflow_is_known_by_every_vendors_words(text: str) -> None:
    failure = answered(400, {"error": {"message": text, "type": "invalid_request_error"}})

    assert type(failure) is ContextOverflow
    assert not failure.retryable


@pytest.mark.parametrize("text", ["Throttling error: Too many tokens, please wait",
                                  "Rate limit reached: too many tokens per minute"])  # fmt: skip
def test_throttling_that_speaks_of_tokens_is_no_overflow(text: str) -> None:
    failure = answered(429, {"message": text})

    assert type(failure) is RateLimited
    assert failure.retryable


@pytest.mark.parametrize(
    ("status", "body", "kind", "retryable"),
    [
        (401, {"error": "bad key"}, AuthenticationFailed, False),
        (403, {"detail": "no"}, AuthenticationFailed, False),
        (402, {}, QuotaExceeded, False),
        (404, {"error": {"message": "The model `x` does not exist"}}, InvalidRequest, False),
        (413, "", ContextOverflow, False),
        (422, {"detail": [{"msg": "field required"}]}, InvalidRequest, False),
        (429, "", RateLimited, True),
        (429, {"error": {"code": "insufficient_quota", "message": "x"}}, QuotaExceeded, False),
        (429, {"error": {"message": "Monthly usage limit reached"}}, QuotaExceeded, False),
        (429, {"error": {"code": "1308", "message": "limit"}}, QuotaExceeded, False),
        (500, "<html><title>502 Bad Gateway</title></html>", Overloaded, True),
        (503, {"error": {"message": "Loading model", "code": 503}}, Overloaded, True),
        (524, "", Overloaded, True),
        (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
         Overloaded, True),
        (400, {"error": {"message": "x", "code": "content_filter"}}, RequestRefused, False),
        (400, {"error": {"message": "server_busy"}}, Overloaded, True),
    ],
)  # fmt: skip
def test_a_status_and_its_body(
    status: int, body: Any, kind: type[ModelError], retryable: bool
) -> None:
    failure = answered(status, body)

    assert type(failure) is kind
    assert failure.retryable is retryable
    assert failure.status == status
    assert (failure.provider, failure.model) == ("acme", "large")


def test_cerebras_says_an_overflow_by_saying_nothing() -> None:
    failure = failure_from_response(400, {}, "", now=NOW, provider="cerebras")

    assert type(failure) is ContextOverflow


def test_what_an_error_says_is_found_wherever_it_stands() -> None:
    assert "upstream says no" in str(
        answered(400, {"error": {"message": "Provider returned error", "code": 400,
                                 "metadata": {"raw": "upstream says no"}}})
    )  # fmt: skip
    assert "the title" in str(answered(500, "<html><head><title>the title</title></head></html>"))
    assert "first" in str(answered(400, [{"error": {"message": "first", "code": 400}}]))
    assert answered(500, "x", x_request_id="req_1").request_id == "req_1"
    assert len(str(answered(500, "x" * 5_000))) < 1_000


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        ({"retry-after-ms": "1500", "retry-after": "9"}, "", 1.5),
        ({"retry-after": "3"}, "", 3.0),
        ({"retry-after": "0.5"}, "", 0.5),
        ({"retry-after": formatdate(NOW + 20, usegmt=True)}, "", 20.0),
        ({"retry-after": formatdate(NOW - 20, usegmt=True)}, "", 0.0),
        ({"retry-after": "soon"}, "", None),
        ({"retry-after": "nan"}, "", None),
        ({"retry-after": "-5"}, "", 0.0),
        ({}, '{"error":{"details":[{"retryDelay": "42s"}]}}', 42.0),
        ({}, "", None),
    ],
)
def test_case_043_how_long_to_wait_in_each_form(
    headers: dict[str, str], body: str, expected: float | None
) -> None:
    assert retry_after_seconds(headers, NOW, body) == expected


@pytest.mark.parametrize(
    ("error", "kind", "retryable"),
    [
        ({"type": "overloaded_error", "message": "x"}, Overloaded, True),
        ({"type": "api_error", "message": "x"}, Overloaded, True),
        ({"type": "rate_limit_error", "message": "x"}, RateLimited, True),
        ({"type": "server_error", "message": "x"}, Overloaded, True),
        ({"type": "throttlingException", "message": "x"}, RateLimited, True),
        ({"code": 429, "message": "x"}, RateLimited, True),
        ({"code": "502", "message": "x"}, Overloaded, True),
        ({"type": "invalid_request_error", "message": "x"}, InvalidRequest, False),
        ({"message": "The service is at capacity"}, Overloaded, True),
        ("upstream connect error", Overloaded, True),
        ({"message": "no idea"}, ModelError, False),
    ],
)
def test_case_013_an_error_in_the_middle_of_a_stream(
    error: Any, kind: type[ModelError], retryable: bool
) -> None:
    failure = failure_from_event(error)

    assert type(failure) is kind
    assert failure.retryable is retryable


def test_exceptions_of_libraries_are_sorted_by_what_they_are() -> None:
    class TransportError(Exception):
        pass

    class APIConnectionError(Exception):
        pass

    wrapped = APIConnectionError("Connection error.")
    wrapped.__cause__ = OSError("no route to host")

    for error in (
        TransportError("reset"),
        TimeoutError(),
        ConnectionResetError(),
        EOFError(),
        wrapped,
    ):
        failure = classify(error, now=NOW)
        assert type(failure) is ConnectionLost
        assert failure.retryable
    assert "no route to host" in str(classify(wrapped, now=NOW))
    assert type(classify(msgspec.DecodeError("x"), now=NOW)) is WireError
    assert type(classify(ValueError("x"), now=NOW)) is ModelError
    key = MissingKey("no key")
    assert classify(key, now=NOW) is key
    with pytest.raises(asyncio.CancelledError):
        raise asyncio.CancelledError  # never classified: it is no Exception


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: sk-proj-abcdefghijklmnop123.",
        "header Bearer abcdef0123456789 is wrong",
        "key AIzaSyA0123456789012345678901234567 is wrong",
        "my-own-secret is wrong",
        "x-api-key: header-secret",
    ],
)
def test_a_key_is_cut_out_of_any_text(text: str) -> None:
    cut = redact(text, api_key="my-own-secret", headers={"x-api-key": "header-secret"})

    assert "[key]" in cut
    for secret in ("abcdef", "AIza", "my-own", "header-secret"):
        assert secret not in cut


def test_a_scripted_failure_is_sorted_by_its_words() -> None:
    assert failure_from_text("overloaded").retryable
    assert not failure_from_text("that was wrong").retryable
