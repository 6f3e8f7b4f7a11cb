"""Writing a stream by pushing: for sources that call back instead of being iterated.

The writer may live in another task, or be called from protocol callbacks; the reader is woken
when something came. To write an async generator instead, use `AssistantStream.from_events`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any, Literal, cast

from ..errors import Misuse
from ..messages import AssistantMessage, Usage
from .assistant_stream import AssistantStream
from .builder import ReplyBuilder
from .events import AssistantMessageEvent
from .follower import Follower

__all__ = ["StreamWriter"]


def _wake(reader: asyncio.Future[None]) -> None:
    if not reader.done():
        reader.set_result(None)


class StreamWriter:
    """Pushes one reply into `stream`, from the loop that reads it or from one other thread.

    `text`, `thinking` and `tool_call` open and close blocks as needed; `done` or `error` must come
    last. Ready-made events can be pushed as well, but not mixed with the other methods. What is
    written after the end, or after the reader cancelled, is dropped: look at `closed`. Used as an
    async context manager it ends the reply whatever happens inside.
    """

    def __init__(self, *, api: str = "", provider: str = "", model: str = "") -> None:
        self._builder = ReplyBuilder(api=api, provider=provider, model=model)
        head = AssistantMessage([], api, provider, model)
        self._follower = Follower(head)
        self._batch: list[AssistantMessageEvent] = []
        self._wake: asyncio.Future[None] | None = None
        self._open: tuple[str, int] | None = None
        self._started = False
        self._pushed = False
        self._ended = False
        self._left = False
        self.stream = AssistantStream(self._batches(), head=head)

    @property
    def closed(self) -> bool:
        """Nobody will read what is written now: the reply ended, or the reader left."""
        return self._ended or self._left

    def push(self, event: AssistantMessageEvent) -> None:
        """Hand on an event made elsewhere; its `partial` is followed if it has none.

        Raises `Misuse` after `text`, `thinking` or `tool_call`: two hands cannot write one reply.
        """
        if self._started:
            raise Misuse("push() cannot be mixed with text(), thinking() or tool_call()")
        self._pushed = True
        self._emit(cast("AssistantMessageEvent", self._follower.adopt(event)))
        if event.type in ("done", "error"):
            self._ended = True

    def text(self, delta: str) -> None:
        """More text."""
        index = self._block("text")
        self._emit(self._builder.text_delta(index, delta))

    def thinking(self, delta: str) -> None:
        """More reasoning."""
        index = self._block("thinking")
        self._emit(self._builder.thinking_delta(index, delta))

    def tool_call(self, id: str, name: str, arguments: dict[str, Any]) -> None:
        """A whole tool call."""
        self._block(None)
        start = self._builder.tool_call_start(id, name)
        self._emit(start)
        self._emit(self._builder.tool_call_end(start.content_index, arguments=arguments))

    def done(
        self,
        reason: Literal["stop", "length", "toolUse"] = "stop",
        *,
        usage: Usage | None = None,
    ) -> None:
        """The reply is complete."""
        self._block(None)
        self._emit(self._builder.done(reason, usage=usage))
        self._ended = True

    def error(self, text: str, *, retryable: bool = False) -> None:
        """The reply failed; *text* says why."""
        self._emit(self._builder.error(text, retryable=retryable))
        self._ended = True

    async def __aenter__(self) -> StreamWriter:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: object
    ) -> bool:
        """Leave; what was raised inside ends the reply with its words, and goes no further unless
        it is a cancellation. A reply that was not ended is reported as broken off."""
        if not self.closed:
            self.error(str(error) or type(error).__name__ if error else "The reply broke off.")
        return isinstance(error, Exception)

    def _block(self, kind: Literal["text", "thinking"] | None) -> int:
        """The index of an open block of *kind*; any other open block is closed first."""
        if self._pushed:
            raise Misuse("text(), thinking() and tool_call() cannot be mixed with push()")
        if not self._started:
            self._started = True
            self._emit(self._builder.start())
        if self._open is not None and self._open[0] == kind:
            return self._open[1]
        for event in self._builder.close_open_blocks():
            self._emit(event)
        self._open = None
        if kind is None:
            return -1
        event = self._builder.text_start() if kind == "text" else self._builder.thinking_start()
        self._emit(event)
        self._open = (kind, event.content_index)
        return event.content_index

    def _emit(self, event: AssistantMessageEvent) -> None:
        if self.closed:
            return
        self._batch.append(event)
        reader = self._wake
        if reader is None or reader.done():
            return
        try:
            here = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is reader.get_loop():
            reader.set_result(None)
        else:
            reader.get_loop().call_soon_threadsafe(_wake, reader)

    async def _batches(self) -> AsyncGenerator[list[AssistantMessageEvent], None]:
        try:
            while True:
                if not self._batch:
                    self._wake = asyncio.get_running_loop().create_future()
                    await self._wake
                batch, self._batch = self._batch, []
                yield batch
        finally:
            self._left = True
