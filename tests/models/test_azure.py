"""Where an Azure resource is, and how its tokens are kept."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from dataclasses import dataclass, field

import pytest

from loopwright.errors import ConfigurationError, MissingExtra
from loopwright.models.azure import azure_base_url, azure_provider, entra_tokens


@pytest.fixture(autouse=True)
def nothing_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "AZURE_OPENAI_BASE_URL", "AZURE_OPENAI_ENDPOINT", "AZURE_OPENAI_RESOURCE_NAME",
        "AZURE_RESOURCE_NAME", "AZURE_OPENAI_DEPLOYMENT_NAME_MAP",
    ):  # fmt: skip
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("mine", "https://mine.openai.azure.com/openai/v1"),
        ("https://mine.openai.azure.com", "https://mine.openai.azure.com/openai/v1"),
        ("https://mine.openai.azure.com/openai/", "https://mine.openai.azure.com/openai/v1"),
        ("https://mine.openai.azure.com/openai/v1", "https://mine.openai.azure.com/openai/v1"),
        (
            "https://mine.cognitiveservices.azure.com/",
            "https://mine.cognitiveservices.azure.com/openai/v1",
        ),
        ("https://gateway.example.org/azure", "https://gateway.example.org/azure"),
    ],
)
def test_an_endpoint_in_each_form(given: str, expected: str) -> None:
    assert azure_base_url(given) == expected


def test_the_older_api_has_another_path() -> None:
    assert azure_base_url("mine", versioned=True) == "https://mine.openai.azure.com/openai"


def test_the_environment_says_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AZURE_OPENAI_RESOURCE_NAME", "theirs")
    monkeypatch.setenv("AZURE_OPENAI_DEPLOYMENT_NAME_MAP", "gpt-5.2=big, gpt-5-nano = small,x")

    provider = azure_provider()

    assert provider.base_url == "https://theirs.openai.azure.com/openai/v1"
    assert provider.flags["deployments"] == {"gpt-5.2": "big", "gpt-5-nano": "small"}
    assert provider.env == ("AZURE_OPENAI_API_KEY", "AZURE_API_KEY")
    assert provider.dialect("openai-chat").flags["key_header"] == "api-key"


def test_no_endpoint_is_said_at_once() -> None:
    with pytest.raises(ConfigurationError, match="no endpoint") as caught:
        azure_base_url()

    assert "AZURE_OPENAI_ENDPOINT" in (caught.value.hint or "")


@dataclass
class Token:
    token: str
    expires_on: float


@dataclass
class Credential:
    """Gives a new token each time, after a moment."""

    lives_seconds: float
    scopes: list[str] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)

    def get_token(self, scope: str) -> Token:
        self.gate.wait(5)
        self.scopes.append(scope)
        return Token(f"token {len(self.scopes)}", time.time() + self.lives_seconds)


async def test_a_token_is_fetched_once_for_all_who_ask_at_once() -> None:
    credential = Credential(3600)
    source = entra_tokens(credential)

    asking = [asyncio.ensure_future(source()) for _ in range(4)]
    await asyncio.sleep(0)
    credential.gate.set()

    assert await asyncio.gather(*asking) == ["token 1"] * 4
    assert credential.scopes == ["https://cognitiveservices.azure.com/.default"]


async def test_a_token_about_to_end_is_renewed() -> None:
    credential = Credential(60)
    credential.gate.set()
    source = entra_tokens(credential)

    assert [await source(), await source()] == ["token 1", "token 2"]


async def test_without_the_library_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "azure.identity", None)

    with pytest.raises(MissingExtra) as caught:
        await entra_tokens()()

    assert "loopwright[azure]" in (caught.value.hint or "")
