"""pi-ai-python: tools are decorated functions; streams and events as in pi."""

# The library is not among our dependencies, so a checker cannot know it.
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Mapping, Sequence
from typing import Any

import pi_agent
from pi_agent.tools import agent_tool
from pi_ai import types

from ..pi_shaped import ScriptedStreams, listener
from ..subject import Counter, Listening, Say, Tool, Work

__all__ = ["PEER"]

_WIRES = {
    "openai-chat": ("openai-completions", "openai_completions", "openai"),
    "anthropic-messages": ("anthropic-messages", "anthropic_messages", "anthropic"),
    "openai-responses": ("openai-responses", "openai_responses", "openai"),
    "google-gemini": ("google-generative-ai", "google_generative_ai", "google.genai"),
    "bedrock-converse": ("bedrock-converse-stream", "bedrock_converse_stream", "boto3"),
}
"""Of each wire: what it is called there, the module, and what that needs."""


class _PiAiPython:
    name = "pi-ai-python"
    distribution = "pi-ai-python"
    import_statement = "import pi_agent"

    def agent(
        self,
        script: Sequence[Say],
        tools: Mapping[str, Tool],
        counter: Counter,
        listening: Listening = "sync",
    ) -> Any:
        streams: Any = ScriptedStreams(types, script)  # as much of one as the agent looks at
        agent = pi_agent.Agent(
            initial_state=pi_agent.AgentInitialState(
                model=types.Model(id="scripted", name="s", api="scripted", provider="scripted"),
                tools=[agent_tool(name=name)(function) for name, function in tools.items()],
            ),
            stream_fn=streams,
        )
        if listening != "no":
            agent.subscribe(listener(counter, listening))
        return agent

    def stream(self, wire: str, base_url: str) -> Work | None:
        api, module, needs = _WIRES[wire]
        if not _is_installed(needs):
            return None
        ask = importlib.import_module(f"pi_ai.api.{module}").stream
        model = types.Model(id="some", api=api, provider="some", base_url=base_url)
        context = types.Context(messages=[types.UserMessage(content="Go.")])
        options = {
            "api_key": "k",
            "bearer_token": "k",
            "region": "us-east-1",
            "env": {"AWS_BEDROCK_SKIP_AUTH": "1", "AWS_REGION": "us-east-1"},
        }

        async def work() -> int:
            count = 0
            stream = ask(model, context, options)
            async for event in stream:
                if event.type == "text_delta" and event.delta:
                    count += 1
                elif event.type == "error":
                    raise RuntimeError(f"pi-ai-python failed: {event.error.error_message}")
            return count

        return work


def _is_installed(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False


PEER = _PiAiPython()
