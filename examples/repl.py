"""A conversation of several turns, line by line: on a terminal, or from a pipe.

    printf 'hello\\nand bye\\n' | python examples/repl.py

Prints:
    Say something; Ctrl-D ends.
    0 messages were said.
"""

import sys
from collections.abc import Iterator

from loopwright import AbortSignal, Agent
from loopwright.events import AgentEvent, MessageUpdate
from loopwright.messages import UserMessage
from loopwright.models import Context
from loopwright.stream import TextDelta
from loopwright.testing import Reply, ScriptedModel


def answer(context: Context) -> Reply:
    """Stands in for a model. It is shown the whole conversation, each time."""
    said = [message.text for message in context.messages if isinstance(message, UserMessage)]
    return Reply(f"That was line {len(said)}; the first one was {said[0]!r}.", chunk_size=6)


def lines() -> Iterator[str]:
    """What the user types, until the input ends."""
    while True:
        try:
            yield input("> ") if sys.stdin.isatty() else input()
        except EOFError:
            return


def show(event: AgentEvent, _signal: AbortSignal) -> None:
    match event:
        case MessageUpdate(TextDelta(delta=delta)):
            print(delta, end="", flush=True)
        case _:
            pass


model = ScriptedModel()
agent = Agent(model.model, stream_fn=model.stream_fn)
agent.subscribe(show)

print("Say something; Ctrl-D ends.")
for line in lines():
    model.extend([answer])
    agent.prompt_sync(line)  # the agent keeps the transcript from one prompt to the next
    print()
print(len(agent.state.messages), "messages were said.")
