"""`/tree` and `/fork`: going on from somewhere else, here or in a copy.

From something the user said one goes on just before it, with its text in the input, to say it
differently; from anything else one goes on behind it.

Not here: drawing the tree (tree_view.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...messages import ImageContent, UserMessage
from ..bench.prompt_message import typed_text
from .screen import PickItem, Screen
from .tree_view import TreePart, behind, is_leaving_something, leaf_of, tree_items

if TYPE_CHECKING:
    from ...session.outline import OutlineNode
    from ..live.session import LiveSession

__all__ = ["fork", "go_to", "tree"]

_PARTS: dict[TreePart, str] = {
    "talk": "… what was said",
    "prompts": "… only what you said",
    "everything": "… everything, what tools answered too",
}


# -- /tree -------------------------------------------------------------------------------------


async def tree(argument: str, live: LiveSession, screen: Screen) -> None:
    """Show the tree and go on from where the user chooses."""
    nodes = await live.outline()
    if not nodes:
        screen.note("nothing was said yet")
        return
    part: TreePart = "talk"
    while True:
        items, selected = tree_items(nodes, part)
        items += [
            PickItem(words, value=other, pinned=True)
            for other, words in _PARTS.items()
            if other != part
        ]
        picked = await screen.pick("go on from", items, selected=selected)
        if picked is None:
            return
        if picked.value in _PARTS:
            part = picked.value
            continue
        await go_to(picked.value, nodes, live, screen)
        return


async def go_to(
    node: OutlineNode, nodes: list[OutlineNode], live: LiveSession, screen: Screen
) -> None:
    """Go on from *node*, after asking what is to become of the branch that is left."""
    said = await _user_message(live, node.id) if node.role == "user" else None
    target = behind(nodes, node.id) if said is None else node.parent_id
    leaf_id = leaf_of(nodes)
    if target == leaf_id and said is None:
        screen.note("you are there already")
        return
    summarize = False
    if is_leaving_something(nodes, target):
        asked = await screen.pick(
            "the branch that you leave",
            [
                PickItem("is left as it is", "the model does not hear of it", value=False),
                PickItem("is summarized", "and the model is told", value=True),
            ],
        )
        if asked is None:
            return
        summarize = bool(asked.value)
    if summarize:
        screen.note("summarizing the branch that is left; esc interrupts")
    if target != leaf_id:
        await live.navigate(target, summarize=summarize)
        screen.redraw()
    _put_back(said, screen)


async def _user_message(live: LiveSession, entry_id: str) -> UserMessage | None:
    session = live.session
    rows = [] if session is None else await session.store.find(session.id, [entry_id])
    message = getattr(rows[0].entry(), "message", None) if rows else None
    return message if isinstance(message, UserMessage) else None


def _put_back(said: UserMessage | None, screen: Screen) -> None:
    if said is None:
        return
    screen.set_input(typed_text(said.text))
    if not isinstance(said.content, str) and any(
        isinstance(block, ImageContent) for block in said.content
    ):
        screen.note("its images are attached again only where an @path in the text names them")


# -- /fork -------------------------------------------------------------------------------------


async def fork(argument: str, live: LiveSession, screen: Screen) -> None:
    """Go on in a copy that ends before something the user said, or has all of the branch."""
    from ...session.entries import MessageEntry
    from ...session.outline import one_line

    session = live.session
    if session is None:
        screen.note("nothing was said yet")
        return
    said = [
        (entry.id, entry.message)
        for entry in await session.history()
        if isinstance(entry, MessageEntry) and isinstance(entry.message, UserMessage)
    ]
    items = [PickItem(one_line(typed_text(message.text), 200), value=id) for id, message in said]
    items.append(PickItem("… a copy of all of it", value="", pinned=True))
    picked = await screen.pick("a copy that ends before", items, selected=max(len(said) - 1, 0))
    if picked is None:
        return
    before = session.id
    made = await live.fork(picked.value or None)
    screen.redraw()
    screen.note(f"going on in a copy, {made.id}; /resume {before} goes back")
    if picked.value:
        _put_back(dict(said)[picked.value], screen)
