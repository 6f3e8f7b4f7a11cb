"""Code in the colours of the theme. Pygments reads it; its many kinds of tokens become our few styles.

Not here: where code begins and ends (markdown_blocks.py).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from .paint import Run

if TYPE_CHECKING:
    from pygments.lexer import Lexer

__all__ = ["colored"]

_STYLES = {
    "Keyword": "code.keyword",
    "Operator.Word": "code.keyword",
    "Name.Function": "code.name",
    "Name.Class": "code.name",
    "Name.Tag": "code.name",
    "Name.Decorator": "code.name",
    "Name.Builtin": "code.name",
    "Literal.String": "code.string",
    "Literal.Number": "code.number",
    "Comment": "code.comment",
    "Generic.Inserted": "diff.add",
    "Generic.Deleted": "diff.remove",
    "Generic.Heading": "code.name",
    "Generic.Subheading": "code.name",
}


def colored(code: str, language: str, before: str = "") -> list[Run]:
    """*code* as runs; *before* is what comes before it and is only read, since a string or comment
    may have begun there. Plain if nobody knows *language*, or how to read the code."""
    lexer = _lexer(language)
    if lexer is None or not code:
        return [Run(code)]
    text = f"{before}\n{code}" if before else code
    try:
        tokens: list[tuple[int, Any, str]] = list(lexer.get_tokens_unprocessed(text))
    except Exception:  # noqa: BLE001 - a lexer is foreign code, and its text is anything
        return [Run(code)]
    start = len(text) - len(code)
    runs: list[Run] = []
    at = 0
    for place, kind, piece in tokens:
        if place != at:  # it left something out, or says it twice
            return [Run(code)]
        at += len(piece)
        if at <= start:
            continue
        shown = piece[max(0, start - place) :]
        style = _style(kind)
        runs.append(Run(shown, (style,) if style else ()))
    if at != len(text):
        return [Run(code)]
    return runs


_WORD = re.compile(r"[\w+#.-]+")


def _lexer(language: str) -> Lexer | None:
    found = _WORD.match(language)
    return _lexer_named(found.group().lower()) if found else None


@lru_cache(64)
def _lexer_named(name: str) -> Lexer | None:
    from pygments import lexers
    from pygments.util import ClassNotFound

    try:
        return cast("Any", lexers).get_lexer_by_name(name)
    except ClassNotFound:
        return None
    except Exception:  # noqa: BLE001 - lexers may come from plugins
        return None


@lru_cache(1024)
def _style(kind: Any) -> str:
    while kind is not None and kind.parent is not None:
        style = _STYLES.get(".".join(kind))
        if style is not None:
            return style
        kind = kind.parent
    return ""
