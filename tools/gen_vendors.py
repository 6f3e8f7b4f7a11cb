"""Write src/loopwright/models/data/vendors.jsonl from the table of facts about vendors.

    python tools/gen_vendors.py ../shared/vendors/vendors.json

One vendor a line, so that a change can be reviewed line by line. What the wires do not read is
left out (`"per-model"`: the catalog says it; counts), what they need beyond the table is added
below, each with its reason. Sources and notes of each vendor are kept.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

TARGET = Path(__file__).parent.parent / "src" / "loopwright" / "models" / "data" / "vendors.jsonl"

GAPS: dict[str, dict[str, list[str]]] = {
    "anthropic-aws": {
        "region": ["AWS_REGION", "AWS_DEFAULT_REGION"],
        "workspace": ["ANTHROPIC_AWS_WORKSPACE_ID"],
    },
    "bedrock-mantle": {"region": ["AWS_REGION", "AWS_DEFAULT_REGION"]},
    "cloudflare-ai-gateway": {
        "CLOUDFLARE_ACCOUNT_ID": ["CLOUDFLARE_ACCOUNT_ID"],
        "CLOUDFLARE_GATEWAY_ID": ["CLOUDFLARE_GATEWAY_ID"],
    },
    "cloudflare-workers-ai": {"CLOUDFLARE_ACCOUNT_ID": ["CLOUDFLARE_ACCOUNT_ID"]},
    "databricks": {"DATABRICKS_HOST": ["DATABRICKS_HOST"]},
    "pydantic-gateway": {"region": []},
    "snowflake": {"account": ["SNOWFLAKE_ACCOUNT"]},
}
"""What stands in braces in a base URL -> the variables that fill it (`env_alt` in words). Azure,
Bedrock and Vertex have rules of their own, which are code."""

BASE_URL_VARIABLES: dict[str, list[list[str]]] = {
    "anthropic": [["ANTHROPIC_BASE_URL", ""]],
    "groq": [["GROQ_BASE_URL", "/openai/v1"]],
    "heroku": [["HEROKU_INFERENCE_URL", "/v1"]],
    "ollama": [["OLLAMA_BASE_URL", "/v1"]],
    "openai": [["OPENAI_BASE_URL", ""]],
    "pydantic-gateway": [["PYDANTIC_AI_GATEWAY_BASE_URL", "/openai"], ["PAIG_BASE_URL", "/openai"]],
    "sambanova": [["SAMBANOVA_BASE_URL", ""]],
}
"""Variables that replace the whole base URL, and what is put behind their value."""

IDENTITIES: dict[str, list[list[str]]] = {
    "amazon-bedrock": [
        ["AWS_PROFILE"],
        ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"],
        ["AWS_CONTAINER_CREDENTIALS_RELATIVE_URI"],
        ["AWS_CONTAINER_CREDENTIALS_FULL_URI"],
        ["AWS_WEB_IDENTITY_TOKEN_FILE"],
    ],
    "google-vertex": [["GOOGLE_APPLICATION_CREDENTIALS"]],
    "google-vertex-anthropic": [["GOOGLE_APPLICATION_CREDENTIALS"]],
}
"""Variables that show, all of a group together, that the cloud's own library knows who asks."""

FURTHER_KEYS = {
    "anthropic": ["ANTHROPIC_AUTH_TOKEN"],  # the SDK sends every key as a bearer token today
    "google": ["GOOGLE_GENERATIVE_AI_API_KEY"],
    "vercel-ai-gateway": ["VERCEL_OIDC_TOKEN"],
}
"""Variables of `env_alt` whose value is sent the same way as a key."""

LOGIN_ONLY = {
    "github-copilot": "it takes only a token of a GitHub login, which is not imitated here",
    "openai-codex": "it takes only a token of a ChatGPT login, which is not imitated here",
}

LISTED_ONLY = frozenset({
    "anthropic", "cerebras", "deepseek", "google", "google-vertex", "groq", "kimi-coding", "meta",
    "minimax", "minimax-cn", "mistral", "moonshotai", "moonshotai-cn", "openai", "openai-codex",
    "qwen-token-plan", "qwen-token-plan-cn", "qwen-token-plan-individual",
    "qwen-token-plan-individual-cn", "xai", "xiaomi", "xiaomi-token-plan-ams",
    "xiaomi-token-plan-cn", "xiaomi-token-plan-sgp", "zai", "zai-coding-cn",
})  # fmt: skip
"""Vendors that sell models of their own, few and in the catalog: another name is a slip. Hosts of
other people's models, gateways and servers have more than any list."""

PRICE_LISTS = {
    "amazon-bedrock": "aws", "anthropic": "anthropic", "azure": "azure", "baseten": "baseten",
    "cerebras": "cerebras", "cloudflare-workers-ai": "cloudflare", "cohere": "cohere",
    "databricks": "databricks", "deepseek": "deepseek", "fireworks": "fireworks",
    "google": "google", "google-vertex": "google", "google-vertex-anthropic": "google",
    "groq": "groq", "meta": "meta", "minimax": "minimax", "mistral": "mistral",
    "moonshotai": "moonshotai", "novita-ai": "novita", "openai": "openai",
    "openrouter": "openrouter", "ovhcloud": "ovhcloud", "perplexity": "perplexity",
    "together": "together", "xai": "x-ai", "zai-api": "zai", "zhipuai": "zhipuai",
}  # fmt: skip
"""The vendor's name in genai-prices. Plans paid by the month have none: their tokens have no price
of their own."""

CHAT_FIRST = frozenset({
    "cloudflare-ai-gateway", "fireworks", "opencode", "opencode-go", "openrouter",
})  # fmt: skip
"""Hosts with several dialects where a model that nobody listed is best asked by Chat Completions."""

FLAGS: dict[tuple[str, str], dict[str, Any]] = {
    # The path is not the public one.
    ("openai-codex", "openai-responses"): {"path": "/codex/responses"},
    # The gateway's own token has a header of its own; the vendors' keys are kept by the gateway.
    ("cloudflare-ai-gateway", "openai-chat"): {
        "key_header": "cf-aig-authorization", "key_prefix": "Bearer ",
    },
    ("cloudflare-ai-gateway", "openai-responses"): {
        "key_header": "cf-aig-authorization", "key_prefix": "Bearer ",
    },
    # Sources differ; the vendor's own documents name this one.
    ("openrouter", "openai-chat"): {"max_tokens_field": "max_tokens"},
    # The model stands in the address, and the token is that of the cloud.
    ("google-vertex-anthropic", "anthropic-messages"): {"dialect": "vertex"},
    # A reply cut by max_output_tokens still says that it is complete.
    ("llamacpp", "openai-responses"): {"length_says_completed": True},
}  # fmt: skip

HEADERS = {"anthropic-aws": {"anthropic-workspace-id": "{workspace}"}}

DIALECTS = frozenset({"google-vertex"})
"""Those a wire must know of; others are an address or a path."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("facts", type=Path, help="vendors.json")
    facts = json.loads(parser.parse_args().facts.read_text("utf-8"))
    head = {
        "schema": 1,
        "generated": facts["generated"],
        "generator": "tools/gen_vendors.py",
        "vendors": len(facts["vendors"]),
    }
    lines = [head, *[vendor_row(vendor) for vendor in facts["vendors"]]]
    text = "".join(
        json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines
    )
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text(text, "utf-8")


def vendor_row(vendor: dict[str, Any]) -> dict[str, Any]:
    """The line of one vendor; `id` comes first, since lines are found by it."""
    id = vendor["id"]
    login = LOGIN_ONLY.get(id)
    wires = sorted(
        vendor["wires"], key=lambda wire: id in CHAT_FIRST and wire["wire"] != "openai-chat"
    )
    row: dict[str, Any] = {
        "id": id,
        "name": vendor["name"].partition(" (retired")[0],
        "env": [] if login else vendor["env"] + FURTHER_KEYS.get(id, []),
        "auth": vendor["auth"],
        "wires": [wire_row(id, vendor["auth"], wire) for wire in wires],
        "gaps": GAPS.get(id),
        "base_url_variables": BASE_URL_VARIABLES.get(id),
        "headers": HEADERS.get(id),
        "identities": IDENTITIES.get(id),
        "login": login,
        "listed_only": id in LISTED_ONLY or None,
        "price_list": PRICE_LISTS.get(id),
        "retired": vendor.get("retired"),
        "notes": vendor.get("notes"),
        "sources": vendor["sources"],
        "evidence": vendor["evidence"],
    }
    return {key: value for key, value in row.items() if value is not None}


def wire_row(id: str, auth: list[str], wire: dict[str, Any]) -> dict[str, Any]:
    """One dialect the vendor speaks."""
    flags = {
        name: value
        for name, value in wire.get("flags", {}).items()
        if value != "per-model" and not _is_placeholder(value)
    }
    if wire["wire"] == "anthropic-messages":
        flags["auth"] = auth
    if wire.get("dialect") in DIALECTS:
        flags["dialect"] = wire["dialect"]
    flags.update(FLAGS.get((id, wire["wire"]), {}))
    row: dict[str, Any] = {"api": wire["wire"], "base_url": wire["base_url"], "flags": flags}
    if wire.get("notes"):
        row["notes"] = wire["notes"]
    if wire.get("verify"):
        row["unverified"] = True
    return row


def _is_placeholder(value: Any) -> bool:
    """Headers that say which client it is: we are none of those."""
    return isinstance(value, dict) and "<client>" in value.values()


if __name__ == "__main__":
    main()
