"""Our spans in the words of OpenTelemetry's conventions for generative AI.

The conventions are in development; this follows the state of August 2026 of
https://github.com/open-telemetry/semantic-conventions-genai (docs/gen-ai: client-inference,
gen-ai-agent-spans, execute-tool). Turns, compactions and commits have no word there and keep ours.

Not here: OpenTelemetry itself (otel).
"""

from __future__ import annotations

from .tracer import Attributes, AttributeValue

__all__ = ["GenAiValue", "attributes_of", "is_client", "span_name"]

GenAiValue = AttributeValue | tuple[str, ...]

_OPERATIONS = {
    "loopwright.run": "invoke_agent",
    "loopwright.request": "chat",
    "loopwright.tool": "execute_tool",
}

_SUBJECT = {
    "loopwright.run": "loopwright.agent.name",
    "loopwright.request": "loopwright.model",
    "loopwright.tool": "loopwright.tool.name",
}
"""What stands behind the operation in a span's name."""

_NAMES = {
    "loopwright.session.id": "gen_ai.conversation.id",
    "loopwright.agent.name": "gen_ai.agent.name",
    "loopwright.model": "gen_ai.request.model",
    "loopwright.request.max_tokens": "gen_ai.request.max_tokens",
    "loopwright.request.temperature": "gen_ai.request.temperature",
    "loopwright.request.reasoning": "gen_ai.request.reasoning.level",
    "loopwright.response.model": "gen_ai.response.model",
    "loopwright.response.id": "gen_ai.response.id",
    "loopwright.tool.name": "gen_ai.tool.name",
    "loopwright.tool.call_id": "gen_ai.tool.call.id",
    "loopwright.usage.output_tokens": "gen_ai.usage.output_tokens",
    "loopwright.usage.cache_read_tokens": "gen_ai.usage.cache_read.input_tokens",
    "loopwright.usage.cache_write_tokens": "gen_ai.usage.cache_write.input_tokens",
    "loopwright.usage.reasoning_tokens": "gen_ai.usage.reasoning.output_tokens",
}

_PROVIDERS = {
    "amazon-bedrock": "aws.bedrock",
    "azure": "azure.ai.openai",
    "bedrock-mantle": "aws.bedrock",
    "google": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "google-vertex-anthropic": "gcp.vertex_ai",
    "mistral": "mistral_ai",
    "moonshotai": "moonshot_ai",
    "moonshotai-cn": "moonshot_ai",
    "openai-codex": "openai",
    "xai": "x_ai",
}
"""Where the conventions have another name for a provider than ours; unlisted ones keep ours."""

_FINISH_REASONS = {"toolUse": "tool_call"}


def span_name(name: str, attributes: Attributes) -> str:
    """The name of a span: `chat large-2`, `execute_tool read`, `invoke_agent`."""
    operation = _OPERATIONS.get(name)
    if operation is None:
        return name
    subject = attributes.get(_SUBJECT[name])
    return operation if subject is None else f"{operation} {subject}"


def is_client(name: str) -> bool:
    """The span is a call to another system."""
    return name == "loopwright.request"


def attributes_of(
    name: str, attributes: Attributes, *, starts: bool, with_system: bool
) -> dict[str, GenAiValue]:
    """*attributes* of a span called *name*, and what the conventions make of them.

    *starts*: the span begins with them. *with_system*: the provider stands under its name of 2024,
    `gen_ai.system`, too.
    """
    found: dict[str, GenAiValue] = dict(attributes)
    operation = _OPERATIONS.get(name)
    conversation = attributes.get("loopwright.session.id")
    if operation is None:
        if conversation is not None:
            found["gen_ai.conversation.id"] = conversation
        return found
    if starts:
        found["gen_ai.operation.name"] = operation
        if operation == "chat":
            found["gen_ai.request.stream"] = True
        elif operation == "execute_tool":
            found["gen_ai.tool.type"] = "function"
    for ours, value in attributes.items():
        theirs = _NAMES.get(ours)
        if theirs is not None:
            found[theirs] = value
    provider = attributes.get("loopwright.provider")
    if isinstance(provider, str):
        known = _PROVIDERS.get(provider, provider)
        found["gen_ai.provider.name"] = known
        if with_system:
            found["gen_ai.system"] = known
    _add_measures(attributes, found)
    return found


def _add_measures(attributes: Attributes, found: dict[str, GenAiValue]) -> None:
    reason = attributes.get("loopwright.response.stop_reason")
    if isinstance(reason, str):
        found["gen_ai.response.finish_reasons"] = (_FINISH_REASONS.get(reason, reason),)
    first = attributes.get("loopwright.stream.time_to_first_chunk_ms")
    if isinstance(first, int | float):
        found["gen_ai.response.time_to_first_chunk"] = first / 1000
    spent = attributes.get("loopwright.usage.input_tokens")
    if isinstance(spent, int):  # ours leaves cached tokens out, theirs has them in
        for kind in ("cache_read", "cache_write"):
            cached = attributes.get(f"loopwright.usage.{kind}_tokens")
            spent += cached if isinstance(cached, int) else 0
        found["gen_ai.usage.input_tokens"] = spent
