"""Which replies mean that the request was too large."""

from __future__ import annotations

import pytest
from tests.harness.branches import says

from loopwright.harness.overflow import is_overflow
from loopwright.messages import Usage


def test_what_the_adapter_reported_decides() -> None:
    unclear = says(stop="error", error="no.")
    clear = says(stop="error", error="prompt is too long")

    assert is_overflow(unclear, kind="overflow", window=None)
    assert not is_overflow(clear, kind="rate_limit", window=None)


@pytest.mark.parametrize("kind", [None, "model_error"])
@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("prompt is too long: 213462 tokens > 200000 maximum", True),
        ("This model's maximum context length is 8192 tokens", True),
        ("HTTP 413: the vendor gave no reason", True),
        ("HTTP 400: input token count (9000) exceeds the maximum of 8192", True),
        ("HTTP 429: Too many tokens, rate limit reached, please wait", False),
        ("HTTP 500: too many tokens", False),
        ("the connection failed", False),
        ("", False),
    ],
)
def test_after_a_restart_the_text_decides(kind: str | None, text: str, expected: bool) -> None:
    assert is_overflow(says(stop="error", error=text), kind=kind, window=None) is expected


@pytest.mark.parametrize(
    ("stop", "usage", "expected"),
    [
        ("stop", Usage(input=1_001, output=5), True),
        ("stop", Usage(input=1, cache_read=900, cache_write=100, output=5), True),
        ("stop", Usage(input=1_000, output=500), False),
        ("toolUse", Usage(input=5_000, output=5), False),
        ("length", Usage(input=950, output=0), True),
        ("length", Usage(input=950, output=1), False),
        ("length", Usage(input=500, output=0), False),
        ("stop", Usage(input=5_000, output=5, known=False), False),
        ("stop", Usage(input=0, cache_read=5_000, doubtful=True), False),
        ("aborted", Usage(input=5_000), False),
    ],
)
def test_some_vendors_say_nothing_and_their_numbers_do(
    stop: str, usage: Usage, expected: bool
) -> None:
    reply = says("x", stop=stop, usage=usage)

    assert is_overflow(reply, kind=None, window=1_000) is expected
    assert not is_overflow(reply, kind=None, window=None)
