"""What of a request becomes part of a URL."""

from __future__ import annotations

import string
from typing import Any
from urllib.parse import urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopwright.errors import ConfigurationError
from loopwright.messages import UserMessage
from loopwright.models import Context, Model, Models, Provider
from loopwright.models.azure import azure_base_url
from loopwright.models.google_vertex import vertex_base_url
from loopwright.models.url_parts import path_part

from .fault_server import answer, serving

HOSTILE = [
    "claude/../../../../v1/projects/OTHER/secrets/x:access?alt=json#",
    "claude/..",
    "..",
    "a/./b",
    "a//b",
    "/a",
    "a/",
    " ",
    "a?alt=json",
    "a#b",
    "a%2f..%2fb",
    "a\\..\\b",
    "a\r\nHost: b",
    "a\x00",
    "a\u2028b",
]
REAL = [
    "claude-sonnet-4-6@20250929",
    "anthropic.claude-sonnet-4-20250514-v1:0",
    "accounts/fireworks/models/deepseek-v3p1",
    "arn:aws:bedrock:us-east-1:123456789012:inference-profile/us.amazon.nova-lite-v1:0",
    "ft:gpt-4.1:acme::abc123",
]
DIALECTS: list[tuple[str, dict[str, Any]]] = [
    ("google-gemini", {}),
    ("anthropic-messages", {"dialect": "vertex"}),
    ("bedrock-converse", {"auth": "bearer"}),
    ("openai-chat", {"path": "/deployments/{model}/chat/completions"}),
]


@pytest.mark.parametrize("model_id", HOSTILE)
@pytest.mark.parametrize(("api", "flags"), DIALECTS)
async def test_case_163_a_model_id_that_leaves_its_place_in_the_url_is_refused_before_anything_is_sent(
    api: str, flags: dict[str, Any], model_id: str
) -> None:
    async with serving(answer(500, {})) as server:
        provider = Provider(
            id="acme", api=api, base_url=f"{server.base_url}/v1/p", api_key="k" * 20, flags=flags
        )
        async with Models([provider]) as models:
            options = {"aws_region": "us-east-1"} if api == "bedrock-converse" else {}
            asked = Context("", [UserMessage("Hi")], [])
            stream = models.stream(Model("acme", model_id, api), asked, **options)
            reply = await stream.result()

    assert server.requests == []
    assert "cannot be part of a URL" in (reply.error_message or "")


@pytest.mark.parametrize("model_id", REAL)
def test_case_163_ids_that_vendors_use_are_quoted_and_kept(model_id: str) -> None:
    assert "/" not in path_part(model_id, "model id")


@given(st.text(string.printable + "é\u2028\x00", max_size=12))
def test_case_163_no_text_leaves_the_part_of_the_path_it_is_put_into(text: str) -> None:
    try:
        part = path_part(text, "model id")
    except ConfigurationError:
        return

    url = urlsplit(f"https://host.dev/v1/{part}:call?alt=sse")
    assert (url.netloc, url.query, url.fragment) == ("host.dev", "alt=sse", "")
    assert url.path.count("/") == 2


@pytest.mark.parametrize("text", ["x/../y", "evil.dev/#", "a b", "p?x", "a@evil.dev", "..", "a..b"])
def test_case_163_projects_regions_and_resources_stay_in_their_place(text: str) -> None:
    with pytest.raises(ConfigurationError, match="cannot be part of a URL"):
        vertex_base_url(text, "global")
    with pytest.raises(ConfigurationError, match="cannot be part of a URL"):
        vertex_base_url("project", text)
    with pytest.raises(ConfigurationError, match="cannot be part of a URL"):
        azure_base_url(text)
