"""The same faults for every wire, played by a real HTTP server in each vendor's own words.

What one dialect has alone is tested beside its wire.
"""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from email.utils import formatdate
from typing import Any

import pytest

from loopwright.messages import AssistantMessage, UserMessage
from loopwright.models import Context, Models, Provider
from loopwright.models.wires import known_wires, load_wire
from loopwright.signals import AbortController
from loopwright.stream import AssistantMessageEvent, AssistantStream, Error, Retry, Start

from . import fault_server as chat
from .fault_server import Connection, FaultServer, Step, answer, serving, stream, zipped
from .wires import bedrock_frames as bedrock
from .wires import responses_bodies as responses

KEY = "sk-test-0123456789abcdef"
CONTEXT = Context("You are a test.", [UserMessage("Hi", 1)])

Body = list[bytes]


@dataclass(frozen=True)
class Vendor:
    """How one dialect says the few things these tests need."""

    begun: Callable[[str], Body]
    """A reply that has said a text and goes on."""
    ended: Callable[[str], Body]
    """What is missing to its end."""
    overloaded: bytes
    refused: bytes
    """The faults in the middle of a stream: one that may pass, one that will not."""
    framed: bool = False
    """The body is an AWS event stream; there are no lines."""

    def said(self, text: str) -> Body:
        return [*self.begun(text), *self.ended(text)]


def data(**fields: Any) -> bytes:
    return f"data: {json.dumps(fields, ensure_ascii=False)}\n\n".encode()


def anthropic(type: str, **fields: Any) -> bytes:
    return f"event: {type}\n".encode() + data(type=type, **fields)


def anthropic_begun(text: str) -> Body:
    delta = {"type": "text_delta", "text": text}
    return [
        anthropic("message_start", message={"id": "msg_1", "usage": {"input_tokens": 10}}),
        anthropic("content_block_start", index=0, content_block={"type": "text", "text": ""}),
        anthropic("content_block_delta", index=0, delta=delta),
    ]


def anthropic_ended(_: str) -> Body:
    return [
        anthropic("content_block_stop", index=0),
        anthropic("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 2}),
        anthropic("message_stop"),
    ]


def anthropic_fault(type: str, message: str) -> bytes:
    return anthropic("error", error={"type": type, "message": message})


def gemini(text: str, **more: Any) -> bytes:
    candidate = {"content": {"parts": [{"text": text}], "role": "model"}, "index": 0, **more}
    usage = {"promptTokenCount": 10, "candidatesTokenCount": 2, "totalTokenCount": 12}
    return data(candidates=[candidate], usageMetadata=usage, responseId="r1")


def responses_begun(text: str) -> Body:
    return [responses.CREATED, *responses.said(0, text)[:3]]


CHAT = Vendor(
    begun=lambda text: [data(id="r1", choices=[{"index": 0, "delta": {"content": text}}])],
    ended=lambda _: [chat.event({}, "stop"), chat.USAGE, chat.DONE],
    overloaded=data(error={"type": "overloaded_error", "message": "Overloaded"}),
    refused=data(error={"type": "invalid_request_error", "message": "bad field"}),
)
VENDORS: dict[str, Vendor] = {
    "openai-chat": CHAT,
    "mistral": CHAT,
    "openai-responses": Vendor(
        begun=responses_begun,
        ended=lambda text: [*responses.said(0, text)[3:], responses.completed()],
        overloaded=responses.event("error", code="server_error", message="Overloaded"),
        refused=responses.event(
            "response.failed",
            response={"status": "failed", "error": {"code": "invalid_request_error",
                                                    "message": "bad field"}},
        ),
    ),
    "anthropic-messages": Vendor(
        begun=anthropic_begun,
        ended=anthropic_ended,
        overloaded=anthropic_fault("overloaded_error", "Overloaded"),
        refused=anthropic_fault("invalid_request_error", "bad field"),
    ),
    "google-gemini": Vendor(
        begun=lambda text: [gemini(text)],
        ended=lambda _: [gemini("", finishReason="STOP")],
        overloaded=data(error={"code": 503, "status": "UNAVAILABLE", "message": "Overloaded"}),
        refused=data(error={"code": 400, "status": "INVALID_ARGUMENT", "message": "bad field"}),
    ),
    "bedrock-converse": Vendor(
        begun=lambda text: [bedrock.START, bedrock.delta(0, text=text)],
        ended=lambda _: [bedrock.closed(0), *bedrock.stopped()],
        overloaded=bedrock.exception("serviceUnavailableException", "Overloaded"),
        refused=bedrock.exception("validationException", "bad field"),
        framed=True,
    ),
}  # fmt: skip


@pytest.fixture(autouse=True)
def no_account_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Bedrock wants a region; everything else comes from the row."""
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture(params=sorted(VENDORS))
def api(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def vendor(api: str) -> Vendor:
    return VENDORS[api]


def test_every_wire_is_tested_here() -> None:
    assert set(known_wires()) <= VENDORS.keys(), "say in VENDORS how the new dialect speaks"


class Clock:
    """Time that passes only when somebody sleeps. It starts now, since dates in headers do."""

    def __init__(self) -> None:
        self.now = time.time()
        self.slept: list[float] = []

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    def time(self) -> float:
        return self.now


def models_for(api: str, server: FaultServer, clock: Clock | None = None, **row: Any) -> Models:
    clock = clock or Clock()
    row = {"api_key": KEY, "any_model": True, **row}
    provider = Provider(id="acme", api=api, base_url=server.base_url, **row)
    return Models([provider], sleep=clock.sleep, clock=clock.time, random=lambda: 0.0)


def begin(models: Models, **options: Any) -> AssistantStream:
    return models.stream("acme/large", CONTEXT, **options)


async def events_of(models: Models, **options: Any) -> list[AssistantMessageEvent]:
    return [event async for event in begin(models, **options)]


async def failure_of(models: Models, **options: Any) -> Error:
    closing = (await events_of(models, **options))[-1]
    assert isinstance(closing, Error)
    return closing


def types(events: list[AssistantMessageEvent]) -> list[str]:
    return [event.type for event in events]


BUSY = {"error": {"message": "slow down"}}


# -- statuses ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "kind"), [(401, "auth"), (403, "auth"), (400, "invalid_request")]
)
async def test_a_status_that_will_not_pass_fails_at_once(api: str, status: int, kind: str) -> None:
    step = answer(status, {"error": {"message": f"no good: {KEY}"}, "message": f"no: {KEY}"})
    async with serving(step) as server, models_for(api, server) as models:
        events = await events_of(models)

    (closing,) = events
    assert isinstance(closing, Error)
    assert (closing.kind, closing.retryable) == (kind, False)
    assert f"HTTP {status}" in (closing.error.error_message or "")
    assert (closing.error.provider, closing.error.model) == ("acme", "large")
    assert KEY not in repr(events)
    assert len(server.requests) == 1


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 520, 524, 529])
async def test_a_status_that_may_pass_is_tried_again_by_one_layer_only(
    api: str, vendor: Vendor, status: int
) -> None:
    clock = Clock()
    async with (
        serving(answer(status, BUSY), stream(*vendor.said("x"))) as server,
        models_for(api, server, clock) as models,
    ):
        events = await events_of(models)

    assert types(events)[:2] == ["retry", "start"]
    assert types(events).count("start") == 1
    assert clock.slept == [0.5]
    assert len(server.requests) == 2


async def test_retries_stop_and_do_not_multiply(api: str) -> None:
    clock = Clock()
    async with (
        serving(*[answer(529, BUSY)] * 9) as server,
        models_for(api, server, clock) as models,
    ):
        closing = await failure_of(models)

    assert closing.retryable
    assert clock.slept == [0.5, 1.0, 2.0]
    assert len(server.requests) == 4


# -- Retry-After -------------------------------------------------------------------------------


async def test_case_043_the_delay_asked_for_is_kept_in_seconds_and_in_milliseconds(
    api: str, vendor: Vendor
) -> None:
    clock = Clock()
    async with (
        serving(
            answer(429, BUSY, retry_after="3"),
            answer(429, BUSY, retry_after_ms="3500", retry_after="60"),
            answer(503, BUSY, retry_after="1.5"),
            stream(*vendor.said("x")),
        ) as server,
        models_for(api, server, clock) as models,
    ):
        events = await events_of(models)

    assert clock.slept == [3.0, 3.5, 1.5]
    assert [event.delay_seconds for event in events if isinstance(event, Retry)] == clock.slept
    assert len(server.requests) == 4


async def test_case_043_the_delay_asked_for_is_kept_as_a_date(api: str, vendor: Vendor) -> None:
    clock = Clock()
    date = formatdate(clock.now + 30, usegmt=True)
    async with (
        serving(answer(429, BUSY, retry_after=date), stream(*vendor.said("x"))) as server,
        models_for(api, server, clock) as models,
    ):
        await events_of(models)

    (slept,) = clock.slept
    assert 20 < slept <= 30, "less what the test itself took, and what a date rounds off"


async def test_case_043_a_wait_above_the_limit_ends_it_at_once_and_is_told(api: str) -> None:
    clock = Clock()
    async with (
        serving(answer(429, BUSY, retry_after="7200")) as server,
        models_for(api, server, clock) as models,
    ):
        closing = await failure_of(models)

    assert clock.slept == []
    assert (closing.kind, closing.retry_after_seconds) == ("rate_limit", 7200)
    assert "7200 s" in (closing.error.error_message or "")


async def test_case_043_an_abort_ends_the_wait_at_once(api: str) -> None:
    controller = AbortController()

    async def sleep(seconds: float) -> None:
        asyncio.get_running_loop().call_soon(controller.abort)
        await asyncio.sleep(3600)

    async with serving(answer(429, BUSY, retry_after="30")) as server:
        provider = Provider(
            id="acme", api=api, base_url=server.base_url, api_key=KEY, any_model=True
        )
        async with Models([provider], sleep=sleep) as models:
            closing = await asyncio.wait_for(failure_of(models, signal=controller.signal), 10)

    assert closing.reason == "aborted"
    assert len(server.requests) == 1


@pytest.mark.parametrize("told", ["false", "true"])
async def test_x_should_retry_wins_over_the_status(api: str, vendor: Vendor, told: str) -> None:
    status = 500 if told == "false" else 400
    async with (
        serving(answer(status, BUSY, x_should_retry=told), stream(*vendor.said("x"))) as server,
        models_for(api, server) as models,
    ):
        message = await models.complete("acme/large", CONTEXT)

    assert message.stop_reason == ("error" if told == "false" else "stop")


# -- silence and breaks ------------------------------------------------------------------------


async def test_a_head_that_does_not_come_ends_after_the_time_allowed(api: str) -> None:
    async def silent(connection: Connection) -> None:
        await connection.closed_by_client()

    async with serving(silent) as server, models_for(api, server) as models:
        closing = await failure_of(models, timeout_ms=60, max_retries=0)

    assert (closing.kind, closing.retryable) == ("connection", True)


async def test_a_stall_in_the_middle_ends_after_the_time_allowed_with_the_text(
    api: str, vendor: Vendor
) -> None:
    async def stall(connection: Connection) -> None:
        await connection.head(content_type="text/event-stream", transfer_encoding="chunked")
        await connection.body(*vendor.begun("Par"))
        await connection.closed_by_client()

    async with serving(stall) as server, models_for(api, server) as models:
        closing = await failure_of(models, timeout_ms=150)

    assert (closing.kind, closing.error.text) == ("connection", "Par")
    assert len(server.requests) == 1, "nothing is asked twice once text was handed on"


async def test_a_reset_before_the_answer_is_tried_again(api: str, vendor: Vendor) -> None:
    async def reset(connection: Connection) -> None:
        connection.reset()

    async with (
        serving(reset, stream(*vendor.said("x"))) as server,
        models_for(api, server) as models,
    ):
        events = await events_of(models)

    assert types(events)[:2] == ["retry", "start"]
    assert isinstance(events[0], Retry)
    assert "connection" in events[0].error


async def test_a_reset_in_the_middle_is_an_error_with_the_text(api: str, vendor: Vendor) -> None:
    async def reset(connection: Connection) -> None:
        await connection.head(content_type="text/event-stream", transfer_encoding="chunked")
        await connection.body(*vendor.begun("Par"))
        await asyncio.sleep(0.02)  # a reset may overtake what was sent before it
        connection.reset()

    async with (
        serving(reset, stream(*vendor.said("x"))) as server,
        models_for(api, server) as models,
    ):
        closing = await failure_of(models)

    assert (closing.kind, closing.retryable, closing.error.text) == ("connection", True, "Par")
    assert len(server.requests) == 1


async def test_case_012_a_body_that_just_ends_is_a_retryable_error_with_the_text(
    api: str, vendor: Vendor
) -> None:
    async with (
        serving(stream(*vendor.begun("Par"))) as server,
        models_for(api, server) as models,
    ):
        closing = await failure_of(models)

    assert (closing.kind, closing.retryable) == ("incomplete_stream", True)
    assert closing.error.text == "Par"


# -- faults in the middle of a stream ----------------------------------------------------------


async def test_case_013_a_passing_fault_after_text_is_the_only_end(
    api: str, vendor: Vendor
) -> None:
    async with (
        serving(stream(*vendor.begun("Par"), vendor.overloaded)) as server,
        models_for(api, server) as models,
    ):
        events = await events_of(models)

    closing = events[-1]
    assert isinstance(closing, Error)
    assert (closing.kind, closing.retryable, closing.error.text) == ("overloaded", True, "Par")
    assert "done" not in types(events)
    assert types(events).count("error") == 1
    assert len(server.requests) == 1


async def test_case_013_a_fault_that_will_not_pass_is_not_retryable(
    api: str, vendor: Vendor
) -> None:
    async with (
        serving(stream(vendor.refused)) as server,
        models_for(api, server) as models,
    ):
        closing = await failure_of(models)

    assert (closing.kind, closing.retryable) == ("invalid_request", False)
    assert "bad field" in (closing.error.error_message or "")
    assert len(server.requests) == 1


async def test_case_013_a_passing_fault_before_any_text_is_tried_again_unseen(
    api: str, vendor: Vendor
) -> None:
    async with (
        serving(stream(vendor.overloaded), stream(*vendor.said("x"))) as server,
        models_for(api, server) as models,
    ):
        events = await events_of(models)

    assert isinstance(events[0], Retry)
    assert [type(event) for event in events].count(Start) == 1
    assert events[-1].type == "done"


@pytest.mark.parametrize(
    "garbage",
    [b"data: {not json\n\n", b"\x00\xff\x00" * 50, b"<html><title>Oops</title></html>", b"",
     b'data: "text"\n\n', b"data: [1, 2]\n\ndata: null\n\n", b'{"ok": true}'],
    ids=["no JSON", "bytes", "HTML", "nothing", "a text", "lists", "no stream"],
)  # fmt: skip
async def test_garbage_is_an_error_and_nothing_else(api: str, garbage: bytes) -> None:
    async with serving(stream(garbage)) as server, models_for(api, server) as models:
        events = await events_of(models, max_retries=0)

    assert types(events)[-1] == "error"
    assert "done" not in types(events)


@pytest.mark.parametrize("garbage", [b"data: {not json\n\n", b"\x00\xff\x00" * 50])
async def test_garbage_after_text_keeps_the_text(api: str, vendor: Vendor, garbage: bytes) -> None:
    async with (
        serving(stream(*vendor.begun("Par"), garbage)) as server,
        models_for(api, server) as models,
    ):
        closing = await failure_of(models)

    assert closing.error.text == "Par"


# -- bytes -------------------------------------------------------------------------------------

WAYS: dict[str, Callable[[Body], Step]] = {
    "whole": lambda body: stream(b"".join(body)),
    "gzip": lambda body: zipped(b"".join(body)),
    "byte by byte": lambda body: stream(*(b"%c" % byte for byte in b"".join(body))),
    "CRLF": lambda body: stream(*(piece.replace(b"\n", b"\r\n") for piece in body)),
    "CR": lambda body: stream(*(piece.replace(b"\n", b"\r") for piece in body)),
    "comments": lambda body: stream(b": hello\n\n", *(b": ping\n" + piece for piece in body)),
    "no final blank line": lambda body: stream(b"".join(body).rstrip(b"\n")),
    "no space": lambda body: stream(b"".join(body).replace(b"data: ", b"data:")),
}
OF_LINES = {"CRLF", "CR", "comments", "no final blank line", "no space"}


@pytest.mark.parametrize("way", WAYS)
async def test_the_way_the_bytes_come_makes_no_difference(
    api: str, vendor: Vendor, way: str
) -> None:
    if vendor.framed and way in OF_LINES:
        pytest.skip("this dialect has no lines")
    async with (
        serving(WAYS[way](vendor.said("Hello 汉🙂"))) as server,
        models_for(api, server) as models,
    ):
        message = await models.complete("acme/large", CONTEXT)

    assert (message.text, message.stop_reason) == ("Hello 汉🙂", "stop"), message.error_message


async def test_case_014_a_character_cut_between_two_reads_is_whole(
    api: str, vendor: Vendor
) -> None:
    body = b"".join(vendor.said("汉🙂"))
    first = body.find("🙂".encode())
    assert first > 0, "this body has the character itself, not an escape"
    async with (
        serving(*(stream(body[:at], body[at:]) for at in range(first - 2, first + 4))) as server,
        models_for(api, server) as models,
    ):
        texts = {(await models.complete("acme/large", CONTEXT)).text for _ in range(6)}

    assert texts == {"汉🙂"}


# -- secrets -----------------------------------------------------------------------------------

SECRETS = {
    "X-Custom-Token": "secret-of-the-row-0123456789",
    "Cookie": "session=secret-of-the-cookie-0123456789",
}
ASKED_WITH = {"X-Gateway-Key": "secret-of-the-request-0123456789"}


@pytest.mark.parametrize(
    "flags", [{}, {"key_header": "x-vendor-auth"}], ids=["usual", "own header"]
)
async def test_no_secret_is_in_an_error_a_repr_or_any_log(
    api: str, vendor: Vendor, flags: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    secrets = [KEY, *SECRETS.values(), *ASKED_WITH.values()]
    echo = " ".join(secrets)
    async with serving(stream(*vendor.said("x"))) as server:
        models = models_for(api, server, headers=SECRETS, flags=flags)
        async with models:
            await models.complete("acme/large", CONTEXT, headers=ASKED_WITH)  # all is imported now
            for name in ["", *logging.root.manager.loggerDict]:
                caplog.set_level(logging.DEBUG, name or None)
            server.script += [
                answer(401, {"error": {"message": echo}, "message": echo}, x_request_id="r"),
                answer(500, {"error": {"message": echo}, "message": echo}),
                stream(*vendor.begun("Par"), vendor.overloaded.replace(b"Overloaded", b"Overload")),
                stream(*vendor.said("x")),
            ]
            asked = {"headers": ASKED_WITH, "max_retries": 0}
            events = [await events_of(models, **asked) for _ in range(4)]
            shown = repr(events) + repr(models.get_provider("acme")) + repr(models)

    assert server.requests[-1].headers["x-gateway-key"] == ASKED_WITH["X-Gateway-Key"]
    assert server.requests[-1].headers["x-custom-token"] == SECRETS["X-Custom-Token"]
    assert len(server.requests) == 5
    for secret in secrets:
        assert secret not in shown
        assert secret not in caplog.text
        assert not any(secret in str(record.__dict__) for record in caplog.records)


# -- event loops -------------------------------------------------------------------------------


def test_case_046_one_models_serves_two_loops_in_a_row_and_two_at_once(
    api: str, vendor: Vendor
) -> None:
    ready, finished = threading.Event(), threading.Event()
    servers: list[FaultServer] = []
    messages: list[AssistantMessage] = []

    async def serve() -> None:
        async with serving(*[stream(*vendor.said("x"))] * 4) as server:
            servers.append(server)
            ready.set()
            await asyncio.to_thread(finished.wait)

    serving_thread = threading.Thread(target=lambda: asyncio.run(serve()))
    serving_thread.start()
    ready.wait(10)
    models = models_for(api, servers[0])

    async def turn() -> None:
        messages.append(await models.complete("acme/large", CONTEXT))

    try:
        for _ in range(2):
            asyncio.run(turn())
            gc.collect()
        threads = [threading.Thread(target=lambda: asyncio.run(turn())) for _ in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        asyncio.run(models.aclose())
        asyncio.run(models.aclose())
    finally:
        finished.set()
        serving_thread.join()
    gc.collect()

    assert [message.text for message in messages] == ["x"] * 4, messages


# -- usage -------------------------------------------------------------------------------------


def odd_usage(api: str) -> bytes | None:
    """More cached tokens than were sent at all; None where a vendor counts them apart."""
    if api in ("openai-chat", "mistral"):
        details = {"cached_tokens": 30}
        counts = {"prompt_tokens": 10, "completion_tokens": 2, "prompt_tokens_details": details}
        return data(choices=[], usage=counts) + chat.DONE
    if api == "openai-responses":
        counts = {"input_tokens": 10, "output_tokens": 2, "input_tokens_details":
                  {"cached_tokens": 30}}  # fmt: skip
        return responses.completed(usage=counts)
    if api == "google-gemini":
        counts = {"promptTokenCount": 10, "candidatesTokenCount": 2, "cachedContentTokenCount": 30}
        return data(candidates=[{"finishReason": "STOP"}], usageMetadata=counts)
    return None


async def test_case_042_more_cached_tokens_than_were_sent_are_flagged(
    api: str, vendor: Vendor
) -> None:
    odd = odd_usage(api)
    if odd is None:
        pytest.skip("this vendor counts cached tokens beside the others")
    body = [*vendor.begun("x"), *vendor.ended("x")[:-1]]
    if api in ("openai-chat", "mistral"):
        body = [*vendor.begun("x"), chat.event({}, "stop")]
    async with (
        serving(stream(*body, odd), stream(*vendor.said("x"))) as server,
        models_for(api, server) as models,
    ):
        first = await models.complete("acme/large", CONTEXT)
        second = await models.complete("acme/large", CONTEXT)

    assert (first.usage.input, first.usage.cache_read, first.usage.known) == (0, 30, True)
    assert first.usage.doubtful
    assert not second.usage.doubtful
    assert (first.usage + second.usage).doubtful


def test_each_wire_says_its_own_name() -> None:
    for api in known_wires():
        assert load_wire(api).api == api
