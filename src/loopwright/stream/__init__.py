"""A reply while it is spoken: events, the draft behind them, and how to make a stream.

`AssistantStream` is what a stream function returns. Write one with `AssistantStream.from_events`
over an async generator of events, with `StreamWriter` by pushing, or, for a wire that decodes
bytes in batches, with `ReplyBuilder`. The draft and the events are pure; only `assistant_stream`
and `writer` wait for anything.
"""

from .assistant_stream import AssistantStream, EventSource
from .builder import ReplyBuilder
from .draft import Draft
from .events import (
    AssistantMessageEvent,
    Done,
    Error,
    Retry,
    Start,
    StreamEvent,
    TextDelta,
    TextEnd,
    TextStart,
    ThinkingDelta,
    ThinkingEnd,
    ThinkingStart,
    ToolCallDelta,
    ToolCallEnd,
    ToolCallStart,
    stream_event_from_dict,
)
from .writer import StreamWriter

__all__ = [
    "AssistantMessageEvent",
    "AssistantStream",
    "Done",
    "Draft",
    "Error",
    "EventSource",
    "ReplyBuilder",
    "Retry",
    "Start",
    "StreamEvent",
    "StreamWriter",
    "TextDelta",
    "TextEnd",
    "TextStart",
    "ThinkingDelta",
    "ThinkingEnd",
    "ThinkingStart",
    "ToolCallDelta",
    "ToolCallEnd",
    "ToolCallStart",
    "stream_event_from_dict",
]
