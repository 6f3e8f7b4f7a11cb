"""Bedrock Converse against a real HTTP server that plays the vendor, faults included."""

from __future__ import annotations

import asyncio
import logging
import re
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest

from loopwright.errors import ConfigurationError
from loopwright.messages import AssistantMessage, TextContent, ThinkingContent, UserMessage
from loopwright.models import Context, Model, Models, Provider, ToolSpec
from loopwright.models.clients import Clients
from loopwright.models.handoff import sendable
from loopwright.models.offline import VARIABLE
from loopwright.models.provider import Endpoint
from loopwright.models.wires import WireCall
from loopwright.models.wires.bedrock_converse import wire
from loopwright.models.wires.bedrock_converse_aws import (
    Credentials,
    region_of_address,
    region_of_arn,
)
from loopwright.signals import AbortController
from loopwright.stream import AssistantMessageEvent, Error, Retry, Start, TextDelta

from ..fault_server import Connection, FaultServer, Request, Step, answer, serving, stream
from .bedrock_frames import START, call, delta, exception, said, stopped

API = "bedrock-converse"
CONTEXT = Context("You are a test.", [UserMessage("Hi", 1)])
ACCESS_KEY, SECRET, TOKEN = (
    "AKIDEXAMPLE0123",
    "secret/0123456789+abcdef",
    "session-token-0123456789",
)
BEARER = "bedrock-api-key-0123456789"
OK = stream(*said("Hello"))


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """An AWS account of the test's own, and no other."""
    for name in ("AWS_PROFILE", "AWS_BEARER_TOKEN_BEDROCK", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)
    monkeypatch.setenv("AWS_REGION", "eu-west-3")
    return monkeypatch


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
    base_url = server.base_url.removesuffix("/v1")
    row = {"any_model": True, "needs_key": False, "env": ("AWS_BEARER_TOKEN_BEDROCK",), **row}
    provider = Provider(id="acme", api=API, base_url=base_url, **row)
    return Models([provider], sleep=clock.sleep, clock=clock.time, random=lambda: 0.0)


async def ask(
    models: Models, context: Context = CONTEXT, name: str = "acme/large", **options: Any
) -> AssistantMessage:
    return await models.complete(name, context, **options)


async def events_of(models: Models, **options: Any) -> list[AssistantMessageEvent]:
    return [event async for event in models.stream("acme/large", CONTEXT, **options)]


def closing_error(events: list[AssistantMessageEvent]) -> Error:
    closing = events[-1]
    assert isinstance(closing, Error)
    return closing


# -- a good day --------------------------------------------------------------------------------


async def test_a_reply_arrives_and_says_where_it_came_from() -> None:
    async with serving(OK) as server, models_for(server) as models:
        message = await ask(models, max_tokens=9)

    assert (message.text, message.stop_reason) == ("Hello", "stop")
    assert (message.api, message.provider, message.model) == (API, "acme", "large")
    assert (message.usage.input, message.usage.output) == (10, 5)
    (request,) = server.requests
    assert request.path == "/model/large/converse-stream"
    assert request.headers["content-type"] == "application/json"
    assert request.json["messages"][0]["content"] == [{"text": "Hi"}]
    assert request.json["inferenceConfig"] == {"maxTokens": 9}


async def test_one_connection_serves_many_requests() -> None:
    async with serving(OK, OK, OK) as server, models_for(server) as models:
        for _ in range(3):
            assert (await ask(models)).text == "Hello"

    assert server.connections == 1


async def test_a_tool_call_travels() -> None:
    pieces = [START, *call(0, "t", "add", '{"a":1}'), *stopped("tool_use")]
    tool = ToolSpec("add", "Adds.", {"type": "object", "properties": {}})
    async with serving(stream(*pieces)) as server, models_for(server) as models:
        message = await ask(models, Context("", [UserMessage("Add", 1)], [tool]))

    assert message.tool_calls[0].arguments == {"a": 1}
    assert server.requests[0].json["toolConfig"]["tools"][0]["toolSpec"]["name"] == "add"


async def test_an_option_nobody_knows_is_named() -> None:
    async with serving() as server, models_for(server) as models:
        message = await ask(models, flavour="sweet")

    assert "'flavour'" in (message.error_message or "")
    assert server.requests == []


async def test_bytes_one_by_one_make_no_difference() -> None:
    whole = b"".join(said("Hel", "lo"))
    async with (
        serving(stream(*(b"%c" % byte for byte in whole))) as server,
        models_for(server) as models,
    ):
        assert (await ask(models)).text == "Hello"


# -- signatures --------------------------------------------------------------------------------


def check_signature(
    server: FaultServer, request: Request, region: str, credentials: Credentials
) -> None:
    """Sign what arrived once more, as the vendor does to compare."""
    told = request.headers["authorization"]
    covered = re.search("SignedHeaders=([^,]+)", told)
    assert covered is not None
    names = covered[1].split(";")
    assert {"host", "x-amz-date", "content-type"} <= set(names)
    headers = {name: request.headers[name] for name in names}
    url = f"http://{urlsplit(server.base_url).netloc}{request.path}"
    again = AWSRequest("POST", url, headers, request.body)
    signer = SigV4Auth(credentials, "bedrock", region)
    again.context["timestamp"] = request.headers["x-amz-date"]
    signature = signer.signature(
        signer.string_to_sign(again, signer.canonical_request(again)), again
    )
    assert told.endswith(f"Signature={signature}")
    assert f"Credential={credentials.access_key}/" in told
    assert f"/{region}/bedrock/aws4_request" in told


@pytest.mark.parametrize(
    "name",
    ["us.anthropic.claude-sonnet-4-5-20250929-v1:0",
     "arn:aws:bedrock:eu-west-3:123456789012:inference-profile/eu.anthropic.claude-x"],
)  # fmt: skip
async def test_requests_are_signed_with_what_the_environment_holds(name: str) -> None:
    async with serving(OK) as server, models_for(server) as models:
        await ask(models, name=f"acme/{name}", headers={"X-Mine": "a", "X-Amzn-Bedrock-Trace": "b"})

    (request,) = server.requests
    assert re.fullmatch(r"/model/[\w.%-]+/converse-stream", request.path)
    assert (request.headers["x-amz-security-token"], request.headers["x-mine"]) == (TOKEN, "a")
    assert "x-mine" not in request.headers["authorization"]
    check_signature(server, request, "eu-west-3", Credentials(ACCESS_KEY, SECRET, TOKEN))


async def test_a_profile_holds_credentials_and_a_region(
    aws: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION"):
        aws.delenv(name)
    (tmp_path / "config").write_text("[profile work]\nregion = sa-east-1\n", "utf-8")
    (tmp_path / "credentials").write_text(
        "[work]\naws_access_key_id = AKIDWORK\naws_secret_access_key = other\n", "utf-8"
    )
    async with serving(OK, OK) as server, models_for(server) as models:
        await ask(models, aws_profile="work")
        await ask(models, env={"AWS_PROFILE": "work"})

    for request in server.requests:
        assert "x-amz-security-token" not in request.headers
        check_signature(server, request, "sa-east-1", Credentials("AKIDWORK", "other", None))


async def test_keys_given_with_the_request_come_first() -> None:
    env = {"AWS_ACCESS_KEY_ID": "AKIDMINE", "AWS_SECRET_ACCESS_KEY": "mine"}
    async with serving(OK) as server, models_for(server) as models:
        await ask(models, env=env, aws_region="us-west-2")

    check_signature(server, server.requests[0], "us-west-2", Credentials("AKIDMINE", "mine", None))


async def test_a_bearer_token_needs_no_credentials(aws: pytest.MonkeyPatch) -> None:
    aws.delenv("AWS_ACCESS_KEY_ID")
    aws.setenv("AWS_BEARER_TOKEN_BEDROCK", BEARER)
    async with serving(OK, OK) as server, models_for(server) as models:
        await ask(models)
        await ask(models, api_key="another-token")

    tokens = [request.headers["authorization"] for request in server.requests]
    assert tokens == [f"Bearer {BEARER}", "Bearer another-token"]
    assert "x-amz-date" not in server.requests[0].headers


async def test_a_bearer_token_goes_over_no_open_line(aws: pytest.MonkeyPatch) -> None:
    aws.delenv(VARIABLE, raising=False)  # it is refused before anything is sent
    model = Model("acme", "large", API)
    clients = Clients()
    request = WireCall(
        model=model,
        context=CONTEXT,
        messages=sendable(CONTEXT.messages, model),
        options={},
        flags={},
        endpoint=Endpoint("http://bedrock.example", BEARER),
        clients=clients,
    )

    with pytest.raises(ConfigurationError, match="without encryption") as caught:
        await wire.send(request, b"{}")

    assert BEARER not in str(caught.value)
    await clients.aclose()


async def test_a_header_of_the_callers_own_replaces_the_signature() -> None:
    async with serving(OK) as server, models_for(server) as models:
        await ask(models, headers={"authorization": "Custom x"})

    assert server.requests[0].headers["authorization"] == "Custom x"


async def test_neither_signature_nor_token_follow_a_redirect() -> None:
    async with serving(OK) as elsewhere, serving() as server, models_for(server) as models:
        server.script.append(answer(307, b"", location=elsewhere.base_url))

        message = await ask(models, max_retries=0)

    assert message.stop_reason == "error"
    assert elsewhere.requests == []


async def test_without_credentials_the_error_says_what_to_set(aws: pytest.MonkeyPatch) -> None:
    aws.delenv("AWS_ACCESS_KEY_ID")
    async with serving() as server, models_for(server) as models:
        missing = await ask(models)
        unknown = await ask(models, aws_profile="nobody")

    assert "no AWS credentials were found" in (missing.error_message or "")
    assert "AWS_BEARER_TOKEN_BEDROCK" in (missing.error_message or "")
    assert "nobody" in (unknown.error_message or "")


async def test_credentials_that_appear_later_are_found(aws: pytest.MonkeyPatch) -> None:
    aws.delenv("AWS_ACCESS_KEY_ID")
    async with serving(OK) as server, models_for(server) as models:
        assert (await ask(models)).stop_reason == "error"
        aws.setenv("AWS_ACCESS_KEY_ID", ACCESS_KEY)

        assert (await ask(models)).text == "Hello"


# -- regions -----------------------------------------------------------------------------------


async def test_without_a_region_the_error_says_what_to_set(aws: pytest.MonkeyPatch) -> None:
    aws.delenv("AWS_REGION")
    async with serving() as server, models_for(server) as models:
        missing = await ask(models)
        odd = await ask(models, aws_region="evil.example/")

    assert "AWS_REGION" in (missing.error_message or "")
    assert "no AWS region" in (odd.error_message or "")


async def test_the_region_is_filled_into_the_address() -> None:
    async with serving(OK) as server, models_for(server) as models:
        base_url = server.base_url.removesuffix("/v1") + "/{region}"
        await ask(models, base_url=base_url, aws_region="us-gov-east-1")

    assert server.requests[0].path == "/us-gov-east-1/model/large/converse-stream"


async def test_where_the_row_names_no_address_tests_still_reach_nobody() -> None:
    async with Models([Provider(id="acme", api=API, any_model=True, needs_key=False)]) as models:
        message = await ask(models)

    assert "forbidden here" in (message.error_message or "")


def test_regions_stand_in_addresses_and_arns() -> None:
    assert region_of_address("https://bedrock-runtime.us-east-1.amazonaws.com") == "us-east-1"
    assert region_of_address("https://bedrock-runtime-fips.us-gov-west-1.amazonaws.com/") == (
        "us-gov-west-1"
    )
    assert region_of_address("https://bedrock-runtime.{region}.amazonaws.com") is None
    assert region_of_address("http://127.0.0.1:80") is None
    assert region_of_arn("arn:aws-cn:bedrock:cn-north-1:1:inference-profile/x") == "cn-north-1"
    assert region_of_arn("arn:aws:bedrock:us-east-2::foundation-model/x") == "us-east-2"
    assert region_of_arn("us.anthropic.claude-sonnet-4-5") is None


# -- statuses ----------------------------------------------------------------------------------


def fault(status: int, name: str, message: str = "Sorry", **headers: str) -> Step:
    return answer(
        status,
        {"message": message},
        x_amzn_errortype=f"{name}:http://internal.amazon.com/coral/com.amazon.bedrock/",
        x_amzn_requestid="req-1",
        **headers,
    )


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (fault(403, "AccessDeniedException", f"{ACCESS_KEY} may not"), "auth"),
        (fault(403, "UnrecognizedClientException", "The security token is invalid"), "auth"),
        (fault(403, "InvalidSignatureException",
               f"The canonical string should have been 'x-amz-security-token:{TOKEN} {SECRET}'"),
         "auth"),
        (answer(403, {"Message": "User is not authorized"}), "auth"),
        (fault(404, "ResourceNotFoundException"), "invalid_request"),
        (fault(400, "ValidationException", "Malformed input"), "invalid_request"),
        (fault(400, "ValidationException", "Input is too long for requested model."), "overflow"),
        (answer(404, b"<html><title>No such page</title></html>"), "invalid_request"),
    ],
)  # fmt: skip
async def test_a_hopeless_status_fails_at_once_and_shows_no_secret(
    step: Step, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    async with serving(step) as server, models_for(server) as models:
        events = await events_of(models)

    (closing,) = events
    assert isinstance(closing, Error)
    assert (closing.kind, closing.retryable) == (kind, False)
    assert "HTTP 40" in (closing.error.error_message or "")
    shown = repr(events) + caplog.text + repr(models.get_provider("acme"))
    for secret in (SECRET, TOKEN, server.requests[0].headers["authorization"][-64:]):
        assert secret not in shown


async def test_a_bearer_token_is_shown_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    step = fault(403, "AccessDeniedException", f"{BEARER} may not")
    async with serving(step) as server, models_for(server, api_key=BEARER) as models:
        events = await events_of(models)

    assert server.requests[0].headers["authorization"] == f"Bearer {BEARER}"
    assert BEARER not in repr(events) + caplog.text + repr(models.get_provider("acme"))


def test_credentials_show_nothing_of_themselves() -> None:
    assert repr(Credentials("a", "b", "c")) == "Credentials(...)"


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (fault(429, "ThrottlingException", "Too many tokens, please wait before trying again."),
         "rate_limit"),
        (fault(429, "ModelNotReadyException"), "overloaded"),
        (fault(408, "ModelTimeoutException"), "overloaded"),
        (fault(500, "InternalServerException"), "overloaded"),
        (fault(503, "ServiceUnavailableException", "Too many connections"), "overloaded"),
    ],
)  # fmt: skip
async def test_a_passing_status_is_tried_again_by_one_layer_only(step: Step, kind: str) -> None:
    clock = Clock()
    async with serving(step, OK, step) as server, models_for(server, clock) as models:
        events = await events_of(models)
        closing = closing_error(await events_of(models, max_retries=0))

    assert [type(event) for event in events[:2]] == [Retry, Start]
    assert (clock.slept, len(server.requests)) == ([0.5], 3)
    assert closing.kind == kind


async def test_case_043_the_delay_the_server_asks_for_is_kept() -> None:
    clock = Clock()
    busy = fault(429, "ThrottlingException", retry_after="3")
    async with serving(busy, OK) as server, models_for(server, clock) as models:
        await events_of(models)

    assert clock.slept == [3.0]


# -- the connection ----------------------------------------------------------------------------


async def reset_at_once(connection: Connection) -> None:
    connection.reset()


async def reset_after_text(connection: Connection) -> None:
    await connection.head(transfer_encoding="chunked")
    await connection.body(START, delta(0, text="Par"))
    connection.reset()


async def test_a_connection_that_breaks_before_the_answer_is_tried_again() -> None:
    async with serving(reset_at_once, OK) as server, models_for(server) as models:
        events = await events_of(models)

    assert isinstance(events[0], Retry)
    assert "connection" in events[0].error


async def test_a_connection_that_breaks_after_text_is_an_error_with_the_text() -> None:
    async with serving(reset_after_text, OK) as server, models_for(server) as models:
        closing = closing_error(await events_of(models))

    assert (closing.kind, closing.error.text) == ("connection", "Par")
    assert len(server.requests) == 1, "nothing is asked twice once text was handed on"


async def test_case_012_a_body_that_just_ends_after_text_is_not_tried_again() -> None:
    step = stream(START, delta(0, text="Par"))
    async with serving(step) as server, models_for(server) as models:
        closing = closing_error(await events_of(models))

    assert (closing.kind, closing.error.text) == ("incomplete_stream", "Par")


async def test_case_013_an_exception_before_any_text_is_tried_again_unseen() -> None:
    busy = stream(START, exception("throttlingException", "Too many tokens"))
    async with serving(busy, OK) as server, models_for(server) as models:
        events = await events_of(models)

    assert isinstance(events[0], Retry)
    assert [event.type for event in events].count("start") == 1


async def test_case_013_an_exception_after_text_is_not() -> None:
    busy = stream(START, delta(0, text="Par"), exception("internalServerException", "Oops"))
    async with serving(busy) as server, models_for(server) as models:
        closing = closing_error(await events_of(models))

    assert (closing.kind, closing.error.text) == ("overloaded", "Par")
    assert len(server.requests) == 1


async def never(connection: Connection) -> None:
    await connection.closed_by_client()


async def stall(connection: Connection) -> None:
    await connection.head(transfer_encoding="chunked")
    await connection.body(START, delta(0, text="Par"))
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


# -- refused signatures of thinking ------------------------------------------------------------

REFUSED = fault(
    400,
    "ValidationException",
    "The model returned the following errors: messages.1.content.0: Invalid `signature` in "
    "`thinking` block",
)


def thoughtful() -> list[Any]:
    thought = [ThinkingContent("hm", "S"), TextContent("x")]
    return [
        UserMessage("Hi", 1),
        AssistantMessage(thought, API, "acme", "large", timestamp=1),
        UserMessage("Go on", 1),
    ]


async def test_case_017_a_refused_signature_is_reported_and_asked_once_more_without_thinking() -> (
    None
):
    clock = Clock()
    async with serving(REFUSED, OK) as server, models_for(server, clock) as models:
        answering = models.stream("acme/large", Context("", thoughtful()))
        events = [event async for event in answering]

    assert isinstance(events[0], Retry)
    assert "signature" in events[0].error
    assert clock.slept == [0.0]
    replies = [request.json["messages"][1]["content"] for request in server.requests]
    assert [[*block] for block in replies[0]] == [["reasoningContent"], ["text"]]
    assert replies[1] == [{"text": "x"}]


async def test_case_017_a_second_refusal_ends_it() -> None:
    async with serving(REFUSED, REFUSED, OK) as server, models_for(server) as models:
        message = await ask(models, Context("", thoughtful()))

    assert message.stop_reason == "error"
    assert len(server.requests) == 2


# -- imports -----------------------------------------------------------------------------------


def test_neither_the_wire_nor_the_package_imports_botocore() -> None:
    code = (
        "import sys, loopwright, loopwright.models.wires.bedrock_converse;"
        "print([m for m in ('botocore', 'httpx2', 'anthropic') if m in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


async def test_without_botocore_the_error_names_the_extra(aws: pytest.MonkeyPatch) -> None:
    aws.setitem(sys.modules, "botocore", None)
    aws.setitem(sys.modules, "botocore.session", None)
    async with serving(OK) as server, models_for(server) as models:
        signed = await ask(models)
        borne = await ask(models, api_key=BEARER)

    assert "loopwright[bedrock]" in (signed.error_message or "")
    assert borne.text == "Hello", "a bearer token needs no signature"
