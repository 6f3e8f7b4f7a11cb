"""Foreign text in a page: escaped, and the Markdown of replies rendered without any HTML of its own.

Links go to http, https and mailto only, and no picture comes from anywhere but the page itself.

Not here: the page (html, html_page), or control characters (harmless).
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from html import escape
from typing import TYPE_CHECKING, Any

from .harmless import harmless

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

__all__ = ["code", "escaped", "plain", "preformatted", "rendered"]

_RENDERED_CHARACTERS = 50_000
"""Longer replies are shown as they are: rendering hostile Markdown may take very long."""
_LINK = re.compile(r"(https?://|mailto:)", re.IGNORECASE)
_MAYBE_MARKDOWN = re.compile(
    r"[^\w\s.,;:?'\"/()%-]|^\s*[\w]+[.)]|^ {4}|^[ \t]*-|\n[ \t]*[-\d]|  \n"
)


def escaped(text: str) -> str:
    """*text* as text, in an element or in an attribute with quotes."""
    return escape(harmless(text), quote=True)


def code(text: str) -> str:
    """*text* as code in a line of text."""
    return f"<code>{escaped(text)}</code>"


def preformatted(text: str, kind: str = "") -> str:
    """*text* with its line ends and blanks. *kind* is a class of ours."""
    attribute = f' class="{kind}"' if kind else ""
    # A first line end is not shown, so one is given.
    return f"<pre{attribute}>\n{escaped(text)}</pre>"


def plain(text: str) -> str:
    """*text* as it was said, in paragraphs."""
    return f'<div class="plain">{escaped(text)}</div>'


def rendered(text: str) -> str:
    """The Markdown in *text* as HTML; text without any, and very long text, as it is."""
    if len(text) > _RENDERED_CHARACTERS or not _MAYBE_MARKDOWN.search(text):
        return plain(text)
    return f'<div class="said">{_renderer().render(harmless(text))}</div>'


@cache
def _renderer() -> MarkdownIt:
    from markdown_it import MarkdownIt  # comes with rich; needed for documents only

    renderer = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])
    renderer.validateLink = _is_link
    renderer.add_render_rule("image", _no_image)
    renderer.add_render_rule("link_open", _link_open)
    return renderer


def _is_link(url: str) -> bool:
    return _LINK.match(url.strip()) is not None


def _no_image(renderer: Any, tokens: Sequence[Any], index: int, *_: Any) -> str:
    """A picture from elsewhere would tell its server who reads this page."""
    token = tokens[index]
    source = str(token.attrGet("src") or "")
    return f"[{escape(token.content or 'image')}: {escape(source)}]"


def _link_open(renderer: Any, tokens: Sequence[Any], index: int, *_: Any) -> str:
    target = escape(str(tokens[index].attrGet("href") or ""), quote=True)
    return f'<a href="{target}" rel="noopener noreferrer nofollow">'
