"""Responses, requests: a context -> the bytes of the body.                                 (pure)

Only fields the dialect defines are sent, and none that has nothing to say. The vendor is asked to
store nothing: the transcript is ours, and reasoning comes back encrypted instead. The system prompt
goes into `instructions`, which every host of this dialect takes, whatever roles it knows. How a
message is written stands in `openai_responses_input`.

Flags read here: `store` (False: the field is left out), `max_output_tokens`, `temperature`,
`metadata`, `strict_tools` (False: the field is left out), `tools`, `tool_choice_required`,
`reasoning_effort`, `reasoning_replay`, `prompt_cache_key`, `long_cache`,
`x_explicit_prompt_cache_mode`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from ...errors import Misuse
from ...records import clean_text, to_jsonable
from ..thinking import vendor_level
from ..tool_schemas import declared_tools
from . import WireCall
from .openai_chat_encode import json_schema_format
from .openai_responses_input import InputRules, encoded_input

__all__ = ["OPTIONS", "SAMPLING_PARAMETERS", "encode", "forget_reasoning"]

OPTIONS = frozenset({
    "output_schema", "parallel_tool_calls", "reasoning_summary", "verbosity", "service_tier",
    "server_tools", "replay_thinking", "extra_body",
})  # fmt: skip
"""`server_tools` are tools in the vendor's own form, such as `{"type": "web_search"}`; one with the
name of a tool on offer takes its place (a custom tool with a grammar). `replay_thinking=False`
leaves out what the model did in hiding."""

SAMPLING_PARAMETERS = frozenset({"top_p", "top_logprobs"})
"""What `sampling_params` may hold here; hosts that know more take it by `extra_body`."""

PROMPT_CACHE_KEY_LENGTH = 64
ENCRYPTED_REASONING = "reasoning.encrypted_content"


def encode(call: WireCall) -> bytes:
    """The body of the request. Raises `Misuse` for an option that cannot be expressed."""
    body = payload(call)
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:  # half a surrogate pair in a tool or an option
        items = body.pop("input")
        return msgspec.json.encode({**to_jsonable(body), "input": items})


def payload(call: WireCall) -> dict[str, Any]:
    """The body as plain data; its input items are encoded already (`msgspec.Raw`)."""
    options, flags = call.options, call.flags
    body: dict[str, Any] = {"model": call.endpoint.model_id or call.model.id}
    prompt = clean_text(call.context.system_prompt)
    if prompt.strip():
        body["instructions"] = prompt
    body["input"] = _input(call)
    body["stream"] = True
    if flags.get("store") is not False:
        body["store"] = False
    _add_tools(body, call)
    if options.get("max_tokens") is not None and flags.get("max_output_tokens") is not False:
        body["max_output_tokens"] = options["max_tokens"]
    if options.get("temperature") is not None and flags.get("temperature") is not False:
        body["temperature"] = options["temperature"]
    _add_sampling(body, options)
    _add_thinking(body, call)
    _add_text_form(body, options)
    _add_caching(body, call)
    if flags.get("metadata") is True and options.get("metadata"):
        body["metadata"] = options["metadata"]
    if options.get("service_tier") is not None:
        body["service_tier"] = options["service_tier"]
    extra = options.get("extra_body")
    if extra:
        body.update(cast("dict[str, Any]", extra))
    return body


def forget_reasoning(call: WireCall) -> None:
    """The vendor refuses hidden items in *call*: what is in there now is sent without them from
    here on, in further attempts at this request and in later ones of the same transcript."""
    call.messages.memo[_REFUSED] = len(call.messages)
    if isinstance(call.options, dict):
        call.options["replay_thinking"] = False  # what all attempts at this request share


_REFUSED = "openai-responses: hidden items are refused before"


def _input(call: WireCall) -> list[msgspec.Raw]:
    before = call.messages.memo.get(_REFUSED, 0)
    if call.options.get("replay_thinking") is False:
        before = len(call.messages)
    return encoded_input(call.messages, InputRules.of(call.model, call.flags, hidden_from=before))


def _add_tools(body: dict[str, Any], call: WireCall) -> None:
    if call.flags.get("tools") is False:
        return
    extra = cast("list[dict[str, Any]]", list(call.options.get("server_tools") or ()))
    replaced = {tool.get("name") for tool in extra}
    tools: list[dict[str, Any]] = []
    for tool in declared_tools(call.context.tools):
        if tool.name in replaced:
            continue
        fields: dict[str, Any] = {
            "type": "function",
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.parameters,
        }
        if call.flags.get("strict_tools") is not False:
            fields["strict"] = False  # left out, it means True, which changes the schema
        tools.append(fields)
    tools += extra
    if not tools:
        return
    body["tools"] = tools
    if call.options.get("tool_choice") is not None:
        body["tool_choice"] = _tool_choice(call.options["tool_choice"], tools, call)
    if call.options.get("parallel_tool_calls") is not None:
        body["parallel_tool_calls"] = call.options["parallel_tool_calls"]


def _tool_choice(asked: Any, tools: list[dict[str, Any]], call: WireCall) -> Any:
    """`auto`, `none`, `required` (or `any`), or one tool: by its name, or as `{"name": ...}`; one
    of the vendor's own by its type."""
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
    for tool in tools:
        if choice == tool.get("name"):
            return {"type": tool["type"], "name": choice}
        if choice == tool["type"] and "name" not in tool:
            return {"type": choice}
    names = ", ".join([str(tool.get("name") or tool["type"]) for tool in tools])
    raise Misuse(
        f"tool_choice is {choice!r}, which is no tool on offer",
        hint=f"use 'auto', 'none', 'required', or one of: {names}",
    )


def _add_sampling(body: dict[str, Any], options: Mapping[str, Any]) -> None:
    sampling: Mapping[str, Any] = options.get("sampling_params") or {}
    unknown = sorted(sampling.keys() - SAMPLING_PARAMETERS)
    if unknown:
        raise Misuse(
            f"sampling_params: the wire openai-responses does not know {', '.join(unknown)}",
            hint="what only your host knows goes into extra_body={...}",
        )
    body.update({name: value for name, value in sampling.items() if value is not None})


def _add_thinking(body: dict[str, Any], call: WireCall) -> None:
    """Effort and summary, and the wish to have reasoning back in a form that can be replayed.

    The wish is only for models that reason: others answer 400 to it.
    """
    asked = call.options.get("reasoning")
    try:
        level = vendor_level(call.model, asked)
    except ValueError as error:
        raise Misuse(str(error)) from error
    on = asked not in (None, "off")
    reasoning: dict[str, Any] = {}
    if level and call.flags.get("reasoning_effort") is not False:
        reasoning["effort"] = level
    summary = call.options.get("reasoning_summary", "auto")
    if on and summary is not None and (level or call.model.thinking_levels is None):
        reasoning["summary"] = summary
    if reasoning:
        body["reasoning"] = reasoning
    reasons = bool(call.model.thinking_levels) or (on and call.model.thinking_levels is None)
    if reasons and call.flags.get("reasoning_replay", "encrypted") == "encrypted":
        body["include"] = [ENCRYPTED_REASONING]


def _add_text_form(body: dict[str, Any], options: Mapping[str, Any]) -> None:
    text: dict[str, Any] = {}
    schema: Mapping[str, Any] | None = options.get("output_schema")
    if schema is not None:
        text["format"] = {"type": "json_schema", **json_schema_format(schema, "openai-responses")}
    if options.get("verbosity") is not None:
        text["verbosity"] = options["verbosity"]
    if text:
        body["text"] = text


def _add_caching(body: dict[str, Any], call: WireCall) -> None:
    """The vendor caches by itself; a key brings the requests of one session to the same place."""
    flags, cache = call.flags, call.options.get("cache", "short")
    if cache == "none":
        return
    session = call.options.get("session_id")
    if session and flags.get("prompt_cache_key") is True:
        body["prompt_cache_key"] = clean_text(str(session))[:PROMPT_CACHE_KEY_LENGTH]
    if cache == "long" and flags.get("long_cache") is True:
        if flags.get("x_explicit_prompt_cache_mode") is True:
            body["prompt_cache_options"] = {"ttl": "30m"}
        else:
            body["prompt_cache_retention"] = "24h"
