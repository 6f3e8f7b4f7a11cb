"""A message of a program's own in the transcript: stored with it, and shown to the model if wanted.

Prints:
    transcript: ['clipping', 'user', 'assistant']
    the model is shown: ['user', 'user']
    the model reads: From page 12: Cats sleep 15 hours a day.
    read back: Clipping(text='Cats sleep 15 hours a day.', page=12)
"""

from loopwright import Agent, CustomMessage, default_convert_to_llm
from loopwright.messages import AgentMessage, Message, UserMessage, message_from_json
from loopwright.testing import Reply, ScriptedModel


class Clipping(CustomMessage, tag="clipping"):
    """Something the user marked in a book. The tag is its role."""

    text: str
    page: int


def convert_to_llm(messages: list[AgentMessage]) -> list[Message]:
    """What the model is shown. The default leaves messages out that only the program knows."""
    return default_convert_to_llm(
        [
            UserMessage(f"From page {message.page}: {message.text}")
            if isinstance(message, Clipping)
            else message
            for message in messages
        ]
    )


model = ScriptedModel([Reply("15 hours.")])
agent = Agent(
    model.model,
    stream_fn=model.stream_fn,
    convert_to_llm=convert_to_llm,
    messages=[Clipping(text="Cats sleep 15 hours a day.", page=12)],
)
agent.prompt_sync("How long do cats sleep?")

shown = model.requests[0].context.messages
print("transcript:", [message.role for message in agent.state.messages])
print("the model is shown:", [message.role for message in shown])
print("the model reads:", shown[0].text)

# Its role is registered, so that a stored one comes back as what it was.
stored = agent.state.messages[0].to_json()
back = message_from_json(stored)
assert isinstance(back, Clipping)
print(f"read back: Clipping(text={back.text!r}, page={back.page})")
