"""Anthropic Messages against a real HTTP server that plays the vendor, faults included."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import subprocess
import sys
from email.utils import formatdate
from typing import Any

import pytest

from loopwright.messages import AssistantMessage, TextContent, ThinkingContent, UserMessage
from loopwright.models import Context, Model, Models, Provider, ToolSpec
from loopwright.models.clients import Clients
from loopwright.models.handoff import SendableTranscript, sendable
from loopwright.models.provider import Endpoint
from loopwright.models.wires import WireCall
from loopwright.models.wires.anthropic_messages import _headers
from loopwright.signals import AbortController
from loopwright.stream import AssistantMessageEvent, Error, Retry, Start, TextDelta

from ..fault_server import Connection, FaultServer, Step, answer, serving, stream, zipped

KEY = "sk-ant-test-0123456789abcdef"
CONTEXT = Context("You are a test.", [UserMessage("Hi", 1)])
API = "anthropic-messages"


def event(type: str, **fields: Any) -> bytes:
    return f"event: {type}\ndata: {json.dumps({'type': type, **fields})}\n\n".encode()


HEAD = event("message_start", message={"id": "msg_1", "usage": {"input_tokens": 10}})
OPEN = event("content_block_start", index=0, content_block={"type": "text", "text": ""})
END = [
    event("content_block_stop", index=0),
    event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 2}),
    event("message_stop"),
]


def delta(text: str) -> bytes:
    return event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})


def said(*pieces: str) -> list[bytes]:
    return [HEAD, OPEN, *(delta(piece) for piece in pieces), *END]


def reply(text: str) -> Step:
    return stream(*said(text))


def fault(type: str, message: str = "Sorry") -> dict[str, Any]:
    return {"type": "error", "error": {"type": type, "message": message}}


class Clock:
    """Time that passes only when somebody sleeps."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    def time(self) -> float:
        return self.now


def models_for(
    server: FaultServer, clock: Clock | None = None, *, root: bool = True, **row: Any
) -> Models:
    clock = clock or Clock()
    base_url = server.base_url.removesuffix("/v1") if root else server.base_url
    row = {"api_key": KEY, "any_model": True, **row}
    provider = Provider(id="acme", api=API, base_url=base_url, **row)
    return Models([provider], sleep=clock.sleep, clock=clock.time, random=lambda: 0.0)


async def ask(models: Models, context: Context = CONTEXT, **options: Any) -> AssistantMessage:
    return await models.complete("acme/large", context, **options)


async def events_of(models: Models, **options: Any) -> list[AssistantMessageEvent]:
    return [event async for event in models.stream("acme/large", CONTEXT, **options)]


def closing_error(events: list[AssistantMessageEvent]) -> Error:
    closing = events[-1]
    assert isinstance(closing, Error)
    return closing


# -- a good day --------------------------------------------------------------------------------


@pytest.mark.parametrize("root", [True, False], ids=["without version", "with version"])
async def test_a_reply_arrives_and_says_where_it_came_from(root: bool) -> None:
    async with serving(reply("Hello")) as server, models_for(server, root=root) as models:
        message = await ask(models, max_tokens=9)

    assert (message.text, message.stop_reason, message.response_id) == ("Hello", "stop", "msg_1")
    assert (message.api, message.provider, message.model) == (API, "acme", "large")
    assert (message.usage.input, message.usage.output) == (10, 2)
    (request,) = server.requests
    assert request.path == "/v1/messages"
    assert request.headers["content-type"] == "application/json"
    assert request.json["messages"][0]["content"][0]["text"] == "Hi"
    assert request.json["max_tokens"] == 9


async def test_one_connection_serves_many_requests() -> None:
    async with serving(*[reply("x")] * 3) as server, models_for(server) as models:
        for _ in range(3):
            assert (await ask(models)).text == "x"

    assert server.connections == 1


async def test_a_tool_call_travels() -> None:
    pieces = [
        HEAD,
        event("content_block_start", index=0,
              content_block={"type": "tool_use", "id": "t", "name": "add", "input": {}}),
        event("content_block_delta", index=0,
              delta={"type": "input_json_delta", "partial_json": '{"a":1}'}),
        END[0],
        event("message_delta", delta={"stop_reason": "tool_use"}, usage={}),
        END[2],
    ]  # fmt: skip
    tool = ToolSpec("add", "Adds.", {"type": "object", "properties": {}})
    async with serving(stream(*pieces)) as server, models_for(server) as models:
        message = await ask(models, Context("", [UserMessage("Add", 1)], [tool]))

    assert message.tool_calls[0].arguments == {"a": 1}
    assert server.requests[0].json["tools"][0]["name"] == "add"


async def test_an_option_nobody_knows_is_named() -> None:
    async with serving() as server, models_for(server) as models:
        message = await ask(models, flavour="sweet")

    assert "'flavour'" in (message.error_message or "")
    assert server.requests == []


# -- keys and headers --------------------------------------------------------------------------


async def test_other_hosts_get_the_key_and_the_version_they_know() -> None:
    async with serving(reply("x")) as server, models_for(server) as models:
        await ask(models)

    headers = server.requests[0].headers
    assert (headers["x-api-key"], headers["anthropic-version"]) == (KEY, "2023-06-01")
    assert "authorization" not in headers


@pytest.mark.parametrize(
    ("flags", "name", "value"),
    [
        ({"auth": "bearer"}, "authorization", f"Bearer {KEY}"),
        ({"auth": ["oauth-device", "bearer"]}, "authorization", f"Bearer {KEY}"),
        ({"auth": ["cf-aig-authorization-bearer"]}, "cf-aig-authorization", f"Bearer {KEY}"),
        ({"anthropic_version": "2026-10-21"}, "anthropic-version", "2026-10-21"),
        ({"session_affinity": "x-session-affinity"}, "x-session-affinity", "s1"),
        ({"session_affinity": "openrouter"}, "x-session-id", "s1"),
        ({"extra_headers": {"X-Row": "1"}}, "x-row", "1"),
    ],
)
async def test_a_row_says_how_its_host_wants_the_headers(
    flags: dict[str, Any], name: str, value: str
) -> None:
    async with serving(reply("x")) as server, models_for(server, flags=flags) as models:
        await ask(models, session_id="s1")

    headers = server.requests[0].headers
    assert headers[name] == value
    keys = [n for n in ("authorization", "x-api-key", "cf-aig-authorization") if n in headers]
    assert len(keys) == 1


async def test_headers_of_the_row_and_of_the_request_go_over_ours() -> None:
    row = {"Anthropic-Version": "2024-01-01"}
    async with serving(reply("x")) as server, models_for(server, headers=row) as models:
        await ask(models, headers={"X-Request": "2"}, betas=["a", "b"])

    headers = server.requests[0].headers
    assert (headers["anthropic-version"], headers["x-request"]) == ("2024-01-01", "2")
    assert headers["anthropic-beta"] == "a,b"


async def test_without_a_key_none_is_sent_and_no_other_host_sees_the_users_account(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-ant-secret")
    monkeypatch.setenv("ANTHROPIC_AUTH_TOKEN", "token-secret")
    monkeypatch.setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Mine: hidden-secret")
    monkeypatch.setenv("ANTHROPIC_BASE_URL", "http://127.0.0.1:9")
    async with (
        serving(reply("x")) as server,
        models_for(server, api_key=None, needs_key=False) as models,
    ):
        assert (await ask(models)).text == "x"

    headers = server.requests[0].headers
    assert "secret" not in str(headers)
    assert "authorization" not in headers


def own_headers(model_id: str = "claude-sonnet-4-5", **options: Any) -> dict[str, Any]:
    model = Model("anthropic", model_id, API)
    call = WireCall(
        model=model,
        context=CONTEXT,
        messages=sendable(CONTEXT.messages, model),
        options=options,
        flags={"auth": ["x-api-key", "bearer"]},
        endpoint=Endpoint("https://api.anthropic.com", KEY),
        clients=Clients(),
    )
    secret, headers = _headers(call, None)
    return secret | headers


def test_anthropic_itself_gets_what_its_sdk_sends() -> None:
    assert own_headers() == {}


def test_the_older_version_is_asked_for_where_the_newest_refuses_what_is_sent() -> None:
    """Sampling parameters; if they are left out anyway, the newest version it is."""
    older = {"anthropic-version": "2023-06-01"}

    assert own_headers(temperature=0) == older
    assert own_headers(sampling_params={"top_k": 1}) == older
    assert own_headers(sampling_params={"stop": ["x"]}) == {}
    assert own_headers(temperature=0, reasoning="low") == {}
    assert own_headers("claude-opus-4-8", temperature=0) == {}


async def test_vertex_names_the_model_in_the_address() -> None:
    flags = {"dialect": "vertex"}
    async with serving(reply("x")) as server, models_for(server, flags=flags) as models:
        await ask(models)

    (request,) = server.requests
    assert request.path == "/models/large:streamRawPredict"
    assert request.headers["authorization"] == f"Bearer {KEY}"


# -- bytes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "step",
    [
        zipped(b"".join(said("Hel", "lo"))),
        stream(*(piece.replace(b"\n", b"\r\n") for piece in said("Hel", "lo"))),
        stream(b": keep\n\n", *said("Hello")),
        stream(*(b"%c" % byte for byte in b"".join(said("Hello")))),
        stream(b"".join(said("Hello")).removesuffix(b"\n\n")),
        stream(*(piece[piece.index(b"data:") :] for piece in said("Hello"))),
    ],
    ids=["gzip", "CRLF", "comments", "byte by byte", "no final blank line", "no event lines"],
)
async def test_the_way_the_bytes_come_makes_no_difference(step: Step) -> None:
    async with serving(step) as server, models_for(server) as models:
        message = await ask(models)

    assert (message.text, message.stop_reason) == ("Hello", "stop")


async def test_case_015_a_ping_is_a_sign_of_life_without_news() -> None:
    go_on = asyncio.Event()

    async def step(connection: Connection) -> None:
        await connection.head(content_type="text/event-stream", transfer_encoding="chunked")
        await connection.body(event("ping"))
        await go_on.wait()
        await connection.body(*said("Hi"))
        await connection.end()

    async with serving(step) as server, models_for(server) as models:
        answering = models.stream("acme/large", CONTEXT)

        assert await answering.next_batch() == []
        go_on.set()
        assert (await answering.result()).text == "Hi"


# -- statuses ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, fault("authentication_error", f"invalid x-api-key {KEY}"), "auth"),
        (403, fault("permission_error"), "auth"),
        (404, fault("not_found_error"), "invalid_request"),
        (400, fault("invalid_request_error"), "invalid_request"),
        (400, fault("invalid_request_error", "Your credit balance is too low"), "quota"),
        (400, fault("invalid_request_error", "prompt is too long: 9 tokens > 8 maximum"),
         "overflow"),
        (413, fault("request_too_large"), "overflow"),
        (400, {"error": {"code": 400, "type": "exceed_context_size_error", "message": "x"}},
         "overflow"),
    ],
)  # fmt: skip
async def test_a_hopeless_status_fails_at_once_and_shows_no_key(
    status: int, body: Any, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving(answer(status, body)) as server, models_for(server) as models:
        events = await events_of(models)

    (closing,) = events
    assert isinstance(closing, Error)
    assert (closing.kind, closing.retryable) == (kind, False)
    assert f"HTTP {status}" in (closing.error.error_message or "")
    assert KEY not in repr(events) + caplog.text + repr(models.get_provider("acme"))


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
async def test_a_passing_status_is_tried_again_by_one_layer_only(status: int) -> None:
    clock = Clock()
    async with (
        serving(answer(status, fault("overloaded_error")), reply("x")) as server,
        models_for(server, clock) as models,
    ):
        events = await events_of(models)

    assert [type(event) for event in events[:2]] == [Retry, Start]
    assert (clock.slept, len(server.requests)) == ([0.5], 2)


async def test_case_043_the_delay_the_server_asks_for_is_kept_in_each_form() -> None:
    clock = Clock()
    date = formatdate(clock.now + 3 + 4, usegmt=True)  # 3 s have passed by then, 1 s is rounding
    busy = fault("rate_limit_error")
    async with (
        serving(
            answer(429, busy, retry_after="3"),
            answer(429, busy, retry_after=date),
            answer(429, busy, retry_after_ms="3500", retry_after="60"),
            reply("x"),
        ) as server,
        models_for(server, clock) as models,
    ):
        events = await events_of(models)

    assert clock.slept == [3.0, pytest.approx(4.0), 3.5]
    assert [event.delay_seconds for event in events if isinstance(event, Retry)] == clock.slept


# -- the connection ----------------------------------------------------------------------------


async def reset_at_once(connection: Connection) -> None:
    connection.reset()


async def reset_after_text(connection: Connection) -> None:
    await connection.head(content_type="text/event-stream", transfer_encoding="chunked")
    await connection.body(HEAD, OPEN, delta("Par"))
    connection.reset()


async def test_a_connection_that_breaks_before_the_answer_is_tried_again() -> None:
    async with serving(reset_at_once, reply("x")) as server, models_for(server) as models:
        events = await events_of(models)

    assert isinstance(events[0], Retry)
    assert "connection" in events[0].error


async def test_a_connection_that_breaks_after_text_is_an_error_with_the_text() -> None:
    async with serving(reset_after_text, reply("x")) as server, models_for(server) as models:
        closing = closing_error(await events_of(models))

    assert (closing.kind, closing.retryable) == ("connection", True)
    assert (closing.error.text, closing.error.usage.input) == ("Par", 10)
    assert len(server.requests) == 1, "nothing is asked twice once text was handed on"


async def test_case_012_a_body_that_just_ends_after_text_is_not_tried_again() -> None:
    async with serving(stream(HEAD, OPEN, delta("Par"))) as server, models_for(server) as models:
        closing = closing_error(await events_of(models))

    assert (closing.kind, closing.error.text) == ("incomplete_stream", "Par")


async def test_case_013_an_error_event_before_any_text_is_tried_again_unseen() -> None:
    busy = event("error", error={"type": "overloaded_error", "message": "Overloaded"})
    async with serving(stream(HEAD, busy), reply("x")) as server, models_for(server) as models:
        events = await events_of(models)

    assert isinstance(events[0], Retry)
    assert [event.type for event in events].count("start") == 1


async def test_case_013_an_error_event_after_text_is_not() -> None:
    busy = event("error", error={"type": "overloaded_error", "message": "Overloaded"})
    async with (
        serving(stream(HEAD, OPEN, delta("Par"), busy)) as server,
        models_for(server) as models,
    ):
        closing = closing_error(await events_of(models))

    assert (closing.kind, closing.error.text) == ("overloaded", "Par")
    assert len(server.requests) == 1


async def never(connection: Connection) -> None:
    await connection.closed_by_client()


async def stall(connection: Connection) -> None:
    await connection.head(content_type="text/event-stream", transfer_encoding="chunked")
    await connection.body(HEAD, OPEN, delta("Par"))
    await connection.closed_by_client()


@pytest.mark.parametrize("step", [never, stall], ids=["slow headers", "stall"])
async def test_silence_ends_after_the_time_allowed(step: Step) -> None:
    async with serving(step) as server, models_for(server) as models:
        message = await ask(models, timeout_ms=50, max_retries=0)

    assert message.stop_reason == "error"
    assert re.search("[Tt]ime(d )?out", message.error_message or "")


async def test_an_abort_closes_the_connection_and_keeps_the_text() -> None:
    closed = asyncio.Event()

    async def step(connection: Connection) -> None:
        await stall(connection)
        closed.set()

    controller = AbortController()
    async with serving(step) as server, models_for(server) as models:
        answering = models.stream("acme/large", CONTEXT, signal=controller.signal)
        async for one in answering:
            if isinstance(one, TextDelta):
                controller.abort()
        message = await answering.result()
        await asyncio.wait_for(closed.wait(), 5)

    assert (message.stop_reason, message.text) == ("aborted", "Par")


# -- signatures --------------------------------------------------------------------------------

REFUSED = answer(
    400,
    fault("invalid_request_error", "messages.1.content.0: Invalid `signature` in `thinking` block"),
)


def thoughtful() -> list[Any]:
    thought = [ThinkingContent("hm", "S"), TextContent("x")]
    return [
        UserMessage("Hi", 1),
        AssistantMessage(thought, API, "acme", "large", timestamp=1),
        UserMessage("Go on", 1),
    ]


def sent_types(server: FaultServer) -> list[list[str]]:
    return [
        [block["type"] for block in request.json["messages"][1]["content"]]
        for request in server.requests
    ]


async def test_case_017_a_refused_signature_is_reported_and_asked_once_more_without_thinking() -> (
    None
):
    clock = Clock()
    async with serving(REFUSED, reply("ok")) as server, models_for(server, clock) as models:
        answering = models.stream("acme/large", Context("", thoughtful()))
        events = [event async for event in answering]

    assert isinstance(events[0], Retry)
    assert "signature" in events[0].error
    assert clock.slept == [0.0]
    assert events[-1].message.text == "ok"  # type: ignore[union-attr]
    assert sent_types(server) == [["thinking", "text"], ["text"]]


async def test_case_017_a_second_refusal_ends_it() -> None:
    async with serving(REFUSED, REFUSED, reply("ok")) as server, models_for(server) as models:
        message = await ask(models, Context("", thoughtful()))

    assert message.stop_reason == "error"
    assert len(server.requests) == 2


async def test_case_017_the_session_stays_usable_without_further_faults() -> None:
    model = Model("acme", "large", API)
    transcript = SendableTranscript(model)
    transcript.extend(thoughtful())
    async with (
        serving(REFUSED, reply("ok"), reply("fine")) as server,
        models_for(server) as models,
    ):
        await models.complete(model, Context("", transcript.view()))
        transcript.extend(
            [
                AssistantMessage([TextContent("ok")], API, "acme", "large", timestamp=1),
                UserMessage("Go on", 1),
            ]
        )
        last = await models.complete(model, Context("", transcript.view()))

    assert last.text == "fine"
    assert sent_types(server) == [["thinking", "text"], ["text"], ["text"]]


async def test_case_017_without_past_thinking_such_a_fault_is_an_ordinary_one() -> None:
    async with serving(REFUSED) as server, models_for(server) as models:
        closing = closing_error(await events_of(models))

    assert (closing.kind, len(server.requests)) == ("invalid_request", 1)


# -- what must be installed --------------------------------------------------------------------

WITHOUT_SDK = """
import asyncio, sys
from loopwright.messages import UserMessage
from loopwright.models import Context, Models, Provider
import loopwright.models.wires.anthropic_messages
assert not {"anthropic", "httpx2"} & sys.modules.keys()
sys.modules["anthropic"] = None
provider = Provider(id="acme", api="anthropic-messages", base_url="http://127.0.0.1:9",
                    api_key="k", any_model=True)
message = asyncio.run(Models([provider]).complete("acme/m", Context("", [UserMessage("Hi")])))
print(message.error_message)
"""


def test_the_sdk_is_imported_on_first_use_and_its_absence_names_the_extra() -> None:
    finished = subprocess.run(
        [sys.executable, "-c", WITHOUT_SDK], capture_output=True, text=True, timeout=60
    )

    assert "needs the anthropic SDK" in finished.stdout, finished.stderr
    assert "loopwright[anthropic]" in finished.stdout
