"""The loop without the agent: a function that reports to a callback, and the same as a stream.

`Agent` is built on these. They keep nothing: the context goes in, the new messages come out.

Prints:
    callback: 16 events, new messages: ['user', 'assistant', 'toolResult', 'assistant']
    the caller's context is as it was: 0 messages
    stream: agent_start, turn_start, turn_end, agent_end
    stream: What else?
"""

import asyncio

from loopwright import (
    AgentContext,
    AgentLoopConfig,
    AgentTool,
    agent_loop,
    run_agent_loop,
    tool,
)
from loopwright.events import AgentEvent
from loopwright.messages import AssistantMessage, UserMessage
from loopwright.testing import Call, Reply, ScriptedModel


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def main() -> None:
    model = ScriptedModel(
        [Reply(calls=[Call("add", {"a": 1, "b": 2})]), Reply("3."), Reply("What else?")]
    )
    config = AgentLoopConfig(model.model, max_turns=10)  # every option of a run is in here
    tools: list[AgentTool] = [add]
    context = AgentContext("You add numbers.", [], tools)

    # 1. The callback is awaited before the run goes on: what it has written to disk is there
    #    before the next request is made. If it raises, the run ends and the exception comes out.
    seen: list[AgentEvent] = []

    async def emit(event: AgentEvent) -> None:
        if event.type != "message_update":
            seen.append(event)

    new = await run_agent_loop(
        [UserMessage("1 + 2?")], context, config, emit, None, model.stream_fn
    )
    print(f"callback: {len(seen)} events, new messages: {[message.role for message in new]}")
    print(f"the caller's context is as it was: {len(context.messages)} messages")

    # 2. The stream only watches: the run does not wait for whoever reads it.
    stream = agent_loop([UserMessage("Thanks.")], context, config, model.stream_fn)
    types = [event.type async for event in stream if not event.type.startswith("message")]
    print("stream:", ", ".join(types))
    last = (await stream.result())[-1]
    assert isinstance(last, AssistantMessage)
    print("stream:", last.text)


asyncio.run(main())
