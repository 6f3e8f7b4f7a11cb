"""The table of vendors: every row can be asked, and says where, with which key and which quirks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from loopwright.errors import ConfigurationError, ModelNotFound
from loopwright.messages import AssistantMessage, UserMessage
from loopwright.models import Context, Model, Models, Provider, default_models
from loopwright.models.auth import key_status
from loopwright.models.vendors import FILE, VendorTable, vendor_table
from loopwright.models.wires import known_wires

from .fault_server import answer, serving, text_reply

TABLE = vendor_table()
CONTEXT = Context("", [UserMessage("Hi", 1)])
ROOT = Path(__file__).parents[2]


def vendors() -> list[str]:
    return TABLE.ids()


# -- the file ----------------------------------------------------------------------------------


def test_all_vendors_of_the_collected_facts_are_there_with_their_sources() -> None:
    facts_file = ROOT.parent / "shared" / "vendors" / "vendors.json"
    if not facts_file.exists():
        pytest.skip("the collected facts are not beside this tree")
    facts = json.loads(facts_file.read_text("utf-8"))["vendors"]

    assert vendors() == [vendor["id"] for vendor in facts]
    for vendor in facts:
        row = TABLE.row(vendor["id"])
        assert row is not None
        assert row.sources == vendor["sources"]
        assert {wire.api for wire in row.wires} == {wire["wire"] for wire in vendor["wires"]}


def test_the_file_is_what_its_generator_writes(tmp_path: Path) -> None:
    facts = ROOT.parent / "shared" / "vendors" / "vendors.json"
    generator = ROOT / "tools" / "gen_vendors.py"
    if not facts.exists() or not generator.exists():
        pytest.skip("the collected facts are not beside this tree")
    script = (
        f"import runpy, sys, pathlib; sys.argv = ['gen', {str(facts)!r}];"
        f"names = runpy.run_path({str(generator)!r});"
        f"names['main'].__globals__['TARGET'] = pathlib.Path({str(tmp_path / 'v.jsonl')!r});"
        "names['main']()"
    )

    subprocess.run([sys.executable, "-c", script], check=True)

    assert (tmp_path / "v.jsonl").read_bytes() == FILE.read_bytes()


@pytest.mark.parametrize("vendor", vendors())
def test_every_vendor_becomes_a_provider_whose_wires_exist(vendor: str) -> None:
    provider = TABLE.get(vendor)

    assert provider is not None
    assert provider.id == vendor
    assert set(provider.apis) <= set(known_wires())
    for api in provider.apis:
        flags = provider.dialect(api).flags
        assert "per-model" not in flags.values()
        assert "<client>" not in json.dumps(dict(flags))


@pytest.mark.parametrize("vendor", vendors())
def test_every_listed_model_has_a_wire_and_a_vendor(vendor: str) -> None:
    provider = TABLE.get(vendor)
    assert provider is not None

    for model in provider.known_models():
        assert model.provider == vendor
        assert model.api in provider.apis, model.id
        assert provider.get_model(model.id) == model


def test_one_vendor_is_read_without_the_others() -> None:
    table = VendorTable()

    provider = table.get("groq")

    assert provider is not None
    assert list(table._providers) == ["groq"]
    assert table.get("nobody") is None


def test_the_whole_table_is_built_in_ten_milliseconds() -> None:
    """CPU time, the best of some: another process may be using this core."""
    best = 1.0
    for _ in range(5):
        start = time.process_time()
        table = VendorTable()
        for vendor in table.ids():
            table.get(vendor)
        best = min(best, time.process_time() - start)

    assert best < 0.010


# -- names -------------------------------------------------------------------------------------


def test_a_listed_model_is_found_with_what_is_known_of_it() -> None:
    model = default_models().get_model("anthropic", "claude-sonnet-4-6")

    assert model is not None
    assert (model.api, model.context_window) == ("anthropic-messages", 1_000_000)
    assert model.cost is not None
    assert model.cost.input == 3.0
    assert "image" in model.input
    assert model.thinking_levels == {"low": "low", "medium": "medium", "high": "high", "max": "max"}


def test_a_slip_in_a_makers_model_is_answered_with_near_names() -> None:
    models = default_models()

    assert models.get_model("anthropic", "claude-sonet-4-6") is None
    with pytest.raises(ModelNotFound) as caught:
        models.resolve("anthropic/claude-sonet-4-6:high")

    assert "'anthropic/claude-sonnet-4-6'" in (caught.value.hint or "")
    assert "newer than our list" in (caught.value.hint or "")


def test_a_host_of_other_peoples_models_has_more_than_any_list() -> None:
    model, level = default_models().resolve_with_level("openrouter/somebody/new-model:high")

    assert (model.id, model.api, level) == ("somebody/new-model", "openai-chat", "high")
    assert model.context_window is None


@pytest.mark.parametrize(
    ("vendor", "id"),
    [("openai", "gpt-4o-2031-01-31"), ("openai", "ft:gpt-4o:acme::1"), ("xai", "grok-4.3-latest")],
)
def test_a_dated_or_tuned_model_is_what_it_comes_from(vendor: str, id: str) -> None:
    model = default_models().get_model(vendor, id)

    assert model is not None
    assert model.id == id
    assert model.context_window is not None


def test_a_models_id_alone_names_who_sells_it() -> None:
    with pytest.raises(ModelNotFound) as caught:
        default_models().resolve("claude-sonnet-4-6")

    assert "'anthropic/claude-sonnet-4-6'" in (caught.value.hint or "")


async def test_a_vendor_that_ended_is_refused_with_the_day() -> None:
    models = default_models()

    with pytest.raises(ModelNotFound, match="GitHub Models ended its service on 2026-07-30"):
        models.resolve("github-models/gpt-4o")
    message = await models.complete(Model("github-models", "gpt-4o", "openai-chat"), CONTEXT)

    assert message.stop_reason == "error"
    assert "2026-07-30" in (message.error_message or "")


# -- addresses and keys ------------------------------------------------------------------------


async def seen_by(
    vendor: str, model: str, env: dict[str, str], *, api: str | None = None, **options: Any
) -> tuple[str, dict[str, str], AssistantMessage]:
    """Path and headers of a request to *vendor*, whose host is played by a server of ours."""
    provider = TABLE.get(vendor)
    assert provider is not None
    async with serving(answer(400, {"error": {"message": "enough"}})) as server:
        models = Models([provider])
        chosen = models.get_model(vendor, model) or Model(vendor, model, provider.api)
        if api is not None:
            chosen = Model(vendor, model, api)
        host = server.base_url.removesuffix("/v1")
        message = await models.complete(
            chosen, CONTEXT, env=env, base_url=host, max_retries=0, **options
        )
        await models.aclose()
        assert server.requests, message.error_message
        return server.requests[0].path, server.requests[0].headers, message


@pytest.mark.parametrize("vendor", ["groq", "openrouter", "zai", "ollama", "mistral", "cohere"])
async def test_a_bearer_key_from_the_vendors_variable_is_sent(vendor: str) -> None:
    provider = TABLE.get(vendor)
    assert provider is not None

    _, headers, _ = await seen_by(vendor, "some-model", {provider.env[-1]: "secret-key-1"})

    assert headers["authorization"] == "Bearer secret-key-1"


async def test_a_gateways_token_has_a_header_of_its_own() -> None:
    for api in ("openai-chat", "openai-responses", "anthropic-messages"):
        _, headers, _ = await seen_by(
            "cloudflare-ai-gateway", "m", {"CLOUDFLARE_API_KEY": "secret-key-1"}, api=api
        )

        assert headers["cf-aig-authorization"] == "Bearer secret-key-1"
        assert "authorization" not in headers
        assert "x-api-key" not in headers


async def test_a_local_server_is_asked_without_a_key() -> None:
    path, headers, _ = await seen_by("llamacpp", "any", {})

    assert path == "/chat/completions"
    assert "authorization" not in headers


async def test_the_subscription_endpoint_gets_its_own_path_and_only_a_token_that_is_given() -> None:
    path, _, _ = await seen_by(
        "openai-codex", "gpt-5.4", {"OPENAI_API_KEY": "sk-not-for-them"}, api_key="token-123456"
    )
    without = await Models([TABLE.get("openai-codex") or Provider(id="x")]).complete(
        Model("openai-codex", "gpt-5.4", "openai-responses"), CONTEXT, max_retries=0
    )

    assert path == "/codex/responses"
    assert "not imitated here" in (without.error_message or "")


async def base_url_in_use(
    vendor: str, model: str, env: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> str:
    """Where a request to *vendor* would go; nothing is sent."""
    provider = TABLE.get(vendor)
    assert provider is not None
    models = Models([provider])
    chosen = models.get_model(vendor, model)
    assert chosen is not None
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    endpoint, _ = await models._endpoint(provider, chosen, {"api_key": "k"})
    return endpoint.base_url or ""


@pytest.mark.parametrize(
    ("vendor", "env", "url"),
    [
        ("groq", {}, "https://api.groq.com/openai/v1"),
        ("groq", {"GROQ_BASE_URL": "http://127.0.0.1:1"}, "http://127.0.0.1:1/openai/v1"),
        ("ollama", {"OLLAMA_BASE_URL": "http://box:11434/v1/"}, "http://box:11434/v1"),
        (
            "cloudflare-workers-ai",
            {"CLOUDFLARE_ACCOUNT_ID": "abc"},
            "https://api.cloudflare.com/client/v4/accounts/abc/ai/v1",
        ),
        (
            "databricks",
            {"DATABRICKS_HOST": "https://me.cloud.databricks.com/"},
            "https://me.cloud.databricks.com/ai-gateway/mlflow/v1",
        ),
        ("azure", {"AZURE_RESOURCE_NAME": "mine"}, "https://mine.openai.azure.com/openai/v1"),
        (
            "google-vertex-anthropic",
            {"GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_VERTEX_LOCATION": "europe-west1"},
            "https://europe-west1-aiplatform.googleapis.com/v1/projects/p/locations/europe-west1"
            "/publishers/anthropic",
        ),
        (
            "google-vertex",
            {"GOOGLE_CLOUD_PROJECT": "p"},
            "https://aiplatform.googleapis.com/v1/projects/p/locations/global/publishers/google",
        ),
    ],
)
async def test_the_environment_completes_or_replaces_an_address(
    vendor: str, env: dict[str, str], url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    models = {"groq": "x", "google-vertex": "gemini-2.5-pro"}
    provider = TABLE.get(vendor)
    assert provider is not None
    known = [model.id for model in provider.known_models()]
    model = models.get(vendor) if provider.any_model else None

    assert await base_url_in_use(vendor, model or (known or ["x"])[0], env, monkeypatch) == url


@pytest.mark.parametrize(
    ("vendor", "named"),
    [
        ("cloudflare-workers-ai", "CLOUDFLARE_ACCOUNT_ID"),
        ("snowflake", "SNOWFLAKE_ACCOUNT"),
        ("azure", "AZURE_OPENAI_ENDPOINT"),
        ("google-vertex-anthropic", "GOOGLE_CLOUD_PROJECT"),
        ("pydantic-gateway", "PYDANTIC_AI_GATEWAY_BASE_URL"),
    ],
)
async def test_a_gap_that_stays_open_is_an_error_that_says_what_to_set(
    vendor: str, named: str
) -> None:
    provider = TABLE.get(vendor)
    assert provider is not None

    message = await Models([provider]).complete(
        Model(vendor, "m", provider.api), CONTEXT, api_key="k-1234567", max_retries=0
    )

    assert message.stop_reason == "error"
    assert named in (message.error_message or "")


@pytest.mark.parametrize("value", ["evil.example/x?", "a@b", "x y", "a#b"])
async def test_a_gap_cannot_lead_to_another_host(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(ConfigurationError, match="letters, digits"):
        await base_url_in_use("snowflake", "m", {"SNOWFLAKE_ACCOUNT": value}, monkeypatch)


def test_a_clouds_identity_counts_as_a_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("CLOUDSDK_CONFIG", str(tmp_path))
    bedrock, vertex = TABLE.get("amazon-bedrock"), TABLE.get("google-vertex-anthropic")
    assert bedrock is not None
    assert vertex is not None

    assert not key_status(bedrock).present
    assert not key_status(vertex).present
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "a")
    assert not key_status(bedrock).present
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "b")
    assert key_status(bedrock) == (True, "AWS_ACCESS_KEY_ID")
    (tmp_path / "application_default_credentials.json").write_text("{}")
    assert key_status(vertex) == (True, "identity")


# -- quirks ------------------------------------------------------------------------------------


async def body_to(model: Model, provider: Provider, **options: Any) -> dict[str, Any]:
    sent: list[dict[str, Any]] = []
    models = Models([provider])

    def see(payload: dict[str, Any], _: Model) -> None:
        sent.append(payload)

    async with serving(text_reply("Hello")) as server:
        await models.complete(
            model, CONTEXT, on_payload=see, base_url=server.base_url, api_key="k",
            max_retries=0, **options,
        )  # fmt: skip
        await models.aclose()
    return sent[0]


async def test_a_models_own_quirks_come_before_its_vendors() -> None:
    provider = TABLE.get("anthropic")
    assert provider is not None
    new, old = provider.get_model("claude-sonnet-5-5"), provider.get_model("claude-sonnet-4-5")
    assert new is not None
    assert old is not None

    assert provider.flags_for(new)["temperature"] is False
    assert provider.flags_for(new)["long_cache"] is True
    adaptive = await body_to(new, provider, reasoning="high", temperature=0.5)
    budgeted = await body_to(old, provider, reasoning="high")

    assert adaptive["output_config"]["effort"] == "high"
    assert "temperature" not in adaptive
    assert budgeted["thinking"]["type"] == "enabled"


async def test_the_users_quirks_come_before_a_models() -> None:
    import dataclasses

    provider = TABLE.get("openai")
    assert provider is not None
    model = provider.get_model("gpt-6.2-sol")
    assert model is not None
    changed = dataclasses.replace(provider, overrides={"x_explicit_prompt_cache_mode": False})

    theirs = await body_to(model, provider, cache="long", session_id="s")
    ours = await body_to(model, changed, cache="long", session_id="s")

    assert theirs["prompt_cache_options"] == {"ttl": "30m"}
    assert ours["prompt_cache_retention"] == "24h"


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("deepseek", {"thinking": {"type": "enabled"}}),
        ("zai", {"thinking": {"type": "enabled", "clear_thinking": False}}),
        ("alibaba", {"enable_thinking": True}),
        ("openrouter", {"reasoning": {"effort": "high"}}),
    ],
)
async def test_thinking_is_asked_for_in_each_hosts_own_words(
    reference: str, expected: dict[str, Any]
) -> None:
    provider = TABLE.get(reference)
    assert provider is not None
    listed = [m for m in provider.known_models() if m.thinking_levels and m.api == "openai-chat"]
    model = listed[0] if reference != "openrouter" else Model("openrouter", "any", "openai-chat")

    body = await body_to(model, provider, reasoning="high")

    assert expected.items() <= body.items()


def test_reading_the_table_imports_nothing_of_a_vendor() -> None:
    script = (
        "import sys; from loopwright.models import default_models; m = default_models();"
        "[m.get_provider(i) for i in m.provider_ids()]; m.get_model('openai', 'gpt-5');"
        "print([n for n in ('openai', 'anthropic', 'httpx2', 'pydantic', 'botocore', 'google.auth',"
        " 'genai_prices', 'azure.identity') if n in sys.modules])"
    )

    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True,
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
    )  # fmt: skip

    assert done.stdout.strip() == "[]"
