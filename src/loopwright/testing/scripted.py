"""A model that says what the test wrote: no network, no key, no waiting, the same every time.

    model = ScriptedModel([Reply(calls=[Call("add", {"a": 17, "b": 25})]), Reply("42")])
    agent = Agent(model.model, stream_fn=model.stream_fn, tools=[add])

Replies come as real streams, their events in batches as a network read gives them, so that all
that stands behind them runs as it does with a vendor. `requests` holds what the model was shown.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import TYPE_CHECKING, Any, cast

import msgspec

from ..errors import ModelError
from ..messages import AssistantMessage, StopReason, ToolResultMessage, Usage, UserMessage
from ..models.abort import AbortWatch
from ..models.failures import failure_from_text
from ..models.handoff import MessageView
from ..models.model import Context, Model
from ..stream import AssistantMessageEvent, AssistantStream, ReplyBuilder

if TYPE_CHECKING:
    from ..models.provider import Provider

__all__ = ["Call", "Reply", "ScriptedModel", "ScriptedRequest"]

EVENTS_PER_BATCH = 128
"""About what one read of a busy connection brings."""

EVENTS_PER_BREATH = 1024
"""How many events come before others are let run; a turn of the event loop costs as much as dozens
of events."""


@dataclass(frozen=True, slots=True)
class Call:
    """The model asks for a tool. Without an *id* it gets `call_1`, `call_2` and so on.

    *raw* is the argument text exactly as the model streams it, for text that is cut or broken.
    """

    name: str
    arguments: dict[str, Any] | None = None
    id: str | None = None
    raw: str | None = None


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer: thinking, then text, then calls, then the end."""

    text: str = ""
    _: KW_ONLY
    calls: Sequence[Call] = ()
    thinking: str = ""
    thinking_signature: str | None = None
    error: str | ModelError | None = None
    """The reply fails with this after what stands before. A text is sorted as a vendor's would be
    ("overloaded" may be tried again); a `ModelError` says itself what it is."""
    chunk_size: int | None = None
    """Characters per delta, of arguments too; None sends each block in one piece."""
    delay: float = 0
    """Seconds before each delta."""
    stop_reason: StopReason | None = None
    """None: `toolUse` with calls, else `stop`."""
    usage: Usage | None = None
    """None: numbers are made up that grow with what was shown and said."""


ScriptedReply = Reply | Callable[[Context], "Reply | Awaitable[Reply]"]
"""A reply, or what makes one once it is known what the model is shown."""


@dataclass(frozen=True, slots=True)
class ScriptedRequest:
    """What the model was asked, as it stood at that moment."""

    model: Model
    context: Context
    options: dict[str, Any] = field(default_factory=dict[str, Any])


class ScriptedModel:
    """Plays *replies* in order, one a request. A script that is used up fails; it never repeats."""

    def __init__(
        self, replies: Iterable[ScriptedReply] = (), *, model: Model | None = None
    ) -> None:
        self.model = model or Model(
            "scripted",
            "scripted",
            "scripted",
            name="Scripted model",
            context_window=200_000,
            max_tokens=32_000,
            input=("text", "image"),
        )
        self.requests: list[ScriptedRequest] = []
        """Every request so far, in the order they were made."""
        self._replies: list[ScriptedReply] = list(replies)
        self._given = 0
        self._call_count = 0

    def __repr__(self) -> str:
        return f"<ScriptedModel {self._given} of {len(self._replies)} replies given>"

    def extend(self, replies: Iterable[ScriptedReply]) -> None:
        """Add *replies* to the end of the script."""
        self._replies.extend(replies)

    @property
    def provider(self) -> Provider:
        """This model as a vendor, to be put into a `Models`."""
        from ..models.provider import Provider

        return Provider(
            id=self.model.provider,
            name="Scripted",
            api=self.model.api,
            needs_key=False,
            models=(self.model,),
            stream=self.stream_fn,
            scripted=True,
        )

    def stream_fn(self, model: Model, context: Context, /, **options: Any) -> AssistantStream:
        """Give the next reply; pass this method as `stream_fn`."""
        seen = Context(context.system_prompt, _frozen(context.messages), tuple(context.tools))
        self.requests.append(ScriptedRequest(model, seen, options))
        reply: ScriptedReply | None = None
        if self._given < len(self._replies):
            reply = self._replies[self._given]
            self._given += 1
        number = len(self.requests)
        head = AssistantMessage([], model.api, model.provider, model.id)
        watch = AbortWatch(options)
        stream = AssistantStream(self._play(reply, number, model, seen, watch), head=head)
        watch.stream = stream
        return stream

    async def _play(
        self,
        scripted: ScriptedReply | None,
        number: int,
        model: Model,
        context: Context,
        watch: AbortWatch,
    ) -> AsyncGenerator[list[AssistantMessageEvent], None]:
        builder = ReplyBuilder(api=model.api, provider=model.provider, model=model.id)
        if watch.aborted:
            yield [builder.error("Operation aborted", reason="aborted")]
            return
        if scripted is None:
            yield [
                builder.error(
                    f"The script is used up: request {number} came, but only "
                    f"{len(self._replies)} replies were written. Add more with extend().",
                    kind="script_exhausted",
                )
            ]
            return
        with watch:
            reply = await _made(scripted, context)
            batch: list[AssistantMessageEvent] = [builder.start()]
            since_breath = 0
            for part in self._parts(reply, builder):
                if part is None:  # a delta comes next, and the reply is a slow one
                    yield batch
                    batch = []
                    await asyncio.sleep(reply.delay)
                    continue
                if len(batch) + len(part) > EVENTS_PER_BATCH:
                    yield batch
                    since_breath += len(batch)
                    batch = []
                    if since_breath >= EVENTS_PER_BREATH:
                        since_breath = 0
                        await asyncio.sleep(0)
                batch += part
            batch.append(_ending(reply, builder, context))
            yield batch

    def _parts(
        self, reply: Reply, builder: ReplyBuilder
    ) -> Iterator[list[AssistantMessageEvent] | None]:
        """The events between start and end, few at a time; None where a slow reply pauses."""
        if reply.thinking or reply.thinking_signature:
            start = builder.thinking_start()
            index = start.content_index
            yield [start]
            yield from _deltas(reply.thinking, reply, index, builder.thinking_delta)
            yield [builder.thinking_end(index, signature=reply.thinking_signature)]
        if reply.text:
            start = builder.text_start()
            index = start.content_index
            yield [start]
            yield from _text_deltas(reply, index, builder)
            yield [builder.text_end(index)]
        for call in reply.calls:
            call_id = call.id
            if call_id is None:
                self._call_count += 1
                call_id = f"call_{self._call_count}"
            start = builder.tool_call_start(call_id, call.name)
            index = start.content_index
            text = _argument_text(call)
            if text and reply.chunk_size is None and not reply.delay:
                yield [start, builder.tool_call_delta(index, text), builder.tool_call_end(index)]
                continue
            yield [start]
            yield from _deltas(text, reply, index, builder.tool_call_delta)
            yield [builder.tool_call_end(index)]


def _text_deltas(
    reply: Reply, index: int, builder: ReplyBuilder
) -> Iterator[list[AssistantMessageEvent] | None]:
    """`_deltas` for visible text, of which there may be very much: a batch at a time."""
    text = reply.text
    size = reply.chunk_size or len(text)
    step = size if reply.delay > 0 else size * EVENTS_PER_BATCH
    for start in range(0, len(text), step):
        if reply.delay > 0:
            yield None
        end = min(start + step, len(text))
        pieces = [text[i : i + size] for i in range(start, end, size)]
        yield cast("list[AssistantMessageEvent]", builder.text_deltas(index, pieces))


def _deltas(
    text: str,
    reply: Reply,
    index: int,
    delta: Callable[[int, str], AssistantMessageEvent],
) -> Iterator[list[AssistantMessageEvent] | None]:
    size = reply.chunk_size or len(text) or 1
    step = size if reply.delay > 0 else size * EVENTS_PER_BATCH
    for start in range(0, len(text), step):
        if reply.delay > 0:
            yield None
        part = text[start : start + step]
        yield [delta(index, part[i : i + size]) for i in range(0, len(part), size)]


async def _made(scripted: ScriptedReply, context: Context) -> Reply:
    if isinstance(scripted, Reply):
        return scripted
    made: Any = scripted(context)
    if inspect.isawaitable(made):
        made = await made
    if not isinstance(made, Reply):
        raise TypeError(f"a script is made of Reply objects, not {type(made).__name__}")
    return made


def _ending(reply: Reply, builder: ReplyBuilder, context: Context) -> AssistantMessageEvent:
    usage = reply.usage if reply.usage is not None else _made_up_usage(reply, context)
    if reply.error is not None:
        failure = reply.error
        if isinstance(failure, str):
            failure = failure_from_text(failure)
        return builder.error(
            str(failure),
            usage=usage,
            kind=failure.kind,
            retryable=failure.retryable,
            retry_after_seconds=failure.retry_after_seconds,
        )
    reason = reply.stop_reason or ("toolUse" if reply.calls else "stop")
    if reason == "error" or reason == "aborted":
        text = "Operation aborted" if reason == "aborted" else "The scripted reply failed."
        return builder.error(text, reason=reason, usage=usage)
    return builder.done(reason, raw=reply.stop_reason, usage=usage)


def _made_up_usage(reply: Reply, context: Context) -> Usage:
    """Four characters a token for what is said; for what is shown, the last message stands for
    all, since counting a long transcript anew for each request would be quadratic."""
    messages = context.messages
    last = messages[-1] if messages else None
    shown = last.text if isinstance(last, UserMessage | ToolResultMessage) else ""
    taken = len(context.system_prompt) // 4 + 12 * len(messages) + len(shown) // 4 + 8
    said = (len(reply.text) + len(reply.thinking)) // 4 + 16 * len(reply.calls) + 1
    return Usage(
        input=taken,
        output=said,
        reasoning=len(reply.thinking) // 4 if reply.thinking else None,
        total_tokens=taken + said,
    )


def _argument_text(call: Call) -> str:
    if call.raw is not None:
        return call.raw
    if not call.arguments:
        return "{}"
    try:
        return msgspec.json.encode(call.arguments).decode()
    except UnicodeEncodeError:  # lone surrogates, which models do write as escapes
        return json.dumps(call.arguments)


def _frozen(messages: Sequence[Any]) -> Sequence[Any]:
    """*messages* as they stand now; views and tuples cannot change and are kept as they are."""
    if isinstance(messages, MessageView | tuple):
        return cast("Sequence[Any]", messages)
    return tuple(messages)
