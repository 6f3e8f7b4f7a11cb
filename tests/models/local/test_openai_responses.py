"""The wire openai-responses against a real server: llama.cpp speaks that dialect, too."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from loopwright.messages import TextContent, ToolResultMessage, UserMessage
from loopwright.models import Context, Model, Models, Provider
from loopwright.models.local import LocalServer
from loopwright.signals import AbortController
from loopwright.stream import Error, TextDelta

from .test_anthropic_messages import DEADLINE_SECONDS, STORY, adding, is_idle

pytestmark = pytest.mark.local_model

API = "openai-responses"


@asynccontextmanager
async def models_on(server: LocalServer) -> AsyncGenerator[tuple[Models, Model]]:
    model = Model("llamacpp", server.model_id, API, thinking_levels={})
    provider = Provider(
        id="llamacpp", api=API, base_url=server.base_url, api_key=server.api_key,
        models=(model,), flags={"length_says_completed": True},
    )  # fmt: skip
    async with Models([provider]) as models:
        yield models, model


async def test_text_arrives_with_its_usage(server: LocalServer) -> None:
    async with models_on(server) as (models, model):
        message = await models.complete(
            model, Context("Be brief.", [UserMessage("Say hi.")]), temperature=0, max_tokens=40
        )

    assert message.stop_reason in ("stop", "length"), message.error_message
    assert message.text
    assert message.usage.input + message.usage.cache_read > 0
    assert message.usage.output > 0


async def test_a_tool_is_called_and_its_result_is_understood(server: LocalServer) -> None:
    asked = adding()
    async with models_on(server) as (models, model):
        first = await models.complete(model, asked, temperature=0, max_tokens=80)
        (made,) = first.tool_calls
        answer = ToolResultMessage(made.id, "add", [TextContent("42")])
        context = Context(asked.system_prompt, [*asked.messages, first, answer], asked.tools)
        second = await models.complete(model, context, temperature=0, max_tokens=40)

    assert (first.stop_reason, made.name, made.arguments) == ("toolUse", "add", {"a": 17, "b": 25})
    assert (second.stop_reason, second.text) == ("stop", "The sum is 42.")


async def test_a_reply_cut_by_the_limit_is_seen_though_the_server_hides_it(
    server: LocalServer,
) -> None:
    async with models_on(server) as (models, model):
        message = await models.complete(model, STORY, temperature=0, max_tokens=4)

    assert (message.stop_reason, message.raw_stop_reason) == ("length", "completed")
    assert message.usage.output == 4


async def test_an_abort_in_the_middle_frees_the_servers_slot(server: LocalServer) -> None:
    controller = AbortController()
    async with models_on(server) as (models, model):
        answering = models.stream(model, STORY, max_tokens=2000, signal=controller.signal)
        async for event in answering:
            if isinstance(event, TextDelta):
                controller.abort()
        message = await answering.result()
        deadline = time.monotonic() + DEADLINE_SECONDS
        while not await is_idle(server):
            assert time.monotonic() < deadline, "the server still writes for nobody"
            await asyncio.sleep(0.05)

    assert message.stop_reason == "aborted"
    assert message.text


async def test_a_request_that_is_too_large_is_an_overflow(server: LocalServer) -> None:
    async with models_on(server) as (models, model):
        context = Context("", [UserMessage("word " * 12_000)])
        events = [event async for event in models.stream(model, context, max_tokens=4)]

    (closing,) = events
    assert isinstance(closing, Error)
    assert (closing.kind, closing.retryable) == ("overflow", False)
    assert "HTTP 400" in (closing.error.error_message or "")
