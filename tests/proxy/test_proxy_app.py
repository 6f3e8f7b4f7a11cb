"""The proxy's endpoint: who is let in, what is passed on, and that it ends."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import httpx2
import pytest

from loopwright.errors import ConfigurationError
from loopwright.messages import AssistantMessage, ThinkingContent
from loopwright.models import Context, Model, Models, Provider
from loopwright.proxy import proxy_app, run_proxy
from loopwright.stream import AssistantMessageEvent, AssistantStream, ReplyBuilder
from loopwright.testing import Call, Reply, ScriptedModel

from .asgi_server import serving_app
from .http_faults import Connection, said, serving, stream, text_reply

TOKEN = "token-of-the-client-0123456789"
VENDOR_KEY = "sk-of-the-server-0123456789abcdef"


def body(provider: str = "scripted", model: str = "scripted", **options: Any) -> dict[str, Any]:
    """A request as pi's client writes it."""
    return {
        "model": {"id": model, "name": "x", "api": "openai-completions", "provider": provider,
                  "baseUrl": "https://example.invalid/steal", "headers": {"x-api-key": "theirs"},
                  "reasoning": False, "input": ["text"], "contextWindow": 1, "maxTokens": 1,
                  "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0}},
        "context": {"systemPrompt": "Be brief.",
                    "messages": [{"role": "user", "content": "Hi", "timestamp": 0}], "tools": []},
        "options": options,
    }  # fmt: skip


@asynccontextmanager
async def client(app: Any, token: str | None = TOKEN) -> AsyncGenerator[httpx2.AsyncClient]:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with (
        serving_app(app) as url,
        httpx2.AsyncClient(base_url=url, headers=headers, timeout=10) as http,
    ):
        yield http


def app_for(script: ScriptedModel, **more: Any) -> Any:
    settings: dict[str, Any] = {"tokens": [TOKEN], "allow_models": ["scripted/scripted"], **more}
    return proxy_app(Models([script.provider]), **settings)


def events_in(text: str) -> list[dict[str, Any]]:
    blocks = [block for block in text.split("\n\n") if block.startswith("data: ")]
    return [json.loads(block.removeprefix("data: ")) for block in blocks]


# -- the shapes --------------------------------------------------------------------------------


async def test_a_client_of_pis_gets_pis_bytes() -> None:
    script = ScriptedModel([Reply("Hi", thinking="Hm", calls=[Call("look", {"at": "it"}, "c1")])])
    async with client(app_for(script)) as http:
        response = await http.post("/api/stream", json=body())

    assert response.status_code == 200
    assert response.headers["content-type"].startswith("text/event-stream")
    events = events_in(response.text)
    usage = events[-1].pop("usage")
    assert events == [
        {"type": "start"},
        {"type": "thinking_start", "contentIndex": 0},
        {"type": "thinking_delta", "contentIndex": 0, "delta": "Hm"},
        {"type": "thinking_end", "contentIndex": 0},
        {"type": "text_start", "contentIndex": 1},
        {"type": "text_delta", "contentIndex": 1, "delta": "Hi"},
        {"type": "text_end", "contentIndex": 1},
        {"type": "toolcall_start", "contentIndex": 2, "id": "c1", "toolName": "look"},
        {"type": "toolcall_delta", "contentIndex": 2, "delta": '{"at":"it"}'},
        {"type": "toolcall_end", "contentIndex": 2},
        {"type": "done", "reason": "toolUse"},
    ]
    assert usage["cost"] == dict.fromkeys(
        ("input", "output", "cacheRead", "cacheWrite", "total"), 0
    )


async def test_a_transcript_of_pis_and_its_options_are_understood() -> None:
    script = ScriptedModel([Reply("ok")])
    request = body(temperature=0.5, maxTokens=7, reasoning="high", cacheRetention="long",
                   sessionId="s", samplingParams={"top_p": 1}, thinkingBudgets={"high": 9},
                   maxRetryDelayMs=5, transport="sse", metadata={"a": 1}, later="option")  # fmt: skip
    request["context"]["messages"] += [
        {"role": "assistant", "api": "openai-completions", "provider": "openai", "model": "m",
         "content": [{"type": "thinking", "thinking": "t", "thinkingSignature": "s"},
                     {"type": "toolCall", "id": "c", "name": "f", "arguments": {"a_b": 1},
                      "namespace": "n"}],
         "usage": {"input": 1, "output": 1, "cacheRead": 0, "cacheWrite": 0, "totalTokens": 2,
                   "cost": {"input": 0, "output": 0, "cacheRead": 0, "cacheWrite": 0, "total": 0}},
         "stopReason": "toolUse", "timestamp": 1},
        {"role": "toolResult", "toolCallId": "c", "toolName": "f", "isError": False,
         "content": [{"type": "text", "text": "r"}], "timestamp": 2},
    ]  # fmt: skip
    request["context"]["tools"] = [
        {"name": "f", "description": "d", "parameters": {}, "label": "F"}
    ]
    async with client(app_for(script)) as http:
        response = await http.post("/api/stream", json=request)

    assert events_in(response.text)[-1]["type"] == "done", response.text
    (seen,) = script.requests
    assistant = seen.context.messages[1]
    assert isinstance(assistant, AssistantMessage)
    assert (assistant.api, assistant.provider) == ("openai-chat", "openai")
    assert assistant.content[0] == ThinkingContent("t", "s")
    assert assistant.tool_calls[0].arguments == {"a_b": 1}
    assert seen.context.tools[0].name == "f"
    options = {name: value for name, value in seen.options.items() if name != "signal"}
    assert options == {
        "temperature": 0.5, "max_tokens": 7, "reasoning": "high", "cache": "long",
        "session_id": "s", "sampling_params": {"top_p": 1}, "thinking_budgets": {"high": 9},
        "max_retry_delay_ms": 5.0, "transport": "sse", "metadata": {"a": 1},
    }  # fmt: skip


async def test_field_names_of_pythons_port_are_understood() -> None:
    script = ScriptedModel([Reply("ok")])
    request = body()
    request["context"] = {
        "system_prompt": "S",
        "messages": [
            {"role": "toolResult", "tool_call_id": "c", "tool_name": "f", "content": []},
        ],
    }
    async with client(app_for(script)) as http:
        response = await http.post("/api/stream", json=request)

    assert events_in(response.text)[-1]["type"] == "done"
    assert script.requests[0].context.system_prompt == "S"


async def test_a_failure_of_the_vendor_comes_in_band() -> None:
    script = ScriptedModel([Reply("Par", error="bad request")])
    async with client(app_for(script)) as http:
        response = await http.post("/api/stream", json=body())

    assert response.status_code == 200
    closing = events_in(response.text)[-1]
    assert (closing["type"], closing["reason"]) == ("error", "error")
    assert closing["errorMessage"].endswith("bad request")
    assert set(closing) == {"type", "reason", "errorMessage", "usage"}


# -- who is let in -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    "header", [None, "", "Bearer", "Bearer wrong", f"Basic {TOKEN}", TOKEN,
               f"Bearer {TOKEN}x", f"Bearer {TOKEN[:-1]}"],
)  # fmt: skip
async def test_without_a_known_token_nothing_is_asked_or_read(header: str | None) -> None:
    script = ScriptedModel([Reply("x")])
    async with client(app_for(script), token=None) as http:
        headers = {} if header is None else {"Authorization": header}
        response = await http.post("/api/stream", content=b"not even JSON", headers=headers)

    assert response.status_code == 401
    assert response.json() == {"error": "a known bearer token is needed"}
    assert response.headers["www-authenticate"] == "Bearer"
    assert script.requests == []


async def test_a_function_may_decide_and_a_raising_one_refuses(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def authorize(token: str) -> bool:
        if token == "raise":
            raise RuntimeError(f"the database did not like {token}")
        return token == "good"

    script = ScriptedModel([Reply("x")])
    app = app_for(script, tokens=(), authorize=authorize)
    statuses: list[int] = []
    for token in ("good", "bad", "raise"):
        async with client(app, token) as http:
            statuses.append((await http.post("/api/stream", json=body())).status_code)

    assert statuses == [200, 401, 401]
    assert "authorize raised RuntimeError" in caplog.text


def test_an_app_that_would_let_everybody_in_is_refused() -> None:
    settings: list[dict[str, Any]] = [
        {"tokens": [], "allow_models": ["*"]},
        {"tokens": [""], "allow_models": ["*"]},
        {"tokens": ["t", " "], "allow_models": ["*"]},
        {"tokens": "text", "allow_models": ["*"]},
        {"tokens": ["t"], "allow_models": []},
        {"tokens": ["t"], "allow_models": "acme/*"},
    ]
    for setting in settings:
        with pytest.raises(ConfigurationError):
            proxy_app(Models(), **setting)


@pytest.mark.parametrize(
    ("offered", "status"),
    [("acme/large", 200), ("acme/*", 200), ("acme/la*", 200), ("*", 200),
     ("acme/larg", 403), ("other/*", 403), ("acme", 403)],
)  # fmt: skip
async def test_only_models_on_offer_may_be_asked(offered: str, status: int) -> None:
    async with serving(text_reply("x")) as vendor:
        provider = Provider.openai_compatible("acme", base_url=vendor.base_url)
        app = proxy_app(Models([provider]), tokens=[TOKEN], allow_models=[offered])
        async with client(app) as http:
            response = await http.post("/api/stream", json=body("acme", "large"))

    assert response.status_code == status
    assert len(vendor.requests) == (1 if status == 200 else 0)


async def test_other_paths_and_methods_are_not_served() -> None:
    async with client(app_for(ScriptedModel([]))) as http:
        assert (await http.get("/api/stream")).status_code == 405
        assert (await http.post("/", json=body())).status_code == 404


# -- what is refused ---------------------------------------------------------------------------


def changed(**parts: Any) -> dict[str, Any]:
    return {**body(), **parts}


@pytest.mark.parametrize(
    ("request_body", "told"),
    [
        (b"{", "not valid JSON"),
        (b"\xff\xfe", "not valid JSON"),
        (b"[" * 100_000, "not valid JSON"),
        ([], "the body: expected an object"),
        (changed(model=None), "model: expected an object"),
        (changed(model={"id": 1, "provider": "x"}), "model: needs"),
        (changed(context=None), "context: expected an object"),
        (changed(context={"messages": {}}), "context.messages: expected a list"),
        (changed(context={"messages": [{"role": "spy"}]}), "unknown role 'spy'"),
        (changed(context={"messages": [{"role": "user"}]}), "has no 'content'"),
        (changed(context={"messages": [], "tools": [{"name": "x"}]}), "context.tools[0]"),
        (changed(context={"systemPrompt": 7}), "context.systemPrompt"),
        (changed(options={"reasoning": "utmost"}), "options.reasoning"),
        (changed(options={"maxTokens": "many"}), "options.maxTokens"),
        (changed(options=[1]), "options: expected an object"),
    ],
)
async def test_what_cannot_be_read_is_refused_and_named(request_body: Any, told: str) -> None:
    content = request_body if isinstance(request_body, bytes) else json.dumps(request_body).encode()
    async with client(app_for(ScriptedModel([]))) as http:
        response = await http.post("/api/stream", content=content)

    assert response.status_code == 400
    assert told in response.json()["error"]


async def test_a_model_nobody_knows_is_refused() -> None:
    async with client(app_for(ScriptedModel([]), allow_models=["*"])) as http:
        response = await http.post("/api/stream", json=body("nobody", "m"))

    assert (response.status_code, response.json()) == (
        404, {"error": "no model is named 'nobody/m'"},
    )  # fmt: skip


@pytest.mark.parametrize("chunked", [True, False], ids=["chunked", "with its length"])
async def test_a_request_that_is_too_large_is_refused(chunked: bool) -> None:
    async def pieces() -> AsyncGenerator[bytes]:
        for _ in range(5):
            yield b" " * 100

    script = ScriptedModel([Reply("x")])
    async with client(app_for(script, max_request_bytes=400)) as http:
        content: Any = pieces() if chunked else b" " * 500
        response = await http.post("/api/stream", content=content)

    assert (response.status_code, response.json()) == (
        413, {"error": "a request may have 400 bytes"},
    )  # fmt: skip
    assert script.requests == []


@pytest.mark.parametrize(
    "model_id", ["claude/../../x?alt=json#", "claude//x", "claude\\..", "claude%2e"]
)
async def test_case_163_a_client_cannot_name_a_model_that_leaves_its_place_in_the_url(
    model_id: str,
) -> None:
    script = ScriptedModel([Reply("never")])
    async with client(app_for(script, allow_models=["scripted/claude*"])) as http:
        response = await http.post("/api/stream", json=body(model=model_id))

    assert response.status_code == 400
    assert "cannot be part of a URL" in response.json()["error"]
    assert script.requests == []


async def test_case_163_a_body_that_never_ends_is_cut_by_time() -> None:
    head = (
        "POST /api/stream HTTP/1.1\r\nHost: x\r\n"
        f"Authorization: Bearer {TOKEN}\r\nContent-Length: 100\r\n\r\n{{"
    )
    async with serving_app(app_for(ScriptedModel([]), body_seconds=0.05)) as url:
        host, port = url.removeprefix("http://").split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(head.encode())
        answer = await asyncio.wait_for(reader.readline(), 10)
        writer.close()

    assert b" 408 " in answer


# -- what the vendor gets ----------------------------------------------------------------------


async def test_the_server_adds_its_key_and_passes_no_credential_and_no_address_on(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    headers = {
        "Authorization": "Bearer client-secret", "X-Api-Key": "client-secret",
        "Cookie": "client-secret", "X-Custom": "Basic client-secret", "Host": "evil.invalid",
        "OpenAI-Organization": "client-secret", "X-Trace": "on", "X-HTTP-Method-Override": "GET", "Content-Length": "1",
        "X-Split": "a\r\nX-Api-Key: client-secret", "X-None": None,
    }  # fmt: skip
    async with serving(text_reply("x")) as vendor:
        provider = Provider.openai_compatible(
            "acme", base_url=vendor.base_url, api_key=VENDOR_KEY, models=["large"]
        )
        app = proxy_app(Models([provider]), tokens=[TOKEN], allow_models=["acme/large"])
        request = body("acme", "large", headers=headers, apiKey="client-secret",
                       baseUrl="https://example.invalid", env={"OPENAI_API_KEY": "client-secret"})  # fmt: skip
        async with client(app) as http:
            response = await http.post(
                "/api/stream", json=request, headers={"X-Api-Key": "client-secret"}
            )

    assert events_in(response.text)[-1]["type"] == "done", response.text
    (seen,) = vendor.requests
    assert seen.headers["authorization"] == f"Bearer {VENDOR_KEY}"
    assert seen.headers["x-trace"] == "on"
    assert seen.headers["host"].startswith("127.0.0.1")
    assert "x-http-method-override" not in seen.headers
    assert "client-secret" not in str(seen.headers) + seen.body.decode()
    assert TOKEN not in str(seen.headers) + seen.body.decode() + caplog.text
    assert VENDOR_KEY not in response.text + str(response.headers) + caplog.text


async def test_no_parameter_can_change_which_model_is_asked() -> None:
    async with serving(text_reply("x")) as vendor:
        provider = Provider.openai_compatible("acme", base_url=vendor.base_url, models=["small"])
        app = proxy_app(Models([provider]), tokens=[TOKEN], allow_models=["acme/small"])
        request = body("acme", "small", samplingParams={"model": "expensive"})
        async with client(app) as http:
            response = await http.post("/api/stream", json=request)

    assert events_in(response.text)[-1]["type"] == "error"
    assert vendor.requests == []


# -- ends --------------------------------------------------------------------------------------


async def test_a_client_that_leaves_aborts_the_vendors_request() -> None:
    closed = asyncio.Event()

    async def step(connection: Connection) -> None:
        await connection.head(content_type="text/event-stream", transfer_encoding="chunked")
        await connection.body(said("Par")[0])
        await connection.closed_by_client()
        closed.set()

    async with serving(step) as vendor:
        provider = Provider.openai_compatible("acme", base_url=vendor.base_url)
        app = proxy_app(Models([provider]), tokens=[TOKEN], allow_models=["*"])
        async with client(app) as http:
            async with http.stream("POST", "/api/stream", json=body("acme", "m")) as response:
                async for chunk in response.aiter_text():
                    if "Par" in chunk:
                        break
            await asyncio.wait_for(closed.wait(), 5)


async def test_a_client_that_leaves_before_the_vendor_speaks_aborts_it_too() -> None:
    asked, closed = asyncio.Event(), asyncio.Event()

    async def step(connection: Connection) -> None:
        asked.set()
        await connection.closed_by_client()
        closed.set()

    async with serving(step) as vendor:
        provider = Provider.openai_compatible("acme", base_url=vendor.base_url)
        app = proxy_app(Models([provider]), tokens=[TOKEN], allow_models=["*"])
        async with client(app) as http:
            async with http.stream("POST", "/api/stream", json=body("acme", "m")):
                await asyncio.wait_for(asked.wait(), 5)
            await asyncio.wait_for(closed.wait(), 5)


async def test_comments_keep_the_connection_open_while_the_model_is_silent() -> None:
    go_on = asyncio.Event()

    async def step(connection: Connection) -> None:
        await go_on.wait()
        await stream(*said("Hi"))(connection)

    async with serving(step) as vendor:
        provider = Provider.openai_compatible("acme", base_url=vendor.base_url)
        app = proxy_app(
            Models([provider]), tokens=[TOKEN], allow_models=["*"], keepalive_seconds=0.01
        )
        async with (
            client(app) as http,
            http.stream("POST", "/api/stream", json=body("acme", "m")) as response,
        ):
            text = ""
            async for chunk in response.aiter_text():
                text += chunk
                if text.count(": keep-alive\n\n") >= 2:
                    go_on.set()

    assert events_in(text)[-1]["type"] == "done"


async def test_a_stand_in_of_models_will_do() -> None:
    """Whatever has `get_model` and `stream` can be served."""

    class Echo:
        def get_model(self, provider_id: str, model_id: str) -> Model:
            return Model(provider_id, model_id, "echo")

        def stream(self, model: Model, context: Context, **options: Any) -> AssistantStream:
            builder = ReplyBuilder(model=model.id)
            events: list[AssistantMessageEvent] = [builder.start(), builder.done("stop")]
            return AssistantStream.from_events(events)

    app = proxy_app(Echo(), tokens=[TOKEN], allow_models=["*"])
    async with client(app) as http:
        response = await http.post("/api/stream", json=body("a", "b"))

    assert [event["type"] for event in events_in(response.text)] == ["start", "done"]


async def test_many_clients_are_served_at_once() -> None:
    script = ScriptedModel([Reply("Hello", chunk_size=1, delay=0.002)] * 20)
    async with client(app_for(script)) as http:
        ask = partial(http.post, "/api/stream", json=body())
        async with asyncio.TaskGroup() as group:
            answers = [group.create_task(ask()) for _ in range(20)]

    assert all(events_in(a.result().text)[-1]["type"] == "done" for a in answers)


def test_the_helper_serves_this_machine_only_unless_told_otherwise() -> None:
    assert inspect.signature(run_proxy).parameters["host"].default == "127.0.0.1"
