"""The tree of a session as a list to choose from.                                     (pure)

Bars stand for the forks passed, a dot for each entry: full on the branch one is on. What tools
answered is left out unless everything is wanted, since nobody goes on from there.

Not here: the order of the lines (session/outline.py), what choosing one does (branch_commands.py).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from ...session.outline import OutlineNode
from .screen import PickItem

__all__ = ["TreePart", "behind", "is_leaving_something", "leaf_of", "spoken", "tree_items"]

TreePart = Literal["talk", "prompts", "everything"]
"""Which entries are shown: what was said, only what the user said, or all."""

_WHO = {"user": "you", "assistant": "model", "toolResult": "tool", "bashExecution": "you ran"}
_WHAT = {"compaction": "summary", "branch_summary": "left branch", "custom": "note"}
_SKILL = re.compile(r'\A<skill(?:-[0-9]+)? name="([^"]*)"[^>]*>?')


def tree_items(nodes: Sequence[OutlineNode], part: TreePart = "talk") -> tuple[list[PickItem], int]:
    """The lines for *nodes*, each with its node as value, and the index of the one to begin at:
    where one is."""
    leaf_id = leaf_of(nodes)
    shown = [node for node in nodes if _is_shown(node, leaf_id, part)]
    items = [_item(node, leaf_id) for node in shown]
    on_branch = [place for place, node in enumerate(shown) if node.on_branch]
    return items, on_branch[-1] if on_branch else max(len(items) - 1, 0)


def leaf_of(nodes: Sequence[OutlineNode]) -> str | None:
    """Where one is: the end of the branch that runs straight down. None at the beginning."""
    return next((node.id for node in reversed(nodes) if node.on_branch), None)


def _is_shown(node: OutlineNode, leaf_id: str | None, part: TreePart) -> bool:
    if part == "everything" or node.label or node.id == leaf_id:
        return True
    if part == "prompts":
        return node.role == "user"
    return node.role != "toolResult" and node.type != "custom"


def _item(node: OutlineNode, leaf_id: str | None) -> PickItem:
    who = _WHO.get(node.role or "", node.role or "") or _WHAT.get(node.type, node.type)
    label = f" [{node.label}]" if node.label else ""
    return PickItem(
        f"{who}{label}: {spoken(node.preview)}",
        "you are here" if node.id == leaf_id else "",
        value=node,
        lead=f"{'│ ' * node.depth}{'●' if node.on_branch else '○'} ",
    )


def spoken(preview: str) -> str:
    """*preview* with `/skill:name` where the words of a skill stand."""
    return _SKILL.sub(r"/skill:\1 ", preview) if preview.startswith("<skill") else preview


def behind(nodes: Sequence[OutlineNode], entry_id: str) -> str:
    """Where one goes on who goes on behind *entry_id*: after what the tools answered that a reply
    called, so that none of its calls is without an answer."""
    answers: dict[str | None, OutlineNode] = {}
    for node in nodes:
        known = answers.get(node.parent_id)
        if node.role == "toolResult" and (known is None or node.on_branch):
            answers[node.parent_id] = node
    seen: set[str] = set()
    while (answer := answers.get(entry_id)) is not None and answer.id not in seen:
        entry_id = answer.id
        seen.add(entry_id)
    return entry_id


def is_leaving_something(nodes: Sequence[OutlineNode], target_id: str | None) -> bool:
    """Whether there is anything on the branch one is on that is not on the way to *target_id*."""
    parents = {node.id: node.parent_id for node in nodes}
    way: set[str] = set()
    while target_id is not None and target_id in parents and target_id not in way:
        way.add(target_id)
        target_id = parents[target_id]
    return any(node.on_branch and node.id not in way for node in nodes)
