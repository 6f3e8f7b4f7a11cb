"""Bedrock Converse: the dialect of Amazon Bedrock, for the models of many makers.

This module sends; `bedrock_converse_encode` writes the body and `bedrock_converse_decode` reads the
answer. The vendor's own client blocks and builds an object for every event, so the request is ours:
signed by botocore (`bedrock_converse_aws`), or with a bearer token (the endpoint's key), and posted
with the shared HTTP client.

The base URL may hold `{region}`. The region comes from the option `aws_region`, the address, the
model's ARN, `AWS_REGION` or `AWS_DEFAULT_REGION`, the profile's configuration.

Further flags read here: `extra_headers`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import re
import time
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import quote, urlsplit

from ...errors import ConfigurationError, MissingExtra, ModelError
from ...stream import ReplyBuilder
from ..failures import failure_from_response
from ..offline import check_request_allowed
from ..url_parts import check_id
from . import Decoder, WireCall
from .anthropic_messages import SignatureRefused
from .bedrock_converse_aws import (
    AwsIdentity,
    Credentials,
    credentials_from,
    region_from,
    region_of_address,
    region_of_arn,
    signed_headers,
)
from .bedrock_converse_decode import ConverseDecoder
from .bedrock_converse_encode import encode, forget_thinking, model_name, sends_thinking
from .bedrock_converse_faults import named_body

if TYPE_CHECKING:
    import httpx2

__all__ = ["BedrockConverse", "BedrockResponse", "wire"]

BASE_URL = "https://bedrock-runtime.{region}.amazonaws.com"

_SIGNATURE_FAULT = re.compile(r"\bsignature\b|cannot be modified|redacted", re.I)


class BedrockConverse:
    """See `wires.Wire`."""

    api = "bedrock-converse"
    options = frozenset({
        "output_schema", "server_tools", "betas", "replay_thinking", "extra_body", "aws_region",
        "aws_profile",
    })  # fmt: skip

    def encode(self, call: WireCall) -> bytes:
        return encode(call)

    def decoder(self, builder: ReplyBuilder, flags: Mapping[str, Any]) -> Decoder:
        return ConverseDecoder(builder)

    async def send(self, call: WireCall, body: bytes) -> BedrockResponse:
        try:
            http = await call.clients.http()
        except MissingExtra as error:
            hint = "pip install 'loopwright[bedrock]'"
            raise MissingExtra(error.message, hint=hint) from error
        identity = await _identity(call)
        base_url, region = await _address(call, identity)
        # Where the row names no address, nobody has looked at ours yet.
        check_request_allowed(f"{call.model.provider}/{call.model.id}", base_url)
        name = quote(check_id(model_name(call), "model id"), safe="-._~")
        url = f"{base_url}/model/{name}/converse-stream"
        headers = {
            "Content-Type": "application/json",
            **cast("Mapping[str, str]", call.flags.get("extra_headers") or {}),
            **call.endpoint.headers,
        }
        secret, secrets = await _authorization(call, url, body, headers, region, identity)
        timeout_ms = call.options.get("timeout_ms")
        timing: dict[str, Any] = {} if timeout_ms is None else {"timeout": timeout_ms / 1000}
        request = http.build_request(
            "POST", url, content=body, headers={**headers, **secret}, **timing
        )
        # Another host must see neither the signature nor the session token.
        response = await http.send(request, stream=True, follow_redirects=False)
        if not 200 <= response.status_code < 300:
            raise await _failure(call, response, secrets)
        return BedrockResponse(response)


class BedrockResponse:
    """The head of an answer, and its body on the way. See `wires.Response`."""

    __slots__ = ("_response", "headers", "status")

    def __init__(self, response: httpx2.Response) -> None:
        self._response = response
        self.status: int = response.status_code
        self.headers: Mapping[str, str] = response.headers

    def chunks(self) -> AsyncIterator[bytes]:
        return self._response.aiter_raw()  # the client has unpacked it (bodies.py)

    async def aclose(self) -> None:
        await self._response.aclose()


# -- who asks, and where -----------------------------------------------------------------------


def _env(call: WireCall) -> Mapping[str, str]:
    return cast("Mapping[str, str]", call.options.get("env") or {})


async def _identity(call: WireCall) -> AwsIdentity:
    """The AWS identity of the call's profile, kept with the running loop's clients: its
    credentials are looked up once and renewed when they expire."""
    profile = call.options.get("aws_profile") or _env(call).get("AWS_PROFILE") or None

    def make(http: Any) -> AwsIdentity:
        return AwsIdentity(profile)

    return await call.clients.get(("aws", profile), make)


async def _address(call: WireCall, identity: AwsIdentity) -> tuple[str, str]:
    """The base URL with its region filled in, and the region to sign for."""
    template = (call.endpoint.base_url or BASE_URL).rstrip("/")
    region = call.options.get("aws_region") or region_of_address(template)
    region = region or region_of_arn(model_name(call)) or region_from(_env(call))
    region = region or await identity.region()
    if not region:
        raise ConfigurationError(
            "no AWS region is known for Amazon Bedrock",
            hint="set AWS_REGION, or pass aws_region='us-east-1' or a base_url with the region",
        )
    if not re.fullmatch(r"[a-z0-9-]{1,40}", region):
        raise ConfigurationError(f"{region!r} is no AWS region", hint="such as 'us-east-1'")
    if region.startswith("cn-") and template == BASE_URL:
        template += ".cn"
    return template.replace("{region}", region), region


# -- authorization -----------------------------------------------------------------------------


async def _authorization(
    call: WireCall,
    url: str,
    body: bytes,
    headers: Mapping[str, str],
    region: str,
    identity: AwsIdentity,
) -> tuple[dict[str, str], list[str]]:
    """The headers that say who asks, and what of them must not appear in any text."""
    if any(name.lower() == "authorization" for name in headers):
        return {}, []  # the caller knows better
    token = call.endpoint.api_key
    if token:
        address = urlsplit(url)
        if address.scheme != "https" and not _is_loopback(address.hostname or ""):
            raise ConfigurationError(
                f"a bearer token is not sent without encryption, to {address.hostname}",
                hint="use an https:// base_url",
            )
        return {"Authorization": f"Bearer {token}"}, [token]
    credentials: Credentials = credentials_from(_env(call)) or await identity.credentials()
    covered = {
        name: value
        for name, value in headers.items()
        if name.lower() == "content-type" or name.lower().startswith("x-amz-")
    }
    # In a thread, since the import of botocore takes a while; a signature takes a quarter of a
    # millisecond, the digest of a large body more.
    signed = await asyncio.to_thread(signed_headers, url, body, covered, region, credentials)
    return signed, [*credentials.secrets, signed["Authorization"].rpartition("=")[2]]


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


# -- answers that are no success ---------------------------------------------------------------


async def _failure(call: WireCall, response: httpx2.Response, secrets: list[str]) -> ModelError:
    """What the answer means. A refused signature is told with all that was signed, so secrets are
    cut out of the text here already."""
    try:
        text = (await response.aread()).decode("utf-8", "replace")
    finally:
        await response.aclose()
    for secret in secrets:
        text = text.replace(secret, "[key]")
    headers = {str(name).lower(): str(value) for name, value in response.headers.items()}
    failure = failure_from_response(
        response.status_code,
        headers,
        named_body(headers.get("x-amzn-errortype", ""), text),
        now=time.time(),
        provider=call.model.provider,
        model=call.model.id,
    )
    failure.request_id = headers.get("x-amzn-requestid") or failure.request_id
    said = str(failure)
    if response.status_code != 400 or not _SIGNATURE_FAULT.search(said):
        return failure
    if not re.search(r"thinking|reasoning", said, re.I) or not sends_thinking(call):
        return failure
    forget_thinking(call)
    return SignatureRefused(
        f"{said} (earlier thinking is left out from now on)",
        provider=call.model.provider,
        model=call.model.id,
        status=response.status_code,
        request_id=failure.request_id,
        retry_after_seconds=0.0,
        retryable=True,
    )


wire = BedrockConverse()
