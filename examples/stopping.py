"""Three limits for a model that would never stop by itself: turns, tokens, time.

Each ends the run in an orderly way: every call has its result, `agent_end` comes last, and the
agent can be asked again.

Prints:
    turns: toolUse, stopped by max_turns after 3 turns
    tokens: toolUse, stopped by hook after 4 turns, 400 tokens
    the tool was cancelled
    time: aborted, stopped by timeout
    and again: Here I am.
"""

import asyncio

from loopwright import Agent, FinishTurn, TurnContext
from loopwright.messages import AssistantMessage, Usage
from loopwright.testing import Call, Reply, ScriptedModel

HUNDRED_TOKENS = Usage(input=80, output=20, total_tokens=100)


def look() -> str:
    """Look again."""
    return "nothing new"


async def wait_for_mail() -> str:
    """Wait until there is mail. There never is."""
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        print("the tool was cancelled")
        raise
    return "mail"


def restless() -> ScriptedModel:
    """Asks for the same tool over and over."""
    return ScriptedModel([Reply(calls=[Call("look")], usage=HUNDRED_TOKENS)] * 100)


def spent(context: TurnContext) -> int:
    """The tokens of this run so far."""
    replies = [m for m in context.new_messages if isinstance(m, AssistantMessage)]
    return sum(reply.usage.total_tokens for reply in replies)


def at_most_400_tokens(context: TurnContext) -> FinishTurn | None:
    """A hook that is called at the end of every turn. None lets the loop decide as usual."""
    return FinishTurn.END if spent(context) >= 400 else None


model = restless()
agent = Agent(model.model, stream_fn=model.stream_fn, tools=[look], max_turns=3)
result = agent.prompt_sync("Anything new?")
print(
    f"turns: {result.stop_reason}, stopped by {result.stopped_by} after {len(model.requests)} turns"
)

model = restless()
agent = Agent(model.model, stream_fn=model.stream_fn, tools=[look], finish_turn=at_most_400_tokens)
result = agent.prompt_sync("Anything new?")
print(
    f"tokens: {result.stop_reason}, stopped by {result.stopped_by} after {len(model.requests)} turns, "
    f"{result.usage.total_tokens} tokens"
)

model = ScriptedModel([Reply(calls=[Call("wait_for_mail")]), Reply("Here I am.")])
agent = Agent(model.model, stream_fn=model.stream_fn, tools=[wait_for_mail], run_timeout=0.2)
result = agent.prompt_sync("Any mail?")
print(f"time: {result.stop_reason}, stopped by {result.stopped_by}")
print("and again:", agent.prompt_sync("Are you there?").text)
