"""pi-ai-python: tools are decorated functions; streams and events as in pi."""

# The library is not among our dependencies, so a checker cannot know it.
# pyright: reportMissingImports=false, reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pi_agent
from pi_agent.tools import agent_tool
from pi_ai import types

from ..pi_shaped import ScriptedStreams, listener
from ..subject import Counter, Listening, Say, Tool

__all__ = ["PEER"]


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
        agent = pi_agent.Agent(
            initial_state=pi_agent.AgentInitialState(
                model=types.Model(id="scripted", name="s", api="scripted", provider="scripted"),
                tools=[agent_tool(name=name)(function) for name, function in tools.items()],
            ),
            stream_fn=ScriptedStreams(types, script),
        )
        if listening != "no":
            agent.subscribe(listener(counter, listening))
        return agent


PEER = _PiAiPython()
