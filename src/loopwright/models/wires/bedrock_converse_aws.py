"""Bedrock Converse: who asks, and in which region; signatures by botocore.

Credentials come from botocore's own chain (environment, profiles, SSO, web identity, containers,
instances), which may read files and ask other services; all of that is done in a thread, and
botocore is imported there when it is first needed. A bearer token needs neither.

What is computed here is secret. It is never logged: botocore would write the session token into its
debug log while signing, so its steps are called one by one.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import re
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from ...errors import ConfigurationError, MissingExtra, MissingKey

__all__ = [
    "AwsIdentity",
    "Credentials",
    "credentials_from",
    "region_from",
    "region_of_address",
    "region_of_arn",
    "signed_headers",
]

SERVICE = "bedrock"
"""The name that requests to bedrock-runtime are signed for."""


class Credentials(NamedTuple):
    """What botocore signs with. Shown as nothing, so that it gets into no text."""

    access_key: str
    secret_key: str
    token: str | None

    def __repr__(self) -> str:
        return "Credentials(...)"

    @property
    def secrets(self) -> list[str]:
        """What must not appear in any text."""
        return [value for value in self if value]


class AwsIdentity:
    """One profile's credentials and region, looked up when they are first wanted.

    botocore renews credentials that expire, so they are asked for anew each time.
    """

    def __init__(self, profile: str | None) -> None:
        self._profile = profile
        self._lock = threading.Lock()
        self._session: Any = None
        self._found: Any = None

    async def credentials(self) -> Credentials:
        """Raises `MissingKey` if there are none, `ConfigurationError` if they cannot be read,
        `MissingExtra` without botocore."""
        return await asyncio.to_thread(self._read_credentials)

    async def region(self) -> str | None:
        """The region that the profile names; None if it names none, or botocore is not there."""
        return await asyncio.to_thread(self._read_region)

    def _read_credentials(self) -> Credentials:
        with self._lock:
            exceptions = _import_botocore().exceptions
            try:
                if self._found is None:
                    self._found = self._open().get_credentials()
                frozen = None if self._found is None else self._found.get_frozen_credentials()
            except (exceptions.BotoCoreError, exceptions.ClientError) as error:
                raise ConfigurationError(
                    f"the AWS credentials cannot be read: {error}",
                    hint="`aws sts get-caller-identity` shows whether they work",
                ) from error
        if frozen is None or not frozen.access_key or not frozen.secret_key:
            raise MissingKey(
                "no AWS credentials were found",
                hint="set AWS_BEARER_TOKEN_BEDROCK, or AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE",
            )
        return Credentials(frozen.access_key, frozen.secret_key, frozen.token)

    def _read_region(self) -> str | None:
        with self._lock:
            try:
                exceptions = _import_botocore().exceptions
            except MissingExtra:
                return None
            try:
                region: Any = self._open().get_config_variable("region")
            except exceptions.BotoCoreError as error:
                raise ConfigurationError(
                    f"the AWS configuration cannot be read: {error}"
                ) from error
        return str(region) if region else None

    def _open(self) -> Any:
        if self._session is None:
            botocore = _import_botocore()
            self._session = botocore.session.Session(profile=self._profile)
        return self._session


def credentials_from(env: Mapping[str, str]) -> Credentials | None:
    """Keys given with the request itself; they come before the chain."""
    access_key, secret_key = env.get("AWS_ACCESS_KEY_ID"), env.get("AWS_SECRET_ACCESS_KEY")
    if not access_key or not secret_key:
        return None
    return Credentials(access_key, secret_key, env.get("AWS_SESSION_TOKEN") or None)


def region_from(env: Mapping[str, str]) -> str | None:
    """The region that environment variables name, those in *env* first."""
    for place in (env, os.environ):
        for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
            region = place.get(name, "").strip()
            if region:
                return region
    return None


_ARN = re.compile(r"arn:aws[a-z-]*:(?:bedrock|sagemaker):(?P<region>[a-z0-9-]+):")
_HOST = re.compile(r"bedrock-runtime(?:-fips)?\.(?P<region>[a-z]{2}(?:-[a-z]+)+-\d)\.")


def region_of_arn(model_name: str) -> str | None:
    """Where the thing lives that *model_name* names, if it is an ARN with a region."""
    found = _ARN.match(model_name)
    return found["region"] if found else None


def region_of_address(url: str) -> str | None:
    """The region in the name of one of AWS's own hosts."""
    found = _HOST.search(urlsplit(url).hostname or "")
    return found["region"] if found else None


def signed_headers(
    url: str, body: bytes, headers: Mapping[str, str], region: str, credentials: Credentials
) -> dict[str, str]:
    """The headers that sign a POST of *body* to *url* (Signature Version 4); *headers* are those
    the signature should cover. Raises `MissingExtra` without botocore."""
    botocore = _import_botocore()
    request: Any = botocore.awsrequest.AWSRequest("POST", url, dict(headers), body)
    signer: Any = botocore.auth.SigV4Auth(credentials, SERVICE, region)
    added = {"X-Amz-Date": datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")}
    request.context["timestamp"] = added["X-Amz-Date"]
    if credentials.token:
        added["X-Amz-Security-Token"] = credentials.token
    for name, value in added.items():
        request.headers[name] = value
    to_sign = signer.string_to_sign(request, signer.canonical_request(request))
    covered = signer.signed_headers(signer.headers_to_sign(request))
    added["Authorization"] = (
        f"AWS4-HMAC-SHA256 Credential={signer.scope(request)}, SignedHeaders={covered}, "
        f"Signature={signer.signature(to_sign, request)}"
    )
    return added


class _Botocore(NamedTuple):
    """The modules of botocore that are used here; it has no types of its own."""

    session: Any
    exceptions: Any
    auth: Any
    awsrequest: Any


def _import_botocore() -> _Botocore:
    try:
        return _Botocore(
            *[importlib.import_module(f"botocore.{name}") for name in _Botocore._fields]
        )
    except ImportError as error:
        raise MissingExtra(
            "the wire bedrock-converse signs its requests with botocore, which is not installed",
            hint="pip install 'loopwright[bedrock]', or set AWS_BEARER_TOKEN_BEDROCK",
        ) from error
