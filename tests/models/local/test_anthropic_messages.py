"""The wire anthropic-messages against a real server: llama.cpp speaks that dialect, too."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest

from loopwright.messages import (
    AssistantMessage,
    ImageContent,
    Message,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from loopwright.models import Context, Model, Models, Provider, ToolSpec
from loopwright.models.local import LocalServer
from loopwright.signals import AbortController
from loopwright.stream import Error, TextDelta

pytestmark = pytest.mark.local_model

API = "anthropic-messages"
DEADLINE_SECONDS = 20.0


@asynccontextmanager
async def models_on(server: LocalServer, **flags: Any) -> AsyncGenerator[tuple[Models, Model]]:
    model = Model("llamacpp", server.model_id, API, thinking_levels={})
    provider = Provider(
        id="llamacpp", api=API, base_url=server.base_url, api_key=server.api_key,
        models=(model,), flags=flags,
    )  # fmt: skip
    async with Models([provider]) as models:
        yield models, model


async def is_idle(server: LocalServer) -> bool:
    headers = {"Authorization": f"Bearer {server.api_key}"}
    root = server.base_url.removesuffix("/v1")
    async with httpx2.AsyncClient(headers=headers, trust_env=False) as client:
        slots = (await client.get(f"{root}/slots")).json()
    return not any(slot["is_processing"] for slot in slots)


def adding() -> Context:
    """Two solved sums, which make this model call `add` at temperature 0."""

    def solved(id: str, a: int, b: int) -> list[Message]:
        call = ToolCall(id, "add", {"a": a, "b": b})
        answer = TextContent(f"The sum is {a + b}.")
        return [
            UserMessage(f"Add {a} and {b}"),
            AssistantMessage([call], stop_reason="toolUse"),
            ToolResultMessage(id, "add", [TextContent(str(a + b))]),
            AssistantMessage([answer]),
        ]

    number = {"type": "integer"}
    schema = {"type": "object", "properties": {"a": number, "b": number}, "required": ["a", "b"]}
    return Context(
        "Call the add tool for every sum.",
        [*solved("c1", 3, 4), *solved("c2", 8, 9), UserMessage("Add 17 and 25")],
        [ToolSpec("add", "Add two numbers", schema)],
    )


STORY = Context("", [UserMessage("Tell me a long story about a circus.")])


async def test_text_arrives_with_its_usage(server: LocalServer) -> None:
    async with models_on(server) as (models, model):
        message = await models.complete(
            model, Context("Be brief.", [UserMessage("Say hi.")]), temperature=0, max_tokens=40
        )

    assert message.stop_reason in ("stop", "length"), message.error_message
    assert message.text
    assert message.usage.input + message.usage.cache_read > 0
    assert message.usage.output > 0


@pytest.mark.parametrize("choice", ["auto", "any", "add"])
async def test_a_tool_is_called_after_solved_examples(server: LocalServer, choice: str) -> None:
    async with models_on(server) as (models, model):
        message = await models.complete(
            model, adding(), temperature=0, max_tokens=80, tool_choice=choice
        )

    assert message.stop_reason == "toolUse", message.error_message
    assert [(c.name, c.arguments) for c in message.tool_calls] == [("add", {"a": 17, "b": 25})]


async def test_a_reply_cut_by_the_limit_says_so(server: LocalServer) -> None:
    async with models_on(server) as (models, model):
        message = await models.complete(model, STORY, temperature=0, max_tokens=4)

    assert (message.stop_reason, message.raw_stop_reason) == ("length", "max_tokens")
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


async def test_too_long_a_prompt_is_told_as_an_overflow(server: LocalServer) -> None:
    context = Context("", [UserMessage("circus " * 20_000)])
    async with models_on(server) as (models, model):
        events = [event async for event in models.stream(model, context)]

    closing = events[-1]
    assert isinstance(closing, Error)
    assert (closing.kind, closing.retryable) == ("overflow", False)


async def test_images_in_a_request_to_a_model_without_eyes_are_told(server: LocalServer) -> None:
    """The transcript stays usable: the placeholder is text."""
    context = Context(
        "", [UserMessage([TextContent("What is it?"), ImageContent("aGk=", "image/png")])]
    )
    async with models_on(server) as (models, model):
        message = await models.complete(model, context, temperature=0, max_tokens=4)

    assert message.stop_reason in ("stop", "length"), message.error_message
