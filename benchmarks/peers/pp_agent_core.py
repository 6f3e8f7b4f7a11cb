"""pp-agent-core: tools are dataclasses with a JSON Schema; streams and events as in pi."""

# The library is not among our dependencies, so a checker cannot know it.
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pi_agent
from pi_agent.types import AgentTool, AgentToolResult
from pi_ai import types

from ..pi_shaped import ScriptedStreams, listener, parameters_of
from ..subject import Counter, Listening, Say, Tool

__all__ = ["PEER"]

_JSON_TYPES = {int: "integer", str: "string"}


class _PpAgentCore:
    name = "pp-agent-core"
    distribution = "pp-agent-core"
    import_statement = "import pi_agent"

    def agent(
        self,
        script: Sequence[Say],
        tools: Mapping[str, Tool],
        counter: Counter,
        listening: Listening = "sync",
    ) -> Any:
        state = pi_agent.MutableAgentState(
            system_prompt="",
            model=types.Model(id="scripted", api="scripted", provider="scripted"),
        )
        state.tools = [_made(name, function) for name, function in tools.items()]
        streams: Any = ScriptedStreams(types, script)  # as much of one as the agent looks at
        agent = pi_agent.Agent(streams, initial_state=state)
        if listening != "no":
            agent.subscribe(listener(counter, listening))
        return agent


def _made(name: str, function: Tool) -> Any:
    async def execute(
        tool_call_id: str, params: Any, signal: Any = None, on_update: Any = None
    ) -> Any:
        return AgentToolResult(content=[types.TextContent(text=await function(**params))])

    hints = parameters_of(function)
    schema = {
        "type": "object",
        "properties": {key: {"type": _JSON_TYPES[hint]} for key, hint in hints.items()},
        "required": list(hints),
    }
    return AgentTool(
        name=name, description=function.__doc__ or "", parameters=schema, execute=execute
    )


PEER = _PpAgentCore()
