"""A real small model on this machine calls a tool: no key, and after the first run no network.

The model has 135 million parameters, so it learns from the conversation what to do: two sums that
were solved with the tool stand before the question. Larger models need no such history.
"""

import asyncio

from loopwright import Agent, AgentToolResult
from loopwright.events import AgentEvent, ToolExecutionEnd, ToolExecutionStart
from loopwright.messages import (
    AssistantMessage,
    Message,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)


def add(a: int, b: int) -> int:
    """Add two numbers"""
    return a + b


def solved(call_id: str, a: int, b: int) -> list[Message]:
    """How it looks when a sum is solved with the tool."""
    call = ToolCall(id=call_id, name="add", arguments={"a": a, "b": b})
    return [
        UserMessage(f"Add {a} and {b}"),
        AssistantMessage([call], stop_reason="toolUse"),
        ToolResultMessage(call_id, "add", [TextContent(str(a + b))]),
        AssistantMessage([TextContent(f"The sum is {a + b}.")]),
    ]


def show(event: AgentEvent) -> None:
    match event:
        case ToolExecutionStart():
            print(f"the model calls {event.tool_name} with {event.args}")
        case ToolExecutionEnd(result=AgentToolResult(content=[TextContent(text=answer)])):
            print(f"the tool answers {answer}")
        case _:
            pass


async def main() -> None:
    agent = Agent(
        "local/smollm2-135m-instruct",
        system_prompt="Call the add tool for every sum.",
        tools=[add],
        messages=[*solved("call1", 3, 4), *solved("call2", 8, 9)],
        stream_options={"temperature": 0},  # the likeliest word each time: the same reply each time
    )
    agent.subscribe(lambda event, _signal: show(event))

    result = await agent.prompt("Add 17 and 25")

    if result.stop_reason == "error":  # a failed request is news, not an exception
        raise SystemExit(result.error_message)
    print(f"the model says: {result.text}")


asyncio.run(main())
