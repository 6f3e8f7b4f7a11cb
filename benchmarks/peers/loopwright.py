"""loopwright itself, measured through the same door as everybody else."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import Any

from loopwright import Agent, tool
from loopwright.events import MessageUpdate, ToolExecutionEnd
from loopwright.models import Context, Model
from loopwright.stream import (
    AssistantMessageEvent,
    AssistantStream,
    ReplyBuilder,
    TextDelta,
    ToolCallDelta,
)
from loopwright.testing import Call, Reply, ScriptedModel

from ..subject import Counter, Listening, Say, Tool

__all__ = ["PEER", "async_listener", "batches", "sync_listener"]


def sync_listener(counter: Counter) -> Callable[..., None]:
    """Reads each delta and counts."""

    def listen(event: object, signal: object) -> None:
        if type(event) is MessageUpdate:
            change = event.assistant_message_event
            if type(change) is TextDelta or type(change) is ToolCallDelta:
                counter.deltas += 1
                counter.characters += len(change.delta)
        elif type(event) is ToolExecutionEnd and not event.is_error:
            counter.results += 1

    return listen


def async_listener(counter: Counter) -> Callable[..., Any]:
    """The same as a coroutine function."""

    async def listen(event: object, signal: object) -> None:
        if type(event) is MessageUpdate:
            change = event.assistant_message_event
            if type(change) is TextDelta or type(change) is ToolCallDelta:
                counter.deltas += 1
                counter.characters += len(change.delta)
        elif type(event) is ToolExecutionEnd and not event.is_error:
            counter.results += 1

    return listen


async def batches(say: Say) -> AsyncGenerator[list[AssistantMessageEvent], None]:
    """*say* as a wire would bring it: what one network read decodes to, in one list."""
    builder = ReplyBuilder()
    start = builder.text_start()
    index = start.content_index
    yield [builder.start(), start]
    pieces = say.pieces
    size = say.per_read or len(pieces)
    for begin in range(0, len(pieces), size):
        await asyncio.sleep(0)
        yield [*builder.text_deltas(index, pieces[begin : begin + size])]
    yield [builder.text_end(index), builder.done("stop")]


class _Loopwright:
    name = "loopwright"
    distribution = "loopwright"
    import_statement = "import loopwright"

    def agent(
        self,
        script: Sequence[Say],
        tools: Mapping[str, Tool],
        counter: Counter,
        listening: Listening = "sync",
    ) -> Agent:
        model, stream_fn = _scripted(script)
        made = [tool(name=name)(function) for name, function in tools.items()]
        agent = Agent(model, stream_fn=stream_fn, tools=made)
        if listening != "no":
            agent.subscribe((sync_listener if listening == "sync" else async_listener)(counter))
        return agent


def _scripted(script: Sequence[Say]) -> tuple[Model, Any]:
    if any(say.per_read for say in script):
        left = list(reversed(script))

        def stream_fn(model: Model, context: Context, **options: Any) -> AssistantStream:
            return AssistantStream(batches(left.pop()))

        return ScriptedModel().model, stream_fn
    model = ScriptedModel([_reply(say) for say in script])
    return model.model, model.stream_fn


def _reply(say: Say) -> Reply:
    calls = [Call(ask.name, raw=ask.arguments) for ask in say.calls]
    size = say.piece if say.text else next((ask.piece for ask in say.calls), None)
    return Reply(say.text, calls=calls, chunk_size=size)


PEER = _Loopwright()
