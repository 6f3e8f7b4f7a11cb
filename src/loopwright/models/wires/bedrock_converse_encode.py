"""Bedrock Converse, requests: a context -> the bytes of the body.                            (pure)

Only fields the dialect defines are sent, and none that has nothing to say; the model stands in the
address. What one maker's models alone know goes into `additionalModelRequestFields`. How messages
become turns stands in `bedrock_converse_turns`, what a family of models takes in
`bedrock_converse_models`.

Flags read here: `tools`, and in the others `cache_points`, `long_cache`, `tool_choice_required`,
`document_input`, `text_only_error_results`, `reasoning_replay`, `adaptive_thinking`, `temperature`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, cast

import msgspec

from ...errors import Misuse
from ...records import clean_text, to_jsonable
from ..tool_schemas import ANTHROPIC_PROPERTY, declared_tools
from . import WireCall
from .anthropic_messages_encode import DEFAULT_MAX_TOKENS, MOST_DEFAULT_TOKENS, vendor_schema
from .anthropic_messages_thinking import (
    ANSWER_TOKENS,
    LEAST_BUDGET,
    Thinking,
    abilities_of,
    thinking_of,
)
from .bedrock_converse_models import Family, other_thinking
from .bedrock_converse_turns import ALL_MESSAGES, TurnRules, Turns, turns_of

__all__ = ["SAMPLING_PARAMETERS", "encode", "forget_thinking", "model_name", "sends_thinking"]

SAMPLING_PARAMETERS = frozenset({"top_p", "top_k", "stop", "stop_sequences"})
"""What `sampling_params` may hold here; what one model alone knows goes into `extra_body`."""

NO_LONGER_OFFERED = "Not on offer any more."

_UNSIGNED = "bedrock-converse: thinking is refused before"


def encode(call: WireCall) -> bytes:
    """The body of the request. Raises `Misuse` for an option that cannot be expressed."""
    body = payload(call)
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:  # half a surrogate pair in a tool or an option
        messages = body.pop("messages")
        return msgspec.json.encode({**to_jsonable(body), "messages": messages})


def model_name(call: WireCall) -> str:
    """The id or ARN that the host knows the model by."""
    return call.endpoint.model_id or call.model.id


def payload(call: WireCall) -> dict[str, Any]:
    """The body as plain data; its messages are encoded already (`msgspec.Raw`)."""
    family = _family(call)
    turns = _turns(call, family)
    cache_point = _cache_point(call, family)
    extra: dict[str, Any] = {}
    inference: dict[str, Any] = {}
    thinking = _add_thinking(extra, inference, call, family, turns)
    _add_sampling(inference, extra, call, family, thinking)
    body: dict[str, Any] = {}
    prompt = clean_text(call.context.system_prompt)
    if prompt.strip():
        body["system"] = [{"text": prompt}, *([cache_point] if cache_point else [])]
    body["messages"] = turns.encoded(msgspec.json.encode(cache_point) if cache_point else None)
    if inference:
        body["inferenceConfig"] = inference
    _add_tools(body, call, family, turns, thinking, cache_point)
    wanted: Mapping[str, Any] | None = call.options.get("output_schema")
    if wanted is not None:
        body["outputConfig"] = {"textFormat": _text_format(wanted)}
    metadata = _metadata(call.options.get("metadata") or {})
    if metadata:
        body["requestMetadata"] = metadata
    given = dict(cast("dict[str, Any]", call.options.get("extra_body") or {}))
    extra.update(given.pop("additionalModelRequestFields", None) or {})
    if extra:
        body["additionalModelRequestFields"] = extra
    body.update(given)
    return body


def _family(call: WireCall) -> Family:
    return Family.of(call.model, call.flags, model_name(call))


# -- past thinking -----------------------------------------------------------------------------


def _turns(call: WireCall, family: Family) -> Turns:
    before = call.messages.memo.get(_UNSIGNED, 0)
    if call.options.get("replay_thinking") is False:
        before = ALL_MESSAGES
    rules = TurnRules.of(call.model, call.flags, family, unsigned_before=before)
    return turns_of(call.messages, rules)


def sends_thinking(call: WireCall) -> bool:
    """Whether the request holds thinking of earlier replies."""
    return _turns(call, _family(call)).has_thinking


def forget_thinking(call: WireCall) -> None:
    """The vendor refuses a signature in *call*: what is in there now is sent without its thinking
    from here on, in further attempts at this request and in later ones of the same transcript."""
    call.messages.memo[_UNSIGNED] = len(call.messages)
    if isinstance(call.options, dict):
        call.options["replay_thinking"] = False  # what all attempts at this request share


# -- thinking ----------------------------------------------------------------------------------


def _add_thinking(
    extra: dict[str, Any],
    inference: dict[str, Any],
    call: WireCall,
    family: Family,
    turns: Turns,
) -> bool:
    """Ask for the thinking level and set the output limit. True if the model is told to think."""
    level = call.options.get("reasoning")
    max_tokens = call.options.get("max_tokens")
    try:
        if family.maker == "claude":
            thinking = _claude_thinking(call, level)
        else:
            extra.update(other_thinking(family.maker, call.model, level))
            config = extra.get("reasoningConfig")
            if max_tokens is not None and not _thinks_hard(config):
                inference["maxTokens"] = max_tokens
            return bool(extra) and level != "off"
    except ValueError as error:
        raise Misuse(str(error)) from error
    if thinking.budget is not None and not turns.thinking_may_start:
        thinking = Thinking({"type": "disabled"})
    max_tokens, thinking = _limits(call, thinking)
    if max_tokens is not None:
        inference["maxTokens"] = max_tokens
    if thinking.fields is not None:
        budget = {} if thinking.budget is None else {"budget_tokens": thinking.budget}
        extra["thinking"] = {**thinking.fields, **budget}
    if thinking.effort is not None:
        extra["output_config"] = {"effort": thinking.effort}
    betas: Any = call.options.get("betas")
    if betas:
        extra["anthropic_beta"] = betas.split(",") if isinstance(betas, str) else list(betas)
    return thinking.on


def _thinks_hard(config: Any) -> bool:
    """Nova at its highest effort refuses limits and sampling parameters."""
    effort = cast("dict[str, Any]", config).get("maxReasoningEffort") if config else None
    return effort == "high"


def _claude_thinking(call: WireCall, level: str | None) -> Thinking:
    budgets: Mapping[str, int] = call.options.get("thinking_budgets") or {}
    can = abilities_of(call.model, call.flags)
    return thinking_of(call.model, can, level, budgets)


def _limits(call: WireCall, thinking: Thinking) -> tuple[int | None, Thinking]:
    """The output limit, which a budget counts against, and thinking as far as there is room."""
    most = call.model.max_tokens
    wanted = call.options.get("max_tokens")
    budget = thinking.budget
    if budget is None:
        return wanted, thinking  # without a limit the host sets the model's own
    if wanted is None:
        wanted = min(most, MOST_DEFAULT_TOKENS) if most else DEFAULT_MAX_TOKENS
    limit = wanted + budget
    if most is not None and limit > most:
        limit = max(most, 1)
        budget = min(budget, limit - ANSWER_TOKENS)
        if budget < LEAST_BUDGET:
            return min(wanted, limit), Thinking({"type": "disabled"})
    return limit, msgspec.structs.replace(thinking, budget=budget)


# -- caching -----------------------------------------------------------------------------------


def _cache_point(call: WireCall, family: Family) -> dict[str, Any] | None:
    """The breakpoint behind the prompt, the tools and the last words of the user's side."""
    kind = call.options.get("cache") or "short"
    if kind == "none" or not family.cache_points:
        return None
    if kind == "long" and family.hour_cache:
        return {"cachePoint": {"type": "default", "ttl": "1h"}}
    return {"cachePoint": {"type": "default"}}


# -- tools -------------------------------------------------------------------------------------


def _add_tools(
    body: dict[str, Any],
    call: WireCall,
    family: Family,
    turns: Turns,
    thinking: bool,
    cache_point: dict[str, Any] | None,
) -> None:
    if call.flags.get("tools") is False:
        return
    tools: list[dict[str, Any]] = []
    for tool in declared_tools(call.context.tools, ANTHROPIC_PROPERTY):
        fields: dict[str, Any] = {"name": tool.name}
        if tool.description.strip():
            fields["description"] = tool.description
        tools.append({"toolSpec": {**fields, "inputSchema": {"json": tool.parameters}}})
    choice, asked = _tool_choice(call, family, thinking)
    if asked == "none" and not turns.tool_names:
        return  # there is no word for it; without tools none can be called
    server: list[Mapping[str, Any]] = list(call.options.get("server_tools") or ())
    tools += [dict(tool) for tool in server]
    if not tools and turns.tool_names:
        # Who shows past calls must also offer tools, though they are gone.
        tools = [_stub(name) for name in turns.tool_names]
    if not tools:
        return
    config: dict[str, Any] = {"tools": [*tools, *([cache_point] if cache_point else [])]}
    if choice is not None:
        config["toolChoice"] = choice
    body["toolConfig"] = config


def _stub(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "properties": {}}
    fields: dict[str, Any] = {
        "name": name,
        "description": NO_LONGER_OFFERED,
        "inputSchema": {"json": schema},
    }
    return {"toolSpec": fields}


def _tool_choice(
    call: WireCall, family: Family, thinking: bool
) -> tuple[dict[str, Any] | None, str | None]:
    """What to send, and the word that was asked with: `auto`, `none`, `required` (or `any`), or
    one tool, by its name or as `{"name": ...}`."""
    asked: Any = call.options.get("tool_choice")
    choice: Any = asked
    if isinstance(asked, dict):
        fields = cast("dict[str, Any]", asked)
        function = cast("dict[str, Any]", fields.get("function") or {})
        choice = fields.get("name") or function.get("name") or fields.get("type")
    names = [tool.name for tool in call.context.tools]
    if choice not in (None, "auto", "none", "required", "any", *names):
        raise Misuse(
            f"tool_choice is {choice!r}, which is no tool on offer",
            hint=f"use 'auto', 'none', 'required', or one of: {', '.join(names)}",
        )
    free = choice in (None, "auto", "none") or not names
    if free or thinking or family.tool_choice == "auto" or _is_fable(call):
        return None, choice  # as the model likes, which goes without saying
    if choice in ("required", "any") or family.tool_choice == "any":
        return {"any": {}}, choice
    return {"tool": {"name": choice}}, choice


def _is_fable(call: WireCall) -> bool:
    return not abilities_of(call.model, call.flags).forced_tools


# -- output and sampling -----------------------------------------------------------------------


def _text_format(wanted: Mapping[str, Any]) -> dict[str, Any]:
    schema = msgspec.json.encode(vendor_schema(wanted["schema"], "bedrock-converse")).decode()
    fields: dict[str, Any] = {"schema": schema}
    if wanted.get("name"):
        fields["name"] = wanted["name"]
    return {"type": "json_schema", "structure": {"jsonSchema": fields}}


_NOT_IN_METADATA = re.compile(r"[^a-zA-Z0-9\s:_@$#=/+,\-.]")
MOST_METADATA = 16
METADATA_LENGTH = 256


def _metadata(metadata: Mapping[str, Any]) -> dict[str, str]:
    """What the host writes into its log of the request, as far as it allows the characters."""
    made: dict[str, str] = {}
    for name, value in list(metadata.items())[:MOST_METADATA]:
        if value is not None and isinstance(value, str | int | float):
            key = _NOT_IN_METADATA.sub("_", str(name))[:METADATA_LENGTH]
            made[key or "_"] = _NOT_IN_METADATA.sub("_", str(value))[:METADATA_LENGTH]
    return made


def _add_sampling(
    inference: dict[str, Any],
    extra: dict[str, Any],
    call: WireCall,
    family: Family,
    thinking: bool,
) -> None:
    sampling: Mapping[str, Any] = call.options.get("sampling_params") or {}
    unknown = sorted(sampling.keys() - SAMPLING_PARAMETERS)
    if unknown:
        raise Misuse(
            f"sampling_params: the wire bedrock-converse does not know {', '.join(unknown)}",
            hint="what only your model knows goes into "
            "extra_body={'additionalModelRequestFields': {...}}",
        )
    stops = sampling.get("stop_sequences") or sampling.get("stop")
    if stops:
        inference["stopSequences"] = [stops] if isinstance(stops, str) else list(stops)
    claude = family.maker == "claude"
    if call.flags.get("temperature") is False or _thinks_hard(extra.get("reasoningConfig")):
        return
    if claude and (thinking or not abilities_of(call.model, call.flags).sampling):
        return
    temperature = call.options.get("temperature")
    if temperature is not None:
        inference["temperature"] = min(temperature, 1)  # the API refuses more
    if sampling.get("top_p") is not None:
        inference["topP"] = sampling["top_p"]
    if sampling.get("top_k") is not None:
        if family.maker == "nova":
            extra["inferenceConfig"] = {"topK": sampling["top_k"]}
        else:
            extra["top_k"] = sampling["top_k"]
