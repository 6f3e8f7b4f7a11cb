"""Layer 2 of 3: the same loop, asking through `Models`.

What `Models` takes over: the dialect (any vendor, same messages), streaming, retries when a vendor
is overloaded, keys, token counts and prices, transcripts moved from one vendor to another. A
failed request is a message with the stop reason `error`, not an exception.

Still ours: the loop, the schema of the tool, and everything that may go wrong with tools.

Prints:
    asking toy/toy-1 (1 message)
    running add({'a': 17, 'b': 25})
    asking toy/toy-1 (3 messages)
    That makes 42.
    50 tokens
"""

import asyncio

from toy_vendor import toy_vendor

from loopwright.messages import Message, TextContent, ToolResultMessage, Usage, UserMessage
from loopwright.models import Context, Models, Provider, ToolSpec

ADD = ToolSpec(
    "add",
    "Add two numbers.",
    {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    },
)


def add(a: int, b: int) -> int:
    return a + b


async def main(base_url: str) -> None:
    # Any server that speaks the dialect is one line; vendors that are known need none.
    models = Models().add(Provider.openai_compatible("toy", base_url=base_url))
    messages: list[Message] = [UserMessage("What is 17 + 25?")]
    used = Usage()
    while True:
        print(f"asking toy/toy-1 ({len(messages)} message{'s' * (len(messages) > 1)})")
        # .complete waits for the whole reply; .stream gives it piece by piece.
        reply = await models.complete("toy/toy-1", Context("", messages, [ADD]))
        messages.append(reply)
        used += reply.usage
        if reply.stop_reason != "toolUse":
            break
        for call in reply.tool_calls:
            print(f"running add({call.arguments})")
            answer = TextContent(str(add(**call.arguments)))
            messages.append(ToolResultMessage(call.id, call.name, [answer]))
    print(reply.text)
    print(used.total_tokens, "tokens")


with toy_vendor() as base_url:
    asyncio.run(main(base_url))
