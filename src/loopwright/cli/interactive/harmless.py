"""Foreign text made harmless for a terminal that shows it among our own.

On top of `streams.visible`, which takes the control characters, this takes what reorders a line
(bidirectional overrides and isolates, by which a command can look like another one), what only some
programs hold for the end of a line, what cannot be encoded, and tags, which nobody can see.

Not here: styles (paint.py).
"""

from __future__ import annotations

import re

from ..streams import visible

__all__ = ["harmless", "one_line"]

# CVE-2021-42574 names the first two ranges. The marks U+200E, U+200F and U+061C stay: they put no
# text anywhere else, and right-to-left texts use them.
_HIDDEN = re.compile("[\u202a-\u202e\u2066-\u2069\u2028\u2029\ud800-\udfff\U000e0000-\U000e007f]")


def harmless(text: str) -> str:
    """*text* with nothing in it that a terminal obeys but tabs and newlines. Of harmless text it
    is the same text."""
    text = visible(text)
    return text if text.isascii() else _HIDDEN.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found.group())
    if 0xD800 <= code <= 0xDFFF:
        return "\ufffd"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def one_line(text: str, most: int = 400) -> str:
    """*text*, harmless, as one line of at most *most* characters, or a few more where control
    characters are written out."""
    short = text if len(text) <= most else text[: most - 1] + "…"
    return harmless(" ".join(short.split()))
