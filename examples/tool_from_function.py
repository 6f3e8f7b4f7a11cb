"""A function becomes a tool: its signature is the schema, its docstring the description.

Prints:
    forecast: The weather of the next days.
      required: ['city']
      days: {'default': 1, 'description': 'How many, from today on.', 'maximum': 7, 'minimum': 1, 'type': 'integer'}
    the model asked for {'city': 'Oslo', 'days': '2'}
    progress: asking for Oslo
    the model was told: {"city":"Oslo","days":["snow","snow"]}
    the model asked for {'city': 'Oslo', 'days': 30}
    the model was told: an error
    It will snow.
"""

from typing import Annotated

from pydantic import Field

from loopwright import AbortSignal, Agent, ToolContext, tool
from loopwright.events import (
    AgentEvent,
    ToolExecutionEnd,
    ToolExecutionStart,
    ToolExecutionUpdate,
)
from loopwright.testing import Call, Reply, ScriptedModel


# Plain functions can be given to an agent as they are; @tool is for when there is more to say.
@tool(timeout=10)
async def forecast(
    city: str, days: Annotated[int, Field(ge=1, le=7)] = 1, *, ctx: ToolContext
) -> dict[str, object]:
    """The weather of the next days.

    Args:
        city: Where.
        days: How many, from today on.
    """
    ctx.update(f"asking for {city}")  # progress, for whoever watches; the model does not see it
    return {"city": city, "days": ["snow"] * days}  # anything JSON can say may be returned


def show(event: AgentEvent, _signal: AbortSignal) -> None:
    match event:
        case ToolExecutionStart():
            print("the model asked for", event.args)
        case ToolExecutionUpdate():
            print("progress:", event.partial_result.text)
        case ToolExecutionEnd():
            # Arguments that do not fit never reach the function. The model is told what is wrong
            # with them, and may try again.
            print("the model was told:", "an error" if event.is_error else event.result.text)
        case _:
            pass


spec = forecast.spec  # what a model is shown of the tool; `ctx` is ours and is left out
print(f"{spec.name}: {spec.description}")
print("  required:", spec.parameters["required"])
print("  days:", dict(sorted(spec.parameters["properties"]["days"].items())))

model = ScriptedModel(
    [
        Reply(calls=[Call("forecast", {"city": "Oslo", "days": "2"})]),  # "2" is as good as 2
        Reply(calls=[Call("forecast", {"city": "Oslo", "days": 30})]),
        Reply("It will snow."),
    ]
)
agent = Agent(model.model, stream_fn=model.stream_fn, tools=[forecast])
agent.subscribe(show)
print(agent.prompt_sync("How is the weather in Oslo?").text)
