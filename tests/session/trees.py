"""Random trees of entries, and a small way to write down one by hand."""

from __future__ import annotations

from typing import Any, cast

import msgspec
from hypothesis import strategies as st

from loopwright.messages import (
    AssistantMessage,
    CustomMessage,
    StopReason,
    TextContent,
    ToolCall,
    ToolResultMessage,
    UserMessage,
)
from loopwright.session.entries import (
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    Entry,
    EntryRow,
    MessageEntry,
    to_row,
)
from loopwright.session.leases import new_owner
from loopwright.session.rows import Fact, Lane, SessionInfo
from loopwright.session.store import Commit, SessionStore


class Remark(CustomMessage, tag="remark"):
    """A message with a role of a program's own."""

    text: str


def user(entry_id: str, parent_id: str | None, text: str = "hello", **more: Any) -> MessageEntry:
    return MessageEntry(
        id=entry_id, parent_id=parent_id, message=UserMessage(text, 1), timestamp=1, **more
    )


def reply(
    entry_id: str,
    parent_id: str | None,
    text: str = "hi",
    *,
    calls: tuple[str, ...] = (),
    stop_reason: StopReason | None = None,
    **more: Any,
) -> MessageEntry:
    message = AssistantMessage(
        [TextContent(text), *(ToolCall(call, "look", {"path": "a.txt"}) for call in calls)],
        stop_reason=stop_reason or ("toolUse" if calls else "stop"),
        timestamp=1,
    )
    return MessageEntry(id=entry_id, parent_id=parent_id, message=message, timestamp=1, **more)


def result(
    entry_id: str, parent_id: str | None, call: str, text: str = "seen", **more: Any
) -> MessageEntry:
    message = ToolResultMessage(call, "look", [TextContent(text)], timestamp=1)
    return MessageEntry(id=entry_id, parent_id=parent_id, message=message, timestamp=1, **more)


def numbered(entries: list[Entry]) -> list[Entry]:
    """*entries* with the sequence numbers a store would give them."""
    return [msgspec.structs.replace(entry, seq=i + 1) for i, entry in enumerate(entries)]


def rows_of(entries: list[Entry]) -> list[EntryRow]:
    """*entries*, given oldest first, as a store keeps them."""
    return [to_row(entry) for entry in numbered(entries)]


async def keep(
    store: SessionStore,
    entries: list[Entry],
    *,
    lanes: dict[str, str | None] | None = None,
    facts: list[Fact] | None = None,
    **info: Any,
) -> str:
    """A new session with *entries*. Returns its id."""
    session = SessionInfo(**info)
    await store.create(session)
    lease = await store.claim(session.id, new_owner(), 30)
    await store.commit(
        lease,
        Commit(
            entries=[to_row(entry) for entry in entries],
            lanes=[Lane(name=name, leaf_id=leaf) for name, leaf in (lanes or {}).items()],
            facts=facts or [],
        ),
    )
    await store.release(lease)
    return session.id


_texts = st.sampled_from(["", "  ", "one", 'two "quoted"\n', "drei ß", "tool"])
_reasons: st.SearchStrategy[StopReason] = st.sampled_from(
    ("stop", "toolUse", "length", "error", "aborted")
)


@st.composite
def trees(draw: st.DrawFn, max_size: int = 24) -> list[Entry]:
    """Entries of one session, oldest first, with several roots and many forks."""
    entries: list[Entry] = []
    parents: dict[str, str | None] = {}
    for i in range(draw(st.integers(0, max_size))):
        entry_id = f"e{i}"
        newest = entries[-1].id if entries else None
        anywhere = st.sampled_from([None, *parents]) if parents else st.none()
        parent = draw(st.just(newest) | anywhere)
        parents[entry_id] = parent
        entries.append(_entry(draw, entry_id, parent, _ancestors(parents, parent)))
    return numbered(entries)


def _ancestors(parents: dict[str, str | None], entry_id: str | None) -> list[str]:
    found: list[str] = []
    while entry_id is not None:
        found.append(entry_id)
        entry_id = parents[entry_id]
    return found


def _entry(draw: st.DrawFn, entry_id: str, parent: str | None, ancestors: list[str]) -> Entry:
    text = draw(_texts)
    kind = draw(st.sampled_from(["user", "reply", "result", "remark", "short", "left", "own"]))
    match kind:
        case "user":
            return user(entry_id, parent, text)
        case "reply":
            return reply(entry_id, parent, text, calls=("c",), stop_reason=draw(_reasons))
        case "result":
            return result(entry_id, parent, "c", text)
        case "remark":
            message = Remark(text=text, timestamp=1)
            return MessageEntry(id=entry_id, parent_id=parent, message=message, timestamp=1)
        case "short":
            kept = draw(st.sampled_from([None, *ancestors]))
            tail: Any = draw(st.none() | st.just([UserMessage("copied", 1), _failed_reply()]))
            return CompactionEntry(
                id=entry_id,
                parent_id=parent,
                summary=text,
                first_kept_id=kept,
                retained_tail=cast("Any", tail),
                timestamp=1,
            )
        case "left":
            return BranchSummaryEntry(
                id=entry_id, parent_id=parent, from_id="gone", summary=text, timestamp=1
            )
        case _:
            return CustomEntry(
                id=entry_id, parent_id=parent, custom_type=draw(st.sampled_from("xy")), timestamp=1
            )


def _failed_reply() -> AssistantMessage:
    return AssistantMessage([], stop_reason="error", error_message="no", timestamp=1)
