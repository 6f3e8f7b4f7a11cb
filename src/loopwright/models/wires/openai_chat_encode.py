"""Chat Completions, requests: a context -> the bytes of the body.                            (pure)

Only fields the dialect defines are sent, and none that has nothing to say: strict gateways answer
400 to the rest. How a message is written stands in `openai_chat_messages`.

Flags read here: `max_tokens_field`, `developer_role`, `store`, `stream_usage`, `reasoning_effort`,
`thinking_format`, `thinking_budget_field`, `tool_choice_required`, `tools`, `tool_stream`,
`tools_with_tool_history`, `prompt_cache_key`, `long_cache`, `cache_control_format`, `temperature`,
`metadata`, `body_defaults` (fields of the body that the options may replace).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import msgspec

from ...errors import Misuse
from ...messages import AssistantMessage
from ...records import clean_text, to_jsonable
from ..model import ToolSpec
from ..schema_dialects import answer_schema
from ..thinking import nearest_level, vendor_level
from ..tool_schemas import declared_tools
from . import WireCall
from .openai_chat_messages import MessageRules, encoded_messages, raw

__all__ = ["SAMPLING_PARAMETERS", "encode", "json_schema_format"]

SAMPLING_PARAMETERS = frozenset({
    "top_p", "top_k", "min_p", "stop", "seed", "frequency_penalty", "presence_penalty",
    "repetition_penalty", "logit_bias", "logprobs", "top_logprobs",
})  # fmt: skip
"""What `sampling_params` may hold here; hosts that know more take it by `extra_body`."""


def encode(call: WireCall) -> bytes:
    """The body of the request. Raises `Misuse` for an option that cannot be expressed."""
    body = payload(call)
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:  # half a surrogate pair in a tool or an option
        messages = body.pop("messages")
        return msgspec.json.encode({**to_jsonable(body), "messages": messages})


def payload(call: WireCall) -> dict[str, Any]:
    """The body as plain data; its messages are encoded already (`msgspec.Raw`)."""
    options, flags = call.options, call.flags
    reasoning = _level(call)
    thinks = options.get("reasoning") not in (None, "off")
    rules = MessageRules.of(call.model, flags, thinks=thinks)
    messages = _prompt(call) + encoded_messages(call.messages, rules)
    if flags.get("cache_control_format") == "anthropic" and _caching(call):
        _mark_last(messages)
    body: dict[str, Any] = {
        "model": call.endpoint.model_id or call.model.id,
        "messages": messages,
        "stream": True,
        **(flags.get("body_defaults") or {}),
    }
    if flags.get("stream_usage", "stream_options") == "stream_options":
        body["stream_options"] = {"include_usage": True}
    _add_tools(body, call)
    max_tokens = options.get("max_tokens")
    if max_tokens is not None:
        body[flags.get("max_tokens_field", "max_completion_tokens")] = max_tokens
    if options.get("temperature") is not None and flags.get("temperature") is not False:
        body["temperature"] = options["temperature"]
    _add_sampling(body, options)
    _add_thinking(body, call, reasoning)
    _add_caching(body, call)
    if flags.get("store") is True:
        body["store"] = False  # a host that can keep replies is told not to
    if flags.get("metadata") is True and options.get("metadata"):
        body["metadata"] = options["metadata"]
    if options.get("response_format") is not None:
        body["response_format"] = options["response_format"]
    elif options.get("output_schema") is not None:
        wanted = json_schema_format(options["output_schema"], call.model.api)
        body["response_format"] = {"type": "json_schema", "json_schema": wanted}
    if options.get("parallel_tool_calls") is not None and "tools" in body:
        body["parallel_tool_calls"] = options["parallel_tool_calls"]
    extra = options.get("extra_body")
    if extra:
        body.update(cast("dict[str, Any]", extra))
    return body


def json_schema_format(wanted: Mapping[str, Any], api: str) -> dict[str, Any]:
    """The option `output_schema` in OpenAI's form: strict if every part of it can be enforced."""
    strict = None if wanted.get("strict") is False else answer_schema(wanted["schema"], api)
    if strict is None:
        return {**wanted, "strict": False}
    return {**wanted, "schema": strict, "strict": True}


def _prompt(call: WireCall) -> list[msgspec.Raw]:
    prompt = clean_text(call.context.system_prompt)
    if not prompt.strip():
        return []
    role = "developer" if call.flags.get("developer_role") is True else "system"
    return [raw({"role": role, "content": prompt})]


def _add_tools(body: dict[str, Any], call: WireCall) -> None:
    tools: Sequence[ToolSpec] = call.context.tools if call.flags.get("tools") is not False else ()
    if not tools:
        history = any(
            type(message) is AssistantMessage and message.tool_calls for message in call.messages
        ) if call.flags.get("tools_with_tool_history") is True else False  # fmt: skip
        if history:
            body["tools"] = []
        return
    body["tools"] = [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": tool.parameters,
            },
        }
        for tool in declared_tools(tools)
    ]
    if call.flags.get("cache_control_format") == "anthropic" and _caching(call):
        body["tools"][-1]["cache_control"] = _cache_mark(call)
    if call.flags.get("tool_stream") is True:
        body["tool_stream"] = True
    choice = call.options.get("tool_choice")
    if choice is not None:
        body["tool_choice"] = _tool_choice(choice, call)


def _tool_choice(asked: Any, call: WireCall) -> Any:
    """`auto`, `none`, `required` (or `any`), or one tool: by its name, or as `{"name": ...}`."""
    choice: Any = asked
    if isinstance(asked, dict):
        fields = cast("dict[str, Any]", asked)
        function = cast("dict[str, Any]", fields.get("function") or {})
        choice = fields.get("name") or function.get("name") or fields.get("type")
    if choice in ("auto", "none"):
        return choice
    rule = call.flags.get("tool_choice_required")
    thinks = call.options.get("reasoning") not in (None, "off")
    if rule is False or (rule == "no-thinking" and thinks):
        return "auto"
    if choice in ("required", "any"):
        return "required"
    if choice in [tool.name for tool in call.context.tools]:
        return {"type": "function", "function": {"name": choice}}
    names = ", ".join(tool.name for tool in call.context.tools)
    raise Misuse(
        f"tool_choice is {choice!r}, which is no tool on offer",
        hint=f"use 'auto', 'none', 'required', or one of: {names}",
    )


def _add_sampling(body: dict[str, Any], options: Mapping[str, Any]) -> None:
    sampling: Mapping[str, Any] = options.get("sampling_params") or {}
    unknown = sorted(sampling.keys() - SAMPLING_PARAMETERS)
    if unknown:
        raise Misuse(
            f"sampling_params: the wire openai-chat does not know {', '.join(unknown)}",
            hint="what only your host knows goes into extra_body={...}",
        )
    body.update({name: value for name, value in sampling.items() if value is not None})


def _level(call: WireCall) -> str | None:
    try:
        return vendor_level(call.model, call.options.get("reasoning"))
    except ValueError as error:
        raise Misuse(str(error)) from error


def _add_thinking(body: dict[str, Any], call: WireCall, level: str | None) -> None:
    """Switch thinking on or off, each host in its own words; see `thinking_format`."""
    wanted = call.options.get("reasoning")
    flags = call.flags
    asked = nearest_level(call.model, wanted)
    if asked is None or call.model.thinking_levels == {}:
        return
    on = asked != "off"
    style = flags.get("thinking_format", "openai")
    effort = level if flags.get("reasoning_effort") is not False else None
    match style:
        case "openrouter":
            body["reasoning"] = {"effort": level or ("medium" if on else "none")}
            effort = None
        case "ant-ling":
            if level:
                body["reasoning"] = {"effort": level}
            effort = None
        case "together":
            body["reasoning"] = {"enabled": on}
        case "deepseek":
            body["thinking"] = {"type": "enabled" if on else "disabled"}
        case "zai":
            body["thinking"] = (
                {"type": "enabled", "clear_thinking": False} if on else {"type": "disabled"}
            )
        case "qwen":
            body["enable_thinking"] = on
        case "qwen-chat-template" | "chat-template":
            body["chat_template_kwargs"] = {"enable_thinking": on, "preserve_thinking": True}
            effort = None
        case "baseten":
            body["chat_template_args"] = {"enable_thinking": on}
        case "string-thinking":
            body["thinking"] = level or "none"
            effort = None
        case _:
            pass
    if effort:
        body["reasoning_effort"] = effort
    field = flags.get("thinking_budget_field")
    budgets: Mapping[str, int] = call.options.get("thinking_budgets") or {}
    budget = budgets.get(str(wanted), budgets.get(asked))
    if field and budget is not None and on:
        body[field] = budget


def _caching(call: WireCall) -> bool:
    return call.options.get("cache", "short") != "none"


def _add_caching(body: dict[str, Any], call: WireCall) -> None:
    session = call.options.get("session_id")
    if not session or not _caching(call) or call.flags.get("prompt_cache_key") is not True:
        return
    body["prompt_cache_key"] = str(session)[:64]
    if call.options.get("cache") == "long" and call.flags.get("long_cache") is True:
        body["prompt_cache_retention"] = "24h"


def _cache_mark(call: WireCall) -> dict[str, Any]:
    long = call.options.get("cache") == "long" and call.flags.get("long_cache") is True
    return {"type": "ephemeral", "ttl": "1h"} if long else {"type": "ephemeral"}


def _mark_last(messages: list[msgspec.Raw]) -> None:
    """Put a cache breakpoint behind the prompt, and one behind the last text of the request."""
    for place in {0, len(messages) - 1} if messages else ():
        fields: dict[str, Any] = msgspec.json.decode(messages[place])
        content = fields.get("content")
        if isinstance(content, str) and content:
            content = [{"type": "text", "text": content}]
        if not isinstance(content, list) or (place == 0 and fields["role"] not in _PROMPT_ROLES):
            continue
        parts = cast("list[dict[str, Any]]", content)
        parts[-1] = {**parts[-1], "cache_control": {"type": "ephemeral"}}
        messages[place] = raw({**fields, "content": parts})


_PROMPT_ROLES = ("system", "developer")
