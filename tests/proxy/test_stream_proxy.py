"""`stream_proxy` against real servers: ours, and ones that misbehave."""

from __future__ import annotations

import asyncio
import json
import logging
import subprocess
import sys
from functools import partial
from typing import Any

import pytest

from loopwright import Agent
from loopwright.messages import (
    AssistantMessage,
    Cost,
    ImageContent,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from loopwright.models import Context, Model, Models, Provider, ToolSpec
from loopwright.proxy import proxy_app, stream_proxy
from loopwright.signals import AbortController
from loopwright.stream import AssistantMessageEvent, AssistantStream, Error, TextDelta
from loopwright.testing import Call, Reply, ScriptedModel

from .asgi_server import serving_app
from .http_faults import Connection, FaultServer, Step, answer, serving, stream

TOKEN = "token-of-the-client-0123456789"
MODEL = Model("acme", "large", "openai-chat")
CONTEXT = Context("You are a test.", [UserMessage("Hi", 1)])


def line(**event: Any) -> bytes:
    return f"data: {json.dumps(event)}\n\n".encode()


USAGE = {"input": 1, "output": 1, "totalTokens": 2}
START = line(type="start")
OPEN = line(type="text_start", contentIndex=0)
DONE = line(type="text_end", contentIndex=0) + line(type="done", reason="stop", usage=USAGE)


def said(text: str) -> list[bytes]:
    return [START, OPEN, line(type="text_delta", contentIndex=0, delta=text), DONE]


def ask(server: FaultServer, **options: Any) -> AssistantStream:
    options.setdefault("auth_token", TOKEN)
    url = server.base_url.removesuffix("/v1")
    return stream_proxy(MODEL, CONTEXT, proxy_url=url, **options)


async def events_of(reply: AssistantStream) -> list[AssistantMessageEvent]:
    return [event async for event in reply]


async def failure_of(reply: AssistantStream) -> Error:
    closing = (await events_of(reply))[-1]
    assert isinstance(closing, Error)
    return closing


# -- the request -------------------------------------------------------------------------------


async def test_the_request_is_what_pi_sends() -> None:
    async with serving(stream(*said("Hello"))) as server:
        message = await ask(
            server, temperature=0.5, max_tokens=9, reasoning="high", cache="long", session_id="s",
            sampling_params={"top_p": 1}, thinking_budgets={"high": 5}, max_retry_delay_ms=7,
            metadata={"user_id": "u"}, transport="sse",
        ).result()  # fmt: skip

    assert (message.text, message.provider, message.model) == ("Hello", "acme", "large")
    (request,) = server.requests
    assert request.path == "/api/stream"
    assert request.headers["authorization"] == f"Bearer {TOKEN}"
    assert request.headers["content-type"] == "application/json"
    assert request.json["model"] == {
        "id": "large", "name": "large", "api": "openai-completions", "provider": "acme",
        "baseUrl": "", "reasoning": False, "input": ["text"],
        "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0},
        "contextWindow": 0, "maxTokens": 0,
    }  # fmt: skip
    assert request.json["context"] == {
        "systemPrompt": "You are a test.",
        "messages": [{"role": "user", "content": "Hi", "timestamp": 1}],
        "tools": [],
    }
    assert request.json["options"] == {
        "temperature": 0.5, "samplingParams": {"top_p": 1}, "maxTokens": 9, "reasoning": "high",
        "cacheRetention": "long", "sessionId": "s", "metadata": {"user_id": "u"},
        "transport": "sse", "thinkingBudgets": {"high": 5}, "maxRetryDelayMs": 7,
    }  # fmt: skip


async def test_what_is_not_set_is_left_out() -> None:
    async with serving(stream(*said("x"))) as server:
        await ask(server, temperature=None, reasoning="off", api_key=None).result()

    assert server.requests[0].json["options"] == {}


async def test_a_transcript_is_sent_in_pis_words_without_what_no_model_is_shown() -> None:
    context = Context(
        "",
        [
            UserMessage([TextContent("See"), ImageContent("aGk=", "image/png")], 1),
            AssistantMessage([ToolCall("c", "look", {"at_it": 1})], "openai-chat", "acme", "large"),
            ToolResultMessage("c", "look", [TextContent("ok")], details={"path": "/secret"}),
        ],
        [ToolSpec("look", "Looks.", {"type": "object"})],
    )
    model = Model("acme", "large", "openai-chat", cost=Cost(1, 2, 3, 4), context_window=9,
                  thinking_levels={"off": None, "high": "high"})  # fmt: skip
    async with serving(stream(*said("x"))) as server:
        url = server.base_url.removesuffix("/v1")
        await stream_proxy(model, context, proxy_url=url, auth_token=TOKEN).result()

    user, assistant, result = server.requests[0].json["context"]["messages"]
    assert user["content"][1] == {"type": "image", "data": "aGk=", "mimeType": "image/png"}
    assert assistant["api"] == "openai-completions"
    assert assistant["content"][0]["arguments"] == {"at_it": 1}
    assert (result["toolCallId"], "details" in result) == ("c", False)
    assert server.requests[0].json["model"]["reasoning"] is True
    assert server.requests[0].json["context"]["tools"] == [
        {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}
    ]


async def test_no_credential_leaves_the_client_but_the_token() -> None:
    secrets = {
        "Authorization": "Bearer vendor-secret", "x-api-key": "vendor-secret",
        "X-Goog-Api-Key": "vendor-secret", "Cookie": "vendor-secret", "X-Trace": "on",
        "X-Odd": "Bearer vendor-secret", "OpenAI-Organization": "vendor-secret",
    }  # fmt: skip
    async with serving(stream(*said("x"))) as server:
        await ask(server, api_key="vendor-secret", env={"K": "vendor-secret"},
                  headers=secrets).result()  # fmt: skip

    request = server.requests[0]
    assert request.json["options"]["headers"] == {"X-Trace": "on"}
    assert "vendor-secret" not in str(request.headers) + request.body.decode()


async def test_an_option_that_cannot_travel_is_named_in_band() -> None:
    async with serving() as server:
        closing = await failure_of(ask(server, on_payload=lambda *_: None))

    assert closing.kind == "misuse"
    assert "'on_payload'" in (closing.error.error_message or "")
    assert server.requests == []


async def test_a_token_may_come_from_a_function_and_is_demanded() -> None:
    async def fresh() -> str:
        return "fresh"

    async with serving(stream(*said("x"))) as server:
        assert (await ask(server, auth_token=fresh).result()).text == "x"
        closing = await failure_of(ask(server, auth_token=""))

    assert server.requests[0].headers["authorization"] == "Bearer fresh"
    assert closing.kind == "configuration"
    assert "Proxy auth token is required" in (closing.error.error_message or "")


# -- failures ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("step", "text", "kind", "retryable"),
    [
        (answer(502, {"error": "upstream down"}), "Proxy error: upstream down", "overloaded", True),
        (answer(500, b"oops", content_type="text/plain"), "Proxy error: 500", "overloaded", True),
        (answer(401, {"error": "who are you"}), "Proxy error: who are you", "auth", False),
        (answer(400, {"error": {"message": "bad"}}), "Proxy error: bad", "invalid_request", False),
        (answer(307, b"", location="http://127.0.0.1:9/"), "redirects are not followed",
         "model_error", False),
        (answer(200, b"<html>"), "ended before", "incomplete_stream", True),
    ],
    ids=["error", "status", "token", "object", "redirect", "no stream"],
)  # fmt: skip
async def test_a_refusal_is_told_in_band(step: Step, text: str, kind: str, retryable: bool) -> None:
    async with serving(step) as server:
        (closing,) = await events_of(ask(server))

    assert isinstance(closing, Error)
    assert text in (closing.error.error_message or "")
    assert (closing.kind, closing.retryable) == (kind, retryable)


async def test_a_redirect_takes_the_conversation_nowhere() -> None:
    async with serving(stream(*said("x"))) as other:
        async with serving(answer(307, b"", location=other.base_url)) as server:
            await failure_of(ask(server))

        assert other.requests == []


async def test_a_proxy_that_is_not_there_is_told_in_band() -> None:
    reply = stream_proxy(MODEL, CONTEXT, proxy_url="http://127.0.0.1:9", auth_token=TOKEN)

    closing = await failure_of(reply)

    assert (closing.kind, closing.retryable) == ("connection", True)


async def reset(connection: Connection) -> None:
    await connection.head(content_type="text/event-stream", transfer_encoding="chunked")
    await connection.body(*said("Par")[:3])
    connection.reset()


async def test_a_connection_that_breaks_keeps_what_came() -> None:
    async with serving(reset) as server:
        closing = await failure_of(ask(server))

    assert (closing.kind, closing.error.text) == ("connection", "Par")


async def test_silence_ends_after_the_time_allowed() -> None:
    async def silent(connection: Connection) -> None:
        await connection.closed_by_client()

    async with serving(silent) as server:
        closing = await failure_of(ask(server, timeout_ms=50))

    assert closing.kind == "connection"


async def test_the_token_is_in_no_error_and_no_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    echoing = line(type="error", reason="error", errorMessage=f"refused {TOKEN}", usage=USAGE)
    async with serving(
        answer(401, {"error": f"unknown: Bearer {TOKEN}"}), stream(echoing), stream(*said("x"))
    ) as server:
        events = [await events_of(ask(server)) for _ in range(3)]

    assert TOKEN not in repr(events) + caplog.text


@pytest.mark.parametrize("after", ["sent", "text"])
async def test_an_abort_closes_the_connection_at_once(after: str) -> None:
    controller, closed = AbortController(), asyncio.Event()

    async def step(connection: Connection) -> None:
        if after == "text":
            await connection.head(content_type="text/event-stream", transfer_encoding="chunked")
            await connection.body(*said("Par")[:3])
        else:
            controller.abort()
        await connection.closed_by_client()
        closed.set()

    async with serving(step) as server:
        reply = ask(server, signal=controller.signal)
        async for event in reply:
            if isinstance(event, TextDelta):
                controller.abort()
        message = await reply.result()
        await asyncio.wait_for(closed.wait(), 5)

    assert (message.stop_reason, message.error_message) == ("aborted", "Operation aborted")
    assert message.text == ("Par" if after == "text" else "")


async def test_an_abort_before_the_request_sends_nothing() -> None:
    controller = AbortController()
    controller.abort()
    async with serving() as server:
        message = await ask(server, signal=controller.signal).result()

    assert (message.stop_reason, server.connections) == ("aborted", 0)


async def test_only_a_sign_of_life_of_the_model_starts_an_idle_timer_anew() -> None:
    """What merely keeps the connection open must not hide that the model has stalled."""
    go_on = asyncio.Event()

    async def step(connection: Connection) -> None:
        await connection.head(content_type="text/event-stream", transfer_encoding="chunked")
        await connection.body(b": keep-alive\n\n")
        await go_on.wait()
        await connection.body(b": alive\n\n")
        await connection.body(*said("Hi"))
        await connection.end()

    async with serving(step) as server:
        reply = ask(server)
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await reply.next_batch()
        go_on.set()
        reply = ask(server)
        server.script.append(step)
        assert await reply.next_batch() == []
        assert (await reply.result()).text == "Hi"


async def test_one_connection_serves_many_requests() -> None:
    async with serving(*[stream(*said("x"))] * 3) as server:
        for _ in range(3):
            assert (await ask(server).result()).text == "x"

    assert server.connections == 1


# -- with our own server -----------------------------------------------------------------------


async def test_an_agent_works_through_a_proxy_without_any_key() -> None:
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    script = ScriptedModel(
        [Reply(calls=[Call("add", {"a": 17, "b": 25})], thinking="Sum."), Reply("42.")]
    )
    app = proxy_app(Models([script.provider]), tokens=[TOKEN], allow_models=["scripted/*"])
    async with serving_app(app) as url:
        through = partial(stream_proxy, proxy_url=url, auth_token=TOKEN)
        agent = Agent(script.model, stream_fn=through, tools=[add], thinking_level="high")
        result = await agent.prompt("17 + 25?")

    assert (result.text, result.stop_reason) == ("42.", "stop")
    assert [m.role for m in result.messages] == ["user", "assistant", "toolResult", "assistant"]
    shown = script.requests[1].context
    assert [tool.name for tool in shown.tools] == ["add"]
    assert script.requests[1].options["reasoning"] == "high"


async def test_a_provider_may_ask_through_a_proxy_and_try_again_when_it_is_away() -> None:
    async with serving(answer(503, {"error": "restarting"}), stream(*said("x"))) as server:
        url = server.base_url.removesuffix("/v1")
        provider = Provider(
            id="acme", any_model=True, needs_key=False, scripted=False, base_url=url,
            stream=partial(stream_proxy, proxy_url=url, auth_token=TOKEN),
        )  # fmt: skip

        async def no_wait(seconds: float) -> None:
            return

        async with Models([provider], sleep=no_wait) as models:
            message = await models.complete("acme/large", CONTEXT)

    assert message.text == "x"


def test_importing_the_front_of_the_proxy_imports_no_library() -> None:
    code = (
        "import sys, loopwright.proxy; "
        "print([n for n in ('starlette', 'uvicorn', 'httpx2', 'openai') if n in sys.modules]); "
        "from loopwright.proxy import stream_proxy, proxy_app; "
        "print([n for n in ('starlette', 'uvicorn', 'httpx2', 'openai') if n in sys.modules])"
    )
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert (finished.stdout, finished.stderr) == ("[]\n[]\n", "")


@pytest.mark.parametrize("missing", ["starlette", "uvicorn"])
def test_what_is_not_installed_is_named_with_its_extra(missing: str) -> None:
    code = f"""
import sys
sys.modules[{missing!r}] = None
from loopwright.errors import MissingExtra
from loopwright.models import Models
from loopwright.proxy import proxy_app, run_proxy
try:
    run_proxy(proxy_app(Models(), tokens=["t"], allow_models=["*"]))
except MissingExtra as error:
    print(error)
"""
    finished = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert "pip install 'loopwright[serve]'" in finished.stdout, finished.stderr
