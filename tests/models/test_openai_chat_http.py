"""Chat Completions against a real HTTP server that plays the faults of the wild."""

from __future__ import annotations

import asyncio
import gc
import logging
import re
import subprocess
import sys
import threading
from collections.abc import Callable
from email.utils import formatdate
from typing import Any

import pytest

from loopwright.messages import AssistantMessage, UserMessage
from loopwright.models import Context, Model, Models, Provider, ToolSpec
from loopwright.signals import AbortController
from loopwright.stream import AssistantMessageEvent, Error, Retry, Start, TextDelta

from .fault_server import (
    DONE,
    USAGE,
    Connection,
    FaultServer,
    Step,
    answer,
    event,
    joined,
    said,
    serving,
    stream,
    text_reply,
    zipped,
)

KEY = "sk-test-0123456789abcdef"
CONTEXT = Context("You are a test.", [UserMessage("Hi", 1)])


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
    provider = Provider.openai_compatible("acme", base_url=server.base_url, api_key=KEY, **row)
    return Models([provider], sleep=clock.sleep, clock=clock.time, random=lambda: 0.0)


async def ask(models: Models, **options: Any) -> AssistantMessage:
    return await models.complete("acme/large", CONTEXT, **options)


async def events_of(models: Models, **options: Any) -> list[AssistantMessageEvent]:
    return [event async for event in models.stream("acme/large", CONTEXT, **options)]


def closing_error(events: list[AssistantMessageEvent]) -> Error:
    closing = events[-1]
    assert isinstance(closing, Error)
    return closing


# -- a good day --------------------------------------------------------------------------------


async def test_a_reply_arrives_and_says_where_it_came_from() -> None:
    async with serving(text_reply("Hello")) as server, models_for(server) as models:
        message = await ask(models, temperature=0, max_tokens=9)

    assert (message.text, message.stop_reason, message.response_id) == ("Hello", "stop", "r1")
    assert (message.api, message.provider, message.model) == ("openai-chat", "acme", "large")
    assert (message.usage.input, message.usage.output) == (10, 2)
    (request,) = server.requests
    assert request.path == "/v1/chat/completions"
    assert request.headers["authorization"] == f"Bearer {KEY}"
    assert request.json["messages"][1] == {"role": "user", "content": "Hi"}
    assert (request.json["temperature"], request.json["max_tokens"]) == (0, 9)


async def test_one_connection_serves_many_requests() -> None:
    async with serving(*[text_reply("x")] * 3) as server, models_for(server) as models:
        for _ in range(3):
            assert (await ask(models)).text == "x"

    assert server.connections == 1


async def test_without_a_key_no_key_is_sent() -> None:
    async with serving(text_reply("x")) as server:
        provider = Provider.openai_compatible("acme", base_url=server.base_url)
        async with Models([provider]) as models:
            assert (await ask(models)).text == "x"

    assert "authorization" not in server.requests[0].headers


async def test_no_other_host_sees_the_users_openai_account(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_ORG_ID", "org-secret")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "proj-secret")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-openai-secret")
    monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "X-Mine: hidden-secret")
    async with (
        serving(text_reply("x")) as server,
        Models([Provider.openai_compatible("acme", base_url=server.base_url)]) as models,
    ):
        assert (await ask(models)).text == "x"

    assert "secret" not in str(server.requests[0].headers)


async def test_headers_of_the_row_and_of_the_request_are_sent() -> None:
    async with (
        serving(text_reply("x")) as server,
        models_for(server, headers={"X-Row": "1"}) as models,
    ):
        await ask(models, headers={"X-Request": "2"})

    headers = server.requests[0].headers
    assert (headers["x-row"], headers["x-request"]) == ("1", "2")


async def test_the_payload_can_be_seen_and_changed_and_the_head_of_the_answer_seen() -> None:
    heads: list[Any] = []

    def change(payload: dict[str, Any], model: Model) -> dict[str, Any]:
        return {**payload, "user": model.id}

    async with serving(text_reply("x")) as server, models_for(server) as models:
        await ask(models, on_payload=change, on_response=lambda head, _: heads.append(head))

    assert server.requests[0].json["user"] == "large"
    assert heads[0].status == 200


async def test_a_model_that_says_where_it_is_needs_no_row() -> None:
    async with serving(text_reply("x")) as server, Models() as models:
        model = Model("nobody", "m", "openai-chat", base_url=server.base_url)
        message = await models.complete(model, CONTEXT)

    assert (message.text, message.provider) == ("x", "nobody")


# -- bytes -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "step",
    [
        zipped(joined(said("Hel", "lo"))),
        stream(*(piece.replace(b"\n", b"\r\n") for piece in said("Hel", "lo"))),
        stream(b": keep\n\n", *said("Hel"), end=True),
        stream(*(b"%c" % byte for byte in joined(said("Hello")))),
        stream(joined(said("Hello")).removesuffix(b"\n\n")),
    ],
    ids=["gzip", "CRLF", "comments", "byte by byte", "no final blank line"],
)
async def test_the_way_the_bytes_come_makes_no_difference(step: Step) -> None:
    async with serving(step) as server, models_for(server) as models:
        message = await ask(models)

    assert message.stop_reason == "stop"
    assert message.text in ("Hello", "Hel")


async def test_case_014_a_character_cut_between_two_reads_is_whole() -> None:
    raw = event({"content": "🙂"}).replace(b"\\ud83d\\ude42", "🙂".encode())
    cut = raw.index("🙂".encode()) + 2
    async with (
        serving(stream(raw[:cut], raw[cut:], event({}, "stop"), DONE)) as server,
        models_for(server) as models,
    ):
        assert (await ask(models)).text == "🙂"


async def test_case_015_a_comment_is_a_sign_of_life_without_news() -> None:
    """An empty batch is handed over, so that an idle timer starts anew."""
    go_on = asyncio.Event()

    async def step(connection: Connection) -> None:
        await connection.head(content_type="text/event-stream", transfer_encoding="chunked")
        await connection.body(b": PROCESSING\n\n")
        await go_on.wait()
        await connection.body(*said("Hi"))
        await connection.end()

    async with serving(step) as server, models_for(server) as models:
        reply = models.stream("acme/large", CONTEXT)

        assert await reply.next_batch() == []
        go_on.set()
        assert (await reply.result()).text == "Hi"


# -- statuses ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "body", "kind"),
    [
        (401, {"error": {"message": f"Incorrect API key provided: {KEY}"}}, "auth"),
        (403, {"error": {"message": "not allowed"}}, "auth"),
        (402, {"error": {"message": "pay first"}}, "quota"),
        (429, {"error": {"message": "x", "code": "insufficient_quota"}}, "quota"),
        (404, {"error": {"message": "no such model"}}, "invalid_request"),
        (400, {"error": {"message": "bad field"}}, "invalid_request"),
        (400, {"error": {"message": "x", "code": "context_length_exceeded"}}, "overflow"),
        (413, b"<html><title>Too Large</title></html>", "overflow"),
        (400, {"error": {"message": "x", "code": "content_filter"}}, "refused"),
    ],
)
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
    assert closing.error.error_message.startswith("acme/large: ")  # type: ignore[union-attr]
    assert KEY not in repr(events) + caplog.text + repr(models.get_provider("acme"))


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 520, 529])
async def test_a_passing_status_is_tried_again(status: int) -> None:
    clock = Clock()
    async with (
        serving(answer(status, {"error": {"message": "later"}}), text_reply("x")) as server,
        models_for(server, clock) as models,
    ):
        events = await events_of(models)

    assert [type(event) for event in events[:2]] == [Retry, Start]
    assert clock.slept == [0.5]


async def test_retries_stop_and_the_last_failure_is_told() -> None:
    clock = Clock()
    async with (
        serving(*[answer(500, {"error": {"message": "later"}})] * 4) as server,
        models_for(server, clock) as models,
    ):
        events = await events_of(models)

    retries = [event for event in events if isinstance(event, Retry)]
    assert [(r.attempt, r.max_attempts) for r in retries] == [(2, 4), (3, 4), (4, 4)]
    assert clock.slept == [0.5, 1.0, 2.0]
    assert closing_error(events).retryable
    assert len(server.requests) == 4


async def test_max_retries_zero_asks_once() -> None:
    async with serving(answer(500, {})) as server, models_for(server) as models:
        assert (await ask(models, max_retries=0)).stop_reason == "error"

    assert len(server.requests) == 1


async def test_x_should_retry_wins() -> None:
    """Over the status, in both directions."""
    no = answer(500, {"error": {"message": "x"}}, x_should_retry="false")
    yes = answer(400, {"error": {"message": "x"}}, x_should_retry="true")
    async with serving(no, yes, text_reply("x")) as server, models_for(server) as models:
        first, second = await ask(models), await ask(models)

    assert (first.stop_reason, second.text) == ("error", "x")


# -- Retry-After -------------------------------------------------------------------------------


async def test_case_043_the_delay_the_server_asks_for_is_kept_in_each_form() -> None:
    clock = Clock()
    date = formatdate(clock.now + 3 + 4, usegmt=True)  # 3 s have passed by then, 1 s is rounding
    busy = {"error": {"message": "slow down"}}
    async with (
        serving(
            answer(429, busy, retry_after="3"),
            answer(429, busy, retry_after=date),
            answer(429, busy, retry_after_ms="3500", retry_after="60"),
            text_reply("x"),
        ) as server,
        models_for(server, clock) as models,
    ):
        events = await events_of(models)

    assert clock.slept == [3.0, pytest.approx(4.0), 3.5]
    assert len(server.requests) == 4
    assert [event.delay_seconds for event in events if isinstance(event, Retry)] == clock.slept


async def test_case_043_a_wait_above_the_limit_ends_it_at_once_and_is_told() -> None:
    clock = Clock()
    async with (
        serving(answer(429, {"error": {"message": "no"}}, retry_after="7200")) as server,
        models_for(server, clock) as models,
    ):
        closing = closing_error(await events_of(models))

    assert clock.slept == []
    assert closing.retry_after_seconds == 7200
    assert "7200 s" in (closing.error.error_message or "")


async def test_case_043_the_limit_can_be_set() -> None:
    async with (
        serving(answer(429, {}, retry_after="3"), text_reply("x")) as server,
        models_for(server) as models,
    ):
        short = await ask(models, max_retry_delay_ms=1000)
        server.script.insert(0, answer(429, {}, retry_after="7200"))
        unlimited = await ask(models, max_retry_delay_ms=0)

    assert (short.stop_reason, unlimited.text) == ("error", "x")


async def test_case_043_an_abort_ends_the_wait_at_once() -> None:
    controller = AbortController()

    async def sleep(seconds: float) -> None:
        asyncio.get_running_loop().call_soon(controller.abort)
        await asyncio.sleep(3600)

    async with serving(answer(429, {}, retry_after="30")) as server:
        provider = Provider.openai_compatible("acme", base_url=server.base_url)
        async with Models([provider], sleep=sleep) as models:
            events = await asyncio.wait_for(events_of(models, signal=controller.signal), 10)

    assert closing_error(events).reason == "aborted"
    assert len(server.requests) == 1


# -- the connection ----------------------------------------------------------------------------


async def reset_at_once(connection: Connection) -> None:
    connection.reset()


async def reset_after_text(connection: Connection) -> None:
    await connection.head(content_type="text/event-stream", transfer_encoding="chunked")
    await connection.body(event({"content": "Par"}))
    connection.reset()


async def test_a_connection_that_breaks_before_the_answer_is_tried_again() -> None:
    async with serving(reset_at_once, text_reply("x")) as server, models_for(server) as models:
        events = await events_of(models)

    assert isinstance(events[0], Retry)
    assert "connection" in events[0].error


async def test_a_connection_that_breaks_after_text_is_an_error_with_the_text() -> None:
    async with (
        serving(reset_after_text, text_reply("x")) as server,
        models_for(server) as models,
    ):
        events = await events_of(models)

    closing = closing_error(events)
    assert (closing.kind, closing.retryable) == ("connection", True)
    assert closing.error.text == "Par"
    assert len(server.requests) == 1, "nothing is asked twice once text was handed on"


async def test_case_012_a_body_that_just_ends_after_text_is_not_tried_again() -> None:
    async with (
        serving(stream(event({"content": "Par"}))) as server,
        models_for(server) as models,
    ):
        closing = closing_error(await events_of(models))

    assert (closing.kind, closing.error.text) == ("incomplete_stream", "Par")


async def test_case_013_an_error_event_before_any_text_is_tried_again_unseen() -> None:
    busy = b'data: {"error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'
    async with (
        serving(stream(event({"role": "assistant"}), busy), text_reply("x")) as server,
        models_for(server) as models,
    ):
        events = await events_of(models)

    assert [event.type for event in events].count("start") == 1
    assert isinstance(events[0], Retry)


async def test_case_013_an_error_event_after_text_is_not() -> None:
    busy = b'data: {"error":{"type":"overloaded_error","message":"Overloaded"}}\n\n'
    async with (
        serving(stream(event({"content": "Par"}), busy)) as server,
        models_for(server) as models,
    ):
        closing = closing_error(await events_of(models))

    assert (closing.kind, closing.error.text) == ("overloaded", "Par")
    assert len(server.requests) == 1


async def test_garbage_ends_in_an_error() -> None:
    async with (
        serving(stream(b"data: {not json\n\n"), answer(200, b"\x00\xff\x00")) as server,
        models_for(server) as models,
    ):
        first, second = await ask(models, max_retries=0), await ask(models, max_retries=0)

    assert (first.stop_reason, second.stop_reason) == ("error", "error")


async def never(connection: Connection) -> None:
    await connection.closed_by_client()


async def stall(connection: Connection) -> None:
    await connection.head(content_type="text/event-stream", transfer_encoding="chunked")
    await connection.body(event({"content": "Par"}))
    await connection.closed_by_client()


@pytest.mark.parametrize("step", [never, stall], ids=["slow headers", "stall"])
async def test_silence_ends_after_the_time_allowed(step: Step) -> None:
    async with serving(step) as server, models_for(server) as models:
        message = await ask(models, timeout_ms=50, max_retries=0)

    assert message.stop_reason == "error"
    assert "Timeout" in (message.error_message or "")


async def test_a_host_that_is_not_there_says_so() -> None:
    provider = Provider.openai_compatible("acme", base_url="http://127.0.0.1:9/v1")
    async with Models([provider]) as models:
        message = await ask(models, max_retries=0)

    assert re.search("connection failed", message.error_message or "")


# -- abort -------------------------------------------------------------------------------------


@pytest.mark.parametrize("after", ["sent", "text"])
async def test_an_abort_closes_the_connection_at_once(after: str) -> None:
    arrived, closed = asyncio.Event(), asyncio.Event()

    async def step(connection: Connection) -> None:
        if after == "text":
            await connection.head(content_type="text/event-stream", transfer_encoding="chunked")
            await connection.body(event({"content": "Par"}))
        arrived.set()
        await connection.closed_by_client()
        closed.set()

    controller = AbortController()
    async with serving(step) as server, models_for(server) as models:
        asking = asyncio.create_task(ask(models, signal=controller.signal))
        await arrived.wait()
        await asyncio.sleep(0.02)  # let the text reach the reader
        controller.abort()
        message = await asyncio.wait_for(asking, 5)
        await asyncio.wait_for(closed.wait(), 5)

    assert message.stop_reason == "aborted"
    assert message.text == ("Par" if after == "text" else "")


async def test_an_abort_before_the_request_sends_nothing() -> None:
    controller = AbortController()
    controller.abort()
    async with serving() as server, models_for(server) as models:
        message = await ask(models, signal=controller.signal)

    assert (message.stop_reason, server.connections) == ("aborted", 0)


async def test_leaving_a_stream_early_closes_the_connection() -> None:
    closed = asyncio.Event()

    async def step(connection: Connection) -> None:
        await connection.head(content_type="text/event-stream", transfer_encoding="chunked")
        await connection.body(event({"content": "a"}))
        await connection.closed_by_client()
        closed.set()

    async with serving(step) as server, models_for(server) as models:
        async with models.stream("acme/large", CONTEXT) as reply:
            async for one in reply:
                if isinstance(one, TextDelta):
                    break
        await asyncio.wait_for(closed.wait(), 5)


async def test_an_outer_cancellation_is_passed_on_and_closes_the_connection() -> None:
    closed = asyncio.Event()

    async def step(connection: Connection) -> None:
        await connection.closed_by_client()
        closed.set()

    async with serving(step) as server, models_for(server) as models:
        asking = asyncio.create_task(ask(models))
        while not server.requests:
            await asyncio.sleep(0.001)
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        await asyncio.wait_for(closed.wait(), 5)


# -- event loops -------------------------------------------------------------------------------

TWO_LOOPS = """
import asyncio, gc, logging, sys, threading
# A busy machine makes single steps slow, which asyncio's debug mode tells; that is no noise of ours.
logging.getLogger("asyncio").addFilter(lambda record: " took " not in record.getMessage())
sys.path.insert(0, {tests!r})
from tests_of_models.fault_server import serving, text_reply
from loopwright.messages import UserMessage
from loopwright.models import Context, Models, Provider

ready, finished, address = threading.Event(), threading.Event(), []

async def serve():
    async with serving(*[text_reply("x")] * 4) as server:
        address.append(server.base_url)
        ready.set()
        await asyncio.to_thread(finished.wait)

server = threading.Thread(target=lambda: asyncio.run(serve()))
server.start()
ready.wait()
models = Models([Provider.openai_compatible("acme", base_url=address[0], api_key="k")])

async def turn():
    message = await models.complete("acme/m", Context("", [UserMessage("Hi")]))
    assert message.text == "x", message.error_message

for _ in range(2):
    asyncio.run(turn())
    gc.collect()
threads = [threading.Thread(target=lambda: asyncio.run(turn())) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
asyncio.run(models.aclose())
asyncio.run(models.aclose())
finished.set()
server.join()
del models
gc.collect()
"""


def test_case_046_one_models_serves_loops_in_a_row_and_threads_at_once_without_noise(
    tmp_path: Any,
) -> None:
    """In a process of its own, with every warning an error and asyncio's debug mode on."""
    package = tmp_path / "tests_of_models"
    package.mkdir()
    source = sys.modules[serving.__module__].__file__
    assert source is not None
    with open(source, encoding="utf-8") as file:
        (package / "fault_server.py").write_text(file.read(), "utf-8")

    finished = subprocess.run(
        [sys.executable, "-W", "error", "-X", "dev", "-c", TWO_LOOPS.format(tests=str(tmp_path))],
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert (finished.returncode, finished.stdout, finished.stderr) == (0, "", "")


async def test_case_046_closing_from_another_loop_is_possible_and_idempotent() -> None:
    async with serving(text_reply("x"), text_reply("y")) as server:
        models = models_for(server)
        assert (await ask(models)).text == "x"

        def close_elsewhere() -> None:
            asyncio.run(models.aclose())
            asyncio.run(models.aclose())

        await asyncio.to_thread(close_elsewhere)
        after = await ask(models)
        await models.aclose()

    assert after.text == "y"
    gc.collect()


async def test_case_046_no_client_is_shared_between_loops() -> None:
    models = Models()
    clients = models._clients
    seen: list[Any] = []

    def elsewhere() -> None:
        async def look() -> None:
            seen.append(await clients.http())

        asyncio.run(look())

    here = await clients.http()
    thread = threading.Thread(target=elsewhere)
    await asyncio.to_thread(lambda: (thread.start(), thread.join()))

    assert seen[0] is not here
    assert seen[0].is_closed, "the other loop has ended"
    assert not here.is_closed
    await models.aclose()
    assert here.is_closed


# -- requests grow at the end ------------------------------------------------------------------


async def test_a_tool_call_and_its_result_travel() -> None:
    tool = ToolSpec("add", "Adds.", {"type": "object", "properties": {}})
    fragment = {
        "tool_calls": [{"index": 0, "id": "c1", "function": {"name": "add", "arguments": "{}"}}]
    }
    make: Callable[..., Step] = stream
    async with (
        serving(make(event(fragment), event({}, "tool_calls"), USAGE, DONE)) as server,
        models_for(server) as models,
    ):
        context = Context("", [UserMessage("Add", 1)], [tool])
        message = await models.complete("acme/large", context, tool_choice="required")

    assert [call.name for call in message.tool_calls] == ["add"]
    assert server.requests[0].json["tool_choice"] == "required"
    assert server.requests[0].json["tools"][0]["function"]["name"] == "add"
