"""Gemini, requests: a context -> the bytes of the body.                                      (pure)

Only fields the dialect defines are sent, and none that has nothing to say. How messages become
contents stands in `google_gemini_contents`, what a model takes in `google_gemini_families`.

The vendor caches by itself whatever requests have in common at their start, so `cache` and
`session_id` have nothing to say here; a cache made beforehand is named by `cached_content`.

Flags read here: `tool_schema` (`openapi` for hosts that know only the older field), `tools`,
`tool_choice_required`, `temperature`, `eager_tool_input` (Vertex streams arguments piece by piece),
`dialect`, `thinking_control`, and in the contents `tool_call_id`, `reasoning_replay`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from ...errors import Misuse
from ...records import clean_text, to_jsonable
from ..tool_schemas import declared_tools
from . import WireCall
from .google_gemini_contents import ALL_MESSAGES, ContentRules, Contents, contents_of
from .google_gemini_families import Family, family_of, thinking_config
from .google_gemini_schema import json_schema, openapi_schema

__all__ = ["SAMPLING_PARAMETERS", "encode", "forget_signatures", "sends_signatures"]

SAMPLING_PARAMETERS = {
    "top_p": "topP",
    "top_k": "topK",
    "seed": "seed",
    "presence_penalty": "presencePenalty",
    "frequency_penalty": "frequencyPenalty",
}
"""What `sampling_params` may hold beside `stop`, and the dialect's names for it."""

VERTEX = "google-vertex"
"""The dialect of Google Cloud, which differs in what little is named below."""

_UNSIGNED = "google-gemini: signatures are refused before"

ANSWER_FORMAT = "Answer with one JSON value that fits this JSON Schema, and nothing else: "


def encode(call: WireCall) -> bytes:
    """The body of the request. Raises `Misuse` for an option that cannot be expressed."""
    body = payload(call)
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:  # half a surrogate pair in a tool or an option
        contents = body.pop("contents")
        return msgspec.json.encode({**to_jsonable(body), "contents": contents})


def payload(call: WireCall) -> dict[str, Any]:
    """The body as plain data; its contents are encoded already (`msgspec.Raw`)."""
    options = call.options
    family = family_of(call.model, call.flags)
    tools = _tools(call)
    schema = _output_schema(options)
    body: dict[str, Any] = {}
    cached = options.get("cached_content")
    if cached is not None:  # it holds the system prompt and the tools as well
        body["cachedContent"] = str(cached)
    else:
        prompt = clean_text(call.context.system_prompt)
        if schema is not None and tools and not family.schema_beside_tools:
            wanted = ANSWER_FORMAT + msgspec.json.encode(to_jsonable(schema)).decode()
            prompt = f"{prompt}\n\n{wanted}" if prompt.strip() else wanted
            schema = None
        if prompt.strip():
            body["systemInstruction"] = {"parts": [{"text": prompt}]}
        _add_tools(body, call, family, tools)
    body["contents"] = _contents(call, family).encoded()
    config = _generation_config(call, family, schema)
    if config:
        body["generationConfig"] = config
    if options.get("safety_settings"):
        body["safetySettings"] = options["safety_settings"]
    body.update(cast("dict[str, Any]", options.get("extra_body") or {}))
    return body


# -- past signatures ---------------------------------------------------------------------------


def _contents(call: WireCall, family: Family) -> Contents:
    before = call.messages.memo.get(_UNSIGNED, 0)
    if call.options.get("replay_thinking") is False:
        before = ALL_MESSAGES
    rules = ContentRules.of(call.model, family, call.flags, unsigned_before=before)
    return contents_of(call.messages, rules)


def sends_signatures(call: WireCall) -> bool:
    """Whether the request holds signatures of earlier replies."""
    return _contents(call, family_of(call.model, call.flags)).has_signatures


def forget_signatures(call: WireCall) -> None:
    """The vendor refuses a signature in *call*: what is in there now is sent without them from
    here on, in further attempts at this request and in later ones of the same transcript."""
    call.messages.memo[_UNSIGNED] = len(call.messages)
    if isinstance(call.options, dict):
        call.options["replay_thinking"] = False  # what all attempts at this request share


# -- tools -------------------------------------------------------------------------------------


def _tools(call: WireCall) -> list[dict[str, Any]]:
    """The functions on offer, declared."""
    if call.flags.get("tools") is False:
        return []
    older = call.flags.get("tool_schema") == "openapi"
    declared: list[dict[str, Any]] = []
    for tool in declared_tools(call.context.tools):
        fields: dict[str, Any] = {"name": tool.name}
        if tool.description.strip():
            fields["description"] = tool.description
        schema = tool.parameters
        if not older:
            fields["parametersJsonSchema"] = json_schema({"type": "object", **schema})
        elif schema.get("properties"):  # an object without any is refused
            fields["parameters"] = openapi_schema(schema)
        declared.append(fields)
    return declared


def _add_tools(
    body: dict[str, Any], call: WireCall, family: Family, declared: list[dict[str, Any]]
) -> None:
    if call.flags.get("tools") is False:
        return
    own: list[Any] = list(call.options.get("server_tools") or ())
    if declared or own:
        body["tools"] = [*([{"functionDeclarations": declared}] if declared else []), *own]
    config: dict[str, Any] = {}
    vertex = call.flags.get("dialect") == VERTEX
    if declared:
        calling = _calling(call, [tool["name"] for tool in declared])
        if vertex and family.signed_calls and call.flags.get("eager_tool_input") is True:
            calling.setdefault("mode", "AUTO")
            calling["streamFunctionCallArguments"] = True
        if calling:
            config["functionCallingConfig"] = calling
    if declared and own and family.signed_calls and not vertex:
        # Both kinds go together only if the vendor's own calls are part of the reply.
        config["includeServerSideToolInvocations"] = True
    if config:
        body["toolConfig"] = config


def _calling(call: WireCall, names: list[str]) -> dict[str, Any]:
    """`auto`, `none`, `required` (or `any`), or one tool: by its name, or as `{"name": ...}`."""
    choice: Any = call.options.get("tool_choice")
    if choice is None:
        return {}
    if isinstance(choice, dict):
        fields = cast("dict[str, Any]", choice)
        function = cast("dict[str, Any]", fields.get("function") or {})
        choice = fields.get("name") or function.get("name") or fields.get("type")
    if choice == "none":
        return {"mode": "NONE"}
    if choice == "auto" or call.flags.get("tool_choice_required") is False:
        return {"mode": "AUTO"}
    if choice in ("required", "any"):
        return {"mode": "ANY"}
    if choice in names:
        return {"mode": "ANY", "allowedFunctionNames": [choice]}
    raise Misuse(
        f"tool_choice is {choice!r}, which is no tool on offer",
        hint=f"use 'auto', 'none', 'required', or one of: {', '.join(names)}",
    )


# -- output and sampling -----------------------------------------------------------------------


def _output_schema(options: Mapping[str, Any]) -> dict[str, Any] | None:
    wanted: Mapping[str, Any] | None = options.get("output_schema")
    return None if wanted is None else json_schema(wanted["schema"])


def _generation_config(
    call: WireCall, family: Family, schema: dict[str, Any] | None
) -> dict[str, Any]:
    options = call.options
    config: dict[str, Any] = {}
    if options.get("max_tokens") is not None:
        config["maxOutputTokens"] = options["max_tokens"]
    budgets: Mapping[str, int] = options.get("thinking_budgets") or {}
    try:
        thinking = thinking_config(call.model, family, options.get("reasoning"), budgets)
    except ValueError as error:
        raise Misuse(str(error)) from error
    if thinking is not None:
        config["thinkingConfig"] = thinking
    if schema is not None:
        config["responseMimeType"] = "application/json"
        config["responseJsonSchema"] = schema
    _add_sampling(config, call)
    return config


def _add_sampling(config: dict[str, Any], call: WireCall) -> None:
    sampling: Mapping[str, Any] = call.options.get("sampling_params") or {}
    unknown = sorted(sampling.keys() - SAMPLING_PARAMETERS.keys() - {"stop", "stop_sequences"})
    if unknown:
        raise Misuse(
            f"sampling_params: the wire google-gemini does not know {', '.join(unknown)}",
            hint="what only your host knows goes into extra_body={...}",
        )
    stops = sampling.get("stop_sequences") or sampling.get("stop")
    if stops:
        config["stopSequences"] = [stops] if isinstance(stops, str) else list(stops)
    if call.flags.get("temperature") is False:
        return
    if call.options.get("temperature") is not None:
        config["temperature"] = call.options["temperature"]
    for name, theirs in SAMPLING_PARAMETERS.items():
        if sampling.get(name) is not None:
            config[theirs] = sampling[name]
