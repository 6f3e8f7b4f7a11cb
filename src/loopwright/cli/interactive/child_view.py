"""What the child agents of a call do, one line each: now, while it runs, and in all, at its end.

The events of a child's own children come with the same call and are shown below it. Envelopes are
what a tool reports, and any tool may report anything, so whatever has another shape is left out.

Not here: the envelopes (loopwright.tools.subagent_events).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

from .one_line import one_line
from .paint import Painter, Run, cells, crop
from .tool_words import call_words

__all__ = ["Children"]

MOST_CHILDREN = 200
"""Children of one call that are kept in mind."""


class _Child:
    def __init__(self, name: str, depth: int, parent: str | None) -> None:
        self.name = name
        self.depth = depth
        self.parent = parent
        self.doing = "starting"
        self.said = ""
        self.turns = 0
        self.tokens = 0
        self.ended = False


class Children:
    """The children of one call."""

    def __init__(self) -> None:
        self._children: dict[str, _Child] = {}

    def __len__(self) -> int:
        return len(self._children)

    def hear(self, envelope: Mapping[str, Any]) -> None:
        """Take note of an event of a child."""
        id, event = envelope.get("id"), envelope.get("event")
        if not isinstance(id, str) or not isinstance(event, dict):
            return
        child = self._children.get(id)
        if child is None:
            if len(self._children) >= MOST_CHILDREN:
                return
            depth, parent = envelope.get("depth"), envelope.get("parentId")
            child = self._children[id] = _Child(
                one_line(str(envelope.get("agent", "agent"))[:200], 40),
                min(max(depth, 1), 8) if isinstance(depth, int) else 1,
                parent if isinstance(parent, str) else None,
            )
        _note(child, cast("dict[str, Any]", event))

    def hear_total(self, details: object) -> None:
        """Take note of what the result says of the child, which is all there is in a stored one."""
        if not isinstance(details, dict):
            return
        told = cast("dict[str, Any]", details)
        self.hear({**told, "event": {}})
        child = self._children.get(str(told.get("id")))
        if child is not None and not child.ended:
            turns = told.get("turns")
            child.turns = turns if isinstance(turns, int) else child.turns
            child.tokens = child.tokens or _tokens(told)
            child.ended = True

    def rows(self, painter: Painter, width: int, *, running: bool) -> list[str]:
        """A line for each child, its own children below it. While the call is *running*, those
        that have ended stand with their totals, the others with what they do."""
        return [_row(child, painter, width, running=running) for child in self._in_order()]

    def _in_order(self) -> Iterator[_Child]:
        """As a tree: each child, then those it has started. Every child comes once."""
        below: dict[str | None, list[str]] = {}
        for id, child in self._children.items():
            above = child.parent if child.parent in self._children else None
            below.setdefault(above, []).append(id)
        seen: set[str] = set()
        waiting = list(reversed(below.get(None, [])))
        while waiting:
            id = waiting.pop()
            if id in seen:
                continue
            seen.add(id)
            yield self._children[id]
            waiting += reversed(below.get(id, []))
        for id, child in self._children.items():  # each other's children: no agent makes such
            if id not in seen:
                yield child


def _row(child: _Child, painter: Painter, width: int, *, running: bool) -> str:
    indent = "  " * min(child.depth, max(1, width // 6))
    if running and not child.ended:
        says = child.doing
    else:
        tokens = f", {child.tokens:,} tokens" if child.tokens else ""
        turns = f"{child.turns} turn{'s' * (child.turns != 1)}"
        says = f"{turns}{tokens}" if child.ended else f"stopped after {turns}{tokens}"
    name = crop(child.name, max(4, width // 2))
    room = width - len(indent) - cells(name) - 2
    return painter.line([Run(f"{indent}{name}: ", ("tool",)), Run(crop(says, room), ("note",))])


def _note(child: _Child, event: dict[str, Any]) -> None:
    match event.get("type"):
        case "message_update":
            _note_update(child, event.get("assistantMessageEvent"))
        case "tool_execution_start":
            name, rest = call_words(str(event.get("toolName", "tool"))[:200], event.get("args"))
            child.doing, child.said = name + rest, ""
        case "tool_execution_end":
            child.doing, child.said = "thinking", ""
        case "turn_end":
            child.turns += 1
            child.tokens += _tokens(event.get("message"))
        case "retry":
            child.doing = "waiting to ask again"
        case "agent_end":
            child.ended = True
        case _:
            pass


def _note_update(child: _Child, said: object) -> None:
    if not isinstance(said, dict):
        return
    update = cast("dict[str, Any]", said)
    delta = update.get("delta")
    if not isinstance(delta, str):
        return
    match update.get("type"):
        case "text_delta":
            child.said = (child.said + delta)[-200:]
            child.doing = "says: " + one_line(child.said, 200)
        case "thinking_delta":
            child.doing = "thinking"
        case "toolcall_delta":
            child.doing = "asking for a tool"
        case _:
            pass


def _tokens(message: object) -> int:
    usage: object = cast("dict[str, Any]", message).get("usage") if isinstance(message, dict) else 0
    if not isinstance(usage, dict):
        return 0
    counts = cast("dict[str, Any]", usage)
    total = counts.get("totalTokens")
    if isinstance(total, int) and total > 0:
        return total
    parts = [counts.get(key) for key in ("input", "output", "cacheRead", "cacheWrite")]
    return sum([part for part in parts if isinstance(part, int)])
