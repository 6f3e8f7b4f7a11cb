"""An answer that says the input does not fit is an overflow, in whatever words."""

from __future__ import annotations

import pytest

from loopwright.errors import ContextOverflow
from loopwright.models.failures import failure_from_event, failure_from_response

TOO_LARGE = [
    "input length and `max_tokens` exceed context limit: 190000 + 20000 > 200000, decrease input "
    "length or `max_tokens` and try again",
    "Context size has been exceeded.",
    "Requested tokens (9123) exceed context window of 8192",
    "The prompt is longer than the maximum number of tokens this model takes.",
    "Your input does not fit into the model's context window.",
    "This conversation is too long for the model. Start a new one.",
    "The number of tokens in the prompt (131073) is larger than the limit (131072)",
    "the request exceeds the model's context size",
    "Total tokens of image and text exceed max message tokens",
    "Input tokens exceed the configured limit of 272000 tokens.",
    "messages too long: 240000 tokens is greater than the maximum of 200000",
    "Prompt tokens (40000) + max_tokens (2000) exceeds the maximum context (32768)",
    "input is out of range for the context length",
]
SOMETHING_ELSE = [
    "max_tokens is too large: 100000. This model supports at most 16384 completion tokens",
    "max_tokens: 300000 > 200000, which is the maximum allowed number of output tokens",
    "The maximum number of output tokens is larger than the limit of 8192",
    "Invalid 'tools': array too long. Expected an array with maximum length 128",
    "tools.0.function.name: string too long, at most 64 characters allowed",
    "messages.1.content.0.image.source: image exceeds 5 MB maximum: 6291456 bytes",
    "Invalid schema for function 'f': 'maximum' is not permitted at length 3",
    "temperature: input should be less than or equal to 1",
    "messages: at least one message is required",
    "Unknown parameter: 'context_length'",
]
PATIENCE = [
    "Rate limit reached: your input exceeds the limit of 30000 tokens per minute",
    "Request too large for model on tokens per min (TPM): Limit 30000, Requested 41000",
]


@pytest.mark.parametrize("text", TOO_LARGE)
@pytest.mark.parametrize("status", [400, 413, 422, 500])
def test_case_077_an_overflow_is_known_by_what_is_said(text: str, status: int) -> None:
    body = {"error": {"type": "server_error", "message": text}}

    failure = failure_from_response(status, {}, body, now=0)

    assert isinstance(failure, ContextOverflow)
    assert not failure.retryable
    assert text[:40] in str(failure)


@pytest.mark.parametrize("text", TOO_LARGE)
def test_case_077_an_overflow_told_inside_the_stream_is_known(text: str) -> None:
    failure = failure_from_event({"type": "invalid_request_error", "message": text})

    assert isinstance(failure, ContextOverflow)


@pytest.mark.parametrize("text", [*SOMETHING_ELSE, *PATIENCE])
@pytest.mark.parametrize("status", [400, 422, 429])
def test_case_077_other_limits_are_no_overflow(text: str, status: int) -> None:
    body = {"error": {"type": "invalid_request_error", "message": text}}

    failure = failure_from_response(status, {}, body, now=0)

    assert not isinstance(failure, ContextOverflow)


@pytest.mark.parametrize("text", TOO_LARGE[1:4])
@pytest.mark.parametrize("status", [401, 429, 503])
def test_case_077_a_status_that_says_something_else_wins(text: str, status: int) -> None:
    failure = failure_from_response(status, {}, {"error": {"message": text}}, now=0)

    assert not isinstance(failure, ContextOverflow)
