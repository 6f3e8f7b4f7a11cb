"""Responses, answers: the output items under way, and what is kept of them beside their text. (pure)"""

from __future__ import annotations

from typing import Any

import msgspec

from .openai_responses_events import Delta, Item, Part

__all__ = [
    "CALLS",
    "REFUSAL_MARK",
    "OpenItem",
    "OpenItems",
    "call_signature",
    "piece_of",
    "text_signature",
]

REFUSAL_MARK = "refusal"
"""The text signature of a text block in which the model declined to answer, as on openai-chat."""

CALLS = ("function_call", "custom_tool_call")
"""The items that are calls of the program's own tools."""


class OpenItem:
    """One output item, from its first sign to its final form."""

    __slots__ = ("annotations", "block", "blocks", "done", "id", "kind", "name", "part", "phase")

    def __init__(self, kind: str, id: str | None) -> None:
        self.kind = kind
        self.id = id
        self.name: str | None = None
        self.phase: str | None = None
        self.annotations: list[Any] | None = None
        """Of the part that is open, where its end was told before the item's."""
        self.block = -1
        """The content index of the block that is open."""
        self.part: tuple[str, int] = ("", -1)
        """Which part the open block is: the kind of its deltas, and its number."""
        self.blocks: list[tuple[str, int]] = []
        """The kind of part and the content index of every block so far."""
        self.done = False


class OpenItems:
    """All items of one reply, in the order they came."""

    __slots__ = ("_by_id", "_by_index", "every")

    def __init__(self) -> None:
        self.every: list[OpenItem] = []
        self._by_id: dict[str, OpenItem] = {}
        self._by_index: dict[int, OpenItem] = {}

    def find(self, delta: Delta, kinds: tuple[str, ...]) -> OpenItem | None:
        """The item that *delta* belongs to, if it is of one of *kinds*: by its id, else by its
        index, else the last one that is open."""
        found = self._by_id.get(delta.item_id) if delta.item_id else None
        if found is None and delta.output_index is not None:
            found = self._by_index.get(delta.output_index)
        if found is None and delta.item_id is None and delta.output_index is None:
            waiting = [item for item in self.every if item.kind in kinds and not item.done]
            found = waiting[-1] if waiting else None
        return found if found is not None and found.kind in kinds else None

    def add(self, kind: str, id: str | None, output_index: int | None = None) -> OpenItem:
        """A new item."""
        item = OpenItem(kind, id)
        self.every.append(item)
        if id:
            self._by_id[id] = item
        if output_index is not None:
            self._by_index[output_index] = item
        return item


def piece_of(part: Part) -> str:
    """The kind of deltas that a part of a final item came in."""
    if part.refusal:
        return "refusal"
    return {"summary_text": "summary", "reasoning_text": "reasoning"}.get(part.type, "text")


def text_signature(item: OpenItem, annotations: list[Any] | None) -> str | None:
    """The id, phase and citations of a message as JSON; the mark of a refusal; or nothing."""
    if item.part[0] == "refusal":
        return REFUSAL_MARK
    kept = {"id": item.id, "phase": item.phase, "annotations": annotations or None}
    kept = {name: value for name, value in kept.items() if value is not None}
    return msgspec.json.encode(kept).decode() if kept else None


def call_signature(item: OpenItem, call: Item) -> str | None:
    """What must go back with a call beside its id, name and arguments, as JSON; usually nothing."""
    kept: dict[str, Any] = {}
    if item.kind != "function_call":
        kept["type"] = item.kind
    if call.caller and bytes(call.caller) != b"null":
        kept["caller"] = call.caller
    if call.namespace:
        kept["namespace"] = call.namespace
    return msgspec.json.encode(kept).decode() if kept else None
