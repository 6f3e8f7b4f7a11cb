"""Anthropic Messages, requests: a context -> the bytes of the body.                        (pure)

Only fields the dialect defines are sent, and none that has nothing to say. How messages become
turns stands in `anthropic_messages_turns`, how a model thinks in `anthropic_messages_thinking`.

Flags read here: `adaptive_thinking`, `temperature`, `tool_choice_required`, `tools`,
`eager_tool_input`, `long_cache`, `cache_control_on_tools`, `dialect`, and in the turns
`tool_call_id`, `empty_signature`, `reasoning_replay`, `text_only_error_results`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from ...errors import Misuse
from ...records import clean_text, to_jsonable
from ..schema_dialects import answer_schema
from ..tool_schemas import ANTHROPIC_PROPERTY, declared_tools
from . import WireCall
from .anthropic_messages_thinking import (
    ANSWER_TOKENS,
    LEAST_BUDGET,
    Abilities,
    Thinking,
    abilities_of,
    thinking_of,
)
from .anthropic_messages_turns import ALL_MESSAGES, TurnRules, Turns, turns_of

__all__ = [
    "SAMPLING_PARAMETERS",
    "encode",
    "forget_thinking",
    "samples",
    "sends_thinking",
    "vendor_schema",
]

SAMPLING_PARAMETERS = frozenset({"top_p", "top_k", "stop", "stop_sequences"})
"""What `sampling_params` may hold here; hosts that know more take it by `extra_body`."""

DEFAULT_MAX_TOKENS = 8192
"""The dialect demands a limit. Used where neither the request nor the model's row gives one."""

MOST_DEFAULT_TOKENS = 32_000
"""The limit unless one is asked for, however much more a model could write."""

VERTEX_VERSION = "vertex-2023-10-16"

_UNSIGNED = "anthropic-messages: thinking is refused before"


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
    options = call.options
    can = abilities_of(call.model, call.flags)
    turns = _turns(call)
    thinking = _thinking(call, can, turns)
    max_tokens, thinking = _limits(call, thinking)
    mark = _cache_mark(call)
    body: dict[str, Any] = {}
    if call.flags.get("dialect") == "vertex":
        body["anthropic_version"] = VERTEX_VERSION  # the model stands in the address
    else:
        body["model"] = call.endpoint.model_id or call.model.id
    body["max_tokens"] = max_tokens
    body["stream"] = True
    prompt = clean_text(call.context.system_prompt)
    if prompt.strip():
        block: dict[str, Any] = {"type": "text", "text": prompt}
        body["system"] = [block | ({"cache_control": mark} if mark else {})]
    _add_tools(body, call, can, thinking, mark)
    body["messages"] = turns.encoded(msgspec.json.encode(mark) if mark else None)
    if thinking.fields is not None:
        budget = {} if thinking.budget is None else {"budget_tokens": thinking.budget}
        body["thinking"] = {**thinking.fields, **budget}
    _add_output(body, call, thinking)
    _add_sampling(body, call, can, thinking)
    metadata: Mapping[str, Any] = options.get("metadata") or {}
    if metadata.get("user_id") is not None:
        body["metadata"] = {"user_id": str(metadata["user_id"])}
    body.update(cast("dict[str, Any]", options.get("extra_body") or {}))
    return body


# -- past thinking -----------------------------------------------------------------------------


def _turns(call: WireCall) -> Turns:
    before = call.messages.memo.get(_UNSIGNED, 0)
    if call.options.get("replay_thinking") is False:
        before = ALL_MESSAGES
    return turns_of(call.messages, TurnRules.of(call.model, call.flags, unsigned_before=before))


def sends_thinking(call: WireCall) -> bool:
    """Whether the request holds thinking of earlier replies."""
    return _turns(call).has_thinking


def forget_thinking(call: WireCall) -> None:
    """The vendor refuses a signature in *call*: what is in there now is sent without its thinking
    from here on, in further attempts at this request and in later ones of the same transcript."""
    call.messages.memo[_UNSIGNED] = len(call.messages)
    if isinstance(call.options, dict):
        call.options["replay_thinking"] = False  # what all attempts at this request share


# -- thinking ----------------------------------------------------------------------------------


def _thinking(call: WireCall, can: Abilities, turns: Turns) -> Thinking:
    budgets: Mapping[str, int] = call.options.get("thinking_budgets") or {}
    try:
        thinking = thinking_of(call.model, can, call.options.get("reasoning"), budgets)
    except ValueError as error:
        raise Misuse(str(error)) from error
    if thinking.budget is not None and not turns.thinking_may_start:
        return Thinking({"type": "disabled"})
    return thinking


def _limits(call: WireCall, thinking: Thinking) -> tuple[int, Thinking]:
    """The output limit, which a budget counts against, and thinking as far as there is room."""
    most = call.model.max_tokens
    wanted = call.options.get("max_tokens")
    if wanted is None:
        wanted = min(most, MOST_DEFAULT_TOKENS) if most else DEFAULT_MAX_TOKENS
    budget = thinking.budget
    if budget is None:
        return wanted, thinking
    limit = wanted + budget
    if most is not None and limit > most:
        limit = max(most, 1)
        budget = min(budget, limit - ANSWER_TOKENS)
        if budget < LEAST_BUDGET:
            return min(wanted, limit), Thinking({"type": "disabled"})
    return limit, msgspec.structs.replace(thinking, budget=budget)


# -- caching -----------------------------------------------------------------------------------


def _cache_mark(call: WireCall) -> dict[str, Any] | None:
    """The breakpoint behind the prompt, the tools and the last words of the user's side."""
    kind = call.options.get("cache") or "short"
    if kind == "none":
        return None
    if kind == "long" and call.flags.get("long_cache") is not False:
        return {"type": "ephemeral", "ttl": "1h"}
    return {"type": "ephemeral"}


# -- tools -------------------------------------------------------------------------------------


def _add_tools(
    body: dict[str, Any],
    call: WireCall,
    can: Abilities,
    thinking: Thinking,
    mark: dict[str, Any] | None,
) -> None:
    if call.flags.get("tools") is False:
        return
    eager = call.flags.get("eager_tool_input") is True
    tools: list[dict[str, Any]] = []
    for tool in declared_tools(call.context.tools, ANTHROPIC_PROPERTY):
        fields: dict[str, Any] = {"name": tool.name}
        if tool.description.strip():
            fields["description"] = tool.description
        fields["input_schema"] = tool.parameters
        if eager:
            fields["eager_input_streaming"] = True
        tools.append(fields)
    tools += [dict(tool) for tool in call.options.get("server_tools") or ()]
    if not tools:
        return
    if mark and call.flags.get("cache_control_on_tools") is not False:
        tools[-1].setdefault("cache_control", mark)
    body["tools"] = tools
    choice = _tool_choice(call, can, thinking, [tool.get("name") for tool in tools])
    if choice is not None:
        body["tool_choice"] = choice


def _tool_choice(
    call: WireCall, can: Abilities, thinking: Thinking, names: list[Any]
) -> dict[str, Any] | None:
    """`auto`, `none`, `required` (or `any`), or one tool: by its name, or as `{"name": ...}`."""
    asked: Any = call.options.get("tool_choice")
    alone = call.options.get("parallel_tool_calls") is False
    if asked is None:
        return {"type": "auto", "disable_parallel_tool_use": True} if alone else None
    choice: Any = asked
    if isinstance(asked, dict):
        fields = cast("dict[str, Any]", asked)
        function = cast("dict[str, Any]", fields.get("function") or {})
        choice = fields.get("name") or function.get("name") or fields.get("type")
    if choice == "none":
        return {"type": "none"}
    rule = call.flags.get("tool_choice_required")
    if choice == "auto" or rule is False or thinking.on or not can.forced_tools:
        body: dict[str, Any] = {"type": "auto"}  # who thinks may not be forced to call
    elif choice in ("required", "any"):
        body = {"type": "any"}
    elif choice in names:
        body = {"type": "tool", "name": choice}
    else:
        raise Misuse(
            f"tool_choice is {choice!r}, which is no tool on offer",
            hint=f"use 'auto', 'none', 'required', or one of: {', '.join(map(str, names))}",
        )
    return body | ({"disable_parallel_tool_use": True} if alone else {})


# -- output and sampling -----------------------------------------------------------------------


def _add_output(body: dict[str, Any], call: WireCall, thinking: Thinking) -> None:
    config: dict[str, Any] = {}
    if thinking.effort is not None:
        config["effort"] = thinking.effort
    wanted: Mapping[str, Any] | None = call.options.get("output_schema")
    if wanted is not None:
        schema = vendor_schema(wanted["schema"], "anthropic-messages")
        config["format"] = {"type": "json_schema", "schema": schema}
    if config:
        body["output_config"] = config


def vendor_schema(schema: dict[str, Any], api: str) -> dict[str, Any]:
    """*schema* as the grammar of the wire *api* takes it. Raises `Misuse` where it cannot."""
    made = answer_schema(schema, api)
    if made is None:
        raise Misuse(
            f"output_schema: {api} cannot enforce this schema without losing values (objects with "
            "free keys, values of any type, recursive types)",
            hint="Agent(output_type=...) asks for such an answer by a tool",
        )
    return made


def samples(call: WireCall) -> bool:
    """Whether the request says how to sample, which the newest version of the API refuses."""
    can = abilities_of(call.model, call.flags)
    if not can.sampling or _thinking(call, can, _turns(call)).on:
        return False
    sampling: Mapping[str, Any] = call.options.get("sampling_params") or {}
    return any(
        value is not None
        for value in (call.options.get("temperature"), sampling.get("top_p"), sampling.get("top_k"))
    )


def _add_sampling(body: dict[str, Any], call: WireCall, can: Abilities, thinking: Thinking) -> None:
    sampling: Mapping[str, Any] = call.options.get("sampling_params") or {}
    unknown = sorted(sampling.keys() - SAMPLING_PARAMETERS)
    if unknown:
        raise Misuse(
            f"sampling_params: the wire anthropic-messages does not know {', '.join(unknown)}",
            hint="what only your host knows goes into extra_body={...}",
        )
    stops = sampling.get("stop_sequences") or sampling.get("stop")
    if stops:
        body["stop_sequences"] = [stops] if isinstance(stops, str) else list(stops)
    if not can.sampling or thinking.on:
        return
    temperature = call.options.get("temperature")
    if temperature is not None:
        body["temperature"] = min(temperature, 1)  # others go up to 2, this vendor refuses it
    for name in ("top_p", "top_k"):
        if sampling.get(name) is not None:
            body[name] = sampling[name]
