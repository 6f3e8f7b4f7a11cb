"""Write src/loopwright/models/data/catalog.jsonl: what is known of vendors' models.

    npm pack @earendil-works/pi-ai && tar xzf earendil-works-pi-ai-*.tgz
    pip download --no-deps litellm && unzip litellm-*.whl 'litellm/model_prices*'
    python tools/gen_catalog.py package litellm/model_prices*.json VERSION

Facts only, no code: limits, what a model reads, the words for its thinking levels, prices, and when
it ends. The first source has the vendors' own words for levels and their quirks, so it comes first;
the second fills its holes, and lists the models of vendors the first does not know. What neither
says stays unknown: a price of 0 means free only where the model says that it is.

The first line tells sources and dates. Then come vendors, each with its models behind it, one a
line, as arrays whose places are those of `CatalogRow` in models/catalog.py. Both sources are MIT.
"""

from __future__ import annotations

import argparse
import datetime
import json
import re
from pathlib import Path
from typing import Any

DATA = Path(__file__).parent.parent / "src" / "loopwright" / "models" / "data"
TARGET = DATA / "catalog.jsonl"

Json = dict[str, Any]

APIS = {
    "anthropic-messages": "anthropic-messages",
    "azure-openai-responses": "openai-responses",
    "bedrock-converse-stream": "bedrock-converse",
    "google-generative-ai": "google-gemini",
    "google-vertex": "google-gemini",
    "mistral-conversations": "mistral",
    "openai-codex-responses": "openai-responses",
    "openai-completions": "openai-chat",
    "openai-responses": "openai-responses",
}
"""The first source's name of a wire -> ours; the others are no chat."""

FLAGS = {
    "allowEmptySignature": "empty_signature",
    "cacheControlFormat": "cache_control_format",
    "forceAdaptiveThinking": "adaptive_thinking",
    "maxTokensField": "max_tokens_field",
    "requiresReasoningContentOnAssistantMessages": "reasoning_content_required",
    "sessionAffinityFormat": "session_affinity",
    "supportsAdditionalTools": "x_additional_tools",
    "supportsCacheControlOnTools": "cache_control_on_tools",
    "supportsEagerToolInputStreaming": "eager_tool_input",
    "supportsExplicitPromptCacheMode": "x_explicit_prompt_cache_mode",
    "supportsLongCacheRetention": "long_cache",
    "supportsMidConvoEffort": "x_mid_convo_effort",
    "supportsMidConvoSystemMessages": "mid_system_messages",
    "supportsMidConvoToolAdditions": "x_mid_convo_tool_additions",
    "supportsMidConvoToolChanges": "x_mid_convo_tool_changes",
    "supportsOpenAIGrammarTools": "grammar_tools",
    "supportsReasoningEffort": "reasoning_effort",
    "supportsStore": "store",
    "supportsStrictMode": "strict_tools",
    "supportsStrictTools": "strict_tools",
    "supportsTemperature": "temperature",
    "supportsToolSearch": "x_tool_search",
    "thinkingFormat": "thinking_format",
    "zaiToolStream": "tool_stream",
}

WITHOUT_OUTPUT_SCHEMA = frozenset({"gpt-4", "gpt-4-turbo", "gpt-4o-2024-05-13"})
"""https://platform.openai.com/docs/guides/structured-outputs: older than that feature."""

FILLERS = {
    "alibaba": "dashscope", "amazon-bedrock": "", "anthropic": "", "azure": "azure",
    "bedrock-mantle": "bedrock_mantle", "cerebras": "cerebras", "cohere": "", "crusoe": "crusoe",
    "databricks": "databricks", "deepinfra": "deepinfra", "deepseek": "deepseek",
    "digitalocean": "gradient_ai", "fireworks": "fireworks_ai", "friendli": "friendliai",
    "gmicloud": "gmi", "google": "gemini", "google-vertex": "vertex_ai",
    "google-vertex-anthropic": "vertex_ai", "groq": "groq", "heroku": "heroku",
    "inception": "inception", "llama": "meta_llama", "minimax": "minimax", "mistral": "mistral",
    "moonshotai": "moonshot", "morph": "morph", "nebius": "nebius", "nova": "amazon-nova",
    "novita-ai": "novita", "openai": "", "openrouter": "openrouter", "ovhcloud": "ovhcloud",
    "perplexity": "perplexity", "sambanova": "sambanova", "sarvam": "sarvam",
    "scaleway": "scaleway", "snowflake": "snowflake", "together": "together_ai",
    "vercel-ai-gateway": "vercel_ai_gateway", "wandb": "wandb", "xai": "xai", "zai-api": "zai",
    "zhipuai": "bigmodel",
}  # fmt: skip
"""Vendor -> what stands before its models' names in the second source."""

FILLER_GROUPS = {
    "bedrock-mantle": "bedrock_mantle",
    "cohere": "cohere_chat",
    "google-vertex-anthropic": "vertex_ai-anthropic_models",
    "llama": "meta_llama",
    "nova": "amazon_nova",
}
"""The second source's own name of the vendor, where it is not the prefix."""

NO_PRICE = frozenset({
    "github-copilot", "kimi-coding", "openai-codex", "opencode-go", "qwen-token-plan",
    "qwen-token-plan-cn", "qwen-token-plan-individual", "qwen-token-plan-individual-cn",
    "xiaomi-token-plan-ams", "xiaomi-token-plan-cn", "xiaomi-token-plan-sgp", "zai",
    "zai-coding-cn",
})  # fmt: skip
"""Plans paid by the month: what the first source shows there are prices of other places."""

LEVELS = ("off", "minimal", "low", "medium", "high", "xhigh", "max")
STANDARD = {"low": "low", "medium": "medium", "high": "high"}
MILLION = 1_000_000


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", type=Path, help="the unpacked npm package")
    parser.add_argument("prices", type=Path, help="model_prices_and_context_window_backup.json")
    parser.add_argument("version", help="of the package it comes from")
    given = parser.parse_args()
    vendors = [json.loads(line) for line in (DATA / "vendors.jsonl").open("rb")][1:]
    listed = json.loads(given.prices.read_text("utf-8"))
    package = json.loads((given.package / "package.json").read_text("utf-8"))
    folder = given.package / "dist" / "providers" / "data"
    stamp = json.loads((folder / ".manifest.json").read_text("utf-8"))["generatedAt"]
    lines: list[Any] = [
        {
            "schema": 1,
            "generated": datetime.datetime.now(datetime.UTC).date().isoformat(),
            "generator": "tools/gen_catalog.py",
            "sources": [
                f"{package['name']}@{package['version']} ({package['license']}), data of {stamp[:10]}",
                f"litellm=={given.version} (MIT), {given.prices.name}",
            ],
        }
    ]
    for vendor in vendors:
        rows = rows_of(vendor, folder / f"{vendor['id']}.json", listed)
        if rows:
            lines.append({"vendor": vendor["id"], "models": len(rows)})
            lines += rows
    text = "".join(
        json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines
    )
    TARGET.write_text(text, "utf-8")


def rows_of(vendor: Json, file: Path, listed: Json) -> list[list[Any]]:
    """The models of one vendor: of the first source, else of the second."""
    id = vendor["id"]
    prefix = FILLERS.get(id)
    models: list[Json] = []
    if file.exists():
        for theirs, entries in json.loads(file.read_text("utf-8")).items():
            api = APIS.get(theirs)
            if api is not None:
                models += [of_first(vendor, api, model) for model in entries.values()]
        for model in models:
            fill(model, _entry(listed, prefix, model["id"]))
    elif prefix is not None:
        group = FILLER_GROUPS.get(id, prefix)
        api = vendor["wires"][0]["api"]
        for name, entry in listed.items():
            if entry.get("litellm_provider") != group or entry.get("mode") not in (
                "chat",
                "responses",
            ):
                continue
            found: Json = {"id": name.removeprefix(f"{prefix}/"), "api": api}
            fill(found, entry)
            models.append(found)
    if id in NO_PRICE:
        for model in models:
            model["cost"], model["tiers"] = None, None
    models.sort(key=lambda model: order(model["id"]))
    seen: set[str] = set()
    unique = [m for m in models if not (m["id"] in seen or seen.add(m["id"]))]
    return [as_array(model, vendor["wires"][0]["api"]) for model in unique]


def order(id: str) -> tuple[list[Any], str]:
    """Families together, in each the newest version in front, a dated one behind its like."""
    dated = re.search(r"[-@]\d{4}-?\d{2}-?\d{2}.*", id.lower())
    date = dated[0] if dated else ""
    name = id.lower().removesuffix(date)
    parts = re.split(r"(\d+(?:\.\d+)?)", name)
    if parts[-1] == "":
        parts[-1] = "~"  # 5.1 comes before 5
    return [-float(part) if place % 2 else part for place, part in enumerate(parts)], date


def _entry(listed: Json, prefix: str | None, id: str) -> Json:
    if prefix is None:
        return {}
    return listed.get(f"{prefix}/{id}" if prefix else id) or {}


# -- the first source --------------------------------------------------------------------------


def of_first(vendor: Json, api: str, model: Json) -> Json:
    wire = next((wire for wire in vendor["wires"] if wire["api"] == api), {"flags": {}})
    made: Json = {
        "id": model["id"],
        "name": model["name"] if model["name"] != model["id"] else None,
        "api": api,
        "context_window": model.get("contextWindow") or None,
        "max_tokens": model.get("maxTokens") or None,
        "images": "image" in model["input"],
        "levels": levels_of(model, api),
        "flags": flags_of(model, wire["flags"]),
    }
    base_url = model.get("baseUrl")
    if base_url and base_url != wire.get("base_url") and "{" not in wire.get("base_url", ""):
        made["base_url"] = None if api == "mistral" else base_url
    cost = model["cost"]
    free = model.get("free") or model["id"].endswith(":free")
    if cost["input"] or cost["output"] or free:
        made["cost"] = _rates(cost, free)
        made["tiers"] = [
            [tier["inputTokensAbove"], *_rates(tier, free)] for tier in cost.get("tiers", [])
        ]
    return made


def _rates(cost: Json, free: bool) -> list[float | None]:
    """Input, output, cache read, cache write; what is 0 beside other prices is not known."""
    names = ("input", "output", "cacheRead", "cacheWrite")
    return [cost[name] if cost[name] or free else None for name in names]


def levels_of(model: Json, api: str) -> Json | None:
    """The whole map. An absent level is offered from low to high, and not beyond."""
    if not model["reasoning"]:
        return {}
    given = model.get("thinkingLevelMap") or {}
    levels = {**STANDARD, **given}
    if api == "openai-responses" and "off" not in levels:
        levels["off"] = "none"
    # Null says that a level is not offered, which its absence says as well; but who cannot be
    # switched off must say so.
    return {
        level: levels[level]
        for level in LEVELS
        if level in levels and (levels[level] is not None or level == "off")
    }


def flags_of(model: Json, vendors: Json) -> Json:
    """What differs from the vendor's own row."""
    compat = model.get("compat") or {}
    flags = {ours: compat[theirs] for theirs, ours in FLAGS.items() if theirs in compat}
    if "chatTemplateArgs" in compat:
        flags["thinking_format"] = "baseten"
    if model["id"] in WITHOUT_OUTPUT_SCHEMA:
        flags["output_schema"] = False
    return {name: value for name, value in flags.items() if vendors.get(name) != value}


# -- the second source -------------------------------------------------------------------------


def fill(model: Json, entry: Json) -> None:
    """Put in what *model* lacks."""
    if not entry:
        return
    window = _whole(entry.get("max_input_tokens"))
    tiers = model.get("tiers") or []
    known = model.get("context_window")
    # The first source stops short of the border where the price doubles; that is its choice.
    if known is None or (window and window > known and tiers and tiers[0][0] == known):
        model["context_window"] = window or known
    model.setdefault("max_tokens", None)
    model["max_tokens"] = model["max_tokens"] or _whole(entry.get("max_output_tokens"))
    if "images" not in model:
        model["images"] = bool(entry.get("supports_vision"))
    if "levels" not in model and entry.get("supports_reasoning"):
        model["levels"] = STANDARD
    prices = [
        _price(entry, name)
        for name in (
            "input_cost_per_token", "output_cost_per_token",
            "cache_read_input_token_cost", "cache_creation_input_token_cost",
        )
    ]  # fmt: skip
    if not model.get("cost") and (prices[0] or prices[1]):
        model["cost"], model["tiers"] = prices, _tiers(entry)
    if model.get("cost"):
        model["long_cache_write"] = _price(entry, "cache_creation_input_token_cost_above_1hr")
    model["deprecated_on"] = entry.get("deprecation_date")
    successor = entry.get("successor_model")
    if isinstance(successor, str):
        model["successor"] = successor.rpartition("/")[2] if "/" in successor else successor


def _whole(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and value > 0 else None


def _price(entry: Json, name: str) -> float | None:
    """US dollars for a million tokens; a listed 0 is not known to be free."""
    value = entry.get(name)
    return round(value * MILLION, 6) if isinstance(value, int | float) and value else None


def _tiers(entry: Json) -> list[list[Any]]:
    found: list[list[Any]] = []
    for name in entry:
        border = re.fullmatch(r"input_cost_per_token_above_(\d+)k_tokens", name)
        if border:
            tail = f"_above_{border[1]}k_tokens"
            found.append([
                int(border[1]) * 1000,
                _price(entry, f"input_cost_per_token{tail}"),
                _price(entry, f"output_cost_per_token{tail}"),
                _price(entry, f"cache_read_input_token_cost{tail}"),
                _price(entry, f"cache_creation_input_token_cost{tail}"),
            ])  # fmt: skip
    return sorted(found)


# -- writing -----------------------------------------------------------------------------------


def as_array(model: Json, default_api: str) -> list[Any]:
    """The line of a model. What stands at the end and says nothing is left out."""
    levels = model.get("levels")
    row = [
        model["id"],
        model.get("name"),
        None if model["api"] == default_api else model["api"],
        model.get("context_window"),
        model.get("max_tokens"),
        1 if model.get("images") else 0,
        None if levels is None else " ".join(_word(*level) for level in levels.items()),
        _trimmed(model.get("cost")),
        model.get("tiers") or None,
        model.get("long_cache_write"),
        model.get("flags") or None,
        model.get("base_url"),
        model.get("deprecated_on"),
        model.get("successor"),
    ]
    return _trimmed(row) or []


def _word(level: str, word: str | None) -> str:
    """`high`, `high=thorough`, or `off!` for what is refused."""
    return f"{level}!" if word is None else level if word == level else f"{level}={word}"


def _trimmed(values: list[Any] | None) -> list[Any] | None:
    if not values:
        return None
    end = len(values)
    while end and values[end - 1] is None:
        end -= 1
    return [int(v) if isinstance(v, float) and v.is_integer() else v for v in values[:end]]


if __name__ == "__main__":
    main()
