"""One request: what the model is shown, and its reply as it comes in.

The reply may be complete, cut, failed or aborted; it always ends in exactly one message. What the
listeners have not been shown is not in it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from functools import partial
from typing import Any, cast

import msgspec

from ..errors import Misuse
from ..events import MessageStart, MessageUpdate
from ..messages import (
    AgentMessage,
    AssistantMessage,
    Message,
    Usage,
)
from ..models.handoff import MessageView, sendable
from ..models.model import Context
from ..stream import AssistantStream, Done, Error, Retry, Start, StreamEvent, StreamWriter
from ..stream.events import cut_off
from .faults import in_words
from .hooks import default_convert_to_llm
from .interrupt import Interrupted
from .run import Run

__all__ = ["stream_reply"]


async def stream_reply(run: Run) -> None:
    """Ask the model and stream what it says; the turn then has its reply.

    If the run was stopped, nothing is asked and the turn is closed with what there is.
    """
    run.turns += 1
    run.progress.extra_turn = run.progress.retry = False
    run.failure_kind = None
    message = None
    if not run.signal.aborted and not run.reply_is_open:
        try:
            if run.journal is not None:
                await run.call(run.journal.before_request, run)
            stream = await _request(run)
        except Interrupted:
            message = None
        except Exception as error:  # noqa: BLE001 - hooks and sources are foreign code
            run.report_fault(error, "asking the model")
            message = _failure(run, in_words(error))
        else:
            message = await _read(run, stream)
    if message is None:
        message = _aborted(run)
    if message.stop_reason in ("error", "length") and run.progress.stopped_by is None:
        run.notice_stop()
        journal = run.journal
        if run.progress.stopped_by is None:
            retry = journal is not None and journal.recovers(run, message, run.failure_kind)
            run.progress.retry = retry
            if message.stop_reason == "error" and not retry:
                run.progress.stopped_by = "error"
    was_open = run.reply_is_open
    run.reply_is_open = False
    run.last_event = None
    run.progress.turn = "answered"
    run.reply = message
    if was_open:
        await run.end_message(message)
    else:
        await run.announce(message)


async def _request(run: Run) -> AssistantStream:
    """Make the request. Raises what a hook or the stream function raises."""
    config = run.config
    prepare = config.hook("prepare_request")
    if prepare is not None:
        context = await run.call(prepare, run.context, run.signal)
        if context is not None and context is not run.context:
            run.use(context)
    messages = await _sendable(run)
    context = Context(run.context.system_prompt, messages, run.specs)
    options: dict[str, Any] = dict(config.stream_options or {})
    if config.session_id is not None:
        options.setdefault("session_id", config.session_id)
    if config.thinking_budgets is not None:
        options.setdefault("thinking_budgets", config.thinking_budgets)
    if run.thinking_level is not None:
        options["reasoning"] = run.thinking_level
    if run.answer is not None and run.answer.native:
        options.setdefault("output_schema", run.answer.option())
    if config.get_api_key is not None:
        key = await run.call(config.get_api_key, run.model.provider)
        if key:
            options["api_key"] = key
    options["signal"] = run.signal
    if run.signal.aborted:  # it fired just as a hook was through
        raise Interrupted
    stream: Any = await run.call(partial(run.stream_fn, run.model, context, **options))
    if isinstance(stream, StreamWriter):
        stream = stream.stream
    if isinstance(stream, AssistantStream):
        return stream
    if isinstance(stream, AsyncIterable):
        head = run.made_up_reply("", "error")
        head = msgspec.structs.replace(head, stop_reason="stop", error_message=None)
        return AssistantStream.from_events(cast("AsyncIterable[Any]", stream), head=head)
    raise TypeError(
        f"the stream function returned {type(stream).__name__}; it must return an AssistantStream"
    )


async def _sendable(run: Run) -> MessageView:
    """What may be sent of the transcript now. With default hooks only new messages cost anything."""
    config = run.config
    transform = config.hook("transform_context")
    if transform is None and config.convert_to_llm is default_convert_to_llm:
        return run.outbox.grow(run.context.messages, run.model)
    messages = list(run.context.messages)
    if transform is not None:
        messages = cast("list[AgentMessage]", await run.call(transform, messages, run.signal))
    left = len(messages)
    converted = await run.call(config.convert_to_llm, messages)
    view = sendable(cast("list[Message]", converted), run.model)
    if not len(view):
        step = "convert_to_llm" if transform is None else "transform_context"
        raise Misuse(
            f"{step} left no message that can be sent: of {len(run.context.messages)} messages "
            f"{left} were left, and a tool result without its call cannot be sent",
            hint="keep at least one user message, and each call together with its result",
        )
    return view


async def _read(run: Run, stream: AssistantStream) -> AssistantMessage | None:
    """Hand on what the model says. None if the run was stopped before it was done."""
    signal = run.signal
    tell = run.tell
    interrupt = run.interrupt
    cancelling = interrupt.cancelling
    touch = run.touch if run.config.idle_timeout is not None else None
    next_batch = stream.next_batch
    is_open = run.reply_is_open
    unregister = signal.on_abort(stream.cancel)
    try:
        while (batch := await next_batch()) is not None:
            if touch is not None:
                touch()
            if cancelling() and interrupt.from_outside:  # and the source swallowed it
                raise asyncio.CancelledError
            for event in batch:
                if signal.aborted:
                    return None
                if is_open and type(event) not in _NOT_UPDATES:  # nearly always
                    run.last_event = event
                    try:
                        waiting = tell(MessageUpdate(event))
                        if waiting is not None and hasattr(waiting, "__await__"):
                            await run.interrupt.settle(waiting, run.grace_seconds)
                    except BaseException as error:
                        run.note_emit_raised(error)
                        raise
                    continue
                message = await _open_or_close(run, event)
                if message is not None:
                    return message
                is_open = run.reply_is_open
    finally:
        unregister()
        if not stream.ended:
            await stream.aclose()
    return None


_NOT_UPDATES = frozenset({Start, Done, Error, Retry})
"""Everything else a vendor may send is an update, kinds unknown today included."""


async def _open_or_close(run: Run, event: StreamEvent) -> AssistantMessage | None:
    """Deal with an event that is no update. Returns the final message if it was the last."""
    if isinstance(event, Done):
        message = event.message
        if event.reason == "length" and message.stop_reason != "length":
            message = msgspec.structs.replace(message, stop_reason="length")
        return _checked(message)
    if isinstance(event, Error):
        run.failure_kind = event.kind
        return _failed(event)
    if isinstance(event, Retry):
        if run.journal is not None:
            run.journal.retried(event)
        run.extra_usage += event.usage or Usage()
        await run.emit(event)
        return None
    run.last_event = event
    if not run.reply_is_open:
        run.reply_is_open = True
        await run.emit(MessageStart(cast("Any", event).partial))
    if not isinstance(event, Start):
        await run.emit(MessageUpdate(cast("Any", event)))
    return None


def _checked(message: AssistantMessage) -> AssistantMessage:
    """The reply with the stop reason that it bears out.

    Whether there are calls decides, not what the vendor called it: some say `stop` and mean their
    calls, some say that there are calls and send none. A reply with nothing in it is a fault,
    unless the vendor said that it meant it.
    """
    reason = message.stop_reason
    if not message.content and message.raw_stop_reason is None and message.usage.is_empty:
        return msgspec.structs.replace(
            message, stop_reason="error", error_message="The model's reply was empty."
        )
    if reason == "length":
        return message
    if reason != "stop" and reason != "toolUse":  # a source that calls a failed reply done
        return msgspec.structs.replace(message, stop_reason="error")
    borne_out = "toolUse" if message.tool_calls else "stop"
    return (
        message if reason == borne_out else msgspec.structs.replace(message, stop_reason=borne_out)
    )


def _failed(event: Error) -> AssistantMessage:
    """`aborted` is said if and only if our own signal fired."""
    message = event.error
    if message.stop_reason == "error" and message.error_message:
        return message
    text = message.error_message or "The model's reply ended with an error that gives no reason."
    return msgspec.structs.replace(message, stop_reason="error", error_message=text)


def _failure(run: Run, text: str) -> AssistantMessage:
    return run.made_up_reply(text, "aborted" if run.signal.aborted else "error")


def _aborted(run: Run) -> AssistantMessage:
    """The reply as far as listeners have seen it."""
    run.notice_stop()
    failed = run.cause in ("idle_timeout", "journal")
    text = run.describe(run.cause)
    partial = cut_off(run.last_event)
    if partial is None:
        return run.made_up_reply(text, "error" if failed else "aborted")
    return msgspec.structs.replace(
        partial, stop_reason="error" if failed else "aborted", error_message=text
    )
