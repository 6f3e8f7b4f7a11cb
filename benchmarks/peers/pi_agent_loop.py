"""pi-agent-loop: tools are classes with a pydantic model; streams and events as in pi."""

# The library is not among our dependencies, so a checker cannot know it.
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pi_agent_loop
import pydantic
from pi_ai import types

from ..pi_shaped import ScriptedStreams, listener, parameters_of
from ..subject import Counter, Listening, Say, Tool

__all__ = ["PEER"]


class _PiAgentLoop:
    name = "pi-agent-loop"
    distribution = "pi-agent-loop"
    import_statement = "import pi_agent_loop"

    def agent(
        self,
        script: Sequence[Say],
        tools: Mapping[str, Tool],
        counter: Counter,
        listening: Listening = "sync",
    ) -> Any:
        model = types.Model(
            id="scripted", name="scripted", api="scripted", provider="scripted", base_url=""
        )
        agent = pi_agent_loop.Agent(
            model=model,
            stream_fn=ScriptedStreams(types, script),
            tools=[_made(name, function) for name, function in tools.items()],
        )
        if listening != "no":
            agent.subscribe(listener(counter, listening))
        return agent


def _made(tool_name: str, function: Tool) -> Any:
    fields: dict[str, Any] = {name: (hint, ...) for name, hint in parameters_of(function).items()}

    class Made(pi_agent_loop.AgentTool):
        name = tool_name
        label = tool_name
        description = function.__doc__ or ""
        params = pydantic.create_model("Params", **fields)

        async def execute(
            self, tool_call_id: str, params: Any, signal: Any = None, on_update: Any = None
        ) -> Any:
            text = await function(**dict(params))
            return pi_agent_loop.AgentToolResult(content=[types.TextContent(text=text)])

    return Made()


PEER = _PiAgentLoop()
