"""The tree of a session as lines that can be drawn one under the other.

The branch one is on runs straight down at depth 0. Where another branch leaves it, that branch
is drawn first and one step further in, as in a version history; so depth grows with the forks
passed, not with the length of a conversation.

Not here: the drawing itself, which is a front end's.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from ..errors import SessionDamaged
from ..messages import AgentMessage, AssistantMessage, ToolResultMessage, text_of
from .entries import (
    BranchSummaryEntry,
    CompactionEntry,
    CustomEntry,
    EntryRow,
    EntryType,
    MessageEntry,
)
from .tree import children_index, parents_index

__all__ = ["OutlineNode", "one_line", "outline"]


class OutlineNode(msgspec.Struct, frozen=True):
    """One line of the drawing."""

    id: str
    parent_id: str | None
    type: EntryType
    role: str | None
    """Of a message."""
    depth: int
    """How many forks away from the branch that runs straight down."""
    on_branch: bool
    """It lies on the path to the leaf that was asked for."""
    is_leaf: bool
    """Nothing follows it."""
    label: str | None
    preview: str
    """What it says, in one line; empty if there is nothing to say."""
    timestamp: int


def outline(
    rows: Sequence[EntryRow],
    leaf_id: str | None = None,
    labels: Mapping[str, str] | None = None,
) -> list[OutlineNode]:
    """All *rows*, given oldest first, in drawing order; *labels* by entry id.

    Every row is there once, also in a damaged tree: what has lost its parent starts a branch of
    its own, and an entry that cannot be read says so.
    """
    labels = labels or {}
    parents = parents_index(rows)
    by_id = {row.id: row for row in rows}
    children = children_index(by_id.values())
    on_branch = _on_branch(parents, leaf_id)
    straight = _straight_children(list(by_id.values()), on_branch)
    nodes: list[OutlineNode] = []
    drawn: set[str] = set()

    def draw(start: str, depth: int) -> None:
        waiting = [(start, depth)]  # a stack, not recursion: branches are thousands of entries long
        while waiting:
            entry_id, depth = waiting.pop()
            if entry_id in drawn:
                continue
            drawn.add(entry_id)
            row, follow = by_id[entry_id], children.get(entry_id, [])
            nodes.append(_node(row, depth, on_branch, labels, is_leaf=not follow))
            on = straight.get(entry_id)
            if on is not None:
                waiting.append((on, depth))
            waiting += [(child, depth + 1) for child in reversed(follow) if child != on]

    roots = [row.id for row in by_id.values() if row.parent_id not in by_id]
    main = straight.get(None)
    for root in sorted(roots, key=lambda root: root == main):  # stable: the main one comes last
        draw(root, 0 if root == main else 1)
    for entry_id in by_id:  # those that descend from themselves hang on no root
        draw(entry_id, 1)
    return nodes


def one_line(text: str, limit: int = 80) -> str:
    """The beginning of *text* without line breaks, at most *limit* characters."""
    line = " ".join(text[: limit * 8].split())
    cut = len(line) > limit or len(text) > limit * 8
    return f"{line[: limit - 1].rstrip()}…" if cut else line


def _on_branch(parents: Mapping[str, str | None], leaf_id: str | None) -> set[str]:
    found: set[str] = set()
    while leaf_id is not None and leaf_id in parents and leaf_id not in found:
        found.add(leaf_id)
        leaf_id = parents[leaf_id]
    return found


def _straight_children(rows: Sequence[EntryRow], on_branch: set[str]) -> dict[str | None, str]:
    """Of each entry the child that is drawn straight below it; under None a root.

    That is the one on the branch, else the one whose descendants are the newest.
    """
    ids = {row.id for row in rows}
    straight: dict[str | None, str] = {}
    for row in reversed(rows):  # the newest leaf comes first, and its ancestors inherit its rank
        parent = row.parent_id if row.parent_id in ids else None
        straight.setdefault(parent, row.id)
    newest: dict[str, int] = {}
    for place in range(len(rows) - 1, -1, -1):
        row = rows[place]
        rank = newest.setdefault(row.id, place)
        parent = row.parent_id if row.parent_id in ids else None
        if row.id in on_branch or (
            straight[parent] not in on_branch and rank > newest.get(straight[parent], -1)
        ):
            straight[parent] = row.id
        if parent is not None:
            newest[parent] = max(rank, newest.get(parent, -1))
    return straight


def _node(
    row: EntryRow,
    depth: int,
    on_branch: set[str],
    labels: Mapping[str, str],
    *,
    is_leaf: bool,
) -> OutlineNode:
    role, preview = _described(row)
    return OutlineNode(
        id=row.id,
        parent_id=row.parent_id,
        type=row.type,
        role=role,
        depth=depth,
        on_branch=row.id in on_branch,
        is_leaf=is_leaf,
        label=labels.get(row.id),
        preview=preview,
        timestamp=row.timestamp,
    )


def _described(row: EntryRow) -> tuple[str | None, str]:
    try:
        entry = row.entry()
    except SessionDamaged:
        return None, "(cannot be read)"
    match entry:
        case MessageEntry():
            return entry.message.role, one_line(_said(entry.message))
        case CompactionEntry() | BranchSummaryEntry():
            return None, one_line(entry.summary)
        case CustomEntry():
            return None, one_line(entry.custom_type)


def _said(message: AgentMessage) -> str:
    if isinstance(message, AssistantMessage):
        calls = ", ".join(call.name for call in message.tool_calls)
        said = [message.text, f"→ {calls}" if calls else "", message.error_message or ""]
        return " ".join(filter(None, said))
    said = getattr(message, "content", None) or getattr(message, "text", None)
    text = text_of(said or getattr(message, "command", ""))  # what the user ran has only that
    return f"{message.tool_name}: {text}" if isinstance(message, ToolResultMessage) else text
