"""`decode` runs recorded bytes through a wire."""

from __future__ import annotations

import pytest

from loopwright.errors import ConfigurationError
from loopwright.messages import TextContent
from loopwright.testing import decode

BODY = (
    b'data: {"id":"r1","model":"m","choices":[{"delta":{"content":"Hi"}}]}\n\n'
    b'data: {"choices":[{"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
)


def test_a_recorded_body_becomes_the_message_it_says() -> None:
    message = decode("openai-chat", [BODY])

    assert message.content == [TextContent("Hi")]
    assert (message.api, message.model, message.stop_reason) == ("openai-chat", "m", "stop")


def test_where_it_is_cut_makes_no_difference() -> None:
    message = decode("openai-chat", (BODY[i : i + 1] for i in range(len(BODY))))

    assert message.content == [TextContent("Hi")]


@pytest.mark.parametrize("chunks", [[], [b""], [BODY[:40]]])
def test_a_body_that_breaks_off_is_an_error(chunks: list[bytes]) -> None:
    assert decode("openai-chat", chunks).stop_reason == "error"


def test_an_unknown_wire_is_named() -> None:
    with pytest.raises(ConfigurationError, match="'morse'"):
        decode("morse", [])
