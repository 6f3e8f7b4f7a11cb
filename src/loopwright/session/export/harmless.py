"""Foreign text in a document: valid Unicode, with one kind of line end, that nobody obeys.   (pure)

Documents are read in browsers, in editors and with `cat`; escaping for one of them is not enough.

Not here: what is markup there (html_text, markdown).
"""

from __future__ import annotations

import re

from ...records import clean_text
from ...visible_text import visible

__all__ = ["harmless"]

_LINE_END = re.compile(r"\r\n?")


def harmless(text: str) -> str:
    """*text* as valid Unicode in which every line ends with a line feed, and what hides or reorders
    the rest is seen instead of obeyed."""
    return visible(_LINE_END.sub("\n", clean_text(text)))
