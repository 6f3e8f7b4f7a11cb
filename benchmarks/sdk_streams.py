"""The vendors' own libraries, reading the same replies with their own stream objects."""

from __future__ import annotations

from contextlib import AsyncExitStack

from .subject import Work

__all__ = ["SDKS", "sdk_stream"]

SDKS = {
    "openai-chat": "openai",
    "openai-responses": "openai",
    "anthropic-messages": "anthropic",
}
"""Whose library streams a wire itself."""


async def sdk_stream(wire: str, base_url: str, until: AsyncExitStack) -> Work:
    """What reads the reply at *base_url* by *wire* with a client that lives *until* then."""
    if SDKS[wire] == "anthropic":
        return await _anthropic(base_url, until)
    return await _openai(wire, base_url, until)


async def _openai(wire: str, base_url: str, until: AsyncExitStack) -> Work:
    import openai

    client = await until.enter_async_context(openai.AsyncOpenAI(api_key="k", base_url=base_url))

    async def chat() -> int:
        count = 0
        stream = await client.chat.completions.create(
            model="some", messages=[{"role": "user", "content": "Go."}], stream=True
        )
        async for chunk in stream:
            if chunk.choices and chunk.choices[0].delta.content:
                count += 1
        return count

    async def responses() -> int:
        count = 0
        stream = await client.responses.create(model="some", input="Go.", stream=True)
        async for event in stream:
            if event.type == "response.output_text.delta":
                count += 1
        return count

    return chat if wire == "openai-chat" else responses


async def _anthropic(base_url: str, until: AsyncExitStack) -> Work:
    import anthropic

    client = await until.enter_async_context(
        anthropic.AsyncAnthropic(api_key="k", base_url=base_url)
    )

    async def messages() -> int:
        count = 0
        stream = await client.messages.create(
            model="some",
            max_tokens=1000,
            messages=[{"role": "user", "content": "Go."}],
            stream=True,
        )
        async for event in stream:
            if event.type == "content_block_delta" and event.delta.type == "text_delta":
                count += 1
        return count

    return messages
