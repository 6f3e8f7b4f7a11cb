"""Layer 3 of 3: `Agent` takes over the loop.

What it takes over: the schema (from the signature), arguments checked and explained to the model
when they are wrong, calls side by side, tools that fail or hang, exactly one answer for each call,
aborting at any moment, steering in mid-run, limits, and an event for every step.

What is left is yours: the tool and the question.

Prints:
    running add({'a': 17, 'b': 25})
    That makes 42.
    50 tokens
"""

from toy_vendor import toy_vendor

from loopwright import AbortSignal, Agent
from loopwright.events import AgentEvent, ToolExecutionStart
from loopwright.models import Models, Provider


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def show(event: AgentEvent, _signal: AbortSignal) -> None:
    if isinstance(event, ToolExecutionStart):
        print(f"running {event.tool_name}({event.args})")


with toy_vendor() as base_url:
    models = Models().add(Provider.openai_compatible("toy", base_url=base_url))
    agent = Agent(models.resolve("toy/toy-1"), stream_fn=models.stream_simple, tools=[add])
    agent.subscribe(show)
    result = agent.prompt_sync("What is 17 + 25?")
    print(result.text)
    print(result.usage.total_tokens, "tokens")
