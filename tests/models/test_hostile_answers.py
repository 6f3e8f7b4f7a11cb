"""What a hostile or broken host may answer: sorted in bounded time, and nothing follows it away."""

from __future__ import annotations

import time
from typing import Any

import pytest

from loopwright.errors import ContextOverflow, DecodeError, RateLimited
from loopwright.messages import ToolCall, message_from_dict
from loopwright.models.clients import Clients
from loopwright.models.failures import failure_from_response


@pytest.mark.parametrize(
    "body",
    [
        "A" * 5_000_000,
        "<html>" + "<title" * 200_000,
        "input token count " * 200_000,
        b"\0" * 5_000_000,
        '{"error":' * 5_000,
    ],
)
def test_a_body_that_was_not_written_to_be_read_costs_next_to_nothing(body: Any) -> None:
    """Bounded before it is searched; the limit here is hundreds of times what it takes."""
    started = time.process_time()

    failure = failure_from_response(500, {}, body, now=0)

    assert failure.retryable
    assert len(str(failure)) < 2_000
    assert time.process_time() - started < 2


def test_what_a_long_body_says_at_its_start_is_still_understood() -> None:
    said = "input token count 9 exceeds the maximum" + " " * 1_000_000

    assert isinstance(failure_from_response(400, {}, said, now=0), ContextOverflow)


def test_a_date_beyond_all_calendars_is_no_delay() -> None:
    headers = {"retry-after": "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"}

    failure = failure_from_response(429, headers, "slow down", now=0)

    assert isinstance(failure, RateLimited)
    assert failure.retry_after_seconds is None


async def test_redirects_are_not_followed() -> None:
    """They could carry keys, secret headers and the conversation to another host."""
    clients = Clients()

    http = await clients.http()

    assert http.follow_redirects is False
    await clients.aclose()


@pytest.mark.parametrize(
    "data",
    [
        {"role": "assistant", "content": [], "usage": {"input": "\ud800"}},
        {"role": "user", "content": "x", "timestamp": "\ud800"},
    ],
)
def test_odd_data_is_a_decode_error(data: Any) -> None:
    with pytest.raises(DecodeError):
        message_from_dict(data)


def test_so_is_json_that_is_nested_too_deeply() -> None:
    depth = 1_000_000  # each Python has a limit of its own; 3.14 takes tens of thousands
    deep = '{"type":"toolCall","id":"1","name":"n","arguments":' + '{"a":' * depth + "1"
    deep += "}" * (depth + 1)

    with pytest.raises(DecodeError):
        ToolCall.from_json(deep)
