"""Where Vertex is, and how its tokens are had and kept."""

from __future__ import annotations

import asyncio
import base64
import json
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from loopwright.errors import ConfigurationError, MissingExtra
from loopwright.messages import UserMessage
from loopwright.models import Context, Models
from loopwright.models.google_vertex import google_tokens, vertex_base_url, vertex_provider

from .fault_server import answer, serving, stream


@pytest.fixture(autouse=True)
def nothing_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT", "GOOGLE_CLOUD_LOCATION", "GOOGLE_CLOUD_API_KEY",
        "GOOGLE_APPLICATION_CREDENTIALS",
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("location", "host"),
    [
        (None, "aiplatform.googleapis.com"),
        ("global", "aiplatform.googleapis.com"),
        ("us", "aiplatform.us.rep.googleapis.com"),
        ("europe-west4", "europe-west4-aiplatform.googleapis.com"),
    ],
)
def test_a_location_has_its_host(location: str | None, host: str) -> None:
    expected = f"https://{host}/v1/projects/p1/locations/{location or 'global'}/publishers/google"

    assert vertex_base_url("p1", location) == expected


def test_the_environment_says_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "theirs")
    monkeypatch.setenv("GOOGLE_CLOUD_LOCATION", "us-east5")
    monkeypatch.setenv("GOOGLE_CLOUD_API_KEY", "k")

    provider = vertex_provider()

    assert provider.base_url == vertex_base_url("theirs", "us-east5")
    assert provider.flags["auth"] == "google-adc"
    assert callable(provider.api_key)


def test_an_api_key_alone_is_express_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    given = vertex_provider("p1", api_key="my-own-key")
    monkeypatch.setenv("GOOGLE_CLOUD_API_KEY", "from-env")
    found = vertex_provider()

    for provider, key in ((given, "my-own-key"), (found, "from-env")):
        assert provider.base_url == "https://aiplatform.googleapis.com/v1/publishers/google"
        assert (provider.flags["auth"], provider.api_key) == ("x-goog-api-key", key)
        assert key not in repr(provider)


def test_no_project_is_said_at_once() -> None:
    with pytest.raises(ConfigurationError, match="project") as caught:
        vertex_provider()

    assert "GOOGLE_CLOUD_PROJECT" in (caught.value.hint or "")


class Credentials:
    """Those of google.auth, as far as we use them."""

    def __init__(self) -> None:
        self.token: str | None = None
        self.valid = False
        self.refreshed = 0
        self.running = threading.Lock()

    def refresh(self, request: Any) -> None:
        assert self.running.acquire(blocking=False), "two refreshes at once"
        self.refreshed += 1
        self.token, self.valid = f"token-{self.refreshed}", True
        self.running.release()


async def test_a_token_is_kept_while_it_is_valid_and_one_refresh_runs_at_a_time() -> None:
    pytest.importorskip("google.auth.transport.requests")
    credentials = Credentials()
    source = google_tokens(credentials)

    tokens = await asyncio.gather(*(source() for _ in range(5)))
    credentials.valid = False
    later = await source()

    assert (set(tokens), later, credentials.refreshed) == ({"token-1"}, "token-2", 2)


async def test_without_google_auth_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "google.auth", None)

    with pytest.raises(MissingExtra) as caught:
        await google_tokens()()

    assert "loopwright[google]" in (caught.value.hint or "")


async def test_missing_credentials_are_told_with_a_way_out(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pytest.importorskip("google.auth.transport.requests")
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "nowhere.json"))

    with pytest.raises(ConfigurationError) as caught:
        await google_tokens()()

    assert "gcloud auth" in (caught.value.hint or "")


def service_account(token_uri: str) -> dict[str, str]:
    rsa = pytest.importorskip("cryptography.hazmat.primitives.asymmetric.rsa")
    serialization = pytest.importorskip("cryptography.hazmat.primitives.serialization")
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return {
        "type": "service_account", "project_id": "p1", "private_key_id": "k1",
        "private_key": pem.decode(), "client_email": "a@p1.example", "token_uri": token_uri,
    }  # fmt: skip


async def test_application_default_credentials_open_a_request(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The real library signs, asks a token server and hands the token on; two requests, one token."""
    pytest.importorskip("google.auth.transport.requests")
    done = {"candidates": [{"content": {"parts": [{"text": "Hi"}]}, "finishReason": "STOP"}]}
    reply = stream(b"data: " + json.dumps(done).encode() + b"\r\n\r\n")
    token = {"access_token": "ya29.secret-token", "expires_in": 3600, "token_type": "Bearer"}
    async with serving(answer(200, token), reply, reply) as server:
        file = tmp_path / "adc.json"
        file.write_text(json.dumps(service_account(f"{server.base_url}/token")))
        monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
        base_url = f"{server.base_url}/projects/p1/locations/global/publishers/google"
        async with Models([vertex_provider("p1")]) as models:
            for _ in range(2):
                message = await models.complete(
                    "google-vertex/gemini-3.5-flash", Context("", [UserMessage("Hi", 1)]),
                    base_url=base_url,
                )  # fmt: skip
                assert (message.text, message.error_message) == ("Hi", None)

    asked, first, second = server.requests
    assertion = asked.body.decode().split("assertion=")[1].split("&")[0].split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(assertion + "=="))
    assert claims["scope"] == "https://www.googleapis.com/auth/cloud-platform"
    assert first.headers["authorization"] == "Bearer ya29.secret-token"
    assert second.headers["authorization"] == first.headers["authorization"]
    assert "x-goog-api-key" not in first.headers
    assert first.path.endswith("/publishers/google/models/gemini-3.5-flash"
                               ":streamGenerateContent?alt=sse")  # fmt: skip
