"""Quotes and list items, the blocks of Markdown that other blocks stand in.              (pure)

A line is first compared with what is open, from the outside in; what is left of it may open more.
The rules are those of CommonMark 0.31.

Not here: what stands in them (markdown_blocks.py).
"""

from __future__ import annotations

import re
from typing import Literal, NamedTuple

__all__ = ["RULE", "Container", "containers_begun", "containers_kept", "indent_of", "needs_gap"]

MOST_CONTAINERS = 20
"""What is nested deeper is text: every line is compared with all that it stands in."""


class Container(NamedTuple):
    """A quote or a list item that a leaf stands in."""

    kind: Literal["quote", "item"]
    marker: str
    """As it was written: `-`, `*`, `3.`; `>` of a quote."""
    indent: int
    """Columns that the content of an item is moved to the right in the source."""
    group: int
    """The same number for all items of a list."""


Containers = tuple[Container, ...]

RULE = re.compile(r" {0,3}([-*_])(?: *\1){2,} *$")
"""A line across the page, which a line of list markers looks like."""
_QUOTE = re.compile(r" {0,3}> ?")
_ITEM = re.compile(r"( {0,3})([-+*]|\d{1,9}[.)])( +|$)")


def containers_kept(line: str, containers: Containers) -> tuple[str, int]:
    """What is left of *line* inside of the open *containers*, and how many of them go on."""
    rest = line
    for count, container in enumerate(containers):
        if container.kind == "quote":
            found = _QUOTE.match(rest)
            if found is None:
                return rest, count
            rest = rest[found.end() :]
        elif not rest.strip():
            rest = ""
        elif indent_of(rest) >= container.indent:
            rest = rest[container.indent :]
        else:
            return rest, count
    return rest, len(containers)


def containers_begun(
    rest: str, containers: Containers, kept: int, *, in_paragraph: bool, groups: int
) -> tuple[list[Container], str]:
    """Quotes and items that begin in *rest*, of a line in which *kept* of the open *containers* go
    on, and what is left of it. *groups* is the highest group so far; each list that is new has the
    next one."""
    begun: list[Container] = []
    unmatched = kept < len(containers)
    while kept + len(begun) < MOST_CONTAINERS and indent_of(rest) < 4:
        quote = _QUOTE.match(rest)
        if quote is not None:
            groups += 1
            begun.append(Container("quote", ">", 0, groups))
            rest = rest[quote.end() :]
            continue
        item = None if RULE.match(rest) else _ITEM.match(rest)
        if item is None:
            break
        marker, blanks = item[2], item[3]
        content = rest[item.end() :]
        begins = bool(content.strip()) and marker[:-1] in ("", "1")
        if not (begins or begun or unmatched) and in_paragraph:
            break  # it only looks like an item: a year at the beginning of a line
        if not content.strip() or len(blanks) > 4:
            indent = len(item[1]) + len(marker) + 1
        else:
            indent = item.end()
        before = containers[kept] if unmatched and not begun else None
        if before is not None and before.kind == "item" and before.marker[-1] == marker[-1]:
            group = before.group  # of the list of the item that it comes after
        else:
            group = groups = groups + 1
        begun.append(Container("item", marker, indent, group))
        rest = rest[indent:]
    return begun, rest


def needs_gap(before: Containers, here: Containers, shown: int) -> bool:
    """Whether an empty line stands between a leaf in *before* and the next one, in *here*, of whose
    containers *shown* are not new. Items of a list, and a list inside of an item, follow without."""
    if shown == len(here) or here[shown].kind != "item":
        return True
    if [each.group for each in before[:shown]] != [each.group for each in here[:shown]]:
        return True
    same_list = len(before) > shown and before[shown].group == here[shown].group
    inside = shown > 0 and here[shown - 1].kind == "item"
    return not (same_list or inside)


def indent_of(text: str) -> int:
    """How many blanks *text* begins with."""
    return len(text) - len(text.lstrip(" "))
