"""Responses against a real HTTP server that plays the faults of the wild, and its dialects.

The rules of retries and statuses are those of every wire and are tried with openai-chat.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from loopwright.messages import (
    AssistantMessage,
    TextContent,
    ThinkingContent,
    ToolResultMessage,
    UserMessage,
)
from loopwright.models import Context, Model, Models, Provider, ToolSpec
from loopwright.models.azure import azure_provider
from loopwright.models.provider import Dialect
from loopwright.signals import AbortController
from loopwright.stream import Done, Error, Retry

from ..fault_server import Connection, FaultServer, Step, answer, serving, stream, zipped
from ..fault_server import said as chat_said
from .responses_bodies import CREATED, call, completed, event, said

KEY = "sk-test-0123456789abcdef"
CONTEXT = Context("You are a test.", [UserMessage("Hi", 1)])
HELLO = [CREATED, *said(0, "Hel", "lo"), completed()]


async def no_sleep(seconds: float) -> None:
    await asyncio.sleep(0)


def models_for(server: FaultServer, **row: Any) -> Models:
    row = {"api": "openai-responses", "base_url": server.base_url, "api_key": KEY, **row}
    return Models([Provider(id="acme", any_model=True, **row)], sleep=no_sleep)


async def ask(models: Models, context: Context = CONTEXT, **options: Any) -> AssistantMessage:
    return await models.complete("acme/large", context, **options)


async def test_a_reply_arrives_and_says_where_it_came_from() -> None:
    async with serving(stream(*HELLO)) as server, models_for(server) as models:
        message = await ask(models, temperature=0)

    assert (message.text, message.stop_reason, message.response_id) == ("Hello", "stop", "resp_1")
    assert (message.api, message.provider, message.model) == ("openai-responses", "acme", "large")
    (request,) = server.requests
    assert request.path == "/v1/responses"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.json["instructions"] == "You are a test."


async def test_a_call_and_its_result_travel_under_the_vendors_ids() -> None:
    tool = ToolSpec("look", "Looks.", {"type": "object", "properties": {}})
    asked = [CREATED, *call(0, "look", "{}"), completed()]
    async with serving(stream(*asked), stream(*HELLO)) as server, models_for(server) as models:
        first = await ask(models, Context("", [UserMessage("Look", 1)], [tool]))
        answered = ToolResultMessage(first.tool_calls[0].id, "look", [TextContent("done")])
        await ask(models, Context("", [UserMessage("Look", 1), first, answered], [tool]))

    assert server.requests[1].json["input"][1:] == [
        {"type": "function_call", "id": "fc_0", "call_id": "call_0", "name": "look",
         "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_0", "output": "done"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    "step",
    [
        zipped(b"".join(HELLO)),
        stream(*(piece.replace(b"\n", b"\r\n") for piece in HELLO)),
        stream(b": keep\n\n", *HELLO),
        stream(*(b"%c" % byte for byte in b"".join(HELLO))),
        stream(b"".join(HELLO).removesuffix(b"\n\n")),
    ],
    ids=["gzip", "crlf", "comment", "bytes", "no blank line at the end"],
)
async def test_the_way_the_bytes_come_makes_no_difference(step: Step) -> None:
    async with serving(step) as server, models_for(server) as models:
        assert (await ask(models)).text == "Hello"


async def test_case_013_a_failure_before_any_text_is_tried_again_unseen() -> None:
    failed = completed("failed", error={"code": "server_error", "message": "Sorry"})
    async with (
        serving(
            stream(event("error", code="server_error", message="x")),
            stream(CREATED, failed),
            stream(*HELLO),
        ) as server,
        models_for(server) as models,
    ):
        events = [one async for one in models.stream("acme/large", CONTEXT)]

    assert [type(one) for one in events[:2]] == [Retry, Retry]
    assert isinstance(events[-1], Done)


async def test_case_012_a_body_that_just_ends_after_text_is_an_error_with_the_text() -> None:
    async with serving(stream(CREATED, *said(0, "Par"))) as server, models_for(server) as models:
        events = [one async for one in models.stream("acme/large", CONTEXT)]

    closing = events[-1]
    assert isinstance(closing, Error)
    assert (closing.kind, closing.error.text) == ("incomplete_stream", "Par")
    assert len(server.requests) == 1


async def test_an_overflow_is_named() -> None:
    body = {"error": {"code": 400, "type": "exceed_context_size_error", "message": "too large"}}
    async with serving(answer(400, body)) as server, models_for(server) as models:
        events = [one async for one in models.stream("acme/large", CONTEXT)]

    assert isinstance(events[0], Error)
    assert events[0].kind == "overflow"


async def test_an_abort_mid_stream_closes_the_connection() -> None:
    closed = asyncio.Event()

    async def step(connection: Connection) -> None:
        await connection.head(content_type="text/event-stream", transfer_encoding="chunked")
        await connection.body(CREATED, *said(0, "Par")[:3])
        await connection.closed_by_client()
        closed.set()

    controller = AbortController()
    async with serving(step) as server, models_for(server) as models:
        reply = models.stream("acme/large", CONTEXT, signal=controller.signal)
        text = ""
        async for one in reply:
            text += getattr(one, "delta", "")
            if text == "Par":
                controller.abort()
        await asyncio.wait_for(closed.wait(), 5)

    assert (await reply.result()).stop_reason == "aborted"


async def test_the_limit_that_was_asked_for_is_known_when_the_host_hides_the_cut() -> None:
    flags = {"length_says_completed": True}
    async with (
        serving(stream(*HELLO), stream(*HELLO)) as server,
        models_for(server, flags=flags) as models,
    ):
        assert (await ask(models, max_tokens=4)).stop_reason == "length"
        assert (await ask(models, max_tokens=5)).stop_reason == "stop"


async def test_a_session_is_pinned_by_the_headers_of_this_wire() -> None:
    async with (
        serving(*[stream(*HELLO)] * 2) as server,
        models_for(server, flags={"session_affinity": "openai"}) as models,
    ):
        await ask(models, session_id="s1")
        await ask(models, session_id="s1", cache="none")

    pinned, free = (request.headers for request in server.requests)
    assert (pinned["session-id"], pinned["x-client-request-id"]) == ("s1", "s1")
    assert not {"session_id", "x-session-affinity"} & pinned.keys()
    assert "session-id" not in free


THOUGHT = '{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"g"}'


@pytest.mark.parametrize(
    ("error", "kinds"),
    [
        ({"code": "invalid_encrypted_content", "message": "could not be verified"}, [Retry, Done]),
        ({"code": "x", "message": "'reasoning' was provided without its required following item"},
         [Retry, Done]),
        ({"code": "x", "message": "another field is wrong"}, [Error]),
    ],
)  # fmt: skip
async def test_case_017_refused_reasoning_is_reported_and_asked_once_more_without_it(
    error: dict[str, str], kinds: list[type]
) -> None:
    said_before = AssistantMessage(
        [ThinkingContent("", THOUGHT, redacted=True), TextContent("a")],
        "openai-responses", "acme", "large",
    )  # fmt: skip
    context = Context("", [UserMessage("Hi", 1), said_before, UserMessage("Go on", 1)])
    async with (
        serving(answer(400, {"error": error}), stream(*HELLO)) as server,
        models_for(server) as models,
    ):
        events = [one async for one in models.stream("acme/large", context)]

    assert [type(one) for one in events if isinstance(one, Retry | Done | Error)] == kinds
    sent = [[item.get("type") for item in request.json["input"]] for request in server.requests]
    assert sent == [[None, "reasoning", "message", None], [None, "message", None]][: len(kinds)]


# -- dialects ----------------------------------------------------------------------------------


async def test_a_host_in_the_style_of_codex_is_a_row_with_a_path_and_headers() -> None:
    flags = {
        "path": "/codex/responses",
        "extra_headers": {"x-originator": "mine"},
        "max_output_tokens": False,
        "query": {"client": "1"},
    }
    async with serving(stream(*HELLO)) as server, models_for(server, flags=flags) as models:
        assert (await ask(models, max_tokens=5)).text == "Hello"

    (request,) = server.requests
    assert request.path == "/v1/codex/responses?client=1"
    assert request.headers["x-originator"] == "mine"
    assert "max_output_tokens" not in request.json


async def test_a_key_in_a_header_of_its_own_follows_no_redirect() -> None:
    flags = {"key_header": "api-key"}
    moved = answer(307, {}, location="http://localhost:1/elsewhere")
    async with (
        serving(stream(*HELLO), moved) as server,
        models_for(server, flags=flags) as models,
    ):
        assert (await ask(models)).text == "Hello"
        failed = await ask(models, max_retries=0)

    headers = server.requests[0].headers
    assert headers["api-key"] == KEY
    assert "authorization" not in headers
    assert failed.stop_reason == "error"
    assert "307" in (failed.error_message or "")
    assert KEY not in (failed.error_message or "")


@pytest.mark.parametrize("api", ["openai-responses", "openai-chat"])
async def test_azure_asks_a_deployment_with_its_key_header(api: str) -> None:
    body = HELLO if api == "openai-responses" else chat_said("Hello")
    async with serving(stream(*body)) as server:
        provider = azure_provider(
            server.base_url, api_key=KEY, deployments={"gpt-5.2": "mine"}, api=api
        )
        async with Models([provider]) as models:
            message = await models.complete("azure/gpt-5.2", CONTEXT)

    assert (message.text, message.model) == ("Hello", "gpt-5.2")
    (request,) = server.requests
    assert request.path == f"/v1/{'responses' if 'resp' in api else 'chat/completions'}"
    assert request.json["model"] == "mine"
    assert (request.headers["api-key"], "authorization" in request.headers) == (KEY, False)


async def test_azures_older_api_has_the_deployment_and_a_version_in_the_url() -> None:
    async with serving(stream(*HELLO), stream(*chat_said("Hello"))) as server:
        provider = azure_provider(
            server.base_url, api_key=KEY, deployments={"gpt-5.2": "mine"}, api_version="2025-04-01"
        )
        async with Models([provider]) as models:
            await models.complete("azure/gpt-5.2", CONTEXT)
            await models.complete(Model("azure", "gpt-5.2", "openai-chat"), CONTEXT)

    assert [request.path for request in server.requests] == [
        "/v1/responses?api-version=2025-04-01",
        "/v1/deployments/mine/chat/completions?api-version=2025-04-01",
    ]


async def test_azure_takes_a_token_of_entra_as_a_bearer() -> None:
    async def token() -> str:
        return "eyJ.token.x"

    async with serving(stream(*HELLO)) as server:
        provider = azure_provider(server.base_url, entra=True, api_key=token)
        async with Models([provider]) as models:
            assert (await models.complete("azure/gpt-5.2", CONTEXT)).text == "Hello"

    headers = server.requests[0].headers
    assert headers["authorization"] == "Bearer eyJ.token.x"
    assert "api-key" not in headers


async def test_one_vendor_may_speak_both_dialects() -> None:
    async with serving(stream(*HELLO)) as server:
        provider = Provider(
            id="acme", base_url="http://127.0.0.1:9", needs_key=False,
            other_dialects=(Dialect("openai-responses", server.base_url),),
        )  # fmt: skip
        async with Models([provider]) as models:
            message = await models.complete(Model("acme", "m", "openai-responses"), CONTEXT)

    assert message.text == "Hello"
