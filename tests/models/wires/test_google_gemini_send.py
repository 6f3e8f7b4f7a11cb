"""Gemini against a real HTTP server that plays the vendor, faults included."""

from __future__ import annotations

import asyncio
import json
import logging
import re
import subprocess
import sys
import time
from email.utils import formatdate
from typing import Any

import pytest

from loopwright.messages import AssistantMessage, TextContent, ToolCall, UserMessage
from loopwright.models import Context, Model, Models, Provider, ToolSpec
from loopwright.models.clients import Clients
from loopwright.models.handoff import SendableTranscript, sendable
from loopwright.models.provider import Endpoint
from loopwright.models.wires import WireCall
from loopwright.models.wires.google_gemini import _headers, _url
from loopwright.signals import AbortController
from loopwright.stream import AssistantMessageEvent, Error, Retry, Start, TextDelta

from ..fault_server import Connection, FaultServer, Step, answer, serving, stream, zipped

KEY = "AIzaSyTest0123456789abcdefghijk"
CONTEXT = Context("You are a test.", [UserMessage("Hi", 1)])
API = "google-gemini"


def chunk(*parts: Any, finish: str | None = None) -> bytes:
    candidate: dict[str, Any] = {"content": {"parts": list(parts), "role": "model"}, "index": 0}
    if finish is not None:
        candidate["finishReason"] = finish
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 2, "totalTokenCount": 12}
    fields = {"candidates": [candidate], "usageMetadata": usage, "responseId": "r1"}
    return b"data: " + json.dumps(fields).encode() + b"\r\n\r\n"


END = chunk({"text": ""}, finish="STOP")


def delta(text: str) -> bytes:
    return chunk({"text": text})


def said(*pieces: str) -> list[bytes]:
    return [*(delta(piece) for piece in pieces), END]


def reply(text: str) -> Step:
    return stream(*said(text))


def fault(code: int, status: str, message: str = "Sorry", *details: Any) -> dict[str, Any]:
    return {"error": {"code": code, "status": status, "message": message, "details": details}}


QUOTA = "You exceeded your current quota, please check your plan and billing details."
DELAY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "3.5s"}


def quota(id: str) -> dict[str, Any]:
    return {"@type": "type.googleapis.com/google.rpc.QuotaFailure", "violations": [{"quotaId": id}]}


PER_MINUTE = quota("GenerateRequestsPerMinutePerProjectPerModel-FreeTier")
PER_DAY = quota("GenerateRequestsPerDayPerProjectPerModel-FreeTier")
BAD_KEY = {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}


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


def models_for(server: FaultServer, clock: Clock | None = None, **row: Any) -> Models:
    clock = clock or Clock()
    row = {"api_key": KEY, "any_model": True, "base_url": server.base_url, **row}
    provider = Provider(id="acme", api=API, **row)
    return Models([provider], sleep=clock.sleep, clock=clock.time, random=lambda: 0.0)


async def ask(models: Models, context: Context = CONTEXT, **options: Any) -> AssistantMessage:
    return await models.complete("acme/gemini-3.5-flash", context, **options)


async def events_of(models: Models, **options: Any) -> list[AssistantMessageEvent]:
    answering = models.stream("acme/gemini-3.5-flash", CONTEXT, **options)
    return [event async for event in answering]


def closing_error(events: list[AssistantMessageEvent]) -> Error:
    closing = events[-1]
    assert isinstance(closing, Error)
    return closing


# -- a good day --------------------------------------------------------------------------------


async def test_a_reply_arrives_and_says_where_it_came_from() -> None:
    async with serving(reply("Hello")) as server, models_for(server) as models:
        message = await ask(models, max_tokens=9)

    assert (message.text, message.stop_reason, message.response_id) == ("Hello", "stop", "r1")
    assert (message.api, message.provider, message.model) == (API, "acme", "gemini-3.5-flash")
    assert (message.usage.input, message.usage.output) == (10, 2)
    (request,) = server.requests
    assert request.path == "/v1/models/gemini-3.5-flash:streamGenerateContent?alt=sse"
    assert request.headers["content-type"] == "application/json"
    assert request.json["contents"][0]["parts"][0]["text"] == "Hi"
    assert request.json["generationConfig"] == {"maxOutputTokens": 9}


async def test_one_connection_serves_many_requests() -> None:
    async with serving(*[reply("x")] * 3) as server, models_for(server) as models:
        for _ in range(3):
            assert (await ask(models)).text == "x"

    assert server.connections == 1


async def test_a_tool_call_travels() -> None:
    call = {"functionCall": {"name": "add", "args": {"a": 1}, "id": "k1"}, "thoughtSignature": "S"}
    tool = ToolSpec("add", "Adds.", {"type": "object", "properties": {}})
    async with serving(stream(chunk(call), END)) as server, models_for(server) as models:
        message = await ask(models, Context("", [UserMessage("Add", 1)], [tool]))

    assert message.tool_calls == [ToolCall("k1", "add", {"a": 1}, "S")]
    assert server.requests[0].json["tools"][0]["functionDeclarations"][0]["name"] == "add"


async def test_an_option_nobody_knows_is_named() -> None:
    async with serving() as server, models_for(server) as models:
        message = await ask(models, flavour="sweet")

    assert "'flavour'" in (message.error_message or "")
    assert server.requests == []


# -- address, keys and headers -----------------------------------------------------------------


def call_for(base_url: str | None, model_id: str, **rest: Any) -> WireCall:
    model = Model("google", model_id, API)
    return WireCall(
        model=model,
        context=CONTEXT,
        messages=sendable(CONTEXT.messages, model),
        options=rest,
        flags={},
        endpoint=Endpoint(base_url, KEY),
        clients=Clients(),
    )


@pytest.mark.parametrize(
    ("base_url", "model_id", "expected"),
    [
        ("https://x.dev/v1beta/", "gemini-x", "https://x.dev/v1beta/models/gemini-x"),
        ("https://x.dev", "gemini-x", "https://x.dev/v1beta/models/gemini-x"),
        ("https://x.dev/v1", "tunedModels/a-1", "https://x.dev/v1/tunedModels/a-1"),
        ("https://x.dev/v1", "a b/c:d", "https://x.dev/v1/models/a%20b%2Fc:d"),
    ],
)
def test_the_address_names_the_model_and_never_the_key(
    base_url: str, model_id: str, expected: str
) -> None:
    url = _url(call_for(base_url, model_id))

    assert url == f"{expected}:streamGenerateContent?alt=sse"


async def test_a_row_without_a_base_url_is_told_so() -> None:
    async with serving() as server, models_for(server, base_url=None) as models:
        message = await ask(models)

    assert "no base URL" in (message.error_message or "")


@pytest.mark.parametrize(
    ("flags", "name", "value"),
    [
        ({}, "x-goog-api-key", KEY),
        ({"auth": "x-goog-api-key"}, "x-goog-api-key", KEY),
        ({"auth": ["oauth-device", "bearer"]}, "authorization", f"Bearer {KEY}"),
        ({"auth": ["google-adc"]}, "authorization", f"Bearer {KEY}"),
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
    assert len([n for n in ("authorization", "x-goog-api-key") if n in headers]) == 1


async def test_headers_of_the_row_and_of_the_request_go_over_ours() -> None:
    row = {"X-Goog-Api-Key": "other-key"}
    async with serving(reply("x")) as server, models_for(server, headers=row) as models:
        await ask(models, headers={"X-Request": "2"})

    headers = server.requests[0].headers
    assert (headers["x-goog-api-key"], headers["x-request"]) == ("other-key", "2")


def test_without_a_key_or_where_none_is_wanted_none_is_sent() -> None:
    call = call_for("https://x.dev", "x")
    call.flags = {"auth": "none"}
    assert _headers(call) == {"content-type": "application/json"}

    call.flags, call.endpoint = {}, Endpoint("https://x.dev")
    assert _headers(call) == {"content-type": "application/json"}


async def test_a_redirect_does_not_carry_the_key_away() -> None:
    away = answer(307, b"", location="/elsewhere")
    async with serving(away) as server, models_for(server) as models:
        message = await ask(models)

    assert "HTTP 307" in (message.error_message or "")
    assert len(server.requests) == 1


# -- bytes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "step",
    [
        zipped(b"".join(said("Hel", "lo"))),
        stream(*(piece.replace(b"\r\n", b"\n") for piece in said("Hel", "lo"))),
        stream(b": keep\r\n\r\n", *said("Hello")),
        stream(*(b"%c" % byte for byte in b"".join(said("Hello")))),
        stream(b"".join(said("Hello")).removesuffix(b"\r\n\r\n")),
    ],
    ids=["gzip", "LF", "comments", "byte by byte", "no final blank line"],
)
async def test_the_way_the_bytes_come_makes_no_difference(step: Step) -> None:
    async with serving(step) as server, models_for(server) as models:
        message = await ask(models)

    assert (message.text, message.stop_reason) == ("Hello", "stop")


async def test_case_015_a_comment_is_a_sign_of_life_without_news() -> None:
    go_on = asyncio.Event()

    async def step(connection: Connection) -> None:
        await connection.head(content_type="text/event-stream", transfer_encoding="chunked")
        await connection.body(b": still thinking\r\n\r\n")
        await go_on.wait()
        await connection.body(*said("Hi"))
        await connection.end()

    async with serving(step) as server, models_for(server) as models:
        answering = models.stream("acme/gemini-3.5-flash", CONTEXT)

        assert await answering.next_batch() == []
        go_on.set()
        assert (await answering.result()).text == "Hi"


# -- statuses ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (400, fault(400, "INVALID_ARGUMENT", f"API key not valid: {KEY}", BAD_KEY), "auth"),
        (401, fault(401, "UNAUTHENTICATED"), "auth"),
        (403, fault(403, "PERMISSION_DENIED", f"no access for {KEY}"), "auth"),
        (404, fault(404, "NOT_FOUND", "models/x is not found"), "invalid_request"),
        (400, fault(400, "INVALID_ARGUMENT"), "invalid_request"),
        (400, [fault(400, "FAILED_PRECONDITION")], "invalid_request"),
        (400, fault(400, "INVALID_ARGUMENT",
                    "The input token count (9) exceeds the maximum number of tokens allowed (8)."),
         "overflow"),
        (429, fault(429, "RESOURCE_EXHAUSTED", QUOTA), "quota"),
        (429, fault(429, "RESOURCE_EXHAUSTED", QUOTA, PER_DAY, DELAY), "quota"),
        (429, fault(429, "RESOURCE_EXHAUSTED", f"{QUOTA} limit: 0", PER_MINUTE, DELAY), "quota"),
        (400, b"<html><title>Bad</title></html>", "invalid_request"),
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
        serving(answer(status, fault(status, "UNAVAILABLE")), reply("x")) as server,
        models_for(server, clock) as models,
    ):
        events = await events_of(models)

    assert [type(event) for event in events[:2]] == [Retry, Start]
    assert (clock.slept, len(server.requests)) == ([0.5], 2)


async def test_case_043_the_delay_the_server_asks_for_is_kept_in_each_form() -> None:
    clock = Clock()
    busy = fault(429, "RESOURCE_EXHAUSTED")
    async with (
        serving(
            answer(429, busy, retry_after="3"),
            answer(429, fault(429, "RESOURCE_EXHAUSTED", QUOTA, PER_MINUTE, DELAY)),
            answer(503, [fault(503, "UNAVAILABLE", "Sorry", DELAY)]),
            reply("x"),
        ) as server,
        models_for(server, clock) as models,
    ):
        events = await events_of(models)

    assert clock.slept == [3.0, 3.5, 3.5]
    assert [event.delay_seconds for event in events if isinstance(event, Retry)] == clock.slept


async def test_case_043_a_date_is_a_delay_as_well() -> None:
    clock = Clock()
    date = formatdate(time.time() + 30, usegmt=True)
    async with (
        serving(answer(429, {}, retry_after=date), reply("x")) as server,
        models_for(server, clock) as models,
    ):
        await ask(models)

    assert clock.slept == [pytest.approx(30, abs=5)]


# -- the connection ----------------------------------------------------------------------------


async def reset_at_once(connection: Connection) -> None:
    connection.reset()


async def reset_after_text(connection: Connection) -> None:
    await connection.head(content_type="text/event-stream", transfer_encoding="chunked")
    await connection.body(delta("Par"))
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
    async with serving(stream(delta("Par"))) as server, models_for(server) as models:
        closing = closing_error(await events_of(models))

    assert (closing.kind, closing.error.text) == ("incomplete_stream", "Par")


BUSY = b"data: " + json.dumps(fault(503, "UNAVAILABLE", "Overloaded")).encode() + b"\r\n\r\n"


async def test_case_013_an_error_event_before_any_text_is_tried_again_unseen() -> None:
    async with serving(stream(BUSY), reply("x")) as server, models_for(server) as models:
        events = await events_of(models)

    assert isinstance(events[0], Retry)
    assert [event.type for event in events].count("start") == 1


async def test_case_013_an_error_event_after_text_is_not() -> None:
    async with serving(stream(delta("Par"), BUSY)) as server, models_for(server) as models:
        closing = closing_error(await events_of(models))

    assert (closing.kind, closing.error.text) == ("overloaded", "Par")
    assert len(server.requests) == 1


async def never(connection: Connection) -> None:
    await connection.closed_by_client()


async def stall(connection: Connection) -> None:
    await connection.head(content_type="text/event-stream", transfer_encoding="chunked")
    await connection.body(delta("Par"))
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
        answering = models.stream("acme/gemini-3.5-flash", CONTEXT, signal=controller.signal)
        async for one in answering:
            if isinstance(one, TextDelta):
                controller.abort()
        message = await answering.result()
        await asyncio.wait_for(closed.wait(), 5)

    assert (message.stop_reason, message.text) == ("aborted", "Par")


# -- signatures --------------------------------------------------------------------------------

REFUSED = answer(400, fault(400, "INVALID_ARGUMENT", "Corrupted thought signature."))


def signed() -> list[Any]:
    said: Any = [TextContent("x", "S==")]
    return [
        UserMessage("Hi", 1),
        AssistantMessage(said, API, "acme", "gemini-3.5-flash", timestamp=1),
        UserMessage("Go on", 1),
    ]


def sent_signatures(server: FaultServer) -> list[list[str | None]]:
    return [
        [part.get("thoughtSignature") for part in request.json["contents"][1]["parts"]]
        for request in server.requests
    ]


async def test_case_017_a_refused_signature_is_reported_and_asked_once_more_without() -> None:
    clock = Clock()
    async with serving(REFUSED, reply("ok")) as server, models_for(server, clock) as models:
        answering = models.stream("acme/gemini-3.5-flash", Context("", signed()))
        events = [event async for event in answering]

    assert isinstance(events[0], Retry)
    assert "signature" in events[0].error
    assert clock.slept == [0.0]
    assert events[-1].message.text == "ok"  # type: ignore[union-attr]
    assert sent_signatures(server) == [["S=="], [None]]


async def test_case_017_a_second_refusal_ends_it() -> None:
    async with serving(REFUSED, REFUSED, reply("ok")) as server, models_for(server) as models:
        message = await ask(models, Context("", signed()))

    assert message.stop_reason == "error"
    assert len(server.requests) == 2


async def test_case_017_the_session_stays_usable_without_further_faults() -> None:
    model = Model("acme", "gemini-3.5-flash", API)
    transcript = SendableTranscript(model)
    transcript.extend(signed())
    async with (
        serving(REFUSED, reply("ok"), reply("fine")) as server,
        models_for(server) as models,
    ):
        await models.complete(model, Context("", transcript.view()))
        transcript.extend([
            AssistantMessage([TextContent("ok")], API, "acme", model.id, timestamp=1),
            UserMessage("Go on", 1),
        ])  # fmt: skip
        last = await models.complete(model, Context("", transcript.view()))

    assert last.text == "fine"
    assert sent_signatures(server) == [["S=="], [None], [None]]


async def test_case_017_without_past_signatures_such_a_fault_is_an_ordinary_one() -> None:
    async with serving(REFUSED) as server, models_for(server) as models:
        closing = closing_error(await events_of(models))

    assert (closing.kind, len(server.requests)) == ("invalid_request", 1)


# -- what must be installed --------------------------------------------------------------------

WITHOUT_HTTP = """
import asyncio, sys
from loopwright.messages import UserMessage
from loopwright.models import Context, Models, Provider
import loopwright.models.wires.google_gemini
assert not {"google", "httpx2"} & sys.modules.keys()
sys.modules["httpx2"] = None
provider = Provider(id="acme", api="google-gemini", base_url="http://127.0.0.1:9",
                    api_key="k", any_model=True)
message = asyncio.run(Models([provider]).complete("acme/m", Context("", [UserMessage("Hi")])))
print(message.error_message)
"""


def test_the_http_library_is_imported_on_first_use_and_its_absence_names_the_extra() -> None:
    finished = subprocess.run(
        [sys.executable, "-c", WITHOUT_HTTP], capture_output=True, text=True, timeout=60
    )

    assert "needs the HTTP library httpx2" in finished.stdout, finished.stderr
    assert "loopwright[google]" in finished.stdout
