"""Sessions as hypothesis makes them up: messages with everything in them, and commits of all kinds.

Not here: trees of which only the shape counts (trees).
"""

from __future__ import annotations

from typing import Any

import msgspec
from hypothesis import strategies as st

from loopwright.messages import (
    AgentMessage,
    AssistantMessage,
    Cost,
    CustomMessage,
    ImageContent,
    TextContent,
    ThinkingContent,
    ToolCall,
    ToolResultMessage,
    Usage,
    UserMessage,
)
from loopwright.session.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    Entry,
    MessageEntry,
    to_row,
)
from loopwright.session.rows import Fact, InboxItem, Intent, Lane, LaneConfig, Operation, UsageRow
from loopwright.session.store import Commit

__all__ = ["Memo", "commits", "entries", "json_values", "messages", "usages"]


class Memo(CustomMessage, tag="test-memo"):
    """A role of a program's own."""

    text: str


texts = st.text(max_size=8) | st.sampled_from(["\u2028\r\n", '{"a":1}\n', "\x00", "\U0001f600"])
numbers = st.integers(0, 2**40)
prices = st.none() | st.floats(0, 1e6, allow_nan=False)
json_values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(-1e9, 1e9) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)
json_objects = st.dictionaries(texts, json_values, max_size=3)

usages = st.builds(
    Usage,
    input=numbers,
    output=numbers,
    cache_read=numbers,
    cache_write=numbers,
    reasoning=st.none() | numbers,
    total_tokens=numbers,
    cost=st.builds(Cost, prices, prices, prices, prices, prices),
    known=st.booleans(),
    doubtful=st.booleans(),
    tool_input=st.none() | numbers,
)
_text = st.builds(TextContent, texts, st.none() | texts)
_image = st.builds(ImageContent, st.just("aGk="), st.just("image/png"))
_thinking = st.builds(ThinkingContent, texts, st.none() | texts, st.booleans())
_call = st.builds(
    ToolCall, texts, texts, json_objects, st.none() | texts, st.none() | texts, st.none() | texts
)
_users = st.builds(
    UserMessage, texts | st.lists(_text | _image, max_size=2), timestamp=st.integers(0, 2**42)
)
messages: st.SearchStrategy[AgentMessage] = st.one_of(
    _users,
    st.builds(
        AssistantMessage,
        st.lists(_text | _thinking | _call, max_size=3),
        api=texts,
        provider=texts,
        model=texts,
        usage=usages,
        stop_reason=st.sampled_from(["stop", "length", "toolUse", "error", "aborted"]),
        error_message=st.none() | texts,
        response_id=st.none() | texts,
        raw_stop_reason=st.none() | texts,
        timestamp=st.integers(0, 2**42),
    ),
    st.builds(
        ToolResultMessage,
        texts,
        texts,
        st.lists(_text | _image, max_size=2),
        details=json_values,
        is_error=st.booleans(),
        usage=st.none() | usages,
        timestamp=st.integers(0, 2**42),
    ),
    st.builds(Memo, text=texts, timestamp=st.integers(0, 2**42)),
)


_tails: st.SearchStrategy[list[AgentMessage]] = st.lists(messages, max_size=2)


@st.composite
def entries(
    draw: st.DrawFn, entry_id: str = "e", parent_id: str | None = None, known: tuple[str, ...] = ()
) -> Entry:
    """An entry under *parent_id*; *known* are ids that it may point at."""
    place: dict[str, Any] = {"id": entry_id, "parent_id": parent_id}
    place["timestamp"] = draw(st.integers(0, 2**42))
    place["operation_id"] = draw(st.none() | st.just("o"))
    kind = draw(st.sampled_from(["message", "message", "compaction", "summary", "custom"]))
    details, usage = draw(json_values), draw(st.none() | usages)
    if kind == "message":
        return MessageEntry(**place, message=draw(messages), terminate=draw(st.booleans()))
    if kind == "compaction":
        pointed = draw(st.none() | st.sampled_from(["gone", *known]))
        return CompactionEntry(
            **place,
            summary=draw(texts),
            first_kept_id=pointed,
            retained_tail=None if pointed else draw(st.none() | _tails),
            tokens_before=draw(numbers),
            details=details,
            usage=usage,
            from_hook=draw(st.booleans()),
        )
    if kind == "summary":
        return BranchSummaryEntry(
            **place, from_id=draw(texts), summary=draw(texts), details=details, usage=usage
        )
    custom_type = draw(
        st.text("abé", max_size=3) | st.sampled_from(["loopwright.state", "loopwright.entry"])
    )
    return CustomEntry(**place, custom_type=custom_type, data=details)


@st.composite
def commits(draw: st.DrawFn, most: int = 5) -> list[Commit]:
    """Commits that a store takes, one after another."""
    known: list[str] = []
    made: list[Commit] = []
    total = Usage()
    for number in range(draw(st.integers(1, most))):
        fresh: list[Entry] = []
        for place in range(draw(st.integers(0, 4))):
            # Mostly a chain, sometimes a branch.
            parents = [None, *known]
            parent_id = parents[-1] if draw(st.booleans()) else draw(st.sampled_from(parents))
            entry_id = f"e{number}.{place}"
            fresh.append(draw(entries(entry_id, parent_id, tuple(known))))
            known.append(entry_id)
        usage = [
            UsageRow(
                id=draw(st.sampled_from([f"u{number}.{place}", f"e{number}.{place}"])),
                cause=draw(st.sampled_from(["assistant", "retry", "lost", "tool", "import"])),
                usage=draw(usages),
                operation_id=draw(st.none() | st.just("o")),
                details=draw(st.none() | json_objects),
                timestamp=draw(numbers),
            )
            for place in range(draw(st.integers(0, 2)))
        ]
        for row in usage:
            total += row.usage
        made.append(
            Commit(
                entries=[to_row(entry) for entry in fresh],
                lanes=draw(_lanes(known)),
                facts=draw(_facts(known)),
                usage=usage,
                usage_total=total if usage else None,
                operations=draw(st.just([]) | st.just([Operation(id="o", lane="side")])),
                intents=draw(st.just([]) | st.just([_INTENT])),
                settled=draw(st.just([]) | st.just(["i"])),
                inbox=draw(st.just([]) | st.just([_item(f"q{number}")])),
                preview=draw(st.none() | texts),
            )
        )
    return made


@st.composite
def _lanes(draw: st.DrawFn, known: list[str]) -> list[Lane]:
    leaves = st.sampled_from([None, "nowhere", *known, *known[-1:] * 4])
    config = st.none() | st.just(LaneConfig(provider="p", model_id="m", active_tools=["t"]))
    return [
        Lane(name=name, leaf_id=draw(leaves), operation_id=draw(st.none() | st.just("o")),
             config=draw(config))
        for name in draw(st.lists(st.sampled_from(["main", "side", "Größe"]), max_size=3))
    ]  # fmt: skip


@st.composite
def _facts(draw: st.DrawFn, known: list[str]) -> list[Fact]:
    label = st.builds(
        Fact,
        namespace=st.just("label"),
        key=st.sampled_from(["nowhere", *known]),
        value=texts | st.none() | numbers,
        deleted=st.booleans(),
    )
    name = st.builds(
        Fact, namespace=st.just("name"), value=texts | st.none(), deleted=st.booleans()
    )
    own = st.builds(
        Fact,
        namespace=st.just("custom"),
        key=st.sampled_from(["a", "b"]),
        value=json_values,
        deleted=st.booleans(),
    )
    return draw(st.lists(label | name | own, max_size=4))


_INTENT = Intent(
    id="i", lane="main", assistant_id="a", index=0, tool_call_id="c", tool_name="t", started_at=1
)


def _item(item_id: str) -> InboxItem:
    return InboxItem(
        id=item_id, lane="main", queue="steer", message=UserMessage("\n", 1), created_at=1
    )


def unnumbered(row: Any) -> Any:
    """*row* without its sequence number."""
    return msgspec.structs.replace(row, seq=0)
