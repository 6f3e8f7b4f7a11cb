"""What is inside of a paragraph, a heading or a cell: emphasis, code, links, as runs of text.

Links show where they lead unless their text says it, since nothing here can be clicked but what the
terminal itself finds. HTML is text, and line ends stay: in a terminal they are nearly always meant.

Not here: blocks (markdown_blocks.py).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import TYPE_CHECKING
from urllib.parse import unquote

from .paint import Run

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

__all__ = ["inline"]

_SPECIAL = re.compile(r"[\\`*_\[\]<&~!]")


def inline(text: str) -> list[Run]:
    """*text*, the content of a paragraph, as runs."""
    if not _SPECIAL.search(text):
        return [Run(text)]
    try:
        tokens = _parser().parseInline(text)[0].children or []
    except Exception:  # noqa: BLE001 - foreign code that reads anything
        return [Run(text)]
    return _runs(tokens)


@lru_cache(1)
def _parser() -> MarkdownIt:
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": False}).enable("strikethrough")


_MARKUP = {"strong": "strong", "em": "emphasis", "s": "deleted"}


def _runs(tokens: Iterable[Token]) -> list[Run]:
    runs: list[Run] = []
    styles: list[str] = []
    links: list[tuple[str, int]] = []  # where each open link leads, and which run is its first
    for token in tokens:
        kind = token.type
        if kind == "text" or kind == "text_special":
            runs.append(Run(token.content, tuple(styles)))
        elif kind == "code_inline":
            runs.append(Run(token.content, (*styles, "code")))
        elif kind in ("softbreak", "hardbreak"):
            runs.append(Run("\n"))
        elif kind == "image":
            runs.append(Run(token.content or "image", (*styles, "link")))
            runs.append(Run(f" ({token.attrGet('src')})", (*styles, "url")))
        elif kind == "link_open":
            links.append((str(token.attrGet("href") or ""), len(runs)))
            styles.append("link")
        elif kind == "link_close" and links:
            styles.remove("link")
            target, begin = links.pop()
            said = "".join([run.text for run in runs[begin:]])
            if target and not _says(said, target):
                runs.append(Run(f" ({target})", (*styles, "url")))
        elif kind.endswith("_open") and kind[:-5] in _MARKUP:
            styles.append(_MARKUP[kind[:-5]])
        elif kind.endswith("_close") and _MARKUP.get(kind[:-6]) in styles:
            styles.remove(_MARKUP[kind[:-6]])
        elif token.content:
            runs.append(Run(token.content, tuple(styles)))
    return runs


def _says(text: str, target: str) -> bool:
    text = text.strip()
    return text in (target, unquote(target)) or f"mailto:{text}" == target
