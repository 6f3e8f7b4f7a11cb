"""The smallest agent: one tool, one prompt, and the events of the run in their order.

Prints:
    agent_start
    turn_start
    message_start user
    message_end user
    message_start assistant
    message_end assistant
    tool_execution_start
    tool_execution_end
    message_start toolResult
    message_end toolResult
    turn_end
    turn_start
    message_start assistant
    message_end assistant
    turn_end
    agent_end
    The answer: 17 + 25 is 42.
"""

from loopwright import AbortSignal, Agent
from loopwright.events import AgentEvent, MessageEnd, MessageStart, MessageUpdate
from loopwright.testing import Call, Reply, ScriptedModel


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def show(event: AgentEvent, _signal: AbortSignal) -> None:
    match event:
        case MessageUpdate():
            pass  # a piece of a reply that is being written; there are many of them
        case MessageStart(message) | MessageEnd(message):
            print(event.type, message.role)
        case _:
            print(event.type)


# What the model will say. For a real one, leave this out and write Agent("openai/gpt-5", ...).
model = ScriptedModel(
    [
        Reply(calls=[Call("add", {"a": 17, "b": 25})]),
        Reply("17 + 25 is 42."),
    ]
)

agent = Agent(model.model, stream_fn=model.stream_fn, tools=[add])
agent.subscribe(show)
result = agent.prompt_sync("What is 17 + 25?")
print("The answer:", result.text)
