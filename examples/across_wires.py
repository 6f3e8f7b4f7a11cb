"""One conversation, handed from vendor to vendor: three dialects, one transcript.

Nothing is converted when the model changes. The transcript keeps what happened; each request shows
a model what it may see. Tool calls and results go to everybody, ids rewritten where a vendor is
particular about them. Thinking goes back only to the model whose it is, signature and all, since no
other takes it.

Needs `pip install 'loopwright[anthropic,openai]'`. The vendors are toys on this machine; for real
ones, leave them out and write the models' names: `agent.state.model = "openai/gpt-5"`.

Prints:
    you: What is 17 + 25?
      anthropic-messages is shown: user
      anthropic-messages is shown: user, thinking, call, result
    large: That makes 42.
    you: And 42 + 8?
      openai-responses is shown: user, call, result, assistant, user
      openai-responses is shown: user, call, result, assistant, user, thinking, call, result
    medium: That makes 50.
    you: What were the sums?
      openai-chat is shown: user, call, result, assistant, user, call, result, assistant, user
    small: We came to 42 and 50.
    you: Say it again.
      anthropic-messages is shown: user, thinking, call, result, thinking, assistant, user, call, \
result, assistant, user, assistant, user
    large: We came to 42 and 50.
    the transcript holds 6 thoughts; large was shown its own: signed-1, signed-2
"""

from toy_vendors import toy_vendors

from loopwright import Agent
from loopwright.messages import AssistantMessage
from loopwright.models import Models, Provider


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


with toy_vendors() as vendors:
    models = Models(
        Provider(id=id, api=api, base_url=vendors.base_url(api), needs_key=False, any_model=True)
        for id, api in [
            ("one", "anthropic-messages"),
            ("two", "openai-responses"),
            ("three", "openai-chat"),
        ]
    )
    large, medium, small = map(models.resolve, ("one/large", "two/medium", "three/small"))
    agent = Agent(large, stream_fn=models.stream_simple, tools=[add])

    for model, question in [
        (large, "What is 17 + 25?"),
        (medium, "And 42 + 8?"),
        (small, "What were the sums?"),
        (large, "Say it again."),
    ]:
        before = len(vendors.asked)
        agent.state.model = model
        result = agent.prompt_sync(question)

        print(f"you: {question}")
        for api, items in vendors.asked[before:]:
            print(f"  {api} is shown: {', '.join(kind for kind, _ in items)}")
        print(f"{model.id}: {result.text or result.error_message}")

    replies = [m for m in agent.state.messages if isinstance(m, AssistantMessage)]
    thoughts = sum(1 for reply in replies for block in reply.content if block.type == "thinking")
    shown = [text for kind, text in vendors.asked[-1][1] if kind == "thinking"]
    signatures = ", ".join(text.removeprefix("A sum?") for text in shown)
    print(f"the transcript holds {thoughts} thoughts; large was shown its own: {signatures}")
